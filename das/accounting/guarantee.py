"""What draws cost, as numbers for a reader: exact totals, and (epsilon, delta) by every method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

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
) -> dict[str, Any]:
    """The guarantee of each universe by itself and, where there are several, of all together (``total``)."""
    parts = {name: differing(ds, neighbours.sensitivity) for name, ds in draws.items()}
    if len(parts) > 1:
        parts["total"] = differing((d for ds in draws.values() for d in ds), neighbours.sensitivity)
    return {name: guarantee(currency, each, {*DELTAS, delta}) for name, each in parts.items()}


def guarantee(currency: str, found: DrawCounts, deltas: Iterable[Fraction]) -> dict[str, Any]:
    """The total, and for zCDP the epsilon at each delta."""
    total = cost(currency, found)
    if currency == EPSILON:
        return {"epsilon": str(total), "delta": "0"}
    rows = [epsilons(found, d) for d in sorted(deltas, reverse=True)]
    return {"rho": str(total), "implied_epsilon": implied(total), "epsilon": rows}


def epsilons(found: DrawCounts, delta: Fraction) -> dict[str, Any]:
    """Epsilon at ``delta``: an interval that holds the exact one (``pld``), and two conversions of rho alone."""
    rho = cost(RHO, found)
    return {
        "delta": decimal(delta),
        "pld": list(exact_epsilon(found, delta)),
        "zcdp-tight": tight(rho, delta),
        "zcdp-bun-steinke": bun_steinke(rho, delta),
    }


def exact_epsilon(found: DrawCounts, delta: Fraction) -> tuple[float, float]:
    """An interval that holds the exact epsilon at ``delta``."""
    return _exact(Composition.differing(found), delta)


@lru_cache(maxsize=1024)
def _exact(composition: Composition, delta: Fraction) -> tuple[float, float]:
    """One plan is asked of many times: by the specification's check, the statement, its verification."""
    return epsilon(composition, delta)


def decimal(value: Fraction) -> str:
    """Powers of ten as people write them, other values as they are.

    >>> decimal(Fraction(1, 10**10)), decimal(Fraction(1, 3))
    ('1e-10', '1/3')
    """
    zeros = len(str(value.denominator)) - 1
    return f"1e-{zeros}" if value == Fraction(1, 10**zeros) and zeros else str(value)
