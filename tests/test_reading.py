"""What the readers return of a run, against its files and against what it was made from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import das
from das import tables
from das.cli import main
from das.errors import InputError, ReleaseError
from das.model.not_private import CELL, COLUMN
from das.publications.dhc.model.publications import households, persons, units
from das.publications.published.public import estimate_from
from das.release.opened import open_release
from das.truth.assessment import published_of
from tests.worlds import Worlds

CONFIG = """
run = { name = "small", seed = 3 }
geography = { levels = ["Land", "County", "Village"] }
estimation = { method = "full-information" }
constraints = { total = "County" }
output = { report = false }

[data]
reader = "table"
path = "people.csv"
[data.columns]
geography = { County = "county", Village = "village" }
names = { County = "county_name" }

[schema]
name = "small"
attributes = { age = ["young", "old"], sex = ["f", "m"] }
labels = { sex = { title = "Sex", levels = { f = "Female", m = "Male" } } }

[budget]
rho = "2"
neighbors = "bounded"
levels = { Land = "1/3", County = "1/3", Village = "1/3" }
queries = { Land = { total = "1/2", detailed = "1/2" }, County = { sex = "1/2", detailed = "1/2" }, Village = { detailed = "1" } }

[tables.adults]
title = "Old people by sex"
query = "sex"
where = { age = ["old"] }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    village = rng.integers(0, 12, 700)
    people = pd.DataFrame(
        {
            "county": np.array(["a", "b"])[village % 2],
            "county_name": np.array(["Aye, the", "Bee"])[village % 2],
            "village": [f"{'ab'[v % 2]}{v:02d}" for v in village],
            "age": rng.choice(["young", "old"], 700),
            "sex": rng.choice(["f", "m"], 700),
        }
    )
    people.to_csv(folder / "people.csv", index=False)
    (folder / "small.toml").write_text(CONFIG)
    with pytest.warns(UserWarning, match=COLUMN):
        das.run(das.load_spec(folder / "small.toml"), folder / "run", paths=folder / "people.csv")
    return folder / "run"


def seeded(frame: pd.DataFrame) -> bool:
    return bool(frame.columns[-1] == COLUMN and set(frame[COLUMN]) == {CELL} and len(frame))


def test_tables_can_be_wide(run: Path) -> None:
    long, wide = das.read_tables(run), das.read_tables(run, wide=True)
    levels = wide.groupby("level", sort=False)
    assert len(wide) == 1 + 2 + 12
    for _, row in long.iterrows():
        here = levels.get_group(row["level"]).set_index("geocode")
        assert here.loc[row["geocode"], row["field"]] == row["value"]
        assert wide.attrs["labels"][row["field"]] == row["path"]
    assert seeded(wide)
    one = das.read_tables(run, "adults", "County", wide=True)
    assert list(one["adults0001"]) == list(
        long.query("level == 'County' and field == 'adults0001'")["value"]
    )
    assert list(one["name"]) == ["Aye, the", "Bee"]


def test_blocks_have_geoids_of_fifteen_digits(worlds: Worlds) -> None:
    run = worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand")
    frame = das.read_tables(run, "P1", "Block")
    assert frame["geoid"].str.fullmatch(r"\d{15}").all()
    assert (frame["geoid"] == frame["geocode"].str[:11] + frame["geocode"].str[12:]).all()


def test_labels_are_unique_and_paths_keep_their_tree() -> None:
    """Of all tables of the DHC, where "Under 5 years" is a line below both sexes."""
    for of in (persons, households, units):
        p = of()
        for t in (tables.table(t, p.schema) for t in p.tables):
            assert len(set(t.unique_labels)) == len(t.labels), t.name
            assert [path[-1] for path in t.paths] == list(t.labels)
            assert all(t.labels[0] == path[0] for path in t.paths if len(path) > 1)
        if of is persons:
            p12 = next(tables.table(t, p.schema) for t in p.tables if t.name == "P12")
            assert p12.labels[2] == "Under 5 years"
            assert p12.paths[2] == ("Total", "Male", "Under 5 years")
            assert p12.unique_labels[2] == "Male > Under 5 years"
            assert p12.unique_labels[:2] == ("Total", "Male")


