"""Averages of a link as tables: the same counts as those of the S-DHC from the same records, the
same averages as elsewhere in the link, and errors from replicates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from das.publications.sdhc.files import records as sdhc_records
from das.publications.sdhc.model.tables import PERSON, TIGHT, TRUNCATED, column
from das.publications.sdhc.truth.counts import counts
from das.tools.link.averages import (
    ALL,
    AverageTable,
    average_tables,
    line_name,
    lines_of,
    sums,
    units_of_blocks,
    write_tables,
)
from das.tools.link.files import write
from das.tools.link.population import LinkedPopulation
from tests import dhc_small
from tests import linked_worlds as worlds

SPINE = dhc_small.tree()
STATE = np.zeros(9, dtype=np.int64)


@pytest.fixture(scope="module")
def linked() -> LinkedPopulation:
    return worlds.linked(worlds.disagreeing())


@pytest.fixture(scope="module")
def tables(linked: LinkedPopulation) -> dict[str, AverageTable]:
    return {t.name: t for t in average_tables(linked, [], STATE, 1)}


def test_they_are_those_of_the_sdhc(
    linked: LinkedPopulation, tables: dict[str, AverageTable], tmp_path: Path
) -> None:
    """Every line of a State, with the counts that the S-DHC makes of these records."""
    write(tmp_path, linked, SPINE.codes[-1], csv=False, private=True)
    records, _ = sdhc_records.linked_records(tmp_path, ())
    true = counts(records, TIGHT, PERSON, dict.fromkeys(TRUNCATED, 10**6))[0]
    assert set(tables) == {"PH1", "PH5", "PH8"}
    for name, lines in lines_of().items():
        for i, line in enumerate(lines):
            assert line.below
            above, below = (
                sum(true[column(table, line.iteration, c)] for c in cells)
                for table, cells in (line.above, line.below)
            )
            assert tables[name].many[0, i] == below
            assert np.isnan(tables[name].average[0, i]) == (below == 0)
            if below:
                assert tables[name].average[0, i] == pytest.approx(above / below)


def test_they_are_the_averages_of_the_link_at_every_level(linked: LinkedPopulation) -> None:
    for level, unit in units_of_blocks(SPINE).items():
        many = SPINE.units(level)
        own, found = sums(linked, unit, many), average_tables(linked, [], unit, many)
        for table, statistic in (("PH1", "household size"), ("PH5", "family size")):
            (one,) = (t for t in found if t.name == table)
            every = [line_name(x) for x in one.lines].index(f"{table}_001")
            expected = own.average((statistic, ALL))
            assert np.array_equal(one.average[:, every], expected, equal_nan=True)


def test_files_have_errors_where_there_are_replicates(
    linked: LinkedPopulation, tmp_path: Path
) -> None:
    other = worlds.linked(worlds.disagreeing(seed=2))
    unit = units_of_blocks(SPINE)["County"]
    found = average_tables(linked, [other, other], unit, 2)
    write_tables(tmp_path, SPINE, "County", found, private=False)
    assert {p.name for p in tmp_path.iterdir()} == {f"{t}_County.csv" for t in lines_of()}
    read = pd.read_csv(tmp_path / "PH1_County.csv", dtype={"GEOCODE": str})
    assert read.GEOCODE.tolist() == ["44001", "44003"]
    assert read.NAME[0] == "County 001"
    size = np.bincount(unit[linked.block], weights=linked.size) / read.PH1_001_n
    assert read.PH1_001.to_numpy() == pytest.approx(size, abs=1e-4)
    again = np.bincount(unit[other.block], weights=other.size) / np.bincount(unit[other.block])
    assert read.PH1_001_error.to_numpy() == pytest.approx(np.abs(again - size), abs=1e-4)
    assert "NOT PRIVATE" in read.columns[-1] or "PRIVATE" in str(read.iloc[0, -1])
