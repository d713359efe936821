r"""What one publication costs, as an office's register keeps it: for the relation of its cap
(:mod:`das.accounting.sources`), which names what differs between two populations.

One person, or one household, changes several records of a publication. What each change costs is
computed as in a joint account (:mod:`das.accounting.sources`) in the worst case: all changes
fall in the same counts. The cost is kept as the measurements that differ, not as one number.
Several publications are then composed exactly (:mod:`das.accounting.worst`). Of some only a cost is
known: rho (``alone``), or an epsilon that holds without a delta (``pure``), which is a rho of
:math:`\varepsilon^2/2` (Bun and Steinke 2016, proposition 1.4).

**Refused.** A publication of bounded neighbors protects a record that is *replaced*. Replacing a
record leaves the number of records alone, which may be published exactly. So nothing follows for a
record that comes or goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from typing import Any

from das.accounting.draws import Differing, Moves, count
from das.accounting.guarantee import combine
from das.accounting.sources import ADDED, PrivacySource, Relation
from das.errors import RegisterError
from das.model.budget import Neighbours
from das.model.mechanisms import MECHANISMS

#: More changes than this of one source are bounded by rho alone: nobody wants to keep them.
MOST_MOVES = 5_000
_COSTS = ("sources", "alone", "pure")


@dataclass(frozen=True)
class PublicationCost:
    """The measurements that differ, by source, where they are known; else rho ``alone``, or ``pure``
    epsilon. ``stated`` is the rho that the publication states, between its own ``neighbours``."""

    neighbours: str
    stated: Fraction
    parts: Mapping[str, Differing] = field(default_factory=dict)
    alone: Mapping[str, Fraction] = field(default_factory=dict)
    pure: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rho <= 0 or any(c <= 0 for c in (*self.alone.values(), *self.pure.values())):
            raise ValueError("it costs nothing")

    @staticmethod
    def from_sources(sources: Iterable[PrivacySource], relation: Relation) -> PublicationCost:
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


# The most that one person costs who can be in several populations.
#
# Populations that are declared disjoint have nobody in common. So one person is in a set without a
# disjoint pair, and costs what such a set costs. Costs are positive, so only the largest sets matter.
# Their number grows exponentially: three censuses by 50 states have 125,000. Most declarations are
# made of two steps, which need no list of sets. Let :math:`V` be populations.
#
# * *Together.* :math:`V` falls apart into parts, and no pair of two parts is disjoint. Then the largest
# sets of :math:`V` are a largest set of each part, and their costs add up.
# * *One of them.* :math:`V` falls apart into parts, and every pair of two parts is disjoint. Then the
# largest sets of :math:`V` are those of its parts.
# * *Otherwise* take one of them, :math:`v`. A set has :math:`v` and nobody that is disjoint from it,
# or it does not have :math:`v`. Either is a smaller problem, and each problem is solved once.
#
# The first two steps solve what is made by them alone in polynomial time (cographs; Corneil, Lerchs
# and Stewart Burlingham 1981). The third can take exponential time, so it is taken ``BRANCHES`` times.
# Then cliques of disjoint populations are treated as if no pair of two cliques were disjoint. That
# allows more sets, so that the result is an upper bound, and it says so (``exact``).
#
# *What is kept.* A sum of rho is highest where each summand is, so one set of each part is enough. An
# epsilon that is composed is no sum. There ``KEPT`` sets are kept, those with the most rho, and sets
# with the same costs once; ``rest`` bounds rho and pure epsilon of all others.

#: How many sets of a part are kept where costs do not add up.
KEPT = 16
#: How often a population is tried in and out.
BRANCHES = 100

PopulationNames = frozenset[str]


@dataclass(frozen=True)
class JointSet:
    """Populations that one person can be in: their ``costs`` by number, and what these add up to."""

    names: PopulationNames
    costs: tuple[int, ...]
    rho: Fraction
    pure: Fraction

    def __add__(self, other: JointSet) -> JointSet:
        costs = tuple(sorted(self.costs + other.costs))
        return JointSet(
            self.names | other.names, costs, self.rho + other.rho, self.pure + other.pure
        )


@dataclass(frozen=True)
class JointSets:
    """The costliest sets, in order, and an upper bound of rho and of pure epsilon of each other one.
    If not ``exact``, sets are among them that nobody can be in."""

    kept: tuple[JointSet, ...]
    rest: tuple[Fraction, Fraction] | None = None
    exact: bool = True


NOBODY = JointSet(frozenset(), (), Fraction(0), Fraction(0))


class CostliestSets:
    """Finds the costliest sets of populations; see the module. If costs are ``additive``, they are
    the sets' rho."""

    def __init__(
        self, each: Iterable[JointSet], disjoint: Collection[PopulationNames], additive: bool
    ) -> None:
        self._alone = {next(iter(s.names)): s for s in each}
        self._additive = additive
        self._apart: dict[str, set[str]] = {name: set() for name in self._alone}
        for a, b in disjoint:
            if a in self._apart and b in self._apart:
                self._apart[a].add(b)
                self._apart[b].add(a)
        self._known: dict[PopulationNames, JointSets] = {}
        self._branches = BRANCHES

    def sets(self) -> JointSets:
        return self._solved(frozenset(self._alone))

    def _solved(self, names: PopulationNames) -> JointSets:
        if names not in self._known:
            self._known[names] = self._split(names)
        return self._known[names]

    def _split(self, names: PopulationNames) -> JointSets:
        if not names:
            return JointSets((NOBODY,))
        if len(names) == 1:
            return JointSets((self._alone[next(iter(names))],))
        if len(parts := _parts(names, lambda v, left: left & self._apart[v])) > 1:
            return self._together([self._solved(part) for part in parts])
        if len(parts := _parts(names, lambda v, left: left - self._apart[v])) > 1:
            return self._one_of([self._solved(part) for part in parts])
        if self._branches == 0:
            found = self._together([self._one_of([self._solved(frozenset((v,))) for v in clique])
                                    for clique in self._cliques(names)])  # fmt: skip
            return JointSets(found.kept, found.rest, exact=False)
        self._branches -= 1
        v = max(sorted(names), key=lambda v: len(self._apart[v] & names))
        with_v = self._together([self._solved(frozenset((v,))),
                                 self._solved(names - self._apart[v] - {v})])  # fmt: skip
        return self._one_of([with_v, self._solved(names - {v})])

    def _cliques(self, names: PopulationNames) -> list[list[str]]:
        out: list[list[str]] = []
        for name in sorted(names):
            for clique in out:
                if self._apart[name].issuperset(clique):
                    clique.append(name)
                    break
            else:
                out.append([name])
        return out

    def _together(self, parts: Sequence[JointSets]) -> JointSets:
        return reduce(self._both, parts)

    def _both(self, a: JointSets, b: JointSets) -> JointSets:
        # of a set that is not kept, one part at least is not kept
        rests = [_sum(x.rest, _most(y)) for x, y in ((a, b), (b, a)) if x.rest]
        return self._best((x + y for x, y in product(a.kept, b.kept)), rests, a.exact and b.exact)

    def _one_of(self, parts: Sequence[JointSets]) -> JointSets:
        rests = [p.rest for p in parts if p.rest]
        return self._best((s for p in parts for s in p.kept), rests, all(p.exact for p in parts))

    def _best(
        self, sets: Iterable[JointSet], rests: list[tuple[Fraction, Fraction]], exact: bool
    ) -> JointSets:
        distinct: dict[tuple[int, ...], JointSet] = {}
        for s in sets:
            distinct.setdefault(s.costs, s)
        order = sorted(distinct.values(), key=lambda s: s.rho + s.pure, reverse=True)
        keep = 1 if self._additive else KEPT
        rests += [] if self._additive else [(s.rho, s.pure) for s in order[keep:]]
        rest = reduce(_larger, rests) if rests else None
        return JointSets(tuple(order[:keep]), rest, exact)