def test_tables_are_those_of_the_files_in_long_form(run: Path) -> None:
    frame = das.read_tables(run)
    places = ["table", "level", "geocode", "geoid", "name"]
    assert list(frame) == [*places, "field", "label", "path", "value", COLUMN]
    assert seeded(frame)
    files = sorted((run / "release" / "tables").glob("*.csv"))
    assert len(files) == frame.groupby(["table", "level"]).ngroups == 15
    for path in files:
        table, level = path.stem.rsplit("_", 1)
        wide = pd.read_csv(path, dtype={"GEOCODE": str})
        here = frame[(frame["table"] == table) & (frame["level"] == level)]
        again = here.pivot(index="geocode", columns="field", values="value").loc[wide["GEOCODE"]]
        assert np.array_equal(again.to_numpy(), wide[list(again)].to_numpy())
    counties = frame[frame["level"] == "County"]
    assert dict(zip(counties["geocode"], counties["name"], strict=True)) == {
        "a": "Aye, the",
        "b": "Bee",
    }


def test_a_table_and_a_level_are_chosen_however_they_are_written(run: Path) -> None:
    one = das.read_tables(run / "release", "ADULTS", level="county")
    assert one["label"].tolist() == ["Total", "Female", "Male"] * 2
    for table, level, said in (("P1", None, "no table 'P1'"), (None, "Tract", "no level 'Tract'")):
        with pytest.raises(InputError, match=said):
            das.read_tables(run, table, level)


def test_intervals_lie_around_what_is_known(run: Path) -> None:
    """Of what is exact they are one number, the published one; others have the margin of their
    noise, and most hold the count that is published."""
    frame = das.read_intervals(run)
    assert frame.drop(columns=["low", "high"]).equals(das.read_tables(run))
    exact = (
        (frame["level"] != "Village") & (frame["label"] == "Total") & (frame["table"] != "adults")
    )
    assert (frame["low"] == frame["value"])[exact].all()
    assert (frame["high"] == frame["value"])[exact].all()
    others = frame[~exact]
    assert (others["high"] > others["low"]).all()
    assert others["value"].between(others["low"], others["high"]).mean() > 0.8


