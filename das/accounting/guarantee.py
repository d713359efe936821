"""What draws cost, as numbers for a reader: exact totals, and (epsilon, delta) by every method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from das.accounting.document import Epsilons, Pure, Zcdp
from das.accounting.draws import Composition
from das.accounting.profile import epsilon
from das.accounting.zcdp import bun_steinke, implied, tight
from das.errors import PrivacyError
from das.model.budget import Draw, Neighbours
from das.model.mechanism import EPSILON, RHO, Mechanism

#: At which epsilon is stated, beside the delta of the specification.
DELTAS = tuple(Fraction(1, 10**k) for k in (5, 10, 15, 20, 30))

#: How many answers with noise of a mechanism and parameter differ by 1 between two data sets.
DrawCounts = Mapping[tuple[Mechanism, Fraction], int]


def differing(draws: Iterable[Draw], answers: int) -> DrawCounts:
    """``answers`` of each draw differ between the two data sets."""
    out: Counter[tuple[Mechanism, Fraction]] = Counter()
    for d in draws:
        out[d.mechanism, d.parameter] += answers
    return out


def cost(currency: str, found: DrawCounts) -> Fraction:
    """rho = sum n / (2 sigma^2), or epsilon = sum n / b. Raises :class:`PrivacyError` for draws in another currency."""
    if other := [m for m, _ in found if m.currency != currency]:
        raise PrivacyError(f"{other[0]} noise is counted in {other[0].currency}, which does not add up to {currency}",
                           where="account", remedy="account for each mechanism by itself")  # fmt: skip
    return sum((mechanism.cost(parameter, n) for (mechanism, parameter), n in found.items()), Fraction(0))


def guarantees(
    currency: str, neighbours: Neighbours, draws: Mapping[str, Sequence[Draw]], delta: Fraction
) -> dict[str, Zcdp | Pure]:
    """The guarantee of each universe by itself and, where there are several, of all together (``total``)."""
    parts = {name: differing(ds, neighbours.sensitivity) for name, ds in draws.items()}
    if len(parts) > 1:
        parts["total"] = differing((d for ds in draws.values() for d in ds), neighbours.sensitivity)
    return {name: guarantee(currency, each, {*DELTAS, delta}) for name, each in parts.items()}


def guarantee(currency: str, found: DrawCounts, deltas: Iterable[Fraction]) -> Zcdp | Pure:
    """The total, and for zCDP the epsilon at each delta."""
    total = cost(currency, found)
    if currency == EPSILON:
        return Pure.make(cost=total, delta="0")
    rows = [epsilons(found, d) for d in sorted(deltas, reverse=True)]
    return Zcdp.make(cost=total, implied_epsilon=implied(total), epsilon=rows)


def epsilons(found: DrawCounts, delta: Fraction) -> Epsilons:
    """Epsilon at ``delta`` by every method."""
    rho = cost(RHO, found)
    interval = exact_epsilon(found, delta)
    return Epsilons.make(delta=delta, pld=interval, tight=tight(rho, delta), simple=bun_steinke(rho, delta))


def exact_epsilon(found: DrawCounts, delta: Fraction) -> tuple[float, float]:
    """An interval that holds the exact epsilon at ``delta``."""
    return _exact(Composition.differing(found), delta)


@lru_cache(maxsize=1024)
def _exact(composition: Composition, delta: Fraction) -> tuple[float, float]:
    """One plan is asked of many times: by the specification's check, the statement, its verification."""
    return epsilon(composition, delta)
