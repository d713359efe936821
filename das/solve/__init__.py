"""Solvers that know nothing of a census: a quadratic program over siblings, and a network
rounding."""

from das.solve.children import children_qp, children_qps, least_moves
from das.solve.dual_problem import FEASIBLE
from das.solve.layout import grouped
from das.solve.network import round_children
from das.solve.partitions import Kinds, LayeredGram, Partitions
from das.solve.problem import ChildrenQP

__all__ = [
    "FEASIBLE",
    "ChildrenQP",
    "Kinds",
    "LayeredGram",
    "Partitions",
    "children_qp",
    "children_qps",
    "grouped",
    "least_moves",
    "round_children",
]
