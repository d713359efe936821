"""Rows of a comparison of published counts with what measurements say about the same places."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedCountRow:
    """One count of one place: as ``published``, and the unbiased ``estimate`` from all
    measurements, its ``standard_error``, and the interval ``low`` to ``high``. ``outside`` is 1
    where the published count is not in it. A place that nothing tells has no row."""

    level: str
    code: str
    geoid: str
    name: str
    field: str
    label: str
    published: int
    estimate: float
    standard_error: float
    low: int
    high: int
    outside: int


@dataclass(frozen=True)
class PublishedShareRow:
    """One count over all places of a level, or of a kind of area.

    ``share_outside``: how many of the ``places``, in percent, have a published count that is not in
    their interval. ``exact`` of them are known exactly, and left out of what follows.
    ``difference`` is the mean absolute difference of published count and estimate. ``error`` is the
    mean standard error. ``z_square`` is the mean of squared differences in standard errors; for the
    truth itself it is 1 on average."""

    level: str
    field: str
    label: str
    places: int
    exact: int
    share_outside: float
    difference: float | None
    error: float | None
    z_square: float | None
