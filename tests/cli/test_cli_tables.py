"""`das tables`: the published numbers with labels, in every format; mistakes list what there is."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from das.cli.kit.console import records_table
from das.errors import UserError
from das.files.release import areas, place_search, statement
from das.files.release import spine as spine_file
from das.files.release import tables as published_tables
from das.files.release.place_search import PlaceColumns
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.names import encoded, text
from das.model.redistricting import H1, PL94
from das.model.spine import Spine
from das.model.universe import HOUSING, PERSONS
from das.tables import published
from das.tools.areas.command import _plan_shown
from docs import pages
from tests.commands import Commands, Das
from tests.statements import one_draw

CODES = encoded(["001A", "001B", "002A"])
SPEC = """
run.name = "made by hand"
data.reader = "pl94-2010"
schema.name = "pl94"
geography.levels = ["State", "County"]
budget.rho = "1"
budget.neighbors = "bounded"
budget.levels = { State = "1/2", County = "1/2" }
budget.queries = { State = { total = "1" }, County = { total = "1" } }
housing.budget.relative = "1"
housing.budget.levels = { State = "1/2", County = "1/2" }
housing.budget.queries = { State = { detailed = "1" }, County = { detailed = "1" } }
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Specification, spine and tables: all that the command reads."""
    folder = tmp_path_factory.mktemp("made") / "release"
    folder.mkdir()
    (folder / "spec.toml").write_text(SPEC)
    up = np.zeros(3, dtype=np.int64)
    spine_file.write(
        folder / "spine.parquet", Spine(("State", "County"), (np.array(["0"]), CODES), (up[:1], up))
    )
    rng = np.random.default_rng(0)
    for schema, kind in ((PL94, PERSONS), (H1, HOUSING)):
        dense = rng.poisson(0.3, (3, schema.cells))
        h = Histogram.from_triplets(
            3, schema.cells, *(i.ravel() for i in np.indices(dense.shape)), dense.ravel()
        )
        for level, codes, counts in (("State", encoded(["0"]), h.up(up, 1)), ("County", CODES, h)):
            published_tables.write(folder / "tables", level, codes, published(schema, kind), counts)
    return folder


@pytest.fixture
def das(commands: Commands) -> Das:
    return commands.named("tables")


def p2(release: Path) -> pd.DataFrame:
    return pd.read_csv(release / "tables" / "P2_County.csv", dtype={"GEOCODE": str})


TABLE = {t.name: t for t in (*published(PL94), *published(H1, HOUSING))}


def test_without_a_name_it_lists_what_there_is(das: Das, release: Path) -> None:
    code, out, _ = das(release)
    assert code == 0
    assert all(name in out for name in (*TABLE, "Occupancy status", "State, County"))
    rows = json.loads(das(release, "--json")[1])
    assert [(r["table"], r["columns"], r["levels"]) for r in rows] == [
        (t.name, len(t.columns), ["State", "County"]) for t in TABLE.values()
    ]


@pytest.mark.parametrize("names", ["both", "field", "label"])
def test_csv_has_every_number_under_its_label(das: Das, release: Path, names: str) -> None:
    code, out, err = das(release, "--level", "County", "--table", "p2", "--names", names)
    assert (code, err) == (0, "")
    head, *rows = csv.reader(io.StringIO(out))
    t = TABLE["P2"]
    expected = {
        "both": [f"{f} {x}" for f, x in zip(t.columns, t.labels, strict=True)],
        "field": list(t.columns),
        "label": list(t.labels),
    }
    assert head == ["GEOCODE", *expected[names]]
    assert rows == p2(release).astype(str).to_numpy().tolist()


def test_labels_alone_tell_the_columns_apart() -> None:
    """Else JSON by label would lose some."""
    for t in TABLE.values():
        assert len(set(t.labels)) == len(t.labels)


def test_a_table_that_was_assigned_says_so_in_every_format(
    das: Das, release: Path, tmp_path: Path
) -> None:
    marked = Path(shutil.copytree(release, tmp_path / "release"))
    statement.write(marked, one_draw({"persons": {"hhgq": "It was assigned."}}))
    args = (marked, "--level", "State", "--table", "P5")
    assert "NOT COUNTED: hhgq assigned" in das(marked)[1]
    head, row = csv.reader(io.StringIO(das(*args)[1]))
    assert (head[-1], row[-1]) == ("NOT COUNTED", "hhgq assigned")
    assert "NOT COUNTED: hhgq assigned" in das(*args, "--format", "md")[1]
    said = json.loads(das(*args, "--json")[1])
    assert "NOT COUNTED" in said["title"]
    assert said["rows"][0]["NOT COUNTED"] == "hhgq assigned"
    assert das(*args, "--out", tmp_path / "p5.parquet")[0] == 0
    assert pq.read_table(tmp_path / "p5.parquet").column_names[-1] == "NOT COUNTED"
    assert "NOT COUNTED" not in das(marked, "--level", "State", "--table", "P1")[1]


def test_parquet_keeps_field_label_and_title(das: Das, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "p2.parquet"  # the format is that of the name
    code, said, _ = das(
        release, "--level", "County", "--table", "P2", "--names", "field", "--out", out
    )
    assert (code, said) == (0, f"written: {out} (3 units)\n")
    table = pq.read_table(out)
    assert table.schema.metadata[b"title"].decode() == TABLE["P2"].title
    assert table.schema.field(2).metadata == {
        b"field": b"P0020002",
        b"label": b"Hispanic or Latino",
    }
    pd.testing.assert_frame_equal(table.to_pandas(), p2(release), check_dtype=False)


def test_json_and_markdown_have_the_same_numbers(das: Das, release: Path) -> None:
    args = (release, "--level", "County", "--table", "P2", "--names", "field")
    answer = json.loads(das(*args, "--json")[1])
    assert answer["columns"][1] == {"field": "P0020002", "label": "Hispanic or Latino"}
    assert pd.DataFrame(answer["rows"]).equals(p2(release))
    lines = das(*args, "--format", "md")[1].splitlines()
    assert lines[2] == "| County | 001A | 001B | 002A |"
    cells = [line.strip("| ").split(" | ") for line in lines[4:]]
    assert [c[0] for c in cells] == list(TABLE["P2"].columns)
    assert [[int(x.replace(",", "")) for x in c[1:]] for c in cells] == p2(release).iloc[
        :, 1:
    ].T.to_numpy().tolist()


def test_prefixes_choose_units(das: Das, release: Path) -> None:
    def chosen(*prefixes: str) -> list[str]:
        args = [x for p in prefixes for x in ("--geocode", p)]
        out = das(release, "--level", "County", "--table", "H1", *args)[1]
        return [row[0] for row in csv.reader(io.StringIO(out))][1:]

    assert chosen("001") == ["001A", "001B"]
    assert chosen("002", "001B") == ["001B", "002A"]
    assert chosen("0") == text(CODES).tolist()


@pytest.mark.parametrize(
    "args,words",
    [
        (("--level", "Cuonty", "--table", "P2"), ["'Cuonty'", "State, County"]),
        (("--level", "County", "--table", "P9"), ["'P9'", "P1, P2, P3, P4, P5, H1"]),
        (("--level", "County"), ["--table"]),
        (("--table", "P1"), ["--level"]),
        (("--level", "County", "--table", "P1", "--geocode", "A"), ["--geocode"]),
        (("--level", "County", "--table", "P1", "--format", "parquet"), ["--out"]),
        (
            ("--level", "County", "--table", "P1", "--out", "no/such/folder/x.csv"),
            ["no/such/folder/x.csv", "--out"],
        ),
    ],
)
def test_mistakes_name_the_option_and_what_there_is(
    das: Das,
    release: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = das(release, *args)
    assert (code, out) == (2, "")
    assert err.startswith("das: ")
    assert all(w in err for w in words), err
    assert list(tmp_path.iterdir()) == []


def test_too_many_units_side_by_side(
    das: Das, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("das.files.release.table_export.WIDEST", 2)
    code, _, err = das(
        release, "--level", "County", "--table", "H1", "--format", "md", "--out", tmp_path / "x.md"
    )
    assert code == 2
    assert "--geocode" in err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_release_without_tables_or_with_altered_ones(
    das: Das, release: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(release, tmp_path / "run" / "release"))
    path = copied / "tables" / "P5_State.csv"
    path.write_text(path.read_text().replace("P0050002", "P0050099"))
    code, _, err = das(tmp_path / "run", "--level", "State", "--table", "P5")
    assert (code, "columns are not those" in err) == (2, True)
    path.write_text(path.read_text().replace("P0050099", "P0050002").replace("\n0,", "\n0,x"))
    code, _, err = das(tmp_path / "run", "--level", "State", "--table", "P5")
    assert (code, "P5_State.csv" in err) == (2, True)
    shutil.rmtree(copied / "tables")
    code, _, err = das(copied, "--level", "State", "--table", "P5")
    assert (code, "output.tables" in err) == (2, True)
    assert "no published tables" in das(copied)[1]
    code, _, err = das(tmp_path / "nothing")
    assert code == 2


def test_the_documentation_lists_every_column(root: Path) -> None:
    """Those of P1 by letters of the races, and those of P2 by their order in P1."""
    text = pages.text("tables")
    for name in ("P5", "H1"):
        assert all(
            f"| `{f}` | {x} |" in text
            for f, x in zip(TABLE[name].columns, TABLE[name].labels, strict=True)
        )
    for name, like in (("P3", "P1"), ("P4", "P2")):
        assert TABLE[name].labels == TABLE[like].labels
        assert f"`{TABLE[name].columns[0]}` to `{TABLE[name].columns[-1]}`" in text
    letters = dict(zip("WBIAPO", (x.removesuffix(" alone") for x in TABLE["P1"].labels[2:8])))
    found = []
    for first, last, counts in re.findall(
        r"^\| `P001(\d{4})`(?: to `P001(\d{4})`)? \| (.*) \|$", text, re.MULTILINE
    ):
        alone = " alone" * counts.endswith(" alone")
        some = counts.removesuffix(alone).split(", ")
        assert int(first) == len(found) + 1
        assert int(last or first) == len(found) + len(some)
        found += [
            "; ".join(letters[c] for c in x) + alone if set(x) <= set(letters) else x for x in some
        ]
    assert tuple(found) == tuple(TABLE["P1"].labels)
    assert tuple(TABLE["P2"].labels[3:]) == tuple(found[1:])
    assert "| `P0020004` to `P0020073` |" in text
    assert all(
        f"| `{f}` | {x} |" in text
        for f, x in zip(TABLE["P2"].columns[:3], TABLE["P2"].labels[:3], strict=True)
    )


def test_a_name_that_tells_of_another_format(das: Das, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "p2.xlsx"
    code, _, err = das(release, "--level", "County", "--table", "P2", "--out", out)
    assert code == 2
    assert "'.xlsx' is none of the formats csv, parquet, md, json" in err
    assert not out.exists()
    assert (
        das(release, "--level", "County", "--table", "P2", "--format", "csv", "--out", out)[0] == 0
    )


# --- names, GEOIDs, and areas across the levels
# -------------------------------------------------------------------------

BLOCKS = np.array(["4400701010122003", "4400701010122004", "4400702000011000"])


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two counties of three blocks, with names; one town across them; tables of both levels."""
    folder = tmp_path_factory.mktemp("towns") / "release"
    folder.mkdir()
    (folder / "spec.toml").write_text(
        SPEC.replace("State", "US")
        .replace("County", "Block_Group")
        .replace('"US", "Block_Group"', '"US", "Block_Group", "Block"')
        .replace('"1/2"', '"1/3"')
        .replace('Block_Group = "1/3" }', 'Block_Group = "1/3", Block = "1/3" }')
        .replace(
            'Block_Group = { total = "1" } }',
            'Block_Group = { total = "1" }, Block = { total = "1" } }',
        )
        .replace(
            'Block_Group = { detailed = "1" } }',
            'Block_Group = { detailed = "1" }, Block = { detailed = "1" } }',
        )
    )
    statement.write(folder, one_draw())
    groups = np.array(["440070101012", "440070200001"])
    parent = (np.zeros(1, np.int64), np.zeros(2, np.int64), np.array([0, 0, 1]))
    names = (
        np.array([""]),
        np.array(["Block Group 2", 'Año, "so called"']),
        np.array(["", "", ""]),
    )
    spine = Spine(("US", "Block_Group", "Block"), (np.array(["US"]), groups, BLOCKS), parent, names)
    spine_file.write(folder / "spine.parquet", spine)
    town = Areas(
        "County_Subdivision",
        np.array(["4400759000", "4400799999"]),
        np.array([0, 0, 1]),
        np.array([0, 1, 2]),
        np.array(["Providence city", ""]),
    )
    areas.write(folder / "areas.parquet", [town], spine)
    dense = np.random.default_rng(1).poisson(0.1, (3, PL94.cells))
    h = Histogram.from_triplets(
        3, PL94.cells, *(i.ravel() for i in np.indices(dense.shape)), dense.ravel()
    )
    for level, counts in (("Block", h), ("Block_Group", h.up(parent[2], 2))):
        beside = published_tables.identifiers(spine, level)
        codes = spine.codes[spine.index(level)]
        published_tables.write(
            folder / "tables", level, codes, published(PL94), counts, beside=beside
        )
    return folder


