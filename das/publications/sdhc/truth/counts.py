r"""The answers of every region, from records: one pass over the persons for each table.

PHSafe filters the persons of each table, and then keeps tau of those in each address. The tight
mode truncates once, for all tables. It keeps at most tau persons of an address, and limits the
children among them. So two tables agree where they count the same persons (:mod:`das.publications.sdhc.least_squares`). The
persons left out are counted by age (``excess``), and so are children (``excess_children``). With
the relation *person*, ``PH1_num`` for all races counts everybody.

**Which persons are kept** (:class:`Order`): exactly those that PHSafe keeps. Each value of a record
is hashed with SHA-256: type, address, age, origin, race, relationship, and its number among
identical rows. The hashes are joined with commas, and hashed twice. The tau smallest stay. The
order does not depend on the unit record, on a key, or on other persons (except identical ones). So
one person more changes the persons kept by one swap. Source: Tumult Core 0.12,
``utils/truncation.py``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from das.publications.sdhc.model.tables import (
    CHILDREN,
    EXCESS,
    EXCESS_CHILDREN,
    GROUPS,
    PHSAFE,
    TABLES,
    Addresses,
    Residents,
    SdhcRecords,
    answers,
    column,
    untruncated,
)

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
_NONE = -1


def _codes(pairs: Mapping[int, int], size: int) -> NDArray[np.int8]:
    out = np.full(size, _NONE, dtype=np.int8)
    for key, value in pairs.items():
        out[key] = value
    return out


#: Cells by code: of PH2 by HHT2 and CPLT, of PH3 by relationship and HHT2, and so on.
_PH2 = _codes({9: 9, 10: 10, 11: 10, 12: 10, 5: 12, 6: 13, 7: 13, 8: 13}, 13)
_COUPLES = np.full((13, 6), _NONE, dtype=np.int8)
_COUPLES[1:3, 1:3], _COUPLES[3:5, 3:5] = [3, 4], [6, 7]
_PH3 = _codes(
    dict.fromkeys([*range(20, 25), 34, 35, 36], 2)
    | dict.fromkeys([28, 29, 31, 32, 33], 10)
    | {30: 9},
    39,
)
_OWN = _codes({1: 4, 3: 5, 10: 6, 6: 7}, 13)
_FAMILY = np.isin(np.arange(39), [20, 21, 23, *range(25, 34)])
_CHILD = np.isin(np.arange(39), [25, 26, 27])
_PH6 = _codes({1: 3, 3: 8, 10: 13, 6: 18}, 13)
_PH7 = _codes({1: 2, 2: 3, 3: 4, 4: 4}, 5)
_PH8 = _codes({1: 2, 2: 2, 3: 3, 4: 3}, 5)


def _of_race(race: NDArray[np.int8]) -> NDArray[np.int8]:
    """0 to 6 for A to G, -1 for none."""
    return np.where(race >= 7, 6, race - 1).astype(np.int8)


def _of_origin(race: NDArray[np.int8], hisp: NDArray[np.int8]) -> NDArray[np.int8]:
    """0 for H, 1 for I, -1 for others."""
    return np.where(hisp == 2, 0, np.where((hisp == 1) & (race == 1), 1, _NONE)).astype(np.int8)


class _Counter:
    """Adds rows to the answers of their states."""

    def __init__(self, states: int) -> None:
        self._states = states
        self.found = np.zeros((states, len(answers())), dtype=np.int64)

    def add(
        self,
        table: str,
        state: NDArray[np.signedinteger],
        cell: NDArray[np.int8],
        race: NDArray[np.int8],
        hisp: NDArray[np.int8],
        groups: str = "A-G H,I *",
    ) -> None:
        """Count rows of a table. A row without a state or a cell is not counted."""
        inside = (state >= 0) & (cell >= 0)
        state, cell, race, hisp = state[inside], cell[inside], race[inside], hisp[inside]
        everybody = np.zeros(len(state), dtype=np.int8)
        for group in groups.split():
            if group not in TABLES[table].groups:
                continue
            number = {"A-G": _of_race(race), "H,I": _of_origin(race, hisp), "*": everybody}[group]
            places = _places(table, GROUPS[group])
            which = number >= 0
            at = places[number[which], cell[which]]
            width = self.found.shape[1]
            self.found += np.bincount(
                state[which].astype(np.int64) * width + at, minlength=self.found.size
            ).reshape(self._states, width)


@cache
def _places(table: str, iterations: str) -> Ints:
    """Answers by iteration and cell."""
    out = np.zeros((len(iterations), 32), dtype=np.int64)
    for i, iteration in enumerate(iterations):
        for c in TABLES[table].cells:
            out[i, c] = column(table, iteration, c)
    return out


def counts(records: SdhcRecords, mode: str, relation: str, tau: Mapping[str, int]) -> Ints:
    """True answers ``(states, answers)``, after truncation to ``tau`` by table."""
    a, p = records.addresses, records.residents
    out = _Counter(len(a.states))
    _denominators(out, records)
    state, home = a.state[p.address], p.rtype == 3
    by_head = a.hhrace[p.address], a.hhspan[p.address]
    universes, cells = _person_tables(records)
    kept, whole = _kept(records, mode, tau, universes), untruncated(mode, relation)
    for table, which in kept.items():
        groups = "A-G H,I" if table == whole else "A-G H,I *"
        head = (p.race, p.hisp) if table == "PH3" else by_head
        out.add(table, _those(state, which), cells[table], *head, groups)
    if mode != PHSAFE:
        for table, left in (
            (EXCESS, home & ~kept["PH7"]),
            (EXCESS_CHILDREN, universes["PH3"][0] & ~kept["PH3"]),
        ):
            out.add(table, _those(state, left), cells["PH1_num"], *by_head)
    if whole is not None:
        out.add(whole, _those(state, home), cells["PH1_num"], *by_head, "*")
    return out.found


def _those(state: NDArray[np.signedinteger], which: Mask) -> NDArray[np.signedinteger]:
    return np.where(which, state, np.int16(_NONE))


def _person_tables(
    records: SdhcRecords,
) -> tuple[dict[str, tuple[Mask, Mask]], dict[str, NDArray[np.int8]]]:
    """By table: the persons that are truncated to tau, and those that are counted; and their
    cells."""
    a, p = records.addresses, records.residents
    where, age = p.address, p.age
    hht2 = a.hht2[where]
    of_age = np.where(age < 18, 2, 3).astype(np.int8)
    home = p.rtype == 3
    own, minor = _CHILD[p.relship], home & (age < 18)
    # PHSafe compares texts: HHT 0 passes. No household of the tight mode has it.
    family = _FAMILY[p.relship] & (a.hht[where] <= 3)
    universes: dict[str, tuple[Mask, Mask]] = {
        "PH1_num": (home, home),
        "PH2": (home, home),
        "PH3": (minor, minor),
        "PH4": (_FAMILY[p.relship], family),
        "PH6": ((age < 18) & own, (age < 18) & own),
        "PH7": (home, home),
    }
    ph2 = np.where(hht2 <= 4, _COUPLES[hht2, a.cplt[where]], _PH2[hht2])
    band = np.searchsorted([4, 6, 12], age, side="right")
    cells = {
        "PH1_num": of_age,
        "PH2": ph2.astype(np.int8),
        "PH3": np.where(own, _OWN[hht2], _PH3[p.relship]).astype(np.int8),
        "PH4": of_age,
        "PH6": np.where(_PH6[hht2] >= 0, _PH6[hht2] + band, _NONE).astype(np.int8),
        "PH7": _PH7[a.ten[where]],
    }
    return universes, cells


def _kept(
    records: SdhcRecords,
    mode: str,
    tau: Mapping[str, int],
    universes: Mapping[str, tuple[Mask, Mask]],
) -> dict[str, Mask]:
    """The persons that each table counts."""
    order = Order(records.addresses, records.residents)
    if mode == PHSAFE:
        return {t: order.kept(cut, tau[t]) & all_ for t, (cut, all_) in universes.items()}
    everybody, children = tau["PH7"], tau["PH3"]
    shared = order.kept(universes["PH7"][0], everybody)
    young = order.kept(universes["PH3"][0] & shared, children)
    return {t: all_ & (young if t in CHILDREN else shared) for t, (_, all_) in universes.items()}


def _denominators(out: _Counter, records: SdhcRecords) -> None:
    a = records.addresses
    one = np.ones(len(a), dtype=np.int8)
    household = (a.rtype == 2) & (a.hht != 0)
    for table, which, cell in (
        ("PH1_denom", household, one),
        ("PH5_denom", (a.hht >= 1) & (a.hht <= 3), one),
        ("PH8_denom", household, _PH8[a.ten]),
    ):
        out.add(table, _those(a.state, which), cell, a.hhrace, a.hhspan)


# --- which persons of an address are kept

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
    """The order of the persons of each address, made where it is asked for."""

    def __init__(self, addresses: Addresses, residents: Residents) -> None:
        self._addresses, self._people = addresses, residents

    def kept(self, inside: NDArray[np.bool_], tau: int) -> NDArray[np.bool_]:
        """Of the persons ``inside`` (a mask), those that are kept: ``tau`` of each address."""
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
