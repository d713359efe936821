"""The 1940 reader against a reader of one line at a time, and every check tripped."""

from __future__ import annotations

import gzip
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.files.readers import ext1940
from das.model.confidential import Confidential
from das.model.names import text as as_text
from das.model.records import Extract
from das.model.redistricting import E2E_1940, PL94
from tests.told import Told

CELLS = E2E_1940.cells


def line(kind: str, width: int, fields: dict[int, str]) -> str:
    """A record with ``fields`` written at their first column (from 1) over a filling that means
    nothing.
    """
    text = list(kind + "7" * (width - 1))
    for column, value in fields.items():
        text[column - 1 : column - 1 + len(value)] = value
    return "".join(text)


def household(
    serial: int = 1,
    persons: int = 1,
    state: int = 44,
    county: int = 70,
    district: int = 12,
    supdist: int = 3,
    gq: int = 1,
    gqtype: int = 0,
) -> str:
    return line(
        "H",
        159,
        {
            8: f"{serial:08d}",
            16: f"{persons:02d}",
            54: f"{state:02d}",
            56: f"{county:04d}",
            94: str(gq),
            95: str(gqtype),
            125: f"{district:04d}",
            129: f"{supdist:03d}",
        },
    )


def person(serial: int = 1, age: int | str = 30, race: int = 1, hispan: int = 0) -> str:
    age = f"{age:03d}" if isinstance(age, int) else age
    return line("P", 273, {8: f"{serial:08d}", 74: age, 85: str(race), 89: str(hispan)})


def read(text: str | bytes, folder: Path, name: str = "x.dat", **options: object) -> Extract:
    data = text.encode("latin-1") if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return ext1940.read([path], E2E_1940, **options)  # type: ignore[arg-type]


def lines(*records: str) -> str:
    return "".join(r + "\n" for r in records)


def counts(extract: Extract) -> dict[tuple[str, tuple[int, ...]], int]:
    r = extract.persons.open("a test compares the reader with another")
    cells = np.stack(np.unravel_index(r.cell, E2E_1940.shape), axis=1).tolist()
    codes = as_text(extract.blocks.fields["Enumdist"])[r.block].tolist()
    total: Counter = Counter()
    for code, cell, n in zip(codes, cells, r.count.tolist(), strict=True):
        total[code, tuple(cell)] += n
    return dict(total)


@contextmanager
def chunk(size: int) -> Iterator[None]:
    before = ext1940.CHUNK
    ext1940.CHUNK = size
    try:
        yield
    finally:
        ext1940.CHUNK = before


# --- the recode
# ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gqtype, hhgq", [(0, 0), (2, 1), (3, 2), (4, 3), (6, 4), (7, 5), (8, 6), (9, 7)]
)
@pytest.mark.parametrize("gq", [1, 2, 3, 4, 5, 6])
def test_hhgq_is_a_shift_of_gqtype_whatever_gq(
    gqtype: int, hhgq: int, gq: int, tmp_path: Path
) -> None:
    extract = read(lines(household(gq=gq, gqtype=gqtype), person()), tmp_path)
    assert counts(extract) == {("4400700012", (hhgq, 1, 0, 0)): 1}
    assert extract.blocks.structures.tolist() == [[int(i == hhgq) for i in range(8)]]


@pytest.mark.parametrize(
    "age, votingage", [(0, 0), (17, 0), (18, 1), (120, 1), (" 17", 0), ("  9", 0), (" 18", 1)]
)
def test_votingage_begins_at_eighteen(age: int | str, votingage: int, tmp_path: Path) -> None:
    assert next(iter(counts(read(lines(household(), person(age=age)), tmp_path))))[1] == (
        0,
        votingage,
        0,
        0,
    )


@pytest.mark.parametrize("hispan, hispanic", [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (9, 1)])
@pytest.mark.parametrize("race", [1, 2, 3, 4, 5, 6])
def test_race_and_hispanic(hispan: int, hispanic: int, race: int, tmp_path: Path) -> None:
    extract = read(lines(household(), person(race=race, hispan=hispan)), tmp_path)
    assert next(iter(counts(extract)))[1] == (0, 1, hispanic, race - 1)


