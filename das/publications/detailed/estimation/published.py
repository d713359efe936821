"""What a region is said to be in the end, under each name that it is measured under: values,
standard errors, intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.publications.detailed.estimation import combine
from das.publications.detailed.estimation.combine import Z, half_widths, interval
from das.publications.detailed.estimation.forest import Forest, Outline
from das.publications.detailed.estimation.layers import (
    Belief,
    KnownTotals,
    Layer,
    LevelSource,
    coarser,
    draw_of,
)
from das.publications.detailed.model.iterations import Iterations, Kind, Regions

# Whole numbers for all groups of a tree (:mod:`das.publications.detailed.estimation.combine`), from the top down.


@dataclass(eq=False)
class Wholes:
    """For each layer, the ``totals`` ``(regions, columns)``. By layer, region and column, the cells
    of the node's ``tables``."""

    totals: list[Ints] = field(default_factory=list)
    tables: dict[tuple[int, int, int], Ints] = field(default_factory=dict)


def wholes(forest: Forest, top: Wholes | None = None) -> Wholes:
    """The whole numbers of a forest. ``top`` has those of the roots, from the tree above."""
    out = Wholes()
    first = (
        np.maximum(np.rint(np.nan_to_num(forest.final[0].value)), 0).astype(np.int64)
        if top is None
        else top.totals[0]
    )
    out.totals.append(_summed(forest, 0, first.copy()))
    for at, parent in enumerate(forest.parents):
        values = np.nan_to_num(forest.final[at + 1].value)
        totals = np.zeros(forest.final[at + 1].value.shape, dtype=np.int64)
        for row in range(len(forest.layers[at])):
            here = slice(*np.searchsorted(parent, [row, row + 1]))
            totals[here] = combine.nearest(values[here], out.totals[at][row])
        out.totals.append(_summed(forest, at + 1, totals))
    if top is not None:
        out.tables |= top.tables
    special = [{(r, c): s for r, c, s in forest.joints(at)} for at in range(len(forest.layers))]
    for at, layer in enumerate(forest.layers):
        if at:
            _families(forest, at - 1, out, special[at])
        if not isinstance(layer, Outline):
            for row, c in np.argwhere(layer.node_size > 0).tolist():
                if (at, row, c) not in out.tables:
                    cells = _member_cells(forest, at, row, c, special[at])[:, None]
                    out.tables[at, row, c] = combine.nearest(cells, out.totals[at][row, c : c + 1])[
                        :, 0
                    ]
    return out


def _families(
    forest: Forest, at: int, out: Wholes, special: Mapping[tuple[int, int], Belief]
) -> None:
    """The cells of children in families that add up in cells."""
    parents, children = forest.layers[at], forest.layers[at + 1]
    for row, c in np.argwhere(forest.family[at] > 0).tolist():
        size = int(forest.family[at][row, c])
        members = range(*np.searchsorted(forest.parents[at], [row, row + 1]))
        own = [_member_cells(forest, at + 1, m, c, special) for m in members]
        to = [coarser(children.table, int(children.node_size[m, c]), size) for m in members]
        cells = (
            coarser(parents.table, int(parents.node_size[row, c]), size) @ out.tables[at, row, c]
        )
        rounded = combine.families(
            np.stack([a @ x for a, x in zip(to, own, strict=True)]),
            out.totals[at + 1][members.start : members.stop, c],
            np.rint(cells).astype(np.int64),
        )
        for m, x, a, coarse in zip(members, own, to, rounded, strict=True):
            out.tables[at + 1, m, c] = combine.refined(x, np.argmax(a, axis=0), coarse)


def _member_cells(
    forest: Forest, at: int, row: int, c: int, special: Mapping[tuple[int, int], Belief]
) -> NDArray[np.float64]:
    if (row, c) in special:
        return special[row, c].mean
    own = forest.layers[at].state(row, c).mean
    return np.asarray(own + (forest.final[at].value[row, c] - own.sum()) / len(own))


def _summed(forest: Forest, at: int, totals: Ints) -> Ints:
    """Regional groups that are sums, as sums."""
    measured = forest.layers[at].measured
    for whole, parts in forest.sums:
        if measured[[whole, *parts]].all():
            totals[:, whole] = totals[:, list(parts)].sum(axis=1)
    return totals


# Regions of different types that are the same blocks, from the list of blocks alone.


