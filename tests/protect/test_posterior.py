"""Exact tables and noisy measurements together: against the enumeration of all that is possible."""

from __future__ import annotations

from itertools import product
from math import exp, lgamma

import numpy as np
import pytest

from das.errors import InputError
from das.model.measurement import Measurement
from das.model.schema import Attribute, Schema
from das.tools.protection.least.chain import Chain, Grain
from das.tools.protection.least.posterior import NoisyCounts, assignment, correlation, posterior
from das.tools.protection.least.staircase import Staircase

#: Three units and four groups, in pairs at the grain between; units 0 and 1 are an atom of it.
TRUTH = np.array([[3, 1, 0, 2], [1, 2, 2, 0], [0, 2, 1, 1]])
GROUPS = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]])
FIRST = np.array([[0, 1, 2], [0, 0, 2], [0, 0, 0]])
#: Copies of these units, each with atoms of its own: as many chains at once.
COPIES = 400


def chain(groups: np.ndarray) -> Chain:
    sizes = groups.max(axis=1) + 1
    return Chain(
        tuple(
            Grain(f"grain {h}", row, tuple(map(str, range(n))), np.zeros(n, np.int64))
            for h, (row, n) in enumerate(zip(groups, sizes, strict=True))
        )
    )


def copies(n: int) -> Staircase:
    first = (FIRST[:, None, :] + 3 * np.arange(n)[:, None]).reshape(3, -1)
    return Staircase.from_counts(chain(GROUPS), list(first), np.tile(TRUTH, (n, 1)))


def noise(n: int) -> NoisyCounts:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(4, 4))
    precision = (root @ root.T / 4 + np.eye(4)) / 2
    value = np.tile(TRUTH + rng.normal(size=TRUTH.shape), (n, 1))
    return NoisyCounts(
        value, np.linalg.inv(precision)[None], precision[None], np.zeros(len(value), np.int64)
    )


