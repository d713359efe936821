"""The peak search against a look at every node, and angles against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.accounting import peaks
from das.accounting.peaks import Band, nodes, turns

rates = st.fractions(Fraction(1, 10**6), Fraction(1, 3), max_denominator=10**9)


@settings(deadline=None)
@given(st.integers(0, 2**52), st.fractions(max_denominator=10**40))
def test_turns(j: int, rate: Fraction) -> None:
    found = Fraction(float(turns(np.array([j]), rate)[0]))
    error = abs((found - j * rate + Fraction(1, 2)) % 1 - Fraction(1, 2))
    assert error <= Fraction(1, 2**62) + abs(found) / 2**53
    assert -Fraction(1, 2) <= found <= Fraction(1, 2)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(rates, st.floats(0.001, 0.5)), max_size=4),
    st.integers(0, 5_000),
    st.sampled_from([9, 500, 1 << 14]),
)
def test_nodes_are_those_inside_every_band(
    raw: list[tuple[Fraction, float]], last: int, size: int
) -> None:
    """Whether they are few and looked at one by one, or many, and their intervals met with those of
    the bands.
    """
    raw = sorted(raw)
    bands = [Band(float(r), w) for r, w in raw]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peaks, "SIZE", size)
        pieces = list(nodes(bands, last))
    found = np.concatenate([j for j, _ in pieces])
    assert pieces[-1][1] == last
    assert all(j.max(initial=0) <= end for j, end in pieces)
    assert np.all(np.diff(found) > 0)
    j = np.arange(last + 1)
    inside = np.ones(last + 1, dtype=bool)
    almost = inside.copy()
    for r, w in raw:
        distance = np.abs(turns(j, r))
        inside &= distance <= w
        almost &= (distance <= w + 1e-9) | (w > 0.48)  # hardly a filter: left out
    assert set(j[inside]) <= set(found.tolist()) <= set(j[almost])


def test_nodes_at_the_very_edge_of_a_band() -> None:
    """Angles that are exactly as far as the width, where floats fall on either side, are kept."""
    for rate in (Fraction(1, 10), Fraction(3, 10), Fraction(7, 100), Fraction(11, 70)):
        for steps in (1, 2, 3):
            width = rate * steps if rate * steps < Fraction(2, 5) else rate
            j = np.arange(3_000)
            inside = [
                abs((i * rate + Fraction(1, 2)) % 1 - Fraction(1, 2)) <= width
                for i in range(len(j))
            ]
            bands = [Band(float(rate), float(width))]
            found = np.concatenate([k for k, _ in nodes(bands * 2, 2_999)])
            assert set(j[inside]) <= set(found.tolist())


def test_pieces_say_how_far_they_are_complete() -> None:
    bands = [Band(0.01, 0.2), Band(0.37, 0.1)]
    whole = np.concatenate([j for j, _ in nodes(bands, 500_000)])
    reached, seen = 0, []
    for j, end in nodes(bands, 500_000):
        seen.append(j)
        reached = end
        if end >= 200_000:
            break
    assert np.array_equal(np.concatenate(seen), whole[whole <= reached])
    assert reached < 500_000
