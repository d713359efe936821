r"""A tree known only by its numbers of units: every unit of a level has the same number of
children, and the same content as the others. Then everything has a closed form.

Level l has :math:`n_l` units, :math:`D_l = N/n_l` of the N lowest ones below each. Consider vectors
over the lowest units that are constant within the units of level g and sum to zero within those of
level g - 1. They are the contrast g, of rank :math:`r_g = n_g - n_{g-1}` (:math:`r_0 = 1`). On it
the precisions of all levels :math:`j \ge g` add up; the levels above contribute nothing:

.. math:: \Lambda_g = \sum_{j \ge g} D_j \sum_q p_{jq} Q'Q, \qquad
          V_l = \frac{1}{n_l} \sum_{g \le l} r_g D_l\,\Lambda_g^{-1}, \qquad
          f_{lq} = \frac{1}{n_q} \mathrm{tr}\,Q V_l Q' ,

with :math:`n_q` answers that are possible.

Where totals are known down to level s, the inverses of :math:`g \le s` are those on the vectors
that sum to zero, :math:`C - C11'C/1'C1`. All matrices are those of :mod:`das.estimate.information`: 2
x 2 for households of the redistricting schema. :math:`d\Lambda^{-1} = -\Lambda^{-1}
d\Lambda\,\Lambda^{-1}` gives the gradient.

Source: the closed form is checked in ``tests/design`` against dense least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.design.model import Choices, Estimand, check_told, given_total, inverse
from das.estimate.information import Contrasts
from das.model.schema import Schema

Array = NDArray[np.float64]
#: What is below this is rounding error, in sums relative to that of the absolute values.
_NONE = 1e-13


@dataclass(frozen=True, eq=False)
class Homogeneous:
    """``units`` of each level, root first; ``known``: the number of the lowest level whose totals
    are known, -1 for none. ``dense`` ``(d,)``: the levels of the dense axes that somebody may be
    in, such as households alone."""

    schema: Schema
    levels: tuple[str, ...]
    units: tuple[int, ...]
    measurements: Choices
    estimands: tuple[Estimand, ...]
    known: int
    contrasts: Contrasts
    dense: NDArray[np.bool_]

    @staticmethod
    def for_schema(
        schema: Schema,
        levels: Sequence[str],
        units: Sequence[int],
        measurements: Choices,
        estimands: Sequence[Estimand],
        known: int,
    ) -> Homogeneous:
        """A model for people in households, if the schema has dwellings: hardly anybody lives
        elsewhere."""
        queries = [schema.query(q) for q in dict.fromkeys(q for _, q in measurements.pairs)]
        contrasts = Contrasts.for_queries(
            schema, [*queries, *(schema.query(a.query) for a in estimands)]
        )
        possible = schema.possible
        if schema.dwelling is not None:
            possible = possible & (schema.level_of(schema.dwelling) == 0)
        return Homogeneous(
            schema,
            tuple(levels),
            tuple(units),
            measurements,
            tuple(estimands),
            known,
            contrasts,
            contrasts.dense_of(possible).astype(bool),
        )

    def _gram(self, query: str) -> Array:
        """Q'Q, ``(contrasts, d, d)``."""
        return self.contrasts.query(self.schema.query(query))[:, self.dense][:, :, self.dense]

    @cached_property
    def _measurements(self) -> tuple[NDArray[np.intp], Array]:
        """For each class measurement the number of its level, and Q'Q."""
        level = np.array(
            [
                self.levels.index(self.measurements.places[k][0])
                for k, _ in self.measurements.members
            ],
            dtype=np.intp,
        )
        return level, np.array([self._gram(q) for _, q in self.measurements.members])

    @cached_property
    def _asked(self) -> tuple[NDArray[np.intp], Array]:
        """For each estimand the number of its level, and the matrix whose trace with V is its
        variance."""
        level = np.array([self.levels.index(a.place) for a in self.estimands], dtype=np.intp)
        of = [self._gram(a.query) / self.answers(a.query) for a in self.estimands]
        return level, np.array(of) * self.contrasts.multiplicity[:, None, None]

    def answers(self, query: str) -> int:
        """Those that somebody can give."""
        return len(np.unique(self.contrasts.answers(self.schema.query(query))[self.dense]))

    @cached_property
    def _shape(self) -> tuple[Array, Array]:
        """D_j [j >= g], and r_g D_l/n_l [g <= l], both ``(levels g, levels)``."""
        n = np.array(self.units, dtype=float)
        rank = np.diff(n, prepend=0.0)
        depth = n[-1] / n
        lower = np.arange(len(n))[:, None] <= np.arange(len(n))[None, :]
        return np.where(lower, depth[None, :], 0.0), np.where(
            lower, rank[:, None] * (depth / n)[None, :], 0.0
        )

    def _inverse(self, precision: Array) -> Array:
        """The inverse for each contrast, ``(levels, contrasts, d, d)``."""
        level, gram = self._measurements
        own = np.zeros((len(self.levels), *gram.shape[1:]))
        np.add.at(own, level, precision[:, None, None, None] * gram)
        summed = np.tensordot(self._shape[0], own, axes=1)
        c = inverse(summed)
        check_told(summed[-1], c[-1])
        if self.known >= 0:
            c[: self.known + 1, 0] = given_total(c[: self.known + 1, 0])
        return c

    def variances(self, precision: Array) -> Array:
        return self._variances(self._inverse(precision))

    def _variances(self, inverse: Array) -> Array:
        level, asked = self._asked
        v = np.tensordot(self._shape[1].T, inverse, axes=1)
        f = np.einsum("amij,amij->a", asked, v[level])
        return np.where(f > _NONE * np.einsum("amij,amij->a", asked, np.abs(v[level])), f, 0.0)

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        c = self._inverse(precision)
        f = self._variances(c)
        return f, self._slope(c, f, weight)

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        c = self._inverse(precision)
        f = self._variances(c)
        out = [self._slope(c, f, weight) for weight in weights]
        tick()
        return f, np.array(out)

    def _slope(self, c: Array, f: Array, weight: Array) -> Array:
        level, asked = self._asked
        each = np.divide(weight, f, out=np.zeros_like(f), where=f > 0)
        some = each > 0
        bar = np.zeros((len(self.levels), *asked.shape[1:]))
        np.add.at(bar, level[some], each[some, None, None, None] * asked[some])
        inner = c @ np.tensordot(self._shape[1], bar, axes=1) @ c
        by_level = np.tensordot(self._shape[0].T, inner, axes=1)
        at, gram = self._measurements
        return np.asarray(np.einsum("imab,imab->i", gram, by_level[at]))
