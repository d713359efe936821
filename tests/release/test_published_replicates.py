"""Intervals from replicates that somebody else published: against sums by pandas and the rule
written out again, and against the replicates of a run of ours."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

import das
from das.engine import Silent
from das.errors import InputError, ReleaseError, UserError
from das.files.readers import ppmf_persons
from das.files.release import replicates as files
from das.files.run.run_directory import tree_digests
from das.model.names import NOT_COUNTED
from das.model.not_private import COLUMN
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.publications.published import replicates as published_replicates
from das.publications.published.replicates import PublishedFiles, PublishedReplicates
from das.release import interval_writing, replicates
from das.release.interval_writing import parts_of
from das.release.opened import open_release
from das.release.replicate_source import BY_TRUTH, PLAIN, IntervalOptions
from tests.commands import Commands
from tests.strategies import spines
from tests.worlds import Worlds

SHARED = Path(os.environ.get("DAS_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
COLUMNS = [
    "TABBLKST",
    "TABBLKCOU",
    "TABTRACTCE",
    "TABBLKGRPCE",
    "TABBLK",
    "RTYPE",
    "GQTYPE_PL",
    "VOTING_AGE",
    "CENHISP",
    "CENRACE",
]
#: Of 71 and 10 columns.
FEW = ("P1", "P5")
#: What stands in GEOID, by level: so many digits of a block's.
DIGITS = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 15}
#: Columns of tables as conditions on lines, as the table matrix of the redistricting data has them.
COUNTED: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "P0010001": lambda p: p["CENRACE"] > 0,
    "P0010003": lambda p: p["CENRACE"] == 1,
    "P0010009": lambda p: p["CENRACE"] > 6,
    "P0020002": lambda p: p["CENHISP"] == 2,
    "P0020005": lambda p: (p["CENHISP"] == 1) & (p["CENRACE"] == 1),
    "P0030001": lambda p: p["VOTING_AGE"] == 2,
    "P0040003": lambda p: (p["VOTING_AGE"] == 2) & (p["CENHISP"] == 1),
    "P0050001": lambda p: p["GQTYPE_PL"] > 0,
    "P0050008": lambda p: p["GQTYPE_PL"] == 5,
}


def people(seed: int, number: int = 740) -> pd.DataFrame:
    """Persons in some of 60 blocks of two states, as many in each whatever the seed; many blocks
    have nobody.
    """
    r = random.Random(seed)
    rows, there = [], [[b for b in range(state, 60, 2) if r.random() < 0.7] for state in (0, 1)]
    for i in range(number):
        block = r.choice(there[i % 2])
        group, dwelling = 1 + block % 3, r.choice([0] * 9 + [1, 5])
        rows.append(
            (
                4 if block % 2 else 44,
                1 + block % 4,
                100 * (1 + block % 5),
                group,
                1000 * group + block,
                5 if dwelling else 3,
                dwelling,
                r.choice((1, 2, 2)),
                r.choice((1, 1, 2)),
                min(63, int(r.expovariate(0.3)) + 1),
            )
        )
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture(scope="module")
def frames() -> list[pd.DataFrame]:
    return [people(seed) for seed in range(5)]


@pytest.fixture(scope="module")
def folder(frames: list[pd.DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names as the Bureau's; the files of units are in the same folder."""
    folder = tmp_path_factory.mktemp("published")
    for i, frame in enumerate(frames):
        frame.to_csv(folder / f"PPMF20_{i}_PER.csv.gz", index=False)
        (folder / f"PPMF20_{i}_UNIT.csv").write_text("RTYPE,TEN,VACS,TABBLKST\n2,1,0,44\n")
    (folder / "README.md").write_text("26 files")
    return folder


def made(
    folder: Path,
    out: Path,
    workers: int = 1,
    resume: bool = False,
    rule: str = PLAIN,
    tables: tuple[str, ...] = (),
) -> Path:
    found = ppmf_persons.replicate_files(folder)
    asked = IntervalOptions(len(found) - 1, 0, 0.9, rule, tables=tables)
    published_replicates.make(found, out, asked, workers=workers, resume=resume, progress=Silent())
    return out


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(folder, tmp_path_factory.mktemp("whole") / "intervals")


