"""How the estimates of race and ethnic groups are cut: by run, by iterations, by state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.detailed.forest import Above, Bundle, Forest
from das.detailed.wholes import Wholes

#: Iterations that are done together.
TOGETHER = 256


@dataclass(frozen=True)
class RunKinds:
    """Types of regions of a run: those that states and what is below them add up to, from the top;
    and those that make no such sums.
    """

    nation: str | None
    state: str
    below: tuple[str, ...]
    beside: tuple[str, ...]


KINDS: Mapping[str, RunKinds] = {
    "us": RunKinds("USA", "STATE", ("COUNTY", "TRACT"), ("PLACE", "AIANNH")),
    "pr": RunKinds(None, "PR-STATE", ("PR-COUNTY", "PR-TRACT"), ("PR-PLACE",)),
}


@dataclass(frozen=True, eq=False)
class Chunk:
    """Iterations that are done together: their numbers; sums and bundles by their places among
    these.
    """

    columns: NDArray[np.int32]
    sums: tuple[tuple[int, tuple[int, ...]], ...]
    bundles: tuple[Bundle, ...]


def of_state(forest: Forest, row: int, whole: Wholes | None) -> tuple[Above, Wholes | None]:
    """What one state is given."""
    states = {(0, b): s for (r, b), s in forest.fallen(1) if r == row}
    above = Above(forest.final[1].rows(np.array([row])), states)
    if whole is None:
        return above, None
    tables = {(0, 0, c): x for (at, r, c), x in whole.tables.items() if at == 1 and r == row}
    return above, Wholes([whole.totals[1][[row]]], tables)
