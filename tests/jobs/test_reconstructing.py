"""The attack on a folder of published tables, as the Census Bureau lays them out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError, UserError
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.tools.protection import census_tables
from das.tools.protection.attack import AttackOptions, AttackStatus, published_tables
from das.tools.protection.census_tables import coarsest_schema, field_of, published_columns
from das.tools.protection.published import (
    UNBOUNDED,
    WITHHELD,
    LevelLines,
    LineMatrix,
    ProtectedTables,
)
from das.tools.protection.study import files
from das.tools.protection.truth import reconstructing
from das.tools.protection.truth.reconstructing import AttackSource, attack_folder
from tests.commands import Commands
from tests.worlds import Worlds

SCHEMA = census_tables.sf1_schema()
BLOCKS = ("440010301001000", "440010301001001", "440010301002000", "440010302001000")
#: Sex, the number of the age group, origin, the number of the race.
PEOPLE = [
    [(0, 0, 0, 0), (1, 25, 0, 0), (0, 30, 1, 1)],
    [(0, 26, 0, 0), (0, 27, 0, 0), (0, 28, 0, 1), (0, 29, 0, 0), (0, 29, 0, 0)],
    [],
    [(1, 10, 1, 5), (1, 10, 1, 5)],
]
FIELDS = [f"P008{i:04d}" for i in (1, 3, 4, 8)] + [f"P012A{i:03d}" for i in range(1, 50)]


def counted(fields: list[str]) -> np.ndarray:
    """The values of fields in the blocks."""
    columns = published_columns({"Block": fields})
    assert columns is not None
    unit = np.repeat(np.arange(4), [len(b) for b in PEOPLE])
    at = np.array([p for b in PEOPLE for p in b]).T
    cell = np.array(columns.cell)[np.ravel_multi_index(tuple(at), SCHEMA.shape)]
    h = Histogram.from_triplets(
        4, columns.tables.schema.cells, unit, cell, np.ones(len(unit), dtype=int)
    )
    values = LineMatrix.from_tables(columns.tables.tables["Block"]).counts(h)
    order = [columns.fields["Block"].index(f) for f in fields]
    return values[:, order]


def folder_of(path: Path, fields: list[str], **change: str) -> Path:
    """Two files of tables, one with parts of a code, the other with a code."""
    path.mkdir()
    values = counted(fields)
    for table in ("P008", "P012A"):
        own = [i for i, f in enumerate(fields) if f.startswith(table)]
        head = ["STATE", "COUNTY", "TRACT", "BLOCK"] if table == "P008" else ["GEO_ID"]
        with (path / f"{table}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow([*head, *(fields[i] for i in own)])
            for b, code in enumerate(BLOCKS):
                parts = [code[:2], code[2:5], code[5:11], code[11:]]
                place = parts if table == "P008" else [f"1000000US{code}"]
                row = [change.get(f"{b}:{fields[i]}", values[b, i]) for i in own]
                out.writerow([*place, *row])
    return path


def test_what_fields_count() -> None:
    """By the documentation of the file: a man and a boy, White; a woman; and so on."""
    fields = ["P0080001", "P0080003", "P0080004", "P0080008", "P012A001", "P012A002", "P012A003",
              "P012A026", "P0090002", "P0090005", "P0110001", "P0060002", "P0050010", "P0140003"]  # fmt: skip
    assert counted(fields)[0].tolist() == [3, 2, 1, 0, 2, 1, 1, 1, 1, 2, 2, 2, 1, 1]
    assert field_of("P12A0003") == ("P12A", 3)
    assert published_columns({"Block": ["P0430001", "NAME", "P0060001"]}) is None


def test_every_column_of_every_table_is_there() -> None:
    """As many as in the technical documentation; races tallied count persons several times."""
    sizes = {
        "P0080": 71,
        "P0090": 73,
        "P0100": 71,
        "P0110": 73,
        "P0120": 49,
        "P0140": 43,
        "P0070": 15,
    }
    every = [f"{t}{i:03d}" for t, n in sizes.items() for i in range(1, n + 3)]
    columns = published_columns({"Block": every})
    assert columns is not None
    found = [len(t.columns) for t in columns.tables.tables["Block"]]
    assert found == [71, 73, 71, 73, 49, 43, 13]
    tract = published_columns({"Tract": [f"PCT012{x}{i:03d}" for x in "AO" for i in range(1, 212)]})
    assert tract is not None
    assert [len(t.columns) for t in tract.tables.tables["Tract"]] == [209, 209]


def test_levels_that_no_table_tells_apart_are_one() -> None:
    coarse, cell = coarsest_schema(census_tables.table_set(("Block",)))
    assert coarse.schema.shape == SCHEMA.shape
    few = published_columns({"Block": [f"P012{i:04d}" for i in range(1, 50)]})
    assert few is not None
    assert few.tables.schema.shape == (2, 23, 1, 1)
    assert np.array_equal(np.unique(cell), np.arange(SCHEMA.cells))
    with_one = coarse.lines("Block").matrix
    assert np.array_equal(
        with_one.toarray()[:, cell],
        census_tables.table_set(("Block",)).lines("Block").matrix.toarray(),
    )


def test_a_folder_is_attacked_and_an_interrupted_attack_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconstructing, "_PLACES", 1)  # a part an area
    source = AttackSource(folder_of(tmp_path / "tables", FIELDS))
    out, options = tmp_path / "out", AttackOptions(around="Tract")
    result = attack_folder(source, out, options)
    assert result.found.status.tolist() == [
        AttackStatus.SOLVED,  # the age of the Black man is in no table
        AttackStatus.SOLVED,
        AttackStatus.UNIQUE,
        AttackStatus.SOLVED,
    ]
    assert result.found.histogram.totals().tolist() == [3, 5, 0, 2]
    first, second = sorted((out / "parts").iterdir())
    before = first.stat().st_mtime_ns
    second.unlink()
    again = attack_folder(source, out, options)
    assert first.stat().st_mtime_ns == before
    assert again.found.histogram.same_as(result.found.histogram)
    with (out / "units.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [r["geocode"] for r in rows] == list(BLOCKS)
    assert rows[2]["status"] == "unique"
    with (out / "records.csv").open() as file:
        assert sum(int(r["count"]) for r in csv.DictReader(file)) == 10
    with pytest.raises(UserError, match="attack of other tables, or with other options"):
        attack_folder(source, out, AttackOptions())


def test_what_is_not_shown_and_what_is_rounded(tmp_path: Path) -> None:
    hidden = {"1:P012A001": "X", "1:P0080003": ""}
    published, columns = AttackSource(folder_of(tmp_path / "a", FIELDS, **hidden)).read()
    lines = published.levels["Block"]
    assert int((~lines.shown).sum()) == 2
    nearest = {f: lambda x: 5 * ((x + 2) // 5) for f in FIELDS}
    rounded, _ = AttackSource(rounded_folder(tmp_path / "b", nearest), rounding="nearest:5").read()
    total = rounded.levels["Block"]
    assert (total.upper - total.lower).max() == 4
    up = {f: lambda x: -3 * (-x // 3) for f in FIELDS}
    drawn, _ = AttackSource(rounded_folder(tmp_path / "c", up), rounding="random:3").read()
    assert len(drawn.levels["Block"].price) == 3
    assert columns.tables.schema.attribute("age").levels[0] == "0..4"
    with pytest.raises(UserError, match="no rounding"):
        AttackSource(tmp_path / "a", rounding="random").read()


def rounded_folder(path: Path, how: Mapping[str, Callable[[int], int]]) -> Path:
    """The tables, with fields rounded as ``how`` says, and the others exact."""
    values = counted(FIELDS)
    at = [(b, i) for b in range(4) for i, f in enumerate(FIELDS) if f in how]
    change = {f"{b}:{FIELDS[i]}": str(how[FIELDS[i]](int(values[b, i]))) for b, i in at}
    return folder_of(path, FIELDS, **change)


def test_rounding_is_undone_where_sums_leave_one_count(tmp_path: Path, commands: Commands) -> None:
    """A man and a woman are the White of a block, exactly, and both are printed as 3: each is one at
    least."""
    exact = {"P0080001", "P012A001"}
    up = {f: lambda x: -3 * (-x // 3) for f in FIELDS if f not in exact}
    folder, out = rounded_folder(tmp_path / "tables", up), tmp_path / "out"
    told = ("reconstruct", folder, "--workers", 1, "--out", out, "--json")
    code, said, err = commands.named("risk")(*told, "--rounding", "random:3")
    assert code == 0, err
    with (out / "exact.csv").open() as file:
        found = list(csv.DictReader(file))
    assert {"P012A002", "P012A026"} <= {r["line"] for r in found if r["true"] == "1"}
    true = counted(FIELDS)
    for row in found:
        at = BLOCKS.index(row["geocode"]), FIELDS.index(row["line"])
        assert int(row["true"]) == true[at]
        assert row["line"] not in exact
    assert json.loads(said)["summary"]["rounded counts that follow exactly"] == len(found)
    code, _, err = commands.named("risk")(
        *told[:4], "--rounding", "random:2", "--out", tmp_path / "no"
    )
    assert code == 2
    assert "say with --rounding how the tables are rounded" in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("GEOID,NAME\n44,x\n", "no CSV file with columns of tables"),
        ("PLACE,P0080001\n44,1\n", "no column names the places"),
        ("GEOID,P0080001\n44001030100100x,1\n", "is no code of a Block"),
        ("GEOID,P0080001\n44\n", "1 fields, not 2"),
        ("GEOID,P0080001\n44,1\n44,2\n", "P0080001 of 44 is 1 here, and other"),
    ],
)
def test_folders_that_are_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError) as error:
        published_tables.read(tmp_path, lambda name: field_of(name) is not None)
    assert why in str(error.value) or "is 2 here" in str(error.value)


def test_levels_by_their_number(tmp_path: Path) -> None:
    """The columns of a summary file: also latin-1 names, and levels that are not used."""
    (tmp_path / "t.csv").write_bytes(
        b"SUMLEV,STATE,COUNTY,TRACT,BLOCK,NAME,P0010001\n140,44,1,30100,,Ca\xf1on,7\n"
        b"101,44,1,30100,1000,,4\n101,44,1,30100,1001,,3\n160,44,,,,Town,9\n"
    )
    found = published_tables.read(tmp_path, lambda name: field_of(name) is not None)
    assert found["Tract"].codes == ("44001030100",)
    assert found["Block"].codes == ("440010301001000", "440010301001001")
    assert found["Block"].values["P0010001"].tolist() == [4, 3]


def test_the_command(tmp_path: Path, commands: Commands) -> None:
    folder, reconstruct = folder_of(tmp_path / "tables", FIELDS), commands.named("risk")
    given = ("reconstruct", folder, "--workers", 1)
    code, out, _ = reconstruct(*given, "--out", tmp_path / "out", "--json")
    assert code == 0
    assert '"places": 3' in out
    code, _, err = reconstruct(*given, "--tables", "P99", "--out", tmp_path / "other")
    assert code == 2
    assert "no column is one of the tables that the attack knows" in err


def test_published_records_are_compared_with_the_truth(worlds: Worlds, commands: Commands) -> None:
    risk = commands.named("risk")
    code, out, err = risk("reconstruct", worlds.run("run.seed=1"), "--json")
    assert code == 0, err
    every = json.loads(out)["scores"][0]
    assert every["group"] == "all"
    assert 0 < every["agreement"] < 1
    assert every["persons"] > 1000
    assert json.loads(out)["private"] is False
    code, _, err = risk("reconstruct", worlds.run("run.seed=1"), "--out", "guess")
    assert (code, "there is no guess to write" in err) == (2, True)
    code, _, err = risk("reconstruct", worlds.run("run.seed=1") / "release")
    assert code == 2
    assert "no truth to compare its records with" in err


def test_tables_of_a_method_are_read_back(tmp_path: Path) -> None:
    """What `das frontier protect` writes: withheld lines, bounds, and another order of places."""
    tables = census_tables.table_set(("Block",))
    codes = ["4400103010011001", "4400103010011000", "4400103010021000"]
    spine = Spine.from_frame({"Block": codes}, ["US", "Block"])
    cell = np.random.default_rng(1).integers(0, tables.schema.cells, 150)
    h = Histogram.from_triplets(3, tables.schema.cells, np.arange(150) % 3, cell, np.ones(150, int))
    value = tables.lines("Block").counts(h)
    shown = value != 4
    lines = LevelLines(
        np.where(shown, np.maximum(value - 2, 0), 1),
        np.where(shown, value + 2, UNBOUNDED),
        np.where(shown, value, WITHHELD),
    )
    files.write_protected(tmp_path, ProtectedTables(spine, tables, {"Block": lines}))
    found, columns = AttackSource(tmp_path).read()
    assert found.spine.levels == ("US", "State", "County", "Tract", "Block_Group", "Block")
    assert columns.schema == SCHEMA
    again = found.levels["Block"]
    for name in ("lower", "value"):
        assert np.array_equal(getattr(again, name), getattr(lines, name))
    assert np.array_equal(again.upper[shown], lines.upper[shown])
    total = np.where(shown[:, :1], lines.upper[:, :1], UNBOUNDED)  # every line is a part of it
    assert (again.upper <= np.where(shown, lines.upper, total)).all()
    narrowed, _ = AttackSource(tmp_path, rounding="random:3").read()
    assert len(narrowed.levels["Block"].price) == 3
    assert (narrowed.levels["Block"].upper <= again.upper).all()
    path = tmp_path / "tables" / "Block.csv"
    rows = path.read_text()
    path.write_text(rows.rpartition("\n")[0].rpartition("\n")[0] + "\n")
    with pytest.raises(InputError, match="other places or lines than the tables"):
        AttackSource(tmp_path).read()
    path.write_text(rows[: len(rows) // 2])
    with pytest.raises(InputError, match="is damaged"):
        AttackSource(tmp_path).read()
    for each in tmp_path.glob("*/Block*.csv"):
        each.write_text((rows if each == path else each.read_text()).replace("P0120001", "Q1"))
    with pytest.raises(InputError, match="no table set with a name"):
        AttackSource(tmp_path).read()
