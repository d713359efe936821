"""A grouping of the levels of one attribute: total and disjoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.labels import checked, exchanged

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

    def labelled(self, title: str | None, labels: Mapping[str, str], where: str) -> Grouping:
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
    def of(
        name: str,
        attribute: str,
        levels: Sequence[str],
        groups: Mapping[str, Sequence[str]],
        where: str,
    ) -> Grouping:
        """From the levels that each group has. Raises :class:`SpecError` unless each level is in
        exactly one.
        """
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
