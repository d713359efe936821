"""Rows of ``errors.csv`` and of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class ErrorRow:
    """Errors of one query at one level over one class of true counts.

    ``source`` is ``nmf`` or ``postprocessed``; ``bin`` is ``all`` or a class of the true count; ``n`` the
    number of (unit, answer) pairs; ``bias`` the mean of published minus true; ``p50``, ``p95``, ``max``
    are of the absolute error; ``tvd`` is 1 - L1/(2N) for ``bin = all`` (JASON JSR-19-2F, section 6.1).
    """

    level: str
    query: str
    source: str
    bin: str
    n: int
    mae: float
    rmse: float
    bias: float
    p50: float
    p95: float
    max: float
    tvd: float | None


@dataclass(frozen=True)
class SweepRow:
    """One line of a sweep: the budget (rho or epsilon) and number of the run, and a row of its errors."""

    budget: Fraction
    repeat: int
    error: ErrorRow
