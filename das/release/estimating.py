"""Everything after measurement, as one piece of work: for a run that continues, or for a release
that somebody published.

Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from das.engine import InProcess, Progress, Silent, executor
from das.engine.choice import EngineChoice
from das.engine.local import LocalEngine
from das.engine.tasks import Engine
from das.files import atomic
from das.files.release import statement
from das.files.run.ledger import LedgerFile
from das.files.run.stage_tasks import perform
from das.model.histogram import Histogram
from das.model.not_private import marked
from das.model.post_processing import BiasCorrection
from das.model.release import Release
from das.model.solution import Certificates
from das.model.spine import Spine
from das.release import dictionary, prior_document
from das.release import page as release_report
from das.release.opened import OpenedRelease, open_part, open_release, open_upper_tree
from das.release.post_processing import estimate, publish
from das.release.precision import ResidualSums, misfits, residual_sums
from das.release.prior_document import WorkFiles, stage_tasks
from das.release.seal import seal
from das.report.answers import LookUp
from das.spec import Spec
from das.stages import Stages

MISFITS = "worse-than-measured.json"  #: in a release: see :mod:`das.release.precision`
WORSE = "worse_than_measured"  #: the list in it


@dataclass(frozen=True, eq=False)
class PublishedEstimates:
    """What post-processing makes: published histograms and certificates, by universe and level; and
    what its page shows, where it has one, for another page of the same."""

    published: Mapping[str, Mapping[str, Histogram]]
    certificates: Mapping[str, Mapping[str, Certificates]]
    shown: LookUp | None


def post_processed(root: Path, workers: int) -> tuple[PublishedEstimates, Stages]:
    """Everything after measurement of one run without subtrees, as one piece of work for another
    process."""
    stages = Stages()
    with LocalEngine(workers) as engine:
        choice = EngineChoice(workers=workers)
        spec = open_release(root / "release").spec
        return post_process(root, spec, engine, choice, stages, Silent()), stages


def post_process(
    root: Path, spec: Spec, engine: Engine, choice: EngineChoice, stages: Stages, progress: Progress
) -> PublishedEstimates:
    """Estimate and round the release in the folder ``release`` of ``root``, and write the published
    files.

    The ``engine`` of this ``choice`` runs the tasks of the subtrees. The upper tree is estimated in
    this process, and so is a tree without subtrees. ``spec`` has the classes of units."""
    work = WorkFiles(root)
    opened = replace(open_upper_tree(work.release), spec=spec)
    if len(opened.cut):
        return _of_subtrees(work, opened, engine, choice, stages, progress)
    return _whole(opened, choice, stages, progress)


def _estimated(
    opened: OpenedRelease, choice: EngineChoice, progress: Progress
) -> dict[str, Release]:
    """By universe: side by side, unless persons bound housing units. The pool ends with the
    estimates, so that its memory is free for the next step and counted in the record of the stage."""
    out, universes, results = opened.folder, opened.after.universes, dict[str, Release]()
    # threads end after the pool: when it is stopped, so is what they wait for
    with ThreadPoolExecutor() as aside, executor(choice.workers) as pool:
        if choice.workers > 1 and opened.after.occupied == "measured":
            waiting = {
                u.name: aside.submit(estimate, opened, u, pool, Silent() if i else progress, out)
                for i, u in enumerate(universes)
            }
            return {name: found.result() for name, found in waiting.items()}
        for u in universes:
            results[u.name] = estimate(opened, u, pool, progress, out, done=results)
    return results


def _whole(
    opened: OpenedRelease, choice: EngineChoice, stages: Stages, progress: Progress
) -> PublishedEstimates:
    """Estimate a release without subtrees."""
    out, universes = opened.folder, opened.after.universes
    with stages("estimate and round"):
        results = _estimated(opened, choice, progress)
    certificates = {name: r.certificates for name, r in results.items()}
    with ThreadPoolExecutor(1) if choice.workers > 1 else InProcess() as aside:
        with stages("microdata and tables"):
            made = {
                u.name: aside.submit(publish, opened, u, results[u.name], out, progress)
                for u in universes
            }
        with stages("residuals"):
            sums = [
                s
                for u in universes
                for s in residual_sums(u, opened.source(u), results[u.name].histograms)
            ]
        with stages("microdata and tables"):
            published = {name: counts.result() for name, counts in made.items()}
    correction = results[opened.after.persons.name].correction
    return _described(
        opened, opened.spine, published, certificates, sums, correction, stages, progress
    )


def _of_subtrees(
    work: WorkFiles,
    opened: OpenedRelease,
    engine: Engine,
    choice: EngineChoice,
    stages: Stages,
    progress: Progress,
) -> PublishedEstimates:
    from das.release import by_subtree, prior_document  # most runs have none

    tasks = partial(stage_tasks, work, choice.size)
    with stages("collect"):
        said = perform(engine, by_subtree.collect, tasks("collect"), progress)
        by_subtree.write_columns(work, list(said.values()))
    with stages("upper tree"), executor(choice.workers) as pool:
        upper_tree = by_subtree.upper_tree(work, opened, pool, progress)
    correction = None
    if opened.after.bias != "none":
        with stages("disperse"):
            perform(engine, by_subtree.disperse, tasks("disperse"), progress)
            correction = prior_document.find_correction(work, opened)
    with stages("subtrees"):
        answers = list(
            perform(engine, by_subtree.estimate_subtrees, tasks("subtrees"), progress).values()
        )
    with stages("merge"):
        published = {u.name: by_subtree.sums(work, opened, u) for u in opened.after.universes}
        by_subtree.merge(work, opened, published, progress)
        certificates = by_subtree.certificates(answers, upper_tree)
        sums = by_subtree.residuals(opened, answers, upper_tree)
    whole = open_part(work.release, 1).spine
    return _described(opened, whole, published, certificates, sums, correction, stages, progress)


def _described(
    opened: OpenedRelease,
    spine: Spine,
    published: Mapping[str, Mapping[str, Histogram]],
    certificates: Mapping[str, Mapping[str, Certificates]],
    sums: Sequence[ResidualSums],
    correction: BiasCorrection | None,
    stages: Stages,
    progress: Progress,
) -> PublishedEstimates:
    """Write what describes a release: its dictionary (for a ``spine`` with all its levels), what is
    worse than measured, its page, and its seal."""
    out, after = opened.folder, opened.after
    assigned = {u.name: opened.assigned(u.name) for u in after.universes}
    atomic.write_text(
        out / dictionary.NAME, dictionary.text(after, spine, assigned, opened.own_spine)
    )
    if correction is not None:
        assumed = marked(prior_document.document(correction), after.private)
        atomic.write_json(out / prior_document.NAME, assumed)
    found = misfits(sums, sum(len(u.noise) for u in after.universes))
    atomic.write_json(out / MISFITS, marked({WORSE: [asdict(m) for m in found]}, after.private))
    shown = None
    if after.report:
        with stages.page("report of the release", out / release_report.NAME):
            progress.stage("report of the release", None)
            shown = release_report.shown(opened, published)
            release_report.write(opened, shown, out, found, correction)
    with stages("seal"):
        seal(out, statement.read(out), after.name, LedgerFile(out / "ledger.jsonl").entries.files())
    return PublishedEstimates(published, certificates, shown)


def certificates_json(certificates: Mapping[str, Mapping[str, Certificates]]) -> dict[str, Any]:
    """As the manifest has them."""
    return {u: {lv: asdict(c) for lv, c in levels.items()} for u, levels in certificates.items()}
