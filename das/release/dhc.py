"""A release of the DHC, opened from its folder alone: what is held fixed, what was measured on
demand, and what follows from these.

Like :mod:`das.release.post`, nothing here can see the truth. Persons have the published
redistricting counts of every block. Nobody lives in a type of group quarters for which the block
has no facility. Housing units match the published occupied and vacant units, and the facilities.
Households of each tenure match the occupied units of that tenure. So units are estimated before
households."""

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
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import OuterEstimates, RefinedEstimates, refined
from das.estimate.upward import FromBelow, Upward
from das.files import atomic
from das.files.measurements.on_demand import OnDemandReader
from das.files.release import fixed_counts as fixed_file
from das.files.release import spine as spine_file
from das.files.run import run_directory
from das.model.dhc import quarters, strategy
from das.model.dhc.households import TENURE
from das.model.dhc.persons import DHCP
from das.model.dhc.units import TENVACGQ
from das.model.histogram import Histogram
from das.model.ledger import Event
from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine
from das.model.subtrees import Subtrees
from das.spec import DhcSpec, load, of_kind
from das.spec.dhc import UNITS, DhcUniverse

Ints = NDArray[np.int64]
SPEC, SPINE = "spec.toml", "spine.parquet"
#: Groups of the query that is held fixed of units, before the types of facilities: occupied, and
#: vacant.
HOMES = 2


@dataclass(frozen=True, eq=False)
class OpenedDhc:
    """``fixed``: of persons and of units what every lowest unit has exactly, ``(units, answers)``.
    ``cut``: the subtrees of the tree. Of one of them, its number ``part``, ``spine`` and ``fixed``
    are its own.
    """

    folder: Path
    spec: DhcSpec
    spine: Spine
    fixed: Mapping[str, Histogram]
    cut: Subtrees
    part: int | None = None

    @property
    def levels(self) -> tuple[str, ...]:
        """Those that a subtree, or the upper tree of the whole, is responsible for."""
        return self.cut.levels(self.spine, self.part or 0)

    @property
    def tree(self) -> Spine:
        """The measured tree is the published one."""
        return self.spine

    @property
    def own(self) -> Spine:
        """The tree of these: the upper tree, or the subtree with what is above it."""
        return self.cut.upper_tree(self.spine) if self.part is None else self.spine

    @cached_property
    def facilities(self) -> Ints:
        """The facilities of every lowest unit, by type, ``(units, 24)``."""
        return self.fixed[UNITS].dense()[:, HOMES:]

    def source(self, u: DhcUniverse) -> OnDemandReader:
        """What was measured on demand of a universe."""
        return OnDemandReader(
            run_directory.nmf_folder(self.folder, u.name), self.spine, private=self.spec.run.private
        )

    def ties(
        self, u: DhcUniverse, homes: Histogram | None = None, kinds: NDArray[np.bool_] | None = None
    ) -> FixedCounts:
        """What is held fixed of a universe; of households it follows from the published units,
        ``homes``. Of a subtree, ``kinds`` are those of the whole.
        """
        if u.rests_on is None:
            able = self.able if u.housed else None
            return FixedCounts.of(
                u.schema, u.fixed_query, self.fixed[u.name], self.spine, able, kinds
            )
        if homes is None:
            raise ValueError(f"{u.name} rest on {u.rests_on}")
        return FixedCounts.of(u.schema, u.fixed_query, tenures(homes), self.spine)

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
        done: Mapping[str, OuterEstimates],
        pool: Executor | None = None,
        progress: Progress | None = None,
    ) -> RefinedEstimates:
        """One universe from its measurements; those before it are ``done``."""
        ties = self.ties(u, self.homes(u, done))
        return self.refined(u, self.upward(source), self.spine, ties, pool, progress)

    def homes(self, u: DhcUniverse, done: Mapping[str, OuterEstimates]) -> Histogram | None:
        """The lowest units' published housing units, if a universe is estimated from them."""
        return None if u.rests_on is None else done[u.rests_on].counts[self.spine.levels[-1]]

    def upward(
        self, source: SparseSource, spine: Spine | None = None, told: FromBelow | None = None
    ) -> Upward:
        """What is measured below a unit, used for it; of an upper tree, its ``spine`` and what it
        is ``told``."""
        return Upward(source, spine or self.spine, self.spec.estimation.most, told)

    def refined(
        self,
        u: DhcUniverse,
        source: Upward,
        spine: Spine,
        ties: FixedCounts,
        pool: Executor | None = None,
        progress: Progress | None = None,
        above: tuple[str, Histogram] | None = None,
    ) -> RefinedEstimates:
        """:func:`das.estimate.outer.refined`, of the whole, its upper tree or a subtree. Raises
        :class:`ReleaseError` where what is held fixed contradicts itself, or the schema."""
        try:
            return refined(source, spine, u.schema, u.strategy.outer, ties, pool, progress, above)
        except InfeasibleError as error:
            raise ReleaseError(
                f"what is held fixed of {u.name} cannot be: {error.what}",
                where=self.folder,
                remedy=ALTERED,
            ) from None


def tenures(units: Histogram) -> Histogram:
    """Households of each tenure, by the published units."""
    group = np.array(TENVACGQ.query(strategy.UNITS_TENURE).groupings[0].index)[units.cell]
    here = group < len(TENURE.levels)
    return Histogram.of(
        units.units, len(TENURE.levels), units.unit[here], group[here], units.count[here]
    )


def fixed_units(homes: Histogram, facilities: Ints) -> Histogram:
    """Published vacant and occupied units (``h1``: vacant first), and the facilities of each block:
    the answers to the query that is held fixed of units."""
    counts = homes.dense()
    every = np.concatenate([counts[:, [1]], counts[:, [0]], facilities], axis=1)
    block, answer = np.nonzero(every)
    return Histogram.of(homes.units, every.shape[1], block, answer, every[block, answer])


def write_public(
    release: Path, spec: DhcSpec, spine: Spine, fixed: Mapping[str, Histogram], subtrees: Subtrees
) -> None:
    """Write the public facts of a release: everything that it depends on except its
    measurements."""
    atomic.write_text(release / SPEC, spec.dump())
    spine_file.write(release / SPINE, spine, subtrees)
    for name, counts in fixed.items():
        fixed_file.write(release / fixed_file.name(name), counts, spine, private=spec.run.private)


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
    return OpenedDhc(release, spec, spine, fixed, cut, part)
