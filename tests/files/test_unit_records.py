"""The file of units of the DHC: what is written is read, and which rented households pay no rent is
drawn fairly.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.files.microdata.reading import read_frame
from das.microdata import expand
from das.model.histogram import Histogram
from das.model.names import encoded
from das.publications.dhc import release_files
from das.publications.dhc.model.households import DHCH, TENVACGQ

BLOCKS = encoded([f"44001000100100{i}0" for i in range(4)])
POSSIBLE = np.flatnonzero(DHCH.possible)
MUD = [
    "RTYPE",
    "GQTYPE",
    "TEN",
    "VACS",
    "HHSIZE",
    "HHT",
    "HHT2",
    "CPLT",
    "UPART",
    "MULTG",
    "THHLDRAGE",
    "THHSPAN",
    "THHRACE",
    "PAOC",
    "TP18",
    "TP60",
    "TP65",
    "TP75",
    "PAC",
    "HHSEX",
]


def tenure(cell: np.ndarray) -> np.ndarray:
    return np.unravel_index(cell, DHCH.shape)[5]


def world(seed: int, homes: int, others: int, free: float) -> tuple[Histogram, Histogram]:
    """Units and households of four blocks; of the rented ones a share pays no rent."""
    rng = np.random.default_rng(seed)
    block, cell = rng.integers(0, 4, homes), rng.choice(POSSIBLE, homes)
    of = tenure(cell)
    of[(of == 2) & (rng.random(homes) < free)] = 3
    where, what = rng.integers(0, 4, others), rng.integers(4, 35, others)
    units = histogram(TENVACGQ.cells, np.concatenate([block, where]), np.concatenate([of, what]))
    return units, histogram(DHCH.cells, block, cell)


def histogram(cells: int, block: np.ndarray, cell: np.ndarray) -> Histogram:
    return Histogram.from_triplets(4, cells, block, cell, np.ones(len(cell), dtype=np.int64))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**31), st.integers(0, 400), st.integers(0, 60), st.sampled_from([0.0, 0.3, 1.0])
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, homes: int, others: int, free: float
) -> None:
    units, households = world(seed, homes, others, free)
    out = tmp_path_factory.mktemp("units") / "units"
    release_files.write_units(out, units, households, BLOCKS)
    found, homes_found = release_files.read_units(out, BLOCKS)
    assert found.same_as(units)
    assert homes_found.same_as(households)


@pytest.mark.parametrize("free", [0.0, 1.0])
def test_every_household_has_a_record_of_its_own(tmp_path: Path, free: float) -> None:
    """Each type, sex, age, origin, race, oldest and tenure, with and without rent."""
    every = np.concatenate(
        [
            POSSIBLE[::29],
            np.ravel_multi_index(
                np.ix_([0, 1], [3], [1], [2], [0], [0, 2], range(522)), DHCH.shape
            ).ravel(),
        ]
    )
    households = histogram(DHCH.cells, np.arange(len(every)) % 4, every)
    of = np.where((tenure(households.cell) == 2) & (free > 0), 3, tenure(households.cell))
    units = Histogram.from_triplets(4, TENVACGQ.cells, households.unit, of, households.count)
    release_files.write_units(tmp_path / "units", units, households, BLOCKS)
    found, homes = release_files.read_units(tmp_path / "units", BLOCKS)
    assert homes.same_as(households)
    assert found.same_as(units)


def test_records_are_by_block_and_of_the_units_there_are(tmp_path: Path) -> None:
    units, households = world(3, 500, 80, 0.4)
    files = release_files.write_units(tmp_path / "units", units, households, BLOCKS, csv=True)
    assert [f.name for f in files] == ["part-00000.parquet", "units.csv"]
    frame = read_frame(tmp_path / "units")
    assert list(frame.columns[-20:]) == MUD
    assert len(frame.columns) == 27
    assert frame.TABBLK.astype(str).is_monotonic_increasing
    said = (
        frame.groupby(["TABBLK", "RTYPE", "TEN", "VACS", "GQTYPE"], observed=True).size().to_dict()
    )
    code = [
        "101",
        "102",
        "103",
        "104",
        "105",
        "106",
        "201",
        "202",
        "203",
        "301",
        "401",
        "402",
        "403",
        "404",
        "405",
        "501",
        "601",
        "602",
        "701",
        "801",
        "802",
        "900",
        "901",
        "997",
    ]
    want: Counter[tuple[str, ...]] = Counter()
    for block, cell, n in zip(
        units.unit.tolist(), units.cell.tolist(), units.count.tolist(), strict=True
    ):
        ten, vacs, gq = (
            str(cell + 1 if cell < 4 else 0),
            str(cell - 3 if 4 <= cell < 11 else 0),
            code[cell - 11] if cell >= 11 else "000",
        )
        want[f"00{block}0", "4" if cell >= 11 else "2", ten, vacs, gq] = n
    assert said == want
    empty = frame[frame.TEN == "0"]
    assert all(set(empty[c].astype(str)) <= {"0", "00"} for c in MUD[4:])
    assert (frame[frame.TEN != "0"].HHSIZE != "0").all()
    text = read_frame(tmp_path / "units.csv")
    assert text.astype(str).equals(frame.astype(str))


# --- the draw
# ----------------------------------------------------------------------------------------


def test_the_draw_follows_from_the_counts_alone(tmp_path: Path) -> None:
    units, households = world(5, 600, 40, 0.5)
    drawn = []
    for name, build in (("one", "das"), ("two", "another")):
        release_files.write_units(tmp_path / name, units, households, BLOCKS, build=build)
        drawn.append(free(tmp_path / name))
    assert drawn[0] == drawn[1]
    vacant = Histogram.from_triplets(
        4, TENVACGQ.cells, np.array([0]), np.array([10]), np.array([1])
    )
    more = Histogram.from_triplets(
        4,
        35,
        *(
            np.concatenate([getattr(units, x), getattr(vacant, x)])
            for x in ("unit", "cell", "count")
        ),
    )
    release_files.write_units(tmp_path / "three", more, households, BLOCKS)
    assert free(tmp_path / "three") != drawn[0]


def free(folder: Path) -> Counter[tuple[str, ...]]:
    frame = read_frame(folder)
    chosen = frame[frame.TEN == "4"].astype(str)
    return Counter(chosen.drop(columns="SCHEMA_BUILD_ID").itertuples(index=False, name=None))


def test_no_household_is_likelier_than_another_to_pay_no_rent() -> None:
    """Blocks that are alike except for a vacant unit: how often each of their rented households is
    drawn, against the first of them.
    """
    cells = POSSIBLE[tenure(POSSIBLE) == 2][[10, 90_000, 300_000]]
    households = Histogram.from_triplets(
        1, DHCH.cells, np.zeros(3, dtype=np.int64), cells, np.array([1, 1, 2])
    )
    chosen: Counter[int] = Counter()
    for vacant in range(600):
        units = Histogram.from_triplets(
            1, 35, np.zeros(3, dtype=np.int64), np.array([2, 3, 10]), np.array([3, 1, vacant])
        )
        _, cell = expand(release_files.records_of(units, households))
        (one,) = cell[(cell >= DHCH.cells) & (cell < 2 * DHCH.cells)] - DHCH.cells
        chosen[int(one)] += 1
    share = [chosen[int(c)] / 600 for c in cells]
    # five standard errors: a draw of the first, or of cells and not of households (1/3 each), is
    # far outside
    assert np.abs(np.array(share) - [0.25, 0.25, 0.5]).max() < 5 * np.sqrt(0.25 / 600) * 0.7


# --- refusals
# ----------------------------------------------------------------------------------------


def test_households_that_are_not_the_units_of_their_tenure_are_refused(tmp_path: Path) -> None:
    units, households = world(7, 100, 10, 0.2)
    fewer = households.rows(0, 3)
    less = Histogram.concatenate(
        [fewer, Histogram.from_triplets(1, DHCH.cells, *(np.zeros(0, dtype=np.int64),) * 3)]
    )
    with pytest.raises(
        InputError,
        match="block number 3 has \\[0, 0, 0\\] households by tenure, and occupied units \\[",
    ):
        release_files.write_units(tmp_path / "units", units, less, BLOCKS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "field, code, message",
    [
        ("TEN", "5", "TEN is '5' in the record 0"),
        ("TEN", "0", "vacant units and facilities alone: "),
        ("VACS", "3", "VACS is '3' in the record 0"),
        ("RTYPE", "4", "RTYPE is '4'"),
        ("HHSIZE", "1", "HHSIZE"),
        ("HHT", "0", "HHT is '0'"),
    ],
)
def test_records_that_contradict_themselves_are_refused(
    tmp_path: Path, field: str, code: str, message: str
) -> None:
    cell = np.ravel_multi_index(
        (1, 3, 0, 0, 0, 2, 0), DHCH.shape
    )  # a couple with a small child, in a rented home
    households = Histogram.from_triplets(
        4, DHCH.cells, np.array([1]), np.array([cell]), np.array([2])
    )
    units = Histogram.from_triplets(4, 35, np.array([1, 1]), np.array([2, 3]), np.array([1, 1]))
    (path,) = release_files.write_units(tmp_path / "units", units, households, BLOCKS)
    table = pq.read_table(path)
    changed = table.set_column(
        table.schema.get_field_index(field), field, pa.array([code] * 2).dictionary_encode()
    )
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match=message):
        release_files.read_units(tmp_path / "units", BLOCKS)


def test_a_missing_part_and_a_file_of_persons_are_refused(tmp_path: Path) -> None:
    units, households = world(9, 50, 5, 0.2)
    (path,) = release_files.write_units(tmp_path / "units", units, households, BLOCKS)
    table = pq.read_table(path)
    pq.write_table(table.slice(3).replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match="52 records are here, another number was written"):
        release_files.read_units(tmp_path / "units", BLOCKS)
    pq.write_table(table.drop_columns(["HHSEX"]), path)
    with pytest.raises(InputError, match="a file of units has"):
        release_files.read_units(tmp_path / "units", BLOCKS)


def test_the_same_file_every_time(tmp_path: Path) -> None:
    units, households = world(11, 300, 30, 0.5)
    digests = {
        sha256(p.read_bytes()).hexdigest()
        for name in "ab"
        for p in release_files.write_units(tmp_path / name, units, households, BLOCKS)
    }
    assert len(digests) == 1
