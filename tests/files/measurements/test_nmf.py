"""Noisy measurement files: the published layout, seen by plain Parquet readers, and refusal of what
is not whole.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import ReleaseError
from das.files.measurements.frame import read_nmf
from das.files.measurements.nmf import write, write_constraints
from das.files.measurements.nmf_reader import NmfReader
from das.model.budget import Allocation, Neighbours
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.measurement import Measurement
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.spine import Spine
from das.noise import entropy
from das.truth.measure import measure

BLOCKS = [3, 1, 4]  # of three states
SPINE = Spine(
    ("US", "State", "Block"),
    (
        np.array(["US"]),
        np.array(["01", "44", "72"]),
        np.array(
            [
                f"{s}{i:03d}"
                for s, n in zip(("01", "44", "72"), BLOCKS, strict=True)
                for i in range(n)
            ]
        ),
    ),
    (np.zeros(1, dtype=np.int64), np.zeros(3, dtype=np.int64), np.repeat(np.arange(3), BLOCKS)),
)
QUERIES = ("total", "hhinstlevels", "votingage * hispanic", "detailed")


def measured(
    level: str, sizes: list[int] | None = None, queries: tuple[str, ...] = QUERIES
) -> list[Measurement]:
    """Answers that tell unit, query and place: batches of ``sizes`` units."""
    out, start = [], 0
    for size in sizes or [SPINE.units(level)]:
        for number, name in enumerate(queries):
            answers = PL94.query(name).answers
            values = (
                np.arange(answers)[None, :]
                - 5
                + 10_000 * (start + np.arange(size))[:, None]
                + number
            )
            out.append(Measurement(level, name, start, values, np.full(size, number + 0.5)))
        start += size
    return out


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "Block", PL94, SPINE, measured("Block", [4, 4]))
    write(tmp_path, "US", PL94, SPINE, measured("US"))
    return tmp_path


def parts(root: Path, level: str = "Block", kind: str = "DPQuery") -> list[Path]:
    return sorted((root / f"{level}.parquet" / kind).rglob("*.parquet"))


# --- the layout
# -------------------------------------------------------------------------------------------------


def test_folders_are_level_kind_and_state(root: Path) -> None:
    """A batch of four blocks with three of one state and one of the next makes a part in each."""
    assert [str(p.relative_to(root)) for p in parts(root)] == [
        "Block.parquet/DPQuery/State=01/part-00000-00000.parquet",
        "Block.parquet/DPQuery/State=44/part-00000-00000.parquet",
        "Block.parquet/DPQuery/State=72/part-00000-00001.parquet",
    ]
    assert [str(p.relative_to(root)) for p in parts(root, "US")] == [
        "US.parquet/DPQuery/part-00000-00000.parquet"
    ]
    assert not list(root.rglob("*.tmp"))


def test_columns_and_types_are_those_of_the_publication(root: Path) -> None:
    schema = pq.ParquetFile(parts(root)[0]).schema_arrow
    assert schema.names == [
        "geocode",
        "query_name",
        "hhgq",
        "votingage",
        "hispanic",
        "cenrace",
        "query_shape",
        "value",
        "variance",
    ]
    texts = [schema.field(n).type for n in schema.names[:6]]
    assert texts == [pa.string()] * 6
    assert schema.field("query_shape").type == pa.list_(pa.int32())
    assert schema.field("value").type == pa.list_(pa.int32())
    assert schema.field("variance").type == pa.float32()


def test_one_row_a_unit_and_query_with_stars_details_and_names_of_groupings(root: Path) -> None:
    rows = [row for p in parts(root) for row in pq.ParquetFile(p).read().to_pylist()]
    assert len(rows) == sum(BLOCKS) * len(QUERIES)
    by_query = {r["query_name"]: r for r in rows if r["geocode"] == "44000"}
    assert set(by_query) == {f"{q}_dpq" for q in QUERIES}
    row = by_query["hhinstlevels_dpq"]
    assert [row[a] for a in ("hhgq", "votingage", "hispanic", "cenrace")] == [
        "hhinstlevels",
        "*",
        "*",
        "*",
    ]
    assert (row["query_shape"], len(row["value"])) == ([3, 1, 1, 1], 3)
    row = by_query["votingage * hispanic_dpq"]
    assert [row[a] for a in ("hhgq", "votingage", "hispanic", "cenrace")] == [
        "*",
        "votingage",
        "hispanic",
        "*",
    ]
    assert (row["query_shape"], row["value"], row["variance"]) == (
        [1, 2, 2, 1],
        [29_997, 29_998, 29_999, 30_000],
        2.5,
    )
    row = by_query["detailed_dpq"]
    assert [row[a] for a in ("hhgq", "votingage", "hispanic", "cenrace")] == ["detailed"] * 4
    assert (row["query_shape"], len(row["value"])) == ([8, 2, 2, 63], 2016)
    assert by_query["total_dpq"]["query_shape"] == [1, 1, 1, 1]


def test_a_row_group_holds_one_query(root: Path) -> None:
    for path in parts(root):
        file = pq.ParquetFile(path)
        held = [
            set(file.read_row_group(g, ["query_name"])["query_name"].to_pylist())
            for g in range(len(QUERIES))
        ]
        assert held == [{f"{q}_dpq"} for q in QUERIES]
        assert file.num_row_groups == len(QUERIES)


def test_hive_readers_find_the_states(root: Path) -> None:
    import pyarrow.dataset as ds

    table = ds.dataset(root / "Block.parquet" / "DPQuery", partitioning="hive").to_table(
        columns=["geocode", "State"]
    )
    assert {
        (g[:2], int(s))
        for g, s in zip(*(table[c].to_pylist() for c in ("geocode", "State")), strict=True)
    } == {("01", 1), ("44", 44), ("72", 72)}


def test_a_root_above_all_places_has_the_empty_geocode(root: Path) -> None:
    """A code begins with that of its parent. Readers find the root again, also in older files."""
    codes = np.array([[7]]), np.array([2.0])
    state = Spine(("State",), (np.array(["44"]),), (np.zeros(1, int),))
    for spine, level, geocode in ((SPINE, "US", ""), (state, "State", "44")):
        write(root / level, level, PL94, spine, [Measurement(level, "total", 0, *codes)])
        (path,) = parts(root / level, level)
        table = pq.ParquetFile(path).read()
        assert table["geocode"].to_pylist() == [geocode]
        assert NmfReader(root / level, spine).read(level, "total", 0, 1).values.tolist() == [[7]]
    (path,) = parts(root / "US", "US")
    named = pq.ParquetFile(path).read().set_column(0, "geocode", pa.array(["US"]))
    pq.write_table(named, path)
    assert NmfReader(root / "US", SPINE).read("US", "total", 0, 1).values.tolist() == [[7]]
    assert read_nmf(root / "US", "US", geocode="US")["geocode"].tolist() == ["US"]


def test_constraints_have_a_sign_and_stand_beside_the_measurements(root: Path) -> None:
    low, high = np.arange(64).reshape(8, 8), np.arange(64).reshape(8, 8) + (1 << 40)
    write_constraints(
        root,
        PL94,
        SPINE,
        [
            Constraint("hhgq_total_lb", "Block", "hhgq", ">=", low),
            Constraint("hhgq_total_ub", "Block", "hhgq", "<=", high),
            Constraint("total", "US", "total", "=", np.array([[308_745_538]])),
        ],
    )
    (path,) = parts(root, "US", "Constraint")
    (row,) = pq.ParquetFile(path).read().to_pylist()
    assert row == {
        "geocode": "",
        "query_name": "total_con",
        "hhgq": "*",
        "votingage": "*",
        "hispanic": "*",
        "cenrace": "*",
        "query_shape": [1, 1, 1, 1],
        "value": [308_745_538],
        "sign": "=",
    }
    assert [p.parent.name for p in parts(root, kind="Constraint")] == [
        "State=01",
        "State=44",
        "State=72",
    ]
    reader = NmfReader(root, SPINE)
    found = reader.constraints("Block")
    assert {k: s for k, (s, _) in found.items()} == {"hhgq_total_lb": ">=", "hhgq_total_ub": "<="}
    assert np.array_equal(found["hhgq_total_lb"][1], low)
    assert np.array_equal(found["hhgq_total_ub"][1], high)
    assert reader.constraints("US")["total"][1].tolist() == [[308_745_538]]
    assert reader.constraints("State") == {}
    assert reader.queries("Block") == QUERIES


# --- there and back
# ------------------------------------------------------------------------------------------------


@given(
    sizes=st.sampled_from([[8], [4, 4], [3, 5], [3, 1, 4]]),
    start=st.integers(0, 7),
    n=st.integers(1, 8),
)
@settings(max_examples=25)
def test_any_slice_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], start: int, n: int
) -> None:
    root = tmp_path_factory.mktemp("nmf")
    write(root, "Block", PL94, SPINE, measured("Block", sizes))
    stop = min(8, start + n)
    reader = NmfReader(root, SPINE)
    for whole in measured("Block"):
        got = reader.read("Block", whole.query, start, stop)
        assert (got.level, got.query, got.start) == ("Block", whole.query, start)
        assert got.values.dtype == np.int64
        assert np.array_equal(got.values, whole.values[start:stop])
        assert np.array_equal(got.variance, whole.variance[start:stop])
        part = pickle.loads(pickle.dumps(reader.part("Block", start, stop)))
        assert part.queries("Block") == reader.queries("Block")
        again = part.part("Block", start, stop).read("Block", whole.query, start, stop)
        assert np.array_equal(again.values, got.values)
        assert np.array_equal(again.variance, got.variance)


def test_a_part_carries_the_files_and_codes_of_its_units_alone(tmp_path: Path) -> None:
    """A worker has neither the spine nor the index of the files: a part has what it needs, whatever
    else there is.
    """
    n = 20_000
    codes = np.array([f"{i:015d}" for i in range(n)])
    spine = Spine(
        ("US", "Block"), (np.array(["US"]), codes), (np.zeros(1, np.int64), np.zeros(n, np.int64))
    )
    pieces = [
        Measurement("Block", "total", a, np.arange(a, a + 500)[:, None], np.ones(500))
        for a in range(0, n, 500)
    ]
    write(tmp_path, "Block", PL94, spine, pieces)
    part = NmfReader(tmp_path, spine).part("Block", 700, 900)
    assert [f.path.name for f in part.files] == ["part-00000-00001.parquet"]
    assert len(pickle.dumps(part)) < 40_000
    assert part.read("Block", "total", 700, 900).values[:, 0].tolist() == list(range(700, 900))
    with pytest.raises(ValueError, match="part of level 'Block'"):
        part.read("US", "total", 0, 1)


# --- units that are not measured
# ------------------------------------------------------------------------------------


def without(measurements: list[Measurement], measured: np.ndarray) -> list[Measurement]:
    """As measuring leaves units of a class without draws: zeros of infinite variance."""
    out = []
    for m in measurements:
        here = measured[m.start : m.start + len(m.values)]
        values, variance = np.where(here[:, None], m.values, 0), np.where(here, m.variance, np.inf)
        out.append(Measurement(m.level, m.query, m.start, values, variance))
    return out


@given(
    sizes=st.sampled_from([[8], [4, 4], [3, 1, 4]]),
    mask=st.integers(0, 255),
    start=st.integers(0, 7),
    n=st.integers(1, 8),
)
@settings(max_examples=40)
def test_a_unit_that_is_not_measured_has_no_row_and_is_read_as_nothing(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], mask: int, start: int, n: int
) -> None:
    root, stop = tmp_path_factory.mktemp("nmf"), min(8, start + n)
    which = (mask >> np.arange(8)) & 1 == 1
    written = write(root, "Block", PL94, SPINE, without(measured("Block", sizes), which))
    codes = SPINE.geocodes("Block")
    rows = [
        (r["geocode"], r["query_name"])
        for p in parts(root)
        for r in pq.ParquetFile(p).read().to_pylist()
    ]
    assert sorted(rows) == sorted((c, f"{q}_dpq") for c in codes[which].tolist() for q in QUERIES)
    assert (bool(written), (root / "Block.parquet").exists()) == (which.any(), which.any())
    reader = NmfReader(root, SPINE, {"Block": which}.__getitem__)
    assert reader.queries("Block") == (QUERIES if which.any() else ())
    part = pickle.loads(pickle.dumps(reader.part("Block", start, stop)))
    assert part.queries("Block") == reader.queries("Block")
    for whole in without(measured("Block"), which) if which.any() else ():
        for got in (
            reader.read("Block", whole.query, start, stop),
            part.read("Block", whole.query, start, stop),
        ):
            assert np.array_equal(got.values, whole.values[start:stop])
            assert np.array_equal(got.variance, whole.variance[start:stop])


def test_a_unit_that_lacks_one_query_of_several_keeps_its_row(tmp_path: Path) -> None:
    """Measurements that others published may be so."""
    first, *others = measured("Block")
    which = np.arange(8) != 5
    write(tmp_path, "Block", PL94, SPINE, [*without([first], which), *others])
    got = NmfReader(tmp_path, SPINE).read("Block", first.query, 0, 8)
    assert np.isfinite(got.variance).tolist() == which.tolist()


@pytest.mark.parametrize(
    "written,said,word",
    [
        ([1, 1, 1], [1, 0, 1], "1 measurements of 'total' for State 44, which is not measured"),
        ([1, 0, 1], [1, 1, 1], "no measurement of 'total' for State 44"),
        ([0, 0, 0], [0, 1, 0], "no measurements of level 'State'"),
        ([0, 1, 0], [0, 0, 0], "measurements of level 'State', where no unit is measured"),
    ],
)
def test_rows_are_those_of_the_units_that_are_measured(
    tmp_path: Path, written: list[int], said: list[int], word: str
) -> None:
    write(tmp_path, "State", PL94, SPINE, without(measured("State"), np.array(written, dtype=bool)))
    with pytest.raises(ReleaseError, match=word):
        NmfReader(tmp_path, SPINE, lambda level: np.array(said, dtype=bool)).read(
            "State", "total", 0, 3
        )


def test_constraints_are_of_all_units_whether_measured_or_not(tmp_path: Path) -> None:
    nobody = np.zeros(3, dtype=bool)
    write(tmp_path, "State", PL94, SPINE, without(measured("State"), nobody))
    write_constraints(
        tmp_path,
        PL94,
        SPINE,
        [Constraint("total", "State", "total", "=", np.array([[1], [2], [3]]))],
    )
    reader = NmfReader(tmp_path, SPINE, lambda level: nobody)
    assert reader.queries("State") == ()
    assert reader.constraints("State")["total"][1].tolist() == [[1], [2], [3]]


def test_the_order_of_rows_and_files_does_not_matter(root: Path) -> None:
    """Published files stand in no order that we know: units are found by their codes."""
    path = parts(root)[0]
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(g).take([2, 0, 1]) for g in range(file.num_row_groups)]
    path.unlink()
    with pq.ParquetWriter(path.with_name("part-zz.parquet"), groups[0].schema) as out:
        for t in reversed(groups):
            out.write_table(t)
    reader = NmfReader(root, SPINE)
    for whole in measured("Block"):
        assert np.array_equal(reader.read("Block", whole.query, 1, 8).values, whole.values[1:])


def test_large_values_keep_all_their_bits(tmp_path: Path) -> None:
    values = np.array([[2**40], [-(2**40)], [0], [1], [2], [3], [4], [2**62]])
    write(tmp_path, "Block", PL94, SPINE, [Measurement("Block", "total", 0, values, np.ones(8))])
    assert np.array_equal(NmfReader(tmp_path, SPINE).read("Block", "total", 0, 8).values, values)


@pytest.mark.parametrize("spread", [3, 3000, 2**20, 2**40], ids=["a byte", "two", "four", "eight"])
def test_a_few_values_far_from_the_others_keep_their_places(tmp_path: Path, spread: int) -> None:
    """They are kept by themselves; rows of the file are in another order than the units."""
    random = np.random.default_rng(1)
    values = random.integers(-spread, spread, (8, PL94.cells))
    far = random.integers(0, values.size, 150)
    values.ravel()[far] = random.integers(-(2**50), 2**50, 150) >> random.integers(0, 50, 150)
    write(tmp_path, "Block", PL94, SPINE, [Measurement("Block", "detailed", 0, values, np.ones(8))])
    for path in parts(tmp_path):
        rows = pq.read_table(path)
        pq.write_table(rows.take(random.permutation(len(rows))), path)
    reader = NmfReader(tmp_path, SPINE)
    for start, stop in ((0, 8), (1, 7), (2, 3), (4, 6)):
        got = reader.read("Block", "detailed", start, stop).values
        np.testing.assert_array_equal(got, values[start:stop])


@pytest.mark.parametrize("variance", [1e-70, 5e-324, 1e-40])
def test_a_variance_too_small_for_its_column_stays_positive(
    tmp_path: Path, variance: float
) -> None:
    """At rho = 1000 a state total has variance 1e-70, and float32 ends at 1e-45."""
    made = Measurement("US", "total", 0, np.array([[7]]), np.array([variance]))
    write(tmp_path, "US", PL94, SPINE, [made])
    got = NmfReader(tmp_path, SPINE).read("US", "total", 0, 1)
    assert got.values.tolist() == [[7]]
    assert 0 < got.variance[0] < 1e-30


def test_what_is_written_is_told_with_its_digest(root: Path) -> None:
    told = write(root, "Block", PL94, SPINE, measured("Block", [4, 4]))
    assert [root / path for path in told] == parts(root)
    assert list(told.values()) == [hashlib.sha256(p.read_bytes()).hexdigest() for p in parts(root)]


def test_a_failure_leaves_whole_parts_and_writing_again_writes_the_same_bytes(
    tmp_path: Path,
) -> None:
    def failing() -> object:
        yield from measured("Block", [4, 4])[:5]
        raise RuntimeError("the source has a fault")

    with pytest.raises(RuntimeError):
        write(tmp_path, "Block", PL94, SPINE, failing())  # type: ignore[arg-type]
    left = {p: p.read_bytes() for p in parts(tmp_path)}
    assert [p.name for p in left] == ["part-00000-00000.parquet"] * 2
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 2  # no drafts
    write(tmp_path, "Block", PL94, SPINE, measured("Block", [4, 4]))
    assert len(parts(tmp_path)) == 3
    assert {p: p.read_bytes() for p in left} == left


def test_parts_of_subtrees_lie_beside_each_other_and_are_read_as_one(tmp_path: Path) -> None:
    """Each subtree is a tree of its own, which knows nothing of the others."""
    bound = np.arange(8)[:, None]
    for subtree, (state, a, b) in enumerate([(0, 0, 3), (1, 3, 4), (2, 4, 8)], 1):
        only = Spine(
            SPINE.levels,
            (SPINE.codes[0], SPINE.codes[1][state : state + 1], SPINE.codes[2][a:b]),
            (*(np.zeros(1, dtype=np.int64),) * 2, np.zeros(b - a, dtype=np.int64)),
        )
        pieces = [replace(m.rows(a, b), start=0) for m in measured("Block")]
        write(tmp_path, "Block", PL94, only, pieces, subtree)
        write_constraints(
            tmp_path, PL94, only, [Constraint("total", "Block", "total", "=", bound[a:b])], subtree
        )
    assert [p.name for p in parts(tmp_path)] == [f"part-{i:05d}-00000.parquet" for i in (1, 2, 3)]
    assert [p.name for p in parts(tmp_path, kind="Constraint")] == [
        f"part-{i:05d}.parquet" for i in (1, 2, 3)
    ]
    reader = NmfReader(tmp_path, SPINE)
    for whole in measured("Block"):
        assert np.array_equal(reader.read("Block", whole.query, 0, 8).values, whole.values)
    assert np.array_equal(reader.constraints("Block")["total"][1], bound)


def test_a_state_whose_code_is_no_name_of_a_folder_stays_inside(tmp_path: Path) -> None:
    """Codes of a user's table may be anything."""
    spine = Spine(
        ("US", "State"),
        (np.array(["US"]), np.array(["../../up", "a/b"])),
        (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)),
    )
    root = tmp_path / "deep" / "nmf"
    m = Measurement("State", "total", 0, np.array([[1], [2]]), np.ones(2))
    write(root, "State", PL94, spine, [m])
    assert [p for p in tmp_path.rglob("*.parquet") if p.is_file()] == parts(root, "State")
    assert len({p.parent for p in parts(root, "State")}) == 2
    assert all(p.parent.parent.name == "DPQuery" for p in parts(root, "State"))
    assert NmfReader(root, spine).read("State", "total", 0, 2).values.tolist() == [[1], [2]]


