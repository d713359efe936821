"""The page of some areas of a release: counts with the estimates from the measurements, and a plan's
ideal population and deviations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.errors import InputError
from das.estimate.areas.estimates import Pieces, estimates, pieces, variances
from das.files.readers import area_list
from das.fold import Tiers
from das.model.areas import Areas
from das.model.constraint import LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.names import level_words
from das.model.spine import Spine
from das.model.universe import Planned
from das.release.area_counts import VOTING_AGE, AreaColumn, AreaCounts
from das.release.replicate_source import ReleaseSource
from das.report.chart import HIGH, Chart, Picture
from das.report.chart import WIDE as WIDE_PICTURE
from das.report.facts import PUBLISHED
from das.report.panel import INK, MarkStyle
from das.report.template import render
from das.spec import RunSpec
from das.truth.preparation import PublicTree

#: Kinds of areas whose names are short for something.
KINDS = {
    "CD": "Congressional districts",
    "SLDU": "State senate districts",
    "SLDL": "State house districts",
    "VTD": "Voting districts",
    "AIAN": "American Indian, Alaska Native and Hawaiian areas",
}
#: An interval is called wide where half its width is more than this of the estimate.
WIDE = 0.1


@dataclass(frozen=True)
class AreaCell:
    """One count of one area: the interval of the ``published`` count from replicates, ``lower`` to
    ``upper``; the unbiased ``estimate`` and its own, ``low`` to ``high``. ``None`` where there is
    none."""

    published: int
    estimate: int | None = None
    low: int | None = None
    high: int | None = None
    lower: int | None = None
    upper: int | None = None

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high

    @property
    def quoted(self) -> tuple[int, int] | None:
        """The interval to quote: that of the published count, or else that of the estimate."""
        if self.lower is not None and self.upper is not None:
            return self.lower, self.upper
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def beyond(self) -> str:
        """How far a published count is outside of :attr:`quoted`, and why; nothing where it is not."""
        if self.quoted is None or self.quoted[0] <= self.published <= self.quoted[1]:
            return ""
        low, high = self.quoted
        if self.lower is not None:
            return "outside: reruns move it to one side, and the interval takes that back"
        if self.published > high:
            return f"{self.published - high:,} above: no block is below zero, so sparse ones gain"
        return f"{low - self.published:,} below: dense blocks lose what sparse ones gain"

    @property
    def outside(self) -> bool:
        return (
            self.low is not None
            and self.high is not None
            and not self.low <= self.published <= self.high
        )

    @property
    def wide(self) -> bool:
        if self.low is None or self.high is None or self.estimate is None:
            return False
        return self.high - self.low > 2 * WIDE * abs(self.estimate)


@dataclass(frozen=True)
class AreaSection:
    """One table of the page: ``rows`` are areas by their titles, with a cell for each of
    ``columns``. ``shares``: each cell is part of the first of its row, whose share is shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[AreaCell, ...]], ...]
    shares: bool = False

    @property
    def wide(self) -> int:
        return sum(c.wide for _, cells in self.rows for c in cells)

    @property
    def intervals(self) -> int:
        return sum(c.low is not None for _, cells in self.rows for c in cells)


@dataclass(frozen=True)
class ComputedLine:
    """What is computed of one area, or of all together: the published value, and the ends of its
    interval where there is one."""

    area: str
    what: str
    published: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class PlanSummary:
    """Districts by their titles with their populations, in natural order. ``exact``: the population
    of all of them together is not an estimate."""

    districts: tuple[tuple[str, AreaCell], ...]
    exact: bool

    @property
    def ideal(self) -> float:
        return sum(c.published for _, c in self.districts) / len(self.districts)

    @property
    def least(self) -> tuple[str, AreaCell]:
        return min(self.districts, key=lambda d: d[1].published)

    @property
    def most(self) -> tuple[str, AreaCell]:
        return max(self.districts, key=lambda d: d[1].published)

    @property
    def range(self) -> int:
        return self.most[1].published - self.least[1].published

    @property
    def says(self) -> str:
        """The number to quote of the plan."""
        (small, few), (large, many) = self.least, self.most
        share = ""
        if self.ideal:
            share = f", {100 * self.range / self.ideal:.2f} % of the ideal population"
        return (
            f"The plan deviates by {self.range:,} persons{share}: from {few.published:,} in {small}"
            f" to {many.published:,} in {large}."
        )

    @property
    def outside(self) -> int:
        return sum(bool(c.beyond) for _, c in self.districts)


def natural(text: str) -> list[str | int]:
    """A key for the order in which a reader looks for a name.

    >>> sorted(["District 10", "District 2"], key=natural)
    ['District 2', 'District 10']"""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", text))]


