r"""Occupied housing units that published persons do not contradict (``constraints.occupied``).

Persons are estimated first. In every lowest unit with :math:`n` persons in households and :math:`u`
housing units, which are published exactly, the occupied units :math:`o` must then be

.. math:: [n > 0] \le o \le \min(n, u).

Occupied and vacant units have a known sum, and a sum of intervals is an interval. So a unit above
the lowest level can share out :math:`o` among its children exactly if the sums of their bounds
contain it. These bounds, added up, are all that other levels need. A function of published
persons and of measurements, this costs no budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from das.errors import InfeasibleError
from das.model.constraint import NO_LIMIT, Limits
from das.model.level_bounds import LevelBounds
from das.model.redistricting import H1
from das.model.release import Release
from das.model.schema import Schema
from das.model.universe import Universe
from das.release.opened import OpenedRelease

_OCCUPIED = H1.attributes[0].levels.index("occupied")


def bounded(
    release: OpenedRelease, universe: Universe, done: Mapping[str, Release]
) -> dict[str, LevelBounds]:
    """The bounds of the measured units of a universe; those of housing units also from the persons
    who are ``done``, where the release keeps them consistent.

    Raises :class:`InfeasibleError` where persons live in households of a unit without housing."""
    bounds = release.bounds(universe)
    persons = release.after.persons
    if release.after.occupied == "measured" or universe.schema != H1:
        return bounds
    tree = release.tree(universe)
    home = np.zeros(len(release.spine.codes[-1]), dtype=np.int64)  # of published units
    home[release.tree(persons).place] = at_home(persons.schema, done[persons.name])
    return consistent_bounds(bounds, tree.spine.levels, tree.spine.parent, home[tree.place])


def at_home(schema: Schema, persons: Release) -> np.ndarray:
    """Persons in households of each lowest unit."""
    assert schema.dwelling is not None
    h = list(persons.histograms.values())[-1]
    home = schema.level_of(schema.dwelling)[h.cell] == 0
    return np.bincount(h.unit[home], weights=h.count[home], minlength=h.units).astype(np.int64)


def consistent_bounds(
    bounds: Mapping[str, LevelBounds],
    levels: tuple[str, ...],
    parent: tuple[np.ndarray, ...],
    home: np.ndarray,
) -> dict[str, LevelBounds]:
    """Bounds of housing units, by level, from the root; their totals are known at the lowest.
    ``home``: persons in households of each lowest unit."""
    total = bounds[levels[-1]].total
    assert total is not None, "housing units of the lowest units are published"
    lower = (home > 0).astype(np.int64)
    upper = np.minimum(home, total)
    if (lower > upper).any():
        raise InfeasibleError(
            f"{int((lower > upper).sum())} units have persons in households and no housing unit",
            where="constraints.occupied",
        )
    out: dict[str, LevelBounds] = {}
    for depth in range(len(levels) - 1, -1, -1):
        here, low = bounds[levels[depth]], np.zeros((len(lower), H1.cells), dtype=np.int64)
        high = np.full_like(low, NO_LIMIT)
        low[:, _OCCUPIED], high[:, _OCCUPIED] = lower, upper
        group = np.arange(H1.cells, dtype=np.intp)
        out[levels[depth]] = replace(here, group=group, limits=Limits.of(low, high), reach=None)
        if depth:
            up, many = parent[depth], len(bounds[levels[depth - 1]])
            lower, upper = (
                np.bincount(up, weights=x, minlength=many).astype(np.int64) for x in (lower, upper)
            )
    return {level: out[level] for level in levels}
