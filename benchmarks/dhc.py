"""The demographic file: persons, units and households of Rhode Island end to end, and persons of 28 real tracts beside the Bureau's run.

Rhode Island: its real redistricting counts of 2010, persons and households made up to them; first the redistricting pipeline, whose
published counts are tied, then outer passes with the production budgets of the levels that are there (State, County, Tract, Block_Group, Block).
Noise is drawn on request. The tracts: the reconstructed counts of 2010 for truth, and the output of a production run of the Bureau on the same
census beside ours; relationships are made up.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import das
from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from das import pipeline
from das.engine import executor
from das.engine.choice import EngineChoice
from das.estimate.outer import refined
from das.estimate.tied import Tied
from das.files.readers.registry import read
from das.files.simulators import dhc
from das.files.simulators.people import generator
from das.model.confidential import Confidential
from das.model.dhc import strategy
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.persons import DHCP
from das.model.dhc.units import TENVACGQ
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.schema import H1, PL94, Schema
from das.model.solution import Certificates
from das.model.sparse_measurement import Recorded
from das.model.spine import Spine
from das.model.strategy import Strategy
from das.noise import entropy
from das.release.post import open_release
from das.release.replicates import published
from das.truth.revealing import Revealing, paying

Ints = NDArray[np.int64]
TRACTS = Path("dhc", "dhc_2010_28tracts.csv.gz")
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
#: Whose budget each level has.
BUDGETS = dict(zip(LEVELS, ("State", "County", "Tract_Subset", "Block_Group", "Block"), strict=True))
#: Redistricting counts, in the order of the cells of ``pl94``; units that are published before tenure and vacancy.
PL94_TIE, UNITS_TIE = "hhgq8lev * votingage * hispanic * cenrace", "unit_class"
#: Minutes, gigabytes; errors predicted from the budgets (tenure by State, County, Tract), and how far off they may be.
MINUTES, GIGABYTES = 15, 8
TENURE_ERRORS, OFF = {"State": 9.9, "County": 2.9, "Tract": 2.0}, 0.2
#: Mean absolute errors of the Bureau's run on the tracts, by block, and what sampling leaves open.
BLOCK_ERRORS, OPEN = {"total": 2.53, "0-17": 1.07, "65+": 1.32}, 0.03


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="runs of the tracts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=("tracts", "rhode-island"))
    given = parser.parse_args(arguments)
    figures = Figures("dhc")
    for name, data, work in (("tracts", TRACTS, _tracts), ("rhode-island", RHODE_ISLAND, _rhode_island)):
        if given.only in (None, name):
            if (path := shared_data(data)) is None:
                figures.skipped(name, no_data(data))
            else:
                work(figures, path, given)


@dataclass(frozen=True)
class _Ran:
    """Counts of every level, and what it took."""

    counts: Mapping[str, Histogram]
    certificates: Mapping[str, Certificates]
    seconds: float
    asked: int


def _run(name: str, truth: Histogram, spine: Spine, of: Strategy, tied: Tied, seed: int, workers: int) -> _Ran:
    """One universe, from the truth to integers; its ledger is paid in full."""
    schema, tree = of.schema, MeasuredSpine.of(spine)
    of = Strategy(schema, {level: of.rho[BUDGETS[level]] for level in spine.levels}, of.outer)
    plan = of.plan()
    ledger = Ledger(plan.cost, paths=plan.paths)
    levels = {level: Confidential(h) for level, h in truth.upward(spine).items()}
    pay = paying(ledger, name, schema, tree, plan)
    source = Recorded(Revealing(levels, name, schema, tree, plan, entropy.seeded(seed), pay))
    began = perf_counter()
    with executor(workers) as pool:
        counts, certificates = refined(source, spine, schema, of.outer, tied, pool)
    seconds = perf_counter() - began
    if ledger.cost > plan.cost:
        raise RuntimeError("the ledger has cost more than the plan")
    asked = sum(len(m.at) for level in spine.levels for m in source.of(level))
    return _Ran(counts, certificates, seconds, asked)


def _check(ran: _Ran, spine: Spine, schema: Schema, tie: str, tied: Histogram) -> None:
    """Whatever must hold exactly. Raises ``RuntimeError``."""
    query = schema.query(tie)
    for depth, level in enumerate(spine.levels):
        h = ran.counts[level]
        if not schema.possible[h.cell].all():
            raise RuntimeError(f"{level}: a structural zero is not zero")
        if depth and not h.up(spine.parent[depth], spine.units(spine.levels[depth - 1])).same_as(
            ran.counts[spine.levels[depth - 1]]
        ):
            raise RuntimeError(f"{level}: children are not their parents")
    lowest = ran.counts[spine.levels[-1]]
    if not Histogram.of(lowest.units, query.answers, lowest.unit, query.at(lowest.cell), lowest.count).same_as(tied):
        raise RuntimeError("counts that are tied differ")


def _certified(ran: _Ran) -> dict[str, Any]:
    every = list(ran.certificates.values())
    return {
        "inaccurate": sum(c.estimation.inaccurate for c in every), "widened": sum(c.rounding.widened for c in every),
        "worst_gap": max(c.estimation.worst_gap for c in every), "families": sum(c.estimation.solves for c in every),
        "asked": ran.asked,
    }  # fmt: skip


# --- Rhode Island ----------------------------------------------------------------------------------------------


def _rhode_island(figures: Figures, data: Path, given: argparse.Namespace) -> None:
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "pl94"
        changes = ["run.seed=1", "geography.spine=tabulation", "output.report=false"]
        pipeline.run(das.load_spec(CONFIG, changes), run, paths=[data], engine=EngineChoice(workers=given.workers))
        opened = open_release(run / "release")
        before = published(opened)
    seconds = {"redistricting": perf_counter() - began}
    began = perf_counter()
    spine = _below_nation(opened.spine)
    world = _simulated(data, spine)
    seconds["simulated"] = perf_counter() - began

    persons, homes = before["persons"], before["housing"]
    able = np.concatenate([np.ones((world.blocks, 18), dtype=bool), world.facilities > 0], axis=1)
    units_tied = _units_tied(homes, world.facilities)
    ran = {"persons": _run("persons", world.persons(), spine, strategy.persons(), Tied.of(DHCP, PL94_TIE, persons, spine, able), 1, given.workers)}  # fmt: skip
    ran["units"] = _run("units", world.units(), spine, strategy.units(), Tied.of(TENVACGQ, GQ_TIE, units_tied, spine), 1, given.workers)  # fmt: skip
    tenure = _tenure(ran["units"].counts["Block"])
    ran["households"] = _run("households", world.households(), spine, strategy.households(), Tied.of(DHCH, TENURE.name, tenure, spine), 1, given.workers)  # fmt: skip
    for name, schema, tie, exact in (("persons", DHCP, PL94_TIE, persons), ("units", TENVACGQ, GQ_TIE, units_tied),
                                     ("households", DHCH, TENURE.name, tenure)):  # fmt: skip
        _check(ran[name], spine, schema, tie, exact)
        seconds[name] = ran[name].seconds
        figures(f"Rhode Island, {name}", ran[name].seconds / 60, "min", **_certified(ran[name]))
    lowest = ran["persons"].counts["Block"]
    relgq = lowest.cell // (DHCP.cells // 42)
    figures("Rhode Island: persons in a type of group quarters that the block has not",
            int(lowest.count[~able[lowest.unit, relgq]].sum()), "persons", at_most=0)  # fmt: skip
    figures("Rhode Island, all", sum(seconds.values()) / 60, "min", at_most=MINUTES, workers=given.workers,
            stages={k: round(v, 1) for k, v in seconds.items()})  # fmt: skip
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6
    figures("Rhode Island: largest process and largest worker together", peak, "GB", at_most=GIGABYTES)
    truth = world.units().upward(spine)
    for level, predicted in TENURE_ERRORS.items():
        error = float(np.abs(ran["units"].counts[level].dense()[:, :4] - truth[level].dense()[:, :4])[:, :3].mean())
        figures(f"Rhode Island: tenure by {level}, mean absolute error", error, "units", at_most=predicted * (1 + OFF), predicted=predicted,
                official={"State": 9.2, "County": 2.55, "Tract": 2.04}[level])  # fmt: skip


def _below_nation(spine: Spine) -> Spine:
    """Without the nation, which is the State."""
    return Spine(spine.levels[1:], spine.codes[1:], spine.parent[1:], spine.names[1:])


def _simulated(data: Path, spine: Spine) -> dhc.SimulatedDhc:
    extract = read("pl94-2010", [data], PL94)
    unit = spine.find("Block", np.char.decode(extract.blocks.fields["Block"]))
    people, homes = (r.open("made up, and published") for r in (extract.persons, extract.others["housing"]))
    n, given = spine.units("Block"), extract.blocks.structures
    assert given is not None
    structures = np.zeros((n, given.shape[1]), dtype=np.int64)
    structures[unit] = given
    persons = Histogram.of(n, PL94.cells, unit[people.block], people.cell, people.count)
    occupied = np.zeros(n, dtype=np.int64)
    np.add.at(occupied, unit[homes.block[homes.cell == 1]], homes.count[homes.cell == 1])
    return dhc.simulate(generator(1), persons, structures[:, 0], occupied, structures[:, 1:])


#: Occupied units, vacant ones, and facilities by type: what is known exactly of units.
GQ_TIE = "occupancy_gqlevels"


def _units_tied(homes: Histogram, facilities: Ints) -> Histogram:
    """Published vacant and occupied units (``h1``: vacant first), and the facilities of each block."""
    counts = homes.dense()
    every = np.concatenate([counts[:, [1]], counts[:, [0]], facilities], axis=1)
    block, answer = np.nonzero(every)
    assert homes.cells == H1.cells
    return Histogram.of(homes.units, every.shape[1], block, answer, every[block, answer])


def _tenure(units: Histogram) -> Histogram:
    """Households of each tenure, by the published units."""
    group = np.array(TENVACGQ.query("tenure_3lev").groupings[0].index)[units.cell]
    here = group < len(TENURE.levels)
    return Histogram.of(units.units, len(TENURE.levels), units.unit[here], group[here], units.count[here])


# --- 28 tracts -------------------------------------------------------------------------------------------------


def _tracts(figures: Figures, data: Path, given: argparse.Namespace) -> None:
    frame = pd.read_csv(data, dtype={"block": str})
    codes = np.unique(frame["block"].to_numpy(dtype=str))
    places = {
        "County": ["00001"] * len(codes),
        "Tract": [c[:11] for c in codes],
        "Block_Group": _groups(codes),
        "Block": codes.tolist(),
    }
    spine = das.Spine.from_frame(places, LEVELS)
    truth, bureau = (_people(frame, column, spine) for column in ("sf1", "dhc"))
    errors: dict[str, list[dict[str, float]]] = {level: [] for level in ("Tract", "Block")}
    ran = None
    for seed in range(1, given.repeats + 1):
        before = _redistricted(truth, spine, seed)
        tied = Tied.of(DHCP, PL94_TIE, before, spine)
        ran = _run("persons", truth, spine, strategy.persons(), tied, seed, given.workers)
        _check(ran, spine, DHCP, PL94_TIE, before)
        for level, found in errors.items():
            found.append(_errors(truth, ran.counts["Block"], spine, level))
    assert ran is not None
    figures("28 tracts, persons", ran.seconds, "s", **_certified(ran))
    for level, found in errors.items():
        beside = _errors(truth, bureau, spine, level)
        for what, theirs in beside.items():
            ours = float(np.mean([f[what] for f in found]))
            bar = theirs * (1 + OPEN) if level == "Block" and what in BLOCK_ERRORS else None
            figures(
                f"28 tracts, {level}: {what}, mean absolute error",
                ours,
                "persons",
                at_most=bar,
                bureau=theirs,
                repeats=given.repeats,
            )


def _groups(codes: NDArray[np.str_]) -> list[str]:
    """Block groups as the measured tree of 2020 has them: those of the tabulation, in parts of no more blocks than the square root of
    those of the tract and 13."""
    tract, size = np.unique([c[:11] for c in codes], return_counts=True)
    most = dict(zip(tract.tolist(), (np.sqrt(size) + 13).astype(int).tolist(), strict=True))
    first = {c: i for i, c in reversed(list(enumerate(c[:12] for c in codes)))}
    return [f"{c[:12]}-{(i - first[c[:12]]) // most[c[:11]]:02d}" for i, c in enumerate(codes.tolist())]


def _people(frame: pd.DataFrame, column: str, spine: Spine) -> Histogram:
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
    return Histogram.of(spine.units("Block"), DHCP.cells, unit, np.ravel_multi_index(at, DHCP.shape), number)


def _redistricted(truth: Histogram, spine: Spine, seed: int) -> Histogram:
    """The redistricting counts as they are published before, with their own budget."""
    tie, budget = DHCP.query(PL94_TIE), das.load_spec(CONFIG, ["geography.spine=tabulation"]).persons.plan
    rho = {level: {d.query: 1 / Fraction(d.parameter) for d in budget.at(level)} for level in spine.levels}
    of_level = {level: sum(queries.values(), Fraction(0)) for level, queries in rho.items()}
    total = sum(of_level.values(), Fraction(0))
    plan = das.Plan.of_rho(total, {level: r / total for level, r in of_level.items()},
                           {level: {q: r / of_level[level] for q, r in queries.items()} for level, queries in rho.items()})  # fmt: skip
    cells = np.unravel_index(tie.at(truth.cell), PL94.shape)
    records: dict[str, NDArray[Any]] = {a.name: at for a, at in zip(PL94.attributes, cells, strict=True)}
    records |= {"Block": spine.geocodes("Block")[truth.unit], "number": truth.count}
    counted = das.count(
        pd.DataFrame(records), PL94, spine, counts="number", positions=[a.name for a in PL94.attributes]
    )
    noisy = das.measure(counted, plan, exact={"State": "total"}, seed=seed)
    structures = np.zeros((spine.units("Block"), 8), dtype=np.int64)
    structures[:, 0] = 1  # somebody's home is everywhere, and there are no group quarters
    return das.topdown(noisy, spine, das.bounds(PL94, spine, structures=structures)).histograms["Block"].histogram


def _errors(truth: Histogram, found: Histogram, spine: Spine, level: str) -> dict[str, float]:
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
            counts.append(np.bincount(h.unit, h.count * ((age >= first) & (age <= last)), minlength=h.units))
        out[name] = float(np.abs(counts[0] - counts[1]).mean())
    return out


if __name__ == "__main__":
    main()
