"""After measurement: from the files of a release alone to microdata and tables.

Nothing here can see the truth: the only inputs are the folder of a release and where to write. ``das run``
and ``das estimate --from`` are the same code from here on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das import spec as specification
from das import tables
from das.engine import Progress, in_order
from das.errors import PrivacyError, ReleaseError
from das.estimate import informed
from das.estimate.family import Method
from das.estimate.information import Information
from das.estimate.modes import Modes
from das.estimate.topdown import estimate_children, estimate_root
from das.files.measurements import nmf
from das.files.measurements.source import open_source
from das.files.microdata import reading as microdata_reading
from das.files.microdata import writing as microdata
from das.files.release import areas as areas_file
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.release import tables as published_tables
from das.files.release.estimates import folder_of
from das.files.run import run_directory
from das.geography import bounds as geography
from das.geography.invariants import exact_bounds
from das.model.areas import Areas
from das.model.constraint import Bounds, JointTotals
from das.model.estimate import Estimate
from das.model.histogram import Histogram
from das.model.release import Release
from das.model.schema import Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.release.full_information import Collapsed, collapse, write_estimates
from das.rounding import Margin, descendants, mend, round_estimate
from das.spec import RunSpec, Universe


@dataclass(frozen=True)
class Certificates:
    """The worst certificates of one level."""

    estimation: Certificate
    rounding: Certificate


@dataclass(frozen=True)
class Opened:
    """A release as its files say it: the resolved specification and the spine."""

    folder: Path
    spec: RunSpec
    spine: Spine

    def source(self, universe: Universe) -> nmf.NmfReader:
        return nmf.NmfReader(run_directory.nmf_folder(self.folder, universe.name), self.spine)

    def areas(self) -> tuple[Areas, ...]:
        """The areas off the spine that the input knew; none in a release of another publisher."""
        return areas_file.read(self.folder / areas_file.NAME, self.spine)

    def assigned(self, universe: str) -> dict[str, str]:
        """Attributes of a universe that were made up by a rule, each with a sentence; none where nothing is stated."""
        path = self.folder / "privacy.json"
        return run_directory.read_json(path).get("assigned", {}).get(universe, {}) if path.is_file() else {}

    def bounds(self, universe: Universe) -> dict[str, Bounds]:
        """From the constraint rows of the noisy measurement files."""
        reader = self.source(universe)
        found = {level: reader.constraints(level) for level in self.spine.levels}
        self._check_constraints(universe, found)
        lowest = found[self.spine.levels[-1]]
        dwelling = f"{universe.schema.dwelling}_total"
        usual = {"total", "joint_total", f"{dwelling}_lb", f"{dwelling}_ub"}
        if any(found[level].keys() - usual for level in self.spine.levels):
            exact = [
                (level, universe.schema.query(name), bound)
                for level in self.spine.levels for name, (_, bound) in found[level].items()
            ]  # fmt: skip
            return exact_bounds(universe.schema, self.spine, exact)
        low_high = None
        if f"{dwelling}_lb" in lowest:
            low_high = (lowest[f"{dwelling}_lb"][1], lowest[f"{dwelling}_ub"][1])
        known = [level for level in self.spine.levels if found[level].keys() & {"total", "joint_total"}]
        if not known:
            return geography.bounds(universe.schema, self.spine, low_high, None, None)
        level = known[-1]  # the lowest: totals above are its sums
        total: NDArray[np.int64] | JointTotals
        if "total" in found[level]:
            total = found[level]["total"][1][:, 0]
        else:
            codes = self.spine.codes[self.spine.index(level)]
            total = JointTotals.of_places(codes, found[level]["joint_total"][1][:, 0])
        return geography.bounds(universe.schema, self.spine, low_high, total, level)

    def _check_constraints(self, universe: Universe, found: Mapping[str, Mapping[str, object]]) -> None:
        """The constraints that the privacy statement lists are those of the files."""
        outside = privacy_statement.read(self.folder)["outside_the_guarantee"]
        listed = {(c["level"], c["constraint"]) for c in outside if c["universe"] == universe.name}
        there = {(level, name) for level, names in found.items() for name in names}
        for level, name in sorted(listed ^ there):
            where = run_directory.nmf_folder(self.folder, universe.name)
            state = "is in privacy.json, but not in the files" if (level, name) in listed else "is not in privacy.json"
            raise ReleaseError(f"constraint {name!r} of level {level!r} {state}", where=where,
                               remedy="the release is incomplete or altered: get it again from where it was published")  # fmt: skip


def open_release(folder: Path) -> Opened:
    """Raises :class:`ReleaseError` or :class:`SpecError` where the folder is no complete release."""
    text = run_directory.read_text(folder / "spec.toml", "release specification")
    spec = specification.parse(text, where=str(folder / "spec.toml"))
    spine = spine_file.read(folder / "spine.parquet")
    if spine.levels != spec.geography.levels:
        raise ReleaseError(f"its levels are {', '.join(spine.levels)}, those of spec.toml "
                           f"{', '.join(spec.geography.levels)}", where=folder / "spine.parquet",
                           remedy="the release is altered: get it again from where it was published")  # fmt: skip
    return Opened(folder, spec, spine)


def estimate(
    release: Opened, universe: Universe, pool: Executor, progress: Progress, out: Path | None = None
) -> tuple[Release, dict[str, Certificates]]:
    """Integer histograms of every level, root first, checked against every constraint.

    Full-information estimation also writes its unbiased estimates, under ``out`` where that is given.
    """
    bounds = release.bounds(universe)
    known = None
    if release.spec.estimation.method == "full-information" and len(release.spine) > 1:
        known = collapse(release.folder, release.spine, universe, bounds, pool, progress)
        if out is not None:
            write_estimates(known, release.spine, universe, folder_of(out, universe.name), progress)
    published: dict[str, Histogram] = {}
    certificates: dict[str, Certificates] = {}
    for depth, level in enumerate(release.spine.levels):
        above, mended = None, Certificate()
        if depth:
            up = release.spine.levels[depth - 1]
            published, mended = mend(universe.schema, release.spine, bounds, published, up)
            above = published[up]
        batches = _batches(release, universe, level, above, bounds, known)
        progress.stage(f"estimate {universe.name}: {level}", release.spine.units(level))
        parts, worst = [], Certificates(mended, Certificate())
        for part, c in in_order(pool, _solve, batches):
            worst = Certificates(worst.estimation.merge(c.estimation), worst.rounding.merge(c.rounding))
            parts.append(part)
            progress.advance(part.units)
        published[level], certificates[level] = Histogram.concatenate(parts), worst
    return Release(release.spine, published, bounds), certificates


@dataclass(frozen=True)
class _Batch:
    """The families of a slice of units, for one worker. It carries published values only."""

    release: Path
    universe: str
    schema: Schema
    level: str
    method: Method
    chain: tuple[str, ...]
    margins: tuple[Margin, ...]
    objective: str
    parents: Histogram | None
    starts: NDArray[np.int64]
    bounds: Bounds
    descendants: tuple[NDArray[np.int64], Bounds] | None
    modes: Modes | None = None
    information: Information | None = None


def _batches(
    release: Opened,
    universe: Universe,
    level: str,
    above: Histogram | None,
    bounds: Mapping[str, Bounds],
    known: Collapsed | None,
) -> Iterator[_Batch]:
    spine, passes = release.spine, universe.passes[level]
    method = Method(passes, float(release.spec.estimation.tolerance))
    answers = sum(universe.schema.query(q).answers for p in passes for q in p)
    starts = spine.children(level)
    margins = _margins(universe, level)
    for start, stop in spine.batches(level, answers):
        first, last = np.searchsorted(starts, [start, stop])
        families = starts[first : last + 1]
        parents = None if above is None else above.rows(int(first), int(last))
        here = bounds[level].rows(start, stop)
        below = descendants(spine, bounds, level, start, stop)
        yield _Batch(release.folder, universe.name, universe.schema, level, method, universe.chain,
                     margins, universe.objective, parents, families, here, below, *_knowledge(known, level, start, stop))  # fmt: skip


def _margins(universe: Universe, level: str) -> tuple[Margin, ...]:
    """The measured queries whose sums the rounding keeps: those that are much coarser than the cells."""
    if not universe.margins:
        return ()
    queries = [(universe.schema.query(d.query), universe.plan.variance(d)) for d in universe.plan.at(level)]
    return tuple(Margin(q, v**0.5) for q, v in queries if 1 < q.answers <= universe.schema.cells // 2)


def _knowledge(known: Collapsed | None, level: str, start: int, stop: int) -> tuple[Modes | None, Information | None]:
    """What the subtrees of units ``start:stop`` say; nothing at the lowest level, which has only its own."""
    if known is None or level not in known.information:
        return None, None
    return known.modes, known.information[level].rows(slice(start, stop))


def _solve(batch: _Batch) -> tuple[Histogram, Certificates]:
    source = open_source(batch.release, batch.universe)
    if batch.modes is not None and batch.information is not None:
        estimates = _informed(batch, batch.modes, batch.information)
    elif batch.parents is None:
        estimates = [estimate_root(source, batch.level, batch.schema, batch.method, batch.bounds)]
    else:
        estimates = estimate_children(
            source, batch.level, batch.schema, batch.method, batch.parents, batch.starts, batch.bounds
        )
    chain = [batch.schema.query(q) for q in batch.chain]
    estimation, rounding, parts = Certificate(), Certificate(), []
    for e in estimates:
        a = e.start - int(batch.starts[0])
        b = a + len(e.x)
        rounded, certificate = round_estimate(
            e,
            batch.bounds.rows(a, b),
            chain,
            _some(batch.descendants, a, b),
            margins=batch.margins,
            objective=batch.objective,
        )
        estimation, rounding = estimation.merge(e.certificate), rounding.merge(certificate)
        parts.append(rounded)
    return Histogram.concatenate(parts), Certificates(estimation, rounding)


def _informed(batch: _Batch, modes: Modes, information: Information) -> list[Estimate]:
    if batch.parents is None:
        return [informed.estimate_root(modes, information, batch.method, batch.bounds)]
    return informed.estimate_children(modes, information, batch.method, batch.parents, batch.starts, batch.bounds)


def _some(
    descendants: tuple[NDArray[np.int64], Bounds] | None, a: int, b: int
) -> tuple[NDArray[np.int64], Bounds] | None:
    """The descendants of children ``a:b``."""
    if descendants is None:
        return None
    first, last = np.searchsorted(descendants[0], [a, b])
    return descendants[0][first:last] - a, descendants[1].rows(int(first), int(last))


def publish(release: Opened, universe: Universe, result: Release, out: Path, progress: Progress) -> None:
    """Write microdata and tables under ``out``, and read the microdata back: it must give the histogram again."""
    spine = release.spine
    lowest = spine.levels[-1]
    codes = spine.codes[-1]
    progress.stage(f"microdata: {universe.name}", None)
    folder = out / "microdata" / universe.folder
    h = result.histograms[lowest]
    structures = _structures(release) if universe.facilities else None
    microdata.write(folder, h, codes, universe.schema, universe.name, structures=structures,
                    build=release.spec.run.name, csv=release.spec.output.csv, private=release.spec.run.private)  # fmt: skip
    if not microdata_reading.read(folder, universe.schema, codes).same_as(h):
        raise PrivacyError("the microdata do not tabulate to the histogram they were made from", where=folder)
    if not release.spec.output.tables:
        return
    progress.stage(f"tables: {universe.name}", len(spine))
    published = tables.of(universe, release.assigned(universe.name))
    for level, level_codes in zip(spine.levels, spine.codes, strict=True):
        published_tables.write(out / "tables", level, level_codes, published, result.histograms[level],
                               beside=published_tables.identifiers(spine, level),
                               private=release.spec.run.private)  # fmt: skip
        progress.advance()


def _structures(release: Opened) -> NDArray[np.int64] | None:
    """Facilities of each block, from the bounds on persons; housing units are in the units' own totals."""
    persons = release.spec.persons
    found = release.source(persons).constraints(release.spine.levels[-1])
    lower = found.get(f"{persons.schema.dwelling}_total_lb")
    return None if lower is None else lower[1]