def in_order(areas: Areas) -> list[int]:
    """The areas in the natural order of their titles."""
    return sorted(range(len(areas)), key=lambda i: natural(areas.title(i)))


def page(source: ReleaseSource, counts: AreaCounts) -> str:
    """The page as HTML."""
    sections, order = [], in_order(counts.areas)
    for (records, table), group in groupby(
        counts.columns, key=lambda c: (c.statistic.universe.records, _table(c))
    ):
        columns = list(group)
        part = columns[0].statistic.cells
        whole = all((c.statistic.cells <= part).all() for c in columns) and len(columns) > 1
        title = f"{records.capitalize()}{f', {table}' if table else ''}"
        labels = tuple(c.statistic.label for c in columns)
        rows = tuple((counts.areas.title(i), tuple(_cell(c, i) for c in columns)) for i in order)
        sections.append(AreaSection(title, labels, rows, shares=whole))
    return render(
        "areas.html",
        name=source.name,
        kind=KINDS.get(counts.areas.kind, level_words(counts.areas.kind)),
        areas=len(counts.areas),
        coverage=100 * counts.coverage,
        sections=sections,
        plan=_plan(source, counts),
        computed=_computed(counts),
        private=source.private,
        replicates=counts.replicates,
        wide=100 * WIDE,
    )


#: A picture names so many districts at most.
MOST_NAMED = 12


def picture(source: ReleaseSource, counts: AreaCounts) -> Picture | None:
    """The deviations of a plan, from the smallest district to the largest, with their intervals;
    none of areas that are no plan."""
    plan = _plan(source, counts)
    if plan is None or not plan.ideal:
        return None
    chart = Chart(WIDE_PICTURE, HIGH)
    names, ranked = zip(*sorted(plan.districts, key=lambda d: d[1].published), strict=True)
    percent = [100 * (c.published / plan.ideal - 1) for c in ranked]
    chart.bars([(i - 0.4, i + 0.4, 0.0, p) for i, p in enumerate(percent)], MarkStyle(PUBLISHED))
    held = [
        (i, p, *c.quoted) for i, (p, c) in enumerate(zip(percent, ranked, strict=True)) if c.quoted
    ]
    if held:
        at, middle, low, high = zip(*held, strict=True)
        lows, highs = ([100 * (e / plan.ideal - 1) for e in side] for side in (low, high))
        chart.errors(at, middle, lows, highs, MarkStyle(INK, width=0.8), cap=1.5)
    chart.rule(0)
    chart.x.ticks = []
    named = f": {', '.join(names)}" * (len(names) <= MOST_NAMED)
    chart.x.label = f"{len(ranked):,} districts, from the smallest to the largest{named}"
    chart.y.label = "deviation from the ideal population, %"
    about = "" if counts.replicates else " about the estimates from all measurements"
    lines = f"; lines are intervals at {100 * counts.coverage:g} %{about}" * bool(held)
    note = f"Published counts{lines}. Ideal population: {plan.ideal:,.1f}. {source.name}."
    return Picture(chart, plan.says, note, source.private)


def _computed(counts: AreaCounts) -> list[ComputedLine]:
    fields = {c.computed.field for c in counts.computed}
    return [
        ComputedLine(
            f"{r.name} ({r.area})" if r.name and r.area else r.name or r.area,
            r.label,
            r.value if isfinite(r.value) else None,
            r.lower,
            r.upper,
        )
        for r in counts.rows()
        if r.field in fields
    ]


def _table(column: AreaColumn) -> str:
    """What the page calls the table of a statistic."""
    field = column.statistic.field
    if field in VOTING_AGE:
        return "18 years and over, by Hispanic origin and, of those not Hispanic, race (P4)"
    return "" if field == "total" else field.partition("[")[0] if "[" in field else field[:-4]


def _plan(source: ReleaseSource, counts: AreaCounts) -> PlanSummary | None:
    """Where areas of persons do not overlap and have in them every unit in which somebody is
    published."""
    persons = source.universes[0]
    total = next(
        (
            c
            for c in counts.columns
            if c.statistic.universe.name == persons.name and c.statistic.cells.all()
        ),
        None,
    )
    if (
        total is None
        or len(counts.areas) < 2
        or _overlap(counts.areas)
        or int(total.value.sum()) != counts.published[persons.name]
    ):
        return None
    order = in_order(counts.areas)
    districts = tuple((counts.areas.title(i), _cell(total, i)) for i in order)
    return PlanSummary(districts, persons.exact.total is not None)


def _overlap(areas: Areas) -> bool:
    return len(np.unique(areas.unit)) < len(areas.unit)


def _cell(c: AreaColumn, i: int) -> AreaCell:
    told = c.replicated.row(i) if c.replicated else {}
    ends = {end: int(told[end]) for end in ("lower", "upper") if end in told}
    if not c.known[i]:
        return AreaCell(int(c.value[i]), **ends)
    about = round(float(c.estimate[i])), int(c.low[i]), int(c.high[i])
    return AreaCell(int(c.value[i]), *about, **ends)


