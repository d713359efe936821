"""Linked files of simulated persons and households: the reader of tables finds in them what was counted, and the links hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from das.errors import InputError
from das.files.readers import table
from das.files.simulators import dhc_files
from das.files.simulators.dhc import SimulatedDhc, simulate
from das.files.simulators.people import generator
from das.model.codes import encoded
from das.model.dhc.households import DHCH
from das.model.dhc.persons import DHCP
from das.model.dhc.units import TENVACGQ
from das.model.histogram import Histogram
from das.model.schema import PL94, Schema

#: Out of order, as the reader does not have them; the last two blocks are empty land, and a vacant unit.
CODES = ["30", "10", "20", "50", "40"]


@pytest.fixture(scope="module")
def world() -> SimulatedDhc:
    rng = np.random.default_rng(1)
    block, cell = rng.integers(0, 3, 400), rng.integers(0, 252, 400)
    cell[:40] = 5 * 252 + 126  # in college
    persons = Histogram.of(5, PL94.cells, block, cell, np.ones(400, dtype=np.int64))
    units = np.array([70, 60, 50, 0, 1])
    return simulate(generator(2), persons, units, np.array([55, 50, 45, 0, 0]))


@pytest.mark.parametrize("schema", [DHCP, DHCH, TENVACGQ], ids=lambda s: s.name)
def test_the_reader_of_tables_finds_the_histograms(tmp_path: Path, world: SimulatedDhc, schema: Schema) -> None:
    paths = dict(zip(("dhcp", "dhch", "tenvacgq"), dhc_files.write(tmp_path, world, CODES), strict=True))
    counted = {"dhcp": world.persons, "dhch": world.households, "tenvacgq": world.units}[schema.name]()
    columns = {"geography": {"Block": "block"}} | ({"count": "count"} if schema is TENVACGQ else {})
    extract = table.read([paths[schema.name]], schema, columns=columns)
    read = extract.persons.open("a test")
    codes = extract.blocks.fields["Block"]
    assert len(codes) == (5 if schema is TENVACGQ else 3)
    given = encoded(CODES)
    where = np.array([int(np.flatnonzero(given == code)[0]) for code in codes])
    assert Histogram.of(5, schema.cells, where[read.block], read.cell, read.count).same_as(counted)


def test_persons_are_linked_to_their_household(tmp_path: Path, world: SimulatedDhc) -> None:
    persons, households, _ = (pq.read_table(path).to_pylist() for path in dhc_files.write(tmp_path, world, CODES))
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
def test_other_blocks_are_refused_and_nothing_is_written(tmp_path: Path, world: SimulatedDhc, codes: list[str]) -> None:
    with pytest.raises(InputError, match="codes of 5 blocks"):
        dhc_files.write(tmp_path, world, codes)
    assert not list(tmp_path.iterdir())
