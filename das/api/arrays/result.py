"""What estimation gives back: published counts of every level, records, and unbiased estimates with
their errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.api.arrays.levels import query as spelt
from das.api.frames import tidy
from das.microdata import expand
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.names import BESIDE
from das.model.not_private import CELL, COLUMN, Private
from das.model.schema import Schema
from das.model.solution import Certificates
from das.model.spine import Spine

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class LevelCounts:
    """Published counts of one level: integers, none negative. ``histogram`` holds them, units by
    cells, sparse.
    """

    histogram: Histogram
    level: str
    schema: Schema
    spine: Spine
    private: Private = True

    def __repr__(self) -> str:
        return (
            f"<LevelCounts: {self.level}, {self.histogram.units:,} units x {self.histogram.cells:,}"
            " cells>"
        )

    def answer(self, query: str) -> NDArray[np.int64]:
        """The answers to a query, ``(units, answers)``, units in the order of the spine."""
        return self.histogram.answer(self.schema.query(spelt(query, self.schema, where=self.level)))

    def to_frame(self, query: str | None = None) -> pd.DataFrame:
        """A row for each unit and answer to ``query``: level, geocode, name, query, attributes,
        label, value. Without a query, a row for each cell of the whole histogram that somebody is
        in."""
        if query is not None:
            asked = self.schema.query(spelt(query, self.schema, where=self.level))
            return tidy(
                self.spine,
                self.level,
                self.schema,
                asked,
                {"value": self.histogram.answer(asked)},
                private=self.private,
            )
        h, depth = self.histogram, self.spine.index(self.level)
        places = {"geocode": self.spine.geocodes(self.level), "name": self.spine.names[depth]}
        out: dict[str, Any] = {"level": self.level} | {
            n: texts.astype(object)[h.unit] for n, texts in places.items()
        }
        levels = np.unravel_index(h.cell, self.schema.shape)
        parts = list(zip(self.schema.attributes, levels, strict=True))
        out |= {"query": "detailed"} | {
            a.name: np.array(a.levels, dtype=object)[at] for a, at in parts
        }
        labels = [np.array(a.labels, dtype=object)[at] for a, at in parts]
        out["label"] = [BESIDE.join(words) for words in zip(*labels, strict=True)]
        return pd.DataFrame(out | {"value": h.count} | ({} if self.private else {COLUMN: CELL}))


@dataclass(frozen=True, eq=False, repr=False)
class LevelEstimates:
    """Unbiased estimates of one level, from all measurements of the tree: by query, the values
    and their standard errors, both ``(units, answers)``. They can be negative, and need not add
    up exactly."""

    answers: Mapping[str, tuple[Array, Array]]
    level: str
    schema: Schema
    spine: Spine
    private: Private = True

    def __repr__(self) -> str:
        return f"<LevelEstimates: {self.level}, {', '.join(self.answers)}>"

    def to_frame(self, query: str | None = None) -> pd.DataFrame:
        """A row for each unit and answer, of one query or of all: as :func:`das.read_estimates`."""
        frames = []
        for name in (
            self.answers
            if query is None
            else [spelt(query, self.schema, tuple(self.answers), self.level)]
        ):
            value, error = self.answers[name]
            columns: dict[str, NDArray[Any]] = {"value": value, "standard_error": error}
            frames.append(
                tidy(
                    self.spine,
                    self.level,
                    self.schema,
                    self.schema.query(name),
                    columns,
                    private=self.private,
                )
            )
        return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Counts of every level that agree with each other and with the bounds, and the same counts as
    records.

    ``certificates`` say how well each level was estimated and rounded. With full information,
    ``estimates`` has all levels except the lowest."""

    schema: Schema
    spine: Spine
    histograms: Mapping[str, LevelCounts]
    bounds: Mapping[str, LevelBounds] = field(default_factory=dict)
    certificates: Mapping[str, Certificates] = field(default_factory=dict)
    estimates: Mapping[str, LevelEstimates] = field(default_factory=dict)
    private: Private = True

    def __repr__(self) -> str:
        total = int(self.histograms[self.spine.levels[0]].histogram.count.sum())
        seeded = "" if self.private else ", seeded: NOT PRIVATE"
        return f"<Result: {total:,} records at {len(self.spine)} levels{seeded}>"

    def microdata(self, *, labels: bool = False) -> pd.DataFrame:
        """A row for each record. It has the code of its lowest unit, in a column named after
        that level, and a column for each attribute. The column has the level's code or, with
        ``labels``, its label. ``das.count`` of the codes gives the counts again."""
        lowest = self.spine.levels[-1]
        unit, cell = expand(self.histograms[lowest].histogram)
        out: dict[str, Any] = {lowest: self.spine.geocodes(lowest).astype(object)[unit]}
        for a, at in zip(
            self.schema.attributes, np.unravel_index(cell, self.schema.shape), strict=True
        ):
            out[a.name] = pd.Categorical.from_codes(at, list(a.labels if labels else a.levels))
        return pd.DataFrame(out | ({} if self.private else {COLUMN: CELL}))
