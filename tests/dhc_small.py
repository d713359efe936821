"""A small simulated world of the DHC: two counties of nine blocks, one of them empty and one a
prison, over a tree of five levels.
"""

from __future__ import annotations

import numpy as np

from das.files.simulators.people import generator
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.publications.dhc.simulation import records

LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
PLACES = [("001", "030100", "1", b) for b in ("1000", "1001", "1002")] + [
    ("001", "030200", "1", "1000"),
    ("001", "030200", "2", "2000"),
]
PLACES += [("003", "000100", "1", b) for b in ("1000", "1001", "1002", "1003")]
EMPTY, PRISON = 3, 8


def tree() -> Spine:
    """State 44, whose counties have names."""
    # type: dict[str, list[str]]
    codes = {"County": [], "Tract": [], "Block_Group": [], "Block": []}
    for county, tract, group, block in PLACES:
        above = f"44{county}"
        codes["County"].append(above)
        codes["Tract"].append(f"{above}{tract}")
        codes["Block_Group"].append(f"{above}{tract}{group}")
        codes["Block"].append(f"{above}{tract}{group}{block}")
    names = {"County": "called"}
    return Spine.from_frame(
        {"State": ["44"] * 9, **codes, "called": [f"County {c}" for c, *_ in PLACES]}, LEVELS, names
    )


def simulated(persons: int = 60, seed: int = 1) -> dict[str, Histogram]:
    """Persons, units and households by block; ``persons`` people in each block that somebody lives
    in.
    """
    rng = np.random.default_rng(seed)
    possible = np.flatnonzero(PL94.possible[: PL94.cells // 8])  # in households
    blocks = [b for b in range(9) if b not in (EMPTY, PRISON)]
    block = np.repeat(blocks, persons)
    cell = np.concatenate(
        [rng.choice(possible, len(block) // 2), np.full(len(block) - len(block) // 2, 126)]
    )  # many of one kind
    prisoners = np.full(20, np.ravel_multi_index((1, 1, 0, 1), PL94.shape))
    everybody = np.concatenate([cell, prisoners])
    where = np.concatenate([rng.permutation(block), np.full(20, PRISON)])
    given = Histogram.from_triplets(
        9, PL94.cells, where, everybody, np.ones(len(where), dtype=np.int64)
    )
    occupied = np.zeros(9, dtype=np.int64)
    occupied[blocks] = persons // 3
    world = records.simulate(generator(seed), given, occupied + 4, occupied)
    return {"persons": world.persons(), "units": world.units(), "households": world.households()}


def counted(spine: Spine, lowest: dict[str, Histogram]) -> dict[str, dict[str, Histogram]]:
    """Of all levels."""
    return {universe: h.upward(spine) for universe, h in lowest.items()}
