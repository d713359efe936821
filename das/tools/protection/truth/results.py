r"""From the scores of groups to the lines of a study's tables.

Every measure is a ratio of sums over the sampled places, :math:`R = \sum_i y_i / \sum_i x_i`. The
standard error of the sample is that of a ratio under simple sampling without replacement of
:math:`n` of :math:`N` clusters, :math:`\sqrt{(1 - n/N)\, n/(n-1) \sum_i (y_i - R x_i)^2} / \sum_i
x_i`. Over repeats the mean has an interval by Student's law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Closed
from das.model.student import interval
from das.tools.protection.attack import AttackStatus
from das.tools.protection.errors import UseTally
from das.tools.protection.study.page import PUBLISHED, WITH_ALSO, FrontierMean, FrontierRow
from das.tools.protection.truth.scoring import COUNTED, GroupScores, key_of
from das.tools.protection.truth.study import FrontierPoint
from das.tools.protection.uses import TableUse

Floats = NDArray[np.float64]
UNIQUES = key_of("nonmodal unique")
#: Biases are listed by column of uses with at most this many.
MOST_COLUMNS = 16


@dataclass(frozen=True, eq=False, repr=False)
class SampledRatio(Closed):
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
                first.guarantee, first.random, first.tables, len(points), *_place(first), mean, low, high,
                pooled.error(population),
            )
        )  # fmt: skip
    return out


def _place(row: FrontierRow) -> tuple[str, str, str, str, str]:
    return row.measure, row.persons, row.level, row.use, row.column
