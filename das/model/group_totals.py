"""Totals of race and ethnic groups from an earlier publication: they decide the sizes of tables
that are measured later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.codes import Codes
from das.model.frozen import Frozen
from das.model.population import ACROSS, Regions


@dataclass(frozen=True, eq=False, repr=False)
class GroupTotals(Frozen):
    """By type of region, of each group, ``(groups,)``: the id of its ``region``, the number of its
    ``iteration`` among those of a :class:`das.model.population.Iterations`, and its published
    ``count``, which may be negative. In the order of regions, then of iterations; each group
    once."""

    region: Mapping[str, Codes]
    iteration: Mapping[str, NDArray[np.int32]]
    count: Mapping[str, NDArray[np.int64]]

    def __post_init__(self) -> None:
        if not self.region.keys() == self.iteration.keys() == self.count.keys():
            raise InputError("not the same types of regions everywhere", where="totals of groups")
        for kind, region in self.region.items():
            iteration = self.iteration[kind]
            if not len(region) == len(iteration) == len(self.count[kind]):
                raise InputError(
                    "regions, iterations and counts differ in length",
                    where=f"totals of groups, {kind}",
                )
            later = (region[1:] > region[:-1]) | (
                (region[1:] == region[:-1]) & (iteration[1:] > iteration[:-1])
            )
            if not later.all():
                raise InputError(
                    "groups are not sorted, or one is there twice",
                    where=f"totals of groups, {kind}",
                )

    def refuse_others(self, regions: Regions, where: object) -> None:
        """Raises :class:`InputError` where no group is in any of the ``regions``: the totals are of
        another place.
        """
        if not any(
            np.isin(region, regions.ids[kind]).any()
            for kind, region in self.region.items()
            if kind in regions.ids
        ):
            raise InputError(
                "has no group in any region of the geography",
                where=where,
                remedy="give the totals of the same states",
            )

    def states_without(self, regions: Regions) -> list[str]:
        """States without a group in any of their regions: nothing would be measured there."""
        within = [
            np.unique(r.astype("S2"))
            for kind, r in self.region.items()
            if kind not in ACROSS and len(r)
        ]
        return [s.decode() for s in regions.states if not any(s in r for r in within)]

    def __len__(self) -> int:
        return sum(map(len, self.region.values()))
