"""Persons one by one, with their households."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError, SpecError
from das.model.schema import Schema
from das.publications.dhc.files import persons

SCHEMA = Schema.from_attributes("two", {"sex": ["f", "m"], "age": ["young", "old"]})
COLUMNS = {"geography": {"Tract": "tract", "Block": "block"}}


def written(folder: Path, text: str) -> list[Path]:
    path = folder / "people.csv"
    path.write_text(text)
    return [path]


def test_a_line_is_as_many_persons_as_it_counts(tmp_path: Path) -> None:
    paths = written(tmp_path, "tract,block,sex,age,n\nA,A2,m,old,3\nA,A1,f,young,1\nB,B1,f,old,0\n")
    found = persons.read(paths, SCHEMA, columns=COLUMNS | {"count": "n"})
    assert found.place.tolist() == [0, 1, 1, 1]  # A1, A2; B1 has nobody, and is a place
    assert found.cell.tolist() == [0, 3, 3, 3]
    assert found.household is None
    assert len(found.blocks) == 3


def test_households_are_numbered_and_some_have_none(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        "tract,block,hh,sex,age\nA,A1,x,f,old\nA,A1,,m,old\nA,A2,y,m,young\nA,A1,x,m,young\n",
    )
    found = persons.read(paths, SCHEMA, columns=COLUMNS, household="hh")
    assert found.household is not None
    assert found.household.tolist() == [-1, 0, 0, 1]
    again = persons.read(list(reversed(paths)), SCHEMA, columns=COLUMNS, household="hh")
    assert np.array_equal(found.cell, again.cell)


def test_a_household_in_two_places_is_refused_unless_codes_are_of_a_place(tmp_path: Path) -> None:
    paths = written(tmp_path, "tract,block,hh,sex,age\nA,A1,1,f,old\nA,A2,1,m,old\n")
    with pytest.raises(InputError, match="1 households are in more than one place"):
        persons.read(paths, SCHEMA, columns=COLUMNS, household="hh")
    columns = COLUMNS | {"unique_within_parent": True}
    found = persons.read(paths, SCHEMA, columns=columns, household="hh")
    assert found.household is not None
    assert found.household.tolist() == [0, 1]


def test_places_can_be_listed(tmp_path: Path) -> None:
    paths = written(tmp_path, "block,sex,age\nA1,f,old\n")
    places = tmp_path / "places.csv"
    places.write_text("tract,block\nA,A1\nA,A2\n")
    found = persons.read(paths, SCHEMA, columns=COLUMNS, places=places)
    assert (len(found.blocks), found.place.tolist()) == (2, [0])


def test_housing_units_are_no_persons(tmp_path: Path) -> None:
    schema = Schema("d", SCHEMA.attributes, dwelling="sex")
    with pytest.raises(SpecError, match="counts persons"):
        persons.read([], schema, columns=COLUMNS | {"housing_units": "u"})
