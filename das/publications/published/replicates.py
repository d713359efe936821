"""Intervals from replicates that somebody else made and published: as the Census Bureau, for the
2010 and 2020 censuses.

    microdata of the release and of each replicate -> counts of persons by block, as replicates of
    ours -> intervals

Nothing is drawn or estimated here: the errors of the replicates about the release are those of the
algorithm that its publisher ran. A block where no replicate has anybody is unknown, and 0 in all.
The files contain only persons, so there are no intervals of housing units.

A release need not be there, and what is counted is public: like ``das.release.post_processing``, nothing here
can see the truth."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.engine import Progress
from das.errors import InputError, ReleaseError, UserError
from das.files.readers import ppmf_persons
from das.files.readers.source import Member, sources
from das.files.release import replicates
from das.files.release import spine as spine_file
from das.files.run import run_directory
from das.model.histogram import Histogram
from das.model.names import Codes, blank, encoded, geoids, state_names
from das.model.not_private import COLUMN, UNKNOWN, Private
from das.model.redistricting import PL94
from das.model.spine import Spine, nested
from das.model.universe import PERSONS, Universe
from das.publications.dhc import release_files
from das.publications.dhc.spec import DhcUniverse
from das.publications.published.dhc import OpenedPublishedDhc
from das.publications.published.separate_trees import TreeAnswers
from das.release import interval_writing
from das.release.interval_writing import exact_columns
from das.release.replicate_source import (
    IntervalOptions,
    PublicNoise,
    ReleaseSource,
    ReplicateSource,
    chosen_of,
)
from das.tables import Table
from das.version import __version__

#: Levels that the files have units of, root first. The root is everything in them.
LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
PUBLISHED = Universe(PERSONS, PL94)
_TABLES = tuple((PUBLISHED, table) for table in tables.universe_tables(PUBLISHED))
#: Names the files that intervals are from.
_OF = "publication"


@dataclass(frozen=True, eq=False)
class PublishedReplicates(ReplicateSource):
    """Replicates of persons, over the blocks where somebody lives."""

    @property
    def beside(self) -> tuple[str, ...]:
        return ("Of persons alone: the files of housing units are not read.",)

    @staticmethod
    def read(out: Path) -> PublishedReplicates | None:
        """What the intervals in a folder are of; nothing where it has none that :func:`make` wrote.
        Raises :class:`ReleaseError` where they are not whole, or altered."""
        manifest = out / replicates.MANIFEST
        if not manifest.is_file() or _OF not in (said := run_directory.read_json(manifest)):
            return None
        replicates.check(out)
        private: Private = False if said.get("private") is False else UNKNOWN
        return PublishedReplicates(spine_file.read(out / replicates.SPINE), _TABLES, private, out)


@dataclass(frozen=True, eq=False)
class PublishedFiles:
    """The persons' files of each number (:class:`das.release.interval_writing.ReplicateMaker`)."""

    found: Sequence[Sequence[Member]]
    identity: Mapping[str, Any]
    private: Private
    own: Path | None = None
    universes: tuple[Universe, ...] = (PUBLISHED,)

    def counts(self, number: int) -> tuple[Codes, dict[str, Histogram]]:
        persons = ppmf_persons.count(self.found[number])
        codes = geoids(LEVELS[-1], ppmf_persons.fields(persons.place)[LEVELS[-1]])
        h = Histogram.from_triplets(
            len(codes), PL94.cells, persons.block, persons.cell, persons.number
        )
        return codes, {PUBLISHED.name: h}

    def source(self, out: Path, files: int) -> PublishedReplicates:
        paths = [replicates.path_of(out, PERSONS.folder, n) for n in range(files)]
        self._check_totals(paths, out)
        spine = _spine(paths)
        spine_file.write(out / replicates.SPINE, spine, private=self.private)
        return PublishedReplicates(spine, _TABLES, self.private, out)

    def _check_totals(self, paths: Sequence[Path], out: Path) -> None:
        """Every replicate has the persons of each State that the release has: they are invariant.
        Raises :class:`InputError`."""
        release, *others = map(replicates.populations, paths)
        for number, persons in enumerate(others, 1):
            if odd := sorted(
                state for state in {*release, *persons} if release.get(state) != persons.get(state)
            ):
                raise InputError(
                    f"has {persons.get(odd[0], 0):,} persons in State {odd[0]}, and the release,"
                    f" number 0, has {release.get(odd[0], 0):,}",
                    where=", ".join(m.name for m in self.found[number]),
                    remedy=(
                        "State totals are the same in all: give replicates of this release, and"
                        f" whole files; then take {out} away"
                    ),
                )


def make(
    members: Sequence[Sequence[Member]],
    out: Path,
    asked: IntervalOptions,
    *,
    workers: int,
    resume: bool,
    progress: Progress,
) -> dict[str, int]:
    """Write ``out``, from the persons' files of the release and of each replicate, as
    :func:`das.files.readers.ppmf_persons.replicate_files` has them; returns the rows of each
    file.

    Raises:
        InputError: a line that is none of such a file.
        UserError: ``out`` has something else in it, or intervals of other files; no such table or
            level."""
    chosen_of(_TABLES, LEVELS, asked.tables, asked.levels)  # before anything is read
    seeded = any(COLUMN in ppmf_persons.header(m).names for files in members for m in files)
    maker = PublishedFiles(members, _said(members, progress), False if seeded else UNKNOWN)
    return interval_writing.make(
        maker, out, asked, workers=workers, resume=resume, progress=progress
    )


