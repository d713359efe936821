r"""Queries: products of groupings, one for each attribute.

A query :math:`Q` maps each cell of the schema to exactly one answer, :math:`a: [K] \to [A]`, onto.
As an operator on histograms :math:`(Qh)_i = \sum_{k: a(k) = i} h_k`, with adjoint
:math:`(Q'y)_k = y_{a(k)}`. So sensitivity holds by construction: one record more or less moves one
answer by 1, and one record replaced moves at most two (squared :math:`L_2` distance 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.names import BESIDE, ENGLISH, HeadingWords, checked, exchanged

# A grouping of the levels of one attribute: total and disjoint.

TOTAL = "*"
DETAILED = "detailed"


@dataclass(frozen=True)
class Grouping:
    """Which group each level of ``attribute`` falls into.

    ``index[i]`` is the group of level ``i``; every group of ``groups`` has at least one level.
    Because ``index`` has exactly one entry a level, the groups cover all levels and never overlap.
    ``title`` and ``labels`` are for readers; two groupings that differ in them alone are the same.
    """

    name: str
    attribute: str
    groups: tuple[str, ...]
    index: tuple[int, ...]
    title: str = field(default="", compare=False)
    labels: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        where = f"grouping {self.name!r} of attribute {self.attribute!r}"
        if len(set(self.groups)) != len(self.groups):
            raise SpecError(
                "two groups have the same name", where=where, remedy="name each group differently"
            )
        if set(self.index) != set(range(len(self.groups))):
            raise SpecError(
                f"the {len(self.groups)} groups are not all used, or a level points outside them",
                where=where,
                remedy="give every level one group, and every group one level at least",
            )
        title, labels = checked(self.name, self.groups, self.title, self.labels, where)
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "labels", labels)

    def labeled(self, title: str | None, labels: Mapping[str, str], where: str) -> Grouping:
        """The same grouping, with another title and other labels for some groups."""
        return replace(
            self,
            title=title or self.title,
            labels=exchanged(self.groups, self.labels, labels, where),
        )

    @property
    def is_total(self) -> bool:
        return len(self.groups) == 1

    @cached_property
    def is_detailed(self) -> bool:
        return self.index == tuple(range(len(self.index)))

    @cached_property
    def group_of(self) -> NDArray[np.intp]:
        """``index`` as an array, ``(levels,)``."""
        out = np.asarray(self.index, dtype=np.intp)
        out.setflags(write=False)
        return out

    @staticmethod
    def from_levels(
        name: str,
        attribute: str,
        levels: Sequence[str],
        groups: Mapping[str, Sequence[str]],
        where: str,
    ) -> Grouping:
        """From the levels that each group has. Raises :class:`SpecError` unless each level is in
        exactly one."""
        home = {level: i for i, members in enumerate(groups.values()) for level in members}
        listed = [level for members in groups.values() for level in members]
        if sorted(listed) != sorted(levels):
            odd = sorted(set(listed) ^ set(levels)) or sorted(
                {x for x in listed if listed.count(x) > 1}
            )
            raise SpecError(f"each level must be in exactly one group; see {odd[0]!r}", where=where)
        return Grouping(name, attribute, tuple(groups), tuple(home[x] for x in levels))

    @staticmethod
    @lru_cache(maxsize=1024)  # large schemas ask for the same ones with every query
    def total(attribute: str, levels: tuple[str, ...]) -> Grouping:
        return Grouping(TOTAL, attribute, (TOTAL,), (0,) * len(levels))

    @staticmethod
    @lru_cache(maxsize=1024)
    def detailed(
        attribute: str, levels: tuple[str, ...], title: str = "", labels: tuple[str, ...] = ()
    ) -> Grouping:
        return Grouping(
            DETAILED, attribute, levels, tuple(range(len(levels))), title or attribute, labels
        )


#: Up to this many cells, answers are computed once; beyond, only when they are needed.
FEW_CELLS = 1 << 16
#: Answers of all cells of a large schema are computed if at least one cell in four is wanted.
MOST_OF = 4


@dataclass(frozen=True, repr=False)
class Query:
    """A product of groupings, in the attribute order of its schema; ``words`` are for readers."""

    name: str
    groupings: tuple[Grouping, ...]
    words: HeadingWords = field(default=ENGLISH, compare=False)

    def __repr__(self) -> str:
        return f"<Query {self.name!r}: {self.answers:,} answers>"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of groups along each attribute; 1 where the attribute is summed out."""
        return tuple(len(g.groups) for g in self.groupings)

    @cached_property
    def answers(self) -> int:
        """Number of answers, A."""
        return int(np.prod(self.shape))

    @cached_property
    def index(self) -> NDArray[np.intp]:
        """The answer of each cell, shape ``(cells,)``: ``a(k)``."""
        out = self._index()
        out.setflags(write=False)
        return out

    def _index(self) -> NDArray[np.intp]:
        out = np.zeros(1, dtype=np.intp)
        for g in self.groupings:
            out = (out[:, None] * len(g.groups) + g.group_of[None, :]).ravel()
        return out

    def at(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """The answer of some cells, ``a(k)``, without computing those of all cells of a large
        schema.

        >>> from das.model.redistricting import PL94
        >>> PL94.query("votingage * hispanic").at(np.array([0, 63, 2015]))
        array([0, 1, 3])"""
        cells = self._cells
        if cells <= FEW_CELLS:
            return self.index[cell]
        if len(cell) > cells // MOST_OF:  # divisions take longer
            return self._index()[cell]
        out, step = np.zeros(len(cell), dtype=np.int64), cells
        for g in self.groupings:
            step //= len(g.index)
            if not g.is_total:
                above = cell // step
                level = above - above // len(g.index) * len(g.index)
                out = out * len(g.groups) + g.group_of[level]
        return out

    @cached_property
    def _cells(self) -> int:
        return prod(len(g.index) for g in self.groupings)

    @cached_property
    def _by_answer(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        order = np.argsort(self.index, kind="stable")
        starts = np.searchsorted(self.index[order], np.arange(self.answers))
        return order, starts

    def answer(self, dense: NDArray[np.generic]) -> NDArray[np.generic]:
        """``Q h`` along the last axis: ``(..., cells) -> (..., answers)``, in the dtype of
        ``dense``.

        >>> from das.model.redistricting import PL94
        >>> import numpy as np
        >>> PL94.query("votingage").answer(np.ones(PL94.cells, dtype=int))
        array([1008, 1008])"""
        if all(g.is_detailed for g in self.groupings):
            return dense.copy()
        order, starts = self._by_answer
        return np.add.reduceat(dense[..., order], starts, axis=-1)

    def adjoint(self, answers: NDArray[np.generic]) -> NDArray[np.generic]:
        """``Q' y`` along the last axis: ``(..., answers) -> (..., cells)``."""
        return answers[..., self.index]

    def sums(self, other: Query) -> bool:
        """Whether each answer of this query is a sum of answers of ``other``: for each attribute,
        no group of ``other`` overlaps two groups of this query.

        >>> from das.model.redistricting import PL94
        >>> (
        ...     PL94.query("hispanic").sums(PL94.query("hispanic * cenrace")),
        ...     PL94.query("cenrace").sums(PL94.query("hispanic")),
        ... )
        (True, False)"""
        pairs = zip(self.groupings, other.groupings, strict=True)
        return all(
            len(set(zip(fine.index, g.index, strict=True))) == len(fine.groups) for g, fine in pairs
        )

    def labels(self) -> list[tuple[str, ...]]:
        """The group names of each answer, in C order: a list of ``answers`` tuples."""
        return list(product(*(g.groups for g in self.groupings)))

    @property
    def title(self) -> str:
        """What the query counts by, in words.

        >>> from das.model.redistricting import PL94
        >>> [PL94.query(q).title for q in ("total", "cenrace * hispanic", "detailed")]
        ['Total', 'Hispanic origin by Race', 'All attributes crossed']"""
        by = [g.title for g in self.groupings if not g.is_total]
        if not by:
            return self.words.total
        if self.name == DETAILED and len(by) > 1:
            return self.words.everything
        return f" {self.words.by} ".join(by)

    def captions(self, between: str = BESIDE) -> list[str]:
        """What each answer counts, in words: the labels of its groups, without attributes that are
        summed out.

        >>> from das.model.redistricting import PL94
        >>> PL94.query("votingage * hispanic").captions()[1]
        'Under 18 years, Hispanic or Latino'"""
        shown = [g.labels for g in self.groupings if not g.is_total]
        return [between.join(x) for x in product(*shown)] if shown else [self.words.total]
