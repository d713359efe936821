"""Counts of any areas of blocks, and what is computed from them: as published, with intervals from
replicates where the release has any (:mod:`das.release.own_replicates`), and as all measurements
say, with standard errors and intervals.

Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.model.areas import AreaRow, Areas
from das.model.histogram import Histogram
from das.model.mechanisms import COVERAGE
from das.model.spelling import key, near, query
from das.model.universe import Universe
from das.release.intervals import CountIntervals, Intervals
from das.release.replicate_source import ReleaseSource
from das.replicates import check_coverage
from das.replicates.by_truth import ReplicateErrors, ReplicateInterval, interval, reach

# What analysts compute from counts of areas, as functions of arrays ``(areas,)``. Also, what
# replicates say about these statistics, and the multiplier that holds for all areas at once.
#
# =================  ==================================================================  ============
# statistic          of counts :math:`a_d`, :math:`b_d` of areas d                       of
# =================  ==================================================================  ============
# ``share``          :math:`a_d / b_d`                                                   each area
# ``difference``     :math:`a_d - b_d`                                                   each area
# ``rank``           1, and the number of areas with a larger :math:`a`                  each area
# ``deviation``      :math:`(\max a_d - \min a_d) / \bar a`, of a plan of districts      all together
# ``dissimilarity``  :math:`\tfrac12 \sum_d |a_d/\sum a - b_d/\sum b|`, of segregation   all together
# =================  ==================================================================  ============
#
# Noise makes areas look more different than they are. The replicates of a deviation or of a
# dissimilarity are above the published value. Their bias is subtracted where it is half a standard
# deviation or more. The interval of such an index needs a warning about that, and a second one.
# Suppose districts were drawn to be equal in published counts. Then their published deviation is too
# small, and the true one is where the replicates are. Noise moves a share, a difference or a rank in
# either direction, and nothing is subtracted from them (:mod:`das.replicates.by_truth`). No interval
# goes beyond the possible values of its statistic.

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AreaFunction:
    """A ``function`` of one or two counts by area; ``each`` says whether of each area, or of all
    together. It is ``least`` at the least, and ``most`` at the most. ``raised``: noise makes it
    larger."""

    counts: int
    each: bool
    function: Callable[..., Floats]
    least: float = -np.inf
    most: float = np.inf
    raised: bool = False


def share(a: Floats, b: Floats) -> Floats:
    """Not a number where there is nothing to have a share of.

    >>> share(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    array([0.25,  nan])"""
    out = np.full(a.shape, np.nan)
    np.divide(a, b, out=out, where=b > 0)
    return out


def difference(a: Floats, b: Floats) -> Floats:
    return a - b


def rank(a: Floats) -> Floats:
    """The largest is 1; as large ones have the same.

    >>> rank(np.array([5.0, 9.0, 5.0, 1.0]))
    array([2., 1., 2., 4.])"""
    return np.asarray(1 + len(a) - np.searchsorted(np.sort(a), a, side="right"), dtype=np.float64)


def deviation(a: Floats) -> Floats:
    """
    >>> deviation(np.array([90.0, 110.0]))
    array([0.2])"""
    return np.array([(a.max() - a.min()) / a.mean() if a.any() else np.nan])


def dissimilarity(a: Floats, b: Floats) -> Floats:
    """
    >>> dissimilarity(np.array([5.0, 0.0]), np.array([0.0, 7.0]))
    array([1.])"""
    return np.array(
        [np.abs(a / a.sum() - b / b.sum()).sum() / 2 if a.any() and b.any() else np.nan]
    )


FUNCTIONS: Mapping[str, AreaFunction] = {
    "share": AreaFunction(2, True, share, 0, 1),
    "difference": AreaFunction(2, True, difference),
    "rank": AreaFunction(1, True, rank, 1),
    "deviation": AreaFunction(1, False, deviation, 0, raised=True),
    "dissimilarity": AreaFunction(2, False, dissimilarity, 0, 1, raised=True),
}


def other_side(value: Floats, replicates: Floats, threshold: float = 0.5) -> Floats:
    """How often a rerun of the algorithm would find a share on the other side of
    ``threshold``: the part of the replicates ``(s, areas)`` that are there. No probability about
    the truth."""
    return ((replicates > threshold) != (value > threshold)).mean(axis=0)


def for_all_at_once(
    value: NDArray[np.int64] | Floats, replicates: NDArray[np.int64] | Floats, coverage: float
) -> float:
    r"""How many root mean squared errors wide the intervals of all areas are, so that all hold
    together. It is an order statistic, and at least the rule's own k.

    The score of replicate i ``(s, areas)`` is
    :math:`\max_d |q_{d,i} - q_{d,0}| / \mathrm{rmse}_{d,-i}`, with the errors of the *other*
    replicates: the truth, too, is compared with an error that it has no part in. If the truth's
    error has their distribution, its score is equally likely to have any place among the s + 1. So
    the score at place :math:`\lceil (s + 1) c \rceil` of s is not exceeded with probability c or
    more. With fewer than :math:`c / (1 - c)` replicates that place is beyond s. Then the largest
    score is taken, which holds only with probability s / (s + 1)."""
    own = reach(coverage, len(replicates))
    square = np.asarray(replicates - value, dtype=np.float64) ** 2
    square = square[:, (square > 0).any(axis=0)]
    if not square.size:
        return own
    others = (square.sum(axis=0) - square) / (len(square) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.sort(np.sqrt(np.where(square > 0, square / others, 0.0)).max(axis=1))
    place = min(ceil(round((len(score) + 1) * coverage, 9)), len(score))
    finite = score[
        np.isfinite(score)
    ]  # an area that one replicate alone moves has no errors of others
    return max(own, float(finite[min(place, len(finite)) - 1])) if len(finite) else own


#: The least and the most that each of some counts can be.
Range = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class ReplicatedValues:
    """What replicates say of published values."""

    errors: ReplicateErrors
    interval: ReplicateInterval
    other_side: NDArray[np.float64] | None = None
    covered: NDArray[np.bool_] | None = None  #: where replicates say anything, if not everywhere

    @staticmethod
    def from_replicates(
        value: NDArray[Any],
        replicates: NDArray[Any],
        coverage: float,
        *,
        together: bool,
        side: bool = False,
        within: Range | None = None,
        raised: bool = False,
    ) -> ReplicatedValues:
        """Of values and their ``replicates``, ``(s, *value.shape)``. ``together``: intervals that
        hold for all of them at once; ``within`` and ``raised`` as of
        :func:`das.replicates.interval`."""
        errors = ReplicateErrors.from_replicates(value, replicates)
        factor = for_all_at_once(value, replicates, coverage) if together else None
        made = interval(value, errors, coverage, factor, within=within, raised=raised)
        return ReplicatedValues(errors, made, other_side(value, replicates) if side else None)

    def row(self, i: int) -> dict[str, float]:
        """What :class:`das.model.areas.AreaRow` has of replicates; nothing where the value is
        no number in some of them, or they do not cover it."""
        errors, made = self.errors, self.interval
        if not np.isfinite(errors.rmse[i]) or not (self.covered is None or self.covered[i]):
            return {}
        told = {"lower": made.lower, "upper": made.upper, "rmse": errors.rmse, "bias": errors.bias}
        if self.other_side is not None:
            told["other_side"] = self.other_side
        return {name: x[i].item() for name, x in told.items()}


# What is counted of areas: statistics by what a person types.
#
# Like ``das.release.post_processing``, nothing here can see the truth.

#: Of the redistricting tables, what a page shows unasked: the voting-age population, by Hispanic
#: origin and race.
VOTING_AGE = tuple(f"P004{number:04d}" for number in (1, 2, 5, 6, 7, 8, 9, 10, 11))


@dataclass(frozen=True, eq=False)
class Statistic:
    """A sum of cells ``(cells,)`` of one universe. ``field`` is the field of a table's column, or a
    query's name and answer."""

    universe: Universe
    field: str
    label: str
    cells: NDArray[np.bool_]

    @property
    def key(self) -> str:
        return f"{self.universe.name}:{self.field}"


@dataclass(frozen=True, eq=False)
class ComputedStatistic:
    """What is computed from ``counts`` of areas by one of
    :data:`das.release.area_counts.FUNCTIONS`."""

    function: str
    counts: tuple[Statistic, ...]

    @property
    def field(self) -> str:
        return f"{self.function}:{'/'.join(s.field for s in self.counts)}"

    @property
    def label(self) -> str:
        """In words, and with the fields: that of adults is called a total in the table of adults,
        too."""
        return f"{self.function}: {' / '.join(f'{s.label} ({s.field})' for s in self.counts)}"

    def compute(self, counts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """A number for each area, or one number."""
        return FUNCTIONS[self.function].function(*(np.asarray(c, dtype=np.float64) for c in counts))


def statistics(source: ReleaseSource, asked: Sequence[str]) -> list[Statistic | ComputedStatistic]:
    """Statistics from what a person types.

    Each text is a table (``P2``), a column of a table (``P0020002``) or a query
    (``votingage * hispanic``). A query of a universe other than persons has the universe's name and
    a colon before it. A text can also be a function of one or two columns, such as
    ``share:P0040002/P0040001`` (:mod:`das.release.area_counts`). Without any text: the total
    of each universe.

    Raises:
        UserError: a text names nothing that the release has."""
    every = source.universes
    if not asked:
        return [s for u in every for s in _of_query(u, "total")]
    out: dict[str, Statistic | ComputedStatistic] = {}
    for text in asked:
        head, _, counted = text.partition(":")
        if head.strip() in FUNCTIONS:
            computed = _computed(source, head.strip(), counted, text)
            out[computed.field] = computed
        else:
            out |= {s.key: s for s in _statistics(source, text)}
    return list(out.values())


def _computed(source: ReleaseSource, function: str, counted: str, text: str) -> ComputedStatistic:
    names = [name.strip() for name in counted.split("/")]
    where, wanted = f"--statistics {text}", FUNCTIONS[function].counts
    if len(names) != wanted or not all(names):
        example = "/".join(["P0040002", "P0040001"][:wanted])
        raise UserError(
            f"{function} is of {wanted} count{'s' * (wanted > 1)}",
            where=where,
            remedy=f"write such as {function}:{example}",
        )
    found = [_statistics(source, name) for name in names]
    for name, several in zip(names, found, strict=True):
        if len(several) > 1:
            raise UserError(
                f"{name} is {len(several)} counts",
                where=where,
                remedy=f"name one of them, such as {several[0].field}",
            )
    return ComputedStatistic(function, tuple(one for (one,) in found))


def unasked(source: ReleaseSource) -> list[str]:
    """What a page shows where nothing is asked for: totals and, where there is a table P4, the
    voting-age population."""
    there = {f for u, t in source.tables if u.name == source.universes[0].name for f in t.columns}
    others = (f"{u.name}:total" for u in source.universes[1:])
    return ["total", *(f for f in VOTING_AGE if f in there), *others]


def _statistics(source: ReleaseSource, text: str) -> list[Statistic]:
    where, every = f"--statistics {text}", source.universes
    head, colon, wanted = text.rpartition(":")
    if colon and head.strip() not in [u.name for u in every]:
        raise UserError(
            f"no universe {head.strip()!r}",
            where=where,
            remedy=near(head.strip(), [u.name for u in every], "universes"),
        )
    among = [u for u in every if not colon or u.name == head.strip()]
    known: list[str] = []
    for u in among:
        for t in (t for of, t in source.tables if of.name == u.name):
            chosen = [
                j
                for j, f in enumerate(t.columns)
                if key(wanted) in (key(t.name), key(f)) and not t.repeats(j)
            ]
            if chosen:
                return [Statistic(u, t.columns[j], t.full_label(j), t.mask(j)) for j in chosen]
            known.append(t.name)
    try:
        return _of_query(among[0], query(wanted.strip(), among[0].schema, (), where))
    except UserError as error:
        raise UserError(
            f"no table, column or query {wanted.strip()!r}",
            where=where,
            remedy=f"the tables are {', '.join(known) or 'none'}; as a query: {error.remedy}",
        ) from None


def _of_query(universe: Universe, name: str) -> list[Statistic]:
    """Each answer that can be other than 0."""
    q = universe.schema.query(name)
    there = np.unique(q.index[universe.schema.possible]).tolist()
    words = q.captions()
    return [
        Statistic(universe, name if q.answers == 1 else f"{name}[{i}]", words[i], q.index == i)
        for i in there
    ]


@dataclass(frozen=True, eq=False)
class AreaColumn:
    """A statistic of each area, arrays ``(areas,)``: ``value`` as published, and what its
    replicates say; ``estimate`` and ``error`` its unbiased estimate from all measurements and the
    standard error of that, NaN where nothing at the lowest level tells it; the ends ``low`` and
    ``high`` of the interval about it, ``high`` negative where there is none. What is certain is its
    own estimate and interval, without error. ``drawn`` are the replicates themselves, ``(s,
    areas)``."""

    statistic: Statistic
    value: NDArray[np.int64]
    replicated: ReplicatedValues | None
    estimate: NDArray[np.float64]
    error: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    drawn: NDArray[np.int64] | None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is an interval from the measurements."""
        return self.high >= 0

    def row(self, i: int, areas: Areas, blocks: int) -> AreaRow:
        """The row of area i."""
        s, place = self.statistic, (areas.code(i), str(areas.called[i]), blocks)
        told: dict[str, Any] = self.replicated.row(i) if self.replicated else {}
        if self.known[i]:
            told["estimate"] = round(float(self.estimate[i]), 2) + 0.0
            told["standard_error"] = round(float(self.error[i]), 2)
            told |= {"estimate_low": int(self.low[i]), "estimate_high": int(self.high[i])}
        return AreaRow(*place, s.universe.name, s.field, s.label, int(self.value[i]), **told)

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Where the published count is outside the interval."""
        return self.known & ((self.value < self.low) | (self.value > self.high))


@dataclass(frozen=True, eq=False)
class ComputedColumn:
    """What is computed of each area, or of all: ``value`` ``(areas,)`` or ``(1,)``."""

    computed: ComputedStatistic
    value: NDArray[np.float64]
    replicated: ReplicatedValues | None

    def row(self, i: int, place: tuple[str, str, int]) -> AreaRow:
        told: dict[str, Any] = self.replicated.row(i) if self.replicated else {}
        of, value = self.computed, float(self.value[i])
        names = " and ".join(dict.fromkeys(s.universe.name for s in of.counts))
        return AreaRow(*place, names, of.field, of.label, value, **told)


@dataclass(frozen=True, eq=False)
class AreaCounts:
    """Counts of some areas of a release, with intervals.

    Intervals hold the true count with probability ``coverage``, each by itself or, from replicates,
    all areas at once, as requested. ``published``: the number of records in the release, for each
    requested universe."""

    areas: Areas
    coverage: float
    columns: tuple[AreaColumn, ...]
    computed: tuple[ComputedColumn, ...]
    published: Mapping[str, int]
    replicates: int = 0  #: how many the intervals are made from

    def rows(self) -> list[AreaRow]:
        """A row for each area and statistic; after them those of all areas together."""
        units = np.bincount(self.areas.area)
        each = [c for c in self.computed if FUNCTIONS[c.computed.function].each]
        out = []
        for i in range(len(self.areas)):
            out += [c.row(i, self.areas, int(units[i])) for c in self.columns]
            out += [
                c.row(i, (self.areas.code(i), str(self.areas.called[i]), int(units[i])))
                for c in each
            ]
        together = ("", f"all {len(self.areas):,} areas", len(np.unique(self.areas.unit)))
        return [*out, *(c.row(0, together) for c in self.computed if c not in each)]


def counts(
    source: ReleaseSource,
    areas: Areas,
    asked: Sequence[Statistic | ComputedStatistic],
    coverage: float = COVERAGE,
    *,
    together: bool = False,
) -> AreaCounts:
    """The statistics of areas of the lowest units of ``source.spine``. ``together``: intervals
    from replicates (:mod:`das.replicates.by_truth`) that hold for all areas at once. Raises :class:`InputError` for a coverage that is none."""
    check_coverage(coverage)
    earlier = source.keeps_earlier_counts
    said = partial(_said, earlier, coverage=coverage, together=together)
    plain = [a for a in asked if isinstance(a, Statistic)]
    needed = [*plain, *(s for a in asked if isinstance(a, ComputedStatistic) for s in a.counts)]
    found: dict[str, AreaColumn] = {}
    everybody: dict[str, int] = {}
    for u in source.universes:
        if of_u := {s.key: s for s in needed if s.universe.name == u.name}:
            columns, everybody[u.name] = _columns(
                source, u, areas, list(of_u.values()), coverage, said
            )
            found |= dict(zip(of_u, columns, strict=True))
    computed = [
        _computed_column(a, [found[s.key] for s in a.counts], said)
        for a in asked
        if isinstance(a, ComputedStatistic)
    ]
    number = max((len(c.drawn) for c in found.values() if c.drawn is not None), default=0)
    return AreaCounts(
        areas, coverage, tuple(found[s.key] for s in plain), tuple(computed), everybody, number
    )


def _said(earlier: bool, value: NDArray[Any], again: NDArray[Any], **how: Any) -> ReplicatedValues:
    """What replicates say. Where all keep the counts of an ``earlier`` release, a value on which
    they agree is not covered: it follows from those counts."""
    told = ReplicatedValues.from_replicates(value, again, **how)
    return replace(told, covered=told.errors.second > 0) if earlier else told


def _columns(
    source: ReleaseSource,
    universe: Universe,
    areas: Areas,
    asked: Sequence[Statistic],
    coverage: float,
    said: Callable[..., ReplicatedValues],
) -> tuple[list[AreaColumn], int]:
    """Statistics of one universe, and how many records it has in all."""
    cells = np.array([s.cells for s in asked])
    with ThreadPoolExecutor(1) as other:  # both read files for most of their time
        published = other.submit(_published, source, universe, areas, cells)
        release = source.measured  # none where measurements were made on demand
        found = (
            CountIntervals.unknown(len(areas), len(cells))
            if release is None
            else Intervals(release, universe, coverage).of_areas(areas, cells)
        )
    value, everybody = published.result()
    drawn = _replicates(source, universe, areas, cells)

    def column(j: int) -> AreaColumn:
        again = None if drawn is None else drawn[:, :, j]
        within = found.least[:, j], found.most[:, j]
        told = None if again is None else said(value[:, j], again, within=within)
        return AreaColumn(
            asked[j],
            value[:, j],
            told,
            found.estimate[:, j],
            found.error[:, j],
            found.low[:, j],
            found.high[:, j],
            again,
        )

    return [column(j) for j in range(len(asked))], everybody


def _computed_column(
    asked: ComputedStatistic, counts: Sequence[AreaColumn], said: Callable[..., ReplicatedValues]
) -> ComputedColumn:
    of = asked.compute([c.value for c in counts])
    there = [c.drawn for c in counts if c.drawn is not None]
    if len(there) < len(counts):
        return ComputedColumn(asked, of, None)
    again = np.array([asked.compute(one) for one in zip(*there, strict=True)])
    function = FUNCTIONS[asked.function]
    told = said(of, again, side=asked.function == "share", raised=function.raised)
    return ComputedColumn(
        asked, of, replace(told, interval=told.interval.clipped(function.least, function.most))
    )


def _published(
    source: ReleaseSource, universe: Universe, areas: Areas, cells: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], int]:
    """Sums of the published counts, ``(areas, columns)``, and how many records there are in all."""
    h = source.counts(universe)
    return _sums(h, areas, cells), int(h.count.sum())


def _replicates(
    source: ReleaseSource, universe: Universe, areas: Areas, cells: NDArray[np.bool_]
) -> NDArray[np.int64] | None:
    """Counts of the areas in each replicate, ``(replicates, areas, columns)``; None if the release
    has no replicates."""
    found = [_sums(h, areas, cells) for h in source.replicates(universe)]
    return np.stack(found) if found else None


def _sums(h: Histogram, areas: Areas, cells: NDArray[np.bool_]) -> NDArray[np.int64]:
    inside = areas.histogram(h)
    rows = np.repeat(np.arange(inside.units), np.diff(inside.indptr))
    sums = [
        np.bincount(rows, weights=inside.count * c[inside.cell], minlength=inside.units)
        for c in cells
    ]
    return np.stack(sums, axis=1).astype(np.int64)
