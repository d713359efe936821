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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.batch import LeastSquaresEstimator, Steps, solve_jointly
from das.estimate.family import Array, Family
from das.estimate.least_squares import LeastSquares
from das.estimate.prior import SharedOut
from das.model.frozen import Frozen
from das.model.measurement import MeasurementSource
from das.model.post_processing import by_rule
from das.model.query import DETAILED
from das.model.schema import Schema
from das.model.solution import Certificate
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
        """The passes that the rule of :mod:`das.model.post_processing` gives for what is measured. Of units
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

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        correction = families[0].correction if families else None
        if correction is None:
            return super().estimates(families)
        from das.estimate.size_bias import correct  # few need it

        problems = [LeastSquares(family, self.tolerance) for family in families]
        plain = solve_jointly([self._plain(p, corrected=True) for p in problems], self.accuracy)
        right = correct(problems, [x for x, _ in plain], correction.spread, self.accuracy)
        return [(x, p.certificate) for x, p in zip(right, problems, strict=True)]

    def steps(self, family: Family) -> Steps:
        return self._plain(LeastSquares(family, self.tolerance))

    def _plain(self, problem: LeastSquares, *, corrected: bool = False) -> Steps:
        """The passes of a family; one pass over all cells if the estimate is to be corrected."""
        family = problem.family
        passes = self._of(family)
        if not any(passes):
            raise InputError(
                "there is no query to estimate it by",
                where=f"passes of level {family.level!r}",
                remedy="measure a query at every level that is estimated by its own measurements",
            )
        if corrected and (len(passes) > 1 or DETAILED not in passes[-1]):
            raise InputError(
                "its size bias can be corrected only if it is estimated in one pass, by its"
                " 'detailed' query, too",
                where=f"passes of level {family.level!r}",
                remedy="put all its queries into one pass, or do without the correction",
            )
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


# The least squares of one pass over one family (:mod:`das.estimate.outer`), query by query.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Weight of what is taken for granted where nothing was measured, as a share of what was.
_WEAK = 1e-2


@dataclass(frozen=True, eq=False)
class PassEquations(Frozen):
    """The ``index`` of each query on the variables, and its ``weight`` ``(queries, children)``. The
    right-hand side is ``rhs`` ``(children, variables)``; ``answers`` are what each query should be,
    ``(children, answers)``. ``seen``: what the answers say of the
    spread about shares (:meth:`das.estimate.prior.SharedOut.deviations`)."""

    index: tuple[Ints, ...]
    weight: Floats
    rhs: Floats
    answers: tuple[Floats, ...] = ()
    seen: Floats = field(default_factory=lambda: np.zeros(3))

    @staticmethod
    def nothing(children: int) -> PassEquations:
        """Of no variable."""
        return PassEquations((), np.zeros((0, children)), np.zeros((children, 0)))


@dataclass
class EquationsInMaking:
    """The equations of variables that each child is ``able`` to have or not, ``(children,
    variables)``, as far as queries were added. ``own`` and ``precision`` are of the answers of one
    variable alone: the sum of their weights, and of weight times answer."""

    able: Mask

    def __post_init__(self) -> None:
        self.index, self.weights, self.answers = list[Ints](), list[Floats](), list[Floats]()
        self.rhs, self.own, self.precision = (np.zeros(self.able.shape) for _ in range(3))

    def add(self, index: Ints, weight: Floats, answers: Floats) -> None:
        """Add a query: ``index`` is the answer of each variable, or -1,
        ``weight`` that of each child. ``answers``: what was measured, ``(children, answers)``, or 0."""
        said = weight[:, None] * answers[:, index] * (index >= 0)
        alone = (np.bincount(index[index >= 0]) == 1)[index] & (index >= 0)
        self.rhs += said
        self.own += said * alone
        self.precision += weight[:, None] * alone
        self.index.append(index)
        self.weights.append(weight)
        self.answers.append(answers)

    def weak(self) -> Floats:
        """A small weight for children that are not measured for each variable by itself,
        ``(children,)``."""
        most = max((float(w.max()) for w in self.weights), default=0.0) or 1.0
        untold = (self.able & (self.precision == 0)).any(axis=1)
        return np.where(untold, _WEAK * most, 0.0)

    def equations(self, shared: SharedOut, pull: Floats, *, looks: bool) -> PassEquations:
        """With the distance from the parent's shares, of the weight ``pull`` ``(children,)``;
        where it ``looks``, with what is seen of the spread about them."""
        seen = shared.deviations(self.own, self.precision) if looks else np.zeros(3)
        if pull.any():
            self.rhs += pull[:, None] * shared.expected
            self.index.append(np.arange(self.able.shape[1]))
            self.weights.append(pull)
            self.answers.append(shared.expected)
        return PassEquations(
            tuple(self.index), np.array(self.weights), self.rhs, tuple(self.answers), seen
        )
