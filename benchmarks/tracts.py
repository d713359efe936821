"""Persons of 28 real tracts of 2010: the published counts before any protection, and those of a
production run of the Bureau; the DHC's persons estimated from one of them.

Everybody is at home, and relationships are made up by age. The block groups are those that 2020
measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import das
from benchmarks.common import CONFIG
from benchmarks.paying import paying
from das.engine import executor
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import refined
from das.estimate.pooled import Upward
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import RecordingSource
from das.model.plan import Strategy
from das.model.post_processing import SharesPrior
from das.model.redistricting import PL94
from das.model.solution import Certificates
from das.model.spine import Spine
from das.noise import entropy
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.truth.oracle import OnDemandMeasurement
from das.spec import parse

TRACTS = Path("dhc", "dhc_2010_28tracts.csv.gz")
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
#: Whose budget each level has.
BUDGETS = dict(
    zip(LEVELS, ("State", "County", "Tract_Subset", "Block_Group", "Block"), strict=True)
)
PL94_FIXED = strategy.PERSONS_FIXED


@dataclass(frozen=True)
class TractWorld:
    """The tree, the true persons of its blocks, and the Bureau's."""

    spine: Spine
    truth: Histogram
    bureau: Histogram

    @staticmethod
    def read(data: Path, every: int = 1) -> TractWorld:
        """All tracts, or some."""
        frame = pd.read_csv(data, dtype={"block": str})
        tract = frame["block"].str[:11]
        frame = frame[tract.isin(sorted(tract.unique())[::every])]
        codes = np.unique(frame["block"].to_numpy(dtype=str))
        places = {
            "County": ["00001"] * len(codes),
            "Tract": [c[:11] for c in codes],
            "Block_Group": measured_groups(codes),
            "Block": codes.tolist(),
        }
        spine = das.Spine.from_frame(places, LEVELS)
        return TractWorld(spine, people(frame, "sf1", spine), people(frame, "dhc", spine))


@dataclass(frozen=True)
class UniverseRun:
    """Counts of every level, the prior, if there was one, and what it took."""

    counts: Mapping[str, Histogram]
    certificates: Mapping[str, Certificates]
    prior: SharesPrior | None
    seconds: float
    asked: int


def run_universe(
    name: str,
    truth: Histogram,
    spine: Spine,
    of: Strategy,
    fixed: FixedCounts,
    seed: int,
    workers: int,
    most: int = 0,
    shares: bool | SharesPrior = False,
) -> UniverseRun:
    """One universe, from the truth to integers, by a strategy of these levels or of production's;
    its ledger is paid in full. Of queries with at most
    ``most`` answers all levels are used; ``shares`` is the prior of the lowest level.
    """
    schema, tree = of.schema, MeasuredSpine.from_published(spine)
    if any(level not in of.rho for level in spine.levels):
        of = Strategy(schema, {level: of.rho[BUDGETS[level]] for level in spine.levels}, of.outer)
    plan = of.plan()
    ledger = Ledger(plan.cost, paths=plan.paths)
    levels = {level: Confidential(h) for level, h in truth.upward(spine).items()}
    pay = paying(ledger, name, schema, tree, plan)
    source = RecordingSource(
        OnDemandMeasurement(levels, name, schema, tree, plan, entropy.seeded(seed), pay)
    )
    began = perf_counter()
    with executor(workers) as pool:
        found = refined(
            Upward(source, spine, most), spine, schema, of.outer, fixed, pool, shares=shares
        )
    seconds = perf_counter() - began
    if ledger.cost > plan.cost:
        raise RuntimeError("the ledger has cost more than the plan")
    asked = sum(len(m.at) for level in spine.levels for m in source.recorded(level))
    return UniverseRun(found.counts, found.certificates, found.prior, seconds, asked)


