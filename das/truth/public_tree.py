"""What is public of an input: its blocks, their trees, and what is known of their structures,
before anything is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.files.readers import area_list
from das.geography import bounds as geography
from das.model.areas import Areas, off_spine
from das.model.constraint import JointTotals, Limits
from das.model.level_bounds import LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.records import Blocks
from das.model.spine import Spine
from das.model.universe import Planned
from das.spec import RunSpec
from das.truth.preparation import places, trees_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PublicTree:
    """Blocks, on their tabulation spine: ``unit`` ``(blocks,)`` is the lowest unit of each;
    ``lists`` of them by name.
    """

    blocks: Blocks
    spine: Spine
    unit: Ints
    lists: Mapping[str, Areas]

    @staticmethod
    def read(
        spec: RunSpec, paths: Sequence[Path], progress: Progress, lists: Sequence[Path] = ()
    ) -> PublicTree:
        """The tree of an input, read without its records; ``lists`` of blocks are added to those of
        the specification. Raises :class:`UserError` for a faulty input.
        """
        blocks, spine, unit = places(spec, paths, progress)
        return PublicTree(
            blocks,
            spine,
            unit,
            {p.name: area_list.read(p, spine) for p in (*map(Path, spec.geography.lists), *lists)},
        )

    def trees(self, spec: RunSpec) -> dict[str, MeasuredSpine]:
        return trees_of(spec, self.blocks, self.spine, self.unit, self.lists)

    def structures(self, tree: MeasuredSpine) -> Ints | None:
        """The structures of the lowest units of a tree."""
        given = self.blocks.structures
        if given is None:
            return None
        out = np.zeros((self.spine.units(self.spine.levels[-1]), given.shape[1]), dtype=np.int64)
        np.add.at(out, self.unit, given)
        return out[tree.place]

    def bounds(self, u: Planned, tree: MeasuredSpine) -> dict[str, LevelBounds]:
        """What is known exactly, with zeros for totals: variances depend on no count."""
        e = u.exact
        found = geography.lowest(
            u.schema,
            self.structures(tree),
            housing_units=e.housing_units,
            group_quarters=e.group_quarters,
        )
        # no lower bounds: with totals of zero these could not be met
        limits = None if found is None else Limits.of(np.zeros_like(found[0]), found[1])
        total: Ints | JointTotals | None = None
        if e.total is not None:
            total = np.zeros(tree.spine.units(e.total), dtype=np.int64)
            part = np.unique(tree.home_units(e.total, self.spine), return_inverse=True)[1]
            if part.max() + 1 < len(part):
                total = JointTotals(part, np.zeros(part.max() + 1, dtype=np.int64))
        return geography.bounds(u.schema, tree.spine, limits, total, e.total)

    def areas(self) -> dict[str, Areas]:
        """Areas by kind: the geographic fields that are not levels, the published units of each
        level, and the lists.
        """
        units, below = len(self.spine.codes[-1]), self.spine.levels[-1]
        found = {
            a.kind: a for a in off_spine(self.blocks.fields, self.spine.levels, self.unit, units)
        }
        for level, codes in zip(self.spine.levels[:-1], self.spine.codes, strict=False):
            found[level] = Areas(level, codes, self.spine.up(below, level), np.arange(units))
        return found | dict(self.lists)
