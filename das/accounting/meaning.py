"""What a reader of a privacy statement must know beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from das.accounting.document import Invariant
from das.model.budget import Neighbours
from das.model.kinds import kind_of


def meaning(neighbours: Neighbours, outside: Sequence[Invariant], universes: Sequence[str]) -> list[str]:
    """Sentences: what holds of any release, and what of one with such neighbours, exact counts and universes, persons first."""
    out = [
        "Data sets that are called neighbours always agree on the lists of places (spine.parquet) and of areas across them "
        "(areas.parquet). 'neighbours_of' says what else they agree on: each guarantee holds between its own.",
        "The bits of the noise come from a cryptographic generator: the guarantee is computational, as with any such.",
        "This is the cost of this release alone. Other releases from the same records add their own.",
    ]
    if neighbours is Neighbours.UNBOUNDED:
        out.append(
            "A record that changes is one record removed and one added: each line under 'changes' in privacy.json counts both."
        )
    out += [kind_of(u).together for u in universes[1:]]
    if neighbours is Neighbours.UNBOUNDED and any(c.sign == "=" for c in outside):
        out.append("No two data sets that differ by one record added or removed agree on totals that are invariant: with "
                   "these, the guarantee is that of the noise, not of the release.")  # fmt: skip
    out += [
        f"A record of {kind_of(c.universe).records} that moves from one {c.level} to another changes a total that is invariant: for "
        "it, the lines under 'changes' in privacy.json price the noise, and not what the totals themselves give away."
        for c in outside if c.constraint == "total"
    ]  # fmt: skip
    out += [
        f"A record of {kind_of(c.universe).records} that changes its {c.query}, or moves from one {c.level} to another, changes a "
        "count that is invariant: for it, the lines under 'changes' in privacy.json price the noise, and not what these "
        "counts themselves give away."
        for c in outside if c.sign == "=" and c.query != "total"
    ]  # fmt: skip
    bounded = dict.fromkeys((c.universe, c.query, c.level) for c in outside if c.sign != "=")
    out += [
        f"A record of {kind_of(universe).records} that changes its {query}, or moves from one {level} to another, may no longer fit bounds "
        "that are published exactly: for it, the lines under 'changes' in privacy.json price the noise, and not what the bounds give away."
        for universe, query, level in bounded
    ]
    return out
