"""The cost of draws as numbers for a reader: exact totals, and (epsilon, delta) by every method."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from das.accounting.document import Epsilons, Promises, Pure, Zcdp, decimal
from das.accounting.draws import Differing
from das.accounting.kept import worst_epsilon
from das.accounting.zcdp import bun_steinke, implied, tight
from das.errors import PrivacyError
from das.model import tabulation
from das.model.mechanisms import EPSILON, RHO
from das.model.universe import PERSONS

#: The deltas at which epsilon is stated, besides the delta of the specification.
DELTAS = tuple(Fraction(1, 10**k) for k in (5, 10, 15, 20, 30))


def cost(currency: str, differing: Differing) -> Fraction:
    """rho = sum n / (2 sigma^2), or epsilon = sum n / b, of the costliest change. Raises
    :class:`PrivacyError` for draws in another currency."""
    if other := [
        m
        for part in differing
        for path in part.paths
        for (m, _), _ in path
        if m.currency != currency
    ]:
        raise PrivacyError(
            f"{other[0]} noise is counted in {other[0].currency}, which does not add up to"
            f" {currency}",
            where="account",
            remedy="account for each mechanism by itself",
        )
    return sum((part.cost for part in differing), Fraction(0))


def combine(parts: Iterable[Differing]) -> Differing:
    """One record of each of several kinds: every combination of their changes."""
    return tuple(part for found in parts for part in found)


def guarantees(
    currency: str, parts: Mapping[str, Differing], delta: Fraction
) -> dict[str, Zcdp | Pure]:
    """The guarantee of each universe by itself and, if there are several, of all together
    (``total``)."""
    deltas = {*DELTAS, delta}
    out = {name: guarantee(currency, found, deltas, [name]) for name, found in parts.items()}
    if len(parts) > 1:
        out["total"] = guarantee(currency, combine(parts.values()), deltas, list(parts))
    return out


def guarantee(
    currency: str,
    differing: Differing,
    deltas: Iterable[Fraction],
    universes: Sequence[str] = (PERSONS.name,),
) -> Zcdp | Pure:
    """The total cost, and for zCDP the epsilon at each delta. Each of ``differing`` belongs to
    one of the ``universes``."""
    total = cost(currency, differing)
    if currency == EPSILON:
        return Pure.make(cost=total, delta="0")
    rows = [epsilons(differing, d, universes) for d in sorted(deltas, reverse=True)]
    return Zcdp.make(cost=total, implied_epsilon=implied(total), epsilon=rows)


def epsilons(
    differing: Differing, delta: Fraction, universes: Sequence[str] = (PERSONS.name,)
) -> Epsilons:
    """Epsilon at ``delta`` by every method. If a universe has several paths, also names the pair
    for which epsilon is largest."""
    rho, at = cost(RHO, differing), worst_epsilon(differing, delta)
    return Epsilons.make(
        delta=delta,
        pld=(at.low, at.high),
        tight=tight(rho, delta),
        simple=bun_steinke(rho, delta),
        between=_between(differing, at.at, universes),
    )


def _between(
    differing: Differing, at: Sequence[int], universes: Sequence[str]
) -> dict[str, list[str]] | None:
    """The names of the paths of a change, by universe."""
    named = {
        universe: [tabulation.title(part.names[i]) for i in part.moves[number]]
        for universe, part, number in zip(universes, differing, at, strict=True)
        if part.several
    }
    return named or None


def exact_epsilon(differing: Differing, delta: Fraction) -> tuple[float, float]:
    """An interval that contains the exact epsilon of the worst change at ``delta``."""
    at = worst_epsilon(differing, delta)
    return at.low, at.high


# The one privacy loss to quote from a release that states many: for what neighbors, at what delta,
# and why.

#: The delta of a configuration that names none, and of the loss that is quoted, if no target names
#: another: that of the 2020 Census.
DEFAULT_DELTA = Fraction("1e-10")
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
    row = stated.get(target_delta or DEFAULT_DELTA) or stated.get(DEFAULT_DELTA) or last.epsilon[0]
    delta = (
        "the delta is that of the configured target"
        if row.delta == target_delta
        else "the delta is that of the 2020 Census"
        if row.delta == DEFAULT_DELTA
        else "the delta is the largest that is stated"
    )
    return QuotedLoss(row.pld[1], decimal(row.delta), change, f"{why}; {delta}")


def of_invariant_neighbours(said: Promises, loss: QuotedLoss) -> float | None:
    """The epsilon of the same records at the same delta between data sets that agree on what is
    published exactly; none where there are no such neighbors."""
    if not said.invariant_neighbours:
        return None
    return list(said.invariant_neighbours.values())[-1].upper(Fraction(loss.delta))
