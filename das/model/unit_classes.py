"""What a plan and its account need from a measured tree: its classes of units, not the units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from das.model.budget import UnitPath
from das.model.frozen import Frozen
from das.model.measured_spine import MeasuredSpine


@dataclass(frozen=True, eq=False)
class UnitClasses(Frozen):
    """``units``: how many units of each class each level has. ``places_on``: how many lowest units
    there are on each path; ``usual``: of each level that has measured units the class that most of
    them have; ``split``: the levels at which two units may be parts of one place
    (:class:`das.model.measured_spine.MeasuredSpine` has them all)."""

    units: Mapping[str, Mapping[str, int]]
    places_on: Mapping[UnitPath, int]
    usual: UnitPath
    split: tuple[str, ...]

    @staticmethod
    def of(tree: MeasuredSpine) -> UnitClasses:
        units = {
            level: {name: int(here.sum()) for name, here in tree.classes(level).items()}
            for level in tree.spine.levels
        }
        return UnitClasses(units, dict(tree.places_on), tree.usual, tree.split)

    @property
    def paths(self) -> tuple[UnitPath, ...]:
        return tuple(self.places_on)
