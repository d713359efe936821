"""Table sets, protected tables and the records of a study: what each of them refuses."""

from collections.abc import Callable

import numpy as np
import pytest

from das import tables
from das.errors import InputError
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tools.protection.published import (
    UNBOUNDED,
    WITHHELD,
    LevelLines,
    LineMatrix,
    ProtectedTables,
    TableSet,
)
from das.tools.protection.truth.method import NO_HOUSEHOLD, StudyRecords, Unprotected, generator

SCHEMA = Schema.from_attributes("people", {"age": ["young", "old"], "sex": ["f", "m"]})
SPINE = Spine.from_frame(
    {"town": ["A", "A", "B"], "block": ["A1", "A2", "B1"]}, ["all", "town", "block"]
)
AGE, SEX = (
    tables.table(Tabulation(name, name, query, total=True), SCHEMA)
    for name, query in (("T1", "age"), ("T2", "sex"))
)
TABLES = TableSet("two", SCHEMA, {"town": (AGE,), "block": (AGE, SEX)})
PLACE, CELL = np.array([0, 0, 1, 2, 2]), np.array([0, 3, 1, 2, 2])
RECORDS = StudyRecords(SCHEMA, SPINE, PLACE, CELL, np.array([0, 0, 1, 2, NO_HOUSEHOLD]))


def test_lines_count_their_cells() -> None:
    lines = TABLES.lines("block")
    assert lines.names == ("T0010001", "T0010002", "T0010003", "T0020001", "T0020002", "T0020003")
    assert lines.table.tolist() == [0, 0, 0, 1, 1, 1]
    h = RECORDS.histogram()
    dense = h.dense() @ lines.matrix.toarray().T
    assert lines.counts(h).tolist() == dense.tolist()
    assert lines.counts(h)[2].tolist() == [2, 0, 2, 2, 2, 0]  # two old women
    with pytest.raises(InputError, match="3 cells, the lines count 4"):
        lines.counts(
            Histogram.from_triplets(1, 3, np.zeros(1, int), np.zeros(1, int), np.ones(1, int))
        )


def test_no_protection_publishes_exact_lines_of_each_level() -> None:
    shown = Unprotected().protect(Confidential(RECORDS), TABLES, b"key")
    assert shown.levels["town"].value.tolist() == [[3, 2, 1], [2, 0, 2]]
    assert all((x.lower == x.upper).all() and x.shown.all() for x in shown.levels.values())
    assert shown.records is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TableSet("none", SCHEMA, {}), "a level has no table"),
        (lambda: TableSet("twice", SCHEMA, {"block": (AGE, AGE)}), "two lines have the same name"),
        (
            lambda: TableSet("odd", Schema.from_attributes("x", {"age": 3}), {"block": (AGE,)}),
            "counts the cells of another schema",
        ),
        (lambda: TABLES.lines("all"), "level 'all' has no table"),
        (
            lambda: LineMatrix.from_tables(
                (tables.table(Tabulation("T", "", columns=(("x", ({}, {})),)), SCHEMA),)
            ),
            "counts some records more than once",
        ),
    ],
)
def test_table_sets_that_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


ONE = np.array([[3]])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((ONE, ONE, ONE[0]), "different shapes"),
        ((ONE, ONE - 1, ONE), "above the other"),
        ((-ONE, ONE, ONE), "negative"),
        ((ONE, ONE, np.array([[WITHHELD]])), "withheld line is known exactly"),
        ((ONE - 2, ONE + 2, ONE, (0.0, 1.0, 1.5)), "not convex"),
        ((ONE - 2, ONE + 2, ONE, (1.0, 2.0)), "do not begin with 0"),
        ((ONE - 2, ONE + 2, ONE, (0.0, -1.0)), "not convex"),
    ],
)
def test_lines_that_are_refused(given: tuple[object, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LevelLines(*given)  # type: ignore[arg-type]


def test_a_withheld_line_is_not_shown() -> None:
    lines = LevelLines(0 * ONE, 0 * ONE + UNBOUNDED, 0 * ONE + WITHHELD, (0.0, 0.5, 1.5))
    assert not lines.shown.any()
    assert lines.some(np.array([0])).price == (0.0, 0.5, 1.5)


def test_protected_tables_fit_their_tree() -> None:
    lines = LevelLines.exact(np.zeros((2, 3), dtype=np.int64))
    assert ProtectedTables(SPINE, TABLES, {"town": lines})
    with pytest.raises(InputError, match=r"\(2, 3\) units and lines, where there are \(3, 6\)"):
        ProtectedTables(SPINE, TABLES, {"block": lines})
    with pytest.raises(InputError, match="records of another tree"):
        ProtectedTables(SPINE, TABLES, {"town": lines}, RECORDS.histogram().rows(0, 2))


@pytest.mark.parametrize(
    ("place", "cell", "household", "words"),
    [
        (PLACE[:4], CELL, None, "differ in number"),
        (PLACE + 1, CELL, None, "a place outside 0..2"),
        (PLACE, CELL + 1, None, "a cell outside 0..3"),
        (PLACE, CELL, PLACE[:4], "persons and their households differ"),
        (PLACE, CELL, np.array([0, 0, 2, 3, 3]), "not numbered 0 to households - 1"),
        (PLACE, CELL, np.array([0, 1, 1, 2, 2]), "a household is in two places"),
    ],
)
def test_records_that_are_refused(
    place: np.ndarray, cell: np.ndarray, household: np.ndarray | None, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        StudyRecords(SCHEMA, SPINE, place, cell, household)


def test_records_do_not_print_themselves() -> None:
    assert repr(RECORDS) == "<StudyRecords: confidential>"
    assert (len(RECORDS), RECORDS.households) == (5, 3)
    assert StudyRecords(SCHEMA, SPINE, PLACE, CELL).households == 0
    with pytest.raises(InputError, match="two coordinates"):
        StudyRecords(SCHEMA, SPINE, PLACE, CELL, None, np.zeros((2, 2)))


def test_random_numbers_follow_from_key_and_purpose() -> None:
    one = generator(b"key", "swap").integers(2**60, size=3).tolist()
    assert one == generator(b"key", "swap").integers(2**60, size=3).tolist()
    assert one != generator(b"kex", "swap").integers(2**60, size=3).tolist()
    assert one != generator(b"key", "swaq").integers(2**60, size=3).tolist()
    assert generator(b"ab", "c").integers(2**60) != generator(b"a", "bc").integers(2**60)
