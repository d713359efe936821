"""The table of a configuration that declares a schema: a named one, or attributes of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pydantic import Field

from das.errors import SpecError
from das.model.attribute import Attribute
from das.model.grouping import Grouping
from das.model.labels import ENGLISH, HeadingWords
from das.model.schema import Schema
from das.model.schemas import SCHEMAS
from das.spec.parts import Part

Named = TypeVar("Named", Attribute, Grouping)


class GroupingPart(Part):
    """``[schema.groupings.<name>]``: a grouping of the levels of one attribute. It is a query of
    its own."""

    attribute: str
    """The attribute that it groups."""
    groups: dict[str, tuple[str, ...]]
    """The name of each group, and its levels. Each level must be in exactly one group."""


class LabelsPart(Part):
    """``[schema.labels.<name>]``: labels that replace the codes of an attribute or grouping in
    tables and pages.
    """

    title: str | None = None
    """Such as ``"Voting age"``; absent: the name itself."""
    levels: dict[str, str] = Field(default={})
    """The code of a level (or group), and its label. Levels that you omit keep their code."""


class WordsPart(Part):
    """``[schema.words]``: the words of headings that are no label of yours, in another language."""

    total: str = ENGLISH.total
    """The heading of a total."""
    by: str = ENGLISH.by
    """Between attributes: "Sex by Age"."""
    everything: str = ENGLISH.everything
    """The title of the query ``detailed``."""


class SchemaPart(Part):
    """``[schema]``: the attributes of a record. Their combinations are the cells of the
    histogram.
    """

    name: str
    """A published schema (``pl94``, ``1940-e2e``, ``dhcp``), or, with ``attributes``, a name for
    your own.
    """
    attributes: dict[str, tuple[str, ...]] | None = None
    """Your own: each attribute with its levels, in order."""
    groupings: dict[str, GroupingPart] = Field(default={})
    """Coarser views of attributes, by name."""
    labels: dict[str, LabelsPart] = Field(default={})
    """Words for pages and tables, for attributes and groupings of any schema."""
    words: WordsPart | None = None
    """Words for headings, such as "Total"."""
    impossible: tuple[dict[str, tuple[str, ...]], ...] = ()
    """Structural zeros: combinations that cannot occur. Each is a table of attributes or
    groupings and levels; its cells are always 0.
    """
    dwelling: str | None = None
    """The attribute that says where a person lives. Its first level is a household in a housing
    unit, the others are types of group quarters. Housing units and facilities then bound it."""

    def build(self) -> Schema:
        """The schema: a published one by name, or the one written out here, with its labels."""
        schema = self._unlabelled()
        known = [a.name for a in schema.attributes] + [g.name for g in schema.recodes]
        if unknown := set(self.labels).difference(known):
            raise SpecError(
                f"{min(unknown)!r} is neither an attribute nor a grouping",
                where="schema.labels",
                remedy=f"it has {', '.join(known)}",
            )
        return replace(
            schema,
            attributes=tuple(map(self._labelled, schema.attributes)),
            recodes=tuple(map(self._labelled, schema.recodes)),
            words=schema.words if self.words is None else HeadingWords(**self.words.model_dump()),
        )

    def _labelled(self, named: Named) -> Named:
        said = self.labels.get(named.name)
        return (
            named
            if said is None
            else named.labelled(said.title, said.levels, f"schema.labels.{named.name}")
        )

    def _unlabelled(self) -> Schema:
        if self.attributes is None:
            if self.name not in SCHEMAS:
                raise SpecError(
                    f"no schema is called {self.name!r}",
                    where="schema.name",
                    remedy=f"use {', '.join(SCHEMAS)}, or write your own under [schema.attributes]",
                )
            if self.groupings or self.impossible or self.dwelling:
                raise SpecError(
                    f"schema {self.name!r} is a published one and cannot be altered",
                    where="schema",
                    remedy="give it another name and write out its attributes",
                )
            return SCHEMAS[self.name]
        attributes = tuple(Attribute(k, v) for k, v in self.attributes.items())
        recodes = tuple(self._grouping(k, g) for k, g in self.groupings.items())
        return Schema(self.name, attributes, recodes, self.impossible, self.dwelling)

    def _grouping(self, name: str, part: GroupingPart) -> Grouping:
        where = f"schema.groupings.{name}"
        levels = (self.attributes or {}).get(part.attribute)
        if levels is None:
            raise SpecError(f"no attribute {part.attribute!r}", where=where)
        return Grouping.of(name, part.attribute, levels, part.groups, where)
