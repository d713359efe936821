"""Intervals that hold by true value: against enumeration, and against fresh draws from the law that
they were made for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.replicates import ReplicateErrors, by_truth, interval
from das.replicates.by_truth import LARGEST, MANY, ShownCounts, TrueValueRegions, _accepts, regions

Ints = NDArray[np.int64]


def of(value: Ints, above: Ints | None = None, population: Ints | None = None) -> ShownCounts:
    return ShownCounts(
        value,
        np.zeros_like(value) if above is None else above,
        np.zeros(len(value), dtype=np.int64) if population is None else population,
    )


def made_of(
    true: Ints,
    replicates: list[ShownCounts],
    coverage: float = 0.9,
    able: NDArray[np.bool_] | None = None,
) -> TrueValueRegions:
    able = np.ones(true.shape, dtype=bool) if able is None else able
    return regions([(true, able, replicates)], true.shape[1], coverage)


# --- the narrowest
# --------------------------------------------------------------------------------------------

laws = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8).filter(
    lambda x: sum(s for s, _ in x) > 0
)


@given(laws, st.sampled_from([0.5, 0.8, 0.9]))
def test_no_other_region_with_as_much_of_the_truth_is_shown_by_fewer_cells(
    law: list[tuple[int, int]], coverage: float
) -> None:
    seen = np.array([s for s, _ in law])
    every = seen + np.array([o for _, o in law])
    region = _accepts(seen, every, coverage)
    held, size = seen[region].sum(), every[region].sum()
    assert held >= coverage * seen.sum()
    for other in chain.from_iterable(
        combinations(range(len(seen)), r) for r in range(len(seen) + 1)
    ):
        if seen[list(other)].sum() >= held:
            assert every[list(other)].sum() >= size


def test_a_region_takes_no_class_that_it_does_not_need() -> None:
    seen, every = np.array([90, 8, 2]), np.array([100, 100, 100])
    assert _accepts(seen, every, 0.9).tolist() == [True, False, False]
    assert _accepts(seen, every, 0.91).tolist() == [True, True, False]
    assert _accepts(seen, every, 0.99).tolist() == [True, True, True]
    assert not _accepts(np.zeros(3, dtype=np.int64), every, 0.9).any()


# --- coverage by true value
# -----------------------------------------------------------------------------------


def publish(true: Ints, generator: np.random.Generator) -> Ints:
    """Small counts are often lost, and then somebody else is found: no zero is ever anything
    else.
    """
    kept = generator.random(true.shape) < np.minimum(0.6 + true / 20, 1)
    return np.where(kept, generator.poisson(true + 0.3 * (true > 0)), 0).astype(np.int64)


def world(seed: int) -> tuple[Ints, Ints]:
    """Counts of 4,000 units in 6 columns, common and rare, and what their parents have."""
    generator = np.random.default_rng(seed)
    mean = generator.gamma(0.5, 2.0, (4000, 1)) * np.array([4.0, 2.0, 1.0, 0.3, 0.05, 0.01])
    return generator.poisson(mean), np.rint(10 * mean).astype(np.int64)


def test_fresh_draws_are_covered_by_true_value_where_the_rule_alone_misses_them() -> None:
    (true, above), generator = world(1), np.random.default_rng(2)
    population = true.sum(axis=1)
    published = publish(true, generator)
    again = [publish(published, generator) for _ in range(25)]
    rule = interval(published, ReplicateErrors.of(published, np.array(again)), 0.9)
    made = made_of(published, [of(v, above, population) for v in again])
    wider = made.widened(rule, of(published, above, population), np.ones(true.shape, dtype=bool))
    small = (true >= 1) & (true <= 4)
    held = [((i.lower <= true) & (true <= i.upper))[small].mean() for i in (rule, wider)]
    assert held[0] < 0.85 < 0.88 <= held[1]
    widths = [float((i.upper - i.lower).mean()) for i in (rule, wider)]
    assert widths[0] < widths[1] < 1.6 * widths[0]
    assert (wider.lower <= rule.lower).all()
    assert (wider.upper >= rule.upper).all()


def held_by_true_count(monkeypatch: pytest.MonkeyPatch, caution: float) -> list[float]:
    """Of true counts 1 to 7 by themselves: what is published is smoother than the truth, so that
    replicates of it miss less.
    """
    monkeypatch.setattr(by_truth, "CAUTION", caution)
    (true, above), generator = world(11), np.random.default_rng(12)
    published = publish(true, generator)
    again = [publish(published, generator) for _ in range(25)]
    rule = interval(published, ReplicateErrors.of(published, np.array(again)), 0.9)
    every = np.ones(true.shape, dtype=bool)
    made = made_of(published, [of(v, above, v.sum(axis=1)) for v in again])
    wider = made.widened(rule, of(published, above, published.sum(axis=1)), every)
    return [
        float(((wider.lower <= true) & (true <= wider.upper))[true == t].mean())
        for t in range(1, 8)
    ]


def test_each_small_true_count_is_held_by_itself_not_in_a_pooled_class_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert min(held_by_true_count(monkeypatch, by_truth.CAUTION)) >= 0.9
    assert min(held_by_true_count(monkeypatch, 1)) < 0.88


@pytest.mark.parametrize("true", [1, 3, 8, LARGEST])
def test_each_true_count_accepts_what_it_mostly_shows(true: int) -> None:
    """Of cells that do have the law of the replicates, with each true count by itself."""
    counts, generator = world(3)[0] % (LARGEST + 2), np.random.default_rng(4)
    made = made_of(counts, [of(publish(counts, generator)) for _ in range(20)])
    here = np.zeros(counts.shape, dtype=bool)
    here[counts == true] = True
    fresh = publish(counts, generator)
    point = interval(fresh, ReplicateErrors(2, np.zeros_like(fresh), np.zeros_like(fresh)), 0.9)
    found = made.widened(point, of(fresh), np.ones(fresh.shape, dtype=bool))
    inside = ((found.lower <= counts) & (counts <= found.upper))[here]
    assert inside.mean() >= 0.9 - 3 * np.sqrt(0.09 / len(inside))


# --- what has no width
# ----------------------------------------------------------------------------------------


def test_without_noise_nothing_is_widened() -> None:
    true = world(5)[0]
    rule = interval(true, ReplicateErrors.of(true, np.array([true, true])), 0.9)
    found = made_of(true, [of(true), of(true)]).widened(
        rule, of(true), np.ones(true.shape, dtype=bool)
    )
    assert (found.lower == true).all()
    assert (found.upper == true).all()


def test_invariants_and_zeros_by_structure_stay_and_say_nothing_of_others() -> None:
    true, generator = world(6)[0], np.random.default_rng(7)
    true[:, 0] = true[:, 1]
    able = np.ones(true.shape, dtype=bool)
    able[::2, 2] = False
    true[~able] = 0

    def replicate() -> Ints:
        out = publish(true, generator)
        out[:, 0] = true[:, 0]
        out[~able] = 0
        return out

    again = [replicate() for _ in range(20)]
    rule = interval(true, ReplicateErrors.of(true, np.array(again)), 0.9)
    made = made_of(true, [of(v) for v in again], able=able)
    found = made.widened(rule, of(true), able)
    assert made.moved.tolist() == [False, True, True, True, True, True]
    for there in (~able, np.broadcast_to(~made.moved, able.shape)):
        assert (found.upper == rule.upper)[there].all()
        assert (found.lower == rule.lower)[there].all()
    alone = made_of(true[:, 1:], [of(v[:, 1:]) for v in again], able=able[:, 1:])
    assert (alone.largest == made.largest).all()
    assert (alone.accepted == made.accepted).all()


def test_large_counts_are_left_to_the_rule() -> None:
    true = np.full((50, 1), 40 * MANY)
    generator = np.random.default_rng(8)
    again = [true + generator.integers(-3, 4, true.shape) for _ in range(5)]
    rule = interval(true, ReplicateErrors.of(true, np.array(again)), 0.9)
    found = made_of(true, [of(v) for v in again]).widened(
        rule, of(true), np.ones(true.shape, dtype=bool)
    )
    assert (found.upper == rule.upper).all()
    assert (found.lower == rule.lower).all()


def test_units_some_at_a_time_are_as_all_at_once() -> None:
    (true, above), generator = world(9), np.random.default_rng(10)
    again = [publish(true, generator) for _ in range(3)]
    able = np.ones(true.shape, dtype=bool)

    class Parts:
        def __iter__(self) -> Iterator[tuple[Ints, NDArray[np.bool_], Iterator[ShownCounts]]]:
            for i in range(0, len(true), 700):
                here = slice(i, i + 700)
                yield true[here], able[here], (of(v[here], above[here]) for v in again)

    at_once, parts = made_of(true, [of(v, above) for v in again]), regions(Parts(), 6, 0.9)
    for name in ("least", "largest", "accepted", "common", "moved"):
        assert (getattr(at_once, name) == getattr(parts, name)).all()
