"""A release of the Detailed DHC, opened from its folder alone: parameters, blocks, measurements,
and what is published from them.

Like :mod:`das.release.post_processing`, nothing here can see the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.errors import ReleaseError
from das.files import atomic
from das.files.parquet import LOST, refuse_marked
from das.files.run import run_directory
from das.model.ledger import Event
from das.publications.detailed.files import geography as regions_file
from das.publications.detailed.files import measurements
from das.publications.detailed.files import parameters as parameter_files
from das.publications.detailed.files import totals as totals_file
from das.publications.detailed.model.iterations import ACROSS, Regions
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement, GroupTotals
from das.publications.detailed.model.tables import FIRST, ONLY, LevelPlan
from das.publications.detailed.spec import DetailedFolders, DetailedSpec
from das.spec import load, of_kind

PARAMETERS = "parameters"


@dataclass(frozen=True, eq=False)
class OpenedGroups:
    """``totals`` are those of an earlier release, where the sizes of tables follow from them."""

    folder: Path
    spec: DetailedSpec
    regions: Regions
    totals: GroupTotals | None = None

    @property
    def name(self) -> str:
        """What the ledger calls the records."""
        return self.spec.universes[0].name

    def subtrees(self, plan: LevelPlan) -> tuple[int, ...]:
        """The parts that a level is measured in: states, by their numbers from 1, or 0 for all of
        it. One that no block is in a region of has a part without groups: its budget is spent on
        nothing, and counted."""
        if plan.at.region in ACROSS:
            return (0,)
        states = enumerate(self.regions.states, 1)
        return tuple(i for i, s in states if len(self.regions.of_state(plan.at.region, s))) or (0,)

    def units(self, plan: LevelPlan) -> dict[str, int]:
        """How many groups of each class are measured at a level."""
        ids = self.regions.ids[plan.at.region]
        sizes = self.sizes(plan, ids)
        if sizes is not None:
            return {plan.tables: int((sizes != UNMEASURED).sum())}
        return {c: n * len(ids) for c, n in self.spec.classes(plan).items()}

    def events(self, plan: LevelPlan) -> tuple[Event, ...]:
        """What measuring a level draws, over all its regions. A draw of cells has as many answers
        as the largest table, at most."""
        units = self.units(plan)
        answers = {ONLY: 1, FIRST: 1, plan.table.name: plan.table.answers[-1]}
        return tuple(
            Event.from_measurement(d, self.name, units[d.unit_class], answers[d.query])
            for d in plan.measurements
            if d.unit_class in units
        )

    def sizes(self, plan: LevelPlan, ids: NDArray[np.bytes_]) -> NDArray[np.int8] | None:
        """The size of each group's table in some regions where an earlier release decides it; -1
        where that has no such group."""
        if plan.first:
            return None
        if self.totals is None:
            raise ReleaseError(
                f"there is no {totals_file.FILE}, which decides how much is asked",
                where=self.folder,
            )
        iterations = self.spec.parameters.iterations.measured_at(plan.at)
        kind = plan.at.region
        region = self.totals.region.get(kind, ids[:0])
        iteration = self.totals.iteration.get(kind, iterations[:0])
        if not len(ids):
            return np.zeros(0, dtype=np.int8)
        at, of = np.searchsorted(ids, region), np.searchsorted(iterations, iteration)
        there = (ids.take(at, mode="clip") == region) & (
            iterations.take(of, mode="clip") == iteration
        )
        out = np.full(len(ids) * len(iterations), UNMEASURED, dtype=np.int8)
        if there.any():
            out[at[there] * len(iterations) + of[there]] = plan.size(self.totals.count[kind][there])
        return out

    def measured(self, plan: LevelPlan) -> Iterator[GroupMeasurement]:
        """Part after part of a level."""
        iterations = self.spec.parameters.iterations
        members = iterations.measured_at(plan.at)
        only = iterations.detailed_only[members] & bool(plan.first)
        root = self._root(plan)
        yield from measurements.each(root, plan, iterations.code[members], only)

    def part(self, plan: LevelPlan, subtree: int) -> GroupMeasurement:
        """All measurements of a level from one part: from a state, or from regions that cross
        states."""
        iterations = self.spec.parameters.iterations
        members = iterations.measured_at(plan.at)
        only = iterations.detailed_only[members] & bool(plan.first)
        root = self._root(plan)
        return measurements.part(root, plan, subtree, iterations.code[members], only)

    def _root(self, plan: LevelPlan) -> Path:
        """The folder of all measurements. Raises :class:`ReleaseError` where files of a level say
        that they were seeded, and the specification does not."""
        root = run_directory.nmf_folder(self.folder, self.name)
        for path in measurements.paths(root, plan):
            refuse_marked(path, self.spec.run.private)
        return root

    @cached_property
    def codes(self) -> dict[str, NDArray[np.str_]]:
        """The iterations of each level."""
        iterations = self.spec.parameters.iterations
        return {p.level: iterations.code[iterations.measured_at(p.at)] for p in self.spec.plans}


def write_public(
    release: Path, spec: DetailedSpec, given: Path, regions: Regions, totals: Path | None = None
) -> None:
    """Write the public facts of a release: everything that it depends on except its measurements.

    ``given`` is the folder of parameters. ``totals`` is the file of totals that were published
    before, if they decide the sizes of tables."""
    parameter_files.copy(given, release / PARAMETERS)
    if totals is not None:
        totals_file.copy(totals, release / totals_file.FILE)
    regions_file.write(release, regions, spec.run.private)
    atomic.write_text(release / "spec.toml", spec.dump())


def open_groups(release: Path) -> OpenedGroups:
    """Raises :class:`ReleaseError`, or what the readers of its files raise."""
    path = release / "spec.toml"
    given = load(run_directory.read_text(path, "specification"), where=str(path))
    folders = of_kind(DetailedFolders, given, str(path))
    parameters = parameter_files.read(release / PARAMETERS, folders.product)
    spec = folders.on(parameters)
    file = release / totals_file.FILE
    totals = totals_file.totals(file, parameters) if file.is_file() else None
    regions = regions_file.read(release)
    if lost := [p.at.region for p in spec.plans if p.at.region not in regions.ids]:
        raise ReleaseError(
            f"has no regions of the type {lost[0]}", where=release / regions_file.NAME, remedy=LOST
        )
    return OpenedGroups(release, spec, regions, totals)


# The measurements of the Detailed DHC, checked against the plan.
#
# Every group of the domain must be there once, with the stated noise. Its table must have the size
# that its first stage, or an earlier release, asks for.


def check_files(opened: OpenedGroups) -> None:
    """Raises :class:`ReleaseError` at the first file that is not what it should be."""
    for plan in opened.spec.plans:
        _check_level(opened, plan)


def _check_level(opened: OpenedGroups, plan: LevelPlan) -> None:
    root = run_directory.nmf_folder(opened.folder, opened.name)
    found, regions = Counter[str](), list[bytes]()
    noise = {f"{d.query}: {d.mechanism.symbol}": str(d.parameter) for d in plan.measurements}
    for path, m in zip(measurements.paths(root, plan), opened.measured(plan), strict=True):
        if measurements.noise(path) != noise:
            raise ReleaseError("its noise is not that of the plan", where=path, remedy=ALTERED)
        if not np.array_equal(m.size, _sizes(opened, plan, m)):
            raise ReleaseError(
                "a table is not of the size that follows from what was published of its group"
                " before",
                where=path,
                remedy=ALTERED,
            )
        regions += m.regions.tolist()
        there = m.size != UNMEASURED
        only = m.only[m.iteration]
        found += Counter(
            {plan.totals: int((there & only).sum()), plan.tables: int((there & ~only).sum())}
        )
    ids = opened.regions.ids[plan.at.region].tolist()
    if sorted(regions) != ids or {c: n for c, n in found.items() if n} != {
        c: n for c, n in opened.units(plan).items() if n
    }:
        raise ReleaseError(
            f"these are not all groups of {plan.level}, each once",
            where=measurements.folder(root, plan),
            remedy=ALTERED,
        )


def _sizes(opened: OpenedGroups, plan: LevelPlan, m: GroupMeasurement) -> NDArray[np.int8]:
    """Those that the tables should have."""
    known = opened.sizes(plan, m.regions)
    return (
        np.where(m.only[m.iteration], 0, plan.size(m.first)).astype(np.int8)
        if known is None
        else known
    )
