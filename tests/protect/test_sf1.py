"""The lines of the published attack, against the list that was published with it."""

import csv
from collections import Counter
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from das.errors import SpecError
from das.tools.protection import census_tables

TABLES = census_tables.table_set(("Tract", "Block"), single_years=True)
#: Of each attribute a random weight for each level: cells have their products.
WEIGHTS = [np.random.default_rng(1).integers(-(2**62), 2**62, n) for n in TABLES.schema.shape]
RACES = ("white", "black", "aian", "asian", "nhopi", "sor")


def test_sizes() -> None:
    """773 lines of a block; 206 of each of 16 tables of a tract."""
    assert len(TABLES.lines("Block")) == 773
    assert len(TABLES.lines("Tract")) == 773 + 16 * 206
    assert TABLES.schema.cells == 2 * 111 * 2 * 63
    bins = census_tables.table_set(("Tract", "Block"))
    assert bins.schema.cells == 2 * 38 * 2 * 63
    assert len(bins.lines("Tract")) == 773 + 16 * 2 * 38
    with pytest.raises(SpecError, match="0 levels"):
        census_tables.table_set(())


def test_each_line_counts_what_the_published_list_says(shared_data: Path) -> None:
    """As multisets of sets of cells, by a random weight of each cell; the list gives P14's two sums
    besides."""
    path = shared_data / "reconstruction" / "sf1_vars_race_binaries.csv"
    if not path.is_file():
        pytest.skip("the list of lines of the published attack is not here")
    with path.open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    listed = Counter((r["table_number"], _fingerprint(r)) for r in rows)
    lines = TABLES.lines("Tract")
    weight = reduce(np.multiply.outer, WEIGHTS).ravel()
    named = [TABLES.tables["Tract"][i].name for i in lines.table]
    ours = Counter(zip(named, (lines.matrix @ weight).tolist(), strict=True))
    assert not ours - listed
    assert sorted(name for name, _ in (listed - ours).elements()) == ["P14", "P14"]


def _fingerprint(row: dict[str, str]) -> int:
    """The sum of the weights of the cells that a line of the list counts: a product over the
    attributes, whatever the line, modulo 2^64."""
    of = TABLES.schema
    sex, age, origin, race = (np.ones(n, dtype=bool) for n in of.shape)
    if row["sex"] != "missing":
        sex = np.array([row["sex"] == "male", row["sex"] == "female"])
    if row["hispanic"] != "missing":
        origin = np.array([row["hispanic"] == "N", row["hispanic"] != "N"])
    members = [set(x.split("+")) for x in of.attribute("cenrace").levels]
    for column, name in zip(RACES, of.attribute("cenrace").levels, strict=False):
        if row[column] != "missing":
            race &= np.array([(name in m) == (row[column] == "Y") for m in members])
    if row["two"] == "two":
        race &= np.array([len(m) > 1 for m in members])
    age = (np.arange(111) >= int(row["start_age"])) & (np.arange(111) <= int(row["end_age"]))
    sums = [w @ mask for w, mask in zip(WEIGHTS, (sex, age, origin, race), strict=True)]
    return int(reduce(np.multiply, sums))
