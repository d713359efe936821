"""Parts of the attack: the prior, dealing out, candidates of perturbed lines, prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.model.schema import Schema
from das.tools.protection.attack import AttackOptions, AttackStatus, reconstruct
from das.tools.protection.attack.propagation import UnitLines, propagated, reduced
from das.tools.protection.attack.result import AttackLines
from das.tools.protection.attack.unit import costs, dealt, guess_unit, shares
from das.tools.protection.published import WITHHELD, LevelLines, ProtectedTables
from tests.risk.attack_worlds import CROSSED, PEOPLE, people, published, tables_of, tree

QUICK = AttackOptions(variability=False)


def test_the_prior_of_two_margins_is_their_product() -> None:
    schema = Schema.from_attributes("s", {"row": 2, "column": 3})
    tables = tables_of(schema, {"R": "row", "C": "column"})
    lines = AttackLines.from_lines(tables.lines("Block"), schema)
    x = shares([(lines, np.array([[60, 40, 50, 30, 20], [0, 0, 0, 0, 0]]))]).reshape(2, 3)
    assert np.allclose(x, np.outer([0.6, 0.4], [0.5, 0.3, 0.2]), atol=0.01)
    assert x.sum() == pytest.approx(1)


def test_a_table_that_some_units_withhold_goes_before_the_others() -> None:
    """Rows are known of one unit only, columns of both: columns have the last word."""
    schema = Schema.from_attributes("s", {"row": 2, "column": 2})
    tables = tables_of(schema, {"R": "row", "C": "column"})
    lines = AttackLines.from_lines(tables.lines("Block"), schema)
    x = shares([(lines, np.array([[10, 0, 5, 5], [-1, -1, 30, 60]]))]).reshape(2, 2)
    assert np.allclose(x.sum(axis=0), [0.35, 0.65], atol=0.01)
    assert x[0].sum() > 0.9


@given(st.lists(st.integers(0, 20), min_size=1, max_size=4), st.data())
def test_classes_are_dealt_out_whole(counts: list[int], data: st.DataObject) -> None:
    size = [data.draw(st.integers(1, 4)) for _ in counts]
    of_class = np.repeat(np.arange(len(counts)), size)
    share = np.array(
        data.draw(st.lists(st.floats(0.01, 1), min_size=len(of_class), max_size=len(of_class)))
    )
    out = dealt(np.array(counts), of_class, share)
    assert np.bincount(of_class, weights=out).astype(int).tolist() == counts
    whole = np.bincount(of_class, weights=share)
    assert (np.abs(out - np.array(counts)[of_class] * share / whole[of_class]) < 1 + 1e-9).all()


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1), mean=st.sampled_from((2, 5, 10)), flat=st.booleans())
def test_a_tie_is_broken_alike_where_lines_are_shown_and_where_they_are_hidden(
    seed: int, mean: float, flat: bool
) -> None:
    """Counts of 1 and 2 are hidden. The guess from what is left obeys the exact lines, too, or
    not. If it does, exact lines give the same guess: hiding counts cannot find more there. The one
    exception are costs that are the same to the solver's precision."""
    rng = np.random.default_rng(seed)
    tables = tables_of(PEOPLE, CROSSED)
    lines, exact = AttackLines.from_lines(tables.lines("Block"), PEOPLE), AttackOptions(gap=1e-9)
    y = tables.lines("Block").counts(people(rng, 1, mean))[0]
    share = np.full(36, 1 / 36) if flat else rng.dirichlet(np.full(36, 5.0))
    small = (y > 0) & (y < 3)
    hidden = (np.where(small, 1, y), np.where(small, 2, y), np.where(small, WITHHELD, y))
    shown, other = (
        guess_unit(lines, UnitLines(*said, (0.0,)), share, replace(exact, variability=False))
        for said in ((y, y, y), hidden)
    )
    a, b = (np.bincount(g.cell, weights=g.count, minlength=36).astype(int) for g in (shown, other))
    assert np.array_equal(lines.matrix @ a, y)
    if np.array_equal(lines.matrix @ b, y) and not np.array_equal(a, b):
        program = reduced(lines, UnitLines(y, y, y, (0.0,)))
        assert program is not None
        each = costs(lines, program, share)[program.of_class]
        assert each @ a[program.cells] == pytest.approx(each @ b[program.cells], abs=1e-5)


