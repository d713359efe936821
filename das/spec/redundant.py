"""The measurements of a specification that buy nothing (:mod:`das.model.redundant`)."""

from __future__ import annotations

from collections.abc import Mapping

from das.model.measured_spine import MeasuredSpine
from das.model.redundant import RedundantMeasurements, redundant, redundant_on
from das.model.spine import Spine
from das.spec.run import RunSpec


def redundant_by_spec(spec: RunSpec) -> RedundantMeasurements:
    """By the configuration alone: of an optimised spine, of all trees that there can be."""
    levels, split = spec.geography.levels, spec.terms.split
    return [(u, i) for u in spec.universes for i in redundant(u, levels, split.get(u.name, ()))]


def redundant_by_trees(
    spec: RunSpec, trees: Mapping[str, MeasuredSpine], published: Spine
) -> RedundantMeasurements:
    """By the trees that the universes are measured over."""
    there = spec.on(trees)
    return [(u, i) for u in there.universes for i in redundant_on(u, trees[u.name], published)]
