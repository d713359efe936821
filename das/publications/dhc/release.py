"""A release of the DHC, opened from its folder alone: what is held fixed, what was measured on
demand, and what follows from these.

*Two trees.* Tables, microdata and fixed counts stand on the published spine. A universe is measured
and estimated over its own tree (:class:`das.model.measured_spine.MeasuredSpine`) of the same lowest
units, or of those with a structure. The two meet at the lowest units: their estimates are added up
the published spine. :mod:`das.estimate.fixed_counts` has the proof that what is held fixed can be
met on any tree.

Like :mod:`das.release.post_processing`, nothing here can see the truth. Persons have the published
redistricting counts of every block. Nobody lives in a type of group quarters for which the block
has no facility. Housing units match the published occupied and vacant units, and the facilities.
Households of each tenure match the occupied units of that tenure. So units are estimated before
households."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.engine import Progress
from das.errors import InfeasibleError, ReleaseError
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import FromSubtrees, OuterEstimates, OuterProblem, RefinedEstimates
from das.files import atomic
from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.run import run_directory
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.ledger import Event
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.measurement import SparseSource
from das.model.spine import Spine
from das.publications.dhc.files import fixed_counts as fixed_file
from das.publications.dhc.files.on_demand import OnDemandReader
from das.publications.dhc.model import quarters, strategy
from das.publications.dhc.model.households import TENURE, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.spec import UNITS, DhcSpec, DhcUniverse
from das.spec import load, of_kind

Ints = NDArray[np.int64]
#: Estimates a problem from a source of answers, in this process or beyond a wall.
Solver = Callable[[OuterProblem, SparseSource], RefinedEstimates]
SPEC, SPINE = "spec.toml", "spine.parquet"
#: Groups of the query that is held fixed of units, before the types of facilities: occupied, and
#: vacant.
HOMES = 2


@dataclass(frozen=True, eq=False)
class OpenedDhc:
    """``fixed``: of persons and of units what every lowest unit of the published ``spine`` has
    exactly, ``(units, answers)``. ``trees``: by universe what it is measured over. ``cut``: the
    subtrees of the published spine. Of one of them, its number ``part``, ``spine``, ``trees`` and
    ``fixed`` are its own."""

    folder: Path
    spec: DhcSpec
    spine: Spine
    trees: Mapping[str, MeasuredSpine]
    fixed: Mapping[str, Histogram]
    cut: Subtrees
    part: int | None = None

    def tree(self, universe: DhcUniverse) -> MeasuredSpine:
        """What a universe is measured over."""
        return self.trees[universe.name]

    @property
    def has_own_spine(self) -> bool:
        """Whether units were measured that are not the published ones."""
        return any(not tree.is_published for tree in self.trees.values())

    @property
    def lowest(self) -> tuple[str, int]:
        """The lowest level, and how many published units it has."""
        return self.spine.levels[-1], len(self.spine.codes[-1])

    @property
    def levels(self) -> tuple[str, ...]:
        """Those that a subtree, or the upper tree of the whole, is responsible for."""
        return self.cut.levels(self.spine, self.part or 0)

    def measured(self, universe: DhcUniverse) -> Spine:
        """The spine that a universe is measured over."""
        return self.tree(universe).spine

    def own(self, universe: DhcUniverse) -> Spine:
        """The measured tree of these: the upper tree, or the subtree with what is above it."""
        spine = self.measured(universe)
        return self.cut.upper_tree(spine) if self.part is None else spine

    def geocodes(self, universe: DhcUniverse) -> str:
        """Where the codes of measured units are listed."""
        if self.tree(universe).is_published:
            return "geocodes are those of `das tables`, in its column GEOCODE"
        return (
            f"geocodes are those of the measured tree, in {tree_path(self.folder, universe.name)}"
        )

    def areas(self) -> tuple[Areas, ...]:
        """The areas off the spine that the earlier release knew."""
        return areas_file.read(self.folder / areas_file.NAME, self.spine)

    @cached_property
    def facilities(self) -> Ints:
        """The facilities of every lowest unit, by type, ``(units, 24)``."""
        return self.fixed[UNITS].dense()[:, HOMES:]

    def source(self, universe: DhcUniverse) -> OnDemandReader:
        """What was measured on demand of a universe."""
        return OnDemandReader(
            run_directory.nmf_folder(self.folder, universe.name),
            self.tree(universe).spine,
            private=self.spec.run.private,
        )

    def ties(
        self,
        universe: DhcUniverse,
        homes: Histogram | None = None,
        kinds: NDArray[np.bool_] | None = None,
    ) -> FixedCounts:
        """What is held fixed of a universe, over its tree; of households it follows from the
        published units, ``homes``. Of a subtree, ``kinds`` are those of the whole."""
        tree = self.tree(universe)
        if universe.rests_on is None:
            able = self.able[tree.place] if universe.housed else None
            fixed = tree.of_published(self.fixed[universe.name])
            return FixedCounts.from_histogram(
                universe.schema, universe.fixed_query, fixed, tree.spine, able, kinds
            )
        if homes is None:
            raise ValueError(f"{universe.name} rest on {universe.rests_on}")
        fixed = tree.of_published(tenures(homes))
        return FixedCounts.from_histogram(universe.schema, universe.fixed_query, fixed, tree.spine)

    def events(self, universe: DhcUniverse, level: str) -> tuple[Event, ...]:
        """What measuring a level draws: all answers to all queries, however few are looked at."""
        return tuple(
            Event.from_measurement(
                d,
                universe.name,
                self.tree(universe).spine.units(level),
                universe.schema.query(d.query).answers,
            )
            for d in universe.plan.at(level)
        )

    @property
    def able(self) -> NDArray[np.bool_]:
        """Where somebody can live, by lowest unit and level of ``relgq``: at home, or where there
        is a facility."""
        away = self.facilities > 0
        home = len(DHCP.attribute("relgq").levels) - len(quarters.TYPES)
        return np.concatenate([np.ones((len(away), home), dtype=bool), away], axis=1)

    def estimate(
        self,
        universe: DhcUniverse,
        source: SparseSource,
        done: Mapping[str, OuterEstimates],
        pool: Executor | None = None,
        progress: Progress | None = None,
    ) -> OuterEstimates:
        """One universe from its measurements, in this process; those before it are ``done``.
        Published counts, by level of the published spine."""

        def here(problem: OuterProblem, source: SparseSource) -> RefinedEstimates:
            return problem.estimated(source, pool, progress)

        return self.estimated(universe, source, done, here)

    def estimated(
        self,
        universe: DhcUniverse,
        source: SparseSource,
        done: Mapping[str, OuterEstimates],
        solve: Solver,
    ) -> OuterEstimates:
        """The same, wherever ``solve`` does it."""
        ties = self.ties(universe, self.homes(universe, done))
        problem = self.problem(universe, self.tree(universe).spine, ties)
        return self.on_published(universe, self.solved(universe, problem, source, solve))

    def on_published(self, universe: DhcUniverse, estimates: OuterEstimates) -> OuterEstimates:
        """Estimates over the measured tree of a universe, added up the published spine. The
        certificates are those of the levels that were estimated."""
        if (tree := self.tree(universe)).is_published:
            return estimates
        lowest, places = self.lowest
        counts = tree.published(estimates.counts[lowest], places)
        return OuterEstimates(counts.upward(self.spine), estimates.certificates, estimates.prior)

    def homes(self, universe: DhcUniverse, done: Mapping[str, OuterEstimates]) -> Histogram | None:
        """The lowest units' published housing units, if a universe is estimated from them."""
        return (
            None
            if universe.rests_on is None
            else done[universe.rests_on].counts[self.spine.levels[-1]]
        )

    def problem(
        self,
        universe: DhcUniverse,
        spine: Spine,
        ties: FixedCounts,
        above: tuple[str, Histogram] | None = None,
        from_subtrees: FromSubtrees | None = None,
    ) -> OuterProblem:
        """What is to be estimated of a universe: the whole over its measured ``spine``, the upper
        tree, or a subtree."""
        lowest = spine.levels[-1] == self.spine.levels[-1]
        return OuterProblem(
            spine,
            universe.schema,
            tuple(universe.strategy.outer),
            ties,
            self.spec.estimation.most,
            above,
            lowest and universe.prior == "shares",
            from_subtrees=from_subtrees,
        )

    def solved(
        self, universe: DhcUniverse, problem: OuterProblem, source: SparseSource, solve: Solver
    ) -> RefinedEstimates:
        """Raises :class:`ReleaseError` where what is held fixed contradicts itself, or the
        schema."""
        try:
            return solve(problem, source)
        except InfeasibleError as error:
            raise ReleaseError(
                f"what is held fixed of {universe.name} cannot be: {error.what}",
                where=self.folder,
                remedy=ALTERED,
            ) from None


