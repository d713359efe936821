"""Names of places by their codes, and the Bureau's standard identifier (GEOID) of a unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from unicodedata import combining, normalize

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.codes import Codes, characters, encoded, of_characters
from das.model.frozen import Frozen

#: Digits of a standard code by level: state 2, county 3, tract 6, block group 1. A block's has its
#: own rule.
DIGITS = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12}
#: Digits of a block's code here (block group and four digits, whose first is the block group's),
#: and the position of the digit that the GEOID has once only.
BLOCK, TWICE = 16, 11


@dataclass(frozen=True, eq=False)
class Names(Frozen):
    """``names[i]`` is the name of code ``codes[i]``; codes are unique and sorted."""

    codes: Codes
    names: NDArray[np.str_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", encoded(self.codes))
        if len(self.codes) != len(self.names):
            raise InputError("codes and names differ in number", where="names of places")
        if (self.codes[1:] <= self.codes[:-1]).any():
            raise InputError(
                "a code occurs twice, or codes are not sorted", where="names of places"
            )

    @staticmethod
    def of(codes: Codes | NDArray[np.str_], names: NDArray[np.str_]) -> Names:
        """Names from pairs in any order; the first pair of each code counts. Blanks around a name
        are cut, and characters that cannot be printed on one line become blanks."""
        unique, first = np.unique(encoded(codes), return_index=True)
        found = (
            np.strings.strip(_printable(names[first])) if len(first) else np.zeros(0, dtype="<U1")
        )
        return Names(unique, shrunk(found))

    def at(self, codes: Codes | NDArray[np.str_]) -> NDArray[np.str_]:
        """The name of each code, empty where there is none."""
        codes = encoded(codes)
        if not len(self.codes):
            return blank(len(codes))
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return shrunk(np.where(self.codes[at] == codes, self.names[at], ""))


def merged(parts: Iterable[Mapping[str, Names]]) -> dict[str, Names]:
    """Names of several inputs by field, together."""
    parts = list(parts)
    out = {}
    for field in dict.fromkeys(f for p in parts for f in p):
        here = [p[field] for p in parts if field in p]
        out[field] = Names.of(
            np.concatenate([n.codes for n in here]), np.concatenate([n.names for n in here])
        )
    return out


def blank(number: int) -> NDArray[np.str_]:
    """That many empty names."""
    return np.zeros(number, dtype="<U1")


def shrunk(names: NDArray[np.str_]) -> NDArray[np.str_]:
    """The same strings, in an array no wider than the longest."""
    width = int(np.strings.str_len(names).max()) if len(names) else 0
    return names.astype(f"<U{max(width, 1)}", copy=False)


def plain(names: NDArray[np.str_]) -> NDArray[np.str_]:
    """Lower case, without accents: what a search compares."""
    out = np.strings.lower(names)
    odd = (_points(out) > 127).any(axis=1)
    if odd.any():
        out[odd] = [
            "".join(c for c in normalize("NFD", n) if not combining(c)) for n in out[odd].tolist()
        ]
    return out


def unprintable(names: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Which names have a control character in them, such as a line break."""
    p = _points(names)
    inside = np.arange(p.shape[1]) < np.strings.str_len(names)[:, None]
    return np.asarray((inside & ((p < 32) | (p == 127))).any(axis=1))


def _printable(names: NDArray[np.str_]) -> NDArray[np.str_]:
    odd = unprintable(names)
    if odd.any():
        names = names.copy()
        names[odd] = [
            "".join(c if c.isprintable() else " " for c in n) for n in names[odd].tolist()
        ]
    return names


def geoids(level: str, codes: Codes) -> Codes:
    """The standard GEOID of each unit, which joins to TIGER and to block-assignment files: state 2
    digits, county 5, tract 11, block group 12, block 15. Empty for a level whose codes are not all
    of that form.

    In the Bureau's noisy measurement files the 16 digits of a block end a longer code, whose second
    and third character are the state's.

    >>> geoids("Block", encoded(["4400701020022003"]))
    array([b'440070102002003'], dtype='|S15')
    """
    p = characters(codes)
    if level == "Block" and p.shape[1] >= BLOCK:
        digits = p[:, -BLOCK:]
        standard = (digits[:, TWICE] == digits[:, TWICE + 1]).all()
        if p.shape[1] > BLOCK:
            standard &= np.array_equal(p[:, 1:3], digits[:, :2])
        kept = np.delete(digits, TWICE, axis=1)
    elif p.shape[1] == DIGITS.get(level):
        digits, standard, kept = p, True, p
    else:
        return np.zeros(len(codes), dtype="S1")
    if not len(codes) or not standard or (digits < ord("0")).any() or (digits > ord("9")).any():
        return np.zeros(len(codes), dtype="S1")
    return of_characters(kept)


def _points(texts: NDArray[np.str_]) -> NDArray[np.uint32]:
    """Code points, ``(n, width)``, zeros behind a shorter text."""
    return (
        np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), texts.dtype.itemsize // 4)
    )
