"""Persons one by one from a table of one's own, with the household of each where there is a column
of them: the input of a study of protection methods.

:mod:`das.files.readers.table` reads the same tables as counts. Here a line that stands for several
persons becomes as many rows. They are in the order of place, household and cell, not of the
file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError, SpecError
from das.files import codes as texts
from das.files.readers.rows import CELL, COUNT, UTF_8
from das.files.readers.table import ListedPlaces, blocks_of, counted_rows, joined
from das.model.columns import Columns
from das.model.frozen import Frozen, NoRepr
from das.model.records import Blocks
from das.model.schema import Schema
from das.model.source import Source

#: The kind of area as which the column of households is read.
_HOME = "das-household"


@dataclass(frozen=True, eq=False, repr=False)
class PersonRows(NoRepr, Frozen):
    """For each person the number of the block (``place``), the ``cell`` of the schema, and the
    number of the ``household``, -1 for none; ``(persons,)``. ``household`` is ``None`` where the
    table has no column of households."""

    blocks: Blocks
    place: NDArray[np.int64]
    cell: NDArray[np.int64]
    household: NDArray[np.int64] | None
    sources: tuple[Source, ...]


def read(
    paths: Sequence[Path],
    schema: Schema,
    *,
    columns: Mapping[str, Any],
    household: str | None = None,
    encoding: str = UTF_8,
    places: Path | None = None,
    progress: Progress = SILENT,
) -> PersonRows:
    """All persons of the tables among ``paths``. ``household`` names the column of codes of
    households, empty for persons in none; the other arguments are those of
    :func:`das.files.readers.table.read`.

    Raises :class:`InputError` for a household in two places, and as that reader."""
    meaning = Columns.from_options(columns, schema)
    if meaning.housing_units:
        raise SpecError(
            "a study counts persons",
            where=f"{meaning.where}.housing_units",
            remedy="delete the key",
        )
    homes = {} if household is None else {_HOME: household}
    of_persons = replace(meaning, areas=homes, names={})
    counted, read_from = counted_rows(
        paths, schema, of_persons, encoding, progress, lowest=places is not None
    )
    bare = replace(of_persons, areas={})
    if places is None:
        blocks, codes = blocks_of(counted, bare)
        at = pc.index_in(counted.column(list(bare.geography)[-1]), value_set=codes)
        place = at.to_numpy().astype(np.int64)
    else:
        nobody = replace(bare, attributes={}, count=None, codes={}, missing={})
        listed, more = counted_rows([places], None, nobody, encoding, progress)
        blocks, _ = blocks_of(listed, nobody)
        listing = ListedPlaces(f"those of {places.name}", places.name)
        place = joined(counted, bare, blocks, listing, paths, encoding)
        read_from = (*read_from, *more)
    return _each(counted, place, blocks, read_from, within=meaning.within_parent)


def _each(
    counted: pa.Table,
    place: NDArray[np.int64],
    blocks: Blocks,
    sources: tuple[Source, ...],
    *,
    within: bool,
) -> PersonRows:
    """A row a person."""
    cell, count = counted.column(CELL).to_numpy(), counted.column(COUNT).to_numpy()
    home = None
    if _HOME in counted.column_names:
        home = _households(counted.column(_HOME), np.where(count > 0, place, -1), within)
    order = np.lexsort((cell, home if home is not None else cell, place))
    each = np.repeat(order, count[order])
    if home is not None:
        home = _numbered(home[each])
    return PersonRows(blocks, place[each], cell[each], home, sources)


def _households(
    column: pa.ChunkedArray, place: NDArray[np.int64], within: bool
) -> NDArray[np.int64]:
    """The number of each row's household. Codes tell households apart everywhere, or ``within`` a
    place only. Raises :class:`InputError` where one is in two places."""
    codes = texts.codes(column)
    none = codes == b""
    _, number = np.unique(codes, return_inverse=True)
    number = number.ravel().astype(np.int64)
    used = ~none & (place >= 0)
    pairs = np.unique(np.stack([number[used], place[used]]), axis=1)
    if within:
        key = np.stack([number, place])
        number = np.unique(key, axis=1, return_inverse=True)[1].ravel().astype(np.int64)
    elif pairs.shape[1] > len(np.unique(pairs[0])):
        raise InputError(
            f"{pairs.shape[1] - len(np.unique(pairs[0])):,} households are in more than one place",
            where="data.household",
            remedy=(
                "give each household one code; where codes repeat between places, say"
                " data.columns.unique_within_parent = true"
            ),
        )
    return np.where(none, -1, number)


def _numbered(home: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same households, numbered from 0 without gaps."""
    out = np.full(len(home), -1, dtype=np.int64)
    inside = home >= 0
    out[inside] = np.unique(home[inside], return_inverse=True)[1].ravel()
    return out
