"""The intruder who reads published tables: what tables determine, Bayes' rule by hand, scores, and
the guarantee.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, norm

from benchmarks.table_attack import (
    ALIKE,
    LEAST,
    SHRINK,
    AttackReport,
    GuessedRecords,
    Tables,
    attacked,
    determines,
    guess,
    most_often_right,
    read,
    score,
)
from das import tables
from das.errors import InputError, ReleaseError
from das.files.run import tallies
from das.model.budget import Neighbours
from das.model.histogram import Histogram
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.model.redistricting import E2E_1940, PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from tests.worlds import Worlds

GAUSS, BOUNDED = DISCRETE_GAUSSIAN, Neighbours.BOUNDED


def _columns(schema: Schema) -> np.ndarray:
    return np.concatenate([t.masks for t in tables.published(schema)]).astype(float)


def _histogram(dense: np.ndarray) -> Histogram:
    unit, cell = np.nonzero(dense)
    return Histogram.from_triplets(*dense.shape, unit, cell, dense[unit, cell])


def _spine(sizes: tuple[int, ...]) -> Spine:
    """A root, one unit for each size, and that many units below it."""
    parent = np.repeat(np.arange(len(sizes)), sizes)
    codes = np.array([f"R{p}{i:03d}" for i, p in enumerate(parent)])
    middle = np.array([f"R{p}" for p in range(len(sizes))])
    return Spine(
        ("A", "B", "C"),
        (np.array(["R"]), middle, codes),
        (np.zeros(1, dtype=np.int64), np.zeros(len(sizes), dtype=np.int64), parent),
    )


def _plain(dense: np.ndarray) -> Tables:
    """Tables of traits alone: one type of dwelling."""
    h = _histogram(dense)
    cells = dense.shape[1]
    return Tables(
        h, h.totals()[:, None], np.arange(cells)[:, None], np.ones((cells, 1), dtype=bool)
    )


# --- what tables determine
# -----------------------------------------------------------------------------------


def test_p1_to_p4_determine_all_traits_together_but_not_whose_dwelling_is_which() -> None:
    columns = _columns(PL94)
    assert determines(columns, PL94.query("votingage * hispanic * cenrace")) is not None
    for name in ("detailed", "hhgq * votingage", "hhgq * hispanic"):
        assert determines(columns, PL94.query(name)) is None
    without_p4 = np.concatenate([columns[: 71 + 73 + 71], columns[-10:]])
    assert determines(without_p4, PL94.query("votingage * hispanic * cenrace")) is None
    assert determines(_columns(E2E_1940), E2E_1940.query("detailed")) is not None


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_reading_the_tables_gives_traits_and_dwellings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.choice(np.flatnonzero(PL94.possible), (5, 12))
    h = Histogram.from_triplets(
        5, PL94.cells, np.repeat(np.arange(5), 12), cells.ravel(), rng.integers(0, 9, 60)
    )
    values = np.concatenate([t.values(h) for t in tables.published(PL94)], axis=1)
    known = read(_columns(PL94), values, PL94)
    assert np.array_equal(
        known.traits.dense(), h.answer(PL94.query("votingage * hispanic * cenrace"))
    )
    assert np.array_equal(known.dwellings, h.answer(PL94.query("hhgq")))
    assert np.array_equal(np.sort(known.cell, axis=None), np.arange(PL94.cells))


def test_tables_that_say_too_little_or_contradict_each_other_are_refused() -> None:
    columns = _columns(PL94)
    with pytest.raises(InputError, match="do not determine"):
        read(columns[:71], np.zeros((1, 71), dtype=np.int64), PL94)
    values = np.zeros((1, len(columns)), dtype=np.int64)
    values[0, -9] = 3  # P5: three persons in institutions of a block with nobody
    with pytest.raises(InputError, match=r"disagree|contradict"):
        read(columns, values, PL94)
    two = Schema("two", (Attribute("a", ("x", "y")), Attribute("b", ("x", "y"))))
    with pytest.raises(InputError, match="do not determine the records"):
        read(two.query("a").answer(np.eye(4)).T, np.zeros((1, 2), dtype=np.int64), two)


# --- the intruder
# --------------------------------------------------------------------------------------------


def _by_hand(
    dense: np.ndarray, sizes: tuple[int, ...], b: int, v: int, variance: float | None
) -> np.ndarray:
    """P[T >= k | y], k = 1..N, of trait v in unit b of a three-level spine."""
    parent = np.repeat(np.arange(len(sizes)), sizes)
    n = int(dense[b].sum())
    share = 1 / dense.shape[1]
    for here in (dense, dense[parent == parent[b]]):
        share = (here[:, v].sum() - dense[b, v] + SHRINK * share) / (here.sum() - n + SHRINK)
    t = np.arange(n + 1)
    p = betabinom.pmf(t, n, ALIKE * share, ALIKE * (1 - share))
    if variance is not None:
        p = p * norm.pdf(dense[b, v], t, variance**0.5)
    return np.cumsum((p / p.sum())[::-1])[::-1][1:]


@pytest.mark.parametrize("variance", [0.3, 4.0, 400.0, None])
def test_confidence_is_the_posterior_of_bayes(variance: float | None) -> None:
    rng = np.random.default_rng(1)
    sizes = (3, 2)
    dense = rng.poisson(3, (5, 4)) * (rng.random((5, 4)) < 0.7)
    found = guess(_plain(dense), _spine(sizes), variance)
    for u in range(5):
        here = [
            (float(c), int(v), int(k))
            for u2, v, k, c in zip(found.unit, found.cell, found.nth, found.confidence)
            if u2 == u
        ]
        exact = {v: _by_hand(dense, sizes, u, v, variance) for v in range(4)}
        for c, v, k in here:
            assert c == pytest.approx(exact[v][k - 1], rel=1e-6, abs=1e-9)
        n = int(dense[u].sum())
        surest = sorted((p for e in exact.values() for p in e if p >= LEAST), reverse=True)[:n]
        assert sorted((c for c, *_ in here), reverse=True) == pytest.approx(surest, rel=1e-6)


def test_no_other_guess_is_expected_to_agree_more() -> None:
    """Oracle: every multiset of N records."""
    dense, sizes = np.array([[2, 1, 0], [4, 0, 2], [1, 3, 0]]), (3,)
    found = guess(_plain(dense), _spine(sizes), 2.0)
    for u in range(3):
        n = int(dense[u].sum())
        chance = {v: _by_hand(dense, sizes, u, v, 2.0) for v in range(3)}
        best = max(
            sum(chance[v][: g.count(v)].sum() for v in range(3))
            for g in combinations_with_replacement(range(3), n)
        )
        assert found.confidence[found.unit == u].sum() == pytest.approx(best, abs=LEAST * n)


def test_without_noise_the_intruder_reads_the_records_off() -> None:
    dense = np.random.default_rng(2).poisson(2, (12, 9))
    for variance in (0.0, 0.01):
        found = guess(_plain(dense), _spine((6, 6)), variance)
        assert (
            Counter(zip(found.unit, found.cell)) == Counter(dict(np.ndenumerate(dense))) - Counter()
        )
        assert score(_histogram(dense), found).agreement == 1


def _of_block(found: GuessedRecords, u: int) -> list[tuple[int, int, float]]:
    here = found.unit == u
    return sorted(
        zip(found.cell[here].tolist(), found.nth[here].tolist(), found.confidence[here].tolist())
    )


def test_the_baseline_knows_nothing_of_the_traits_of_its_own_block() -> None:
    """Not what is there, not what alone is there, and not how sure it may be."""
    rng = np.random.default_rng(3)
    common = rng.poisson(4, (8, 12)) + 20 * (np.arange(12) < 3)
    alone = np.zeros(
        (8, 12), dtype=np.int64
    )  # the last trait is rare, and near block 0 nobody else has it
    alone[4:, :9], alone[4:, 11], alone[1, 0] = 30, 25, 3
    alone[0, [0, 11]] = 40, 1
    for dense, u in ((common, 2), (alone, 0)):
        other = dense.copy()
        other[u] = np.roll(dense[u], 1)  # the same persons in number, other traits
        pairs = {
            v: [guess(_plain(d), _spine((4, 4)), v) for d in (dense, other)] for v in (None, 1.0)
        }
        assert _of_block(pairs[None][0], u) == _of_block(pairs[None][1], u)
        assert _of_block(pairs[1.0][0], u) != _of_block(pairs[1.0][1], u)


def test_dwellings_are_dealt_out_as_published_and_never_where_nobody_can_live() -> None:
    """Ten adults and two children; four of the twelve in nursing homes, where no child is."""
    traits = _histogram(np.array([[2, 10]]))
    cell = np.arange(4).reshape(2, 2)  # child, adult x household, nursing
    known = Tables(traits, np.array([[8, 4]]), cell, np.array([[True, False], [True, True]]))
    spine = Spine(
        ("A", "B"), (np.array(["R"]), np.array(["R0"])), (np.zeros(1, dtype=np.int64),) * 2
    )
    found = guess(known, spine, 0.0)
    count = Counter(found.cell.tolist())
    assert count[1] == 0
    assert count[0] == 2
    assert count[2] + count[3] == 10
    assert count[3] >= 2
    sure = {int(c): float(p) for c, p in zip(found.cell, found.confidence)}
    assert sure[0] == 1
    assert sure[2] == pytest.approx(8 / 12)
    for c, k in product(range(4), range(1, 12)):
        assert ((found.cell == c) & (found.nth == k)).sum() == (k <= count[c])


# --- the score
# -----------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_agreement_and_uniques_are_those_of_multisets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, said = rng.integers(0, 3, (2, 4, 5)) + np.eye(4, 5, dtype=np.int64)
    found = guess(_plain(said), _spine((2, 2)), 0.0)
    s = score(_histogram(true), found)
    assert s.agreement == pytest.approx(np.minimum(true, said).sum() / true.sum())
    assert s.precision[-1] == pytest.approx(np.minimum(true, said).sum() / said.sum())
    assert s.uniques == (true == 1).sum()
    assert s.uniques_found == pytest.approx((said[true == 1] > 0).mean() if s.uniques else 0)
    assert s.claims == (said == 1).sum()
    assert s.claims_right == pytest.approx((true[said == 1] == 1).mean() if s.claims else 0)


def test_precision_is_of_the_surest() -> None:
    truth = _histogram(np.array([[1, 0, 1, 0]]))
    zero = np.zeros(4, dtype=np.int64)
    found = GuessedRecords(zero, np.array([1, 0, 2, 3]), zero + 1, np.array([0.1, 0.9, 0.8, 0.2]))
    assert score(truth, found, parts=(0.25, 0.5, 0.75, 1)).precision == pytest.approx(
        (1, 1, 2 / 3, 1 / 2)
    )
    with pytest.raises(InputError, match="0 guesses"):
        score(truth, GuessedRecords(zero[:0], zero[:0], zero[:0], np.zeros(0)))


# --- the guarantee
# -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(p0=st.floats(0.001, 0.999), rho=st.floats(1e-4, 20))
def test_the_bound_lies_between_the_gaussian_mechanism_and_pinsker(p0: float, rho: float) -> None:
    """The Gaussian mechanism satisfies rho-zCDP and reaches Phi(Phi^-1(p0) + sqrt(2 rho)); total
    variation is at most sqrt(KL / 2), and KL at most rho (all but the least of the orders, 1.001,
    that are taken)."""
    bound = most_often_right(p0, rho, GAUSS, BOUNDED)
    assert bound >= norm.cdf(norm.ppf(p0) + np.sqrt(2 * rho)) - 1e-9
    assert bound <= min(1, p0 + np.sqrt(1.001 * rho / 2)) + 1e-9


def test_the_bound_is_concave_and_counts_a_replacement_as_two_steps_of_one() -> None:
    grid = np.linspace(0, 1, 21)
    for cost, mechanism in ((0.1, GAUSS), (0.7, GEOMETRIC)):
        values = [most_often_right(p, cost, mechanism, BOUNDED) for p in grid]
        assert values[0] == 0
        assert values[-1] == pytest.approx(1)
        assert (np.diff(values, 2) < 1e-6).all()
    for p in (0.1, 0.6):
        assert most_often_right(p, 0.1, GAUSS, Neighbours.UNBOUNDED) == most_often_right(
            p, 0.4, GAUSS, BOUNDED
        )
        one, two = (
            most_often_right(p, e, GEOMETRIC, n)
            for e, n in ((0.5, Neighbours.UNBOUNDED), (1, BOUNDED))
        )
        assert one == two
        assert most_often_right(p, 0, GAUSS, BOUNDED) == p
    with pytest.raises(InputError):
        most_often_right(1.1, 1, GAUSS, BOUNDED)


@settings(max_examples=30, deadline=None)
@given(p0=st.floats(0.01, 0.99), rho=st.floats(0.001, 2))
def test_the_bound_is_the_same_from_either_side(p0: float, rho: float) -> None:
    """Wrong without the record is to wrong with it what right with it is to right without: the
    divergences of both directions are bounded."""
    p1 = most_often_right(p0, rho, GAUSS, BOUNDED)
    assert 1 - most_often_right(1 - p1, rho, GAUSS, BOUNDED) == pytest.approx(p0, abs=1e-6)


def test_pure_differential_privacy_bounds_both_odds() -> None:
    assert most_often_right(0.1, 0.5, GEOMETRIC, BOUNDED) == pytest.approx(0.1 * np.exp(0.5))
    assert most_often_right(0.9, 0.5, GEOMETRIC, BOUNDED) == pytest.approx(1 - 0.1 * np.exp(-0.5))


# --- whole runs
# ----------------------------------------------------------------------------------------------


#: The second is beyond what exact accounting is for (das.accounting.profile.MOST_RHO): at a
#: thousand it takes most of a minute.
BUDGETS = ("293764/114921", "1000000")


@pytest.fixture(scope="module")
def runs(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The redistricting configuration on one state of the shipped extract, at its own budget and
    with hardly any noise.
    """
    made = {rho: worlds.run("run.seed=1", f"budget.rho={rho}", data="one state") for rho in BUDGETS}
    return {
        rho: worlds.copy(run, tmp_path_factory.mktemp("attacked") / "run")
        for rho, run in made.items()
    }


