"""Calibration: the target is met, hardly missed with less noise, and the gain is that of the
theory.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from das import load_spec
from das.accounting import Composition, calibrate, delta, epsilon, tight

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pl94-2010.toml"
LEVELS = [(Fraction(100), 10), (Fraction(7), 10), (Fraction(40), 5)]


def continuous_rho(eps: float, delta: float) -> float:
    """The rho at which one continuous Gaussian has this epsilon and delta (Balle and Wang 2018,
    theorem 8).
    """

    def excess(mu: mpf) -> mpf:
        a, b = mu / 2 - mpf(eps) / mu, -mu / 2 - mpf(eps) / mu
        return mpmath.log(mpmath.ncdf(a) - mpmath.exp(eps) * mpmath.ncdf(b)) - mpmath.log(delta)

    with mpmath.workdps(40):
        return float(
            mpmath.findroot(excess, (mpf("1.8"), mpf("2.6")), solver="anderson", tol=1e-20) ** 2 / 2
        )


def test_the_redistricting_plan() -> None:
    """Exact accounting, at the Bureau's (17.14, 1e-10). Every variance falls by the ratio of two
    rhos: that of the tight conversion and that of a Gaussian, which the discrete composition
    follows to four digits."""
    plan = load_spec(CONFIG, ["geography.spine=tabulation"]).persons.plan
    by_zcdp = calibrate(plan, "17.14", "1e-10", "zcdp-tight")
    exactly = calibrate(plan, "17.14", "1e-10")
    rho = float(Composition.from_draws(plan).rho / by_zcdp)
    assert tight(Fraction(rho), Fraction(1, 10**10)) == pytest.approx(17.14, abs=1e-8)
    assert float(exactly / by_zcdp) == pytest.approx(rho / continuous_rho(17.14, 1e-10), rel=1e-4)
    assert 0.93 < exactly / by_zcdp < 0.94
    low, high = epsilon(Composition.from_draws(plan).scaled(exactly), "1e-10")
    assert 17.14 - 1e-9 < low < high <= 17.14


def test_the_redistricting_plan_as_it_was() -> None:
    low, high = epsilon(load_spec(CONFIG, ["geography.spine=tabulation"]).persons.plan, "1e-10")
    assert round(low, 6) == round(high, 6) == 16.465155
    assert high - low < 1e-10


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([LEVELS, LEVELS[:1], [(Fraction(1), 2)], [(Fraction(10**6), 3)]]),
    st.sampled_from(["1/10", "1", "5", "31/2"]),
    st.sampled_from(["1e-3", "1e-10", "1e-20"]),
)
def test_the_target_is_met_and_not_with_less(
    pairs: list[tuple[Fraction, int]], target: str, d: str
) -> None:
    goal = Fraction(target)
    for method in ("exact", "zcdp-tight"):
        f = calibrate(pairs, goal, d, method)  # type: ignore[arg-type]
        whole, less = (
            Composition.from_draws(pairs).scaled(f),
            Composition.from_draws(pairs).scaled(f * (1 - Fraction(1, 10**8))),
        )
        if method == "exact":
            assert epsilon(whole, d)[1] <= goal < epsilon(less, d)[0]
        else:
            assert tight(whole.rho, Fraction(d)) <= goal < tight(less.rho, Fraction(d))


def test_what_is_returned_meets_the_target_whatever_the_search_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import das.accounting.calibration as module

    root = module._root
    monkeypatch.setattr(module, "_root", lambda *args: root(*args) - 1e-5)
    for method in ("exact", "zcdp-tight"):
        whole = Composition.from_draws(LEVELS).scaled(calibrate(LEVELS, 3, "1e-10", method))  # type: ignore[arg-type]
        assert (
            epsilon(whole, "1e-10")[1]
            if method == "exact"
            else tight(whole.rho, Fraction(1, 10**10))
        ) <= 3


def test_more_noise_is_not_always_more_private() -> None:
    """One draw, by hand: at eps = 6 its loss p (X + 1/2) exceeds eps from X = 4 at a variance of
    0.6 (p = 5/3), and from X = 4 at 0.7 too, where X = 4 is likelier. So a factor that meets a
    target is not the least that does."""
    with mpmath.workdps(30):
        deltas = {}
        for s in ("0.6", "0.7"):
            p = 1 / mpf(s)
            w = {x: mpmath.exp(-p * x * x / 2) for x in range(-20, 21)}
            deltas[s] = mpmath.fsum(
                v * (1 - mpmath.exp(6 - p * (x + mpf(1) / 2)))
                for x, v in w.items()
                if p * (x + mpf(1) / 2) > 6
            ) / mpmath.fsum(w.values())
        assert deltas["0.7"] > 2.5 * deltas["0.6"]
    for s, exact in deltas.items():
        low, high = delta([(Fraction(s), 1)], 6)
        assert low <= exact <= high
    one = [(Fraction(1), 1)]
    f = calibrate(one, 6, "1e-6")
    assert epsilon(Composition.from_draws(one).scaled(f), "1e-6")[1] <= 6
    assert (
        epsilon(Composition.from_draws(one).scaled(Fraction(3, 5)), "1e-6")[1]
        < 6
        < epsilon([(Fraction(13, 20), 1)], "1e-6")[0]
    )
    assert f > Fraction(13, 20)


def test_exact_needs_less_noise() -> None:
    assert calibrate(LEVELS, 3, "1e-10") < calibrate(LEVELS, 3, "1e-10", "zcdp-tight")


def test_the_factor_is_a_modest_fraction() -> None:
    f = calibrate(LEVELS, 3, "1e-10")
    assert f.denominator & (f.denominator - 1) == 0
    assert f.denominator <= 2**44


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: calibrate(LEVELS, 0, "1e-10"), ValueError, "not positive"),
        (lambda: calibrate(LEVELS, 1.5, "1e-10"), TypeError, "epsilon is a float"),  # type: ignore[arg-type]
        (lambda: calibrate(LEVELS, 1, 2), ValueError, "not between 0 and 1"),
        (lambda: calibrate(LEVELS, 1, "1e-10", "rdp"), ValueError, "no calibration 'rdp'"),  # type: ignore[arg-type]
        (lambda: calibrate([], 1, "1e-10"), ValueError, "no draws"),
    ],
)
def test_refusals(call, error: type[Exception], says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=says):
        call()
