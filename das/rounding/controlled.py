r"""Controlled rounding of an estimate by a network flow.

Each count becomes its floor or ceiling. Children sum to their parent exactly, and bounds and known
totals hold exactly. The sums over a chain of nested queries (from cells to the total) stay as close
as they can to their estimates. See :mod:`das.solve.network` for the problem and why it is a
network."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError
from das.model.constraint import MOST_GROUPS, Bounds, LevelBounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate, Solution, Status
from das.model.spine import Spine
from das.solve import grouped, least_moves
from das.solve.network import Drains, Link, RoundingProblem, round_families
from das.solve.partitions import Parts
from das.solve.problem import answered

# What lies below a unit and must be fillable from it: its descendants with known totals.


def descendants(
    spine: Spine, bounds: Mapping[str, LevelBounds], level: str, start: int, stop: int
) -> tuple[NDArray[np.int64], Bounds] | None:
    """As :func:`below`; also ``None`` where the units' own bounds and totals say as much."""
    if bounds[level].exact or (bounds[level].reach is None and bounds[level].groups <= MOST_GROUPS):
        return None
    return below(spine, bounds, level, start, stop)


def below(
    spine: Spine, bounds: Mapping[str, LevelBounds], level: str, start: int, stop: int
) -> tuple[NDArray[np.int64], Bounds] | None:
    """The units with known totals, or parts with joint totals, under units ``start:stop`` of
    ``level``: whose each is (from 0, increasing), and their bounds. ``None`` at and below the
    lowest level with known totals."""
    known = [lv for lv in spine.levels if bounds[lv].known]
    if not known or spine.index(level) >= spine.index(known[-1]):
        return None
    home = spine.up(known[-1], level)
    a, b = np.searchsorted(home, [start, stop])
    low, home = bounds[known[-1]].rows(int(a), int(b)), home[a:b] - start
    if low.joint is None:
        return home, low
    of_part = np.zeros(len(low.joint.total), dtype=np.int64)
    of_part[low.joint.part] = home
    order = np.argsort(of_part, kind="stable")
    return of_part[order], low.by_part().some(order)


# RoundingProblem that keeps marginals which do not form a chain.
#
# A network keeps the sums over nested partitions (:mod:`das.rounding.controlled`). It ignores sums
# that cross them (age and occupation), and the nearest integers lose rare levels: 300 cells of 0.2
# become 300 zeros. So each sum :math:`g` of child :math:`c` has a *price* :math:`\pi_{cg}`, added to
# the cost of rounding up any of its cells. The price is the multiplier of
# :math:`\sum_{k \in g} n_{ck} = \sum_{k \in g} x_{ck}` in the Lagrangian. At the right prices the
# sums hold as nearly as integers can. They are found by a few rounds of
#
# .. math:: \pi_{cg} \mathrel{+}= \theta\, \frac{\sum_{k \in g} (n_{ck} - x_{ck})}{s_{cg}},
#
# with :math:`s_{cg}` the number of cells that a price of 1 would turn. :math:`\theta` becomes shorter
# after each round that made it worse; the best rounding of all rounds is kept. Each is one that the
# network could have given without prices: floors and ceilings, and every constraint exact. Among a
# few children of few persons, rounding alone leaves the sums well within the noise of their
# measurements. There this is enough.

Array = NDArray[np.float64]

ROUNDS = 24  #: at most; each is a network
FEW = 4  #: rounds if there is a chain, which keeps most sums already
_APART = 1.0  # cells of one fraction turn one after another, not all at one price
_GOLDEN = (5**0.5 - 1) / 2
_STEP = 0.8  # of the way, shared by the partitions
_SHORTER = 0.6  # the step of what has gone too far, as where many children share a parent


@dataclass(frozen=True)
class Marginal:
    """A query whose sums the rounding is to keep, and how near: the standard deviation of its noise
    counts."""

    query: Query
    deviation: float

    @property
    def close(self) -> float:
        """Nearer than this no price is needed: a quarter of the noise adds 3 % to it."""
        return max(1.0, 0.25 * self.deviation)


#: The networks of one family, one after the other, each answered by its solution; and the best.
RoundingSteps = Generator[RoundingProblem, Solution, Solution]


