r"""What is accounted for: discrete Gaussian draws whose true value differs by one between neighbours.

A draw from :math:`N_Z(0, \sigma^2)` matters through its precision :math:`p = 1/\sigma^2` alone. Under the first of
two neighbours it is :math:`X`, under the second :math:`X + 1` or :math:`X - 1` (the same by symmetry), so that the
privacy loss is affine in :math:`X`,

.. math:: \ln \frac{P(X)}{P(X - 1)} = \frac{(X - 1)^2 - X^2}{2\sigma^2} = \frac{p}{2} - p X,

and that of a composition is :math:`L = \rho + \sum_i p_i X_i` in distribution, :math:`\rho = \frac12\sum_i p_i`.

A query of a plan contributes as many draws as it has answers that change by one: two when a record is replaced by
another (bounded neighbours), one when it is added or removed. That the record may stay in the same answer of some
query only takes draws away, and fewer draws never cost more.

Where units of a level are measured differently, what differs depends on where the record is: one answer of every draw on
the path of its place, and where it is replaced one of every draw on the path of the other. Each pair of paths is a
composition, and what holds for a plan holds for the worst of them. Which one that is can change with delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from math import gcd, lcm

from das.errors import PrivacyError
from das.model.budget import Draw, Plan, UnitPath, check_covered, seen, through, total
from das.model.ledger import Event, Ledger
from das.model.mechanism import Mechanism
from das.model.mechanisms import DISCRETE_GAUSSIAN

Exactly = Fraction | int | str
#: How many answers with noise of a mechanism and parameter differ by 1 between two data sets.
DrawCounts = Mapping[tuple[Mechanism, Fraction], int]
#: The same for each of the changes that are meant, one of which it is.
Differing = tuple[DrawCounts, ...]
Draws = Plan | Ledger | Iterable[Event] | Iterable[tuple[Fraction, int]]


@dataclass(frozen=True)
class Composition:
    """Independent draws, by precision: ``parts`` are pairs (p, n) of distinct precisions and their numbers, the
    smallest precision first."""

    parts: tuple[tuple[Fraction, int], ...]

    @staticmethod
    def of(draws: Draws | Composition) -> Composition:
        """Of a plan, a ledger, events, or pairs (sigma^2, number of draws); see the module. Raises
        :class:`PrivacyError` for what is no one composition: a plan of several paths (:func:`compositions`).

        >>> Composition.of([(Fraction(4), 1), (Fraction(2), 1), (Fraction(4), 2)]).parts
        ((Fraction(1, 4), 3), (Fraction(1, 2), 1))
        """
        if isinstance(draws, Composition):
            return draws
        if isinstance(draws, Plan):
            every = compositions(draws)
            if len(every) > 1:
                raise PrivacyError(f"{len(every)} pairs of places differ in what a record there sees: these are so many "
                                   "compositions, not one", where="account",
                                   remedy="ask das.accounting.epsilon of the plan, which takes the worst")  # fmt: skip
            return every[0]
        counts: Counter[tuple[Mechanism, Fraction]] = Counter()
        lines: Iterable[Event | tuple[Fraction, int]] = draws.events if isinstance(draws, Ledger) else tuple(draws)
        through(d for d in lines if isinstance(d, Draw))  # refuses several classes of a level
        for d in lines:
            mechanism, parameter, n = _changes(d) if isinstance(d, Draw) else (DISCRETE_GAUSSIAN, *_pair(d))
            counts[mechanism, parameter] += n
        return Composition.differing(counts)

    @staticmethod
    def differing(found: DrawCounts) -> Composition:
        """Of the numbers of draws of each noise. Raises :class:`PrivacyError` for any but the discrete Gaussian's."""
        if other := [m for m, _ in found if m != DISCRETE_GAUSSIAN]:
            remedy = "its epsilons add up, see das.accounting.pure" if other[0].pure else "account for it by its rho"
            raise PrivacyError(f"{other[0]} noise is not composed with, nor as, {DISCRETE_GAUSSIAN} noise",
                               where="account", remedy=remedy)  # fmt: skip
        return Composition(tuple(sorted((1 / sigma_sq, n) for (_, sigma_sq), n in found.items())))

    @cached_property
    def rho(self) -> Fraction:
        """The zCDP of the composition: half the sum of the precisions."""
        return sum((n * p for p, n in self.parts), Fraction(0)) / 2

    @cached_property
    def step(self) -> Fraction:
        """The greatest h of which every precision is a multiple: losses are rho plus multiples of h."""
        whole = lcm(*(p.denominator for p, _ in self.parts))
        return Fraction(gcd(*(int(p * whole) for p, _ in self.parts)), whole)

    def scaled(self, factor: Fraction) -> Composition:
        """With every variance times ``factor``. The lattice of the losses stays one."""
        return Composition(tuple((p / factor, n) for p, n in self.parts))

    def __add__(self, other: Composition) -> Composition:
        counts = Counter(dict(self.parts))
        counts.update(dict(other.parts))
        return Composition(tuple(sorted(counts.items())))


