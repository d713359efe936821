"""Measurements in memory: put together from slices, read a slice at a time, and carried in
parts.
"""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.measurement import Measurement, Measurements

UNITS = 9
VALUES = {q: np.arange(UNITS * n).reshape(UNITS, n) - 5 for q, n in (("total", 1), ("hhgq", 8))}
VARIANCE = np.where(np.arange(UNITS) == 4, np.inf, np.arange(UNITS) + 0.5)


def piece(query: str, start: int, stop: int, level: str = "Tract") -> Measurement:
    return Measurement(level, query, start, VALUES[query][start:stop], VARIANCE[start:stop])


@given(
    cuts=st.sets(st.integers(1, UNITS - 1)),
    ends=st.tuples(st.integers(0, UNITS), st.integers(0, UNITS)),
    order=st.randoms(use_true_random=False),
)
def test_slices_in_any_order_are_one_source(
    cuts: set[int], ends: tuple[int, int], order: object
) -> None:
    edges = [0, *sorted(cuts), UNITS]
    pieces = [piece(q, a, b) for q in VALUES for a, b in pairwise(edges)]
    order.shuffle(pieces)  # type: ignore[attr-defined]
    source = Measurements.from_measurements(pieces)
    assert set(source.queries("Tract")) == set(VALUES)
    assert source.queries("Block") == ()
    start, stop = sorted(ends)
    for given_to in (
        source,
        source.part("Tract", start, stop),
        source.part("Tract", 0, stop).part("Tract", start, stop),
    ):
        for q, values in VALUES.items():
            got = given_to.read("Tract", q, start, stop)
            assert (got.level, got.query, got.start) == ("Tract", q, start)
            assert np.array_equal(got.values, values[start:stop])
            assert np.array_equal(got.variance, VARIANCE[start:stop])


def test_a_part_carries_its_own_units_alone() -> None:
    many = np.zeros((100_000, 10), dtype=np.int64)
    source = Measurements.from_measurements(
        [Measurement("Block", "hhgq", 0, many, np.ones(len(many)))]
    )
    part = source.part("Block", 500, 510)
    assert len(pickle.dumps(part)) < 3000
    again = pickle.loads(pickle.dumps(part))
    assert again.read("Block", "hhgq", 503, 507).values.shape == (4, 10)
    for outside in ((499, 501), (509, 511)):
        with pytest.raises(InputError, match="not all measured"):
            again.read("Block", "hhgq", *outside)


def test_a_source_may_hold_a_slice_of_a_level() -> None:
    source = Measurements.from_measurements([piece("hhgq", 3, 6), piece("hhgq", 6, 8)])
    assert np.array_equal(source.read("Tract", "hhgq", 4, 8).values, VALUES["hhgq"][4:8])
    with pytest.raises(InputError, match="Tract/hhgq"):
        source.read("Tract", "hhgq", 2, 4)


@pytest.mark.parametrize(
    "pieces, word",
    [
        ([piece("total", 0, 3), piece("total", 4, 9)], "units 3 to 4 are missing, or there twice"),
        ([piece("total", 0, 4), piece("total", 3, 9)], "missing, or there twice"),
        (
            [
                piece("total", 0, 4),
                Measurement("Tract", "total", 4, np.zeros((1, 2), dtype=np.int64), np.ones(1)),
            ],
            "different numbers of answers",
        ),
    ],
)
def test_slices_that_make_no_whole_are_refused(pieces: list[Measurement], word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        Measurements.from_measurements(pieces)
    assert "Tract/total" in str(caught.value)


def test_what_is_not_measured_is_told_with_what_is() -> None:
    with pytest.raises(InputError, match=r"(?s)'cenrace' is not measured at level 'Tract'.*total"):
        Measurements.from_measurements([piece("total", 0, 9)]).read("Tract", "cenrace", 0, 1)
    with pytest.raises(InputError, match="is held as that of"):
        Measurements({("Block", "total"): piece("total", 0, 9)})
