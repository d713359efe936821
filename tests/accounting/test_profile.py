"""delta(epsilon) and epsilon(delta), exactly: known values, an oracle by convolution, and the
corners.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.accounting import Composition, curve, delta, epsilon
from das.accounting.contour import Contour
from das.accounting.zcdp import bun_steinke, tight
from tests.accounting.oracle_convolution import Convolution
from tests.oracles import as_mpf

RHO = Fraction("3.65")
SHARES = {
    "US": "2",
    "State": "27.4",
    "County": "8.5",
    "PEPG": "13.1",
    "TSG": "13.1",
    "TS": "23.8",
    "OBG": "11.8",
    "Block": "0.3",
}
DELTAS = ["1e-5", "1e-8", "1e-10", "1e-11", "1e-15", "1e-20", "1e-30"]
#: Su, Su and Wang's allocation, ten queries a level, one record added or removed.
LEVELS = {
    "US": [1.478100, 2.029019, 2.330753, 2.468157, 2.958809, 3.478614, 4.338523],
    "State": [6.571647, 8.540525, 9.600900, 10.125417, 11.905084, 13.783972, 16.952197],
    "County": [3.328488, 4.438441, 5.049122, 5.327609, 6.325156, 7.386431, 9.154320],
    "PEPG": [4.267265, 5.632524, 6.389608, 6.738268, 7.974031, 9.282230, 11.468108],
    "TSG": [4.267265, 5.632524, 6.389608, 6.738268, 7.974031, 9.282230, 11.468108],
    "TS": [6.047106, 7.880559, 8.882436, 9.353573, 11.018757, 12.790739, 15.728433],
    "OBG": [4.017307, 5.318023, 6.029688, 6.362426, 7.540259, 8.782608, 10.853100],
    "Block": [0.522190, 0.743657, 0.863346, 0.917830, 1.110989, 1.314872, 1.650871],
}
OVERALL = [14.576027, 18.273413, 20.324690, 21.267202, 24.640679, 28.241943, 34.233872]


def level(name: str) -> tuple[Fraction, int]:
    return 1 / (2 * RHO * Fraction(SHARES[name]) / 1000), 10


EVERY = [level(name) for name in SHARES]


# --- known values
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEVELS)
def test_levels(name: str) -> None:
    found = curve([level(name)], DELTAS)
    assert (
        [round(low, 6) for low, _ in found] == [round(high, 6) for _, high in found] == LEVELS[name]
    )
    assert max(high - low for low, high in found) < 1e-12


def test_the_whole_release() -> None:
    found = curve(EVERY, DELTAS)
    assert [round(low, 6) for low, _ in found] == [round(high, 6) for _, high in found] == OVERALL
    assert max(high - low for low, high in found) < 1e-11


def test_the_published_upper_value_is_a_different_quantity() -> None:
    """At the published epsilon the first probability alone is 1e-10; the profile is 3.45 times
    lower.
    """
    low, high = delta(EVERY, "20.838545")
    assert 2.891e-11 < low <= high < 2.893e-11
    assert 9.98030e-11 / high == pytest.approx(3.45, abs=5e-3)


def test_replacement_counts_twice_and_addition_once() -> None:
    twice, once = ([(s, n) for s, _ in EVERY for n in (count,)] for count in (20, 10))
    assert [round(low, 6) for low, _ in curve(once, ["1e-10"])] == [20.324690]
    assert round(epsilon(twice, "1e-10")[0], 2) == 31.02


# --- the oracle
# ----------------------------------------------------------------------------------------------


def check(pairs: list[tuple[Fraction, int]], eps: list[Fraction]) -> None:
    """Every interval holds the oracle's value and is narrow."""
    truth = Convolution(pairs)
    for e in eps:
        low, high = delta(pairs, e)
        exact = truth.delta(e)
        if exact > 1e-70:
            assert as_mpf(Fraction(low)) <= exact <= as_mpf(Fraction(high)), (e, low, high, exact)
            assert high - low <= 1e-11 * high
            assert abs(low / exact - 1) < 1e-11
            if exact < 1 - mpmath.mpf(10) ** -12:
                with mpmath.workdps(
                    400
                ):  # rounded to 15 digits it would be another delta, and nearer to 1 another epsilon
                    at = Fraction(int(exact * 2**1000), 2**1000)
                a, b = epsilon(pairs, at)
                assert a - 1e-11 <= e <= b + 1e-11 or (a == b == e == 0)


