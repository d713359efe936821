"""Schemas: the attributes of a record, and the cells of its histogram in C order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.frozen import Frozen
from das.model.names import ENGLISH, HeadingWords, checked, exchanged
from das.model.query import DETAILED, FEW_CELLS, Grouping, Query

# An attribute of a schema: what a record can be in one respect.

#: Columns of the published files, which no attribute may overwrite.
RESERVED = (
    "label",
    "geocode",
    "query_name",
    "query_shape",
    "value",
    "variance",
    "sign",
    "plb",
    "standard_error",
    "level",
    "query",
    "EPNUM",
    "RTYPE",
    "State",
    "County",
)


@dataclass(frozen=True)
class Attribute:
    """A categorical attribute and the codes of its levels, in order.

    ``title`` and ``labels`` are for readers; two attributes that differ in them alone are the same.
    """

    name: str
    levels: tuple[str, ...]
    title: str = field(default="", compare=False)
    labels: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise SpecError(
                "an attribute needs at least one level, and its levels must differ",
                where=f"attribute {self.name!r}",
                remedy="list each level once",
            )
        if self.name in RESERVED:
            raise SpecError(
                f"{self.name!r} cannot name an attribute: it is a column of the published files",
                where="schema",
                remedy="rename the attribute",
            )
        if not self.name or "*" in self.name or self.name in ("total", DETAILED):
            raise SpecError(
                f"{self.name!r} cannot name an attribute",
                where="schema",
                remedy="avoid '*', 'total' and 'detailed', which name queries",
            )
        title, labels = checked(
            self.name, self.levels, self.title, self.labels, f"attribute {self.name!r}"
        )
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "labels", labels)

    @staticmethod
    def from_levels(name: str, levels: int | Sequence[str] | Mapping[str, str]) -> Attribute:
        """With a list of codes, a mapping of codes to labels, or a number n for the levels 0 to n -
        1."""
        if isinstance(levels, int):
            levels = [str(level) for level in range(levels)]
        if isinstance(levels, str) or not all(isinstance(level, str) for level in levels):
            raise SpecError(
                f"its levels are {levels!r}",
                where=f"attribute {name!r}",
                remedy="give a list of texts, texts with their labels, or the number of levels",
            )
        labels = tuple(levels.values()) if isinstance(levels, Mapping) else ()
        return Attribute(name, tuple(levels), labels=labels)

    def labeled(self, title: str | None, labels: Mapping[str, str], where: str) -> Attribute:
        """The same attribute, with another title and other labels for some levels."""
        return replace(
            self,
            title=title or self.title,
            labels=exchanged(self.levels, self.labels, labels, where),
        )

    def detailed(self) -> Grouping:
        """Every level by itself."""
        return Grouping.detailed(self.name, self.levels, self.title, self.labels)


#: The most cells. Memory holds a bit for each, and eight bytes for each in a batch.
MOST_CELLS = 10**9


@dataclass(frozen=True, repr=False)
class Schema(Frozen):
    """Attributes, named groupings of them, and the combinations that cannot occur.

    ``recodes`` are groupings that queries can name besides the attributes. ``impossible`` lists
    structural zeros, each a mapping from an attribute or grouping to those of its levels or
    groups that never occur *together*; they are public and cost no budget. ``dwelling`` names
    the attribute that says where a person lives. Its level 0 is a household in a housing unit,
    and each other level is one type of group quarters. Facility counts bound it. ``words`` are
    those of headings; two schemas that differ in them alone are the same."""

    name: str
    attributes: tuple[Attribute, ...]
    recodes: tuple[Grouping, ...] = ()
    impossible: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    dwelling: str | None = None
    words: HeadingWords = field(default=ENGLISH, compare=False)
    _names: Mapping[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        where = f"schema {self.name!r}"
        names = [a.name for a in self.attributes]
        taken = names + [g.name for g in self.recodes]
        if not names:
            raise SpecError("a schema needs at least one attribute", where=where)
        if len(set(taken)) != len(taken):
            raise SpecError(
                "two attributes or groupings have the same name",
                where=where,
                remedy="rename one of them",
            )
        object.__setattr__(self, "_names", {n: i for i, n in enumerate(names)})
        for g in self.recodes:
            if not g.name or "*" in g.name or g.name in ("total", DETAILED):
                raise SpecError(
                    f"{g.name!r} cannot name a grouping", where=where, remedy="it names a query"
                )
            if len(g.index) != len(self.attribute(g.attribute).levels):
                raise SpecError(
                    f"grouping {g.name!r} does not cover the levels of {g.attribute!r}", where=where
                )
        if self.dwelling is not None:
            self.attribute(self.dwelling)
        if self.cells > MOST_CELLS:
            raise SpecError(
                f"some 10^{math.log10(self.cells):.0f} cells, and {MOST_CELLS:,} are the most that"
                " a histogram can have",
                where=where,
                remedy="use fewer attributes, or coarser ones",
            )
        _ = self._never

    @staticmethod
    def from_attributes(
        name: str,
        attributes: Mapping[str, int | Sequence[str] | Mapping[str, str]],
        *,
        groupings: Mapping[str, tuple[str, Mapping[str, Iterable[str | int]]]] | None = None,
        impossible: Sequence[Mapping[str, Sequence[str]]] = (),
        dwelling: str | None = None,
    ) -> Schema:
        """Make a schema from each attribute's levels: a list of codes, a mapping of codes to
        labels, or a number n for the levels 0 to n - 1. ``groupings``: by name, an attribute and
        the levels of each group. Raises :class:`SpecError`.

        >>> adult = ("age", {"minor": range(18), "adult": range(18, 120)})
        >>> Schema.from_attributes(
        ...     "people",
        ...     {"age": 120, "sex": {"m": "Male", "f": "Female"}},
        ...     groupings={"votingage": adult},
        ... )
        <Schema 'people': age 120 x sex 2 = 240 cells>"""
        if not isinstance(attributes, Mapping):
            raise SpecError(
                f"its attributes are {attributes!r}",
                where=f"schema {name!r}",
                remedy='give a mapping of names to levels, such as {"age": 120, "sex": ["f", "m"]}',
            )
        own = tuple(Attribute.from_levels(key, levels) for key, levels in attributes.items())
        known = {a.name: a.levels for a in own}
        recodes = []
        for key, (attribute, groups) in (groupings or {}).items():
            where = f"schema {name!r}, grouping {key!r}"
            if attribute not in known:
                raise SpecError(
                    f"no attribute {attribute!r}",
                    where=where,
                    remedy=f"there are {', '.join(known)}",
                )
            members = {group: [str(x) for x in levels] for group, levels in groups.items()}
            recodes.append(Grouping.from_levels(key, attribute, known[attribute], members, where))
        zeros = tuple(
            {a: tuple(map(str, levels)) for a, levels in rule.items()} for rule in impossible
        )
        return Schema(name, own, tuple(recodes), zeros, dwelling)

    def __repr__(self) -> str:
        parts = " x ".join(f"{a.name} {len(a.levels)}" for a in self.attributes)
        return f"<Schema {self.name!r}: {parts} = {self.cells:,} cells>"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(a.levels) for a in self.attributes)

    @cached_property
    def cells(self) -> int:
        """Number of cells, K: the product of the shape."""
        return math.prod(self.shape)

    def attribute(self, name: str) -> Attribute:
        if name not in self._names:
            raise SpecError(
                f"no attribute {name!r}",
                where=f"schema {self.name!r}",
                remedy=f"its attributes are {', '.join(self._names)}",
            )
        return self.attributes[self._names[name]]

    def axis(self, name: str) -> int:
        self.attribute(name)
        return self._names[name]

    def level_of(self, name: str) -> NDArray[np.intp]:
        """The level of attribute ``name`` in each cell, shape ``(cells,)``."""
        ((step, levels),) = self.steps((name,))
        return np.tile(np.repeat(np.arange(levels), step), self.cells // (step * levels))

    def spelled(self, cell: int) -> str:
        """The levels of a cell.

        >>> from das.model.redistricting import PL94
        >>> PL94.spelled(2015).split(" x ")[:3]
        ['other-noninstitutional', '18-and-over', 'hispanic']"""
        levels = np.unravel_index(cell, self.shape)
        return " x ".join(a.levels[i] for a, i in zip(self.attributes, levels, strict=True))

    def steps(self, names: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """For some attributes, ``(step, levels)``: a cell k has level ``k // step % levels``.

        >>> from das.model.redistricting import PL94
        >>> PL94.steps(("votingage", "cenrace"))
        ((126, 2), (1, 63))"""
        axes = [self.axis(name) for name in names]
        return tuple((math.prod(self.shape[axis + 1 :]), self.shape[axis]) for axis in axes)

    @cached_property
    def _never(self) -> tuple[tuple[NDArray[np.bool_], ...], ...]:
        """The structural zeros, as boxes."""
        where = f"schema {self.name!r}, structural zeros"
        known = [*self._names, *(g.name for g in self.recodes)]
        if unknown := [name for rule in self.impossible for name in rule if name not in known]:
            raise SpecError(
                f"no attribute {unknown[0]!r}, and no grouping",
                where=where,
                remedy=f"there are {', '.join(known)}",
            )
        try:
            return tuple(map(self.box, self.impossible))
        except SpecError as error:
            raise SpecError(error.what, where=where, remedy=error.remedy) from None

    @property
    def restricted(self) -> frozenset[int]:
        """The axes whose levels structural zeros distinguish."""
        return frozenset(i for box in self._never for i, mask in enumerate(box) if not mask.all())

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """False at the structural zeros, shape ``(cells,)``. Cells that no rule distinguishes
        are computed once."""
        told = self.restricted
        out = np.ones([n if i in told else 1 for i, n in enumerate(self.shape)], dtype=bool)
        for box in self._never:
            out[np.ix_(*(mask if i in told else [0] for i, mask in enumerate(box)))] = False
        out = np.broadcast_to(out, self.shape).ravel()
        out.setflags(write=False)
        return out

    def box(self, conditions: Mapping[str, tuple[str, ...]]) -> tuple[NDArray[np.bool_], ...]:
        """For each attribute, the levels, ``(levels,)``, that meet every condition. A condition is
        an attribute or grouping and its allowed levels or groups. The cells that meet all
        conditions are the product. Raises :class:`SpecError`.

        >>> from das.model.redistricting import PL94
        >>> [
        ...     int(mask.sum())
        ...     for mask in PL94.box(
        ...         {"hhinstlevels": ("institutional",), "votingage": ("under-18",)}
        ...     )
        ... ]
        [4, 1, 2, 63]"""
        out = [np.ones(n, dtype=bool) for n in self.shape]
        for name, wanted in conditions.items():
            grouping = self._factor(name, name)
            if unknown := [x for x in wanted if x not in grouping.groups]:
                raise SpecError(
                    f"{name!r} has no level {unknown[0]!r}",
                    where=f"schema {self.name!r}",
                    remedy=f"its levels are {', '.join(grouping.groups[:20])}",
                )
            chosen = set(wanted)
            member = np.array([group in chosen for group in grouping.groups])
            out[self.axis(grouping.attribute)] &= member[grouping.group_of]
        return tuple(out)

    def where(self, conditions: Mapping[str, tuple[str, ...]]) -> NDArray[np.bool_]:
        """The cells, ``(cells,)``, that meet every condition, as :meth:`box` has them. Raises
        :class:`SpecError`."""
        out = np.ones(1, dtype=bool)
        for mask in self.box(conditions):
            out = (out[:, None] & mask).ravel()
        return out

    def query(self, name: str) -> Query:
        """The query that ``name`` spells: ``total``, ``detailed``, or attributes and recodes joined
        by ``" * "``.

        Factors may stand in any order; answers are always in C order of the schema."""
        if self.cells > FEW_CELLS:  # its index takes megabytes, so the caller keeps it
            return self._spelled(name)
        if name not in self._queries:
            self._queries[name] = self._spelled(name)
        return self._queries[name]

    @cached_property
    def _queries(self) -> dict[str, Query]:
        """Those that were asked for: a run asks for a dozen, some thousand times."""
        return {}

    def __getstate__(self) -> dict[str, object]:
        """Another process spells its queries itself: their indices are larger than the schema."""
        return {k: v for k, v in self.__dict__.items() if k != "_queries"}

    def _spelled(self, name: str) -> Query:
        groupings = [Grouping.total(a.name, a.levels) for a in self.attributes]
        if name == DETAILED:
            groupings = [a.detailed() for a in self.attributes]
        elif name != "total":
            seen: set[str] = set()
            for factor in name.split(" * "):
                grouping = self._factor(factor, name)
                if grouping.attribute in seen:
                    raise SpecError(
                        f"attribute {grouping.attribute!r} occurs twice", where=f"query {name!r}"
                    )
                seen.add(grouping.attribute)
                groupings[self.axis(grouping.attribute)] = grouping
        return Query(name, tuple(groupings), self.words)

    def _factor(self, factor: str, query: str) -> Grouping:
        for g in self.recodes:
            if g.name == factor:
                return g
        if factor in self._names:
            return self.attribute(factor).detailed()
        known = ["total", DETAILED, *self._names, *(g.name for g in self.recodes)]
        raise SpecError(
            f"{factor!r} is neither an attribute nor a grouping of schema {self.name!r}",
            where=f"query {query!r}",
            remedy=f"use {', '.join(known)}, or a product such as 'a * b'",
        )


# --- the schemas of the publications

RACES = ("White", "Black", "AIAN", "Asian", "NHPI", "SOR")
