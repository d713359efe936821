r"""What one publication costs, as an office's register keeps it: for the relation of its cap
(:mod:`das.accounting.relations`), which names what differs between two populations.

One person, or one household, changes several records of a publication. What each change costs is
computed as in a joint account (:mod:`das.accounting.sources`), where all changes are in the same
answers: the most that can be. The cost is kept as the measurements that differ, not as one number.
Several publications are then composed exactly (:mod:`das.accounting.worst`). Of some only a cost is
known: rho (``alone``), or an epsilon that holds without a delta (``pure``), which is a rho of
:math:`\varepsilon^2/2` (Bun and Steinke 2016, proposition 1.4).

**Refused.** A publication of bounded neighbors protects a record that is *replaced*. Replacing a
record leaves the number of records alone, which may be published exactly. So nothing follows for a
record that comes or goes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from das.accounting.draws import Differing, Moves, count
from das.accounting.guarantee import combine
from das.accounting.relations import ADDED, Relation
from das.accounting.sources import PrivacySource
from das.errors import RegisterError
from das.model.budget import Neighbours
from das.model.mechanisms import MECHANISMS

#: More changes than this of one source are bounded by rho alone: nobody wants to keep them.
MOST_MOVES = 5_000
_COSTS = ("sources", "alone", "pure")


@dataclass(frozen=True)
class PublicationCost:
    """The measurements that differ, by source, where they are known; else rho ``alone``, or ``pure``
    epsilon. ``stated`` is the rho that the publication states, between its own ``neighbours``.
    """

    neighbours: str
    stated: Fraction
    parts: Mapping[str, Differing] = field(default_factory=dict)
    alone: Mapping[str, Fraction] = field(default_factory=dict)
    pure: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rho <= 0 or any(c <= 0 for c in (*self.alone.values(), *self.pure.values())):
            raise ValueError("it costs nothing")

    @staticmethod
    def of(sources: Iterable[PrivacySource], relation: Relation) -> PublicationCost:
        """What a relation costs in the sources of a publication. Raises :class:`RegisterError`
        where one states nothing that bounds it."""
        parts: dict[str, Differing] = {}
        alone, pure = dict[str, Fraction](), dict[str, Fraction]()
        given = list(sources)
        for s in given:
            bounded = s.neighbours == Neighbours.BOUNDED.value
            if bounded and relation.changed[s.unit].verb == ADDED:
                raise RegisterError(
                    "its guarantee is for records that are replaced (bounded), and the cap of this"
                    " register is for persons who are added or removed: nothing follows",
                    where=s.name,
                    remedy="enter it in a register of another relation (das register init)",
                )
            change = s.change(relation)
            found = change.differing(most=True)
            if change.pure is not None:
                pure[s.name] = pure.get(s.name, Fraction(0)) + change.pure
            elif found is not None and count(found) <= MOST_MOVES:
                parts[s.name] = (*parts.get(s.name, ()), *found)
            else:
                alone[s.name] = alone.get(s.name, Fraction(0)) + change.rho(most=True)
        stated = sum((s.stated for s in given), Fraction(0))
        neighbours = " and ".join(sorted({s.neighbours for s in given}))
        return PublicationCost(neighbours, stated, parts, alone, pure)

    @cached_property
    def rho(self) -> Fraction:
        """The zCDP of all of it."""
        pure = sum((e * e / 2 for e in self.pure.values()), Fraction(0))
        return self.gaussian + pure

    @cached_property
    def gaussian(self) -> Fraction:
        """The zCDP of what is not pure."""
        known = sum((m.rho for m in self.differing), Fraction(0))
        return known + sum(self.alone.values(), Fraction(0))

    @property
    def epsilon(self) -> Fraction:
        """What of it needs no delta."""
        return sum(self.pure.values(), Fraction(0))

    @cached_property
    def text(self) -> str:
        """Equal for equal costs."""
        same = self.to_json()
        return json.dumps([sorted(map(json.dumps, same[k].values())) for k in _COSTS])

    @property
    def differing(self) -> Differing:
        """The cost of all sources of Gaussian noise together, without :attr:`alone`."""
        return combine(self.parts.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "neighbours": self.neighbours,
            "stated": str(self.stated),
            "rho": str(self.rho),
            "sources": {u: [_moves_json(m) for m in found] for u, found in self.parts.items()},
            "alone": {u: str(c) for u, c in self.alone.items()},
            "pure": {u: str(c) for u, c in self.pure.items()},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> PublicationCost:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what is none."""
        out = PublicationCost(
            str(value["neighbours"]),
            _positive(value["stated"]),
            {u: tuple(map(_moves, found)) for u, found in value["sources"].items()},
            {u: _positive(c) for u, c in value["alone"].items()},
            {u: _positive(c) for u, c in value["pure"].items()},
        )
        if str(out.rho) != value["rho"] or set(value) != set(out.to_json()):
            raise ValueError("its cost is not that of its measurements")
        return out


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
