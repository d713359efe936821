"""Names of places by their codes, and the Bureau's standard identifier (GEOID) of a unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import combining, normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.errors import InputError, SpecError
from das.model.frozen import Frozen

# Labels: what a person reads where a file has a code.

#: Between the parts of a label.
BESIDE = ", "
#: The column, and the words in a title, for counts that rest on an attribute assigned by a rule.
NOT_COUNTED = "NOT COUNTED"


@dataclass(frozen=True)
class HeadingWords:
    """The words of headings that are no label of an attribute: of the ``total``, between attributes
    that are crossed (``by``), and of all of them crossed (``everything``)."""

    total: str = "Total"
    by: str = "by"
    everything: str = "All attributes crossed"

    def __post_init__(self) -> None:
        if blank := [k for k, v in vars(self).items() if not v.strip()]:
            raise SpecError(
                f"the word for {blank[0]!r} is empty",
                where="schema.words",
                remedy="write a word, or leave the key out",
            )


ENGLISH = HeadingWords()


def checked(
    name: str, codes: tuple[str, ...], title: str, labels: tuple[str, ...], where: str
) -> tuple[str, tuple[str, ...]]:
    """Title and labels with what is missing filled in: the name, and the codes themselves.

    Raises:
        SpecError: another number of labels than codes, or two codes with one label."""
    labels = labels or codes
    if len(labels) != len(codes) or len(set(labels)) != len(labels):
        raise SpecError(
            f"{len(labels)} labels, {len(set(labels))} of them different, for {len(codes)} codes",
            where=where,
            remedy="give each code a label of its own",
        )
    return title or name, labels


def exchanged(
    codes: tuple[str, ...], labels: tuple[str, ...], new: Mapping[str, str], where: str
) -> tuple[str, ...]:
    """``labels`` with those of some codes replaced.

    Raises:
        SpecError: a label for a code that there is not."""
    if unknown := [c for c in new if c not in codes]:
        raise SpecError(
            f"no level {unknown[0]!r} to label", where=where, remedy=f"there are {', '.join(codes)}"
        )
    return tuple(new.get(c, label) for c, label in zip(codes, labels, strict=True))


#: Kinds of areas whose names are abbreviations.
ABBREVIATED = {
    "AIAN": "American Indian area",
    "CD": "Congressional district",
    "SLDU": "State Senate district",
    "SLDL": "State House district",
    "VTD": "Voting district",
    "SDELM": "Elementary school district",
    "SDSEC": "Secondary school district",
    "SDUNI": "Unified school district",
}


def level_words(level: str) -> str:
    """A level of the tree, or a kind of areas, as a reader writes it.

    >>> level_words("Block_Group"), level_words("US"), level_words("Census_US_Region")
    ('Block group', 'US', 'Census US region')
    >>> level_words("SLDU")
    'State Senate district'"""
    if level in ABBREVIATED:
        return ABBREVIATED[level]
    first, *rest = level.split("_", 1)
    return " ".join([first, *map(level_inside, rest)])


def level_inside(level: str) -> str:
    """The name of a level within a sentence.

    >>> level_inside("Block_Group"), level_inside("US")
    ('block group', 'US')"""
    return " ".join(w.lower() if w.istitle() else w for w in level.split("_"))


# Codes of places: bytes of one width in an array, never a string object for each place.
#
# A code is text in UTF-8, filled up with zeros to the width of the array, ``S<width>``: a quarter of
# what NumPy needs for the same as text, and compared byte by byte. The order of the bytes is that of
# the code points, so codes stand in the order of their texts. They become text at the rim alone: in
# reports, pages, messages.

Codes = NDArray[np.bytes_]


def encoded(texts: ArrayLike) -> Codes:
    """Texts as codes, no wider than the longest needs; what is bytes already, as it is.

    >>> encoded(["07", "1"])
    array([b'07', b'1'], dtype='|S2')

    Raises:
        InputError: bytes that are no UTF-8."""
    given = np.asarray(texts)
    if given.dtype.kind == "S":
        if (characters(given) > 127).any():
            text(given)
        return given
    given = given.astype(np.str_, copy=False)
    points = (
        np.ascontiguousarray(given).view(np.uint32).reshape(*given.shape, given.dtype.itemsize // 4)
    )
    if (points > 127).any():
        return np.strings.encode(given, "utf-8")
    width = max(1, int(np.strings.str_len(given).max(initial=0)))
    return np.ascontiguousarray(points[..., :width].astype(np.uint8)).view(f"S{width}")[..., 0]


def text(codes: Codes) -> NDArray[np.str_]:
    """Codes as texts.

    >>> text(encoded(["ä", "1"]))
    array(['ä', '1'], dtype='<U1')"""
    if not (characters(codes) > 127).any():
        width = codes.dtype.itemsize
        return characters(codes).astype(np.uint32).view(f"U{width}").reshape(codes.shape)
    try:
        return np.strings.decode(codes, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"a code is not UTF-8 ({error})", where="codes of places") from None


def characters(codes: Codes) -> NDArray[np.uint8]:
    """The bytes of each code, ``(..., width)``, zeros behind a shorter one."""
    if codes.dtype.kind != "S":
        raise TypeError(f"codes are bytes, not {codes.dtype}: see das.model.names.encoded")
    return np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, codes.dtype.itemsize)


def of_characters(rows: NDArray[np.uint8]) -> Codes:
    """The codes whose bytes are the rows, ``(n, width)``."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}")[:, 0]


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
    def from_pairs(codes: Codes | NDArray[np.str_], names: NDArray[np.str_]) -> Names:
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
        out[field] = Names.from_pairs(
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
    array([b'440070102002003'], dtype='|S15')"""
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


# The states, with their codes and divisions.


class State(NamedTuple):
    """A state or equivalent: postal abbreviation, FIPS code, census division (0 = none) and
    name."""

    usps: str
    fips: str
    division: int
    name: str


STATES = tuple(
    State(usps, fips, int(division), name)
    for usps, fips, division, name in (
        line.split(maxsplit=3)
        for line in """\
AL 01 6 Alabama
AK 02 9 Alaska
AZ 04 8 Arizona
AR 05 7 Arkansas
CA 06 9 California
CO 08 8 Colorado
CT 09 1 Connecticut
DE 10 5 Delaware
DC 11 5 District of Columbia
FL 12 5 Florida
GA 13 5 Georgia
HI 15 9 Hawaii
ID 16 8 Idaho
IL 17 3 Illinois
IN 18 3 Indiana
IA 19 4 Iowa
KS 20 4 Kansas
KY 21 6 Kentucky
LA 22 7 Louisiana
ME 23 1 Maine
MD 24 5 Maryland
MA 25 1 Massachusetts
MI 26 3 Michigan
MN 27 4 Minnesota
MS 28 6 Mississippi
MO 29 4 Missouri
MT 30 8 Montana
NE 31 4 Nebraska
NV 32 8 Nevada
NH 33 1 New Hampshire
NJ 34 2 New Jersey
NM 35 8 New Mexico
NY 36 2 New York
NC 37 5 North Carolina
ND 38 4 North Dakota
OH 39 3 Ohio
OK 40 7 Oklahoma
OR 41 9 Oregon
PA 42 2 Pennsylvania
RI 44 1 Rhode Island
SC 45 5 South Carolina
SD 46 4 South Dakota
TN 47 6 Tennessee
TX 48 7 Texas
UT 49 8 Utah
VT 50 1 Vermont
VA 51 5 Virginia
WA 53 9 Washington
WV 54 5 West Virginia
WI 55 3 Wisconsin
WY 56 8 Wyoming
PR 72 0 Puerto Rico""".splitlines()
    )
)
#: Census region (1 to 4) of each division.
REGION_OF_DIVISION = (9, 1, 1, 2, 2, 3, 3, 3, 4, 4)


def state_names() -> dict[str, Names]:
    """The names of the states, for files that say their codes alone."""
    codes, names = (np.array([getattr(s, part) for s in STATES]) for part in ("fips", "name"))
    return {"State": Names.from_pairs(codes, names)}