def test_places_are_complete_codes_in_order(tmp_path: Path) -> None:
    places = [(44, 70, 12, 3), (1, 10, 7, 45), (44, 70, 2, 3), (44, 10, 2, 1)]
    text = ""
    for serial, (state, county, district, supdist) in enumerate(places, start=1):
        text += lines(household(serial, 1, state, county, district, supdist), person(serial))
    blocks = read(text, tmp_path).blocks
    fields = {field: as_text(codes) for field, codes in blocks.fields.items()}
    assert fields["Enumdist"].tolist() == ["0100100007", "4400100002", "4400700002", "4400700012"]
    assert fields["County"].tolist() == ["010010", "440010", "440070", "440070"]
    assert fields["State"].tolist() == ["01", "44", "44", "44"]
    assert blocks.names["State"].at(fields["State"]).tolist() == ["Alabama", *["Rhode Island"] * 3]
    assert fields["Supdist"].tolist() == ["010010045", "440010001", "440070003", "440070003"]


def test_supdist_is_left_out_where_districts_overlap(tmp_path: Path) -> None:
    text = lines(household(1, supdist=3), person(1), household(2, supdist=4), person(2))
    assert set(read(text, tmp_path).blocks.fields) == {"State", "County", "Enumdist"}


def test_vacant_units_are_housing_units_and_their_districts_are_places(tmp_path: Path) -> None:
    text = lines(
        household(1, 0, district=5, gq=0),
        household(2, 0, district=6, gq=0),
        household(3, 1, district=6),
        person(3),
    )
    extract = read(text, tmp_path)
    assert as_text(extract.blocks.fields["Enumdist"]).tolist() == ["4400700005", "4400700006"]
    assert extract.blocks.structures[:, 0].tolist() == [1, 2]
    assert counts(extract) == {("4400700006", (0, 1, 0, 0)): 1}
    assert extract.others == {}


def test_records_are_sealed(tmp_path: Path) -> None:
    extract = read(lines(household(), person()), tmp_path)
    assert isinstance(extract.persons, Confidential)
    assert extract.sources[0].name == "x.dat"


# --- against a reader of one line at a time
# ------------------------------------------------------------

people = st.lists(
    st.tuples(st.integers(0, 120), st.integers(1, 6), st.sampled_from([0, 0, 1, 4, 9])),
    min_size=0,
    max_size=5,
)
homes = st.lists(
    st.tuples(
        st.sampled_from([1, 44]),
        st.sampled_from([10, 20]),
        st.integers(1, 3),
        st.sampled_from("02346789"),
        people,
    ),
    min_size=1,
    max_size=12,
)


def one_line_at_a_time(text: str) -> tuple[dict, dict]:
    persons, structures, where, kind = Counter(), Counter(), "", 0
    for record in text.splitlines():
        if record[0] == "H":
            where = record[53:59] + record[124:128]
            kind = {"0": 0, "2": 1, "3": 2, "4": 3, "6": 4, "7": 5, "8": 6, "9": 7}[record[94]]
            structures[where, kind] += 1
        else:
            adult, hispanic = int(record[73:76]) >= 18, int(record[88]) > 0
            persons[where, (kind, int(adult), int(hispanic), int(record[84]) - 1)] += 1
    return dict(persons), dict(structures)


