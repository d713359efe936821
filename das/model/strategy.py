r"""Strategies: what is measured at which cost, and the outer passes in which a level is estimated.

An *outer pass* goes all the way to integers, while the passes of :mod:`das.model.passes` are parts
of one least squares. It estimates its own queries by least squares. It rounds the sums of a chain
of nested queries together, and *freezes* the finest of these: a later pass only splits the frozen
counts. Let :math:`F_1, F_2, \dots` be the frozen queries, each a sum of the next, the last being
the cells themselves. Pass :math:`i` solves

.. math:: \min_{x \ge 0} \sum_{q \in \text{pass } i} \sum_c \rho_q \|Q_q x_c - m_{qc}\|^2
          \quad\text{with}\quad \sum_c x_c = p, \quad F_{i-1} x_c = f_{i-1,c},

and :math:`f_{i,c}` are the integers to which :math:`F_i x_c` is rounded. Once a later pass can
exchange only cells of the same frozen count, it falls into one small problem for each frozen count.

Source: the Bureau's production code of 2020 (``strategies.py``: ``L2_measure_in_pass``,
``rounder``, one inner pass to each)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from das.errors import SpecError
from das.model.allocation import Allocation
from das.model.frozen import Frozen
from das.model.plan import Plan
from das.model.schema import Schema


@dataclass(frozen=True)
class OuterPass:
    """The ``queries`` of its least squares, and the ``chain`` of nested queries, fine to coarse,
    whose sums are rounded together. ``ahead``: queries of a later pass that are used here already,
    for each variable of one cell alone: no later pass can change it, or use them for it."""

    queries: tuple[str, ...]
    chain: tuple[str, ...]
    ahead: tuple[str, ...] = ()

    @property
    def frozen(self) -> str:
        """The query whose answers no later pass changes."""
        return self.chain[0]


@dataclass(frozen=True)
class Strategy(Frozen):
    """A strategy for records with the attributes of ``schema``: ``rho[level][query]`` at each
    level, root first, and the ``outer`` passes, the same at all levels. A level need not measure
    every query of the passes.

    Raises :class:`SpecError` for queries that the schema lacks, a chain that does not nest, and
    passes that do not end with the cells. Also raises it if a query is measured but not in exactly
    one pass, or in a pass but measured nowhere; and for a level that measures nothing."""

    schema: Schema
    rho: Mapping[str, Mapping[str, Fraction]]
    outer: tuple[OuterPass, ...]

    def __post_init__(self) -> None:
        where = f"strategy of schema {self.schema.name!r}"
        self._check_measured(where)
        every = [*(name for p in reversed(self.outer) for name in p.chain)]
        for fine, coarse in pairwise(map(self.schema.query, every)):
            if not coarse.sums(fine):
                raise SpecError(
                    f"{coarse.name!r} is no sum of {fine.name!r}",
                    where=where,
                    remedy="nest the rounded queries, in each pass and from pass to pass",
                )
        if not every or self.schema.query(every[0]).answers != self.schema.cells:
            raise SpecError(
                "the last pass does not end with the cells",
                where=where,
                remedy="round 'detailed' in it",
            )

    def _check_measured(self, where: str) -> None:
        used = [q for p in self.outer for q in p.queries]
        there: dict[str, str] = {}
        for level, queries in self.rho.items():
            there |= {q: level for q in queries if q not in there}
        odd = [q for q in used if used.count(q) > 1] + sorted(set(used) ^ set(there))
        odd += [
            q
            for i, p in enumerate(self.outer)
            for q in p.ahead
            if not self._is_cells(q) or q not in (x for r in self.outer[i + 1 :] for x in r.queries)
        ]
        if odd:
            at = there.get(odd[0], "any level")
            raise SpecError(
                f"{odd[0]!r} is measured at {at!r} or in a pass, and not once in both", where=where
            )
        for level, queries in self.rho.items():
            if not queries or min(queries.values()) <= 0:
                raise SpecError(
                    f"{level!r} measures nothing, or a query with a rho that is not positive",
                    where=where,
                    remedy="leave out what is not to be measured, and measure something",
                )

    def measuring(self, rho: Mapping[str, Mapping[str, Fraction]]) -> Strategy:
        """The same passes with these costs, by level and query.

        A new query joins the first pass whose frozen query tells its answers: a later pass could
        not change them. A query that no level measures leaves its pass. Raises
        :class:`SpecError`."""
        every = dict.fromkeys(q for queries in rho.values() for q in queries)
        placed = [[q for q in p.queries if q in every] for p in self.outer]
        frozen = [self.schema.query(p.frozen) for p in self.outer]
        known = {q for p in self.outer for q in p.queries}
        for name in (q for q in every if q not in known):
            query = self.schema.query(name)
            first = next((i for i, f in enumerate(frozen) if query.sums(f)), len(frozen) - 1)
            placed[first].append(name)
        passes = zip(placed, self.outer, strict=True)
        outer = tuple(replace(p, queries=tuple(names)) for names, p in passes)
        return Strategy(self.schema, rho, outer)

    def cells_first(self) -> Strategy:
        """The same measurements, and the cells' query used by all passes: where a variable is one
        cell, such as a single year of age, its answer counts before it is rounded."""
        cells = tuple(q for q in self.outer[-1].queries if self._is_cells(q))
        outer = tuple(replace(p, ahead=cells) for p in self.outer[:-1])
        return Strategy(self.schema, self.rho, (*outer, self.outer[-1]))

    def _is_cells(self, query: str) -> bool:
        return self.schema.query(query).answers == self.schema.cells

    @property
    def cost(self) -> Fraction:
        """rho of all levels."""
        return sum((r for queries in self.rho.values() for r in queries.values()), Fraction(0))

    @property
    def answers(self) -> int:
        """Numbers that are measured of a unit."""
        return sum(self.schema.query(name).answers for p in self.outer for name in p.queries)

    @property
    def allocation(self) -> Allocation:
        """The shares of :attr:`cost` by level, and in each level by query."""
        of_level = {
            level: sum(queries.values(), Fraction(0)) for level, queries in self.rho.items()
        }
        return Allocation(
            {level: rho / self.cost for level, rho in of_level.items()},
            {
                level: {q: r / of_level[level] for q, r in queries.items()}
                for level, queries in self.rho.items()
            },
        )

    def plan(self) -> Plan:
        """Discrete Gaussian noise of this cost, of bounded neighbors, on a tree where no unit is
        an only child.
        """
        shares = self.allocation
        return Plan.of_rho(self.cost, shares.levels, shares.queries)
