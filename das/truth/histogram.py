"""Records to histograms, level by level, inside the confidential boundary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.records import Records
from das.model.spine import Spine


def lowest_histogram(
    records: Confidential[Records], unit_of_block: NDArray[np.int64], spine: Spine
) -> Confidential[Histogram]:
    """Counts at the lowest level; ``unit_of_block`` gives each block's unit there. It sorts the
    records once. The result is sparse: memory grows with the number of positive cells."""
    r = records.open("to count records by unit and cell")
    units = spine.units(spine.levels[-1])
    return Confidential(
        Histogram.of(units, r.schema.cells, unit_of_block[r.block], r.cell, r.count)
    )


def histograms(
    records: Confidential[Records], unit_of_block: NDArray[np.int64], spine: Spine
) -> dict[str, Confidential[Histogram]]:
    """Counts at every level, root first: each level adds up the one below it."""
    return upward(lowest_histogram(records, unit_of_block, spine), spine)


def upward(lowest: Confidential[Histogram], spine: Spine) -> dict[str, Confidential[Histogram]]:
    """The histograms of all levels, root first, from the histogram of the lowest level."""
    levels = lowest.open("to add it up the spine").upward(spine)
    return {level: Confidential(h) for level, h in levels.items()} | {spine.levels[-1]: lowest}


def over(
    tree: MeasuredSpine, lowest: Confidential[Histogram]
) -> dict[str, Confidential[Histogram]]:
    """The histograms of all levels of a measured spine, root first, from the histogram of the
    lowest published level. Raises :class:`InputError` if somebody is outside the tree."""
    return upward(
        Confidential(tree.of_published(lowest.open("to count it over the measured spine"))),
        tree.spine,
    )
