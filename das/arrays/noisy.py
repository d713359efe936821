"""What measuring leaves: noisy answers and exact counts, of which every estimate is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das.frames import tidy
from das.model.budget import Plan
from das.model.ledger import Event
from das.model.measurement import Measurement, MeasurementSource
from das.model.schema import Schema
from das.model.spine import Spine

if TYPE_CHECKING:
    import pandas as pd

#: Level and query of counts that are known exactly, ``(units, answers)``.
Known = Mapping[tuple[str, str], NDArray[np.int64]]


@dataclass(frozen=True, eq=False, repr=False)
class Noisy:
    """Noisy measurements of a tree, safe to publish under the plan's guarantee if ``private``.

    ``source`` answers for slices of a level (:class:`das.model.measurement.MeasurementSource`): arrays in memory, or
    files. ``exact`` are counts without noise, by level and query: outside the guarantee. ``events`` are the lines of the
    ledger, one for each query at each level.
    """

    schema: Schema
    plan: Plan
    source: MeasurementSource
    exact: Known = field(default_factory=dict)
    private: bool = True
    events: tuple[Event, ...] = ()

    def __repr__(self) -> str:
        exact = f", {len(self.exact)} counted exactly" if self.exact else ""
        seeded = "" if self.private else ", seeded: NOT PRIVATE"
        cost = f"{self.plan.mechanism.currency} = {self.plan.cost}"
        return f"<Noisy: {len(self.plan.draws)} queries, {cost}{exact}{seeded}>"

    def read(self, level: str, query: str, spine: Spine) -> Measurement:
        """Values ``(units, answers)`` and variances ``(units,)`` of one query for all units of a level."""
        return self.source.read(level, query, 0, spine.units(level))

    def to_frame(self, level: str, query: str, spine: Spine) -> pd.DataFrame:
        """A row for each answer: level, geocode, name, query, attributes, label, value, variance."""
        m, asked = self.read(level, query, spine), self.schema.query(query)
        variance = np.repeat(m.variance[:, None], asked.answers, axis=1)
        return tidy(spine, level, self.schema, asked, {"value": m.values, "variance": variance}, private=self.private)
