"""The rules of 1980: by hand on a few places, and their rates on Rhode Island."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.suppression import RATES, rates
from das.model.spine import Spine
from das.tools.protection import census_tables
from das.tools.protection.published import UNBOUNDED, WITHHELD
from das.tools.protection.truth.method import StudyRecords
from das.tools.protection.truth.methods.suppression import Suppression, races

MEN = {"sex": "Male", "age": "30-34", "hispanic": "not-hispanic"}


def test_the_seven_groups() -> None:
    of = races()
    assert len(of.groups) == 7
    assert np.bincount(of.index).tolist() == [1, 2, 2, 2, 2, 2, 52]


def published() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Three blocks of adult men: 20 White; 20 White and 3 Black and White; 10 White, 2 of Asian and
    2 of Asian and Black origin. Lower, upper and value of the lines of each table."""
    schema = census_tables.sf1_schema()
    levels = {a.name: a.levels for a in schema.attributes}

    def cell(race: str) -> int:
        at = (
            levels["sex"].index("male"),
            levels["age"].index("30-34"),
            levels["hispanic"].index("not-hispanic"),
            levels["cenrace"].index(race),
        )
        return int(np.ravel_multi_index(at, schema.shape))

    people = (
        [(0, "White")] * 20
        + [(1, "White")] * 20
        + [(1, "White+Black")] * 3
        + [(2, "White")] * 10
        + [(2, "Asian")] * 2
        + [(2, "Black+Asian")] * 2
    )
    spine = Spine.from_frame({"Tract": ["t"] * 3, "Block": ["a", "b", "c"]}, ["Tract", "Block"])
    given = StudyRecords(
        schema, spine, np.array([p for p, _ in people]), np.array([cell(r) for _, r in people])
    )
    shown = Suppression("1980").published(given, census_tables.table_set(("Block",)), b"")
    lines, set_ = shown.levels["Block"], shown.tables
    at = set_.lines("Block").table
    names = np.array([set_.tables["Block"][i].name for i in at])
    return {
        name: (
            lines.lower[:, names == name],
            lines.upper[:, names == name],
            lines.value[:, names == name],
        )
        for name in dict.fromkeys(names.tolist())
    }


def test_the_rules_by_hand() -> None:
    shown = published()
    assert "P8" not in shown
    assert shown["A0"][2].tolist() == [[20, 0], [23, 0], [14, 0]]
    lower, upper, value = shown["A1"]
    groups = races().groups
    black, asian = groups.index("Black"), groups.index("Asian")
    assert value[:, 0].tolist() == [20, 20, 10]
    assert value[1, black] == lower[1, black] == upper[1, black] == 3
    assert (value[2, [asian, 6]] == 0).all()  # two persons each
    assert (lower[2, [asian, 6]] == 0).all()
    assert (upper[2, [asian, 6]] == 2).all()
    assert (shown["A3"][2] == WITHHELD).all(axis=1).tolist() == [False, True, True]
    assert (shown["A4"][2] == WITHHELD).all(axis=1).tolist() == [False, True, True]
    assert shown["A3"][2][0, 0] == 20
    for name in ("P6", "P12", "P12A", "P14"):
        value, upper = shown[name][2], shown[name][1]
        assert (value == WITHHELD).all(axis=1).tolist() == [False, False, True]
        assert (upper[2] == UNBOUNDED).all()


def test_rates_on_rhode_island(shared_data: Path) -> None:
    """The technical report's rates for the nation are near."""
    extract = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    if not extract.exists():
        pytest.skip(f"there is no {extract}")
    for name, share in rates(extract).items():
        assert share == pytest.approx(RATES[name][0], abs=0.051), name