# How accurate the counts of areas of blocks will be, before anything is measured, on each spine
# that a configuration could choose.
#
# It uses public blocks and the plan alone: which blocks exist, their areas and structures. The
# precision of a total in unit u is :math:`p_u = \sum_q 1/(\sigma_q^2 m_q)` over the queries of its
# class, with :math:`m_q` the answers of q: their sums are independent estimates of it.
# :mod:`das.estimate.areas.estimates` gives what follows for an area.
# :mod:`das.estimate.areas.estimates` gives the standard error of the unbiased estimate, with all that
# structures imply; it depends on no count.
#
# *Shares of the levels.* Let every family split its total evenly, and each level have one class. The
# descent gives area A the variance :math:`\sum_l W_l(A)\,V_l`, with :math:`V_l` the variance of a
# unit's total. :math:`W_l` is the sum of :math:`\sum_c b_c^2 - (\sum_c b_c)^2/n` over the families of
# level l, with :math:`b` the share of a unit that is inside. :math:`V_l` falls with the share
# :math:`s_l` of the budget as :math:`s_l^{-k}`, k = 1 for rho and 2 for epsilon. So, summed over
# areas, :math:`\sum_l W_l V_l` is least where :math:`s_l` is proportional to
# :math:`(W_l V_l s_l^k)^{1/(k+1)}`.

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AreasOnSpine:
    """Standard deviations ``(areas,)`` of the total of each area on one spine: ``topdown``, of the
    descent before non-negativity; ``full_information``, from all levels; ``estimate``, of the
    unbiased estimate with what structures tell."""

    name: str
    says: str
    topdown: Array
    full_information: Array
    estimate: Array


@dataclass(frozen=True)
class LevelShare:
    """The share of the budget that a level has, and that which is best for the areas alone."""

    level: str
    now: float
    best: float


@dataclass(frozen=True, eq=False)
class AreaPlan:
    """``shares`` are those for the spine of the configuration."""

    areas: Areas
    spines: tuple[AreasOnSpine, ...]
    shares: tuple[LevelShare, ...]


def planned(
    spec: RunSpec, paths: Sequence[Path], universe: str, listed: Path, progress: Progress
) -> AreaPlan:
    """The accuracy to expect for the areas of a list of blocks. Raises :class:`UserError` for a
    faulty list or input."""
    world = PublicTree.read(spec, paths, progress)
    areas = area_list.read(listed, world.spine)
    world = replace(world, lists={**world.lists, _named(areas): areas})
    spines = [
        _on(world, areas, name, says, _spec(spec, **keys), universe, progress)
        for name, says, keys in _choices(spec, areas)
    ]
    shares = _shares(world, areas, spec, universe)
    return AreaPlan(areas, tuple(spines), shares)


def _named(areas: Areas) -> str:
    """The name of areas as a target: a name with a dot is that of a list."""
    return f"{areas.kind}.blocks"


def _choices(spec: RunSpec, areas: Areas) -> list[tuple[str, str, dict[str, object]]]:
    """Name, words, and keys of the geography."""
    g = spec.geography
    out: list[tuple[str, str, dict[str, object]]] = [
        (
            "tabulation",
            "the tabulation spine",
            {"spine": "tabulation", "targets": None, "fanout": None},
        )
    ]
    if "State" in g.levels[:-2]:
        out.append(
            (
                "production",
                "the optimized spine of 2020",
                {"spine": "optimized", "targets": None, "fanout": None},
            )
        )
        if g.targets:
            out.append(("targets", f"with targets {', '.join(g.named)}", {}))
        named = (*(g.targets or ()), _named(areas))
        more = "these areas among its targets" if g.targets else "these areas as targets"
        out.append(
            (
                "these areas",
                f"the optimized spine with {more}",
                {"spine": "optimized", "targets": named},
            )
        )
    return out


def _spec(spec: RunSpec, **keys: object) -> RunSpec:
    """With other keys of its geography; what was computed of the given one is not taken along."""
    changed = spec.model_copy(update={"geography": spec.geography.model_copy(update=keys)})
    for name in ("universes", "after", "terms"):
        changed.__dict__.pop(name, None)
    return changed


def _on(
    world: PublicTree,
    areas: Areas,
    name: str,
    says: str,
    spec: RunSpec,
    universe: str,
    progress: Progress,
) -> AreasOnSpine:
    progress.stage(says, None)
    trees = world.trees(spec)
    u, tree, n = spec.on(trees).universe(universe), trees[universe], len(areas)
    bounds = world.bounds(u, tree)
    area, unit = areas.over(tree)
    topdown, full = linear(u, tree, bounds, area, unit, n)
    everybody = np.ones((1, u.schema.cells), dtype=bool)
    exact = estimates(_Noise(u, tree), tree.spine, bounds, u.schema, everybody, area, unit, n)
    return AreasOnSpine(name, says, topdown, full, np.sqrt(exact.variance[:, 0]))


