"""The trade-off function against the test of Neyman and Pearson, atom by atom."""

from __future__ import annotations

import sys
from fractions import Fraction

import pytest

from das.accounting import tradeoff
from tests.accounting.oracle_convolution import Convolution
from tests.oracles import as_mpf

#: The module: in the package, its name is the function's.
module = sys.modules[tradeoff.__module__]

ALPHAS = ["1e-12", "1e-6", "0.001", "0.05", "0.3", "1/2", "0.8", "0.99"]


@pytest.mark.parametrize(
    "pairs",
    [
        [(Fraction(2), 1)],
        [(Fraction(1, 5), 1)],
        [(Fraction(5), 10)],
        [(Fraction(3, 2), 2), (Fraction(5, 2), 1)],
    ],
)
def test_against_the_most_powerful_test(pairs: list[tuple[Fraction, int]]) -> None:
    truth = Convolution(pairs)
    for alpha, (low, high) in zip(ALPHAS, tradeoff(pairs, ALPHAS), strict=True):
        exact = truth.tradeoff(Fraction(alpha))
        assert as_mpf(Fraction(low)) - 1e-16 <= exact <= as_mpf(Fraction(high)) + 1e-16
        assert high - low < 1e-12


def test_on_a_flat_top() -> None:
    """Where alpha is the mass of the first atoms exactly, a whole segment of epsilons is
    optimal.
    """
    pairs = [(Fraction(2), 1)]
    truth = Convolution(pairs)
    alpha = sum(
        (Fraction(int(w * 2**200), 2**200) for x, w in truth.losses() if x < -1), Fraction(0)
    )
    [(low, high)] = tradeoff(pairs, [alpha])
    assert low - 1e-15 <= truth.tradeoff(alpha) <= high + 1e-15
    assert high - low < 1e-12


def test_without_a_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(Fraction(3), 10), (Fraction(7, 2), 10)]
    on = tradeoff(pairs, ["0.05"])
    monkeypatch.setattr("das.accounting.contour.MANY", 0)
    monkeypatch.setattr("das.accounting.contour.NODES", 300)
    [(c, d)] = tradeoff(pairs, ["0.05"])
    [(a, b)] = on
    assert c <= a <= b <= d
    assert d - c < 1e-1


@pytest.mark.parametrize("share", [-0.3, 0.3])
def test_the_chords_hold_off_the_top(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """From a point next to the top the lower bound is too low, and the chords still reach over the
    top.
    """
    pairs = [(Fraction(5), 10)]
    [(a, b)] = tradeoff(pairs, ["0.05"])
    monkeypatch.setattr(module.PrivacyProfile, "on_lattice", lambda self, eps: False)
    found = module._top
    monkeypatch.setattr(module, "_top", lambda *args: found(*args) + Fraction(share))
    monkeypatch.setattr(module, "_unit", lambda dual, top: Fraction(1, 2))
    [(low, high)] = tradeoff(pairs, ["0.05"])
    assert low + 1e-4 < a <= b <= high < b + 0.2


@pytest.mark.parametrize("pairs", [[(Fraction(1, 2000), 1)], [(Fraction(1, 100), 2)]])
def test_hardly_any_noise(pairs: list[tuple[Fraction, int]]) -> None:
    """Losses of a thousand and more: nothing overflows, and nothing is left."""
    for low, high in tradeoff(pairs, ["1e-12", "1/2", "0.99"]):
        assert low == 0 <= high < 1e-10
    for alpha in (Fraction(1, 10**320), 1 - Fraction(1, 10**20)):
        [(low, high)] = tradeoff([(Fraction(2), 1)], [alpha])
        assert (low <= 1 - alpha and high >= float(1 - alpha) * (1 - 1e-12) - 1e-12) or high < 1e-10


def test_it_is_its_own_inverse() -> None:
    pairs = [(Fraction(20), 10)]
    [(low, high)] = tradeoff(pairs, ["0.05"])
    [(a, b)] = tradeoff(pairs, [Fraction((low + high) / 2)])
    assert (a + b) / 2 == pytest.approx(0.05, abs=1e-11)


def test_ends() -> None:
    assert tradeoff([(Fraction(2), 1)], [0, 1]) == [(1.0, 1.0), (0.0, 0.0)]
    assert tradeoff([], ["1/4"]) == [(0.75, 0.75)]
    with pytest.raises(ValueError, match="alpha is 2"):
        tradeoff([(Fraction(2), 1)], [2])
    with pytest.raises(TypeError, match="alpha is a float"):
        tradeoff([(Fraction(2), 1)], [0.5])  # type: ignore[list-item]
