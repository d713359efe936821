"""What a region is said to be in the end, under each name that it is measured under: values,
standard errors, intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.publications.detailed.estimation.combine import Z, half_widths, interval
from das.publications.detailed.estimation.forest import Forest
from das.publications.detailed.estimation.layers import (
    Belief,
    KnownTotals,
    Layer,
    LevelSource,
    coarser,
    draw_of,
)
from das.publications.detailed.estimation.wholes import Wholes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: A share of an estimate below which what it leans on else is nothing.
NOTHING = 1e-9
#: The rows of a table of each size, and which answers each is the sum of.
TableRows = Sequence[tuple[tuple[tuple[str, ...], ...], Ints]]


@dataclass(frozen=True, eq=False)
class Estimates:
    """By group and row of its table, ``(groups, rows)``; ``row`` and ``column`` of each group in
    its layer.
    """

    labels: tuple[tuple[str, ...], ...]
    row: Ints
    column: Ints
    value: Floats
    error: Floats
    lower: Floats
    upper: Floats
    matters: NDArray[np.bool_]
    count: Ints | None


def estimates(
    forest: Forest,
    at: int,
    layer: Layer,
    layout: TableRows,
    whole: Wholes | None,
    host: Ints | None = None,
    own: Ints | None = None,
) -> Iterator[Estimates]:
    """The estimates of a layer of the tree, or of its guests. ``host`` has the rows in the tree of
    the regions ``own`` of the layer.
    """
    own = np.arange(len(layer)) if own is None else own
    host = own if host is None else host
    final, special = forest.final[at].rows(host), {(r, c): s for r, c, s in forest.joints(at)}
    tree = forest.layers[at]
    guests = [rows for _, rows, _ in tree.guests] if isinstance(tree, Layer) else []
    alone = ~np.isin(host, np.concatenate([np.zeros(0, dtype=np.int64), *guests]))
    flagged = layer.own[1][own]
    for source, columns, group in layer.parts():
        totals = None if whole is None else whole.totals[at][host]
        yield _totals(source, layer, columns, group[own], own, alone, final, totals)
        for size in range(1, len(source.plan.table.sizes)):
            row, c = np.nonzero(source.measured.size[group[own]] == size)
            if not len(row):
                continue
            column, (labels, member) = columns[c], layout[size]
            total = KnownTotals(*(x[row, column] for x in (final.value, final.work, final.true)))
            keys = list(zip(host[row].tolist(), column.tolist(), strict=True))
            value, error, half, count = _cells(
                source,
                size,
                group[own][row, c],
                total,
                member,
                [special.get(key) for key in keys],
                tree.node_size[host[row], column],
                None if whole is None else [whole.tables[at, r, j] for r, j in keys],
            )
            yield Estimates(
                labels,
                own[row],
                column,
                value,
                error,
                value - half,
                value + half,
                flagged[row, column],
                count,
            )


def _totals(
    source: LevelSource,
    layer: Layer,
    columns: Ints,
    group: Ints,
    own: Ints,
    alone: NDArray[np.bool_],
    final: KnownTotals,
    whole: Ints | None,
) -> Estimates:
    value, work, true = (x[:, columns] for x in (final.value, final.work, final.true))
    m, error = source.measured, np.sqrt(true)
    half = Z * error
    only = np.broadcast_to(m.only[layer.place[columns]], group.shape)
    for mask, kind in ((only, True), (~only & (m.size[group] == 0), False)):
        if mask.any():
            noise = draw_of(source, kind)
            half[mask] = half_widths(noise, error[mask], work[mask] / max(noise.variance, 1e-12))
    lower, upper = value - half, value + half
    known, matters = layer.own
    flagged = matters[own][:, columns]
    r, c = np.nonzero(flagged & alone[:, None])
    if len(r):
        mine = known.rows(own)
        there = r, columns[c]
        lower[r, c], upper[r, c] = _given_size(
            source,
            group[r, c],
            value[r, c],
            work[r, c],
            true[r, c],
            mine.value[there],
            mine.work[there],
            mine.true[there],
        )
    row, column = (x.ravel() for x in np.meshgrid(own, columns, indexing="ij"))
    count = None if whole is None else whole[:, columns].reshape(-1, 1)
    shape = (-1, 1)
    return Estimates(
        (("*",) * len(source.plan.table.columns),),
        row,
        column,
        value.reshape(shape),
        error.reshape(shape),
        lower.reshape(shape),
        upper.reshape(shape),
        flagged.ravel(),
        count,
    )


def _given_size(
    source: LevelSource,
    group: Ints,
    value: Floats,
    work: Floats,
    true: Floats,
    own: Floats,
    own_work: Floats,
    own_true: Floats,
) -> tuple[Floats, Floats]:
    """Exact intervals given the size of the table: what all others say of a total is independent of
    its first stage, and joins the second."""
    m = source.measured
    size = m.size[group]
    vs = np.array(source.plan.table.answers, dtype=np.float64)[size] * source.v2
    share = np.clip(work / own_work, 0.0, 1.0)
    rest = 1 - share
    some = rest > NOTHING
    safe = np.where(some, rest, 1.0)
    others = (value - share * own) / safe
    spread = np.maximum((true - share**2 * own_true) / safe**2, NOTHING * vs)
    a = np.where(some, spread / (spread + vs), 1.0)
    sums, vs = a * source.sums[group] + (1 - a) * np.where(some, others, 0.0), a * vs
    w = vs / (source.v1 + vs)
    low, high = source.windows
    return interval(
        sums + w * (m.first[group] - sums),
        vs * (1 - w),
        np.full(len(w), source.v1),
        low[size],
        high[size],
    )


def _cells(
    source: LevelSource,
    size: int,
    group: Ints,
    total: KnownTotals,
    member: Ints,
    at: Sequence[Belief | None],
    node: NDArray[np.int8],
    whole: Sequence[Ints] | None,
) -> tuple[Floats, Floats, Floats, Ints | None]:
    """The values, standard errors and half widths of tables of one size, ``(groups, rows)``, and
    whole numbers: what the ``total`` makes of the groups' own answers, or what states say ``at``
    some of them, in the cells of the ``node``."""
    table, v2 = source.plan.table, source.v2
    k, many = table.answers[size], member.sum(axis=1).astype(np.float64)
    m = source.measured
    cells = m.values[m.indptr[group][:, None] + np.arange(k)].astype(np.float64)
    cells += ((total.value - cells.sum(axis=1)) / k)[:, None]
    value = cells @ member.T
    contrast = v2 * (many - many**2 / k)
    work, true = (contrast + (many / k) ** 2 * x[:, None] for x in (total.work, total.true))
    count = None if whole is None else np.zeros(value.shape, dtype=np.int64)
    for i, state in enumerate(at):
        rows = member @ coarser(table, int(node[i]), size)
        if state is not None:
            seen = state.seen(rows)
            value[i], work[i], true[i] = seen.mean, np.diag(seen.work), np.diag(seen.true)
        if count is not None and whole is not None:
            count[i] = np.rint(rows @ whole[i])
    error = np.sqrt(np.maximum(true, 0.0))
    half = Z * error
    one = many == 1
    noise = draw_of(source, only=False)
    half[:, one] = half_widths(noise, error[:, one], work[:, one] / v2)
    return value, error, half, count
