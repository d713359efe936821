"""The working prior of the lowest units: its algebra against dense matrices, its numbers against
what was simulated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate import prior as priors
from das.estimate.batch import families
from das.estimate.descent import topdown
from das.estimate.dispersion import DispersionSample, nested_queries, query_spreads
from das.estimate.family import Family
from das.estimate.least_squares import normal_equations
from das.estimate.prior import add_prior, as_kinds
from das.model.histogram import Histogram
from das.model.post_processing import Dispersion, HousingPrior, QuerySpreads
from das.model.redistricting import E2E_1940, PL94
from das.model.release import Release
from das.model.schema import Schema
from das.model.universe import PERSONS, Universe
from das.solve import Kinds
from tests.estimate.world import PLAIN, SMALL, World, memory, passes, random_spine, random_world

QUERIES = ("total", "home", "race", "detailed")
NESTED = ("total", "race", "detailed")
PRIOR = HousingPrior(
    (
        QuerySpreads("total", Dispersion(0.3, 0.05)),
        QuerySpreads("race", Dispersion(2.0, 0.3), {1: Dispersion(1.0, 0.8)}),
        QuerySpreads("detailed", Dispersion(1.5, 0.4)),
    )
)


def one_family(seed: int, *, size: float = 12.0, unmeasured: int | None = None) -> Family:
    """Five children of one parent with households and facilities; the last child has no housing
    unit.
    """
    rng = np.random.default_rng(seed)
    parent = rng.poisson(size, SMALL.cells) * SMALL.possible * (rng.random(SMALL.cells) < 0.8)
    structures = rng.integers(1, 9, (5, 3))
    structures[4, 0] = 0
    world = World(SMALL, random_spine(rng, 2, 1), {}, None)
    spine = type(world.spine)(
        ("R", "B"),
        (np.array(["R"]), np.array(list("abcde"))),
        (np.zeros(1, dtype=np.int64), np.zeros(5, dtype=np.int64)),
    )
    lived = np.zeros((5, SMALL.cells), dtype=np.int64)
    for k, n in enumerate(parent):
        lived[:, k] = rng.multinomial(n, rng.dirichlet(np.ones(5)))
    held = {}
    for q in QUERIES:
        true, v = SMALL.query(q).answer(lived), 40.0 if q == "home" else 6.0
        variance = np.full(5, v)
        if unmeasured is not None:
            variance[unmeasured] = np.inf
        held["B", q] = (
            true + np.rint(rng.normal(0, v**0.5, true.shape)).astype(np.int64),
            variance,
        )
    cell = np.flatnonzero(parent)
    counts = Histogram.from_triplets(1, SMALL.cells, np.zeros_like(cell), cell, parent[cell])
    bounds = World(SMALL, spine, {}, structures).bounds()["B"].dense()
    (family,) = families(memory(held), SMALL, "B", counts, spine.children("B"), bounds, PRIOR)
    return family


def equations(family: Family) -> tuple[NDArray[np.float64] | Kinds, NDArray[np.float64]]:
    gram, rhs = normal_equations(
        [(a.query.index[family.cell], a.values, a.variance) for a in map(family.answers, QUERIES)]
    )
    assert isinstance(gram, np.ndarray | Kinds)
    return gram, rhs


def oracle(
    family: Family, child: int, gram: NDArray[np.float64], rhs: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64], float, NDArray[np.float64]]:
    """As the module states them, group by group: the mean of one child's households, the variance
    of its total, and the dense covariance of the rest."""
    assert family.parent is not None
    here = np.flatnonzero(SMALL.level_of("home")[family.cell] == 0)
    upper = family.bounds.upper[:, 0]
    mean = family.parent[here] * upper[child] / upper.sum()
    inverse = np.linalg.inv(gram)
    off, noise = (inverse @ rhs)[here] - mean, inverse[np.ix_(here, here)]
    covariance = np.zeros((len(here), len(here)))
    below: dict[int, float] = {}
    finer = np.zeros(0, dtype=np.intp)
    for name, c in (("detailed", 9.0), ("race", 4.0), ("total", 9.0)):
        index = SMALL.query(name).index[family.cell[here]]
        (spread,) = (s for s in PRIOR.spreads if s.query == name)
        marginal = {}
        for a in np.unique(index).tolist():
            group = index == a
            ab, m = spread.own.get(a, spread.common), mean[group].sum()
            v = (1.0 if name == "total" else 4.0) * (ab.linear * m + ab.quadratic * m**2)
            v += max(0.0, off[group].sum() ** 2 - c * (v + noise[np.ix_(group, group)].sum()))
            if name == "total":
                return here, mean, v, covariance
            if not len(finer):
                covariance[group, group] = v
                marginal[a] = v
            else:
                parts = sum(below[b] for b in {int(x) for x in finer[group]})
                u = np.where(group, mean, 0.0) / m
                covariance += max(0.0, v - parts) * np.outer(u, u)
                marginal[a] = max(v, parts)
        below, finer = marginal, index
    raise AssertionError("the total comes last")


def dense_precision(
    mean: NDArray[np.float64], total: float, covariance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of the total, and of proportions: what is left of the inverse when the multiple of the mean
    is a free parameter.
    """
    r = np.linalg.inv(covariance)
    n = len(mean)
    both = np.block(
        [[r, -(r @ mean)[:, None]], [-(r @ mean)[None, :], np.array([[mean @ r @ mean]])]]
    )
    free = both[:n, :n] - both[:n, n:] @ np.linalg.inv(both[n:, n:]) @ both[n:, :n]
    return free + np.ones((n, n)) / total


