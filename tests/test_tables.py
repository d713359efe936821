"""Published tables: the columns, labels and cells of the official layouts, and the rows of a real
file.
"""

import csv
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import das.files.release.tables as files
from das.errors import InputError
from das.files.release.tables import read, write
from das.model.histogram import Histogram
from das.model.names import encoded, text
from das.model.redistricting import CENRACE, E2E_1940, H1, PL94
from das.model.schema import Attribute, Schema
from das.model.universe import HOUSING, PERSONS, Universe
from das.tables import Table, published, universe_tables

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("DAS_SHARED_DATA", ROOT.parent / "shared" / "data"))
RI = SHARED / "pl94_2010" / "ri" / "ri2010.pl.zip"
TOY = Schema(
    "toy", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old")))
)


def layout(name):
    path = SHARED / "layouts" / name
    if not path.exists():
        pytest.skip(f"no {name}: set DAS_SHARED_DATA to the folder of the public data")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def random_histogram(units, cells, entries, seed=0):
    rng = np.random.default_rng(seed)
    return Histogram.from_triplets(
        units,
        cells,
        rng.integers(0, units, entries),
        rng.integers(0, cells, entries),
        rng.geometric(0.3, entries),
    )


# --- layouts
# -----------------------------------------------------------------------------------------


def test_order_names_and_labels_of_2010():
    official = [
        (r["field"], r["label"].split(": ", 1)[1])
        for r in layout("pl94_2010_segment_fields.csv")
        if r["label"]
    ]
    tables = [*published(PL94)[:4], *published(H1, HOUSING)]
    assert [pair for t in tables for pair in zip(t.columns, t.labels, strict=True)] == official
    assert [len(t.columns) for t in tables] == [71, 73, 71, 73, 3]


def test_order_names_and_labels_of_p5():
    rows = [r for r in layout("pl94_2020_fields.csv") if r["field"].startswith("P005")]
    p5 = published(PL94)[4]
    assert list(p5.columns) == [r["field"] for r in rows]
    assert list(p5.labels) == [r["label"].rstrip(":") for r in rows]


def test_the_field_of_each_race():
    """The cells of a leaf column are the cells of one race, of the right origin and age."""
    by_column = {c: t.mask(j) for t in published(PL94) for j, c in enumerate(t.columns)}
    race, adult, hispanic = (PL94.level_of(a) for a in ("cenrace", "votingage", "hispanic"))
    for row in layout("cenrace63_to_pl94.csv"):
        of_race = race == int(row["index0"])
        expected = {
            "p1_total": of_race,
            "p2_nonhispanic": of_race & (hispanic == 0),
            "p3_18plus_total": of_race & (adult == 1),
            "p4_18plus_nonhispanic": of_race & (adult == 1) & (hispanic == 0),
        }
        for table, mask in expected.items():
            assert np.array_equal(by_column[row[table]], mask), (row["cenrace"], table)


# --- identities that hold without any file
# -----------------------------------------------------------


def test_subtotals_of_the_redistricting_tables():
    tables = {t.name: dict(zip(t.columns, t.values(H).T, strict=True)) for t in published(PL94)}
    for name, first in (("P1", 1), ("P3", 1), ("P2", 3), ("P4", 3)):

        def at(number, name=name):
            return tables[name][f"P{int(name[1]):03d}{number:04d}"]

        one, singles = first + 1, range(first + 2, first + 8)
        more, heads, sizes = first + 8, [first + 9], [15, 20, 15, 6, 1]
        for n in sizes[:-1]:
            heads.append(heads[-1] + n + 1)
        assert np.array_equal(at(first), at(one) + at(more))
        assert np.array_equal(at(one), sum(at(i) for i in singles))
        assert np.array_equal(at(more), sum(at(i) for i in heads))
        for head, n in zip(heads, sizes, strict=True):
            assert np.array_equal(at(head), sum(at(head + i) for i in range(1, n + 1)))
        if first == 3:
            assert np.array_equal(at(1), at(2) + at(3))
    p5 = tables["P5"]
    assert np.array_equal(p5["P0050001"], p5["P0050002"] + p5["P0050007"])
    assert np.array_equal(tables["P1"]["P0010001"], H.totals())


