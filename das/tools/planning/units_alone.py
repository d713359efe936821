r"""Variances of a plan for a schema with a million cells: sampled units, each by itself.

No matrix over such a schema exists, but a unit has few positive cells. Let a unit be estimated in
outer passes (:mod:`das.model.plan`). Pass i has the variables of its frozen query, those that
are positive in the unit. It knows the sums of the pass before exactly, :math:`G_i x = f_{i-1}`, and
measures the queries :math:`Q_q` with the precisions :math:`\rho_q`:

.. math:: X_i = \sum_q \rho_q Q_q'Q_q, \qquad
          V_i = X_i^{-1} - X_i^{-1}G_i'(G_i X_i^{-1} G_i')^{-1}G_i X_i^{-1}.

V is the covariance of least squares given the exact sums. Adding any multiple of :math:`G'G` to X
does not change it, and gives X an inverse where queries leave only the exact sums open. A published
line t, a sum of cells, has the mean :math:`t_i` over the cells of each variable of pass i. Its
variance is

.. math:: f_t = \sum_i t_i' V_i t_i, \qquad
          \frac{\partial f_t}{\partial \rho_q} = -\|Q_q V_i t_i\|^2 \text{ for q in pass i}.

For persons this is exact: the last pass has one query, so an error of a class is spread evenly over
its cells. For households it is an approximation. The estimand is the mean over the lines of a group
and over the sampled units. Each :math:`\log f` is convex (:mod:`das.design.problem`); so is a mean
of such f.

*What the model leaves out.* Units are estimated top down. A child of C like children has the factor
:math:`1 - 1/C`, and :math:`1/C^2` of its parent's variance: the shares of one level depend on those
of no other. Exact sums are exact, although they were published with noise. Non-negativity is
replaced by the support: cells that are not positive are 0. The estimate has other cells than the
release that was sampled. So the model guards too little where many fine cells tell a coarse table:
a plan is checked by runs before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.design.model import ROUNDING, Choices, Estimand

Array = NDArray[np.float64]
Index = NDArray[np.intp]
#: The precision, relative to all that is measured, of what nothing measures: its variance is huge.
_NOTHING = 1e-9
#: Evaluations of a level that are kept: differences change one share of one level.
_KEPT = 4


@dataclass(frozen=True, eq=False)
class SampledPass:
    """One pass of one unit. ``index``: by query, the answer of each variable, from 0, ``(d,)``.
    ``tie``: which exact sum a variable is in, from 0, ``(d,)``. ``lines`` ``(d, L)``: the mean of
    each line over the cells of each variable."""

    index: Mapping[str, Index]
    tie: Index
    lines: Array

    @cached_property
    def _same(self) -> Mapping[str, NDArray[np.bool_]]:
        """``Q'Q`` of each query, ``(d, d)``; left out where each variable has its own answer."""
        return {q: i[:, None] == i[None, :] for q, i in self.index.items() if i.max() + 1 < len(i)}

    def variances(self, rho: Mapping[str, float]) -> tuple[Array, Mapping[str, Array]]:
        """``t'Vt`` of each line ``(L,)``, and minus its derivatives by each query's precision."""
        moved = self._moved(rho)
        found = np.einsum("dl,dl->l", self.lines, moved)
        # what is left of a line that follows from exact sums is rounding error
        size = np.einsum("dl,dl->l", self.lines, self.lines) / (sum(rho.values()) or 1.0)
        found = np.where(found > ROUNDING * size, found, 0.0)
        return found, {
            q: np.where(found > 0, (_summed(moved, self.index[q]) ** 2).sum(axis=0), 0.0)
            for q in rho
        }

    def _moved(self, rho: Mapping[str, float]) -> Array:
        """``V t`` of each line, ``(d, L)``."""
        if not self._same:
            each = _summed(self.lines, self.tie) / np.bincount(self.tie)[:, None]
            return (self.lines - each[self.tie]) / (sum(rho.values()) or _NOTHING)
        x = np.zeros((len(self.tie), len(self.tie)))
        for q, r in rho.items():
            if q in self._same:
                x += r * self._same[q]
            else:
                x[np.diag_indices(len(x))] += r
        whole = sum(rho.values()) or 1.0
        x += whole * (self.tie[:, None] == self.tie[None, :])
        x[np.diag_indices(len(x))] += _NOTHING * whole
        summed = (self.tie[:, None] == np.arange(self.tie.max() + 1)).astype(float)
        z = np.linalg.solve(x, np.concatenate([self.lines, summed], axis=1))
        free, held = z[:, : self.lines.shape[1]], z[:, self.lines.shape[1] :]
        return free - held @ np.linalg.solve(summed.T @ held, summed.T @ free)