def test_tables_carry_geoids_and_names(das: Das, towns: Path) -> None:
    path = towns / "tables" / "P1_Block_Group.csv"
    frame = pd.read_csv(path, dtype={"GEOCODE": str, "GEOID": str})
    assert frame["NAME"].tolist() == ["Block Group 2", 'Año, "so called"']
    assert published_tables.read(path).columns == TABLE["P1"].columns
    blocks = pd.read_csv(towns / "tables" / "P1_Block.csv", dtype=str)
    assert list(blocks)[:3] == ["GEOCODE", "GEOID", "P0010001"]  # no names, no column of them
    assert blocks["GEOID"].tolist() == ["440070101012003", "440070101012004", "440070200001000"]
    out = das(towns, "--level", "block group", "--table", "p1")[1]
    printed = list(csv.reader(io.StringIO(out)))
    assert [row[2] for row in printed[1:]] == frame["NAME"].tolist()
    assert [row[3:] for row in printed[1:]] == frame.iloc[:, 3:].astype(str).to_numpy().tolist()


def test_units_are_found_by_name_and_by_geoid(das: Das, towns: Path) -> None:
    def codes(*args: object) -> list[str]:
        return [row[0] for row in csv.reader(io.StringIO(das(towns, "--table", "P1", *args)[1]))][
            1:
        ]

    assert codes("--level", "blockgroup", "--name", "ano,") == ["440070200001"]
    assert codes("--level", "Block", "--geocode", "440070101012003") == [BLOCKS[0]]
    assert codes("--level", "County Subdivision", "--name", "PROVIDENCE") == ["4400759000"]
    found = json.loads(das(towns, "--name", "prov", "--json")[1])
    assert found == [
        {
            "level": "County_Subdivision",
            "code": "4400759000",
            "name": "Providence city",
            "geoid": "4400759000",
        }
    ]
    (line,) = (
        s for s in das(towns, "--name", "prov")[1].splitlines() if s.startswith("counts with")
    )
    assert line.endswith(f"das area {towns} --name 4400759000")
    assert "440070101012004" in das(towns, "--geocode", "440070101012004")[1]
    assert das(towns, "--name", "Wonderland")[0] == 2
    code, _, err = das(towns, "--level", "Block", "--table", "P1", "--name", "Providence")
    assert (code, "no such unit of Block" in err) == (2, True)


