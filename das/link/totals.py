r"""What a link adds up to in a tract and its block groups, and what the published files say of it.

A *family* is a table of households, or of persons by relationship and age. Both files are asked for
the families that they measure well. The distance of a link from them is

.. math:: J = \sum_u \sum_f w_{uf} (x_{uf} - y_{uf})^2,

over the tract and its block groups :math:`u` and the cells :math:`f` of all families. What is
linked is :math:`x`, what is published :math:`y`. The weight :math:`w` is in proportion to the
inverse variance of the answer in production's plan. Where both files have measured the same, such as couples, two families weigh
against each other. Then the least distance is at the mean with inverse variances as weights.

Adding one to a cell changes :math:`J` by :math:`w (2 (x - y) + 1)`. These are the *prices* at which
moves are judged (:mod:`das.link.steering`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from das.errors import InputError
from das.link.counted import age_class
from das.link.fields import MS, Floats, Ints, N, household_attributes, type_fields
from das.link.people import HomePersons
from das.link.skeleton_cells import SKELETON
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import TENURE
from das.model.dhc.members import HEADS, LEVEL, OWN, PARENTS, PARTNERS
from das.model.frozen import Frozen
from das.model.histogram import Histogram

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
#: Families of households, and their weight: 1 is a variance of 5 in a tract.
_HOUSEHOLDS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("partner", "own", "sex", "owned"), 1.0),
    (("couple", "hisp", "owned"), 1.0),
    (("multig", "hisp", "owned"), 1.0),
    (("hisp", "race", "owned"), 1.0),
    (("relatives", "partner", "any own", "sex", "alone"), 0.2),
    (("size", "relatives"), 0.1),
    (("size", "tenure"), 0.5),
    (("age", "relatives", "owned"), 0.1),
    (("owned", "relatives", "partner", "sex", "alone", "age3"), 0.3),
    (("couple", "sex"), 0.5),
)
#: Families of households that the persons' file is asked for, which knows its householders better.
_HEADS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("alone", "sex", "old head"), 1.0),
    (("sex", "age"), 0.5),
)
#: Of householders as both files measured them together, where they did. Other families of what
#: the skeleton counts are asked of it, too.
_SKELETON: tuple[tuple[tuple[str, ...], float], ...] = (
    (("alone", "sex", "age"), 1.0),
    (("age", "owned"), 1.0),
    (("alone", "owned"), 1.0),
)
#: Very large households by tenure, which no file tells apart: see :meth:`Totals.with_large`.
_LARGE = (("large", "tenure"), 0.5)
_FAMILIES = (*_HOUSEHOLDS, *_HEADS, *_SKELETON, _LARGE)
_OF_HEADS = slice(len(_HOUSEHOLDS), len(_HOUSEHOLDS) + len(_HEADS))
_OF_SKELETON = slice(_OF_HEADS.stop, _OF_HEADS.stop + len(_SKELETON))
#: Sizes where the classes of very large households begin.
_BEYOND = (8, 9, 11, 15)
MEMBERS = "members"
#: Persons by relationship and whether under 18, children by age, and the old.
_LABELS, _CHILDREN, _SENIORS = 1.0, 0.3, 1.0
#: The weight of a block group's cell next to that of its tract.
GROUP_WEIGHT = 0.3


@dataclass(frozen=True, eq=False)
class Totals(Frozen):
    """``wanted`` of each cell in the tract (row 0) and its block groups, ``(1 + groups, cells)``,
    and the ``weight`` of its deviations, of the same shape."""

    wanted: Floats
    weight: Floats

    def __post_init__(self) -> None:
        if self.wanted.shape != self.weight.shape or (self.weight < 0).any():
            raise InputError("targets and weights do not fit", where="totals of a link")

    def shifted(self, by: Floats) -> Totals:
        """With other targets of the tract, ``(CELLS,)`` more."""
        wanted = self.wanted.copy()
        wanted[0] += by
        return Totals(wanted, self.weight)

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
    cells = [int(np.prod([_AXES[a] for a in axes])) for axes, _ in _FAMILIES]
    return np.cumsum([0, *cells]).tolist()


_SIZES = [axes for axes, _ in _HOUSEHOLDS].index(("size", "tenure"))


def _large() -> Ints:
    """The cells of very large households, ``(classes, tenures)``."""
    return np.arange(_starts()[-2], _starts()[-1]).reshape(-1, 3)


#: Where the cells of persons begin.
_PERSONS_AT = _starts()[-1]
_CHILD_AT = _PERSONS_AT + 2 * RELATIONS
_SENIOR_AT = _CHILD_AT + 3 * _MINOR
CELLS = _SENIOR_AT + 4
#: How many families of households there are.
FAMILIES = len(_FAMILIES)


def household_index(of: Mapping[str, Ints]) -> Ints:
    """The cell of households in each family, ``(..., FAMILIES)``."""
    return _cells(_axes(of), slice(None))


def _cells(levels: Mapping[str, Ints], which: slice) -> Ints:
    """The cells in some of the families, ``(..., families)``."""
    out = []
    for (axes, _), start in zip(_FAMILIES[which], _starts()[:-1][which], strict=True):
        at = np.zeros_like(levels["sex"])
        for axis in axes:
            at = at * _AXES[axis] + levels[axis]
        out.append(at + start)
    return np.stack(out, axis=-1)


@cache
def person_index() -> Ints:
    """The cell of persons in each of three families by relationship and class of age, ``(RELATIONS,
    classes, 3)``; ``CELLS`` where there is none."""
    out = np.full((RELATIONS, len(AGES) + 1, 3), CELLS, dtype=np.int64)
    minor = np.arange(len(AGES) + 1) < _MINOR
    for r in range(RELATIONS):
        if r in HEADS:
            continue
        label = LEVEL["roommate"] if r == LEVEL["other-nonrelative"] else r
        out[r, :, 0] = _PERSONS_AT + 2 * label + minor * (r in _YOUNG)
        if r not in PARTNERS:
            which = 0 if r in OWN else 1 if r == LEVEL["grandchild"] else 2
            out[r, :_MINOR, 1] = _CHILD_AT + which * _MINOR + np.arange(_MINOR)
        out[r, _OLD:, 2] = _SENIOR_AT + _senior(r)
    return out


def _senior(relation: int) -> int:
    if relation in PARTNERS:
        return 0
    if relation in PARENTS:
        return 1
    return 2 if relation < LEVEL["roommate"] else 3


@cache
def weights() -> Floats:
    """Of each cell in a tract, ``(CELLS,)``."""
    out = np.zeros(CELLS)
    starts = _starts()
    for (_, weight), a, b in zip(_FAMILIES, starts, starts[1:], strict=False):
        out[a:b] = weight
    out[_large()[0]] = 0.0  # not very large
    out[_PERSONS_AT:_CHILD_AT] = _LABELS
    out[_CHILD_AT:_SENIOR_AT] = _CHILDREN
    out[_SENIOR_AT:] = _SENIORS
    return out


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


def published_totals(
    persons: HomePersons, households: Histogram, group: Ints, skeleton: Histogram | None = None
) -> Totals:
    """What the files of a tract say. ``group``: the block group of each block. ``skeleton``: the
    householders of each block group, if they were estimated from both files."""
    groups = int(group.max(initial=0)) + 1
    index = household_index(household_attributes(households.cell))
    index = index[:, : len(_HOUSEHOLDS)]
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
    weight = np.tile(weights(), (1 + groups, 1))
    _ask_skeleton(wanted, weight, skeleton)
    weight[1:] *= GROUP_WEIGHT
    return Totals(wanted, weight)


def _ask_skeleton(wanted: Floats, weight: Floats, skeleton: Histogram | None) -> None:
    """Ask the ``skeleton`` for all families of what it counts; without it, its own have no
    weight."""
    starts = _starts()
    if skeleton is None:
        weight[:, starts[_OF_SKELETON.start] : starts[_OF_SKELETON.stop]] = 0
        return
    levels = _skeleton_axes(skeleton.cell)
    for i, (axes, _) in enumerate(_FAMILIES):
        if set(axes) <= set(levels):
            cells, to = _cells(levels, slice(i, i + 1)), slice(starts[i], starts[i + 1])
            found = added(cells, skeleton.unit, len(wanted) - 1, skeleton.count)
            wanted[:, to] = found[:, to]


def _skeleton_axes(cell: Ints) -> dict[str, Ints]:
    """The level of each axis that cells of the skeleton have."""
    alone, sex, age, hisp, race, tenure = np.unravel_index(cell, SKELETON.shape)
    return {
        "alone": 1 - alone,
        "sex": sex,
        "age": age,
        "age3": np.searchsorted((2, 6), age, side="right"),
        "hisp": hisp,
        "race": race,
        "tenure": tenure,
        "owned": np.where(tenure == 2, 1, 0),
        "old head": np.where(age >= 6, 1, 0),
    }


def shares(over: Floats, above: Ints, homes: Ints) -> Floats:
    """How the targets of tracts change for the units ``above`` them to have their published totals,
    ``(tracts, CELLS)``. ``over``: by how much each tract is above them, of the same shape.

    A unit's deviation is shared by households in whole numbers; what a tract rounds down, the next
    one gets. Of a family that weighs little a part is shared: its published totals can contradict
    others, and no price could bring them about."""
    out = np.zeros_like(over)
    for unit in np.unique(above):
        here = np.flatnonzero(above == unit)
        upto = np.cumsum(homes[here]) / max(1, homes[here].sum())
        due = np.rint(-over[here].sum(axis=0) * np.minimum(1, 2 * weights()) * upto[:, None])
        out[here] = np.diff(due, axis=0, prepend=0)
    return out
