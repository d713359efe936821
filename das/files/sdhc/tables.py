"""The files of published cells: ``tables/PH1.csv`` to ``tables/PH8.csv``,
``tables/excess.csv`` and ``tables/excess_children.csv``, one line a region, iteration and cell.

An empty field is not known. ``most_per_address`` is how many persons of one address the table
counts: others are left out of it, and their number is in
``excess.csv``, and for PH3 and PH6 in ``excess_children.csv``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path

from das.files import atomic
from das.files.csv_text import write_rows
from das.model.not_private import CELL, COLUMN, Private
from das.model.sdhc.published import CellEstimate
from das.model.sdhc.tables import ITERATIONS
from das.model.states import STATES

FOLDER = "tables"
#: By column, what is in it.
COLUMNS: Mapping[str, str] = {
    "region_id": "1 for the nation, FIPS code of a state",
    "region": "name of the region",
    "iteration": "iteration of the table: * for all, A to G by race, H and I by origin",
    "iteration_label": "what the iteration is",
    "cell": "number of the cell",
    "label": "what the cell is",
    "estimate": "least squares of all measurements: unbiased for what is counted, may be negative",
    "standard_error": "of a count; a ratio has none",
    "low": "lower end of the 90 % interval; of a ratio empty where it is not known",
    "high": "upper end of the 90 % interval",
    "non_negative": "the nearest estimate without a negative count: biased upwards near 0",
    "most_per_address": "persons of one address that the cell counts; empty: all",
}
_NAMES = {s.fips: s.name for s in STATES} | {"1": "all states"}


def region_name(region: str) -> str:
    return _NAMES.get(region, region)


def write(
    release: Path, table: str, rows: Iterable[tuple[CellEstimate, int | None]], private: Private
) -> int:
    """The rows of a table, each with how many persons of an address it counts. Returns how many
    there are."""
    mark = [] if private else [CELL]
    lines: list[Sequence[object]] = [[*COLUMNS, *([] if private else [COLUMN])]]
    for e, most in rows:
        cell = e.cell
        lines.append(
            [
                e.region,
                region_name(e.region),
                cell.iteration,
                ITERATIONS[cell.iteration],
                cell.cell,
                cell.label,
                *(_number(x) for x in (e.value, e.error, e.low, e.high, e.fitted)),
                "" if most is None else most,
                *mark,
            ]
        )
    text = StringIO()
    write_rows(text, lines)
    atomic.write_text(release / FOLDER / f"{table}.csv", text.getvalue())
    return len(lines) - 1


def _number(value: float | None) -> str:
    """To a thousandth, without a sign of zero: what is behind it depends on the machine."""
    return "" if value is None else f"{round(value, 3) + 0.0:.3f}"
