"""A whole privacy statement of a single draw."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from das.accounting.document import GaussianStatement, GeometricStatement
from das.accounting.statement import Drawn, Terms, statement
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanisms import GEOMETRIC
from das.model.schema import PL94


def one_draw(assigned: Mapping[str, Mapping[str, str]] | None = None) -> GaussianStatement | GeometricStatement:
    terms = Terms(GEOMETRIC, Neighbours.BOUNDED, Fraction(1, 10**10), ("US",), {"persons": PL94}, {"persons": ()})
    event = Event("US", "total", GEOMETRIC, Fraction(2), Fraction(1), "persons", 1, 1)
    return statement(terms, Drawn({"persons": [event]}), [], "source", True, assigned=assigned)
