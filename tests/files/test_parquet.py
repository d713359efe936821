"""Columns of a file that was altered: each way is a message with its place, wherever the file is
read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das.errors import ReleaseError
from das.files import parquet
from das.files.measurements.frame import read_nmf, summary
from das.files.parquet import RecentValues, columns, decoded

ROWS = {
    "geocode": pa.array(["1", "2"]),
    "query_name": pa.array(["total_dpq", "total_dpq"]),
    "sex": pa.array(["*", "*"]),
    "query_shape": pa.array([[1], [1]]),
    "value": pa.array([[3], [4]]),
    "variance": pa.array([1.5, 1.5], pa.float32()),
}
NAMES = ["geocode", "query_name", "value", "variance"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    out = tmp_path / "nmf" / "State.parquet" / "DPQuery" / "part-00000.parquet"
    out.parent.mkdir(parents=True)
    pq.write_table(pa.table(ROWS), out)
    return out


def test_as_written(path: Path) -> None:
    table = columns(path, NAMES, wanted=["sex", "sign"])
    assert table.column_names == [*NAMES, "sex"]
    assert table["variance"].type == pa.float64()
    assert read_nmf(path.parents[2])["value"].tolist() == [3, 4]
    assert summary(path.parents[2])[0]["units"] == 2


@pytest.mark.parametrize(
    "name, column, says",
    [
        ("geocode", None, "no column 'geocode'"),
        ("geocode", pa.array([1, 2]), "'geocode' is of another type"),
        ("geocode", pa.array(["1", None]), "a value of 'geocode' is missing"),
        (
            "geocode",
            pa.Array.from_buffers(
                pa.string(), 2, [None, pa.py_buffer(np.int32([0, 1, 2])), pa.py_buffer(b"\xff2")]
            ),
            "UTF8",
        ),
        ("query_name", pa.array([b"a", b"b"]), "'query_name' is of another type"),
        ("value", pa.array([3, 4]), "'value' is of another type"),
        ("value", pa.array([["3"], ["4"]]), "'value' is of another type"),
        ("value", pa.array([[3], None]), "a value of 'value' is missing"),
        ("value", pa.array([[3], [None]]), "a value of 'value' is missing"),
        ("variance", pa.array(["a", "b"]), "'variance' is of another type"),
    ],
)
def test_altered(path: Path, name: str, column: pa.Array | None, says: str) -> None:
    rows = {k: v for k, v in ROWS.items() if k != name} | ({} if column is None else {name: column})
    pq.write_table(pa.table(rows), path)
    for read in (
        lambda: columns(path, NAMES),
        lambda: summary(path.parents[2]),
        lambda: read_nmf(path.parents[2]),
    ):
        with pytest.raises(ReleaseError, match=says) as caught:
            read()
        assert str(path) in str(caught.value)


Change = Callable[[dict[str, pa.Array]], object]


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda r: r.update(extra=pa.array([1, 2])), "'extra' is of another type"),
        (lambda r: r.update(extra=pa.array(["a", "b"])), "the shape of 2 attributes is"),
        (lambda r: r.update(query_shape=pa.array([[10**9], [10**9]])), "1 values, and the shape"),
        (
            lambda r: r.update(query_shape=pa.array([[], []], pa.list_(pa.int32()))),
            "1 values, and the shape",
        ),
        (
            lambda r: r.update(query_shape=pa.array([[1.0], [1.0]])),
            "'query_shape' is of another type",
        ),
    ],
)
def test_a_frame_of_foreign_columns(path: Path, change: Change, says: str) -> None:
    rows = dict(ROWS)
    change(rows)
    pq.write_table(pa.table(rows), path)
    with pytest.raises(ReleaseError, match=says):
        read_nmf(path.parents[2])


@pytest.mark.parametrize("small", [True, False])
def test_a_file_that_is_written_anew_is_read_anew(
    tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file of many row groups says of itself is kept while it is that file."""
    monkeypatch.setattr(parquet, "SMALL", parquet.SMALL if small else 0)
    monkeypatch.setattr(parquet, "_SMALL_FILES", 12)
    known, most = (parquet._KNOWN_SMALL, 12) if small else (parquet._KNOWN, parquet._FILES)
    known.clear()
    path = tmp_path / "many.parquet"
    for n in (70, 90):
        with pq.ParquetWriter(tmp_path / "new", pa.schema([("a", pa.int64())])) as writer:
            for i in range(n):
                writer.write_table(pa.table({"a": [i]}))
        (tmp_path / "new").replace(path)
        first, again = parquet.opened(path), parquet.opened(path)
        assert again.metadata == first.metadata
        assert str(path) in {name for name, *_ in known}
        assert again.num_row_groups == n
        assert again.read_row_group(n - 1).to_pylist() == [{"a": n - 1}]
    for i in range(20):
        (tmp_path / f"{i}.parquet").write_bytes(path.read_bytes())
        parquet.opened(tmp_path / f"{i}.parquet")
    assert len(known) == most