def priced(
    problem: RoundingProblem,
    cell: NDArray[np.int64],
    marginals: Sequence[Marginal],
    *,
    few: bool = False,
) -> RoundingSteps:
    """The best of a few solutions of a ``problem`` on the cells ``cell`` by what it leaves of the
    ``marginals``: one without prices, and others at prices; of ``FEW`` where few will do."""
    x = np.asarray(problem.x)
    best = yield problem
    if not marginals or best.status is not Status.OPTIMAL:
        return best
    parts = [np.unique(m.query.index[cell], return_inverse=True)[1] for m in marginals]
    fraction = x - np.floor(x)
    loose = ((fraction > 1e-6) & (fraction < 1 - 1e-6)).astype(float)
    turns = [np.maximum(0.5 * grouped(loose, p), 1.0) for p in parts]
    prices = [np.zeros_like(t) for t in turns]
    apart = _APART * (np.arange(x.size) * _GOLDEN % 1 - 0.5).reshape(x.shape)
    off, least = _off(np.asarray(best.x, dtype=float) - x, parts, marginals)
    step, before = _STEP / len(parts), least
    for _ in range(FEW if few else ROUNDS):
        if all((np.abs(o) <= m.close).all() for o, m in zip(off, marginals, strict=True)):
            break
        for price, o, t in zip(prices, off, turns, strict=True):
            price += step * np.where(np.abs(o) > 0.5, o, 0.0) / t
        price = np.sum([price[:, p] for price, p in zip(prices, parts, strict=True)], axis=0)
        found = yield replace(problem, price=price + apart)
        off, here = _off(np.asarray(found.x, dtype=float) - x, parts, marginals)
        if here < least:
            best, least = found, here
        step *= _SHORTER if here > before else 1.0
        before = here
    return best


def _off(
    rest: Array, parts: Sequence[NDArray[np.intp]], marginals: Sequence[Marginal]
) -> tuple[list[Array], float]:
    """What a rounding leaves of each marginal's sums, and its squares in units of what is near."""
    off = [grouped(rest, p) for p in parts]
    return off, sum(float(np.sum((o / m.close) ** 2)) for o, m in zip(off, marginals, strict=True))


_TOTAL_WEIGHT = 64.0  # the total comes first: it outweighs the chain below it


@dataclass(frozen=True, eq=False)
class Unrounded:
    """The ``estimate`` of one family, and what its integers must keep.

    ``bounds`` are those of the children. ``chain`` runs from fine to coarse and is nested; the
    dwelling groups are inserted where they belong. ``below`` is for children that have descendants
    with known totals: it gives the child of each descendant, and their bounds. With joint totals
    these are bounds of whole parts (``Bounds.by_part``).

    ``marginals`` are queries that do not form a chain. Their sums are kept as near as floors and
    ceilings allow. Those that nest (coarse ones first) join the chain, and the network keeps them.
    Those that cross have prices, which take a few rounds if there is a chain, and more if there is
    none.

    ``objective`` ``nearest`` compares with the estimates themselves. ``bureau-2020`` is that of the
    production rounder. It first rounds every sum of fractional parts half to even. The cells count
    twice (once as the full cross of the attributes, once as ``detailed``); totals come first, as in
    its first pass."""

    estimate: Estimate
    bounds: Bounds
    chain: Sequence[Query]
    below: tuple[NDArray[np.int64], Bounds] | None = None
    marginals: Sequence[Marginal] = ()
    objective: str = "nearest"

    def steps(self) -> RoundingSteps:
        """Yields each network of the family, and is sent its solution."""
        estimate, bounds, below = self.estimate, self.bounds, self.below
        bureau = self.objective == "bureau-2020"
        chain, crossing = _nested(estimate.cell, bounds, self.chain, self.marginals)
        drains = None
        if below is not None and below[1].total is not None:
            drains = Drains(below[0], below[1].lower, below[1].upper, below[1].total)
        joint, total = bounds.joint, None
        if estimate.parent is None:
            total = estimate.x.sum() if bounds.total is None else bounds.total.sum()
        problem = RoundingProblem(
            estimate.x,
            estimate.parent,
            _links(estimate.cell, bounds, chain, with_total=below is None),
            drains,
            None if total is None else int(np.rint(total)),
            None if joint is None else Parts.checked(joint.part, joint.total, len(estimate.x)),
            2.0 if bureau else 1.0,
            bureau,
        )
        return priced(problem, estimate.cell, crossing, few=bool(self.chain))

    def rounded(self, solution: Solution | None) -> tuple[Histogram, Certificate]:
        """The counts of the children, and the certificate; nobody without a solution."""
        units, cells = len(self.estimate.x), len(self.bounds.group)
        if solution is None:
            return Histogram.from_triplets(
                units, cells, *(np.zeros(0, np.int64),) * 3
            ), Certificate()
        unit, position = np.nonzero(solution.x)
        ends = np.searchsorted(unit, np.arange(units + 1))
        counts = solution.x[unit, position].astype(np.int64)
        rounded = Histogram(cells, ends, self.estimate.cell[position], counts)
        # A rounding has no duality gap to report, and its distance to x is no violation.
        return rounded, Certificate(solves=1, widened=Certificate().add(solution).widened)


