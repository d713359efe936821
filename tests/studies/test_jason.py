"""The attack of Dinur and Nissim: its solver against others, its law against theory, its figures
against JASON's.
"""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear

from das.errors import InputError
from studies.__main__ import JASON, main
from studies.jason import bits as reconstruction
from studies.jason import box_least_squares
from studies.jason import experiments as jason
from studies.jason.bits import (
    NOISELESS,
    Attack,
    Noise,
    determined,
    laplace,
    of_the_listing,
    of_the_text,
    predicted,
)

SEEDS = st.integers(0, 2**32 - 1)


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- the solver
# ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    n=st.integers(1, 25),
    m=st.integers(1, 60),
    noise=st.sampled_from([0.0, 0.3, 3.0, 100.0]),
)
def test_the_box_problem_is_solved_as_scipy_solves_it(
    seed: int, n: int, m: int, noise: float
) -> None:
    rng = _rng(seed)
    q = rng.integers(0, 2, (m, n)).astype(float)
    a = q @ rng.integers(0, 2, n) + noise * rng.normal(size=m)
    found = box_least_squares.solve(q.T @ q, (q.T @ a)[None])
    theirs = lsq_linear(q, a, (0, 1), method="bvls", tol=1e-14, max_iter=10_000)
    x = found.x[0]
    ours = 0.5 * np.sum((q @ x - a) ** 2)
    assert ((x >= 0) & (x <= 1)).all()
    assert found.gap[0] <= 1e-4 * max(n, np.abs(q.T @ (q @ x - a)).sum() / 100) * (1 + 1e-6)
    # bvls stops within its own tolerance of the optimum; ours is within its certified gap of it
    assert theirs.cost - 1e-6 * max(1, theirs.cost) <= ours + 1e-9
    assert ours <= theirs.cost + found.gap[0] + 1e-8 * max(1, theirs.cost)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n=st.integers(1, 12), m=st.integers(1, 20))
def test_the_gap_bounds_the_distance_to_the_optimum_anywhere_in_the_box(
    seed: int, n: int, m: int
) -> None:
    rng = _rng(seed)
    q, a = rng.normal(size=(m, n)), 3 * rng.normal(size=m)
    x = np.clip(rng.uniform(-0.5, 1.5, n), 0, 1)
    best = lsq_linear(q, a, (0, 1), method="bvls", tol=1e-14, max_iter=10_000).cost
    gap = box_least_squares.gaps(q.T @ q, (q.T @ a)[None], x[None])[0]
    assert 0.5 * np.sum((q @ x - a) ** 2) - best <= gap + 1e-9


def test_several_problems_of_one_matrix_are_solved_as_if_alone() -> None:
    rng = _rng(3)
    q = rng.integers(0, 2, (50, 30)).astype(float)
    rhs = np.stack(
        [q.T @ (q @ rng.integers(0, 2, 30) + s * rng.normal(size=50)) for s in (0.5, 5, 50)]
    )
    together = box_least_squares.solve(q.T @ q, rhs, tol=1e-8)
    for b, x in zip(rhs, together.x, strict=True):
        assert np.allclose(box_least_squares.solve(q.T @ q, b[None], tol=1e-8).x[0], x, atol=1e-3)


def test_iterations_that_run_out_are_told_by_the_gap() -> None:
    rng = _rng(4)
    q = rng.integers(0, 2, (60, 100)).astype(float)
    rhs = (q.T @ (q @ rng.integers(0, 2, 100) + rng.normal(size=60)))[None]
    assert box_least_squares.solve(q.T @ q, rhs, tol=1e-12, max_iterations=20).gap[0] > 1e-10
    with pytest.raises(InputError, match="right-hand sides"):
        box_least_squares.solve(q.T @ q, rhs[:, :5])


# --- the attack
# ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n=st.integers(1, 9), more=st.integers(0, 8))
def test_exact_answers_that_leave_one_vector_of_bits_are_inverted(
    seed: int, n: int, more: int
) -> None:
    """Oracle: all 2^n vectors of bits. With full column rank the box has one point too, so the
    attack must find it.
    """
    secret, m = _rng(seed).integers(0, 2, n), n + more
    attack = Attack(secret, [NOISELESS])
    attack.ask(_rng(seed + 1), m)
    q = _rng(seed + 1).integers(0, 2, (m, n), dtype=np.int8).astype(int)
    consistent = [
        x for x in product((0, 1), repeat=n) if np.array_equal(q @ np.array(x), q @ secret)
    ]
    assert tuple(secret) in consistent
    if np.linalg.matrix_rank(q) == n:
        assert consistent == [tuple(secret)]
        assert np.array_equal(attack.guesses(1e-10)[0], secret)


