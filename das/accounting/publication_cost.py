r"""What one publication costs a person, as an office's register keeps it.

The cost is kept as the measurements that differ between neighbors, not as one number. Several
publications are then composed exactly (:mod:`das.accounting.worst`). A statement gives its cost
alone, so that only rho bounds it.

**Another relation.** A register has one relation. Between data sets in which one record is
*replaced* (bounded) there are two steps of the relation *added or removed* (unbounded): from
:math:`D` to :math:`D - x`, and on to :math:`D - x + y`. So what is stated for the second relation
bounds the first:

* Let each answer count records, so that one record moves each answer that it is in by 1. Then the
  first step takes 1 from the answers of :math:`x`, the second adds 1 to those of :math:`y`. No
  answer differs by more than 1, and those that differ are among those of either. So the two steps
  are one composition, of the measurements of both: at most twice the cost.
* If an answer can move by more than 1, or only rho is known, the two moves can add up in one
  answer. The distance of the answers at most doubles, and rho with Gaussian noise is proportional
  to its square: at most four times rho. (For any mechanism: Bun and Steinke 2016, proposition 1.9.)
  So it is in the S-DHC, where a unit record changes with its person: both steps can raise one answer.
* Pure epsilon adds up: twice.

Nothing follows in the other direction. Replacing a record leaves the number of records alone, which
may be published exactly, so a bounded statement is refused in an unbounded register.

**Another currency.** Pure epsilon is zCDP of :math:`\rho = \varepsilon^2/2` (Bun and Steinke 2016,
proposition 1.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    them cost the ``currency``. ``alone`` has what is known only by its cost.
    """

    currency: str
    neighbours: Neighbours
    parts: Mapping[str, Differing] = field(default_factory=dict)
    alone: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cost <= 0 or any(c <= 0 for c in self.alone.values()):
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
        neighbours = Neighbours(account.neighbours)
        return PublicationCost(mechanism.currency, neighbours, alone=totals)

    @cached_property
    def cost(self) -> Fraction:
        """The exact total over universes: of one record of each."""
        return sum(self.by_universe.values(), Fraction(0))

    @cached_property
    def by_universe(self) -> dict[str, Fraction]:
        out = defaultdict(Fraction, self.alone)
        for u, found in self.parts.items():
            out[u] += cost(self.currency, found)
        return dict(out)

    @property
    def rho(self) -> Fraction:
        """The zCDP of all of it."""
        return self.cost if self.currency == RHO else self.cost**2 / 2

    @property
    def differing(self) -> Differing:
        """What is known of all universes together, of Gaussian noise."""
        return combine(self.parts.values()) if self.currency == RHO else ()

    @property
    def composes(self) -> bool:
        """Whether :attr:`differing` is all of it, for Gaussian noise."""
        return not self.alone

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
                remedy="enter it in a register of bounded neighbors (das register init)",
            )
        parts: dict[str, Differing] = {}
        alone = defaultdict(Fraction, {u: self._meeting * c for u, c in self.alone.items()})
        for u, moves in ((u, m) for u, found in self.parts.items() for m in found):
            if self.currency == RHO and not moves.shifts and len(moves.moves) <= MOST_MOVES:
                parts[u] = (*parts.get(u, ()), _replaced(moves))
            else:
                alone[u] += (self._meeting if moves.shifts else 2) * moves.cost
        return PublicationCost(self.currency, neighbours, parts, dict(alone))

    @property
    def _meeting(self) -> int:
        """How many times as much two changes cost that may meet in one answer."""
        return 2 if self.currency == EPSILON else 4

    def to_json(self) -> dict[str, Any]:
        return {
            "neighbours": self.neighbours.value,
            "currency": self.currency,
            "cost": str(self.cost),
            "universes": {u: [_moves_json(m) for m in found] for u, found in self.parts.items()},
            "alone": {u: str(c) for u, c in self.alone.items()},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> PublicationCost:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what is none."""
        parts = {u: tuple(map(_moves, found)) for u, found in value["universes"].items()}
        alone = {u: _positive(c) for u, c in value["alone"].items()}
        out = PublicationCost(value["currency"], Neighbours(value["neighbours"]), parts, alone)
        if str(out.cost) != value["cost"] or set(value) != set(out.to_json()):
            raise ValueError("its cost is not that of its measurements")
        return out


def _replaced(moves: Moves) -> Moves:
    """What differs if one record goes and another comes, and no answer differs by more than 1."""
    pairs = combinations_with_replacement(moves.moves, 2)
    return replace(moves, moves=tuple(tuple(sorted(a + b)) for a, b in pairs))


def _moves_json(moves: Moves) -> dict[str, Any]:
    names = {m.name for path in moves.paths for (m, _), _ in path}
    shifted = [[str(p), k, n] for p, k, n in moves.shifted]
    return {
        "noise": next(iter(names), None),
        "paths": [[[str(parameter), n] for (_, parameter), n in path] for path in moves.paths],
        "moves": [list(move) for move in moves.moves],
        **({"shifted": shifted} if shifted else {}),
        **({"by": moves.by} if moves.by > 1 else {}),
    }


def _moves(value: Mapping[str, Any]) -> Moves:
    named = value["noise"]
    paths = tuple(
        tuple(((MECHANISMS[named], _positive(p)), _count(n)) for p, n in x) for x in value["paths"]
    )
    moves = tuple(tuple(map(int, move)) for move in value["moves"])
    if not moves or any(not 0 <= i < len(paths) for move in moves for i in move):
        raise ValueError("a change of no path")
    if set(value) - {"noise", "paths", "moves", "shifted", "by"}:
        raise ValueError("a key that nobody knows")
    shifted = tuple((_positive(p), _count(k), _count(n)) for p, k, n in value.get("shifted", ()))
    by = _count(value.get("by", 1))
    return Moves(paths, moves, (), several=len(moves) > 1, shifted=shifted, by=by)


def _positive(text: Any) -> Fraction:
    found = Fraction(text) if isinstance(text, str) else Fraction(0)
    if found <= 0:
        raise ValueError(f"{text!r} is no parameter of noise")
    return found


def _count(n: Any) -> int:
    if type(n) is not int or n < 1:
        raise ValueError(f"{n!r} is no number of answers")
    return n