H = random_histogram(7, PL94.cells, 9000)


def test_a_table_that_rests_on_an_assigned_attribute_says_so(tmp_path):
    """P5 alone tells types of group quarters apart; of any schema, whatever tells levels of the
    attribute apart.
    """
    said = {t.name: t.assigned for t in universe_tables(Universe(PERSONS, PL94), ["hhgq"])}
    assert said == {"P1": (), "P2": (), "P3": (), "P4": (), "P5": ("hhgq",)}
    toy = universe_tables(Universe(PERSONS, TOY), ["age"])
    assert [(t.name, t.assigned) for t in toy] == [
        ("T0", ()),
        ("T1", ()),
        ("T2", ("age",)),
        ("T3", ("age",)),
    ]
    assert toy[2].title == f"{published(TOY)[2].title} (NOT COUNTED: age assigned)"
    h, codes = random_histogram(3, TOY.cells, 20), encoded(["1", "2", "3"])
    write(tmp_path, "Block", codes, toy, h, private=False)
    assert (
        (tmp_path / "T2_Block.csv").read_text().splitlines()[0].endswith(",NOT COUNTED,NOT PRIVATE")
    )
    assert (
        read(tmp_path / "T2_Block.csv").columns == toy[2].columns
    )  # what is read is the table alone
    assert "NOT COUNTED" not in (tmp_path / "T1_Block.csv").read_text()


def test_values_by_hand():
    """One nursing-home resident, adult, Hispanic, White and Asian; two children in a household,
    Black.
    """
    cell = np.ravel_multi_index(
        ([3, 0], [1, 0], [1, 0], [CENRACE.index("White+Asian"), 1]), PL94.shape
    )
    h = Histogram.from_triplets(1, PL94.cells, np.zeros(2, int), cell, np.array([1, 2]))
    shown = {
        c: v
        for t in published(PL94)
        for c, v in zip(t.columns, t.values(h)[0].tolist(), strict=True)
        if v
    }
    assert shown == {
        "P0010001": 3,
        "P0010002": 2,
        "P0010004": 2,
        "P0010009": 1,
        "P0010010": 1,
        "P0010013": 1,
        "P0020001": 3,
        "P0020002": 1,
        "P0020003": 2,
        "P0020004": 2,
        "P0020006": 2,
        "P0030001": 1,
        "P0030009": 1,
        "P0030010": 1,
        "P0030013": 1,
        "P0040001": 1,
        "P0040002": 1,
        "P0050001": 1,
        "P0050002": 1,
        "P0050005": 1,
    }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=6, max_size=6), min_size=1, max_size=5), st.data()
)
def test_values_are_the_dense_product(rows, data):
    """Columns are boxes, or several boxes, and each counts; the query has only the answers that it
    needs.
    """
    dense = np.array(rows, dtype=np.int64)
    box = st.tuples(
        *(st.lists(st.booleans(), min_size=n, max_size=n).map(np.array) for n in TOY.shape)
    )
    lines = data.draw(st.lists(st.lists(box, min_size=1, max_size=2), min_size=1, max_size=4))
    table = Table.from_lines(
        "T9", "any", TOY, [(f"line {i}", boxes) for i, boxes in enumerate(lines)]
    )
    unit, cell = np.nonzero(dense)
    h = Histogram.from_triplets(len(rows), 6, unit, cell, dense[unit, cell])
    times = np.array([sum(np.outer(*b).ravel().astype(np.int64) for b in boxes) for boxes in lines])
    values = table.values(h)
    assert values.dtype == np.int64
    assert np.array_equal(values, dense @ times.T)
    for j in range(len(lines)):
        assert np.array_equal(table.mask(j), times[j] > 0)
        assert table.repeats(j) == (times[j] > 1).any()
    patterns = [
        {tuple(b[i][level] for boxes in lines for b in boxes) for level in range(n)}
        for i, n in enumerate(TOY.shape)
    ]
    assert table.query.shape == tuple(map(len, patterns))


