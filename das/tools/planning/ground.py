"""What is known of the tree when a budget is planned: how many units its levels have, its real
units, or an earlier release. Records are never read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.design import trees
from das.design.homogeneous import Homogeneous
from das.design.model import ROUNDING, Choices, Estimand, LevelQuery, Model
from das.design.recursion import Recursion
from das.engine import Progress
from das.errors import InputError, UserError
from das.files.machine import memory
from das.files.readers import area_list
from das.files.run.run_directory import release_of
from das.model.areas import Areas
from das.model.budget import ALL
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.model.universe import PERSONS, Planned
from das.release.opened import OpenedRelease, open_release
from das.spec import RunSpec
from das.truth.preparation import PublicTree

Array = NDArray[np.float64]
#: What the figures of a search are.
FULL_INFORMATION = (
    "standard deviations of one answer: those of the best linear unbiased estimates from everything"
    " that is measured (full information), before non-negativity. Non-negativity makes those of"
    " small counts several times smaller."
)
#: More than the inhabitants of any country.
MOST_UNITS = 10**10


@dataclass(frozen=True, eq=False)
class TreeKnowledge:
    """What is known of the tree. ``model`` makes one of some estimands; ``predicted``, where there
    is an earlier release, one that says what published counts will be like; ``over``, of a real
    tree, one of other measurements. ``says`` it, ``made_from`` names what it was made from, and
    ``note`` says what the figures are."""

    kind: str
    says: str
    made_from: tuple[str, ...]
    measurements: Choices
    areas: Mapping[str, Areas]
    population: Mapping[str, NDArray[np.int64]] | None
    model: Callable[[Sequence[Estimand]], Model]
    predicted: Callable[[Sequence[Estimand]], Model] | None = None
    over: Callable[[Sequence[LevelQuery], Sequence[Estimand]], Recursion] | None = None
    note: str = FULL_INFORMATION


@dataclass(frozen=True)
class TreeSizes:
    """How many units each level has, root first; ``median``: the median number of records in one,
    where they were published. ``says`` what this is known from; ``run``: a run or a release;
    ``areas``: the kind of some, and the real tree that has them."""

    units: tuple[int, ...]
    says: str
    median: tuple[float, ...] | None = None
    run: bool = False
    areas: tuple[str, TreeKnowledge] | None = None


def tree_sizes(
    spec: RunSpec, units: Sequence[int] | None, paths: Sequence[Path], progress: Progress
) -> TreeSizes:
    """From numbers, from a finished run or release, or from an input, whose records are not
    read."""
    if units is not None:
        return TreeSizes(tuple(units), "the numbers of units that were given")
    if len(paths) == 1 and (release_of(paths[0]) / "spec.toml").is_file():
        return _sizes_of_release(spec, paths[0])
    spine = PublicTree.read(spec, paths, progress).trees(spec)[spec.persons.name].spine
    read = ", ".join(Path(p).name for p in paths or spec.data.path)
    says = f"the units of {read}{_on(spec)}"
    return TreeSizes(tuple(spine.units(lv) for lv in spine.levels), says)


def _on(spec: RunSpec) -> str:
    return " on the optimized spine" if spec.geography.spine == "optimized" else ""


def _sizes_of_release(spec: RunSpec, path: Path) -> TreeSizes:
    release = open_release(release_of(path))
    if spec.geography.levels != release.spine.levels:
        raise UserError(
            "the release has other levels than the configuration",
            where="--data",
            remedy=f"its levels are {', '.join(release.spine.levels)}",
        )
    if spec.persons.schema != release.run.persons.schema:
        raise UserError("the release has another schema than the configuration", where="--data")
    published = release.published(release.run.persons)
    spine, lowest = release.spine, release.spine.levels[-1]
    people = np.bincount(published.unit, published.count, spine.units(lowest))
    each = [np.bincount(spine.up(lowest, lv), people, spine.units(lv)) for lv in spine.levels]
    return TreeSizes(
        tuple(spine.units(lv) for lv in spine.levels),
        f"the release {release.after.name!r}: its units{_on(spec)}, and how many persons it published of each",
        tuple(float(np.median(e[e > 0])) for e in each),
        run=True,
    )


def of_units(spec: RunSpec, planned: Planned, units: Sequence[int]) -> TreeKnowledge:
    """A tree known only by its numbers of units. Raises :class:`UserError`."""
    levels = spec.geography.levels
    where = "--units"
    if len(units) != len(levels):
        raise UserError(
            f"{len(units)} numbers, and {len(levels)} levels",
            where=where,
            remedy=f"give one for each of {', '.join(levels)}",
        )
    if units[0] != 1 or any(b < a for a, b in pairwise(units)):
        raise UserError(
            "these units do not nest",
            where=where,
            remedy="begin with 1, and give no level fewer units than the one above it",
        )
    known = -1 if planned.exact.total is None else levels.index(planned.exact.total)
    if units[-1] > MOST_UNITS:
        raise UserError(
            f"{units[-1]:,} units", where=where, remedy=f"give no more than {MOST_UNITS:,}"
        )
    measurements = Choices.alike(_pairs(planned.plan), ALL, _each(planned.plan))
    text = ", ".join(f"{n:,} {level}" for n, level in zip(units, levels, strict=True))

    def model(estimands: Sequence[Estimand]) -> Model:
        if any(a.areas for a in estimands):
            raise UserError(
                "areas need real blocks", where=where, remedy="give --data or --like in its place"
            )
        return Homogeneous.for_schema(planned.schema, levels, units, measurements, estimands, known)

    return TreeKnowledge(
        "numbers",
        f"units of equal size, people in households: {text}",
        (f"numbers of units ({text})",),
        measurements,
        {},
        None,
        model,
    )


def of_data(
    spec: RunSpec,
    universe: str,
    paths: Sequence[Path],
    progress: Progress,
    lists: Sequence[Path] = (),
) -> TreeKnowledge:
    """The real tree of an input, and what is published exactly of its structures: which blocks have
    a housing unit and which types of facilities. The readers take facilities to be where somebody
    lives in them, so of an input without its persons these are not there; nothing else of the
    persons enters, and with facilities as they are the plan is the same without them. ``lists`` of
    blocks are areas of it, by their file names."""
    world = PublicTree.read(spec, paths, progress, lists)
    found = world.trees(spec)
    u, tree = spec.on(found).universe(universe), found[universe]
    bounds = world.bounds(u, tree)
    files = [Path(p) for p in paths or spec.data.path]
    made = (
        (
            f"the blocks and structures of {', '.join(p.name for p in files)} (blocks"
            f" {_digest(tree, bounds)})"
        ),
    )
    return _of_tree(spec.universe(universe), tree, bounds, world.areas(), made)


def of_areas(
    spec: RunSpec, paths: Sequence[Path], listed: Path, progress: Progress
) -> tuple[str, TreeKnowledge]:
    """The kind of some areas, and the real tree that has them: of an input, or of a finished run or
    release. ``listed`` is a list of blocks, or a kind that it knows, such as SLDL. Raises
    :class:`UserError`."""
    lists = (listed,) if listed.is_file() else ()
    if len(paths) == 1 and (release_of(paths[0]) / "spec.toml").is_file():
        ground = of_release(spec, PERSONS.name, open_release(release_of(paths[0])), lists)
    else:
        ground = of_data(spec, PERSONS.name, paths, progress, lists)
    if listed.name not in ground.areas:
        raise UserError(
            f"there is no file {listed}, and no such kind of areas",
            where="--areas",
            remedy=f"give a list of blocks, or one of {', '.join(sorted(ground.areas))}",
        )
    return listed.name, ground


def of_release(
    spec: RunSpec, universe: str, release: OpenedRelease, lists: Sequence[Path] = ()
) -> TreeKnowledge:
    """The tree and structures of a release, and the cells that its units were published with;
    ``lists`` of blocks are areas of it, by their file names."""
    if spec.geography.levels != release.spine.levels:
        raise UserError(
            "the release has other levels than the configuration",
            where="--like",
            remedy=f"its levels are {', '.join(release.spine.levels)}",
        )
    held = release.run.universe(universe)
    u = spec.on(release.trees).universe(universe)
    if held.schema != u.schema:
        raise UserError("the release has another schema than the configuration", where="--like")
    tree, bounds = release.tree(held), release.bounds(held)
    published = release.published(held)
    areas = {a.kind: a for a in release.areas()}
    areas |= {p.name: area_list.read(p, release.spine) for p in lists}
    made = (f"the release {release.after.name!r} (specification {release.run.run.name})",)
    ground = _of_tree(spec.universe(universe), tree, bounds, areas, made)
    lowest = tree.of_published(published)
    persons = _people(published)
    population = {
        k: np.bincount(a.area, persons[a.unit], len(a)).astype(np.int64) for k, a in areas.items()
    }

    def predicted(estimands: Sequence[Estimand]) -> Model:
        return trees.of_cells(
            u.schema, tree, bounds, lowest, ground.measurements, estimands, areas, _room()
        )

    return replace(
        ground,
        says=f"{ground.says}; predicted over the cells that units were published with",
        predicted=predicted,
        population=population,
    )


def _people(published: Histogram) -> NDArray[np.int64]:
    return np.bincount(published.unit, weights=published.count, minlength=published.units).astype(
        np.int64
    )


def _room() -> float:
    """The bytes that a search may take."""
    found = memory()
    return float("inf") if found is None else found


def _of_tree(
    planned: Planned,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    areas: Mapping[str, Areas],
    made: tuple[str, ...],
) -> TreeKnowledge:
    """``planned`` as the configuration has it, of no tree: its plan has the measurements of every
    level."""
    pairs = _pairs(planned.plan)
    measurements = Choices.over(pairs, tree, _each(planned.plan))
    says = (
        "the real tree:"
        f" {', '.join(f'{len(c):,} {level}' for level, c in zip(tree.spine.levels, tree.spine.codes, strict=True))}"
    )

    def over(pairs: Sequence[LevelQuery], estimands: Sequence[Estimand]) -> Recursion:
        chosen = Choices.over(pairs, tree, _each(planned.plan))
        return trees.of_structures(planned.schema, tree, bounds, chosen, estimands, areas, _room())

    def model(estimands: Sequence[Estimand]) -> Model:
        return over(pairs, estimands)

    return TreeKnowledge("tree", says, made, measurements, areas, None, model, over=over)


def _digest(tree: MeasuredSpine, bounds: Mapping[str, LevelBounds]) -> str:
    """SHA-256 of the tree and of who may be where, shortened: of nothing that is not published
    exactly."""
    found = hashlib.sha256()
    for codes in tree.spine.codes:
        found.update(np.ascontiguousarray(codes).tobytes())
    limits = bounds[tree.spine.levels[-1]].limits
    found.update(np.packbits(limits.upper > 0, axis=1)[limits.row].tobytes())
    return found.hexdigest()[:16]


def _pairs(plan: Plan) -> tuple[LevelQuery, ...]:
    """The measurements of units other than only children. All measurements whose shares are
    optimized must be discrete Gaussian."""
    if plan.mechanism.currency != "rho":
        raise InputError(
            f"the noise is {plan.mechanism}, whose variance does not fall with its cost",
            where="budget.mechanism",
            remedy="only plans of the discrete Gaussian are optimized",
        )
    return tuple((d.level, d.query) for d in plan.plain)


def _each(plan: Plan) -> float:
    """The precision that one rho buys."""
    return 1 / float(plan.mechanism.parameter(Fraction(1), plan.neighbours.sensitivity))


# Variances of a plan for a schema with a million cells: sampled units, each by itself.
#
# No matrix over such a schema exists, but a unit has few positive cells. Let a unit be estimated in
# outer passes (:mod:`das.model.plan`). Pass i has the variables of its frozen query, those that
# are positive in the unit. It knows the sums of the pass before exactly, :math:`G_i x = f_{i-1}`, and
# measures the queries :math:`Q_q` with the precisions :math:`\rho_q`:
#
# .. math:: X_i = \sum_q \rho_q Q_q'Q_q, \qquad
# V_i = X_i^{-1} - X_i^{-1}G_i'(G_i X_i^{-1} G_i')^{-1}G_i X_i^{-1}.
#
# V is the covariance of least squares given the exact sums. Adding any multiple of :math:`G'G` to X
# does not change it, and gives X an inverse where queries leave only the exact sums open. A published
# line t, a sum of cells, has the mean :math:`t_i` over the cells of each variable of pass i. Its
# variance is
#
# .. math:: f_t = \sum_i t_i' V_i t_i, \qquad
# \frac{\partial f_t}{\partial \rho_q} = -\|Q_q V_i t_i\|^2 \text{ for q in pass i}.
#
# For persons this is exact: the last pass has one query, so an error of a class is spread evenly over
# its cells. For households it is an approximation. The estimand is the mean over the lines of a group
# and over the sampled units. Each :math:`\log f` is convex (:mod:`das.design.problem`); so is a mean
# of such f.
#
# *What the model leaves out.* Units are estimated top down. A child of C like children has the factor
# :math:`1 - 1/C`, and :math:`1/C^2` of its parent's variance: the shares of one level depend on those
# of no other. Exact sums are exact, although they were published with noise. Non-negativity is
# replaced by the support: cells that are not positive are 0. The estimate has other cells than the
# release that was sampled. So the model guards too little where many fine cells tell a coarse table:
# a plan is checked by runs before it is used.

Index = NDArray[np.intp]
#: The precision, relative to all that is measured, of what nothing measures: its variance is huge.
_NOTHING = 1e-9
#: Evaluations of a level that are kept: differences change one share of one level.
_KEPT = 4


@dataclass(frozen=True, eq=False)
class SampledPass:
    """One pass of one unit. ``index``: by query, the answer of each variable, from 0, ``(d,)``.
    ``tie``: which exact sum a variable is in, from 0, ``(d,)``. ``lines`` ``(d, L)``: the mean of
    each line over the cells of each variable."""

    index: Mapping[str, Index]
    tie: Index
    lines: Array

    @cached_property
    def _same(self) -> Mapping[str, NDArray[np.bool_]]:
        """``Q'Q`` of each query, ``(d, d)``; left out where each variable has its own answer."""
        return {q: i[:, None] == i[None, :] for q, i in self.index.items() if i.max() + 1 < len(i)}

    def variances(self, rho: Mapping[str, float]) -> tuple[Array, Mapping[str, Array]]:
        """``t'Vt`` of each line ``(L,)``, and minus its derivatives by each query's precision."""
        moved = self._moved(rho)
        found = np.einsum("dl,dl->l", self.lines, moved)
        # what is left of a line that follows from exact sums is rounding error
        size = np.einsum("dl,dl->l", self.lines, self.lines) / (sum(rho.values()) or 1.0)
        found = np.where(found > ROUNDING * size, found, 0.0)
        return found, {
            q: np.where(found > 0, (_summed(moved, self.index[q]) ** 2).sum(axis=0), 0.0)
            for q in rho
        }

    def _moved(self, rho: Mapping[str, float]) -> Array:
        """``V t`` of each line, ``(d, L)``."""
        if not self._same:
            each = _summed(self.lines, self.tie) / np.bincount(self.tie)[:, None]
            return (self.lines - each[self.tie]) / (sum(rho.values()) or _NOTHING)
        x = np.zeros((len(self.tie), len(self.tie)))
        for q, r in rho.items():
            if q in self._same:
                x += r * self._same[q]
            else:
                x[np.diag_indices(len(x))] += r
        whole = sum(rho.values()) or 1.0
        x += whole * (self.tie[:, None] == self.tie[None, :])
        x[np.diag_indices(len(x))] += _NOTHING * whole
        summed = (self.tie[:, None] == np.arange(self.tie.max() + 1)).astype(float)
        z = np.linalg.solve(x, np.concatenate([self.lines, summed], axis=1))
        free, held = z[:, : self.lines.shape[1]], z[:, self.lines.shape[1] :]
        return free - held @ np.linalg.solve(summed.T @ held, summed.T @ free)


