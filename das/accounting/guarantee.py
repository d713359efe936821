"""What draws cost, as numbers for a reader: exact totals, and (epsilon, delta) by every method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, product

from das.accounting.document import Epsilons, Pure, Zcdp
from das.accounting.draws import Composition, Differing, differing
from das.accounting.profile import epsilon
from das.accounting.zcdp import bun_steinke, implied, tight
from das.errors import PrivacyError
from das.model.budget import Draw, Neighbours, UnitPath, through
from das.model.mechanism import EPSILON, RHO, Mechanism

#: At which epsilon is stated, beside the delta of the specification.
DELTAS = tuple(Fraction(1, 10**k) for k in (5, 10, 15, 20, 30))


def cost(currency: str, found: Differing) -> Fraction:
    """rho = sum n / (2 sigma^2), or epsilon = sum n / b, of the dearest change. Raises :class:`PrivacyError` for draws in
    another currency."""
    if other := [m for counts in found for m, _ in counts if m.currency != currency]:
        raise PrivacyError(f"{other[0]} noise is counted in {other[0].currency}, which does not add up to {currency}",
                           where="account", remedy="account for each mechanism by itself")  # fmt: skip
    return max(sum((m.cost(parameter, n) for (m, parameter), n in counts.items()), Fraction(0)) for counts in found)


def record(draws: Sequence[Draw], neighbours: Neighbours, paths: Sequence[UnitPath] = ()) -> Differing:
    """What differs between neighbours: for each pair of paths, or each path. Without ``paths`` there is one."""
    return differing(draws, combinations_with_replacement(paths or [through(draws)], neighbours.sensitivity))


def together(parts: Iterable[Differing]) -> Differing:
    """One record of each of several kinds: every combination of their changes."""
    out = []
    for counts in product(*parts):
        whole: Counter[tuple[Mechanism, Fraction]] = Counter()
        for each in counts:
            whole.update(each)
        out.append(whole)
    return tuple(out)


def guarantees(currency: str, parts: Mapping[str, Differing], delta: Fraction) -> dict[str, Zcdp | Pure]:
    """The guarantee of each universe by itself and, where there are several, of all together (``total``)."""
    every = {**parts, "total": together(parts.values())} if len(parts) > 1 else parts
    return {name: guarantee(currency, each, {*DELTAS, delta}) for name, each in every.items()}


def guarantee(currency: str, found: Differing, deltas: Iterable[Fraction]) -> Zcdp | Pure:
    """The total, and for zCDP the epsilon at each delta."""
    total = cost(currency, found)
    if currency == EPSILON:
        return Pure.make(cost=total, delta="0")
    rows = [epsilons(found, d) for d in sorted(deltas, reverse=True)]
    return Zcdp.make(cost=total, implied_epsilon=implied(total), epsilon=rows)


def epsilons(found: Differing, delta: Fraction) -> Epsilons:
    """Epsilon at ``delta`` by every method."""
    rho = cost(RHO, found)
    interval = exact_epsilon(found, delta)
    return Epsilons.make(delta=delta, pld=interval, tight=tight(rho, delta), simple=bun_steinke(rho, delta))


def exact_epsilon(found: Differing, delta: Fraction) -> tuple[float, float]:
    """An interval that holds the exact epsilon at ``delta``, of the worst change."""
    every = [_exact(c, delta) for c in dict.fromkeys(map(Composition.differing, found))]
    return max(low for low, _ in every), max(high for _, high in every)


@lru_cache(maxsize=1024)
def _exact(composition: Composition, delta: Fraction) -> tuple[float, float]:
    """One plan is asked of many times: by the specification's check, the statement, its verification."""
    return epsilon(composition, delta)
