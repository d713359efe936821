r"""Bounds of every level from counts that are known exactly, of nested queries at any levels.

Let queries :math:`Q_1, Q_2, \dots` be known for the units of levels :math:`\ell_1, \ell_2, \dots`,
each pair nested: the answers of one are sums of those of the other. A query that is known at a
level is known above it, by adding up. So at each level the finest query that is known there or
below contains all that is known. Its groups are those of the bounds; lower and upper bound are
equal.

*Every problem is feasible.* Going down, fewer queries are known, so the finest known query of the
children, :math:`Q`, sums that of their parent. The parent's published histogram p has the parent's
known sums. Hence for each group g of Q it has the sum of what the children must hold of it,
:math:`\sum_{k \in g} p_k = \sum_c y_{cg}`. A table with these marginals exists for every group by
itself, and an integer one if the marginals are integers (fill it from a corner). So no level needs
to consider the levels below it. The rounding stays a network: within each child the groups of Q and
the sums over them are one more partition of the chain (:mod:`das.solve.network`).

*Why no others.* Two crossing queries that are known for one unit are two families of sums. With the
parent's cells they are not laminar: they are three marginals of one table, whose integer points no
network describes. They are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from das.errors import InputError
from das.geography.bounds import bounds, unlimited
from das.model.level_bounds import LevelBounds
from das.model.limits import Ints, Limits, add_up
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

KnownQuery = tuple[str, Query, Ints]


def crossing(queries: Sequence[Query]) -> tuple[Query, Query] | None:
    """Two of the queries such that neither sums the other, if there are any."""
    return next(
        (
            (a, b)
            for i, a in enumerate(queries)
            for b in queries[:i]
            if not (a.sums(b) or b.sums(a))
        ),
        None,
    )


def exact_bounds(
    schema: Schema, spine: Spine, known: Sequence[KnownQuery]
) -> dict[str, LevelBounds]:
    """``known``: level, query, and its answers ``(units, answers)``. Raises :class:`InputError`
    where queries cross, or what is known of one contradicts another."""
    if (odd := crossing([q for _, q, _ in known])) is not None:
        raise InputError(
            f"{odd[0].name!r} and {odd[1].name!r} are both known, and cross", where="constraints"
        )
    out: dict[str, LevelBounds] = {}
    finest: tuple[Query, Ints] | None = None
    for depth in range(len(spine) - 1, -1, -1):
        level, units = spine.levels[depth], len(spine.codes[depth])
        if finest is not None:
            query, values = finest
            finest = (
                query,
                add_up(values.__getitem__, query.answers, spine.parent[depth + 1], units),
            )
        for query, values in [(q, v) for lv, q, v in known if lv == level]:
            if finest is None:
                finest = query, values
            else:
                fine, coarse = (
                    ((query, values), finest)
                    if finest[0].sums(query)
                    else (finest, (query, values))
                )
                if not np.array_equal(_summed(fine, coarse[0]), coarse[1]):
                    raise InputError(
                        f"the known counts of {fine[0].name!r} and {coarse[0].name!r} contradict"
                        " each other",
                        where=f"constraints, {level}",
                    )
                finest = fine
        out[level] = _at(schema, units, finest)
    return {level: out[level] for level in spine.levels}


def known_bounds(
    schema: Schema, spine: Spine, known: Sequence[KnownQuery], limits: Limits | None = None
) -> dict[str, LevelBounds]:
    """Bounds of every level from everything known: counts of queries, and bounds on the dwellings
    of the lowest units (:func:`das.geography.bounds.lowest`).

    With bounds on dwellings only totals can be known, and these at the lowest level, because totals
    above are their sums. Raises :class:`InputError`."""
    if any(query.name != "total" for _, query, _ in known):
        if limits is not None:
            raise InputError(
                "with bounds on dwellings only totals can be known exactly", where="constraints"
            )
        return exact_bounds(schema, spine, known)
    totals = {level: counts[:, 0] for level, _, counts in known}
    lowest = max(totals, key=spine.index, default=None)
    return bounds(schema, spine, limits, None if lowest is None else totals[lowest], lowest)


def _summed(fine: tuple[Query, Ints], coarse: Query) -> Ints:
    home = np.zeros(fine[0].answers, dtype=np.intp)
    home[fine[0].index] = coarse.index
    out = np.zeros((coarse.answers, len(fine[1])), dtype=np.int64)
    np.add.at(out, home, fine[1].T)
    return out.T


def _at(schema: Schema, units: int, known: tuple[Query, Ints] | None) -> LevelBounds:
    if known is None:
        return LevelBounds(
            np.zeros(schema.cells, dtype=np.intp), unlimited(units, 1), None, schema.possible
        )
    query, values = known
    return LevelBounds(
        query.index, Limits.of(values, values), values.sum(axis=1), schema.possible, exact=True
    )