SMALL = [
    [(Fraction(1, 2), 1)],
    [(Fraction(2), 2)],
    [(Fraction(5), 10)],
    [(Fraction(1, 5), 3), (Fraction(3, 10), 1)],
    [(Fraction(3, 2), 2), (Fraction(5, 2), 1), (Fraction(5), 2)],
    [(Fraction(1, 8), 1), (Fraction(40), 1)],
]


@pytest.mark.parametrize("pairs", SMALL)
def test_against_convolution(pairs: list[tuple[Fraction, int]]) -> None:
    rho = Composition.from_draws(pairs).rho
    check(pairs, [rho * k / 3 for k in range(8)] + [Fraction(1, 7)])


variances = st.sampled_from(
    [Fraction(a, b) for a, b in [(1, 6), (1, 3), (1, 2), (1, 1), (4, 3), (2, 1), (3, 1), (6, 1)]]
)
compositions = st.lists(
    st.tuples(variances, st.integers(1, 4)), min_size=1, max_size=3, unique_by=lambda p: p[0]
)


@settings(max_examples=25, deadline=None)
@given(compositions, st.fractions(0, 3, max_denominator=20))
def test_against_convolution_at_random(pairs: list[tuple[Fraction, int]], share: Fraction) -> None:
    check(pairs, [share * Composition.from_draws(pairs).rho])


