"""What is published worse than it was measured, seen from the release alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ncx2

from das.model.histogram import Histogram
from das.model.measurement import Measurement, Measurements
from das.model.schema import Attribute, Schema
from das.model.universe import HOUSING, PERSONS, Universe
from das.release.precision import ResidualSums, log_tail, merged, misfits, residual_sums

SCHEMA = Schema(
    "mine", (Attribute("a", tuple("abcde")), Attribute("b", tuple("uvwxyz"))), (), (), None
)
UNIVERSE = Universe(PERSONS, SCHEMA)


def listed(
    units: int, shift: float, seed: int, spread: float = 0.0, unmeasured: int = 0
) -> Mapping[str, float]:
    """With noise of variance 25; the published answers are off by ``shift``, and by normal errors
    of ``spread``.
    """
    random = np.random.default_rng(seed)
    counts = random.integers(200, 300, (units, SCHEMA.cells))
    unit, cell = np.nonzero(np.ones_like(counts))
    published = Histogram.from_triplets(units, SCHEMA.cells, unit, cell, counts.ravel())
    answers = published.answer(SCHEMA.query("a"))
    true = answers - shift - random.normal(0, spread, answers.shape) if spread else answers - shift
    noisy = np.rint(true + random.normal(0, 5, answers.shape)).astype(np.int64)
    variance = np.full(units, 25.0)
    variance[:unmeasured] = np.inf
    noisy[:unmeasured] = 10**6
    source = Measurements.from_measurements([Measurement("L", "a", 0, noisy, variance)])
    return {
        m.query: m.error_at_least
        for m in misfits(residual_sums(UNIVERSE, source, {"L": published}), 40)
    }


def test_errors_beyond_the_noise_are_listed_and_sized() -> None:
    assert listed(1, 220.0, 1)["a"] == pytest.approx(
        220, rel=0.1
    )  # one national query, as reported
    assert listed(400, 10.0, 2)["a"] == pytest.approx(10, rel=0.05)
    assert listed(400, 0.0, 3, spread=10.0)["a"] == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("units", [1, 3, 60])
def test_errors_as_large_as_the_noise_raise_no_alarm(units: int) -> None:
    """At the limit, independent errors of exactly the noise's size, 300 releases: a thousandth may
    be listed.
    """
    assert sum(bool(listed(units, 5.0, seed)) for seed in range(300)) <= 2
    assert sum(bool(listed(units, 0.0, seed)) for seed in range(300)) == 0


@given(st.integers(1, 10**7), st.floats(1e-12, 0.4))
def test_the_bound_of_the_tail_is_one_and_no_wider_than_it_must_be(n: int, p: float) -> None:
    """Against the quantile: never below, and too large by at most about the deviation itself.
    Chernoff's inequality gives that away: a factor sqrt(2 pi) z for a Gaussian, thrice that for few
    answers."""
    bound = log_tail(float(ncx2.isf(p, n, n)), n)
    assert log(p) - 1e-6 <= bound <= log(p) + log(8 * np.sqrt(-2 * log(p)) + 3)
    assert log_tail(2.0 * n, n) == log_tail(0.0, n) == 0


def test_units_that_were_not_measured_do_not_count() -> None:
    assert not listed(50, 0.0, 4, unmeasured=20)
    assert not listed(5, 0.0, 5, unmeasured=5)


def test_sums_of_parts_are_those_of_the_whole() -> None:
    """With variances of powers of 2 all sums are exact; those of a universe follow each other."""
    random = np.random.default_rng(6)
    counts = random.integers(0, 4, (30, SCHEMA.cells))
    unit, cell = np.nonzero(counts)
    published = Histogram.from_triplets(30, SCHEMA.cells, unit, cell, counts[unit, cell])
    noisy = {
        q: published.answer(SCHEMA.query(q)) + random.integers(-9, 10) for q in ("a", "detailed")
    }
    variance = random.choice([4.0, 16.0, np.inf], 30)
    other = Universe(HOUSING, SCHEMA)

    def sums(universe: Universe, start: int, stop: int) -> list[ResidualSums]:
        here = [
            Measurement("L", q, 0, values[start:stop], variance[start:stop])
            for q, values in noisy.items()
        ]
        return residual_sums(
            universe, Measurements.from_measurements(here), {"L": published.rows(start, stop)}
        )

    whole = sums(UNIVERSE, 0, 30) + sums(other, 0, 30)
    parts = [
        s for a, b in ((0, 7), (7, 8), (8, 30)) for u in (UNIVERSE, other) for s in sums(u, a, b)
    ]
    assert merged(parts) == whole
    off = (noisy["a"] - published.answer(SCHEMA.query("a")))[np.isfinite(variance)]
    assert (whole[0].answers, whole[0].squares) == (off.size, int((off**2).sum()))