def test_bits_beyond_the_queries_are_not_recovered() -> None:
    """Half of what is not determined is guessed right: the attack is no better than its
    information.
    """
    rng, n = _rng(5), 400
    found = [a.recovered()[0] for a in _attacks(rng, n, 20, NOISELESS, 20)]
    assert 0.5 < np.mean(found) < 0.65


def test_portions_of_queries_add_up_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruction, "_PORTION", 7)
    secret = _rng(6).integers(0, 2, 11)
    attack = Attack(secret, [NOISELESS, NOISELESS])
    attack.ask(rng := _rng(7), 25)
    attack.ask(rng, 3)
    again = _rng(7)
    q = np.concatenate(
        [again.integers(0, 2, (m, 11), dtype=np.int8) for m in (7, 7, 7, 4, 3)]
    ).astype(int)
    assert attack.queries == 28
    assert np.array_equal(attack.gram, q.T @ q)
    assert np.array_equal(attack.rhs, np.stack([q.T @ (q @ secret)] * 2))


def _attacks(rng: np.random.Generator, n: int, m: int, noise: Noise, trials: int) -> list[Attack]:
    out = [Attack(rng.integers(0, 2, n), [noise]) for _ in range(trials)]
    for a in out:
        a.ask(rng, m)
    return out


def test_noise_has_the_scale_that_the_report_gives_it() -> None:
    assert laplace(0.25).deviation ** 2 == pytest.approx(2 / 0.25**2)
    assert of_the_text(100).deviation ** 2 == pytest.approx(10 * np.log(100) / 2)
    assert of_the_listing(100).deviation == pytest.approx(10 * np.log(100) / 2)
    for noise in (laplace(0.25), of_the_text(100), of_the_listing(100)):
        drawn = noise.draw(_rng(8), 40_000)
        kurtosis = 6 if noise.kind == "laplace" else 3
        error = np.sqrt((kurtosis - 1) / 40_000) / 2  # of a standard deviation, relative
        assert abs(drawn.std() / noise.deviation - 1) < 4 * error
        assert abs(drawn.std() / (1.1 * noise.deviation) - 1) > 4 * error  # a tenth more would show
        assert np.mean((drawn / drawn.std()) ** 4) == pytest.approx(kurtosis, rel=0.25)


def test_as_epsilon_goes_to_zero_the_attacker_guesses() -> None:
    found = np.mean([a.recovered()[0] for a in _attacks(_rng(9), 200, 400, laplace(1e-6), 25)])
    assert abs(found - 0.5) < 4 * 0.5 / np.sqrt(200 * 25)


@pytest.mark.parametrize(
    ("n", "m", "deviation"), [(400, 800, 8.0), (400, 400, 3.0), (400, 260, 1.0), (400, 4000, 25.0)]
)
def test_the_fraction_recovered_is_that_of_theory(n: int, m: int, deviation: float) -> None:
    trials = 6
    found = np.mean(
        [
            a.recovered()[0]
            for a in _attacks(_rng(10), n, m, Noise("x", "normal", deviation), trials)
        ]
    )
    p = predicted(n, m, deviation)
    room = (
        4 * np.sqrt(p * (1 - p) / (n * trials)) + 0.005
    )  # and what is left of n being no infinity
    assert abs(found - p) < room
    assert abs(found - predicted(n, m, 2 * deviation)) > room  # another noise would be told apart


def test_the_prediction_at_its_ends() -> None:
    assert predicted(1000, 600, 0) == 1
    assert predicted(1000, 10, 1e6) == pytest.approx(0.5, abs=1e-3)
    assert predicted(1000, 10**7, 50) == pytest.approx(1)
    many = [predicted(1000, m, 20) for m in (100, 1000, 10_000, 100_000)]
    assert many == sorted(many)
    with pytest.raises(InputError, match="begins at n/2"):
        predicted(1000, 500, 0)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_how_often_exact_answers_determine_all_bits(m: int) -> None:
    """Oracle: every one of the 2^n secrets, by a linear program, for one matrix in general
    position.
    """
    n = 6
    q = _rng(11).normal(size=(m, n))
    unique = 0
    for secret in product((0, 1), repeat=n):
        # another point of the box: q v = 0 with v >= 0 where the bit is 0 and <= 0 where it is 1
        bounds = [(-1, 0) if bit else (0, 1) for bit in secret]
        away = [1 if bit else -1 for bit in secret]
        unique += linprog(away, A_eq=q, b_eq=np.zeros(m), bounds=bounds).fun > -1e-9
    assert unique == round(2**n * determined(n, m))


