"""After measurement: from the files of a release alone to microdata and tables.

Nothing here can see the truth: the only inputs are the folder of a release and where to write.
``das run`` and ``das estimate --from`` are the same code from here on."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.engine import Progress
from das.errors import InfeasibleError, PrivacyError
from das.estimate.descent import full_information, topdown
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.estimate.summed import Unbiased
from das.files.microdata import reading as microdata_reading
from das.files.microdata import writing as microdata
from das.files.release import estimates
from das.files.release import tables as published_tables
from das.files.release.estimates import folder_of
from das.model.constraint import NO_LIMIT, LevelBounds, Limits
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.not_private import Private
from das.model.redistricting import H1
from das.model.release import Release
from das.model.schema import Schema
from das.model.universe import Universe
from das.release.opened import OpenedRelease

if TYPE_CHECKING:
    from das.estimate.upward_pass import SubtreeEstimates


# Occupied housing units that published persons do not contradict (``constraints.occupied``).
#
# Persons are estimated first. In every lowest unit with :math:`n` persons in households and :math:`u`
# housing units, which are published exactly, the occupied units :math:`o` must then be
#
# .. math:: [n > 0] \le o \le \min(n, u).
#
# Occupied and vacant units have a known sum, and a sum of intervals is an interval. So a unit above
# the lowest level can share out :math:`o` among its children exactly if the sums of their bounds
# contain it. These bounds, added up, are all that other levels need. A function of published
# persons and of measurements, this costs no budget.

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
        out[levels[depth]] = replace(
            here, group=group, limits=Limits.from_bounds(low, high), reach=None
        )
        if depth:
            up, many = parent[depth], len(bounds[levels[depth - 1]])
            lower, upper = (
                np.bincount(up, weights=x, minlength=many).astype(np.int64) for x in (lower, upper)
            )
    return {level: out[level] for level in levels}


def estimate(
    release: OpenedRelease,
    universe: Universe,
    pool: Executor,
    progress: Progress,
    out: Path | None = None,
    *,
    source: MeasurementSource | None = None,
    done: Mapping[str, Release] | None = None,
) -> Release:
    """Integer histograms of every level of the tree that was measured, with their certificates.
    ``source`` takes the place of the release's own measurements. ``done``:
    the universes before this one, which can bound it (:mod:`das.release.post_processing`).

    Full-information estimation also writes its unbiased estimates, under ``out`` where that is
    given."""
    after, method = release.after, Passes(universe.passes, release.after.tolerance)
    correct = after.bias != "none" and universe == after.persons
    tree, bounds = release.tree(universe), bounded(release, universe, done or {})
    source = source or release.source(universe)
    if after.method != "full-information" or len(tree.spine) == 1:
        pooled = PooledSource.over_chains(
            source, tree.spine, bounds, universe.schema, tree.measured
        )
        return topdown(
            pooled, tree.spine, bounds, universe, method, pool, progress, correct=correct
        )

    def keep(known: SubtreeEstimates) -> None:
        if out is not None:
            progress.stage(f"unbiased estimates: {universe.name}", None)
            write_estimates(known, universe, out, private=after.private)

    return full_information(
        source,
        tree.spine,
        bounds,
        universe,
        method,
        pool,
        progress,
        tolerance=after.tolerance,
        correct=correct,
        keep=keep,
    )


def write_estimates(
    known: SubtreeEstimates,
    universe: Universe,
    release: Path,
    above: Unbiased | None = None,
    *,
    subtree: int = 0,
    private: Private,
) -> None:
    """Unbiased estimates of every level of a part above the lowest, with their standard errors.
    ``above``: of a subtree what they are of its units of the upper tree."""
    folder = folder_of(release, universe.name)
    for level, rows in groupby(known.unbiased(above), key=itemgetter(0)):
        estimates.write(
            folder,
            level,
            universe.schema,
            known.spine,
            (row[1:] for row in rows),
            subtree=subtree,
            private=private,
        )


def publish(
    release: OpenedRelease, universe: Universe, result: Release, out: Path, progress: Progress
) -> Mapping[str, Histogram]:
    """Write microdata and tables under ``out``, and read the microdata back: it must give the
    histogram again. Returns what was published, level by level of the published spine."""
    spine = release.spine
    codes = spine.codes[-1]
    histograms = on_published(release, universe, result)
    progress.stage(f"microdata: {universe.name}", None)
    folder = out / "microdata" / universe.kind.folder
    h = histograms[spine.levels[-1]]
    facilities = structures(release) if universe.microdata.facilities else None
    microdata.write(
        folder,
        h,
        codes,
        universe,
        structures=facilities,
        build=release.after.name,
        csv=release.after.csv,
        private=release.after.private,
    )
    if not microdata_reading.read(folder, universe, codes).same_as(h):
        raise PrivacyError(
            "the microdata do not tabulate to the histogram that they were made from", where=folder
        )
    if not release.after.tables:
        return histograms
    progress.stage(f"tables: {universe.name}", len(spine))
    published = tables.universe_tables(universe, release.assigned(universe.name))
    for level, level_codes in zip(spine.levels, spine.codes, strict=True):
        published_tables.write(
            out / "tables",
            level,
            level_codes,
            published,
            histograms[level],
            beside=published_tables.identifiers(spine, level),
            private=release.after.private,
        )
        progress.advance()
    return histograms


def on_published(
    release: OpenedRelease, universe: Universe, result: Release
) -> Mapping[str, Histogram]:
    """The histograms of the published spine: counts of the measured tree's lowest units, which are
    the same blocks, are added up along it."""
    tree, spine = release.tree(universe), release.spine
    if tree.alike:
        return result.histograms
    return tree.published(result.histograms[spine.levels[-1]], len(spine.codes[-1])).upward(spine)


def structures(release: OpenedRelease) -> NDArray[np.int64] | None:
    """Facilities of each block, from the bounds on persons; housing units are in the units' own
    totals."""
    persons = release.after.persons
    found = release.source(persons).constraints(release.spine.levels[-1])
    lower = found.get(f"{persons.schema.dwelling}_total_lb")
    if lower is None:
        return None
    out = np.zeros((len(release.spine.codes[-1]), lower[1].shape[1]), dtype=np.int64)
    out[release.tree(persons).place] = lower[1]
    return out
