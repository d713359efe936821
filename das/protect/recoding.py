"""Cells of one schema as cells of a coarser one, attribute by attribute."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.attribute import Attribute
from das.model.schema import Schema

_RANGE = re.compile(r"\d+(-\d+)?")


def recoded(cell: NDArray[np.int64], source: Schema, target: Schema) -> NDArray[np.int64]:
    """The cell of ``target`` of each record with a ``cell`` of ``source``.

    An attribute of the target is one of the source; or a grouping of it, by name or by its groups;
    or has ranges of whole numbers, such as ``25-29``, for one whose levels are whole numbers. The
    last range has all that are larger. Raises :class:`SpecError` for any other.

    >>> from das.model.dhc.persons import DHCP
    >>> from das.model.schema import Schema
    >>> target = Schema.of("two", {"sex": ["male", "female"], "age": ["0-17", "18"]})
    >>> one = np.ravel_multi_index((0, 1, 40, 0, 0), DHCP.shape)
    >>> recoded(np.array([one]), DHCP, target)
    array([3])
    """
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
