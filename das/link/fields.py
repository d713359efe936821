"""The seven fields of the 522 household types as arrays, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from das.model.dhc.household_types import COUPLES, LARGEST, TYPES
from das.model.dhc.households import DHCH
from das.model.frozen import Frozen

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Indices of ``COUPLES``.
MO, MS, CO, CS, N = range(len(COUPLES))
#: The class of ``elderly`` that a householder alone gives, by class of ``hhage``.
OWN_ELDERLY = np.array([0, 0, 0, 0, 0, 1, 2, 3, 3])


@dataclass(frozen=True, eq=False)
class TypeFields(Frozen):
    """Fields by type, each ``(522,)``. ``couple`` is an index of ``COUPLES``.

    ``room``: persons of the smallest such household besides householder and partner. ``most_room``:
    those of the largest, without bound for 7 or more persons. ``own_least``: its own children
    under 18 at least. ``relatives_least``: its relatives at least, besides a spouse."""

    couple: Ints
    relatives: Ints
    own: Ints
    children: Ints
    minor: Ints
    multig: Ints
    size: Ints
    room: Ints
    most_room: Floats
    own_least: Ints
    relatives_least: Ints


@cache
def type_fields() -> TypeFields:
    """The fields of all types, computed once."""
    of = {
        name: np.array([getattr(t, name) for t in TYPES], dtype=np.int64)
        for name in ("relatives", "own", "children", "minor", "multig", "size")
    }
    couple = np.array([list(COUPLES).index(t.couple) for t in TYPES], dtype=np.int64)
    room = of["size"] - 1 - (couple < N)
    own_least = np.array([0, 1, 1, 2])[of["own"]]
    married = couple <= MS
    plain = np.maximum(own_least, ~married & (of["relatives"] == 1))
    kin = np.where(of["multig"] == 1, np.where(own_least > 0, own_least + 1, 2), plain)
    return TypeFields(
        couple=couple,
        room=room,
        most_room=np.where(of["size"] == LARGEST, np.inf, room),
        own_least=own_least,
        relatives_least=np.where(of["relatives"] == 1, kin, 0),
        **of,
    )


def household_attributes(cell: Ints) -> dict[str, Ints]:
    """The levels of cells of ``dhch``, by attribute."""
    found = np.unravel_index(cell, DHCH.shape)
    return {a.name: np.asarray(x) for a, x in zip(DHCH.attributes, found, strict=True)}