def round_estimates(families: Sequence[Unrounded]) -> list[tuple[Histogram, Certificate]]:
    """The integers of each family: a histogram of its children, and the certificate. The networks
    of all families are built together; what comes of one does not depend on the others."""
    steps = {i: f.steps() for i, f in enumerate(families) if len(f.estimate.cell)}
    best = answered(steps, round_families)
    return [f.rounded(best.get(i)) for i, f in enumerate(families)]


def _nested(
    cell: NDArray[np.int64], bounds: Bounds, chain: Sequence[Query], marginals: Sequence[Marginal]
) -> tuple[list[Query], list[Marginal]]:
    """The chain with all marginals that nest in it and in the dwelling groups, fine to coarse; and
    the other marginals.

    Coarse ones are tried first: they sum the most cells, so rounding loses most of them."""
    nested, crossing = list(chain), []
    for m in sorted(marginals, key=lambda m: m.query.answers):
        index = m.query.index[cell]
        others = [q.index[cell] for q in nested]
        if _coarsens(index, bounds.group[cell]) and all(
            _coarsens(index, o) or _coarsens(o, index) for o in others
        ):
            nested.append(m.query)
        else:
            crossing.append(m)
    return sorted(nested, key=lambda q: -np.count_nonzero(np.bincount(q.index[cell]))), crossing


def _links(
    cell: NDArray[np.int64], bounds: Bounds, chain: Sequence[Query], *, with_total: bool
) -> tuple[Link, ...]:
    """The chain on the cells at hand; with drains, it ends in the dwelling groups, which feed
    them."""
    dwelling = bounds.group[cell]
    finer = [q.index[cell] for q in chain if not _coarsens(dwelling, q.index[cell])]
    links = [Link(np.unique(i, return_inverse=True)[1]) for i in finer]
    links.append(Link(dwelling, bounds.lower, bounds.upper))
    if with_total:
        total = None if bounds.total is None else bounds.total[:, None]
        links.append(Link(np.zeros(len(cell), dtype=np.intp), total, total, weight=_TOTAL_WEIGHT))
    return tuple(links)


def _coarsens(fine: NDArray[np.intp], coarse: NDArray[np.intp]) -> bool:
    """True if ``coarse`` is constant on the groups of ``fine``."""
    one_of = np.zeros(int(fine.max(initial=0)) + 1, dtype=np.intp)
    one_of[fine] = coarse
    return np.array_equal(one_of[fine], coarse)


# The failsafe: what happens where a parent's problem has no solution.
#
# The children of a parent must hold its counts p, and the facilities and known totals below a child
# bound it. If no histograms of the children (and of all descendants with known totals) satisfy both,
# then p gives way. It is replaced by the nearest :math:`p'`, in :math:`\sum_k |p'_k - p_k|`, that has
# the same sum and makes the problem feasible.
#
# * Only sums over the dwelling groups matter: within a group any counts can be shared out, cell by
# cell. So the least change is the least number of persons who change their group, a flow
# (:mod:`das.solve.children`).
# * The persons who change are taken from the group's cells in proportion. They keep their other
# attributes where the new group has such a cell. From a structural zero they go to the cell that
# differs in fewest attributes.
# * The same persons change in every ancestor. So each parent is again the sum of its children. Known
# totals stay, since nobody is added or lost. Once all parents of the level are repaired, an
# ancestor is a sum of histograms that can be shared out. So it can be shared out, too.
#
# It is a last resort. A parent that was rounded together with its descendants
# (:mod:`das.rounding.controlled`) can always be shared out. A unit without known totals below holds what
# its children hold, group by group, within the sums of their bounds. The certificates count the
# persons that the failsafe moves.