def test_group_quarters_by_type():
    """Ten to the power of its type in each type of quarters, and a hundred million in
    households.
    """
    cell = np.ravel_multi_index((np.arange(8), 1, 0, 0), PL94.shape)
    h = Histogram.from_triplets(
        1, PL94.cells, np.zeros(8, int), cell, np.array([10**8, *(10**i for i in range(1, 8))])
    )
    p5 = published(PL94)[4].values(h)[0].tolist()
    assert p5 == [11111110, 11110, 10, 100, 1000, 10000, 11100000, 10**5, 10**6, 10**7]


def test_other_schemas():
    total, sex, age, cross = published(TOY)
    assert [t.name for t in (total, sex, age, cross)] == ["T0", "T1", "T2", "T3"]
    assert (total.columns, total.labels) == (("T0000001",), ("Total",))
    assert (sex.columns, sex.labels) == (("T0010001", "T0010002"), ("male", "female"))
    assert cross.title == "sex by age"
    assert cross.labels[:2] == ("male; young", "male; middle")
    dense = np.arange(6, dtype=np.int64)[None]
    h = Histogram.from_triplets(1, 6, np.zeros(6, int), np.arange(6), dense[0])
    assert [t.values(h).tolist() for t in (total, sex, age, cross)] == [
        [[15]],
        [[3, 12]],
        [[3, 5, 7]],
        dense.tolist(),
    ]
    assert [t.name for t in published(TOY, HOUSING)] == ["U0", "U1", "U2", "U3"]


def test_the_full_cross_has_at_most_a_thousand_cells():
    assert len(published(E2E_1940)[-1].columns) == 192
    wide = Schema(
        "wide",
        (Attribute("a", tuple(map(str, range(77)))), Attribute("b", tuple(map(str, range(13))))),
    )
    assert [len(t.columns) for t in published(wide)] == [1, 77, 13]
    one = Schema("one", (Attribute("a", ("x", "y")),))
    assert [len(t.columns) for t in published(one)] == [1, 2]


def test_refusals():
    with pytest.raises(InputError, match="the histogram has 6 cells, the table 2016"):
        published(PL94)[0].values(random_histogram(2, 6, 9))
    good = published(TOY)[1]
    with pytest.raises(InputError, match="differ in number"):
        Table("T1", "", good.columns, ("male",), good.query, good.indptr, good.answer)
    with pytest.raises(InputError, match="same name"):
        Table("T1", "", ("a", "a"), good.labels, good.query, good.indptr, good.answer)


# --- a real file
# -------------------------------------------------------------------------------------


def official_rows(levels=("040", "050", "140", "150", "750")):
    """P1 to P4 and H1 of Rhode Island 2010 in file order, for the levels of the spine; ``(units,
    291)``.
    """
    if not RI.exists():
        pytest.skip(
            "no Rhode Island 2010 file: set DAS_SHARED_DATA to the folder of the public data"
        )
    with zipfile.ZipFile(RI) as z:
        geo = z.read("rigeo2010.pl").decode("latin-1").splitlines()
        parts = [pd.read_csv(z.open(f"ri0000{i}2010.pl"), header=None) for i in (1, 2)]
    kept = [line[8:11] in levels and line[11:13] == "00" for line in geo]
    return np.concatenate([part.iloc[kept, 5:].to_numpy(np.int64) for part in parts], axis=1)