def test_lines_of_the_same_attributes_are_a_family() -> None:
    lines = AttackLines.from_lines(
        tables_of(PEOPLE, {**CROSSED, "P5": "age"}).lines("Block"), PEOPLE
    )
    first = [int(np.flatnonzero(lines.table == t)[0]) for t in range(5)]
    family = lines.family[first]
    assert family[0] == -1  # the total
    assert len(set(family[1:].tolist())) == 1  # race by sex ties those of race to those of age
    apart = tables_of(PEOPLE, {"A": "sex * age", "B": "hispanic * cenrace", "C": "cenrace"})
    other = AttackLines.from_lines(apart.lines("Block"), PEOPLE)
    of = other.family[[int(np.flatnonzero(other.table == t)[0]) for t in range(3)]]
    assert of[1] == of[2] != of[0]


def test_what_is_left_of_a_unit_with_only_a_total_is_one_class() -> None:
    lines = AttackLines.from_lines(tables_of(PEOPLE, CROSSED).lines("Block"), PEOPLE)
    lower = np.zeros(len(lines), dtype=np.int64)
    upper = np.full(len(lines), 2**31 - 1)
    lower[lines.total] = upper[lines.total] = 7
    program = reduced(lines, UnitLines(lower, upper, lower, (0.0,)))
    assert program is not None
    assert program.classes == 1
    assert len(program.cells) == PEOPLE.cells


def test_contradictions_are_found_without_a_solver() -> None:
    lines = AttackLines.from_lines(tables_of(PEOPLE, CROSSED).lines("Block"), PEOPLE)
    value = people(np.random.default_rng(1), 1, 9.0)
    y = tables_of(PEOPLE, CROSSED).lines("Block").counts(value)[0]
    y[lines.total] += 1
    program = reduced(lines, UnitLines(y, y, y, (0.0,)))
    assert program is not None
    assert not propagated(program).feasible


def perturbed(seed: int) -> tuple[ProtectedTables, np.ndarray]:
    """Each line moved by at most two, and at least one stays where it was one."""
    rng = np.random.default_rng(seed)
    exact = published(people(rng, 6, 12.0), tree(6), tables_of(PEOPLE, CROSSED))
    true = exact.levels["Block"].value
    value = np.maximum(true + rng.integers(-2, 3, true.shape), 0)
    lines = LevelLines(np.maximum(value - 2, 0), value + 2, value, (0.0, 0.5, 1.5))
    return replace(exact, levels={"Block": lines}), true


@pytest.mark.parametrize("few", [0, 1000])
def test_perturbed_lines_obey_their_bounds_whatever_cells_are_tried(few: int) -> None:
    p, _ = perturbed(3)
    found = reconstruct(p, replace(QUICK, few=few))
    lines, y = p.levels["Block"], p.tables.lines("Block").counts(found.histogram)
    assert (found.status == AttackStatus.SOLVED).all()
    assert (lines.lower <= y).all()
    assert (y <= lines.upper).all()
    assert np.isnan(found.variability).all()


def test_candidates_alone_can_have_no_records() -> None:
    """Every printed count is zero, and a bound says that somebody is there: the likeliest cells
    are tried next.
    """
    p, _ = perturbed(3)
    lines = p.levels["Block"]
    value = np.zeros_like(lines.value)
    lower = np.zeros_like(value)
    lower[:, 0] = 1
    none = LevelLines(lower, np.full_like(value, 2), value, lines.price)
    found = reconstruct(replace(p, levels={"Block": none}), replace(QUICK, few=0))
    assert (found.histogram.totals() == 1).all()
