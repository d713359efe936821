"""Counts of areas as rows: what a person reads, and what files hold."""

from __future__ import annotations

from dataclasses import dataclass

#: What may be missing, or a fraction.
NUMBERS = ("lower", "upper", "rmse", "bias", "other_side", "estimate", "standard_error")


@dataclass(frozen=True)
class AreaRow:
    """One statistic of one area, or of all together, whose ``area`` is empty. ``blocks`` are its
    lowest units; ``value`` is published.

    From replicates of the release, where it has any: ``lower`` to ``upper`` the interval of the
    published value, ``rmse`` and ``bias`` its error; of a share, ``other_side`` how often a rerun
    would find it on the other side of one half.

    From all measurements, of a count: ``estimate`` without bias, its ``standard_error``, and
    ``estimate_low`` to ``estimate_high`` the interval about it, not cut off at zero; missing where
    nothing measured at the lowest level tells the count."""

    area: str
    name: str
    blocks: int
    universe: str
    field: str
    label: str
    value: float
    lower: float | None = None
    upper: float | None = None
    rmse: float | None = None
    bias: float | None = None
    other_side: float | None = None
    estimate: float | None = None
    standard_error: float | None = None
    estimate_low: int | None = None
    estimate_high: int | None = None
