"""Where estimates for race and ethnic groups are written: a file for each state and type of region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.detailed.forest import Forest
from das.detailed.layers import Layer
from das.detailed.published import Estimates, estimates
from das.detailed.wholes import Wholes
from das.files.detailed.estimates import EstimateFile, EstimateRows
from das.model.adaptive import AdaptiveTable
from das.model.codes import encoded
from das.model.not_private import Private

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EstimateOutput:
    """The ``folder`` of a run's estimates, the ``layout`` of its ``table`` by size, and the
    ``codes`` of the iterations. ``rows`` counts what was written, by type of region."""

    folder: Path
    private: Private
    csv: bool
    table: AdaptiveTable
    layout: Sequence[tuple[tuple[tuple[str, ...], ...], Ints]]
    codes: NDArray[np.str_]
    rows: dict[str, int] = field(default_factory=dict)

    def of(self, subtree: int) -> StateFiles:
        """The files of one state; those of the nation have the number 0."""
        return StateFiles(self, subtree)


class StateFiles:
    """The files that one state writes, one for each type of region."""

    def __init__(self, output: EstimateOutput, subtree: int) -> None:
        self.output, self.subtree, self.files = output, subtree, dict[str, EstimateFile]()

    def __enter__(self) -> StateFiles:
        return self

    def __exit__(self, *_: object) -> None:
        rows = self.output.rows
        for kind, file in self.files.items():
            file.__exit__()
            rows[kind] = rows.get(kind, 0) + file.rows

    def write(
        self,
        forest: Forest,
        at: int,
        layer: Layer,
        columns: NDArray[np.int32],
        whole: Wholes | None,
        host: Ints | None = None,
        own: Ints | None = None,
    ) -> None:
        """The estimates of a layer, for the iterations ``columns``."""
        out = self.output
        if layer.kind not in self.files:
            self.files[layer.kind] = EstimateFile(
                out.folder, layer.kind, self.subtree, private=out.private, csv=out.csv
            )
        codes = encoded(out.codes[columns])
        for found in estimates(forest, at, layer, out.layout, whole, host, own):
            self.files[layer.kind].write(_rows(found, layer, codes, out.table))


def _rows(
    found: Estimates, layer: Layer, codes: NDArray[np.bytes_], table: AdaptiveTable
) -> EstimateRows:
    groups, times = found.value.shape
    labels = np.array(found.labels, dtype="S")
    return EstimateRows(
        layer.kind,
        np.repeat(layer.regions[found.row], times),
        np.repeat(codes[found.column], times),
        {c: np.tile(labels[:, i], groups) for i, c in enumerate(table.columns)},
        found.value.ravel(),
        found.error.ravel(),
        found.lower.ravel(),
        found.upper.ravel(),
        np.repeat(found.matters, times),
        None if found.count is None else found.count.ravel(),
    )
