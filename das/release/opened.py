"""A release as its files say it: whole, or its upper tree or a subtree.

Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das import spec as specification
from das.accounting.document import NAME, Document
from das.errors import ReleaseError
from das.files.measurements import nmf_reader
from das.files.measurements.nmf_reader import NmfReader
from das.files.microdata import reading as microdata_reading
from das.files.release import areas as areas_file
from das.files.release import estimates as estimates_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.release.estimates import EstimateReader
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile
from das.geography.bounds import groups_of, unlimited
from das.geography.invariants import Invariants
from das.model.areas import Areas
from das.model.constraint import JointTotals, LevelBounds, Limits
from das.model.histogram import Histogram
from das.model.ledger import Event
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.measurement import MeasurementSource
from das.model.post_processing import PostProcessing
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.spec import RunSpec, Spec

#: By name the sign of a constraint and its bounds, ``(units, answers)``.
StatedBounds = Mapping[str, tuple[str, NDArray[np.int64]]]


@dataclass(frozen=True)
class OpenedRelease:
    """A release as its files say it: the resolved specification and the spine. Of one that is cut
    into an upper tree and ``subtrees`` (:mod:`das.model.measured_spine`), ``part`` says which of these it
    is: the upper tree (0) or a subtree; without it, the whole."""

    folder: Path
    spec: Spec
    spine: Spine
    trees: Mapping[str, MeasuredSpine]  #: by universe, what it was measured over
    subtrees: Subtrees | None = None
    part: int | None = None

    @property
    def cut(self) -> Subtrees:
        """How the whole release is cut, if this is a part of one."""
        if self.subtrees is None:
            raise ValueError("this is no part of a release")
        return self.subtrees

    @property
    def levels(self) -> tuple[str, ...]:
        """Those that the part is responsible for; all of the whole."""
        return self.spine.levels if self.part is None else self.cut.levels(self.spine, self.part)

    @property
    def after(self) -> PostProcessing:
        """What is done with the measurements: all that post-processing asks of the
        specification."""
        return self.spec.after

    @property
    def run(self) -> RunSpec:
        """The specification of the run that measured it, with its plan. Raises :class:`UserError`
        where another publisher measured, whose budget nobody states."""
        return self.spec.measured_by_us(self.folder)

    def changed(self, spec: Spec) -> OpenedRelease:
        """The release with another specification of what follows the measurement."""
        if self.part is not None:
            return replace(self, spec=spec)
        return replace(self, spec=spec.on({u.name: self.tree(u) for u in spec.after.universes}))

    def tree(self, universe: Universe) -> MeasuredSpine:
        """What the units of a universe were measured over."""
        return self.trees[universe.name]

    @property
    def own_spine(self) -> tuple[str, ...]:
        """The universes whose measured units are not all the published ones, or not all measured
        alike."""
        return tuple(name for name, tree in self.trees.items() if not tree.alike)

    def source(self, universe: Universe) -> NmfReader:
        """The measurements of a universe. One reader serves all that ask: it looks at each file of
        a level once, to know which units it has."""
        return self._sources[universe.name]

    @cached_property
    def _sources(self) -> dict[str, NmfReader]:
        private, out = self.after.private, {}
        for u in self.after.universes:
            root, tree = run_directory.nmf_folder(self.folder, u.name), self.trees[u.name]
            elsewhere = nmf_reader.read(root / nmf_reader.NAME, tree.spine, u.schema, private)
            out[u.name] = NmfReader(
                root, tree.spine, tree.measured, self.part, private=private, elsewhere=elsewhere
            )
        return out

    @cached_property
    def _stated(self) -> Document:
        """What the privacy statement says."""
        return privacy_statement.read(self.folder)

    def noisy(self, universe: Universe) -> MeasurementSource:
        """The measurements of published units: sums of those that were measured, where these are
        others."""
        tree, source = self.tree(universe), self.source(universe)
        if tree.alike:
            return source
        from das.estimate.summed import SummedSource  # the published tree does without

        return SummedSource(source, tree, self.spine, universe.schema)

    def estimates(self, universe: Universe) -> EstimateReader:
        """The unbiased estimates of a universe: of the units that were measured, whatever is
        published. They are of no level where the release has none."""
        folder = estimates_file.folder_of(self.folder, universe.name)
        return EstimateReader(folder, self.tree(universe).spine, self.part)

    def published(self, universe: Universe) -> Histogram:
        """The published counts of the lowest level, from the microdata."""
        folder = self.folder / "microdata" / universe.kind.folder
        return microdata_reading.read(folder, universe, self.spine.codes[-1])

    def areas(self) -> tuple[Areas, ...]:
        """The areas off the spine that the input knew; none in a release of another publisher, nor
        in an upper tree."""
        path = self.folder / areas_file.NAME
        if self.part is None:
            return areas_file.read(path, self.spine)
        return areas_file.read_subtree(path, self.part, self.spine) if self.part else ()

    def assigned(self, universe: str) -> dict[str, str]:
        """Attributes of a universe that were made up by a rule, each with a sentence; none where
        nothing is stated."""
        if not (self.folder / NAME).is_file():
            return {}
        return dict(self._stated.assigned_of(universe))

    def bounds(self, universe: Universe) -> dict[str, LevelBounds]:
        """Bounds of the measured units, from the constraint rows of the noisy measurement files."""
        return self.known(universe).bounds(universe.schema, self.tree(universe).spine)

    def known(self, universe: Universe) -> Invariants:
        """What is known exactly of the units that were measured, of the levels of the part: read
        once."""
        if universe.name not in self._known:
            spine, stated = self.tree(universe).spine, self._constraints(universe)
            self._known[universe.name] = known_of(universe.schema, spine, stated)
        return self._known[universe.name]

    @cached_property
    def _known(self) -> dict[str, Invariants]:
        return {}

    def published_bounds(self, universe: Universe) -> dict[str, LevelBounds]:
        """Bounds of published units, from the same rows. Units outside the tree have nobody, and
        the total of a place in two units is known."""
        tree = self.tree(universe)
        if tree.alike:
            return self.bounds(universe)
        return published_known(universe.schema, self.known(universe), tree, self.spine).bounds(
            universe.schema, self.spine
        )

    def _constraints(self, universe: Universe) -> dict[str, StatedBounds]:
        """By level and name; those of a lowest level that are summed above it, of this alone."""
        reader, lowest = self.source(universe), self.spec.geography.levels[-1]
        found: dict[str, StatedBounds] = {level: reader.constraints(level) for level in self.levels}
        sums = (
            set()
            if self.tree(universe).alike
            else {name for level, name in self._listed(universe) if level == lowest}
        )
        for level in (level for level in found if level != lowest):
            found[level] = {name: bound for name, bound in found[level].items() if name not in sums}
        self._check_constraints(universe, found)
        return found

    def exact(self, universe: Universe) -> dict[tuple[str, str], NDArray[np.int64]]:
        """The counts of queries that are published without noise, ``(units, answers)``, by level
        and query."""
        outside = self._stated.outside
        listed = [
            (c.level, c.constraint)
            for c in outside
            if (c.universe, c.sign, c.constraint) == (universe.name, "=", c.query)
        ]
        source = self.source(universe)
        found = {
            level: source.constraints(level)
            for level in dict.fromkeys(level for level, _ in listed)
        }
        return {(level, query): found[level][query][1] for level, query in listed}

    def events(self, universe: Universe) -> tuple[Event, ...]:
        """The draws of a universe in the ledger; none where another publisher measured."""
        entries = LedgerFile(self.folder / "ledger.jsonl").entries
        return tuple(e for a in entries.attempts if a.universe == universe.name for e in a.events)

    def queries_by_level(self, universe: Universe) -> dict[str, tuple[str, ...]]:
        """By level the queries that units were asked anywhere, as the ledger has them."""
        every = dict.fromkeys((e.level, e.query) for e in self.events(universe))
        return {
            level: tuple(query for lv, query in every if lv == level)
            for level in dict.fromkeys(lv for lv, _ in every)
        }

    def _listed(self, universe: Universe) -> set[tuple[str, str]]:
        """Level and name of the constraints that the privacy statement lists."""
        outside = self._stated.outside
        return {(c.level, c.constraint) for c in outside if c.universe == universe.name}

    def _check_constraints(
        self, universe: Universe, filed: Mapping[str, Mapping[str, object]]
    ) -> None:
        """The constraints that the privacy statement lists are those of the files."""
        listed = {(level, name) for level, name in self._listed(universe) if level in filed}
        there = {(level, name) for level, names in filed.items() for name in names}
        for level, name in sorted(listed ^ there):
            where = run_directory.nmf_folder(self.folder, universe.name)
            state = (
                "is in privacy.json, but not in the files"
                if (level, name) in listed
                else "is not in privacy.json"
            )
            raise ReleaseError(
                f"constraint {name!r} of level {level!r} {state}",
                where=where,
                remedy=(
                    "the release is incomplete or altered: get it again from where it was published"
                ),
            )


def known_of(schema: Schema, spine: Spine, stated: Mapping[str, StatedBounds]) -> Invariants:
    """What the constraints of some levels of a tree say."""
    ends, limits, joint = (f"{schema.dwelling}_total_lb", f"{schema.dwelling}_total_ub"), None, None
    counts = []
    for level, names in stated.items():
        if ends[0] in names:
            limits = Limits.from_bounds(names[ends[0]][1], names[ends[1]][1])
        if "joint_total" in names:
            codes = spine.codes[spine.index(level)]
            joint = level, JointTotals.of_places(codes, names["joint_total"][1][:, 0])
        counts += [
            (level, schema.query(name), bound)
            for name, (_, bound) in names.items()
            if name not in (*ends, "joint_total")
        ]
    return Invariants(limits, tuple(counts), joint)


def published_known(
    schema: Schema, known: Invariants, tree: MeasuredSpine, published: Spine
) -> Invariants:
    """What is known of published units from what is of those that were measured: where there is
    none of these is nobody."""
    places, limits = len(published.codes[-1]), known.limits
    if limits is None and all(query.name == "total" for _, query, _ in known.counts):
        limits = unlimited(len(tree.place), groups_of(schema)[1])
    counts = []
    for level, query, values in known.counts:
        there = np.zeros((published.units(level), values.shape[1]), dtype=np.int64)
        np.add.at(there, tree.home_units(level, published), values)
        counts.append((level, query, there))
    if known.joint is not None:
        level, joint = known.joint
        total = np.zeros((published.units(level), 1), dtype=np.int64)
        total[tree.home_units(level, published), 0] = joint.total[joint.part]
        counts.append((level, schema.query("total"), total))
    return Invariants(limits and limits.add_up(tree.place, places), tuple(counts))


def open_release(folder: Path) -> OpenedRelease:
    """Open a release. Raises :class:`ReleaseError` or :class:`SpecError` if the folder is not a
    complete release."""
    spec = _spec(folder)
    spine = spine_file.read(folder / "spine.parquet")
    trees = {
        u.name: tree_file.read(run_directory.nmf_folder(folder, u.name) / tree_file.NAME, spine)
        for u in spec.after.universes
    }
    if spine.levels != spec.geography.levels:
        raise ReleaseError(
            f"its levels are {', '.join(spine.levels)}, those of spec.toml "
            f"{', '.join(spec.geography.levels)}",
            where=folder / "spine.parquet",
            remedy="the release is altered: get it again from where it was published",
        )
    return OpenedRelease(folder, spec, spine, trees).changed(spec)


def open_part(folder: Path, part: int) -> OpenedRelease:
    """The upper tree (0) of a release that is cut, or a subtree of it: nothing else of it is read.
    Raises as :func:`open_release`."""
    spec, path = _spec(folder), folder / "spine.parquet"
    subtrees = spine_file.read_subtrees(path)
    spine = spine_file.read_subtree(path, part) if part else spine_file.read_upper_tree(path)
    trees: dict[str, MeasuredSpine] = {}
    for u in spec.after.universes:
        tree = run_directory.nmf_folder(folder, u.name) / tree_file.NAME
        trees[u.name] = (
            tree_file.read_subtree(tree, part, spine)
            if part
            else tree_file.read_upper_tree(tree, spine, spec.geography.levels)
        )
    return OpenedRelease(folder, spec, spine, trees, subtrees, part)


def open_upper_tree(folder: Path) -> OpenedRelease:
    """The upper tree of a release; all of it where it has no subtrees. Raises as
    :func:`open_release`."""
    subtrees = spine_file.read_subtrees(folder / "spine.parquet")
    return (
        open_part(folder, 0) if len(subtrees) else replace(open_release(folder), subtrees=subtrees)
    )


def _spec(folder: Path) -> Spec:
    text = run_directory.read_text(
        folder / "spec.toml", "release specification", "name the folder of a run, or of a release"
    )
    return _parsed(text, str(folder / "spec.toml"))


@lru_cache(maxsize=4)
def _parsed(text: str, where: str) -> Spec:
    """A specification does not change, and every part of a release is opened with it."""
    return specification.of_release(text, where=where)
