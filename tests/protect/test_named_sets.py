"""Table sets by name, cells of one schema in another, and what uses are made of."""

from __future__ import annotations

import numpy as np
import pytest

from das.errors import SpecError
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.publications.dhc.model.persons import DHCP
from das.tools.protection.census_tables import joined_set, named_set, own_set, recoded, schema_of
from das.tools.protection.published import WITHHELD, LevelLines
from das.tools.protection.uses import TableUse, TiledUse

PEOPLE = Schema.from_attributes("people", {"sex": 2, "age": 3, "origin": 2})


def test_the_named_sets_have_their_lines() -> None:
    """P1 to P5 have 71 + 73 + 71 + 73 + 10 columns."""
    assert len(named_set("pl94", ("Block",)).lines("Block")) == 298
    dhc = named_set("dhc-persons", ("Block",))
    names = {t.name for t in dhc.tables["Block"]}
    assert {"P1", "P5", "P12", "P12A", "P12I", "PCT12"} <= names
    assert not names & {"P6", "P7", "P16"}  # races tallied; relationships
    with pytest.raises(SpecError, match="no table set 'sf2'"):
        schema_of("sf2")


def test_two_sets_are_one_unless_a_line_is_in_both() -> None:
    one = own_set("one", PEOPLE, {"Block": [Tabulation("A", "", "sex", total=False)]})
    two = own_set("two", PEOPLE, {"Tract": [Tabulation("B", "", "age", total=False)]})
    assert set(joined_set("both", one, two).tables) == {"Block", "Tract"}
    with pytest.raises(SpecError, match="both table sets have a line A0001 at Block"):
        joined_set("both", one, one)


def test_cells_are_told_by_other_schemas() -> None:
    man = np.ravel_multi_index((1, 0, 24, 1, 0), DHCP.shape)  # a householder of 24
    old = np.ravel_multi_index((18, 1, 115, 0, 62), DHCP.shape)  # in a prison
    cells = np.array([man, old])
    sf1, pl94 = schema_of("sf1-2010"), schema_of("pl94")
    sex, age, origin, race = np.unravel_index(recoded(cells, DHCP, sf1), sf1.shape)
    assert [sf1.attribute("age").levels[a] for a in age] == ["22-24", "85-110"]
    assert (sex.tolist(), origin.tolist(), race.tolist()) == ([0, 1], [1, 0], [0, 62])
    hhgq, adult, *_ = np.unravel_index(recoded(cells, DHCP, pl94), pl94.shape)
    assert (hhgq.tolist(), adult.tolist()) == ([0, 1], [1, 1])
    with pytest.raises(SpecError, match="do not tell 'religion'"):
        recoded(cells, DHCP, Schema.from_attributes("own", {"religion": ["x", "y"]}))


def lines_of(use: str) -> tuple[TiledUse, LevelLines, Histogram]:
    """A block with two people of each cell, and its tables of sex by age and of origin."""
    tables = own_set(
        "own", PEOPLE, {"Block": [Tabulation("A", "", "sex * age"), Tabulation("B", "", "origin")]}
    )
    h = Histogram.from_triplets(1, 12, np.zeros(12, int), np.arange(12), np.full(12, 2))
    exact = LevelLines.exact(tables.lines("Block").counts(h))
    return TiledUse.from_tables(TableUse.of_query("u", "", PEOPLE, use), tables, "Block"), exact, h


def test_a_use_is_made_of_the_fewest_lines_of_one_table() -> None:
    """The total is the first line of either table, each sex the sum of three lines."""
    total, lines, h = lines_of("total")
    assert (total.tiled.tolist(), total.tiles.nnz) == ([True], 1)
    sex, lines, h = lines_of("sex")
    assert sex.tiles.nnz == 6
    guess = np.zeros((1, 2), dtype=np.int64)
    value, whole = sex.estimate(lines, np.zeros_like(lines.value), guess)
    assert (value.tolist(), whole.tolist()) == ([[12, 12]], [[True, True]])
    assert np.array_equal(value, sex.use.counts(h))
    assert not lines_of("sex * origin")[0].tiled.any()  # crossed nowhere


@pytest.mark.parametrize("use", ["sex * age", "hispanic * cenrace"])
def test_the_lines_of_a_use_have_its_cells_once_and_are_of_one_table(use: str) -> None:
    """And where it has none, no table's lines within it add up to it."""
    tables = named_set("sf1-2010", ["Block"])
    lines, found = tables.lines("Block"), TableUse.of_query("u", "", tables.schema, use)
    cells, tiled = lines.matrix.toarray(), TiledUse.from_tables(found, tables, "Block")
    for wanted, mine, made in zip(
        found.matrix.toarray(), tiled.tiles.toarray() > 0, tiled.tiled, strict=True
    ):
        inside = (cells <= wanted).all(axis=1)
        sums = [cells[inside & (lines.table == t)].sum(axis=0) for t in set(lines.table[inside])]
        assert np.array_equal(cells[mine].sum(axis=0), wanted) == made
        assert len(set(lines.table[mine])) == made
        assert made or not any(np.array_equal(total, wanted) for total in sums)


def test_a_guess_stands_in_for_a_line_that_is_withheld() -> None:
    sex, lines, _ = lines_of("sex")
    hidden = int(sex.tiles.indices[0])
    value, upper, lower = lines.value.copy(), lines.upper.copy(), lines.lower.copy()
    value[0, hidden], lower[0, hidden], upper[0, hidden] = WITHHELD, 0, 99
    some = LevelLines(lower, upper, value)
    guessed = np.full_like(value, 7)
    found, whole = sex.estimate(some, guessed, np.zeros((1, 2), dtype=np.int64))
    assert found.tolist() == [[4 + 4 + 7, 12]]
    assert whole.tolist() == [[False, True]]
