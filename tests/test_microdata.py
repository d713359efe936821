# ruff: noqa: SIM300 (column names in capitals are not constants)
"""Microdata hold exactly the histogram: as arrays, and as files read back by the values of their
columns.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, multivariate_hypergeom

import das.files.microdata.writing as microdata_file
from das.errors import InputError
from das.files.microdata.reading import read, read_frame
from das.files.microdata.writing import write
from das.microdata import drawn, expand
from das.model.histogram import Histogram
from das.model.names import encoded, text
from das.model.redistricting import CENRACE, E2E_1940, H1, PL94
from das.model.schema import Attribute, Schema
from das.model.universe import HOUSING, PERSONS, Universe

TOY = Schema(
    "toy", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old")))
)
TEXTS = [f"44007010{t:03d}{g}{g}0{b:02d}" for t in range(2) for g in range(1, 3) for b in range(3)]
BLOCKS = encoded(TEXTS)
SPINE_BLOCKS = encoded(
    ["0441000700491" + c[:2] + c for c in TEXTS]
)  # a longer code, the block at its end

PERSONS_HEADER = [
    *(
        "SCHEMA_TYPE_CODE",
        "SCHEMA_BUILD_ID",
        "TABBLKST",
        "TABBLKCOU",
        "TABTRACTCE",
        "TABBLKGRPCE",
        "TABBLK",
    ),
    *("EPNUM", "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"),
]
UNITS = [*PERSONS_HEADER[:7], "RTYPE", "HH_STATUS"]


@st.composite
def histograms(draw, most=6, cells=6, largest=9):
    n = draw(st.integers(1, most))
    table = draw(
        st.lists(
            st.lists(st.integers(0, largest), min_size=cells, max_size=cells),
            min_size=n,
            max_size=n,
        )
    )
    return from_dense(np.array(table, dtype=np.int64).reshape(n, cells))


def from_dense(table):
    unit, cell = np.nonzero(table)
    return Histogram.from_triplets(*table.shape, unit, cell, table[unit, cell])


def random_histogram(units, schema, entries, seed=0):
    rng = np.random.default_rng(seed)
    cells = np.flatnonzero(schema.possible)
    unit, cell = rng.integers(0, units, entries), rng.choice(cells, entries)
    return Histogram.from_triplets(units, schema.cells, unit, cell, rng.geometric(0.4, entries))


def tabulated(unit, cell, like):
    """Records counted, in any order."""
    return Histogram.from_triplets(
        like.units, like.cells, unit, cell, np.ones(len(unit), dtype=np.int64)
    )


# --- arrays
# ------------------------------------------------------------------------------------------


@given(histograms())
def test_expand_lists_each_record_once_in_order(h):
    unit, cell = expand(h)
    oracle = [
        (u, k) for u in range(h.units) for k in range(h.cells) for _ in range(h.dense()[u, k])
    ]
    assert list(zip(unit.tolist(), cell.tolist(), strict=True)) == oracle
    assert unit.dtype == cell.dtype == np.int64
    assert tabulated(unit, cell, h).same_as(h)


@given(histograms(), st.integers(1, 7), st.randoms(use_true_random=False))
def test_slices_of_records_are_the_records(h, step, random):
    whole = expand(h)
    records = len(whole[0])
    pieces = [expand(h, a, a + step) for a in range(0, records, step)]
    for i in range(2):
        assert np.array_equal(np.concatenate([whole[i][:0], *(p[i] for p in pieces)]), whole[i])
    order = list(range(records))
    random.shuffle(order)
    assert tabulated(whole[0][order], whole[1][order], h).same_as(h)


# --- files: what stands in them
# ----------------------------------------------------------------------


def test_redistricting_persons_have_the_published_columns_and_codes(tmp_path):
    """The code of each cell, worked out from its labels alone."""
    cells = np.flatnonzero(PL94.possible)
    h = Histogram.from_triplets(
        12, PL94.cells, np.arange(len(cells)) % 12, cells, np.ones(len(cells), dtype=np.int64)
    )
    paths = write(tmp_path / "persons", h, SPINE_BLOCKS, Universe(PERSONS, PL94), build="1.2")
    assert [p.name for p in paths] == ["part-00000.parquet"]
    frame = read_frame(tmp_path / "persons")
    assert list(frame.columns) == PERSONS_HEADER
    unit, cell = expand(h)
    levels = np.unravel_index(cell, PL94.shape)
    assert (frame.EPNUM == np.arange(len(cells))).all()
    frame = frame.astype(str)
    assert (frame.SCHEMA_TYPE_CODE == "MPD").all()
    assert (frame.SCHEMA_BUILD_ID == "1.2").all()
    geocode = frame.TABBLKST + frame.TABBLKCOU + frame.TABTRACTCE + frame.TABBLKGRPCE + frame.TABBLK
    assert (encoded(geocode) == BLOCKS[unit]).all()
    assert [len(frame[c][0]) for c in PERSONS_HEADER[2:7]] == [2, 3, 6, 1, 4]
    assert (frame.RTYPE == np.where(levels[0] == 0, "3", "5")).all()
    assert (frame.GQTYPE_PL == levels[0].astype(str)).all()
    assert (frame.VOTING_AGE == np.where(levels[1] == 1, "2", "1")).all()
    assert (frame.CENHISP == np.where(levels[2] == 1, "2", "1")).all()
    assert (frame.CENRACE == np.array([f"{i:02d}" for i in range(1, 64)])[levels[3]]).all()
    assert [CENRACE[int(code) - 1] for code in ("01", "06", "07", "63")] == [
        "White",
        "SOR",
        "White+Black",
        "White+Black+AIAN+Asian+NHPI+SOR",
    ]


def test_redistricting_units_and_the_facilities_of_public_structures(tmp_path):
    h = from_dense(np.array([[2, 3], [0, 1], [0, 0]]))
    structures = np.array(
        [[5, 0, 0, 0, 0, 0, 0, 0], [1, 2, 0, 0, 0, 1, 0, 0], [0, 0, 0, 4, 0, 0, 0, 0]]
    )
    write(tmp_path / "units", h, BLOCKS[:3], Universe(HOUSING, H1), structures=structures)
    frame = read_frame(tmp_path / "units").astype(str)
    assert list(frame.columns) == UNITS
    assert (frame.SCHEMA_TYPE_CODE == "MUD").all()
    counted = frame.groupby(["TABBLK", "RTYPE", "HH_STATUS"]).size().to_dict()
    block = [c[-4:] for c in TEXTS[:3]]
    assert counted == {
        (block[0], "2", "2"): 2,
        (block[0], "2", "1"): 3,
        (block[1], "2", "1"): 1,
        (block[1], "4", "0"): 3,
        (block[2], "4", "0"): 4,
    }
    assert frame.TABBLK.is_monotonic_increasing
    assert read(tmp_path / "units", Universe(HOUSING, H1), BLOCKS[:3]).same_as(h)


def test_1940_persons_have_the_23_columns_and_the_type_of_quarters(tmp_path):
    codes = encoded(["4400100001", "4400100002"])
    h = random_histogram(2, E2E_1940, 300)
    write(tmp_path / "persons", h, codes, Universe(PERSONS, E2E_1940))
    frame = read_frame(tmp_path / "persons").astype(str)
    races = [f"QRACE{i}" for i in range(1, 9)]
    assert list(frame.columns) == [
        *(
            "SCHEMA_TYPE_CODE",
            "SCHEMA_BUILD_ID",
            "STATE",
            "COUNTY",
            "ENUMDIST",
            "EUID",
            "EPNUM",
            "RTYPE",
            "QREL",
        ),
        *("QSEX", "QAGE", "CENHISP", "CENRACE", "QSPANX", *races, "CIT", "GQTYPE"),
    ]
    unit, cell = expand(h)
    levels = np.unravel_index(cell, E2E_1940.shape)
    assert (frame.STATE + frame.COUNTY + frame.ENUMDIST == codes[unit]).all()
    assert (frame.QAGE == np.where(levels[1] == 1, "18", "17")).all()
    assert (frame.CENRACE.astype(int) == levels[3] + 1).all()
    assert (frame.GQTYPE.astype(int) == np.where(levels[0] > 0, levels[0] * 100 + 1, 0)).all()
    assert set(frame[races].to_numpy().ravel()) == {"9999"}
    assert read(tmp_path / "persons", Universe(PERSONS, E2E_1940), codes).same_as(h)


def test_other_schemas_have_labels(tmp_path):
    h = from_dense(np.array([[0, 1, 0, 0, 0, 2]]))
    write(tmp_path / "persons", h, encoded(["north"]), Universe(PERSONS, TOY))
    frame = read_frame(tmp_path / "persons")
    assert frame.astype(str).to_numpy().tolist() == [
        ["north", "0", "male", "middle"],
        ["north", "1", "female", "old"],
        ["north", "2", "female", "old"],
    ]
    write(tmp_path / "units", h, encoded(["north"]), Universe(HOUSING, TOY))
    assert list(read_frame(tmp_path / "units").columns) == ["geocode", "sex", "age"]
    assert read(tmp_path / "units", Universe(HOUSING, TOY), encoded(["north"])).same_as(h)


def test_codes_that_are_not_blocks_are_kept_whole(tmp_path):
    states = encoded(["01", "44"])
    h = random_histogram(2, PL94, 50)
    write(tmp_path / "persons", h, states, Universe(PERSONS, PL94))
    assert "geocode" in read_frame(tmp_path / "persons").columns
    assert read(tmp_path / "persons", Universe(PERSONS, PL94), states).same_as(h)


def test_longer_1940_codes_are_kept_whole(tmp_path):
    """State, county, supervisor's district, enumeration district: not the three parts of the 1940
    file.
    """
    codes = encoded(["4400100010001", "4400100020001"])
    h = random_histogram(2, E2E_1940, 50)
    write(tmp_path / "persons", h, codes, Universe(PERSONS, E2E_1940))
    assert set(read_frame(tmp_path / "persons").geocode) == set(text(codes).tolist())
    assert read(tmp_path / "persons", Universe(PERSONS, E2E_1940), codes).same_as(h)


def test_the_text_file_holds_the_same_rows(tmp_path):
    h = random_histogram(12, PL94, 400)
    paths = write(tmp_path / "persons", h, BLOCKS, Universe(PERSONS, PL94), csv=True, batch=100)
    assert paths[-1] == tmp_path / "persons.csv"
    lines = paths[-1].read_text().splitlines()
    assert lines[0].startswith("# ")
    assert f"# records: {h.count.sum()}" in lines
    header = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    assert lines[header] == "|".join(PERSONS_HEADER)
    assert len(lines) == header + 1 + h.count.sum()
    pd.testing.assert_frame_equal(
        read_frame(paths[-1]).astype(str),
        read_frame(tmp_path / "persons").astype(str),
        check_dtype=False,
    )


# --- files: tabulating gives the histogram back
# ------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(histograms(most=3, largest=30), st.integers(1, 40))
def test_round_trip_whatever_the_batch(tmp_path_factory, h, batch):
    """Batches smaller than a unit, smaller than a file, larger than all; and a histogram of
    nobody.
    """
    directory = tmp_path_factory.mktemp("m") / "persons"
    codes = encoded(["b", "a", "c"])
    codes = codes[: h.units]
    write(directory, h, codes, Universe(PERSONS, TOY), batch=batch)
    assert read(directory, Universe(PERSONS, TOY), codes).same_as(h)


@pytest.mark.parametrize("codes", [BLOCKS, SPINE_BLOCKS])
def test_round_trip_over_several_files(tmp_path, monkeypatch, codes):
    monkeypatch.setattr(microdata_file, "GROUPS", 2)
    h = random_histogram(12, PL94, 500)
    paths = write(tmp_path / "persons", h, codes, Universe(PERSONS, PL94), batch=100)
    assert len(paths) > 3
    assert read(tmp_path / "persons", Universe(PERSONS, PL94), codes).same_as(h)
    shuffled = np.random.default_rng(0).permutation(12)
    by_other_order = read(tmp_path / "persons", Universe(PERSONS, PL94), codes[shuffled])
    assert np.array_equal(by_other_order.dense(), h.dense()[shuffled])


def test_a_run_or_release_folder_means_its_persons(tmp_path):
    h = random_histogram(12, PL94, 20)
    write(tmp_path / "release" / "microdata" / "persons", h, BLOCKS, Universe(PERSONS, PL94))
    for place in ("", "release", "release/microdata"):
        assert len(read_frame(tmp_path / place)) == h.count.sum()


# --- whole or not at all
# -----------------------------------------------------------------------------


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    old = random_histogram(12, PL94, 20)
    write(tmp_path / "persons", old, BLOCKS, Universe(PERSONS, PL94), csv=True)
    text = (tmp_path / "persons.csv").read_text()
    good, calls = microdata_file._table, []

    def failing(*args):
        calls.append(1)
        if len(calls) == 3:
            raise OSError("disk full")
        return good(*args)

    monkeypatch.setattr(microdata_file, "_table", failing)
    with pytest.raises(OSError, match="disk full"):
        write(
            tmp_path / "persons",
            random_histogram(12, PL94, 400),
            BLOCKS,
            Universe(PERSONS, PL94),
            csv=True,
            batch=10,
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["persons", "persons.csv"]
    assert read(tmp_path / "persons", Universe(PERSONS, PL94), BLOCKS).same_as(old)
    assert (tmp_path / "persons.csv").read_text() == text


def test_a_second_run_replaces_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(microdata_file, "GROUPS", 1)
    write(
        tmp_path / "persons",
        random_histogram(12, PL94, 400),
        BLOCKS,
        Universe(PERSONS, PL94),
        batch=50,
    )
    new = random_histogram(12, PL94, 30, seed=1)
    write(tmp_path / "persons", new, BLOCKS, Universe(PERSONS, PL94))
    assert read(tmp_path / "persons", Universe(PERSONS, PL94), BLOCKS).same_as(new)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="would be replaced"):
        write(tmp_path, random_histogram(12, PL94, 4), BLOCKS, Universe(PERSONS, PL94))
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


# --- refusals
# ----------------------------------------------------------------------------------------


def test_write_refuses_what_does_not_fit(tmp_path, monkeypatch):
    h = random_histogram(12, PL94, 40)
    with pytest.raises(InputError, match="do not fit 11 codes"):
        write(tmp_path / "p", h, BLOCKS[:11], Universe(PERSONS, PL94))
    with pytest.raises(InputError, match="do not fit"):
        write(tmp_path / "p", h, BLOCKS, Universe(PERSONS, TOY))
    twins = encoded(["0" + TEXTS[0], "1" + TEXTS[0]])
    with pytest.raises(InputError, match="same code in its last 16"):
        write(tmp_path / "p", h.rows(0, 2), twins, Universe(PERSONS, PL94))
    one = from_dense(np.array([[1, 1]]))
    with pytest.raises(InputError, match="structures of 2 blocks for 1"):
        write(
            tmp_path / "u",
            one,
            BLOCKS[:1],
            Universe(HOUSING, H1),
            structures=np.zeros((2, 8), dtype=np.int64),
        )
    monkeypatch.setattr(microdata_file, "LARGEST_SERIAL", 2)
    with pytest.raises(InputError, match="more than EPNUM can number"):
        write(
            tmp_path / "p", from_dense(np.full((1, 6), 1)), encoded(["a"]), Universe(PERSONS, TOY)
        )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(microdata_file, "GROUPS", 1)
    write(
        tmp_path / "persons",
        random_histogram(12, PL94, 300),
        BLOCKS,
        Universe(PERSONS, PL94),
        batch=100,
    )
    return tmp_path / "persons"


def change(path: Path, column: str, row: int, value: str) -> None:
    """Rewrite one value of a part, as another program would: plain text columns."""
    table = pq.read_table(path)
    metadata = table.schema.metadata
    data = {c: table.column(c).to_pylist() for c in table.column_names}
    data[column][row] = value
    types = [pa.int32() if c == "EPNUM" else pa.string() for c in data]
    schema = pa.schema(list(zip(data, types, strict=True)), metadata=metadata)
    pq.write_table(pa.table(data, schema=schema), path)


def test_what_another_program_rewrote_is_read_by_its_values(written):
    part = written / "part-00000.parquet"
    first = pq.read_table(part).to_pylist()[3]
    before = read(written, Universe(PERSONS, PL94), BLOCKS)
    assert first["CENRACE"] != "63"
    change(part, "CENRACE", 3, "63")
    unit = TEXTS.index("".join(first[c] for c in PERSONS_HEADER[2:7]))
    moved = read(written, Universe(PERSONS, PL94), BLOCKS).dense() - before.dense()
    levels = (int(first["GQTYPE_PL"]), int(first["VOTING_AGE"]) - 1, int(first["CENHISP"]) - 1)
    old, new = (
        np.ravel_multi_index((*levels, race), PL94.shape)
        for race in (int(first["CENRACE"]) - 1, 62)
    )
    assert {(u, k): moved[u, k] for u, k in np.argwhere(moved)} == {(unit, old): -1, (unit, new): 1}


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("CENRACE", "64", "CENRACE is '64' in the record 3"),
        ("CENRACE", "1", "CENRACE is '1' in the record 3"),
        ("VOTING_AGE", "0", "VOTING_AGE is '0'"),
        ("RTYPE", None, "RTYPE is missing in 1 records"),
        ("RTYPE", "4", "RTYPE is '4'"),
        ("TABBLK", "9999", "is not one of the 12 units"),
        ("TABBLK", "12", "TABBLK is '12', not 4 digits"),
        ("TABBLKST", "RI", "TABBLKST is 'RI', not 2 digits"),
    ],
)
def test_read_refuses_a_code_that_the_layout_does_not_have(written, column, value, message):
    change(written / "part-00000.parquet", column, 3, value)
    with pytest.raises(InputError, match=message) as caught:
        read(written, Universe(PERSONS, PL94), BLOCKS)
    assert "part-00000.parquet" in str(caught.value)


def test_read_refuses_a_record_that_contradicts_itself(written):
    part = written / "part-00000.parquet"
    in_household = pq.read_table(part).to_pylist()[3]["RTYPE"] == "3"
    change(part, "RTYPE", 3, "5" if in_household else "3")
    with pytest.raises(InputError, match="RTYPE does not agree"):
        read(written, Universe(PERSONS, PL94), BLOCKS)


def test_read_refuses_missing_parts_and_damage(written):
    last = sorted(written.iterdir())[-1]
    kept = last.read_bytes()
    last.unlink()
    with pytest.raises(InputError, match="another number was written"):
        read(written, Universe(PERSONS, PL94), BLOCKS)
    last.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(InputError, match=f"{last.name}.*not readable as Parquet"):
        read(written, Universe(PERSONS, PL94), BLOCKS)
    with pytest.raises(InputError, match="not readable as microdata"):
        read_frame(written)
    last.write_bytes(kept)
    first = written / "part-00000.parquet"
    first.unlink()
    with pytest.raises(InputError, match="does not run on"):
        read(written, Universe(PERSONS, PL94), BLOCKS)


def test_read_refuses_other_schemas_and_places(written, tmp_path):
    with pytest.raises(InputError, match="schema 'toy' has geocode, EPNUM, sex, age"):
        read(written, Universe(PERSONS, TOY), BLOCKS)
    with pytest.raises(InputError, match="no microdata here"):
        read(tmp_path / "nowhere", Universe(PERSONS, PL94), BLOCKS)
    with pytest.raises(InputError, match="no microdata here"):
        read_frame(tmp_path / "nowhere")
    (tmp_path / "empty.csv").write_text("# only a remark\n")
    with pytest.raises(InputError, match="no header"):
        read_frame(tmp_path / "empty.csv")


# --- records drawn at random
# -------------------------------------------------------------------------


def test_what_is_drawn_does_not_depend_on_how_much_is_held_at_a_time() -> None:
    rng = np.random.default_rng(2)
    h = Histogram.from_triplets(
        40, 9, rng.integers(0, 40, 500), rng.integers(0, 9, 500), rng.integers(1, 5, 500)
    )
    number = rng.binomial(h.totals(), 0.4)
    whole = drawn(h, number, b"a seed")
    assert (whole.totals() == number).all()
    assert (whole.dense() <= h.dense()).all()
    for records in (1, 7, 200):
        assert drawn(h, number, b"a seed", records).same_as(whole)
    assert not drawn(h, number, b"another", 200).same_as(whole)


def test_every_choice_is_as_likely_as_any_other() -> None:
    """Two of one record of cell 0, one of cell 1 and two of cell 2, in 8,000 units: a multivariate
    hypergeometric law.
    """
    n, count = 8_000, np.array([1, 1, 2])
    h = Histogram.from_triplets(
        n, 3, np.repeat(np.arange(n), 3), np.tile([0, 1, 2], n), np.tile(count, n)
    )
    found = drawn(h, np.full(n, 2), b"x").dense()
    law = multivariate_hypergeom(count, 2)
    outcomes = [x for x in product(range(3), repeat=3) if sum(x) == 2 and law.pmf(x) > 0]
    seen = [int((found == x).all(axis=1).sum()) for x in outcomes]
    assert sum(seen) == n
    expected = np.array([n * law.pmf(x) for x in outcomes])
    assert chisquare(seen, expected).pvalue > 1e-6
    equal = np.full(
        len(outcomes), n / len(outcomes)
    )  # cells drawn in the place of records: it must be told from that
    assert chisquare(seen, equal).pvalue < 1e-12
