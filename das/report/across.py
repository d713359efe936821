"""Errors of areas off the spine, such as places: of the sums of their blocks' published counts.
Confidential.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.report.answers import AnswerKey, Shown


@dataclass(frozen=True)
class Across:
    """Errors of the total over all areas of a kind, and the area where it is largest."""

    kind: str
    records: str
    n: int
    mae: float
    p50: int
    p95: int
    max: int
    bias: float
    worst: str


def errors(shown: Shown, true: Mapping[AnswerKey, NDArray[np.int64]]) -> list[Across]:
    """A row for each kind of areas and universe."""
    out = []
    for areas in shown.areas:
        for universe in shown.universes:
            a = shown.total(universe, areas.kind)
            error = (a.published - true[a.key])[:, 0]
            size = np.abs(error)
            half, most = (int(np.quantile(size, q, method="inverted_cdf")) for q in (0.5, 0.95))
            largest = int(size.argmax())
            out.append(
                Across(
                    areas.kind,
                    a.records,
                    len(error),
                    float(size.mean()),
                    half,
                    most,
                    int(size[largest]),
                    float(error.mean()),
                    areas.title(largest),
                )
            )
    return out
