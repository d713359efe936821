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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.geography.bounds import bounds, groups_of, unlimited
from das.model.constraint import Ints, JointTotals, LevelBounds, Limits, add_up
from das.model.frozen import Frozen
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
        query.index,
        Limits.from_bounds(values, values),
        values.sum(axis=1),
        schema.possible,
        exact=True,
    )


# All exact knowledge about the units of a tree, from which its bounds are made; the same for an
# upper tree and its subtrees.
#
# An upper tree has the bounds of the whole tree at its levels. A subtree has those of the whole tree
# for its units below the upper tree. Limits and counts of a unit are the sums of those of the units
# in it. So is *reach* (:mod:`das.geography.bounds`), from the lowest level with known totals upwards.
# So what is known below an upper tree is added up to its lowest level (:meth:`Invariants.up`), and
# known there. A subtree gets what is known below the upper tree. A fact about a whole unit need not
# hold for the part of the unit that is the subtree.
#
# *Totals below the upper tree.* With one group reach adds nothing: :math:`\min(h_d, t_d) = t_d`, or
# no histogram would meet the bounds of d, so all of them can hold the sum of their totals. With
# limits of several groups it does, and the rounding sends a flow to each unit with a known total.
# Then the upper tree goes down to these units (:func:`lowest_level_for`), but estimation goes no
# further down than before.


def lowest_level_for(
    levels: Sequence[str], upper_tree: str, totals: Sequence[str], *, limited: bool
) -> str:
    """The level that the tree of an upper tree down to the level ``upper_tree`` goes down to.
    ``totals``: the levels with known totals; ``limited``: whether the dwellings of the lowest units
    have limits.

    >>> lowest_level_for(["State", "County", "Tract"], "County", ["Tract"], limited=False)
    'County'"""
    return max([upper_tree, *(totals if limited else ())], key=list(levels).index)


@dataclass(frozen=True, eq=False)
class Invariants(Frozen):
    """``limits`` of the dwellings of the lowest units (:func:`das.geography.bounds.lowest`);
    ``counts``: level, query, and its answers ``(units, answers)``; ``joint``: a level, and totals
    of several siblings of it together."""

    limits: Limits | None = None
    counts: tuple[KnownQuery, ...] = ()
    joint: tuple[str, JointTotals] | None = None

    def bounds(self, schema: Schema, spine: Spine) -> dict[str, LevelBounds]:
        """Of every level. Of totals those of the lowest level count, for those above are their
        sums. Raises
        :class:`InputError` and :class:`InfeasibleError` where things known contradict each other.
        """
        totals = [spine.index(level) for level, query, _ in self.counts if query.name == "total"]
        if self.joint is None or max(totals, default=-1) >= spine.index(self.joint[0]):
            return known_bounds(schema, spine, self.counts, self.limits)
        level, total = self.joint
        return bounds(schema, spine, self.limits, total, level)

    def up(self, schema: Schema, spine: Spine, level: str) -> Invariants:
        """The invariants of the tree that is truncated at ``level``: what is known below is added
        up to it. Raises :class:`InputError` where the sums do not contain everything known
        (:func:`lowest_level_for`)."""
        end, limits, counts, joint = spine.index(level), self.limits, [], self.joint
        totals = [lv for lv, q, _ in self.counts if q.name == "total"] + (
            [] if joint is None else [joint[0]]
        )
        several = limits is not None and limits.groups > 1
        if (need := lowest_level_for(spine.levels, level, totals, limited=several)) != level:
            raise InputError(
                f"totals of {need!r} with bounds on dwellings say more than their sums",
                where="constraints",
                remedy=f"take {need!r} for the lowest level of the upper tree's tree",
            )
        if limits is None and all(q.name == "total" for _, q, _ in self.counts):
            limits = unlimited(len(spine.codes[-1]), groups_of(schema)[1])
        for depth in range(len(spine) - 1, end, -1):
            limits = limits and limits.add_up(spine.parent[depth], len(spine.codes[depth - 1]))
        for at, query, values in self.counts:
            below = spine.index(at) > end
            summed = (
                add_up(values.__getitem__, query.answers, spine.up(at, level), spine.units(level))
                if below
                else values
            )
            counts.append((level if below else at, query, summed))
        if joint is not None and spine.index(joint[0]) > end:
            home = joint[1].homes(spine.up(joint[0], level))
            total = add_up(joint[1].total[:, None].__getitem__, 1, home, spine.units(level))
            counts, joint = [*counts, (level, schema.query("total"), total)], None
        return Invariants(limits, tuple(counts), joint)

    def with_subtrees(self, parts: Sequence[Invariants], units: Sequence[Ints]) -> Invariants:
        """What is known of an upper tree: this, and what its subtrees know about its lowest units.
        ``units[i]`` are the numbers of the units in ``parts[i]``."""
        order = np.argsort(np.concatenate(units))
        low_high = [p.limits.some(slice(None)) for p in parts if p.limits is not None]
        limits = (
            Limits.from_bounds(*(np.concatenate(x)[order] for x in zip(*low_high, strict=True)))
            if low_high
            else None
        )
        counts = [
            (level, query, np.concatenate([p.counts[i][2] for p in parts])[order])
            for i, (level, query, _) in enumerate(parts[0].counts)
        ]
        joint = [p.joint for p in parts if p.joint is not None]
        together = self.joint
        if joint:
            first = np.cumsum([0, *(len(j.total) for _, j in joint)])
            part = np.concatenate([j.part + n for (_, j), n in zip(joint, first, strict=False)])[
                order
            ]
            together = joint[0][0], JointTotals(part, np.concatenate([j.total for _, j in joint]))
        return Invariants(limits, (*self.counts, *counts), together)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As one file holds it."""
        low_high = () if self.limits is None else self.limits.some(slice(None))
        out = dict(zip(("lower", "upper"), low_high, strict=False)) | {
            f"{lv}/{q.name}": v for lv, q, v in self.counts
        }
        if self.joint is not None:
            level, joint = self.joint
            out |= {f"{level}/part/of": joint.part, f"{level}/part/total": joint.total}
        return out

    @staticmethod
    def of_arrays(schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Invariants:
        """The value from the arrays of ``to_arrays``."""
        limits = Limits.from_bounds(arrays["lower"], arrays["upper"]) if "lower" in arrays else None
        names = [name.split("/") for name in arrays]
        counts = tuple(
            (n[0], schema.query(n[1]), arrays["/".join(n)]) for n in names if len(n) == 2
        )
        joint = [
            (n[0], JointTotals(arrays["/".join(n)], arrays[f"{n[0]}/part/total"]))
            for n in names
            if n[-1] == "of"
        ]
        return Invariants(limits, counts, joint[0] if joint else None)
