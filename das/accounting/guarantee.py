"""What draws cost, as numbers for a reader: exact totals, and (epsilon, delta) by every method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from das.accounting.profile import epsilon
from das.accounting.zcdp import bun_steinke, implied, tight
from das.model.budget import Draw, Event, Mechanism, Neighbours

#: At which epsilon is stated, beside the delta of the specification.
DELTAS = tuple(Fraction(1, 10**k) for k in (5, 10, 15, 20, 30))

#: Scale (sigma^2 or b) to the number of answers with noise of that scale that differ by 1 between two data sets.
DrawCounts = Mapping[Fraction, int]


def noise(draws: Iterable[Draw | Event], answers: int) -> DrawCounts:
    """``answers`` of each draw differ between the two data sets."""
    out: Counter[Fraction] = Counter()
    for d in draws:
        out[d.scale] += answers
    return out


def cost(mechanism: Mechanism, noise: DrawCounts) -> Fraction:
    """rho = sum n / (2 sigma^2), or epsilon = sum n / b."""
    factor = 2 if mechanism is Mechanism.DISCRETE_GAUSSIAN else 1
    return sum((n / (factor * scale) for scale, n in noise.items()), Fraction(0))


def guarantees(
    mechanism: Mechanism, neighbours: Neighbours, draws: Mapping[str, Sequence[Draw | Event]], delta: Fraction
) -> dict[str, Any]:
    """The guarantee of each universe by itself and, where there are several, of all together (``total``)."""
    parts = {name: noise(ds, neighbours.sensitivity) for name, ds in draws.items()}
    if len(parts) > 1:
        parts["total"] = noise((d for ds in draws.values() for d in ds), neighbours.sensitivity)
    return {name: guarantee(mechanism, each, {*DELTAS, delta}) for name, each in parts.items()}


def guarantee(mechanism: Mechanism, noise: DrawCounts, deltas: Iterable[Fraction]) -> dict[str, Any]:
    """The total, and for zCDP the epsilon at each delta."""
    total = cost(mechanism, noise)
    if mechanism is Mechanism.GEOMETRIC:
        return {"epsilon": str(total), "delta": "0"}
    rows = [epsilons(noise, d) for d in sorted(deltas, reverse=True)]
    return {"rho": str(total), "implied_epsilon": implied(total), "epsilon": rows}


def epsilons(noise: DrawCounts, delta: Fraction) -> dict[str, Any]:
    """Epsilon at ``delta``: an interval that holds the exact one (``pld``), and two conversions of rho alone."""
    rho = cost(Mechanism.DISCRETE_GAUSSIAN, noise)
    return {
        "delta": decimal(delta),
        "pld": list(exact_epsilon(noise, delta)),
        "zcdp-tight": tight(rho, delta),
        "zcdp-bun-steinke": bun_steinke(rho, delta),
    }


def exact_epsilon(noise: DrawCounts, delta: Fraction) -> tuple[float, float]:
    """An interval that holds the exact epsilon at ``delta``."""
    return _exact(tuple(sorted(noise.items())), delta)


@lru_cache(maxsize=1024)
def _exact(noise: tuple[tuple[Fraction, int], ...], delta: Fraction) -> tuple[float, float]:
    """One plan is asked of many times: by the specification's check, the statement, its verification."""
    return epsilon(noise, delta)


def decimal(value: Fraction) -> str:
    """Powers of ten as people write them, other values as they are.

    >>> decimal(Fraction(1, 10**10)), decimal(Fraction(1, 3))
    ('1e-10', '1/3')
    """
    zeros = len(str(value.denominator)) - 1
    return f"1e-{zeros}" if value == Fraction(1, 10**zeros) and zeros else str(value)
