r"""Neighbors that agree on the exact counts: which draws cannot distinguish them.

The account of the noise alone is between *any* two data sets that differ in one record. A release
also publishes some counts exactly, its invariants. The guarantee of the whole release can only be
the one between neighbors that *agree* on these. Take a draw whose true answers are functions of the
invariants. It cannot distinguish such neighbors: it has the same distribution under both, and is
independent of the other draws. So it is the same factor of both products, and contributes 0 to the
privacy loss. Exact composition of the remaining draws gives the privacy loss between neighbors that
agree.

**Which draws drop.** Let every unit v of level :math:`L` publish :math:`Q x_v`. The query q at
level :math:`\ell` is a function of these counts if

1. :math:`\ell` is L or above. Then a unit u of :math:`\ell` is a disjoint union of units of L:
   :math:`x_u = \sum_{v \le u} x_v` (the tree is public).
2. Each answer of q is a sum of answers of Q: :math:`q = A Q`. This holds if each grouping of Q is
   as fine as that of q, attribute by attribute.

Then :math:`q x_u = A \sum_v Q x_v` is the same for both. If the totals of the states are invariant,
these draws are ``total`` at the states and at the nation, and nothing else.

**Why no others.** Take the totals of level L. Let a record stay in its unit of L and move to
another unit at every level below. Let it change every attribute to a value that all groupings
distinguish. Its neighbor agrees on all totals at L and above. Each remaining draw changes in two
answers by 1: below L because the unit is another one, at L and above because the query
distinguishes some attribute's values. So the remaining loss is the loss between these two, and all
remaining draws must stay. (If the tree or the schema has no such pair, the result is an upper
bound, as everywhere in :mod:`das.accounting.changes`. The same holds if an answer is a function of
several invariants together, but of none alone.)

**Places in two units.** The measured units can be parts of the places whose counts are published:
on an optimized spine, the two branches of a state. The exact counts are then those of whole places
of L. A unit at :math:`\ell` is a union of such places in two cases: no place of :math:`\ell` is in
two units, or no place of L is. Only then does q drop there. As long as there is no tree, any level
below the root counts as split.

**Bounds drop nothing.** Numbers of housing units and of facilities count buildings, and no answer
about persons is a function of them. They restrict who can be a neighbor, but the pair above can be
placed where they leave room. A bound that leaves no room (no facility of a type: nobody in it)
fixes the answers of single units, not those of a whole draw.

**Added or removed.** Two data sets that differ by one record added or removed never agree on a
total. So with unbounded neighbors and exact totals there are no neighbors that agree, and no such
guarantee is stated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from das.model.budget import Neighbours, PlannedMeasurement
from das.model.schema import Schema
from das.model.universe import kind_of

#: Counts that are published exactly: level and query.
ExactQueries = Sequence[tuple[str, str]]

ANY = "guarantee"
INVARIANT_NEIGHBOURS = "guarantee_of_neighbours_that_agree"


def free(
    draws: Iterable[PlannedMeasurement],
    exact: ExactQueries,
    schema: Schema,
    levels: Sequence[str],
    split: Collection[str] = (),
) -> list[PlannedMeasurement]:
    """The draws that can still differ between neighbors that agree on ``exact``. At the levels
    ``split`` a place can be in two units."""
    known = [(level, query, split if level in split else ()) for level, query in exact]
    return [
        d
        for d in draws
        if not any(
            d.level not in parts and _fixes(level, query, d, schema, levels)
            for level, query, parts in known
        )
    ]


def _fixes(
    level: str, query: str, draw: PlannedMeasurement, schema: Schema, levels: Sequence[str]
) -> bool:
    """Whether the answers of ``draw`` are sums of the answers to ``query`` at ``level``."""
    above = levels.index(draw.level) <= levels.index(level)
    return above and schema.query(draw.query).sums(schema.query(query))


def definitions(
    neighbours: Neighbours,
    exact: Mapping[str, ExactQueries],
    split: Mapping[str, Collection[str]] | None = None,
    differ: str = "",
) -> dict[str, str]:
    """Who the neighbors of each guarantee of a statement are, in words. The guarantee of neighbors
    that agree is left out if there are no such neighbors. ``split`` are, by universe, the levels at
    which a place can be in two units. ``differ`` says how neighbors differ, if not by one record.
    """
    bounded = neighbours is Neighbours.BOUNDED
    differ = differ or (
        "one record replaced by any other, anywhere" if bounded else "one record added or removed"
    )
    out = {
        ANY: (
            f"Between any data sets with {differ}: they need not agree on what is published"
            " exactly. It covers the noise only. Exact counts can reveal more."
        )
    }
    if bounded or not any(exact.values()):
        kept = "one record replaced by another" if bounded else differ
        out[INVARIANT_NEIGHBOURS] = (
            f"Between data sets with {kept}, that agree on everything that is published exactly."
            f" {_free(exact, split or {})}"
        )
    return out


def _free(exact: Mapping[str, ExactQueries], split: Mapping[str, Collection[str]]) -> str:
    """Which measurements cost such neighbors nothing."""
    every = [
        f"{query} of {kind_of(universe).records} at {level} and above"
        + (", at levels whose places are each one unit" if level in split.get(universe, ()) else "")
        for universe, es in exact.items()
        for level, query in es
    ]
    if not every:
        return "No measurement is free here, because no published count is exact."
    return f"Measurements of what is published exactly are free here: {'; '.join(every)}."