def test_a_place_is_named_without_its_level(das: Das, towns: Path) -> None:
    def told(*args: object) -> str:
        return das(towns, "--table", "P1", *args)[1]

    town = told("--level", "County_Subdivision", "--name", "Providence")
    assert town.count("\n") == 2
    assert told("--name", "Providence city") == told("--name", "providence") == town
    assert told("--name", "4400759000") == town  # a GEOID is a name
    block = told("--level", "Block", "--geocode", "440070101012003")
    assert told("--name", "440070101012003") == block
    assert told("--level", "Block", "--name", "440070101012003") == block
    code, out, err = das(towns, "--table", "P1", "--name", "o")  # in the names of all three
    assert (code, out) == (2, "")
    assert "3 places have this name" in err
    assert "County_Subdivision Providence city (4400759000)" in err
    assert 'Block_Group Año, "so called" (440070200001)' in err
    code, _, err = das(towns, "--table", "P1", "--name", "Providence", "--name", "Block Group 2")
    assert (code, "of different levels" in err) == (2, True)
    assert das(towns, "--table", "P1", "--name", "Wonderland")[0] == 2
    assert das(towns, "--table", "P1", "--geocode", "44")[0] == 2


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Narragansett", ["Narragansett town"]),
        ("narragansett pier", ["Narragansett Pier CDP"]),
        ("Pier", ["Narragansett Pier CDP"]),
        ("Newport city", ["Newport city"]),
        ("Newport", ["Newport city"]),
        ("Bristol", ["Bristol town"]),
        ("Kent", None),
        ("Hills of Kent", ["Hills of Kent"]),
        ("New", None),
    ],
)
def test_the_place_that_a_name_means(name: str, wanted: list[str] | None) -> None:
    """The whole name, then the name without its status, then a part of a name. Of several places
    with the name the city, then the town, then the county; two towns are told apart by nobody."""
    kinds = {
        "County": ["Newport County", "Bristol County", "Kent County", "New Kent County"],
        "County_Subdivision": ["Narragansett town", "Bristol town", "Kent town", "Kent town"],
        "Place": ["Narragansett Pier CDP", "Newport city", "New Shoreham CDP", "Hills of Kent"],
    }
    places = {
        kind: PlaceColumns(encoded(list("5678")), {"NAME": encoded(np.array(each))})
        for kind, each in kinds.items()
    }
    notes: list[str] = []
    if wanted is None:
        with pytest.raises(UserError, match=r"\d places have this name: County .*County \(\d\); "):
            place_search.named_places(places, (), [name], notes.append)
        assert notes == []
    else:
        found = place_search.named_places(places, (), [name], notes.append)
        assert [p.name for p in found] == wanted
    if name == "Newport":
        assert notes == ["this is Place Newport city (6). Not shown: County Newport County (5)"]