def test_what_measuring_draws_is_what_is_read(tmp_path: Path) -> None:
    """The stage and the files together, with noise of a known scale."""
    shares = Allocation(
        {"US": Fraction(1, 2), "Block": Fraction(1, 2)},
        {lv: {"votingage": Fraction(1, 4), "detailed": Fraction(3, 4)} for lv in ("US", "Block")},
    )
    plan = Plan.from_allocation(Fraction(2), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares)
    ledger = Ledger(Fraction(2))
    rng = np.random.default_rng(3)
    h = Histogram.from_triplets(
        8,
        PL94.cells,
        rng.integers(0, 8, 500),
        rng.integers(0, PL94.cells, 500),
        np.ones(500, dtype=np.int64),
    )
    drawn = list(
        measure(
            Confidential(h),
            "Block",
            "persons",
            PL94,
            MeasuredSpine.from_published(SPINE),
            plan,
            entropy.seeded(1),
            ledger,
        )
    )
    write(tmp_path, "Block", PL94, SPINE, iter(drawn))
    reader = NmfReader(tmp_path, SPINE)
    assert reader.queries("Block") == ("votingage", "detailed")
    for m in drawn:
        got = reader.read("Block", m.query, 0, 8)
        assert np.array_equal(got.values, m.values)
        assert got.variance == pytest.approx(m.variance, rel=1e-6)


