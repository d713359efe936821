r"""What a link adds up to in a tract and its block groups, and what the published files say of it.

A *family* is a table of households, or of persons by relationship and age. Both files are asked for
the families that they measure well. The distance of a link from them is

.. math:: J = \sum_u \sum_f w_{uf} (x_{uf} - y_{uf})^2,

over the tract and its block groups :math:`u` and the cells :math:`f` of all families. What is
linked is :math:`x`, what is published :math:`y`. The weight :math:`w` is in proportion to the
inverse variance of a published cell. These variances hardly differ between counties and seeds:
:data:`_FAMILIES` has those of six simulated releases with production's plan. Where both files
have measured the same, such as couples, two families weigh against each other. Then the least
distance is at the mean with inverse variances as weights.

Adding one to a cell changes :math:`J` by :math:`w (2 (x - y) + 1)`. These are the *prices* at which
moves are judged (:mod:`das.tools.link.local_search`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import (
    MS,
    Floats,
    Ints,
    N,
    age_class,
    household_attributes,
    type_fields,
)
from das.publications.dhc.model.household_types import ATTRIBUTE
from das.publications.dhc.model.households import TENURE
from das.publications.dhc.model.members import HEADS, LEVEL, OWN, PARENTS, PARTNERS
from das.tools.link.people import HomePersons

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


def _axes(of: Mapping[str, Ints]) -> dict[str, Ints]:
    """The level of each axis, from attributes of ``dhch``; any shape."""
    t, kind = type_fields(), of[ATTRIBUTE]
    couple, own, size = t.couple[kind], t.own[kind], t.size[kind]
    return {
        "sex": of["sex"],
        "age": of["hhage"],
        "age3": np.searchsorted((2, 6), of["hhage"], side="right"),
        "hisp": of["hisp"],
        "race": of["race"],
        "tenure": of[TENURE.name],
        "large": np.searchsorted(_BEYOND, of.get(MEMBERS, size), side="right"),
        "owned": np.where(of[TENURE.name] == 2, 1, 0),
        "couple": couple,
        "partner": np.where(couple == N, 2, np.where(couple <= MS, 0, 1)),
        "own": own,
        "any own": np.minimum(own, 1),
        "multig": t.multig[kind],
        "relatives": t.relatives[kind],
        "alone": np.where(size == 1, 1, 0),
        "size": size - 1,
        "old head": np.where(of["hhage"] >= 6, 1, 0),
    }


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


def household_index(of: Mapping[str, Ints], families: int = FAMILIES) -> Ints:
    """The cell of households in each of the first ``families``, ``(..., families)``."""
    return _cells(_axes(of), slice(families))


def _cells(levels: Mapping[str, Ints], which: slice) -> Ints:
    """The cells in some of the families, ``(..., families)``."""
    out = []
    for family, start in zip(_FAMILIES[which], _starts()[:-1][which], strict=True):
        at = np.zeros_like(levels["sex"])
        for axis in family.axes:
            at = at * _AXES[axis] + levels[axis]
        out.append(at + start)
    return np.stack(out, axis=-1)


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
