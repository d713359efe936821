"""The recipes of docs/recipes.md run as they are printed, and give what our own readers give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

import das
from tests.worlds import Worlds

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "recipes.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    """A small run over three states, measured over the tabulation spine as the page says."""
    return worlds.run("geography.spine=tabulation", data="three thousand")


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
    block = das.read_nmf(here, level="Block", query="hispanic").sort_values(
        "geocode", kind="stable"
    )
    theirs = hispanic.sort_values("geocode", kind="stable")
    assert len(theirs) == len(block) > 50
    assert list(theirs["noisy"]) == list(block["value"])
    assert list(theirs["hispanic"][:2]) == ["not Hispanic", "Hispanic"]
    persons = das.read_microdata(here)
    assert states["persons"].sum() == len(persons) == 3000
    assert states["adults"].sum() == (persons["VOTING_AGE"] == "2").sum()
    assert set(states["state"]) == set(persons["TABBLKST"])


def test_pandas(here: Path) -> None:
    found: dict[str, Any] = {}
    exec(blocks("python")[0], found)
    ours = totals(here)
    assert list(found["noisy"].sort_values("geocode")["noisy"]) == list(ours["value"])
    assert len(found["difference"]) == len(ours)
    assert found["difference"].abs().mean() < 10  # sigma is 2.2
    assert found["named"]["name"].str.startswith("Simulated County").all()
    assert list(found["named"]["geoid"]) == list(found["named"]["geocode"])
    assert found["towns"].sum() == 3000
    assert found["towns"].index.get_level_values("name").str.startswith("Simulated town").all()


def test_with_das(here: Path) -> None:
    found: dict[str, Any] = {}
    exec(blocks("python")[1], found)
    assert len(found["persons"]) == 3000
    assert set(found["noisy"].columns) >= {
        "level",
        "geocode",
        "hispanic",
        "cenrace",
        "value",
        "variance",
    }


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
