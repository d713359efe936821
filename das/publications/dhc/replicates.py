"""Replicates of a release of the DHC: it is estimated again from answers about what it published.

Only those answers to a plan exist that an estimate needs, as when the release itself was measured.
Households are estimated from the units of the same replicate.

*The redistricting counts* were published before, with noise of their own. A replicate can hold them
as they were published. Then no replicate has their errors, and intervals of counts that they
determine would be points. Or the redistricting release is there, too. Then its replicate with the
same seed and number gives the counts that the replicate of the DHC keeps. It follows that release's
own plan and constraints. Its published counts are those of the DHC, so they are the truth of both
replicates. The noise of the two is independent, as it was in the releases. Facilities and housing
units are exact in both. So the errors of a replicate are those of the two releases together.

If a replicate's counts contradict each other, that is an error. Another draw in its place would
leave out just the replicates that are far from the release. Like ``das.release.post_processing``, nothing here
can see the truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import NAME
from das.errors import ReleaseError
from das.estimate.outer import OuterEstimates
from das.files.release import statement
from das.files.run import run_directory
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.universe import HOUSING, Universe
from das.model.universe import PERSONS as PEOPLE
from das.publications.dhc import release_files
from das.publications.dhc.release import OpenedDhc, fixed_units
from das.publications.dhc.spec import PERSONS, UNITS, DhcUniverse
from das.release import interval_writing
from das.release.interval_writing import exact_columns
from das.release.opened import open_release
from das.release.own_replicates import OwnReplicates
from das.release.page import exact_queries
from das.release.replicate_source import (
    BY_TABLE,
    EARLIER,
    IntervalOptions,
    PublicNoise,
    ReleaseSource,
)
from das.release.verify.sealed import check_digests
from das.tables import Table

#: What must accompany intervals of either kind.
_FIXED = (
    (
        "All replicates share the redistricting counts that were published before: persons,"
        " and occupied and vacant units. No interval here covers the errors of these counts."
        " A count that they determine has no interval ('not covered'). A count that they"
        " determine in part is in its interval less often than the coverage says. That"
        " concerns counts of households above the block most of all."
    ),
)
_CHAINED = (
    "Each replicate rests on a replicate of the redistricting release with the same seed and"
    " number: the intervals cover the errors of the redistricting counts, too.",
)


@dataclass(frozen=True, eq=False)
class DhcReplicates(ReleaseSource):
    """Replicates of the release that was ``opened``."""

    opened: OpenedDhc
    #: The redistricting release whose replicates these are on, if it is there.
    earlier: OwnReplicates | None = None
    #: Whether that is known: otherwise the manifest of the intervals of the release says it.
    decided: bool = False

    @property
    def beside(self) -> tuple[str, ...]:
        return _FIXED if self.keeps_earlier_counts else _CHAINED

    @property
    def rule(self) -> str:
        """Some tables are told by sums of hundreds of answers alone."""
        return BY_TABLE

    @property
    def keeps_earlier_counts(self) -> bool:
        if self.decided:
            return self.earlier is None
        return EARLIER not in self._manifest()

    def on(self, earlier: Path | None) -> DhcReplicates:
        if earlier is None:
            return replace(self, earlier=None, decided=True)
        opened = open_release(earlier)
        if run_directory.file_digest(earlier / NAME) != self.opened.spec.constraints.digest:
            raise ReleaseError(
                f"is not the release {self.opened.spec.constraints.from_!r} that this one rests on:"
                " its privacy.json has another SHA-256",
                where=earlier,
                remedy="name the release whose counts this one keeps",
            )
        check_digests(earlier, statement.read(earlier))
        return replace(self, earlier=OwnReplicates.from_release(opened), decided=True)

    @staticmethod
    def from_release(opened: OpenedDhc) -> DhcReplicates:
        universes = [Universe(u.kind, u.schema) for u in opened.spec.universes]
        every = tuple((u, t) for u in universes for t in release_files.tables_of(u.name))
        private = opened.spec.run.private
        return DhcReplicates(opened.spine, every, private, opened.folder, opened)

    @property
    def name(self) -> str:
        return self.opened.spec.run.name

    def areas(self) -> tuple[Areas, ...]:
        return self.opened.areas()

    def levels(self, table: Table) -> tuple[str, ...]:
        return release_files.levels_of(table, self.spine)

    def exact(self, universe: Universe, table: Table, level: str) -> NDArray[np.bool_]:
        names = self._exact[universe.name].get(level, ())
        key = (universe.name, table.name, names)
        if key not in self._exact_columns:
            queries = [universe.schema.query(name) for name in names]
            self._exact_columns[key] = exact_columns(table, universe.schema, queries)
        return self._exact_columns[key]

    @cached_property
    def _exact_columns(self) -> dict[tuple[str, str, tuple[str, ...]], NDArray[np.bool_]]:
        """What was found, by universe, table and exact queries: most levels have the same."""
        return {}

    @cached_property
    def _exact(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """By universe and level the queries that the privacy statement has as exact."""
        said = statement.read(self.folder)
        return {u.name: exact_queries(said, u.name, self.spine.levels) for u in self.universes}

    def planned(self) -> Sequence[DhcUniverse]:
        return self.opened.spec.universes

    def queries(self, universe: Universe) -> Mapping[str, tuple[str, ...]]:
        plan = self.opened.spec.universe(universe.name).plan
        return {
            level: tuple(dict.fromkeys(d.query for d in plan.at(level)))
            for level in self.spine.levels
        }

    def published(self) -> Mapping[str, Histogram]:
        return self._published

    @cached_property
    def _published(self) -> Mapping[str, Histogram]:
        """Units and households are in one file, and read together."""
        return release_files.read_counts(self.folder, self.spine)

    def again(
        self, counts: Mapping[str, Histogram], noise: PublicNoise, pool: Executor | None = None
    ) -> dict[str, Histogram]:
        opened = self._rested(noise)
        done: dict[str, OuterEstimates] = {}
        for u in self.planned():
            tree = opened.tree(u)
            measured = tree.of_published(counts[u.name]).upward(tree.spine)
            source = noise.on_request(u, tree.spine, measured)
            done[u.name] = opened.estimate(u, source, done, pool)
        return {name: estimated.counts[self.spine.levels[-1]] for name, estimated in done.items()}

    def _rested(self, noise: PublicNoise) -> OpenedDhc:
        """What is held fixed in the replicate of this ``noise``."""
        if self.earlier is None:
            return self.opened
        made = self.earlier.again(self._earlier_counts, noise)
        homes = fixed_units(made[HOUSING.name], self.opened.facilities)
        return replace(self.opened, fixed={PERSONS: made[PEOPLE.name], UNITS: homes})

    @cached_property
    def _earlier_counts(self) -> Mapping[str, Histogram]:
        assert self.earlier is not None
        return self.earlier.published()

    def described(
        self, out: Path, asked: IntervalOptions, tables: Collection[str]
    ) -> Mapping[str, str]:
        del out, asked
        return {interval_writing.NAME: interval_writing.text(self, tables, paged=False)}
