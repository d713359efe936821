"""Small records of a study: households in the blocks of a county, and some tables of them."""

from __future__ import annotations

from functools import cache

import numpy as np

from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import TableSet
from das.tools.protection.truth.method import NO_HOUSEHOLD, StudyRecords

SCHEMA = Schema.from_attributes(
    "small",
    {"sex": ["f", "m"], "age": 100, "race": ["White", "Black", "Asian"], "hispanic": ["no", "yes"]},
    groupings={
        "votingage": ("age", {"minor": range(18), "adult": range(18, 100)}),
        "age10": ("age", {f"{a}": range(a, a + 10) for a in range(0, 100, 10)}),
    },
)

#: Tables of each place: two of them have the same line of the White, and all have totals.
TABLES = (
    Tabulation("T1", "Total", "total", total=False),
    Tabulation("T2", "Race", "race"),
    Tabulation("T3", "Race by origin", "race * hispanic"),
    Tabulation("T4", "Sex by age", "sex * age10"),
    Tabulation("T5", "Race of adults", "race", where={"votingage": ("adult",)}),
)


#: Tables of 3 x 3 counts with all their sums.
GRID = Schema.from_attributes("grid", {"row": 3, "column": 3})
GRID_TABLES = TableSet(
    "grid",
    GRID,
    {
        "Place": tuple(
            table(Tabulation(f"G{i}", "", query, total=False), GRID)
            for i, query in enumerate(("row * column", "row", "column", "total"))
        )
    },
)


def spine(tracts: int = 4, blocks: int = 9) -> Spine:
    """A county with tracts, each of three block groups."""
    names = [
        (f"t{t:02}", f"t{t:02}g{3 * b // blocks}", f"t{t:02}g{3 * b // blocks}b{b:02}")
        for t in range(tracts)
        for b in range(blocks)
    ]
    columns = dict(
        zip(("Tract", "Group", "Block"), map(list, zip(*names, strict=True)), strict=True)
    )
    return Spine.from_frame(columns, ["County", "Tract", "Group", "Block"])


@cache
def records(seed: int = 1, households: int = 600) -> StudyRecords:
    """Households of one to six persons, mostly of one race, and a few persons in none. The first
    block has nobody."""
    rng, tree = np.random.default_rng(seed), spine()
    blocks = tree.units("Block")
    size = rng.integers(1, 7, size=households)
    home = np.repeat(np.arange(households), size)
    place = rng.integers(1, blocks, size=households)[home]
    race = rng.choice(3, size=households, p=[0.85, 0.1, 0.05])[home]
    origin = (rng.random(households) < 0.15).astype(int)[home]
    other = rng.random(len(home)) < 0.05
    race = np.where(other, rng.integers(0, 3, size=len(home)), race)
    alone = 15
    cells = np.ravel_multi_index(
        (
            rng.integers(0, 2, size=len(home) + alone),
            rng.integers(0, 100, size=len(home) + alone),
            np.concatenate([race, np.zeros(alone, dtype=int)]),
            np.concatenate([origin, np.zeros(alone, dtype=int)]),
        ),
        SCHEMA.shape,
    )
    order = rng.permutation(len(cells))
    return StudyRecords(
        SCHEMA,
        tree,
        np.concatenate([place, np.full(alone, blocks - 1)])[order],
        cells[order],
        np.concatenate([home, np.full(alone, NO_HOUSEHOLD)])[order],
        np.stack([np.arange(blocks), np.zeros(blocks)], axis=1).astype(float),
    )


@cache
def tables() -> TableSet:
    """The tables of blocks and of tracts."""
    made = tuple(table(t, SCHEMA) for t in TABLES)
    return TableSet("small", SCHEMA, {"Tract": made, "Block": made})
