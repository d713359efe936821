"""``sweep.csv``, ``summary.csv`` and ``paired.csv``: budgets as decimals (``budget``) and exactly
(``budget_exact``), the method and, in ``sweep.csv``, the number of the run; then the columns of the
errors."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from das.files import rows_csv
from das.model.error_rows import ErrorRow, PairedRow, SummaryRow, SweepRow
from das.model.not_private import Private


def write(path: Path, rows: Sequence[SweepRow], *, private: Private = True) -> None:
    """Long: one line for each line of each run's ``errors.csv``."""
    header = ("budget", "budget_exact", "method", "repeat", *rows_csv.columns(ErrorRow))
    error = attrgetter(*rows_csv.columns(ErrorRow))
    lines = ((float(r.budget), r.budget, r.method, r.repeat, *error(r.error)) for r in rows)
    rows_csv.write(path, header, lines, private=private)


def write_summary(path: Path, rows: Sequence[SummaryRow], *, private: Private = True) -> None:
    """One line for each budget, method, level, query, source and class: means and intervals over
    the repeats.
    """
    _write(path, SummaryRow, rows, private)


def write_paired(path: Path, rows: Sequence[PairedRow], *, private: Private = True) -> None:
    """One line for each budget, level, query, class and method except the first. It compares the
    method with the first on the same noise.
    """
    _write(path, PairedRow, rows, private)


def _write(
    path: Path, kind: type, rows: Sequence[SummaryRow] | Sequence[PairedRow], private: Private
) -> None:
    """Rows whose first field is the budget."""
    header = ("budget", "budget_exact", *rows_csv.columns(kind)[1:])
    values = attrgetter(*rows_csv.columns(kind))
    rows_csv.write(path, header, ((float(r.budget), *values(r)) for r in rows), private=private)
