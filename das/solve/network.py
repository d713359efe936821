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

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError, SolverError
from das.model.solution import Solution, Status
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


def arcs(tail: Ints, head: Ints, capacity: Ints, cost: NDArray[np.generic]) -> Ints:
    """Arcs ``tail -> head``, ``(4, arcs)``; ``cost`` of each unit, rounded to an integer."""
    return np.array([tail, head, capacity, np.rint(cost)]).astype(np.int64)


class Flow:
    """Arcs, in the order in which they are added, and then the flow on each."""

    def __init__(self, *parts: Ints) -> None:
        self.parts = list(parts)

    def add(self, tail: Ints, head: Ints, capacity: Ints, cost: NDArray[np.generic]) -> None:
        """Add :func:`arcs`."""
        self.parts.append(arcs(tail, head, capacity, cost))

    def some(self, tail: Ints, head: Ints, capacity: Ints, cost: Array) -> None:
        """Add those of the arcs that can carry anything."""
        keep = capacity > 0
        if keep.any():
            self.add(tail[keep], head[keep], capacity[keep], cost[keep])

    def bounded(self, tail: Ints, head: Ints, lower: Ints, upper: Ints) -> None:
        """Add arcs without cost that carry at least ``lower``."""
        free = np.zeros(len(tail))
        self.some(tail, head, lower, free - FORCE)
        self.some(tail, head, upper - lower, free)

    def solve(self, supply: Ints, sink: int) -> Ints | None:
        """The cheapest flow of all ``supply`` ``(nodes,)`` into the ``sink``: that of each arc, or
        ``None`` where there is none that keeps the lower bounds."""
        tail, head, capacity, cost = np.concatenate([np.zeros((4, 0), np.int64), *self.parts], 1)
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
_TOGETHER = 1 << 16  # counts of the families whose networks are built together


@dataclass(frozen=True, eq=False)
class RoundingProblem:
    """One problem of :func:`round_children`, whose arguments its fields are."""

    x: Array
    parent: Ints | None
    chain: tuple[Link, ...] = ()
    drains: Drains | None = None
    total: int | None = None
    parts: Parts | None = None
    cell_weight: float = 1.0
    integer_targets: bool = False
    price: Array | None = None

    def __post_init__(self) -> None:
        if self.drains is not None and not self.chain:
            raise ValueError("drains need a chain, whose last link flows into them")
        if self.drains is not None and self.parts is not None and len(self.parts):
            raise ValueError("with drains, totals are those of the drains")
        if self.parent is None and self.total is None:
            raise ValueError("without a parent, the total must be given")

    @property
    def sort(self) -> tuple[object, ...]:
        """Problems of one sort can be stacked."""
        given = self.parent is None, self.drains is None, self.price is None
        bounds = ((link.lower is None, link.upper is None) for link in self.chain)
        return (self.cell_weight, self.integer_targets, *given, *bounds)


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
    links = tuple(c if isinstance(c, Link) else Link(np.asarray(c)) for c in chain or ())
    joint = Parts.checked(parts, totals, len(x))
    problem = RoundingProblem(
        x, parent, links, drains, total, joint, cell_weight, integer_targets, price
    )
    return round_families([problem])[0]


def round_families(problems: Sequence[RoundingProblem]) -> list[Solution]:
    """The solution of each problem, the same as :func:`round_children` gives of it alone:
    the networks of many families are built together, and each is solved by itself.

    Raises:
        InfeasibleError: no integers satisfy the bounds of some problem."""
    out: dict[int, Solution] = {}
    due: Sequence[int] = range(len(problems))
    for widen, status in ((False, Status.OPTIMAL), (True, Status.WIDENED)):
        for number in _stacks(problems, due):
            began = perf_counter()
            some = [problems[i] for i in number]
            found = _Stack(some, widen).solve()
            seconds = (perf_counter() - began) / len(number)
            for i, p, n in zip(number, some, found, strict=True):
                if n is not None:
                    far = float(np.abs(n - p.x).max(initial=0.0))
                    out[i] = Solution(n, status, 0.0, far, 1, seconds)
        due = [i for i in due if i not in out]
    if due:
        raise InfeasibleError("no integers satisfy the bounds", where="round_children")
    return [out[i] for i in range(len(problems))]


