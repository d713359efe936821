"""Areas in files: kept as they are, and lists of blocks with every mistake named by its line."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError, ReleaseError
from das.files.readers import area_list
from das.files.release import areas as file
from das.files.release import spine as cut
from das.model.areas import Areas
from das.model.measured_spine import Subtrees
from das.model.spine import Spine
from tests.model.test_subtrees import trees


def spine(level, *codes):
    up = np.zeros(len(codes), dtype=np.int64)
    return Spine(("Land", level), (np.array(["0"]), np.array(sorted(codes))), (up[:1], up))


TREE = spine("Block", "b1", "b2", "b3")
US = spine("Block", "4400701010122003", "4400701010122004", "4400701010133000")


def pairs(a):
    return {(a.code(i), int(u)) for i, u in zip(a.area, a.unit, strict=True)}


def test_they_are_kept(tmp_path):
    town = Areas(
        "Town",
        np.array(["x", "y"]),
        np.array([0, 1, 1]),
        np.array([2, 0, 2]),
        np.array(["Exton", ""]),
    )
    ward = Areas("Ward", np.array(["x"]), np.array([0]), np.array([1]))
    path = tmp_path / "evaluation" / "areas.parquet"
    file.write(path, [town, ward], TREE)
    got = file.read(path, TREE)
    assert [(a.kind, pairs(a), a.called.tolist()) for a in got] == [
        ("Town", pairs(town), ["Exton", ""]),
        ("Ward", pairs(ward), [""]),
    ]
    assert pq.read_table(path).column_names == ["kind", "area", "name", "geocode"]
    file.write(path, [], TREE)
    assert file.read(path, TREE) == file.read(tmp_path / "none.parquet", TREE) == ()


def test_altered_ones_are_refused(tmp_path):
    path = tmp_path / "areas.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(ReleaseError, match="not a readable"):
        file.read(path, TREE)
    file.write(path, [Areas("Town", np.array(["x"]), np.array([0]), np.array([1]))], TREE)
    table = pq.read_table(path)
    for altered, word in ((spine("Block", "c1"), "b2 is no unit"), (TREE, "no column 'area'")):
        if altered is TREE:
            pq.write_table(table.drop_columns(["area"]), path)
        with pytest.raises(ReleaseError, match=word):
            file.read(path, altered)


def test_rows_that_stand_twice_are_refused(tmp_path):
    path = tmp_path / "areas.parquet"
    file.write(path, [Areas("Town", np.array(["x"]), np.array([0]), np.array([1]))], TREE)
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table]), path)
    with pytest.raises(ReleaseError, match=r"cannot be read \(.*in an area twice"):
        file.read(path, TREE)


@given(trees(), st.integers(0, 1 << 30))
@settings(max_examples=20)
def test_a_subtree_has_its_part_of_the_areas(tmp_path_factory, tree, seed):
    """Areas that cross subtrees, overlap, or have no unit in one; from a file that is cut, and from
    one that is not.
    """
    rng, n = np.random.default_rng(seed), len(tree.codes[-1])
    kinds = []
    for kind in ("Town", "Ward", "Field")[: rng.integers(1, 4)]:
        inside = rng.random((3, n)) < (0.5 if kind == "Town" else 1.5 / n)
        inside[:, rng.integers(n)] = True
        unit, area = np.nonzero(inside.T)
        kinds.append(
            Areas(kind, np.array(["x", "yy", "zzz"]), area, unit, np.array(["one", "", "trois"]))
        )
    folder, subtrees = tmp_path_factory.mktemp("areas"), Subtrees.from_spine(tree, largest=8)
    file.write(folder / "cut.parquet", kinds, tree, subtrees)
    file.write(folder / "whole.parquet", kinds, tree)
    assert pd.read_parquet(folder / "cut.parquet").equals(pd.read_parquet(folder / "whole.parquet"))
    assert [
        (a.kind, pairs(a), a.called.tolist()) for a in file.read(folder / "cut.parquet", tree)
    ] == [(a.kind, pairs(a), a.called.tolist()) for a in kinds]
    bounds = subtrees.lowest(tree)
    for i in range(1, len(subtrees) + 1):
        here = [
            {(code, u - bounds[i - 1]) for code, u in pairs(a) if bounds[i - 1] <= u < bounds[i]}
            for a in kinds
        ]
        expected = {a.kind: part for a, part in zip(kinds, here, strict=True) if part}
        names = {"x": "one", "yy": "", "zzz": "trois"}
        for name in ("cut.parquet", "whole.parquet"):
            got = file.read_subtree(folder / name, i, subtrees.subtree(tree, i))
            assert {a.kind: pairs(a) for a in got} == expected
            assert all(a.called[k] == names[a.code(k)] for a in got for k in range(len(a)))
    assert file.read_subtree(folder / "none.parquet", 1, tree) == ()


def test_another_subtrees_row_groups_are_refused(tmp_path):
    subtrees, path = Subtrees("Land", np.array([0, 1])), tmp_path / "areas.parquet"
    file.write(path, [Areas("Town", np.array(["x"]), np.array([0]), np.array([1]))], TREE, subtrees)
    with pytest.raises(ReleaseError, match="b2 is no unit"):
        file.read_subtree(path, 1, spine("Block", "b1"))
    table, key = pq.read_table(path), cut.KEY.encode()
    meta = json.loads(pq.read_metadata(path).metadata[key]) | {"groups": [0]}
    pq.write_table(table.replace_schema_metadata({key: json.dumps(meta)}), path)
    with pytest.raises(ReleaseError, match="of no subtree"):
        file.read_subtree(path, 1, TREE)


def test_a_list(tmp_path):
    path = tmp_path / "school districts.csv"
    path.write_text("Area, block\nNorth,b3\nNorth,b1\nSouth ,b1\n", encoding="utf-8-sig")
    got = area_list.read(path, TREE)
    assert got.kind == "school districts"
    assert pairs(got) == {("North", 2), ("North", 0), ("South", 0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "BLOCKID|DISTRICT\n440070101012003|001\n440070101012004|\n440070101013000|002\n",
            {("001", 0), ("002", 2)},
        ),
        (
            "BLOCKID|COUNTYFP|DISTRICT\n440070101012003|007|21\n440070101012004|007|\n440070101013000|009|21\n",
            {("00721", 0), ("00921", 2)},
        ),
        ('geoid20;area\n440070101013000;"A; B"\n4400701010122004;C\n', {("A; B", 2), ("C", 1)}),
    ],
)
def test_block_assignment_files(tmp_path, text, expected):
    """GEOIDs of 15 digits; what is in no district is in no area."""
    (tmp_path / "BlockAssign_ST44_RI_SLDU.txt").write_text(text)
    assert pairs(area_list.read(tmp_path / "BlockAssign_ST44_RI_SLDU.txt", US)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("x,y\nb1,x\n", "area,block"),
        ("block,geoid,area\nb1,b1,x\n", "area,block"),
        ("area,block\n", "no records"),
        ("BLOCKID|DISTRICT\nb1|\n", "no area"),
        (
            "area,block\nx,b1\nx,b9\ny,b8\nz,\n",
            r"line 3: 'b9' is not a unit of level 'Block' \(and 2 more such lines\)",
        ),
        ("area,block\nx,b1,b2\n", "line 2: 3 fields"),
        ("area,block\nx,b2\n,b1\n", "line 3: a line must be"),
        (
            "area,block\nx,b1\nx,b1\nx,b2\nx,b1\n",
            r"line 3: 'b1' stands under 'x' twice \(and 1 more such lines\)",
        ),
    ],
)
def test_mistakes_in_a_list(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        area_list.read(tmp_path / "a.csv", TREE)


def test_no_list(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"area,block\n\xff,b1\n")
    for name, word in (("a.csv", "is not utf-8"), ("none.csv", "no such file")):
        with pytest.raises(InputError, match=word):
            area_list.read(tmp_path / name, TREE)