def test_intervals_are_those_that_the_command_prints(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    args = [
        "tables",
        str(run),
        "--table",
        "T1",
        "--level",
        "Village",
        "--margins",
        "--names",
        "field",
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(main, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    wide = pd.read_csv(out, dtype={"GEOCODE": str}).set_index("GEOCODE")
    mine = das.read_intervals(run, "T1", "Village").pivot(
        index="geocode", columns="field", values=["low", "high"]
    )
    for end in ("low", "high"):
        assert np.array_equal(
            mine[end].to_numpy(np.int64), wide.loc[mine.index, [f"{f} {end}" for f in mine[end]]]
        )


def test_estimates_have_errors_and_names(run: Path) -> None:
    frame = das.read_estimates(run)
    assert list(frame) == [
        "level",
        "geocode",
        "name",
        "query",
        "age",
        "sex",
        "label",
        "value",
        "standard_error",
        COLUMN,
    ]
    assert seeded(frame)
    assert set(frame["level"]) == {"Land", "County"}
    one = das.read_estimates(run, "county", "SEX")
    assert one["name"].tolist() == ["Aye, the"] * 2 + ["Bee"] * 2
    assert one["label"].tolist() == ["Female", "Male"] * 2
    noisy = das.read_nmf(run, "County", "sex")
    assert (one["standard_error"] ** 2 < noisy["variance"]).all()
    assert ((one["value"] - noisy["value"]).abs() < 8 * noisy["variance"] ** 0.5).all()


def test_estimates_that_there_are_not_are_told(run: Path, tmp_path: Path) -> None:
    estimate_from(
        run / "release",
        tmp_path / "again",
        changes=["estimation.method=topdown", "output.tables=false"],
    )
    with pytest.raises(ReleaseError, match=r"no unbiased estimates[\s\S]*full-information"):
        das.read_estimates(tmp_path / "again")
    with pytest.raises(ReleaseError, match=r"no published tables[\s\S]*output.tables"):
        das.read_tables(tmp_path / "again")


def test_a_release_is_estimated_again_from_its_measurements(run: Path) -> None:
    """Full information in memory: the published counts and the unbiased estimates of the release,
    in every bit but those that its files do not keep."""
    noisy, spine, bounds = das.read_noisy(run)
    assert (
        repr(noisy) == "<Noisy: small, 5 queries, rho = 2, 1 counted exactly, seeded: NOT PRIVATE>"
    )
    result = das.full_information(noisy, spine, bounds)
    for level, counts in published_of(open_release(run / "release"), ["persons"])[
        "persons"
    ].items():
        assert result.histograms[level].histogram.same_as(counts)
    for level, estimates in result.estimates.items():
        theirs, mine = das.read_estimates(run, level), estimates.to_frame()
        assert mine.drop(columns="standard_error").equals(theirs.drop(columns="standard_error"))
        assert np.allclose(mine["standard_error"], theirs["standard_error"], rtol=1e-6)
    table = das.read_tables(run, "T0", "Village")
    assert (
        result.histograms["Village"].to_frame("total")["value"].tolist() == table["value"].tolist()
    )


def test_a_release_that_is_read_keeps_what_it_knows(run: Path) -> None:
    """Its exact counts and its ledger come with the measurements, and are met without the third
    value.
    """
    noisy, spine, bounds = das.read_noisy(run)
    wanted = das.topdown(noisy, spine, bounds)
    assert (
        das.topdown(noisy, spine)
        .histograms["Village"]
        .histogram.same_as(wanted.histograms["Village"].histogram)
    )
    totals = wanted.histograms["County"].answer("total")
    assert noisy.exact["County", "total"].tolist() == totals.tolist()
    assert (
        das.topdown(das.Noisy(noisy.schema, noisy.source), spine)
        .histograms["County"]
        .answer("total")
        .tolist()
        != totals.tolist()
    )
    assert sum(e.cost for e in noisy.events) == noisy.plan.cost == 2
    with pytest.raises(InputError, match="the counts of 'total' at 'County' are not those"):
        das.topdown(
            noisy, spine, das.bounds(noisy.schema, spine, {("County", "total"): totals[:, 0] + 1})
        )
    with pytest.raises(InputError, match="made with another spine: its Land number 0"):
        das.topdown(
            noisy, das.Spine((*spine.levels,), (np.array(["x"]), *spine.codes[1:]), spine.parent)
        )


def test_errors_are_those_of_the_file(run: Path) -> None:
    frame = das.read_errors(run)
    assert seeded(frame)
    wide = pd.read_csv(run / "confidential" / "evaluation" / "errors.csv")
    assert list(frame) == ["universe", *wide.columns[:2], "title", *wide.columns[2:]]
    assert set(frame["title"]) == {"Total", "Sex", "All attributes crossed"}
    assert np.allclose(frame["mae"], wide["mae"])
    assert das.read_errors(run / "release").equals(frame)


def test_a_release_alone_has_no_errors(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "release", tmp_path / "release")
    with pytest.raises(InputError, match=r"no errors here[\s\S]*give the folder of the run"):
        das.read_errors(tmp_path)


def test_measurements_have_the_names_of_places(run: Path) -> None:
    frame = das.read_nmf(run, "County", "sex")
    assert list(frame)[:4] == ["level", "geocode", "name", "query"]
    assert frame["name"].tolist() == ["Aye, the"] * 2 + ["Bee"] * 2
    assert das.read_nmf(run, "County", tidy=False)["name"].tolist() == ["Aye, the", "Bee"] * 2
    assert set(das.read_nmf(run / "release" / "nmf", "Village")["name"]) == {""}


@pytest.mark.parametrize(
    "read", [das.read_tables, das.read_intervals, das.read_estimates, das.read_errors]
)
def test_what_is_no_release_is_told(read: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is no release"):
        read(tmp_path)