def _summed(rows: Array, index: Index) -> Array:
    """The sums of the rows of each number, ``(numbers, L)``."""
    if index.max() + 1 == len(index):
        return rows
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(index.max() + 1))
    return np.add.reduceat(rows[order], starts, axis=0)


@dataclass(frozen=True, eq=False)
class SampledUnit:
    """``passes`` of one unit. ``group`` ``(L,)``: the estimand of each line. ``weight`` ``(L,)``:
    what a line counts in its mean."""

    passes: tuple[SampledPass, ...]
    group: Index
    weight: Array


@dataclass(frozen=True, eq=False)
class UnitsAlone:
    """A model (:class:`das.design.model.Model`) of the units that were sampled of some levels.
    Estimands of other levels have the variance 0: nothing is known of them."""

    measurements: Choices
    estimands: tuple[Estimand, ...]
    samples: Mapping[str, Sequence[SampledUnit]]
    _seen: dict[str, dict[bytes, tuple[Array, Array]]] = field(default_factory=dict)

    def variances(self, precision: Array) -> Array:
        return self._whole(precision)[0]

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        f, h = self.gradients(precision, weight[None, :], lambda: None)
        return f, h[0]

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        f, slopes = self._whole(precision)
        tick()
        some = f > 0
        return f, (weights[:, some] / f[some]) @ slopes[some]

    def _whole(self, precision: Array) -> tuple[Array, Array]:
        """f ``(estimands,)``, and minus its derivatives ``(estimands, I)``."""
        f = np.zeros(len(self.estimands))
        slopes = np.zeros((len(self.estimands), len(precision)))
        places = [self.measurements.places[k][0] for k, _ in self.measurements.members]
        for level in self.samples:
            here = np.array([at == level for at in places])
            found, by = self._of_level(level, precision[here])
            f += found
            slopes[:, here] += by
        return f, slopes

    def _of_level(self, level: str, precision: Array) -> tuple[Array, Array]:
        seen = self._seen.setdefault(level, {})
        key = precision.tobytes()
        if key not in seen:
            names = [
                q for k, q in self.measurements.members if self.measurements.places[k][0] == level
            ]
            rho = dict(zip(names, precision.tolist(), strict=True))
            parts = [self._of_unit(unit, rho, names) for unit in self.samples[level]]
            while len(seen) >= _KEPT:
                seen.pop(next(iter(seen)))
            f, slopes = zip(*parts, strict=True)
            seen[key] = np.sum(f, axis=0), np.sum(slopes, axis=0)
        return seen[key]

    def _of_unit(
        self, unit: SampledUnit, rho: Mapping[str, float], names: Sequence[str]
    ) -> tuple[Array, Array]:
        n = len(self.estimands)
        f, slopes = np.zeros(n), np.zeros((n, len(names)))
        for one in unit.passes:
            found, by = one.variances({q: rho[q] for q in one.index if q in rho})
            f += np.bincount(unit.group, unit.weight * found, n)
            for q, slope in by.items():
                slopes[:, names.index(q)] += np.bincount(unit.group, unit.weight * slope, n)
        return f, slopes