def same(regions: Regions, kind: str, other: str) -> NDArray[np.int64]:
    """For each region of a ``kind``, the region of the ``other`` kind with exactly its blocks, or
    -1."""
    one, two = regions.of_block[kind], regions.of_block[other]
    many = len(regions.ids[other])
    out = np.full(len(regions.ids[kind]), -1, dtype=np.int64)
    both = (one >= 0) & (two >= 0)
    pair, blocks = np.unique(
        one[both].astype(np.int64) * max(many, 1) + two[both], return_counts=True
    )
    a, b = np.divmod(pair, max(many, 1))
    in_one = np.bincount(one[one >= 0], minlength=len(out))
    in_two = np.bincount(two[two >= 0], minlength=many)
    equal = (blocks == in_one[a]) & (blocks == in_two[b])
    out[a[equal]] = b[equal]
    return out


def hosts(
    regions: Regions, order: tuple[str, ...], guests: tuple[str, ...]
) -> Mapping[str, tuple[NDArray[np.int8], NDArray[np.int64]]]:
    """The host of each region of each type among ``guests``: the place of the host's type in
    ``order``, or -1, and its number. If there are several hosts, the first in the order. Hosts come
    before their guests there, and are not guests themselves."""
    out: dict[str, tuple[NDArray[np.int8], NDArray[np.int64]]] = {}
    for guest in guests:
        kind = np.full(len(regions.ids[guest]), -1, dtype=np.int8)
        number = np.full(len(kind), -1, dtype=np.int64)
        for i, host in enumerate(order):
            if host == guest:
                break
            if host not in regions.ids:
                continue
            found = same(regions, guest, host)
            free = (kind < 0) & (found >= 0)
            if host in out:
                free[free] = out[host][0][found[free]] < 0
            kind[free], number[free] = i, found[free]
        out[guest] = kind, number
    return out


# Regional groups that are sums of detailed ones, read off the code tables.
#
# Each person has one code of ethnicity, so iterations of ethnicity without a common code have nobody
# in common: a regional one whose codes are those of some detailed ones, each code in one of them, is
# their sum. Codes of race make no such sums: somebody of two of them is in a regional group "alone",
# and in no detailed group "alone".


@dataclass(frozen=True)
class Sum:
    """The iteration ``whole`` is the sum of ``parts``, by their numbers."""

    whole: int
    parts: tuple[int, ...]


def sums(iterations: Iterations) -> tuple[Sum, ...]:
    """The sums of detailed groups that are measured everywhere. If these do not cover a regional
    group, the sums of all that are not ``coarse_only``."""
    ethnic = iterations.kind == Kind.ETHNICITY
    detailed = np.flatnonzero((iterations.level == 2) & ethnic)
    out = []
    for whole in np.flatnonzero((iterations.level == 1) & ethnic).tolist():
        common = detailed[~iterations.detailed_only[detailed] & ~iterations.coarse_only[detailed]]
        fine = detailed[~iterations.coarse_only[detailed]]
        found = _cover(iterations, whole, common) or _cover(iterations, whole, fine)
        if found:
            out.append(Sum(whole, found))
    return tuple(out)


def bundles(every: Sequence[Sum]) -> list[list[int]]:
    """The iterations of sums, bundled where sums have iterations in common."""
    out: list[set[int]] = []
    for one in every:
        found = {one.whole, *one.parts}
        for other in [o for o in out if o & found]:
            found |= other
            out.remove(other)
        out.append(found)
    return [sorted(found) for found in out]


def _cover(iterations: Iterations, whole: int, among: NDArray[np.int64]) -> tuple[int, ...]:
    """The iterations whose codes all belong to the whole, if each code of the whole is in exactly
    one of them; otherwise none."""
    wanted = _codes(iterations, whole)
    inside = [i for i in among.tolist() if (codes := _codes(iterations, i)) and codes <= wanted]
    covered = sorted(c for i in inside for c in _codes(iterations, i))
    return tuple(inside) if covered == sorted(wanted) else ()


def _codes(iterations: Iterations, number: int) -> set[int]:
    return set(iterations.race_code[iterations.member == number].tolist())


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: A share of an estimate below which what it leans on else is nothing.
NOTHING = 1e-9
#: The rows of a table of each size, and which answers each is the sum of.
TableRows = Sequence[tuple[tuple[tuple[str, ...], ...], Ints]]


@dataclass(frozen=True, eq=False)
class Estimates:
    """By group and row of its table, ``(groups, rows)``; ``row`` and ``column`` of each group in
    its layer."""

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
    the regions ``own`` of the layer."""
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
