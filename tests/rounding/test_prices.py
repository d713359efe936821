"""Marginals that are no chain: the nearest integers lose rare levels, prices keep them."""

from __future__ import annotations

import numpy as np
import pytest

from das.model.constraint import Bounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate
from das.model.schema import Attribute, Schema
from das.model.solution import Certificate
from das.rounding import Marginal, controlled
from tests.rounding.one import round_estimate

SIZES = {"sex": 2, "age": 24, "work": 30}
SCHEMA = Schema(
    "mine", tuple(Attribute(k, tuple(map(str, range(n)))) for k, n in SIZES.items()), (), (), None
)
QUERIES = [SCHEMA.query(name) for name in SIZES]
RANDOM = np.random.default_rng(3)


def family(children: int, parent: bool) -> tuple[Estimate, Bounds]:
    """Counts below 1, most of them far below, each level of an attribute rarer than the one
    before.
    """
    rare = [1 / np.arange(1, n + 1) for n in SIZES.values()]
    mean = np.einsum("i,j,k->ijk", *rare).ravel() * 6
    x = RANDOM.gamma(2.0, 0.5, (children, SCHEMA.cells)) * mean
    if parent:
        held = np.ceil(x.sum(axis=0)).astype(np.int64)
        x *= held / x.sum(axis=0)
    n = np.zeros((children, 1), dtype=np.int64)
    bounds = Bounds(
        np.zeros(SCHEMA.cells, dtype=np.intp), n, n + 10**9, None, np.ones(SCHEMA.cells, dtype=bool)
    )
    cell = np.arange(SCHEMA.cells)
    return Estimate(0, cell, held if parent else None, x, Certificate()), bounds


@pytest.mark.parametrize(("children", "parent"), [(1, False), (3, True)])
def test_crossed_margins_are_kept_by_floors_and_ceilings(children: int, parent: bool) -> None:
    e, bounds = family(children, parent)
    marginals = [Marginal(q, 1.0) for q in QUERIES]
    plain, _ = round_estimate(e, bounds, [])
    priced, _ = round_estimate(e, bounds, [], marginals=marginals)

    def off(h: Histogram) -> float:
        exact = [np.stack([np.bincount(q.index, weights=row) for row in e.x]) for q in QUERIES]
        return max(
            float(np.abs(h.answer(q) - v).max()) for q, v in zip(QUERIES, exact, strict=True)
        )

    assert off(plain) > 8  # without them, rare levels are lost
    assert off(priced) <= 4
    counts = priced.answer(SCHEMA.query("detailed"))
    assert (np.abs(counts - e.x) < 1).all()
    if parent:
        np.testing.assert_array_equal(counts.sum(axis=0), e.parent)


def test_no_price_where_the_noise_is_far_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    e, bounds = family(1, False)
    monkeypatch.setattr(controlled, "ROUNDS", 0)
    plain, _ = round_estimate(e, bounds, [], marginals=[Marginal(q, 1.0) for q in QUERIES])
    monkeypatch.undo()
    coarse, _ = round_estimate(e, bounds, [], marginals=[Marginal(q, 1e4) for q in QUERIES])
    detailed = SCHEMA.query("detailed")
    np.testing.assert_array_equal(coarse.answer(detailed), plain.answer(detailed))


def test_margins_that_nest_are_kept_by_the_network() -> None:
    """Children known by marginals alone share each cell equally: the nearest integers all go to the
    largest."""
    share = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    _, bounds = family(len(share), True)
    parent = RANDOM.poisson(0.5, SCHEMA.cells).astype(np.int64)
    cell = np.flatnonzero(parent)
    e = Estimate(0, cell, parent[cell], share[:, None] * parent[cell], Certificate())
    names = ("sex", "sex * age", "work")  # the first two nest; work crosses them
    queries = [SCHEMA.query(name) for name in names]
    rounded, _ = round_estimate(e, bounds, [], marginals=[Marginal(q, 1.0) for q in queries])
    off = []
    for q in queries:
        exact = np.stack(
            [np.bincount(q.index[cell], weights=row, minlength=q.answers) for row in e.x]
        )
        off.append(float(np.abs(rounded.answer(q) - exact).max()))
    assert off[0] < 1
    assert off[1] < 1
    assert off[2] <= 6  # by prices


def test_many_children_that_share_alike_do_not_overshoot() -> None:
    """What one of nine children gives up, the other eight take: steps that suit one child are too
    long for all.
    """
    share = np.arange(1.0, 10.0) / 45
    _, bounds = family(len(share), True)
    parent = np.random.default_rng(8).poisson(0.6, SCHEMA.cells).astype(np.int64)
    cell = np.flatnonzero(parent)
    e = Estimate(0, cell, parent[cell], share[:, None] * parent[cell], Certificate())
    queries = [SCHEMA.query(name) for name in SIZES]
    rounded, _ = round_estimate(e, bounds, [], marginals=[Marginal(q, 1.0) for q in queries])
    for q in queries:
        exact = np.stack(
            [np.bincount(q.index[cell], weights=row, minlength=q.answers) for row in e.x]
        )
        off = np.abs(rounded.answer(q) - exact)
        assert off.mean() < 0.7
