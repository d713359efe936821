"""Linked files of simulated persons and households: the reader of tables finds in them what was
counted, and the links hold.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from das.cli import main
from das.errors import InputError
from das.files.readers import table
from das.files.simulators import census_2010, census_2020
from das.files.simulators.people import generator
from das.model.histogram import Histogram
from das.model.names import encoded
from das.model.records import Records
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.publications.dhc.files import linked
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation.records import SimulatedDhc, simulate
from das.publications.dhc.truth import simulated
from das.truth.readers import read

#: Out of order, as the reader does not have them; the last two blocks are empty land, and a vacant
#: unit.
CODES = ["30", "10", "20", "50", "40"]


@pytest.fixture(scope="module")
def world() -> SimulatedDhc:
    rng = np.random.default_rng(1)
    block, cell = rng.integers(0, 3, 400), rng.integers(0, 252, 400)
    cell[:40] = 5 * 252 + 126  # in college
    persons = Histogram.from_triplets(5, PL94.cells, block, cell, np.ones(400, dtype=np.int64))
    units = np.array([70, 60, 50, 0, 1])
    return simulate(generator(2), persons, units, np.array([55, 50, 45, 0, 0]))


@pytest.mark.parametrize("schema", [DHCP, DHCH, TENVACGQ], ids=lambda s: s.name)
def test_the_reader_of_tables_finds_the_histograms(
    tmp_path: Path, world: SimulatedDhc, schema: Schema
) -> None:
    paths = dict(
        zip(("dhcp", "dhch", "tenvacgq"), simulated.write(tmp_path, world, CODES), strict=True)
    )
    counted = {"dhcp": world.persons, "dhch": world.households, "tenvacgq": world.units}[
        schema.name
    ]()
    columns = {"geography": {"Block": "block"}} | ({"count": "count"} if schema is TENVACGQ else {})
    extract = table.read([paths[schema.name]], schema, columns=columns)
    found = extract.persons.open("a test")
    codes = extract.blocks.fields["Block"]
    assert len(codes) == (5 if schema is TENVACGQ else 3)
    given = encoded(CODES)
    where = np.array([int(np.flatnonzero(given == code)[0]) for code in codes])
    assert Histogram.from_triplets(
        5, schema.cells, where[found.block], found.cell, found.count
    ).same_as(counted)


def test_persons_are_linked_to_their_household(tmp_path: Path, world: SimulatedDhc) -> None:
    persons, households, _ = (
        pq.read_table(path).to_pylist() for path in simulated.write(tmp_path, world, CODES)
    )
    home = {row["household"]: row for row in households}
    assert len(home) == len(households) == len(world.cell)
    size = Counter(row["household"] for row in persons if row["household"] is not None)
    assert set(size) == set(home)
    for row in persons:
        number = row["household"]
        assert (number is None) == row["relgq"].startswith("gq-")
        if number is None:
            continue
        assert home[number]["block"] == row["block"]
        assert home[number]["hhtype_dhch"].endswith(f"size{min(size[number], 7)}")
        if row["relgq"].startswith("householder"):
            assert (row["sex"], row["hispanic"]) == (home[number]["sex"], home[number]["hisp"])


@pytest.mark.parametrize("codes", [CODES[:4], ["1", "1", "2", "3", "4"]])
def test_other_blocks_are_refused_and_nothing_is_written(
    tmp_path: Path, world: SimulatedDhc, codes: list[str]
) -> None:
    with pytest.raises(InputError, match="codes of 5 blocks"):
        simulated.write(tmp_path, world, codes)
    assert not list(tmp_path.iterdir())


# --- from a redistricting extract
# --------------------------------------------------------------------------------


def das(*words: object) -> Result:
    return CliRunner().invoke(main, ["data", "simulate", *map(str, words), "--quiet"])


@pytest.fixture(scope="module", params=["pl94-2010", "pl94-2020"])
def given(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A format, and a folder of files in it."""
    folder = tmp_path_factory.mktemp("given")
    if request.param == "pl94-2010":
        census_2010.write(folder, seed=3, states=2, persons=2500, sf1=True)
    else:
        census_2020.write(folder, seed=3, share=0.002, states=["RI"])
    return request.param, folder


def test_the_command_keeps_the_counts_of_its_input(given: tuple[str, Path], tmp_path: Path) -> None:
    reader, folder = given
    words = (
        "dhc",
        "--blocks",
        folder,
        "--reader",
        reader,
        "--out",
        tmp_path / "linked",
        "--seed",
        1,
    )
    done = das(*words)
    assert done.exit_code == 0, done.output
    assert done.output.split() == [str(tmp_path / "linked" / name) for name in simulated.NAMES]
    extract, made = read(reader, [folder], PL94), linked.read(tmp_path / "linked")
    order = np.argsort(extract.blocks.fields["Block"])
    assert np.array_equal(extract.blocks.fields["Block"][order], made.blocks)
    back = np.argsort(order)

    def of(records: Records, at: np.ndarray | None = None) -> Histogram:
        block = records.block if at is None else at[records.block]
        return Histogram.from_triplets(
            len(order), records.schema.cells, block, records.cell, records.count
        )

    pl94 = of(extract.persons.open("a test"), back).answer(PL94.query("detailed"))
    persons = of(made.persons.open("a test"))
    assert np.array_equal(
        persons.answer(DHCP.query("hhgq8lev * votingage * hispanic * cenrace")), pl94
    )
    h1 = of(extract.others["housing"].open("a test"), back).dense()
    units = of(made.units.open("a test")).answer(TENVACGQ.query("unit_class"))
    households = of(made.households.open("a test")).totals()
    assert np.array_equal(units[:, 0], households)
    assert np.array_equal(units[:, :2].sum(axis=1), h1.sum(axis=1))
    could = np.minimum(h1[:, 1], persons.answer(DHCP.query("hhgq8lev"))[:, 0])
    assert np.array_equal(households[h1[:, 1] > 0], could[h1[:, 1] > 0])


