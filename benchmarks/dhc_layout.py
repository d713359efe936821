"""A simulated census of a few counties, and its measurements written as the Bureau publishes those
of the DHC's persons: ten dense rows a unit, ``pl94_con``, the bounds of 25 types of dwelling, and
the rules of ages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.paying import paying
from das.estimate.fixed_counts import FixedCounts
from das.files import codes as texts
from das.files.measurements.nmf import describe, lists
from das.files.simulators.people import generator
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import SparseSource, published_variance
from das.model.plan import Strategy
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.noise import entropy
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation.records import simulate
from das.publications.dhc.truth.oracle import OnDemandMeasurement

Ints = NDArray[np.int64]
FIXED = DHCP.query(strategy.PERSONS_FIXED)
#: By the least and the greatest age that some persons can have, how the files spell all others.
RULES = {
    (15, 115): "age_lessthan15",
    (16, 115): "age_lt16",
    (20, 115): "age_lessthan20",
    (30, 115): "age_lessthan30",
    (0, 20): "age_gt20",
    (0, 25): "age_greaterthan25",
    (0, 74): "age_gt74",
    (0, 89): "age_greaterthan89",
    (15, 89): "age_lt15_gt89",
    (16, 75): "age_lt16_gt75",
    (16, 65): "age_lt16gt65",
    (17, 65): "age_lt17gt65",
    (3, 30): "age_lt3_gt30",
}


@dataclass(frozen=True, eq=False)
class SmallCensus:
    """Persons of the lowest units of a tree, by cell of ``dhcp``, and facilities, ``(units, 24)``."""

    spine: Spine
    persons: Histogram
    facilities: Ints

    @staticmethod
    def simulated(
        spine: Spine, people: Ints, blocks: int, seed: int, races: int = 63
    ) -> SmallCensus:
        """``people`` of each lowest unit of the tree, in as many ``blocks`` each; of the first
        ``races`` of the schema."""
        rng = np.random.default_rng(seed)
        unit = np.repeat(np.arange(len(people)), people)
        block = unit * blocks + rng.integers(0, blocks, len(unit))
        race = rng.choice(races, size=len(unit), p=_shares(races))
        adult, hispanic = rng.random(len(unit)) < 0.77, rng.random(len(unit)) < 0.15
        kind = np.where(adult & (rng.random(len(unit)) < 0.03), rng.integers(1, 8, len(unit)), 0)
        cell = ((kind * 2 + adult) * 2 + hispanic) * 63 + race
        n = len(people) * blocks
        given = Histogram.from_triplets(
            n, PL94.cells, block, cell, np.ones(len(unit), dtype=np.int64)
        )
        adults = np.bincount(block[adult & (kind == 0)], minlength=n)
        occupied = adults - adults // 2
        made = simulate(generator(seed), given, occupied + 3, occupied)
        persons = made.persons().up(np.arange(n) // blocks, len(people))
        return SmallCensus(spine, persons, made.facilities.reshape(len(people), blocks, -1).sum(1))

    @cached_property
    def redistricting(self) -> Histogram:
        """The redistricting counts of the lowest units: here they are those of the census."""
        h = self.persons
        return Histogram.from_triplets(h.units, FIXED.answers, h.unit, FIXED.at(h.cell), h.count)

    @property
    def able(self) -> NDArray[np.bool_]:
        """Where somebody can live, by level of ``relgq``."""
        home = np.ones((len(self.facilities), 18), dtype=bool)
        return np.concatenate([home, self.facilities > 0], axis=1)

    @property
    def fixed(self) -> FixedCounts:
        return FixedCounts.from_histogram(
            DHCP, FIXED.name, self.redistricting, self.spine, self.able
        )

    def measured(self, seed: int) -> OnDemandMeasurement:
        """Its measurements, by the budgets of production: what a seeded run asks."""
        of = budgeted(self.spine)
        plan, tree = of.plan(), MeasuredSpine.from_published(self.spine)
        pay = paying(Ledger(plan.cost, paths=plan.paths), "persons", DHCP, tree, plan)
        levels = {level: Confidential(h) for level, h in self.persons.upward(self.spine).items()}
        return OnDemandMeasurement(levels, "persons", DHCP, tree, plan, entropy.seeded(seed), pay)

    def write(self, root: Path, source: SparseSource) -> None:
        """Write all answers of the ``source`` below ``root``, and what is exact."""
        exact = self.redistricting.upward(self.spine)
        for depth, level in enumerate(self.spine.levels):
            home = self.spine.up(self.spine.levels[-1], level)
            facilities = np.zeros((self.spine.units(level), 25), dtype=np.int64)
            np.add.at(facilities[:, 1:], home, self.facilities)
            facilities[:, 0] = 1 + exact[level].totals()
            for unit in range(self.spine.units(level)):
                code = self.spine.codes[depth][unit].decode()
                code = "" if level == "US" else code
                measured = list(_measured(source, level, unit, code))
                counts = exact[level].rows(unit, unit + 1).dense()
                _part(root, level, "DPQuery", code, measured)
                _part(root, level, "Constraint", code, _stated(code, counts, facilities[unit]))


def _shares(n: int) -> NDArray[np.float64]:
    out = 1 / np.arange(1, n + 1) ** 2.5
    return out / out.sum()


def budgeted(spine: Spine) -> Strategy:
    """Production's strategy on the levels of a tree."""
    of = strategy.persons()
    return Strategy(of.schema, {level: of.rho[level] for level in spine.levels}, of.outer)


