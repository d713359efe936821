"""A configuration drafted from a table: it is checked and run as it stands, and says what was
guessed.
"""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from das import read_microdata
from das.cli import main
from das.model.profile import ColumnProfile

#: Nothing is asked of the reports here.
BARE = ("--set", "output.report=false")


def das(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words])


def drafted(table: Path, *more: object) -> tuple[dict, str]:
    out = table.with_suffix(".toml")
    done = das("init", "--from", table, "--out", out, "--rare-levels", *more)
    assert done.exit_code == 0, done.output
    return tomllib.loads(out.read_text(encoding="utf-8")), done.output


def rows(draw: random.Random, n: int = 300) -> list[dict[str, str]]:
    """Villages in districts in regions; a seat cuts across the districts; an identifier, and a
    column that says nothing.
    """
    out = []
    for i in range(n):
        region, district, village = draw.choice("NS"), draw.choice("12"), draw.choice("abc")
        out.append(
            {
                "person_id": str(1000 + i),
                "region": region,
                "district": region + district,
                "village": region + district + village,
                "seat": "east" if village == "a" else "west",
                "sex": draw.choice(("female", "male")),
                "age": str(draw.randrange(12)),
                "born in": draw.choice(("here", "")),
                "year": "2020",
            }
        )
    return out


def written(
    path: Path, table: list[dict[str, str]], encoding: str = "utf-8", delimiter: str = ","
) -> Path:
    lines = [table[0].keys(), *(r.values() for r in table)]
    path.write_text("".join(delimiter.join(x) + "\n" for x in lines), encoding=encoding)
    return path


def test_a_draft_runs_at_once(tmp_path: Path) -> None:
    table = written(tmp_path / "people.csv", rows(random.Random(1)))
    spec, said = drafted(table)
    assert spec["geography"]["levels"] == ["Country", "Region", "District", "Village"]
    assert spec["data"]["columns"]["geography"] == {
        "Region": "region",
        "District": "district",
        "Village": "village",
    }
    assert spec["data"]["columns"]["areas"] == {"Seat": "seat"}
    assert spec["schema"]["attributes"] == {
        "sex": ["female", "male"],
        "age": [str(i) for i in range(12)],
        "born_in": ["here", "unknown"],
    }
    assert spec["data"]["columns"]["attributes"] == {"born_in": "born in"}
    assert spec["data"]["columns"]["missing"] == {"born_in": "unknown"}
    assert "person_id: it has more than 60 values" in said
    assert "year: it is the same in every row" in said
    text = table.with_suffix(".toml").read_text()
    assert "READ OFF THE DATA" in text
    assert "public" in text
    assert das("check", table.with_suffix(".toml")).exit_code == 0
    done = das(
        "run",
        table.with_suffix(".toml"),
        "--out",
        tmp_path / "run",
        "--quiet",
        "--set",
        "budget.rho=10000",
        *BARE,
    )
    assert done.exit_code == 0, done.output
    made = read_microdata(tmp_path / "run")
    assert sorted(made["geocode"]) == sorted(r["village"] for r in rows(random.Random(1)))
    assert (made["born_in"] == "unknown").sum() == sum(
        r["born in"] == "" for r in rows(random.Random(1))
    )


def test_codes_that_repeat_counts_and_other_encodings(tmp_path: Path) -> None:
    """Municipality 01 is in every province; a line stands for several persons; the names are in
    Latin-1.
    """
    table = [
        {"Provincia": p, "Municipio": m, "Sexo": s, "Educación": e, "n": str(i % 5)}
        for i, (p, m, s, e) in enumerate(
            (p, m, s, e)
            for p in ("A", "Ñ")
            for m in ("01", "02")
            for s in "HM"
            for e in ("sí", "no")
        )
    ]
    path = written(tmp_path / "censo.csv", table, "latin-1", ";")
    spec, said = drafted(path)
    assert spec["data"]["encoding"] == "cp1252"
    assert spec["data"]["columns"]["unique_within_parent"] is True
    assert spec["data"]["columns"]["count"] == "n"
    assert spec["schema"]["attributes"] == {"Sexo": ["H", "M"], "Educación": ["no", "sí"]}
    assert "codes put together" in said
    assert (
        das("run", path.with_suffix(".toml"), "--out", tmp_path / "run", "--quiet", *BARE).exit_code
        == 0
    )