# --- intervals
# -------------------------------------------------------------------------------------------------


def geoid(frame: pd.DataFrame, level: str) -> pd.Series:
    if level == "US":
        return pd.Series("US", index=frame.index)
    widths = {"TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLK": 4}
    digits = [frame[name].astype(str).str.zfill(width) for name, width in widths.items()]
    return (digits[0] + digits[1] + digits[2] + digits[3]).str[: DIGITS[level]]


def rule(value: float, others: Sequence[float]) -> tuple[int, int]:
    """Ashmead and others (2024), section 3, one count at a time; of fewer replicates than five, as
    many degrees of freedom.
    """
    x = np.asarray(others, dtype=float)
    bias, sd, rmse = x.mean() - value, x.std(ddof=1), np.sqrt(((x - value) ** 2).mean())
    leans = value > 5 and abs(bias) >= 0.5 * sd and bias != 0 and (bias < 0 or value >= 25)
    middle, margin = value - (bias if leans else 0), student.ppf(0.95, min(5, len(x))) * rmse
    return max(int(np.floor(middle - margin)), 0), int(np.ceil(middle + margin))


@pytest.mark.parametrize("level", ["US", *DIGITS])
def test_intervals_are_those_of_sums_over_the_lines(
    whole: Path, frames: list[pd.DataFrame], level: str
) -> None:
    places = sorted(set().union(*(geoid(f, level) for f in frames)))
    checked = 0
    for field, counted in COUNTED.items():
        sums = [
            geoid(f[counted(f)], level).value_counts().reindex(places, fill_value=0) for f in frames
        ]
        rows = (
            pd.read_parquet(whole / f"P{int(field[1:4])}_{level}.parquet")
            .query("variable == @field")
            .set_index("GEOID")
        )
        every = pd.DataFrame(dict(enumerate(sums)))
        assert sorted(rows.index) == every.index[every.any(axis=1)].tolist()
        for place, row in rows.iterrows():
            value, *others = every.loc[place]
            assert (row["value"], row["replicates"]) == (value, 4)
            assert (row["lower"], row["upper"]) == rule(value, others), (
                field,
                place,
                value,
                others,
            )
            assert row["bias"] == pytest.approx(np.mean(others) - value)
            checked += 1
    assert checked >= len(COUNTED)


def test_a_block_is_there_if_any_file_has_somebody_in_it(
    whole: Path, frames: list[pd.DataFrame]
) -> None:
    blocks = [set(geoid(f, "Block")) for f in frames]
    alone = [set.union(*blocks) - b for b in blocks]
    assert all(alone), "no block is missing in any: the test says nothing"
    frame = das.read_intervals(whole, "P1", "Block", method="replicates")
    assert len(frame) == 71 * len(set.union(*blocks))
    rows = frame[frame["field"] == "P0010001"]
    nobody = rows[rows["value"] == 0]
    assert len(nobody) == len(alone[0])
    assert (nobody["lower"] == 0).all()
    assert (nobody["upper"] > 0).all()


