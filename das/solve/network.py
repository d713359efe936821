r"""Controlled rounding of siblings as a minimum-cost flow.

Given fractional :math:`x` (children x cells) with :math:`\sum_c x_c = p` integer, find integers
:math:`n_{ck} \in \{\lfloor x_{ck} \rfloor, \lceil x_{ck} \rceil\}`, :math:`\sum_c n_c = p`, that
minimize

.. math:: \sum_{c,k} |n_{ck} - x_{ck}| + \sum_j w_j \sum_{c,g} \Bigl|\sum_{k \in g} (n_{ck} - x_{ck})\Bigr|

over a *chain* of partitions :math:`j` of the cells, each coarser than the one before, with bounds
on the sums of each; and, where the totals of several children together are known, :math:`\sum_{c
\in s} 1'n_c = T_s`.

*Why a network.* The parent's cells are one laminar family, the chain within each child another; so
the constraint matrix is that of a flow from parent cells, through ever coarser groups of each
child, to a sink. A part :math:`s` of the children is one more node, which all that its children
hold flows into: the second family stays laminar. Each term is convex and piecewise linear with
integer breakpoints, hence parallel arcs of increasing cost. A minimum-cost flow of integer
capacities is integral: the optimum is exact, no branching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError, SolverError
from das.model.solution import Solution, Status
from das.solve.layout import grouped
from das.solve.partitions import Parts

# What constrains a rounding besides its parent: nested sums within each child, and what is below
# the children.

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Link:
    """One partition of the chain: ``group`` ``(cells,)``; bounds of its sums ``(children,
    groups)``; weight."""

    group: NDArray[np.intp]
    lower: Ints | None = None
    upper: Ints | None = None
    weight: float = 1.0

    @cached_property
    def groups(self) -> int:
        return int(self.group.max(initial=0)) + 1 if self.upper is None else self.upper.shape[1]

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums of ``values`` ``(children, cells)`` over the groups: ``(children, groups)``."""
        return grouped(values, self.group, self.groups).astype(values.dtype, copy=False)

    def home(self, coarse: Link) -> NDArray[np.intp]:
        """The group of ``coarse`` that contains each group."""
        out = np.zeros(self.groups, dtype=np.intp)
        out[self.group] = coarse.group
        if not np.array_equal(out[self.group], coarse.group):
            raise ValueError(
                "the chain is not laminar: a group of one link straddles two groups of the next"
            )
        return out


@dataclass(frozen=True, eq=False)
class Drains:
    """What is below a child and must be fillable from it: its descendants with known totals.

    The last link's groups of child ``c`` flow into the descendants ``d`` with ``child[d] = c``. A
    descendant takes at least ``lower[d, g]`` and at most ``upper[d, g]`` of group ``g``, and
    exactly ``total[d]`` in all."""

    child: NDArray[np.intp]
    lower: Ints
    upper: Ints
    total: Ints


# Minimum-cost flows with lower bounds, in integers: what the roundings and the failsafe are made
# of.

Array = NDArray[np.float64]

#: Meeting a lower bound outweighs any sum of costs.
FORCE = 1 << 34


