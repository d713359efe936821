r"""What one publication costs a person, as an office's register keeps it.

The cost is kept as the measurements that differ between neighbours, not as one number: several
publications are then composed exactly (:mod:`das.accounting.worst`). A statement of another
publisher gives its rho alone, and stays a bound by rho.

**Another relation.** A register has one relation. Between data sets in which one record is
*replaced* (bounded) there are two steps of the relation *added or removed* (unbounded): from
:math:`D` to :math:`D - x`, and on to :math:`D - x + y`. So what is stated for the second relation
bounds the first:

* Let each answer count records, so that one record moves each answer that it is in by 1. Then the
  first step takes 1 from the answers of :math:`x`, the second adds 1 to those of :math:`y`. No
  answer differs by more than 1, and those that differ are among those of either. So the two steps
  are one composition, of the measurements of both: at most twice the cost.
* Where an answer may move by more (``wide``), or only rho is known, the two moves may add up in one
  answer. The distance of the answers at most doubles, and rho with Gaussian noise is proportional
  to its square: at most four times rho. (For any mechanism: Bun and Steinke 2016, proposition 1.9.)
* Pure epsilon adds up: twice.

Nothing follows in the other direction. Replacing a record leaves the number of records alone, which
may be published exactly, so a bounded statement is refused in an unbounded register.

**Another currency.** Pure epsilon is zCDP of :math:`\rho = \varepsilon^2/2` (Bun and Steinke 2016,
proposition 1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

from das.accounting.document import Account
from das.accounting.draws import Differing, Moves
from das.accounting.guarantee import combine, cost
from das.accounting.statement import Terms
from das.errors import RegisterError
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanism import EPSILON, RHO
from das.model.mechanisms import MECHANISMS

#: More changes than this of one universe are not paired with each other: rho alone bounds a pair.
MOST_MOVES = 64


@dataclass(frozen=True)
class PublicationCost:
    """The measurements of a publication that differ between ``neighbours``, by universe; all of
    them cost the ``currency``.
    """

    currency: str
    neighbours: Neighbours
    parts: Mapping[str, Differing]

    def __post_init__(self) -> None:
        if not self.parts or self.cost <= 0:
            raise ValueError("it costs nothing")

    @staticmethod
    def of(terms: Terms, draws: Mapping[str, Sequence[PlannedMeasurement]]) -> PublicationCost:
        """Of a plan or a ledger, by universe; a universe without measurements is left out."""
        parts = terms.differing({u: ds for u, ds in draws.items() if ds})
        bare = {u: tuple(replace(m, names=()) for m in found) for u, found in parts.items()}
        return PublicationCost(terms.mechanism.currency, terms.neighbours, bare)

    @staticmethod
    def stated(account: Account) -> PublicationCost:
        """Of a statement: by the costs that it states, and no more is known."""
        mechanism = MECHANISMS[account.mechanism]
        totals = {u: c for u, c in account.totals.items() if u != "total"}
        if sum(totals.values(), Fraction(0)) != account.total:
            totals = {"total": account.total}
        parts = {u: bounded_by(mechanism.currency, c) for u, c in totals.items()}
        return PublicationCost(mechanism.currency, Neighbours(account.neighbours), parts)

    @cached_property
    def cost(self) -> Fraction:
        """The exact total over universes: of one record of each."""
        return sum(self.by_universe.values(), Fraction(0))

    @cached_property
    def by_universe(self) -> dict[str, Fraction]:
        return {u: cost(self.currency, found) for u, found in self.parts.items()}

    @property
    def rho(self) -> Fraction:
        """The zCDP of all of it."""
        return self.cost if self.currency == RHO else self.cost**2 / 2

    @property
    def differing(self) -> Differing:
        """All universes together: of Gaussian noise."""
        return combine(self.parts.values()) if self.currency == RHO else ()

    @property
    def pure(self) -> Fraction:
        """Epsilon that holds with a delta of 0."""
        return self.cost if self.currency == EPSILON else Fraction(0)

    def between(self, neighbours: Neighbours) -> PublicationCost:
        """The same for another relation; see the module. Raises :class:`RegisterError`."""
        if neighbours is self.neighbours:
            return self
        if neighbours is Neighbours.UNBOUNDED:
            raise RegisterError(
                "its guarantee is for records that are replaced (bounded), and this register"
                " counts records that are added or removed (unbounded): nothing follows",
                where="neighbours",
                remedy="enter it in a register of bounded neighbours (das register init)",
            )
        found = {u: tuple(_replaced(self.currency, m) for m in ms) for u, ms in self.parts.items()}
        return PublicationCost(self.currency, neighbours, found)

    def to_json(self) -> dict[str, Any]:
        return {
            "neighbours": self.neighbours.value,
            "currency": self.currency,
            "cost": str(self.cost),
            "universes": {u: [_moves_json(m) for m in found] for u, found in self.parts.items()},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> PublicationCost:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what is none."""
        parts = {u: tuple(map(_moves, found)) for u, found in value["universes"].items()}
        out = PublicationCost(value["currency"], Neighbours(value["neighbours"]), parts)
        if str(out.cost) != value["cost"] or set(value) != set(out.to_json()):
            raise ValueError("its cost is not that of its measurements")
        return out


def bounded_by(currency: str, most: Fraction) -> Differing:
    """Stands for measurements whose cost alone is known: one of that cost. Its answer may differ by
    more than 1, so that it is never composed as if it could not."""
    noise = next(m for m in MECHANISMS.values() if m.currency == currency)
    draw = (noise, noise.parameter(most, 1))
    return (Moves((((draw, 1),),), ((0,),), (), wide=True),)


def _replaced(currency: str, moves: Moves) -> Moves:
    """What differs where one record goes and another comes."""
    if currency == RHO and not moves.wide and len(moves.moves) <= MOST_MOVES:
        pairs = combinations_with_replacement(moves.moves, 2)
        return replace(moves, moves=tuple(tuple(sorted(a + b)) for a, b in pairs))
    times = 2 if currency == EPSILON or not moves.wide else 4
    return bounded_by(currency, times * moves.cost)[0]


def _moves_json(moves: Moves) -> dict[str, Any]:
    noise = next(m for path in moves.paths for (m, _), _ in path)
    return {
        "noise": noise.name,
        "paths": [[[str(parameter), n] for (_, parameter), n in path] for path in moves.paths],
        "moves": [list(move) for move in moves.moves],
        **({"wide": True} if moves.wide else {}),
    }


def _moves(value: Mapping[str, Any]) -> Moves:
    noise = MECHANISMS[value["noise"]]
    paths = tuple(tuple(((noise, _positive(p)), _count(n)) for p, n in x) for x in value["paths"])
    moves = tuple(tuple(map(int, move)) for move in value["moves"])
    if not moves or any(not 0 <= i < len(paths) for move in moves for i in move):
        raise ValueError("a change of no path")
    if set(value) - {"noise", "paths", "moves", "wide"} or value.get("wide", True) is not True:
        raise ValueError("a key that nobody knows")
    return Moves(paths, moves, (), several=len(moves) > 1, wide="wide" in value)


def _positive(text: Any) -> Fraction:
    found = Fraction(text) if isinstance(text, str) else Fraction(0)
    if found <= 0:
        raise ValueError(f"{text!r} is no parameter of noise")
    return found


def _count(n: Any) -> int:
    if type(n) is not int or n < 1:
        raise ValueError(f"{n!r} is no number of answers")
    return n
