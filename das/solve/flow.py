"""Minimum-cost flows with lower bounds, in integers: what the roundings and the failsafe are made
of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from ortools.graph.python import min_cost_flow

from das.errors import SolverError

Ints = NDArray[np.int64]
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
