"""A release of the demographic file, opened from its folder alone: what is tied, what was revealed,
and what follows from these.

Like :mod:`das.release.post`, nothing here can see the truth. Persons have the published
redistricting counts of every block, and nobody is in a type of group quarters of which the block
has no facility; units are the published occupied and vacant ones, and the facilities; households
are the units of each tenure. So units are estimated before households."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.engine import Progress
from das.errors import InfeasibleError, ReleaseError
from das.estimate.outer import refined
from das.estimate.tied import Tied
from das.estimate.upward import Upward
from das.files import atomic
from das.files.measurements.revealed import RevealedReader
from das.files.release import spine as spine_file
from das.files.release import tied as tied_file
from das.files.run import run_directory
from das.model.dhc import quarters, strategy
from das.model.dhc.households import TENURE
from das.model.dhc.persons import DHCP
from das.model.dhc.units import TENVACGQ
from das.model.histogram import Histogram
from das.model.ledger import Event
from das.model.solution import Certificates
from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine
from das.spec import DhcSpec, load, of_kind
from das.spec.dhc import UNITS, DhcUniverse

Ints = NDArray[np.int64]
SPEC, SPINE = "spec.toml", "spine.parquet"
#: Groups of the query that is tied of units, before the types of facilities: occupied, and vacant.
HOMES = 2


@dataclass(frozen=True, eq=False)
class EstimatedDhc:
    """Integer histograms of every level, and the certificates of each."""

    counts: Mapping[str, Histogram]
    certificates: Mapping[str, Certificates]


@dataclass(frozen=True, eq=False)
class OpenedDhc:
    """``tied``: of persons and of units what every lowest unit has exactly, ``(units,
    answers)``.
    """

    folder: Path
    spec: DhcSpec
    spine: Spine
    tied: Mapping[str, Histogram]

    @cached_property
    def facilities(self) -> Ints:
        """Of every lowest unit, by type, ``(units, 24)``."""
        return self.tied[UNITS].dense()[:, HOMES:]

    def source(self, u: DhcUniverse) -> RevealedReader:
        """What was revealed of a universe."""
        return RevealedReader(
            run_directory.nmf_folder(self.folder, u.name), self.spine, private=self.spec.run.private
        )

    def ties(self, u: DhcUniverse, homes: Histogram | None = None) -> Tied:
        """What is tied of a universe; of households it follows from the published units,
        ``homes``.
        """
        if u.rests is None:
            return Tied.of(
                u.schema, u.tie, self.tied[u.name], self.spine, self.able if u.housed else None
            )
        if homes is None:
            raise ValueError(f"{u.name} rest on {u.rests}")
        return Tied.of(u.schema, u.tie, tenures(homes), self.spine)

    def events(self, u: DhcUniverse, level: str) -> tuple[Event, ...]:
        """What measuring a level draws: all answers to all queries, however few are looked at."""
        return tuple(
            Event.of(d, u.name, self.spine.units(level), u.schema.query(d.query).answers)
            for d in u.plan.at(level)
        )

    @property
    def able(self) -> NDArray[np.bool_]:
        """Where somebody can live, by lowest unit and level of ``relgq``: at home, or where there
        is a facility.
        """
        away = self.facilities > 0
        home = len(DHCP.attribute("relgq").levels) - len(quarters.TYPES)
        return np.concatenate([np.ones((len(away), home), dtype=bool), away], axis=1)

    def estimate(
        self,
        u: DhcUniverse,
        source: SparseSource,
        done: Mapping[str, EstimatedDhc],
        pool: Executor | None = None,
        progress: Progress | None = None,
    ) -> EstimatedDhc:
        """One universe from its measurements; those before it are ``done``."""
        homes = None if u.rests is None else done[u.rests].counts[self.spine.levels[-1]]
        every = Upward(source, self.spine, self.spec.estimation.most)
        try:
            found = refined(
                every, self.spine, u.schema, u.strategy.outer, self.ties(u, homes), pool, progress
            )
        except InfeasibleError as error:  # what is tied contradicts itself, or the schema
            raise ReleaseError(
                f"what is tied of {u.name} cannot be: {error.what}",
                where=self.folder,
                remedy=ALTERED,
            ) from None
        return EstimatedDhc(*found)


def tenures(units: Histogram) -> Histogram:
    """Households of each tenure, by the published units."""
    group = np.array(TENVACGQ.query(strategy.UNITS_TENURE).groupings[0].index)[units.cell]
    here = group < len(TENURE.levels)
    return Histogram.of(
        units.units, len(TENURE.levels), units.unit[here], group[here], units.count[here]
    )


def units_tied(homes: Histogram, facilities: Ints) -> Histogram:
    """Published vacant and occupied units (``h1``: vacant first), and the facilities of each block:
    the answers to the query that is tied of units."""
    counts = homes.dense()
    every = np.concatenate([counts[:, [1]], counts[:, [0]], facilities], axis=1)
    block, answer = np.nonzero(every)
    return Histogram.of(homes.units, every.shape[1], block, answer, every[block, answer])


def write_public(release: Path, spec: DhcSpec, spine: Spine, tied: Mapping[str, Histogram]) -> None:
    """What a release rests on, but for its measurements."""
    atomic.write_text(release / SPEC, spec.dump())
    spine_file.write(release / SPINE, spine)
    for name, counts in tied.items():
        tied_file.write(release / tied_file.name(name), counts, spine, private=spec.run.private)


def open_dhc(release: Path) -> OpenedDhc:
    """Raises :class:`ReleaseError` or :class:`SpecError` where the folder is no complete
    release.
    """
    path = release / SPEC
    given = load(run_directory.read_text(path, "release specification"), where=str(path))
    spec = of_kind(DhcSpec, given, str(path))
    spine = spine_file.read(release / SPINE)
    spec.lower(spine.levels)
    tied = {
        u.name: tied_file.read(
            release / tied_file.name(u.name),
            spine,
            u.schema.query(u.tie).answers,
            private=spec.run.private,
        )
        for u in spec.universes
        if u.rests is None
    }
    return OpenedDhc(release, spec, spine, tied)
