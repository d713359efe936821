r"""The draws to account for: discrete Gaussian draws whose true value differs by one between
neighbors.

A draw from :math:`N_Z(0, \sigma^2)` matters only through its precision :math:`p = 1/\sigma^2`. With
the first of two neighbors it is :math:`X`. With the second it is :math:`X + 1` or :math:`X - 1`,
which are the same by symmetry. So the privacy loss is affine in :math:`X`,

.. math:: \ln \frac{P(X)}{P(X - 1)} = \frac{(X - 1)^2 - X^2}{2\sigma^2} = \frac{p}{2} - p X,

and that of a composition is :math:`L = \rho + \sum_i p_i X_i` in distribution, :math:`\rho =
\frac12\sum_i p_i`. An answer that differs by :math:`k` in place of 1 has the loss :math:`k^2 p/2
- k p X`: the same with :math:`k p` for :math:`p` at X, and :math:`k^2 p` in :math:`\rho`.

A query of a plan contributes as many draws as it has answers that change by one. These are two if a
record is replaced by another (bounded neighbors), one if it is added or removed. If the record
stays in the same answer of some query, there are fewer draws, and fewer draws never cost more.

Where units of a level are measured differently, the difference depends on the place of the record.
One answer changes in every draw on the path of its place. If another record replaces it, one answer
also changes in every draw on the path of that record's place. Each pair of paths is a composition,
and the guarantee of a plan is that of the worst pair. Which pair is worst can change with
delta."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations_with_replacement, product
from math import gcd, lcm, prod

from das.accounting.zcdp import countable
from das.errors import PrivacyError
from das.model.budget import Neighbours, PlannedMeasurement, UnitPath, check_covered, seen, through
from das.model.ledger import Event, Ledger
from das.model.mechanisms import DISCRETE_GAUSSIAN, Mechanism
from das.model.plan import Plan

Exactly = Fraction | int | str
#: The number of answers that differ by 1 between two data sets, by mechanism and parameter.
DrawCounts = tuple[tuple[tuple[Mechanism, Fraction], int], ...]
Draws = Plan | Ledger | Iterable[Event | tuple[Fraction, int]]


@dataclass(frozen=True)
class Composition:
    """Independent draws, by precision: ``parts`` are pairs (p, n) of distinct precisions and their
    numbers, the smallest precision first. ``shifted`` are those whose answer differs by k > 1:
    triples (p, k, n)."""

    parts: tuple[tuple[Fraction, int], ...]
    shifted: tuple[tuple[Fraction, int, int], ...] = ()

    @property
    def every(self) -> tuple[tuple[Fraction, int, int], ...]:
        """All draws: precision, by how much the answer differs, and how many."""
        return (*((p, 1, n) for p, n in self.parts), *self.shifted)

    @staticmethod
    def from_draws(draws: Draws | Composition) -> Composition:
        """The composition of a plan, a ledger, events, or pairs (sigma^2, number of draws); see the
        module. Raises ``PrivacyError`` for anything that is not one composition, such as a plan
        with several paths (use ``compositions``).

        >>> Composition.from_draws([(Fraction(4), 1), (Fraction(2), 1), (Fraction(4), 2)]).parts
        ((Fraction(1, 4), 3), (Fraction(1, 2), 1))"""
        if isinstance(draws, Composition):
            return draws
        if isinstance(draws, Plan):
            every = compositions(draws)
            if len(every) > 1:
                raise PrivacyError(
                    f"{len(every)} pairs of places differ in the draws that a record there"
                    f" affects: each pair is a composition of its own",
                    where="account",
                    remedy="ask das.accounting.epsilon of the plan, which takes the worst",
                )
            return every[0]
        counts: Counter[tuple[Mechanism, Fraction]] = Counter()
        lines = draws.events if isinstance(draws, Ledger) else tuple(draws)
        through(
            d for d in lines if isinstance(d, PlannedMeasurement)
        )  # refuses several classes of a level
        for d in lines:
            mechanism, parameter, n = (
                _changes(d) if isinstance(d, PlannedMeasurement) else (DISCRETE_GAUSSIAN, *_pair(d))
            )
            counts[mechanism, parameter] += n
        return Composition.differing(tuple(counts.items()))

    @staticmethod
    def differing(draw_counts: DrawCounts) -> Composition:
        """The composition of given numbers of draws, by noise. Raises :class:`PrivacyError` for
        any noise except the discrete Gaussian."""
        if other := [m for (m, _), _ in draw_counts if m != DISCRETE_GAUSSIAN]:
            remedy = (
                "its epsilons add up, see das.accounting.pure"
                if other[0].pure
                else "account for it by its rho"
            )
            raise PrivacyError(
                f"{other[0]} noise is not composed with, nor as, {DISCRETE_GAUSSIAN} noise",
                where="account",
                remedy=remedy,
            )
        return Composition(_sorted((1 / sigma_sq, n) for (_, sigma_sq), n in draw_counts))

    @cached_property
    def rho(self) -> Fraction:
        """The zCDP of the composition: half the sum of the precisions."""
        return sum((n * k * k * p for p, k, n in self.every), Fraction(0)) / 2

    @cached_property
    def step(self) -> Fraction:
        """The greatest h that divides every precision: losses are rho plus multiples of
        h."""
        whole = lcm(*(p.denominator for p, _, _ in self.every))
        return Fraction(gcd(*(int(k * p * whole) for p, k, _ in self.every)), whole)

    @property
    def counts(self) -> DrawCounts:
        """The draws whose answer differs by 1, by their noise."""
        return tuple(((DISCRETE_GAUSSIAN, 1 / p), n) for p, n in self.parts)

    def scaled(self, factor: Fraction) -> Composition:
        """With every variance times ``factor``. The lattice of the losses stays one."""
        return Composition(
            tuple((p / factor, n) for p, n in self.parts),
            tuple((p / factor, k, n) for p, k, n in self.shifted),
        )

    def alike(self, k: int) -> Composition:
        """With every answer differing by ``k`` times as much."""
        return Composition((), ()) + Composition((), tuple((p, j * k, n) for p, j, n in self.every))

    def __add__(self, other: Composition) -> Composition:
        counts: Counter[tuple[Fraction, int]] = Counter()
        for p, k, n in (*self.every, *other.every):
            counts[p, k] += n
        each = sorted(counts.items(), key=lambda item: (float(item[0][0]), *item))
        return Composition(
            tuple((p, n) for (p, k), n in each if k == 1),
            tuple((p, k, n) for (p, k), n in each if k > 1),
        )


def _sorted(parts: Iterable[tuple[Fraction, int]]) -> tuple[tuple[Fraction, int], ...]:
    """By precision, the smallest first. Floats keep the order of fractions, and compare faster."""
    return tuple(sorted(parts, key=lambda part: (float(part[0]), *part)))


@dataclass(frozen=True)
class Moves:
    """What differs when one record changes: one answer in each draw on every path of the change.
    The path is that of the record's place; if the record moves, the paths of both places count.
    ``moves`` lists the changes, each by the numbers of its ``paths``. Paths with the same draws
    count as one path, which has the first of their ``names``."""

    paths: tuple[DrawCounts, ...]
    moves: tuple[tuple[int, ...], ...]
    names: tuple[UnitPath, ...]
    several: bool = (
        False  #: whether places lie on different paths, even if these have the same draws
    )
    #: answers that differ by k > 1 in every change: triples (p, k, n) of :class:`Composition`.
    #: Others may differ in their place, by k in sum (:mod:`das.accounting.peaks`)
    shifted: tuple[tuple[Fraction, int, int], ...] = ()
    #: by how much the answers on the paths differ
    by: int = 1

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Of thousands of fractions, and asked for with every delta."""
        return hash((self.paths, self.moves, self.shifted, self.by))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the numbers that decide a cost: everything except names."""
        paths = [[(m.name, str(noise), n) for (m, noise), n in path] for path in self.paths]
        shifted = [(str(p), k, n) for p, k, n in self.shifted]
        decides = json.dumps([paths, self.moves, shifted, self.by])
        return hashlib.sha256(decides.encode()).hexdigest()

    def __getstate__(self) -> dict[str, object]:
        """The state without the hash, because a text has another hash in every process."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def counts(self, move: Sequence[int]) -> DrawCounts:
        """The draws that differ in one of the changes."""
        whole: Counter[tuple[Mechanism, Fraction]] = Counter()
        for i in move:
            whole.update(dict(self.paths[i]))
        return tuple(whole.items())

    def composition(self, move: Sequence[int]) -> Composition:
        on_paths = Composition.differing(self.counts(move))
        return (on_paths if self.by == 1 else on_paths.alike(self.by)) + self._always

    @property
    def _always(self) -> Composition:
        return Composition((), self.shifted)

    @property
    def shifts(self) -> set[tuple[Fraction, int]]:
        """The draws whose answer differs by k > 1: sigma^2 and k."""
        found = {(1 / p, k) for p, k, _ in self.shifted}
        if self.by > 1:
            found |= {(sigma_sq, self.by) for path in self.paths for (_, sigma_sq), _ in path}
        return found

    @cached_property
    def rho(self) -> Fraction:
        """Of the costliest change, whose noise is Gaussian."""
        each = [Composition.differing(path).rho for path in self.paths]
        return self.by**2 * costliest_of(each, self.moves)[0] + self._always.rho

    @cached_property
    def cost(self) -> Fraction:
        """The cost of the costliest change, in the currency of its noise."""
        each = [sum((m.cost(p, n) for (m, p), n in path), Fraction(0)) for path in self.paths]
        return self.by**2 * costliest_of(each, self.moves)[0] + self._always.rho

    def times(self, k: int) -> Moves:
        """With ``k`` times as many answers that differ, on every path."""
        paths = (tuple((noise, k * n) for noise, n in path) for path in self.paths)
        shifted = tuple((p, j, k * n) for p, j, n in self.shifted)
        return replace(self, paths=tuple(paths), shifted=shifted)

    def alike(self, k: int) -> Moves:
        """With every answer differing by ``k`` times as much."""
        shifted = tuple((p, j * k, n) for p, j, n in self.shifted)
        return replace(self, shifted=shifted, by=k * self.by)

    def scaled(self, factor: Fraction) -> Moves:
        """The moves with every variance times ``factor``."""
        paths = (
            tuple(((m, parameter * factor), n) for (m, parameter), n in path) for path in self.paths
        )
        shifted = self._always.scaled(factor).shifted
        return replace(self, paths=tuple(paths), shifted=shifted)


