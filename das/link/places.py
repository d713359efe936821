"""The places in a household besides householder and partner: what its type says of its members.

There are places for own children, other children, grandchildren, grown children, relatives and
nonrelatives. One is for a parent or grandchild, the third generation. Free ones are for anyone whom
the type allows."""

from __future__ import annotations

from functools import cache

import numpy as np

from das.link.fields import MS, Ints, type_fields

#: Kinds of places. Those of children come in pairs: under 6, and 6 to 17.
OWN6, OWN17, CHILD6, CHILD17, GRAND6, GRAND17, GENERATION, GROWN, RELATIVE, STRANGER, FREE = range(
    11
)
KINDS = 11
_FIELDS = ("couple", "relatives", "own", "children", "multig")


@cache
def places() -> Ints:
    """The places that each type needs, ``(522, 6)``, -1 behind them. Room beyond is ``FREE``, or
    ``STRANGER`` in a household without relatives."""
    t = type_fields()
    out = np.full((len(t.size), 6), -1, dtype=np.int64)
    for i in range(len(out)):
        needed = _needed(*(int(getattr(t, name)[i]) for name in _FIELDS))[: int(t.room[i])]
        out[i, : len(needed)] = needed
    return out


def _needed(couple: int, relatives: int, own: int, children: int, multig: int) -> list[int]:
    other = children & ~own
    out = _ranges(own, OWN6)
    if multig and not own:
        # a grown child is the second generation
        return [GROWN, *(_ranges(children, GRAND6) or [GENERATION])]
    if multig:
        return [*out, *(_ranges(other, GRAND6) or [GENERATION])]
    out += _ranges(other, CHILD6)
    if relatives and couple > MS and not out:
        out.append(RELATIVE)
    return out


def _ranges(field: int, first: int) -> list[int]:
    """A place for each range of ages of a field of types: the first kind, and the one after it."""
    return [first + i for i in (0, 1) if field >> i & 1]


def expanded(kind: Ints, room: Ints) -> tuple[Ints, Ints]:
    """The places of some households, by type and room: of each place its household's number, and
    its kind; both ``(places,)``."""
    home = np.repeat(np.arange(len(kind)), room)
    start = np.cumsum(room) - room
    nth = np.arange(len(home)) - start[home]
    needed = places()[kind[home], np.minimum(nth, 5)]
    rest = np.where(type_fields().relatives[kind[home]] == 1, FREE, STRANGER)
    return home, np.where((nth < 6) & (needed >= 0), needed, rest)