def compositions(draws: Draws | Composition) -> tuple[Composition, ...]:
    """Of a plan one for each pair of paths (bounded neighbours) or each path (unbounded), without repetition; of
    anything else the one that there is."""
    if not isinstance(draws, Plan):
        return (Composition.of(draws),)
    moves = combinations_with_replacement(draws.paths, draws.neighbours.sensitivity)
    return tuple(dict.fromkeys(map(Composition.differing, differing(draws.draws, moves))))


def differing(draws: Iterable[Draw], moves: Iterable[Sequence[UnitPath]]) -> Differing:
    """For each of ``moves``, the paths of the places that a record leaves and comes to: one answer of each draw on each
    of these paths differs. Raises :class:`PrivacyError` for a draw on none of them."""
    every, moves, out = tuple(draws), tuple(moves), []
    check_covered(every, [path for paths in moves for path in paths])
    for paths in moves:
        counts: Counter[tuple[Mechanism, Fraction]] = Counter()
        for path in paths:
            counts.update((d.mechanism, d.parameter) for d in seen(every, path))
        out.append(counts)
    return tuple(out)


def pure(draws: Plan | Ledger | Iterable[Event]) -> Fraction:
    """Epsilon of draws under pure differential privacy: the exact sum of their costs, on the dearest path. Raises
    :class:`PrivacyError` for noise that is private with a delta above 0 only, whose costs are no epsilon.

    >>> pure(Plan.of_epsilon("1/2", ["State"], ["total"]))
    Fraction(1, 2)
    """
    every = draws.draws if isinstance(draws, Plan) else draws.events if isinstance(draws, Ledger) else tuple(draws)
    cost = draws.cost if isinstance(draws, Plan | Ledger) else total(every)
    if other := [d.mechanism for d in every if not d.mechanism.pure]:
        raise PrivacyError(f"{other[0]} noise has no epsilon without a delta: it is paid for in {other[0].currency}",
                           where="account", remedy="ask das.epsilon(plan, delta)")  # fmt: skip
    return cost


def all_pure(draws: object) -> bool:
    """Whether these are draws, and all of them are differentially private with a delta of 0."""
    every = draws.draws if isinstance(draws, Plan) else draws.events if isinstance(draws, Ledger) else draws
    return isinstance(every, tuple) and bool(every) and all(isinstance(d, Draw) and d.mechanism.pure for d in every)


def exact(value: Exactly, name: str) -> Fraction:
    """``value`` as a fraction. Floats raise ``TypeError``: the guarantee depends on the number."""
    if isinstance(value, bool) or not isinstance(value, Fraction | int | str):
        raise TypeError(f'{name} is a {type(value).__name__}: give a Fraction, an int, or a string such as "1e-10"')
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} is {value!r}, which is no number") from None


def _changes(draw: Draw) -> tuple[Mechanism, Fraction, int]:
    """Its noise, and the answers that change by one: as many as its cost pays for."""
    n = draw.cost / draw.mechanism.cost(draw.parameter, 1)
    if n.denominator != 1 or n < 1:
        raise ValueError(
            f"{draw.query!r} at {draw.level!r} costs {draw.mechanism.currency} {draw.cost} at {draw.mechanism.symbol} "
            f"{draw.parameter}: that is no number of unit changes"
        )
    return draw.mechanism, draw.parameter, int(n)


def _pair(pair: tuple[Fraction, int]) -> tuple[Fraction, int]:
    sigma_sq, n = pair
    if isinstance(sigma_sq, bool) or not isinstance(sigma_sq, Fraction | int):
        raise TypeError(f"sigma_sq must be a Fraction, not {type(sigma_sq).__name__}: privacy depends on it exactly")
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"the number of draws must be an int, not {type(n).__name__}")
    if sigma_sq <= 0:
        raise ValueError(f"sigma_sq must be positive, not {sigma_sq}")
    if n < 1:
        raise ValueError(f"the number of draws must be at least 1, not {n}")
    return Fraction(sigma_sq), n