def _stacks(problems: Sequence[RoundingProblem], due: Sequence[int]) -> Iterator[list[int]]:
    """Which of the problems ``due`` are stacked: those of one sort, up to a size."""
    waiting: dict[tuple[object, ...], list[int]] = {}
    size: Counter[tuple[object, ...]] = Counter()
    for i in due:
        sort = problems[i].sort
        waiting.setdefault(sort, []).append(i)
        size[sort] += np.size(problems[i].x)
        if size[sort] >= _TOGETHER:
            yield waiting.pop(sort)
            del size[sort]
    yield from waiting.values()


@dataclass(frozen=True, eq=False)
class _Layer:
    """The nodes of one link of each family: for each child one for each group. ``entry`` is the
    node of each count; ``first`` the first node of each child; ``child`` that of each node."""

    links: Sequence[Link]
    entry: Ints
    first: Ints
    child: Ints

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums of ``values``, one for each count, at each node: one after the other."""
        return np.bincount(self.entry, values, len(self.child)).astype(values.dtype)

    def bound(self, side: str) -> Ints | None:
        """The ``lower`` or ``upper`` bound of each node, where the link has some."""
        found = [getattr(link, side) for link in self.links]
        return None if found[0] is None else np.concatenate([b.ravel() for b in found])

    def home(self, coarse: _Layer) -> Ints:
        """The node of a ``coarse`` layer that contains each node."""
        out = coarse.first[self.child]
        out[self.entry] = coarse.entry
        if not np.array_equal(out[self.entry], coarse.entry):
            raise ValueError(
                "the chain is not laminar: a group of one link straddles two groups of the next"
            )
        return out


class _Stack:
    """The flow problems of some families of one sort. ``widen`` lets a count leave its floor and
    ceiling, at a price.

    Nodes of a problem: the parent's cells (or one source); for each link in turn a node for each
    child and group; then the drains or parts, if any; then the sink. What the floors already carry
    (``base``) does not flow through cells: it only counts towards bounds, and where there are
    drains it enters at the last link.

    Arrays of counts, children and nodes run through the families in turn. Arcs are numbered within
    each family: its node ``i`` of layer ``j`` is ``i + shift[j]``."""

    def __init__(self, problems: Sequence[RoundingProblem], widen: bool) -> None:
        self.problems, self.widen = problems, widen
        self.children, self.cells = np.array([np.shape(p.x) for p in problems]).T
        every = np.arange(len(problems))
        self.family = np.repeat(every, self.children)  # of each child
        width = self.cells[self.family]
        self.child = np.repeat(np.arange(len(width)), width)  # of each count
        within = np.arange(len(self.child)) - _first(width)[self.child]
        self.cell = _first(self.cells)[self.family[self.child]] + within
        x = np.concatenate([np.asarray(p.x, dtype=float).ravel() for p in problems])
        self.floor = np.floor(x + _SNAP).astype(np.int64)
        self.fraction = np.where(x - self.floor <= _SNAP, 0.0, x - self.floor)
        self.base = np.zeros_like(self.floor) if widen else self.floor
        self.rest = self.fraction + (self.floor if widen else 0)
        self.drained = problems[0].drains is not None
        self.aim = np.rint if problems[0].integer_targets else np.asarray
        if problems[0].parent is None:
            given, self.sources = np.array([p.total for p in problems]), np.ones_like(every)
            self.tail, source = np.zeros_like(within), self.family[self.child]
        else:
            given, self.sources = np.concatenate([p.parent for p in problems]), self.cells
            self.tail, source = within, self.cell
        self.supply = given.astype(np.int64)
        np.subtract.at(self.supply, source, self.base)
        self._make_layers()

    def _make_layers(self) -> None:
        """The layers, where each family's nodes begin, and what follows them."""
        problems = self.problems
        # last come the nodes that feed the drains; without drains, one node for each child
        last = [
            p.chain[-1] if self.drained else Link(np.zeros(n, dtype=np.intp), weight=0.0)
            for p, n in zip(problems, self.cells.tolist(), strict=True)
        ]
        links = zip(*(p.chain for p in problems), strict=True) if problems[0].chain else ()
        self.ends = np.append(0, np.cumsum(self.children * self.cells))  # of a family's counts
        self.layers, self.shift, node = list[_Layer](), list[Ints](), self.sources
        before = node
        for each in [*links, last]:
            groups = np.array([link.groups for link in each])
            here = groups[self.family]
            first = _first(here)
            entry = first[self.child] + np.concatenate([link.group for link in each])[self.cell]
            self.layers.append(_Layer(each, entry, first, np.repeat(np.arange(len(here)), here)))
            self.shift.append(node - _first(self.children * groups))
            before, node = node, node + self.children * groups
        #: in each problem, the number of the first node that is of no layer with arcs of its own
        self.end = before if self.drained else node

    def solve(self) -> list[Ints | None]:
        """The integers of each problem, or ``None`` where no flow meets its bounds."""
        bad = np.zeros(len(self.problems), dtype=bool)
        bad[np.repeat(np.arange(len(bad)), self.sources)[self.supply < 0]] = True
        leaf, family, leaves = self._leaves()
        chain_family, chain = self._chain(bad)
        number = np.arange(len(bad) + 1)
        leaf_ends = np.searchsorted(family, number)
        chain_ends = np.searchsorted(chain_family, number)
        source_ends = np.append(0, np.cumsum(self.sources))
        ends = self.ends
        out: list[Ints | None] = []
        for f, p in enumerate(self.problems):
            some = slice(leaf_ends[f], leaf_ends[f + 1])
            flow = Flow(leaves[:, some], chain[:, chain_ends[f] : chain_ends[f + 1]])
            supply = self.supply[source_ends[f] : source_ends[f + 1]]
            flows = None if bad[f] else self._flows(f, p, flow, supply)
            if flows is None:
                out.append(None)
                continue
            n = self.base[ends[f] : ends[f + 1]].copy()
            np.add.at(n, leaf[some] - ends[f], flows[: some.stop - some.start])
            out.append(n.reshape(np.shape(p.x)))
        return out

    def _flows(self, f: int, p: RoundingProblem, flow: Flow, supply: Ints) -> Ints | None:
        """The flow of one problem, with what follows its layers; ``None`` where there is none."""
        node, extra = int(self.end[f]), np.zeros(0, dtype=np.int64)
        sink = node
        if p.parts is not None and len(p.parts):
            sink = node + len(p.parts)
            if not self._join(f, p.parts, flow, node):
                return None
        if p.drains is not None:
            sink, extra = self._drain(f, p.drains, flow, node)
            if supply.sum() + extra.sum() != p.drains.total.sum():
                return None  # with equal sums, no total can be exceeded unless one is missed
        between = np.zeros(node - len(supply), dtype=np.int64)
        return flow.solve(np.concatenate([supply, between, extra]), sink)

    # --- arcs

    def _leaves(self) -> tuple[Ints, Ints, Ints]:
        """Arcs from the parent's cells into the first link's groups, the first of each network: the
        count and the family of each, and the arcs.

        There is one for the rounding unit of each fraction. A widened network has three for each
        cell that can be positive: for its rounding unit, for what is below its floor, and for what
        is above its ceiling."""
        p, first = self.problems[0], self.layers[0]
        (count,) = np.nonzero(self._may_hold() if self.widen else self.fraction > 0)
        family = self.family[self.child[count]]
        tail, head = self.tail[count], first.entry[count] + self.shift[0][family]
        one = np.ones(len(count), dtype=np.int64)
        up = p.cell_weight * (1 - 2 * self.aim(self.fraction[count]))
        if p.price is not None:
            up = (
                up
                + np.concatenate([np.ravel(q.price) for q in self.problems if q.price is not None])[
                    count
                ]
            )
        found = arcs(tail, head, one, _UNIT * up)
        if not self.widen:
            return count, family, found
        below = arcs(tail, head, self.floor[count], -_FAR * one)
        above = arcs(tail, head, one * _MANY, _FAR * one)
        order = np.argsort(np.tile(family, 3), kind="stable")
        every = np.concatenate([below, found, above], axis=1)[:, order]
        return np.tile(count, 3)[order], np.tile(family, 3)[order], every

    def _may_hold(self) -> NDArray[np.bool_]:
        out = np.ones(len(self.floor), dtype=bool)
        for layer in self.layers:
            if (upper := layer.bound("upper")) is not None:
                out &= upper[layer.entry] > 0
        return out

    def _chain(self, bad: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Arcs from each link's groups to those of the next, or to the sink: the family of each,
        and the arcs. Families whose bounds cannot hold are marked ``bad``."""
        found = []
        # a child flows into its part or, in none, into the sink that follows them
        slot = np.concatenate([_slot(p) for p in self.problems])
        for j, layer in enumerate(self.layers[:-1] if self.drained else self.layers):
            held, family = layer.sums(self.base), self.family[layer.child]
            upper, lower = layer.bound("upper"), layer.bound("lower")
            upper = np.full(held.shape, _MANY) if upper is None else upper - held
            lower = np.zeros_like(upper) if lower is None else np.maximum(lower - held, 0)
            if j + 1 < len(self.layers):
                head = layer.home(self.layers[j + 1]) + self.shift[j + 1][family]
            else:
                head = self.end[family] + slot[layer.child]
            tail = np.arange(len(held)) + self.shift[j][family]
            slope = np.array([link.weight for link in layer.links])[family] * _UNIT
            found.append((family, tail, head, self.aim(layer.sums(self.rest)), slope, lower, upper))
        family, tail, head, target, slope, lower, upper = map(
            np.concatenate, zip(*found, strict=True)
        )
        bad[family[upper < lower]] = True
        part = family * len(found) + np.repeat(np.arange(len(found)), [len(e[0]) for e in found])
        node, capacity, cost = _convex(target, slope, lower, upper)
        order = np.argsort(part[node], kind="stable")  # family by family, link by link
        node = node[order]
        return family[node], arcs(tail[node], head[node], capacity[order], cost[order])

    def _join(self, f: int, parts: Parts, flow: Flow, node: int) -> bool:
        """Parts into the sink, each exactly its total. False if the floors are more than that."""
        base = self.base[self.ends[f] : self.ends[f + 1]].reshape(len(parts.part), -1)
        want = parts.total - parts.sums(base.sum(axis=1))
        number = np.arange(len(want))
        flow.bounded(node + number, np.full_like(number, node + len(want)), want, want)
        return bool((want >= 0).all())

    def _drain(self, f: int, drains: Drains, flow: Flow, node: int) -> tuple[int, Ints]:
        """Groups of each child into its descendants, each to its exact total: the sink, and what
        enters here."""
        groups, n = drains.lower.shape[1], len(drains.total)
        layer = self.layers[-1]
        held = layer.sums(self.base)[self.family[layer.child] == f]
        first = node + len(held)
        d, g = np.repeat(np.arange(n), groups), np.tile(np.arange(groups), n)
        tail, head = node + drains.child[d] * groups + g, first + d
        low, high = drains.lower[d, g], np.minimum(drains.upper[d, g], drains.total[d])
        flow.bounded(tail, head, low, high)
        flow.some(first + np.arange(n), np.full(n, first + n), drains.total, np.zeros(n))
        return first + n, held


def _convex(target: Array, slope: Array, lower: Ints, upper: Ints) -> tuple[Ints, Ints, Array]:
    """Arcs from nodes whose flow s costs ``slope * |s - target|``, with lower <= s <= upper (lower
    by force): the node, the capacity and the cost of each that can carry anything."""
    base = np.floor(target).astype(np.int64)
    # the units 1..base have slope -1, unit base + 1 has 1 - 2f, and those beyond have +1
    cost = np.stack([-slope, slope * (1 - 2 * (target - base)), slope])
    end = np.maximum.accumulate(np.maximum(np.minimum(np.stack([base, base + 1, upper]), upper), 0))
    begin = np.concatenate([np.zeros_like(end[:1]), end[:-1]])
    forced = np.maximum(np.minimum(end, lower) - begin, 0)
    capacity = np.stack([forced, end - begin - forced], axis=1).reshape(6, -1)
    costs = np.stack([cost - FORCE, cost], axis=1).reshape(6, -1)
    kind, node = np.nonzero(capacity)
    return node, capacity[kind, node], costs[kind, node]


def _slot(p: RoundingProblem) -> Ints:
    """What each child flows into: its part or, in none, the sink, which follows the parts."""
    if p.parts is None:
        return np.zeros(len(p.x), dtype=np.int64)
    return np.where(p.parts.bound, p.parts.part, len(p.parts))


def _first(size: Ints) -> Ints:
    """Where each piece begins, if pieces of these sizes follow each other."""
    return np.asarray(np.cumsum(size) - size)
