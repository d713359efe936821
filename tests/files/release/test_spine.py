"""The spine of a release: there and back, and no tree that is not one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from das.errors import ReleaseError
from das.files.release import spine as spine_file
from das.model.spine import Spine
from tests.strategies import spines


@given(spine=spines())
@settings(max_examples=30)
def test_a_spine_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, spine: Spine) -> None:
    path = tmp_path_factory.mktemp("spine") / "spine.parquet"
    spine_file.write(path, spine)
    got = spine_file.read(path)
    assert got.levels == spine.levels
    for a, b in ((got.codes, spine.codes), (got.parent, spine.parent)):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert [p.name for p in path.parent.iterdir()] == ["spine.parquet"]


def rows() -> dict[str, list[str]]:
    return {"level": ["US", "State", "State", "Block", "Block"], "geocode": ["US", "a", "b", "a1", "b1"],
            "parent": ["", "US", "US", "a", "b"]}  # fmt: skip


def test_the_file_is_what_its_columns_say(tmp_path: Path) -> None:
    pq.write_table(pa.table(rows()), tmp_path / "spine.parquet")
    spine = spine_file.read(tmp_path / "spine.parquet")
    assert spine.levels == ("US", "State", "Block")
    assert spine.up("Block", "State").tolist() == [0, 1]


def change(column: str, at: int, value: str) -> Callable[[dict[str, list[str]]], None]:
    def changed(table: dict[str, list[str]]) -> None:
        table[column][at] = value

    return changed


@pytest.mark.parametrize("damage,word", [
    (change("parent", 3, "c"), "unknown parent"),
    (change("parent", 4, "a"), "no child"),
    (change("geocode", 4, "a1"), "twice"),
    (change("geocode", 1, "c"), "unknown parent"),
    (change("level", 1, "US"), "root"),
    (lambda t: t.pop("parent"), "spine"),
    (lambda t: [v.clear() for v in t.values()], "no tree"),
])  # fmt: skip
def test_what_is_no_tree_is_refused(
    tmp_path: Path, damage: Callable[[dict[str, list[str]]], object], word: str
) -> None:
    table = rows()
    damage(table)
    schema = pa.schema([(name, pa.string()) for name in table])
    pq.write_table(pa.table(table, schema=schema), tmp_path / "spine.parquet")
    with pytest.raises(ReleaseError, match=word) as caught:
        spine_file.read(tmp_path / "spine.parquet")
    assert "spine.parquet" in str(caught.value)


def test_a_file_that_is_lost_or_torn(tmp_path: Path) -> None:
    path = tmp_path / "spine.parquet"
    with pytest.raises(ReleaseError, match=r"spine\.parquet"):
        spine_file.read(path)
    pq.write_table(pa.table(rows()), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReleaseError, match=r"spine\.parquet"):
        spine_file.read(path)


def test_names_and_geoids_stand_beside_the_codes(tmp_path: Path) -> None:
    codes = (np.array(["US"]), np.array(["44"]), np.array(["4400701010122003"]))
    up = tuple(np.zeros(1, dtype=np.int64) for _ in codes)
    names = (np.array([""]), np.array(['Rhode "Island", so called']), np.array([""]))
    path = tmp_path / "spine.parquet"
    spine_file.write(path, Spine(("US", "State", "Block"), codes, up, names))
    table = pq.read_table(path)
    assert table["geoid"].to_pylist() == ["", "44", "440070101012003"]
    assert table["name"].to_pylist() == [n[0] for n in names]
    assert [n.tolist() for n in spine_file.read(path).names] == [n.tolist() for n in names]
    for column, value, word in (
        ("geoid", "45", "GEOID"),
        ("name", None, "a value of 'name' is missing"),
        ("name", "a\nb", "control"),
    ):
        altered = table.to_pydict()
        altered[column][1] = value
        pq.write_table(pa.table(altered), path)
        with pytest.raises(ReleaseError, match=word):
            spine_file.read(path)
