"""Answers that differ by more than one: composed exactly, and which change is the worst, against
sums over all values of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest

from das.accounting import delta
from das.accounting.draws import Composition, Moves, only
from das.accounting.peaks import is_worst
from das.accounting.profile import PrivacyProfile, worst_epsilon
from das.accounting.worst import all_of
from das.accounting.worst import epsilon as worst
from das.accounting.zcdp import tight
from das.model.mechanisms import DISCRETE_GAUSSIAN

#: sigma^2, by how much the answer differs, how many such answers.
Draw = tuple[Fraction, int, int]


def composition(draws: Sequence[Draw]) -> Composition:
    out = Composition(())
    for sigma_sq, k, n in draws:
        p = 1 / sigma_sq
        out += Composition(((p, n),)) if k == 1 else Composition((), ((p, k, n),))
    return out


def losses(draws: Sequence[Draw]) -> tuple[np.ndarray, np.ndarray]:
    """Every likely combination of values: the logarithm of the ratio of both probabilities, and the
    probability. From the densities themselves, not from a formula for the loss."""
    loss, mass = np.zeros(1), np.ones(1)
    for sigma_sq, k, n in draws:
        s = float(sigma_sq)
        x = np.arange(-int(11 * s**0.5) - 3, int(11 * s**0.5) + 4 + k)
        p, q = np.exp(-(x**2) / (2 * s)), -((x - k) ** 2) / (2 * s)
        for _ in range(n):
            loss = np.add.outer(loss, -(x**2) / (2 * s) - q).ravel()
            mass = np.multiply.outer(mass, p / p.sum()).ravel()
            likely = mass > 1e-22
            loss, same = np.unique(loss[likely].round(12), return_inverse=True)
            mass = np.bincount(same, mass[likely])
    return loss, mass


def by_sum(draws: Sequence[Draw], eps: float) -> float:
    loss, mass = losses(draws)
    return float((mass * np.maximum(0.0, -np.expm1(eps - loss))).sum())


def made(rng: Random) -> list[Draw]:
    return [
        (Fraction(rng.randint(1, 40), rng.randint(1, 8)), rng.randint(1, 5), rng.randint(1, 2))
        for _ in range(rng.randint(1, 2))
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_composition_with_shifts_is_the_sum_over_all_values(seed: int) -> None:
    rng = Random(seed)
    draws = made(rng)
    rho = sum(n * k * k / (2 * s) for s, k, n in draws)
    found = composition(draws)
    assert found.rho == rho
    for times in (Fraction(0), Fraction(1, 2), Fraction(2)):
        eps = times * found.rho
        exact = by_sum(draws, float(eps))
        low, high = delta(found, eps)
        assert low <= exact * (1 + 1e-10)
        assert high >= exact * (1 - 1e-10)
        assert high - low <= 1e-9 * high + 1e-15


def test_a_proof_by_ball_arithmetic_agrees() -> None:
    pytest.importorskip("flint")
    found = composition([(Fraction(7, 3), 4, 1), (Fraction(9), 5, 1), (Fraction(2), 1, 3)])
    for eps in (Fraction(1), Fraction(9)):
        (a, b), (low, high) = delta(found, eps), delta(found, eps, certify=True)
        assert max(a, low) <= min(b, high)
        assert high - low <= b - a + 1e-15


def test_one_answer_by_two_is_not_four_by_one() -> None:
    """Equal rho, another law: an exact account must tell them apart."""
    s = Fraction(1)
    (a, b), (c, d) = (delta(composition([x]), "3") for x in ((s, 2, 1), (s, 1, 4)))
    assert composition([(s, 2, 1)]).rho == composition([(s, 1, 4)]).rho
    assert b < c or d < a


@pytest.mark.parametrize("seed", range(4))
def test_the_worst_of_many_paths_with_shifts(seed: int) -> None:
    """Bounds for all together find what composing each finds."""
    rng, goal = Random(seed), Fraction(1, 10**8)
    paths = tuple(
        (((DISCRETE_GAUSSIAN, Fraction(rng.randint(12, 60))), rng.randint(1, 3)),) for _ in range(4)
    )
    pairs = tuple((i, j) for i in range(4) for j in range(i, 4))
    shifted = ((Fraction(1, 30), 3, 2), (Fraction(1, 14), 2, 1))
    for by in (1, 2):
        part = Moves(paths, pairs, ((),) * 4, True, shifted=shifted, by=by)
        each = lambda c: PrivacyProfile(c).epsilon(goal)  # noqa: E731
        at, every = worst((part,), goal, each), all_of((part,), each)
        assert at.low <= every.high
        assert at.high >= every.low
        assert at.high - every.high < 1e-6
        assert part.rho == max(part.composition(move).rho for move in pairs)


# --- which change is the worst
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma_sq", "k"), [(12, 2), (15, 3), (16, 4), (15, 2)])
def test_no_vector_of_the_same_sum_costs_more(sigma_sq: int, k: int) -> None:
    """Every change of several answers by k in sum, next to a draw of its own, too."""
    s, other = Fraction(sigma_sq), (Fraction(5), 1, 1)
    assert is_worst(s, k)
    vectors = {
        tuple(sorted(v))
        for v in product(range(k + 1), repeat=3)
        if 0 < sum(v) <= k and sorted(v)[1] > 0
    }
    assert vectors
    whole = {eps: by_sum([(s, k, 1), other], eps) for eps in (0.0, 0.3, 1.0, 2.5)}
    for v in vectors:
        draws = [(s, x, 1) for x in v if x]
        for eps, most in whole.items():
            assert by_sum([*draws, other], eps) <= most * (1 + 1e-9)
    # a longer vector does cost more: the comparison can fail
    assert by_sum([(s, k, 1), (s, k, 1), other], 1.0) > whole[1.0]


def test_a_larger_shift_costs_more_whatever_the_noise() -> None:
    for sigma_sq in (Fraction(1, 5), Fraction(2), Fraction(30)):
        for eps in (0.0, 0.7, 3.0, 11.0):
            found = [by_sum([(sigma_sq, k, 1)], eps) for k in range(1, 6)]
            assert found == sorted(found)


def test_where_it_is_not_proved_rho_bounds_it() -> None:
    goal = Fraction(1, 10**10)
    assert not is_worst(Fraction(11), 2)
    for sigma_sq, proved in ((Fraction(11), False), (Fraction(12), True)):
        part = only(composition([(sigma_sq, 2, 2)]))
        at = worst_epsilon((part,), goal)
        low, high = PrivacyProfile(composition([(sigma_sq, 2, 2)])).epsilon(goal)
        assert at.low == low
        assert (at.high < high + 1e-9) is proved
        if not proved:
            assert at.high == pytest.approx(tight(part.rho, goal), rel=1e-8)


def test_times_and_alike() -> None:
    part = only(composition([(Fraction(6), 1, 3), (Fraction(5), 2, 1)]))
    assert part.times(3).rho == 3 * part.rho
    assert part.alike(3).rho == 9 * part.rho
    assert part.alike(3).composition((0,)) == composition(
        [(Fraction(6), 3, 3), (Fraction(5), 6, 1)]
    )
    assert part.scaled(Fraction(2)).rho == part.rho / 2
