r"""Which persons of an address are kept if it has more than tau of them: exactly as PHSafe decides.

A record has these values: type, address, age, origin, race, relationship, and which of several
identical rows it is. Each is hashed with SHA-256; the hashes are joined with commas and hashed
twice. The tau smallest results stay. The result depends on no key, on no unit record, and on other
persons only if they are identical. So one more person changes the kept persons by one swap.

Source: Tumult Core 0.12, ``utils/truncation.py``."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from das.model.sdhc.records import Addresses, Residents

PersonRow = tuple[int, int, int, int, int, int]


@lru_cache(maxsize=4096)
def _hash(value: str) -> str:
    return sha256(value.encode()).hexdigest()


def _key(values: PersonRow, number: int) -> str:
    rtype, mafid, age, hisp, race, relship = values
    texts = (
        str(rtype), f"{mafid:b}", f"{age:b}", f"{hisp:b}", f"{race:02d}", str(relship), f"{number:b}"
    )  # fmt: skip
    joined = ",".join(_hash(text) for text in texts)
    return sha256(sha256(joined.encode()).hexdigest().encode()).hexdigest()


class Order:
    """The order of the persons of each address, computed only where it is needed."""

    def __init__(self, addresses: Addresses, residents: Residents) -> None:
        self._addresses, self._people = addresses, residents

    def kept(self, inside: NDArray[np.bool_], tau: int) -> NDArray[np.bool_]:
        """Of the persons ``inside`` (a mask), those that are kept: at most ``tau`` in each
        address."""
        where = self._people.address
        full = np.bincount(where[inside], minlength=len(self._addresses)) > tau
        out = inside.copy()
        if not full.any():
            return out
        some = np.flatnonzero(inside & full[where])
        keys = self._keys(some)
        order = np.lexsort((keys, where[some]))
        found = where[some][order]
        first = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
        rank = np.arange(len(found)) - np.repeat(first, np.diff([*first, len(found)]))
        out[some[order[rank >= tau]]] = False
        return out

    def _keys(self, some: NDArray[np.int64]) -> NDArray[np.str_]:
        p, seen, out = self._people, dict[tuple[int, PersonRow], int](), []
        where = p.address[some]
        mafid = self._addresses.mafid[where]
        rtype, age, hisp, race, relship = (
            c[some].tolist() for c in (p.rtype, p.age, p.hisp, p.race, p.relship)
        )
        rows = zip(rtype, mafid.tolist(), age, hisp, race, relship, strict=True)
        for at, row in zip(where.tolist(), rows, strict=True):
            seen[at, row] = seen.get((at, row), 0) + 1
            out.append(_key(row, seen[at, row]))
        return np.array(out, dtype="U64")
