"""Published tables, chosen rows of them with labelled columns, as CSV, Parquet, JSON or a Markdown page.

Rows are read and written a few megabytes at a time: a table of the nation's blocks does not fit in memory.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError, UserError
from das.files.published_tables import GEOCODE
from das.model.not_private import CELL, COLUMN, WARNING, marked
from das.tables import Table

#: Names of the columns: ``P0010001``, ``Total``, or both.
NAMES = ("both", "field", "label")
FORMATS = ("csv", "parquet", "md", "json")
#: Units of one Markdown table, in which each is a column.
WIDEST = 20


def there(folder: Path, tables: Sequence[Table], levels: Sequence[str]) -> list[tuple[Table, list[str]]]:
    """Each table of which the release has a file, and the levels that it is there for."""
    found = [(t, [lv for lv in levels if _path(folder, t.name, lv).is_file()]) for t in tables]
    return [(t, lvs) for t, lvs in found if lvs]


def choose(folder: Path, tables: Sequence[Table], levels: Sequence[str], name: str, level: str) -> Table:
    """The table ``name``, of which there is a file for ``level``.

    Raises:
        UserError: no such table or level: the message lists those that there are.
    """
    known = there(folder, tables, levels)
    if not known:
        raise ReleaseError("this release has no published tables", where=folder,
                           remedy="output.tables was false: `das estimate --from` the release with it true")  # fmt: skip
    if level not in levels:
        raise UserError(f"no level {level!r}", where="--level", remedy=f"its levels are {', '.join(levels)}")
    for table, at in known:
        if table.name.lower() == name.lower() and level in at:
            return table
    names = ", ".join(t.name for t, at in known if level in at)
    raise UserError(f"no table {name!r} at {level}", where="--table", remedy=f"there are {names}")


def rows(
    folder: Path, table: Table, level: str, prefixes: Sequence[str], seen: Callable[[int], None]
) -> Iterator[pa.Table]:
    """The rows whose geocode begins with one of ``prefixes`` (all, without any), batch by batch.

    ``seen`` is told how many bytes of the file have been read.
    """
    path = _path(folder, table.name, level)
    kinds = dict.fromkeys(table.columns, pa.int64()) | {GEOCODE: pa.string()}
    options = {"read_options": pacsv.ReadOptions(block_size=1 << 22),
               "convert_options": pacsv.ConvertOptions(column_types=kinds)}  # fmt: skip
    try:
        with pa.OSFile(str(path)) as file:
            reader, at = pacsv.open_csv(file, **options), 0
            found = [n for n in reader.schema.names if n != COLUMN]
            if found != [GEOCODE, *table.columns]:
                raise ReleaseError(f"its columns are not those of table {table.name}", where=path,
                                   remedy="the release is altered: get it again from where it was published")  # fmt: skip
            for batch in reader:
                seen(file.tell() - at)
                at = file.tell()
                part = pa.Table.from_batches([batch]).select(found)
                yield part.filter(_begins(part[GEOCODE], prefixes)) if prefixes else part
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"not readable as a published table ({error})", where=path) from None


def size(folder: Path, table: Table, level: str) -> int:
    return _path(folder, table.name, level).stat().st_size


def write(
    parts: Iterator[pa.Table], table: Table, level: str, form: str, names: str, out: IO[bytes], *, private: bool = True
) -> int:
    """All rows to ``out``; returns how many. No row at all is an error, before anything is written."""
    first = next((p for p in parts if p.num_rows), None)
    if first is None:
        raise UserError("no unit's code begins so", where="--geocode",
                        remedy=f"look at the codes of {level} without --geocode")  # fmt: skip
    heads = [GEOCODE, *(_head(f, label, names) for f, label in zip(table.columns, table.labels, strict=True))]
    writer = {"csv": _csv, "parquet": _parquet, "json": _json, "md": _markdown}[form]
    every: Iterator[pa.Table] = chain([first], parts)
    if not private and form == "md":
        out.write(f"{WARNING}\n\n".encode())
    elif not private:
        heads.append(COLUMN)
        every = (p.append_column(COLUMN, pa.repeat(CELL, p.num_rows)) for p in every)
    return writer(every, table, level, heads, out)


def _head(field: str, label: str, names: str) -> str:
    return {"field": field, "label": label, "both": f"{field} {label}"}[names]


def _path(folder: Path, name: str, level: str) -> Path:
    return folder / "tables" / f"{name}_{level}.csv"


def _begins(codes: pa.ChunkedArray, prefixes: Sequence[str]) -> pa.ChunkedArray:
    return reduce(pc.or_, [pc.starts_with(codes, p) for p in prefixes])


def _csv(parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]) -> int:
    del table, level
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(heads)
    out.write(head.getvalue().encode())
    n = 0
    for part in parts:
        pacsv.write_csv(part, out, pacsv.WriteOptions(include_header=False, quoting_style="none"))
        n += part.num_rows
    return n


def _parquet(parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]) -> int:
    """Each column's metadata has its field and label, the file's the table, its title and the level."""
    mark = len(heads) - len(table.columns) - 1
    about = [{}, *({"field": f, "label": x} for f, x in zip(table.columns, table.labels, strict=True)), *[{}] * mark]
    kinds = [pa.string(), *[pa.int64()] * len(table.columns), *[pa.string()] * mark]
    fields = [pa.field(h, k, metadata=m) for h, k, m in zip(heads, kinds, about, strict=True)]
    schema = pa.schema(fields, metadata={"table": table.name, "title": table.title, "level": level})
    n = 0
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(pa.Table.from_arrays(part.columns, schema=schema))
            n += part.num_rows
    return n


def _json(parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]) -> int:
    """One object: the table with its columns, and one object for each unit under the names ``heads``."""
    columns = [{"field": f, "label": x} for f, x in zip(table.columns, table.labels, strict=True)]
    about = marked({"table": table.name, "title": table.title, "level": level, "columns": columns}, COLUMN not in heads)
    out.write(json.dumps(about, ensure_ascii=False)[:-1].encode() + b', "rows": [')
    n = 0
    for part in parts:
        for row in zip(*(c.to_pylist() for c in part.columns), strict=True):
            line = json.dumps(dict(zip(heads, row, strict=True)), ensure_ascii=False)
            out.write((",\n" if n else "\n").encode() + line.encode())
            n += 1
    out.write(b"\n]}\n")
    return n


def _markdown(parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]) -> int:
    """A line for each column of the table, a column for each unit."""
    units: list[Sequence[Any]] = []
    for part in parts:
        units += zip(*(c.to_pylist() for c in part.columns), strict=True)
        if len(units) > WIDEST:
            raise UserError(f"more than {WIDEST} units do not fit side by side", where="--format md",
                            remedy="choose fewer with --geocode, or take --format csv")  # fmt: skip
    lines = [f"## {table.name}: {table.title}", "", _line([level, *(str(u[0]) for u in units)]),
             _line(["---", *["---:"] * len(units)])]  # fmt: skip
    lines += [_line([h, *(f"{u[i]:,}" for u in units)]) for i, h in enumerate(heads) if i]
    out.write(("\n".join(lines) + "\n").encode())
    return len(units)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"
