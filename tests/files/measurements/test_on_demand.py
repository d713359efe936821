"""What was measured on demand, in files: given back as it was, read by others, small, and refused
where it is not whole."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files.measurements.nmf_reader import NmfReader
from das.model.measurement import SparseMeasurement, SparseSource
from das.model.redistricting import PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.publications.dhc.files import on_demand
from das.publications.dhc.files.on_demand import OnDemandReader, write

Ints = NDArray[np.int64]
BLOCKS = 6
SPINE = Spine(
    ("US", "Block"),
    (np.array(["US"]), np.array([f"{i:04d}" for i in range(BLOCKS)])),
    (np.zeros(1, dtype=np.int64), np.zeros(BLOCKS, dtype=np.int64)),
)
VARIANCE = np.array([2.5, np.inf, 2.5, 0.125, 2.5, 2.5])
CELLS = PL94.cells


def some(
    at: Ints, values: Ints, query: str = "detailed", variance: NDArray[np.float64] = VARIANCE
) -> SparseMeasurement:
    return SparseMeasurement.from_coordinates(
        "Block", query, (BLOCKS, PL94.query(query).answers), at, values, variance
    )


def example() -> list[SparseMeasurement]:
    """Three queries: much of one, of one nothing but of the last unit, of one nothing at all."""
    rng = np.random.default_rng(1)
    at = np.flatnonzero(rng.random(BLOCKS * CELLS) < 0.1)
    at = at[np.isfinite(VARIANCE)[at // CELLS]]
    total = np.array([5])
    return [
        some(at, rng.integers(-90, 90, len(at))),
        some(total, np.array([-(2**40)]), "total"),
        some(total[:0], total[:0], "hhgq"),
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "Block", PL94, SPINE, example())
    return tmp_path


def part(root: Path) -> Path:
    return root / "Block.parquet" / "Revealed" / "part-00000.parquet"


AT = st.lists(
    st.sampled_from([u * CELLS + c for u in (0, 2, 3, 4, 5) for c in (0, 1, 2, 7, 2014, 2015)]),
    unique=True,
)


@given(
    AT, st.sampled_from([0, 5, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63) + 1]), st.integers(1, 12)
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int], far: int, group: int
) -> None:
    """In row groups of any size, with numbers of any."""
    monkeypatch.setattr(on_demand, "_GROUP", group)
    at = np.array(asked, dtype=np.int64)
    values = np.where(at % 5 == 0, far, at % 11 - 5)
    m = some(at, values)
    digests = write(tmp_path, "Block", PL94, SPINE, [m])
    assert digests == {
        "Block.parquet/Revealed/part-00000.parquet": (
            hashlib.sha256(part(tmp_path).read_bytes()).hexdigest()
        )
    }
    assert OnDemandReader(tmp_path, SPINE).read("Block", "detailed") == m


def test_a_reader_answers_as_what_was_asked(root: Path) -> None:
    reader: SparseSource = OnDemandReader(root, SPINE)
    assert reader.queries("Block") == ("detailed", "total", "hhgq")
    for m in example():
        assert reader.shape("Block", m.query) == m.shape
        assert reader.variance("Block", m.query).tolist() == VARIANCE.tolist()
        order = np.random.default_rng(2).permutation(len(m.at))
        assert (
            reader.answers("Block", m.query, m.unit[order], m.cell[order]) == m.values[order]
        ).all()
    with pytest.raises(
        InputError,
        match=(
            r"1 of 2 answers were not measured, such as answer 0 of unit 4.*\n.*can no longer be known"
        ),
    ):
        reader.answers("Block", "total", np.array([5, 4]), np.array([0, 0]))
    with pytest.raises(
        InputError, match=r"'age' is not measured at level 'Block'.*\n.*detailed, total, hhgq"
    ):
        reader.answers("Block", "age", np.array([0]), np.array([0]))
    with pytest.raises(ReleaseError, match="nothing was measured on demand of level 'US'"):
        reader.queries("US")
    again = pickle.loads(pickle.dumps(reader))
    assert again.answers("Block", "total", np.array([5]), np.array([0])).tolist() == [-(2**40)]


def test_any_reader_of_parquet_sees_the_numbers(root: Path) -> None:
    rows = pq.read_table(part(root)).to_pylist()
    assert [r["query_name"] for r in rows] == ["detailed_dpq"] * 5 + ["total_dpq"] * 5 + [
        "hhgq_dpq"
    ] * 5
    assert [r["geocode"] for r in rows[:5]] == ["0000", "0002", "0003", "0004", "0005"]
    m = example()[0]
    for r in rows[:5]:
        here = m.unit == int(r["geocode"])
        assert r["cell"] == m.cell[here].tolist()
        assert r["value"] == m.values[here].tolist()
        assert r["query_shape"] == [8, 2, 2, 63]
    assert [(r["cell"], r["value"]) for r in rows[5:10]] == [([], [])] * 4 + [([0], [-(2**40)])]


def test_noisy_measurement_files_beside_it_are_none_of_it(root: Path) -> None:
    with pytest.raises(ReleaseError, match="no measurements of level 'Block'"):
        NmfReader(root, SPINE).queries("Block")


def test_subtrees_are_one_source_together(tmp_path: Path) -> None:
    """Each writes of its own units; in any order, all of them or one."""
    m = example()[0]
    for subtree, units in ((2, slice(3, 6)), (1, slice(0, 3))):
        own = Spine(
            ("US", "Block"),
            (SPINE.codes[0], SPINE.codes[1][units]),
            (SPINE.parent[0], SPINE.parent[1][units]),
        )
        here = (m.unit >= units.start) & (m.unit < units.stop)
        piece = SparseMeasurement(
            "Block",
            "detailed",
            CELLS,
            m.at[here] - units.start * CELLS,
            m.values[here],
            VARIANCE[units],
        )
        write(tmp_path, "Block", PL94, own, [piece], subtree)
        assert OnDemandReader(tmp_path, own, subtree).read("Block", "detailed") == piece
    assert OnDemandReader(tmp_path, SPINE).read("Block", "detailed") == m
    with pytest.raises(ReleaseError, match="geocode '0003' is not a unit"):
        OnDemandReader(tmp_path, own, 2).read("Block", "detailed")


def test_a_part_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Any:
        yield example()[0]
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        write(tmp_path, "Block", PL94, SPINE, fails())
    assert not list(tmp_path.rglob("*.parquet"))
    assert write(tmp_path, "Block", PL94, SPINE, []) == {}
    with pytest.raises(ValueError, match="not of this level and query"):
        write(tmp_path, "US", PL94, SPINE, example())


def changed(
    column: str, change: Callable[[list[Any]], list[Any]], kind: pa.DataType | None = None
) -> Callable[[pa.Table], pa.Table]:
    def alter(table: pa.Table) -> pa.Table:
        i = table.schema.get_field_index(column)
        values = change(table[column].to_pylist())
        return table.set_column(
            i, column, pa.array(values, kind or table.schema.field(column).type)
        )

    return alter


DAMAGE: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a number less": (changed("value", lambda x: [x[0][1:], *x[1:]]), "not as long as one another"),
    "floats": (changed("value", lambda x: x, pa.list_(pa.float64())), "not integers"),
    "text": (
        changed("cell", lambda x: [list(map(str, y)) for y in x], pa.list_(pa.string())),
        "another type",
    ),
    "no such answer": (
        changed("cell", lambda x: [[CELLS, *x[0][1:]], *x[1:]]),
        "an answer to 'detailed' that there is not",
    ),
    "negative": (
        changed("cell", lambda x: [[-1, *x[0][1:]], *x[1:]]),
        "an answer to 'detailed' that there is not",
    ),
    "an answer twice": (
        changed("cell", lambda x: [[x[0][1], *x[0][1:]], *x[1:]]),
        "is there twice",
    ),
    "a unit twice": (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "two rows"),
    "no such unit": (
        changed("geocode", lambda x: ["9999", *x[1:]]),
        "geocode '9999' is not a unit of 'Block'",
    ),
    "another shape": (
        changed("query_shape", lambda x: [[8, 2, 2, 62], *x[1:]]),
        "different shapes",
    ),
    "variance zero": (changed("variance", lambda x: [0.0, *x[1:]]), "not positive and finite"),
    "variance infinite": (
        changed("variance", lambda x: [float("inf"), *x[1:]]),
        "not positive and finite",
    ),
    "a missing value": (changed("value", lambda x: [None, *x[1:]]), "missing"),
    "a missing column": (lambda t: t.drop_columns(["cell"]), "no column 'cell'"),
    "another query": (changed("query_name", lambda x: ["total_dpq", *x[1:]]), "mixes queries"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_not_whole_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, "Block", PL94, SPINE, example()[:1])
    alter, message = DAMAGE[name]
    pq.write_table(alter(pq.read_table(part(tmp_path))), part(tmp_path))
    with pytest.raises(ReleaseError, match=message):
        OnDemandReader(tmp_path, SPINE).read("Block", "detailed")


def test_a_file_that_is_cut_is_refused(root: Path) -> None:
    part(root).write_bytes(part(root).read_bytes()[:-100])
    with pytest.raises(ReleaseError, match="not a readable Parquet file"):
        OnDemandReader(root, SPINE).queries("Block")


def test_it_takes_about_a_byte_for_each_number(tmp_path: Path) -> None:
    """Blocks that were asked for the cells of their block group, and a state that was asked for a
    few per cent of a million.
    """
    wide = Schema(
        "w",
        (
            Attribute("a", tuple(map(str, range(1000)))),
            Attribute("b", tuple(map(str, range(1000)))),
        ),
    )
    rng, groups, each = np.random.default_rng(3), 60, 20
    support = [np.sort(rng.choice(wide.cells, 600, replace=False)) for _ in range(groups)]
    for level, lists in (
        ("Block", [s for s in support for _ in range(each)]),
        ("US", [np.sort(rng.choice(wide.cells, 30_000, replace=False))]),
    ):
        units = len(lists)
        spine = (
            Spine(
                (level,),
                (np.array([f"{i:015d}" for i in range(units)]),),
                (np.zeros(units, dtype=np.int64),),
            )
            if level == "US"
            else Spine(
                ("US", level),
                (np.array(["US"]), np.array([f"{i:015d}" for i in range(units)])),
                (np.zeros(1, dtype=np.int64), np.zeros(units, dtype=np.int64)),
            )
        )
        at = np.concatenate([u * wide.cells + c for u, c in enumerate(lists)])
        values = np.rint(rng.normal(0, 30.15, len(at))).astype(np.int64)
        m = SparseMeasurement(level, "detailed", wide.cells, at, values, np.full(units, 909.0))
        write(tmp_path, level, wide, spine, [m])
        size = sum(f.stat().st_size for f in (tmp_path / f"{level}.parquet").rglob("*.parquet"))
        assert size < (1.3 if level == "Block" else 2.2) * len(at)
        assert OnDemandReader(tmp_path, spine).read(level, "detailed") == m
