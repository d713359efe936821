r"""An office's register: everything that was spent on the records of its populations, and its cap.

A register is the fold of its lines (:meth:`Register.after`), which only ever grow. Here is what they
mean; :mod:`das.register.file` keeps them.

**The cap** names a relation (:mod:`das.accounting.sources`): what differs between two populations,
such as one person who has moved. It is a rho, or an epsilon at a delta. Rho adds up exactly (Bun and
Steinke 2016, lemma 1.7), and a cap is reached exactly at equality. Epsilon is composed over all
measurements (:mod:`das.accounting.worst`), and what counts is the upper end of the interval that
holds it; pure epsilon is added to that. An entry whose cost alone is known is bounded by its rho.

**Who is in several populations.** A line names a population, such as ``us-2020``. Two that are
declared disjoint have nobody in common; otherwise one person may be in both, and costs add up. What
is spent is the most that any set without a disjoint pair costs (:mod:`das.register.publication_cost`).

**Every draw has a name** (``begun``). Before a run draws a stage, its register has a line with the
name of that draw (:mod:`das.register.entering`). A stage never has more names than its entries pay
for. An entry can be given up (``void``) as long as its run has no such line. A run that was given up
gets none any more. So there is no order of lines in which a draw has a name and is not counted:

* a name after ``void``, ``void`` after a name, and a name beyond what was entered are no lines of a
  register: nobody adds them, and a reader refuses the first;
* ``entries`` and names only grow, and ``void`` takes back only what has no names.

**Decided in view of earlier results.** An office may choose the next budget by what it has
published. Rho still adds up then (Feldman and Zrnic 2021). An epsilon that is composed exactly is
proved for publications whose noise does not depend on earlier results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from das.accounting.document import decimal
from das.accounting.guarantee import combine
from das.accounting.kept import recomputed, worst_epsilon
from das.accounting.sources import PERSONS, Relation, relations
from das.accounting.zcdp import no_more
from das.errors import RegisterError, SpecError
from das.model.exact import exact
from das.model.mechanisms import EPSILON, RHO
from das.register.publication_cost import (
    CostliestSets,
    JointSet,
    PopulationNames,
    PublicationCost,
    alone,
)

FORMAT = "das-register/2"
#: What an entry is of.
KINDS = ("run", "release", "statement", "configuration")
#: A level of a universe, as ``universe:level``, and how often it is drawn.
Times = Mapping[str, int]
#: The names of the draws of a run, by level.
DrawNames = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Cap:
    """The most that may be spent: a ``rho``, or an ``epsilon`` at ``delta``."""

    currency: str
    most: Fraction
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        if self.currency not in (RHO, EPSILON) or (self.delta is None) is (
            self.currency == EPSILON
        ):
            raise SpecError("a cap is a rho, or an epsilon with a delta", where="cap")
        if self.most <= 0 or not (self.delta is None or 0 < self.delta < 1):
            raise SpecError("a cap is positive, and its delta between 0 and 1", where="cap")

    def __str__(self) -> str:
        at = f" at delta = {decimal(self.delta)}" if self.delta else ""
        return f"{self.currency} = {self.most}{at}"

    def spent(self, spendings: Sequence[PublicationCost]) -> Fraction:
        """What these cost together: exactly, or an upper bound of the exact epsilon."""
        if not spendings:
            return Fraction(0)
        if self.delta is None:
            return sum((s.rho for s in spendings), Fraction(0))
        pure = sum((s.epsilon for s in spendings), Fraction(0))
        if any(s.alone for s in spendings):
            return self.bound(sum((s.gaussian for s in spendings), Fraction(0)), pure)
        found = combine(s.differing for s in spendings)
        with recomputed():  # a cap does not rest on a file that its user can write
            return pure + (Fraction(worst_epsilon(found, self.delta).high) if found else 0)

    def bound(self, rho: Fraction, pure: Fraction) -> Fraction:
        """What these cost at most, by rho alone."""
        return rho if self.delta is None else pure + Fraction(no_more(rho, self.delta))


@dataclass(frozen=True)
class Opening:
    """The first line. The cap is for the relation that is ``named``, with the most ``persons`` of a
    household. Entries that name no ``population`` are of this one. The ``witness`` has the head."""

    id: str
    cap: Cap
    population: str
    named: str = "replaced"
    persons: int = PERSONS
    disjoint: tuple[tuple[str, str], ...] = ()
    witness: str | None = None

    @cached_property
    def relation(self) -> Relation:
        """What differs between two populations. Raises ``ValueError`` for a name of none."""
        found = {r.name: r for r in relations(self.persons)}
        if self.named not in found or type(self.persons) is not int or self.persons < 1:
            raise ValueError(f"{self.named!r} is no relation: {', '.join(found)}")
        return found[self.named]

    def to_json(self) -> dict[str, Any]:
        delta = {} if self.cap.delta is None else {"delta": str(self.cap.delta)}
        return {
            "format": FORMAT,
            "id": self.id,
            "cap": {self.cap.currency: str(self.cap.most)} | delta,
            "relation": self.relation.name,
            "persons": self.persons,
            "population": self.population,
            "disjoint": [list(pair) for pair in self.disjoint],
            "witness": self.witness,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Opening:
        if value["format"] != FORMAT:
            raise ValueError(f"its format is {value['format']!r}, and this das reads {FORMAT!r}")
        caps = dict(value["cap"])
        delta = exact(caps.pop("delta")) if "delta" in caps else None
        ((currency, most),) = caps.items()
        out = Opening(
            _text(value["id"]),
            Cap(currency, exact(most), delta),
            _text(value["population"]),
            _text(value["relation"]),
            value["persons"],
            tuple((_text(a), _text(b)) for a, b in value["disjoint"]),
            None if value["witness"] is None else _text(value["witness"]),
        )
        return _same(out, value)


@dataclass(frozen=True)
class Entry:
    """One spending. ``id`` names the run, or what was entered by hand; ``key`` is the name of the
    run key that its noise follows from, where there is one; ``times`` has the levels that the run
    draws more than once. Nobody in its population is in one that it is ``disjoint_from``."""

    kind: str
    id: str
    name: str
    title: str
    population: str
    private: bool
    when: str
    spending: PublicationCost
    key: str | None = None
    times: Times = field(default_factory=dict)
    disjoint_from: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "id": self.id,
            "name": self.name,
            "title": self.title,
            "population": self.population,
            "private": self.private,
            "when": self.when,
            "key": self.key,
            "times": dict(self.times),
            "disjoint_from": list(self.disjoint_from),
            "spending": self.spending.to_json(),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Entry:
        if value["kind"] not in KINDS or type(value["private"]) is not bool:
            raise ValueError("an entry of no kind")
        kind, id, name, title, population = (
            _text(value[k]) for k in ("kind", "id", "name", "title", "population")
        )
        out = Entry(
            kind,
            id,
            name,
            title,
            population,
            value["private"],
            _text(value["when"]),
            PublicationCost.from_json(value["spending"]),
            None if value["key"] is None else _text(value["key"]),
            {str(stage): int(n) for stage, n in value["times"].items()},
            tuple(map(_text, value["disjoint_from"])),
        )
        return _same(out, value)


@dataclass(frozen=True)
class Spent:
    """The most that one person has cost, in the currency of the cap, and the populations of that
    person. If not ``exact``, nobody costs more."""

    cost: Fraction
    populations: PopulationNames
    exact: bool


@dataclass(frozen=True)
class Register:
    """What the lines of a register say. ``entries`` are by the number of their line, ``void`` those
    of runs that gave up before their first draw. ``begun`` has the names of the draws of each run,
    ``disjoint`` pairs of populations, ``signed`` the signatures."""

    opening: Opening
    lines: int = 1
    entries: Mapping[int, Entry] = field(default_factory=dict)
    void: Mapping[int, str] = field(default_factory=dict)
    begun: Mapping[str, DrawNames] = field(default_factory=dict)
    disjoint: frozenset[frozenset[str]] = frozenset()
    signed: Mapping[int, str] = field(default_factory=dict)

    @staticmethod
    def opened(kind: str, value: Mapping[str, Any]) -> Register:
        """By the first line."""
        if kind != "init":
            raise ValueError("the first line opens no register")
        opening = Opening.from_json(value)
        return Register(opening, disjoint=_pairs(opening.disjoint))

    def after(self, kind: str, value: Any) -> Register:
        """With one line more. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for a line that
        says nothing; the cap is another matter (:meth:`check_cap`)."""
        n = self.lines + 1
        more = replace(self, lines=n)
        if kind == "spend":
            entry = Entry.from_json(value)
            if self.given_up(entry.id) or (entry.kind != "run" and self.entries_of(entry.id)):
                raise ValueError("the same is entered twice, or was given up")
            pairs = _pairs((entry.population, other) for other in entry.disjoint_from)
            entries = {**self.entries, n: entry}
            return replace(more, entries=entries, disjoint=self.disjoint | pairs)
        if kind == "begun":
            return replace(more, begun={**self.begun, _text(value["run"]): self._named(value)})
        if kind == "void":
            which, why = int(value["line"]), _text(value["why"])
            if which not in self.entries or which in self.void or set(value) != {"line", "why"}:
                raise ValueError("it gives up no entry")
            if self.entries[which].kind != "run" or self.entries[which].id in self.begun:
                raise ValueError("it gives up what may have been drawn")
            return replace(more, void={**self.void, which: why})
        if kind == "signature":
            return replace(more, signed={**self.signed, n: _text(value)})
        raise ValueError(f"an unknown line {kind!r}")

    def _named(self, value: Mapping[str, Any]) -> DrawNames:
        """The draws of a run, with those of one line more."""
        run, found = value["run"], dict(self.begun.get(value["run"], {}))
        if not value["draws"] or set(value) != {"run", "draws"} or self.given_up(run):
            raise ValueError("it names no draw of a run that stands")
        for stage, names in value["draws"].items():
            found[stage] = (*found.get(stage, ()), *map(_text, names))
            if not 0 < len(found[stage]) <= self.paid(run, stage):
                raise ValueError(f"{stage} is drawn more often than it was entered")
            if len(set(found[stage])) < len(found[stage]):
                raise ValueError(f"a draw of {stage} has its name twice")
        return found

    def entries_of(self, id: str) -> dict[int, Entry]:
        """The entries of a run, or of what was entered by hand; by their lines."""
        return {n: e for n, e in self.entries.items() if e.id == id}

    def paid(self, run: str, stage: str) -> int:
        """How often a run may draw a level."""
        return max((e.times.get(stage, 1) for e in self.entries_of(run).values()), default=0)

    def given_up(self, run: str) -> bool:
        return any(self.entries[n].id == run for n in self.void)

    @cached_property
    def standing(self) -> dict[int, Entry]:
        """All that is spent."""
        return {n: e for n, e in self.entries.items() if n not in self.void}

    def spent_up_to(self, enough: Fraction = Fraction(0)) -> Spent:
        """The most that one person has cost. Costs of no more than ``enough`` are not told apart."""
        cap, different = self.opening.cap, dict[str, int]()
        costs: dict[str, list[int]] = {}
        spendings: list[PublicationCost] = []
        for e in self.standing.values():
            number = different.setdefault(e.spending.text, len(different))
            if number == len(spendings):
                spendings.append(e.spending)
            costs.setdefault(e.population, []).append(number)

        def cost_of(number: int) -> tuple[Fraction, Fraction]:
            one = spendings[number]
            if cap.delta is None:
                return one.rho, Fraction(0)
            return one.gaussian, one.epsilon

        found = CostliestSets(
            alone(costs, cost_of), self.disjoint, additive=cap.delta is None
        ).sets()
        order: list[tuple[Fraction, JointSet | None]] = [
            (cap.bound(s.rho, s.pure), s) for s in found.kept
        ]
        if found.rest is not None:
            order.append((cap.bound(*found.rest), None))
        order.sort(key=lambda pair: pair[0], reverse=True)
        out = Spent(Fraction(0), order[0][1].names if order[0][1] else frozenset(), found.exact)
        for bound, s in order:
            if bound <= max(out.cost, enough):
                return out if out.cost or not bound else replace(out, cost=bound, exact=False)
            if s is None:
                return replace(out, cost=bound, exact=False)
            cost = bound if cap.delta is None else cap.spent([spendings[i] for i in s.costs])
            if cost > out.cost:
                out = Spent(cost, s.names, found.exact)
        return out

    @cached_property
    def spent(self) -> Spent:
        return self.spent_up_to()

    @property
    def left(self) -> Fraction:
        return self.opening.cap.most - self.spent.cost

    def spendings(self, populations: PopulationNames) -> list[PublicationCost]:
        return [e.spending for e in self.standing.values() if e.population in populations]

    def check_cap(self, what: str = "what is entered", where: object = None) -> None:
        """Raises :class:`RegisterError` where the cap is passed, or may be."""
        cap, spent = self.opening.cap, self.spent_up_to(self.opening.cap.most)
        if spent.cost > cap.most:
            most = "" if spent.exact else "up to "
            raise RegisterError(
                f"with {what}, persons in {', '.join(sorted(spent.populations))} would cost"
                f" {most}{cap.currency} = {in_words(spent.cost)} ({self.opening.relation.title}), and"
                f" the cap of this register is {cap}",
                where=where,
                remedy="spend less; or, where nobody is in two of these populations, declare"
                " that (--disjoint-from). The cap of a register never changes",
            )


def _pairs(named: Iterable[tuple[str, str]]) -> frozenset[frozenset[str]]:
    found = frozenset(frozenset(pair) for pair in named)
    if any(len(pair) != 2 for pair in found):
        raise ValueError("a population is not disjoint from itself")
    return found


def in_words(value: Fraction) -> str:
    """Exactly where that is short, and as a decimal."""
    short = value if value.denominator < 10**9 else None
    return f"{float(value):.10g}" if short is None else f"{short} (about {float(value):.6g})"


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f"{value!r} is no text")
    return value


def _same(out: Any, value: Mapping[str, Any]) -> Any:
    """What was read, where the text says that and nothing else."""
    if out.to_json() != dict(value):
        raise ValueError("it has other keys or values than its format knows")
    return out
