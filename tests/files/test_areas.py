"""Areas in files: kept as they are, and lists of blocks with every mistake named by its line."""

import numpy as np
import pytest

from das.errors import InputError, ReleaseError
from das.files import areas as file
from das.model.areas import Areas

CODES = np.array(["b1", "b2", "b3"])


def pairs(a):
    return {(str(a.names[i]), int(u)) for i, u in zip(a.area, a.unit, strict=True)}


def test_they_are_kept(tmp_path):
    town = Areas("Town", np.array(["x", "y"]), np.array([0, 1, 1]), np.array([2, 0, 2]))
    ward = Areas("Ward", np.array(["x"]), np.array([0]), np.array([1]))
    file.write(tmp_path / "evaluation" / "areas.parquet", [town, ward])
    got = file.read(tmp_path / "evaluation" / "areas.parquet")
    assert [(a.kind, pairs(a)) for a in got] == [(a.kind, pairs(a)) for a in (town, ward)]
    file.write(tmp_path / "areas.parquet", [])
    assert file.read(tmp_path / "areas.parquet") == file.read(tmp_path / "none.parquet") == ()
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReleaseError, match="cannot be read"):
        file.read(tmp_path / "torn.parquet")


def test_a_list(tmp_path):
    path = tmp_path / "school districts.csv"
    path.write_text("Area, block\nNorth,b3\nNorth,b1\nSouth ,b1\n", encoding="utf-8-sig")
    got = file.read_csv(path, "Block", CODES)
    assert got.kind == "school districts"
    assert pairs(got) == {("North", 2), ("North", 0), ("South", 0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "area,block"),
        ("block,area\nb1,x\n", "area,block"),
        ("area,block\n", "no area"),
        ("area,block\nx,b1\nx,b9\n", "line 3: 'b9' is not a unit of level 'Block'"),
        ("area,block\nx,b1,b2\n", "line 2: a line must be"),
        ("area,block\n,b1\n", "line 2: a line must be"),
        ("area,block\nx,b1\nx,b1\n", "line 3: 'b1' stands under 'x' twice"),
    ],
)
def test_mistakes_in_a_list(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        file.read_csv(tmp_path / "a.csv", "Block", CODES)


def test_no_list(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"area,block\n\xff,b1\n")
    for name in ("a.csv", "none.csv"):
        with pytest.raises(InputError, match="not readable"):
            file.read_csv(tmp_path / name, "Block", CODES)
