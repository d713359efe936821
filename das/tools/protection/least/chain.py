"""Chains of grains: partitions of the cells of a schema, each finer than the one before.

A grain is spelled as a product of factors, such as ``votingage * eth5``. A factor is an attribute
or a grouping of the schema, or one of these, for schemas with race and origin:

* ``eth3``: Hispanic; not Hispanic, White alone; all others;
* ``eth5``: the same, with Black alone and Asian alone apart from the others;
* ``race7``: each race alone, and two or more races;
* ``race22``: each race alone, each pair of races, and three or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.redistricting import CENRACE
from das.model.schema import RACES, Schema

Ints = NDArray[np.int64]
WHERE = "chain of the least coarsening"
#: The chain that lost least of six on Rhode Island. The first grain is always the total.
CHAIN = (
    "total",
    "eth3",
    "votingage * eth3",
    "votingage * eth5",
    "votingage * hispanic * race7",
    "votingage * hispanic * race22",
    "votingage * hispanic * cenrace",
)
#: Attributes that the rule about others in an atom is about.
GROUPS = frozenset({"hispanic", "cenrace", "race"})


@dataclass(frozen=True, eq=False)
class Grain(Frozen):
    """A partition of the cells of a schema. ``index``: the group of each cell, ``(cells,)``;
    ``labels``: the groups in words; ``classes``: the class of race and origin of each group,
    ``(groups,)``, all 0 where the grain shows none; ``title``: what it tells, in words."""

    name: str
    index: Ints
    labels: tuple[str, ...]
    classes: Ints
    title: str = "Total"

    def __len__(self) -> int:
        return len(self.labels)

    @staticmethod
    def spelled(name: str, schema: Schema) -> Grain:
        """The grain of a product of factors. Raises :class:`SpecError`."""
        if name == "total":
            return Grain(name, np.zeros(schema.cells, np.int64), ("Total",), np.zeros(1, np.int64))
        factors = [_factor(f, schema) for f in name.split(" * ")]
        index, first = _product([f.index for f in factors])
        words = zip(*([f.labels[g] for g in f.index[first]] for f in factors), strict=True)
        told = [f.index for f in factors if f.classes.any()]
        classes = _product(told)[0][first] if told else np.zeros(len(first), np.int64)
        title = " by ".join(f.title for f in factors)
        return Grain(name, index, tuple("; ".join(w) for w in words), classes, title)

    def counts(self, h: Histogram) -> Ints:
        """Counts of a histogram in the groups, ``(units, groups)``."""
        out = np.zeros((h.units, len(self)), dtype=np.int64)
        np.add.at(out, (h.unit, self.index[h.cell]), h.count)
        return out

    def refines(self, other: Grain) -> bool:
        """Whether each group of this lies in one group of the ``other``."""
        return len(np.unique(self.index * len(other) + other.index)) == len(self)


def _product(indices: Sequence[Ints]) -> tuple[Ints, NDArray[np.intp]]:
    """The groups of a product that have a cell, in order, and the first cell of each."""
    key = indices[0].astype(np.int64)
    for index in indices[1:]:
        key = key * (int(index.max()) + 1) + index
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return group.ravel().astype(np.int64), first


def _factor(name: str, schema: Schema) -> Grain:
    """By itself: each group is a class, or none."""
    if name in _OWN and {"hispanic", "cenrace"} <= {a.name for a in schema.attributes}:
        return _of_race(name, schema)
    query = schema.query(name)  # refuses what it does not know
    labels = tuple(query.captions())
    sensitive = any(not g.is_total and g.attribute in GROUPS for g in query.groupings)
    classes = np.arange(len(labels)) * sensitive
    return Grain(name, query.index.astype(np.int64), labels, classes, query.title)


#: By factor: the races that are apart.
_OWN: Mapping[str, tuple[str, ...]] = {
    "eth3": RACES[:1],
    "eth5": (RACES[0], RACES[1], RACES[3]),
    "race7": RACES,
    "race22": tuple(c for c in CENRACE if c.count("+") < 2),
}
_REST = {"race7": "Two or more races", "race22": "Three or more races"}


def _of_race(name: str, schema: Schema) -> Grain:
    apart = _OWN[name]
    group = np.array([apart.index(c) if c in apart else len(apart) for c in CENRACE])
    race = schema.attribute("cenrace")
    if race.levels != CENRACE:
        raise SpecError(f"{name!r} needs the 63 races of the census", where=WHERE)
    index = group[schema.level_of("cenrace")]
    known = dict(zip(race.levels, race.labels, strict=True))
    labels = [known[c] for c in apart]
    if name.startswith("race"):
        words, title = [*labels, _REST[name]], f"Race in {name[4:]} groups"
        return Grain(name, index, tuple(words), np.arange(len(words)), title)
    hispanic = schema.level_of("hispanic") == 1
    words = ["Hispanic or Latino", *(f"Not Hispanic: {w}" for w in (*labels, "all others"))]
    title = f"Race and origin in {name[3:]} groups"
    index = np.where(hispanic, 0, 1 + index)
    return Grain(name, index, tuple(words), np.arange(len(words)), title)


@dataclass(frozen=True, eq=False)
class Chain(Frozen):
    """Grains from the total to the finest."""

    grains: tuple[Grain, ...]

    def __post_init__(self) -> None:
        if len(self.grains) < 2 or len(self.grains[0]) != 1:
            remedy = 'such as ["total", "votingage", "votingage * cenrace"]'
            what = "a chain begins with the total, and has a finer grain"
            raise SpecError(what, where=WHERE, remedy=remedy)
        for coarse, fine in zip(self.grains, self.grains[1:], strict=False):
            if not fine.refines(coarse) or len(fine) <= len(coarse):
                remedy = "each grain must divide groups of the one before, and join none"
                what = f"{fine.name!r} does not refine {coarse.name!r}"
                raise SpecError(what, where=WHERE, remedy=remedy)

    @staticmethod
    def spelled(names: Sequence[str], schema: Schema) -> Chain:
        """The chain of these grains; of none, the usual one of the schema: :data:`CHAIN` for race,
        origin and voting age, or the attributes one after another."""
        if not names:
            known = {a.name for a in schema.attributes} | {g.name for g in schema.recodes}
            own = [a.name for a in schema.attributes if len(a.levels) > 1]
            names = ("total", *(" * ".join(own[: i + 1]) for i in range(len(own))))
            if {"votingage", "hispanic", "cenrace"} <= known:
                names = CHAIN
        if isinstance(names, str):
            raise SpecError("the chain is a text: it must be a list of texts", where=WHERE)
        return Chain(tuple(Grain.spelled(name, schema) for name in names))

    def __len__(self) -> int:
        return len(self.grains)

    @cached_property
    def above(self) -> tuple[Ints, ...]:
        """By grain but the first, the group of the grain before that each group lies in."""
        return tuple(
            coarse.index[np.unique(fine.index, return_index=True)[1]]
            for coarse, fine in zip(self.grains, self.grains[1:], strict=False)
        )

    def holding(self, grain: int, to: int) -> Ints:
        """The group of a coarser grain that each group lies in."""
        out = np.arange(len(self.grains[grain]))
        for h in range(grain, to, -1):
            out = self.above[h - 1][out]
        return out

    def coarser(self, counts: Ints, grain: int, to: int) -> Ints:
        """Counts of a grain, ``(rows, groups)``, added up to those of a coarser one."""
        within = self.holding(grain, to)
        order = np.argsort(within, kind="stable")
        starts = np.searchsorted(within[order], np.arange(len(self.grains[to])))
        return np.asarray(np.add.reduceat(counts[:, order], starts, axis=1))


@dataclass(frozen=True)
class Rules:
    """What an atom with more than its total must pass, at its grain and at each coarser one:

    * ``k``: at least this many persons;
    * ``m``: no count of 1 to m - 1;
    * ``other``: at grains that show race or origin, at least this many persons outside the most
      frequent class.

    ``totals``: the least population of a printed total, 0 if all are printed."""

    k: int = 100
    m: int = 3
    other: int = 0
    totals: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                what = f"{name} is {value!r}: it must be an integer from 0 on"
                raise SpecError(what, where="least coarsening")

    def total_passed(self, persons: Ints, places: Ints) -> NDArray[np.bool_]:
        """Which totals may be printed, each of a number of inhabited places. As many persons as
        places would tell that each has one."""
        return np.asarray((persons >= self.totals) & ((persons > places) | (self.totals == 0)))

    def passed(self, counts: Ints, grain: Grain) -> NDArray[np.bool_]:
        """Which rows of counts, ``(rows, groups)``, pass m and ``other``; k is about the total."""
        small = (counts > 0) & (counts < self.m)
        out = np.asarray(~small.any(axis=1))
        if self.other and grain.classes.any():
            members = grain.classes == np.arange(grain.classes.max() + 1)[:, None]
            most = (counts @ members.T.astype(np.int64)).max(axis=1)
            out &= counts.sum(axis=1) - most >= self.other
        return out

    def passing(self, counts: Ints, grain: Grain) -> NDArray[np.bool_]:
        """Which rows of counts pass at this grain."""
        return np.asarray(self.passed(counts, grain) & (counts.sum(axis=1) >= self.k))
