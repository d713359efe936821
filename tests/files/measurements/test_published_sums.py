"""Totals of a level against those below: noise is no fault, a child that is missing is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.measurement import Measurement
from das.model.spine import Spine
from das.publications.published.files.sums import (
    INSIDE,
    INSIDE_2010,
    STATES,
    MeasuredTotals,
    missing_parts,
)
from tests.strategies import spines


def measured(
    spine: Spine, people: np.ndarray, sd: float, seed: int, unmeasured: float = 0.0
) -> MeasuredTotals:
    """Two queries of every level: a total, and three answers that sum to it."""
    rng, out = np.random.default_rng(seed), MeasuredTotals(spine)
    for level in spine.levels:
        true = np.bincount(
            spine.up(spine.levels[-1], level), weights=people, minlength=spine.units(level)
        ).astype(int)
        for name, parts in (("total", 1), ("three", 3)):
            values = np.stack([true - (parts - 1), *[np.ones_like(true)] * (parts - 1)], axis=1)
            values += np.rint(rng.normal(0, sd, values.shape)).astype(int)
            variance = np.where(rng.random(len(true)) < unmeasured, np.inf, sd**2 + 1 / 12)
            out.add(Measurement(level, name, 0, values, variance))
    return out


@given(spines(), st.integers(0, 2**32), st.floats(0.5, 50), st.sampled_from([0.0, 0.3]))
def test_noise_is_no_fault(spine: Spine, seed: int, sd: float, unmeasured: float) -> None:
    people = np.random.default_rng(seed).integers(0, 10_000, spine.units(spine.levels[-1]))
    measured(spine, people, sd, seed, unmeasured).check(spine.levels[-1], Path("x"))


@given(spines(most_levels=4).filter(lambda s: len(s) > 1), st.integers(0, 2**32), st.booleans())
def test_what_is_missing_is_found(spine: Spine, seed: int, known: bool) -> None:
    """The root lacks 1,000 records that its children have together, measured or known exactly."""
    people = np.random.default_rng(seed).integers(0, 10_000, spine.units(spine.levels[-1]))
    totals = measured(spine, people, 1.0, seed)
    totals.exact(spine.levels[0], np.array([people.sum() + 1000]))
    if not known:
        totals._exact.clear()
        totals._weighted[0] += 1000 * totals._precision[0]
    with pytest.raises(InputError, match="standard deviations away") as caught:
        totals.check(spine.levels[1], Path("x"))
    assert f"level {spine.levels[1]} below it hold" in str(caught.value)


def test_the_bound_is_that_of_the_sum() -> None:
    """A parent of variance 9 and four children of variance 4: the standard deviation of their
    difference is 5.
    """
    spine = Spine(
        ("A", "B"),
        (np.array(["A"]), np.array(["A1", "A2", "A3", "A4"])),
        (np.zeros(1, int), np.zeros(4, int)),
    )
    for off, refused in ((29, False), (31, True)):
        totals = MeasuredTotals(spine)
        totals.add(Measurement("A", "total", 0, np.array([[400 + off]]), np.array([9.0])))
        totals.add(Measurement("B", "total", 0, np.full((4, 1), 100), np.full(4, 4.0)))
        if refused:
            with pytest.raises(InputError, match="holds 431 records"):
                totals.check("B", Path("x"))
        else:
            totals.check("B", Path("x"))


def test_parts_of_states_that_publications_have() -> None:
    assert (len(STATES), len(INSIDE), len(INSIDE_2010)) == (51, 37, 36)
    assert "has 88 parts, also 144" not in missing_parts("State", ["050"])
    assert "the publication of 2020 has 88 parts, also 102" in missing_parts(
        "State", ["002"]
    )  # the other part comes first
    assert "of 2010 has 87 parts" in missing_parts("State", ["044", "144"])
    assert missing_parts("State", ["034", "134"]) == missing_parts("County", ["050"]) == ""