# --- what is not whole
# ----------------------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[pa.Table, int], pa.Table]) -> None:
    """The file with every row group changed."""
    file = pq.ParquetFile(path)
    groups = [change(file.read_row_group(g), g) for g in range(file.num_row_groups)]
    with pq.ParquetWriter(path, groups[0].schema) as out:
        for t in groups:
            out.write_table(t)


def replaced(
    table: pa.Table, column: str, values: list, kind: pa.DataType | None = None
) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, column, pa.array(values, kind or table.schema.field(at).type))


def mixed(root: Path) -> None:
    rewrite(
        parts(root)[0],
        lambda t, g: replaced(t, "query_name", ["total_dpq", "hhgq_dpq", "total_dpq"]),
    )


def ragged(root: Path) -> None:
    """Lists of 1, 3 and 2 numbers have the right sum, and are still wrong."""
    rewrite(
        parts(root)[0], lambda t, g: replaced(t, "value", [[1], [1, 2, 3], [1, 2]]) if g == 0 else t
    )


def other_width(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "value", [[1, 2]] * 3) if g == 0 else t)


def unknown_unit(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "geocode", ["01000", "01001", "99999"]))


def lost_unit(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: t.slice(0, 2))


def unit_twice(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "geocode", ["01000", "01001", "01001"]))


