"""An attribute of a schema: what a record can be in one respect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from das.errors import SpecError
from das.model.grouping import DETAILED, Grouping
from das.model.labels import checked, exchanged

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
    def of(name: str, levels: int | Sequence[str] | Mapping[str, str]) -> Attribute:
        """With a list of codes, a mapping of codes to labels, or a number n for the levels 0 to n -
        1.
        """
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

    def labelled(self, title: str | None, labels: Mapping[str, str], where: str) -> Attribute:
        """The same attribute, with another title and other labels for some levels."""
        return replace(
            self,
            title=title or self.title,
            labels=exchanged(self.levels, self.labels, labels, where),
        )

    def detailed(self) -> Grouping:
        """Every level by itself."""
        return Grouping.detailed(self.name, self.levels, self.title, self.labels)