def _summed(rows: Array, index: Index) -> Array:
    """The sums of the rows of each number, ``(numbers, L)``."""
    if index.max() + 1 == len(index):
        return rows
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(index.max() + 1))
    return np.add.reduceat(rows[order], starts, axis=0)


@dataclass(frozen=True, eq=False)
class SampledUnit:
    """``passes`` of one unit. ``group`` ``(L,)``: the estimand of each line. ``weight`` ``(L,)``:
    what a line counts in its mean."""

    passes: tuple[SampledPass, ...]
    group: Index
    weight: Array


@dataclass(frozen=True, eq=False)
class UnitsAlone:
    """A model (:class:`das.design.model.Model`) of the units that were sampled of some levels.
    Estimands of other levels have the variance 0: nothing is known of them."""

    measurements: Choices
    estimands: tuple[Estimand, ...]
    samples: Mapping[str, Sequence[SampledUnit]]
    _seen: dict[str, dict[bytes, tuple[Array, Array]]] = field(default_factory=dict)

    def variances(self, precision: Array) -> Array:
        return self._whole(precision)[0]

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        f, h = self.gradients(precision, weight[None, :], lambda: None)
        return f, h[0]

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        f, slopes = self._whole(precision)
        tick()
        some = f > 0
        return f, (weights[:, some] / f[some]) @ slopes[some]

    def _whole(self, precision: Array) -> tuple[Array, Array]:
        """f ``(estimands,)``, and minus its derivatives ``(estimands, I)``."""
        f = np.zeros(len(self.estimands))
        slopes = np.zeros((len(self.estimands), len(precision)))
        places = [self.measurements.places[k][0] for k, _ in self.measurements.members]
        for level in self.samples:
            here = np.array([at == level for at in places])
            found, by = self._of_level(level, precision[here])
            f += found
            slopes[:, here] += by
        return f, slopes

    def _of_level(self, level: str, precision: Array) -> tuple[Array, Array]:
        seen = self._seen.setdefault(level, {})
        key = precision.tobytes()
        if key not in seen:
            names = [
                q for k, q in self.measurements.members if self.measurements.places[k][0] == level
            ]
            rho = dict(zip(names, precision.tolist(), strict=True))
            parts = [self._of_unit(unit, rho, names) for unit in self.samples[level]]
            while len(seen) >= _KEPT:
                seen.pop(next(iter(seen)))
            f, slopes = zip(*parts, strict=True)
            seen[key] = np.sum(f, axis=0), np.sum(slopes, axis=0)
        return seen[key]

    def _of_unit(
        self, unit: SampledUnit, rho: Mapping[str, float], names: Sequence[str]
    ) -> tuple[Array, Array]:
        n = len(self.estimands)
        f, slopes = np.zeros(n), np.zeros((n, len(names)))
        for one in unit.passes:
            found, by = one.variances({q: rho[q] for q in one.index if q in rho})
            f += np.bincount(unit.group, unit.weight * found, n)
            for q, slope in by.items():
                slopes[:, names.index(q)] += np.bincount(unit.group, unit.weight * slope, n)
        return f, slopes
