"""Each bound of the sum where it is not negligible: the step too coarse, nodes dropped too early,
the end too near.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp

import mpmath
import numpy as np
import pytest

from das.accounting import Composition
from das.accounting.contour import Contour, LogDelta
from das.accounting.profile import PrivacyProfile
from tests.accounting.oracle_convolution import Convolution
from tests.oracles import as_mpf

PAIRS = [(Fraction(5), 10)]
EPS = Fraction(31, 10)


@pytest.fixture(scope="module")
def truth() -> Convolution:
    return Convolution(PAIRS)


def plain(contour: Contour) -> LogDelta:
    return contour.log_delta(EPS)


def proved(contour: Contour) -> LogDelta:
    pytest.importorskip("flint", reason="python-flint, the extra 'certify', is not installed")
    from das.accounting.certificate import log_delta

    return log_delta(contour, EPS)


def made(monkeypatch: pytest.MonkeyPatch, **changed: object) -> Contour:
    """A contour with some of its choices replaced."""
    for name, value in changed.items():
        monkeypatch.setattr(Contour, name, value)
    return Contour(Composition.from_draws(PAIRS), EPS)


@pytest.mark.parametrize("bounds", [plain, proved])
@pytest.mark.parametrize("period", [4, 5, 8, 12])
def test_aliases(
    monkeypatch: pytest.MonkeyPatch,
    truth: Convolution,
    period: int,
    bounds: Callable[[Contour], LogDelta],
) -> None:
    """With a short period the sum is too large by the aliases, which the lower end takes off."""
    contour = made(monkeypatch, _period=lambda self: Fraction(period))
    c, t = contour.c, contour.period
    aliases = {}
    for m in (*range(-9, 0), *range(1, 10)):
        e = EPS + m * t
        delta = truth.delta(e) if e >= 0 else 1 - mpmath.exp(as_mpf(e)) * (1 - truth.delta(-e))
        aliases[m] = delta * mpmath.exp(c * as_mpf(m * t))
    whole, exact = sum(aliases.values()), truth.delta(EPS)
    assert whole <= exp(contour.log_alias(EPS))
    if period == 12:  # the aliases of m < 0 dominate, and delta is nearly 1 there
        assert exp(contour.log_alias(EPS)) < 1.01 * whole
    if period == 4:
        assert aliases[1] > aliases[-1] / 2  # those of m > 0 count too
    found = bounds(contour)
    assert mpmath.exp(found.low) <= exact
    assert exact <= mpmath.exp(found.high)
    assert mpmath.exp(found.middle) == pytest.approx(float(exact + whole), rel=1e-11)


@pytest.mark.parametrize("bounds", [plain, proved])
@pytest.mark.parametrize("tau", [2.0, 4.0, 8.0])
def test_dropped_nodes(
    monkeypatch: pytest.MonkeyPatch,
    truth: Convolution,
    tau: float,
    bounds: Callable[[Contour], LogDelta],
) -> None:
    contour = made(monkeypatch, tau=tau)
    found, exact = bounds(contour), truth.delta(EPS)
    assert len(contour.kept.j) < contour.count / 4
    assert abs(mpmath.exp(found.middle) / exact - 1) > 1e-6  # something was dropped
    assert mpmath.exp(found.low) <= exact <= mpmath.exp(found.high)


def test_no_kernel_is_larger_than_the_bound_of_dropped_nodes_has_it() -> None:
    for pairs in (PAIRS, [(Fraction(1, 3), 2)], [(Fraction(3, 2), 2), (Fraction(5, 2), 1)]):
        contour = Contour(Composition.from_draws(pairs), EPS)
        most, h = (
            contour.dropped / exp(-contour.tau) * float(contour.period / contour.count),
            contour.composition.step,
        )
        for gap in (h / 10**9, h / 3, h / 2, h * (1 - Fraction(1, 10**9)), h):
            assert np.abs(contour.kernel(gap, np.arange(contour.count))).max() <= most


@pytest.mark.parametrize("sigma_sq, recurrences", [(2, 0), (2, 5), (9, 2), (40, 12)])
def test_the_tail_beyond_the_last_node(
    monkeypatch: pytest.MonkeyPatch, sigma_sq: int, recurrences: int
) -> None:
    """Against the sum of bounds of a thousand recurrences: not less, and not much more."""
    monkeypatch.setattr("das.accounting.contour.MANY", 0)
    monkeypatch.setattr("das.accounting.contour.NODES", 10)
    contour = Contour(Composition.from_draws([(Fraction(sigma_sq), 1)]), Fraction(2))
    (theta,), t = contour.thetas, float(contour.period)
    edge = recurrences * theta.recurrence + theta.sigma_sq * theta.reach(contour.tau)
    contour.last = int(edge * t / (2 * np.pi)) + 1
    j = np.arange(contour.last + 1, int((recurrences + 1000) * theta.recurrence * t / (2 * np.pi)))
    z = contour.c + 2j * np.pi * j / t
    tail = (
        2
        / t
        * float((np.exp(theta.log_bound(contour.angles(theta, j))) / np.abs(z * (z + 1))).sum())
    )
    assert tail <= contour.beyond
    assert recurrences == 0 or contour.beyond < 1.6 * tail


def test_the_interval_holds_wherever_the_nodes_end(
    monkeypatch: pytest.MonkeyPatch, truth: Convolution
) -> None:
    monkeypatch.setattr("das.accounting.contour.MANY", 0)
    for nodes in (10, 300, 3_000):
        monkeypatch.setattr("das.accounting.contour.NODES", nodes)
        found = PrivacyProfile(Composition.from_draws(PAIRS)).log_delta(EPS)
        assert mpmath.exp(found.low) <= truth.delta(EPS) <= mpmath.exp(found.high)
