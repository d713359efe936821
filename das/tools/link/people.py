"""Persons at home and published households, one by one, as the link takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache

import numpy as np

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import (
    HOME,
    MS,
    Floats,
    Ints,
    N,
    age_class,
    household_attributes,
    type_fields,
)
from das.publications.dhc.model.households import (
    ATTRIBUTE,
    DHCH,
    TENURE,
    TENURES,
    TENVACGQ,
    VACANCIES,
)
from das.publications.dhc.model.members import (
    HEADS,
    LEVEL,
    OWN,
    PARENTS,
    PARTNERS,
    LinkedPersons,
    cells_of,
    household_levels,
)
from das.publications.dhc.model.persons import DHCP

_FIELDS = ("block", "relgq", "sex", "age", "hispanic", "cenrace")


@dataclass(frozen=True, eq=False)
class HomePersons(Frozen):
    """Persons in households, arrays of shape ``(persons,)``: the number of their block, and their
    levels in ``dhcp``."""

    block: Ints
    relgq: Ints
    sex: Ints
    age: Ints
    hispanic: Ints
    cenrace: Ints

    def __len__(self) -> int:
        return len(self.block)

    @staticmethod
    def from_histogram(h: Histogram) -> HomePersons:
        """From counts of ``dhcp`` by block; persons in group quarters are left out."""
        found = np.unravel_index(h.cell, DHCP.shape)
        levels = [np.asarray(x, dtype=np.int64) for x in found]
        times = np.where(levels[0] < HOME, h.count, 0)
        return HomePersons(*(np.repeat(x, times) for x in (h.unit, *levels)))

    def some(self, which: Ints) -> HomePersons:
        return HomePersons(*(getattr(self, name)[which] for name in _FIELDS))

    def labeled(self, relgq: Ints) -> HomePersons:
        """The same persons, with other relationships."""
        return replace(self, relgq=relgq)

    def linked(self, household: Ints) -> LinkedPersons:
        """With the number of their household."""
        if len(household) != len(self):
            raise InputError("persons and households differ in number", where="link")
        return LinkedPersons(household, self.relgq, self.sex, self.age, self.hispanic, self.cenrace)


def households_of(h: Histogram) -> tuple[Ints, Ints]:
    """Block and cell of ``dhch`` of each published household."""
    return np.repeat(h.unit, h.count), np.repeat(h.cell, h.count)


def grown_up(people: HomePersons, groups: Ints, tracts: Ints) -> tuple[HomePersons, Ints]:
    """Persons such that every block with persons at home has someone of 15 or over.

    A block where nobody is gets one from its block group, otherwise from its tract (``groups`` and
    ``tracts``, by block). In exchange it gives a child of the same origin, race and voting age. So
    redistricting counts of blocks stay. If nobody can be spared, the oldest becomes 15.
    Returns the persons, and the numbers of those who changed."""
    block, changed = people.block.copy(), list[int]()
    age = people.age.copy()
    able = np.bincount(block[age >= 15], minlength=len(groups))
    young = np.flatnonzero((np.bincount(block, minlength=len(groups)) > 0) & (able == 0))
    for b in young.tolist():
        here = np.flatnonzero(block == b)
        found = _exchanged(people, block, able, here, (groups == groups[b], tracts == tracts[b]))
        if found is None:
            oldest = here[np.argmax(age[here])]
            age[oldest] = 15
            changed.append(int(oldest))
        else:
            child, teenager = found
            block[child], block[teenager] = block[teenager], b
            able[block[child]] -= 1
            changed += found
        able[b] += 1
    return replace(people, block=block, age=age), np.array(sorted(changed), dtype=np.int64)


def _exchanged(
    people: HomePersons, block: Ints, able: Ints, here: Ints, areas: tuple[np.ndarray, ...]
) -> tuple[int, int] | None:
    """A child of a block and a person of 15 to 17 elsewhere who can change places."""
    for area in areas:
        spare = area[block] & (able[block] > 1) & (people.age >= 15) & (people.age < 18)
        for child in here[np.argsort(-people.age[here], kind="stable")].tolist():
            alike = spare & (people.hispanic == people.hispanic[child])
            alike &= people.cenrace == people.cenrace[child]
            if alike.any():
                others = np.flatnonzero(alike)
                same = others[people.sex[others] == people.sex[child]]
                return int(child), int(same[0] if len(same) else others[0])
    return None


# The places in a household besides householder and partner: what its type says of its members.
#
# There are places for own children, other children, grandchildren, grown children, relatives and
# nonrelatives. One is for a parent or grandchild, the third generation. Free ones are for anyone whom
# the type allows.

#: Kinds of places. Those of children come in pairs: under 6, and 6 to 17.
OWN6, OWN17, CHILD6, CHILD17, GRAND6, GRAND17, GENERATION, GROWN, RELATIVE, STRANGER, FREE = range(
    11
)
KINDS = 11
_PLACE_FIELDS = ("couple", "relatives", "own", "children", "multig")


@cache
def places() -> Ints:
    """The places that each type needs, ``(522, 6)``, -1 behind them. Room beyond is ``FREE``, or
    ``STRANGER`` in a household without relatives."""
    t = type_fields()
    out = np.full((len(t.size), 6), -1, dtype=np.int64)
    for i in range(len(out)):
        needed = _needed(*(int(getattr(t, name)[i]) for name in _PLACE_FIELDS))[: int(t.room[i])]
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


# Units that match linked households: tenure by block is that of its households, and what was not
# occupied is vacant.
#
# Where a household moved to a block, a vacant unit leaves it. Vacant units by reason, and rented ones
# without payment of cash rent, keep the sums of their block group where blocks have room for them.

_VACANT = slice(len(TENURES), len(TENURES) + len(VACANCIES))
_RENTED, _FREE = 2, 3


def rewritten(units: Histogram, tenure: Ints, group: Ints) -> Histogram:
    """The units of each block. ``tenure``: its linked households by tenure in three classes,
    ``(blocks, 3)``; ``group``: its block group."""
    dense = units.dense()
    out = dense.copy()
    housing = dense[:, : _VACANT.stop].sum(axis=1)
    out[:, :_RENTED] = tenure[:, :_RENTED]
    out[:, _FREE] = shared(dense[:, [_FREE]], tenure[:, 2], group, whole=False)[:, 0]
    out[:, _RENTED] = tenure[:, 2] - out[:, _FREE]
    out[:, _VACANT] = shared(dense[:, _VACANT], housing - tenure.sum(axis=1), group, whole=True)
    block, cell = np.nonzero(out)
    return Histogram.from_triplets(units.units, TENVACGQ.cells, block, cell, out[block, cell])


def shared(now: Ints, room: Ints, group: Ints, *, whole: bool) -> Ints:
    """Counts ``now`` by block and class, changed so that each block has at most ``room`` of them
    (``whole``: exactly), ``(blocks, classes)``. What leaves a block goes to blocks of its group
    with room, class by class. What finds none is lost, and what is missing is of the last class."""
    out = now.copy()
    over = np.maximum(out.sum(axis=1) - room, 0)
    moved = np.zeros((int(group.max(initial=0)) + 1, now.shape[1]), dtype=np.int64)
    for b in np.flatnonzero(over).tolist():
        for _ in range(int(over[b])):
            kind = int(np.argmax(out[b]))
            out[b, kind] -= 1
            moved[group[b], kind] += 1
    free = room - out.sum(axis=1)
    for b in np.flatnonzero((free > 0) & (whole | (moved[group].sum(axis=1) > 0))).tolist():
        for _ in range(int(free[b])):
            kind = int(np.argmax(moved[group[b]]))
            if moved[group[b], kind]:
                moved[group[b], kind] -= 1
                out[b, kind] += 1
            elif whole:
                out[b, -1] += 1
    return out


# Households that cannot be, in the end: relationships change until every household has a type and
# a cell that is no structural zero.
#
# Three steps, each for the households that are still impossible: own children under 18 become other
# relatives; a spouse or partner becomes a nonrelative; everyone does. A household whose members are
# all nonrelatives of its householder is always possible.

_OTHER_RELATIVE, _OTHER, _IN_LAW = (
    LEVEL[x] for x in ("other-relative", "other-nonrelative", "child-in-law")
)


def cells(people: LinkedPersons, tenure: Ints) -> tuple[Ints, np.ndarray]:
    """The cell of ``dhch`` of each household, and which of them cannot be."""
    levels = household_levels(people, len(tenure))
    odd = levels[ATTRIBUTE] < 0
    found = cells_of({name: np.where(odd, 0, x) for name, x in levels.items()}, tenure)
    return found, np.asarray(odd | ~DHCH.possible[found])


def made_possible(people: HomePersons, household: Ints, tenure: Ints) -> tuple[HomePersons, Ints]:
    """The persons with relationships that can be, and the cell of each household."""
    head = np.isin(people.relgq, HEADS)
    for which, becomes in (
        (np.isin(people.relgq, (*OWN, _IN_LAW)) & (people.age < 18), _OTHER_RELATIVE),
        (np.isin(people.relgq, PARTNERS), _OTHER),
        (~head, _OTHER),
    ):
        found, odd = cells(people.linked(household), tenure)
        if not odd.any():
            return people, found
        relgq = people.relgq.copy()
        relgq[which & odd[household]] = becomes
        people = people.labeled(relgq)
    found, odd = cells(people.linked(household), tenure)
    if odd.any():
        raise InputError(
            f"{int(odd.sum())} households cannot be, whatever their members are called",
            where="link",
        )
    return people, found


# How much the link believes what each published file measures badly.


@dataclass(frozen=True)
class Trust:
    """Costs, in units of one class of age between a household and its householder.

    ``children``, ``elderly``: a child, or an old person, where a household's fields have none.
    ``partner``: a partner whom the persons' file does not call one. ``elsewhere``: a household in
    another block than published. ``crowded``: how much members per household of a block draw large
    households there. ``sweeps``: how often households of a tract change at prices
    (:mod:`das.tools.link.relationships`)."""

    children: float = 1.0
    elderly: float = 0.4
    partner: float = 0.2
    elsewhere: float = 0.3
    crowded: float = 0.6
    sweeps: int = 4

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0:
            raise InputError("a weight below zero", where="link")


#: For published files: below the block group, who is where is mostly noise.
PUBLISHED = Trust()


# What a link adds up to in a tract and its block groups, and what the published files say of it.
#
# A *family* is a table of households, or of persons by relationship and age. Both files are asked for
# the families that they measure well. The distance of a link from them is
#
# .. math:: J = \sum_u \sum_f w_{uf} (x_{uf} - y_{uf})^2,
#
# over the tract and its block groups :math:`u` and the cells :math:`f` of all families. What is
# linked is :math:`x`, what is published :math:`y`. The weight :math:`w` is in proportion to the
# inverse variance of a published cell. These variances hardly differ between counties and seeds:
# :data:`_FAMILIES` has those of six simulated releases with production's plan. Where both files
# have measured the same, such as couples, two families weigh against each other. Then the least
# distance is at the mean with inverse variances as weights.
#
# Adding one to a cell changes :math:`J` by :math:`w (2 (x - y) + 1)`. These are the *prices* at which
# moves are judged (:mod:`das.tools.link.relationships`).

#: Ages where the classes begin by which persons are told apart here.
AGES = (3, 5, 6, 12, 14, 15, 18, 60, 65, 75)
_MINOR, _OLD = AGES.index(18) + 1, AGES.index(65) + 1
RELATIONS = LEVEL["other-nonrelative"] + 1
#: Those that tables tell apart by age; roommates and other nonrelatives are one to them.
_YOUNG = (*OWN, LEVEL["grandchild"])

#: The axes of families of households, and how many levels each has.
_AXES = {
    "sex": 2,
    "age": 9,
    "age3": 3,
    "hisp": 2,
    "race": 7,
    "owned": 2,
    "tenure": 3,
    "large": 5,
    "couple": 5,
    "partner": 3,
    "own": 4,
    "any own": 2,
    "multig": 2,
    "relatives": 2,
    "alone": 2,
    "size": 7,
    "old head": 2,
}


@dataclass(frozen=True)
class LinkFamily(Frozen):
    """A table with some ``axes`` of households. Its published cells have about the ``variance`` in
    a tract. It is ``measured`` where queries count it. It is ``firm`` where no other family
    contradicts it: persons decide how large households are, and who is related."""

    axes: tuple[str, ...]
    variance: float
    measured: bool = False

    def __post_init__(self) -> None:
        if self.variance <= 0:
            raise InputError("a variance must be positive", where="family of a link")

    @property
    def firm(self) -> bool:
        return not {"size", "large", "relatives"} & set(self.axes)


#: Families of households.
_HOUSEHOLDS = (
    LinkFamily(("partner", "own", "sex", "owned"), 3.2, True),
    LinkFamily(("couple", "hisp", "owned"), 2.0, True),
    LinkFamily(("multig", "hisp", "owned"), 4.7, True),
    LinkFamily(("hisp", "race", "owned"), 2.3, True),
    LinkFamily(("relatives", "partner", "any own", "sex", "alone"), 22.0),
    LinkFamily(("size", "relatives"), 80.0),
    LinkFamily(("size", "tenure"), 41.0),
    LinkFamily(("age", "relatives", "owned"), 25.0),
    LinkFamily(("owned", "partner", "sex", "alone", "age3"), 12.0),
    LinkFamily(("age", "owned"), 45.0),
    LinkFamily(("couple", "sex"), 12.0, True),
)
#: Families of households that the persons' file is asked for, which knows its householders better.
_HEADS = (LinkFamily(("alone", "sex", "old head"), 34.0), LinkFamily(("sex", "age"), 20.0))
#: Very large households by tenure, which no file tells apart: see :meth:`Totals.with_large`.
_LARGE = LinkFamily(("large", "tenure"), 10.0)
_FAMILIES: tuple[LinkFamily, ...] = (*_HOUSEHOLDS, *_HEADS, _LARGE)
_OF_HEADS = slice(len(_HOUSEHOLDS), len(_HOUSEHOLDS) + len(_HEADS))
#: Sizes where the classes of very large households begin.
_BEYOND = (8, 9, 11, 15)
MEMBERS = "members"
#: Variances of persons by relationship, of minors by relationship, of children by age, and of the
#: old. Only the first are measured.
_LABELS, _MINORS, _CHILDREN, _SENIORS = 5.5, 22.0, 18.0, 45.0
#: The variance of weight 1; and weights of a block group's cell next to that of its tract, where
#: it is measured, and where not.
_UNIT, _IN_GROUPS = 5.0, (0.6, 1.3)


@dataclass(frozen=True, eq=False)
class Totals(Frozen):
    """``wanted`` of each cell in the tract (row 0) and its block groups, ``(1 + groups, cells)``,
    and the ``weight`` of its deviations, of the same shape."""

    wanted: Floats
    weight: Floats

    def __post_init__(self) -> None:
        if self.wanted.shape != self.weight.shape or (self.weight < 0).any():
            raise InputError("targets and weights do not fit", where="totals of a link")

    def with_large(self, held: Floats) -> Totals:
        """With targets of very large households: how much larger than 7 they are does not depend on
        tenure. ``held``: what is linked, of the shape of ``wanted``. Block groups have none."""
        wanted, weight = self.wanted.copy(), self.weight.copy()
        of_seven = wanted[0, _starts()[_SIZES] :][: 7 * 3].reshape(7, 3)[-1] + 1e-9
        many = held[0, _large()].sum(axis=1, keepdims=True)
        wanted[0, _large()] = many * of_seven / of_seven.sum()
        weight[1:, _large()] = 0.0
        return Totals(wanted, weight)


def _axes(attributes: Mapping[str, Ints]) -> dict[str, Ints]:
    """The level of each axis, from attributes of ``dhch``; any shape."""
    t, kind = type_fields(), attributes[ATTRIBUTE]
    couple, own, size = t.couple[kind], t.own[kind], t.size[kind]
    return {
        "sex": attributes["sex"],
        "age": attributes["hhage"],
        "age3": np.searchsorted((2, 6), attributes["hhage"], side="right"),
        "hisp": attributes["hisp"],
        "race": attributes["race"],
        "tenure": attributes[TENURE.name],
        "large": np.searchsorted(_BEYOND, attributes.get(MEMBERS, size), side="right"),
        "owned": np.where(attributes[TENURE.name] == 2, 1, 0),
        "couple": couple,
        "partner": np.where(couple == N, 2, np.where(couple <= MS, 0, 1)),
        "own": own,
        "any own": np.minimum(own, 1),
        "multig": t.multig[kind],
        "relatives": t.relatives[kind],
        "alone": np.where(size == 1, 1, 0),
        "size": size - 1,
        "old head": np.where(attributes["hhage"] >= 6, 1, 0),
    }


@cache
def _starts() -> list[int]:
    cells = [int(np.prod([_AXES[a] for a in f.axes])) for f in _FAMILIES]
    return np.cumsum([0, *cells]).tolist()


def _place(*axes: str) -> int:
    """The number of the family with these axes."""
    return [f.axes for f in _FAMILIES].index(axes)


_SIZES = _place("size", "tenure")


def _large() -> Ints:
    """The cells of very large households, ``(classes, tenures)``."""
    start = _starts()[_place(*_LARGE.axes)]
    return np.arange(start, start + _AXES["large"] * 3).reshape(-1, 3)


#: Where the cells of persons begin.
_PERSONS_AT = _starts()[-1]
_MINOR_AT = _PERSONS_AT + RELATIONS
_CHILD_AT = _MINOR_AT + RELATIONS
_SENIOR_AT = _CHILD_AT + 3 * _MINOR
CELLS = _SENIOR_AT + 4
#: How many families of households there are.
FAMILIES = len(_FAMILIES)


def household_index(attributes: Mapping[str, Ints], families: int = FAMILIES) -> Ints:
    """The cell of households in each of the first ``families``, ``(..., families)``."""
    of, (head, home, large) = attributes, _parts()
    out = _at(head, of["sex"], of["hhage"], of["hisp"], of["race"])
    out += _at(home, of[ATTRIBUTE], of[TENURE.name])
    members = of.get(MEMBERS, type_fields().size[of[ATTRIBUTE]])
    out += np.take(large, np.minimum(members, _BEYOND[-1]), axis=0)
    return out[..., :families]


def _at(table: Ints, *levels: Ints) -> Ints:
    """``table[levels]``, in half the time."""
    place = np.ravel_multi_index(levels, table.shape[:-1])
    return np.take(table.reshape(-1, table.shape[-1]), place, axis=0)


@cache
def _parts() -> tuple[Ints, Ints, Ints]:
    """The numbers whose sum is the cell in each family: of a householder (sex, age, origin, race),
    of a type and tenure, and of a number of members. No axis depends on two of these, and places
    are sums over axes."""
    names = ("sex", "hhage", "hisp", "race", ATTRIBUTE, TENURE.name, MEMBERS)

    def cells(*which: str) -> Ints:
        size = {a.name: len(a.levels) for a in DHCH.attributes} | {MEMBERS: _BEYOND[-1] + 1}
        levels = np.indices([size[name] for name in which])
        of = dict.fromkeys(names, np.zeros(levels.shape[1:], dtype=np.int64))
        return _cells(_axes(of | dict(zip(which, levels, strict=True))), slice(None))

    nothing = cells()
    return cells(*names[:4]), cells(*names[4:6]) - nothing, cells(MEMBERS) - nothing


def _cells(levels: Mapping[str, Ints], which: slice) -> Ints:
    """The cells in some of the families, ``(..., families)``."""
    families = _FAMILIES[which]
    out = np.empty((*levels["sex"].shape, len(families)), dtype=np.int64)
    for i, (family, start) in enumerate(zip(families, _starts()[:-1][which], strict=True)):
        at = levels[family.axes[0]]
        for axis in family.axes[1:]:
            at = at * _AXES[axis] + levels[axis]
        np.add(at, start, out=out[..., i])
    return out


@cache
def person_index() -> Ints:
    """The cell of persons in each of four families by relationship and class of age, ``(RELATIONS,
    classes, 4)``; ``CELLS`` where there is none."""
    out = np.full((RELATIONS, len(AGES) + 1, 4), CELLS, dtype=np.int64)
    for r in range(RELATIONS):
        if r in HEADS:
            continue
        label = LEVEL["roommate"] if r == LEVEL["other-nonrelative"] else r
        out[r, :, 0] = _PERSONS_AT + label
        if r in _YOUNG:
            out[r, :_MINOR, 1] = _MINOR_AT + r
        if r not in PARTNERS:
            which = 0 if r in OWN else 1 if r == LEVEL["grandchild"] else 2
            out[r, :_MINOR, 2] = _CHILD_AT + which * _MINOR + np.arange(_MINOR)
        out[r, _OLD:, 3] = _SENIOR_AT + _senior(r)
    return out


def _senior(relation: int) -> int:
    if relation in PARTNERS:
        return 0
    if relation in PARENTS:
        return 1
    return 2 if relation < LEVEL["roommate"] else 3


#: Of families of persons: what they are of, their variance, and whether they are measured. Persons
#: contradict themselves in nothing.
_PERSONS = (
    ("relationships", _LABELS, True),
    ("relationships of minors", _MINORS, False),
    ("ages of children", _CHILDREN, False),
    ("relationships of the old", _SENIORS, False),
)


def families_of_cells() -> dict[str, slice]:
    """The cells of each family, by its name."""
    names = [*(" x ".join(f.axes) for f in _FAMILIES), *(name for name, _, _ in _PERSONS)]
    starts = [*_starts(), _MINOR_AT, _CHILD_AT, _SENIOR_AT, CELLS]
    return {name: slice(a, b) for name, a, b in zip(names, starts, starts[1:], strict=False)}


@cache
def _known() -> tuple[Floats, np.ndarray, np.ndarray]:
    """Of each cell its variance in a tract, whether it is measured, and whether it is firm,
    ``(CELLS,)``."""
    size = [s.stop - s.start for s in families_of_cells().values()]
    households = [(f.variance, f.measured, f.firm) for f in _FAMILIES]
    persons = [(variance, measured, True) for _, variance, measured in _PERSONS]
    variance, measured, firm = zip(*households, *persons, strict=True)
    return np.repeat(variance, size), np.repeat(measured, size), np.repeat(firm, size)


def is_firm() -> np.ndarray:
    """Whether each cell can be as published in a county, ``(CELLS,)``."""
    return _known()[2]


def weights(groups: int) -> Floats:
    """Of each cell in a tract and its block groups, ``(1 + groups, CELLS)``."""
    variance, measured, _ = _known()
    out = np.tile(_UNIT / variance, (1 + groups, 1))
    out[1:] *= np.where(measured, *_IN_GROUPS)
    out[:, _large()[0]] = 0.0  # not very large
    return out


def above_weights(of_tract: Floats, tracts: int) -> Floats:
    """Of each cell in a unit of some ``tracts``, ``(CELLS,)``, from those of a tract. Firm ones
    weigh as much; errors of all others add up."""
    return np.where(is_firm(), of_tract, of_tract / tracts)


def age_classes(age: Ints) -> Ints:
    return np.searchsorted(AGES, age, side="right")


def added(household: Ints, group: Ints, groups: int, many: Ints | None = None) -> Floats:
    """Cells of some records counted in the tract and its block groups, ``(1 + groups, CELLS)``.
    ``household``: their cells, ``(records, families)``; ``group`` of each record; ``many`` times.
    """
    width = CELLS + 1
    times = np.ones(len(group)) if many is None else many.astype(float)
    at = (group[:, None] * width + household).reshape(-1)
    weight = np.repeat(times, household.shape[1])
    by = np.bincount(at, weights=weight, minlength=groups * width).astype(float)
    by = by.reshape(groups, width)
    return np.concatenate([by.sum(axis=0, keepdims=True), by])[:, :CELLS]


def published_totals(persons: HomePersons, households: Histogram, group: Ints) -> Totals:
    """What the files of a tract say. ``group``: the block group of each block."""
    groups = int(group.max(initial=0)) + 1
    index = household_index(household_attributes(households.cell), len(_HOUSEHOLDS))
    wanted = added(index, group[households.unit], groups, households.count)
    at = person_index()[persons.relgq, age_classes(persons.age)]
    wanted += added(at, group[persons.block], groups)
    heads = persons.some(np.flatnonzero(np.isin(persons.relgq, HEADS)))
    levels = {
        "sex": heads.sex,
        "age": np.maximum(age_class(heads.age), 0),
        "alone": (heads.relgq == HEADS[0]).astype(np.int64),
        "old head": (heads.age >= 65).astype(np.int64),
    }
    wanted += added(_cells(levels, _OF_HEADS), group[heads.block], groups)
    _with_ages(wanted)
    return Totals(wanted, weights(groups))


#: How households by age are scaled: where classes of an axis of age begin, of nine.
_AGE_AXES = {"age": np.arange(9), "age3": np.array([0, 2, 6])}


def _with_ages(wanted: Floats) -> None:
    """Householders by class of age are measured better among persons: families of households by age
    are scaled to them, at most twofold."""
    rows, starts, heads = len(wanted), _starts(), _place("sex", "age")
    then = wanted[:, starts[heads] : starts[heads + 1]].reshape(rows, 2, 9).sum(axis=1)
    for i, family in enumerate(_HOUSEHOLDS):
        for axis in set(family.axes) & set(_AGE_AXES):
            shape = tuple(_AXES[a] for a in family.axes)
            level = np.unravel_index(np.arange(np.prod(shape)), shape)[family.axes.index(axis)]
            cells = wanted[:, starts[i] : starts[i + 1]]
            now = np.stack([cells[:, level == k].sum(axis=1) for k in range(_AXES[axis])], axis=1)
            due = np.add.reduceat(then, _AGE_AXES[axis], axis=1)
            cells *= np.clip(due / np.maximum(now, 1), 0.5, 2)[:, level]