def measured_groups(codes: NDArray[np.str_]) -> list[str]:
    """Block groups as the measured tree of 2020 has them: those of the tabulation, in parts of no
    more blocks than the square root of those of the tract and 13."""
    tract, size = np.unique([c[:11] for c in codes], return_counts=True)
    most = dict(zip(tract.tolist(), (np.sqrt(size) + 13).astype(int).tolist(), strict=True))
    first = {c: i for i, c in reversed(list(enumerate(c[:12] for c in codes)))}
    return [
        f"{c[:12]}-{(i - first[c[:12]]) // most[c[:11]]:02d}" for i, c in enumerate(codes.tolist())
    ]


def people(frame: pd.DataFrame, column: str, spine: Spine) -> Histogram:
    """Everybody at home; relationships by age, made up."""
    some = frame[frame[column] > 0]
    age = np.minimum(some["age"].to_numpy(), 115)
    rng = np.random.default_rng(1)
    adult = rng.choice([0, 1, 2, 3, 9, 17], len(some), p=[0.14, 0.36, 0.36, 0.06, 0.05, 0.03])
    minor = rng.choice([6, 8, 11], len(some), p=[0.88, 0.05, 0.07])
    at = (
        np.where(age < 18, minor, adult),
        some["sex"].to_numpy() - 1,
        age,
        some["cenhisp"].to_numpy() - 1,
        some["cenrace"].to_numpy() - 1,
    )
    unit = spine.find("Block", some["block"].to_numpy(dtype=str))
    number = some[column].to_numpy().astype(np.int64)
    return Histogram.from_triplets(
        spine.units("Block"), DHCP.cells, unit, np.ravel_multi_index(at, DHCP.shape), number
    )


def redistricted(truth: Histogram, spine: Spine, seed: int, config: Path = CONFIG) -> Histogram:
    """The redistricting counts as they are published before, with the budget and the method of a
    configuration, on this tree."""
    text, changes = config.read_text(encoding="utf-8"), ["geography.spine=tabulation"]
    spec = parse(text, where=str(config), overrides=changes if config == CONFIG else ())
    fixed_query, budget = DHCP.query(PL94_FIXED), spec.persons.plan
    rho = {
        level: {d.query: 1 / Fraction(d.parameter) for d in budget.at(level)}
        for level in spine.levels
    }
    of_level = {level: sum(queries.values(), Fraction(0)) for level, queries in rho.items()}
    total = sum(of_level.values(), Fraction(0))
    plan = das.Plan.of_rho(
        total,
        {level: r / total for level, r in of_level.items()},
        {
            level: {q: r / of_level[level] for q, r in queries.items()}
            for level, queries in rho.items()
        },
    )
    cells = np.unravel_index(fixed_query.at(truth.cell), PL94.shape)
    records: dict[str, NDArray[Any]] = {
        a.name: at for a, at in zip(PL94.attributes, cells, strict=True)
    }
    records |= {"Block": spine.geocodes("Block")[truth.unit], "number": truth.count}
    counted = das.count(
        pd.DataFrame(records),
        PL94,
        spine,
        counts="number",
        positions=[a.name for a in PL94.attributes],
    )
    noisy = das.measure(counted, plan, exact={"State": "total"}, seed=seed)
    structures = np.zeros((spine.units("Block"), 8), dtype=np.int64)
    structures[:, 0] = 1  # somebody's home is everywhere, and there are no group quarters
    method = das.topdown if spec.estimation.method == "topdown" else das.full_information
    found = method(noisy, spine, das.bounds(PL94, spine, structures=structures))
    return found.histograms["Block"].histogram


def age_errors(truth: Histogram, found: Histogram, spine: Spine, level: str) -> dict[str, float]:
    groups = {
        "total": (0, 200),
        "0-17": (0, 17),
        "18-64": (18, 64),
        "65+": (65, 200),
        "under 5": (0, 4),
        "75+": (75, 200),
    }
    out = {}
    for name, (first, last) in groups.items():
        counts = []
        for h in (truth.upward(spine)[level], found.upward(spine)[level]):
            age = np.unravel_index(h.cell, DHCP.shape)[2]
            counts.append(
                np.bincount(h.unit, h.count * ((age >= first) & (age <= last)), minlength=h.units)
            )
        out[name] = float(np.abs(counts[0] - counts[1]).mean())
    return out
