"""What the Bureau measured of its own demonstration run of 2023-04-03: production settings, on the
records of 2010, the nation.

Source: Detailed Summary Metrics of that date; numbers as rounded there.
:mod:`das.publications.dhc.model.figures` says of what they are. N, MAE and RMSE are over all
geographies of a level."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

#: States with the District of Columbia, counties, tracts.
UNITS: Mapping[str, int] = {"State": 51, "County": 3143, "Tract": 73057}


def _official(name: str) -> Iterator[dict[str, str]]:
    """The lines of a file of the Bureau's figures, which is next to this module."""
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _pair(text: str) -> tuple[float, float]:
    mae, _, rmse = text.partition("/")
    return float(mae), float(rmse)


#: MAE and RMSE of each column, by figure and level.
ERRORS: Mapping[tuple[str, str], tuple[tuple[float, float], ...]] = {
    (row["figure"], row["level"]): tuple(_pair(text) for text in row["mae/rmse"].split())
    for row in _official("official_errors.csv")
}
#: How many units are in the universe of a condition, and how many of these meet it: in the truth,
#: then as published. ``None`` where the workbook does not say.
OfficialCounts = tuple[int | None, int | None, int | None, int | None]
_COUNTS = ("true_n", "true_meets", "published_n", "published_meets")
#: Results that cannot be, or hardly: by condition, as ``impossible.csv`` calls it, and level.
IMPOSSIBLE: Mapping[tuple[str, str], OfficialCounts] = {
    (row["condition"], row["level"]): cast(
        OfficialCounts, tuple(int(row[name]) if row[name] else None for name in _COUNTS)
    )
    for row in _official("official_impossible.csv")
}