@settings(max_examples=60, deadline=None)
@given(
    homes=homes,
    size=st.sampled_from([1, 7, 160, 433, 1000, 1 << 20]),
    padded=st.booleans(),
    crlf=st.booleans(),
    ended=st.booleans(),
    suffix=st.sampled_from([".dat", ".dat.gz"]),
)
def test_agrees_with_one_line_at_a_time(
    homes, size: int, padded: bool, crlf: bool, ended: bool, suffix: str
) -> None:
    records = []
    for serial, (state, county, district, kind, inside) in enumerate(homes, start=1):
        gq = (1 if kind == "0" else 4) if inside else 0
        kind = int(kind) if inside else 0
        h = household(serial, len(inside), state, county, district, district, gq, kind)
        records.append(h.ljust(273) if padded and serial % 2 else h)
        records += [person(serial, *p) for p in inside]
    end = "\r\n" if crlf else "\n"
    text = end.join(records) + (end if ended else "")
    with tempfile.TemporaryDirectory() as folder, chunk(size):
        extract = read(text, Path(folder), "x" + suffix)
    persons, structures = one_line_at_a_time(text)
    assert counts(extract) == persons
    codes = as_text(extract.blocks.fields["Enumdist"]).tolist()
    assert codes == sorted({code for code, _ in structures})
    expected = [[structures.get((code, k), 0) for k in range(8)] for code in codes]
    assert extract.blocks.structures.tolist() == expected


def test_several_files_are_one_nation_and_merging_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ext1940, "MERGE", 0)
    monkeypatch.setattr(ext1940, "CHUNK", 500)
    folder = tmp_path / "in"
    folder.mkdir()
    one = lines(
        *(
            r
            for i in range(1, 20)
            for r in (household(i, 1, district=i % 4), person(i, race=1 + i % 6))
        )
    )
    two = lines(
        *(
            r
            for i in range(50, 60)
            for r in (household(i, 1, district=i % 4), person(i, age=i - 40))
        )
    )
    (folder / "a.dat").write_text(one)
    (folder / "b.dat.gz").write_bytes(gzip.compress(two.encode()))
    (folder / "README.txt").write_text("not data")
    extract = ext1940.read([folder], E2E_1940)
    assert counts(extract) == one_line_at_a_time(one + two)[0]
    assert [s.name for s in extract.sources] == ["a.dat", "b.dat.gz"]


def test_progress_goes_up_to_the_size_of_the_file(tmp_path: Path) -> None:
    told = Told()
    text = lines(*(r for i in range(1, 30) for r in (household(i), person(i))))
    with chunk(2000):
        read(text, tmp_path, progress=told)
    assert told.stages == [("read x.dat", len(text), len(text))]


