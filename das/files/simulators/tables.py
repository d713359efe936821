"""The tables of redistricting files, from simulated people: P1 to P4, H1, and P5 (which 2010 calls
P42 in Summary File 1).

Sources: 2010 and 2020 Census Redistricting Data (P.L. 94-171) Summary Files, chapter 6; Summary
File 1 of 2010, chapter 6."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import csv

from das.files.simulators.people import NUMBER_OF_RACES, Ints


def race_cells(people: Ints) -> list[Ints]:
    """Persons by the 63 combinations of races, ``(63, rows)``, to the 71 cells of table P1: a
    total, then a sub-total before each number of races."""
    counts = [people[n == NUMBER_OF_RACES] for n in range(1, 7)]
    sums = [part.sum(axis=0) for part in counts]
    several = sums[1] + sums[2] + sums[3] + sums[4] + sums[5]
    cells = [sums[0] + several, sums[0], *counts[0], several]
    for total, parts in zip(sums[1:], counts[1:], strict=True):
        cells += [total, *parts]
    return cells


def origin_cells(people: Ints) -> list[Ints]:
    """Persons by not Hispanic and Hispanic, and race, ``(2, 63, rows)``, to the cells of P1 and P2,
    71 + 73.
    """
    everyone, other = race_cells(people.sum(axis=0)), race_cells(people[0])
    return [*everyone, everyone[0], everyone[0] - other[0], *other]


def home_cells(homes: Ints) -> list[Ints]:
    """Occupied and vacant units, ``(2, rows)``, to the cells of H1: all, occupied, vacant."""
    return [homes[0] + homes[1], homes[0], homes[1]]


def quarters_cells(people: Ints) -> list[Ints]:
    """Persons by type of dwelling, ``(8, rows)``, to the ten cells of P5: those in group quarters,
    by type.
    """
    institutional, other = people[1:5].sum(axis=0), people[5:8].sum(axis=0)
    return [institutional + other, institutional, *people[1:5], other, *people[5:8]]


def delimited(columns: Sequence[pa.Array], delimiter: str) -> bytes:
    """Records of text without quotation marks or names; a missing value is empty."""
    out = io.BytesIO()
    options = csv.WriteOptions(
        include_header=False, quoting_style="none", delimiter=delimiter, batch_size=1 << 14
    )
    csv.write_csv(
        pa.table(list(columns), names=[str(i) for i in range(len(columns))]), out, options
    )
    return out.getvalue()