class Flow:
    """Arcs, in the order in which they are added, and then the flow on each."""

    def __init__(self) -> None:
        self.tail: list[Ints] = []
        self.head: list[Ints] = []
        self.capacity: list[Ints] = []
        self.cost: list[Ints] = []

    def add(self, tail: Ints, head: Ints, capacity: Ints, cost: NDArray[np.generic]) -> None:
        """Arcs ``tail -> head``; ``cost`` of each unit, rounded to an integer."""
        for kept, new in (
            (self.tail, tail),
            (self.head, head),
            (self.capacity, capacity),
            (self.cost, np.rint(cost)),
        ):
            kept.append(np.asarray(new, dtype=np.int64))

    def some(self, tail: Ints, head: Ints, capacity: Ints, cost: Array) -> None:
        """Those of the arcs that can carry anything."""
        keep = capacity > 0
        if keep.any():
            self.add(tail[keep], head[keep], capacity[keep], cost[keep])

    def bounded(self, tail: Ints, head: Ints, lower: Ints, upper: Ints) -> None:
        """Arcs without cost that carry at least ``lower``."""
        free = np.zeros(len(tail))
        self.some(tail, head, lower, free - FORCE)
        self.some(tail, head, upper - lower, free)

    def solve(self, supply: Ints, sink: int) -> Ints | None:
        """The cheapest flow of all ``supply`` ``(nodes,)`` into the ``sink``: that of each arc, or
        ``None`` where there is none that keeps the lower bounds."""
        tail, head, capacity, cost = (
            np.concatenate(a) if a else np.zeros(0, dtype=np.int64)
            for a in (self.tail, self.head, self.capacity, self.cost)
        )
        forced = cost <= -FORCE // 2
        if not supply.any():
            return np.zeros(len(tail), dtype=np.int64) if not forced.any() else None
        from ortools.graph.python import min_cost_flow  # slow to load

        flow = min_cost_flow.SimpleMinCostFlow()
        flow.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
        flow.set_nodes_supplies(np.arange(len(supply)), supply)
        flow.set_node_supply(sink, -int(supply.sum()))
        status = flow.solve()
        if status == flow.INFEASIBLE:
            return None
        if status != flow.OPTIMAL:
            raise SolverError(
                f"the flow solver ended with status {status}", where="minimum-cost flow"
            )
        flows: Ints = flow.flows(np.arange(len(tail)))
        return None if (flows[forced] < capacity[forced]).any() else flows


_UNIT = 1 << 12  # one person in the objective
_FAR = 1 << 18  # a step beyond floor and ceiling is worth many roundings
_MANY = np.int64(1) << 40  # no limit
_SNAP = 1e-6  # closer than this to an integer counts as that integer


def round_children(
    x: Array,
    parent: Ints | None,
    *,
    chain: Sequence[Link | NDArray[np.intp]] | None = None,
    drains: Drains | None = None,
    total: int | None = None,
    parts: NDArray[np.intp] | None = None,
    totals: Ints | None = None,
    cell_weight: float = 1.0,
    integer_targets: bool = False,
    price: Array | None = None,
) -> Solution:
    """Round ``x`` ``(children, cells)`` to int64 with column sums exactly ``parent``.

    ``chain`` runs from fine to coarse: links, or plain partitions ``(cells,)``; the default is
    none. Without a ``parent`` (the root), ``total`` is the sum of everything. With ``drains`` the
    result is one that the descendants can share out. With ``parts`` ``(children,)`` (-1: none) and
    ``totals`` ``(parts,)`` the children of a part hold its total together. If no floors and
    ceilings satisfy the bounds, the status is ``WIDENED`` and the result the nearest that does; if
    nothing does, :class:`InfeasibleError`.

    ``cell_weight`` weighs the first sum of the objective. With ``integer_targets`` every term
    compares with the fractional part's sum *rounded half to even* in place of the sum itself: the
    Bureau's objective of 2020. ``price`` ``(children, cells)`` is added to the cost of rounding a
    cell up."""
    began = perf_counter()
    links = tuple(c if isinstance(c, Link) else Link(np.asarray(c)) for c in chain or ())
    if drains is not None and not links:
        raise ValueError("drains need a chain, whose last link flows into them")
    joint = Parts.checked(parts, totals, len(x))
    if drains is not None and len(joint):
        raise ValueError("with drains, totals are those of the drains")
    x = np.asarray(x, dtype=float)
    for widen, status in ((False, Status.OPTIMAL), (True, Status.WIDENED)):
        n = _Network(
            x, parent, links, drains, joint, total, widen, cell_weight, integer_targets, price
        ).solve()
        if n is not None:
            return Solution(
                n, status, 0.0, float(np.abs(n - x).max(initial=0.0)), 1, perf_counter() - began
            )
    raise InfeasibleError("no integers satisfy the bounds", where="round_children")