def two_groups(path: Path, values: list[int]) -> None:
    rows = pa.table({**ROWS, "value": pa.array([[v] for v in values])})
    pq.write_table(rows, path, row_group_size=1)


@pytest.mark.parametrize("small", [True, False])
def test_a_row_group_is_itself_whether_or_not_all_is_read(
    path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "SMALL", parquet.SMALL if small else 0)
    two_groups(path, [3, 4])
    for _ in range(2):
        assert columns(path, ["value"])["value"].to_pylist() == [[3], [4]]
        assert columns(path, ["value"], 1)["value"].to_pylist() == [[4]]
        assert columns(path, ["geocode", "value"], 0).to_pylist() == [
            {"geocode": "1", "value": [3]}
        ]
        tables = parquet.batches(path, ["geocode"], [1, 0], size=1)
        assert [t["geocode"].to_pylist() for t in tables] == [["1"], ["2"]]


def test_a_small_file_is_read_once_while_it_is_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    read = parquet._read
    monkeypatch.setattr(parquet, "_read", lambda *given: asked.append(given) or read(*given))
    two_groups(path, [3, 4])
    for group in (0, 1, None, 1):
        columns(path, ["value"], group)
    assert len(asked) == 1
    path.unlink()
    two_groups(path, [5, 6])
    assert columns(path, ["value"], 1)["value"].to_pylist() == [[6]]
    assert len(asked) == 2
    path.unlink()
    with pytest.raises(ReleaseError, match="not a readable Parquet file"):
        columns(path, ["value"], 1)


def test_so_many_bytes_of_small_files_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS", RecentValues(1 << 20))
    two_groups(path, [3, 4])
    every = [["value"], ["geocode"], ["geocode", "value"]]
    monkeypatch.setattr(parquet._ROWS, "most", 2 * columns(path, every[2]).nbytes)
    for _ in range(3):
        for names in every:
            columns(path, names)
        assert 0 < parquet._ROWS.bytes <= parquet._ROWS.most


def test_of_a_file_of_many_values_that_take_little_room_a_part_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_ROWS", RecentValues(1 << 20))
    same = np.zeros(parquet._VALUES + 1, dtype=np.int32)
    pq.write_table(pa.table({"cell": pa.array([same.tolist()])}), path, compression="zstd")
    assert path.stat().st_size < parquet.SMALL
    assert columns(path, ["cell"], 0).num_rows == 1
    assert not len(parquet._ROWS)


def test_arrays_are_made_once_and_so_many_bytes_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_ARRAYS", RecentValues(1 << 20))
    two_groups(path, [3, 4])
    made = {group: np.arange(group) for group in range(5)}
    asked: list[int] = []

    def read(group: int) -> np.ndarray:
        return decoded(path, group, lambda: (asked.append(group) or made[group],))[0]

    for _ in range(2):
        for group in made:
            np.testing.assert_array_equal(read(group), made[group])
    assert asked == [*made]
    monkeypatch.setattr(parquet._ARRAYS, "most", 32)  # of 80
    path.unlink()
    two_groups(path, [5, 6])  # another file
    for group in (*made, *made):
        read(group)
        assert parquet._ARRAYS.bytes <= 32
    assert len(asked) > 2 * len(made)
