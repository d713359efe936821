"""The other publications in the awkward world, each from one run. Each feature is looked at from its
files alone, with sums made here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import das
from das.publications.published.public import estimate_from
from tests import awkward
from tests.awkward import LEVELS, small_batches
from tests.commands import Commands
from tests.marks import unmarked
from tests.worlds import Worlds

#: How many characters of the code of a block are those of its unit of each level.
WIDTH = dict(zip(LEVELS, (0, 2, 5, 11, 12, 16), strict=True))
PARTS = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"]


@pytest.fixture(scope="module", autouse=True)
def _small_batches() -> Iterator[None]:
    with small_batches():
        yield


@pytest.fixture(scope="module")
def dhc(worlds: Worlds) -> Path:
    return awkward.dhc(worlds)


@pytest.fixture(scope="module")
def ranged(worlds: Worlds) -> Path:
    """The same, with intervals."""
    return awkward.intervals(worlds)


@pytest.fixture(scope="module", params=["sdhc", "persons", "households"])
def other(request: pytest.FixtureRequest, worlds: Worlds) -> Path:
    """The S-DHC, and both products of the Detailed DHC."""
    name = request.param
    return awkward.sdhc(worlds) if name == "sdhc" else worlds.groups(name)


def microdata(run: Path, kind: str) -> pd.DataFrame:
    """Its records, with the code of their block."""
    files = sorted((run / "release" / "microdata" / kind).glob("*.parquet"))
    found = pd.concat([pd.read_parquet(f) for f in files], ignore_index=True)
    return found.assign(block=found[PARTS].astype(str).agg("".join, axis=1))


def by_block(run: Path) -> dict[str, pd.Series]:
    """Some columns of its tables, from its microdata."""
    persons, units = microdata(run, "persons"), microdata(run, "units")
    male, age = persons["QSEX"] == "1", persons["QAGE"].astype(int)
    columns = {
        "P0120001": persons,
        "P0120002": persons[male],
        "P0120003": persons[male & (age < 5)],
        "H0010001": units[units["RTYPE"] == "2"],
        "P0160001": units[units["TEN"] != "0"],
    }
    return {name: rows["block"].value_counts() for name, rows in columns.items()}


def upward(found: pd.Series, level: str) -> pd.Series:
    found = found[found > 0]
    return found.groupby([b[: WIDTH[level]] or "US" for b in found.index]).sum()


def test_it_is_verified_with_everything_made_again(dhc: Path, commands: Commands) -> None:
    code, _, said = commands.named("account")("verify", dhc, "--recompute", "--quiet")
    assert code == 0, said
    assert unmarked(dhc) == []


def test_tables_of_every_level_and_area_are_sums_of_its_records(
    dhc: Path, commands: Commands, tmp_path: Path
) -> None:
    found = by_block(dhc)
    codes = das.read_tables(dhc, "P12", "Block")["geocode"].unique()
    assert len(codes) > len(found["P0120001"])  # empty ones, too
    for table in ("P12", "P16", "H1"):
        prefix = f"{table[0]}{int(table[1:]):03d}"
        for level in LEVELS:
            rows = das.read_tables(dhc, table, level)
            assert set(rows["geocode"]) == {code[: WIDTH[level]] or "US" for code in codes}
            for field in (f for f in found if f.startswith(prefix)):
                value = rows[rows["field"] == field].set_index("geocode")["value"]
                assert value[value > 0].to_dict() == upward(found[field], level).to_dict(), level
    for kind, blocks in pd.read_parquet(dhc / "release" / "areas.parquet").groupby("kind"):
        out = tmp_path / f"{kind}.csv"
        code, _, said = commands.named("tables")(
            dhc, "--level", kind, "--table", "P12", "--names", "field", "--out", out, "--quiet"
        )
        assert code == 0, said
        value = pd.read_csv(out, dtype={"GEOCODE": str}).set_index("GEOCODE")["P0120002"]
        there = blocks["geocode"].map(found["P0120002"]).fillna(0).groupby(blocks["area"]).sum()
        assert value.to_dict() == there.to_dict(), kind


def test_it_keeps_what_was_published_before(dhc: Path, worlds: Worlds) -> None:
    """Persons, units and facilities of every block."""
    earlier = awkward.counts(worlds)
    (people, before), (units, known) = (
        [microdata(run, kind) for run in (dhc, earlier)] for kind in ("persons", "units")
    )
    assert people["block"].value_counts().to_dict() == before["block"].value_counts().to_dict()
    for kind in ("2", "4"):
        one, another = (u[u["RTYPE"] == kind]["block"].value_counts() for u in (units, known))
        assert one.to_dict() == another.to_dict(), kind
    inside, facilities = people[people["RTYPE"] == "5"], units[units["RTYPE"] == "4"]
    assert len(inside) > 0
    assert set(inside["block"] + inside["GQTYPE"].astype(str)) == set(
        facilities["block"] + facilities["GQTYPE"].astype(str)
    )


def test_its_link_has_everybody_once_and_adds_up(dhc: Path, worlds: Worlds) -> None:
    out = awkward.link(worlds)
    people, homes = (pd.read_parquet(out / f"{n}.parquet") for n in ("persons", "households"))
    assert people["person_id"].is_unique
    housed = people[people["household"].notna()]
    size, at = housed["household"].value_counts(), homes.set_index("household")["block"]
    assert homes.set_index("household")["size"].to_dict() == size.to_dict()
    heads = housed[housed["relgq"].astype(str).str.startswith("householder")]
    assert heads["household"].value_counts().to_dict() == dict.fromkeys(at.index, 1)
    assert (housed["household"].map(at) == housed["block"]).all()
    tracts = people["block"].astype(str).str[: WIDTH["Tract"]].value_counts()
    assert tracts.to_dict() == upward(by_block(dhc)["P0120001"], "Tract").to_dict()
    for level in LEVELS:
        table = pd.read_csv(out / "tables" / f"P16_{level}.csv", dtype={"GEOCODE": str})
        value = table.set_index("GEOCODE")["P0160001"]
        assert value[value > 0].to_dict() == upward(at.value_counts(), level).to_dict(), level


@pytest.mark.parametrize("level", ["County", "Tract"])
def test_intervals_hold_the_published_and_mostly_the_true_count(
    ranged: Path, worlds: Worlds, commands: Commands, tmp_path: Path, level: str
) -> None:
    code, _, said = commands.named("tables")(
        *(ranged, "--level", level, "--table", "P12", "--margins", "--names", "field"),
        *("--out", tmp_path / "t.csv", "--quiet"),
    )
    assert code == 0, said
    rows = pd.read_csv(tmp_path / "t.csv", dtype={"GEOCODE": str}).set_index("GEOCODE")
    value, low, high = (rows[f"P0120002{end}"] for end in ("", " low", " high"))
    known = low.notna() & high.notna()
    assert known.mean() > 0.8
    assert ((low <= value) & (value <= high))[known].all()
    persons = pd.read_parquet(awkward.linked(worlds) / "persons.parquet")
    males = persons[persons["sex"] == "male"]["block"].astype(str).value_counts()
    true = upward(males, level).reindex(rows.index).fillna(0)
    assert ((low <= true) & (true <= high))[known].mean() > 0.8


def test_areas_are_sums_of_blocks_with_intervals(
    ranged: Path, commands: Commands, tmp_path: Path
) -> None:
    found, mine = by_block(ranged), tmp_path / "mine.csv"
    codes = das.read_tables(ranged, "P12", "Block")["geocode"].unique()
    mine.write_text("area,block\n" + "".join(f"0{i % 3},{c}\n" for i, c in enumerate(codes)))
    lists = pd.read_parquet(ranged / "release" / "areas.parquet")
    lists = {k: dict(tuple(b.groupby("area")["geocode"])) for k, b in lists.groupby("kind")}
    asked = {("--blocks", str(mine)): {f"0{i}": codes[i::3] for i in range(3)}}
    asked |= {("--kind", kind): lists[kind] for kind in ("Place", "AIAN")}
    for which, blocks in asked.items():
        code, out, said = commands.named("area")(
            ranged, *which, "--statistics", "P0120001", "--statistics", "units:H0010001", "--json"
        )
        assert code == 0, said
        rows = json.loads(out)["rows"]
        assert {(r["area"], r["field"]) for r in rows} == {
            (area, field) for area in blocks for field in ("P0120001", "H0010001")
        }
        for row in rows:
            there = found[row["field"]].reindex(blocks[row["area"]]).fillna(0)
            assert row["value"] == there.sum(), row
            if row["field"] == "P0120001":
                assert row["lower"] <= row["value"] <= row["upper"], row


def test_places_of_one_name_are_told_apart(
    ranged: Path, commands: Commands, tmp_path: Path
) -> None:
    """In tables and areas, on maps, and in pictures of ages."""
    area = commands.named("area")
    for name, kind in (("Simulated County 1", "County"), ("Simulated city 1", "")):
        code, _, said = area(ranged, "--name", name)
        assert code == 2
        advice = said.splitlines()[-1]
        geoid = re.search(r"\d{5,}", advice)
        assert geoid
        assert (f"such as {kind} and its GEOID" in advice) == bool(kind)
        assert area(ranged, "--name", geoid[0], *(["--kind", kind] if kind else []))[0] == 0, said
    persons = upward(by_block(ranged)["P0120001"], "County")
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    places = [
        {
            "type": "Feature",
            "properties": {"GEOID": code},
            "geometry": {
                "type": "Polygon",
                "coordinates": [(square + np.array([2 * i, 0])).tolist()],
            },
        }
        for i, code in enumerate(persons.index)
    ]
    boundaries, drawn = tmp_path / "counties.geojson", tmp_path / "map.html"
    boundaries.write_text(json.dumps({"type": "FeatureCollection", "features": places}))
    code, _, said = commands.named("map")(
        ranged, "--boundaries", boundaries, "--level", "County", "--out", drawn
    )
    assert code == 0, said
    titles = re.findall(r"<title>[^<]*\((\d{5})\): ([\d,]+)</title>", drawn.read_text())
    assert {c: int(n.replace(",", "")) for c, n in titles} == persons.to_dict()
    ages = tmp_path / "ages.html"
    code, _, said = commands.named("ages")(ranged, "--name", "Simulated County 1", "--out", ages)
    assert code == 0, said
    assert {"(05001)", "(27001)"} <= set(re.findall(r">([^<>]*)</text>", ages.read_text()))
    assert unmarked(tmp_path) == [boundaries.name]


#: Besides: each ends well, and says that the run was seeded.
COMMANDS = {
    "evaluate": [],
    "evaluate --agreement": [],
    "compare": [],
    "nmf summary": [],
    "nmf verify": [],
    "nmf show": ["--level", "Block_Group", "--query", "age_38_groups * sex"],
}


def test_every_command_works(
    ranged: Path, worlds: Worlds, commands: Commands, tmp_path: Path
) -> None:
    copy = worlds.copy(ranged, tmp_path / "run")
    for command, args in COMMANDS.items():
        name, *more = command.split()
        code, out, said = commands.named(name)(*more, copy, *args)
        assert code == 0, said
        assert "NOT PRIVATE" in out + said, command
    assert unmarked(copy) == []
    carried(copy, commands, tmp_path)


def carried(run: Path, commands: Commands, to: Path) -> None:
    """Its release comes back from a store as it is."""
    code, _, said = commands.named("store")("push", run, f"file://{to}/store", "--quiet")
    assert code == 0, said
    code, _, said = commands.named("store")("pull", f"file://{to}/store", to / "back", "--quiet")
    assert code == 0, said
    assert contents(to / "back") == contents(run / "release")


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def test_every_other_publication_is_verified_estimated_and_carried(
    other: Path, worlds: Worlds, commands: Commands, tmp_path: Path
) -> None:
    code, _, said = commands.named("account")("verify", other, "--recompute", "--quiet")
    assert code == 0, said
    assert unmarked(other) == []
    code, out, said = commands.named("nmf")("summary", other)
    assert code == 0, said
    assert "NOT PRIVATE" in out + said
    again = estimate_from(other / "release", tmp_path / "again").directory.release
    ours, theirs = contents(other / "release"), contents(again)
    assert {n for n in ours if ours[n] != theirs.get(n)} <= {"report.html", "privacy.json"}
    carried(worlds.copy(other, tmp_path / "run"), commands, tmp_path)


def test_a_run_of_the_detailed_dhc_says_whose_records_it_counts(
    worlds: Worlds, commands: Commands
) -> None:
    code, out, said = commands.named("detailed")("plan", worlds.groups("households"), "--json")
    assert code == 0, said
    assert json.loads(out)["product"] == "households"


@pytest.mark.parametrize("command", ["tables", "intervals", "ages", "map", "area", "link"])
def test_what_a_publication_lacks_is_refused_by_its_name(
    other: Path, commands: Commands, tmp_path: Path, command: str
) -> None:
    """And not by that of another command."""
    more = {
        "map": ["--level", "State", "--boundaries", tmp_path],
        "area": ["--kind", "Place"],
        "link": ["--out", tmp_path / "link"],
    }
    code, _, said = commands.named(command)(other, *more.get(command, []))
    assert code == 2
    assert "Traceback" not in said
    assert not [c for c in re.findall(r"das: .*`das (\w+)`", said) if c != command], said
