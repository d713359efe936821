"""The epsilons of a privacy statement as one table: by relation of the neighbors, and by change."""

from __future__ import annotations

from fractions import Fraction

from das.accounting.document import Account

#: How a table calls the two guarantees, and single changes.
ANY_TWO = "any two data sets"
AGREE = "data sets that agree on what is published exactly"
ONE_CHANGE = "one change of a record"


def stated_losses(said: Account) -> tuple[Fraction, dict[tuple[str, str], float]]:
    """The delta of the specification, and the upper ends of epsilon at it: by relation, then by
    universe (``total``: one record of each together) or by change."""
    changes = {u: lines for u, lines in said.changes.items() if lines}
    delta = next(iter(changes.values()))[0].delta if changes else Fraction(0)
    out: dict[tuple[str, str], float] = {}
    for relation, by in ((ANY_TWO, said.guarantee), (AGREE, said.invariant_neighbours or {})):
        stated = {universe: promise.upper(delta) for universe, promise in by.items()}
        out |= {(relation, u): epsilon for u, epsilon in stated.items() if epsilon is not None}
    for universe, lines in changes.items():
        out |= {(ONE_CHANGE, f"{universe}: {c.says}"): c.upper for c in lines}
    return delta, out