class _Network:
    """One flow problem. ``widen`` lets a count leave its floor and ceiling, at a price.

    Nodes: the parent's cells (or one source); for each link in turn a node for each child and
    group; then the drains or parts, if any; then the sink. What the floors already carry (``base``)
    does not flow through cells: it only counts towards bounds, and where there are drains it enters
    at the last link."""

    def __init__(
        self,
        x: Array,
        parent: Ints | None,
        chain: tuple[Link, ...],
        drains: Drains | None,
        parts: Parts,
        total: int | None,
        widen: bool,
        cell_weight: float,
        integer_targets: bool,
        price: Array | None,
    ) -> None:
        self.children, self.cells = x.shape
        self.floor = np.floor(x + _SNAP).astype(np.int64)
        self.fraction = np.where(x - self.floor <= _SNAP, 0.0, x - self.floor)
        self.base = np.zeros_like(self.floor) if widen else self.floor
        self.rest = self.fraction + (self.floor if widen else 0)
        self.widen, self.drains, self.parts = widen, drains, parts
        self.cell_weight, self.aim = cell_weight, np.rint if integer_targets else np.asarray
        self.price = price
        # last come the nodes that feed the drains; without drains, one node for each child
        self.links = (
            *chain,
            (
                chain[-1]
                if drains is not None
                else Link(np.zeros(self.cells, dtype=np.intp), weight=0.0)
            ),
        )
        if parent is not None:
            self.supply = np.asarray(parent, dtype=np.int64) - self.base.sum(axis=0)
        elif total is not None:
            self.supply = np.array([total - self.base.sum()], dtype=np.int64)
        else:
            raise ValueError("without a parent, the total must be given")
        self.source = (
            np.arange(self.cells) if parent is not None else np.zeros(self.cells, dtype=np.int64)
        )
        self.flow = Flow()

    def solve(self) -> Ints | None:
        """The integers, or ``None`` where no flow meets the bounds."""
        if (self.supply < 0).any():
            return None
        child, cell = self._leaves()
        links = self.links if self.drains is None else self.links[:-1]
        node = len(self.supply) + self.children * sum(link.groups for link in links)
        if not self._chain(links):
            return None
        demand, extra = int(self.supply.sum()), np.zeros(0, dtype=np.int64)
        sink = node
        if len(self.parts):
            sink = node + len(self.parts)
            if not self._join(node):
                return None
        if self.drains is not None:
            sink, extra = self._drain(node, self.drains)
            demand += int(extra.sum())
            if (
                demand != self.drains.total.sum()
            ):  # with equal sums, no total can be exceeded unless one is missed
                return None
        between = np.zeros(node - len(self.supply), dtype=np.int64)
        flows = self.flow.solve(np.concatenate([self.supply, between, extra]), sink)
        if flows is None:
            return None
        out = self.base.copy()
        out[child, cell] += (
            flows[: self.leaves].reshape(3 if self.widen else 1, len(child)).sum(axis=0)
        )
        return out

    # --- arcs

    def _leaves(self) -> tuple[Ints, Ints]:
        """Arcs from the parent's cells into the first link's groups: the first arcs of the network.

        There is one for the rounding unit of each fraction. A widened network has three for each
        cell that can be positive: for its rounding unit, for what is below its floor, and for what
        is above its ceiling."""
        child, cell = np.nonzero(self._may_hold() if self.widen else self.fraction > 0)
        first = self.links[0]
        tail = self.source[cell]
        head = len(self.supply) + child * first.groups + first.group[cell]
        one = np.ones(len(tail), dtype=np.int64)
        if self.widen:
            self.flow.add(tail, head, self.floor[child, cell], -_FAR * one)
        up = self.cell_weight * (1 - 2 * self.aim(self.fraction[child, cell]))
        if self.price is not None:
            up = up + self.price[child, cell]
        self.flow.add(tail, head, one, _UNIT * up)
        if self.widen:
            self.flow.add(tail, head, one * _MANY, _FAR * one)
        self.leaves = sum(len(t) for t in self.flow.tail)
        return child, cell

    def _may_hold(self) -> NDArray[np.bool_]:
        out = np.ones((self.children, self.cells), dtype=bool)
        for link in self.links:
            if link.upper is not None:
                out &= link.upper[:, link.group] > 0
        return out

    def _chain(self, links: Sequence[Link]) -> bool:
        """Arcs from each link's groups to those of the next, or to the sink. False if its bounds
        cannot hold."""
        node, found = len(self.supply), []
        for j, link in enumerate(links):
            held = link.sums(self.base)
            upper = np.full(held.shape, _MANY) if link.upper is None else link.upper - held
            lower = np.zeros_like(upper) if link.lower is None else np.maximum(link.lower - held, 0)
            there = np.full(held.shape, node + held.size)
            if j + 1 < len(self.links):
                after = self.links[j + 1]
                there += (
                    np.arange(self.children)[:, None] * after.groups + link.home(after)[None, :]
                )
            else:  # a child flows into its part or, in none, into the sink that follows them
                there += np.where(self.parts.bound, self.parts.part, len(self.parts))[:, None]
            slope = np.full(held.shape, link.weight * _UNIT)
            found.append(
                (np.full(held.shape, j), there, self.aim(link.sums(self.rest)), slope, lower, upper)
            )
            node += held.size
        link_of, head, target, slope, lower, upper = (
            np.concatenate([a.ravel() for a in each]) for each in zip(*found, strict=True)
        )
        if (upper < lower).any():
            return False
        self._convex(link_of, head, target, slope, lower, upper)
        return True

    def _convex(
        self, link: Ints, head: Ints, target: Array, slope: Array, lower: Ints, upper: Ints
    ) -> None:
        """From each node of the links an arc whose flow s costs ``slope * |s - target|``, with
        lower <= s <= upper (lower by force)."""
        base = np.floor(target).astype(np.int64)
        # the units 1..base have slope -1, unit base + 1 has 1 - 2f, and those beyond have +1
        cost = np.stack([-slope, slope * (1 - 2 * (target - base)), slope])
        end = np.maximum.accumulate(
            np.maximum(np.minimum(np.stack([base, base + 1, upper]), upper), 0)
        )
        begin = np.concatenate([np.zeros_like(end[:1]), end[:-1]])
        forced = np.maximum(np.minimum(end, lower) - begin, 0)
        capacity = np.stack([forced, end - begin - forced], axis=1).reshape(6, -1)
        costs = np.stack([cost - FORCE, cost], axis=1).reshape(6, -1)
        kind, node = np.nonzero(capacity)
        order = np.argsort(link[node], kind="stable")  # link by link
        kind, node = kind[order], node[order]
        self.flow.add(len(self.supply) + node, head[node], capacity[kind, node], costs[kind, node])

    def _join(self, node: int) -> bool:
        """Parts into the sink, each exactly its total. False if the floors are more than that."""
        want = self.parts.total - self.parts.sums(self.base.sum(axis=1))
        number = np.arange(len(want))
        self.flow.bounded(node + number, np.full_like(number, node + len(want)), want, want)
        return bool((want >= 0).all())

    def _drain(self, node: int, drains: Drains) -> tuple[int, Ints]:
        """Groups of each child into its descendants, each to its exact total: the sink, and what
        enters here."""
        groups, n = drains.lower.shape[1], len(drains.total)
        held = self.links[-1].sums(self.base).ravel()
        first = node + len(held)
        d, g = np.repeat(np.arange(n), groups), np.tile(np.arange(groups), n)
        tail, head = node + drains.child[d] * groups + g, first + d
        low, high = drains.lower[d, g], np.minimum(drains.upper[d, g], drains.total[d])
        self.flow.bounded(tail, head, low, high)
        self.flow.some(first + np.arange(n), np.full(n, first + n), drains.total, np.zeros(n))
        return first + n, held
