"""The cost of draws as numbers for a reader: exact totals, and (epsilon, delta) by every method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from das.accounting import profile
from das.accounting.document import Epsilons, Pure, Zcdp
from das.accounting.draws import Differing
from das.accounting.worst import WorstLoss
from das.accounting.zcdp import bun_steinke, implied, tight
from das.errors import PrivacyError
from das.model import chains
from das.model.kinds import PERSONS
from das.model.mechanism import EPSILON, RHO

#: The deltas at which epsilon is stated, besides the delta of the specification.
DELTAS = tuple(Fraction(1, 10**k) for k in (5, 10, 15, 20, 30))


def cost(currency: str, found: Differing) -> Fraction:
    """rho = sum n / (2 sigma^2), or epsilon = sum n / b, of the dearest change. Raises
    :class:`PrivacyError` for draws in another currency."""
    if other := [
        m for part in found for path in part.paths for (m, _), _ in path if m.currency != currency
    ]:
        raise PrivacyError(
            f"{other[0]} noise is counted in {other[0].currency}, which does not add up to"
            f" {currency}",
            where="account",
            remedy="account for each mechanism by itself",
        )
    return sum((part.cost for part in found), Fraction(0))


def combine(parts: Iterable[Differing]) -> Differing:
    """One record of each of several kinds: every combination of their changes."""
    return tuple(part for found in parts for part in found)


def guarantees(
    currency: str, parts: Mapping[str, Differing], delta: Fraction
) -> dict[str, Zcdp | Pure]:
    """The guarantee of each universe by itself and, if there are several, of all together
    (``total``).
    """
    deltas = {*DELTAS, delta}
    out = {name: guarantee(currency, found, deltas, [name]) for name, found in parts.items()}
    if len(parts) > 1:
        out["total"] = guarantee(currency, combine(parts.values()), deltas, list(parts))
    return out


def guarantee(
    currency: str,
    found: Differing,
    deltas: Iterable[Fraction],
    universes: Sequence[str] = (PERSONS.name,),
) -> Zcdp | Pure:
    """The total cost, and for zCDP the epsilon at each delta. Each of ``found`` belongs to one of
    the ``universes``.
    """
    total = cost(currency, found)
    if currency == EPSILON:
        return Pure.make(cost=total, delta="0")
    rows = [epsilons(found, d, universes) for d in sorted(deltas, reverse=True)]
    return Zcdp.make(cost=total, implied_epsilon=implied(total), epsilon=rows)


def epsilons(
    found: Differing, delta: Fraction, universes: Sequence[str] = (PERSONS.name,)
) -> Epsilons:
    """Epsilon at ``delta`` by every method. If a universe has several paths, also names the pair
    for which epsilon is largest.
    """
    rho, at = cost(RHO, found), worst_epsilon(found, delta)
    return Epsilons.make(
        delta=delta,
        pld=(at.low, at.high),
        tight=tight(rho, delta),
        simple=bun_steinke(rho, delta),
        between=_between(found, at.at, universes),
    )


def _between(
    found: Differing, at: Sequence[int], universes: Sequence[str]
) -> dict[str, list[str]] | None:
    """The names of the paths of a change, by universe."""
    named = {
        universe: [chains.title(part.names[i]) for i in part.moves[number]]
        for universe, part, number in zip(universes, found, at, strict=True)
        if part.several
    }
    return named or None


def exact_epsilon(found: Differing, delta: Fraction) -> tuple[float, float]:
    """An interval that contains the exact epsilon of the worst change at ``delta``."""
    at = worst_epsilon(found, delta)
    return at.low, at.high


@lru_cache(maxsize=1024)
def worst_epsilon(found: Differing, delta: Fraction) -> WorstLoss:
    """The worst epsilon, kept, because several steps need it for the same plan: the check of the
    specification, the statement, and its verification.
    """
    return profile.worst_epsilon(found, delta)
