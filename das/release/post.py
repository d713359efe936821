"""After measurement: from the files of a release alone to microdata and tables.

Nothing here can see the truth: the only inputs are the folder of a release and where to write.
``das run`` and ``das estimate --from`` are the same code from here on."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.engine import Progress
from das.errors import PrivacyError
from das.estimate.descent import full_information, topdown
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.estimate.summed import Unbiased
from das.files.microdata import reading as microdata_reading
from das.files.microdata import writing as microdata
from das.files.release import estimates
from das.files.release import tables as published_tables
from das.files.release.estimates import folder_of
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.not_private import Private
from das.model.release import Release
from das.model.universe import Universe
from das.release.occupied import bounded
from das.release.opened import OpenedRelease

if TYPE_CHECKING:
    from das.estimate.upward_pass import SubtreeEstimates


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
    the universes before this one, which can bound it (:mod:`das.release.occupied`).

    Full-information estimation also writes its unbiased estimates, under ``out`` where that is
    given."""
    after, method = release.after, Passes(universe.passes, release.after.tolerance)
    housing = after.prior != "none" and universe == after.persons
    tree, bounds = release.tree(universe), bounded(release, universe, done or {})
    source = source or release.source(universe)
    if after.method != "full-information" or len(tree.spine) == 1:
        pooled = PooledSource.of(source, tree.spine, bounds, universe.schema, tree.measured)
        return topdown(
            pooled, tree.spine, bounds, universe, method, pool, progress, housing_prior=housing
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
        housing_prior=housing,
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
    published = tables.of(universe, release.assigned(universe.name))
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
    the same blocks, are added up along it.
    """
    tree, spine = release.tree(universe), release.spine
    if tree.alike:
        return result.histograms
    return tree.published(result.histograms[spine.levels[-1]], len(spine.codes[-1])).upward(spine)


def structures(release: OpenedRelease) -> NDArray[np.int64] | None:
    """Facilities of each block, from the bounds on persons; housing units are in the units' own
    totals.
    """
    persons = release.after.persons
    found = release.source(persons).constraints(release.spine.levels[-1])
    lower = found.get(f"{persons.schema.dwelling}_total_lb")
    if lower is None:
        return None
    out = np.zeros((len(release.spine.codes[-1]), lower[1].shape[1]), dtype=np.int64)
    out[release.tree(persons).place] = lower[1]
    return out