def test_the_two_kernels_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum without a lattice, on losses that have one: wider, and around the same value."""
    pairs = [(Fraction(3), 10), (Fraction(7, 2), 10)]
    on = epsilon(pairs, "1e-10")
    monkeypatch.setattr("das.accounting.contour.MANY", 0)
    assert not Contour(Composition.from_draws(pairs), Fraction(1)).lattice
    monkeypatch.setattr("das.accounting.contour.NODES", 10_000)
    off = epsilon(pairs, "1e-10")
    assert off[0] <= on[0] <= on[1] <= off[1]
    assert on[1] - on[0] < 1e-12 < off[1] - off[0] < 1e-2


# --- corners
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("d", ["0.3", "0.1", "1e-2", "1e-7"])
def test_one_or_two_draws_have_profiles_with_corners(n: int, d: str) -> None:
    pairs = [(Fraction(2), n)]
    low, high = epsilon(pairs, d)
    assert high - low < 1e-11
    truth = Convolution(pairs)
    assert truth.delta(Fraction(high)) <= as_mpf(Fraction(d))
    assert truth.delta(Fraction(low)) >= as_mpf(Fraction(d)) or low == high == 0


def test_a_delta_that_is_had_for_nothing() -> None:
    low, high = delta([(Fraction(2), 1)], 0)
    assert epsilon([(Fraction(2), 1)], Fraction(high) + Fraction(1, 10**6)) == (0.0, 0.0)
    a, b = epsilon([(Fraction(2), 1)], Fraction(low) - Fraction(1, 10**6))
    assert 0 < a <= b < 1e-4
    a, b = epsilon([(Fraction(2), 1)], Fraction(low))
    assert 0 <= a <= b < 1e-12


@pytest.mark.parametrize("s", range(-2, 4))
def test_epsilon_on_a_point_of_the_lattice(s: int) -> None:
    """There the loss equal to epsilon adds nothing, from either side."""
    pairs = [(Fraction(3), 2), (Fraction(3, 2), 1)]
    whole = Composition.from_draws(pairs)
    at = whole.rho + s * whole.step
    check(pairs, [e for e in (at - Fraction(1, 10**9), at, at + Fraction(1, 10**9)) if e >= 0])


@pytest.mark.parametrize("sigma_sq", ["1/5", "1/20", "1/100"])
def test_variances_below_a_quarter(sigma_sq: str) -> None:
    s = Fraction(sigma_sq)
    check([(s, 1)], [1 / (2 * s) * k / 4 for k in range(8)])


def test_a_huge_variance_beside_a_tiny_one() -> None:
    pairs = [(Fraction(1, 10), 1), (Fraction(300), 1)]
    truth = Convolution(pairs)
    for e in (Fraction(0), Fraction(4), Fraction(5), Fraction(15), Fraction(16)):
        low, high = delta(pairs, e)
        assert as_mpf(Fraction(low)) <= truth.delta(e) <= as_mpf(Fraction(high))
        assert high - low < 1e-7 * high  # rounding: the smallest terms of the sum are not small


def test_deltas_beyond_floats() -> None:
    low, high = epsilon(EVERY, Fraction(1, 10**400))
    assert epsilon(EVERY, "1e-300")[1] < low <= high < tight(RHO, Fraction(1, 10**400))
    assert high - low < 1e-10
    assert delta(EVERY, 400)[0] == 0 < delta(EVERY, 400)[1] < 1e-299


def test_no_draws_lose_nothing() -> None:
    assert epsilon([], "1e-10") == delta([], 1) == (0.0, 0.0)


# --- laws
# ----------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(compositions, st.sampled_from(["1e-3", "1e-6", "1e-10", "1e-40"]))
def test_exact_is_below_the_conversions_and_inverse(
    pairs: list[tuple[Fraction, int]], d: str
) -> None:
    low, high = epsilon(pairs, d)
    assert (
        low
        <= high
        <= epsilon(pairs, d, "zcdp-tight") + 1e-9
        <= epsilon(pairs, d, "zcdp-bun-steinke") + 2e-9
    )
    assert delta(pairs, Fraction(low))[1] >= float(Fraction(d)) or low == 0
    assert delta(pairs, Fraction(high))[0] <= float(Fraction(d))
    assert delta(pairs, Fraction(high))[1] <= delta(pairs, Fraction(high), "zcdp-tight") * (
        1 + 1e-9
    )


@settings(max_examples=10, deadline=None)
@given(compositions, variances)
def test_one_draw_more_never_costs_less(pairs: list[tuple[Fraction, int]], more: Fraction) -> None:
    assert epsilon([*pairs, (more, 1)], "1e-9")[1] >= epsilon(pairs, "1e-9")[0]


def test_conversions_by_name() -> None:
    assert epsilon(EVERY, "1e-10", "zcdp-tight") == tight(RHO, Fraction(1, 10**10))
    assert epsilon(EVERY, "1e-10", "zcdp-bun-steinke") == bun_steinke(RHO, Fraction(1, 10**10))
    for method in ("zcdp-tight", "zcdp-bun-steinke"):
        e = epsilon(EVERY, "1e-10", method)  # type: ignore[arg-type]
        assert delta(EVERY, Fraction(e), method) == pytest.approx(1e-10, rel=1e-8)  # type: ignore[arg-type]
    assert delta([], 1, "zcdp-tight") == delta([], 1, "zcdp-bun-steinke") == 0


# --- what makes no sense
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: epsilon(EVERY, 1e-10), TypeError, "delta is a float"),  # type: ignore[arg-type]
        (lambda: delta(EVERY, 1.0), TypeError, "epsilon is a float"),  # type: ignore[arg-type]
        (lambda: epsilon([(2.0, 1)], "1e-10"), TypeError, "sigma_sq must be a Fraction"),  # type: ignore[list-item]
        (lambda: epsilon([(Fraction(2), 1.0)], "1e-10"), TypeError, "number of draws"),  # type: ignore[list-item]
        (lambda: epsilon(EVERY, 0), ValueError, "not between 0 and 1"),
        (lambda: epsilon(EVERY, 1), ValueError, "not between 0 and 1"),
        (lambda: epsilon(EVERY, "ten"), ValueError, "no number"),
        (lambda: delta(EVERY, -1), ValueError, "not >= 0"),
        (lambda: epsilon([(Fraction(0), 1)], "1e-10"), ValueError, "must be positive"),
        (lambda: epsilon([(Fraction(-1), 1)], "1e-10"), ValueError, "must be positive"),
        (lambda: epsilon([(Fraction(1), 0)], "1e-10"), ValueError, "at least 1"),
        (lambda: epsilon(EVERY, "1e-10", "prv"), ValueError, "no method 'prv'"),  # type: ignore[arg-type]
        (lambda: delta(EVERY, 1, "prv"), ValueError, "no method 'prv'"),  # type: ignore[arg-type]
    ],
)
def test_refusals(call, error: type[Exception], says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=says):
        call()


def test_the_oracle_is_a_distribution() -> None:
    with mpmath.workdps(50):
        assert abs(mpmath.fsum(w for _, w in Convolution(SMALL[2]).losses()) - 1) < 1e-40


@pytest.mark.parametrize("rho", [5001, 10**8])
def test_where_no_epsilon_protects_the_interval_is_wide_and_at_once_there(rho: int) -> None:
    draws = [(Fraction(k, rho * 10), 1) for k in (7, 10, 13)]
    low, high = epsilon(draws, "1e-10")
    assert low == 0
    assert high == epsilon(draws, "1e-10", "zcdp-tight")
    assert delta(draws, rho) == (0.0, delta(draws, rho, "zcdp-tight"))
