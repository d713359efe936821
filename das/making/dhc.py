"""The demographic file, from linked records to the errors of a run.

    (earlier release), linked records -> histograms -> answers on request <-> estimates | -> files
                                                             (truth ends here)          | -> errors

Persons, units and households, in this order: households rest on what was estimated of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from das.engine import executor
from das.engine.choice import LOCAL, EngineChoice
from das.engine.progress import Progress
from das.errors import UserError
from das.files import atomic
from das.files.release import statement
from das.files.run import run_directory
from das.files.run import truth as truth_file
from das.files.run.run_directory import RunDirectory
from das.making.work import Derived, MeasuringRecord, RunInput, Running
from das.model.idle import IdleDraws
from das.model.measured_spine import MeasuredSpine
from das.noise import entropy
from das.release import dhc_files
from das.release.dhc import OpenedDhc, open_dhc
from das.release.dhc_publishing import cost, publish
from das.release.estimating import certificates_json
from das.report.dhc_errors import dhc_errors_html, summaries
from das.report.facts import facts
from das.size import Size
from das.spec import DhcSpec
from das.spec.dhc import PERSONS
from das.stages import Stages
from das.truth import dhc_assessment
from das.truth.dhc import EarlierRelease, prepare
from das.truth.dhc_measuring import MeasuringDhc, begin, measure_and_estimate
from das.truth.histogram import upward
from das.truth.prepared import TrueHistograms
from das.version import __version__

_BESIDE = "Mean absolute errors beside those of the Bureau's run, medians"


class DhcMaker:
    """One run (:class:`das.making.work.Maker`)."""

    def __init__(self, spec: DhcSpec, given: RunInput) -> None:
        self.spec, self._given = spec, given

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        _check_engine(choice)
        with stages("read"):
            progress.stage("read", None)
            data = _folder(self.spec, self._given.paths)
            earlier = EarlierRelease.read(_earlier(self.spec), self.spec)
            begin(prepare(self.spec, data, earlier, progress), directory)
        self.spec = open_dhc(directory.release).spec

    def check_same(self, directory: RunDirectory) -> None:
        """What goes on is what began, but for where things lie on this machine."""
        began = open_dhc(directory.release).spec
        if self.spec.after(began.constraints).dump() != began.dump():
            raise UserError(
                "the configuration is not the one that this run began with",
                where=directory.root,
                remedy="resume with what the run began with, or start another in a new folder",
            )
        self.spec = began

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        _check_engine(choice)
        return choice

    def measure(self, work: Running) -> MeasuringRecord:
        """Estimation asks, and is answered: both are done here."""
        began, (name, private) = (
            datetime.now(UTC),
            entropy.stated(self.spec.run.entropy, self.spec.run.seed),
        )
        opened = open_dhc(work.directory.release)
        measuring = MeasuringDhc(opened, work.directory, work.accept_spent)
        with work.stages("measure and estimate"), executor(work.choice.workers) as pool:
            estimate = partial(opened.estimate, pool=pool, progress=work.progress)
            done = measure_and_estimate(opened, measuring, estimate)
        return MeasuringRecord(began, name, private, measuring.close(), (opened, measuring, done))

    def derive(self, work: Running, measured: MeasuringRecord) -> Derived:
        opened, _, done = measured.kept
        publish(opened, done, measured.privacy, work.stages, work.progress)
        certificates = {name: e.certificates for name, e in done.items()}
        return Derived({"certificates": certificates_json(certificates)})

    def evaluate(
        self, work: Running, measured: MeasuringRecord, derived: Derived
    ) -> Mapping[str, Any]:
        opened, measuring, done = measured.kept
        with work.stages("evaluate"):
            work.progress.stage("evaluate", None)
            truth = {u.name: measuring.truth(u) for u in opened.spec.universes}
            errors = _errors(opened, truth, {name: e.counts for name, e in done.items()})
            dhc_assessment.write(errors, work.directory, self.spec.run.private)
            self._write_page(errors, measured, work)
        return _beside(errors) | {"cost": cost(measured.privacy)}

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        """From the files of the run."""
        if areas is not None:
            raise UserError(
                "of the demographic file no areas are evaluated",
                where="--areas",
                remedy="leave it out",
            )
        directory.read_manifest()
        directory.require_truth()
        opened = open_dhc(directory.release)
        lowest = {
            u.name: truth_file.read(directory.truth_of(u.name)) for u in opened.spec.universes
        }
        published = dhc_files.read_counts(opened.folder, opened.spine)
        errors = _errors(
            opened,
            {name: upward(h, opened.spine) for name, h in lowest.items()},
            {name: h.upward(opened.spine) for name, h in published.items()},
        )
        dhc_assessment.write(errors, directory, self.spec.run.private)
        return _beside(errors) | {"rows": errors.queries}

    def outlook(self, stages: Stages, progress: Progress) -> tuple[Sequence[Size], IdleDraws]:
        raise NotImplementedError

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        return {"cost": cost(statement.read(directory.release))}

    def _write_page(
        self, errors: dhc_assessment.DhcErrors, measured: MeasuringRecord, work: Running
    ) -> None:
        spec, stages = self.spec, work.stages
        if spec.output.report:
            schema = spec.universe(PERSONS).schema
            about = facts(spec.run.name, schema, measured.privacy, stages.done)
            page = about | {"version": __version__, "digest": spec.digest}
            with stages.page("report", work.directory.report):
                text = dhc_errors_html(errors.figures, page, errors.odd, errors.queries)
                atomic.write_text(work.directory.report, text)


def _errors(
    opened: OpenedDhc, truth: Mapping[str, TrueHistograms], counts: Mapping[str, Any]
) -> dhc_assessment.DhcErrors:
    universes, spine = opened.spec.universes, opened.spine
    tree = MeasuredSpine.of(spine)
    measured = {u.name: (tree, u.plan) for u in universes}
    return dhc_assessment.found(truth, counts, spine.levels, measured)


def _beside(errors: dhc_assessment.DhcErrors) -> dict[str, Any]:
    """How the errors compare with those of the Bureau's run."""
    rows = [
        {"level": b.level, "units": b.n, "lines": b.lines, "our error / its": f"{b.ratio:.2f}"}
        for b in summaries(errors.figures)
    ]
    return {"beside": rows, "beside_title": _BESIDE}


def _check_engine(choice: EngineChoice) -> None:
    """Raises :class:`UserError` for one that shares out tasks: there are none."""
    if choice.name != LOCAL:
        raise UserError(
            "the demographic file is made by this machine",
            where="--engine",
            remedy="leave --engine out",
        )


def _folder(spec: DhcSpec, paths: Sequence[Path]) -> Path:
    named = list(paths) or [Path(p) for p in spec.data.path]
    if len(named) != 1:
        raise UserError(
            f"{len(named)} folders of records are named",
            where="data.path",
            remedy="give one folder with persons, households and units: --data FOLDER",
        )
    return named[0]


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
