"""Other shares of the first stage, and fewer codes of race."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import SpecError
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.model.tables import FIRST
from das.publications.detailed.planning.margins import fewer_codes, stage_errors
from tests.detailed import worlds

PERSONS = worlds.persons()
COARSE, FINE, REGIONAL = (
    {p.at: p for p in PERSONS.plans("us")}[GroupLevel(*at)]
    for at in (("TRACT", 2), ("USA", 2), ("TRACT", 1))
)


def test_totals_from_both_stages() -> None:
    """r = 9: together 9k / (9 + k) cells' worth, instead of k; the margins of the largest and
    smallest tables.
    """
    found = {e.cells: e for e in stage_errors(COARSE, [Fraction(1, 10)])}
    assert [round((e.total_kept / e.cell) ** 2, 2) for e in found.values()] == [4.24, 6.0, 7.53]
    assert [round((e.total / e.cell) ** 2, 6) for e in found.values()] == [8, 18, 46]
    assert [round(100 * (1 - (e.total_kept / e.total) ** 2)) for e in found.values()] == [
        47,
        67,
        84,
    ]
    assert [round(1.96 * x, 1) for x in (found[8].total, found[8].total_kept)] == [31.1, 22.6]
    fine = stage_errors(FINE, [Fraction(1, 10)])[-1]
    assert [round(1.96 * x, 1) for x in (fine.total, fine.total_kept)] == [20.3, 8.2]
    regional = stage_errors(REGIONAL, [Fraction(1, 10)])[-1]
    assert [round(1.96 * x) for x in (regional.total, regional.total_kept)] == [332, 134]


@given(st.fractions("0.02", "0.9", max_denominator=200))
def test_they_are_those_of_least_squares(share: Fraction) -> None:
    """The covariance of the generalized least squares of k cells and their sum."""
    for e in stage_errors(COARSE, [share]):
        k = e.cells
        information = np.eye(k) / e.cell**2 + np.ones((k, k)) / e.sorting**2
        covariance = np.linalg.inv(information)
        assert covariance[0, 0] == pytest.approx(e.cell_kept**2, rel=1e-9)
        assert covariance.sum() == pytest.approx(e.total_kept**2, rel=1e-9)
        assert e.total_kept < min(e.total, e.sorting)


def test_a_larger_share_helps_totals_and_costs_cells() -> None:
    shares = [Fraction(i, 20) for i in range(1, 20)]
    for cells in (8, 18, 46):
        found = [e for e in stage_errors(COARSE, shares) if e.cells == cells]
        kept, cell = [e.total_kept for e in found], [e.cell for e in found]
        assert kept == sorted(kept, reverse=True)
        assert cell == sorted(cell)
        assert [e.total for e in found] == sorted(
            e.total for e in found
        )  # thrown away, it only costs
    assert (
        round(
            stage_errors(COARSE, [Fraction(1, 10)])[0].cell
            / sqrt(float(Fraction(9, 2) / Fraction("0.159"))),
            3,
        )
        == 1.054
    )


def test_what_has_no_first_stage_shares_nothing() -> None:
    with pytest.raises(SpecError, match="no first stage"):
        stage_errors(worlds.households().plans("us")[0], [Fraction(1, 10)])
    for share in (Fraction(0), Fraction(1)):
        with pytest.raises(SpecError, match="between 0 and 1"):
            stage_errors(COARSE, [share])


def test_three_codes_of_race_are_a_third_less_noise() -> None:
    found = {(f.at, f.race_codes): f for f in fewer_codes(PERSONS, "us")}
    assert {f.stability for (_, r), f in found.items() if r == 3} == {4}
    assert [found[COARSE.at, r].stability for r in range(1, 9)] == [3, 3, 4, 5, 6, 7, 8, 9]
    assert round(1 - found[COARSE.at, 3].width, 3) == 0.333
    assert (found[COARSE.at, 8].width, found[COARSE.at, 8].margin) == (1, 11)
    other = replace(COARSE, stability=4)
    assert found[COARSE.at, 3].margin == other.measurement("t2").margin() == 7
    assert other.measurement(FIRST).cost == COARSE.measurement(FIRST).cost  # the same budgets
