"""Frozen rows as CSV: a column for each field, every digit kept, ``None`` an empty field.

Rows of a seeded run have one column more (:mod:`das.model.not_private`), which reading drops."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from das.errors import InputError
from das.files import atomic, csv_text
from das.model.not_private import CELL, COLUMN, Private

Row = TypeVar("Row")


def columns(kind: type) -> tuple[str, ...]:
    """The fields of a row, in order."""
    return tuple(f.name for f in fields(kind))


def write(
    path: Path, header: Sequence[str], lines: Iterable[Sequence[object]], *, private: Private = True
) -> Path:
    """The file appears whole or not at all."""
    if not private:
        header, lines = (*header, COLUMN), ((*line, CELL) for line in lines)
    with atomic.file(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        csv_text.write_rows(file, chain([header], lines))
    return path


def write_rows(
    path: Path, kind: type[Row], rows: Iterable[Row], *, private: Private = True
) -> Path:
    """Rows of one kind."""
    return write(path, columns(kind), map(attrgetter(*columns(kind)), rows), private=private)


def read_rows(path: Path, kind: type[Row], what: str) -> list[Row]:
    """Rows of one kind back from their file.

    Raises:
        InputError: no such file, another header, or a line that is not a row, with its number."""
    parse = [_parser(hint) for hint in get_type_hints(kind).values()]
    remedy = "run the evaluation again: `das evaluate RUN`"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            mark = header[-1:] == [COLUMN]
            if tuple(header) != (*columns(kind), *[COLUMN] * mark):
                raise InputError(
                    f"the columns are {header}, not {', '.join(columns(kind))}",
                    where=path,
                    remedy=remedy,
                )
            return [
                _row(kind, parse, line, mark, f"{path}, line {lines.line_num}") for line in lines
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"not readable as {what} ({e})", where=path, remedy=remedy) from None


def _row(
    kind: type[Row], parse: Sequence[Callable[[str], Any]], line: list[str], mark: bool, where: str
) -> Row:
    if len(line) != len(parse) + mark:
        raise InputError(f"{len(line)} fields, not {len(parse) + mark}", where=where)
    try:
        return kind(*(p(text) for p, text in zip(parse, line[: len(parse)], strict=True)))
    except ValueError as e:
        raise InputError(f"not a number ({e})", where=where) from None


def _parser(hint: Any) -> Callable[[str], Any]:
    """What reads a field: text, a whole number, a number; an empty field is ``None`` where that is
    allowed."""
    kinds = set(getattr(hint, "__args__", (hint,)))
    readers: dict[Any, Callable[[str], Any]] = {str: csv_text.plain, int: int, float: float}
    one = next(read for kind, read in readers.items() if kind in kinds)
    return (lambda text: one(text) if text else None) if type(None) in kinds else one
