"""The recipes of docs/how-to/other-tools.md run as they are printed, and give what our own readers give."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

import das
from docs import pages
from tests.worlds import Worlds

PAGE = pages.text("other-tools")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    """A small run over three states as it stands, that is over the optimized spine."""
    return worlds.run("geography.spine=optimized", data="three thousand")


@pytest.fixture
def here(run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(run)
    return run


def totals(run: Path) -> pd.DataFrame:
    return das.read_nmf(run, level="County", query="total").sort_values(
        "geocode", ignore_index=True
    )


def test_duckdb(here: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    counties, hispanic, states = (duckdb.sql(text).df() for text in blocks("sql"))
    ours = totals(here)
    assert list(counties["geocode"]) == list(ours["geocode"])
    assert list(counties["noisy"]) == list(ours["value"])
    assert np.allclose(counties["high"] - counties["low"], 2 * 1.96 * np.sqrt(ours["variance"]))
    check_blocks(here, hispanic)
    persons = das.read_microdata(here)
    assert states["persons"].sum() == len(persons) == 3000
    assert states["adults"].sum() == (persons["VOTING_AGE"] == "2").sum()
    assert set(states["state"]) == set(persons["TABBLKST"])


def check_blocks(run: Path, hispanic: pd.DataFrame) -> None:
    """Every answer of every measured block, by GEOIDs that the tables have."""
    block = das.read_nmf(run, level="Block", query="hispanic")
    assert len(hispanic) == len(block) > 50
    assert sorted(hispanic["noisy"]) == sorted(block["value"])
    assert list(hispanic["hispanic"][:2]) == ["not Hispanic", "Hispanic"]
    table = pd.read_csv(run / "release" / "tables" / "P1_Block.csv", dtype={"GEOID": str})
    assert set(hispanic["geoid"]) <= set(table["GEOID"])
    assert not hispanic.duplicated(["geoid", "hispanic"]).any()


def test_duckdb_over_the_tabulation_spine(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page: use ``spine.parquet`` there."""
    duckdb = pytest.importorskip("duckdb")
    run = worlds.run("geography.spine=tabulation", data="three thousand")
    monkeypatch.chdir(run)
    assert not Path("release/nmf/spine.parquet").exists()
    text = blocks("sql")[1].replace("release/nmf/spine.parquet", "release/spine.parquet")
    check_blocks(run, duckdb.sql(text).df())


def test_pandas(here: Path) -> None:
    found: dict[str, Any] = {}
    exec("".join(blocks("python")[:2]), found)
    ours = totals(here)
    noisy = found["noisy"].sort_values("geocode")
    assert list(noisy["noisy"]) == list(ours["value"])
    assert len(found["difference"].dropna()) == len(ours) > 5
    assert found["difference"].abs().mean() < 10  # sigma is 2.2
    assert found["published"].sum() == 3000
    assert found["towns"].sum() == 3000
    assert found["towns"].index.get_level_values("name").str.startswith("Simulated town").all()


def test_the_second_trap_is_one(here: Path) -> None:
    """If codes of measured units and of tables ever join, the page may lose its warning."""
    blocks = pd.read_csv("release/tables/P1_Block.csv", dtype={"GEOCODE": str})
    measured = das.read_nmf(here, level="Block", query="total")["geocode"]
    assert not set(measured) & set(blocks["GEOCODE"])


