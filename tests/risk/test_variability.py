"""Solution variability, against all solutions by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from das.model.histogram import Histogram
from das.tools.protection import census_tables
from das.tools.protection.attack import AttackOptions, AttackStatus, reconstruct
from das.tools.protection.attack.propagation import ReducedProgram, propagated, variability
from das.tools.protection.published import LevelLines, ProtectedTables, TableSet
from tests.risk.attack_worlds import solutions, tree, two_way

Ints = NDArray[np.int64]
#: Margins, the number of tables that have them, and the least and largest variability in percent
#: from any of these (facts of the method, by enumeration).
TWO_WAY: list[tuple[tuple[int, ...], tuple[int, ...], int, float, float]] = [
    ((1, 1), (1, 1), 2, 100, 100),
    ((2, 1), (2, 1), 2, 200 / 3, 200 / 3),
    ((3, 2), (2, 2, 1), 5, 40, 80),
    ((2, 2, 2), (2, 2, 2), 21, 500 / 6, 100),
    ((1, 1, 1, 1), (2, 1, 1), 12, 100, 100),
    ((1, 1, 1, 1, 1), (4, 1), 5, 40, 40),
    ((5,), (3, 2), 1, 0, 0),
]


def program_of(matrix: Ints, lower: Ints, upper: Ints) -> ReducedProgram:
    """A program whose cells are classes of their own."""
    n = matrix.shape[1]
    none = np.zeros(0, dtype=np.int64)
    most = np.where(matrix > 0, upper[:, None], upper.max()).min(axis=0)
    every = np.arange(n)
    return ReducedProgram(
        every, every, sparse.csr_array(matrix), lower, upper, most, none, none, -1
    )


def farthest(start: Ints, each: list[Ints]) -> float:
    return 100 * max(int(np.abs(x - start).sum()) for x in each) / (2 * int(start.sum()))


@pytest.mark.parametrize(("rows", "columns", "number", "least", "most"), TWO_WAY)
def test_two_way_tables_from_every_start(
    rows: tuple[int, ...], columns: tuple[int, ...], number: int, least: float, most: float
) -> None:
    p = two_way(rows, columns)
    matrix = p.tables.lines("Block").matrix.toarray()
    y = p.levels["Block"].value[0]
    each = _tables(rows, columns)
    assert len(each) == number
    program = program_of(matrix, y, y)
    known = propagated(program)
    found = [variability(program, known, x, 10.0) for x in each]
    assert [v.percent for v in found] == pytest.approx([farthest(x, each) for x in each])
    assert min(v.percent for v in found) == pytest.approx(least)
    assert max(v.percent for v in found) == pytest.approx(most)
    assert all(v.proved for v in found)
    assert reconstruct(p).unique.all() == (number == 1)


def _tables(rows: tuple[int, ...], columns: tuple[int, ...]) -> list[Ints]:
    """All tables with these margins, row by row."""
    if len(rows) == 1:
        return [np.array(columns)]
    out = []
    n = len(columns)
    for first in solutions(np.ones((1, n), dtype=int), *[np.array([rows[0]])] * 2, rows[0]):
        if (first <= columns).all():
            rest = tuple((np.array(columns) - first).tolist())
            out += [np.concatenate([first, t]) for t in _tables(rows[1:], rest)]
    return out


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_programs_with_bounds_against_brute_force(data: st.DataObject) -> None:
    """Rows that overlap, and totals that are not fixed."""
    cells = data.draw(st.integers(2, 4))
    matrix = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 1), min_size=cells, max_size=cells), min_size=1, max_size=3
            )
        )
    )
    matrix = np.concatenate([matrix, np.ones((1, cells), dtype=int)])
    start = np.array(data.draw(st.lists(st.integers(0, 2), min_size=cells, max_size=cells)))
    slack = data.draw(st.integers(0, 1))
    y = matrix @ start
    lower, upper = np.maximum(y - slack, 0), y + slack
    each = solutions(matrix, lower, upper, int(upper.max()))
    program = program_of(matrix, lower, upper)
    known = propagated(program)
    assert known.feasible
    assert all((known.least <= x).all() and (x <= known.most).all() for x in each)
    if known.several:
        assert len(each) > 1
    if known.settled:
        assert len(each) == 1
    found = variability(program, known, start, 10.0)
    if start.sum():
        assert found.percent == pytest.approx(farthest(start, each))
    assert found.unique == (len(each) == 1)


def _five_men(tables: TableSet) -> ProtectedTables:
    """Of ages 25-29 to 45-49, four White and a Black one, not Hispanic, in one block."""
    schema = tables.schema
    age = [census_tables.BINS.index(a) for a in (25, 30, 35, 40, 45)]
    race = [0, 0, 1, 0, 0]
    cell = np.ravel_multi_index(([0] * 5, age, [0] * 5, race), schema.shape)
    h = Histogram.from_triplets(1, schema.cells, np.zeros(5, int), cell, np.ones(5, int))
    return ProtectedTables(
        tree(1), tables, {"Block": LevelLines.exact(tables.lines("Block").counts(h))}
    )


def test_five_men_are_found_only_by_tables_of_each_race() -> None:
    every = census_tables.table_set(("Block",))
    some = [t for t in every.tables["Block"] if t.name in ("P1", "P8", "P9", "P12", "P14")]
    without = reconstruct(_five_men(TableSet("few", every.schema, {"Block": tuple(some)})))
    assert without.variability[0] == pytest.approx(40)
    assert without.status[0] == AttackStatus.SOLVED
    all_ = reconstruct(_five_men(every))
    assert all_.variability[0] == 0
    assert all_.unique.all()
    quick = reconstruct(_five_men(every), AttackOptions(variability=False))
    assert quick.unique.all()  # no solver is needed
