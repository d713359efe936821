"""Names by code, and the standard GEOID of a unit."""

import numpy as np
import pytest

from das.errors import InputError
from das.model.names import Names, encoded, geoids, merged, text
from das.model.spine import Spine


def test_a_name_is_that_of_its_code():
    names = Names.from_pairs(
        np.array(["b", "a", "b"]), np.array([" Town of\tB  ", "Año", "another"])
    )
    assert names.at(np.array(["a", "c", "b", "b"])).tolist() == [
        "Año",
        "",
        "Town of B",
        "Town of B",
    ]
    assert Names.from_pairs(np.zeros(0, "<U1"), np.zeros(0, "<U1")).at(
        np.array(["a"])
    ).tolist() == [""]
    both = merged(
        [
            {"Town": names},
            {"Town": Names.from_pairs(np.array(["c"]), np.array(["C"])), "Ward": names},
        ]
    )
    assert both["Town"].at(np.array(["a", "c"])).tolist() == ["Año", "C"]
    assert list(both) == ["Town", "Ward"]


@pytest.mark.parametrize(
    "codes,names", [(["a"], []), (["b", "a"], ["x", "y"]), (["a", "a"], ["x", "y"])]
)
def test_names_are_checked(codes, names):
    with pytest.raises(InputError, match="names of places"):
        Names(np.array(codes, dtype=str), np.array(names, dtype=str))


@pytest.mark.parametrize(
    "level,code,geoid",
    [
        ("State", "44", "44"),
        ("County", "44007", "44007"),
        ("Tract", "44007010101", "44007010101"),
        ("Block_Group", "440070101012", "440070101012"),
        ("Block", "4400701010122003", "440070101012003"),
        (
            "Block",
            "0441000700491024400701010122003",
            "440070101012003",
        ),  # in the Bureau's noisy measurement files
        ("Block", "0541000700491024400701010122003", ""),
        ("Block", "4400701010123003", ""),  # the block group is not the block's first digit
        ("Block", "440070101012003", ""),
        ("Block", "44007010101220x3", ""),
        ("Village", "44007", ""),
        ("County", "0441", ""),
    ],
)
def test_geoids(level, code, geoid):
    assert text(geoids(level, encoded([code]))).tolist() == [geoid]


def test_a_level_has_geoids_or_not():
    assert text(geoids("County", encoded(["44007", "44"]))).tolist() == ["", ""]
    assert len(geoids("Block", np.zeros(0, "S16"))) == 0


def test_a_spine_checks_its_names():
    codes, parent = (
        (np.array(["0"]), np.array(["1", "2"])),
        (np.zeros(1, np.int64), np.zeros(2, np.int64)),
    )
    spine = Spine(("Land", "Ward"), codes, parent, (np.array(["Utopia"]), np.array(["", "East"])))
    assert [spine.title("Ward", u) for u in range(2)] == ["1", "East (2)"]
    assert Spine(("Land", "Ward"), codes, parent).names[1].tolist() == ["", ""]
    for names in ((codes[0],), (codes[0], codes[0]), (codes[0], np.array(["a", "b\nc"]))):
        with pytest.raises(InputError, match="spine"):
            Spine(("Land", "Ward"), codes, parent, names)
