"""What `das intervals` writes with the replicates: the page agrees with the tables, and every file
is explained.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import zlib
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import das
from das.engine import Silent
from das.errors import ReleaseError, UserError
from das.files.run.run_directory import RunDirectory
from das.model.areas import Areas
from das.model.not_private import COLUMN, WARNING
from das.release.area_counts import counts, statistics
from das.release.publications import source_of
from das.release.replicate_source import PAGE, IntervalOptions
from das.release.replicates import make
from das.tools.areas import page as area_page
from tests.commands import Commands
from tests.report.parsed import Page, assert_sound, unpack
from tests.worlds import Worlds

#: A column of a table, and the query and answer of the page that count the same.
SAME = {
    "P0010001": ("persons", "total", 0),
    "P0030001": ("persons", "votingage", 1),
    "P0020002": ("persons", "hispanic", 1),
    "H0010001": ("housing units", "total", 0),
    "H0010002": ("housing units", "h1", 1),
}


@pytest.fixture(scope="module")
def run(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With intervals, at a coverage and by a rule that are not the default."""
    out = worlds.copy(
        worlds.run("run.seed=1", data="one thousand"), tmp_path_factory.mktemp("made") / "run"
    )
    asked = IntervalOptions(4, seed=5, coverage=0.8, rule="ct")
    make(
        out / "release",
        out / "release" / "intervals",
        asked,
        workers=1,
        resume=False,
        progress=Silent(),
    )
    return out


@pytest.fixture(scope="module")
def text(run: Path) -> str:
    return (run / "release" / "intervals" / PAGE).read_text(encoding="utf-8")


def looked_up(text: str) -> dict[str, pd.DataFrame]:
    """By level, and kind of areas: of each unit the columns of :data:`SAME` as the page has them,
    with both ends.
    """
    data = json.loads(Page(text).scripts[0])
    return {place["name"]: _ends(place) for place in [*data["levels"], *data["areas"]]}


def _ends(place: dict[str, Any]) -> pd.DataFrame:
    codes = json.loads(zlib.decompress(base64.b64decode(place["codes"])))
    queries = {(q["records"], q["name"]): q for q in place["queries"]}
    out: dict[tuple[str, str], Any] = {}
    for field, (records, name, answer) in SAME.items():
        q = queries[records, name]
        value, below, above = (
            unpack(q[s]).reshape(-1, len(codes))[answer] for s in ("published", "below", "above")
        )
        out |= {
            (field, "value"): value,
            (field, "lower"): value - below,
            (field, "upper"): value + above,
        }
    return pd.DataFrame(out, index=codes)


def test_the_page_has_the_intervals_of_the_tables(run: Path, text: str) -> None:
    shown, wide = looked_up(text), 0
    for level in ("State", "County", "Block_Group", "Block"):
        for field in SAME:
            rows = das.read_intervals(
                run, f"{field[0]}{int(field[1:4])}", level, method="replicates"
            )
            rows = rows[rows["field"] == field].set_index("geocode")
            for side in ("value", "lower", "upper"):
                expected = shown[level][field, side].reindex(rows.index).rename(side)
                assert rows[side].astype("int64").equals(expected), (level, field)
            wide += int((rows["upper"] > rows["lower"]).sum())
    assert wide > 50


def test_the_page_has_those_of_areas_across_the_levels(run: Path, text: str) -> None:
    """As `das area` has them, which knows nothing of the page."""
    persons = [field for field in SAME if field.startswith("P")]
    found = das.read_areas(run, kind="Place", statistics=persons, coverage=0.8)
    place, wide = looked_up(text)["Place"], 0
    for field in persons:
        rows = found[found["field"] == field].set_index("area")
        assert len(rows) == len(place)
        for side in ("value", "lower", "upper"):
            assert (rows[side] == place[field, side]).all(), (field, side)
        wide += int((rows["upper"] > rows["lower"]).sum())
    assert wide


def test_areas_at_once_have_wider_intervals(run: Path) -> None:
    alone, together = (
        das.read_areas(
            run, kind="Place", statistics=["share:P0040002/P0040001"], simultaneous=s
        ).set_index("area")
        for s in (False, True)
    )
    known = alone["lower"].notna() & (alone["rmse"] > 0)
    width = (together["upper"] - together["lower"])[known] / (alone["upper"] - alone["lower"])[
        known
    ]
    assert (width >= 1 - 1e-12).all()
    assert width.max() - width.min() < 1e-9  # one factor for all