def part_twice(root: Path) -> None:
    path = parts(root)[0]
    path.with_name("part-00000-00009.parquet").write_bytes(path.read_bytes())


def lost_query(root: Path) -> None:
    file = pq.ParquetFile(parts(root)[0])
    pq.write_table(file.read_row_group(1), parts(root)[0])


def lost_column(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: t.drop_columns(["variance"]))


def lost_names(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: t.drop_columns(["query_name"]))


def gap(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "value", [None, *t["value"].to_pylist()[1:]]))


def gap_inside(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "value", [[None], [1], [2]]) if g == 0 else t)


def text(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "value", ["1", "2", "3"], pa.string()))


def no_noise(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: replaced(t, "variance", [0.0, 1.0, 1.0]))


def empty(root: Path) -> None:
    rewrite(parts(root)[0], lambda t, g: t.slice(0, 0))


def cut(root: Path) -> None:
    parts(root)[0].write_bytes(parts(root)[0].read_bytes()[:-100])


def nothing(root: Path) -> None:
    parts(root)[0].write_bytes(b"")


SPOILT: dict[Callable[[Path], None], str] = {
    mixed: "mixes queries",
    ragged: "lengths",
    other_width: "answers",
    unknown_unit: "99999",
    lost_unit: "no measurement of 'total' for Block 01002",
    unit_twice: "01001",
    part_twice: "01000",
    lost_query: "total",
    lost_column: "variance",
    lost_names: "query_name",
    gap: "value",
    gap_inside: "a value of",
    text: "value",
    no_noise: "not positive",
    empty: "State=01",
    cut: "State=01",
    nothing: "State=01",
}


