"""Counts of areas as rows: what a person reads, and what files hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AreaRow:
    """One statistic of one area. ``blocks`` are its lowest units; ``value`` the published count; ``estimate`` the unbiased
    estimate from all measurements, with its ``standard_error``; ``low`` to ``high`` the interval about it, not cut off at zero.
    They are missing where nothing measured at the lowest level tells the statistic."""

    area: str
    name: str
    blocks: int
    universe: str
    field: str
    label: str
    value: int
    estimate: float | None
    standard_error: float | None
    low: int | None
    high: int | None
