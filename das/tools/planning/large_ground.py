"""What is known when the budget of the DHC is planned: the cells that units of an earlier release
were published with. Records are never read.

A unit has few of the million cells of a schema, so some units of each level are sampled, each by
itself (:mod:`das.tools.planning.ground`). Levels without a target keep their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.design.model import Choices, Estimand, LevelQuery
from das.design.target_set import TargetSet
from das.errors import InputError, SpecError, UserError
from das.model.budget import ALL
from das.model.histogram import Histogram
from das.publications.dhc import release_files
from das.publications.dhc.release import OpenedDhc
from das.publications.dhc.spec import DhcUniverse
from das.tables import Table
from das.tools.planning.ground import Ground, SampledPass, SampledUnit, UnitsAlone
from das.tools.planning.optimizing import Optimum

Ints = NDArray[np.int64]
#: Which units of a level are sampled: the quantiles of their number of records.
QUANTILES = (0.2, 0.4, 0.6, 0.8)
#: The most variables of a pass of one unit: its matrices take 130 MB each.
MOST = 4000
#: Of a query with more answers than this in a unit some are lines, evenly spaced.
LINES = 100
#: What the figures are.
NOTE = (
    "standard deviations of one line: those of least squares in the cells that the sampled units"
    " were published with, given exact earlier counts. Published errors are larger, because earlier"
    " counts have errors and estimates have other cells: check a plan by runs before you use it."
)
#: What a query that is not measured yet costs in the present plan.
NOTHING_YET = Fraction(1, 1_000_000)


def with_new(universe: DhcUniverse, new: Sequence[LevelQuery]) -> DhcUniverse:
    """The universe with more queries at some levels, at next to no cost. Raises
    :class:`UserError` for one that is measured already."""
    rho: dict[str, dict[str, Fraction]] = {lv: dict(qs) for lv, qs in universe.strategy.rho.items()}
    for level, query in new:
        if query in rho[level]:
            raise UserError(f"{level}:{query} is measured already", where="measure")
        rho[level][query] = NOTHING_YET
    try:
        return replace(universe, strategy=universe.strategy.measuring(rho))
    except SpecError as error:
        raise UserError(error.what, where="measure", remedy=error.remedy) from None


def holding(target_set: TargetSet, universe: DhcUniverse) -> TargetSet:
    """The targets, with every measurement held at levels that have none."""
    levels = {t.estimand.place for t in target_set.targets}
    others = ((d.level, d.query) for d in universe.plan.plain if d.level not in levels)
    return replace(target_set, hold=tuple(dict.fromkeys((*target_set.hold, *others))))


def of_units(universe: DhcUniverse, opened: OpenedDhc, levels: Sequence[str]) -> Ground:
    """Units of the ``levels``, as a release published them. Raises :class:`UserError` if it has
    not these levels."""
    if odd := [lv for lv in levels if lv not in opened.spine.levels]:
        raise UserError(
            f"the release has no level {odd[0]!r}",
            where="--like",
            remedy=f"its levels are {', '.join(opened.spine.levels)}",
        )
    counts = release_files.read_counts(opened.folder, opened.spine)[universe.name].upward(
        opened.spine
    )
    tables = {t.name: t for t in release_files.tables_of(universe.name)}
    pairs = tuple((d.level, d.query) for d in universe.plan.plain)
    measurements = Choices.alike(pairs, ALL)
    chosen = {level: _sample(counts[level]) for level in levels}

    def model(estimands: Sequence[Estimand]) -> UnitsAlone:
        samples = {}
        for level, units in chosen.items():
            here = [q for lv, q in pairs if lv == level]
            groups = _Groups.from_estimands(universe, tables, level, estimands)
            samples[level] = [
                _unit(universe, here, counts[level].rows(i, i + 1).cell, groups, len(units))
                for i in units.tolist()
            ]
        return UnitsAlone(measurements, tuple(estimands), samples)

    some = ", ".join(f"{len(units)} {level}" for level, units in chosen.items())
    says = f"units by themselves, with the cells that they were published with: {some}"
    made = (
        f"the release {opened.spec.run.name!r} of the DHC (specification"
        f" {opened.spec.digest[:16]}): a sample of {some}"
    )
    return Ground("tree", says, (made,), measurements, {}, None, model, note=NOTE)


def at_levels(optimum: Optimum, levels: Sequence[str]) -> Optimum:
    """Without what is said of levels that were not sampled: nothing is known of them."""
    return replace(
        optimum,
        guarded=tuple(r for r in optimum.guarded if r.estimand.place in levels),
        redundant=tuple(pair for pair in optimum.redundant if pair[0] in levels),
    )


def _sample(counts: Histogram) -> Ints:
    """Units at quantiles of their size, of those that have records."""
    size = np.bincount(counts.unit, counts.count, counts.units)
    order = np.argsort(size, kind="stable")[int((size == 0).sum()) :]
    at = [int(q * (len(order) - 1)) for q in QUANTILES]
    return np.unique(order[at])


@dataclass(frozen=True, eq=False)
class _Groups:
    """The estimands of a level: their numbers, and what each is a group of lines of."""

    numbers: tuple[int, ...]
    lines: tuple[Table | str, ...]

    @staticmethod
    def from_estimands(
        universe: DhcUniverse,
        tables: Mapping[str, Table],
        level: str,
        estimands: Sequence[Estimand],
    ) -> _Groups:
        here = [i for i, a in enumerate(estimands) if a.place == level and not a.areas]
        return _Groups(
            tuple(here), tuple(tables.get(estimands[i].query, estimands[i].query) for i in here)
        )

    def of_cells(self, universe: DhcUniverse, cells: Ints) -> tuple[NDArray[np.float64], Ints]:
        """Every line on some cells, ``(cells, L)``, and the estimand of each."""
        parts = [_lines(universe, of, cells) for of in self.lines]
        numbers = [np.full(p.shape[1], n) for p, n in zip(parts, self.numbers, strict=True)]
        return np.concatenate(parts, axis=1), np.concatenate(numbers)


def _lines(universe: DhcUniverse, estimand: Table | str, cells: Ints) -> NDArray[np.float64]:
    """How often each line of a table, or answer to a query, counts each cell; those with any."""
    if isinstance(estimand, Table):
        answer = estimand.query.at(cells)
        every = np.stack([estimand.times(j)[answer] for j in range(len(estimand.columns))], axis=1)
        return every[:, every.any(axis=0)].astype(float)
    answer = np.unique(universe.schema.query(estimand).at(cells), return_inverse=True)[1]
    many = int(answer.max()) + 1
    some = np.unique(np.linspace(0, many - 1, min(many, LINES)).astype(int))
    return (answer[:, None] == some).astype(float)


def _unit(
    universe: DhcUniverse, measured: Sequence[str], cells: Ints, groups: _Groups, units: int
) -> SampledUnit:
    """The passes of a unit with these positive cells."""
    lines, group = groups.of_cells(universe, cells)
    last, passes = universe.schema.query(universe.fixed_query), []
    for outer in universe.strategy.outer:
        key, first, of = np.unique(
            universe.schema.query(outer.frozen).at(cells), return_index=True, return_inverse=True
        )
        if len(key) > MOST:
            raise InputError(
                f"a sampled unit has {len(key):,} variables: {MOST:,} are the most",
                where="targets",
                remedy="name targets of lower levels alone: levels without a target stay",
            )
        mean = np.zeros((len(key), lines.shape[1]))
        np.add.at(mean, of, lines)
        mean /= np.bincount(of)[:, None]
        index = {
            q: np.unique(universe.schema.query(q).at(cells[first]), return_inverse=True)[1]
            for q in outer.queries
            if q in measured
        }
        if not index:
            raise InputError("a pass in which nothing is measured", where=universe.name)
        tie = np.unique(last.at(cells[first]), return_inverse=True)[1]
        passes.append(SampledPass(index, tie, mean))
        last = universe.schema.query(outer.frozen)
    share = 1 / np.bincount(group, minlength=group.max() + 1)[group] / units
    return SampledUnit(tuple(passes), group, share)