def _said(members: Sequence[Sequence[Member]], progress: Progress) -> dict[str, Any]:
    """What intervals are of: the files of each number, with their digests."""
    listed = {}
    progress.stage("digests", len(members))
    for number, files in enumerate(members):
        listed[str(number)] = [asdict(source) for source in sources(files)]
        progress.advance()
    digests = [sorted(str(source["sha256"]) for source in files) for files in listed.values()]
    for number, one in enumerate(digests):
        if one in digests[:number]:
            raise InputError(
                f"numbers {digests.index(one)} and {number} are the same files",
                where=members[number][0].name,
                remedy="give each replicate once",
            )
    digest = sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()
    return {_OF: digest, "records": PERSONS.name, "version": __version__, "sources": listed}


def _spine(paths: Sequence[Path]) -> Spine:
    """The tree of all blocks in which somebody is in one of the files."""
    place = np.zeros(0, dtype=np.int64)
    for path in paths:
        try:
            place = np.union1d(place, replicates.units(path).astype(np.int64))
        except ValueError:
            raise ReleaseError(
                "has GEOIDs that are no numbers", where=path, remedy="take the folder away"
            ) from None
    fields = ppmf_persons.fields(place)
    codes = [np.full(len(place), encoded(LEVELS[0])), *(fields[level] for level in LEVELS[1:])]
    units, parents, _ = nested(LEVELS, codes)
    called = state_names()
    names = [
        called[level].at(of) if level in called else blank(len(of))
        for level, of in zip(LEVELS, units, strict=True)
    ]
    return Spine(LEVELS, units, parents, tuple(names))


# Replicates of the DHC's persons that were estimated from measurements of another publisher.
#
# The published counts are measured again with new noise, of the variances that the files state, and
# estimated as they were. All replicates keep the redistricting counts, which the files hold fixed: no
# interval covers their errors. Like ``das.release.post_processing``, nothing here can see the truth.

_FIXED = (
    "All replicates keep the redistricting counts, which were published before: no interval here"
    " covers their errors, and a count that they determine has none."
)


@dataclass(frozen=True, eq=False)
class PersonsReplicates(ReleaseSource):
    """Replicates of the release that was ``opened``."""

    opened: OpenedPublishedDhc

    @staticmethod
    def from_release(opened: OpenedPublishedDhc) -> PersonsReplicates:
        u = Universe(PERSONS, opened.universe.schema)
        every = tuple((u, t) for t in release_files.tables_of(u.name))
        return PersonsReplicates(opened.spine, every, opened.spec.private, opened.folder, opened)

    @property
    def name(self) -> str:
        return self.opened.spec.run.name

    @property
    def beside(self) -> tuple[str, ...]:
        return (_FIXED,)

    @property
    def keeps_earlier_counts(self) -> bool:
        return True

    def levels(self, table: Table) -> tuple[str, ...]:
        return release_files.levels_of(table, self.spine)

    def exact(self, universe: Universe, table: Table, level: str) -> NDArray[np.bool_]:
        """None: what the files hold fixed are published redistricting counts, which have errors.
        They do not say which of these are exact, as the totals of states are."""
        return exact_columns(table, universe.schema, [])

    def planned(self) -> Sequence[DhcUniverse]:
        """The strategy that the variances of the files imply. Raises :class:`UserError` where the
        measured counts are not known from the published ones."""
        if len(self.opened.place) > len(self.opened.spine.codes[-1]):
            raise UserError(
                "some units are the sums of two that were measured, and which part of a count each"
                " has is not published",
                where=self.folder,
                remedy="there are no intervals of states with American Indian areas yet",
            )
        return self.opened.spec.universes

    def queries(self, universe: Universe) -> Mapping[str, tuple[str, ...]]:
        plan = self.opened.universe.plan
        return {
            level: tuple(dict.fromkeys(d.query for d in plan.at(level)))
            for level in self.spine.levels
        }

    def published(self) -> Mapping[str, Histogram]:
        return self._published

    @cached_property
    def _published(self) -> Mapping[str, Histogram]:
        return {PERSONS.name: release_files.read_persons(self.folder, self.spine)}

    def again(
        self, counts: Mapping[str, Histogram], noise: PublicNoise, pool: Executor | None = None
    ) -> dict[str, Histogram]:
        (u,), opened = self.planned(), self.opened
        lowest = counts[u.name].some(opened.place)
        source = noise.on_request(u, opened.tree, lowest.upward(opened.tree))
        done, _ = opened.estimate(lambda n: TreeAnswers(source, opened.trees[n]), pool)
        return {u.name: done.counts[self.spine.levels[-1]]}

    def described(
        self, out: Path, asked: IntervalOptions, tables: Collection[str]
    ) -> Mapping[str, str]:
        del out, asked
        return {interval_writing.NAME: interval_writing.text(self, tables, paged=False)}
