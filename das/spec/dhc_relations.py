"""What one person, or one household, costs in a release of the DHC, in words: in it alone, and
together with the release that it rests on. The relations and their proofs are in
:mod:`das.accounting.relations`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from das.accounting.document import OwnAccount
from das.accounting.fields import decimal
from das.accounting.relations import ADDED, Relation, relations, unit_of
from das.accounting.zcdp import no_more
from das.model.mechanism import EPSILON
from das.model.mechanisms import MECHANISMS

#: How each sentence begins, after the relation.
COSTS = " costs rho = "
#: By universe, the rho of one record that is replaced.
Costs = Mapping[str, Fraction]


def sentences(costs: Costs, earlier: Costs, delta: Fraction) -> tuple[str, ...]:
    """What each of the relations costs in this release, and together with the earlier one; epsilon
    is from rho alone.
    """
    both = {**costs, **{u: rho + costs.get(u, 0) for u, rho in earlier.items()}}
    out = []
    for r in relations():
        more = (
            f"; together with the redistricting release {_says(r, both, delta)}" if earlier else ""
        )
        out.append(
            f"{r.title} costs {_says(r, costs, delta)}{more}. Epsilon is at delta ="
            f" {decimal(delta)}, from rho alone."
        )
    return tuple(out)


def are_costs(sentence: str) -> bool:
    """Whether a sentence of a statement is one of these."""
    return any(sentence.startswith(r.title + COSTS) for r in relations())


def total(relation: Relation, costs: Costs, *, most: bool) -> Fraction:
    """rho, wherever the records are, or where no two of them change one answer."""
    out = Fraction(0)
    for universe, rho in costs.items():
        changed = relation.changed[unit_of(universe)]
        one = rho / 2 if changed.verb == ADDED else rho
        out += one * (changed.multiple.most if most else changed.multiple.apart)
    return out


def _says(relation: Relation, costs: Costs, delta: Fraction) -> str:
    """Both, and epsilon at ``delta``."""
    apart, most = (total(relation, costs, most=most) for most in (False, True))
    if apart == most:
        return _cost(most, delta)
    return (
        f"{_cost(apart, delta)} where no two of the records change one answer, and never more"
        f" than {_cost(most, delta)}"
    )


def replaced(account: OwnAccount) -> dict[str, Fraction]:
    """The rho of one replaced record, by universe, from an account."""
    times = 1 if account.neighbours == "bounded" else 2
    pure = MECHANISMS[account.mechanism].currency == EPSILON
    totals = {u: times * cost for u, cost in account.totals.items() if u != "total"}
    return {u: cost**2 / 2 if pure else cost for u, cost in totals.items()}


def _cost(rho: Fraction, delta: Fraction) -> str:
    """Epsilon is rounded up."""
    return f"rho = {_exact(rho)} (epsilon {ceil(100 * no_more(rho, delta)) / 100:.2f})"


def _exact(value: Fraction) -> str:
    """Itself where few digits say it, else what is a little more."""
    rounded = Fraction(ceil(value * 10**6), 10**6)
    return str(float(rounded)) if rounded.denominator > 1 else str(rounded)