def test_memory_is_bounded_by_the_chunk_and_not_by_the_file(tmp_path: Path) -> None:
    text = lines(household(1, 50), *[person(1)] * 50) * 600  # 8 MB; a serial number may come again
    with chunk(1 << 18):
        tracemalloc.start()
        read(text, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert len(text) > 8_000_000
    assert peak < 3_000_000 + len(
        text
    )  # the text itself is held by this test, and written as bytes


# --- failure paths
# --------------------------------------------------------------------------------------

GOOD = lines(household(1, 2), person(1), person(1))


@pytest.mark.parametrize(
    "bad, number, message",
    [
        (household(2, 1), 4, "NUMPREC is not the number of person records"),
        (
            lines(household(2, 1), person(2), person(2)),
            4,
            "NUMPREC is not the number of person records",
        ),
        (lines(household(2, 1), person(3)), 5, "SERIAL is not that of the household above"),
        (lines(household(2, 1), person(2, race=0)), 5, "RACE is not 1 to 6"),
        (lines(household(2, 1), person(2, race=7)), 5, "RACE is not 1 to 6"),
        (lines(household(2, 1), person(2, hispan=5)), 5, "HISPAN is not 0 to 4 or 9"),
        (lines(household(2, 1), person(2, age=121)), 5, "AGE is more than 120"),
        (lines(household(2, 1), person(2, age="3x0")), 5, "AGE is not a number"),
        (lines(household(2, 1), person(2, age="   ")), 5, "AGE is not a number"),
        (lines(household(2, 1), person(2, age="3 0")), 5, "AGE is not a number"),
        (lines(household(2, 1), person(2, age="30 ")), 5, "AGE is not a number"),
        (lines(household(2, 1, gq=7), person(2)), 4, "GQ is not 0 to 6"),
        (lines(household(2, 1, gq=3, gqtype=1), person(2)), 4, "GQTYPE does not occur in 1940"),
        (lines(household(2, 1, gq=4, gqtype=5), person(2)), 4, "GQTYPE does not occur in 1940"),
        (lines(household(2, 1, gq=0), person(2)), 4, r"a vacant unit \(GQ 0\) with persons"),
        (household(2, 0, gq=0, gqtype=7), 4, "a vacant unit .* that is group quarters"),
        (household(2, 0, gq=1), 4, "an occupied housing unit, without persons"),
        (household(2, 0, gq=4, gqtype=7), 4, "group quarters, or .* without persons"),
        (household(2, 0)[:-1], 4, "type H does not have the 159"),
        (household(2, 0) + "7" * 114, 4, "goes on after column 159"),
        (lines(household(2, 1), person(2)[:-1]), 5, "type P does not have the 273"),
        (lines(household(2, 1), person(2) + " "), 5, "type P does not have the 273"),
        (lines(household(2, 1), "Q" + person(2)[1:]), 5, "begins with neither H nor P"),
        ("\n", 4, "an empty line"),
    ],
)
@pytest.mark.parametrize("size", [300, 1 << 20])
def test_what_is_wrong_is_named_with_its_line(
    bad: str, number: int, message: str, size: int, tmp_path: Path
) -> None:
    with chunk(size), pytest.raises(InputError, match=message) as caught:
        read(GOOD + bad, tmp_path)
    assert str(caught.value).startswith(f"x.dat, line {number}: ")


@pytest.mark.parametrize(
    "text, message",
    [
        (person(), "a person before the first household"),
        ("YEAR,SERIAL,AGE\n1940,1,30\n", "line 1: the line begins with neither H nor P"),
        (GOOD.encode("utf-16"), "line 1: the line begins with neither"),
        (b"\xef\xbb\xbf" + GOOD.encode(), "line 1: the line begins with neither"),
        (
            lines(household(1, 2), person(1)) + person(1)[:200],
            "line 3: a record of type P does not have the 273",
        ),
        ("H" + "0" * (2 << 20), "no line ends"),
        (
            lines(household(1, 99), *[person(1)] * 4000),
            "NUMPREC is not the number of person records",
        ),
        (b"", "empty"),
    ],
)
def test_other_files_are_refused(text: str | bytes, message: str, tmp_path: Path) -> None:
    with chunk(1 << 20), pytest.raises(InputError, match=message):
        read(text, tmp_path)


def test_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(GOOD.encode() * 50)
    for name, data in {
        "cut": whole[:-20],
        "flipped": whole[:40] + b"\0\0\0\0" + whole[44:],
        "none": GOOD.encode(),
    }.items():
        path = tmp_path / f"{name}.dat.gz"
        path.write_bytes(data)
        with pytest.raises(InputError, match=f"{name}.dat.gz"):
            ext1940.read([path], E2E_1940)
    (tmp_path / "nothing.dat.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match="no records"):
        ext1940.read([tmp_path / "nothing.dat.gz"], E2E_1940)


def test_paths_without_data_and_data_given_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        ext1940.read([tmp_path / "absent.dat"], E2E_1940)
    with pytest.raises(InputError, match="no input files"):
        ext1940.read([], E2E_1940)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README").write_text("nothing")
    with pytest.raises(InputError, match=r"holds no \.dat"):
        ext1940.read([tmp_path / "empty"], E2E_1940)
    for name in ("a.dat", "b.dat"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(InputError, match="given twice"):
        ext1940.read([tmp_path / "a.dat", tmp_path / "a.dat"], E2E_1940)
    with pytest.raises(InputError, match="two of the files are the same"):
        ext1940.read([tmp_path / "a.dat", tmp_path / "b.dat"], E2E_1940)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_text(GOOD)
    with pytest.raises(InputError, match="schema '1940-e2e', not 'pl94'"):
        ext1940.read([tmp_path / "x.dat"], PL94)