def small_spine(counties: Mapping[str, int]) -> Spine:
    """Parts of states (``044``), and the number of counties of each."""
    codes = [[f"{state}10{1 + 2 * i:03d}" for i in range(n)] for state, n in counties.items()]
    parent = np.repeat(np.arange(len(counties)), list(counties.values()))
    lower = (np.array(list(counties)), np.array([c for of in codes for c in of]))
    if len(counties) == 1:
        return Spine(("State", "County"), lower, (np.zeros(1, dtype=int), parent))
    zero = np.zeros(len(counties), dtype=int)
    return Spine(("US", "State", "County"), (np.array(["US"]), *lower), (zero[:1], zero, parent))


def _measured(source: SparseSource, level: str, unit: int, code: str) -> Iterator[pa.Table]:
    for name in source.queries(level):
        query = DHCP.query(name)
        variance = source.variance(level, name)[unit : unit + 1]
        if not np.isfinite(variance[0]):
            continue
        at = np.arange(query.answers)
        values = source.answers(level, name, np.full(query.answers, unit), at)
        row = describe(texts.column(np.array([code.encode()])), f"{name}_dpq", query, DHCP)
        row |= {"value": lists(values[None, :]), "variance": pa.array(published_variance(variance))}
        yield pa.table(row)


def _stated(code: str, counts: Ints, facilities: Ints) -> list[pa.Table]:
    most = np.where(facilities > 0, 99_999 * facilities, 0)
    least = facilities.copy()
    least[0] = 0
    out = [_row(code, "pl94", FIXED.name, "=", counts[0])]
    out.append(_row(code, "hhgq_total_lb", "gqlevels", ">=", least))
    out.append(_row(code, "hhgq_total_ub", "gqlevels", "<=", most))
    relgq = DHCP.attribute("relgq").levels
    for rule in DHCP.impossible:
        never = {int(age) for age in rule["age"]}
        can = sorted(set(range(116)) - never)
        for level in rule["relgq"]:
            number, age = relgq.index(level), RULES[can[0], can[-1]]
            row = _row(code, f"relgq{number}_{age[4:]}", "total", "=", np.zeros(1, dtype=np.int64))
            for name, word in (("relgq", f"relgq{number}"), ("age", age)):
                at = row.schema.get_field_index(name)
                row = row.set_column(at, name, pa.array([word]))
            out.append(row)
    return out


def _row(code: str, name: str, query: str, sign: str, values: Ints) -> pa.Table:
    row = describe(texts.column(np.array([code.encode()])), f"{name}_con", DHCP.query(query), DHCP)
    row |= {"sign": pa.array([sign]), "value": lists(values[None, :])}
    return pa.table(row)


def _part(root: Path, level: str, kind: str, code: str, rows: list[pa.Table]) -> None:
    """One file for each unit, as published: in its state's folder, and a county in its own."""
    folder = root / f"{level}.parquet" / kind
    if code:
        folder /= f"State={code[:3]}"
    if level == "County":
        folder /= f"County={code}"
    if rows:
        folder.mkdir(parents=True, exist_ok=True)
        wide = any(t.schema.field("value").type.value_type == pa.int64() for t in rows)
        kind_of = pa.list_(pa.int64() if wide else pa.int32())
        at = rows[0].schema.get_field_index("value")
        rows = [t.set_column(at, "value", t["value"].cast(kind_of)) for t in rows]
        pq.write_table(pa.concat_tables(rows), folder / "part-00000.snappy.parquet")
