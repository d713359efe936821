"""Families that are estimated together: each has the answer that it has alone, to the last bit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InfeasibleError
from das.estimate import batch
from das.estimate.batch import Steps, estimated, families, problem_batches, solve_jointly
from das.estimate.family import Array, Estimator, Family
from das.estimate.pooled import PooledSource
from das.estimate.upward_pass import upward_pass
from das.model.solution import Certificate
from das.solve import ChildrenQP
from tests.estimate.world import SMALL, World, passes, random_spine, random_world

PASSES = (("total",), ("home", "age * race", "detailed"))


def asked(
    w: World, noise: float = 3.0, total: str | None = None, *, informed: bool = False
) -> list[tuple[Estimator, list[Family]]]:
    """The families of each level below the root that an estimator is asked about, and the
    estimator.
    """
    rng, bounds = np.random.default_rng(7), w.bounds(total)
    source = w.measured(rng, ("total", "home", "age * race", "detailed"), noise)
    method: Estimator = passes(w.spine, PASSES)
    if informed:
        method = upward_pass(source, w.spine, bounds, w.universe()).estimator(method)
    read = source if informed else PooledSource.over_chains(source, w.spine, bounds, w.schema)
    out = []
    for above, level in zip(w.spine.levels[:-1], w.spine.levels[1:], strict=True):
        starts = w.spine.children(level)
        every = families(read, w.schema, level, w.truth[above], starts, bounds[level].dense())
        some = [f.some(f.able) for f in every if f.able.sum() > 1]
        out.append((method.part(level, 0, w.spine.units(level)), some))
    return out


@settings(max_examples=6)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([None, "L0", "L2"]))
def test_company_makes_no_difference(seed: int, informed: bool, total: str | None) -> None:
    rng = np.random.default_rng(seed)
    w = random_world(
        rng, SMALL, random_spine(rng, 4, 5), size=rng.choice([1.0, 8.0]), facilities=0.4
    )
    for method, some in asked(w, total=total, informed=informed):
        alone = [method.estimate(f) for f in some]
        order = rng.permutation(len(some))[: rng.integers(len(some) + 1)].tolist()
        for i, (x, certificate) in zip(
            order, method.estimates([some[i] for i in order]), strict=True
        ):
            assert x.tobytes() == alone[i][0].tobytes()
            assert certificate == alone[i][1]


@pytest.mark.parametrize("wanted", [(), (0,), (3, 0, 1, 2), (1, 1, 5)])
def test_who_asks_for_more_is_answered_longer(wanted: tuple[int, ...]) -> None:
    """Each adds one to the parent with every problem, and says how much it was."""

    def steps(problems: int) -> Steps:
        parent = 1.0
        for _ in range(problems):
            solution = yield ChildrenQP(np.eye(1), np.ones((2, 1)), np.array([parent]))
            assert solution.x.sum() == pytest.approx(parent)
            parent += 1
        return np.array([[parent]]), Certificate(solves=problems)

    said = solve_jointly([steps(n) for n in wanted], 1e-6)
    assert [(x.item(), c.solves) for x, c in said] == [(1.0 + n, n) for n in wanted]


def test_one_that_contradicts_itself_is_named_as_it_is_alone() -> None:
    w = random_world(
        np.random.default_rng(5), SMALL, random_spine(np.random.default_rng(5), 4, 5), size=9.0
    )
    method, some = asked(w)[-1]
    bounds = some[1].bounds
    torn = replace(
        some[1], bounds=replace(bounds, lower=bounds.lower + 10_000, upper=bounds.upper + 10_000)
    )
    with pytest.raises(InfeasibleError) as alone:
        method.estimate(torn)
    with pytest.raises(InfeasibleError, match=re.escape(str(alone.value))):
        method.estimates([some[0], torn, *some[2:]])


class Noting(Estimator):
    """The parent's counts, evenly; with a note of how many families came at once."""

    def __init__(self) -> None:
        self.together: list[int] = []

    def estimate(self, family: Family) -> Array:
        assert family.parent is not None
        return np.broadcast_to(family.parent / len(family), (len(family), len(family.cell)))


class NotingCompanies(Noting):
    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        self.together.append(len(families))
        return super().estimates(families)


def test_one_that_knows_single_families_is_asked_one_by_one() -> None:
    w = random_world(
        np.random.default_rng(4), SMALL, random_spine(np.random.default_rng(4), 3, 4), size=9.0
    )
    for _, some in asked(w):
        one, many = Noting(), NotingCompanies()
        for a, b in zip(estimated(some, one), estimated(some, many), strict=True):
            assert np.array_equal(a.x, b.x)
            assert a.certificate == Certificate()
        assert many.together == [len(some)]


def test_as_many_are_together_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    w = random_world(
        np.random.default_rng(5), SMALL, random_spine(np.random.default_rng(5), 4, 5), size=9.0
    )
    some = asked(w)[-1][1]
    size = [len(f.cell) * (len(f.cell) + len(f)) for f in some]
    assert len(some) > 5
    assert [len(c) for c in problem_batches(some)] == [len(some)]
    monkeypatch.setattr(batch, "_TOGETHER", max(size))
    found = list(problem_batches(some))
    assert [f for c in found for f in c] == some
    assert 1 < len(found) < len(some)
    for some in found:
        assert sum(len(f.cell) * (len(f.cell) + len(f)) for f in some) <= max(size)
    monkeypatch.setattr(batch, "_TOGETHER", 0)
    assert [len(c) for c in problem_batches(some)] == [1] * len(some)
    assert list(problem_batches([])) == []
