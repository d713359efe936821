r"""Controlled rounding of siblings as a minimum-cost flow.

Given fractional :math:`x` (children x cells) with :math:`\sum_c x_c = p` integer, find integers
:math:`n_{ck} \in \{\lfloor x_{ck} \rfloor, \lceil x_{ck} \rceil\}`, :math:`\sum_c n_c = p`, that minimise

.. math:: \sum_{c,k} |n_{ck} - x_{ck}| + \sum_j w_j \sum_{c,g} \Bigl|\sum_{k \in g} (n_{ck} - x_{ck})\Bigr|

over a *chain* of partitions :math:`j` of the cells, each coarser than the one before, with bounds on the
sums of each.

*Why a network.* The parent's cells are one laminar family, the chain within each child another; so the
constraint matrix is that of a flow from parent cells, through ever coarser groups of each child, to a
sink. Each term is convex and piecewise linear with integer breakpoints, hence parallel arcs of increasing
cost. A minimum-cost flow of integer capacities is integral: the optimum is exact, no branching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ortools.graph.python import min_cost_flow

from das.errors import InfeasibleError, SolverError
from das.model.solution import Solution, Status

Ints = NDArray[np.int64]
Array = NDArray[np.float64]

_UNIT = 1 << 12  # one person in the objective
_FORCE = 1 << 34  # meeting a lower bound outweighs any sum of roundings
_FAR = 1 << 18  # a step beyond floor and ceiling is worth many roundings
_MANY = np.int64(1) << 40  # no limit
_SNAP = 1e-6  # closer than this to an integer counts as that integer


@dataclass(frozen=True)
class Link:
    """One partition of the chain: ``group`` ``(cells,)``; bounds of its sums ``(children, groups)``; weight."""

    group: NDArray[np.intp]
    lower: Ints | None = None
    upper: Ints | None = None
    weight: float = 1.0

    @property
    def groups(self) -> int:
        return int(self.group.max(initial=0)) + 1 if self.upper is None else self.upper.shape[1]


@dataclass(frozen=True)
class Drains:
    """What lies below a child and must be fillable from it: its descendants with known totals.

    The last link's groups of child ``c`` flow into the descendants ``d`` with ``child[d] = c``, at least
    ``lower[d, g]`` and at most ``upper[d, g]`` of group ``g``, to a total of exactly ``total[d]``.
    """

    child: NDArray[np.intp]
    lower: Ints
    upper: Ints
    total: Ints


def round_children(
    x: Array,
    parent: Ints | None,
    *,
    chain: Sequence[Link | NDArray[np.intp]] | None = None,
    drains: Drains | None = None,
    total: int | None = None,
    cell_weight: float = 1.0,
    integer_targets: bool = False,
) -> Solution:
    """Round ``x`` ``(children, cells)`` to int64 with column sums exactly ``parent``.

    ``chain`` runs from fine to coarse: links, or plain partitions ``(cells,)``; the default is none. Without a
    ``parent`` (the root), ``total`` is the sum of everything. With ``drains`` the result is one that the
    descendants can share out. If no floors and ceilings satisfy the bounds, the status is ``WIDENED`` and the
    result the nearest that does; if nothing does, :class:`InfeasibleError`.

    ``cell_weight`` weighs the first sum of the objective. With ``integer_targets`` every term compares with the
    fractional part's sum *rounded half to even* in place of the sum itself: the Bureau's objective of 2020.
    """
    began = perf_counter()
    links = tuple(c if isinstance(c, Link) else Link(np.asarray(c)) for c in chain or ())
    if drains is not None and not links:
        raise ValueError("drains need a chain, whose last link flows into them")
    x = np.asarray(x, dtype=float)
    for widen, status in ((False, Status.OPTIMAL), (True, Status.WIDENED)):
        n = _Network(x, parent, links, drains, total, widen, cell_weight, integer_targets).solve()
        if n is not None:
            return Solution(n, status, 0.0, float(np.abs(n - x).max(initial=0.0)), 1, perf_counter() - began)
    raise InfeasibleError("no integers satisfy the bounds", where="round_children")


class _Network:
    """One flow problem. ``widen`` lets a count leave its floor and ceiling, at a price.

    Nodes: the parent's cells (or one source); for each link in turn a node for each child and group; then
    the drains, if any; then the sink. What the floors already carry (``base``) does not flow through cells:
    it only counts towards bounds, and where there are drains it enters at the last link.
    """

    def __init__(
        self,
        x: Array,
        parent: Ints | None,
        chain: tuple[Link, ...],
        drains: Drains | None,
        total: int | None,
        widen: bool,
        cell_weight: float,
        integer_targets: bool,
    ) -> None:
        self.children, self.cells = x.shape
        self.floor = np.floor(x + _SNAP).astype(np.int64)
        self.fraction = np.where(x - self.floor <= _SNAP, 0.0, x - self.floor)
        self.base = np.zeros_like(self.floor) if widen else self.floor
        self.rest = self.fraction + (self.floor if widen else 0)
        self.widen, self.drains = widen, drains
        self.cell_weight, self.aim = cell_weight, np.rint if integer_targets else np.asarray
        # last come the nodes that feed the drains; without drains, one node for each child
        self.links = (
            *chain,
            chain[-1] if drains is not None else Link(np.zeros(self.cells, dtype=np.intp), weight=0.0),
        )
        if parent is not None:
            self.supply = np.asarray(parent, dtype=np.int64) - self.base.sum(axis=0)
        elif total is not None:
            self.supply = np.array([total - self.base.sum()], dtype=np.int64)
        else:
            raise ValueError("without a parent, the total must be given")
        self.source = np.arange(self.cells) if parent is not None else np.zeros(self.cells, dtype=np.int64)
        self.tail: list[Ints] = []
        self.head: list[Ints] = []
        self.capacity: list[Ints] = []
        self.cost: list[Ints] = []

    def solve(self) -> Ints | None:
        """The integers, or ``None`` where no flow meets the bounds."""
        if (self.supply < 0).any():
            return None
        child, cell = self._leaves()
        node = len(self.supply)
        last = len(self.links) - 1
        for j, link in enumerate(self.links):
            if j == last and self.drains is not None:
                break
            if not self._link(node, link, None if j == last else self.links[j + 1]):
                return None
            node += self.children * link.groups
        demand, extra = int(self.supply.sum()), np.zeros(0, dtype=np.int64)
        sink = node
        if self.drains is not None:
            sink, extra = self._drain(node, self.drains)
            demand += int(extra.sum())
            if demand != self.drains.total.sum():  # with equal sums, no total can be exceeded unless one is missed
                return None
        flows = self._flows(
            np.concatenate([self.supply, np.zeros(node - len(self.supply), dtype=np.int64), extra]), sink, demand
        )
        if flows is None:
            return None
        out = self.base.copy()
        out[child, cell] += flows[: self.leaves].reshape(3 if self.widen else 1, len(child)).sum(axis=0)
        return out

    # --- arcs --------------------------------------------------------------------------------------------------

    def _add(self, tail: Ints, head: Ints, capacity: Ints, cost: NDArray[np.generic]) -> None:
        for kept, new in ((self.tail, tail), (self.head, head), (self.capacity, capacity), (self.cost, np.rint(cost))):
            kept.append(np.asarray(new, dtype=np.int64))

    def _leaves(self) -> tuple[Ints, Ints]:
        """Arcs from the parent's cells into the first link's groups: the first arcs of the network.

        One for the rounding unit of each fraction. When widened, of each cell that may be positive, beside
        one for what is below its floor and one for what is above its ceiling.
        """
        child, cell = np.nonzero(self._may_hold() if self.widen else self.fraction > 0)
        first = self.links[0]
        tail = self.source[cell]
        head = len(self.supply) + child * first.groups + first.group[cell]
        one = np.ones(len(tail), dtype=np.int64)
        if self.widen:
            self._add(tail, head, self.floor[child, cell], -_FAR * one)
        self._add(tail, head, one, self.cell_weight * _UNIT * (1 - 2 * self.aim(self.fraction[child, cell])))
        if self.widen:
            self._add(tail, head, one * _MANY, _FAR * one)
        self.leaves = sum(len(t) for t in self.tail)
        return child, cell

    def _may_hold(self) -> NDArray[np.bool_]:
        out = np.ones((self.children, self.cells), dtype=bool)
        for link in self.links:
            if link.upper is not None:
                out &= link.upper[:, link.group] > 0
        return out

    def _link(self, node: int, link: Link, after: Link | None) -> bool:
        """Arcs from a link's groups to those of the next, or to the sink. False if its bounds cannot hold."""
        held = _sums(self.base, link)
        upper = np.full(held.shape, _MANY) if link.upper is None else link.upper - held
        lower = np.zeros_like(upper) if link.lower is None else np.maximum(link.lower - held, 0)
        if (upper < lower).any():
            return False
        here = node + np.arange(held.size).reshape(held.shape)
        there = np.full_like(here, node + held.size)
        if after is not None:
            there += np.arange(self.children)[:, None] * after.groups + _home(link, after)[None, :]
        self._convex(
            here.ravel(),
            there.ravel(),
            self.aim(_sums(self.rest, link)).ravel(),
            link.weight,
            lower.ravel(),
            upper.ravel(),
        )
        return True

    def _convex(self, tail: Ints, head: Ints, target: Array, weight: float, lower: Ints, upper: Ints) -> None:
        """Arcs whose flow s costs ``weight * |s - target|``, with lower <= s <= upper (lower by force)."""
        base = np.floor(target).astype(np.int64)
        slope = weight * _UNIT
        begin = np.zeros_like(base)
        # the units 1..base have slope -1, unit base + 1 has 1 - 2f, and those beyond have +1
        for end, cost in ((base, np.full(len(base), -slope)), (base + 1, slope * (1 - 2 * (target - base))),
                          (upper, np.full(len(base), slope))):  # fmt: skip
            end = np.maximum(np.minimum(end, upper), begin)
            forced = np.clip(np.minimum(end, lower) - begin, 0, None)
            self._some(tail, head, forced, cost - _FORCE)
            self._some(tail, head, end - begin - forced, cost)
            begin = end

    def _some(self, tail: Ints, head: Ints, capacity: Ints, cost: Array) -> None:
        keep = capacity > 0
        if keep.any():
            self._add(tail[keep], head[keep], capacity[keep], cost[keep])

    def _drain(self, node: int, drains: Drains) -> tuple[int, Ints]:
        """Groups of each child into its descendants, each to its exact total: the sink, and what enters here."""
        groups, n = drains.lower.shape[1], len(drains.total)
        held = _sums(self.base, self.links[-1]).ravel()
        first = node + len(held)
        d, g = np.repeat(np.arange(n), groups), np.tile(np.arange(groups), n)
        tail, head = node + drains.child[d] * groups + g, first + d
        low, high = drains.lower[d, g], np.minimum(drains.upper[d, g], drains.total[d])
        zero = np.zeros(len(d))
        self._some(tail, head, low, zero - _FORCE)
        self._some(tail, head, high - low, zero)
        self._some(first + np.arange(n), np.full(n, first + n), drains.total, np.zeros(n))
        return first + n, held

    # --- flow --------------------------------------------------------------------------------------------------

    def _flows(self, supply: Ints, sink: int, demand: int) -> Ints | None:
        """The flow of each arc in the order in which they were added, or ``None`` where bounds cannot hold."""
        tail, head, capacity, cost = (
            np.concatenate(a) if a else np.zeros(0, dtype=np.int64)
            for a in (self.tail, self.head, self.capacity, self.cost)
        )
        forced = cost <= -_FORCE // 2
        if demand == 0:
            return np.zeros(len(tail), dtype=np.int64) if not forced.any() else None
        flow = min_cost_flow.SimpleMinCostFlow()
        flow.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
        flow.set_nodes_supplies(np.arange(len(supply)), supply)
        flow.set_node_supply(sink, -demand)
        status = flow.solve()
        if status == flow.INFEASIBLE:
            return None
        if status != flow.OPTIMAL:
            raise SolverError(f"the flow solver ended with status {status}", where="round_children")
        flows: Ints = flow.flows(np.arange(len(tail)))
        return None if (flows[forced] < capacity[forced]).any() else flows


def _sums(values: NDArray[Any], link: Link) -> NDArray[Any]:
    """Sums over the groups of a link: ``(children, groups)``."""
    out = np.zeros((link.groups, len(values)), dtype=values.dtype)
    np.add.at(out, link.group, values.T)
    return out.T


def _home(fine: Link, coarse: Link) -> NDArray[np.intp]:
    """The group of ``coarse`` that each group of ``fine`` lies in."""
    out = np.zeros(fine.groups, dtype=np.intp)
    out[fine.group] = coarse.group
    if not np.array_equal(out[fine.group], coarse.group):
        raise ValueError("the chain is not laminar: a group of one link straddles two groups of the next")
    return out