Ints = NDArray[np.int64]


def repair(
    schema: Schema,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    published: Mapping[str, Histogram],
    level: str,
) -> tuple[dict[str, Histogram], Certificate]:
    """``published`` (the levels from the root to ``level``) with the least changes that let every
    unit of ``level`` be shared out among its descendants; and how many units and persons that took.

    Raises :class:`InfeasibleError` where no change of groups is enough: known totals that are not
    met."""
    out, changes = dict(published), []
    for unit in _suspects(published[level], bounds[level]):
        found = below(spine, bounds, level, unit, unit + 1)
        if found is None:
            continue
        row, low = published[level].rows(unit, unit + 1), found[1]
        assert low.total is not None
        moves = least_moves(_held(row, low)[0], low.lower, low.upper, low.total)
        if moves is None:
            raise InfeasibleError(
                "its persons cannot be shared out among the units below with known totals, whatever"
                " their dwellings",
                where=f"{level} {spine.code(level, unit)}",
                remedy="compare the known totals of the levels with each other",
            )
        if moves.any():
            changes.append((unit, *_changed(row, moves, schema, low)))
    if not changes:
        return out, Certificate()
    home = np.concatenate([np.full(len(cell), unit) for unit, cell, _ in changes])
    cell, count = (np.concatenate([c[i] for c in changes]) for i in (1, 2))
    for above in spine.levels[: spine.index(level) + 1]:
        h = published[above]
        at = spine.up(level, above)[home]
        out[above] = Histogram.from_triplets(
            h.units, h.cells, *map(np.concatenate, ((h.unit, at), (h.cell, cell), (h.count, count)))
        )
    return out, Certificate(repaired=len(changes), moved=int(count[count > 0].sum()))


def _held(h: Histogram, bounds: Bounds) -> Ints:
    """Persons in each dwelling group, ``(units, groups)``."""
    out = np.zeros((h.units, bounds.groups), dtype=np.int64)
    np.add.at(out, (h.unit, bounds.group[h.cell]), h.count)
    return out


def _suspects(h: Histogram, bounds: LevelBounds) -> list[int]:
    """Units that may not be shared out. Within their own bounds and the reach of every subset of
    groups they can be (max-flow min-cut), and with all known sums
    (:mod:`das.geography.invariants`); where subsets are not listed, only a flow can tell."""
    if bounds.exact:
        return []
    if bounds.groups > MOST_GROUPS:
        return list(range(h.units))
    own = bounds.dense()
    held = _held(h, own)
    bad = (held < own.lower).any(axis=1) | (held > own.upper).any(axis=1)
    return np.flatnonzero(bad | (own.excess(held) > 0).any(axis=1)).tolist()


def _changed(row: Histogram, moves: Ints, schema: Schema, bounds: Bounds) -> tuple[Ints, Ints]:
    """Cells and by how much their counts change, when ``moves[g, k]`` persons change from group g
    to k."""
    cell, count = row.cell, row.count.copy()
    cells, changes = [], []
    for g, k in np.argwhere(moves):
        here = np.flatnonzero(bounds.group[cell] == g)
        taken = _in_proportion(count[here], int(moves[g, k]))
        count[here] -= taken
        cells += [cell[here], _same_elsewhere(schema, bounds, cell[here], int(k))]
        changes += [-taken, taken]
    return np.concatenate(cells), np.concatenate(changes)


def _in_proportion(count: Ints, n: int) -> Ints:
    """n persons of ``count``, by largest remainders."""
    whole, rest = np.divmod(count * n, count.sum())
    whole[np.argsort(-rest, kind="stable")[: n - whole.sum()]] += 1
    return whole


def _same_elsewhere(schema: Schema, bounds: Bounds, cell: Ints, group: int) -> Ints:
    """For each cell the one of a dwelling group with the same other attributes or, where that is
    impossible, with as many as can be."""
    labels = np.stack(np.unravel_index(cell, schema.shape))
    there = np.flatnonzero(bounds.possible & (bounds.group == group))
    same = (np.stack(np.unravel_index(there, schema.shape))[:, None, :] == labels[:, :, None]).sum(
        axis=0
    )
    return there[same.argmax(axis=1)]
