r"""What a record of a release by groups loses, exactly.

**What differs.** Add or remove a record that is in g groups of a level, :math:`g \le s`. Of a group
with a total alone one draw differs by 1; of one with a table one of the first stage and, whatever
size that finds, one cell of the second. The loss of the second stage is the same for every size and
every answer of the first, so that adaptive composition has the law of independent draws: those of t
groups with a total alone, and of g - t with a table.

**Which t there are.** A level that no total-only iteration is of has t = 0. Levels of the same
iterations (nation and state) have the same t, since a person's iterations do not depend on the
place. Else all t are composed: rho is the same for each, but of exact epsilon nobody has proved
which is the largest. Let a be the most groups with a total alone that a person can be in, b the
most of others, and :math:`n = \min(s, a + b)`. It is enough to compose t of :math:`\max(0, n - b)`
to :math:`\min(n, a)`, and n - t. For a person is in :math:`t' \le a` of the ones and :math:`u \le
b` of the others, :math:`t' + u \le n`; with :math:`t = \max(t', n - b)` there are as many of either
kind at least, and draws that are left out are post-processing.

**Replacing a record.** The loss is the largest where old and new share no group: the draws of both.
In a group of both the first stage does not differ, and of the second two cells do or none, again
draws left out. It holds for a record that moves from one run to another, too.

Source: Haney et al. (2024), *SafeTab-P*, section 4.2 and theorem 2, for rho; the exact composition
is that of :mod:`das.accounting`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from das.accounting import Composition, delta, epsilon, tight
from das.model.adaptive import TABLES, TOTALS, LevelPlan, Parameters
from das.model.mechanism import Mechanism

#: How far an epsilon is raised, so that it holds for all compositions at a glance.
RAISED = Fraction(1, 10**9)

#: Levels of the same iterations.
_Key = tuple[int, bool]
_Drawn = Counter[tuple[Mechanism, Fraction]]


@dataclass(frozen=True)
class GroupLoss:
    """What a change of one record costs. ``places`` are the runs that it is of, one if it is added
    or removed, two if it is replaced; ``epsilon`` is an interval that holds the exact one at
    ``delta`` of the worst of so many ``compositions``, and ``tight`` what follows from rho alone.
    Of pure differential privacy all are the cost."""

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
    """Of a record in one run, or replaced by one in the same or another. With ``race_codes``, of a
    person of whom it is known that so many are written down and, unless ``ethnic``, that the
    ethnicity is of no iteration: who is in fewer groups."""
    cost = sum((_cost(parameters, run, race_codes, ethnic) for run in places), Fraction(0))
    if parameters.mechanism.pure:
        return GroupLoss(tuple(places), cost, at, (float(cost),) * 2, float(cost), 1)
    every = compositions(parameters, places, race_codes, ethnic)
    return GroupLoss(tuple(places), cost, at, worst(every, at), tight(cost, at), len(every))


def losses(parameters: Parameters, at: Fraction) -> tuple[GroupLoss, ...]:
    """For each run of a record that is added or removed, and of one that is replaced; and of one
    that moves from run to run, unless that is no more than a replacement in one of them."""
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
    """Every set of draws that differ, see the module; each once."""
    choices = [list(part) for run in places for part in _parts(parameters, run, race_codes, ethnic)]
    sums = (sum(chosen, Counter()) for chosen in product(*choices))
    return tuple(dict.fromkeys(Composition.differing(tuple(drawn.items())) for drawn in sums))


def worst(every: Sequence[Composition], at: Fraction) -> tuple[float, float]:
    """An interval that holds the largest epsilon. Of all but the first it is shown that their delta
    is no more at an epsilon that is a little larger; where it is, the epsilon of that one is
    found."""
    low, high = epsilon(every[0], at)
    for other in every[1:]:
        if not Fraction(delta(other, Fraction(high) + RAISED)[1]) <= at:
            found = epsilon(other, at)
            low, high = max(low, found[0]), max(high, found[1])
    return low, high + float(RAISED) * (len(every) > 1)


def is_contained(parameters: Parameters, small: str, large: str) -> bool:
    """Whether each draw of one run is one of the other, too, level by level: then a record loses no
    more in it.
    """
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
    module.
    """
    iterations, codes = parameters.iterations, parameters.race_codes
    codes = codes if race_codes is None else min(race_codes, codes)
    among = iterations.of(plan.at)
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
    in each.
    """
    out: dict[_Key, list[LevelPlan]] = {}
    for plan in parameters.plans(run):
        out.setdefault((plan.at.level, plan.at.fine), []).append(plan)
    return out


def _drawn(plans: Sequence[LevelPlan], kind: str) -> _Drawn:
    """What is drawn of one group at each level, of :data:`TOTALS` or :data:`TABLES`, in whatever
    run.
    """
    of = {TOTALS: [p.totals for p in plans], TABLES: [p.tables for p in plans]}[kind]
    return Counter(
        (d.mechanism, d.parameter)
        for p, c in zip(plans, of, strict=True)
        for d in p.measurements
        if d.unit_class == c
    )


def _times(drawn: _Drawn, n: int) -> _Drawn:
    return Counter({noise: n * times for noise, times in drawn.items() if n})