def _parts(
    names: PopulationNames, near: Callable[[str, set[str]], set[str]]
) -> list[PopulationNames]:
    """The parts that are connected by being ``near``; the least name first."""
    left, out = set(names), []
    for first in sorted(names):
        if first not in left:
            continue
        left.discard(first)
        part, due = [], [first]
        while due:
            part.append(v := due.pop())
            found = near(v, left)
            left -= found
            due += found
        out.append(frozenset(part))
    return out


def _most(sets: JointSets) -> tuple[Fraction, Fraction]:
    """No set of these has more rho, and none more pure epsilon."""
    every = [(s.rho, s.pure) for s in sets.kept] + ([sets.rest] if sets.rest else [])
    return reduce(_larger, every)


def _sum(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    return a[0] + b[0], a[1] + b[1]


def _larger(
    a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]
) -> tuple[Fraction, Fraction]:
    return max(a[0], b[0]), max(a[1], b[1])


def alone(
    costs: Mapping[str, Sequence[int]], cost_of: Callable[[int], tuple[Fraction, Fraction]]
) -> list[JointSet]:
    """Each population by itself, by the numbers of its ``costs``: of each, its ``cost_of``."""
    out = []
    for name, numbers in costs.items():
        rho, pure = reduce(_sum, map(cost_of, numbers), (Fraction(0), Fraction(0)))
        out.append(JointSet(frozenset((name,)), tuple(sorted(numbers)), rho, pure))
    return out