@pytest.mark.parametrize("part", [1, 20, 100, 5 * 24, 1000])
def test_a_tree_in_parts_gives_the_same(
    folder: Path, whole: Path, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at blocks, where a part is one of them; at tracts, at counties, at states; and not at
    all: two tables, each at every level. Files are read by row groups.
    """
    monkeypatch.setattr(interval_writing, "PART", part)
    monkeypatch.setattr(files, "GROUP", 50)
    spine = open_spine(whole)
    depth, slices = parts_of(spine, max(1, part // 5))
    assert (depth == 0) == (part == 1000)
    assert depth == 0 or len(slices) > 1
    out = made(folder, tmp_path / "out", tables=FEW)
    assert pq.ParquetFile(files.path_of(out, "persons", 1)).num_row_groups > 5
    assert len(list(out.glob("*.parquet"))) == 12
    for path in out.glob("*.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(path), pd.read_parquet(whole / path.name))


def test_by_true_value_each_part_is_by_itself(
    folder: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other rows than without a cut; the same ones again; and no published count outside."""
    without = made(folder, tmp_path / "without", rule=BY_TRUTH, tables=FEW)
    monkeypatch.setattr(interval_writing, "PART", 100)
    cut, again = (
        made(folder, tmp_path / name, rule=BY_TRUTH, tables=FEW) for name in ("cut", "again")
    )
    assert tree_digests(cut) == tree_digests(again)
    differ = 0
    for path in cut.glob("P*.parquet"):
        one, other = pd.read_parquet(path), pd.read_parquet(without / path.name)
        assert (one["lower"] <= one["value"]).all()
        assert (one["upper"] >= one["value"]).all()
        differ += int(not one.equals(other))
    assert differ


def open_spine(out: Path) -> Spine:
    of = PublishedReplicates.read(out)
    assert of is not None
    return of.spine


@given(tree=spines(), most=st.integers(1, 30))
def test_parts_are_all_of_a_level_and_no_larger_than_asked(tree: Spine, most: int) -> None:
    depth, slices = parts_of(tree, most)
    level, lowest = tree.levels[depth], tree.levels[-1]
    assert [start for start, _ in slices] == [0, *(stop for _, stop in slices[:-1])]
    assert slices[-1][1] == tree.units(level)
    home = tree.up(lowest, level)
    sizes = [int(((home >= start) & (home < stop)).sum()) for start, stop in slices]
    assert max(sizes) <= most or level == lowest
    assert all(a + b > most for a, b in pairwise(sizes))
    if depth:
        assert np.bincount(tree.up(lowest, tree.levels[depth - 1])).max() > most


def test_a_file_of_other_units_is_found_in_parts(
    folder: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval_writing, "PART", 100)
    spine = open_spine(whole)
    fewer = spine.restricted("Block", np.arange(1, spine.units("Block")))
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    of = PublishedReplicates(fewer, published_replicates._TABLES, True, out)
    with pytest.raises(ReleaseError, match="does not have"):
        interval_writing.write_intervals(of, out, {}, IntervalOptions(4, 0, 0.9), Silent())


def exported(release: Path, intervals: Path, to: Path, number: int, mark: str = "") -> None:
    """The replicates of a run as files of lines."""
    opened = open_release(release)
    codes = files.codes_of(opened.spine, "Block")
    for n in range(number + 1):
        h = files.read(files.path_of(intervals, "persons", n), codes, PL94)
        lines = [
            ",".join(
                [
                    "TABBLKST",
                    "TABBLKCOU",
                    "TABTRACT",
                    "TABBLKGRP",
                    "TABBLK",
                    *COLUMNS[6:],
                    *([mark] if mark else []),
                ]
            )
        ]
        for unit, cell, count in zip(h.unit, h.cell, h.count, strict=True):
            g = codes[unit].decode()
            hhgq, age, hispanic, race = np.unravel_index(cell, PL94.shape)
            line = f"{g[:2]},{g[2:5]},{g[5:11]},{g[11]},{g[11:]},{hhgq},{age + 1},{hispanic + 1},{race + 1}"
            lines += [line + (",seeded" if mark else "")] * count
        to.mkdir(exist_ok=True)
        with zipfile.ZipFile(to / f"rep-{n:02d}.csv.zip", "w") as archive:
            archive.writestr("persons.csv", "\n".join(lines))


def test_replicates_of_a_run_as_files_give_its_intervals_where_nothing_else_is_public(
    worlds: Worlds, tmp_path: Path
) -> None:
    run = worlds.run("run.seed=1", data="one thousand")
    of_run = tmp_path / "of run"
    replicates.make(
        run / "release",
        of_run,
        IntervalOptions(3, 5, 0.9, PLAIN),
        workers=1,
        resume=False,
        progress=Silent(),
    )
    exported(run / "release", of_run, tmp_path / "files", 3)
    out = made(tmp_path / "files", tmp_path / "out")
    names = sorted(p.name for p in out.glob("*.parquet"))
    assert len(names) == 30
    assert names == sorted(p.name for p in of_run.glob("P*.parquet"))
    same, every = 0, 0
    for name in names:
        mine, theirs = (pd.read_parquet(folder / name) for folder in (out, of_run))
        made_up = {COLUMN, NOT_COUNTED} & set(
            theirs.columns
        )  # the marks of a seeded run, and of its reader
        theirs = theirs.drop(columns=list(made_up))
        ends = ["lower", "upper", "basis"]  # a release knows facilities and totals
        pd.testing.assert_frame_equal(mine.drop(columns=ends), theirs.drop(columns=ends))
        assert (mine["lower"] <= theirs["lower"]).all()
        assert (mine["upper"] >= theirs["upper"]).all()
        same += int(((mine["lower"] == theirs["lower"]) & (mine["upper"] == theirs["upper"])).sum())
        every += len(mine)
    assert 0.8 * every < same < every


def test_lines_that_say_they_are_seeded_are_not_forgotten(
    worlds: Worlds, commands: Commands, tmp_path: Path
) -> None:
    run = worlds.run("run.seed=1", data="one thousand")
    of_run = tmp_path / "of run"
    asked = IntervalOptions(2, 5, 0.9, tables=("P1",), levels=("State",))
    replicates.make(run / "release", of_run, asked, workers=1, resume=False, progress=Silent())
    exported(run / "release", of_run, tmp_path / "files", 2, COLUMN)
    code, text, err = commands.named("intervals")(
        *("--replicates-from", tmp_path / "files", "--out", tmp_path / "out"),
        *("--table", "P1", "--quiet"),
    )
    assert code == 0, err
    assert COLUMN in text
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["private"] is False
    assert set(pd.read_parquet(tmp_path / "out" / "P1_Block.parquet")[COLUMN]) == {"seeded"}
    assert set(
        das.read_intervals(tmp_path / "out", "P1", "State", method="replicates")[COLUMN]
    ) == {"seeded"}


def test_real_rows_with_replicates_drawn_from_them(tmp_path: Path) -> None:
    """Perry County, Alabama: as many lines drawn with replacement, so that a count is binomial,
    nearly.
    """
    path = SHARED / "ppmf" / "ppmf_20210428_eps12-2_P_01105_perry_al.csv.gz"
    if not path.exists():
        pytest.skip("the rows are not there: set DAS_SHARED_DATA to the folder of public test data")
    head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    for n in range(26):
        drawn = random.Random(n).choices(lines, k=len(lines)) if n else lines
        (tmp_path / f"ppmf{n}.csv").write_text("\n".join([head, *drawn]) + "\n")
    das.intervals(
        replicates_from=tmp_path, out=tmp_path / "out", tables=["P1"], levels=["County", "Tract"]
    )
    county = pd.read_parquet(tmp_path / "out" / "P1_County.parquet").set_index("variable")
    total, white = county.loc["P0010001"], county.loc["P0010003"]
    assert (total["GEOID"], total["value"], total["lower"], total["upper"]) == (
        "01105",
        10588,
        10588,
        10588,
    )
    share = white["value"] / 10588
    assert white["rmse"] == pytest.approx(np.sqrt(10588 * share * (1 - share)), rel=0.5)
    tracts = pd.read_parquet(tmp_path / "out" / "P1_Tract.parquet")
    assert tracts.query("variable == 'P0010001'")["value"].sum() == 10588


# --- files
# -----------------------------------------------------------------------------------------------------


def test_neither_the_form_of_the_files_nor_workers_matter(
    frames: list[pd.DataFrame], whole: Path, folder: Path, tmp_path: Path
) -> None:
    """A folder of a file a state; an archive; a text with bars."""
    for i, frame in enumerate(frames):
        below = tmp_path / "files" / f"2020 run {i:02d}" / "parts"
        below.mkdir(parents=True)
        for state, rows in frame.groupby("TABBLKST"):
            rows.to_csv(below / f"st{state}.txt", sep="|", index=False)
        (below / "units_of_7.csv").write_text("TABBLKST,HH_STATUS\n44,1\n")
    as_parts = tree_digests(made(tmp_path / "files", tmp_path / "parts"))
    assert as_parts == tree_digests(whole)
    assert tree_digests(made(folder, tmp_path / "two", workers=2)) == as_parts


def test_what_is_written_says_what_it_is_of(whole: Path, folder: Path) -> None:
    said = json.loads((whole / "manifest.json").read_text())
    assert (said["private"], said["replicates"], said["rule"], said["records"]) == (
        "unknown",
        4,
        "ct",
        "persons",
    )
    assert [files[0]["name"] for files in said["sources"].values()] == [
        f"PPMF20_{i}_PER.csv.gz" for i in range(5)
    ]
    assert said["sources"]["3"][0]["size"] == (folder / "PPMF20_3_PER.csv.gz").stat().st_size
    assert any("housing" in text for text in said["says"])
    assert said["digests"] == tree_digests(whole)


def test_what_was_interrupted_goes_on(
    folder: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, counted = tmp_path / "out", PublishedFiles.counts

    def third_fails(of: PublishedFiles, number: int) -> object:
        if number == 2:
            raise KeyboardInterrupt
        return counted(of, number)

    monkeypatch.setattr(PublishedFiles, "counts", third_fails)
    with pytest.raises(KeyboardInterrupt):
        made(folder, out)
    monkeypatch.undo()
    assert not list(out.glob("*.parquet"))
    with pytest.raises(ReleaseError, match="not finished"):
        das.read_intervals(out, method="replicates")
    with pytest.raises(UserError, match="not finished"):
        made(folder, out)
    shutil.copytree(folder, tmp_path / "other")
    people(77).to_csv(tmp_path / "other" / "PPMF20_1_PER.csv.gz", index=False)
    with pytest.raises(UserError, match="of other files: PPMF20_1_PER"):
        made(tmp_path / "other", out, resume=True)
    made(folder, out, resume=True)
    assert tree_digests(out) == tree_digests(whole)


def test_intervals_that_were_altered_are_found(whole: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    frame = das.read_intervals(out, "p2", "county", method="replicates")
    assert set(frame["table"]) == {"P2"}
    assert (frame["lower"] <= frame["upper"]).all()
    with pytest.raises(InputError, match="P9"):
        das.read_intervals(out, "P9", method="replicates")
    shutil.copy(out / "P1_County.parquet", out / "P2_County.parquet")
    with pytest.raises(ReleaseError, match=r"manifest\.json"):
        das.read_intervals(out, "P2", "County", method="replicates")


def test_a_damaged_file_is_told(folder: Path, commands: Commands, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "files")
    bad = tmp_path / "files" / "PPMF20_3_PER.csv.gz"
    bad.write_bytes(bad.read_bytes()[:-200])
    code, _, err = commands.named("intervals")(
        "--replicates-from", tmp_path / "files", "--out", tmp_path / "out", "--quiet"
    )
    assert code == 2
    assert bad.name in err
    assert not list((tmp_path / "out").glob("*.parquet"))
    shutil.copy(folder / bad.name, bad)
    code, _, err = commands.named("intervals")(
        "--replicates-from", tmp_path / "files", "--out", tmp_path / "out", "--quiet"
    )
    assert (code, "not finished" in err or "of other files" in err) == (2, True)


# --- numbers
# ---------------------------------------------------------------------------------------------------


def named(folder: Path, names: Sequence[str]) -> Path:
    folder.mkdir()
    for i, name in enumerate(names):
        (folder / name).write_text(people(i, 3).to_csv(index=False))
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("p0.csv", "p1.csv", "p2.csv"),
        ("PPMF20_0_PER.csv", "ppmf20_01_per.txt", "PPMF20_2_PER.psv"),
        ("2010-v0-00.csv", "2010-v1-01.csv", "2010-v1-02.csv"),
        ("7_of_0.csv", "9_of_1.csv", "8_of_2.csv"),
        tuple(f"r{n}.csv" for n in range(12)),  # 10 comes after 9, not after 1
    ],
)
def test_the_number_is_the_last_that_differs(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = ppmf_persons.replicate_files(named(tmp_path / "d", names))
    assert [files[0].name for files in found] == list(names)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "no persons' file"),
        (("p0.csv",), "nothing that differs"),
        (("p0.csv", "p1.csv"), "one replicate alone"),
        (("p1.csv", "p2.csv", "p3.csv"), "numbers 1 to 3 (p1.csv, ...), but no number 0"),
        (
            ("p0.csv", "p1.csv", "p2.csv", "p4.csv"),
            "numbers 0 to 2, 4 (p0.csv, ...), but no number 3",
        ),
        (("p0.csv", "p1.csv", "p01.txt", "p2.csv"), "p01.txt and p1.csv are both number 1"),
        (("official.csv", "r1.csv", "r2.csv"), "names that are not alike: official.csv, r1.csv"),
        (("ppmf_20230403.csv", "ppmf_1.csv", "ppmf_2.csv"), "but no number 0"),
    ],
)
def test_what_is_no_release_with_replicates(
    commands: Commands, tmp_path: Path, names: tuple[str, ...], said: str
) -> None:
    folder = named(tmp_path / "d", names)
    code, _, err = commands.named("intervals")(
        "--replicates-from", folder, "--out", tmp_path / "out", "--quiet"
    )
    assert code == 2
    assert said in err
    assert "ppmf0.csv" in err
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_neither_is_refused(commands: Commands, tmp_path: Path) -> None:
    folder = named(tmp_path / "d", ["p0.csv", "p1.csv", "p2.csv"])
    (folder / "p3.csv").write_text("a,b\n1,2\n")
    code, _, err = commands.named("intervals")(
        "--replicates-from", folder, "--out", tmp_path / "out", "--quiet"
    )
    assert code == 2
    assert "p3.csv" in err
    assert not (tmp_path / "out").exists()


