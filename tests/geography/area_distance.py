r"""How far areas are off a spine: the least number of units whose sum or difference is an area.

Going up, a unit has two costs: ``in``, for the blocks in it that are in the area, and ``out``, for
those that are not. A block's are 1 and 0, or 0 and 1. With x the sum of ``in`` over the children of
a unit, and y that of ``out``,

.. math:: \mathrm{in} = \min(x, y + 1), \qquad \mathrm{out} = \min(y, x + 1):

either the parts of the area are added up, or the rest is subtracted from the whole unit. The
distance is ``in`` at the root: 1 for an area that is a unit, 0 for an empty one. The spine of 2020
was designed by this measure (Abowd and others, *Geographic spines in the 2020 Census disclosure
avoidance system*, algorithm 1). It counts a block like a tract, whose noise differs;
:mod:`das.estimate.areas` gives the error of an area."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.model.areas import Areas
from das.model.spine import Spine


def distance(spine: Spine, areas: Areas) -> NDArray[np.int64]:
    """Of each area, ``(areas,)``, whose units are lowest units of the spine. Only units with part
    of an area are walked.
    """
    area, unit = areas.area, areas.unit
    inside, outside = np.ones(len(unit), dtype=np.int64), np.zeros(len(unit), dtype=np.int64)
    for depth in range(len(spine) - 1, 0, -1):
        children = np.diff(spine.children(spine.levels[depth]))
        pairs, at, touched = np.unique(
            area * len(children) + spine.parent[depth][unit],
            return_inverse=True,
            return_counts=True,
        )
        area, unit = pairs // len(children), pairs % len(children)
        x, y = (
            np.zeros(len(pairs), dtype=np.int64),
            children[unit] - touched,
        )  # one of each child outside of the area
        np.add.at(x, at, inside)
        np.add.at(y, at, outside)
        inside, outside = np.minimum(x, y + 1), np.minimum(y, x + 1)
    out = np.zeros(len(areas), dtype=np.int64)
    np.add.at(out, area, inside)
    return out
