"""Counts of areas of a release of the DHC, and margins of its tables: published, with the intervals
that replicates have made."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import das
from tests.commands import Commands
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.dhc_with_intervals()


@pytest.fixture
def wards(run: Path, tmp_path: Path) -> Path:
    blocks = pd.read_csv(run / "release" / "tables" / "P12_Block.csv", dtype={"GEOCODE": str})
    areas = [f"ward {i % 3}" for i in range(len(blocks))]
    path = tmp_path / "wards.csv"
    pd.DataFrame({"area": areas, "block": blocks["GEOCODE"]}).to_csv(path, index=False)
    return path


def test_areas_are_sums_with_intervals_where_replicates_say_something(
    run: Path, wards: Path, commands: Commands
) -> None:
    blocks = pd.read_csv(run / "release" / "tables" / "P12_Block.csv", dtype={"GEOCODE": str})
    mine = blocks.groupby(pd.Series([f"ward {i % 3}" for i in range(len(blocks))]))["P0120002"]
    asked = ["P0120002", "P1", "households:total", "share:P0120002/P0120001"]
    found = das.read_areas(run, wards, statistics=asked)
    men = found.query("field == 'P0120002'").set_index("area")
    assert men["value"].astype(int).to_dict() == mine.sum().to_dict()
    assert men["lower"].notna().all()
    assert (men["lower"] <= men["upper"]).all()
    assert found["estimate"].isna().all()  # the answers were drawn on request
    before = found.query("field == 'P0010001'")
    assert before["lower"].isna().all()  # all replicates have what was published before
    assert found.query("universe == 'households'")["value"].gt(0).all()
    code, out, err = commands.named("area")(run, "--blocks", wards, "--statistics", "P12")
    assert code == 0, err
    assert "All replicates share the redistricting counts" in err
    assert "Male (P0120002)" in out
    page = wards.with_suffix(".html")
    code, _, err = commands.named("area")(run, "--blocks", wards, "--out", page)
    assert (code, "3 areas" in page.read_text(encoding="utf-8")) == (0, True), err


def test_without_replicates_there_are_counts_alone(
    worlds: Worlds, wards: Path, commands: Commands
) -> None:
    found = das.read_areas(worlds.dhc(), wards, statistics=["H1"])
    assert found[["lower", "estimate"]].isna().all().all()
    code, _, err = commands.named("area")(worlds.dhc(), "--blocks", wards)
    assert (code, "`das intervals` makes them" in err) == (0, True)


def test_while_replicates_are_made_there_are_counts_alone(
    run: Path, wards: Path, commands: Commands, tmp_path: Path
) -> None:
    """Margins come from replicates alone, so they are refused, with the command that goes on."""
    begun = shutil.copytree(run, tmp_path / "begun")
    path = begun / "release" / "intervals" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in manifest.items() if k != "digests"}))
    area = commands.named("area")(begun, "--blocks", wards)
    call = ("--table", "P12", "--level", "County", "--margins")
    tables = commands.named("tables")(begun, *call)
    assert (area[0], area[2].count("das: note"), tables[0]) == (0, 1, 2)
    for _, _, err in (area, tables):
        assert f"`das intervals {begun / 'release'} --resume` goes on" in err
        assert "makes them" not in err


def test_margins_are_the_intervals_that_were_made(
    run: Path, worlds: Worlds, commands: Commands
) -> None:
    call = ("--table", "P12", "--level", "County", "--margins")
    code, out, err = commands.named("tables")(run, *call, "--names", "field")
    assert code == 0, err
    assert "das intervals" in err
    shown = pd.read_csv(io.StringIO(out), dtype={"GEOCODE": str}).set_index("GEOCODE")
    made = das.read_intervals(run, "P12", "County", method="replicates")
    for row in made.query("field in ['P0120001', 'P0120002', 'P0120026']").itertuples():
        low, high = (shown.loc[row.geocode, f"{row.field} {end}"] for end in ("low", "high"))
        assert shown.loc[row.geocode, row.field] == row.value
        assert pd.isna(high) if pd.isna(row.upper) else (low, high) == (row.lower, row.upper)
    for where, more in ((worlds.dhc(), call), (run, ("--table", "P13", *call[2:]))):
        code, _, err = commands.named("tables")(where, *more)
        assert code == 2
        assert "das intervals" in err or "no table" in err
    code, _, err = commands.named("tables")(run, *call[:4], "--noise")
    assert (code, "--margins has the intervals" in err) == (2, True)
