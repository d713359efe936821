"""Published tables, chosen rows of them with labeled columns, as CSV, Parquet, JSON or a Markdown
page.

Rows are read and written a few megabytes at a time: a table of the nation's blocks does not fit in
memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError, UserError
from das.files import csv_text
from das.files.release.tables import BESIDE, GEOCODE, GEOID, NAME, marks, quoting
from das.model.not_private import COLUMN, WARNING, Private, marked
from das.model.spelling import named
from das.tables import Table

#: Names of the columns: ``P0010001``, ``Total``, or both.
NAMES = ("both", "field", "label")
FORMATS = ("csv", "parquet", "md", "json")
#: What the ends of a column's interval, and its standard error, are called after it.
LOW, HIGH, ERROR = " low", " high", " SE"
#: Units of one Markdown table, in which each is a column.
WIDEST = 20

#: Of units ``start:stop``, what stands after each column, ``(units, columns)``, masked where there
#: is none: by what it is called after the column.
ColumnsAfter = Callable[[int, int], Mapping[str, "np.ma.MaskedArray[Any, Any]"]]


def there(
    folder: Path, tables: Sequence[Table], levels: Sequence[str]
) -> list[tuple[Table, list[str]]]:
    """Each table with a file in the release, and the levels of its files."""
    found = [(t, [lv for lv in levels if _path(folder, t.name, lv).is_file()]) for t in tables]
    return [(t, lvs) for t, lvs in found if lvs]


def choose(
    folder: Path, tables: Sequence[Table], levels: Sequence[str], name: str, level: str
) -> Table:
    """The table ``name``, which must have a file for ``level``.

    Raises:
        UserError: no such table: the message lists those of the release."""
    known = there(folder, tables, levels)
    if not known:
        raise ReleaseError(
            "this release has no published tables",
            where=folder,
            remedy=(
                "the run has not ended (das run status), or output.tables was false: `das estimate"
                " --from` with it true"
            ),
        )
    by_name = {t.name: t for t, at in known if level in at}
    return by_name[named(name, list(by_name), "table", f"--table, at {level}")]


def rows(folder: Path, table: Table, level: str, seen: Callable[[int], None]) -> Iterator[pa.Table]:
    """GEOCODE and the columns of a table, batch by batch. ``seen`` gets the number of bytes read so
    far."""
    path = _path(folder, table.name, level)
    kinds = dict.fromkeys(table.columns, pa.int64()) | dict.fromkeys(
        (GEOCODE, GEOID, NAME), pa.string()
    )
    options = {
        "read_options": pacsv.ReadOptions(block_size=1 << 22),
        "convert_options": pacsv.ConvertOptions(column_types=kinds),
    }
    try:
        with pa.OSFile(str(path)) as file:
            reader, at = pacsv.open_csv(file, **options), 0
            found = [n for n in reader.schema.names if n not in BESIDE]
            if found != [GEOCODE, *table.columns]:
                raise ReleaseError(
                    f"its columns are not those of table {table.name}",
                    where=path,
                    remedy="the release is altered: get it again from where it was published",
                )
            for batch in reader:
                seen(file.tell() - at)
                at = file.tell()
                part = pa.Table.from_batches([batch]).select(found)
                yield part.set_column(0, GEOCODE, csv_text.read_column(part[GEOCODE]))
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"not readable as a published table ({error})", where=path) from None


def with_intervals(
    parts: Iterator[pa.Table], columns: Sequence[str], read: ColumnsAfter
) -> Iterator[pa.Table]:
    """``parts`` with more columns after each of ``columns``, null where there is no interval. A
    count that is known exactly has an interval of one number."""
    start = 0
    for part in parts:
        told = read(start, start + part.num_rows)
        start += part.num_rows
        names, arrays = [GEOCODE], [part[GEOCODE]]
        for j, name in enumerate(columns):
            names += [name, *(name + called for called in told)]
            arrays += [part[name], *(pa.array(values[:, j]) for values in told.values())]
        yield pa.table(arrays, names=names)


def size(folder: Path, table: Table, level: str) -> int:
    return _path(folder, table.name, level).stat().st_size


def write(
    parts: Iterator[pa.Table],
    table: Table,
    level: str,
    form: str,
    names: str,
    out: IO[bytes],
    *,
    private: Private = True,
) -> int:
    """All rows to ``out``; returns how many. No row at all is an error, before anything is
    written."""
    first = next((p for p in parts if p.num_rows), None)
    if first is None:
        raise UserError(
            f"there is no such unit of {level}",
            where="--geocode, --name",
            remedy=(
                "see its codes and names without them; `das tables RUN --name TEXT` looks at all"
                " levels"
            ),
        )
    label = {f: _head(f, x, names) for f, x in zip(table.columns, table.unique_labels, strict=True)}
    label |= {f + end: head + end for f, head in label.items() for end in (LOW, HIGH, ERROR)}
    heads = [label.get(c, c) for c in first.column_names]
    writer = {"csv": _csv, "parquet": _parquet, "json": _json, "md": _markdown}[form]
    every: Iterator[pa.Table] = chain([first], parts)
    if form == "md":
        out.write(b"" if private else f"{WARNING}\n\n".encode())
    elif mark := marks(table, private):
        heads += mark
        every = (_with(p, mark) for p in every)
    return writer(every, table, level, heads, out)


def _with(part: pa.Table, mark: Mapping[str, str]) -> pa.Table:
    for name, cell in mark.items():
        part = part.append_column(name, pa.repeat(cell, part.num_rows))
    return part


def _head(field: str, label: str, names: str) -> str:
    return {"field": field, "label": label, "both": f"{field} {label}"}[names]


def _path(folder: Path, name: str, level: str) -> Path:
    return folder / "tables" / f"{name}_{level}.csv"


def _csv(
    parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]
) -> int:
    del table, level
    head = io.StringIO()
    csv_text.write_rows(head, [heads])
    out.write(head.getvalue().encode())
    n = 0
    for part in parts:
        called = [part[NAME]] if NAME in part.column_names else []
        csv_text.write_table(
            part, out, pacsv.WriteOptions(include_header=False, quoting_style=quoting(called))
        )
        n += part.num_rows
    return n


def _parquet(
    parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]
) -> int:
    """Each column's metadata has its field and label, the file's the table, its title and the
    level."""
    first = next(parts)
    about = {
        f: {"field": f, "label": x} for f, x in zip(table.columns, table.unique_labels, strict=True)
    }
    fields = [
        pa.field(h, c.type, metadata=about.get(c.name, {}))
        for h, c in zip(heads, first.schema, strict=True)
    ]
    schema = pa.schema(fields, metadata={"table": table.name, "title": table.title, "level": level})
    n = 0
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for part in chain([first], parts):
            writer.write_table(pa.Table.from_arrays(part.columns, schema=schema))
            n += part.num_rows
    return n


def _json(
    parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]
) -> int:
    """One object: the table with its columns, and one object for each unit under the names
    ``heads``."""
    columns = [
        {"field": f, "label": x} for f, x in zip(table.columns, table.unique_labels, strict=True)
    ]
    about = marked(
        {"table": table.name, "title": table.title, "level": level, "columns": columns},
        COLUMN not in heads,
    )
    out.write(json.dumps(about, ensure_ascii=False)[:-1].encode() + b', "rows": [')
    n = 0
    for part in parts:
        for row in zip(*(c.to_pylist() for c in part.columns), strict=True):
            line = json.dumps(dict(zip(heads, row, strict=True)), ensure_ascii=False)
            out.write((",\n" if n else "\n").encode() + line.encode())
            n += 1
    out.write(b"\n]}\n")
    return n


def _markdown(
    parts: Iterator[pa.Table], table: Table, level: str, heads: Sequence[str], out: IO[bytes]
) -> int:
    """A line for each column of the table, a column for each unit, headed by its name and code."""
    units: list[dict[str, Any]] = []
    for part in parts:
        units += part.to_pylist()
        if len(units) > WIDEST:
            raise UserError(
                f"more than {WIDEST} units do not fit side by side",
                where="--format md",
                remedy="choose fewer with --geocode or --name, or take --format csv",
            )
    titles = [f"{u[NAME]} ({u[GEOCODE]})" if u.get(NAME) else str(u[GEOCODE]) for u in units]
    lines = [
        f"## {table.name}: {table.title}",
        "",
        _line([level, *titles]),
        _line(["---", *["---:"] * len(units)]),
    ]
    shown = [
        (h, c) for h, c in zip(heads, units[0], strict=True) if c not in (GEOCODE, GEOID, NAME)
    ]
    lines += [_line([h, *("–" if u[c] is None else f"{u[c]:,}" for u in units)]) for h, c in shown]
    out.write(("\n".join(lines) + "\n").encode())
    return len(units)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"