def test_the_page_of_a_plan_leads_with_what_is_published(run: Path) -> None:
    opened = source_of(run / "release")
    n = opened.spine.units("Block")
    plan = Areas("ward", np.array(["d0", "d1"]), np.arange(n) % 2, np.arange(n))
    found = counts(opened, plan, statistics(opened, ["P0010001"]), 0.8)
    (column,) = found.columns
    told, value = column.replicated.row(0), int(column.value[0])  # type: ignore[union-attr]
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", area_page.page(opened, found)))
    page = page.replace("−", "-")
    assert "Under it is its interval, from 4 replicates of the release" in page
    interval = f"{int(told['lower']):,} to {int(told['upper']):,}"
    estimate = f"estimate {round(column.estimate[0]):,}: {column.low[0]:,} to {column.high[0]:,}"
    assert f"d0 {value:,} {interval} {estimate}" in page
    ideal = column.value.mean()
    off = [f"{100 * (told[end] / ideal - 1):+.2f}" for end in ("lower", "upper")]
    ends = f"{interval} {' to '.join(off)}"
    assert ends in page
    assert page.index(ends) < page.index(estimate)


@pytest.fixture
def begun(run: Path, tmp_path: Path) -> Path:
    """A run whose intervals were begun, and not finished."""
    copy = shutil.copytree(run, tmp_path / "run")
    path = copy / "release" / "intervals" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["digests"], manifest["rows"], manifest["replicates"]
    path.write_text(json.dumps(manifest))
    return copy


def test_intervals_that_are_being_made_are_waited_for(begun: Path) -> None:
    """Not taken away: a live process writes them."""
    folder = begun / "release" / "intervals"
    asked = IntervalOptions(4, seed=5, coverage=0.8, rule="ct")
    with RunDirectory(folder).lock():
        with pytest.raises(ReleaseError, match="another process is making") as caught:
            das.read_intervals(begun, method="replicates")
        assert "wait until it has ended" in str(caught.value)
        with pytest.raises(UserError, match="another process is making"):
            make(begun / "release", folder, asked, workers=1, resume=False, progress=Silent())
    with pytest.raises(ReleaseError, match="not finished"):
        das.read_intervals(begun, method="replicates")


def test_a_finished_list_whose_files_change_is_altered_or_at_work(
    run: Path, tmp_path: Path
) -> None:
    """More tables of intervals that were finished: for a while no list has their files."""
    copy = shutil.copytree(run, tmp_path / "run")
    folder = copy / "release" / "intervals"
    (folder / "P9_State.parquet").write_bytes(b"a draft")
    with RunDirectory(folder).lock(), pytest.warns(UserWarning, match="another process"):
        assert das.read_areas(copy, kind="Place")["lower"].isna().all()
    with pytest.raises(ReleaseError, match="does not match its digest"):
        das.read_areas(copy, kind="Place")


@pytest.mark.parametrize("live", [True, False], ids=["at work", "interrupted"])
def test_areas_and_tables_need_not_wait_for_replicates(
    begun: Path, worlds: Worlds, commands: Commands, live: bool
) -> None:
    """They say what they say of a release without replicates, and one note more."""
    before = worlds.run("run.seed=1", data="one thousand")
    folder = begun / "release" / "intervals"
    note = "another process is making" if live else "`das intervals * --resume` goes on"
    area = ("--kind", "Place", "--statistics", "share:P0040002/P0040001", "--statistics", "P1")
    table = ("--level", "County", "--table", "P1", "--margins", "--quiet")
    with RunDirectory(folder).lock() if live else nullcontext():
        code, out, err = commands.named("area")(begun, *area)
        assert (code, out) == (0, commands.named("area")(before, *area)[1])
        notes = [line for line in err.splitlines() if "note" in line]
        assert len(notes) == 1
        assert fnmatch(notes[0], f"das: note: *{note}*")
        code, out, err = commands.named("tables")(begun, *table)
        assert (code, out) == (0, commands.named("tables")(before, *table)[1]), err
        with pytest.warns(UserWarning, match="these intervals|intervals of") as warned:
            found = das.read_areas(begun, kind="Place")
        assert fnmatch(str(warned[0].message), f"*{note}*")
        assert found["lower"].isna().all()
        assert found["estimate_low"].notna().any()
        code, _, err = commands.named("account")("verify", begun)
        assert code == 2
        assert fnmatch(err, f"*{note}*")
        code, _, err = commands.named("evaluate")(begun)
        assert code == 0, err