def linear(
    planned: Planned,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    area: Ints,
    unit: Ints,
    areas: int,
) -> tuple[Array, Array]:
    """The standard deviations of the totals of areas by :mod:`das.estimate.areas.estimates`,
    top-down and by full information, ``(areas,)`` both: ``unit[i]`` of the tree's lowest is in
    ``area[i]``."""
    noise = _Noise(planned, tree)
    tiers = Tiers.of_bounds(tree.spine, bounds)
    cut = pieces(tiers.parents, area, unit)
    precision = [
        noise.precision(level) if level else np.zeros(len(parent))
        for level, parent in zip(tiers.level, tiers.parents, strict=True)
    ]
    lowest = bounds[tree.spine.levels[-1]]
    precision[-1][lowest.limits.upper.sum(axis=1)[lowest.limits.row] == 0] = (
        np.inf
    )  # nobody can be there
    topdown, full = (
        np.sqrt(_variances(tiers, precision, cut, areas, every)) for every in (False, True)
    )
    return topdown, full


def _variances(
    tiers: Tiers, precision: Sequence[Array], cut: Sequence[Pieces], areas: int, full: bool
) -> Array:
    """NaN where units with siblings are not measured: a descent that needs them knows nothing."""
    try:
        return variances(tiers, precision, cut, areas, full_information=full)
    except InputError:
        return np.full(areas, np.nan)


@dataclass(frozen=True, eq=False)
class _Noise:
    """A source of measurements that are all zero, with the variances of a plan."""

    u: Planned
    tree: MeasuredSpine

    def variance(self, level: str, query: str) -> Array:
        out = np.full(self.tree.spine.units(level), np.inf)
        for name, units in self.tree.classes(level).items():
            for d in self.u.plan.of_class(level, name):
                if d.query == query:
                    out[units] = d.variance
        return out

    def precision(self, level: str) -> Array:
        """The precision of each unit's total, ``(units,)``."""
        each = (
            1 / (self.variance(level, q) * self.u.schema.query(q).answers)
            for q in self.queries(level)
        )
        return sum(each, np.zeros(self.tree.spine.units(level)))

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.query for d in self.u.plan.at(level)))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        values = np.zeros((stop - start, self.u.schema.query(query).answers), dtype=np.int64)
        return Measurement(level, query, start, values, self.variance(level, query)[start:stop])

    def part(self, level: str, start: int, stop: int) -> _Noise:
        del level, start, stop
        return self


# --- shares


def _shares(
    world: PublicTree, areas: Areas, spec: RunSpec, universe: str
) -> tuple[LevelShare, ...]:
    """On the spine of the configuration, each level of it with one class; none where no area costs
    anything."""
    tree = world.trees(spec)[universe]
    u = _spec(spec, spine="tabulation", targets=None, fanout=None).universe(universe)
    known = -1 if u.exact.total is None else tree.spine.index(u.exact.total)
    weight = weights(tree.spine, pieces(tree.spine.parent, *areas.over(tree)), known)
    k, best, now = 2 // u.plan.mechanism.power, [], []
    for w, level in zip(weight, tree.spine.levels, strict=True):
        measurements = u.plan.at(level)
        now.append(float(sum((d.cost for d in measurements), Fraction(0)) / u.plan.cost))
        told = sum(1 / (d.variance * u.schema.query(d.query).answers) for d in measurements)
        best.append((w / told * now[-1] ** k) ** (1 / (k + 1)) if told else 0.0)
    if not sum(best):
        return ()
    return tuple(
        LevelShare(lv, n, b / sum(best))
        for lv, n, b in zip(tree.spine.levels, now, best, strict=True)
    )


def weights(spine: Spine, cut: Sequence[Pieces], known: int) -> list[float]:
    """W of each level, root first, summed over the areas; 0 where totals are known."""
    out = [0.0] * len(spine)
    inside = np.ones(len(cut[-1]))
    for depth in range(len(spine) - 1, 0, -1):
        here, above = cut[depth], cut[depth - 1]
        children = np.bincount(spine.parent[depth])[above.unit]
        total = np.bincount(here.up, weights=inside, minlength=len(above))
        square = np.bincount(here.up, weights=inside**2, minlength=len(above))
        if depth > known:
            out[depth] = float(np.where(above.whole, 0.0, square - total**2 / children).sum())
        inside = np.where(above.whole, 1.0, total / children)
    if known < 0:
        out[0] = float((inside**2).sum())
    return out