def tenures(units: Histogram) -> Histogram:
    """Households of each tenure, by the published units."""
    group = np.array(TENVACGQ.query(strategy.UNITS_TENURE).groupings[0].index)[units.cell]
    here = group < len(TENURE.levels)
    return Histogram.from_triplets(
        units.units, len(TENURE.levels), units.unit[here], group[here], units.count[here]
    )


def fixed_units(homes: Histogram, facilities: Ints) -> Histogram:
    """Published vacant and occupied units (``h1``: vacant first), and the facilities of each block:
    the answers to the query that is held fixed of units."""
    counts = homes.dense()
    every = np.concatenate([counts[:, [1]], counts[:, [0]], facilities], axis=1)
    block, answer = np.nonzero(every)
    return Histogram.from_triplets(homes.units, every.shape[1], block, answer, every[block, answer])


def write_public(opened: OpenedDhc, areas: Sequence[Areas] = ()) -> None:
    """Write the public facts of a release that will be opened as this: everything that it depends
    on except its measurements. ``areas``: those that the earlier release knew."""
    release, spec, spine = opened.folder, opened.spec, opened.spine
    cut, private = opened.cut, spec.run.private
    atomic.write_text(release / SPEC, spec.dump())
    spine_file.write(release / SPINE, spine, cut, private=private)
    if areas:
        areas_file.write(release / areas_file.NAME, areas, spine, cut, private=private)
    for name, tree in opened.trees.items():
        tree_file.write(tree_path(release, name), tree, spine, cut, private=private)
    for name, counts in opened.fixed.items():
        fixed_file.write(release / fixed_file.name(name), counts, spine, private=private)


