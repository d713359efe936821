"""What a reader of a privacy statement must know besides its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from das.accounting.document import Invariant
from das.model.budget import Neighbours
from das.model.kinds import kind_of

#: Sentences for a spine on which only children are bypassed.
BYPASSED = (
    (
        "The measured tree is not that of the tables; it is in 'spine.parquet', next to each"
        " universe's measurements. It depends on public geography and on which places have"
        " structures. For persons it also depends on which types of facilities places have. So it"
        " makes these facts public, exactly."
    ),
    (
        "A unit with one child is measured with the share of both, and the child is not measured."
        " So the measurements that count a record depend on its place: each of 'paths' has the"
        " classes of units from the root to a place. Every path costs the same rho, but not the"
        " same epsilon. Each epsilon is the largest between any two places, which 'between' names."
    ),
    (
        "Under 'changes' each line holds for the places where it costs most. The Census Bureau's"
        " published statements for 2020 by attribute are for the path without only children. They"
        " are not upper bounds: elsewhere an attribute costs more."
    ),
    (
        "A place with land in both branches of the tree is two of its units. A change of 'place"
        " within one' unit of a level stays within one of these."
    ),
)


#: For neighbors that differ by one record added or removed.
_BOTH = (
    "A record that changes is one record removed and one added: each line under 'changes' in"
    " privacy.json counts both."
)
#: For a change of a record that the exact counts would show.
_PRICED = "for it, the lines under 'changes' in privacy.json price the noise, and not what"
#: Sentences for any release.
_ALWAYS = (
    (
        "Data sets that are called neighbors always agree on the lists of places"
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
    """Sentences for any release, then for one with these neighbors, exact counts and universes,
    persons first. ``bypassed``: whether only children are not measured."""
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
