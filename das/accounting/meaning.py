"""What a reader of a privacy statement must know beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from das.accounting.document import Invariant
from das.model.budget import Neighbours
from das.model.kinds import kind_of

#: What holds where only children are bypassed.
BYPASSED = (
    (
        "The tree that was measured is not that of the tables: 'spine.parquet' beside each"
        " universe's measurements holds it. It follows from public geography and from which places"
        " have structures, and for persons from which types of facilities they have: it makes these"
        " facts public, exactly."
    ),
    (
        "A unit with one child is measured with the share of both, and the child is not measured."
        " So what a record is seen in depends on where it is: each of 'paths' has the classes of"
        " units from the root to a place. Every path costs the same rho, and not the same epsilon:"
        " each epsilon is that between the two places where it is largest, which 'between' names."
    ),
    (
        "Under 'changes' each line holds for the places where it costs most. The statements that"
        " the Census Bureau published for 2020 by attribute are those of the path without only"
        " children, which are no upper bounds: elsewhere an attribute costs more."
    ),
    (
        "A place with land in both branches of the tree is two of its units: 'place within one'"
        " unit of a level is within one of these."
    ),
)


#: Of neighbours that have one record more or less.
_BOTH = (
    "A record that changes is one record removed and one added: each line under 'changes' in"
    " privacy.json counts both."
)
#: Of a record whose change what is published exactly would show.
_PRICED = "for it, the lines under 'changes' in privacy.json price the noise, and not what"
#: What holds of any release.
_ALWAYS = (
    (
        "Data sets that are called neighbours always agree on the lists of places"
        " (spine.parquet) and of areas across them (areas.parquet). 'neighbours_of' says what"
        " else they agree on: each guarantee holds between its own."
    ),
    (
        "The bits of the noise come from a cryptographic generator: the guarantee is"
        " computational, as with any such."
    ),
    ("This is the cost of this release alone. Other releases from the same records add their own."),
)


def meaning(
    neighbours: Neighbours,
    outside: Sequence[Invariant],
    universes: Sequence[str],
    *,
    bypassed: bool = False,
) -> list[str]:
    """Sentences: what holds of any release, and what of one with such neighbours, exact counts and
    universes, persons first; ``bypassed`` where only children are not measured."""
    out = list(_ALWAYS)
    out += BYPASSED if bypassed else ()
    if neighbours is Neighbours.UNBOUNDED:
        out.append(_BOTH)
    out += [kind_of(u).together for u in universes[1:]]
    if neighbours is Neighbours.UNBOUNDED and any(c.sign == "=" for c in outside):
        out.append(
            "No two data sets that differ by one record added or removed agree on totals that are"
            " invariant: with these, the guarantee is that of the noise, not of the release."
        )
    out += [
        f"A record of {kind_of(c.universe).records} that moves from one {c.level} to another"
        f" changes a total that is invariant: {_PRICED} the totals themselves give away."
        for c in outside
        if c.constraint in ("total", "joint_total")
    ]
    out += [
        f"A record of {kind_of(c.universe).records} that changes its {c.query}, or moves from one"
        f" {c.level} to another, changes a count that is invariant: {_PRICED} these counts"
        " themselves give away."
        for c in outside
        if c.sign == "=" and c.query != "total"
    ]
    bounded = dict.fromkeys((c.universe, c.query, c.level) for c in outside if c.sign != "=")
    out += [
        f"A record of {kind_of(universe).records} that changes its {query}, or moves from one"
        f" {level} to another, may no longer fit bounds that are published exactly: {_PRICED} the"
        " bounds give away."
        for universe, query, level in bounded
    ]
    return out
