"""The DHC, from linked records to the errors of a run.

    (earlier release), linked records -> histograms -> answers on request <-> estimates | -> files
                                                             (truth ends here)          | -> errors

Persons, units and households, in this order: households rest on what was estimated of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from das.engine.choice import EngineChoice
from das.engine.enclosed import end_waiting, refusals
from das.engine.tasks import Progress
from das.errors import UserError
from das.files import atomic
from das.files.release import statement
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.publications.dhc import release_files
from das.publications.dhc.page import dhc_errors_html, summaries
from das.publications.dhc.publishing import cost, link_run, publish
from das.publications.dhc.release import OpenedDhc, open_dhc
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS, DhcSpec
from das.publications.dhc.truth import assessment
from das.publications.dhc.truth.by_subtree import DhcSubtrees
from das.publications.dhc.truth.measuring import MeasuringDhc, begin, measure_and_estimate
from das.publications.dhc.truth.oracle import Oracle
from das.publications.dhc.truth.preparation import EarlierRelease, PreparedDhc, prepare
from das.release.estimating import certificates_json
from das.report.facts import facts
from das.runs.protocol import (
    SMALL,
    TIMES,
    BudgetAxis,
    DerivedOutputs,
    InputOutlook,
    MeasuringRecord,
    RunContext,
    RunInput,
    one_folder,
    performed_where_cut,
)
from das.size import Size
from das.stages import Stages
from das.truth import files as truth_file
from das.truth.measuring import check_sources
from das.truth.prepared import TrueHistograms, upward
from das.version import __version__

_BESIDE = "Mean absolute errors next to those of the Bureau's run, medians"

#: Of the DHC: bytes that are loaded, bytes and seconds for each cell with somebody in it, and
#: seconds of a run of nobody. By two measured runs: 16,000 cells in 25 s and 0.3 GB,
#: and Rhode Island with some 1.45 million in 8.8 minutes and 2.6 GB.
_LOADED, _BY_CELL, _BEGUN, _SECONDS_BY_CELL = 0.28e9, 1600.0, 19.0, 3.5e-4


def sizes_of_dhc(spec: DhcSpec, stored: Mapping[str, int]) -> list[Size]:
    """The sizes of a DHC run by universe, from the number of occupied cells of lowest units. Noise
    is drawn only on demand, so memory and time depend on these cells, not on the schema. One
    process holds all universes, and estimates them one after the other."""
    level, every = spec.geography.levels[-1], sum(stored.values())
    return [
        Size(
            u.name,
            u.schema.cells,
            _LOADED + _BY_CELL * every,
            _BEGUN / len(spec.universes) + _SECONDS_BY_CELL * stored[u.name],
            level,
        )
        for u in spec.universes
    ]


def worker_of_dhc(cells: int) -> float:
    """Bytes of a worker of a DHC run that is cut: its process with the truth, and the one that
    estimates. ``cells``: the occupied cells of lowest units of one universe, in the largest
    subtree. A worker has one universe of one subtree at a time."""
    return 2 * _LOADED + _BY_CELL * cells


class DhcMaker:
    """One run (:class:`das.runs.protocol.Maker`), or one of many of the same input
    (:class:`das.runs.protocol.SeriesMaker`)."""

    shares_noise = False

    def __init__(self, spec: DhcSpec, given: RunInput) -> None:
        self.spec, self._given = spec, given

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        with stages("read"):
            self.begin_on(self.read(progress), directory, None)

    @property
    def axis(self) -> BudgetAxis:
        """A multiple of the three budgets, which are multiples themselves."""
        budgets = {name: getattr(self.spec.budget, name) for name in (PERSONS, UNITS, HOUSEHOLDS)}
        return BudgetAxis(
            TIMES,
            Fraction(1),
            lambda times: tuple(f"budget.{name}={b * times}" for name, b in budgets.items()),
        )

    def read(self, progress: Progress) -> PreparedDhc:
        progress.stage("read", None)
        data = one_folder(
            self._given.paths, self.spec.data.path, "folder with persons, households and units"
        )
        earlier = EarlierRelease.read(_earlier(self.spec), self.spec)
        return prepare(self.spec, data, earlier, progress)

    def check_begun(self, read: PreparedDhc, directory: RunDirectory) -> None:
        check_sources(read.sources, directory)
        self.check_same(directory)

    def begin_on(
        self, read: PreparedDhc, directory: RunDirectory, noise: RunDirectory | None
    ) -> None:
        del noise  # what is drawn follows from what is asked: it is each run's own
        begin(replace(read, spec=self.spec.after(read.spec.constraints)), directory)
        self.spec = open_dhc(directory.release).spec

    def derive_in(
        self, pool: Executor, workers: int, work: RunContext, measured: MeasuringRecord
    ) -> Future[tuple[DerivedOutputs, Stages]]:
        """Here: what was measured on request is estimated already."""
        done: Future[tuple[DerivedOutputs, Stages]] = Future()
        done.set_result((self.derive(work, measured), Stages()))
        return done

    def check_same(self, directory: RunDirectory) -> None:
        """Raises :class:`UserError` if a resumed run began with another configuration. Only the
        paths on this machine can differ."""
        began = open_dhc(directory.release).spec
        if self.spec.after(began.constraints).dump() != began.dump():
            raise UserError(
                "the configuration is not the one that this run began with",
                where=directory.root,
                remedy="resume with the inputs that the run began with, or start another run in"
                " a new folder",
            )
        self.spec = began

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        return performed_where_cut(choice, directory)

    def measure(self, work: RunContext) -> MeasuringRecord:
        """Estimation asks, in a process of its own, and is answered here."""
        began = datetime.now(UTC)
        opened = open_dhc(work.directory.release)
        measuring = MeasuringDhc(opened, work.directory, work.accept_spent)
        with work.stages("measure and estimate"):
            oracle = Oracle(work.choice.workers, work.progress)
            estimate = partial(opened.estimated, solve=oracle.estimated)
            done = measure_and_estimate(
                opened, measuring, estimate, _below(opened, measuring, work, oracle)
            )
            refused = refusals()
            if work.directory.bytes_of_truth() >= SMALL:  # a small one is left to the next run
                end_waiting()
        kept = (opened, measuring, done, refused)
        return MeasuringRecord(began, measuring.close(), kept)

    def derive(self, work: RunContext, measured: MeasuringRecord) -> DerivedOutputs:
        opened, _, done, refused = measured.kept
        publish(opened, done, measured.privacy, work.stages, work.progress)
        link_run(
            work.directory,
            opened.spec.link,
            workers=work.choice.workers,
            stages=work.stages,
            progress=work.progress,
        )
        certificates = {name: e.certificates for name, e in done.items()}
        said = {"certificates": certificates_json(certificates)}
        return DerivedOutputs(said | ({"refused_to_estimation": refused} if refused else {}))

    def evaluate(
        self, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
    ) -> Mapping[str, Any]:
        opened, measuring, done, _ = measured.kept
        with work.stages("evaluate"):
            work.progress.stage("evaluate", None)
            truth = {u.name: measuring.truth(u) for u in opened.spec.universes}
            errors = _errors(opened, truth, {name: e.counts for name, e in done.items()})
            assessment.write(errors, work.directory, self.spec.run.private)
            self._write_page(errors, measured, work)
        return _beside(errors) | {"cost": cost(measured.privacy)}

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        """From the files of the run."""
        if areas is not None:
            raise UserError(
                "of the DHC no areas are evaluated", where="--areas", remedy="leave it out"
            )
        directory.read_manifest()
        directory.require_truth()
        opened = open_dhc(directory.release)
        lowest = {
            u.name: truth_file.read(directory.truth_of(u.name).parent)
            for u in opened.spec.universes
        }
        published = release_files.read_counts(opened.folder, opened.spine)
        errors = _errors(
            opened,
            {name: upward(h, opened.spine) for name, h in lowest.items()},
            {name: h.upward(opened.spine) for name, h in published.items()},
        )
        assessment.write(errors, directory, self.spec.run.private)
        return _beside(errors) | {"rows": errors.queries, "own_spine": opened.has_own_spine}

    def outlook(self, stages: Stages, progress: Progress) -> InputOutlook:
        read = self.read(progress)
        return InputOutlook(sizes_of_dhc(self.spec, read.stored), says=_cut(read))

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        return {"cost": cost(statement.read(directory.release))}

    def _write_page(
        self, errors: assessment.DhcErrors, measured: MeasuringRecord, work: RunContext
    ) -> None:
        spec, stages = self.spec, work.stages
        if spec.output.report:
            schema = spec.universe(PERSONS).schema
            opened, *_ = measured.kept
            about = facts(
                spec.run.name, schema, measured.privacy, stages.done, own_spine=opened.has_own_spine
            )
            page = about | {"version": __version__, "digest": spec.digest}
            with stages.page("report", work.directory.report):
                text = dhc_errors_html(errors.figures, page, errors.odd, errors.queries)
                atomic.write_text(work.directory.report, text)


def _below(
    opened: OpenedDhc, measuring: MeasuringDhc, work: RunContext, oracle: Oracle
) -> DhcSubtrees | None:
    if not len(opened.cut):
        return None
    size, root = work.choice.size, work.directory.root
    return DhcSubtrees(opened, measuring, root, work.engine, size, oracle)


def _cut(read: PreparedDhc) -> Sequence[str]:
    """What a worker takes of a run that is cut."""
    if not len(read.subtrees):
        return ()
    blocks = np.diff(read.subtrees.lowest(read.spine))
    cells = max(int(each.max()) for each in read.stored_in_subtrees.values())
    return (
        f"the run is cut into {len(blocks)} subtrees of up to {blocks.max():,} blocks: a worker takes"
        f" about {worker_of_dhc(cells) / 1e9:.1f} GB of memory, its two processes together, and the"
        " main process what all of it takes",
    )


def _errors(
    opened: OpenedDhc, truth: Mapping[str, TrueHistograms], counts: Mapping[str, Any]
) -> assessment.DhcErrors:
    measured = {u.name: (opened.tree(u), u.plan) for u in opened.spec.universes}
    return assessment.dhc_errors(truth, counts, opened.spine.levels, measured)


def _beside(errors: assessment.DhcErrors) -> dict[str, Any]:
    """How the errors compare with those of the Bureau's run."""
    rows = [
        {"level": b.level, "units": b.n, "lines": b.lines, "our error / its": f"{b.ratio:.2f}"}
        for b in summaries(errors.figures)
    ]
    return {"beside": rows, "beside_title": _BESIDE}


def _earlier(spec: DhcSpec) -> Path:
    if not spec.constraints.from_:
        raise UserError(
            "no redistricting release is named, whose counts persons and units have",
            where="constraints.from",
            remedy=(
                "das run pl94-2010 --data EXTRACT first, of the same census; then --set"
                " constraints.from=RUN"
            ),
        )
    return run_directory.release_of(Path(spec.constraints.from_))
