"""Draws whose privacy needs no delta: their epsilons add up."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TypeGuard

from das.errors import PrivacyError
from das.model.budget import PlannedMeasurement, total
from das.model.ledger import Event, Ledger
from das.model.plan import Plan


def pure(draws: Plan | Ledger | Iterable[Event]) -> Fraction:
    """Epsilon of draws under pure differential privacy: the exact sum of their costs, on the
    dearest path. Raises :class:`PrivacyError` for noise that is private with a delta above 0 only,
    whose costs are no epsilon.

    >>> pure(Plan.of_epsilon("1/2", ["State"], ["total"]))
    Fraction(1, 2)
    """
    every = (
        draws.measurements
        if isinstance(draws, Plan)
        else draws.events
        if isinstance(draws, Ledger)
        else tuple(draws)
    )
    cost = draws.cost if isinstance(draws, Plan | Ledger) else total(every)
    if other := [d.mechanism for d in every if not d.mechanism.pure]:
        raise PrivacyError(
            f"{other[0]} noise has no epsilon without a delta: it is paid for in"
            f" {other[0].currency}",
            where="account",
            remedy="ask das.epsilon(plan, delta)",
        )
    return cost


def all_pure(draws: object) -> TypeGuard[Plan | Ledger | tuple[Event, ...]]:
    """Whether these are draws, and all of them are differentially private with a delta of 0."""
    every = (
        draws.measurements
        if isinstance(draws, Plan)
        else draws.events
        if isinstance(draws, Ledger)
        else draws
    )
    return (
        isinstance(every, tuple)
        and bool(every)
        and all(isinstance(d, PlannedMeasurement) and d.mechanism.pure for d in every)
    )
