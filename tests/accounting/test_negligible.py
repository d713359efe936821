"""Draws of a negligible share: bounds against the oracle, and work that does not grow as shares
fall.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import mpmath
import pytest

from das.accounting import Composition, delta, epsilon
from das.accounting.certificate import WithNegligible, split
from das.accounting.contour import Contour, LogDelta
from das.accounting.profile import PrivacyProfile
from tests.accounting.oracle_convolution import Convolution


def extreme(k: int, n: int) -> list[tuple[Fraction, int]]:
    """Shares 1/2, (1 - 10^-k)/2 and 10^-k/2."""
    e = Fraction(1, 10**k)
    return [(Fraction(2), n), (2 / (1 - e), n), (2 / e, n)]


def test_the_faint_are_the_least_precise_up_to_a_millionth() -> None:
    parts = [(Fraction(1), 1), (Fraction(10**7), 6), (Fraction(10**7), 3), (Fraction(10**8), 5)]
    others, negligible = split(Composition.from_draws(parts))
    assert others.parts == ((Fraction(1), 1),)
    assert others + negligible == Composition.from_draws(parts)
    assert split(Composition.from_draws([*parts, (Fraction(10**7), 2)]))[1].parts == (
        (Fraction(1, 10**8), 5),
    )


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Nodes looked at, and evaluated, in all sums along a line."""
    count: Counter[str] = Counter()
    kept, value = Contour._kept, Contour.log_delta

    def counted(self, j):  # type: ignore[no-untyped-def]
        count["seen"] += len(j)
        return kept(self, j)

    def evaluated(self, eps):  # type: ignore[no-untyped-def]
        count["evaluated"] += len(self.kept.j)
        return value(self, eps)

    monkeypatch.setattr(Contour, "_kept", counted)
    monkeypatch.setattr(Contour, "log_delta", evaluated)
    return count


@pytest.mark.parametrize("n", [2, 10])
@pytest.mark.parametrize("k", [8, 9, 12, 30])
def test_work_is_bounded_and_so_is_the_width(work: Counter[str], k: int, n: int) -> None:
    low, high = epsilon(extreme(k, n), "1e-10")
    assert work["seen"] < 300_000
    assert work["evaluated"] < 3_000_000
    assert 0 < high - low < 1e-9
    # without the third draw it is private by less, with a draw of 10^-6 by more
    assert epsilon(extreme(k, n)[:2], "1e-10")[0] <= high
    assert low < {2: 9.53313747, 10: 24.5167775}[n]


class Silent:
    """A sum of all draws that says nothing, so that the bound is by itself."""

    def __init__(self, c: float, center: Fraction) -> None:
        self.center, self.c, self.width = center, c, 1.0

    def log_delta(self, eps: Fraction) -> LogDelta:
        return LogDelta(-1e9, -1.0, 0.0)


@pytest.mark.parametrize(
    "pairs", [[(Fraction(2), 2), (Fraction(200), 1)], [(Fraction(1, 3), 1), (Fraction(60), 1)]]
)
def test_both_ends_hold_the_oracle(
    monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[Fraction, int]]
) -> None:
    """Draws that the oracle can hold, when a fiftieth of rho counts as negligible. Neither end is
    certain for nothing: the others alone lie below the truth, and with a hundredth of the distance
    a the upper end does."""
    monkeypatch.setattr("das.accounting.certificate.SHARE", Fraction(1, 50))
    whole, truth = Composition.from_draws(pairs), Convolution(pairs)
    others, negligible = split(whole)
    alone, below, near = PrivacyProfile(others), 0, 0
    for eps in (whole.rho * k / 6 for k in range(13)):
        bounded = WithNegligible(Silent(1.0, eps), alone, negligible)  # type: ignore[arg-type]
        exact, found = mpmath.log(truth.delta(eps)), bounded.log_delta(eps)
        assert found.low <= exact <= found.high
        below += alone.log_delta(eps).high < exact
        with monkeypatch.context() as less:
            less.setattr("das.accounting.certificate.short", lambda a: a / 100)
            near += bounded.log_delta(eps).high < exact
    assert below > 3
    assert near > 3


def test_a_variance_beyond_the_integers_of_the_machine() -> None:
    """It once overflowed the peak search, and the upper end fell far below the truth."""
    low, high = delta([(Fraction(2), 10), (Fraction(2 * 10**30), 10)], 20)
    a, b = delta([(Fraction(2), 10)], 20)
    assert max(a, low) <= min(b, high)
