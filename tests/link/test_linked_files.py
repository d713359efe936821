"""The files of a linked population: what reads them finds no contradiction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from das.errors import InputError
from das.model.histogram import Histogram
from das.publications.dhc.files import linked as reader
from das.publications.dhc.model.persons import DHCP
from das.tools.link.averages import ALL, AverageRow, average_rows, sums
from das.tools.link.files import CROSSWALK, SYNTHETIC, write
from das.tools.link.population import LinkedPopulation
from tests import dhc_small
from tests import linked_worlds as worlds


@pytest.fixture(scope="module")
def linked() -> LinkedPopulation:
    return worlds.linked(worlds.disagreeing())


@pytest.mark.parametrize("csv", [False, True])
def test_linked_files_read_back(tmp_path: Path, linked: LinkedPopulation, csv: bool) -> None:
    codes = dhc_small.tree().codes[-1]
    paths = write(tmp_path, linked, codes, csv=csv, private=True)
    found = reader.read(tmp_path)
    for name, counts in linked.counts.items():
        r = getattr(found, name).open("a test compares it")
        again = Histogram.from_triplets(len(codes), counts.cells, r.block, r.cell, r.count)
        assert again.same_as(counts), name
    for path in paths:
        if path.name != CROSSWALK:
            text = pq.read_table(path) if not csv else pacsv.read_csv(path)
            assert set(text.column("note").to_pylist()) == {SYNTHETIC}


def test_names_join(tmp_path: Path, linked: LinkedPopulation) -> None:
    write(tmp_path, linked, dhc_small.tree().codes[-1], csv=False, private=False)
    persons, homes, quarters = (
        pq.read_table(tmp_path / f"{name}.parquet").to_pandas()
        for name in ("persons", "households", "group_quarters")
    )
    assert persons.person_id.is_unique
    assert homes.household.is_unique
    at_home = persons[persons.household.notna()]
    assert set(at_home.household) == set(homes.household)
    sizes = at_home.groupby("household", observed=True).size()
    assert (sizes.loc[homes.household].to_numpy() == homes["size"].to_numpy()).all()
    first = at_home[at_home.per_num == 1]
    assert set(first.relgq) <= {"householder", "householder-alone"}
    away = persons[persons.gq_id.notna()]
    assert len(at_home) + len(away) == len(persons)
    many = away.groupby("gq_id", observed=True).size()
    assert (many.loc[quarters.gq_id].to_numpy() == quarters.persons.to_numpy()).all()
    assert b"NOT PRIVATE" in pq.read_schema(tmp_path / "persons.parquet").metadata


def test_averages_are_sums_over_members(linked: LinkedPopulation) -> None:
    spine = dhc_small.tree()
    rows = average_rows(spine, linked, [])
    state = {(r.statistic, r.group): r for r in rows if r.level == "State"}
    size = state["household size", ALL]
    assert size.average == pytest.approx(len(linked.people) / len(linked.cell))
    assert size.households == len(linked.cell)
    minors = state["children", ALL]
    assert minors.average * minors.households == pytest.approx((linked.people.age < 18).sum())
    of = sums(linked, np.zeros(9, dtype=np.int64), 1)
    tenures = [k for k in of.households if k[1].startswith("tenure") and k[0] == "children"]
    assert sum(of.households[k][0] for k in tenures) == len(linked.cell)
    assert "family size" in {r.statistic for r in rows}
    assert DHCP.cells == linked.away.cells


def test_errors_of_averages_come_from_replicates(linked: LinkedPopulation) -> None:
    spine = dhc_small.tree()
    others = [worlds.linked(worlds.disagreeing(seed=s)) for s in (2, 3)]
    rows = [r for r in average_rows(spine, linked, others) if r.level == "State"]
    one = next(r for r in rows if (r.statistic, r.group) == ("household size", ALL))
    apart = [len(o.people) / len(o.cell) - one.average for o in others]
    assert one.error == pytest.approx(float(np.sqrt(np.mean(np.square(apart)))))
    same = average_rows(spine, linked, [linked])
    assert all(r.error == 0 for r in same)
    with pytest.raises(InputError, match="no households"):
        AverageRow("State", "44", "children", ALL, 0, 0.0)
