"""Noisy measurements as a frame: the same numbers as the reader's, labeled, from files whose types
drift.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import das
from das.errors import InputError, ReleaseError
from das.files.measurements.frame import summary
from das.files.measurements.nmf import write
from das.files.measurements.nmf_reader import NmfReader
from das.model.measurement import Measurement
from das.model.redistricting import CENRACE, PL94
from das.model.spine import Spine

SPINE = Spine(
    ("US", "State"),
    (np.array(["US"]), np.array(["01", "44"])),
    (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)),
)
QUERIES = ("total", "hhinstlevels", "votingage * cenrace", "detailed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    made = [
        Measurement(
            "State", q, 0, rng.integers(-99, 99, (2, PL94.query(q).answers)), np.full(2, i + 0.5)
        )
        for i, q in enumerate(QUERIES)
    ]
    write(tmp_path / "nmf", "State", PL94, SPINE, made)
    return tmp_path


@pytest.mark.parametrize("query", QUERIES)
def test_tidy_and_not_tidy_are_what_the_reader_reads(root: Path, query: str) -> None:
    truth = NmfReader(root / "nmf", SPINE).read("State", query, 0, 2)
    tidy = das.read_nmf(root, level="State", query=query)
    assert tidy["value"].to_numpy().reshape(truth.values.shape).tolist() == truth.values.tolist()
    assert tidy["variance"].tolist() == np.repeat(truth.variance, truth.values.shape[1]).tolist()
    assert tidy["geocode"].tolist() == np.repeat(["01", "44"], truth.values.shape[1]).tolist()
    lists = das.read_nmf(root, level="State", query=f"{query}_dpq", tidy=False)
    assert np.stack(lists["value"].to_list()).tolist() == truth.values.tolist()


def test_labels_are_those_of_the_groups_in_c_order(root: Path) -> None:
    recode = das.read_nmf(root, level="State", query="hhinstlevels", geocode="44")
    assert recode["hhgq"].tolist() == ["household", "institutional", "noninstitutional"]
    assert set(recode["cenrace"]) == {"*"}
    cross = das.read_nmf(root, level="State", query="votingage * cenrace", geocode=["44"])
    assert list(zip(cross["votingage"], cross["cenrace"], strict=True)) == [
        (v, c) for v in ("under-18", "18-and-over") for c in CENRACE
    ]


def part(path: Path, geocode: str, value: list[int], kind: Any, **more: Any) -> None:
    """One file in the published layout, made by hand."""
    path.parent.mkdir(parents=True)
    names = ["total_dpq", "votingage_dpq"]
    columns = {
        "geocode": [geocode] * 2,
        "query_name": names,
        "hhgq": ["*"] * 2,
        "votingage": ["*", "detailed"],
        "hispanic": ["*"] * 2,
        "cenrace": ["*"] * 2,
        "query_shape": [[1, 1, 1, 1], [1, 2, 1, 1]],
        "value": pa.array([[sum(value)], value], pa.list_(kind)),
        **more,
    }
    pq.write_table(pa.table(columns), path)


def test_published_partitions_drift_and_are_read(tmp_path: Path) -> None:
    """Integer and float widths, a column more or less, Hive folders, both queries in one row
    group.
    """
    folder = tmp_path / "US_Person_PL_PROD" / "County.parquet" / "DPQuery"
    part(
        folder / "State=044" / "County=10001" / "part-0.parquet",
        "04410001",
        [-3, 8],
        pa.int16(),
        variance=pa.array([1.5, 2.5], pa.float32()),
        plb=[0.1, 0.2],
    )
    part(
        folder / "State=144" / "County=10003" / "part-7.parquet",
        "14410003",
        [2**40, 8],
        pa.int64(),
        variance=pa.array([1.5, 2.5], pa.float64()),
        sign=pa.array([None, None], pa.string()),
    )
    frame = das.read_nmf(tmp_path / "US_Person_PL_PROD", query="votingage")
    assert frame["value"].tolist() == [-3, 8, 2**40, 8]
    assert frame["value"].dtype == np.int64
    assert frame["variance"].tolist() == [2.5] * 4
    assert frame["votingage"].tolist() == ["under-18", "18-and-over"] * 2
    assert set(frame["level"]) == {"County"}
    assert not {"State", "plb", "query_shape"} & set(frame.columns)
    assert len(das.read_nmf(tmp_path / "US_Person_PL_PROD", geocode="14410003")) == 3
    rows = summary(tmp_path / "US_Person_PL_PROD")
    assert {(r["query"], r["units"], r["answers"]) for r in rows} == {
        ("total", 2, 1),
        ("votingage", 2, 2),
    }


def test_what_is_not_there_is_told(root: Path, tmp_path: Path) -> None:
    for how, error, word in (
        ({"level": "Tract"}, InputError, "State"),
        ({"query": "hispanic"}, ReleaseError, "hispanic"),
        ({"geocode": "99"}, ReleaseError, "99"),
    ):
        with pytest.raises(error, match=word):
            das.read_nmf(root, **how)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no noisy measurement files"):
        das.read_nmf(tmp_path / "empty")
    next(p for p in root.rglob("part-*.parquet")).write_bytes(b"PAR1 is not all")
    with pytest.raises(ReleaseError, match=r"part-00000-00000\.parquet"):
        das.read_nmf(root)
