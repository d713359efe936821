r"""Top-down estimation by the production passes of 2020.

Going down from the root, the children of each parent are estimated together. This is a weighted
least-squares problem under the constraints, given the parent's published integers :math:`p`. A
level's queries come in passes. Pass :math:`i` solves

.. math:: \min_{x \ge 0} \sum_{q \in \text{pass } i} \sum_c \frac{1}{\mathrm{Var}_{qc}} \|Q_q x_c - m_{qc}\|^2

subject to :math:`\sum_c x_c = p`, the bounds of each child, and for each query of an earlier pass
:math:`|Q x_c - \hat m_{qc}| \le \tau`, with :math:`\hat m` that pass's answer. The Bureau finds the
smallest feasible :math:`\tau` by a linear program and adds 0.1. Here no program is needed: the
earlier pass's own solution meets all constraints with :math:`\tau = 0`, so :math:`\tau = 0.1`.

Cells where the parent has nobody are left out, and so are children that can hold nobody. An only
child is its parent, and was estimated with it: its answers are pooled with the parent's
(:mod:`das.estimate.pooled`). A pass whose queries only distinguish dwelling groups (the pass of
totals) is solved on the groups: given group sums :math:`y_{cg}`, :math:`x_{ck} = y_{cg}\,p_k / p_g`
is feasible with equal answers.

Source: the 2020 redistricting production code and its certificates; Abowd et al. 2022, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from das.errors import InputError
from das.estimate.family import Family
from das.estimate.joint_solving import LeastSquaresEstimator, Steps
from das.estimate.least_squares import LeastSquares
from das.model.measurement import MeasurementSource
from das.model.passes import by_rule
from das.model.schema import Schema
from das.model.spine import Spine


@dataclass(frozen=True)
class Passes(LeastSquaresEstimator):
    """The queries of each level, pass by pass. ``tolerance`` is how far from an earlier pass a
    later one may end, in persons; ``accuracy`` the relative duality gap of each solve."""

    passes: Mapping[str, tuple[tuple[str, ...], ...]]
    tolerance: float = 0.1
    accuracy: float = 1e-6

    @staticmethod
    def by_rule(
        source: MeasurementSource, spine: Spine, schema: Schema, tolerance: float = 0.1
    ) -> Passes:
        """The passes that the rule of :mod:`das.model.passes` gives for what is measured. Of units
        of different variances, the middle one counts."""
        passes = {}
        for level in spine.levels:
            measured = {}
            for name in source.queries(level):
                variance = source.read(level, name, 0, spine.units(level)).variance
                if (known := np.isfinite(variance)).any():
                    measured[name] = (schema.query(name), float(np.median(variance[known])))
            passes[level] = by_rule(measured, root=level == spine.levels[0])
        return Passes(passes, tolerance)

    def steps(self, family: Family) -> Steps:
        passes = self._of(family)
        if not any(passes):
            raise InputError(
                "there is no query to estimate it by",
                where=f"passes of level {family.level!r}",
                remedy="measure a query at every level that is estimated by its own measurements",
            )
        problem = LeastSquares(family, self.tolerance)
        x = yield from problem.passes(passes)
        return x, problem.certificate

    def _of(self, family: Family) -> tuple[tuple[str, ...], ...]:
        """The passes of the family's level. Some queries were measured only for only children below
        it. They come in the last pass. If they were measured for the whole family, and some level
        has them before its last pass, they come first."""
        passes = self.passes.get(family.level, ())
        known = {q: np.isfinite(family.answers(q).variance) for q in family.inherited}
        before = {q for each in self.passes.values() for names in each[:-1] for q in names}
        first = tuple(q for q, asked in known.items() if q in before and asked.all())
        rest = tuple(q for q, asked in known.items() if q not in first and asked.any())
        *early, last = passes or ((),)
        return tuple(names for names in (first, *early, last + rest) if names)
