"""The confidential records of the S-DHC: addresses, and who lives there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen

Codes8 = NDArray[np.int8]


@dataclass(frozen=True, eq=False, repr=False)
class Addresses(Frozen):
    """By address, with its number ``mafid``: the place of its state among ``states`` (-1 where
    tabulation leaves the address out), and the columns of its unit record."""

    states: tuple[str, ...]
    mafid: NDArray[np.int32]
    state: Codes8
    rtype: Codes8
    hhspan: Codes8
    hhrace: Codes8
    ten: Codes8
    hht: Codes8
    hht2: Codes8
    cplt: Codes8

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
