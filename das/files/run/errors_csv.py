"""``errors.csv``: the rows of the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.files import rows_csv
from das.model.error_rows import ErrorRow
from das.model.not_private import Private


def write(path: Path, rows: Sequence[ErrorRow], *, private: Private = True) -> Path:
    """Write all rows under a temporary name, then give the true one. Numbers keep all their
    digits.
    """
    return rows_csv.write_rows(path, ErrorRow, rows, private=private)


def read(path: Path) -> list[ErrorRow]:
    """Read the rows back. Raises :class:`InputError` with the line where a file is not one of
    errors.
    """
    return rows_csv.read_rows(path, ErrorRow, "errors")
