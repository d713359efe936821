"""Small published files that agree, and files that do not: their households are moved to other
blocks of the tract.
"""

from __future__ import annotations

import numpy as np

from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.dhc.model.households import TENVACGQ
from das.tools.link.linking import link_tract
from das.tools.link.people import PUBLISHED, Trust
from das.tools.link.population import LinkedPopulation, joined, tracts
from tests import dhc_small

Counts = dict[str, Histogram]
#: Blocks change places within these groups, whose members share a tract.
MOVES = {0: 1, 1: 2, 2: 0, 4: 4, 5: 6, 6: 7, 7: 5}


def agreeing(persons: int = 40, seed: int = 1) -> Counts:
    return dhc_small.simulated(persons, seed)


def disagreeing(each: int = 40, seed: int = 1) -> Counts:
    """Households of other blocks, and a third of the persons of block 2 in block 1."""
    of = agreeing(each, seed)
    move = np.array([MOVES.get(b, b) for b in range(9)])
    h, u = of["households"], of["units"]
    moved = Histogram.from_triplets(h.units, h.cells, move[h.unit], h.cell, h.count)
    home = u.cell < 4
    units = Histogram.from_triplets(
        u.units, TENVACGQ.cells, np.where(home, move[u.unit], u.unit), u.cell, u.count
    )
    people = of["persons"]
    some = np.where((people.unit == 2) & (np.arange(len(people.unit)) % 3 == 0), 1, people.unit)
    persons = Histogram.from_triplets(people.units, people.cells, some, people.cell, people.count)
    return {"persons": persons, "units": units, "households": moved}


def linked(
    of: Counts, spine: Spine | None = None, number: int = 0, trust: Trust = PUBLISHED
) -> LinkedPopulation:
    spine = spine or dhc_small.tree()
    groups = np.asarray(spine.parent[-1])
    tract = np.asarray(spine.parent[-2])[groups]
    codes = [bytes(c) for c in spine.codes[-3]]
    return joined(
        [link_tract(t) for t in tracts(of, groups, tract, codes, number, trust)], of, groups
    )