def test_n_queries_determine_n_bits() -> None:
    assert determined(10, 10) == determined(10, 11) == 1
    assert determined(10, 1) == pytest.approx(2**-9)


# --- the figures
# -----------------------------------------------------------------------------------------------


def test_queries_needed_without_noise_grow_by_half_a_query_for_each_bit() -> None:
    """JASON, figures 4-2 and 4-3: "the slope is close to 1/2". The line through these sizes is a
    little above.
    """
    needed = jason.figure_4_2(8, _rng(12), sizes=(30, 60, 120))
    assert 0.45 < jason.slope(needed) < 0.6
    per_bit = [p.per_bit for p in needed]
    assert per_bit[-1] < per_bit[0]  # down to 1/2
    assert all(p.theory <= p.queries <= p.bits for p in needed)


def test_figure_4_1_rises_from_chance_to_all_at_half_a_query_a_bit() -> None:
    points = jason.figure_4_1(3, _rng(13), bits=200)
    by = {p.queries: p for p in points}
    assert by[10].mean < 0.7
    assert by[140].mean == by[140].least == 1
    assert all(p.least <= p.p10 <= p.p50 <= p.p90 <= p.most for p in points)
    assert by[95].theory is not None
    assert by[95].theory < 0.5 < (by[105].theory or 0)


def test_figure_4_4_needs_many_more_queries_by_the_listing_than_by_the_text() -> None:
    points = jason.figure_4_4(5, _rng(14), sizes=(40,), most=2000)
    text, listing = (
        [p for p in points if p.noise == n(40).name] for n in (of_the_text, of_the_listing)
    )
    assert text[-1].queries == listing[-1].queries == 2000
    assert text[-1].mean > 0.97
    assert listing[-1].mean < 0.95


def test_figure_5_7_counts_epsilon_for_one_query_and_for_all() -> None:
    points = jason.figure_5_7(2, _rng(15), bits=100, epsilons=(0.01, 1.0), multiples=(1, 10))
    by = {(p.epsilon, p.queries): p for p in points}
    assert by[0.01, 1000].total == pytest.approx(10)
    assert by[0.01, 100].mean < 0.68
    assert by[1.0, 1000].mean > 0.99


# --- what is refused
# -------------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused() -> None:
    for secret in (np.array([0, 2]), np.array([], dtype=int), np.zeros((2, 2), dtype=int)):
        with pytest.raises(InputError, match="vector of bits"):
            Attack(secret, [NOISELESS])
    with pytest.raises(InputError, match="not positive"):
        laplace(0)
    for kind, deviation in (("cauchy", 1.0), ("normal", -1.0), ("normal", float("inf"))):
        with pytest.raises(InputError, match="no noise"):
            Noise("x", kind, deviation)
    for bits, queries, trials in ((1, [3], 1), (5, [], 1), (5, [0], 1), (5, [3], 0)):
        with pytest.raises(InputError, match="trials"):
            jason.curve(bits, queries, lambda _: (NOISELESS,), trials, _rng(0))


# --- the command
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["4-1", "4-2", "4-4", "5-7"])
def test_figures_are_drawn_with_their_numbers(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {
        "4-1": {"bits": 40},
        "4-2": {"sizes": (10, 20)},
        "4-4": {"sizes": (10,), "most": 50},
        "5-7": {"bits": 30, "multiples": (1, 2)},
    }[number]
    compute, picture, _ = JASON[number]
    monkeypatch.setitem(JASON, number, (lambda t, rng: compute(t, rng, **small), picture, 2))
    written = []
    for folder in ("a", "b"):
        said = CliRunner().invoke(
            main,
            ["jason", "--figure", number, "--seed", "5", "--out", str(tmp_path / folder)],
            catch_exceptions=False,
        )
        assert said.exit_code == 0, said.output
        written.append((tmp_path / folder / f"figure-{number}.csv").read_text())
    assert written[0] == written[1]  # a seed makes it the same again
    points = compute(2, _rng(5), **small)
    rows = list(csv.DictReader(written[0].splitlines()))
    assert [int(r["queries"]) for r in rows] == [p.queries for p in points]
    assert "<svg" in (tmp_path / "a" / f"figure-{number}.svg").read_text()
