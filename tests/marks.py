"""Which files of a seeded run do not say that it was seeded: read here, without our readers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

MARK = "NOT PRIVATE"
#: Neither is of the noise: the true counts, and public files that are published as they were given.
AS_GIVEN = ("truth", "parameters", "pop-group-totals.txt")


def unmarked(folder: Path) -> list[str]:
    files = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return sorted(
        p.as_posix() for p in files if not {*AS_GIVEN} & {*p.parts} and not _says(folder / p)
    )


def _says(path: Path) -> bool:
    if path.suffix != ".parquet":
        return MARK.encode() in path.read_bytes()
    schema = pq.read_schema(path)
    return MARK in schema.names or MARK.encode() in (schema.metadata or {})