def test_a_histogram_recovered_from_a_real_file_gives_its_rows_back():
    """From the 252 leaves of P1 to P4 alone, all 291 fields of all 26,246 rows."""
    rows = official_rows()
    names = [c for t in [*published(PL94)[:4], *published(H1, HOUSING)] for c in t.columns]
    place = {n: i for i, n in enumerate(names)}
    p1, p2, p3, p4 = (
        np.stack([rows[:, place[r[k]]] for r in layout("cenrace63_to_pl94.csv")], axis=1)
        for k in ("p1_total", "p2_nonhispanic", "p3_18plus_total", "p4_18plus_nonhispanic")
    )
    # (votingage, hispanic) -> race counts, all of them in households
    boxes = {(1, 0): p4, (1, 1): p3 - p4, (0, 0): p2 - p4, (0, 1): p1 - p2 - p3 + p4}
    triplets = []
    for (adult, hispanic), counts in boxes.items():
        unit, race = np.nonzero(counts)
        cell = np.ravel_multi_index(
            (0 * race, adult + 0 * race, hispanic + 0 * race, race), PL94.shape
        )
        triplets.append((unit, cell, counts[unit, race]))
    h = Histogram.from_triplets(
        len(rows), PL94.cells, *(np.concatenate(x) for x in zip(*triplets, strict=True))
    )
    units = rows[:, [place["H0010003"], place["H0010002"]]]
    at = np.nonzero(units)
    h1 = Histogram.from_triplets(len(rows), 2, *at, units[at])
    values = [t.values(h) for t in published(PL94)[:4]] + [
        t.values(h1) for t in published(H1, HOUSING)
    ]
    assert len(rows) == 26246
    assert np.array_equal(np.concatenate(values, axis=1), rows)


# --- files
# -------------------------------------------------------------------------------------------

CODES = encoded([f"440070{i:010d}" for i in range(7)])


def test_files_have_header_and_rows(tmp_path):
    paths = write(tmp_path / "tables", "Block", CODES, published(PL94), H, batch=150)
    assert [p.name for p in paths] == [f"P{i}_Block.csv" for i in range(1, 6)]
    with paths[0].open(newline="") as file:
        rows = list(csv.reader(file))
    p1 = published(PL94)[0]
    assert rows[0] == ["GEOCODE", *p1.columns]
    assert [r[0] for r in rows[1:]] == text(CODES).tolist()
    assert np.array_equal(np.array([r[1:] for r in rows[1:]], dtype=np.int64), p1.values(H))
    assert paths[0].read_text().splitlines()[1].startswith("4400700000000000,")
    back = read(paths[0])
    assert np.array_equal(back.values, p1.values(H))
    assert (back.codes.tolist(), back.columns) == (CODES.tolist(), p1.columns)
    for path, table in zip(paths, published(PL94), strict=True):
        assert np.array_equal(read(path).values, table.values(H))


def test_a_failure_changes_no_table(tmp_path, monkeypatch):
    tables, old, new = (
        published(TOY),
        random_histogram(7, 6, 60),
        random_histogram(7, 6, 60, seed=1),
    )
    write(tmp_path, "Block", CODES, tables, old)
    good = files.write_lines

    def failing(file, table, *rest, **options):
        good(file, table, *rest, **options)
        if table.name == "T2":
            raise OSError("disk full")

    monkeypatch.setattr(files, "write_lines", failing)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path, "Block", CODES, tables, new)
    for table in tables:
        assert np.array_equal(read(tmp_path / f"{table.name}_Block.csv").values, table.values(old))
    assert len(list(tmp_path.iterdir())) == len(tables)


def test_file_refusals(tmp_path):
    h = random_histogram(7, 6, 60)
    with pytest.raises(InputError, match="6 codes for 7 units"):
        write(tmp_path, "Block", CODES[:6], published(TOY), h)
    awkward = CODES.copy()
    awkward[2] = b"a,b"
    with pytest.raises(InputError, match="a code cannot stand in a CSV file"):
        write(tmp_path, "Block", awkward, published(TOY), h)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="not readable"):
        read(tmp_path / "T0_Block.csv")
    for wrong in (
        "GEOCODE,T0000001\n44,x\n",
        "GEOCODE,T0000001\n44\n",
        "",
        "T0000001\n4\n",
        "GEOCODE,T0000001\n44,\n",
    ):
        (tmp_path / "T0_Block.csv").write_text(wrong)
        with pytest.raises(InputError, match=r"T0_Block\.csv"):
            read(tmp_path / "T0_Block.csv")
