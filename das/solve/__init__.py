"""Solvers that know nothing of a census: a quadratic program over siblings, and a network rounding."""

from das.solve.children import FEASIBLE, children_qp
from das.solve.kinds import Kinds
from das.solve.network import round_children
from das.solve.partitions import Partitions
from das.solve.sharing import least_moves

__all__ = ["FEASIBLE", "Kinds", "Partitions", "children_qp", "least_moves", "round_children"]
