"""Noisy measurements of the S-DHC as files.

``nmf/<Level>.parquet/DPQuery/noisy.parquet`` has a line for each region and answer that is
measured, of one region after the other, in the order of :func:`das.publications.sdhc.model.tables.answers`. The
official layout is written from these: ``measurements/<table>/part-00000-das.csv``, with ``|``
between fields, and the tables PH5_num and PH8_num, which follow from others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das.errors import ReleaseError
from das.files import atomic, csv_text, parquet
from das.files.parquet import LOST
from das.model.mechanisms import Mechanism
from das.model.not_private import CELL, COLUMN, Private
from das.publications.sdhc.model.tables import (
    AREA,
    LEFT_OUT,
    STATE,
    TABLES,
    USA,
    MeasuredRegions,
    answers,
    column,
)

NAME = "noisy.parquet"
FOLDER = "measurements"
REGION_TYPES: Mapping[str, str] = {USA: "USA", STATE: "STATE"}
_NAMES = ("REGION_ID", "TABLE", "ITERATION_CODE", "DATA_CELL", "COUNT", "VARIANCE")
#: By whether it is pure, what files call the noise.
_NOISE = {False: "Discrete Gaussian", True: "Two-Sided Geometric"}
_LEVEL_FOLDERS = {USA: "US", STATE: "State", AREA: "Area"}
#: Tables that are not measured: by cell, the table and the cells that they sum.
DERIVED: Mapping[str, Mapping[int, tuple[str, tuple[int, ...]]]] = {
    "PH5_num": {2: ("PH4", (2,)), 3: ("PH4", (3,))},
    "PH8_num": {2: ("PH7", (2, 3)), 3: ("PH7", (4,))},
}


def path(root: Path, level: str) -> Path:
    """The file of a level of regions, in the folder ``root`` of a product's measurements."""
    return root / f"{_LEVEL_FOLDERS[level]}.parquet" / "DPQuery" / NAME


def write(file: Path, m: MeasuredRegions, private: Private) -> None:
    there = np.flatnonzero(np.isfinite(m.variance))
    every, n = [answers()[i] for i in there], len(m.regions)
    table = pa.table(
        {
            "REGION_ID": pa.array(np.repeat(np.array(m.regions, dtype="U7"), len(there)).tolist()),
            "TABLE": [a.table for a in every] * n,
            "ITERATION_CODE": [a.iteration for a in every] * n,
            "DATA_CELL": pa.array([a.cell for a in every] * n, pa.int8()),
            "COUNT": m.values[:, there].ravel(),
            "VARIANCE": np.tile(m.variance[there], n),
        }
    )
    table = table.replace_schema_metadata(parquet.mark(private))
    with atomic.file(file) as draft:
        pq.write_table(table, draft, compression="zstd")


def read(file: Path, level: str, regions: Sequence[str]) -> MeasuredRegions:
    """What :func:`write` wrote of these regions. Raises :class:`ReleaseError` for anything else."""
    with parquet.readable(file):
        table = parquet.opened(file).read(list(_NAMES))
    try:
        index = {(a.table, a.iteration, a.cell): i for i, a in enumerate(answers())}
        names = [table[n].to_pylist() for n in ("TABLE", "ITERATION_CODE", "DATA_CELL")]
        place = [index[key] for key in zip(*names, strict=True)]
        width = len(place) // len(regions)
        first = place[:width]
        if place != first * len(regions) or first != sorted(set(first)):
            raise ValueError("answers are missing, or there twice")
        if table["REGION_ID"].to_pylist() != [r for r in regions for _ in first]:
            raise ValueError("its regions are not those of the specification")
        variance = np.full(len(index), np.inf)
        found = csv_text.array(table["VARIANCE"]).reshape(len(regions), width)
        if (found != found[0]).any():
            raise ValueError("regions differ in their noise")
        variance[first] = found[0]
        values = np.zeros((len(regions), len(index)), dtype=np.int64)
        values[:, first] = csv_text.integers(table["COUNT"]).reshape(len(regions), width)
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise ReleaseError(
            f"these are no measurements of the S-DHC ({error})", where=file, remedy=LOST
        ) from None
    return MeasuredRegions(level, tuple(regions), values, variance)


# --- the official layout


def cell_column(table: str) -> str:
    """
    >>> cell_column("PH1_num")
    'PH1_NUM_DATA_CELL'"""
    return f"{table.upper()}_DATA_CELL"


def official(
    levels: Sequence[MeasuredRegions], mechanism: Mechanism, private: Private
) -> dict[str, str]:
    """The text of each official file, by its path in the release. It has no areas."""
    levels = [m for m in levels if m.level in REGION_TYPES]
    names = [t for t in TABLES if t not in LEFT_OUT] + list(DERIVED)
    out = {}
    for table in sorted(names):
        rows = [line for m in levels for line in _rows(m, table, _NOISE[mechanism.pure])]
        if not rows:
            continue  # a table without a budget has no folder
        grouped = table in DERIVED or TABLES[table].grouped
        head = ["REGION_ID", "REGION_TYPE", *(["ITERATION_CODE"] if grouped else [])]
        head += [cell_column(table), "COUNT", "NOISE_DISTRIBUTION", "VARIANCE"]
        mark = [] if private else [CELL]
        head += [] if private else [COLUMN]
        lines = ["|".join(head), *("|".join([*row, *mark]) for row in rows)]
        out[f"{FOLDER}/{table}/part-00000-das.csv"] = "\n".join([*lines, ""])
    return out


def _rows(m: MeasuredRegions, table: str, noise: str) -> Iterator[list[str]]:
    of = DERIVED.get(table) or {c: (table, (c,)) for c in TABLES[table].cells}
    source = next(iter(of.values()))[0]
    grouped = table in DERIVED or TABLES[table].grouped
    iterations = list(dict.fromkeys(a.iteration for a in answers() if a.table == source))
    for region, values in zip(m.regions, m.values.tolist(), strict=True):
        for iteration in iterations:
            for cell, (_, cells) in of.items():
                at = [column(source, iteration, c) for c in cells]
                variance = float(sum(m.variance[at]))
                if np.isfinite(variance):
                    yield [
                        region,
                        REGION_TYPES[m.level],
                        *([iteration] if grouped else []),
                        str(cell),
                        str(sum(values[i] for i in at)),
                        noise,
                        str(variance),
                    ]
