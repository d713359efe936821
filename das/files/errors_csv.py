"""``errors.csv``: the rows of the evaluation."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path

from das.errors import InputError
from das.model.result import ErrorRow

COLUMNS = tuple(f.name for f in fields(ErrorRow))


def write(path: Path, rows: Sequence[ErrorRow]) -> Path:
    """Write all rows under a temporary name, then give the true one. Numbers keep all their digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(COLUMNS)
            out.writerows(astuple(row) for row in rows)  # None, of tvd, is an empty field
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def read(path: Path) -> list[ErrorRow]:
    """Read the rows back.

    Raises:
        InputError: no such file, another header, or a line that is not a row, with its number.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.reader(file)
            if tuple(header := next(lines, [])) != COLUMNS:
                raise InputError(f"the columns are {header}, not {', '.join(COLUMNS)}", where=path)
            return [_row(line, f"{path}, line {lines.line_num}") for line in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"not readable as errors ({e})", where=path, remedy="run the evaluation again") from None


def _row(line: list[str], where: str) -> ErrorRow:
    if len(line) != len(COLUMNS):
        raise InputError(f"{len(line)} fields, not {len(COLUMNS)}", where=where)
    level, query, source, size, n, *measures, tvd = line
    try:
        mae, rmse, bias, p50, p95, largest = map(float, measures)
        distance = float(tvd) if tvd else None
        return ErrorRow(level, query, source, size, int(n), mae, rmse, bias, p50, p95, largest, distance)
    except ValueError as e:
        raise InputError(f"not a number ({e})", where=where) from None
