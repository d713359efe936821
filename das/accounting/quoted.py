"""The one privacy loss to quote from a release that states many: for what neighbors, at what delta,
and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from das.accounting.document import Promises, Pure, Zcdp
from das.accounting.fields import decimal

#: The delta that is quoted, if no target names another: that of the 2020 Census.
USUAL = Fraction(1, 10**10)
#: What one record does between two neighbors.
CHANGES = {
    "bounded": "replaced by any other (bounded neighbors)",
    "unbounded": "added or removed (unbounded neighbors)",
}
#: How a statement says what neighbors differ by.
_DIFFER = re.compile(r"Between any data sets with (.*?):")
_USUALLY = ("one record added or removed", "one record replaced")


@dataclass(frozen=True)
class QuotedLoss:
    """``epsilon`` is an upper end; round it up. ``delta`` is ``"0"`` for a pure guarantee.
    ``change`` says in words how neighbors differ; ``why`` says why this loss is quoted."""

    epsilon: float
    delta: str
    change: str
    why: str


def _own_words(says: str) -> str | None:
    """How neighbors differ, in words, if not by one record."""
    found = _DIFFER.match(says)
    return None if found is None or found[1].startswith(_USUALLY) else found[1]


def quoted(said: Promises, neighbours: str, target_delta: Fraction | None = None) -> QuotedLoss:
    """The guarantee for one record of every kind together, between any neighbors. ``target_delta``
    is the delta of the configured target, if there is one."""
    every, together = list(said.guarantee.values()), len(said.guarantee) > 1
    usual = f"one record{' of each kind' * together} {CHANGES[neighbours]}"
    change = _own_words(said.neighbours_of.any) or usual
    why = "it holds whether or not two inputs agree on what is published exactly"
    if together:
        why = "it counts one record of each kind together; " + why
    last = every[-1]
    if isinstance(last, Pure):
        return QuotedLoss(float(last.cost), "0", change, why)
    if not isinstance(last, Zcdp):
        raise TypeError(f"a guarantee of no known kind: {type(last).__name__}")
    stated = {e.delta: e for e in last.epsilon}
    row = stated.get(target_delta or USUAL) or stated.get(USUAL) or last.epsilon[0]
    delta = (
        "the delta is that of the configured target"
        if row.delta == target_delta
        else "the delta is that of the 2020 Census"
        if row.delta == USUAL
        else "the delta is the largest that is stated"
    )
    return QuotedLoss(row.pld[1], decimal(row.delta), change, f"{why}; {delta}")


def of_invariant_neighbours(said: Promises, loss: QuotedLoss) -> float | None:
    """The epsilon of the same records at the same delta between data sets that agree on what is
    published exactly; none where there are no such neighbors."""
    if not said.invariant_neighbours:
        return None
    return list(said.invariant_neighbours.values())[-1].upper(Fraction(loss.delta))
