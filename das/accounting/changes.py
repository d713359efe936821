r"""The privacy loss of a single change of one record: of an attribute, or of its place.

A record that keeps its place and changes some attributes does not change any query that sums over
these attributes. A query that distinguishes two values of one of them changes in at most two
answers, by 1 each, at every level of the tree. A record that moves within a unit of level :math:`L`
and keeps its attributes changes no answer at :math:`L` or above. Below, each query changes in one
answer of the unit that the record left and in one of the unit that it came to. So either change is
the replacement of one record in fewer draws, with two answers in each:

.. math:: \rho = \sum_d 2/(2\sigma_d^2) \qquad \text{or, for the geometric mechanism,} \qquad
          \varepsilon = \sum_d 2/b_d,

with sums over the draws that the change touches, and exact composition over the same draws. Between
bounded neighbors a draw costs just that. Between unbounded neighbors it costs half, because a
replacement is one removal and one addition.

A replacement within a unit of L, of both place and attributes, lies between the two. The only
answers that it cannot change are ``total`` at L and above. Where totals at L are published exactly,
it is the largest change that agrees with them.

The bound is reached if all groupings of the changed attributes distinguish some pair of values.
This holds wherever at most two different groupings measure an attribute. The Bureau's certificates
state the same two kinds: by attribute, and "block within" each level."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm
from types import MappingProxyType

import numpy as np

from das.accounting.draws import (
    Composition,
    Differing,
    DrawCounts,
    Draws,
    Exactly,
    Moves,
    differing,
)
from das.accounting.invariant_neighbours import ExactQueries, free
from das.accounting.planning import LevelQuery, QueryCosts
from das.accounting.profile import checked_delta, worst_epsilon
from das.model.budget import PlannedMeasurement, UnitPath, through
from das.model.schema import Schema

#: The paths of the place that a record leaves and of the place that it comes to.
Move = tuple[UnitPath, UnitPath]


@dataclass(frozen=True)
class Change:
    """``kind`` is ``record`` (replaced by any other, or by any within a unit), ``attributes`` or
    ``place``; ``what`` says which."""

    kind: str
    what: str
    differing: Differing

    @property
    def says(self) -> str:
        """What changes, in words."""
        same = {"record": "", "attributes": " (same place)", "place": " (same attributes)"}[
            self.kind
        ]
        return f"{self.what}{same}"


def changes(
    draws: Sequence[PlannedMeasurement],
    schema: Schema,
    levels: Sequence[str],
    exact: ExactQueries = (),
    paths: Sequence[UnitPath] = (),
    split: Collection[str] = (),
) -> list[Change]:
    """The changes of one record that a statement lists, from :func:`listed`."""
    found = listed(draws, schema, levels, exact, paths, split)
    return [Change(kind, what, differing(some, moves)) for kind, what, some, moves in found]


def listed(
    draws: Sequence[PlannedMeasurement],
    schema: Schema,
    levels: Sequence[str],
    exact: ExactQueries = (),
    paths: Sequence[UnitPath] = (),
    split: Collection[str] = (),
) -> Iterator[tuple[str, str, Sequence[PlannedMeasurement], Sequence[Move]]]:
    """The kind and name of each change, the measurements that it can touch, and its moves. A move
    has the paths of the places that a record leaves and comes to:

    - the whole record, and the whole record within one unit of each level whose totals are
      ``exact``;
    - each attribute, each product of attributes that a query names, and all attributes;
    - moves within one unit of each level except the lowest, root first.

    With several paths, each line is about the worst pair. Units are those of the measured tree. At
    the levels ``split`` a place can be in two units; its exact counts are then those of neither."""
    paths = paths or [through(draws)]
    anywhere, nowhere = list(combinations_with_replacement(paths, 2)), [(p, p) for p in paths]
    moving = tuple(a.name for a in schema.attributes if len(a.levels) > 1)
    groups = dict.fromkeys(
        [*((a,) for a in moving), *_measured_together(draws, schema, moving), moving]
    )
    yield "record", "anything", draws, anywhere
    for top, query in exact:
        if schema.query(query).answers == 1:
            apart = free(draws, [(top, query)], schema, levels, split)
            yield "record", f"anything within one {top}", apart, _within(anywhere, levels, top)
    for g in groups:
        if g:
            what = "every attribute" if g == moving and len(g) > 1 else " * ".join(g)
            yield "attributes", what, touched(draws, schema, g), nowhere
    for top in levels[:-1]:
        moved = below(draws, levels, top)
        yield "place", f"place within one {top}", moved, _within(anywhere, levels, top)


def _within(moves: Iterable[Move], levels: Sequence[str], top: str) -> list[Move]:
    """The moves between places in one unit of level ``top``: their paths have the same classes down
    to that level."""
    upper = set(levels[: levels.index(top) + 1])
    return [
        (a, b)
        for a, b in moves
        if [x for x in a if x[0] in upper] == [x for x in b if x[0] in upper]
    ]


def touched(
    draws: Iterable[PlannedMeasurement], schema: Schema, attributes: Sequence[str]
) -> list[PlannedMeasurement]:
    """The draws that a change of these attributes can affect: those whose query does not sum over
    all of them."""
    axes, draws = [schema.axis(a) for a in attributes], list(draws)
    queries = {name: schema.query(name) for name in {d.query for d in draws}}
    told = {name for name, q in queries.items() if any(not q.groupings[i].is_total for i in axes)}
    return [d for d in draws if d.query in told]


def below(
    draws: Iterable[PlannedMeasurement], levels: Sequence[str], top: str
) -> list[PlannedMeasurement]:
    """The draws that a move within a unit of level ``top`` can affect: those at lower levels."""
    lower = set(levels[levels.index(top) + 1 :])
    return [d for d in draws if d.level in lower]


def _measured_together(
    draws: Iterable[PlannedMeasurement], schema: Schema, moving: Sequence[str]
) -> list[tuple[str, ...]]:
    """The attributes of each query that names several, fewest first."""
    queries = {d.query: schema.query(d.query).groupings for d in draws}
    found = {tuple(g.attribute for g in gs if not g.is_total) for gs in queries.values()}
    return sorted(
        (g for g in found if len(g) > 1), key=lambda g: (len(g), [moving.index(a) for a in g])
    )


# What two records cost: the rho between them, by what tells them apart.
#
# A query *tells* two records *apart* if its groups separate their values of some attribute. Then it
# changes in two answers, by 1 each, in the unit where both are. Where they are in different units,
# every query does. So two records whose units are the same at the first k levels cost
#
# .. math:: \rho = \sum_{l \le k} \sum_{q \in T} \rho_{lq} + \sum_{l > k} \sum_q \rho_{lq},
#
# with T the queries that tell them apart (:mod:`das.accounting.changes`: a draw costs its
# :math:`\rho`, between bounded neighbors). T is the union over the attributes of those that separate
# two values of one. So few sets T hold for all pairs of records, of any values of all attributes, and
# a promise about every pair can be checked. Units are those of a tree without only children.


def told_apart(schema: Schema, queries: Collection[str]) -> frozenset[frozenset[str]]:
    """The queries that tell two records apart, for any two: every set that there is, the empty one
    of two that are alike among them. Structural zeros are pairs, too.

    >>> from das.model.redistricting import PL94
    >>> sorted(sorted(t) for t in told_apart(PL94, ["total", "hhgq", "hhinstlevels"]))
    [[], ['hhgq'], ['hhgq', 'hhinstlevels']]"""
    found = frozenset([frozenset[str]()])
    for axis in range(len(schema.attributes)):
        group = np.stack([schema.query(q).groupings[axis].group_of for q in queries])
        alike = np.unique(group, axis=1)  # values that no query separates are one
        apart = (alike[:, :, None] != alike[:, None, :]).reshape(len(group), -1)
        own = {frozenset(np.array([*queries])[row].tolist()) for row in np.unique(apart, axis=1).T}
        found = frozenset(a | b for a in found for b in own)
    return found


def pair_limits(
    schema: Schema,
    measured: Sequence[LevelQuery],
    costs: QueryCosts,
    shared: Mapping[str, str] = MappingProxyType({}),
) -> dict[frozenset[LevelQuery], Fraction]:
    """For every pair of records, what it changes of ``measured``, and its rho at ``costs``: the
    least, where several change the same. Both are level by level, root first. ``costs`` can be
    those of another tree: ``shared`` names its last level whose unit two records share, where it
    is not the last that they share here."""
    queries = dict.fromkeys(q for _, q in (*measured, *costs))
    here, there = (list(dict.fromkeys(lv for lv, _ in of)) for of in (measured, costs))
    depth = {pair: here.index(pair[0]) for pair in measured}
    last = [there.index(shared.get(lv, lv)) for lv in here]
    unit = lcm(*(c.denominator for c in costs.values()))
    cost = [{q: int(c * unit) for (lv, q), c in costs.items() if lv == level} for level in there]
    out: dict[frozenset[LevelQuery], int] = {}
    for told in told_apart(schema, queries):
        alike = [sum(c for q, c in of.items() if q in told) for of in cost]
        for k, j in enumerate((-1, *last)):
            changed = frozenset(p for p in measured if p[1] in told or depth[p] >= k)
            most = sum(alike[: j + 1]) + sum(sum(of.values()) for of in cost[j + 1 :])
            out[changed] = min(most, out.get(changed, most))
    return {changed: Fraction(most, unit) for changed, most in out.items() if changed}


# Neighbors on an irregular spine, where two places can have different queries and variances.


def worst_pair(
    paths: Mapping[str, Draws | Composition], delta: Exactly, *, certify: bool = False
) -> tuple[tuple[str, str], tuple[float, float]]:
    """The pair of paths between which replacing one record costs most, and an interval that
    contains that epsilon.

    A record on path i counts once in each of i's draws. If a record on path j replaces it, one
    answer changes in each of i's draws and one in each of j's. So the loss is the sum of two
    independent losses. Each of ``paths`` has the draws for one record's place, every query counted
    once. A pair can be the same path twice. The upper end of the interval holds for all pairs.
    Which pair is worst can change with delta.

    >>> from fractions import Fraction
    >>> worst_pair(
    ...     {"plain": [(Fraction(8), 10)], "bypassed": [(Fraction(8), 9), (Fraction(4), 1)]},
    ...     "1e-10",
    ... )[0]
    ('bypassed', 'bypassed')"""
    if not paths:
        raise ValueError("there are no paths")
    number: dict[DrawCounts, int] = {}
    names: list[str] = []
    for name, draws in paths.items():
        counts = Composition.from_draws(draws).counts
        if counts not in number:
            number[counts] = len(names)
            names.append(name)
    moves = tuple(combinations_with_replacement(range(len(names)), 2))
    part = Moves(tuple(number), moves, tuple(() for _ in names))
    found = worst_epsilon((part,), checked_delta(delta), certify)
    a, b = part.moves[found.at[0]]
    return (names[a], names[b]), (found.low, found.high)