def tree_path(release: Path, universe: str) -> Path:
    """Where the measured tree of a universe is, if it is not the published one."""
    return run_directory.nmf_folder(release, universe) / tree_file.NAME


def open_dhc(release: Path, part: int | None = None) -> OpenedDhc:
    """Open a whole release, or a subtree. Raises :class:`ReleaseError` or :class:`SpecError` if the
    folder is not a complete release."""
    path = release / SPEC
    given = load(run_directory.read_text(path, "release specification"), where=str(path))
    spec = of_kind(DhcSpec, given, str(path))
    cut, private = spine_file.read_subtrees(release / SPINE), spec.run.private
    if part is None:
        spine = spine_file.read(release / SPINE)
    else:
        spine = spine_file.read_subtree(release / SPINE, part)
    spec.lower(spine.levels)
    trees = {u.name: _tree(release, spec, u, spine, part) for u in spec.universes}
    fixed = {
        u.name: fixed_file.read(
            release / fixed_file.name(u.name),
            spine,
            u.schema.query(u.fixed_query).answers,
            private=private,
            whole=part is None,
        )
        for u in spec.universes
        if u.rests_on is None
    }
    return OpenedDhc(release, spec, spine, trees, fixed, cut, part)


def _tree(
    release: Path, spec: DhcSpec, universe: DhcUniverse, spine: Spine, part: int | None
) -> MeasuredSpine:
    """What a universe is measured over. Raises :class:`ReleaseError` if the specification asks for
    another kind of tree."""
    path = tree_path(release, universe.name)
    if path.is_file() != (spec.geography.spine == "optimized"):
        there = "is there" if path.is_file() else "is not there"
        raise ReleaseError(
            f"the measured tree {there}, and spec.toml has geography.spine ="
            f' "{spec.geography.spine}"',
            where=path,
            remedy=ALTERED,
        )
    if part is None or not path.is_file():
        tree = tree_file.read(path, spine)
    else:
        tree = tree_file.read_subtree(path, part, spine)
    if tree.is_published:
        return tree
    if any((ends != depth).any() for depth, ends in enumerate(tree.ends)):
        raise ReleaseError(
            "a unit is not measured with the share of its own level", where=path, remedy=ALTERED
        )
    return tree.without_bypass()