@pytest.mark.parametrize("spoil,word", SPOILT.items(), ids=[s.__name__ for s in SPOILT])
def test_damage_is_told_with_its_file(root: Path, spoil: Callable[[Path], None], word: str) -> None:
    spoil(root)
    with pytest.raises(ReleaseError, match=word) as caught:
        NmfReader(root, SPINE).read("Block", "total", 0, 8)
    assert str(root) in str(caught.value)
    assert "what to do" in str(caught.value)


def test_a_unit_that_is_lost_elsewhere_does_not_matter_here(root: Path) -> None:
    lost_unit(root)
    assert len(NmfReader(root, SPINE).read("Block", "total", 3, 8).values) == 5


def test_a_level_or_query_that_is_not_there(root: Path) -> None:
    reader = NmfReader(root, SPINE)
    with pytest.raises(ReleaseError, match="State"):
        reader.read("State", "total", 0, 3)
    with pytest.raises(ReleaseError, match="'cenrace'"):
        reader.read("Block", "cenrace", 0, 8)


def constrained(root: Path) -> Path:
    bound = np.array([[10], [20], [30]])
    write(root, "State", PL94, SPINE, measured("State"))
    write_constraints(root, PL94, SPINE, [Constraint("total", "State", "total", "=", bound)])
    return parts(root, "State", "Constraint")[0]


