"""Tables with a mapping of columns: the same records from every form, and errors that name line and
value.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError, SpecError, UserError
from das.files.readers import rows, table
from das.model.names import text as as_text
from das.model.records import Extract
from das.model.schema import Attribute, Schema
from das.truth.readers import read

SCHEMA = Schema(
    "small",
    (
        Attribute("home", ("household", "dormitory")),
        Attribute("sex", ("f", "m")),
        Attribute("age", ("0-17", "18-64", "65+")),
    ),
    impossible=({"home": ("dormitory",), "age": ("0-17",)},),
    dwelling="home",
)
GEOGRAPHY = {"Region": "r", "Block": "b"}
Person = tuple[str, int, int, int]

persons = st.lists(
    st.tuples(
        st.sampled_from(["A1", "A2", "B1", "Č9"]),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 2),
    ).filter(lambda p: not (p[1] == 1 and p[3] == 0)),
    min_size=1,
    max_size=40,
)


def csv_of(people: list[Person], delimiter: str = ",") -> str:
    lines = [delimiter.join(("r", "b", "home", "sex", "age"))]
    for b, h, s, a in people:
        names = [SCHEMA.attributes[i].levels[v] for i, v in enumerate((h, s, a))]
        lines.append(delimiter.join([b[0], b, *names]))
    return "\n".join(lines) + "\n"


def counted(e: Extract) -> Counter[Person]:
    p = e.persons.open("comparison with what was written")
    codes = as_text(e.blocks.fields["Block"])
    out: Counter[Person] = Counter()
    for b, c, n in zip(p.block, p.cell, p.count, strict=True):
        out[(str(codes[b]), *(int(i) for i in np.unravel_index(c, SCHEMA.shape)))] += int(n)
    return out


def reading(path: Path, **columns: Any) -> Extract:
    return read("table", [path], SCHEMA, columns={"geography": GEOGRAPHY, **columns})


@settings(deadline=None)
@given(people=persons, delimiter=st.sampled_from([",", ";", "\t", "|"]))
def test_the_records_come_back(
    tmp_path_factory: pytest.TempPathFactory, people: list[Person], delimiter: str
) -> None:
    path = tmp_path_factory.mktemp("t") / "people.csv"
    path.write_text(csv_of(people, delimiter), encoding="utf-8")
    e = reading(path)
    assert counted(e) == Counter(people)
    assert as_text(e.blocks.fields["Block"]).tolist() == sorted({p[0] for p in people})
    assert as_text(e.blocks.fields["Region"]).tolist() == [
        b[0] for b in as_text(e.blocks.fields["Block"]).tolist()
    ]
    assert e.blocks.structures is None
    assert e.others == {}


PEOPLE: list[Person] = [
    ("A1", 0, 1, 0),
    ("A1", 0, 1, 0),
    ("B1", 1, 0, 2),
    ("A2", 0, 0, 1),
    ("B2", 1, 1, 1),
]


def test_every_form_of_a_table_gives_the_same(tmp_path: Path) -> None:
    labels = [[SCHEMA.attributes[i].levels[p[i + 1]] for p in PEOPLE] for i in range(3)]
    columns = {"r": [p[0][0] for p in PEOPLE], "b": [p[0] for p in PEOPLE]}
    pq.write_table(
        pa.table(columns | dict(zip(("home", "sex", "age"), labels, strict=True))),
        tmp_path / "a.parquet",
    )
    codes = {n: [p[i + 1] for p in PEOPLE] for i, n in enumerate(("home", "sex", "age"))}
    pq.write_table(pa.table(columns | codes), tmp_path / "b.parquet", row_group_size=2)
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(csv_of(PEOPLE).encode()))
    (tmp_path / "d.csv").write_text(
        "\ufeff" + csv_of(PEOPLE).replace("A1", '"A1"'), encoding="utf-8"
    )
    for name in ("a.parquet", "b.parquet", "c.csv.gz", "d.csv"):
        assert counted(reading(tmp_path / name)) == Counter(PEOPLE), name


def test_counts_codes_and_other_names_of_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "r,b,h,x,age,n\nA,A1,0,W,0-17,2\nA,A2,0,M,18-64,1\nB,B1,1,W,65+,0\nB,B2,1,M,65+,7\n"
    )
    e = read(
        "table",
        [tmp_path],
        SCHEMA,
        columns={
            "geography": GEOGRAPHY,
            "attributes": {"home": "h", "sex": "x"},
            "codes": {"sex": {"W": "f", "M": "m"}},
            "count": "n",
        },
    )
    assert counted(e) == {("A1", 0, 0, 0): 2, ("A2", 0, 1, 1): 1, ("B2", 1, 1, 2): 7}
    assert as_text(e.blocks.fields["Block"]).tolist() == [
        "A1",
        "A2",
        "B1",
        "B2",
    ]  # B1 is known, and empty


def test_housing_units_make_structures(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "r,b,home,sex,age,n,u\nA,A1,household,f,65+,2,5\nA,A1,dormitory,f,65+,2,5\nA,A2,household,m,65+,0,3\n"
        "B,B1,dormitory,m,65+,3,0\nB,B2,dormitory,m,65+,0,0\n"
    )
    e = reading(tmp_path / "t.csv", count="n", housing_units="u")
    assert e.blocks.structures is not None
    assert e.blocks.structures.tolist() == [[5, 1], [3, 0], [0, 1], [0, 0]]


def test_levels_are_listed_from_the_top_down(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(csv_of(PEOPLE))
    with pytest.raises(
        InputError, match=r"Region 'A' is in Block 'A\d' .*\n.*list levels from the top down"
    ):
        read("table", [tmp_path], SCHEMA, columns={"geography": dict(reversed(GEOGRAPHY.items()))})


def test_batches_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = [(f"A{i % 50}", i % 2, i % 2, 1 + i % 2) for i in range(400)]
    (tmp_path / "t.csv").write_text(csv_of(people))
    monkeypatch.setattr(table, "MERGE", 3)
    monkeypatch.setattr(rows, "batches", lambda m, layout: _small(m, layout))
    assert counted(reading(tmp_path / "t.csv")) == Counter(people)


def _small(member: Any, layout: Any) -> Any:
    from das.files.readers.source import batches

    return batches(member, layout, block_size=256)


HEAD = "r,b,home,sex,age\n"
GOOD = "A,A1,household,f,0-17\n"
REFUSED: dict[str, tuple[str, str]] = {
    "label": (
        HEAD + GOOD + "A,A1,household,x,0-17\n",
        r"t.csv, line 3: sex has a value that is no level of it\n.*use f, m",
    ),
    "label and number": (
        HEAD + GOOD + "A,A1,household,1,0-17\n",
        r"line 3: sex has a value that is no level",
    ),
    "number": (
        HEAD + "A,A1,household,2,0-17\n",
        r"line 2: sex has a value that is no level of it\n.*use 0, 1",
    ),
    "empty value": (
        HEAD + GOOD + "A,A1,,f,0-17\n",
        (
            r"line 3: values are missing: home in 1 of 2 rows\n.*add a level such as \"unknown\" to"
            r" home"
        ),
    ),
    "empty code": (
        HEAD + GOOD + "A,,household,f,0-17\n",
        r"line 3: values are missing: b in 1 of 2 rows\n.*place of their own",
    ),
    "fields": (HEAD + GOOD + "A,A1,household,f\n", r"line 3: 4 fields separated by ',', where 5"),
    "no column": ("r,b,home,age\n", r"has no column 'sex'\n.*its columns are 'r', 'b'"),
    "two columns": ("r,b,home,sex,sex,age\n", r"two columns have the same name"),
    "two parents": (
        HEAD + GOOD + "B,A1,household,f,0-17\n",
        r"Block 'A1' is in Region '[AB]' and in Region '[AB]'",
    ),
    "impossible": (
        HEAD + GOOD + "A,A1,dormitory,f,0-17\n",
        (
            r"Region A, Block A1: 1 of the records have combinations that cannot occur in schema '[^x]*;"
            r" this is the place of the first"
        ),
    ),
    "no records": (HEAD, r"has no records"),
    "empty": ("", r"the file is empty"),
    "latin-1": (
        HEAD + "A,Ä1,household,f,0-17\n",
        r"t.csv, line 2: is not utf-8: the bytes c4 mean nothing .*\n.*encoding = \"latin-1\"",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_tables_are_refused(tmp_path: Path, name: str) -> None:
    text, message = REFUSED[name]
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=message):
        reading(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["A,A1,household,f,0-17,x,1"], r"line 2: n is not a whole number"),
        (["A,A1,household,f,0-17,1,1", "A,A1,household,f,0-17,-2,1"], r"line 3: n is negative"),
        (["A,A1,household,f,0-17,1,-1"], r"line 2: u is negative"),
        (
            ["A,A1,household,f,0-17,1,1", "A,A1,household,m,0-17,1,2"],
            r"'A1' has two different numbers of housing",
        ),
        (["A,A1,household,f,0-17,1,0"], r"'A1' has people in households, but no housing unit"),
    ],
)
def test_bad_numbers_are_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["r,b,home,sex,age,n,u", *rows]) + "\n")
    with pytest.raises(InputError, match=message):
        reading(tmp_path / "t.csv", count="n", housing_units="u")


def test_bad_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {"r": ["A", "A"], "b": ["A1", "A2"], "home": [0, 0], "sex": [0, None], "age": [0, 1]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(
        InputError, match=r"t.parquet, row 2: values are missing: sex in 1 of 2 rows"
    ):
        reading(path)
    pq.write_table(pa.table(columns | {"sex": [0, 1], "age": [0, 5]}), path)
    with pytest.raises(InputError, match=r"t.parquet, row 2: age has a value that is no level"):
        reading(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"t.parquet: is not a Parquet file"):
        reading(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, r"needs to know which columns"),
        ({"geography": GEOGRAPHY, "weight": "w"}, r"unknown key 'weight'"),
        ({"geography": GEOGRAPHY, "attributes": {"race": "x"}}, r"no attribute 'race'"),
        ({"geography": GEOGRAPHY, "codes": {"race": {}}}, r"no attribute 'race'"),
        ({"geography": GEOGRAPHY, "codes": {"sex": {"W": "w"}}}, r"'sex' has no level 'w'"),
    ],
)
def test_a_mapping_that_does_not_fit_the_schema_is_refused(
    tmp_path: Path, columns: Any, message: str
) -> None:
    (tmp_path / "t.csv").write_text(csv_of(PEOPLE))
    with pytest.raises(SpecError, match=message):
        read("table", [tmp_path], SCHEMA, columns=columns)


def test_housing_units_need_a_schema_with_dwellings(tmp_path: Path) -> None:
    plain = Schema("plain", SCHEMA.attributes[1:])
    with pytest.raises(UserError, match="housing units need a schema"):
        read("table", [tmp_path], plain, columns={"geography": GEOGRAPHY, "housing_units": "u"})


# --- codes, areas, missing values, encodings
# -----------------------------------------------------------------------------


def test_codes_that_are_unique_within_their_parent_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + "A,1,household,f,65+\nB,1,household,m,65+\nA,1,household,f,65+\n")
    with pytest.raises(InputError, match=r"unique_within_parent = true"):
        reading(path)
    e = reading(path, unique_within_parent=True)
    assert counted(e) == {("A-1", 0, 0, 2): 2, ("B-1", 0, 1, 2): 1}
    assert as_text(e.blocks.fields["Region"]).tolist() == ["A", "B"]


def test_codes_that_cannot_be_told_apart_when_put_together_are_refused(tmp_path: Path) -> None:
    """A-1 with 2 and A with 1-2 would be one place."""
    (tmp_path / "t.csv").write_text(HEAD + "A-1,2,household,f,65+\nA,1-2,household,m,65+\n")
    with pytest.raises(
        InputError, match=r"Block 'A-1-2' is in Region 'A(-1)?' and in Region 'A(-1)?'"
    ):
        reading(tmp_path / "t.csv", unique_within_parent=True)


def test_an_area_is_made_of_whole_places(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "A,A1,household,f,65+,east\nA,A2,household,f,65+,\nB,B1,household,m,65+,east\n"
    path.write_text(HEAD.replace("\n", ",seat\n") + rows)
    e = reading(path, areas={"Seat": "seat"})
    assert as_text(e.blocks.fields["Seat"]).tolist() == ["east", "", "east"]  # blank: in none
    path.write_text(path.read_text() + "B,B1,household,m,65+,west\n")
    with pytest.raises(
        InputError, match=r"Block 'B1' is in Seat '\w+' and in Seat '\w+'\n.*whole places"
    ):
        reading(path, areas={"Seat": "seat"})
    with pytest.raises(SpecError, match="'Region' is a level already"):
        reading(path, areas={"Region": "seat"})


def test_missing_values_are_counted_over_all_files_or_have_a_level(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(
            HEAD + "A,A1,household,,65+\n" + "A,A1,household,f,\n" * 2 + GOOD
        )
    with pytest.raises(
        InputError,
        match=r"a.csv, line 2: values are missing: sex in 2 of 8 rows; age in 4 of 8 rows\n"
        r'.*add a level such as "unknown" to sex in the schema, and say data.columns.missing',
    ):
        reading(tmp_path)
    e = reading(tmp_path, missing={"sex": "m", "age": "65+"})
    assert counted(e) == {("A1", 0, 1, 2): 2, ("A1", 0, 0, 2): 4, ("A1", 0, 0, 0): 2}
    with pytest.raises(SpecError, match=r"data.columns.missing.sex: 'sex' has no level 'x'"):
        reading(tmp_path, missing={"sex": "x"})


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8"])
def test_a_text_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + "Ä,Ä1,household,f,65+\n", encoding=encoding)
    e = read("table", [path], SCHEMA, columns={"geography": GEOGRAPHY}, encoding=encoding)
    assert counted(e) == {("Ä1", 0, 0, 2): 1}
    if encoding != "utf-8":
        with pytest.raises(InputError, match='encoding = "'):
            reading(path)


@pytest.mark.parametrize(
    "key, value",
    [
        ("count", 3),
        ("geography", "b"),
        ("codes", {"sex": "f"}),
        ("missing", ["sex"]),
        ("unique_within_parent", "yes"),
        ("areas", {"Seat": 1}),
    ],
)
def test_a_key_of_another_kind_is_refused(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / "t.csv").write_text(HEAD + GOOD)
    with pytest.raises(SpecError, match=rf"data.columns.{key}: .* is not "):
        (
            reading(tmp_path / "t.csv", **{key: value})
            if key != "geography"
            else read("table", [tmp_path / "t.csv"], SCHEMA, columns={key: value})
        )


def test_names_of_places_are_a_column(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        "r,b,seat,called,votes,home,sex,age\nN,N1,s,Año,South,0,0,0\nN,N2,t,,North,0,0,0\nS,S1,s,B,South,0,0,0\n"
    )
    columns = {"areas": {"Seat": "seat"}, "names": {"Block": "called", "Seat": "votes"}}
    names = reading(path, **columns).blocks.names
    assert names["Block"].at(np.array(["N1", "N2", "S1"])).tolist() == ["Año", "", "B"]
    assert names["Seat"].at(np.array(["s", "t"])).tolist() == ["South", "North"]
    path.write_text(path.read_text() + "N,N1,s,Ano,South,0,0,0\n")
    with pytest.raises(InputError, match=r"Block N1 is called 'A.o' and 'A.o'"):
        reading(path, **columns)
    with pytest.raises(SpecError, match=r"'Ward' is neither a level nor a kind of area"):
        reading(path, names={"Ward": "called"})


# --- a table of all places
# -----------------------------------------------------------------------------

PLACES = "r,b,seat,called\nA,A1,east,Aone\nA,A2,west,Atwo\nB,B1,west,Bone\n"
OF_PLACES = {"areas": {"Seat": "seat"}, "names": {"Block": "called"}}


def placed(tmp_path: Path, people: str, places: str = PLACES, **columns: Any) -> Extract:
    (tmp_path / "t.csv").write_text(people)
    (tmp_path / "places.csv").write_text(places)
    given = {"geography": GEOGRAPHY, **OF_PLACES, **columns}
    return read(
        "table", [tmp_path / "t.csv"], SCHEMA, columns=given, places=tmp_path / "places.csv"
    )


def test_places_of_their_own_table_are_those_of_rows_without_persons(tmp_path: Path) -> None:
    """The same extract as of one table with a line for each empty place; the records need the code
    of the lowest level alone."""
    e = placed(tmp_path, "b,home,sex,age\nA1,household,f,0-17\nB1,dormitory,m,18-64\n")
    lines = [
        "r,b,seat,called,home,sex,age,n",
        "A,A1,east,Aone,household,f,0-17,1",
        "A,A2,west,Atwo,household,f,0-17,0",
        "B,B1,west,Bone,dormitory,m,18-64,1",
    ]
    (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
    one = reading(tmp_path / "one.csv", count="n", **OF_PLACES)
    assert counted(e) == counted(one)
    assert {k: v.tolist() for k, v in e.blocks.fields.items()} == {
        k: v.tolist() for k, v in one.blocks.fields.items()
    }
    assert e.blocks.fields["Block"].tolist() == [b"A1", b"A2", b"B1"]
    assert e.blocks.names["Block"].at(np.array(["A1", "A2"])).tolist() == ["Aone", "Atwo"]
    assert [s.name for s in e.sources] == ["t.csv", "places.csv"]


def test_housing_units_of_places(tmp_path: Path) -> None:
    with_units = "r,b,seat,called,u\nA,A1,east,x,3\nB,B1,west,y,0\n"
    person = "b,home,sex,age\nA1,household,f,0-17\n"
    e = placed(tmp_path, person, with_units, housing_units="u")
    assert e.blocks.structures is not None
    assert e.blocks.structures[:, 0].tolist() == [3, 0]
    with pytest.raises(InputError, match="'B1' has people in households, but no housing unit"):
        placed(tmp_path, person.replace("A1", "B1"), with_units, housing_units="u")


@pytest.mark.parametrize(
    ("people", "places", "message"),
    [
        ("b,home,sex,age\nC1,household,f,0-17\n", PLACES, "'C1'.*\n.*every place in places.csv$"),
        (
            HEAD + "B,A1,household,f,0-17\n",
            PLACES,
            "Block 'A1' is in Region 'B', and in places.csv in 'A'",
        ),
        (HEAD + GOOD, "r,b\nA,A1\n", "places.csv: has no column 'seat'"),
        (HEAD + GOOD, PLACES + "B,A1,east,x\n", "'A1' is in Region"),
        (HEAD + GOOD, "r,b,seat,called\n", "places.csv: has no records"),
        ("r,home,sex,age\nA,household,f,0-17\n", PLACES, "t.csv: has no column 'b'"),
    ],
)
def test_places_that_do_not_fit_are_refused(
    tmp_path: Path, people: str, places: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        placed(tmp_path, people, places)


def test_a_table_of_places_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(csv_of(PEOPLE))
    with pytest.raises(InputError, match="there is no such table of places"):
        read(
            "table",
            [tmp_path / "t.csv"],
            SCHEMA,
            columns={"geography": GEOGRAPHY},
            places=tmp_path / "none.csv",
        )