@pytest.fixture(scope="module")
def reports(runs: dict[str, Path]) -> dict[str, AttackReport]:
    return {rho: attacked(run) for rho, run in runs.items()}


def test_with_hardly_any_noise_nearly_everybody_is_recovered(
    reports: dict[str, AttackReport],
) -> None:
    report = reports[BUDGETS[1]]
    assert report.attack.agreement > 0.99
    assert report.attack.uniques_found > 0.97
    assert report.attack.claims_right > 0.97
    assert report.baseline.agreement < 0.85
    assert report.baseline.uniques_found < 0.5


def test_at_the_production_budget_no_more_than_the_baseline_and_what_the_guarantee_allows(
    reports: dict[str, AttackReport],
) -> None:
    report = reports["293764/114921"]
    attack, base = report.attack, report.baseline
    assert base.agreement < attack.agreement <= report.allowed
    # two measurements of a block are as fine as its traits, of 3945 and 71 parts in 4097 of its
    # budget: sigma^2 = 1/rho
    assert report.variance == pytest.approx(
        1 / (293764 / 114921 * 165 / 4099 * (3945 + 71) / 4097), rel=1e-6
    )
    assert attack.agreement < 0.93
    # a unique person is hardly found more often than by somebody who has not seen the block
    assert abs(attack.uniques_found - base.uniques_found) < 0.06
    assert attack.claims_right < 0.5
    # the intruder knows how sure he may be
    assert abs(attack.expected - attack.agreement) < 0.06


def test_tables_at_face_value_agree_as_the_evaluation_says(
    runs: dict[str, Path], reports: dict[str, AttackReport]
) -> None:
    """1 - L1/2N of the traits by block is an upper bound of the agreement of whole records, reached
    where no block mixes dwellings."""
    for rho, run in runs.items():
        rows = tallies.read_errors(run / "confidential" / "evaluation" / "errors.csv")
        (tvd,) = [
            r.tvd
            for r in rows
            if (r.level, r.query, r.source, r.bin)
            == ("Block", "votingage * hispanic * cenrace", "postprocessed", "all")
        ]
        assert tvd is not None
        assert tvd - 0.01 < reports[rho].face_value.agreement <= tvd + 1e-9


def test_tables_that_are_not_those_of_the_release_are_refused(runs: dict[str, Path]) -> None:
    run = runs[BUDGETS[1]]
    table = run / "release" / "tables" / "P4_Block.csv"
    text = table.read_text()
    try:
        table.write_text("\n".join(text.splitlines()[:-1]) + "\n")
        with pytest.raises(ReleaseError, match="other units"):
            attacked(run)
    finally:
        table.write_text(text)
