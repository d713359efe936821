"""What measuring leaves: noisy answers and exact counts, of which every estimate is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.errors import InputError
from das.frames import tidy
from das.model.budget import Plan
from das.model.ledger import Event
from das.model.measurement import Measurement, Measurements, MeasurementSource
from das.model.schema import Schema
from das.model.spine import Spine

if TYPE_CHECKING:
    import pandas as pd

#: Level and query of counts that are known exactly, ``(units, answers)``.
Known = Mapping[tuple[str, str], NDArray[np.int64]]


@dataclass(frozen=True, eq=False, repr=False)
class Noisy:
    """Noisy measurements of a tree, safe to publish under the guarantee of ``plan`` if ``private``.

    ``source`` answers for slices of a level (:class:`das.model.measurement.MeasurementSource`): arrays in memory, or
    files. ``exact`` are counts without noise, by level and query: outside the guarantee. ``events`` are the lines of the
    ledger, one for each query at each level. Measurements of another publisher are without plan and events.
    """

    schema: Schema
    source: MeasurementSource
    exact: Known = field(default_factory=dict)
    plan: Plan | None = None
    events: tuple[Event, ...] = ()
    private: bool = True

    @staticmethod
    def of(
        schema: Schema, measured: Mapping[tuple[str, str], tuple[ArrayLike, ArrayLike]], exact: Known | None = None
    ) -> Noisy:
        """Of measurements from elsewhere: by level and query the values, integers ``(units, answers)`` in the order of the
        spine and of :meth:`das.model.query.Query.labels`, and the variance of each unit's noise, ``(units,)`` or one for
        all (infinite where a unit was not measured). Raises :class:`InputError`."""
        held = {}
        for (level, query), (values, variance) in measured.items():
            value, where = np.asarray(values), f"{level}/{query}"
            if value.dtype.kind not in "iu" or value.ndim != 2 or value.shape[1] != schema.query(query).answers:
                raise InputError(f"values of dtype {value.dtype} and shape {value.shape}", where=where,
                                 remedy=f"give integers, (units, {schema.query(query).answers})")  # fmt: skip
            wide = np.broadcast_to(np.asarray(variance, dtype=np.float64), value.shape[:1]).copy()
            held[level, query] = Measurement(level, query, 0, value.astype(np.int64), wide)
        return Noisy(schema, Measurements(held), dict(exact or {}))

    def __repr__(self) -> str:
        said = [self.schema.name]
        if self.plan is not None:
            said.append(f"{len(self.plan.draws)} queries, {self.plan.mechanism.currency} = {self.plan.cost}")
        if self.exact:
            said.append(f"{len(self.exact)} counted exactly")
        return f"<Noisy: {', '.join(said + ['seeded: NOT PRIVATE'] * (not self.private))}>"

    def read(self, level: str, query: str, spine: Spine) -> Measurement:
        """Values ``(units, answers)`` and variances ``(units,)`` of one query for all units of a level."""
        return self.source.read(level, query, 0, spine.units(level))

    def to_frame(self, level: str, query: str, spine: Spine) -> pd.DataFrame:
        """A row for each answer: level, geocode, name, query, attributes, label, value, variance."""
        m, asked = self.read(level, query, spine), self.schema.query(query)
        variance = np.repeat(m.variance[:, None], asked.answers, axis=1)
        columns: dict[str, NDArray[Any]] = {"value": m.values, "variance": variance}
        return tidy(spine, level, self.schema, asked, columns, private=self.private)


def expect(given: object, kind: type, where: str, remedy: str) -> None:
    """Raises :class:`InputError` for an argument that is something else."""
    if not isinstance(given, kind):
        raise InputError(f"this is a {type(given).__name__}, and no {kind.__name__}", where=where, remedy=remedy)