@pytest.mark.parametrize("seed", [4, 5])
def test_the_tree_is_which_code_contains_which(tmp_path: Path, seed: int) -> None:
    """Not what the names say: here districts lie in municipalities, cells of a grid in districts,
    and a zone cuts across all."""
    draw = random.Random(seed)
    table = []
    for _ in range(2_000):
        town, district, cell = draw.randrange(4), draw.randrange(3), draw.randrange(40)
        table.append(
            {
                "district": f"{town}{district}",
                "municipality": f"m{town}",
                "grid": f"{town}{district}{cell:02d}",
                "zone": f"z{draw.randrange(5)}",
                "sex": draw.choice(("female", "male")),
            }
        )
    spec, said = drafted(written(tmp_path / "t.csv", table))
    assert spec["geography"]["levels"] == ["Country", "Municipality", "District", "Grid"]
    assert "unique_within_parent" not in spec["data"]["columns"]
    assert "zone: it is no level of the tree" in said


def test_areas_across_the_tree(tmp_path: Path) -> None:
    table = rows(random.Random(2))
    for r in table:
        r["ward"] = r.pop("seat")  # a name of places, between district and village in rank
    spec, _ = drafted(written(tmp_path / "t.csv", table))
    assert spec["geography"]["levels"] == ["Country", "Region", "District", "Village"]
    assert spec["data"]["columns"]["areas"] == {"Ward": "ward"}


