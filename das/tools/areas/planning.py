r"""How accurate the counts of areas of blocks will be, before anything is measured, on each spine
that a configuration could choose.

It uses public blocks and the plan alone: which blocks exist, their areas and structures. The
precision of a total in unit u is :math:`p_u = \sum_q 1/(\sigma_q^2 m_q)` over the queries of its
class, with :math:`m_q` the answers of q: their sums are independent estimates of it.
:mod:`das.estimate.areas.estimates` gives what follows for an area.
:mod:`das.estimate.areas.estimates` gives the standard error of the unbiased estimate, with all that
structures imply; it depends on no count.

*Shares of the levels.* Let every family split its total evenly, and each level have one class. The
descent gives area A the variance :math:`\sum_l W_l(A)\,V_l`, with :math:`V_l` the variance of a
unit's total. :math:`W_l` is the sum of :math:`\sum_c b_c^2 - (\sum_c b_c)^2/n` over the families of
level l, with :math:`b` the share of a unit that is inside. :math:`V_l` falls with the share
:math:`s_l` of the budget as :math:`s_l^{-k}`, k = 1 for rho and 2 for epsilon. So, summed over
areas, :math:`\sum_l W_l V_l` is least where :math:`s_l` is proportional to
:math:`(W_l V_l s_l^k)^{1/(k+1)}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.errors import InputError
from das.estimate.areas.estimates import Pieces, estimates, pieces, variances
from das.files.readers import area_list
from das.fold import Tiers
from das.model.areas import Areas
from das.model.level_bounds import LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.spine import Spine
from das.model.universe import Planned
from das.spec import RunSpec
from das.truth.public_tree import PublicTree

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AreasOnSpine:
    """Standard deviations ``(areas,)`` of the total of each area on one spine: ``topdown``, of the
    descent before non-negativity; ``full_information``, from all levels; ``estimate``, of the
    unbiased estimate with what structures tell."""

    name: str
    says: str
    topdown: Array
    full_information: Array
    estimate: Array


@dataclass(frozen=True)
class LevelShare:
    """The share of the budget that a level has, and that which is best for the areas alone."""

    level: str
    now: float
    best: float


@dataclass(frozen=True, eq=False)
class AreaPlan:
    """``shares`` are those for the spine of the configuration."""

    areas: Areas
    spines: tuple[AreasOnSpine, ...]
    shares: tuple[LevelShare, ...]


def planned(
    spec: RunSpec, paths: Sequence[Path], universe: str, listed: Path, progress: Progress
) -> AreaPlan:
    """The accuracy to expect for the areas of a list of blocks. Raises :class:`UserError` for a
    faulty list or input.
    """
    world = PublicTree.read(spec, paths, progress)
    areas = area_list.read(listed, world.spine)
    world = replace(world, lists={**world.lists, _named(areas): areas})
    spines = [
        _on(world, areas, name, says, _spec(spec, **keys), universe, progress)
        for name, says, keys in _choices(spec, areas)
    ]
    shares = _shares(world, areas, spec, universe)
    return AreaPlan(areas, tuple(spines), shares)


def _named(areas: Areas) -> str:
    """The name of areas as a target: a name with a dot is that of a list."""
    return f"{areas.kind}.blocks"


def _choices(spec: RunSpec, areas: Areas) -> list[tuple[str, str, dict[str, object]]]:
    """Name, words, and keys of the geography."""
    g = spec.geography
    out: list[tuple[str, str, dict[str, object]]] = [
        (
            "tabulation",
            "the tabulation spine",
            {"spine": "tabulation", "targets": None, "fanout": None},
        )
    ]
    if "State" in g.levels[:-2]:
        out.append(
            (
                "production",
                "the optimised spine of 2020",
                {"spine": "optimized", "targets": None, "fanout": None},
            )
        )
        if g.targets:
            out.append(("targets", f"with targets {', '.join(g.named)}", {}))
        named = (*(g.targets or ()), _named(areas))
        more = "these areas among its targets" if g.targets else "these areas as targets"
        out.append(
            (
                "these areas",
                f"the optimised spine with {more}",
                {"spine": "optimized", "targets": named},
            )
        )
    return out


def _spec(spec: RunSpec, **keys: object) -> RunSpec:
    """With other keys of its geography; what was computed of the given one is not taken along."""
    changed = spec.model_copy(update={"geography": spec.geography.model_copy(update=keys)})
    for name in ("universes", "after", "terms"):
        changed.__dict__.pop(name, None)
    return changed


def _on(
    world: PublicTree,
    areas: Areas,
    name: str,
    says: str,
    spec: RunSpec,
    universe: str,
    progress: Progress,
) -> AreasOnSpine:
    progress.stage(says, None)
    trees = world.trees(spec)
    u, tree, n = spec.on(trees).universe(universe), trees[universe], len(areas)
    bounds = world.bounds(u, tree)
    area, unit = areas.over(tree)
    topdown, full = linear(u, tree, bounds, area, unit, n)
    everybody = np.ones((1, u.schema.cells), dtype=bool)
    exact = estimates(_Noise(u, tree), tree.spine, bounds, u.schema, everybody, area, unit, n)
    return AreasOnSpine(name, says, topdown, full, np.sqrt(exact.variance[:, 0]))


def linear(
    u: Planned,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    area: Ints,
    unit: Ints,
    areas: int,
) -> tuple[Array, Array]:
    """The standard deviations of the totals of areas by :mod:`das.estimate.areas.estimates`,
    top-down and by full information, ``(areas,)`` both: ``unit[i]`` of the tree's lowest is in
    ``area[i]``."""
    noise = _Noise(u, tree)
    tiers = Tiers.of_bounds(tree.spine, bounds)
    cut = pieces(tiers.parents, area, unit)
    precision = [
        noise.precision(level) if level else np.zeros(len(parent))
        for level, parent in zip(tiers.level, tiers.parents, strict=True)
    ]
    lowest = bounds[tree.spine.levels[-1]]
    precision[-1][lowest.limits.upper.sum(axis=1)[lowest.limits.row] == 0] = (
        np.inf
    )  # nobody can be there
    topdown, full = (
        np.sqrt(_variances(tiers, precision, cut, areas, every)) for every in (False, True)
    )
    return topdown, full


def _variances(
    tiers: Tiers, precision: Sequence[Array], cut: Sequence[Pieces], areas: int, full: bool
) -> Array:
    """NaN where units with siblings are not measured: a descent that needs them knows nothing."""
    try:
        return variances(tiers, precision, cut, areas, full_information=full)
    except InputError:
        return np.full(areas, np.nan)


@dataclass(frozen=True, eq=False)
class _Noise:
    """A source of measurements that are all zero, with the variances of a plan."""

    u: Planned
    tree: MeasuredSpine

    def variance(self, level: str, query: str) -> Array:
        out = np.full(self.tree.spine.units(level), np.inf)
        for name, units in self.tree.classes(level).items():
            for d in self.u.plan.of_class(level, name):
                if d.query == query:
                    out[units] = d.variance
        return out

    def precision(self, level: str) -> Array:
        """The precision of each unit's total, ``(units,)``."""
        each = (
            1 / (self.variance(level, q) * self.u.schema.query(q).answers)
            for q in self.queries(level)
        )
        return sum(each, np.zeros(self.tree.spine.units(level)))

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.query for d in self.u.plan.at(level)))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        values = np.zeros((stop - start, self.u.schema.query(query).answers), dtype=np.int64)
        return Measurement(level, query, start, values, self.variance(level, query)[start:stop])

    def part(self, level: str, start: int, stop: int) -> _Noise:
        del level, start, stop
        return self


