"""What must hold of a release, from its files alone: nothing here is of `das`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

#: What a seeded run says in its files.
MARK = "NOT PRIVATE"


def rows(folder: Path, kind: str = "") -> int:
    """The rows of the microdata in a folder, or those of one type of record."""
    found = 0
    for path in folder.glob("*.parquet"):
        if kind:
            column = pq.read_table(path, columns=["RTYPE"])["RTYPE"]
            found += pc.sum(pc.equal(column, kind)).as_py() or 0
        else:
            found += pq.read_metadata(path).num_rows
    return found


def numbers(path: Path) -> dict[str, np.ndarray]:
    """The columns of counts in a table."""
    table = pa_csv.read_csv(path)
    return {
        n: table[n].to_numpy()
        for n in table.column_names
        if re.fullmatch(r"[A-Z]+\d+[A-Z]?\d{4}", n)
    }


def tables(release: Path) -> dict[str, dict[str, Path]]:
    """The files of tables, by table and level."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted((release / "tables").glob("*.csv")):
        name, _, level = path.stem.partition("_")
        found.setdefault(name, {})[level] = path
    return found


def check_tables(release: Path) -> dict[str, int]:
    """No count is negative, and each column has the same sum at every level. Returns the sums."""
    sums: dict[str, int] = {}
    for name, levels in tables(release).items():
        assert levels
        for level, path in levels.items():
            for column, values in numbers(path).items():
                assert np.issubdtype(values.dtype, np.integer), (name, level, column)
                assert values.min(initial=0) >= 0, (name, level, column)
                assert sums.setdefault(column, int(values.sum())) == values.sum(), (level, column)
    assert sums, f"no tables in {release}"
    return sums


def check_counts(release: Path, persons: int, units: int) -> None:
    """A redistricting release of as many persons and housing units as were counted: in the tables
    of every level and in the microdata, which add up to the tables of blocks."""
    sums = check_tables(release)
    assert sums["P0010001"] == persons
    assert rows(release / "microdata" / "persons") == persons
    if units:
        assert sums["H0010001"] == sums["H0010002"] + sums["H0010003"] == units
        assert rows(release / "microdata" / "units", "2") == units
    if "P0050001" in sums:
        quarters = rows(release / "microdata" / "persons", "5")
        assert sums["P0050001"] == quarters


def unmarked(release: Path) -> Iterator[str]:
    """The files of a seeded release that do not say so."""
    for path in sorted(p for p in release.rglob("*") if p.is_file()):
        name = str(path.relative_to(release))
        if path.suffix == ".parquet":
            schema = pq.read_schema(path)
            said = MARK in " ".join(schema.names) or MARK.encode() in b" ".join(
                [*(schema.metadata or {}), *(schema.metadata or {}).values()]
            )
        elif path.suffix == ".csv":
            with path.open() as file:
                said = MARK in file.readline()
        else:
            said = MARK in path.read_text() or _says(path)
        if not said:
            yield name


def _says(path: Path) -> bool:
    """Whether a file that programs read says it in their way."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        return bool(text) and all("seeded" in line for line in text.splitlines() if "draw" in line)
    if path.suffix == ".toml":
        return re.search(r"^seed = \d", text, re.MULTILINE) is not None
    if path.suffix == ".json":
        found = json.loads(text)
        return found == [] or (isinstance(found, dict) and found.get("private") is False)
    return False
