"""A release of the DHC's persons whose measurements another publisher made, from its folder alone.

It holds the answers that were looked at, as every release of the DHC does
(:mod:`das.publications.dhc.files.on_demand`); the redistricting counts of the lowest measured units
(:mod:`das.publications.dhc.files.fixed_counts`); and the bounds of facilities, as constraint rows. ``nmf/spine.parquet``
is the tree that was measured, with the codes of the files. What is published stands on
``spine.parquet``, with tabulation codes where the files tell them: a county in two branches is the
sum of its parts. Trees without a measured unit above them are estimated one by one
(:mod:`das.publications.published.separate_trees`), and have parts of their own in the files of measurements.

Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.engine import Progress
from das.errors import InfeasibleError, ReleaseError
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.measurements import nmf
from das.files.measurements.nmf_reader import NmfReader
from das.files.release import spine as spine_file
from das.files.release import statement
from das.files.run import run_directory
from das.model.constraint import NO_LIMIT, Constraint
from das.model.histogram import Histogram
from das.model.measurement import RecordingSource, SparseSource
from das.model.spine import Spine
from das.model.universe import PERSONS
from das.publications.dhc.files import fixed_counts as fixed_file
from das.publications.dhc.files import on_demand
from das.publications.dhc.files.on_demand import OnDemandReader
from das.publications.dhc.model.strategy import PERSONS_FIXED
from das.publications.dhc.spec import DhcUniverse
from das.publications.published.files.codes import ROOT, coded
from das.publications.published.files.dhc import BOUNDED, EXACT, LEAST, MOST_OF, PublishedDhc
from das.publications.published.files.layout import foreign_statement
from das.publications.published.files.outside import Outside
from das.publications.published.separate_trees import (
    ExactCounts,
    SeparateTree,
    TreeAnswers,
    estimated,
    filled,
    joined,
    separate_trees,
)
from das.publications.published.spec import PublishedDhcSpec
from das.spec import of_kind
from das.spec.parse import load
from das.spec.published import UNMEASURED

Ints = NDArray[np.int64]
SPEC, SPINE = "spec.toml", "spine.parquet"


@dataclass(frozen=True, eq=False)
class OpenedPublishedDhc:
    """``spine`` is the published tree, ``tree`` the one that was measured; ``place`` says which
    lowest unit of the one each of the other is. ``counts``, ``lower`` and ``upper`` ``(units, 25)``
    are of the lowest measured units."""

    folder: Path
    spec: PublishedDhcSpec
    spine: Spine
    tree: Spine
    place: Ints
    counts: Histogram
    lower: Ints
    upper: Ints

    @property
    def universe(self) -> DhcUniverse:
        return self.spec.persons

    @property
    def nmf(self) -> Path:
        """The folder of the measurements."""
        return run_directory.nmf_folder(self.folder, PERSONS.name)

    def measured(self, universe: DhcUniverse) -> Spine:
        """The spine that was measured."""
        del universe
        return self.tree

    def geocodes(self, universe: DhcUniverse) -> str:
        """Where its codes are listed."""
        return f"geocodes are those of the files, in {self.nmf / SPINE}"

    @cached_property
    def trees(self) -> tuple[SeparateTree, ...]:
        """Those that are estimated one by one."""
        return tuple(separate_trees(self.tree, int(self.tree.levels[0] == ROOT)))

    @cached_property
    def exact(self) -> ExactCounts:
        """What is exact of the lowest measured units."""
        home = len(self.universe.schema.attribute("relgq").levels) + 1 - self.upper.shape[1]
        able = np.concatenate(
            [np.ones((len(self.upper), home), dtype=bool), self.upper[:, 1:] > 0], 1
        )
        return ExactCounts(PERSONS_FIXED, self.counts, able)

    def source(self, universe: DhcUniverse) -> OnDemandReader:
        """The answers that were looked at, of all trees together."""
        del universe
        return OnDemandReader(self.nmf, self.tree, private=self.spec.private, partly=True)

    def of_tree(self, number: int) -> OnDemandReader:
        """The answers of one tree."""
        spine, part = self.trees[number].spine, self.part(number)
        return OnDemandReader(self.nmf, spine, part, private=self.spec.private, partly=True)

    def part(self, number: int) -> int:
        """The part of the files that a tree's answers are in: 0 of a single one."""
        return number + 1 if len(self.trees) > 1 else 0

    def estimate(
        self,
        source: Callable[[int], SparseSource],
        pool: Executor | None = None,
        progress: Progress | None = None,
    ) -> tuple[OuterEstimates, tuple[str, ...]]:
        """Persons of all levels of the published tree, from the ``source`` of each tree, by its
        number; and notes. Raises :class:`ReleaseError` where exact counts contradict the schema."""
        u, parts = self.universe, []
        for number, tree in enumerate(self.trees):
            try:
                made = estimated(
                    source(number), tree, u.schema, u.strategy.outer, self.exact, pool, progress
                )
            except InfeasibleError as error:
                raise ReleaseError(
                    f"the exact counts cannot be: {error.what}", where=self.folder, remedy=ALTERED
                ) from None
            parts.append(made)
        done = joined(parts)
        found = filled(done.counts[self.tree.levels[-1]], self.lower[:, 1:])
        return replace(done, counts=self.on_published(found.counts)), _notes(
            found.moved, found.empty
        )

    def on_published(self, lowest: Histogram) -> dict[str, Histogram]:
        """Counts of the published tree, by level, from those of the lowest measured units."""
        return lowest.up(self.place, len(self.spine.codes[-1])).upward(self.spine)


