r"""The exact privacy loss of a record in a release of the Detailed DHC.

**What differs.** Add or remove a record that is in g groups of a level, :math:`g \le s`. In a group
with only a total, one draw differs by 1. In a group with a table, one draw of the first stage
differs and one cell of the second, for any size of the table. The loss of the second stage is the
same for every size and every answer of the first. So adaptive composition has the distribution of
independent draws: those of t groups with only a total, and of g - t with a table.

**The possible t.** A level without any total-only iteration has t = 0. Levels with the same
iterations (nation and state) have the same t, because a person's iterations do not depend on the
place. Otherwise all t are composed. Rho is the same for each t, but nobody has proved which t has
the largest exact epsilon. Let a be the most groups with only a total that a person can be in, b the
most other groups, and :math:`n = \min(s, a + b)`. It is enough to compose t from :math:`\max(0, n -
b)` to :math:`\min(n, a)`, with n - t. *Proof.* A person is in :math:`t' \le a` groups of the first
kind and :math:`u \le b` of the second, with :math:`t' + u \le n`. With :math:`t = \max(t', n - b)`
there are at least as many of either kind, and leaving draws out is post-processing. ∎

**Replacing a record.** The loss is largest if the old and the new record share no group: the draws
of both differ. In a shared group the first stage does not differ, and in the second stage two cells
differ or none: again, draws are left out. The same holds for a record that moves from one run to
another.

Source: Haney et al. (2024), *SafeTab-P*, section 4.2 and theorem 2, for rho; the exact composition
is that of :mod:`das.accounting`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil

import numpy as np
from numpy.typing import NDArray

from das.accounting import Composition, delta, epsilon, tight
from das.errors import SpecError
from das.model.budget import QueryNoise
from das.model.frozen import Frozen
from das.model.mechanisms import Mechanism
from das.publications.detailed.model.tables import TABLES, TOTALS, LevelPlan, Parameters

#: How far an epsilon is raised, so that one test shows that it holds for another composition.
RAISED = Fraction(1, 10**9)

#: Levels of the same iterations.
_Key = tuple[int, bool]
_Drawn = Counter[tuple[Mechanism, Fraction]]


@dataclass(frozen=True)
class GroupLoss:
    """The cost of a change of one record. ``places`` are the runs of the record: one if it is added
    or removed, two if it is replaced. ``epsilon`` is an interval that contains the exact epsilon at
    ``delta`` of the worst composition, and ``compositions`` their number. ``tight`` follows from
    rho alone. Under pure differential privacy both equal the cost."""

    places: tuple[str, ...]
    cost: Fraction
    delta: Fraction
    epsilon: tuple[float, float]
    tight: float
    compositions: int


def loss(
    parameters: Parameters,
    places: Sequence[str],
    at: Fraction,
    race_codes: int | None = None,
    ethnic: bool = True,
) -> GroupLoss:
    """The loss of a record in one run, or of a record replaced by one in the same or another run.
    ``race_codes`` is for a person who is known to have reported that many codes of race. Without
    ``ethnic``, their ethnicity is known to be in no iteration. Such persons are in fewer groups."""
    cost = sum((_cost(parameters, run, race_codes, ethnic) for run in places), Fraction(0))
    if parameters.mechanism.pure:
        return GroupLoss(tuple(places), cost, at, (float(cost),) * 2, float(cost), 1)
    every = compositions(parameters, places, race_codes, ethnic)
    return GroupLoss(tuple(places), cost, at, worst(every, at), tight(cost, at), len(every))


def losses(parameters: Parameters, at: Fraction) -> tuple[GroupLoss, ...]:
    """The losses of a record that is added or removed, and of one that is replaced, for each run.
    Also of a record that moves from run to run, unless a replacement in one of them costs as
    much."""
    places = [(run,) * times for run in parameters.runs for times in (1, 2)]
    if len(parameters.runs) == 2 and not any(
        is_contained(parameters, *runs) for runs in (parameters.runs, parameters.runs[::-1])
    ):
        places.append(tuple(parameters.runs))
    return tuple(loss(parameters, runs, at) for runs in places)


def compositions(
    parameters: Parameters,
    places: Sequence[str],
    race_codes: int | None = None,
    ethnic: bool = True,
) -> tuple[Composition, ...]:
    """Every possible set of draws that differ (see the module), each once."""
    choices = [list(part) for run in places for part in _parts(parameters, run, race_codes, ethnic)]
    sums = (sum(chosen, Counter()) for chosen in product(*choices))
    return tuple(dict.fromkeys(Composition.differing(tuple(drawn.items())) for drawn in sums))


def worst(every: Sequence[Composition], at: Fraction) -> tuple[float, float]:
    """An interval that contains the largest epsilon. It computes the epsilon of the first
    composition. For each other, it tests whether delta is small enough at a slightly larger
    epsilon; if not, it computes that epsilon, too."""
    low, high = epsilon(every[0], at)
    for other in every[1:]:
        if not Fraction(delta(other, Fraction(high) + RAISED)[1]) <= at:
            found = epsilon(other, at)
            low, high = max(low, found[0]), max(high, found[1])
    return low, high + float(RAISED) * (len(every) > 1)


def is_contained(parameters: Parameters, small: str, large: str) -> bool:
    """Whether each draw of one run is also a draw of the other, level by level. Then a record in
    the first does not lose more."""
    mine, other = (by_iterations(parameters, run) for run in (small, large))
    return all(
        key in other
        and all(_drawn(plans, one) <= _drawn(other[key], one) for one in (TOTALS, TABLES))
        for key, plans in mine.items()
    )


def _cost(parameters: Parameters, run: str, race_codes: int | None, ethnic: bool) -> Fraction:
    """A group costs the same with a table and without."""
    return sum(
        (
            p.cost * sum(mixtures(parameters, p, race_codes, ethnic)[0]) / p.stability
            for p in parameters.plans(run)
        ),
        Fraction(0),
    )


def mixtures(
    parameters: Parameters, plan: LevelPlan, race_codes: int | None = None, ethnic: bool = True
) -> list[tuple[int, int]]:
    """How many groups with a total alone, and how many others, a record is in at a level: see the
    module."""
    iterations, codes = parameters.iterations, parameters.race_codes
    codes = codes if race_codes is None else min(race_codes, codes)
    among = iterations.measured_at(plan.at)
    without = iterations.detailed_only[among] & bool(plan.first)
    only, others = (
        iterations.most(part, codes, ethnic) for part in (among[without], among[~without])
    )
    groups = min(iterations.most(among, codes, ethnic), only + others)
    least = max(0, groups - others)
    return [
        (t, groups - t) for t in range(least, max(least, min(groups, only, int(without.sum()))) + 1)
    ]


def _parts(
    parameters: Parameters, run: str, race_codes: int | None, ethnic: bool
) -> Iterator[Iterator[_Drawn]]:
    """For levels of the same iterations: the draws at all of them, of each mixture."""
    for plans in by_iterations(parameters, run).values():
        totals, tables = _drawn(plans, TOTALS), _drawn(plans, TABLES)
        each = mixtures(parameters, plans[0], race_codes, ethnic)
        yield (_times(totals, t) + _times(tables, u) for t, u in each)


def by_iterations(parameters: Parameters, run: str) -> dict[_Key, list[LevelPlan]]:
    """The levels that are of the same iterations, so that a person is in as many groups of a kind
    in each."""
    out: dict[_Key, list[LevelPlan]] = {}
    for plan in parameters.plans(run):
        out.setdefault((plan.at.level, plan.at.fine), []).append(plan)
    return out


def _drawn(plans: Sequence[LevelPlan], kind: str) -> _Drawn:
    """What is drawn of one group at each level, of :data:`TOTALS` or :data:`TABLES`, in whatever
    run."""
    of = {TOTALS: [p.totals for p in plans], TABLES: [p.tables for p in plans]}[kind]
    return Counter(
        (d.mechanism, d.parameter)
        for p, c in zip(plans, of, strict=True)
        for d in p.measurements
        if d.unit_class == c
    )


def _times(drawn: _Drawn, n: int) -> _Drawn:
    return Counter({noise: n * times for noise, times in drawn.items() if n})


# Tail probabilities of noise: sums of the exact probabilities, not of a density near them.
#
# For any mechanism, the noise of an answer that costs r has :math:`P[X = x] \propto e^{-r|x|^k}` and
# is symmetric. So everything follows from :math:`P[X > x]` at :math:`x \ge 0`. Summing from the far
# end makes small tails as exact as large ones, with a relative error of some 1e-13. The terms left
# out are below 1e-300.

#: Terms below e to the minus this are left out; and the most terms.
SMALLEST, MOST = 700.0, 1 << 23


@dataclass(frozen=True, eq=False)
class Tails(Frozen):
    """The tails of one kind of noise: ``beyond[x]`` is P[X > x], from x = 0 to where nothing is
    left."""

    beyond: NDArray[np.float64]

    @staticmethod
    def from_noise(noise: QueryNoise) -> Tails:
        """The tails of the noise of one answer. Raises :class:`SpecError` for noise so wide that a
        plan with it is meaningless."""
        return _tails(noise.mechanism, noise.parameter)

    def above(self, x: int) -> float:
        """P[X > x], for any whole number x.

        >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
        >>> noise = Tails.from_noise(QueryNoise("", "", DISCRETE_GAUSSIAN, Fraction(625)))
        >>> f"{noise.above(93):.2e}", round(noise.above(-1) + noise.above(0), 12)
        ('9.19e-05', 1.0)"""
        return 1 - self._at(-x - 1) if x < 0 else self._at(x)

    def probability_within(self, most: int) -> float:
        """P[|X| <= most]."""
        return 1 - 2 * self.above(most) if most >= 0 else 0.0

    def quantile(self, chance: Fraction | float) -> int:
        """The smallest x with P[X <= x] >= ``chance``, which is between 0 and 1."""
        if not 0 < chance < 1:
            raise ValueError(f"a chance of {chance} is not between 0 and 1")
        below = float(chance)
        if below <= self.beyond[0]:
            return -int(np.flatnonzero(self.beyond >= below)[-1]) - 1
        return int(np.argmax(self.beyond <= float(1 - chance)))

    def _at(self, x: int) -> float:
        return float(self.beyond[min(x, len(self.beyond) - 1)])


def drowns(mechanism: Mechanism, parameter: Fraction) -> bool:
    """Whether noise is so wide that a plan with it means nothing."""
    return mechanism.cost(parameter, 1) * MOST**mechanism.power < Fraction(SMALLEST)


@lru_cache(maxsize=256)
def _tails(mechanism: Mechanism, parameter: Fraction) -> Tails:
    if drowns(mechanism, parameter):
        raise SpecError(
            f"noise of {mechanism.symbol} {float(parameter):.3g} drowns any count",
            where="planning",
            remedy="give this level a budget that buys something, or none",
        )
    cost = float(mechanism.cost(parameter, 1))
    last = (SMALLEST / cost) ** (1 / mechanism.power)
    k = np.arange(ceil(last) + 2, dtype=np.float64)
    weight = np.exp(-cost * k**mechanism.power)
    weight[-1] = 0.0
    weight /= weight[0] + 2 * weight[:0:-1].sum()
    sums = np.cumsum(weight[::-1])[::-1]  # the smallest first
    return Tails(np.append(sums[1:], 0.0))
