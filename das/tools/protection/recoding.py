"""Cells of one schema as cells of a coarser one, attribute by attribute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from das.tables import Table
from das.tools.protection.published import TableSet

_RANGE = re.compile(r"\d+(-\d+)?")


def recoded(cell: NDArray[np.int64], source: Schema, target: Schema) -> NDArray[np.int64]:
    """The cell of ``target`` of each record with a ``cell`` of ``source``.

    An attribute of the target is one of the source; or a grouping of it, by name or by its groups;
    or has ranges of whole numbers, such as ``25-29``, for one whose levels are whole numbers. The
    last range has all that are larger. Raises :class:`SpecError` for any other.

    >>> from das.publications.dhc.model.persons import DHCP
    >>> from das.model.schema import Schema
    >>> target = Schema.from_attributes("two", {"sex": ["male", "female"], "age": ["0-17", "18"]})
    >>> one = np.ravel_multi_index((0, 1, 40, 0, 0), DHCP.shape)
    >>> recoded(np.array([one]), DHCP, target)
    array([3])"""
    levels = np.unravel_index(cell, source.shape)
    out = np.zeros(len(cell), dtype=np.int64)
    for attribute in target.attributes:
        axis, index = _index(attribute, source)
        out = out * len(attribute.levels) + index[levels[axis]]
    return out


def _index(wanted: Attribute, source: Schema) -> tuple[int, NDArray[np.int64]]:
    """The axis of the source, and the level of the target for each of its levels."""
    for g in source.recodes:
        if g.groups == wanted.levels:
            return source.axis(g.attribute), np.asarray(g.index, dtype=np.int64)
    names = {a.name for a in source.attributes}
    if wanted.name in names:
        known = source.attribute(wanted.name)
        if known.levels == wanted.levels:
            return source.axis(wanted.name), np.arange(len(known.levels))
        if all(_RANGE.fullmatch(x) for x in (*known.levels, *wanted.levels)):
            starts = [int(x.partition("-")[0]) for x in wanted.levels]
            values = [int(x.partition("-")[0]) for x in known.levels]
            index = np.searchsorted(starts, values, side="right") - 1
            if (index >= 0).all() and starts == sorted(set(starts)):
                return source.axis(wanted.name), index.astype(np.int64)
    raise SpecError(
        f"the records do not tell {wanted.name!r} by these levels",
        where=f"schema.attributes.{wanted.name}",
        remedy=f"the records have {', '.join(names)}; ages can be ranges such as 0-17, 18-64, 65",
    )


# A schema no finer than its tables: levels of an attribute that no line tells apart are one.
#
# An attack on tables of 23 age groups is about 23 age groups. In the cells of a finer schema nothing
# would ever be certain, for want of a table that says it.


def coarsest_schema(tables: TableSet) -> tuple[TableSet, NDArray[np.int64]]:
    """The same tables over the coarser schema, and its cell of each cell of the schema now. The
    new schema has no structural zeros: a cell is possible where one of its cells was."""
    schema, every = tables.schema, [t for each in tables.tables.values() for t in each]
    groups, attributes = [], []
    for axis, attribute in enumerate(schema.attributes):
        index = np.array([t.query.groupings[axis].index for t in every])
        _, first, group = np.unique(index, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        groups.append(np.argsort(order)[group.ravel()])
        attributes.append(_joined(attribute, groups[-1]))
    coarse = Schema(schema.name, tuple(attributes))
    levels = np.unravel_index(np.arange(schema.cells), schema.shape)
    cell = np.ravel_multi_index(
        tuple(g[x] for g, x in zip(groups, levels, strict=True)), coarse.shape
    )
    first_of = [np.unique(g, return_index=True)[1] for g in groups]
    made: Mapping[str, tuple[Table, ...]] = {
        level: tuple(_on(t, first_of) for t in each) for level, each in tables.tables.items()
    }
    return TableSet(tables.name, coarse, made), cell.astype(np.int64)


def _joined(attribute: Attribute, group: NDArray[np.int64]) -> Attribute:
    levels, labels = [], []
    for g in range(int(group.max()) + 1):
        (inside,) = np.nonzero(group == g)
        a, b = int(inside[0]), int(inside[-1])
        one = a == b
        levels.append(
            attribute.levels[a] if one else f"{attribute.levels[a]}..{attribute.levels[b]}"
        )
        labels.append(
            attribute.labels[a] if one else f"{attribute.labels[a]} .. {attribute.labels[b]}"
        )
    return replace(attribute, levels=tuple(levels), labels=tuple(labels))


def _on(table: Table, first: list[NDArray[np.intp]]) -> Table:
    """The table over the coarser schema: each group has the place of its first level."""
    made = tuple(
        _cut(grouping, at) for grouping, at in zip(table.query.groupings, first, strict=True)
    )
    return replace(table, query=replace(table.query, groupings=made))


def _cut(grouping: Grouping, at: NDArray[np.intp]) -> Grouping:
    return replace(grouping, index=tuple(np.asarray(grouping.index)[at].tolist()))
