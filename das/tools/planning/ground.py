"""What is known of the tree when a budget is planned: how many units its levels have, its real
units, or an earlier release. Records are never read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.design import trees
from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand, LevelQuery, Model
from das.engine import Progress
from das.errors import InputError, UserError
from das.files.machine import memory
from das.files.readers import area_list
from das.model.areas import Areas
from das.model.budget import ALL
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.model.universe import Planned
from das.release.opened import OpenedRelease
from das.spec import RunSpec
from das.truth.public_tree import PublicTree

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
class Ground:
    """What is known of the tree. ``model`` makes one of some estimands; ``predicted``, where there
    is an earlier release, one that says what published counts will be like. ``says`` it,
    ``made_from`` names what it was made from, and ``note`` says what the figures are."""

    kind: str
    says: str
    made_from: tuple[str, ...]
    measurements: Choices
    areas: Mapping[str, Areas]
    population: Mapping[str, NDArray[np.int64]] | None
    model: Callable[[Sequence[Estimand]], Model]
    predicted: Callable[[Sequence[Estimand]], Model] | None = None
    note: str = FULL_INFORMATION


def of_units(spec: RunSpec, u: Planned, units: Sequence[int]) -> Ground:
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
    known = -1 if u.exact.total is None else levels.index(u.exact.total)
    if units[-1] > MOST_UNITS:
        raise UserError(
            f"{units[-1]:,} units", where=where, remedy=f"give no more than {MOST_UNITS:,}"
        )
    measurements = Choices.alike(_pairs(u.plan), ALL, _each(u.plan))
    text = ", ".join(f"{n:,} {level}" for n, level in zip(units, levels, strict=True))

    def model(estimands: Sequence[Estimand]) -> Model:
        if any(a.areas for a in estimands):
            raise UserError(
                "areas need real blocks", where=where, remedy="give --data or --like in its place"
            )
        return Homogeneous.of(u.schema, levels, units, measurements, estimands, known)

    return Ground(
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
) -> Ground:
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


def of_release(
    spec: RunSpec, universe: str, release: OpenedRelease, lists: Sequence[Path] = ()
) -> Ground:
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
    u: Planned,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    areas: Mapping[str, Areas],
    made: tuple[str, ...],
) -> Ground:
    """``u`` as the configuration has it, of no tree: its plan has the measurements of every
    level."""
    measurements = Choices.over(_pairs(u.plan), tree, _each(u.plan))
    says = (
        "the real tree:"
        f" {', '.join(f'{len(c):,} {level}' for level, c in zip(tree.spine.levels, tree.spine.codes, strict=True))}"
    )

    def model(estimands: Sequence[Estimand]) -> Model:
        return trees.of_structures(u.schema, tree, bounds, measurements, estimands, areas, _room())

    return Ground("tree", says, made, measurements, areas, None, model)


def _digest(tree: MeasuredSpine, bounds: Mapping[str, LevelBounds]) -> str:
    """SHA-256 of the tree and of who may be where, shortened: of nothing that is not published
    exactly.
    """
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
            remedy="only plans of the discrete Gaussian are optimised",
        )
    return tuple((d.level, d.query) for d in plan.plain)


def _each(plan: Plan) -> float:
    """The precision that one rho buys."""
    return 1 / float(plan.mechanism.parameter(Fraction(1), plan.neighbours.sensitivity))
