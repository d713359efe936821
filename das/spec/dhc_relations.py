r"""The cost of changes in the world that change several records at once: in one release, and in it
and the release that it rests on.

If a person moves to another household, one record of persons changes. Two records of households
change: one loses a person, one gains a person. Two records of units change if one is left empty and
another taken. Between bounded neighbors :math:`\rho` is the cost of *one* replaced record.

*Several records of one universe.* Let :math:`k` records be replaced. In a draw of :math:`\sigma^2`
the i-th takes 1 from one answer and gives 1 to another, :math:`v_i = e_{b_i} - e_{a_i}`. So
:math:`\|\sum_i v_i\| \le \sum_i \|v_i\| \le k \sqrt 2`. With an integer shift :math:`v`, discrete
Gaussian noise costs :math:`\|v\|^2 / 2\sigma^2`: at most :math:`k^2` times the cost of one record,
:math:`2 / 2\sigma^2`. Summed over the measurements it is :math:`k^2 \rho`. This is reached if all k
change alike in one block. If no two of them change the same answer of any draw,
:math:`\|\sum_i v_i\|^2 = \sum_i \|v_i\|^2 \le 2 k`, and the cost is :math:`k \rho`. (So costs of
records do not just add up. At the root any two records are in one unit, and can be in one answer.)

*Several universes, several releases* are independent draws about the same change: their
:math:`\rho` add up.

*A release with other terms.* Suppose that neighbors differ by one record added or removed. A
replaced record is both. It changes two answers by 1 where an added or removed record changes one:
:math:`2\rho`. Noise that is :math:`\varepsilon`-private is :math:`\varepsilon^2/2`-zCDP (Bun and
Steinke 2016, proposition 1.4), with :math:`2\varepsilon` for a record replaced between such
neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from das.accounting.document import OwnAccount
from das.accounting.fields import decimal
from das.accounting.zcdp import no_more
from das.model.mechanism import EPSILON
from das.model.mechanisms import MECHANISMS

#: How each sentence begins.
BEGINS = "Replacing"
#: By universe, the rho of one record that is replaced.
Costs = Mapping[str, Fraction]


@dataclass(frozen=True)
class Relation:
    """What changes, in words, and how many records of each universe that is at most, in any of the
    releases.
    """

    what: str
    records: Mapping[str, int]

    def apart(self, costs: Costs) -> Fraction:
        """rho, where no two of the records change one answer."""
        return sum((self.records.get(u, 0) * rho for u, rho in costs.items()), Fraction(0))

    def most(self, costs: Costs) -> Fraction:
        """rho, wherever they are."""
        return sum((self.records.get(u, 0) ** 2 * rho for u, rho in costs.items()), Fraction(0))

    def says(self, costs: Costs, delta: Fraction) -> str:
        """Both, and epsilon at ``delta``.

        >>> person = Relation("One person", {"persons": 1, "households": 2})
        >>> costs = {"persons": Fraction(1), "households": Fraction(2)}
        >>> print(person.says(costs, Fraction(1, 10**10)))  # doctest: +NORMALIZE_WHITESPACE
        rho = 5 (epsilon 25.54) where no two of the records change one answer, and never more than
        rho = 9 (epsilon 36.71)"""
        apart, most = self.apart(costs), self.most(costs)
        if apart == most:
            return _cost(most, delta)
        return (
            f"{_cost(apart, delta)} where no two of the records change one answer, and never more"
            f" than {_cost(most, delta)}"
        )


#: What a reader of a statement of the DHC may have in mind. Housing units are the units of a
#: redistricting release.
RELATIONS = (
    Relation("one record of persons", {"persons": 1}),
    Relation(
        "one record of persons, one of households and one of units",
        {"persons": 1, "households": 1, "units": 1, "housing": 1},
    ),
    Relation(
        "one person elsewhere, with two households and two units that change by it",
        {"persons": 1, "households": 2, "units": 2, "housing": 2},
    ),
    Relation(
        "a household of three persons elsewhere, with the two units that change by it",
        {"persons": 3, "households": 1, "units": 2, "housing": 2},
    ),
)


def sentences(costs: Costs, earlier: Costs, delta: Fraction) -> tuple[str, ...]:
    """What each of the relations costs in this release, and together with the earlier one; epsilon
    is from rho alone.
    """
    both = {**costs, **{u: rho + costs.get(u, 0) for u, rho in earlier.items()}}
    with_it = "; together with the redistricting release {}" if earlier else ""
    return tuple(
        f"{BEGINS} {r.what} costs {r.says(costs, delta)}{with_it.format(r.says(both, delta))}. "
        f"Epsilon is at delta = {decimal(delta)}, from rho alone."
        for r in RELATIONS
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
