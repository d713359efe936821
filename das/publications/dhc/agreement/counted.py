"""What the identities between persons and households compare, counted in each unit of a level.

Persons and households are counted from the stored cells alone: an array is as wide as what is
compared, never as the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen, NoRepr
from das.model.histogram import Histogram
from das.publications.dhc.model.households import (
    ATTRIBUTE,
    COUPLES,
    DHCH,
    HHAGE,
    LARGEST,
    TENURE,
    TENURES,
    TENVACGQ,
    THREE,
    TYPES,
    VACANCIES,
)
from das.publications.dhc.model.members import HEADS, LEVEL, OWN, PARENTS, PARTNERS
from das.publications.dhc.model.persons import DHCP, RACE7, RELATIONSHIPS

# The seven fields of the 522 household types as arrays, and what follows from them.

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


HOME = len(RELATIONSHIPS)
#: Sex, class of age, origin and race in seven groups of a householder.
CLASSES = (2, len(HHAGE.levels), 2, len(RACE7.groups))
KINDS = len(PARTNERS)
_STARTS = [int(level.split("-")[0]) for level in HHAGE.levels]
_QUARTERS = len(TENURES) + len(VACANCIES)
RELATIVES = tuple(range(OWN[0], LEVEL["other-relative"] + 1))
STRANGERS = tuple(range(LEVEL["roommate"], HOME))


@dataclass(frozen=True, eq=False, repr=False)
class AgreementCounts(NoRepr):
    """The published counts of some units of one level: of ``persons`` (``dhcp``), ``households``
    (``dhch``) and ``units`` (``tenvacgq``)."""

    persons: Histogram
    households: Histogram
    units: Histogram

    def rows(self, start: int, stop: int) -> AgreementCounts:
        """The units ``start:stop``."""
        return AgreementCounts(
            *(h.rows(start, stop) for h in (self.persons, self.households, self.units))
        )


def age_class(age: Ints) -> Ints:
    """The class of ``hhage`` of single ages of 15 and over."""
    return np.asarray(np.searchsorted(_STARTS, age, side="right") - 1, dtype=np.int64)


@cache
def race7() -> Ints:
    """Of each of the 63 levels of race, its group of the seven."""
    return np.asarray(RACE7.index, dtype=np.int64)


class _Sums:
    """Sums of counts by unit."""

    def __init__(self, h: Histogram) -> None:
        self.units, self.unit, self.count = h.units, h.unit, h.count

    def by_unit(self, which: NDArray[np.bool_], weight: Ints | Floats | None = None) -> Ints:
        """The records of ``which``, ``(units,)``, each ``weight`` times."""
        times = self.count[which] if weight is None else self.count[which] * weight[which]
        out = np.bincount(self.unit[which], weights=times, minlength=self.units)
        return np.asarray(out if np.isinf(out).any() else np.rint(out).astype(np.int64))

    def by(self, which: NDArray[np.bool_], index: Ints, width: int) -> Ints:
        """The records of ``which`` by ``index``, ``(units, width)``."""
        at = self.unit[which] * width + index[which]
        out = np.bincount(at, weights=self.count[which], minlength=self.units * width)
        return np.rint(out).astype(np.int64).reshape(self.units, width)


def _class_of(sex: Ints, age: Ints, hispanic: Ints, race: Ints) -> Ints:
    return np.asarray(np.ravel_multi_index((sex, age, hispanic, race), CLASSES), dtype=np.int64)


def person_counts(h: Histogram) -> Mapping[str, Ints]:
    """Of persons, by what is counted: ``(units,)`` or ``(units, classes)``."""
    found = np.unravel_index(h.cell, DHCP.shape)
    relgq, sex, age, hispanic, cenrace = (np.asarray(x, dtype=np.int64) for x in found)
    s, home = _Sums(h), relgq < HOME
    head, partner = np.isin(relgq, HEADS), np.isin(relgq, PARTNERS)
    own, child = home & np.isin(relgq, OWN), home & ~head & ~partner & (age < 18)
    cls = np.zeros_like(relgq)
    cls[head] = _class_of(sex[head], age_class(age[head]), hispanic[head], race7()[cenrace[head]])
    width = int(np.prod(CLASSES))
    kind = np.zeros_like(relgq)
    for i, level in enumerate(PARTNERS):
        kind[relgq == level] = i
    generation = np.isin(relgq, (*PARENTS, *OWN, LEVEL["child-in-law"], LEVEL["grandchild"]))
    return {
        "home": s.by_unit(home),
        "heads": s.by_unit(head),
        "alone": s.by(relgq == HEADS[0], cls, width),
        "others": s.by(relgq == HEADS[1], cls, width),
        "partners": s.by(partner, 2 * kind + sex, 2 * KINDS),
        "own": np.stack(
            [s.by_unit(own & (age < 6)), s.by_unit(own & (age >= 6) & (age < 18))], axis=1
        ),
        "child": np.stack([s.by_unit(child & (age < 6)), s.by_unit(child & (age >= 6))], axis=1),
        "minor heads": s.by_unit((head | partner) & (age < 18)),
        "elderly": np.stack([s.by_unit(home & (age >= a)) for a in (60, 65, 75)], axis=1),
        "elderly others": s.by_unit(home & ~head & (age >= 60)),
        "relatives": s.by_unit(np.isin(relgq, RELATIVES)),
        "strangers": s.by_unit(np.isin(relgq, STRANGERS)),
        "generations": s.by_unit(home & generation),
        "able": s.by_unit(home & (age >= 15)),
        "by sex": s.by(home & (age >= 15), sex, 2),
        "quarters": s.by(~home, np.maximum(relgq - HOME, 0), DHCP.shape[0] - HOME),
    }


def household_counts(h: Histogram) -> Mapping[str, Ints]:
    """Of households, as :func:`person_counts`; bounds from above can be infinite."""
    of, t, s = household_attributes(h.cell), type_fields(), _Sums(h)
    kind, every = of[ATTRIBUTE], np.ones(len(h.cell), dtype=bool)
    cls = _class_of(of["sex"], of["hhage"], of["hisp"], of["race"])
    width, couple, size = int(np.prod(CLASSES)), t.couple[kind], t.size[kind]
    opposite = couple % 2 == 0  # MO and CO
    other = np.where(opposite, 1 - of["sex"], of["sex"])  # the sex of the partner
    room, kin = t.most_room[kind], t.relatives[kind] == 1
    largest = np.where(size == 7, np.inf, size)
    return {
        "all": s.by_unit(every),
        "alone": s.by(size == 1, cls, width),
        "others": s.by(size > 1, cls, width),
        "partners": s.by(couple < KINDS, 2 * couple + other, 2 * KINDS),
        "opposite couples": s.by_unit((couple < KINDS) & opposite),
        "persons at least": s.by_unit(every, size),
        "largest": s.by_unit(size == 7),
        "tenure": s.by(every, of[TENURE.name], 3),
        **_ranges(s, "own", t.own[kind], room),
        **_ranges(s, "children", t.children[kind], room, shared=False),
        "minor heads at least": s.by_unit((t.minor[kind] == 1) & (t.children[kind] == 0)),
        "minor heads at most": s.by_unit(t.minor[kind] == 1, 1 + (couple < KINDS)),
        "elderly": np.stack([s.by_unit(of["elderly"] >= i) for i in (1, 2, 3)], axis=1),
        "elderly at most": np.stack(
            [s.by_unit(of["elderly"] >= i, largest) for i in (1, 2, 3)], axis=1
        ),
        "older than householder": s.by_unit(of["elderly"] > OWN_ELDERLY[of["hhage"]]),
        "relatives at least": s.by_unit(kin & ~(couple <= 1)),
        "relatives at most": s.by_unit(kin, room),
        "strangers at least": s.by_unit(~kin, t.room[kind]),
        "strangers at most": s.by_unit(every, np.where(kin, room - t.relatives_least[kind], room)),
        "generations": 2 * s.by_unit(t.multig[kind] == 1),
    }


def _ranges(s: _Sums, name: str, field: Ints, room: Floats, shared: bool = True) -> dict[str, Ints]:
    """Of children under 6, and of 6 to 17: households with some, and how many there can be.
    ``shared``: where both are, one place is the other's."""
    least, most = [], []
    for one in (1, 2):
        some = (field == one) | (field == 3)
        least.append(s.by_unit(some))
        most.append(s.by_unit(some, room - (field == 3) if shared else room))
    return {f"{name} at least": np.stack(least, 1), f"{name} at most": np.stack(most, 1)}


def unit_counts(h: Histogram) -> Mapping[str, Ints]:
    """Of units: by tenure in three classes, occupied, housing units, facilities by type."""
    dense = np.zeros((h.units, TENVACGQ.cells), dtype=np.int64)
    dense[h.unit, h.cell] = h.count
    tenure = np.zeros((h.units, 3), dtype=np.int64)
    for i, three in enumerate(THREE):
        tenure[:, three] += dense[:, i]
    return {
        "tenure": tenure,
        "occupied": tenure.sum(axis=1),
        "housing": dense[:, :_QUARTERS].sum(axis=1),
        "quarters": dense[:, _QUARTERS:],
    }
