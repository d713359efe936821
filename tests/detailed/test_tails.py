"""Sums of probabilities, held against sums with thirty digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import SpecError
from das.model.budget import QueryNoise
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.publications.detailed.planning.losses import Tails
from tests.oracles import as_mpf


def tails(parameter: Fraction, mechanism: Mechanism = DISCRETE_GAUSSIAN) -> Tails:
    return Tails.from_noise(QueryNoise("", "", mechanism, parameter))


def law(parameter: Fraction, mechanism: Mechanism, far: int) -> dict[int, mpmath.mpf]:
    """The probability of each number up to ``far``, by its own formula."""
    s = as_mpf(parameter)
    weight = (
        (lambda k: mpmath.exp(-k * k / (2 * s)))
        if mechanism is DISCRETE_GAUSSIAN
        else (lambda k: mpmath.exp(-abs(k) / s))
    )
    terms = {k: weight(k) for k in range(-far, far + 1)}
    whole = mpmath.fsum(terms.values())
    return {k: w / whole for k, w in terms.items()}


@pytest.mark.parametrize(
    "mechanism, parameter, far",
    [
        (DISCRETE_GAUSSIAN, Fraction(1, 5), 20),
        (DISCRETE_GAUSSIAN, Fraction(9, 4), 60),
        (DISCRETE_GAUSSIAN, Fraction(5000, 159), 150),
        (DISCRETE_GAUSSIAN, Fraction(625), 600),
        (GEOMETRIC, Fraction(1, 3), 60),
        (GEOMETRIC, Fraction(7, 2), 400),
    ],
)
def test_probabilities_are_the_sums(mechanism: Mechanism, parameter: Fraction, far: int) -> None:
    found = tails(parameter, mechanism)
    with mpmath.workdps(30):
        p = law(parameter, mechanism, far)
        for x in (-far // 3, -7, -2, -1, 0, 1, 2, 5, far // 4):
            above = mpmath.fsum(w for k, w in p.items() if k > x)
            assert found.above(x) == pytest.approx(float(above), rel=1e-12)
            assert found.probability_within(x) == pytest.approx(
                float(mpmath.fsum(w for k, w in p.items() if abs(k) <= x)), abs=1e-13
            )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(MECHANISMS.values())),
    st.fractions(Fraction(1, 4), 40),
    st.fractions("0.001", "0.9999"),
)
def test_the_quantile_is_the_first_that_holds(
    mechanism: Mechanism, parameter: Fraction, chance: Fraction
) -> None:
    found = tails(parameter, mechanism)
    x = found.quantile(chance)
    assert 1 - found.above(x) >= float(chance) * (1 - 1e-12)
    assert 1 - found.above(x - 1) < float(chance)


def test_far_tails_keep_their_digits() -> None:
    """One in 1e-40, which is nothing next to one."""
    with mpmath.workdps(30):
        above = mpmath.fsum(w for k, w in law(Fraction(4), DISCRETE_GAUSSIAN, 60).items() if k > 26)
    assert tails(Fraction(4)).above(26) == pytest.approx(float(above), rel=1e-12)
    assert 0 < above < 1e-38
    assert tails(Fraction(4)).above(10**6) == 0


def test_noise_that_drowns_everything_is_refused() -> None:
    with pytest.raises(SpecError, match="drowns"):
        tails(Fraction(10**14))


@pytest.mark.parametrize("chance", [Fraction(0), Fraction(1), Fraction(3, 2)])
def test_a_chance_is_between_0_and_1(chance: Fraction) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        tails(Fraction(4)).quantile(chance)
