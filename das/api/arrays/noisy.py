"""What measuring returns: noisy answers and exact counts. Every estimate is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.api.arrays.levels import query as spelt
from das.api.frames import tidy
from das.api.reading import opened
from das.errors import InputError
from das.model.constraint import LevelBounds
from das.model.ledger import Event
from das.model.measurement import Measurement, Measurements, MeasurementSource
from das.model.not_private import UNKNOWN, Private
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import PERSONS, Planned

if TYPE_CHECKING:
    import pandas as pd


#: Level and query of counts that are known exactly, ``(units, answers)``.
Known = Mapping[tuple[str, str], NDArray[np.int64]]


@dataclass(frozen=True, eq=False, repr=False)
class Noisy:
    """Noisy measurements of a tree. If ``private``, they are safe to publish under the guarantee of
    ``plan``; for measurements from elsewhere this is unknown.

    ``source`` answers for slices of a level (:class:`das.model.measurement.MeasurementSource`):
    arrays in memory, or files. ``exact`` are counts without noise, by level and query: outside
    the guarantee. ``events`` are the lines of the ledger, one for each query at each level.
    Measurements of another publisher have no plan and no events. ``spine`` is the tree of the
    measured places, if known: any other is then refused. ``bounds`` are the bounds of a release
    that was read, besides ``exact`` or together with it; ``None`` if there is only ``exact``."""

    schema: Schema
    source: MeasurementSource
    exact: Known = field(default_factory=dict)
    plan: Plan | None = None
    events: tuple[Event, ...] = ()
    private: Private = UNKNOWN
    spine: Spine | None = None
    bounds: Mapping[str, LevelBounds] | None = None

    @staticmethod
    def from_measurements(
        schema: Schema,
        measured: Mapping[tuple[str, str], tuple[ArrayLike, ArrayLike]],
        exact: Mapping[tuple[str, str], ArrayLike] | None = None,
        *,
        spine: Spine | None = None,
    ) -> Noisy:
        """Make it from measurements of another source. ``measured`` has, by level and query, two
        arrays. The first has the values, integers ``(units, answers)`` in the order of the spine
        and of ``das.model.query.Query.labels``. The second has the variance of each unit's
        noise, ``(units,)`` or one for all (infinite where a unit was not measured). ``exact``:
        counts without noise in the same form. With the ``spine`` they belong to its units for
        good. Without it only their number can be checked later. Raises ``InputError``."""
        held: dict[tuple[str, str], Measurement] = {}
        units: dict[str, int] = (
            {} if spine is None else {level: spine.units(level) for level in spine.levels}
        )
        for (level, query), (values, variance) in measured.items():
            answers = schema.query(query).answers
            m = _measurement(level, query, np.asarray(values), answers, variance)
            if spine is not None:
                spine.index(level)
            rows = len(m.values)
            _as_many(rows, units.setdefault(level, rows), f"{level}/{query}")
            held[level, query] = m
        known = {
            (level, q): whole(counts, units.get(level), schema.query(q).answers, f"{level}/{q}")
            for (level, q), counts in (exact or {}).items()
        }
        return Noisy(schema, Measurements(held), known, spine=spine)

    def __repr__(self) -> str:
        said = [self.schema.name]
        if self.plan is not None:
            said.append(
                f"{len(self.plan.measurements)} queries, {self.plan.mechanism.currency} = {self.plan.cost}"
            )
        if self.exact:
            said.append(f"{len(self.exact)} counted exactly")
        return f"<Noisy: {', '.join(said + ['seeded: NOT PRIVATE'] * (not self.private))}>"

    def check(self, spine: Spine) -> None:
        """Raises ``InputError`` unless these are measurements of the units of ``spine``."""
        expect(spine, Spine, "measurements", "give the spine of the measurements")
        if self.spine is not None and self.spine is not spine and (odd := self.spine.unlike(spine)):
            raise InputError(
                f"they were made with another spine: {odd}",
                where="measurements",
                remedy=(
                    "give the spine that was measured, such as the second value of das.read_noisy"
                ),
            )
        if isinstance(self.source, Measurements):
            for (level, query), m in self.source.held.items():
                _as_many(len(m.values), spine.units(level), f"{level}/{query}")

    def read(self, level: str, query: str, spine: Spine) -> Measurement:
        """Values ``(units, answers)`` and variances ``(units,)`` of one query for all units of a
        level. Raises
        :class:`InputError` for another spine than that of the measurements."""
        self.check(spine)
        spine.index(level)
        query = spelt(query, self.schema, self.source.queries(level), f"measurements of {level}")
        return self.source.read(level, query, 0, spine.units(level))

    def to_frame(self, level: str, query: str, spine: Spine) -> pd.DataFrame:
        """A row for each answer: level, geocode, name, query, attributes, label, value,
        variance."""
        m = self.read(level, query, spine)
        asked = self.schema.query(m.query)
        variance = np.repeat(m.variance[:, None], asked.answers, axis=1)
        columns: dict[str, NDArray[Any]] = {"value": m.values, "variance": variance}
        return tidy(spine, level, self.schema, asked, columns, private=self.private)


def _measurement(
    level: str, query: str, value: NDArray[Any], answers: int, variance: ArrayLike
) -> Measurement:
    """A measurement of all units of a level. Raises :class:`InputError` for values or variances of
    another form."""
    where = f"{level}/{query}"
    if value.dtype.kind not in "iu" or value.ndim != 2 or value.shape[1] != answers:
        raise InputError(
            f"values of dtype {value.dtype} and shape {value.shape}",
            where=where,
            remedy=f"give integers, (units, {answers})",
        )
    wide = np.asarray(variance, dtype=np.float64)
    if wide.shape not in ((), value.shape[:1]):
        raise InputError(
            f"variances of shape {wide.shape}",
            where=where,
            remedy=f"give one for all units, or one for each, ({len(value)},)",
        )
    each = np.broadcast_to(wide, value.shape[:1]).copy()
    return Measurement(level, query, 0, value.astype(np.int64), each)


def whole(values: ArrayLike, units: int | None, width: int, where: str) -> NDArray[np.int64]:
    """``(units, width)`` counts, of any number of units where none is said. Raises
    :class:`InputError`."""
    array = np.asarray(values)
    array = array[:, None] if array.ndim == 1 and width == 1 else array
    wanted = (len(array) if units is None and array.ndim else units, width)
    if array.dtype.kind not in "iu" or array.shape != wanted or (array < 0).any():
        raise InputError(
            f"values of dtype {array.dtype} and shape {array.shape}",
            where=where,
            remedy=(
                f"give counts of 0 or more, integers ({'units' if units is None else units},"
                f" {width})"
            ),
        )
    return array.astype(np.int64)


def _as_many(rows: int, units: int, where: str) -> None:
    if rows != units:
        raise InputError(
            f"{rows:,} rows, and the level has {units:,} units",
            where=where,
            remedy="give a row for each unit of the level, in the order of the spine",
        )


def expect(given: object, kind: type, where: str, remedy: str) -> None:
    """Raises :class:`InputError` for an argument that is something else."""
    if not isinstance(given, kind):
        raise InputError(
            f"this is a {type(given).__name__}, and no {kind.__name__}", where=where, remedy=remedy
        )


# A release that was published, as the values that estimation takes.


def read_noisy(
    path: Path | str, *, universe: str = PERSONS.name
) -> tuple[Noisy, Spine, dict[str, LevelBounds]]:
    """The measurements of a run or a release, the measured spine, and its bounds: the arguments
    of ``das.topdown``, to estimate again or in another way. The values stay in their files until
    they are needed. The measurements carry the release's exact counts, bounds and ledger, and
    meet them even without the third value."""
    release = opened(path)
    of = release.after.universe(universe)
    plan = of.plan if isinstance(of, Planned) else None
    known, spine = release.bounds(of), release.tree(of).spine
    noisy = Noisy(
        of.schema,
        release.source(of),
        release.exact(of),
        plan,
        release.events(of),
        release.after.private,
        spine,
        known,
    )
    return noisy, spine, known
