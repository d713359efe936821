"""Replicates of a release of the DHC: it is estimated again from answers about what it published.

Only those answers to a plan exist that an estimate needs, as when the release itself was measured.
In every replicate the invariants are those of the release. So no replicate has the errors of the
redistricting counts, which were published before. Households are estimated from the units of the
same replicate. Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.estimate.outer import RefinedEstimates
from das.files.release import statement
from das.model.histogram import Histogram
from das.model.universe import Universe
from das.release import dhc_files, interval_dictionary
from das.release.dhc import OpenedDhc
from das.release.page import exact_queries
from das.release.replicate_source import IntervalOptions, PublicNoise, ReleaseSource
from das.release.replicated_counts import exact_columns
from das.spec.dhc import DhcUniverse
from das.tables import Table


@dataclass(frozen=True, eq=False)
class DhcReplicates(ReleaseSource):
    """Replicates of the release that was ``opened``."""

    beside = (
        (
            "All replicates share the redistricting counts that were published before: persons,"
            " and occupied and vacant units. No interval here covers the errors of these counts."
            " A count that they determine has no interval ('not covered'). A count that they"
            " determine in part is in its interval less often than the coverage says. That"
            " concerns counts of households above the block most of all."
        ),
    )
    keeps_earlier_counts = True

    opened: OpenedDhc

    @staticmethod
    def of(opened: OpenedDhc) -> DhcReplicates:
        universes = [Universe(u.kind, u.schema) for u in opened.spec.universes]
        every = tuple((u, t) for u in universes for t in dhc_files.tables_of(u.name))
        private = opened.spec.run.private
        return DhcReplicates(opened.spine, every, private, opened.folder, opened)

    @property
    def name(self) -> str:
        return self.opened.spec.run.name

    def levels(self, table: Table) -> tuple[str, ...]:
        return dhc_files.levels_of(table, self.spine)

    def exact(self, u: Universe, table: Table, level: str) -> NDArray[np.bool_]:
        names = self._exact[u.name].get(level, ())
        key = (u.name, table.name, names)
        if key not in self._exact_columns:
            queries = [u.schema.query(name) for name in names]
            self._exact_columns[key] = exact_columns(table, u.schema, queries)
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

    def queries(self, u: Universe) -> Mapping[str, tuple[str, ...]]:
        plan = self.opened.spec.universe(u.name).plan
        return {
            level: tuple(dict.fromkeys(d.query for d in plan.at(level)))
            for level in self.spine.levels
        }

    def published(self) -> Mapping[str, Histogram]:
        return self._published

    @cached_property
    def _published(self) -> Mapping[str, Histogram]:
        """Units and households are in one file, and read together."""
        return dhc_files.read_counts(self.folder, self.spine)

    def again(
        self, counts: Mapping[str, Histogram], noise: PublicNoise, pool: Executor | None = None
    ) -> dict[str, Histogram]:
        done: dict[str, RefinedEstimates] = {}
        for u in self.planned():
            source = noise.on_request(u, self.spine, counts[u.name].upward(self.spine))
            done[u.name] = self.opened.estimate(u, source, done, pool)
        return {name: estimated.counts[self.spine.levels[-1]] for name, estimated in done.items()}

    def described(
        self, out: Path, asked: IntervalOptions, tables: Collection[str]
    ) -> Mapping[str, str]:
        del out, asked
        return {interval_dictionary.NAME: interval_dictionary.text(self, tables, paged=False)}
