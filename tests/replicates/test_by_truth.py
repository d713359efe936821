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

from das.replicates import ReplicateErrors, ReplicateInterval, by_truth, interval
from das.replicates.by_truth import (
    LARGEST,
    MANY,
    UNSEEN,
    ShownCounts,
    TrueValueRule,
    _accepts,
    rule_of,
    student,
)

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
) -> TrueValueRule:
    able = np.ones(true.shape, dtype=bool) if able is None else able
    return rule_of([(true, able, replicates)], true.shape[1], coverage)


def all_at_once(
    published: Ints, again: list[Ints], coverage: float, above: Ints | None = None
) -> ReplicateInterval:
    """By the rule that these replicates make."""
    every = np.ones(published.shape, dtype=bool)
    shown = [of(v, above, v.sum(axis=1)) for v in (published, *again)]
    errors = ReplicateErrors.from_replicates(published, np.array(again))
    return made_of(published, shown[1:], coverage).interval(shown[0], errors, every)


def held(made: ReplicateInterval, true: Ints) -> NDArray[np.bool_]:
    return (made.lower <= true) & (true <= made.upper)


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


def test_fresh_draws_are_covered_by_true_value_where_the_rule_of_the_bureau_misses_them() -> None:
    (true, above), generator = world(1), np.random.default_rng(2)
    published = publish(true, generator)
    again = [publish(published, generator) for _ in range(25)]
    rule = interval(published, ReplicateErrors.from_replicates(published, np.array(again)), 0.95)
    made = all_at_once(published, again, 0.95, above)
    small = (true >= 1) & (true <= 4)
    assert held(rule, true)[small].mean() < 0.9 < 0.93 <= held(made, true)[small].mean()
    assert (made.upper - made.lower).mean() < 1.25 * (rule.upper - rule.lower).mean()
    assert (made.lower <= published).all()
    assert (made.upper >= published).all()


SIZES = (0, 1, 5, 10, 50, 250)


def pull(of: Ints, toward: Ints, generator: np.random.Generator) -> Ints:
    """Two thirds of the way from a count to what it is pulled to are left, and there is noise."""
    return np.rint(np.maximum(toward + (of - toward) / 1.5 + generator.normal(0, 3, of.shape), 0))


def large_world() -> tuple[Ints, Ints]:
    """Counts of all sizes, and what the algorithm pulls them to: large ones lose."""
    generator = np.random.default_rng(21)
    mean = np.exp(generator.uniform(-1, 6.5, (3000, 1))) * np.array([1.0, 0.5])
    true = generator.poisson(mean)
    return true, true - np.rint(np.sqrt(mean)).astype(np.int64)


@pytest.mark.parametrize(("unseen", "least"), [(UNSEEN, 0.93), (0, 0.0)])
def test_counts_of_every_size_are_held_though_replicates_show_a_part_of_the_bias(
    monkeypatch: pytest.MonkeyPatch, unseen: float, least: float
) -> None:
    """And not without the share of the bias that they do not show."""
    monkeypatch.setattr(by_truth, "UNSEEN", unseen)
    (true, toward), generator = large_world(), np.random.default_rng(22)
    published = pull(true, toward, generator).astype(np.int64)
    again = [pull(published, toward, generator).astype(np.int64) for _ in range(25)]
    inside, size = held(all_at_once(published, again, 0.95), true), np.digitize(true, SIZES)
    each = [inside[size == i + 1].mean() for i in range(len(SIZES))]
    assert min(each) >= least
    assert (min(each) < 0.9) == (unseen == 0)


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=8),
    st.integers(-9, 9),
    st.floats(0, UNSEEN),
    st.floats(-1, 1),
    st.sampled_from([0.5, 0.9, 0.95]),
)
def test_every_bias_up_to_three_times_what_replicates_show_is_in_the_interval(
    value: list[int], shift: int, share: float, place: float, coverage: float
) -> None:
    """The algebra: of an error of such a bias and a rest within its margin nothing is missed."""
    published = np.array(value)[:, None]
    again = [np.maximum(published + shift + d, 0) for d in (-2, 0, 1, 1)]
    errors = ReplicateErrors.from_replicates(published, np.array(again))
    made = made_of(published, [of(v) for v in again], coverage)
    found = made.interval(of(published), errors, np.ones(published.shape, dtype=bool))
    size = np.searchsorted(by_truth.OF_VALUE, published[:, 0], side="right")
    bias = np.array([errors.bias[size == s].mean() for s in size])[:, None]
    assert made.bias[size, 0] == pytest.approx(bias[:, 0])
    true = np.rint(published - share * bias - place * student(coverage, 4) * errors.rmse)
    there = true >= 0
    assert (held(found, true.astype(np.int64)) | ~there).all()


