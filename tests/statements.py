"""A whole privacy statement of a single draw."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from das.accounting.document import GaussianStatement, GeometricStatement
from das.accounting.statement import LedgerEvents, Terms, statement
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanisms import GEOMETRIC, Mechanism
from das.model.redistricting import PL94


def one_draw(
    assigned: Mapping[str, Mapping[str, str]] | None = None, mechanism: Mechanism = GEOMETRIC
) -> GaussianStatement | GeometricStatement:
    terms = Terms(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(1, 10**10),
        ("US",),
        {"persons": PL94},
        {"persons": ()},
    )
    event = Event(
        "US", "total", mechanism, Fraction(2), mechanism.cost(Fraction(2), 1), "persons", 1, 1
    )
    return statement(
        terms, LedgerEvents({"persons": [event]}), [], "source", True, assigned=assigned
    )
