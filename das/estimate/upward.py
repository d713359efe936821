r"""Uses sparse measurements below a unit together with the unit's own.

Estimation goes down: a unit's answers :math:`Q h_u` are estimated from its own measurement, without
those of its descendants. But each descendant's measurement is one of a part of the unit. In an
*upward* pass the measurement :math:`m_u` with variance :math:`\sigma_u^2` is replaced by

.. math:: z_u = v_u \Bigl(\frac{m_u}{\sigma_u^2} + \frac{\sum_c z_c}{\sum_c v_c}\Bigr), \qquad
          \frac1{v_u} = \frac1{\sigma_u^2} + \frac1{\sum_c v_c},

over the children c of u, from the lowest level up (there :math:`z = m`). The descent then uses z
and v instead of m and :math:`\sigma^2`. For one query on a tree without bounds, this gives the
least squares of all measurements of the tree at once. The reasons: z is the best linear estimate of
:math:`Qh_u` from the subtree of u. Siblings' subtrees share no noise. Given the parent, nothing
outside its subtree says more. (With bounds and several queries the estimate is only approximately
that; the variances are exact.)

Two parts of this are done:

* An *only child* is its parent, for every query. Every request for the parent also requests the
  child, cell by cell. This requests no further coordinates, and wastes nothing that was paid for.
* For queries with few answers (``most``), all units are used. This requests all their answers, at
  all levels. For queries with many answers it would request each answer in each unit, which nobody
  can store.

The used answers have the distribution of a full measurement, as for any requests that depend only
on earlier answers (:mod:`das.noise.coordinates`).

If a tree is cut (:mod:`das.model.subtrees`), each part goes upward by itself. The subtrees give the
upper tree their sums for its lowest units (:class:`FromBelow`), and it requests nothing else below
the cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FromBelow(Frozen):
    r"""What the children of the lowest units of an upper tree say of them, by query: :math:`\sum_c
    v_c` as ``variance`` ``(units,)``, infinite where nothing of it is used; :math:`\sum_c z_c` as
    ``sums`` ``(units, answers)``, of queries with few answers. ``only`` ``(units,)``: the units
    with one child, whose ``answers(query, units, cells)`` are asked for one by one."""

    only: NDArray[np.bool_]
    variance: Mapping[str, Floats]
    sums: Mapping[str, Floats]
    answers: Callable[[str, Ints, Ints], NDArray[Any]]


class Upward:
    """A source of real numbers with their variances, to use instead of the ``source`` of
    measurements. For queries with at most ``most`` answers all descendants count; for other
    queries, only children alone. A query counts down to the first level without it. A level has no answers to a
    query that it does not measure. ``told``: in an upper tree, what
    its subtrees say about its lowest units."""

    def __init__(
        self, source: SparseSource, spine: Spine, most: int = 0, told: FromBelow | None = None
    ) -> None:
        self._source, self._spine, self._most, self._told = source, spine, most, told
        self.queries, self.shape = source.queries, source.shape
        self._variances: dict[tuple[str, str], Floats] = {}
        self._dense: dict[tuple[str, str], Floats] = {}

    def variance(self, level: str, query: str) -> Floats:
        key = level, query
        if key not in self._variances:
            own = self._source.variance(level, query)
            if not self._is_last(level):
                own = 1 / (1 / own + 1 / self.variance_below(level, query))
            self._variances[key] = own
        return self._variances[key]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> NDArray[Any]:
        """The best estimates at some coordinates, ``(n,)``. Raises as the source does."""
        if self.sums_all(level, query):
            return self._table(level, query)[units, cells]
        own = self._source.answers(level, query, units, cells)
        if self._is_last(level) or not (only := self.only(level)[units]).any():
            return own
        if not self._is_measured_below(level, query):
            return own
        out = own.astype(float)
        lower = self.answers_of_only(level, query, units[only], cells[only])
        weight = (
            self.variance(level, query)[units[only]]
            / self._source.variance(level, query)[units[only]]
        )
        out[only] = weight * out[only] + (1 - weight) * lower
        return out

    def sums_all(self, level: str, query: str) -> bool:
        """Whether all descendants count."""
        return self.shape(level, query)[1] <= self._most

    def only(self, level: str) -> NDArray[np.bool_]:
        """The units that have one child, ``(units,)``."""
        if (below := self._below(level)) is None:
            return self._from_subtrees.only
        return np.diff(self._spine.children(below)) == 1

    def variance_below(self, level: str, query: str) -> Floats:
        """The variance of the sum over each unit's children; infinite if it is not used."""
        if not self._is_measured_below(level, query):
            return np.full(self.shape(level, query)[0], np.inf)
        if (below := self._below(level)) is None:
            return self._from_subtrees.variance[query]
        sums = np.add.reduceat(self.variance(below, query), self._spine.children(below)[:-1])
        return sums if self.sums_all(below, query) else np.where(self.only(level), sums, np.inf)

    def sums_below(self, level: str, query: str) -> Floats:
        """The sums over the children of each unit, ``(units, answers)``."""
        if (below := self._below(level)) is None:
            return self._from_subtrees.sums[query]
        return np.add.reduceat(self._table(below, query), self._spine.children(below)[:-1], axis=0)

    def answers_of_only(self, level: str, query: str, units: Ints, cells: Ints) -> NDArray[Any]:
        """The answers of the only children of ``units``, ``(n,)``."""
        if (below := self._below(level)) is None:
            return self._from_subtrees.answers(query, units, cells)
        return self.answers(below, query, self._spine.children(below)[:-1][units], cells)

    def _is_measured_below(self, level: str, query: str) -> bool:
        below = self._below(level)
        there = self._from_subtrees.variance if below is None else self.queries(below)
        return query in there

    @property
    def _from_subtrees(self) -> FromBelow:
        if self._told is None:
            raise ValueError("nothing is below the lowest level of this tree")
        return self._told

    def _is_last(self, level: str) -> bool:
        """Whether nothing is known from below of a level."""
        return self._told is None and self._below(level) is None

    def _below(self, level: str) -> str | None:
        depth = self._spine.index(level) + 1
        return self._spine.levels[depth] if depth < len(self._spine) else None

    def _table(self, level: str, query: str) -> Floats:
        """All answers of a level, ``(units, answers)``."""
        key = level, query
        if key not in self._dense:
            units, answers = self.shape(level, query)
            at = np.arange(units * answers)
            own = self._source.answers(level, query, *np.divmod(at, answers))
            out = own.reshape(units, answers).astype(float)
            if not self._is_last(level) and self._is_measured_below(level, query):
                sums = self.sums_below(level, query)
                weight = self.variance(level, query) / self._source.variance(level, query)
                out = weight[:, None] * out + (1 - weight)[:, None] * sums
            self._dense[key] = out
        return self._dense[key]