@pytest.mark.parametrize(
    "change,word",
    [
        (lambda t, g: t.slice(0, 0), "missing"),
        (lambda t, g: replaced(t, "sign", ["<="]), "not the same"),
        (lambda t, g: replaced(t, "geocode", ["44"]), "twice"),
        (lambda t, g: replaced(t, "geocode", ["45"]), "45"),
        (lambda t, g: replaced(t, "value", [[1, 2]]), "not the same"),
        (lambda t, g: t.drop_columns(["sign"]), "sign"),
        (lambda t, g: replaced(t, "value", [None]), "value"),
    ],
)
def test_constraints_that_are_not_whole(
    tmp_path: Path, change: Callable[..., pa.Table], word: str
) -> None:
    rewrite(constrained(tmp_path), change)
    with pytest.raises(ReleaseError, match=word):
        NmfReader(tmp_path, SPINE).constraints("State")


def test_other_schemas_have_their_own_columns(tmp_path: Path) -> None:
    from das.model.redistricting import H1

    schema: Schema = H1
    write(
        tmp_path,
        "US",
        schema,
        SPINE,
        [Measurement("US", "detailed", 0, np.array([[3, 4]]), np.ones(1))],
    )
    assert pq.ParquetFile(parts(tmp_path, "US")[0]).schema_arrow.names == [
        "geocode",
        "query_name",
        "h1",
        "query_shape",
        "value",
        "variance",
    ]