def enumerated(rho: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean and the probabilities of 0, 1 and 2, from every table with the same sums; and the
    mean without noise."""
    one = noise(1)
    rows = [[r for r in product(range(n + 1), repeat=4) if sum(r) == n] for n in TRUTH.sum(axis=1)]
    shares = TRUTH.sum(axis=0) / TRUTH.sum()
    a = (1 / rho - 1) * shares if rho else None
    mean, small, prior, total, weights = (
        np.zeros((3, 4)),
        np.zeros((3, 3, 4)),
        np.zeros((3, 4)),
        0,
        0,
    )
    for found in product(*rows):
        x = np.array(found)
        if (x.sum(axis=0) != TRUTH.sum(axis=0)).any() or x[:2, :2].sum() != TRUTH[:2, :2].sum():
            continue
        w = -sum(lgamma(k + 1) for k in x.ravel())
        if a is not None:
            w += sum(lgamma(k + a[c]) for row in x for c, k in enumerate(row))
        off = x - one.value
        prior += exp(w) * x
        weights += exp(w)
        w = exp(w - 0.5 * np.einsum("ui,ij,uj", off, one.precision[0], off))
        mean += w * x
        small += w * (x == np.arange(3)[:, None, None])
        total += w
    return mean / total, small / total, prior / weights


@pytest.mark.parametrize("rho", [0.0, 0.2])
def test_the_posterior_is_that_of_all_tables_with_the_same_sums(rho: float) -> None:
    mean, small, _ = enumerated(rho)
    found = posterior(copies(COPIES), noise(COPIES), seed=1, rho=rho)
    np.testing.assert_allclose(found.mean.reshape(COPIES, 3, 4).mean(axis=0), mean, atol=0.03)
    each = found.small.reshape(3, COPIES, 3, 4).mean(axis=1)
    np.testing.assert_allclose(each, small, atol=0.02)
    alone = found.small.reshape(3, COPIES, 3, 4) - small[:, None]
    assert np.sqrt((alone**2).mean()) < 0.06  # of one run
    assert found.apart < 0.3


def test_the_noise_and_how_alike_units_are_matter_in_that_test() -> None:
    """What it allows is a fraction of what these change."""
    even, _, without = enumerated(0.0)
    uneven, _, _ = enumerated(0.2)
    assert np.abs(even - without).max() > 0.3
    assert np.abs(even - uneven).max() > 0.1


def test_a_random_assignment_has_the_tables_and_the_mean_of_greatest_entropy() -> None:
    tables = copies(4000)
    unit, group = assignment(tables, np.random.default_rng(1))
    assert (np.diff(unit) >= 0).all()
    count = np.zeros((len(tables), 4), np.int64)
    np.add.at(count, (unit, group), 1)
    again = Staircase.from_counts(
        tables.chain, [np.unique(a, return_index=True)[1][a] for a in tables.atom], count
    )
    for mine, theirs in zip(again.count, tables.count, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    mean = count.reshape(-1, 3, 4).mean(axis=0)
    np.testing.assert_allclose(mean, tables.estimates(2, np.arange(3)), atol=0.06)
    np.testing.assert_allclose(enumerated(0.0)[2], tables.estimates(2, np.arange(3)))


def test_the_exchanges_keep_every_table() -> None:
    tables, noisy = copies(3), noise(3)
    found = posterior(tables, noisy, seed=2, rounds=4)
    for h, atom in enumerate(tables.atom):
        sums = np.zeros(tables.count[h].shape)
        np.add.at(sums, (atom[:, None], GROUPS[h]), found.mean)
        np.testing.assert_allclose(sums, tables.count[h])


def test_units_with_one_total_have_somebody_each_and_are_no_posterior() -> None:
    joined = Staircase.from_counts(
        chain(GROUPS), [np.array([0, 0, 2]), np.zeros(3, int), np.zeros(3, int)], TRUTH
    )
    drawn = [np.bincount(assignment(joined, np.random.default_rng(s))[0]) for s in range(400)]
    total = TRUTH.sum(axis=1)
    assert np.min(drawn) == 1
    assert (np.sum(drawn, axis=1) == total.sum()).all()
    assert (np.array(drawn)[:, 2] == total[2]).all()
    np.testing.assert_allclose(
        np.mean(drawn, axis=0), joined.estimates(0, np.arange(3))[:, 0], atol=0.3
    )
    with pytest.raises(InputError, match="not all totals of places are printed"):
        posterior(joined, noise(1), seed=1)


@pytest.mark.parametrize("rho", [0.02, 0.2])
def test_how_alike_people_of_a_unit_are_is_found_from_the_noise_alone(rho: float) -> None:
    rng = np.random.default_rng(3)
    share, n = np.array([0.5, 0.3, 0.15, 0.05]), 4000
    people = rng.integers(5, 80, n)
    of = rng.dirichlet((1 / rho - 1) * share, n)
    count = np.stack([rng.multinomial(k, p) for k, p in zip(people, of, strict=True)])
    first = [np.arange(n), np.arange(n) // 50 * 50]
    tables = Staircase.from_counts(chain(GROUPS[[0, 2]]), first, count)
    value = count + 2 * rng.normal(size=count.shape)
    eye = np.eye(4)[None]
    noisy = NoisyCounts(value, 4 * eye, eye / 4, np.zeros(n, np.int64))
    assert correlation(tables, noisy) == pytest.approx(rho, rel=0.15)


def test_measurements_are_weighed_by_their_variances_where_people_can_be() -> None:
    schema = Schema("two", (Attribute("a", ("x", "y")), Attribute("b", ("p", "q"))))
    rng = np.random.default_rng(4)
    names, variance = ("total", "a", "detailed"), np.array([[2.0, 3.0, 5.0], [2.0, 3.0, 5.0]])
    measured = [
        Measurement("Block", q, 0, rng.integers(0, 9, (2, schema.query(q).answers)), variance[:, i])
        for i, q in enumerate(names)
    ]
    allowed = np.array([[True, True, True, True], [True, False, True, False]])
    group = np.array([0, 0, 1, 1])
    found = NoisyCounts.from_measurements(schema, measured, group, allowed)
    for unit in range(2):
        inside = np.flatnonzero(allowed[unit])
        rows, told, weight = [], [], []
        for m in measured:
            index = schema.query(m.query).index
            for answer in range(schema.query(m.query).answers):
                rows.append((index[inside] == answer).astype(float))
                told.append(m.values[unit, answer])
                weight.append(1 / m.variance[unit])
        root = np.sqrt(weight)
        a, y = np.array(rows) * root[:, None], np.array(told) * root
        total = np.array([(group[inside] == g).astype(float) for g in range(2)])
        expected = total @ np.linalg.lstsq(a, y, rcond=None)[0]
        np.testing.assert_allclose(found.value[unit], expected, rtol=1e-4)
        covariance = total @ np.linalg.inv(a.T @ a) @ total.T
        np.testing.assert_allclose(found.covariance[found.kind[unit]], covariance, rtol=1e-4)
        np.testing.assert_allclose(
            found.precision[found.kind[unit]] @ covariance, np.eye(2), atol=1e-4
        )
