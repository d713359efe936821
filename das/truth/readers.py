"""Reading the input of a run: which module reads which format, and what every reader must
satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.model.confidential import Confidential
from das.model.records import Blocks, Extract, Records
from das.model.schema import Schema
from das.model.source import Source
from das.plugins import READERS


def read(
    reader: str,
    paths: Sequence[Path],
    schema: Schema,
    *,
    columns: Mapping[str, Any] | None = None,
    encoding: str = "utf-8",
    places: Path | None = None,
    progress: Progress = SILENT,
) -> Extract:
    """Read the input of a run: all ``paths`` (files, archives or folders) together are one extract.

    ``columns`` says what the columns of a ``table`` mean, ``encoding`` that of its text, and
    ``places`` is a table of all places; formats without these options say so themselves. Each file
    or state is a stage of ``progress``, in records, or in bytes where those are known."""
    module, takes = _module(reader), READERS[reader].options
    if columns and "columns" not in takes:
        raise InputError(
            f"reader {reader!r} takes no columns", where="data.columns", remedy="delete the table"
        )
    paths = [Path(p) for p in paths]
    own = {"columns": columns, "encoding": encoding, "places": places}
    options = {name: value for name, value in own.items() if name in takes}
    extract: Extract = module.read(paths, schema, progress=progress, **options)
    _check_possible(extract.persons, extract.blocks)
    return extract


def apart(reader: str, paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each part of the input that can be read by itself: a state of redistricting
    files."""
    module = _module(reader)
    paths = [Path(p) for p in paths]
    found: list[list[Path]] = module.states(paths) if hasattr(module, "states") else [paths]
    return found


def read_beside(
    paths: Sequence[Path],
    schema: Schema,
    blocks: Blocks,
    *,
    columns: Mapping[str, Any],
    encoding: str = "utf-8",
    where: str,
    progress: Progress = SILENT,
) -> tuple[Confidential[Records], tuple[Source, ...]]:
    """The records of another universe, from tables of its own, in the places ``blocks``. ``where``
    is the table of the configuration that tells its columns."""
    module = _module("table")
    records, sources = module.read_beside(
        paths, schema, blocks, columns=columns, encoding=encoding, where=where, progress=progress
    )
    _check_possible(records, blocks)
    return records, sources


def _module(reader: str) -> ModuleType:
    if reader not in READERS:
        raise InputError(
            f"no reader {reader!r}", where="data.reader", remedy=f"use one of {', '.join(READERS)}"
        )
    found: ModuleType = READERS.load_part(reader, "module")
    return found


def _check_possible(records: Confidential[Records], blocks: Blocks) -> None:
    persons = records.open("no record may be of a combination that the schema says cannot occur")
    impossible = ~persons.schema.possible[persons.cell] & (persons.count > 0)
    if impossible.any():
        at = int(np.flatnonzero(impossible)[0])
        place = ", ".join(
            f"{field} {codes[persons.block[at]].decode()}" for field, codes in blocks.fields.items()
        )
        raise InputError(
            f"{int(persons.count[impossible].sum())} of the records have combinations that cannot occur"
            f" in schema {persons.schema.name!r}; this is the place of the first",
            where=place,
            remedy=(
                "fix the data, or use a schema that allows the combination; `das check CONFIG` lists"
                " them"
            ),
        )