# --- shares
# ---------------------------------------------------------------------------------------------------


def _shares(
    world: PublicTree, areas: Areas, spec: RunSpec, universe: str
) -> tuple[LevelShare, ...]:
    """On the spine of the configuration, each level of it with one class; none where no area costs
    anything.
    """
    tree = world.trees(spec)[universe]
    u = _spec(spec, spine="tabulation", targets=None, fanout=None).universe(universe)
    known = -1 if u.exact.total is None else tree.spine.index(u.exact.total)
    weight = weights(tree.spine, pieces(tree.spine.parent, *areas.over(tree)), known)
    k, best, now = 2 // u.plan.mechanism.power, [], []
    for w, level in zip(weight, tree.spine.levels, strict=True):
        measurements = u.plan.at(level)
        now.append(float(sum((d.cost for d in measurements), Fraction(0)) / u.plan.cost))
        told = sum(1 / (d.variance * u.schema.query(d.query).answers) for d in measurements)
        best.append((w / told * now[-1] ** k) ** (1 / (k + 1)) if told else 0.0)
    if not sum(best):
        return ()
    return tuple(
        LevelShare(lv, n, b / sum(best))
        for lv, n, b in zip(tree.spine.levels, now, best, strict=True)
    )


def weights(spine: Spine, cut: Sequence[Pieces], known: int) -> list[float]:
    """W of each level, root first, summed over the areas; 0 where totals are known."""
    out = [0.0] * len(spine)
    inside = np.ones(len(cut[-1]))
    for depth in range(len(spine) - 1, 0, -1):
        here, above = cut[depth], cut[depth - 1]
        children = np.bincount(spine.parent[depth])[above.unit]
        total = np.bincount(here.up, weights=inside, minlength=len(above))
        square = np.bincount(here.up, weights=inside**2, minlength=len(above))
        if depth > known:
            out[depth] = float(np.where(above.whole, 0.0, square - total**2 / children).sum())
        inside = np.where(above.whole, 1.0, total / children)
    if known < 0:
        out[0] = float((inside**2).sum())
    return out
