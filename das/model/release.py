"""The published histograms, all levels, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from das.errors import PrivacyError
from das.model.constraint import LevelBounds, pieces
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.post_processing import BiasCorrection
from das.model.solution import Certificates
from das.model.spine import Spine


@dataclass(frozen=True, eq=False)
class Release(Frozen):
    """Integer histograms by level: every parent is the exact sum of its children, every bound
    exact. ``certificates`` say how well each level was estimated and rounded, if known.
    ``correction``: that of the lowest units, if they were corrected."""

    spine: Spine
    histograms: Mapping[str, Histogram]
    bounds: Mapping[str, LevelBounds]
    certificates: Mapping[str, Certificates] = field(default_factory=dict)
    correction: BiasCorrection | None = None

    def __post_init__(self) -> None:
        for depth, level in enumerate(self.spine.levels):
            h = self.histograms[level]
            if h.units != len(self.spine.codes[depth]):
                raise PrivacyError(
                    "a histogram has another number of units than its level", where=level
                )
            if depth:
                above = self.spine.levels[depth - 1]
                if not h.up(self.spine.parent[depth], self.spine.units(above)).same_as(
                    self.histograms[above]
                ):
                    raise PrivacyError(
                        f"the units of {level!r} do not add up to {above!r}", where="release"
                    )
            self._check_bounds(level, h, self.bounds[level])

    @staticmethod
    def _check_bounds(level: str, h: Histogram, b: LevelBounds) -> None:
        if not b.possible[h.cell].all():
            raise PrivacyError("a structural zero is not zero", where=level)
        for here in pieces(h.units, b.groups):
            part, (lower, upper) = h.rows(here.start, here.stop), b.limits.some(here)
            held = np.zeros(lower.shape, dtype=np.int64)
            np.add.at(held, (part.unit, b.group[part.cell]), part.count)
            if (held < lower).any() or (held > upper).any():
                raise PrivacyError("a bound on a dwelling group is broken", where=level)
        if b.total is not None and not np.array_equal(h.totals(), b.total):
            raise PrivacyError("a total that is invariant is not met", where=level)
        if b.joint is not None and not np.array_equal(b.joint.sums(h.totals()), b.joint.total):
            raise PrivacyError("a joint total that is invariant is not met", where=level)
