"""Solvers that know nothing of a census: a quadratic program over siblings, and a network rounding."""

from das.solve.children import children_qp
from das.solve.network import round_children

__all__ = ["children_qp", "round_children"]