def test_the_command_that_goes_on_does(begun: Path, commands: Commands) -> None:
    """The one that is named, with the options of the first time."""
    _, _, err = commands.named("account")("verify", begun)
    (said,) = re.findall("`das intervals (.*)` goes on", err)
    again = ("--replicates", 4, "--seed", 5, "--coverage", 0.8, "--rule", "ct", "--quiet")
    code, _, err = commands.named("intervals")(*shlex.split(said), *again)
    assert code == 0, err
    assert commands.named("account")("verify", begun)[0] == 0


def test_the_page_is_sound_and_says_what_it_is(text: str) -> None:
    page = assert_sound(text)
    assert WARNING in page.text
    assert "again on the published counts, 4 times" in page.text
    assert "4 replicates are for trying out" in page.text
    assert "80% interval of published" in page.text
    assert "95% interval from measurements" in page.text
    assert "confidential" not in page.text.lower()


def test_the_same_page_comes_of_the_same_release(run: Path, text: str, tmp_path: Path) -> None:
    asked = IntervalOptions(4, seed=5, coverage=0.8, rule="ct", tables=("P1",), levels=("County",))
    make(run / "release", tmp_path / "other", asked, workers=2, resume=False, progress=Silent())
    assert (tmp_path / "other" / PAGE).read_text(encoding="utf-8") == text


def test_the_dictionary_has_every_file_and_every_column_and_no_other(
    run: Path, tmp_path: Path
) -> None:
    some = worlds_copy(run, tmp_path)
    for folder, tables in (
        (run / "release" / "intervals", {"P1", "P2", "P3", "P4", "P5", "H1"}),
        (some, {"P2", "H1"}),
    ):
        check_dictionary(folder, tables)


def check_dictionary(folder: Path, tables: set[str]) -> None:
    """Of a folder of intervals of these tables of a seeded run."""
    lines = pd.read_csv(folder / "dictionary.csv", dtype=str, keep_default_na=False)
    assert (lines[COLUMN] == "seeded").all()
    assert (lines["label"] != "").all()
    patterns = lines[lines["kind"] == "file"]["file"].tolist()
    assert {p.removesuffix("_*.parquet") for p in patterns if p.endswith("_*.parquet")} == tables
    files = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file()]
    assert {f: sum(fnmatch(f, p) for p in patterns) for f in files} == dict.fromkeys(files, 1)
    for pattern in patterns:
        here = [folder / f for f in files if fnmatch(f, pattern)]
        assert here, pattern
        if pattern.endswith(".parquet"):
            said = lines[(lines["kind"] == "column") & (lines["file"] == pattern)][
                "column"
            ].tolist()
            assert all(pq.read_schema(path).names == said for path in here), pattern
            check_codes(lines[(lines["kind"] == "code") & (lines["file"] == pattern)], here)


def worlds_copy(run: Path, folder: Path) -> Path:
    """Intervals of two tables alone, at two levels."""
    shutil.copytree(run / "release" / "intervals" / "replicates", folder / "some" / "replicates")
    shutil.copy(run / "release" / "intervals" / "manifest.json", folder / "some" / "manifest.json")
    asked = IntervalOptions(4, 5, 0.9, tables=("P2", "H1"), levels=("Tract", "Block"))
    make(run / "release", folder / "some", asked, workers=1, resume=True, progress=Silent())
    return folder / "some"


def check_codes(codes: pd.DataFrame, paths: list[Path]) -> None:
    """Every code of a column that has any is explained; of a table's column, in the words of the
    file.
    """
    frame = pd.concat([pq.read_table(p).to_pandas() for p in paths])
    for column, said in codes.groupby("column"):
        words = dict(zip(said["code"], said["label"], strict=True))
        assert set(frame[column].astype(str)) <= set(words)
        if column == "variable":
            assert (frame["label"].astype(str) == frame["variable"].astype(str).map(words)).all()


def test_the_command_says_where_to_look(commands: Commands, run: Path, tmp_path: Path) -> None:
    asked = (
        run,
        "--replicates",
        2,
        "--level",
        "County",
        "--table",
        "P1",
        "--quiet",
        "--out",
        tmp_path / "out",
    )
    code, out, _ = commands.named("intervals")(*asked)
    assert code == 0
    assert str(tmp_path / "out" / PAGE) in out
    code, out, _ = commands.named("intervals")(*asked, "--json")
    assert json.loads(out)["page"] == str(tmp_path / "out" / PAGE)
    assert commands.named("account")("verify", run)[0] == 0
