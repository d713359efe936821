"""Solvers that know nothing of a census: a quadratic program over siblings, and a network
rounding.
"""

from das.solve.children import children_qp, children_qps
from das.solve.feasible import FEASIBLE
from das.solve.kinds import Kinds
from das.solve.layered import LayeredGram
from das.solve.network import round_children
from das.solve.partitions import Partitions
from das.solve.problem import ChildrenQP
from das.solve.sharing import least_moves

__all__ = [
    "FEASIBLE",
    "ChildrenQP",
    "Kinds",
    "LayeredGram",
    "Partitions",
    "children_qp",
    "children_qps",
    "least_moves",
    "round_children",
]
