"""Margins of error against probabilities summed term by term."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from mpmath import mpf

from das.accounting import margins
from das.model.budget import Allocation, Draw, Mechanism, Neighbours, Plan
from das.noise import discrete_gaussian, entropy
from tests.oracles import as_mpf


def draw(scale: Fraction) -> Draw:
    return Draw("State", "total", Fraction(1), scale)


def smallest(weight, coverage: str, most: int) -> int:  # type: ignore[no-untyped-def]
    """The smallest m with P[|X| <= m] >= coverage, X with weights ``weight(|x|)``, to 50 digits."""
    with mpmath.workdps(50):
        w = [weight(k) for k in range(most)]
        whole = w[0] + 2 * mpmath.fsum(w[1:])
        held, m = w[0], 0
        while held < mpf(coverage) * whole:
            m += 1
            held += 2 * w[m]
        return m


@pytest.mark.parametrize("coverage", ["0.5", "0.9", "0.95", "0.999"])
@pytest.mark.parametrize(
    "scale", ["1/100", "1/4", "1/2", "214437516707/177339451520", "500/99", "100", "7963", "12345"]
)
def test_gaussian_margins(scale: str, coverage: str) -> None:
    s = Fraction(scale)
    expected = smallest(
        lambda k: mpmath.exp(-as_mpf(Fraction(k * k) / (2 * s))), coverage, int(12 * float(s) ** 0.5) + 20
    )
    assert margins.margin(Mechanism.DISCRETE_GAUSSIAN, draw(s), float(coverage)) == expected


@pytest.mark.parametrize("coverage", ["0.5", "0.9", "0.95", "0.999"])
@pytest.mark.parametrize("scale", ["1/100", "1/4", "1/2", "1280/27", "1280/9", "320", "640"])
def test_geometric_margins(scale: str, coverage: str) -> None:
    b = Fraction(scale)
    expected = smallest(lambda k: mpmath.exp(-as_mpf(k / b)), coverage, int(40 * b) + 60)
    assert margins.margin(Mechanism.GEOMETRIC, draw(b), float(coverage)) == expected


def test_the_margins_of_very_much_noise_join_on() -> None:
    """Either side of the variance where the sum gives way to the continuous quantile."""
    below = margins.margin(Mechanism.DISCRETE_GAUSSIAN, draw(Fraction(10**6)))
    above = margins.margin(Mechanism.DISCRETE_GAUSSIAN, draw(Fraction(10**6 + 1)))
    assert below == 1960 == above


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize("scale", [Fraction(1, 2000), Fraction(1, 10**9), Fraction(1, 10**400)])
def test_where_there_is_no_noise_the_margin_is_zero(mechanism: Mechanism, scale: Fraction) -> None:
    assert margins.margin(mechanism, draw(scale)) == 0


def test_draws_fall_within_their_margin_as_often_as_it_says() -> None:
    sigma_sq = Fraction(500, 99)
    m = margins.margin(Mechanism.DISCRETE_GAUSSIAN, draw(sigma_sq))
    drawn = abs(discrete_gaussian.sample(sigma_sq, 10**6, entropy.seeded(1)))
    assert (drawn <= m).mean() > 0.9502  # 0.9586 expected
    assert (drawn <= m - 1).mean() < 0.9498


def test_the_table_has_one_row_for_each_draw() -> None:
    half = Fraction(1, 2)
    shares = Allocation({"A": half, "B": half}, {"A": {"total": Fraction(1)}, "B": {"total": half, "detailed": half}})
    for mechanism in Mechanism:
        plan = Plan.of(Fraction(1, 8), mechanism, Neighbours.BOUNDED, shares)
        rows = margins.table(plan)
        assert [(r.level, r.query, r.cost, r.scale) for r in rows] == [
            (d.level, d.query, d.cost, d.scale) for d in plan.draws
        ]
        assert [r.margin for r in rows] == [margins.margin(mechanism, d) for d in plan.draws]
        assert rows[1].margin > rows[0].margin
