r"""What two records cost: the rho between them, by what tells them apart.

A query *tells* two records *apart* if its groups separate their values of some attribute. Then it
changes in two answers, by 1 each, in the unit where both are. Where they are in different units,
every query does. So two records whose units are the same at the first k levels cost

.. math:: \rho = \sum_{l \le k} \sum_{q \in T} \rho_{lq} + \sum_{l > k} \sum_q \rho_{lq},

with T the queries that tell them apart (:mod:`das.accounting.changes`: a draw costs its
:math:`\rho`, between bounded neighbors). T is the union over the attributes of those that separate
two values of one. So few sets T hold for all pairs of records, of any values of all attributes, and
a promise about every pair can be checked. Units are those of a tree without only children."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from math import lcm
from types import MappingProxyType

import numpy as np

from das.accounting.planning import LevelQuery, QueryCosts
from das.model.schema import Schema


def told_apart(schema: Schema, queries: Collection[str]) -> frozenset[frozenset[str]]:
    """The queries that tell two records apart, for any two: every set that there is, the empty one
    of two that are alike among them. Structural zeros are pairs, too.

    >>> from das.model.redistricting import PL94
    >>> sorted(sorted(t) for t in told_apart(PL94, ["total", "hhgq", "hhinstlevels"]))
    [[], ['hhgq'], ['hhgq', 'hhinstlevels']]
    """
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
