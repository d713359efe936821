"""A run of the demographic file, on one screen.

    (earlier release), linked records -> histograms -> answers on request <-> estimates | ->
    microdata -> tables
                                                             (truth ends here)          |      ->
                                                             evaluation -> report

Persons, units and households, in this order: households rest on what was estimated of units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from das.accounting.document import Document
from das.engine import Progress, Silent, executor, refuse_within_import
from das.errors import UserError
from das.files import atomic
from das.files.release import statement, tied
from das.files.release.adoption import adopt, check_taken
from das.files.run import run_directory
from das.files.run.ledger import digests
from das.files.run.run_directory import RunDirectory
from das.model.measured_spine import MeasuredSpine
from das.model.not_private import marked
from das.release.dhc import SPEC, EstimatedDhc, OpenedDhc, open_dhc
from das.release.dhc_publishing import publish
from das.release.estimating import certificates_json
from das.release.seal import seal
from das.report.dhc_errors import LevelSummary, dhc_errors_html, summaries
from das.report.facts import facts
from das.spec import DhcSpec
from das.spec.dhc import PERSONS
from das.spec.dhc_relations import BEGINS
from das.stages import Stages
from das.truth import dhc_assessment
from das.truth.dhc import EarlierRelease, prepare
from das.truth.dhc_measuring import MeasuringDhc, begin, measure_and_estimate
from das.version import __version__


@dataclass(frozen=True)
class DhcOutcome:
    """What a run has written, by level how its errors compare with the Bureau's (without the truth
    none), and sentences on what changes of records ``cost``, in this release and together with the
    one that it rests on. ``was_finished``: nothing was left to do; ``notes``: pages that could not
    be made."""

    directory: RunDirectory
    spec: DhcSpec
    seconds: float
    was_finished: bool = False
    beside: Sequence[LevelSummary] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    cost: Sequence[str] = field(default=(), repr=False)


def run_dhc(
    spec: DhcSpec,
    out: Path,
    *,
    paths: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
    resume: bool = False,
    accept_spent: bool = False,
) -> DhcOutcome:
    """Everything, from linked records to tables in ``out``. ``paths`` replace ``data.path``. With
    ``resume`` a run in ``out`` that was interrupted goes on (:func:`das.pipeline.run`)."""
    refuse_within_import()
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    if resume and not directory.inputs.exists():
        run_directory.refuse_to_resume(directory.root)
    if not resume:
        directory.refuse_if_taken()
        with stages("read"):
            progress.stage("read", None)
            data = _folder(spec, paths)
            earlier = EarlierRelease.read(_earlier(spec), spec)
            begin(prepare(spec, data, earlier, progress), directory)
    opened = open_dhc(directory.release)
    if resume:
        _check_same(spec, opened)
    if directory.manifest.exists():
        return DhcOutcome(
            directory, opened.spec, 0.0, True, cost=_cost(statement.read(directory.release))
        )
    with directory.held():
        measuring = MeasuringDhc(opened, directory, accept_spent)
        with stages("measure and estimate"), executor(workers) as pool:
            done = measure_and_estimate(
                opened, measuring, partial(opened.estimate, pool=pool, progress=progress)
            )
        privacy = measuring.close()
        publish(opened, done, privacy, stages, progress)
        with stages("evaluate"):
            progress.stage("evaluate", None)
            beside = _assess(opened, measuring, done, directory, privacy, stages)
        directory.write_manifest(
            marked(
                {
                    "name": opened.spec.run.name,
                    "entropy": privacy.entropy,
                    "version": __version__,
                    "spec_digest": opened.spec.digest,
                    "stages": stages.done,
                    "certificates": certificates_json(
                        {name: e.certificates for name, e in done.items()}
                    ),
                    "inputs": run_directory.read_json(directory.inputs)["inputs"],
                    "outputs": directory.digests(),
                },
                opened.spec.run.private,
            )
        )
    return DhcOutcome(
        directory,
        opened.spec,
        stages.seconds,
        beside=beside,
        notes=tuple(stages.notes),
        cost=_cost(privacy),
    )


def _cost(privacy: Document) -> list[str]:
    return [s for s in privacy.says if s.startswith(BEGINS)]


def _assess(
    opened: OpenedDhc,
    measuring: MeasuringDhc,
    done: Mapping[str, EstimatedDhc],
    directory: RunDirectory,
    privacy: Document,
    stages: Stages,
) -> list[LevelSummary]:
    """Errors, and the page of them, in ``confidential/``."""
    us, spine, spec = opened.spec.universes, opened.spine, opened.spec
    tree = MeasuredSpine.of(spine)
    errors = dhc_assessment.found(
        {u.name: measuring.truth(u) for u in us},
        {name: e.counts for name, e in done.items()},
        spine.levels,
        {u.name: (tree, u.plan) for u in us},
    )
    dhc_assessment.write(errors, directory, spec.run.private)
    if spec.output.report:
        about = facts(spec.run.name, spec.universe(PERSONS).schema, privacy, stages.done)
        page = about | {"version": __version__, "digest": spec.digest}
        with stages.page("report", directory.report):
            atomic.write_text(
                directory.report, dhc_errors_html(errors.figures, page, errors.odd, errors.queries)
            )
    return summaries(errors.figures)


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


def _check_same(spec: DhcSpec, opened: OpenedDhc) -> None:
    """What goes on is what began, but for where things lie on this machine."""
    if spec.after(opened.spec.constraints).dump() != opened.spec.dump():
        raise UserError(
            "the configuration is not the one that this run began with",
            where=opened.folder.parent,
            remedy="resume with what the run began with, or start another in a new folder",
        )


def estimate_dhc_from(
    release: Path, out: Path, *, workers: int = 1, progress: Progress | None = None
) -> DhcOutcome:
    """Everything after measurement, from the files of a release alone: the same numbers.
    ``out/release`` is a whole release.
    """
    refuse_within_import()
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    opened, privacy = open_dhc(release), statement.read(release)
    directory.refuse_if_taken()
    directory.create(confidential=False)
    with directory.whole_or_nothing():
        adopt(release, directory.release, [SPEC, *(tied.name(name) for name in opened.tied)])
        check_taken(release, digests(directory.release), privacy)
        privacy = seal(
            directory.release, privacy, opened.spec.run.name
        )  # the page of the release refers to its page
        with stages("estimate"), executor(workers) as pool:
            done: dict[str, EstimatedDhc] = {}
            for u in opened.spec.universes:
                done[u.name] = opened.estimate(u, opened.source(u), done, pool, progress)
        publish(replace(opened, folder=directory.release), done, privacy, stages, progress)
        directory.write_manifest(
            marked(
                {
                    "name": opened.spec.run.name,
                    "release": str(release.resolve()),
                    "version": __version__,
                    "spec_digest": opened.spec.digest,
                    "stages": stages.done,
                    "certificates": certificates_json(
                        {name: e.certificates for name, e in done.items()}
                    ),
                    "outputs": directory.digests(),
                },
                opened.spec.run.private,
            )
        )
    return DhcOutcome(
        directory, opened.spec, stages.seconds, notes=tuple(stages.notes), cost=_cost(privacy)
    )