def _notes(moved: int, empty: int) -> tuple[str, ...]:
    said = []
    if moved:
        said.append(
            f"{moved:,} persons are moved to another type of group quarters of the same class, so"
            " that each facility holds somebody"
        )
    if empty:
        said.append(f"{empty:,} facilities hold nobody: their class has too few persons")
    return tuple(said)


class RecordedAnswers:
    """Sources for :meth:`OpenedPublishedDhc.estimate`, whose answers are kept in the files of the
    release: those of a tree when the next one begins, and at the end (:meth:`keep`)."""

    def __init__(self, opened: OpenedPublishedDhc, answers: SparseSource) -> None:
        self._opened, self._answers = opened, answers
        self._held: tuple[int, RecordingSource] | None = None

    def source(self, number: int) -> SparseSource:
        """Of a tree, by its number."""
        self.keep()
        answers = RecordingSource(TreeAnswers(self._answers, self._opened.trees[number]))
        self._held = number, answers
        return answers

    def keep(self) -> None:
        """Write the answers of the last tree."""
        if self._held is None:
            return
        (number, source), opened = self._held, self._opened
        spine, schema = opened.trees[number].spine, opened.universe.schema
        for level in spine.levels:
            on_demand.write(
                opened.nmf,
                level,
                schema,
                spine,
                source.recorded(level),
                opened.part(number),
                private=opened.spec.private,
            )
        self._held = None


def write_public(release: Path, name: str, told: PublishedDhc, outside: Outside) -> None:
    """Write what a release depends on besides its measurements, into an empty folder."""
    spec = _spec(name, told)
    published = replace(told.published, names=outside.called(told.published))
    atomic.write_text(release / SPEC, spec.dump())
    spine_file.write(release / SPINE, published, private=told.private)
    root = run_directory.nmf_folder(release, PERSONS.name)
    spine_file.write(root / SPINE, told.spine, private=told.private)
    fixed_file.write(
        release / fixed_file.name(PERSONS.name), told.counts, told.spine, private=told.private
    )
    lowest, upper = told.spine.levels[-1], np.where(told.upper < 0, NO_LIMIT, told.upper)
    bounds = [
        Constraint(LEAST, lowest, BOUNDED, ">=", told.lower),
        Constraint(MOST_OF, lowest, BOUNDED, "<=", upper),
    ]
    schema = spec.persons.schema
    nmf.write_constraints(root, schema, told.spine, bounds, private=told.private)
    counts = np.zeros((0, schema.query(PERSONS_FIXED).answers), dtype=np.int64)
    exact = Constraint(EXACT, lowest, PERSONS_FIXED, "=", counts)
    said = foreign_statement(
        PERSONS.name, told.spine, told.measured, [exact, *bounds], told.notes, told.private
    )
    statement.write(release, said)


def _spec(name: str, told: PublishedDhc) -> PublishedDhcSpec:
    variance = {
        m.level: {
            q.name: m.usual(q.name) if q.name in m.variances else UNMEASURED for q in m.queries
        }
        for m in told.measured
    }
    tree = {
        "run": {"name": name, "publication": PublishedDhcSpec.publication()},
        "geography": {"levels": list(told.spine.levels)},
        "published": {"private": told.private, "variance": variance},
    }
    return PublishedDhcSpec.model_validate(tree).checked()


def open_published_dhc(release: Path) -> OpenedPublishedDhc:
    """Open a release. Raises :class:`ReleaseError` or :class:`SpecError` if the folder is not a
    complete one."""
    path = release / SPEC
    text = run_directory.read_text(path, "release specification")
    spec = of_kind(PublishedDhcSpec, load(text, where=str(path)), str(path))
    root = run_directory.nmf_folder(release, PERSONS.name)
    spine, tree = spine_file.read(release / SPINE), spine_file.read(root / SPINE)
    found = coded(tree)
    place = np.arange(len(tree.codes[-1])) if found is None else found[1]
    own = tree if found is None else found[0]
    if tree.levels != spec.geography.levels or (said := own.unlike(spine)):
        raise ReleaseError(
            f"the measured tree is not that of spine.parquet ({said})",
            where=root / SPINE,
            remedy=ALTERED,
        )
    u, lowest = spec.persons, tree.levels[-1]
    counts = fixed_file.read(
        release / fixed_file.name(u.name),
        tree,
        u.schema.query(u.fixed_query).answers,
        private=spec.private,
    )
    bounds = NmfReader(root, tree).constraints(lowest)
    if set(bounds) != {LEAST, MOST_OF}:
        raise ReleaseError(
            "there are no bounds by type of group quarters", where=root, remedy=ALTERED
        )
    lower, upper = (bounds[name][1] for name in (LEAST, MOST_OF))
    return OpenedPublishedDhc(release, spec, spine, tree, place, counts, lower, upper)
