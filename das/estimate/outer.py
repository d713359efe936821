r"""Outer passes: a level is rounded to integers several times, ever finer, and each pass splits the
integers of the pass before.

With a million cells no family can be estimated at once, and none needs to be. Let :math:`F_0` be a
query whose answers are exact in every unit (published counts, say). Let :math:`F_1, F_2, \dots` be
the queries that the passes of a strategy freeze (:mod:`das.model.plan`). Pass i knows each
child's integers :math:`f_{i-1,c}` on the answers of :math:`F_{i-1}`, and the parent's integers p on
the answers of :math:`F_i`. It solves

.. math:: \min_{x \ge 0} \sum_{q} \sum_c \frac{1}{\mathrm{Var}_{qc}} \|Q_q x_c - m_{qc}\|^2
          \quad\text{with}\quad \sum_c x_c = p, \quad F_{i-1} x_c = f_{i-1,c},

over the answers x of :math:`F_i` where the parent has somebody, and rounds. Every pass has this
form, even the first.

*Always feasible.* The variables are pairs (child, answer of :math:`F_i`). Sums of children and sums
of parents are two partitions of them. Within one answer of :math:`F_{i-1}`, every child with
somebody there can hold every variable. So this is a transportation problem. Its supplies and
demands are integers with equal sums, because :math:`F_{i-1} p = \sum_c f_{i-1,c}`. So it has
solutions, its vertices are integers, and its rounding is a flow (:mod:`das.solve.network`). Where
some cells are possible only in some places, *kinds* keep it feasible
(:mod:`das.estimate.fixed_counts`).

*Requests.* A variable exists only where both the parent and the child have somebody. Only such
answers are requested, and only these are drawn
(:class:`das.model.measurement.SparseSource`). A pass's requests depend only on what was
published above and rounded before. So all used answers have the distribution of a full measurement
(:mod:`das.noise.coordinates`). A variable that is alone in its sum is determined, and needs no
request.

An only child is its parent. The root has no parent: its variables are all cells that can occur."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine import InProcess, Progress, Silent, in_order
from das.estimate.fixed_counts import FixedCounts
from das.estimate.passes import EquationsInMaking, PassEquations
from das.estimate.pooled import FromBelow, Upward
from das.estimate.prior import SharedOut, scope, shares_prior
from das.estimate.separable import SeparableFamily, solutions
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measurement import SparseSource
from das.model.plan import OuterPass
from das.model.post_processing import SharesPrior
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate, Certificates, Solution
from das.model.spine import Spine
from das.solve import LayeredGram, children_qp, round_children
from das.solve.network import Link

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Variables of one task, about.
TOGETHER = 1 << 18
_TOLERANCE = 1e-6  # relative duality gap


@dataclass(frozen=True, eq=False)
class OuterEstimates(Frozen):
    """Integer histograms and the worst certificates, by level; and the prior of the lowest level,
    if there was one."""

    counts: Mapping[str, Histogram]
    certificates: Mapping[str, Certificates]
    prior: SharesPrior | None = None


@dataclass(frozen=True, eq=False)
class RefinedEstimates(OuterEstimates):
    """With the histogram of the lowest level by kind, from which the level below goes on."""

    by_kind: Histogram = field(kw_only=True)


def refined(
    source: SparseSource | Upward,
    spine: Spine,
    schema: Schema,
    outer: Sequence[OuterPass],
    fixed: FixedCounts,
    pool: Executor | None = None,
    progress: Progress | None = None,
    above: tuple[str, Histogram] | None = None,
    shares: bool | SharesPrior = False,
) -> RefinedEstimates:
    """Integer histograms of every level, root first, each the sum of the level below and with the
    sums that are ``fixed``. Of a subtree the levels below the upper tree alone: ``above`` are the
    upper tree's lowest level and its histogram by kind. With ``shares``, the lowest units are
    assumed to have roughly their parent's shares of each sum (:mod:`das.estimate.prior`).

    Raises :class:`das.errors.DasError` for what the ``source`` does not have, and
    :class:`InfeasibleError` where what is held fixed does not add up."""
    pool, progress = pool or InProcess(), progress or Silent()
    done, certificates = dict[str, Histogram](), dict[str, Certificates]()
    prior = shares if isinstance(shares, SharesPrior) else None
    if shares is True:
        scope(spine)
    first, parents = (0, None) if above is None else (spine.index(above[0]) + 1, above[1])
    for level in spine.levels[first:]:
        known, last, worst = fixed.counts[level], schema.query(fixed.query), Certificates()
        looks = shares is True and level == spine.levels[-2]
        here, looked = prior if level == spine.levels[-1] else None, list[Floats]()
        for number, p in enumerate(outer):
            step = OuterStep(
                source, spine, schema, level, p, last, fixed, parents, known, number, here, looks
            )
            known, c, seen = _pass(step, pool, progress)
            last, worst = step.frozen, worst.merge(c)
            looked.append(seen)
        if looks:
            prior = shares_prior(spine, looked)
        parents, certificates[level] = known, worst
        done[level] = fixed.without_kinds(known, schema.cells)
    return RefinedEstimates(done, certificates, prior, by_kind=known)


def _pass(
    step: OuterStep, pool: Executor, progress: Progress
) -> tuple[Histogram, Certificates, Floats]:
    """One pass over a level: its counts by kind, the certificates, and what each family has seen of
    the spread about shares."""
    name = f"estimate {step.schema.name}: {step.level}, pass {step.number + 1}"
    progress.stage(name, step.spine.units(step.level))
    parts, seen, worst = list[Histogram](), list[Floats](), Certificates()
    for rows, c, said in in_order(pool, _solve, step.tasks()):
        parts.append(rows)
        seen.append(said)
        worst = worst.merge(c)
        progress.advance(rows.units)
    return Histogram.concatenate(parts), worst, np.concatenate(seen)


@dataclass(frozen=True, eq=False)
class RefinedFamily(Frozen):
    """The problem of one pass. Its variables are ``key`` (kind and answer of the frozen query,
    increasing), with the parent's counts ``parent``. Each variable is in the sum ``group``, and the
    children have the sums ``known`` ``(children, groups)``. ``known`` determines all variables that
    are not ``free``. On the ``free`` ones, ``index`` is that of each measured query, and ``chain``
    that of each link of the chain. ``weight`` and ``rhs`` are those of the least squares, and
    ``answers`` what was measured, where it begins."""

    cells: int
    key: Ints
    parent: Ints | None
    group: Ints
    known: Ints
    free: Ints
    equations: PassEquations
    chain: tuple[Ints, ...]

    def solved(self, estimate: Solution | None = None) -> tuple[Histogram, Certificates]:
        """The rows of the children, and the certificates; ``estimate``: of the free variables, if
        it is known."""
        x = self.known[:, self.group]
        worst = Certificates()
        if len(self.free):
            x[:, self.free], worst = self._integers(estimate)
        unit, variable = np.nonzero(x)
        ends = np.searchsorted(unit, np.arange(len(x) + 1)).astype(np.int64)
        return Histogram(self.cells, ends, self.key[variable], x[unit, variable]), worst

    @cached_property
    def _sums(self) -> tuple[Ints, Ints, Ints | None]:
        """Of the free variables the children's sums, the sum that each is in, and the parent's
        counts."""
        groups, group = np.unique(self.group[self.free], return_inverse=True)
        parent = None if self.parent is None else self.parent[self.free]
        return self.known[:, groups], group, parent

    @property
    def separable(self) -> SeparableFamily | None:
        """The same problem, where its variables share nothing but sums."""
        known, group, parent = self._sums
        e = self.equations
        return SeparableFamily.if_separable(known, group, parent, e.index, e.weight, e.rhs)

    def _estimate(self) -> Solution:
        known, group, parent = self._sums
        bounds = known.astype(float)
        return children_qp(
            LayeredGram(
                list(self.equations.index), self.equations.weight, list(self.equations.answers)
            ),
            self.equations.rhs,
            None if parent is None else parent.astype(float),
            groups=group,
            lower=bounds,
            upper=bounds,
            support=known[:, group] > 0,
            tol=_TOLERANCE,
        )

    def _integers(self, estimate: Solution | None) -> tuple[Ints, Certificates]:
        known, group, parent = self._sums
        estimate = estimate or self._estimate()
        links = [*(Link(i) for i in self.chain), Link(group, known, known)]
        total = None if parent is not None else int(known.sum())
        rounded = round_children(estimate.x.astype(float), parent, chain=links, total=total)
        found = Certificates(
            Certificate().add(estimate),
            Certificate(solves=1, widened=Certificate().add(rounded).widened),
        )
        return rounded.x.astype(np.int64), found


def _solve(families: Sequence[RefinedFamily]) -> tuple[Histogram, Certificates, Floats]:
    """The rows of the families, the worst certificates, and what each has seen of the spread."""
    parts, worst = [], Certificates()
    separable = {i: s for i, f in enumerate(families) if (s := f.separable) is not None}
    known = solutions(separable, _TOLERANCE)
    for number, family in enumerate(families):
        rows, c = family.solved(known.get(number))
        parts.append(rows)
        worst = worst.merge(c)
    seen = np.array([f.equations.seen for f in families]).reshape(len(families), -1)
    return Histogram.concatenate(parts), worst, seen


@dataclass(frozen=True, eq=False)
class OuterStep(Frozen):
    """One pass at one level: ``last`` is the query that was frozen before, of whose answers (by
    kind) the units have ``known``; of the parents the cells (by kind) are ``above``. It is pass
    ``number`` of its level, with a ``prior`` or none. Where it ``looks``, it sees how widely
    children spread about their shares."""

    source: SparseSource | Upward
    spine: Spine
    schema: Schema
    level: str
    outer_pass: OuterPass
    last: Query
    fixed: FixedCounts
    above: Histogram | None
    known: Histogram
    number: int = 0
    prior: SharesPrior | None = None
    looks: bool = False

    @property
    def frozen(self) -> Query:
        return self.schema.query(self.outer_pass.frozen)

    @property
    def cells(self) -> int:
        return self.fixed.kinds * self.frozen.answers

    def tasks(self) -> Iterator[list[RefinedFamily]]:
        families, size = list[RefinedFamily](), 0
        starts = self.spine.children(self.level)
        measured = self._measured()
        for number, (start, stop) in enumerate(
            zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ):
            family = self._family(number, start, stop, measured)
            if families and size + family.known.shape[0] * len(family.key) > TOGETHER:
                yield families
                families, size = [], 0
            families.append(family)
            size += family.known.shape[0] * len(family.key)
        if families:
            yield families

    def _measured(self) -> Mapping[str, Floats]:
        """The variances of the units by each query of the pass."""
        there = self.source.queries(self.level)
        used = (*self.outer_pass.queries, *self.outer_pass.ahead)
        return {q: self.source.variance(self.level, q) for q in used if q in there}

    def _family(
        self, number: int, start: int, stop: int, measured: Mapping[str, Floats]
    ) -> RefinedFamily:
        key, cell, parent, single = self._variables(number)
        kind = key // self.frozen.answers
        group_key, group = np.unique(
            kind * self.last.answers + self.last.at(cell), return_inverse=True
        )
        known = self._known(group_key, start, stop)
        alone = np.bincount(group) == 1
        free = np.flatnonzero(~alone[group] & (known[:, group] > 0).any(axis=0))
        if stop - start == 1 and parent is not None:  # an only child
            known, group, free = parent[None, :], np.arange(len(key)), free[:0]
        equations = self._asked(cell, single, known, group, parent, free, start, number, measured)
        chain = [self.schema.query(q).at(cell[free]) for q in self.outer_pass.chain[1:]]
        links = tuple(
            np.unique(kind[free] * (c.max(initial=0) + 1) + c, return_inverse=True)[1]
            for c in chain
        )
        return RefinedFamily(self.cells, key, parent, group, known, free, equations, links)

    def _variables(self, number: int) -> tuple[Ints, Ints, Ints | None, Mask]:
        """The answers of the frozen query, by kind: a cell of each, how many the parent has, and
        whether it has this cell alone, in all kinds."""
        if self.above is None:
            place, count = self.fixed.possible(self.schema, self.known, self.last), None
        else:
            row = self.above.rows(number, number + 1)
            place, count = row.cell, row.count
        cell = place % self.schema.cells
        answer = self.frozen.at(cell)
        key = place // self.schema.cells * self.frozen.answers + answer
        key, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        single = np.zeros(0, dtype=bool)
        if self.outer_pass.ahead:
            distinct = np.unique(cell, return_index=True)[1]
            _, of, many = np.unique(answer[distinct], return_inverse=True, return_counts=True)
            single = np.isin(cell[first], cell[distinct][many[of] == 1])
        if count is None:
            return key, cell[first], None, single
        parent = np.zeros(len(key), dtype=np.int64)
        np.add.at(parent, inverse, count)
        return key, cell[first], parent, single

    def _known(self, group_key: Ints, start: int, stop: int) -> Ints:
        rows = self.known.rows(start, stop)
        out = np.zeros((stop - start, len(group_key)), dtype=np.int64)
        out[rows.unit, np.searchsorted(group_key, rows.cell)] = rows.count
        return out

    def _asked(
        self,
        cell: Ints,
        single: Mask,
        known: Ints,
        group: Ints,
        parent: Ints | None,
        free: Ints,
        start: int,
        number: int,
        measured: Mapping[str, Floats],
    ) -> PassEquations:
        """The least squares on the free variables of family ``number``: the measurements minus the
        determined variables. Queries of a later pass are used for ``single`` cells alone. Children
        are also pulled towards the shares of the parent: by the
        prior; without one weakly, if they are not measured for each variable by itself, or have one
        in several kinds."""
        if not len(free):
            return PassEquations.nothing(len(known))
        able = known[:, group[free]] > 0
        made, fixed = EquationsInMaking(able), known[:, group].copy()
        fixed[:, free] = 0
        others = np.flatnonzero(fixed.any(axis=0))
        for name, variance in measured.items():
            query = self.schema.query(name)
            usable = single if name in self.outer_pass.ahead else np.ones(len(cell), dtype=bool)
            if not usable[free].any():
                continue
            of = np.full(len(free), -1)
            answer, of[usable[free]] = np.unique(
                query.at(cell[free][usable[free]]), return_inverse=True
            )
            weight = 1 / variance[start : start + len(known)]
            asked = able & usable[free] & (weight > 0)[:, None]
            value = self._answers(name, start, asked, answer, of)
            there = query.at(cell[others])
            place = np.minimum(np.searchsorted(answer, there), len(answer) - 1)
            here = usable[others] & (answer[place] == there)
            np.subtract.at(value.T, place[here], fixed[:, others[here]].T)
            made.add(of, weight, value)
        shared = SharedOut.from_parent(known, group[free], None if parent is None else parent[free])
        pull = made.weak()
        if self.prior is not None:
            above = self.spine.levels[self.spine.index(self.level) - 1]
            home = self.spine.up(above, self.prior.level)[number]
            pull = np.maximum(pull, shared.weight(self.prior, self.number, int(home)))
        return made.equations(shared, pull, looks=self.looks)

    def _answers(self, query: str, start: int, able: Mask, answer: Ints, index: Ints) -> Floats:
        """The noisy answers of the children from ``start`` on, ``(children, answers)``. Variable i
        is in the answer ``index[i]`` of ``answer``. Only answers with a variable that a child is
        ``able`` to have are requested; the others are 0."""
        asked = np.zeros((len(able), len(answer)), dtype=bool)
        child, at = np.nonzero(able)
        asked[child, index[at]] = True
        child, at = np.nonzero(asked)
        value = np.zeros(asked.shape)
        value[child, at] = self.source.answers(self.level, query, start + child, answer[at])
        return value


# The problem of the outer passes as a value: all that :func:`das.estimate.outer.refined` needs,
# except measured answers.
#
# A tree that is not cut is one problem. Of a cut tree (:mod:`das.model.measured_spine`) the upper tree is
# one, and each subtree. A subtree tells the upper tree the sums of its answers
# (:func:`known_below`). The upper tree also requests answers in subtrees, where a unit has one
# child.

#: Measurements of a subtree, by its number.
OfSubtree = Callable[[int], Upward]


@dataclass(frozen=True, eq=False)
class FromSubtrees(Frozen):
    """What the subtrees of a tree know about the upper tree's lowest units (:class:`FromBelow`).
    ``home`` has the subtree of each of these, ``(units,)``."""

    home: Ints
    only: NDArray[np.bool_]
    variance: Mapping[str, Floats]
    sums: Mapping[str, Floats]

    def members(self, subtree: int) -> Ints:
        """The units that lie in a subtree, in its order."""
        return np.flatnonzero(self.home == subtree)

    def below(self, level: str, upward: OfSubtree) -> FromBelow:
        """The same, with answers for only children; ``level`` is that of their parents."""

        def answers(query: str, units: Ints, cells: Ints) -> NDArray[Any]:
            home, out = self.home[units], np.zeros(len(units))
            for subtree in np.unique(home).tolist():
                here = home == subtree
                own = np.searchsorted(self.members(subtree), units[here])
                out[here] = upward(subtree).answers_of_only(level, query, own, cells[here])
            return out

        return FromBelow(self.only, self.variance, self.sums, answers)


@dataclass(frozen=True, eq=False)
class OuterProblem(Frozen):
    """One tree, upper tree or subtree. ``most``: see :class:`Upward`. ``above``: of a subtree, the
    upper tree's lowest level and its histogram by kind. ``from_subtrees``: of an upper tree.
    ``shares``: whether the lowest level has the prior of shares."""

    spine: Spine
    schema: Schema
    outer: tuple[OuterPass, ...]
    fixed: FixedCounts
    most: int = 0
    above: tuple[str, Histogram] | None = None
    shares: bool = False
    from_subtrees: FromSubtrees | None = field(default=None, kw_only=True)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels to estimate."""
        first = 0 if self.above is None else self.spine.index(self.above[0]) + 1
        return self.spine.levels[first:]

    def estimated(
        self,
        source: SparseSource,
        pool: Executor | None = None,
        progress: Progress | None = None,
        subtrees: OfSubtree | None = None,
    ) -> RefinedEstimates:
        """Raises as :func:`refined` does. A subtree requests again what the upper tree was told of
        it, so that its own source has recorded that, too."""
        told = None
        if self.from_subtrees is not None and subtrees is not None:
            told = self.from_subtrees.below(self.spine.levels[-1], subtrees)
        upward = Upward(source, self.spine, self.most, told)
        if self.above is not None:
            known_below(upward, self.spine, self.above[0])
        return refined(
            upward,
            self.spine,
            self.schema,
            self.outer,
            self.fixed,
            pool,
            progress,
            self.above,
            self.shares,
        )


def known_below(upward: Upward, spine: Spine, level: str) -> dict[str, NDArray[Any]]:
    """What a subtree knows about its units of ``level``, the lowest of the upper tree: arrays
    ``only``, and ``variance:QUERY`` and ``sums:QUERY`` (:class:`FromBelow`)."""
    below = spine.levels[spine.index(level) + 1]
    queries = upward.queries(below)
    return (
        {"only": upward.only(level)}
        | {f"variance:{q}": upward.variance_below(level, q) for q in queries}
        | {f"sums:{q}": upward.sums_below(level, q) for q in queries if upward.sums_all(below, q)}
    )
