"""One small world in which much meets that small worlds keep apart: two states of four branches, a
block group with facilities alone, areas that cut it, names that repeat, empty
blocks, a county of one tract, codes with leading zeros; and levels of several batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das.files.simulators import census_2010
from das.model.spine import Spine
from tests.worlds import Worlds

#: The most values of a batch here: 32 units of the full histogram.
BATCH = 1 << 16
#: Where a row of a block has its housing units, occupied and vacant.
_UNITS, _OCCUPIED, _VACANT = 288, 289, 290


def extract(worlds: Worlds) -> Path:
    """Redistricting files of Arkansas (05) and Minnesota, with 6,000 persons in 310 blocks."""
    return worlds.made("the awkward extract", _write)


def _write(folder: Path) -> None:
    real = census_2010._simulate

    def simulated(*given: Any) -> tuple[Any, Any]:
        """Nobody occupies a unit of the block group with the fewest persons."""
        at, values = real(*given)
        persons = np.bincount(at.group, values[:, 0])
        alone = at.group == np.argmin(np.where(persons > 0, persons, np.inf))
        values[alone, _VACANT] += values[alone, _OCCUPIED]
        values[alone, _OCCUPIED] = 0
        return at, values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census_2010, "_simulate", simulated)
        census_2010.write(folder, seed=4, states=2, persons=6000, per_block=20)


@contextmanager
def small_batches() -> Iterator[None]:
    """Levels of this world are read, estimated and written in several batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spine.batches, "__defaults__", (BATCH,))
        yield
