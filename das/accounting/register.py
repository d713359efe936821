r"""An office's register: everything that was spent on the records of its populations, and its cap.

A register is the fold of its lines (:meth:`Register.after`), which only ever grow. Here is what they
mean; :mod:`das.files.register` keeps them.

**Who is in several populations.** A line names a population, such as ``us-2020``. Two that are
declared disjoint have nobody in common; otherwise one person may be in both, and costs add up. So
one person is, at worst, in a set of populations without a disjoint pair. What is spent is the
most that any such set costs. To look at the largest sets is enough, because costs are positive.

**The cap.** It is a rho, or an epsilon at a delta. Rho adds up exactly (Bun and Steinke 2016, lemma
1.7), and a cap is reached exactly at equality. Epsilon is composed over all measurements
(:mod:`das.accounting.worst`), and what counts is the upper end of the interval that holds it; pure
epsilon is added to that. An entry whose cost alone is known is bounded by its rho.

**Decided in view of earlier results.** An office may choose the next budget by what it has
published. Rho still adds up then (Feldman and Zrnic 2021). An epsilon that is composed exactly is
proved for publications whose noise does not depend on earlier results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from das.accounting.fields import decimal
from das.accounting.guarantee import combine, worst_epsilon
from das.accounting.publication_cost import PublicationCost
from das.accounting.zcdp import no_more
from das.errors import RegisterError, SpecError
from das.model.budget import Neighbours
from das.model.exact import exact
from das.model.mechanism import EPSILON, RHO

FORMAT = "das-register/1"
#: What an entry is of.
KINDS = ("run", "release", "statement", "configuration")
#: A level of a universe, as ``universe:level``, and how often it is drawn.
Times = Mapping[str, int]


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
        pure = sum((s.pure for s in spendings), Fraction(0))
        found = combine(s.differing for s in spendings)
        gaussian = [s for s in spendings if not s.pure]
        if not all(s.composes for s in gaussian):
            return pure + Fraction(no_more(sum((s.rho for s in gaussian), Fraction(0)), self.delta))
        return pure + (Fraction(worst_epsilon(found, self.delta).high) if found else 0)

    def holds(self, spendings: Sequence[PublicationCost]) -> bool:
        """Whether these are within it. By rho alone, where that is enough."""
        if self.delta is not None:
            pure = sum((s.pure for s in spendings), Fraction(0))
            rho = sum((s.rho for s in spendings if not s.pure), Fraction(0))
            if Fraction(no_more(rho, self.delta)) + pure <= self.most:
                return True
        return self.spent(spendings) <= self.most


@dataclass(frozen=True)
class Opening:
    """The first line: the name of the register, its cap and its relation, the population of entries
    that name none, and where the ``witness`` of its head is."""

    id: str
    cap: Cap
    neighbours: Neighbours
    population: str
    disjoint: tuple[tuple[str, str], ...] = ()
    witness: str | None = None

    def to_json(self) -> dict[str, Any]:
        delta = {} if self.cap.delta is None else {"delta": str(self.cap.delta)}
        return {
            "format": FORMAT,
            "id": self.id,
            "cap": {self.cap.currency: str(self.cap.most)} | delta,
            "neighbours": self.neighbours.value,
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
            Neighbours(value["neighbours"]),
            _text(value["population"]),
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
class Register:
    """What the lines of a register say. ``entries`` are by the number of their line, ``void`` those
    of runs that gave up before any output, ``disjoint`` pairs of populations, ``signed`` the
    signatures."""

    opening: Opening
    lines: int = 1
    entries: Mapping[int, Entry] = field(default_factory=dict)
    void: Mapping[int, str] = field(default_factory=dict)
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
        more, n = replace(self, lines=self.lines + 1), self.lines
        if kind == "spend":
            entry = Entry.from_json(value)
            entry.spending.between(self.opening.neighbours)
            if entry.kind != "run" and self.of(entry.id):
                raise ValueError("the same is entered twice")
            pairs = _pairs((entry.population, other) for other in entry.disjoint_from)
            entries = {**self.entries, n: entry}
            return replace(more, entries=entries, disjoint=self.disjoint | pairs)
        if kind == "void":
            which, why = int(value["line"]), _text(value["why"])
            if which not in self.entries or which in self.void or set(value) != {"line", "why"}:
                raise ValueError("it gives up no entry")
            return replace(more, void={**self.void, which: why})
        if kind == "signature":
            return replace(more, signed={**self.signed, n: _text(value)})
        raise ValueError(f"an unknown line {kind!r}")

    def of(self, id: str) -> dict[int, Entry]:
        """The entries of a run, or of what was entered by hand; by their lines."""
        return {n: e for n, e in self.entries.items() if e.id == id}

    @cached_property
    def standing(self) -> dict[int, Entry]:
        """All that is spent."""
        return {n: e for n, e in self.entries.items() if n not in self.void}

    def spendings(self, populations: Collection[str]) -> list[PublicationCost]:
        """Of some populations, for the relation of the register."""
        to = self.opening.neighbours
        return [
            e.spending.between(to) for e in self.standing.values() if e.population in populations
        ]

    def joint_populations(self) -> list[frozenset[str]]:
        """The largest sets of populations that one person can be in."""
        names = dict.fromkeys(e.population for e in self.standing.values())
        return largest(list(names), self.disjoint)

    @property
    def spent(self) -> Fraction:
        """The most that one person has cost, in the currency of the cap."""
        cap = self.opening.cap
        return max(
            (cap.spent(self.spendings(s)) for s in self.joint_populations()), default=Fraction(0)
        )

    @property
    def left(self) -> Fraction:
        return self.opening.cap.most - self.spent

    def check_cap(self, what: str = "what is entered", where: object = None) -> None:
        """Raises :class:`RegisterError` where the cap is passed."""
        cap = self.opening.cap
        for populations in self.joint_populations():
            if not cap.holds(found := self.spendings(populations)):
                spent = cap.spent(found)
                raise RegisterError(
                    f"with {what}, persons in {', '.join(sorted(populations))} would cost"
                    f" {cap.currency} = {_said(spent)}, and the cap of this register is {cap}",
                    where=where,
                    remedy="spend less; or, where nobody is in two of these populations, declare"
                    " that (--disjoint-from). The cap of a register never changes",
                )


def largest(names: Sequence[str], disjoint: Collection[frozenset[str]]) -> list[frozenset[str]]:
    """The maximal sets of names without a disjoint pair: with the first name that has one and
    without those it is disjoint from, or without that name.

    >>> pairs = {frozenset(("a", "b"))}
    >>> [sorted(s) for s in largest(["a", "b", "c"], pairs)]
    [['a', 'c'], ['b', 'c']]
    """
    found = list(_independent(frozenset(names), disjoint)) if names else []
    return sorted((s for s in set(found) if not any(s < other for other in found)), key=sorted)


def _independent(
    names: frozenset[str], disjoint: Collection[frozenset[str]]
) -> Iterable[frozenset[str]]:
    for name in sorted(names):
        if others := {o for o in names if frozenset((name, o)) in disjoint and o != name}:
            yield from _independent(names - others, disjoint)
            yield from _independent(names - {name}, disjoint)
            return
    yield names


def _pairs(named: Iterable[tuple[str, str]]) -> frozenset[frozenset[str]]:
    found = frozenset(frozenset(pair) for pair in named)
    if any(len(pair) != 2 for pair in found):
        raise ValueError("a population is not disjoint from itself")
    return found


def _said(value: Fraction) -> str:
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
