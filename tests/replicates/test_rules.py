"""The rules, against rows that the Census Bureau worked out, and against themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.replicates import ReplicateErrors, interval

#: Value, bias, RMSE and the interval (Ashmead et al. 2024, tables 4 and 5).
STATED = (
    (4, -0.68, 3.45, 0, 11),
    (831, 2.96, 6.85, 817, 845),
    (16_895, -1.44, 13.72, 16_867, 16_923),
    (7, -0.32, 2.04, 2, 12),
    (4, -2.88, 3.02, 0, 11),
    (2_923, 4.04, 6.19, 2_906, 2_932),
    (167, 0.0, 0.0, 167, 167),
)
#: Counts of the Bureau's example (2010, production settings): the release, its 25 replicates as
#: differences from it, and the interval; the bias of the ones marked is subtracted.
COUNTED = (
    (1379, "3 -4 3 -6 3 10 -3 1 0 -3 6 -1 1 0 -3 -1 -2 3 7 -5 1 3 1 -2 5", 1371, 1387, False),
    (106, "1 -1 2 -3 2 0 0 -3 -1 -2 4 -3 -2 -1 0 -1 3 5 -1 -3 3 1 2 3 2", 101, 111, False),
    (17, "0 -3 -4 -6 1 -3 -4 -2 1 6 2 -3 -3 -6 -4 0 -2 -1 -9 -4 -9 -7 -8 -2 0", 10, 29, True),
    (383, "2 -1 11 3 10 4 4 -1 3 -8 2 4 5 -2 0 2 4 -5 1 0 0 4 -1 8 -2", 373, 393, False),
    (
        744,
        "51 75 -15 41 45 55 60 31 82 23 50 80 31 33 65 80 43 46 48 63 86 61 15 72 73",
        577,
        807,
        True,
    ),
    (13, "-8 -1 -6 2 0 1 0 3 3 2 -11 -12 -3 -4 -2 -6 13 3 -9 1 3 -7 1 5 0", 1, 25, False),
    (0, "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", 0, 0, False),
    (1220, "5 10 -5 4 1 0 -5 0 0 -3 1 3 -9 -8 -6 -8 -10 3 8 -8 4 -2 4 0 1", 1209, 1231, False),
    (93, "-5 -10 5 -4 -1 0 5 0 0 3 -1 -3 9 8 6 8 10 -3 -8 8 -4 2 -4 0 -1", 82, 104, False),
    (
        3536,
        "22 -16 6 -1 -15 9 2 10 0 -8 -4 20 -2 8 -1 1 -17 4 8 -7 1 15 -24 -7 -4",
        3513,
        3559,
        False,
    ),
    (187, "0 1 4 4 9 -2 13 13 -2 0 2 7 2 7 -7 -3 -2 11 13 -2 -7 -2 -4 1 3", 174, 200, False),
    (8, "-4 2 1 -3 -1 -3 8 -7 -6 0 4 -1 0 2 -3 -3 1 1 0 -1 1 0 -3 1 0", 1, 15, False),
)


@pytest.mark.parametrize(("value", "bias", "rmse", "lower", "upper"), STATED)
def test_the_stated_rows(value: int, bias: float, rmse: float, lower: int, upper: int) -> None:
    spread = ReplicateErrors(25, np.array([25 * bias]), np.array([25 * rmse**2]))
    found = interval(np.array([value]), spread, 0.9)
    assert (found.lower[0], found.upper[0]) == (lower, upper)


@pytest.mark.parametrize(("value", "differences", "lower", "upper", "subtracted"), COUNTED)
def test_the_counted_rows(
    value: int, differences: str, lower: int, upper: int, subtracted: bool
) -> None:
    replicates = value + np.array([[int(d)] for d in differences.split()])
    spread = ReplicateErrors.from_replicates(np.array([value]), replicates)
    found = interval(np.array([value]), spread, 0.9)
    assert spread.replicates == 25
    assert (found.lower[0], found.upper[0], found.subtracted[0]) == (lower, upper, subtracted)


counts = st.lists(st.integers(0, 60), min_size=3, max_size=12)


@given(st.integers(0, 60), counts)
def test_what_is_subtracted_is_half_a_standard_deviation(value: int, drawn: list[int]) -> None:
    """Against floating-point numbers, where these are not at the border."""
    spread = ReplicateErrors.from_replicates(np.array(value), np.array(drawn))
    bias, sd = np.mean(drawn) - value, np.std(drawn, ddof=1)
    assert spread.bias == pytest.approx(bias)
    assert spread.sd == pytest.approx(sd, abs=1e-9)
    assert spread.rmse == pytest.approx(np.sqrt(np.mean((np.array(drawn) - value) ** 2)))
    if abs(abs(bias) - sd / 2) > 1e-9:
        leans = abs(bias) > sd / 2
        assert spread.leans() == leans
        expected = leans and value > 5 and (bias < 0 or value >= 25)
        assert interval(np.array(value), spread, 0.9).subtracted == expected


@given(st.integers(0, 60), counts)
def test_intervals_of_counts_are_counts_and_wider_at_more_coverage(
    value: int, drawn: list[int]
) -> None:
    spread = ReplicateErrors.from_replicates(np.array(value), np.array(drawn))
    narrow, wide = (interval(np.array(value), spread, c) for c in (0.5, 0.95))
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper
    assert wide.lower >= 0
    if len(set(drawn)) == 1 and drawn[0] == value:
        assert narrow.lower == narrow.upper == wide.lower == wide.upper == value


@pytest.mark.parametrize(
    ("differences", "leans"),
    [((4, 2, -1, 0, 0), True), ((4, 2, -1, 1, -1), False), ((3, 2, 0, 0, 0), True)],
)
def test_the_border_belongs_to_it(differences: tuple[int, ...], leans: bool) -> None:
    """Of the first the bias is 1, and the standard deviation 2."""
    for size in (1, 7, 10**6):
        assert (
            ReplicateErrors.from_replicates(np.array(0), size * np.array(differences)).leans()
            == leans
        )


@pytest.mark.parametrize(("raised", "bias"), [(True, 0.011), (False, 0.0)])
def test_an_index_loses_its_bias_and_a_share_does_not(raised: bool, bias: float) -> None:
    value = np.array([0.03])
    spread = ReplicateErrors.from_replicates(
        value, value + 0.011 + 0.001 * np.arange(-3, 4)[:, None]
    )
    found = interval(value, spread, 0.9, raised=raised)
    assert found.subtracted.all() == raised
    assert found.lower[0] == pytest.approx(
        0.03 - bias - 2.015048372669157 * spread.rmse[0], rel=1e-6
    )
    assert found.upper[0] == pytest.approx(
        0.03 - bias + 2.015048372669157 * spread.rmse[0], rel=1e-6
    )


@pytest.mark.parametrize("replicates", [2, 3, 5, 25])
def test_few_replicates_have_wider_intervals_which_hold(replicates: int) -> None:
    """Normal errors: a factor that is too small for few would hold .79 of two."""
    rng = np.random.default_rng(replicates)
    errors = rng.normal(size=(replicates + 1, 20_000))
    found = interval(
        np.zeros(20_000), ReplicateErrors.from_replicates(np.zeros(20_000), errors[1:]), 0.9
    )
    held = (np.abs(errors[0]) <= found.upper).mean()
    assert 0.895 < held < (0.96 if replicates > 5 else 0.94)
    as_five = 2.015 * np.sqrt((errors[1:] ** 2).mean(axis=0))
    assert replicates >= 5 or (np.abs(errors[0]) <= as_five).mean() < 0.89


# --- what is public of a count
# ------------------------------------------------------------------------------

totals = st.integers(0, 80).flatmap(
    lambda t: st.tuples(
        st.just(t), st.integers(0, t), st.lists(st.integers(0, t), min_size=3, max_size=9)
    )
)


@given(totals, st.sampled_from([0.3, 0.9]))
def test_two_counts_of_a_known_sum_have_each_the_mirror_image_of_the_other(
    counts: tuple[int, int, list[int]], coverage: float
) -> None:
    total, value, drawn = counts
    within = np.array(0), np.array(total)
    one, other = (
        interval(
            np.array(v),
            ReplicateErrors.from_replicates(np.array(v), np.array(d)),
            coverage,
            within=within,
        )
        for v, d in ((value, drawn), (total - value, [total - x for x in drawn]))
    )
    assert (one.lower, one.upper) == (total - other.upper, total - other.lower)
    assert 0 <= one.lower <= one.upper <= total
    assert one.subtracted == other.subtracted
    if coverage == 0.9:
        assert one.lower <= value <= one.upper


@given(st.integers(0, 60), counts, st.integers(0, 70))
def test_what_is_certain_is_its_own_interval(value: int, drawn: list[int], known: int) -> None:
    found = interval(
        np.array(value),
        ReplicateErrors.from_replicates(np.array(value), np.array(drawn)),
        0.9,
        within=(np.array(known), np.array(known)),
    )
    assert found.lower == found.upper == known


def test_where_nothing_is_known_from_above_it_is_the_rule_of_the_bureau() -> None:
    value, drawn = (
        np.array([3, 8, 40, 2923]),
        np.array([3, 8, 40, 2923]) + np.array([[4], [-9], [12], [30]]),
    )
    plain = interval(value, ReplicateErrors.from_replicates(value, drawn), 0.9)
    far = interval(
        value,
        ReplicateErrors.from_replicates(value, drawn),
        0.9,
        within=(np.zeros(4, int), np.full(4, 1 << 34)),
    )
    assert plain.lower.tolist() == far.lower.tolist()
    assert plain.upper.tolist() == far.upper.tolist()


def test_what_cannot_be() -> None:
    spread = ReplicateErrors(2, np.zeros(1), np.zeros(1))
    with pytest.raises(InputError, match="coverage"):
        interval(np.zeros(1), spread, 1.0)
    with pytest.raises(InputError, match="replicates"):
        ReplicateErrors(1, np.zeros(1), np.zeros(1))
