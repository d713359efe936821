r"""Neighbours that agree on what is published exactly: which draws cannot tell them apart.

The noise alone is accounted for between *any* two data sets that differ in one record. A release
also publishes some counts exactly, its invariants, and the guarantee that can be meant of all of it
is the one between neighbours that *agree* on them. A draw whose true answers are functions of the
invariants tells these nothing: it has one distribution under both, independent of the other draws,
so that it is the same factor of both products and contributes 0 to the privacy loss. Exact
composition of the draws that remain is the privacy loss between neighbours that agree.

**Which draws drop.** Let every unit v of level :math:`L` publish :math:`Q x_v`. The query q at
level :math:`\ell` is a function of that if

1. :math:`\ell` is L or above, so that a unit u of it is a disjoint union of units of L, :math:`x_u
   = \sum_{v \le u} x_v` (the tree is public); and
2. each answer of q is a sum of answers of Q: :math:`q = A Q`, which holds when each grouping of Q
   is as fine as that of q, attribute by attribute.

Then :math:`q x_u = A \sum_v Q x_v` is the same for both. With totals of the states invariant that
is ``total`` at the states and at the nation, and nothing else.

**Why no others.** Take the totals of level L. Let a record stay in its unit of L, come to another
unit of every level below it, and change every attribute to a value that all groupings tell apart.
Its neighbour agrees on all totals of L and above. Each remaining draw changes in two answers by 1:
below L because the unit is another one, at L and above because the query sums over some attribute's
groups no longer. So what remains is the loss between these two, and no draw more can be left out.
(Where no such pair is in the tree or the schema, what is computed is an upper bound, as everywhere
in :mod:`das.accounting.changes`; and so it is where an answer is a function of several invariants
together, but of none alone.)

**Places in two units.** The units that are measured may be parts of the places whose counts are
published: on an optimised spine the two branches of a state. What is exact then is known of whole
places of L, and a unit at :math:`\ell` is a union of such if no place of :math:`\ell` is in two
units, or none of L is. Only then does q drop there; as long as there is no tree, any level below
the root counts as split.

**Bounds drop nothing.** Numbers of housing units and of facilities are of buildings, and no answer
about persons is a function of them: they restrict who can be a neighbour, and the pair above can be
placed where they leave room. A bound that leaves none (no facility of a type: nobody in it) fixes
the answers of single units, not those of a whole draw.

**Added or removed.** No two data sets that differ by one record added or removed agree on a total.
Under unbounded neighbours there is then nothing to account for between neighbours that agree, and
none is stated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from das.model.budget import Neighbours, PlannedMeasurement
from das.model.kinds import kind_of
from das.model.schema import Schema

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
    """The draws that neighbours which agree on ``exact`` can still differ in. At the levels
    ``split`` a place may be in two units."""
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
    """Whether the answers of ``draw`` are sums of those of ``query`` at ``level``."""
    above = levels.index(draw.level) <= levels.index(level)
    return above and schema.query(draw.query).sums(schema.query(query))


def definitions(
    neighbours: Neighbours,
    exact: Mapping[str, ExactQueries],
    split: Mapping[str, Collection[str]] | None = None,
    differ: str = "",
) -> dict[str, str]:
    """Who the neighbours of each guarantee of a statement are, in words. That of neighbours which
    agree is left out where there are none. ``split`` are, by universe, the levels at which a place
    may be in two units; ``differ`` says what neighbours differ by, where it is not one record."""
    bounded = neighbours is Neighbours.BOUNDED
    differ = differ or (
        "one record replaced by any other, anywhere" if bounded else "one record added or removed"
    )
    out = {
        ANY: (
            f"Between any data sets with {differ}: they need not agree on what is published"
            " exactly. It prices the noise alone; what the exact figures themselves tell of such a"
            " difference comes on top."
        )
    }
    if bounded or not any(exact.values()):
        kept = "one record replaced by another" if bounded else differ
        out[INVARIANT_NEIGHBOURS] = (
            f"Between data sets with {kept}, that agree on everything that is published exactly."
            " Draws whose answers follow from the exact figures tell these nothing, and cost"
            f" nothing: {_named(exact, split or {})}."
        )
    return out


def _named(exact: Mapping[str, ExactQueries], split: Mapping[str, Collection[str]]) -> str:
    every = [
        f"{query} of {kind_of(universe).records} at {level} and above"
        + (", at levels whose places are each one unit" if level in split.get(universe, ()) else "")
        for universe, es in exact.items()
        for level, query in es
    ]
    return "; ".join(every) or "there are none"
