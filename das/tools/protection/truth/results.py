r"""From the scores of groups to the lines of a study's tables.

Every measure is a ratio of sums over the sampled places, :math:`R = \sum_i y_i / \sum_i x_i`. The
standard error of the sample is that of a ratio under simple sampling without replacement of
:math:`n` of :math:`N` clusters, :math:`\sqrt{(1 - n/N)\, n/(n-1) \sum_i (y_i - R x_i)^2} / \sum_i
x_i`. Over repeats the mean has an interval by Student's law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.evaluate.comparison import interval
from das.files import messages
from das.model.frozen import Frozen, NoRepr
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.tools.protection.attack import AttackStatus, Reconstruction, reconstruct
from das.tools.protection.attack.reidentification import ReidentificationScore, reidentify
from das.tools.protection.published import ExpectedGroups, LevelLines, ProtectedTables, TableSet
from das.tools.protection.study.page import PUBLISHED, WITH_ALSO, FrontierMean, FrontierRow
from das.tools.protection.truth.study import FrontierPoint, IntruderOptions
from das.tools.protection.uses import (
    LineTally,
    TableUse,
    UsesAtLevels,
    UseTally,
    line_tallies,
    use_tallies,
)

# What a study measures in a group of sampled places: the scores of the attack, the errors of uses,
# what is withheld. It opens the records; everything it returns stays in the study's folder.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: The numbers of a score that add up, in order.
COUNTED = ("persons", "agree", "putative", "confirmed", "modal", "proportional", "leave_one_out")


@dataclass(frozen=True, eq=False, repr=False)
class GroupScores(NoRepr, Frozen):
    """Of some sampled places (*clusters*): their numbers at the sampled level, ``(clusters,)``.
    ``keys``: the group of persons, the size of their unit, and ``unique`` for those in units whose
    records the tables determine; ``scores``: the numbers of :data:`COUNTED`, ``(clusters, keys,
    7)``. ``status``: lowest units with persons by :class:`AttackStatus`, ``(clusters, statuses)``.
    ``varied``: the sum over persons of the variability, in percent, and the persons that it was
    measured for, ``(clusters, 2)``; ``seconds`` of the attack, ``(clusters,)``."""

    clusters: Ints
    keys: tuple[str, ...]
    scores: Floats
    status: Ints
    varied: Floats
    seconds: Floats
    uses: tuple[UseTally, ...]
    lines: tuple[LineTally, ...]


def key_of(group: str, size: str = "all", unique: bool = False) -> str:
    """The key of a score.

    >>> key_of("nonmodal unique"), key_of("all", "1-9", True)
    ('nonmodal unique', 'all; 1-9; unique')"""
    return "; ".join([group, *[size] * (size != "all"), *["unique"] * unique])


# --- the parts of protected tables


def part(published: ProtectedTables, level: str, units: Ints) -> dict[str, NDArray[Any]]:
    """Some units of ``level`` and all below them, as arrays for a file; of levels above, only the
    ancestors."""
    spine = published.spine
    kept = dict(zip(spine.levels, spine.kept(level, units), strict=True))
    out: dict[str, NDArray[Any]] = {}
    for name, lines in published.levels.items():
        some = lines.some(kept[name])
        arrays = {"lower": some.lower, "upper": some.upper, "value": some.value}
        out |= messages.named(name, {k: v.astype(np.int32) for k, v in arrays.items()})
        out[f"{name}:price"] = np.array(lines.price)
    lowest = kept[spine.levels[-1]]
    if published.records is not None:
        mine = published.records.some(lowest)
        out |= messages.named("records", mine.to_arrays())
    if (known := published.expected) is not None:
        expected = {"group": known.group, "count": known.count[lowest]}
        out |= messages.named("expected", expected)
    return out


def part_of(
    arrays: Mapping[str, NDArray[Any]], spine: Spine, level: str, units: Ints, tables: TableSet
) -> ProtectedTables:
    """The inverse of :func:`part`; ``spine`` is the whole tree."""
    levels = {}
    for name in tables.tables:
        of = messages.parted(arrays, name)
        if of:
            lower, upper, value = (of[k].astype(np.int64) for k in ("lower", "upper", "value"))
            levels[name] = LevelLines(lower, upper, value, tuple(of["price"].tolist()))
    records = messages.parted(arrays, "records")
    expected = messages.parted(arrays, "expected")
    return ProtectedTables(
        spine.restricted(level, units),
        tables,
        levels,
        Histogram.of_arrays(records) if records else None,
        ExpectedGroups(**expected) if expected else None,
    )


# --- scores


def measured(
    published: ProtectedTables,
    truth: Histogram,
    level: str,
    clusters: Ints,
    uses: UsesAtLevels,
    intruder: IntruderOptions,
) -> GroupScores:
    """Attack protected tables of some units of ``level``, and compare what is found with the truth;
    ``truth`` is of the lowest units below them."""
    found = reconstruct(published, intruder.reconstruction)
    spine = published.spine
    extents = [spine.extent(level, i)[spine.levels[-1]] for i in range(len(clusters))]
    scored = [_scores(found, truth, published, level, i, intruder) for i in range(len(clusters))]
    persons = truth.totals()
    return GroupScores(
        clusters,
        tuple(key_of(s.group, s.size, s.among) for s in scored[0]),
        np.array([[[getattr(s, n) for n in COUNTED] for s in each] for each in scored], float),
        np.array(
            [
                np.bincount(found.status[a:b][persons[a:b] > 0], minlength=len(AttackStatus))
                for a, b in extents
            ]
        ),
        np.array([_varied(found, persons, a, b) for a, b in extents]),
        np.array([float(found.seconds[a:b].sum()) for a, b in extents]),
        use_tallies(uses, published, found.histogram, truth, level),
        line_tallies(uses, published, truth, level),
    )


def _scores(
    reconstruction: Reconstruction,
    truth: Histogram,
    published: ProtectedTables,
    level: str,
    unit: int,
    intruder: IntruderOptions,
) -> tuple[ReidentificationScore, ...]:
    """Those of one unit of ``level``."""
    spine = published.spine
    start, stop = spine.extent(level, unit)[spine.levels[-1]]
    return reidentify(
        reconstruction.histogram.rows(start, stop),
        truth.rows(start, stop),
        spine.subtree(level, unit),
        published.tables.schema,
        known=intruder.known,
        sensitive=intruder.sensitive,
        among=reconstruction.unique[start:stop],
    ).scores


def _varied(reconstruction: Reconstruction, persons: Ints, start: int, stop: int) -> Floats:
    known = ~np.isnan(reconstruction.variability[start:stop])
    weight = persons[start:stop][known]
    return np.array(
        [float((reconstruction.variability[start:stop][known] * weight).sum()), weight.sum()]
    )


UNIQUES = key_of("nonmodal unique")
#: Biases are listed by column of uses with at most this many.
MOST_COLUMNS = 16


@dataclass(frozen=True, eq=False, repr=False)
class SampledRatio(NoRepr):
    """A measure: its name, what it is of, and numerator and denominator of each cluster,
    ``(clusters,)``, in the unit of the measure."""

    measure: str
    top: Floats
    bottom: Floats
    persons: str = ""
    level: str = ""
    use: str = ""
    column: str = ""

    def value(self) -> float | None:
        below = float(self.bottom.sum())
        return float(self.top.sum()) / below if below > 0 else None

    def error(self, population: int) -> float | None:
        """The standard error of a sample from ``population`` clusters."""
        n, ratio = len(self.top), self.value()
        if ratio is None or n < 2 or n >= population:
            return None
        spread = float(((self.top - ratio * self.bottom) ** 2).sum())
        below = float(self.bottom.sum())
        return sqrt((1 - n / population) * n / (n - 1) * spread) / below


def ratios(groups: Sequence[GroupScores], uses: Sequence[TableUse]) -> list[SampledRatio]:
    """Every measure of a point."""
    return [
        *_of_scores(groups),
        *_of_solutions(groups),
        *_of_uses(groups, uses),
        *_of_lines(groups),
    ]


def _of_scores(groups: Sequence[GroupScores]) -> Iterator[SampledRatio]:
    """In percent."""
    scores = np.concatenate([g.scores for g in groups])
    at = {name: scores[:, :, i] for i, name in enumerate(COUNTED)}
    for k, key in enumerate(groups[0].keys):
        persons, found = at["persons"][:, k], at["putative"][:, k]
        for name in ("agree", "putative", "confirmed"):
            measure = "agreement" if name == "agree" else name
            yield SampledRatio(measure, 100 * at[name][:, k], persons, key)
        above = at["confirmed"][:, k] - at["leave_one_out"][:, k]
        yield SampledRatio("above baseline", 100 * above, persons, key)
        yield SampledRatio("precision", 100 * at["confirmed"][:, k], found, key)
        for name in ("modal", "proportional", "leave_one_out"):
            measure = f"precision, {name.replace('_', '-')}"
            yield SampledRatio(measure, 100 * at[name][:, k], found, key)


def _of_solutions(groups: Sequence[GroupScores]) -> Iterator[SampledRatio]:
    status = np.concatenate([g.status for g in groups]).astype(float)
    units = status.sum(axis=1)
    unique = status[:, AttackStatus.UNIQUE]
    yield SampledRatio("units determined", 100 * unique, units)
    guessed = status[:, [s for s in AttackStatus if s.guessed]].sum(axis=1)
    yield SampledRatio("units without a guess", 100 * (units - guessed), units)
    late = status[:, [AttackStatus.TIME_OUT, AttackStatus.GAP]].sum(axis=1)
    yield SampledRatio("units at the time limit", 100 * late, units)
    varied = np.concatenate([g.varied for g in groups])
    yield SampledRatio("variability", varied[:, 0], varied[:, 1])
    yield SampledRatio("seconds a unit", np.concatenate([g.seconds for g in groups]), units)


def _of_uses(groups: Sequence[GroupScores], uses: Sequence[TableUse]) -> Iterator[SampledRatio]:
    named = {u.name: u for u in uses}
    for i, first in enumerate(groups[0].uses):
        mine = [g.uses[i] for g in groups]
        yield from _of_use(first, mine, named[first.use])


def _of_use(first: UseTally, parts: Sequence[UseTally], use: TableUse) -> Iterator[SampledRatio]:
    def joined(name: str) -> Floats:
        return np.concatenate([getattr(p, name) for p in parts]).astype(float)

    units, columns = joined("units"), len(use.labels)
    at = {"level": first.level, "use": first.use}
    every = units * columns
    yield SampledRatio("error", joined("absolute").sum(axis=1), every, **at)
    yield SampledRatio("squared error", joined("square").sum(axis=1), every, **at)
    yield SampledRatio("withheld", 100 * joined("withheld").sum(axis=1), every, **at)
    if columns <= MOST_COLUMNS:
        signed, true = joined("signed"), joined("true")
        for j, label in enumerate(use.labels):
            yield SampledRatio("bias", signed[:, j], units, column=label, **at)
            yield SampledRatio("bias, percent", 100 * signed[:, j], true[:, j], column=label, **at)


def _of_lines(groups: Sequence[GroupScores]) -> Iterator[SampledRatio]:
    for i, first in enumerate(groups[0].lines):
        lines, withheld, positive, lost = (
            np.concatenate([getattr(g.lines[i], name) for g in groups]).astype(float)
            for name in ("lines", "withheld", "positive", "positive_withheld")
        )
        yield SampledRatio("lines withheld", 100 * withheld, lines, level=first.level)
        yield SampledRatio("positive lines withheld", 100 * lost, positive, level=first.level)


# --- rows


def rows(
    point: FrontierPoint, measures: Sequence[SampledRatio], population: int
) -> list[FrontierRow]:
    """The lines of one point."""
    m = point.method
    label = point.title if m.label == m.name else m.label
    head = (point.title, point.number, label, point.setting.label, m.name, m.guarantee.value)
    own = WITH_ALSO if point.also else PUBLISHED
    return [
        FrontierRow(
            *head,
            "yes" if m.random else "no",
            own,
            point.repeat,
            r.measure,
            r.persons,
            r.level,
            r.use,
            r.column,
            r.value(),
            float(r.bottom.sum()),
            r.error(population),
        )
        for r in measures
    ]


def means(
    points: Sequence[FrontierPoint], measures: Sequence[Sequence[SampledRatio]], population: int
) -> list[FrontierMean]:
    """The lines of one setting, over its repeats."""
    each = [rows(p, m, population) for p, m in zip(points, measures, strict=True)]
    out = []
    for same, ratio in zip(zip(*each, strict=True), zip(*measures, strict=True), strict=True):
        first = same[0]
        known = [r.value for r in same if r.value is not None]
        mean = sum(known) / len(known) if known else None
        low, high = interval(known) if len(known) > 1 else (None, None)
        pooled = SampledRatio(
            first.measure, sum(r.top for r in ratio), sum(r.bottom for r in ratio)
        )
        out.append(
            FrontierMean(
                first.curve, first.setting, first.label, first.named, first.method,
                first.guarantee, first.random, first.tables, len(points), first.measure, first.persons,
                first.level, first.use, first.column, mean, low, high,
                pooled.error(population),
            )
        )  # fmt: skip
    return out