# --- the command
# -------------------------------------------------------------------------------------------------


def test_some_of_them(commands: Commands, folder: Path, tmp_path: Path) -> None:
    args = [
        "--replicates-from",
        folder,
        "--table",
        "P3",
        "--level",
        "County",
        "--replicates",
        2,
        "--quiet",
    ]
    code, text, err = commands.named("intervals")(*args, "--out", tmp_path / "out", "--json")
    assert (code, err) == (0, "")
    said = json.loads(text)
    assert (said["private"], said["replicates"], list(said["rows"])) == (
        "unknown",
        2,
        ["P3_County.parquet"],
    )
    assert "seed" not in said
    assert set(pd.read_parquet(tmp_path / "out" / "P3_County.parquet")["replicates"]) == {2}
    code, _, err = commands.named("intervals")(
        "--replicates-from", folder, "--replicates", 5, "--out", tmp_path / "5"
    )
    assert code == 2
    assert "has 4 replicates, not 5" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "no release"),
        (("RUN", "--replicates-from", "DIR", "--out", "OUT"), "both given"),
        (("--replicates-from", "DIR"), "--out"),
        (("--replicates-from", "DIR", "--out", "OUT", "--seed", 3), "seed"),
        (("--replicates-from", "DIR", "--out", "OUT", "--table", "H1"), "no 'H1'"),
        (("--replicates-from", "DIR", "--out", "OUT", "--level", "Ward"), "no 'Ward'"),
        (("--replicates-from", "DIR", "--out", "DIR"), "not empty"),
        (("--replicates-from", "DIR/none", "--out", "OUT"), "no such folder"),
    ],
)
def test_what_cannot_be_asked(
    commands: Commands, folder: Path, tmp_path: Path, args: tuple[object, ...], said: str
) -> None:
    before = sorted(folder.rglob("*"))
    put = [str(a).replace("DIR", str(folder)).replace("OUT", str(tmp_path / "out")) for a in args]
    code, _, err = commands.named("intervals")(*put, "--quiet")
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()
    assert sorted(folder.rglob("*")) == before


def test_the_same_file_twice_and_another_state_total_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    for name, change, said in (
        ("twice", None, "are the same files"),
        ("more", people(3, 800), "persons in State"),
        ("elsewhere", people(3).replace({"TABBLKST": {44: 45}}), "persons in State 44"),
    ):
        shutil.copytree(folder, tmp_path / name)
        there = tmp_path / name / "PPMF20_3_PER.csv.gz"
        if change is None:
            shutil.copy(folder / "PPMF20_2_PER.csv.gz", there)
        else:
            change.to_csv(there, index=False)
        with pytest.raises(InputError, match=said):
            made(tmp_path / name, tmp_path / f"out {name}")