@pytest.mark.parametrize("seed", range(4))
def test_the_normal_equations_are_those_of_the_dense_covariance(seed: int) -> None:
    """Own precision plus the inverse of the covariance, cell by cell; nothing for group quarters,
    nor without housing.
    """
    family = one_family(seed)
    gram, rhs = equations(family)
    assert isinstance(gram, np.ndarray)
    found, b = add_prior(PRIOR, family, gram, rhs)
    assert isinstance(found, np.ndarray)
    for child in range(5):
        expected, right = gram.copy(), rhs[child].copy()
        if child < 4:
            here, mean, total, covariance = oracle(family, child, gram, rhs[child])
            expected[np.ix_(here, here)] += dense_precision(mean, total, covariance)
            right[here] += mean.sum() / total
        np.testing.assert_allclose(found[child], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(b[child], right, rtol=1e-9, atol=1e-9)


def test_some_child_of_the_oracle_is_surprising() -> None:
    """Or the test above would not see what becomes of it."""
    for seed in range(4):
        family = one_family(seed)
        gram, rhs = equations(family)
        assert isinstance(gram, np.ndarray)
        for child in range(4):
            _, mean, _, covariance = oracle(family, child, gram, rhs[child])
            if (np.diag(covariance) > 1.01 * 4 * (1.5 * mean + 0.4 * mean**2)).any():
                return
    pytest.fail("no child is")


def test_a_child_that_was_not_measured_is_taken_for_what_is_expected() -> None:
    family = one_family(1, unmeasured=2)
    gram, rhs = equations(family)
    found, b = add_prior(PRIOR, family, gram, rhs)
    assert isinstance(found, np.ndarray)
    here = np.flatnonzero(SMALL.level_of("home")[family.cell] == 0)
    assert family.parent is not None
    upper = family.bounds.upper[:, 0]
    np.testing.assert_allclose(
        np.linalg.solve(found[2][np.ix_(here, here)], b[2][here]),
        family.parent[here] * upper[2] / upper.sum(),
    )


def test_many_children_share_matrices_and_keep_their_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two matrices: each is the mean of the precisions of those that share it."""
    family = one_family(2)
    gram, rhs = equations(family)
    alone, _ = add_prior(PRIOR, family, gram, rhs)
    monkeypatch.setattr(priors, "LARGE", 2 * len(family.cell) ** 2)
    shared, b = add_prior(PRIOR, family, gram, rhs)
    assert isinstance(shared, Kinds)
    assert isinstance(alone, np.ndarray)
    assert isinstance(gram, np.ndarray)
    assert len(shared.matrices) == 2
    for k in range(2):
        np.testing.assert_allclose(shared.matrices[k], alone[shared.kind == k].mean(axis=0))
    assert family.parent is not None
    here = np.flatnonzero(SMALL.level_of("home")[family.cell] == 0)
    share = family.bounds.upper[:, 0] / family.bounds.upper[:, 0].sum()
    for child in range(5):
        extra = (shared.matrices[shared.kind[child]] - gram)[np.ix_(here, here)]
        np.testing.assert_allclose(
            b[child][here] - rhs[child][here], extra @ (share[child] * family.parent[here])
        )


def test_matrices_of_all_children_are_of_one_form() -> None:
    one = np.eye(3)
    assert as_kinds(one, 4).kind.tolist() == [0, 0, 0, 0]
    assert as_kinds(np.stack([one, one]), 2).kind.tolist() == [0, 1]


# --- the numbers
# -----------------------------------------------------------------------------------------------


def simulated(
    rng: np.random.Generator, n: int, ab: tuple[float, float], answer: int = 0
) -> DispersionSample:
    mean, free, noise = (
        rng.gamma(1.0, 25.0, n) + 0.05,
        rng.uniform(0.3, 1.0, n),
        rng.uniform(20.0, 300.0, n),
    )
    variance = free * (ab[0] * mean + ab[1] * mean**2) + noise
    return DispersionSample(
        np.zeros(n, dtype=np.int8),
        np.full(n, answer),
        mean,
        rng.normal(0, variance**0.5),
        noise,
        free,
    )


@pytest.mark.parametrize("ab", [(3.0, 0.1), (0.0, 0.2), (6.0, 0.0)])
def test_the_fit_finds_what_was_simulated(ab: tuple[float, float]) -> None:
    """Within four standard errors, which hold over 20 fits."""
    found = np.array(
        [
            (s.linear, s.quadratic)
            for s in (
                query_spreads("total", simulated(np.random.default_rng(i), 4000, ab)).common
                for i in range(20)
            )
        ]
    )
    error = found.std(axis=0, ddof=1)
    inner = np.array(ab) > 0  # at an end of what is allowed the mean is not
    assert (
        np.abs(found.mean(axis=0) - ab)[inner]
        < 4 * error[inner] / 20**0.5 + 0.02 * np.array(ab)[inner]
    ).all()
    assert (np.abs(found - ab) < 4.5 * error + 1e-3).all()


def test_another_truth_is_told_apart() -> None:
    a, b = (
        query_spreads("total", simulated(np.random.default_rng(3), 20_000, ab)).common
        for ab in ((3.0, 0.1), (3.0, 0.15))
    )
    assert b.quadratic - a.quadratic > 0.03


def test_a_few_barracks_do_not_move_the_fit() -> None:
    rng = np.random.default_rng(5)
    seen = simulated(rng, 20_000, (3.0, 0.1))
    odd = seen.off.copy()
    odd[rng.choice(len(odd), 40, replace=False)] += 2000.0
    clean, dirty = (query_spreads("total", s).common for s in (seen, replace(seen, off=odd)))
    at = 25.0
    variance = [s.linear * at + s.quadratic * at**2 for s in (clean, dirty)]
    assert variance[1] < 1.15 * variance[0]  # unclipped squares: 80 times


def test_an_answer_stands_by_itself_where_enough_is_known_of_it() -> None:
    rng = np.random.default_rng(6)
    parts = [
        simulated(rng, 8000, (1.0, 0.05), 0),
        simulated(rng, 8000, (4.0, 0.5), 1),
        simulated(rng, 30, (9.0, 0.9), 2),
    ]
    found = query_spreads("race", DispersionSample.concatenate(parts))
    assert set(found.own) == {0, 1}
    assert found.own[1].quadratic > 5 * found.own[0].quadratic
    variance = found.variance(np.array([1, 0, 2]), np.full((1, 3), 10.0))[0]
    assert variance[0] > variance[1]
    assert variance[2] == pytest.approx(found.common.linear * 10 + found.common.quadratic * 100)


def test_where_nothing_spreads_there_is_still_a_variance() -> None:
    none = DispersionSample.nothing()
    assert query_spreads("total", none).common.linear > 0
    with pytest.raises(InputError, match="no variances come of 0"):
        Dispersion(0.0, 0.0)


def test_the_queries_follow_from_the_rounding_or_from_what_is_measured() -> None:
    def of(schema: Schema, *measured: str) -> tuple[str, ...]:
        chain = PERSONS.publication(schema).chain or ()
        return nested_queries(Universe(PERSONS, schema, chain=chain), measured)

    assert of(PL94) == ("total", "hispanic", "hispanic * cenrace", "detailed")
    assert of(E2E_1940) == ("total", "hispanic", "hispanic * race", "detailed")
    assert of(SMALL, "detailed", "home * race", "home", "age * race") == NESTED
    assert of(PLAIN, "race", "age", "detailed") == ("total", "age", "detailed")


# --- the descent
# -----------------------------------------------------------------------------------------------


def descended(seed: int, *, housing_prior: bool = False) -> Release:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 3, 6)
    world = random_world(rng, SMALL, spine, size=15.0, empty=0.1)
    source = world.measured(rng, QUERIES, lambda level, q: 30.0)
    return topdown(
        source,
        spine,
        world.bounds(),
        world.universe(),
        passes(spine, [QUERIES]),
        housing_prior=housing_prior,
    )


def test_the_descent_says_what_it_assumed() -> None:
    plain, housed = descended(4), descended(4, housing_prior=True)
    assert plain.prior is None
    assert housed.prior is not None
    assert housed.prior.queries == NESTED
    for level in ("L0", "L1"):
        assert plain.histograms[level].same_as(housed.histograms[level])
    assert not plain.histograms["L2"].same_as(housed.histograms["L2"])


def test_a_prior_needs_the_cells_and_the_buildings() -> None:
    rng = np.random.default_rng(1)
    spine = random_spine(rng, 2, 3)
    world = random_world(rng, SMALL, spine)
    source = world.measured(rng, ("total", "race"), 4.0)
    with pytest.raises(
        InputError, match="the detailed query of persons is not measured at the lowest level"
    ):
        topdown(
            source,
            spine,
            world.bounds(),
            world.universe(),
            passes(spine, [("total", "race")]),
            housing_prior=True,
        )
    source = world.measured(rng, QUERIES, 4.0)
    with pytest.raises(InputError, match="how many housing units and facilities"):
        topdown(
            source,
            spine,
            world.bounds(group_quarters=False),
            world.universe(),
            passes(spine, [QUERIES]),
            housing_prior=True,
        )
