r"""Errors of the noisy measurements and of the published counts, by level, query and size of the true count.

For each level and query, over all (unit, answer) pairs with error :math:`e = \text{published} - \text{true}`:
MAE, RMSE, bias :math:`\bar e`, quantiles of :math:`|e|`, and over all pairs
:math:`1 - \sum |e| / 2N` with :math:`N` the true total of the level (JASON JSR-19-2F, section 6.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.evaluate.spread import NONE, Spread
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.result import ErrorRow
from das.model.schema import Schema
from das.model.spine import Spine

#: Classes of the true count: their names, and the first count of each.
CLASSES = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")
_FIRST = np.array([0, 1, 10, 100, 1000, 10000])
#: Values handled at once: small enough to stay near the processor.
CHUNK = 1 << 19
MEDIAN, HIGH = Fraction(1, 2), Fraction(19, 20)
REASON = "errors of the published counts are measured against the truth, for confidential/ only"


def evaluate(
    truth: Mapping[str, Confidential[Histogram]],
    published: Mapping[str, Histogram],
    noisy: MeasurementSource,
    spine: Spine,
    schema: Schema,
) -> list[ErrorRow]:
    """Rows of ``errors.csv``: for each level, each measured query, and ``total`` where it was not measured.

    Source ``nmf`` counts the units that were measured (finite variance); where none was, the row is absent.
    Only classes of the true count that occur have rows. Streams over batches of units.

    Raises:
        InputError: a level that is missing on one side, or histograms of other sizes than the spine.
    """
    rows: list[ErrorRow] = []
    for level in spine.levels:
        if level not in truth or level not in published:
            raise InputError(f"level {level!r} has no true or no published histogram", where="evaluation")
        true, out = truth[level].open(REASON), published[level]
        if not true.units == out.units == spine.units(level) or not true.cells == out.cells == schema.cells:
            raise InputError(f"the histograms of {level!r} do not fit its units and the schema", where="evaluation")
        measured = noisy.queries(level)
        for name in measured if "total" in measured else ("total", *measured):
            source = noisy if name in measured else None
            rows += _rows(level, schema.query(name), true, out, source, spine)
    return rows


def _rows(
    level: str, query: Query, true: Histogram, out: Histogram, noisy: MeasurementSource | None, spine: Spine
) -> Iterator[ErrorRow]:
    tallies = {"nmf": _Tally(), "postprocessed": _Tally()}
    for start, stop in spine.batches(level, query.answers):
        if noisy is not None:
            measurement = noisy.read(level, query.name, start, stop)
            values, is_measured = measurement.values, np.isfinite(measurement.variance)
        for a, b in _chunks(start, stop, query.answers):
            expected = true.rows(a, b).answer(query)
            tallies["postprocessed"].add(out.rows(a, b).answer(query), expected)
            if noisy is not None:
                here = is_measured[a - start : b - start]
                seen = slice(None) if here.all() else here
                tallies["nmf"].add(values[a - start : b - start][seen], expected[seen])
    persons = int(true.count.sum())
    for source, tally in tallies.items():
        yield from tally.rows(level, query.name, source, persons)


def _chunks(start: int, stop: int, answers: int) -> Iterator[tuple[int, int]]:
    units = max(1, CHUNK // answers)
    for a in range(start, stop, units):
        yield a, min(a + units, stop)


class _Tally:
    """Errors of one query at one level, by class of the true count."""

    def __init__(self) -> None:
        self.all = NONE
        self.classes = [NONE] * len(CLASSES)

    def add(self, values: NDArray[np.int64], true: NDArray[np.int64]) -> None:
        """Nearly all true counts of a block are 0, so class 0 is what the other classes leave over."""
        error = (values - true).ravel()
        every = Spread.of(error)
        at = np.flatnonzero(true)
        error, size = error[at], np.searchsorted(_FIRST, true.ravel()[at], side="right") - 1
        rest = every
        for i in range(1, len(CLASSES)):
            if (part := Spread.of(error[size == i])).n:
                self.classes[i] = self.classes[i].merge(part)
                rest = rest.without(part)
        self.classes[0] = self.classes[0].merge(rest)
        self.all = self.all.merge(every)

    def rows(self, level: str, query: str, source: str, persons: int) -> Iterator[ErrorRow]:
        for name, spread in (("all", self.all), *zip(CLASSES, self.classes, strict=True)):
            if spread.n:
                tvd = 1 - spread.l1 / (2 * persons) if name == "all" and persons else None
                yield ErrorRow(
                    level,
                    query,
                    source,
                    name,
                    spread.n,
                    spread.mae,
                    spread.rmse,
                    spread.bias,
                    float(spread.quantile(MEDIAN)),
                    float(spread.quantile(HIGH)),
                    float(spread.largest),
                    tvd,
                )


@dataclass(frozen=True)
class Headline:
    """Mean absolute error of the total at one level; ``nmf`` is ``None`` where it was not measured."""

    level: str
    units: int
    nmf: float | None
    postprocessed: float


def headline(rows: Sequence[ErrorRow]) -> tuple[Headline, ...]:
    """What the end of a run prints: the error of the total at each level, in the order of the rows."""
    totals = {(r.level, r.source): r for r in rows if r.query == "total" and r.bin == "all"}
    out = []
    for (level, source), row in totals.items():
        if source == "postprocessed":
            nmf = totals.get((level, "nmf"))
            out.append(Headline(level, row.n, nmf.mae if nmf else None, row.mae))
    return tuple(out)