def test_parquet_and_places_that_are_named(tmp_path: Path) -> None:
    table = rows(random.Random(3), 60)
    columns = {
        "unit": [r["village"] for r in table],
        "top": [r["region"] for r in table],
        "level": [r["sex"] for r in table],
        "age": [int(r["age"]) for r in table],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert (
        das("init", "--from", tmp_path / "t.parquet", "--out", tmp_path / "no.toml").exit_code == 2
    )
    spec, _ = drafted(tmp_path / "t.parquet", "--geography", "top,unit")
    assert spec["geography"]["levels"] == ["Country", "Top", "Unit"]
    assert set(spec["schema"]["attributes"]) == {
        "level_",
        "age",
    }  # "level" is a column of published files
    assert (
        das("run", tmp_path / "t.toml", "--out", tmp_path / "run", "--quiet", *BARE).exit_code == 0
    )


@pytest.mark.parametrize("asked", [True, False])
def test_what_few_people_have_is_not_in_a_configuration_unless_asked_for(
    tmp_path: Path, asked: bool
) -> None:
    """Nor in what is printed, nor how many rows there are; with the levels that are added it
    runs.
    """
    table = [
        r | {"faith": f"faith{i % 3}", "tongue": "one"}
        for i, r in enumerate(rows(random.Random(9), 317))
    ]
    for i, faith in enumerate(["unique-faith", *["few-faith"] * 9, *["many-faith"] * 10]):
        table[i]["faith"] = faith
    table[7]["tongue"] = "unique-tongue"
    path, out = written(tmp_path / "people.csv", table), tmp_path / "people.toml"
    done = das("init", "--from", path, "--out", out, *(["--rare-levels"] if asked else []))
    assert done.exit_code == 0, done.output
    text = out.read_text(encoding="utf-8")
    attributes = tomllib.loads(text)["schema"]["attributes"]
    common = ["faith0", "faith1", "faith2", "many-faith"]
    assert attributes["faith"] == (
        sorted([*common, "few-faith", "unique-faith"]) if asked else common
    )
    assert ("tongue" in attributes) is asked  # one level is no attribute
    assert ("unique" in text) is asked
    for told in (text, done.output):
        assert "317" not in told
    assert "unique" not in done.output
    assert "few-faith" not in done.output
    run = ["run", out, "--out", tmp_path / "run", "--quiet", *BARE]
    if not asked:
        assert "faith" in done.output.split("left out")[1]
        said = das(*run)
        assert said.exit_code == 2
        assert "people.csv, line 2: faith has a value that is no level of it" in said.output
        out.write_text(
            text.replace('"many-faith"', '"many-faith", "few-faith", "unique-faith"'),
            encoding="utf-8",
        )
    assert das(*run).exit_code == 0


REFUSED = {
    "no places": ("sex,age\nf,1\nm,2\n", "no column looks like one of places"),
    "no attributes": ("village,person\nA,1\nB,1\n", "no column looks like an attribute"),
    "no rows": ("village,sex\n", "has no records"),
    "places missing": ("village,sex\nA,f\n,m\nB,m\n", "village has no value in some rows"),
    "commas": ('village,sex\n"A, B",f\nC,m\n', "village has a code with a comma"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_no_draft_can_be_made_of(tmp_path: Path, name: str) -> None:
    text, message = REFUSED[name]
    (tmp_path / "t.csv").write_text(text)
    done = das("init", "--from", tmp_path / "t.csv", "--out", tmp_path / "t.toml")
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "t.toml").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", rows(random.Random(4), 30))
    (tmp_path / "t.toml").write_text("mine")
    done = das("init", "--from", table, "--out", tmp_path / "t.toml")
    assert done.exit_code == 2
    assert (tmp_path / "t.toml").read_text() == "mine"


def test_names_and_areas_are_not_attributes_of_people(tmp_path: Path) -> None:
    """Accents hide no word; what is the same for all people of each place is its name, or an area;
    a header that alone has accents tells the encoding."""
    draw = random.Random(5)
    table = []
    for _ in range(400):
        p, m, s = draw.choice(("01", "02")), draw.choice(("1", "2")), draw.choice(("1", "2", "3"))
        table.append(
            {
                "provincia": p,
                "nombre_provincia": f"Prov {p}",
                "municipio": m,
                "nombre_municipio": f"Villa {p} {m}",
                "sección": s,
                "circunscripción": "C" + s,
                "litoral": "no" if m == "1" else "si",
                "sexo": draw.choice("HM"),
                "edad": str(draw.randrange(90)),
            }
        )
    path = written(tmp_path / "censo.csv", table, "latin-1", ";")
    spec, said = drafted(path)
    columns = spec["data"]["columns"]
    assert spec["data"]["encoding"] == "cp1252"
    assert columns["geography"] == {
        "Provincia": "provincia",
        "Municipio": "municipio",
        "Sección": "sección",
    }
    assert columns["names"] == {"Provincia": "nombre_provincia", "Municipio": "nombre_municipio"}
    assert columns["areas"] == {"Circunscripción": "circunscripción", "Litoral": "litoral"}
    assert list(spec["schema"]["attributes"]) == ["sexo", "edad"]
    assert "nombre_municipio (of municipio)" in said
    asked, _ = drafted(
        path.rename(tmp_path / "again.csv"), "--geography", "provincia,municipio,sección"
    )
    assert asked["data"]["columns"] == columns
    run = tmp_path / "run"
    assert das("run", tmp_path / "again.toml", "--out", run, "--quiet", *BARE).exit_code == 0
    assert "Villa 02 1" in das("tables", run, "--level", "Municipio", "--table", "T0").output


@pytest.mark.parametrize("said", ["utf-8", "utf-16"])
def test_a_header_in_another_encoding_is_told(tmp_path: Path, said: str) -> None:
    """Its columns are not looked for under names that nobody gave them."""
    path = written(
        tmp_path / "t.csv",
        [{"village": "A", "educación": "si"}, {"village": "B", "educación": "no"}],
        "latin-1",
    )
    drafted(path)
    text = (tmp_path / "t.toml").read_text(encoding="utf-8").replace('"cp1252"', f'"{said}"')
    (tmp_path / "t.toml").write_text(text, encoding="utf-8")
    done = das("run", tmp_path / "t.toml", "--out", tmp_path / "run", "--quiet", *BARE)
    assert done.exit_code == 2
    assert f"is not {said}" in done.output
    assert 'encoding = "latin-1"' in done.output


@pytest.mark.parametrize("text", ["\n", "\n\n\n", "\r\n", "\nregion,sex\nN,f\n"])
def test_a_blank_first_line_names_no_columns(tmp_path: Path, text: str) -> None:
    (tmp_path / "people.csv").write_text(text, newline="")
    done = das("init", "--from", tmp_path / "people.csv", "--out", tmp_path / "own.toml")
    assert done.exit_code == 2, done.output
    assert "first line is blank" in done.output, done.output
    assert not (tmp_path / "own.toml").exists()


def test_a_draft_with_a_table_of_places(tmp_path: Path) -> None:
    """Persons have the code of their village; everything else of places is in a table of theirs,
    with an empty village. The draft runs, and the empty village is published, with a release that
    does not name the table."""
    people = rows(random.Random(1))
    villages = {p["village"]: p for p in people}
    places = [
        {k: p[k] for k in ("region", "district", "village", "seat")} | {"village_name": f"V{v}"}
        for v, p in sorted(villages.items())
    ]
    empty = places[-1] | {"village": "Zz", "village_name": "Nobody"}
    listed = written(tmp_path / "places.csv", [*places, empty])
    table = written(
        tmp_path / "people.csv",
        [{k: p[k] for k in ("person_id", "village", "sex", "age")} for p in people],
    )
    spec, said = drafted(table, "--places", listed)
    assert spec["geography"]["places"] == str(listed)
    assert spec["geography"]["levels"] == ["Country", "Region", "District", "Village"]
    assert spec["data"]["columns"]["areas"] == {"Seat": "seat"}
    assert spec["data"]["columns"]["names"] == {"Village": "village_name"}
    assert list(spec["schema"]["attributes"]) == ["sex", "age"]
    assert "the places are those of the table of places" in said
    out = tmp_path / "run"
    done = das("run", table.with_suffix(".toml"), "--out", out, "--quiet", *BARE)
    assert done.exit_code == 0, done.output
    assert "Zz" in (out / "release" / "tables" / "T0_Village.csv").read_text()
    assert "places.csv" not in (out / "release" / "spec.toml").read_text()
    assert das("account", "verify", out).exit_code == 0


def test_a_table_of_places_that_does_not_fit_is_told(tmp_path: Path) -> None:
    table = written(tmp_path / "people.csv", rows(random.Random(1)))
    for text, says in (
        ("code\nx\n", "nothing tells the place of a record"),
        ("village\nx\n", "300 records are of places that it does not list"),
        ("village,seat\nx,east\nx,east\n", "some places have the same village, seat"),
    ):
        (tmp_path / "places.csv").write_text(text)
        done = das("init", "--from", table, "--places", tmp_path / "places.csv")
        assert done.exit_code == 2
        assert says in done.output
    people = [p | {"sex": "Männlich"} for p in rows(random.Random(1))]
    table = written(tmp_path / "people.csv", people, "latin-1")
    (tmp_path / "places.csv").write_text("village,name\nx,Año\n", encoding="utf-8")
    done = das("init", "--from", table, "--places", tmp_path / "places.csv")
    assert (done.exit_code, "in one encoding" in done.output) == (2, True)


def test_codes_that_begin_with_those_above_are_places_whatever_their_names(tmp_path: Path) -> None:
    """Few values and words of no known language: only the codes tell. An attribute whose codes
    begin alike (1, 10, 11) is not one, since people of a place differ in it."""
    draw = random.Random(4)
    table = []
    for _ in range(400):
        oblast, raion, selo = draw.choice("12"), draw.choice("123"), draw.choice("12")
        kind = draw.choice(("1", "2"))
        table.append(
            {
                "oblast": oblast,
                "district": oblast + raion,
                "selo": oblast + raion + selo,
                "work": kind,
                "trade": kind + draw.choice("01"),
            }
        )
    spec, said = drafted(written(tmp_path / "people.csv", table))
    assert spec["geography"]["levels"][1:] == ["Oblast", "District", "Selo"]
    assert list(spec["schema"]["attributes"]) == ["work", "trade"]
    assert "if this is not your tree: --geography" in said
    (tmp_path / "people.toml").unlink()
    _, said = drafted(tmp_path / "people.csv", "--geography", "oblast,district")
    assert "if this is not your tree" not in said


def people(n: int = 600, **more: list[str]) -> list[dict[str, str]]:
    """Persons in households in villages, as offices send them: with numbers and incomes."""
    draw = random.Random(9)
    return [
        {
            "id": str(5_000 + i),
            "Household": str(900 + i // 3),
            "village": draw.choice("ABC"),
            "sex": draw.choice("FM"),
            "age": str(draw.randrange(80)),
            "income": f"{draw.random():.2f}".replace(".", ","),
        }
        | {name: draw.choice(values) for name, values in more.items()}
        for i in range(n)
    ]


def test_numbers_of_households_and_decimals_are_no_levels(tmp_path: Path) -> None:
    table = people(rooms=["1,5", "2,5"], weight=["1.25", "2.5"])
    spec, said = drafted(written(tmp_path / "t.csv", table, "utf-8-sig", ";"))
    assert spec["geography"]["levels"] == ["Country", "Village"]
    assert list(spec["schema"]["attributes"]) == ["sex", "age"]
    assert "Household: it numbers households" in said
    assert all(f"{c}: it has numbers with decimals" in said for c in ("income", "rooms", "weight"))


def test_rows_and_numbers_that_repeat_are_counted(tmp_path: Path) -> None:
    table = people()
    other = {**table[7], "age": "79", "income": "7,77"}
    _, said = drafted(written(tmp_path / "t.csv", [*table, *table[:5], other], delimiter=";"))
    assert (
        "id: 6 rows repeat the value of an earlier row; 5 of these are the same in every column"
        in said
    )


def test_ages_that_are_not_clean_are_named_and_are_no_places(tmp_path: Path) -> None:
    table = people()
    for i, age in enumerate(("N/A", "-3", "")):
        table[i]["age"] = age
    spec, said = drafted(written(tmp_path / "t.csv", table, delimiter=";"))
    assert spec["geography"]["levels"] == ["Country", "Village"]
    assert "age: most of its values are whole numbers, but not '-3', 'N/A'" in said


def test_windows_1252_is_recognized(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", people(school=["École", "–", "€"]), "cp1252", ";")
    spec, _ = drafted(path)
    assert spec["schema"]["attributes"]["school"] == ["École", "–", "€"]
    run = das("run", tmp_path / "t.toml", "--out", tmp_path / "run", "--quiet", *BARE)
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize(
    ("values", "decimal"),
    [
        (("1.25", "3"), True),
        (("1,5", "-2,5"), True),
        (("1.234,5", "12 345"), True),
        (("-3", "5"), False),
        (("75 001", "75 002"), False),
        (("1.01.003", "1.01.004"), False),
        (("1.5", "N/A"), False),
        ((), False),
    ],
)
def test_codes_with_blanks_or_several_points_are_no_decimals(
    values: tuple[str, ...], decimal: bool
) -> None:
    assert ColumnProfile("x", values, np.arange(len(values))).decimal is decimal


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04 xl/workbook.xml", "Excel"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 old", "Excel"),
        (b"sex,age,sex\nF,1,F\n", "two columns have the same name, 'sex'"),
        (b"Census;;;\nsex;age;a;b\n", "two columns have no name"),
        (b"a,b\n1,2\n2,1\n", "the columns are a, b"),
    ],
)
def test_files_that_are_no_table_say_the_way_out(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    done = das("init", "--from", path, "--out", tmp_path / "t.toml")
    assert done.exit_code == 2
    assert said in done.output
    assert "what to do" in done.output


def towns(*moved: int, elsewhere: str = "D2") -> list[dict[str, str]]:
    """Ten municipalities of two districts of one region each; some rows ``moved``."""
    draw = random.Random(7)
    return [
        {
            "region": "NS"[(i % 10 > 4) ^ (i in moved)],
            "district": f"D{1 + (i % 10 > 4)}" if i not in moved else elsewhere,
            "municipality": f"{i % 10:02d}008",
            "sex": draw.choice(("female", "male")),
        }
        for i in range(2_000)
    ]


@pytest.mark.parametrize("elsewhere", ["D2", "D9"])
def test_one_row_in_another_district_is_an_error_and_no_structure(
    tmp_path: Path, elsewhere: str
) -> None:
    """The tree is that of all other rows. The row is told once, though its region is another, too,
    by its line; a run refuses it, and the corrected table has the same draft and no note."""
    right, wrong = written(tmp_path / "right.csv", towns()), tmp_path / "wrong.csv"
    spec, said = drafted(written(wrong, towns(1231, elsewhere=elsewhere)))
    assert f"1 of its 200 rows is in {elsewhere} (line 1,233): is that an error?" in said
    assert "municipality 01008 is in district D1, but" in said
    assert said.count("is that an error") == 1
    assert "codes put together" not in said
    assert wrong.read_text().splitlines()[1232].startswith(f"S,{elsewhere},01008")
    same, clean = drafted(right)
    assert "is that an error" not in clean
    assert spec["geography"] == same["geography"]
    assert spec["data"]["columns"] == same["data"]["columns"]
    assert spec["schema"] == same["schema"]
    done = das("run", wrong.with_suffix(".toml"), "--out", tmp_path / "run", "--quiet", *BARE)
    assert done.exit_code == 2
    assert "'01008' is in" in done.output
    assert "unique_within_parent = true" in done.output


def test_a_row_of_parquet_is_told_by_its_number(tmp_path: Path) -> None:
    table = tmp_path / "people.parquet"
    pq.write_table(pa.Table.from_pylist(towns(1231)), table)
    assert "(row 1,232)" in drafted(table, "--geography", "district,municipality")[1]


@pytest.mark.parametrize(
    "moved",
    [range(1, 2_000, 100), range(10), range(1, 110, 10)],
    ids=["a tenth of one", "one of each", "more than one in 200"],
)
def test_many_rows_elsewhere_are_codes_that_repeat(tmp_path: Path, moved: range) -> None:
    """Too many of their place, of too many places, or of the table."""
    table = written(tmp_path / "people.csv", towns(*moved))
    said = drafted(table, "--geography", "district,municipality")[1]
    assert "codes put together" in said
    assert "is that an error" not in said


@pytest.mark.parametrize("seed", range(5))
def test_the_most_frequent_value_of_each_place(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fine, coarse = draw.integers(0, 7, 400), draw.integers(0, 4, 400)
    fine[:7] = range(7)
    columns = (ColumnProfile("", tuple("abcdefg"), fine), ColumnProfile("", tuple("wxyz"), coarse))
    rows = np.zeros((7, 4), dtype=int)
    np.add.at(rows, (fine, coarse), 1)
    found = columns[1].mostly(columns[0])
    assert (rows[range(7), found] == rows.max(axis=1)).all()
