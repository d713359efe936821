"""The crosswalk of names: what it names is there, and with it the tables are what other tools
demand. `python -m benchmarks.linked_readers` lets the tools themselves read them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.linked_readers import (
    ACTIVITYSIM,
    POPULATIONSIM,
    adults_of_blocks,
    model_tables,
    read,
)
from das.tools.link.files import CROSSWALK, write
from tests import dhc_small
from tests import linked_worlds as worlds

#: By tool and table the columns without which it refuses a table, as its reader and its example
#: settings have them; the first is the index.
WANTED = {
    ACTIVITYSIM: {
        "households": ["household_id", "home_zone_id", "hhsize"],
        "persons": ["person_id", "household_id", "PNUM", "sex", "age"],
    },
    POPULATIONSIM: {
        "households": ["household_id", "NP", "BLOCK", "HHAGE", "TEN"],
        "persons": ["person_id", "household_id", "per_num", "SEX", "AGEP", "RELSHIPP"],
    },
}


SIZE = {ACTIVITYSIM: "hhsize", POPULATIONSIM: "NP"}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked")
    found = worlds.linked(worlds.disagreeing())
    write(folder, found, dhc_small.tree().codes[-1], csv=False, private=True)
    return folder


def test_every_column_that_it_names_is_there(linked: Path) -> None:
    names = pd.read_csv(linked / CROSSWALK)
    for table, rows in names.groupby("file"):
        columns = set(read(linked, str(table)))
        assert set(rows.column) <= columns, table
    tools = names.columns[2:]
    assert set(WANTED) <= set(tools)
    for tool in tools:
        said = names.dropna(subset=[tool])
        assert not said.duplicated(["file", "column"]).any()


@pytest.mark.parametrize("tool", list(WANTED))
def test_tables_are_what_a_tool_demands(linked: Path, tmp_path: Path, tool: str) -> None:
    model_tables(linked, tool, tmp_path / "out")
    homes, people, zones = (
        pd.read_csv(tmp_path / "out" / f"{name}.csv")
        for name in ("households", "persons", "land_use")
    )
    for table, frame in (("households", homes), ("persons", people)):
        wanted = WANTED[tool][table]
        assert set(wanted) <= set(frame)
        assert frame[wanted[0]].dtype.kind == "i"
        assert frame[wanted[0]].is_unique
    everyone = read(linked, "persons")
    assert len(people) == len(everyone)
    assert everyone.household.isna().any()  # some are in group quarters
    sizes = people.groupby("household_id").size()
    size = homes.set_index("household_id")[SIZE[tool]]
    assert sizes.to_dict() == size.to_dict()
    assert zones.zone_id.dtype.kind == "i"
    assert zones.TOTHH.sum() == len(homes)
    assert zones.TOTPOP.sum() == len(people)


def test_persons_of_blocks_for_districts(linked: Path, tmp_path: Path) -> None:
    blocks = adults_of_blocks(linked, tmp_path / "blocks.csv")
    people = read(linked, "persons")
    assert blocks.persons.sum() == len(people)
    assert blocks.adults.sum() == (people.age.astype(int) >= 18).sum()
    assert (pd.read_csv(tmp_path / "blocks.csv").persons >= 1).all()
