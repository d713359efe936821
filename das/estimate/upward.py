r"""What is measured below a unit, used for it: of sparse measurements, in the place of those of the
unit alone.

Estimation goes down: a unit's answers :math:`Q h_u` are estimated from its own measurement, and
those of its descendants are not looked at. But each of them is a measurement of a part of it. In an
*upward* pass the measurement :math:`m_u` of variance :math:`\sigma_u^2` is replaced by

.. math:: z_u = v_u \Bigl(\frac{m_u}{\sigma_u^2} + \frac{\sum_c z_c}{\sum_c v_c}\Bigr), \qquad
          \frac1{v_u} = \frac1{\sigma_u^2} + \frac1{\sum_c v_c},

over the children c of u, from the lowest level up (there :math:`z = m`). Whoever then goes down
with z and v in the place of m and :math:`\sigma^2` has, of one query on a tree without bounds, the
least squares of all measurements of the tree at once: z is the best linear estimate of :math:`Qh_u`
from the subtree of u, siblings' subtrees share no noise, and given the parent nothing outside of it
tells more. (With bounds and several queries it is no longer that exactly; variances are.)

Two parts of that are done:

* an *only child* is its parent, for every query: what is asked of the parent is asked of the child
  as well, cell by cell. Nothing more is looked at, and nothing that was paid for is wasted;
* of queries with few answers (``most``), all units: that looks at all their answers, of all levels.
  Of queries with many it would look at each of their answers in each unit, which is what nobody can
  store.

The law of what is used is that of a full measurement, as of any that is asked for in an order that
follows from what was published (:mod:`das.noise.coordinates`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Upward:
    """A source of real numbers, with their variances, in the place of the ``source`` of
    measurements. Of queries with at most ``most`` answers all descendants count, of others only
    children. All levels have the same queries."""

    def __init__(self, source: SparseSource, spine: Spine, most: int = 0) -> None:
        self._source, self._spine, self._most = source, spine, most
        self.queries, self.shape = source.queries, source.shape
        self._variances: dict[tuple[str, str], Floats] = {}
        self._dense: dict[tuple[str, str], Floats] = {}

    def variance(self, level: str, query: str) -> Floats:
        key = level, query
        if key not in self._variances:
            own = self._source.variance(level, query)
            below = self._below(level)
            if below is not None:
                starts, inner = self._spine.children(below), self.variance(below, query)
                sums = np.add.reduceat(inner, starts[:-1])
                if not self._all(level, query):
                    sums[np.diff(starts) > 1] = np.inf
                own = 1 / (1 / own + 1 / sums)
            self._variances[key] = own
        return self._variances[key]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> NDArray[Any]:
        """Of coordinates the best that is known, ``(n,)``. Raises as the source does."""
        if self._all(level, query):
            return self._table(level, query)[units, cells]
        own = self._source.answers(level, query, units, cells)
        below = self._below(level)
        if below is None:
            return own
        starts = self._spine.children(below)
        only = np.diff(starts)[units] == 1
        if not only.any():
            return own
        out = own.astype(float)
        lower = self.answers(below, query, starts[:-1][units[only]], cells[only])
        weight = (
            self.variance(level, query)[units[only]]
            / self._source.variance(level, query)[units[only]]
        )
        out[only] = weight * out[only] + (1 - weight) * lower
        return out

    def _below(self, level: str) -> str | None:
        depth = self._spine.index(level) + 1
        return self._spine.levels[depth] if depth < len(self._spine) else None

    def _all(self, level: str, query: str) -> bool:
        return self.shape(level, query)[1] <= self._most

    def _table(self, level: str, query: str) -> Floats:
        """All answers of a level, ``(units, answers)``."""
        key = level, query
        if key not in self._dense:
            units, answers = self.shape(level, query)
            at = np.arange(units * answers)
            out = (
                self._source.answers(level, query, *np.divmod(at, answers))
                .reshape(units, answers)
                .astype(float)
            )
            below = self._below(level)
            if below is not None:
                sums = np.add.reduceat(
                    self._table(below, query), self._spine.children(below)[:-1], axis=0
                )
                weight = (self.variance(level, query) / self._source.variance(level, query))[
                    :, None
                ]
                out = weight * out + (1 - weight) * sums
            self._dense[key] = out
        return self._dense[key]