def test_codes_that_do_not_match_are_no_empty_answer(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of another release, or without their zeros."""
    shutil.copytree(here / "release", tmp_path / "release")
    path = tmp_path / "release" / "tables" / "P1_Block.csv"
    table = pd.read_csv(path, dtype=str)
    table.assign(GEOCODE="9" + table["GEOCODE"].str[1:]).to_csv(path, index=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="codes that do not match"):
        exec(blocks("python")[0], {})


def test_geoids_are_text_in_every_recipe(here: Path) -> None:
    """A file that is read without the kinds of its columns takes a GEOID for a number."""
    found: dict[str, Any] = {}
    exec("".join(blocks("python")[:2]), found)
    for frame in (found["blocks"], found["areas"], found["inside"]):
        codes = frame[[c for c in frame if str(c).upper() in ("GEOID", "GEOCODE")]]
        assert codes.shape[1] >= 1
        assert all(isinstance(c, str) for c in codes.to_numpy().ravel())


def test_with_das(here: Path) -> None:
    found: dict[str, Any] = {}
    exec(blocks("python")[2], found)
    assert len(found["persons"]) == 3000
    assert found["counties"]["geoid"].str.fullmatch(r"\d{5}").all()
    assert set(found["noisy"].columns) >= {
        "level",
        "geocode",
        "hispanic",
        "cenrace",
        "value",
        "variance",
    }


@pytest.fixture
def mapped(here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The recipes up to GeoPandas, over made-up boundaries: a square for each block, in rows."""
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    (tmp_path / "release").symlink_to(here / "release")
    monkeypatch.chdir(tmp_path)
    geoids = pd.read_csv("release/tables/P1_Block.csv", dtype=str)["GEOID"]
    wide = 10
    squares = [shapely.box(*(100 * k for k in at)) for at in _squares(len(geoids), wide)]
    geopandas.GeoDataFrame({"GEOID10": geoids}, geometry=squares, crs=5070).to_file("blocks.gpkg")
    found: dict[str, Any] = {}
    exec("".join([*blocks("python")[:2], blocks("python")[3]]), found)
    return found


def _squares(number: int, wide: int) -> Iterator[tuple[int, int, int, int]]:
    """From the left in each row, row by row: so every square touches another."""
    for i in range(number):
        yield i % wide, i // wide, i % wide + 1, i // wide + 1


def test_geopandas(mapped: dict[str, Any]) -> None:
    shapes, tracts = mapped["shapes"], mapped["tracts"]
    assert np.allclose(shapes["density"], 100 * shapes["P0010001"])  # a square is a hectare
    ours = das.read_tables(Path().resolve(), "P1", "Tract", wide=True).set_index("geoid")
    assert tracts["P0010001"].to_dict() == ours["P0010001"].to_dict()


def test_gerrychain(mapped: dict[str, Any]) -> None:
    """A plan whose districts GerryChain and we count alike, in a file that ``das area`` reads."""
    pytest.importorskip("gerrychain")
    exec(blocks("python")[4], mapped)
    areas = das.read_areas(Path().resolve(), "plan.csv", statistics=["total"])
    persons = areas[areas["universe"] == "persons"].set_index("area")["value"]
    assert persons.to_dict() == {str(k): v for k, v in mapped["plan"]["P0010001"].items()}
    assert persons.sum() == 3000
    assert (persons - 750).abs().max() <= 0.05 * 750


def test_the_arrow_dataset_that_the_recipe_for_r_opens(here: Path) -> None:
    """Not R itself: the same folders, columns and filter, through the same library."""
    (text,) = blocks("r")
    measured, microdata = re.findall(r'open_dataset\("([^"]+)"\)', text)
    (wanted,) = re.findall(r'filter\(query_name == "(\w+)"\)', text)
    columns = re.findall(r"select\(geocode, value, variance\)", text) and [
        "geocode",
        "value",
        "variance",
    ]
    table = ds.dataset(measured, partitioning="hive").to_table(
        columns, filter=ds.field("query_name") == wanted
    )
    ours = totals(here)
    assert sorted(v[0] for v in table["value"].to_pylist()) == sorted(ours["value"])
    persons = ds.dataset(microdata, partitioning="hive").to_table(["TABBLKST", "VOTING_AGE"])
    assert persons.num_rows == 3000


def test_the_trap_is_one(here: Path) -> None:
    """If a level's folder is ever read whole without harm, the page may lose its warning."""
    whole = ds.dataset("release/nmf/Block.parquet", partitioning="hive").to_table(["query_name"])[
        "query_name"
    ]
    kinds = {name.rpartition("_")[2] for name in whole.to_pylist()}
    assert kinds == {"dpq", "con"}
    inside = ds.dataset("release/nmf/Block.parquet/DPQuery", partitioning="hive").to_table(
        ["query_name"]
    )["query_name"]
    assert {name.rpartition("_")[2] for name in inside.to_pylist()} == {"dpq"}