@pytest.mark.parametrize("true", [1, 3, 8, LARGEST])
def test_each_true_count_accepts_what_it_mostly_shows(true: int) -> None:
    """Of cells that do have the law of the replicates, with each true count by itself."""
    counts, generator = world(3)[0] % (LARGEST + 2), np.random.default_rng(4)
    made = made_of(counts, [of(publish(counts, generator)) for _ in range(20)])
    here = np.zeros(counts.shape, dtype=bool)
    here[counts == true] = True
    fresh = publish(counts, generator)
    nothing = ReplicateErrors(2, np.zeros_like(fresh), np.zeros_like(fresh))
    found = made.interval(of(fresh), nothing, np.ones(fresh.shape, dtype=bool))
    inside = held(found, counts)[here]
    assert inside.mean() >= 0.9 - 3 * np.sqrt(0.09 / len(inside))


# --- what has no width
# ----------------------------------------------------------------------------------------


def test_without_noise_there_is_no_width() -> None:
    true = world(5)[0]
    found = all_at_once(true, [true, true], 0.9)
    assert (found.lower == true).all()
    assert (found.upper == true).all()
    assert not found.margin.any()


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
    made = made_of(true, [of(v) for v in again], able=able)
    found = made.interval(of(true), ReplicateErrors.from_replicates(true, np.array(again)), able)
    assert made.moved.tolist() == [False, True, True, True, True, True]
    for there in (~able, np.broadcast_to(~made.moved, able.shape)):
        assert (found.upper == true)[there].all()
        assert (found.lower == true)[there].all()
    alone = made_of(true[:, 1:], [of(v[:, 1:]) for v in again], able=able[:, 1:])
    assert (alone.largest == made.largest).all()
    assert (alone.accepted == made.accepted).all()
    assert (alone.bias == made.bias[:, 1:]).all()


def test_large_counts_are_left_to_their_replicates() -> None:
    true = np.full((50, 1), 40 * MANY)
    generator = np.random.default_rng(8)
    steps = generator.integers(-3, 4, (5, *true.shape))
    again = [*(true + steps), *(true - steps)]  # without any bias
    found = all_at_once(true, again, 0.9)
    margin = student(0.9, 10) * ReplicateErrors.from_replicates(true, np.array(again)).rmse
    assert (found.upper - true == np.ceil(margin - 0.5)).all()
    assert (true - found.lower == np.ceil(margin - 0.5)).all()


def test_units_some_at_a_time_are_as_all_at_once() -> None:
    (true, above), generator = world(9), np.random.default_rng(10)
    again = [publish(true, generator) for _ in range(3)]
    able = np.ones(true.shape, dtype=bool)

    class Parts:
        def __iter__(self) -> Iterator[tuple[Ints, NDArray[np.bool_], Iterator[ShownCounts]]]:
            for i in range(0, len(true), 700):
                here = slice(i, i + 700)
                yield true[here], able[here], (of(v[here], above[here]) for v in again)

    at_once, parts = made_of(true, [of(v, above) for v in again]), rule_of(Parts(), 6, 0.9)
    for name in ("least", "largest", "accepted", "common", "moved", "bias"):
        assert (getattr(at_once, name) == getattr(parts, name)).all()
