"""A table as it is, for a first configuration: every column as text, in the encoding that it reads
in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from das.errors import InputError
from das.files.parquet import DAMAGE
from das.files.readers.rows import ABOVE, header, refuse_repeated
from das.files.readers.source import AGAIN, DelimitedFormat, Member, batches, members
from das.model.profile import ColumnProfile, InputProfile

#: Tried in this order.
ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1")


def read(path: Path) -> InputProfile:
    """Profile a table. Raises :class:`InputError` if the file is not a table, or has no rows."""
    found = members(path)
    if len(found) != 1:
        raise InputError(
            f"holds {len(found)} files", where=path, remedy="name one table, CSV or Parquet"
        )
    table, encoding = _parquet(found[0]) if found[0].base.endswith(".parquet") else _text(found[0])
    if not table.num_rows:
        raise InputError("has no records", where=path)
    return InputProfile(
        str(path), encoding, table.num_rows, tuple(_column(n, table[n]) for n in table.column_names)
    )


def _text(member: Member) -> tuple[pa.Table, str]:
    with member.open() as stream:
        begin = stream.read(2)
    last: InputError | None = None
    for encoding in ENCODINGS:
        if (encoding == "utf-16") != (begin in (b"\xff\xfe", b"\xfe\xff")):
            continue
        try:
            delimiter, names = header(member, encoding)
            if not names:
                raise InputError(
                    "its first line is blank, and names no columns", where=member.name, remedy=ABOVE
                )
            refuse_repeated(names, member)
            layout = DelimitedFormat(
                delimiter, dict.fromkeys(names, pa.string()), skip=1, quotes=True, encoding=encoding
            )
            return pa.Table.from_batches(
                batches(member, layout), pa.schema([(n, pa.string()) for n in names])
            ), encoding
        except InputError as error:
            last = last or error
    assert last is not None
    raise last


def _parquet(member: Member) -> tuple[pa.Table, str]:
    try:
        table = pq.read_table(member.path)
        refuse_repeated(table.column_names, member)
        columns = {n: pc.fill_null(pc.cast(table[n], pa.string()), "") for n in table.column_names}
        for column in columns.values():
            column.validate(full=True)  # bytes that are no UTF-8 are passed on as they are
        return pa.table(columns), ENCODINGS[0]
    except DAMAGE as error:
        raise InputError(
            f"is not a Parquet file that can be read: {error}"[:300],
            where=member.name,
            remedy=AGAIN,
        ) from None


def _column(name: str, column: pa.ChunkedArray) -> ColumnProfile:
    encoded = pc.dictionary_encode(column).combine_chunks()
    order = pc.array_sort_indices(encoded.dictionary)
    values = pc.take(encoded.dictionary, order).to_pylist()
    place = np.empty(len(values), dtype=np.int64)
    blank = values[:1] == [""]  # the first in order
    place[order.to_numpy()] = np.arange(len(values)) - blank
    return ColumnProfile(name, tuple(values[blank:]), place[encoded.indices.to_numpy()])
