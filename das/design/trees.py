"""Models of a real tree: over all that structures allow, or over the cells that its units were
published with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from das.design.areas import AreaTargets, cut_nodes
from das.design.model import Choices, Estimand
from das.design.problem import Coordinates
from das.design.recursion import Recursion
from das.design.tree import grow
from das.estimate.information import Contrasts, support
from das.fold import Tiers
from das.model.areas import Areas
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.schema import Schema

Ints = NDArray[np.int64]


def of_structures(
    schema: Schema,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    measurements: Choices,
    estimands: Sequence[Estimand],
    areas: Mapping[str, Areas],
    room: float = np.inf,
) -> Recursion:
    """A tree whose units can hold whatever their bounds allow: only published facts on structures
    enter. ``room``: the available bytes."""
    names = dict.fromkeys((*(q for _, q in measurements.pairs), *(a.query for a in estimands)))
    contrasts = Contrasts.for_queries(schema, [schema.query(q) for q in names])
    lowest = bounds[tree.spine.levels[-1]]
    rows = support(contrasts, lowest.some(_first_of_each(lowest)))
    unit, level = np.nonzero(rows[lowest.limits.row])
    return _model(
        schema,
        tree,
        bounds,
        measurements,
        estimands,
        areas,
        Coordinates.of_contrasts(contrasts),
        unit,
        level,
        room,
        every=False,
    )


def of_cells(
    schema: Schema,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    lowest: Histogram,
    measurements: Choices,
    estimands: Sequence[Estimand],
    areas: Mapping[str, Areas],
    room: float = np.inf,
) -> Recursion:
    """Each unit has the cells that it was published with, and no others: what non-negativity makes
    of the estimates, nearly. ``lowest`` is a published histogram of the tree's lowest units."""
    some = lowest.count > 0
    return _model(
        schema,
        tree,
        bounds,
        measurements,
        estimands,
        areas,
        Coordinates.of_cells(schema),
        lowest.unit[some],
        lowest.cell[some],
        room,
        every=True,
    )


def _first_of_each(lowest: LevelBounds) -> NDArray[np.intp]:
    """A unit with each of the rows of the limits."""
    first = np.zeros(len(lowest.limits.lower), dtype=np.intp)
    first[lowest.limits.row[::-1]] = np.arange(len(lowest))[::-1]
    return first


def _model(
    schema: Schema,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    measurements: Choices,
    estimands: Sequence[Estimand],
    areas: Mapping[str, Areas],
    coordinates: Coordinates,
    unit: Ints,
    coordinate: Ints,
    room: float,
    *,
    every: bool,
) -> Recursion:
    tiers = Tiers.of_bounds(tree.spine, bounds)
    of_class = []
    for level, parents in zip(tiers.level, tiers.parents, strict=True):
        at = np.full(len(parents), -1, dtype=np.int64)
        for name, units in tree.classes(level).items() if level else ():
            if (level, name) in measurements.places:
                at[units] = measurements.places.index((level, name))
        of_class.append(at)
    grown = grow(
        tiers, of_class, len(measurements.places), unit, coordinate, coordinates.size, room
    )
    model = Recursion(
        schema, grown, coordinates, measurements, tuple(estimands), tree.spine.levels, every, {}
    )
    asked = [schema.query(q) for q in model.queries]
    cut = {
        kind: cut_nodes(grown, tiers, *areas[kind].over(tree), len(areas[kind]))
        for kind in dict.fromkeys(a.place for a in estimands if a.areas)
    }
    return replace(
        model,
        areas={
            kind: AreaTargets.for_queries(grown, c, coordinates, asked) for kind, c in cut.items()
        },
    )
