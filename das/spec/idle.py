"""The draws of a specification that buy nothing (:mod:`das.model.idle`)."""

from __future__ import annotations

from collections.abc import Mapping

from das.model.idle import IdleDraws, idle, idle_on
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine
from das.spec.run import RunSpec


def found(spec: RunSpec) -> IdleDraws:
    """By the configuration alone: of an optimised spine, of all trees that there can be."""
    levels, split = spec.geography.levels, spec.terms.split
    return [(u, i) for u in spec.universes for i in idle(u, levels, split.get(u.name, ()))]


def found_on(spec: RunSpec, trees: Mapping[str, MeasuredSpine], published: Spine) -> IdleDraws:
    """By the trees that the universes are measured over."""
    there = spec.on(trees)
    return [(u, i) for u in there.universes for i in idle_on(u, trees[u.name], published)]