def test_a_geoid_that_two_kinds_share_is_told_apart_by_its_level() -> None:
    """A county and a legislative district can have one GEOID: to repeat it is no way out."""
    places = {
        kind: PlaceColumns(encoded(["44009"]), {"NAME": encoded(np.array([name]))})
        for kind, name in (("County", "Washington County"), ("SLDU", "State Senate District 9"))
    }
    with pytest.raises(UserError, match=r"give its level or kind as well, such as County"):
        place_search.named_places(places, (), ["44009"], print)
    other = PlaceColumns(encoded(["1"]), {"NAME": encoded(np.array(["44009"]))})
    with pytest.raises(UserError, match=r"name it by its GEOID, such as --name 1"):
        place_search.named_places({"Place": other} | places, (), ["44009"], print)


def test_areas_are_sums_of_their_blocks(das: Das, towns: Path, tmp_path: Path) -> None:
    blocks = pd.read_csv(towns / "tables" / "P2_Block.csv").iloc[:, 2:]
    code, out, err = das(
        towns, "--level", "county_subdivision", "--table", "P2", "--names", "field"
    )
    assert code == 0
    frame = pd.read_csv(io.StringIO(out), dtype={"GEOCODE": str}, keep_default_na=False)
    assert list(frame)[:5] == ["GEOCODE", "GEOID", "NAME", "BLOCKS", "P0020001"]
    assert frame["GEOID"].astype(str).tolist() == ["4400759000", "4400799999"]
    assert frame["BLOCKS"].tolist() == [2, 1]
    assert frame.iloc[:, 4:].to_numpy().tolist() == [
        blocks[:2].sum().tolist(),
        blocks[2:].sum().tolist(),
    ]
    assert "sums of the published counts of Block; --margins adds their intervals" in err
    assert "County_Subdivision" in das(towns)[1]
    assert json.loads(das(towns, "--json")[1])[0]["levels"] == [
        "Block_Group",
        "Block",
        "County_Subdivision",
    ]

    listed = tmp_path / "wards.txt"
    listed.write_text("BLOCKID|DISTRICT\n440070101012004|7\n440070200001000|7\n")
    code, out, err = das(towns, "--areas", listed, "--table", "P2", "--json")
    (row,) = json.loads(out)["rows"]
    assert (row["GEOCODE"], row["BLOCKS"], row["P0020001 Total"]) == (
        "7",
        2,
        int(blocks.iloc[1:, 0].sum()),
    )
    assert "1 units of Block are in no area" in err
    listed.write_text("area,block\nx,440070101012004\nx,9\nx,8\n")
    code, out, err = das(towns, "--areas", listed, "--table", "P2")
    assert (code, out) == (2, "")
    assert "line 3: '9' is not a unit of level 'Block' (and 1 more such lines)" in err
    assert das(towns, "--areas", listed, "--level", "Block", "--table", "P2")[0] == 2
    code, _, err = das(towns, "--areas", tmp_path / "none.csv", "--table", "P2")
    assert (code, "none.csv: no such file\n" in err, "--data" in err) == (2, True, False)


@pytest.mark.parametrize("width", [80, 160])
def test_the_name_of_an_area_is_not_cut_away_by_many_figures(width: int) -> None:
    spines = ("tabulation", "production", "targets", "these areas")
    rows = [
        {"area": f"D{i}"}
        | {f"{s}, {n}": _plan_shown(139.45 + i) for s in spines for n in ("topdown", "estimate")}
        for i in range(3)
    ]
    screen = Console(width=width, file=io.StringIO())
    screen.print(records_table("", rows))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert all(f"│ D{i}   │" in shown and shown.count(f"{139.45 + i:g}") == 8 for i in range(3))
    assert ("…" in shown) == (width < 100)  # of the headings


def test_the_name_of_a_table_is_not_cut_away_by_long_lists_of_levels() -> None:
    rows = [
        {"table": "P1", "title": "Race " * 12, "columns": 71, "levels": "County_Subdivision, " * 12}
    ]
    screen = Console(width=100, file=io.StringIO())
    screen.print(records_table("Published tables", rows))
    out = cast(io.StringIO, screen.file).getvalue()
    assert [out.count(x) for x in ("P1", "71", "County_Subdivision")] == [1, 1, 12]
