r"""Errors of the published tables, column by column, in the measures of the Bureau's Detailed Summary Metrics.

For one column and all geographies of a kind, true :math:`t_i`, published :math:`p_i`, :math:`e_i = p_i - t_i`:
N, MAE :math:`\overline{|e|}`, RMSE :math:`(\overline{e^2})^{1/2}`, CV :math:`100\,\mathrm{RMSE}/\bar t`, mean error
:math:`\bar e`; MAPE and MALPE are the means of :math:`|r_i|` and :math:`r_i`, with the percent difference
:math:`r_i = 100\, e_i/t_i`, 0 where both are 0, and :math:`100\, e_i/\tfrac12(t_i + p_i) = 200` where only
:math:`t_i` is; and how many have :math:`2 \le |r_i| \le 5`, :math:`|r_i| > 5`, :math:`|e_i| > 200`.
Source: the Bureau's release of the program that made its tables (recon_replication, ``metrics/metrics.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.error_rows import TableRow
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.tables import Table

Ints = NDArray[np.int64]

REASON = "the published tables are compared with those of the truth, for confidential/ only"
#: Size classes of a characteristic: by its own true count.
SIZES = ("0-9", "10-99", "100+")
_SIZE_FIRST = np.array([0, 10, 100])
#: Size classes of the total: the Bureau's for counties and minor civil divisions, and one cut more for places.
_POPULATION = (0, 1000, 5000, 10000, 50000, 100000)
_PLACE = (0, 500, 1000, 5000, 10000, 50000, 100000)
#: Values of a table held at once.
BATCH = 1 << 22


def evaluate_tables(
    truth: Mapping[str, Confidential[Histogram]],
    published: Mapping[str, Histogram],
    spine: Spine,
    tabulated: Sequence[Table],
    areas: Sequence[Areas] = (),
) -> list[TableRow]:
    """Rows of ``tables.csv``: every column of the tables ``tabulated``, for each level of the spine and each kind of
    area."""
    rows: list[TableRow] = []
    root, lowest = spine.levels[0], spine.levels[-1]
    added_up = [tuple(a.histogram(h) for h in (truth[lowest].open(REASON), published[lowest])) for a in areas]
    for table in tabulated:
        whole = tuple(table.values(h)[0] for h in (truth[root].open(REASON), published[root]))
        for level in spine.levels:
            metrics = _Metrics(table, level, (whole[0], whole[1]))
            for true, out in _batches(table, truth[level].open(REASON), published[level]):
                metrics.add(true, out)
            rows += metrics.rows()
        for kind, (true_of, out_of) in zip(areas, added_up, strict=True):
            metrics = _Metrics(table, kind.kind, (whole[0], whole[1]))
            metrics.add(table.values(true_of), table.values(out_of))
            rows += metrics.rows()
    return rows


def _batches(table: Table, true: Histogram, out: Histogram) -> Iterator[tuple[Ints, Ints]]:
    step = max(1, BATCH // len(table.columns))
    for a in range(0, true.units, step):
        b = min(a + step, true.units)
        yield table.values(true.rows(a, b)), table.values(out.rows(a, b))


class _Metrics:
    """Sums over the geographies of a kind, ``(measures, columns, classes)``, in the order of :func:`_summed`."""

    def __init__(self, table: Table, geography: str, whole: tuple[Ints, Ints]) -> None:
        self.table, self.geography, self.whole = table, geography, whole
        self.n = 0
        self.first = np.array(_PLACE if geography == "Place" else _POPULATION)
        self.sums = np.zeros((MEASURES, len(table.columns), len(SIZES)))
        self.by_population = np.zeros((MEASURES, 1, len(self.first)))
        self.shares = np.zeros(len(table.columns))

    def add(self, true: Ints, out: Ints) -> None:
        """``(geographies, columns)``. Where both are 0 nothing but their number counts."""
        self.n += len(true)
        at = np.flatnonzero((true != 0) | (out != 0))
        column, t, e = at % true.shape[1], true.ravel()[at], (out - true).ravel()[at]
        self.sums += _summed(column, t, e, _SIZE_FIRST, true.shape[1])
        t, e = true[:, 0], (out - true)[:, 0]
        self.by_population += _summed(np.zeros(len(t), dtype=np.int64), t, e, self.first, 1)
        with np.errstate(divide="ignore", invalid="ignore"):  # a column that nobody is in has no shares
            self.shares += np.abs(out / self.whole[1] - true / self.whole[0]).sum(axis=0)

    def rows(self) -> Iterator[TableRow]:
        sums = self.sums.copy()
        sums[0, :, 0] = self.n - sums[0, :, 1:].sum(axis=1)  # of class 0-9, not all were seen
        for j in range(len(self.table.columns)):
            shares = float(self.shares[j]) if np.isfinite(self.shares[j]) else None
            yield self._row(j, "all", sums[:, j].sum(axis=1), shares)
            yield from (self._row(j, size, sums[:, j, i]) for i, size in enumerate(SIZES) if sums[0, j, i])
            if j == 0:  # the total
                low = self.first.tolist()
                names = [*(f"{a}-{b - 1}" for a, b in pairwise(low)), f"{low[-1]}+"]
                found = self.by_population[:, 0]
                yield from (self._row(0, f"total {s}", found[:, i]) for i, s in enumerate(names) if found[0, i])

    def _row(self, j: int, size: str, sums: NDArray[np.float64], shares: float | None = None) -> TableRow:
        n = sums[0]
        absolute, square, percent, algebraic, true, error = (sums[1:7] / n).tolist()
        two_to_five, over_five, over_200 = (int(x) for x in sums[7:])
        return TableRow(
            self.geography, self.table.name, self.table.columns[j], self.table.said(j), size, int(n), absolute,
            square**0.5, percent, 100 * square**0.5 / true if true else None, algebraic, error, two_to_five,
            over_five, over_200, shares,
        )  # fmt: skip


#: How many sums :func:`_summed` makes.
MEASURES = 10


def _summed(column: Ints, t: Ints, e: Ints, first: Ints, columns: int) -> NDArray[np.float64]:
    """By column and class of ``t``: N; sums of |e|, e^2, |r|, r, t, e; how many r are from 2 to 5 percent, how many
    beyond 5, how many e beyond 200."""
    key = column * len(first) + np.searchsorted(first, t, side="right") - 1
    r = np.where(t > 0, 100 * e / np.maximum(t, 1), 200.0 * (e > 0))
    size = np.abs(r)
    weights = (
        None,
        np.abs(e),
        e.astype(np.float64) ** 2,
        size,
        r,
        t,
        e,
        (size >= 2) & (size <= 5),
        size > 5,
        np.abs(e) > 200,
    )
    sums = [np.bincount(key, weights=w, minlength=columns * len(first)) for w in weights]
    return np.array(sums, dtype=np.float64).reshape(MEASURES, columns, len(first))