def costliest_of(each: Sequence[Fraction], moves: Sequence[Sequence[int]]) -> tuple[Fraction, int]:
    """The highest cost of a change, given the cost of ``each`` path, and the number of that change.
    There can be tens of thousands of changes, so costs are added over one denominator."""
    below = lcm(*(cost.denominator for cost in each))
    above = [cost.numerator * (below // cost.denominator) for cost in each]
    spent = [sum(above[i] for i in move) for move in moves]
    costliest = max(range(len(spent)), key=spent.__getitem__)
    return Fraction(spent[costliest], below), costliest


#: The possible changes of one record of each of several kinds.
Differing = tuple[Moves, ...]


def count(differing: Differing) -> int:
    """The number of compositions."""
    return prod(len(part.moves) for part in differing)


def composed(differing: Differing) -> Iterator[tuple[tuple[int, ...], Composition]]:
    """Every composition, with the numbers of its moves."""
    for at in product(*(range(len(part.moves)) for part in differing)):
        parts = (part.composition(part.moves[i]) for part, i in zip(differing, at, strict=True))
        yield at, reduce(Composition.__add__, parts, Composition(()))


def compositions(draws: Draws | Composition) -> tuple[Composition, ...]:
    """The distinct compositions of a plan: one for each pair of paths (bounded neighbors) or each
    path (unbounded). Anything else has one composition."""
    return tuple(dict.fromkeys(c for _, c in composed(changed(draws))))


def changed(draws: Draws | Composition) -> Differing:
    """What differs between neighbors. For a plan, this is given for each pair of its paths or each
    path; for anything else, all of it differs."""
    if isinstance(draws, Plan):
        return record(draws.measurements, draws.neighbours, draws.paths)
    return (only(Composition.from_draws(draws)),)


def only(composition: Composition) -> Moves:
    """One change, in which all draws of a composition differ."""
    return Moves((composition.counts,), ((0,),), ((),), shifted=composition.shifted)


def record(
    draws: Sequence[PlannedMeasurement], neighbours: Neighbours, paths: Sequence[UnitPath] = ()
) -> Differing:
    """What differs between neighbors, for each pair of paths or each path. Without ``paths`` all
    draws are on one path."""
    return differing(
        draws, combinations_with_replacement(paths or [through(draws)], neighbours.sensitivity)
    )


def differing(
    draws: Iterable[PlannedMeasurement], moves: Iterable[Sequence[UnitPath]]
) -> Differing:
    """What differs in each of ``moves``. A move gives the paths of the places that a record leaves
    and comes to: one answer of each draw on each of these paths differs. Raises
    :class:`PrivacyError` for a draw that is on none of them."""
    every, moves = tuple(draws), tuple(moves)
    paths = list(dict.fromkeys(path for move in moves for path in move))
    check_covered(every, paths)
    counts = {path: _counted(seen(every, path)) for path in paths}
    names: dict[DrawCounts, UnitPath] = {}
    for path in paths:
        names.setdefault(counts[path], path)
    order = {found: i for i, found in enumerate(names)}
    number = {path: order[counts[path]] for path in paths}  # the hash of fractions takes long
    distinct = dict.fromkeys(tuple(sorted(number[path] for path in move)) for move in moves)
    return (Moves(tuple(names), tuple(distinct), tuple(names.values()), len(paths) > 1),)


def _counted(draws: Iterable[PlannedMeasurement]) -> DrawCounts:
    """One answer of each draw, in every unit that can contain one record at once."""
    counts: Counter[tuple[Mechanism, int, int]] = Counter()
    for d in draws:
        counts[d.mechanism, *d.parameter.as_integer_ratio()] += d.stability
    return tuple(((mechanism, Fraction(*ratio)), n) for (mechanism, *ratio), n in counts.items())


def exact(value: Exactly, name: str) -> Fraction:
    """``value`` as a fraction. Floats raise ``TypeError``, because the guarantee depends on the
    exact number."""
    if isinstance(value, bool) or not isinstance(value, Fraction | int | str):
        raise TypeError(
            f"{name} is a {type(value).__name__}: give a Fraction, an int, or a string such as"
            ' "1e-10"'
        )
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} is {value!r}, which is no number") from None


def _changes(draw: PlannedMeasurement) -> tuple[Mechanism, Fraction, int]:
    """The noise of a draw, and how many answers change by one: as many as its cost pays for."""
    n = draw.cost / draw.mechanism.cost(draw.parameter, 1)
    if n.denominator != 1 or n < 1:
        raise ValueError(
            f"{draw.query!r} at {draw.level!r} costs {draw.mechanism.currency} {draw.cost} at"
            f" {draw.mechanism.symbol} {draw.parameter}: that is no number of unit changes"
        )
    return draw.mechanism, draw.parameter, int(n)


def _pair(pair: tuple[Fraction, int]) -> tuple[Fraction, int]:
    sigma_sq, n = pair
    if isinstance(sigma_sq, bool) or not isinstance(sigma_sq, Fraction | int):
        raise TypeError(
            f"sigma_sq must be a Fraction, not {type(sigma_sq).__name__}: privacy depends on it"
            " exactly"
        )
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"the number of draws must be an int, not {type(n).__name__}")
    if sigma_sq <= 0:
        raise ValueError(f"sigma_sq must be positive, not {sigma_sq}")
    if n < 1:
        raise ValueError(f"the number of draws must be at least 1, not {n}")
    countable(sigma_sq, "sigma_sq")
    return Fraction(sigma_sq), n
