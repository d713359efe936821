"""``sweep.csv``: the columns of ``errors.csv`` after ``budget`` (a decimal), ``budget_exact`` and ``repeat``."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path

from das.model.result import ErrorRow, SweepRow


def write(path: Path, rows: Sequence[SweepRow]) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    with draft.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["budget", "budget_exact", "repeat", *(f.name for f in fields(ErrorRow))])
        out.writerows([float(r.budget), r.budget, r.repeat, *astuple(r.error)] for r in rows)
    draft.replace(path)
