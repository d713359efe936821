r"""The second stage of a search: shares that runs call for, after those that the model found.

The model of :mod:`das.tools.planning.ground` knows which cells are positive. An estimate does not, so
it errs where many fine cells alone tell a coarse count. Runs show it: the error of each group of
published lines at each level, relative to that of the present plan over paired seeds, is
:math:`r \pm s`. A group is *short* if :math:`r` is above the bar and :math:`r - 2s > 1`. What tells
it is the measured query with the fewest answers whose sums its lines are.

* If that query has at most :data:`FEW` answers, the error is its noise, of variance :math:`1/\rho`.
  So :math:`\rho` is multiplied by :math:`r^2`, by 2 at most.
* Otherwise the error is mostly bias of many cells that are near 0, which no share removes. A query
  with few answers that tells the group is *missing*: one must be chosen and measured.

The rise is paid in proportion to what the level's queries have above a floor, such as the present
plan's shares. At most half of that goes in one step. Short queries pay nothing. So the total of
each level stays, and no query falls below its floor. The runs are then made again; the stage ends
when no group is short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from das.design.model import LevelQuery
from das.model.query import Query

#: Answers of a query whose noise decides the error of what it tells.
FEW = 1000
#: The most that a share is multiplied by in a step, and the part of what is above the floor that
#: can go.
_MOST, _PAID = 2.0, Fraction(1, 2)
#: New shares are multiples of this, rounded so that what is paid covers what is raised.
GRAIN = Fraction(1, 10_000)


@dataclass(frozen=True)
class MeasuredGroup:
    """Lines that are published at a level, with the ``ratio`` of their error to the present plan's
    in paired runs, and its standard ``error``."""

    level: str
    name: str
    lines: Query
    ratio: float
    error: float

    def short(self, bar: float) -> bool:
        """Whether the error is above the bar, and not by chance."""
        return self.ratio > bar and self.ratio - 2 * self.error > 1


def told_by(lines: Query, measured: Iterable[Query]) -> Query | None:
    """The query with the fewest answers whose sums the lines are."""
    return min((q for q in measured if lines.sums(q)), key=lambda q: q.answers, default=None)


def missing(
    groups: Sequence[MeasuredGroup], measured: Mapping[str, Sequence[Query]], bar: float
) -> tuple[MeasuredGroup, ...]:
    """The groups that are short and that no query with few answers tells."""
    told = ((g, told_by(g.lines, measured[g.level])) for g in groups if g.short(bar))
    return tuple(g for g, q in told if q is None or q.answers > FEW)


def raised(
    groups: Sequence[MeasuredGroup], measured: Mapping[str, Sequence[Query]], bar: float
) -> dict[LevelQuery, float]:
    """How often its share each query should get: those that tell a group that is short."""
    out: dict[LevelQuery, float] = {}
    for g in groups:
        q = told_by(g.lines, measured[g.level]) if g.short(bar) else None
        if q is not None and q.answers <= FEW:
            key = g.level, q.name
            out[key] = max(out.get(key, 1.0), min(g.ratio**2, _MOST))
    return out


def next_shares(
    rho: Mapping[str, Fraction], floor: Mapping[str, Fraction], rise: Mapping[str, float]
) -> dict[str, Fraction]:
    """The shares of a level after a step; ``rise``: the factor of each query that gets more.

    >>> x = {"size": Fraction(3, 10), "race": Fraction(1, 10)}
    >>> {q: str(r) for q, r in next_shares(x, {"race": Fraction(1, 10)}, {"race": 1.5}).items()}
    {'size': '1/4', 'race': '3/20'}
    """
    above = {
        q: max(r - floor.get(q, Fraction(0)), Fraction(0)) for q, r in rho.items() if q not in rise
    }
    wanted = {q: rho[q] * (Fraction(factor) - 1) for q, factor in rise.items()}
    room, asked = sum(above.values(), Fraction(0)) * _PAID, sum(wanted.values(), Fraction(0))
    if not asked or not room:
        return dict(rho)
    part = min(Fraction(1), room / asked)
    more = {q: w * part // GRAIN * GRAIN for q, w in wanted.items()}
    paid = sum(more.values(), Fraction(0))
    out, left = dict(rho), paid
    for q, a in sorted(above.items(), key=lambda pair: pair[1]):
        share = min(-(-paid * a / sum(above.values()) // GRAIN) * GRAIN, a, left)
        out[q], left = rho[q] - share, left - share
    return {q: out[q] + more.get(q, Fraction(0)) for q in rho}
