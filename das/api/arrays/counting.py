"""Records in memory to true histograms of every level, inside the confidential boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.api.arrays.levels import ByLevel
from das.api.arrays.noisy import expect
from das.errors import InputError
from das.model import frame
from das.model.confidential import Confidential
from das.model.frame import Frame
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.records import Records
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.truth.prepared import histograms

WHERE = "records"


@dataclass(frozen=True, eq=False, repr=False)
class Counted(NoRepr):
    """True counts of every level, each in a box of its own: nothing prints, copies or pickles them.
    ``levels`` are
    :class:`das.model.confidential.Confidential` histograms by level, root first."""

    schema: Schema
    spine: Spine
    levels: Mapping[str, Confidential[Histogram]]


def count(
    records: Frame,
    schema: Schema,
    spine: Spine,
    *,
    place: str | None = None,
    counts: str | None = None,
    positions: Sequence[str] = (),
) -> Counted:
    """Count ``records``, a data frame or a mapping of columns with one row for each record.

    ``records`` must have a column for each attribute of the schema, with the codes of its levels.
    Integers are accepted as codes only if the codes of all levels are numbers, as in ``"age": 90``.
    ``positions`` lists attributes whose column has the numbers of levels instead, from 0, in the
    order of the schema. ``place`` is the column with the code of the lowest unit (default: the
    column named after the lowest level). ``counts`` is a column with the number of records that a
    row stands for.

    The result is confidential: pass it to ``das.measure``. ``levels["County"].open("to compare")``
    opens one level for a stated reason.

    Raises:
        InputError: a column or a value that is missing, a code that the schema or the spine does
            not have."""
    for given, kind, what in (
        (schema, Schema, "a schema as the second"),
        (spine, Spine, "a spine as the third"),
    ):
        expect(given, kind, "count", f"give {what} argument")
    if isinstance(positions, str) or not all(isinstance(a, str) for a in positions):
        raise InputError(
            f"positions are {positions!r}",
            where="count",
            remedy='give a list of attributes, such as ["sex"]',
        )
    for name in positions:
        schema.attribute(name)
    if not frame.rows(records, WHERE):
        raise InputError("there is no record", where=WHERE, remedy="give one row for each record")
    lowest = spine.levels[-1]
    unit = _units(records, place or lowest, spine)
    cell = np.zeros(len(unit), dtype=np.int64)
    for attribute in schema.attributes:
        cell = cell * len(attribute.levels) + _levels(
            records, attribute, attribute.name in positions
        )
    if (odd := ~schema.possible[cell]).any():
        raise InputError(
            f"{int(odd.sum()):,} records have a combination that the schema calls impossible, the"
            f" first of them in row number {int(odd.argmax())}",
            where=WHERE,
            remedy="fix the records, or the schema's structural zeros",
        )
    number = (
        np.ones(len(unit), dtype=np.int64)
        if counts is None
        else frame.counts(records, counts, WHERE)
    )
    held = Confidential(Records(schema, unit, cell, number))
    return Counted(schema, spine, ByLevel(histograms(held, np.arange(spine.units(lowest)), spine)))


def _units(records: Frame, place: str, spine: Spine) -> NDArray[np.int64]:
    lowest, (row, codes) = spine.levels[-1], _distinct(records, place)
    if not all(isinstance(code, str) and code for code in codes):
        frame.texts(records, place, WHERE)  # says what is wrong, and in how many rows
    found = spine.find(lowest, codes.astype(np.str_))
    if (lost := found[row] < 0).any():
        raise InputError(
            f"{int(lost.sum()):,} of {len(row):,} rows have a code in {place!r} that is no unit of "
            f"{lowest}, the first of them {str(codes[row[lost.argmax()]])!r}",
            where=WHERE,
            remedy=(
                f"write codes as the spine does, such as {spine.code(lowest, 0)!r}, and list every"
                " place when you make it"
            ),
        )
    return found[row]


def _levels(records: Frame, attribute: Attribute, positions: bool) -> NDArray[np.int64]:
    """The number of each record's level."""
    row, values = _distinct(records, attribute.name)
    whole = values.dtype.kind in "iu" or {type(v) for v in values.tolist()} == {int}
    if positions and not whole:
        raise InputError(
            f"column {attribute.name!r} is not of whole numbers",
            where=WHERE,
            remedy="give positions from 0, or leave it out of positions=",
        )
    if not whole and not all(isinstance(v, str) for v in values):
        raise InputError(
            f"column {attribute.name!r} holds neither texts nor whole numbers",
            where=WHERE,
            remedy=f"map its values to the levels {', '.join(attribute.levels[:20])}",
        )
    level = {code: i for i, code in enumerate(attribute.levels)}
    if positions:
        level = {str(i): i for i in level.values()}
    elif whole and not all(code.isdecimal() for code in attribute.levels):
        raise InputError(
            f"column {attribute.name!r} has whole numbers, and the codes of its levels are texts",
            where=WHERE,
            remedy=(
                f"map its values to the levels {', '.join(attribute.levels[:20])}, or say "
                f"positions=[{attribute.name!r}] where they count the levels from 0"
            ),
        )
    found = np.array([level.get(str(v), -1) for v in values.tolist()], dtype=np.int64)
    if (odd := found[row] < 0).any():
        raise InputError(
            f"{int(odd.sum()):,} of {len(row):,} rows have a value in {attribute.name!r} that is"
            f" none of its levels, the first of them {str(values[row[odd.argmax()]])!r}",
            where=WHERE,
            remedy=f"its levels are {', '.join(attribute.levels[:20])}",
        )
    return found[row]


def _distinct(records: Frame, name: str) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Which of the distinct values of a column each row has, and these, in the order in which they
    occur."""
    values = frame.column(records, name, WHERE)
    row, distinct = pd.factorize(values.astype(object) if values.dtype.kind in "UT" else values)
    if (row < 0).any():
        frame.present(values, name, WHERE)
    return row, np.asarray(distinct)