def test_the_files_are_a_function_of_input_and_seed(
    given: tuple[str, Path], tmp_path: Path
) -> None:
    reader, folder = given
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert (
            das(
                "dhc",
                "--blocks",
                folder,
                "--reader",
                reader,
                "--out",
                tmp_path / name,
                "--seed",
                seed,
            ).exit_code
            == 0
        )
    for name in simulated.NAMES:
        a, b, c = ((tmp_path / run / name).read_bytes() for run in "abc")
        assert a == b
        assert a != c, name


def test_dormitories_of_rhode_island_are_group_quarters(shared_data: Path) -> None:
    """All five counties: no household has more than 20 members, occupied units are those of the
    file, every person is placed, and the note says how many are in group quarters by rule."""
    path = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    if not path.is_file():
        pytest.skip(f"no {path}")
    world, codes, notes = simulated.made_up([path], seed=1)
    people, blocks = world.people, len(codes)
    homes = read("pl94-2010", [path], PL94).others["housing"].open("a test")
    occupied = np.bincount(
        homes.block, weights=np.where(homes.cell == 1, homes.count, 0), minlength=blocks
    )
    lived_in = np.bincount(world.block[people.household >= 0], minlength=blocks) > 0
    assert (world.occupied[lived_in] == occupied[lived_in]).all()
    assert not world.occupied[~lived_in].any()
    size = np.bincount(people.household[people.household >= 0])
    county, at = np.unique(encoded(codes).astype("S5"), return_inverse=True)
    largest = [int(size[at[world.home_block] == c].max()) for c in range(5)]
    away = np.bincount(at[world.block[people.household < 0]], minlength=5)
    everybody = np.bincount(at[world.block], minlength=5)
    rows = zip(everybody.tolist(), away.tolist(), largest, strict=True)
    assert dict(zip(county.tolist(), rows, strict=True)) == {
        b"44001": (49_875, 1_054, 20),
        b"44003": (166_158, 2, 16),
        b"44005": (82_888, 2_436, 20),
        b"44007": (626_667, 15_487, 20),
        b"44009": (126_979, 4_955, 20),
    }
    (note,) = notes
    assert note.startswith(f"{away.sum():,} persons live in group quarters.")
    assert "beyond 20 for each occupied housing unit" in note


def test_crowded_housing_units_are_said_where_group_quarters_are_counted(
    given: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one person a unit were crowded, nearly every block with persons would be."""
    reader, folder = given
    assert not simulated.made_up([folder], seed=1, reader=reader).notes
    monkeypatch.setattr(simulated, "MOST_AT_HOME", 1)
    (note,) = simulated.made_up([folder], seed=1, reader=reader).notes
    assert "more than 1 persons at home for each housing unit" in note


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("dhc",), "--blocks: no redistricting file is given"),
        (("dhc", "--blocks", "nowhere.zip"), "nowhere.zip: no such file"),
        (("dhc", "--blocks", "empty"), "empty: holds no"),
        (
            ("dhc", "--blocks", "empty", "--persons", "12000"),
            "--persons: is of 2010, 1940, detailed, not of dhc",
        ),
        (
            ("dhc", "--blocks", "empty", "--workers", "1"),
            "--workers: is of nation, detailed, not of dhc",
        ),
        (("2010", "--blocks", "empty"), "--blocks: is of dhc, not of 2010"),
        (("1940", "--reader", "pl94-2020"), "--reader: is of dhc, not of 1940"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = das(*words, "--out", "out", "--seed", 1)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


def test_a_negative_seed_and_a_file_in_the_way(given: tuple[str, Path], tmp_path: Path) -> None:
    reader, folder = given
    words = ("dhc", "--blocks", folder, "--reader", reader, "--out", tmp_path / "out")
    done = das(*words, "--seed", "-1")
    assert (done.exit_code, "seed -1" in done.stderr) == (2, True)
    (tmp_path / "out").write_text("a file")
    done = das(*words, "--seed", "1")
    assert (done.exit_code, "cannot be written" in done.stderr) == (2, True), done.stderr


def test_a_format_without_units_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'ppmf' does not tell which units are occupied"):
        simulated.simulate([tmp_path], tmp_path / "out", seed=1, reader="ppmf")


def test_what_has_the_counts_of_the_input_is_its_owners_alone(
    tmp_path: Path, world: SimulatedDhc
) -> None:
    """A folder that has something else in it stays as it is; the files are closed all the same."""
    before = os.umask(0)
    try:
        new, used = tmp_path / "new", tmp_path / "used"
        used.mkdir(0o755)
        (used / "other").touch()
        for folder, mode in ((new, 0o700), (used, 0o755)):
            paths = simulated.write(folder, world, CODES)
            assert {p.stat().st_mode & 0o777 for p in paths} == {0o600}
            assert folder.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)
