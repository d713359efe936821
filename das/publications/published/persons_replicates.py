"""Replicates of the DHC's persons that were estimated from measurements of another publisher.

The published counts are measured again with new noise, of the variances that the files state, and
estimated as they were. All replicates keep the redistricting counts, which the files hold fixed: no
interval covers their errors. Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.model.histogram import Histogram
from das.model.universe import PERSONS, Universe
from das.publications.dhc import release_files
from das.publications.dhc.spec import DhcUniverse
from das.publications.published.dhc import OpenedPublishedDhc
from das.publications.published.separate_trees import TreeAnswers
from das.release import interval_dictionary
from das.release.interval_writing import exact_columns
from das.release.replicate_source import IntervalOptions, PublicNoise, ReleaseSource
from das.tables import Table

_FIXED = (
    "All replicates keep the redistricting counts, which were published before: no interval here"
    " covers their errors, and a count that they determine has none."
)


@dataclass(frozen=True, eq=False)
class PersonsReplicates(ReleaseSource):
    """Replicates of the release that was ``opened``."""

    opened: OpenedPublishedDhc

    @staticmethod
    def of(opened: OpenedPublishedDhc) -> PersonsReplicates:
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

    def exact(self, u: Universe, table: Table, level: str) -> NDArray[np.bool_]:
        """None: what the files hold fixed are published redistricting counts, which have errors.
        They do not say which of these are exact, as the totals of states are."""
        return exact_columns(table, u.schema, [])

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

    def queries(self, u: Universe) -> Mapping[str, tuple[str, ...]]:
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
        return {interval_dictionary.NAME: interval_dictionary.text(self, tables, paged=False)}
