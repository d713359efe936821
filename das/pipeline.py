"""The stages, on one screen.

    spec -> records -> histograms -> measurements | -> estimates -> rounded -> microdata -> tables
                                (truth ends here) |                                   -> evaluation -> report

``das.preparation`` and ``das.measuring`` see the truth; ``das.post`` cannot; ``das.assessment`` sees both and writes
only to ``confidential/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das import __version__, release_report
from das import spec as specification
from das.assessment import Assessed, assess, truth_path
from das.engine import Progress, Silent, executor, refuse_within_import
from das.errors import ReleaseError, UserError
from das.files import errors_csv, published_layout, run_directory, truth
from das.files.run_directory import RunDirectory
from das.measuring import Measured, begin, check_configuration, check_same, measure_release
from das.model.histogram import Histogram
from das.model.not_private import marked
from das.model.release import Release
from das.model.result import ErrorRow
from das.model.universe import PERSONS
from das.post import Certificates, estimate, open_release, publish
from das.preparation import Prepared, Truth, prepare
from das.report import html
from das.report.answers import Key, Shown
from das.report.facts import facts
from das.report.privacy import privacy_page
from das.spec import RunSpec
from das.stages import Stages

#: What post-processing makes: published histograms and certificates, by universe and level.
Made = tuple[Mapping[str, Mapping[str, Histogram]], Mapping[str, Mapping[str, Certificates]]]


@dataclass(frozen=True)
class Outcome:
    """What a run has written, and how well it did (``rows`` by universe; empty without the truth). ``notes``: what
    of published files could not be taken over as it stands. ``was_finished``: this was to resume a run that had
    ended, and nothing was done."""

    directory: RunDirectory
    rows: Mapping[str, Sequence[ErrorRow]]
    seconds: float
    notes: tuple[str, ...] = ()
    was_finished: bool = False


def run(
    spec: RunSpec,
    out: Path,
    *,
    paths: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
    resume: bool = False,
    accept_spent: bool = False,
) -> Outcome:
    """Everything, from input to report. ``paths`` replace ``data.path``.

    With ``resume`` a run in ``out`` that was interrupted goes on: levels that were measured are kept. A level
    whose measuring was interrupted has spent its budget; it is measured again, and both spendings stated,
    only with ``accept_spent``. A run that is finished stays as it is.
    """
    refuse_within_import()
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    if resume and directory.release.exists() and not directory.ledger.exists():
        raise UserError("this run was interrupted before anything was drawn: there is nothing to resume",
                        where=directory.root, remedy="delete the folder and run again")  # fmt: skip
    resume = resume and directory.ledger.exists()
    if resume and directory.manifest.exists():
        return _finished(spec, directory)
    if not resume:
        directory.refuse_if_taken()
    with executor(workers) as pool:
        prepared = prepare(spec, paths, stages, progress)
        if resume:
            check_same(spec, prepared, directory)
        return run_prepared(
            spec, prepared, directory, pool, stages, progress, resume=resume, accept_spent=resume and accept_spent
        )


def _finished(spec: RunSpec, directory: RunDirectory) -> Outcome:
    """A run that had ended, as its files say it; the manifest is written last. Nothing is done."""
    check_configuration(spec, directory)
    rows = {u.name: errors_csv.read(directory.errors_of(u.name)) for u in spec.universes}
    return Outcome(directory, rows, 0.0, was_finished=True)


def run_prepared(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    pool: Executor,
    stages: Stages,
    progress: Progress,
    *,
    resume: bool = False,
    accept_spent: bool = False,
) -> Outcome:
    """Measure, then post-process, evaluate and report."""
    if not resume:
        begin(spec, prepared, directory)
    with directory.held():
        measured = measure_release(spec, prepared, directory, stages, progress, accept_spent)
        made = _post_process(directory.release, directory.release, pool, stages, progress)
        return finish(spec, prepared, directory, measured, made, stages, progress)


def finish(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    measured: Measured,
    made: Made,
    stages: Stages,
    progress: Progress,
) -> Outcome:
    """The end of a run: what post-processing made is held against the truth, and all is written down."""
    released, certificates = made
    privacy = measured.privacy
    for name, levels in prepared.truth.items():
        truth.write(truth_path(directory, name), levels[prepared.spine.levels[-1]])
    with stages("evaluate"):
        held = Assessed(prepared.spine, prepared.truth, released, prepared.areas)
        rows = assess(spec, directory, held, progress)
    if spec.output.report:
        page = facts(spec.run.name, spec.persons.schema.name, privacy, stages.done,
                     {lv: c.estimation for lv, c in certificates[PERSONS].items()})  # fmt: skip
        page |= {"version": __version__, "digest": specification.digest(spec)}
        with stages("report"):
            progress.stage("report", None)
            shown = release_report.shown(open_release(directory.release), released)
            true = _true_answers(spec, shown, prepared.truth)
            others = {u: rs for u, rs in rows.items() if u != PERSONS}
            run_directory.write_text(directory.report, html(rows[PERSONS], page, others, shown, true))
    directory.write_manifest(marked(
        {
            "name": spec.run.name,
            "entropy": measured.entropy,
            "version": __version__,
            "spec_digest": specification.digest(spec),
            "began": measured.began.isoformat(timespec="seconds"),
            "inputs": [asdict(s) for s in prepared.sources],
            "stages": stages.done,
            "certificates": _certificates(certificates),
            "outputs": directory.digests(),
        },
        measured.private,
    ))  # fmt: skip
    return Outcome(directory, rows, stages.seconds)


def estimate_from(release: Path, out: Path, *, workers: int = 1, progress: Progress | None = None) -> Outcome:
    """Everything after measurement, from the files of a release alone: of ours, or in the Bureau's layout."""
    refuse_within_import()
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    directory.refuse_if_taken()
    with executor(workers) as pool:
        return _estimate_from(release, directory, pool, stages, progress)


