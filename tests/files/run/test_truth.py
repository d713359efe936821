"""The true counts in the confidential part of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import ReleaseError
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.truth import files


@given(
    seed=st.integers(0, 1000),
    units=st.integers(1, 20),
    cells=st.integers(1, 30),
    records=st.integers(0, 60),
)
@settings(max_examples=30)
def test_counts_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, seed: int, units: int, cells: int, records: int
) -> None:
    rng = np.random.default_rng(seed)
    h = Histogram.from_triplets(
        units,
        cells,
        rng.integers(0, units, records),
        rng.integers(0, cells, records),
        rng.integers(0, 1 << 40, records),
    )
    path = tmp_path_factory.mktemp("truth") / "below" / "persons.parquet"
    files.write(path, Confidential(h))
    got = files.read(path)
    assert isinstance(got, Confidential)
    assert got.open("to compare").same_as(h)
    assert [p.name for p in path.parent.iterdir()] == ["persons.parquet"]


def written(tmp_path: Path) -> Path:
    h = Histogram.from_triplets(3, 4, np.array([0, 2]), np.array([1, 3]), np.array([5, 6]))
    files.write(tmp_path / "t.parquet", Confidential(h))
    return tmp_path / "t.parquet"


@pytest.mark.parametrize(
    "damage", ["lost", "torn", "no sizes", "sizes", "no column", "outside", "negative", "text"]
)
def test_what_cannot_be_read_names_the_file(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path)
    table = pq.read_table(path)
    changed = {
        "no sizes": lambda: table.replace_schema_metadata({}),
        "sizes": lambda: table.replace_schema_metadata({"units": "three", "cells": "4"}),
        "no column": lambda: table.drop_columns(["cell"]),
        "outside": lambda: table.set_column(0, "unit", pa.array([0, 3])),
        "negative": lambda: table.set_column(2, "count", pa.array([5, -6])),
        "text": lambda: table.set_column(1, "cell", pa.array(["a", "b"])),
    }
    if damage == "lost":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        pq.write_table(changed[damage](), path)
    with pytest.raises(ReleaseError, match=r"t\.parquet") as caught:
        files.read(path)
    assert "confidential" in str(caught.value)
