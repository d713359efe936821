"""Places where all draws are near a whole turn: those that a look at every node finds, whatever is
asked for first.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.accounting import epsilon
from das.accounting import peaks as module
from das.accounting.contour import Contour
from das.accounting.draws import Composition
from das.accounting.peaks import PeriodicPeaks, periodic_peaks, turns
from das.accounting.tilted_gaussian import TiltedGaussian

variances = st.fractions(Fraction(1, 10), 300, max_denominator=50)
compositions = st.lists(
    st.tuples(variances, st.integers(1, 6)), min_size=1, max_size=4, unique_by=lambda x: x[0]
)


def near(composition: Composition, tau: float, period: Fraction, last: int, c: float) -> set[int]:
    """The nodes up to the last whose product of bounds is above e^-tau on a line, by a look at
    all.
    """
    j = np.arange(last + 1)
    bound = np.zeros(len(j))
    for p, n in composition.parts:
        bound += TiltedGaussian(p, n, c).log_bound(2 * np.pi * turns(j, p / period))
    return set(j[bound > -tau].tolist())


@settings(max_examples=60)
@given(
    compositions,
    st.floats(30, 90),
    st.fractions(3, 200, max_denominator=7),
    st.floats(0.01, 9),
    st.integers(1, 30_000),
)
def test_every_node_that_matters_is_found(
    draws: list[tuple[Fraction, int]], tau: float, period: Fraction, c: float, last: int
) -> None:
    whole = Composition.from_draws(draws)
    found, reached = periodic_peaks(whole, tau, 10**9).nodes(period, last)
    assert reached <= last
    assert reached == last or len(found) > 1000  # it was given up after very many alone
    assert np.all(np.diff(found) > 0)
    assert near(whole, tau, period, reached, c) <= set(found.tolist())


def test_they_are_few() -> None:
    """Hardly any node between one recurrence and the next is looked at again."""
    whole = Composition.from_draws([(Fraction(301, 3), 2), (Fraction(47), 3), (Fraction(13, 2), 5)])
    period, last = Fraction(31), 10**6
    found, reached = periodic_peaks(whole, 42.0, 10**6).nodes(period, last)
    assert reached == last
    assert len(found) < 12 * len(near(whole, 42.0, period, last, 1.0))


@settings(max_examples=20)
@given(
    compositions,
    st.lists(
        st.tuples(st.fractions(3, 200, max_denominator=7), st.integers(1, 10**7)),
        min_size=2,
        max_size=4,
    ),
)
def test_what_was_asked_before_makes_no_difference(
    draws: list[tuple[Fraction, int]], asked: list[tuple[Fraction, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECES", 9)
        one = PeriodicPeaks(Composition.from_draws(draws), 48.0, 3000)
        for period, last in asked:
            j, reached = PeriodicPeaks(Composition.from_draws(draws), 48.0, 3000).nodes(
                period, last
            )
            again, where = one.nodes(period, last)
            assert reached == where
            assert j.tolist() == again.tolist()


def test_a_search_that_is_given_up_says_how_far_it_got(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Composition.from_draws([(Fraction(301, 3), 2), (Fraction(47), 3)])
    period, last = Fraction(31), 10**9
    free, _ = periodic_peaks(whole, 42.0, 10**9).nodes(period, 10**5)
    monkeypatch.setattr(module, "PIECES", 3)
    found, reached = PeriodicPeaks(whole, 48.0, 10**9).nodes(period, last)
    assert 10**5 < reached < last
    assert found[found <= 10**5].tolist() == free.tolist()
    found, reached = PeriodicPeaks(whole, 48.0, 50).nodes(period, last)
    assert 0 < reached < last
    assert near(whole, 42.0, period, reached, 1.0) <= set(found.tolist())


def test_deltas_share_them() -> None:
    whole = Composition.from_draws(
        [
            (Fraction(10007, 13), 2),
            (Fraction(4721, 7), 3),
            (Fraction(997, 3), 5),
            (Fraction(83, 11), 9),
        ]
    )
    module._known.cache_clear()
    lines = [Contour(whole, Fraction(eps)) for eps in (1, 2, 3)]
    assert not any(line.lattice for line in lines)
    assert module._known.cache_info().misses == 1


@pytest.mark.parametrize(
    ("draws", "delta", "widest"),
    [
        # variances that are nearly equal revive together for long; one that is huge has no second
        # bump anywhere near
        (
            [
                ("1762636/5387", 171),
                ("516457735/1578391", 298),
                ("992374842/3032881", 279),
                ("1011769225/3092138", 110),
                ("661010048/2020125", 26),
                ("542918823/1659196", 166),
            ],
            "1e-6",
            1e-11,
        ),
        (
            [
                ("83/1000", 5),
                ("6840984995407311/8589934592", 5),
                ("6112039/896", 1),
                ("6502499/49522", 712),
                ("9/500", 3),
                ("75932336088475/4398046511104", 40),
                ("460060140", 986),
            ],
            "1e-3",
            1e-9,
        ),
        ([("51/200", 1)], "1e-100", 1e-9),  # at a corner
        ([("234023881", 3)], "0.9", 1e-9),  # few draws, of very many values each
        ([("30000000", 3)], "1e-6", 1e-12),
    ],
)
def test_epsilon_stays_narrow(draws: list[tuple[str, int]], delta: str, widest: float) -> None:
    low, high = epsilon([(Fraction(sigma_sq), n) for sigma_sq, n in draws], delta)
    assert 0 <= high - low < widest
