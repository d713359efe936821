"""The confidential records of the S-DHC: addresses, and who lives there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen

Codes8 = NDArray[np.int8]


@dataclass(frozen=True, eq=False, repr=False)
class Addresses(Frozen):
    """By address, with its number ``mafid``: the place of its state among ``states`` (-1 where
    tabulation leaves the address out), and the columns of its unit record. ``area``: the code of
    its area, where ``areas`` are tabulated: those in which addresses can be, which are public."""

    states: tuple[str, ...]
    mafid: NDArray[np.int32]
    state: NDArray[np.signedinteger]
    rtype: Codes8
    hhspan: Codes8
    hhrace: Codes8
    ten: Codes8
    hht: Codes8
    hht2: Codes8
    cplt: Codes8
    area: NDArray[np.int32] | None = field(default=None, kw_only=True)
    areas: tuple[str, ...] = field(default=(), kw_only=True)

    def __len__(self) -> int:
        return len(self.mafid)


@dataclass(frozen=True, eq=False, repr=False)
class Residents(Frozen):
    """By person, in the order of their addresses: the place of the ``address`` among these, and the
    columns of the record."""

    address: NDArray[np.int32]
    rtype: Codes8
    age: Codes8
    hisp: Codes8
    race: Codes8
    relship: Codes8

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, eq=False, repr=False)
class SdhcRecords:
    addresses: Addresses
    residents: Residents

    def by_area(self, codes: Sequence[str]) -> SdhcRecords:
        """The same with some areas, in order, in place of the states. Addresses in none of them are
        left out."""
        area, known = self.addresses.area, np.array([int(c) for c in codes], dtype=np.int32)
        assert area is not None
        place = np.minimum(np.searchsorted(known, area), len(known) - 1)
        inside = (known[place] == area) & (self.addresses.state >= 0)
        state = np.where(inside, place, -1).astype(np.int16)
        return replace(self, addresses=replace(self.addresses, states=tuple(codes), state=state))