def test_a_subtree_is_read_from_its_own_files(tmp_path: Path) -> None:
    """The upper tree and the subtrees together have what the whole has; nobody opens the files of
    another.
    """
    subtrees, root = Subtrees("State", np.array([0, 1, 3])), tmp_path / "nmf"
    bound = np.arange(SPINE.units("Block"))[:, None]
    for i, spine in subtrees.parts(SPINE):
        for level in subtrees.levels(SPINE, i):
            write(root, level, PL94, spine, of_codes(spine, level), subtree=i)
            if level == "Block":
                here = bound[SPINE.find(level, spine.codes[-1])]
                write_constraints(
                    root, PL94, spine, [Constraint("known", level, "total", "=", here)], subtree=i
                )
    whole = NmfReader(root, SPINE)
    for i, spine in subtrees.parts(SPINE):
        part = NmfReader(root, spine, subtree=i)
        for level in subtrees.levels(SPINE, i):
            assert part.queries(level) == whole.queries(level) == ("total", "votingage")
            for query in part.queries(level):
                got, n = part.read(level, query, 0, spine.units(level)), SPINE.units(level)
                there = SPINE.find(level, spine.codes[spine.index(level)])
                assert np.array_equal(got.values, whole.read(level, query, 0, n).values[there])
                assert np.array_equal(
                    got.values, next(m for m in of_codes(spine, level) if m.query == query).values
                )
            assert part.constraints(level).keys() == ({"known"} if level == "Block" else set())
    assert np.array_equal(whole.constraints("Block")["known"][1], bound)
    last = subtrees.subtree(SPINE, 2)
    assert np.array_equal(
        NmfReader(root, last, subtree=2).constraints("Block")["known"][1], bound[3:]
    )
    for path in root.rglob("part-00001*.parquet"):
        path.write_bytes(b"")
    assert len(NmfReader(root, last, subtree=2).read("Block", "total", 0, 5).values) == 5
    with pytest.raises(ReleaseError, match="not a readable"):
        NmfReader(root, SPINE).read("Block", "total", 0, 8)
    with pytest.raises(ReleaseError, match="no measurements of level 'State'"):
        NmfReader(root, last, subtree=2).queries("State")


