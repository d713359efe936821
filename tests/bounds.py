"""Bounds of some units as a whole level has them."""

from __future__ import annotations

from das.model.constraint import Bounds, LevelBounds, Limits


def level_bounds(b: Bounds) -> LevelBounds:
    limits = Limits.from_bounds(b.lower, b.upper)
    return LevelBounds(b.group, limits, b.total, b.possible, b.reach, b.joint, b.exact)
