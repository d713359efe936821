"""Few draws, combination by combination: against the oracle, against the sum along the line, and
cut off too early.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from das.accounting import Composition, delta, epsilon
from das.accounting.peaks import saddle
from das.accounting.profile import Atoms, PrivacyProfile
from tests.accounting.oracle_convolution import Convolution

#: Off any lattice to speak of.
APART = [(Fraction(3), 1), (Fraction("3.0001"), 1)]
FAR = [(Fraction(1, 100), 1), (Fraction(10**6), 1)]


@pytest.mark.parametrize(
    "pairs",
    [
        [(Fraction(2), 1)],
        [(Fraction(1, 5), 2), (Fraction(3, 10), 1)],
        [(Fraction(3, 2), 2), (Fraction(5, 2), 1), (Fraction(5), 1)],
        [(Fraction(1, 8), 1), (Fraction(40), 1)],
    ],
)
def test_against_convolution(
    monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[Fraction, int]]
) -> None:
    monkeypatch.setattr("das.accounting.profile.FEW_NODES", 0)
    truth, whole = Convolution(pairs), Composition.from_draws(pairs)
    for eps in (*(whole.rho * k / 3 for k in range(8)), Fraction(1, 7), whole.rho + whole.step):
        atoms = Atoms.from_composition(whole, eps)
        assert atoms is not None
        found, exact = atoms.log_delta(eps), mpmath.log(truth.delta(eps))
        assert found.low <= exact <= found.high
        assert found.high - found.low < 1e-10
    eps = epsilon(pairs, "1e-9")
    assert truth.delta(Fraction(eps[0])) >= mpmath.mpf("1e-9") >= truth.delta(Fraction(eps[1]))
    assert eps[1] - eps[0] < 1e-8


@pytest.mark.parametrize("pairs, eps", [(APART, 0), (APART, 1), (FAR, 40), (FAR, 50)])
def test_the_two_ways_agree(
    monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[Fraction, int]], eps: int
) -> None:
    """And the sum along the line is wide where variances are nearly equal."""
    assert Atoms.from_composition(Composition.from_draws(pairs), Fraction(eps)) is not None
    low, high = delta(pairs, eps)
    monkeypatch.setattr("das.accounting.profile.MOST", 0)
    monkeypatch.setattr("das.accounting.contour.NODES", 30_000)
    a, b = delta(pairs, eps)
    assert max(a, low) <= min(b, high)
    assert high - low < 1e-8 * high
    assert pairs == FAR or (b - a) > 1e3 * (high - low)


def test_rounding_of_a_loss_just_above_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One atom is all there is, and what it exceeds epsilon by is a few roundings of epsilon."""
    monkeypatch.setattr("das.accounting.profile.FEW_NODES", 0)
    pairs = [(Fraction(1, 100), 1)]
    for above in (Fraction(1, 3 * 10**12), Fraction(1, 7 * 10**13)):
        eps = 150 - above
        atoms = Atoms.from_composition(Composition.from_draws(pairs), eps)
        assert atoms is not None
        found, exact = atoms.log_delta(eps), mpmath.log(Convolution(pairs).delta(eps))
        assert found.low <= exact <= found.high
        assert abs(found.middle - exact) > 1e-5


def test_values_left_out_are_in_the_upper_end() -> None:
    pairs = [(Fraction(2), 1), (Fraction(5, 2), 2)]
    whole, truth = Composition.from_draws(pairs), Convolution(pairs)
    for r in (2, 3, 5):
        found = Atoms(whole, Fraction(1), saddle(whole, 1.0), [r, r]).log_delta(Fraction(1))
        exact = mpmath.log(truth.delta(Fraction(1)))
        assert found.high >= exact
        assert abs(found.middle - exact) > 1e-6


def test_only_few_draws_off_a_lattice() -> None:
    """On a lattice, of many draws, and for a proof, the sum along the line."""
    assert Atoms.from_composition(Composition.from_draws([(Fraction(3), 2)]), Fraction(1)) is None
    assert (
        Atoms.from_composition(Composition.from_draws([*APART, (Fraction(10**6), 1)]), Fraction(1))
        is None
    )
    assert (
        Atoms.from_composition(Composition.from_draws(APART), Fraction(80)) is None
    )  # delta is about 1e-2000
    assert not isinstance(
        PrivacyProfile(Composition.from_draws(APART), certify=True)._contour(Fraction(1)), Atoms
    )