def of_codes(spine: Spine, level: str) -> list[Measurement]:
    """Answers that tell the unit by its code."""
    unit = SPINE.find(level, spine.codes[spine.index(level)])
    return [
        Measurement(
            level,
            query,
            0,
            10 * unit[:, None] + np.arange(PL94.query(query).answers) + n,
            np.ones(len(unit)),
        )
        for n, query in enumerate(("total", "votingage"))
    ]


@pytest.mark.parametrize("start,stop", [(0, 8), (0, 1), (3, 5), (5, 8), (7, 8)])
def test_files_of_any_units_are_found(tmp_path: Path, start: int, stop: int) -> None:
    """In another publisher's files the units of one may lie anywhere among those of another."""
    write(tmp_path, "Block", PL94, SPINE, measured("Block", [8], ("total",)))
    written = sorted(tmp_path.rglob("part-*.parquet"))
    table = pa.concat_tables([pq.read_table(p, partitioning=None) for p in written])
    for old in written:
        old.unlink()
    for number, units in enumerate(([0, 7], [1, 2], [3], [4, 6], [5])):
        pq.write_table(table.take(units), written[0].with_name(f"part-{number}.parquet"))
    reader = NmfReader(tmp_path, SPINE)
    assert reader.read("Block", "total", start, stop).values[:, 0].tolist() == list(
        range(10_000 * start - 5, 10_000 * stop - 5, 10_000)
    )
    held = {
        f
        for f, units in enumerate(((0, 7), (1, 2), (3,), (4, 6), (5,)))
        if any(start <= u < stop for u in units)
    }
    assert held <= {int(f.path.stem[5:]) for f in reader.part("Block", start, stop).files}


def test_a_subtree_in_two_branches_is_not_looked_at_for_what_lies_between(tmp_path: Path) -> None:
    codes = np.array([f"{i:03d}" for i in range(200)])
    spine = Spine(
        ("US", "Block"),
        (np.array(["US"]), codes),
        (np.zeros(1, dtype=np.int64), np.zeros(200, dtype=np.int64)),
    )
    values = np.arange(200)[:, None]
    for i in range(1, 5):  # each has ten blocks of a hundred, and ten of the other hundred
        units = np.concatenate(
            [np.arange(20 * i, 20 * i + 10), np.arange(100 + 20 * i, 110 + 20 * i)]
        )
        part = spine.restricted("Block", units)
        write(
            tmp_path,
            "Block",
            PL94,
            part,
            [Measurement("Block", "total", 0, values[units], np.ones(20))],
            subtree=i,
        )
    measured = np.isin(np.arange(200) % 100 // 10, (2, 4, 6, 8))
    reader = NmfReader(tmp_path, spine, {"Block": measured}.__getitem__)
    for start, stop, subtrees in (
        (0, 200, [1, 2, 3, 4]),
        (20, 30, [1]),
        (45, 61, [2, 3]),
        (180, 182, [4]),
        (130, 140, []),
    ):
        part = reader.part("Block", start, stop)
        assert [int(f.path.stem[5:10]) for f in part.files] == subtrees
        got = part.read("Block", "total", start, stop)
        assert np.array_equal(got.values[:, 0], np.where(measured, np.arange(200), 0)[start:stop])