def _estimate_from(
    release: Path, directory: RunDirectory, pool: Executor, stages: Stages, progress: Progress
) -> Outcome:
    given = release
    if published_layout.is_published(release):
        progress.stage("convert", None)
        with stages("convert"):
            published_layout.convert(release, directory.release)
        release = directory.release
    elif not (release / "spec.toml").is_file():
        raise ReleaseError("this is no release: it has no spec.toml, and no folders <Level>.parquet", where=release,
                           remedy="give the folder release/ of a run, or noisy measurement files in the "
                                  "Bureau's layout")  # fmt: skip
    opened = open_release(release)
    if release == given:
        directory.create(confidential=False)
        directory.copy_from(release, "spec.toml", "privacy.json")
    privacy = run_directory.read_json(release / "privacy.json")
    run_directory.write_text(directory.release / "privacy.html", privacy_page(privacy, opened.spec.run.name))
    _, certificates = _post_process(release, directory.release, pool, stages, progress)
    source: dict[str, object] = {
        "name": opened.spec.run.name,
        "release": str(given),
        "spec_digest": specification.digest(opened.spec),
    }
    source |= {"version": __version__, "stages": stages.done,
               "certificates": _certificates(certificates), "outputs": directory.digests()}  # fmt: skip
    directory.write_manifest(marked(source, privacy["private"]))
    return Outcome(directory, {}, stages.seconds, tuple(privacy.get("notes", ())))


def post_processed(release: Path, workers: int) -> tuple[Made, Stages]:
    """Everything after measurement of one run, as one piece of work for another process."""
    stages = Stages()
    with executor(workers) as pool:
        return _post_process(release, release, pool, stages, Silent()), stages


def _post_process(
    release: Path, out: Path, pool: Executor, stages: Stages, progress: Progress
) -> tuple[dict[str, Mapping[str, Histogram]], dict[str, dict[str, Certificates]]]:
    opened = open_release(release)
    results: dict[str, Release] = {}
    certificates: dict[str, dict[str, Certificates]] = {}
    with stages("estimate and round"):
        for u in opened.spec.universes:
            results[u.name], certificates[u.name] = estimate(opened, u, pool, progress, out)
    with stages("microdata and tables"):
        for u in opened.spec.universes:
            publish(opened, u, results[u.name], out, progress)
    published = {name: r.histograms for name, r in results.items()}
    if opened.spec.output.report:
        with stages("report of the release"):
            progress.stage("report of the release", None)
            release_report.write(opened, release_report.shown(opened, published), out)
    return published, certificates


def _true_answers(spec: RunSpec, shown: Shown, known: Mapping[str, Truth]) -> dict[Key, NDArray[np.int64]]:
    """The truth beside everything that the report shows of the release."""
    schemas = {u.name: u.schema for u in spec.universes}
    return {
        a.key: known[a.universe][a.level]
        .open("for the report in confidential/")
        .answer(schemas[a.universe].query(a.query))
        for a in shown.answers
    }


def _certificates(certificates: Mapping[str, Mapping[str, Certificates]]) -> dict[str, dict[str, dict[str, object]]]:
    return {u: {lv: asdict(c) for lv, c in levels.items()} for u, levels in certificates.items()}


def scaled(spec: RunSpec, budget: Fraction, name: str) -> RunSpec:
    """The same specification with another name and budget for persons; those of other universes move along."""
    currency = spec.persons.plan.mechanism.currency
    changes = (f"budget.{currency}={budget}", f"run.name={name}")
    return specification.parse(specification.dump(spec), where=name, overrides=changes)
