"""Pairs of sources, and means over runs."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from das.evaluate.comparison import compared, summary
from das.model.error_rows import ErrorRow, SweepRow


def row(source, mae, bias=0.0, bin_="all", query="total", **more):
    return ErrorRow(
        "County", query, source, bin_, 7, mae, mae * 2, bias, 1.0, 2.0, 3.0, None, **more
    )


def test_noisy_stands_beside_published():
    rows = [
        row("nmf", 4.0, 0.5, expected_mae=3.9),
        row("postprocessed", 1.0, -0.25, bias_low=-1.0, bias_high=0.5),
        row("postprocessed", 2.0, bin_="0"),
        row("estimates", 3.0),
        row("nmf", 0.0, query="sex"),
        row("postprocessed", 0.0, query="sex"),
    ]
    both, alone, exact = compared(rows)
    assert (both.mae_noisy, both.mae_theory, both.mae_published, both.ratio) == (
        4.0,
        3.9,
        1.0,
        0.25,
    )
    assert (both.bias_noisy, both.bias_published, both.bias_low, both.bias_high) == (
        0.5,
        -0.25,
        -1.0,
        0.5,
    )
    assert (alone.bin, alone.mae_noisy, alone.ratio) == ("0", None, None)
    assert (exact.mae_noisy, exact.ratio) == (0.0, None)  # nothing over nothing


def test_means_over_runs_with_their_intervals():
    mae, noisy = [1.0, 1.5, 2.0], [3.0, 4.0, 6.0]
    rows = [
        SweepRow(Fraction(1, 3), "topdown", i, row(s, v, bias=v / 10))
        for i in range(3)
        for s, v in (("nmf", noisy[i]), ("postprocessed", mae[i]))
    ]
    found = {
        r.source: r for r in summary([*rows, SweepRow(Fraction(2), "topdown", 0, row("nmf", 9.0))])
    }
    post = found["postprocessed"]
    assert (post.repeats, post.mae, post.bias) == pytest.approx((3, 1.5, 0.15))
    assert (post.mae_low, post.mae_high) == pytest.approx(
        stats.t.interval(0.95, 2, 1.5, stats.sem(mae))
    )
    assert post.rmse == pytest.approx(np.sqrt(np.mean(np.square(mae)) * 4))
    difference = np.subtract(mae, noisy)
    assert post.difference == pytest.approx(difference.mean())
    assert (post.difference_low, post.difference_high) == pytest.approx(
        stats.t.interval(0.95, 2, difference.mean(), stats.sem(difference))
    )
    once = found["nmf"]  # the last: of one run there is no interval
    assert (once.budget, once.mae, once.mae_low, once.difference) == (2, 9.0, None, None)
