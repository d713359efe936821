"""The spine of a release: there and back, and no tree that is not one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import ReleaseError
from das.files import parquet
from das.files.release import spine as cut
from das.files.release import spine as spine_file
from das.model.measured_spine import Subtrees
from das.model.spine import Spine
from tests.model.test_subtrees import trees
from tests.strategies import spines


@given(spine=spines())
@settings(max_examples=30)
def test_a_spine_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, spine: Spine
) -> None:
    path = tmp_path_factory.mktemp("spine") / "spine.parquet"
    spine_file.write(path, spine)
    got = spine_file.read(path)
    assert got.levels == spine.levels
    for a, b in ((got.codes, spine.codes), (got.parent, spine.parent)):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert [p.name for p in path.parent.iterdir()] == ["spine.parquet"]


@given(spine=trees(), largest=st.integers(4, 40))
@settings(max_examples=20)
def test_the_whole_is_its_upper_tree_and_its_subtrees(
    tmp_path_factory: pytest.TempPathFactory, spine: Spine, largest: int
) -> None:
    """Cut in subtrees or not the rows are the same, and what is read of a subtree is the whole
    restricted to it.
    """
    folder, subtrees = tmp_path_factory.mktemp("spine"), Subtrees.from_spine(spine, largest=largest)
    spine_file.write(folder / "cut.parquet", spine, subtrees)
    spine_file.write(folder / "whole.parquet", spine)
    path = folder / "cut.parquet"
    assert pd.read_parquet(path).equals(pd.read_parquet(folder / "whole.parquet"))
    assert spine_file.read(path) == spine == spine_file.read(folder / "whole.parquet")
    assert spine_file.read_subtrees(path) == subtrees
    assert spine_file.read_upper_tree(path) == subtrees.upper_tree(spine)
    for i in range(1, len(subtrees) + 1):
        assert spine_file.read_subtree(path, i) == subtrees.subtree(spine, i)
    assert len(spine_file.read_subtrees(folder / "whole.parquet")) == 0
    assert spine_file.read_upper_tree(folder / "whole.parquet") == spine


def test_a_subtree_is_read_from_its_own_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spine, path = two_counties(), tmp_path / "spine.parquet"
    spine_file.write(path, spine, Subtrees("County", np.array([0, 1, 2])))
    asked = []
    batches = parquet.batches
    monkeypatch.setattr(
        parquet,
        "batches",
        lambda p, n, groups, **more: asked.append(groups) or batches(p, n, groups, **more),
    )
    assert spine_file.read_subtree(path, 2).geocodes("Block").tolist() == [
        "4400900000000001",
        "4400900000000002",
    ]
    assert pq.ParquetFile(path).num_row_groups == 4
    assert asked == [[0, 1], [3]]


def two_counties() -> Spine:
    blocks = ["4400700000000001", "4400900000000001", "4400900000000002"]
    return Spine.from_frame(
        {"County": [b[:5] for b in blocks], "Block": blocks}, ["US", "County", "Block"]
    )


def said(**changes: object) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text) | changes)


@pytest.mark.parametrize(
    "size,meta,word",
    [
        (10, said(), "row groups are not those"),
        (1, said(), "row groups are not those"),
        (None, said(groups=[0, 0, 1, 3]), "row groups are not those"),
        (None, said(groups=[0, 0, 1]), "row groups are not those"),
        (None, said(groups=[0, 1, 0, 2]), "unknown parent"),
        (None, said(starts=[0, 1, 3]), "not those of its upper tree"),
        (None, said(level="Tract"), "not those of its upper tree"),
        (None, said(starts=[0, 1, 1]), "not readable"),
        (None, said(starts="x"), "not readable"),
        (None, said(groups=None), "not readable"),
        (None, lambda _: "{", "not readable"),
        (None, lambda _: "[]", "not readable"),
        (None, said(groups=[0, 0, 2, 1]), "unknown parent"),
    ],
)
def test_a_file_that_is_cut_otherwise_than_it_says_is_refused(
    tmp_path: Path, size: int | None, meta: Callable[[str], str], word: str
) -> None:
    """Its whole is the same, and no subtree of it is given out."""
    spine, path = two_counties(), tmp_path / "spine.parquet"
    spine_file.write(path, spine, Subtrees("County", np.array([0, 1, 2])))
    key = cut.KEY.encode()
    table = pq.read_table(path).replace_schema_metadata(
        {key: meta(pq.read_metadata(path).metadata[key].decode())}
    )
    with pq.ParquetWriter(path, table.schema) as writer:
        for a, b in (
            [(i, i + size) for i in range(0, 6, size)] if size else [(0, 1), (1, 3), (3, 4), (4, 6)]
        ):
            writer.write_table(table.slice(a, b - a))
    assert spine_file.read(path) == spine
    with pytest.raises(ReleaseError, match=word) as caught:
        spine_file.read_subtree(path, 1)
    assert str(path) in str(caught.value)


def rows() -> dict[str, list[str]]:
    return {
        "level": ["US", "State", "State", "Block", "Block"],
        "geocode": ["US", "a", "b", "a1", "b1"],
        "parent": ["", "US", "US", "a", "b"],
    }


def test_the_file_is_what_its_columns_say(tmp_path: Path) -> None:
    pq.write_table(pa.table(rows()), tmp_path / "spine.parquet")
    spine = spine_file.read(tmp_path / "spine.parquet")
    assert spine.levels == ("US", "State", "Block")
    assert spine.up("Block", "State").tolist() == [0, 1]


def change(column: str, at: int, value: str) -> Callable[[dict[str, list[str]]], None]:
    def changed(table: dict[str, list[str]]) -> None:
        table[column][at] = value

    return changed


@pytest.mark.parametrize(
    "damage,word",
    [
        (change("parent", 3, "c"), "unknown parent"),
        (change("parent", 4, "a"), "no child"),
        (change("geocode", 4, "a1"), "twice"),
        (change("geocode", 1, "c"), "unknown parent"),
        (change("level", 1, "US"), "root"),
        (lambda t: t.pop("parent"), "spine"),
        (lambda t: [v.clear() for v in t.values()], "no tree"),
    ],
)
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
