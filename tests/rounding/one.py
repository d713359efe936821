"""The rounding of one family by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from das.model.constraint import Bounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate
from das.model.query import Query
from das.model.solution import Certificate
from das.rounding import Unrounded, round_estimates


def round_estimate(
    estimate: Estimate, bounds: Bounds, chain: Sequence[Query], below: Any = None, **rest: Any
) -> tuple[Histogram, Certificate]:
    return round_estimates([Unrounded(estimate, bounds, chain, below, **rest)])[0]
