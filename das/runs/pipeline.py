"""A run on one screen: what the runs of all publications have in common.

    begin -> measure | -> derive -> evaluate -> manifest
        (truth ends here)

The publication defines the stages and what they do (:mod:`das.runs.protocol`). A run begins once, and
resumes from its folder: the files there decide what is left to do. The manifest is the last
file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from das.engine import Progress, Silent, begin_loading, executor, refuse_within_import
from das.engine.choice import EngineChoice
from das.errors import RegisterError, UserError
from das.files import kept_epsilons
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, refuse_lost
from das.files.run.run_directory import RunDirectory, refuse_to_resume
from das.files.run.stage_tasks import opened as opened_engine
from das.files.run.store_sync import StoreSync
from das.files.run.task_store import TaskStore
from das.model.not_private import marked
from das.register.entering import RegisterOptions
from das.release.outcome import Outcome
from das.runs.protocol import DerivedOutputs, Maker, MeasuringRecord, RunContext, RunInput, maker_of
from das.spec import RunSpec, Specification
from das.stages import Stages
from das.truth import run_setup
from das.truth.prepared import Prepared
from das.version import __version__


def run(
    spec: Specification,
    out: Path,
    *,
    paths: Sequence[Path] = (),
    workers: int = 1,
    engine: EngineChoice | None = None,
    progress: Progress | None = None,
    resume: bool = False,
    accept_spent: bool = False,
    ignore_memory: bool = False,
    store: str | None = None,
    confidential_store: str | None = None,
    register: RegisterOptions | None = None,
) -> Outcome:
    """The whole run, from input to report. ``paths`` replace ``data.path``. If the machine has too
    little memory, the run is refused before anything is measured, unless ``ignore_memory`` is set.

    The ``engine`` performs the tasks of a run that is cut into subtrees
    (:mod:`das.model.measured_spine`). A run in one piece is done here, by its ``workers``.

    ``resume`` continues an interrupted run in ``out``. Finished measurements are kept. Unfinished
    ones are the same draw again if their noise has a key or a seed. Otherwise their budget is
    spent: only with ``accept_spent`` are they measured again, and both spendings are stated. A
    finished run stays as it is. If no run was begun, ``resume`` is refused.

    With a ``store`` (a URL) the release is also copied there, and the confidential files to the
    ``confidential_store``.

    With a ``register`` the run is entered there before anything is measured. If the cap of the
    register would be passed, the run is refused, and leaves no folder. A run that was entered
    continues in its register, named or not."""
    kept_epsilons.use()
    refuse_within_import()
    progress, directory = progress or Silent(), RunDirectory(out)
    choice = engine or EngineChoice(workers=workers)
    maker = maker_of(spec, RunInput(tuple(paths), ignore_memory))
    if not resume:
        directory.refuse_if_taken()
        if register is not None:
            register.check_room([spec])
            directory = RunDirectory(out, register.link(spec).to_json())
    elif not directory.can_go_on():
        refuse_to_resume(directory.root)
    elif register is not None and not directory.manifest.exists():
        register.resume(directory, spec)
    with StoreSync.for_stores(directory, store, confidential_store) as sync:
        try:
            outcome = _made(maker, directory, choice, progress, sync, resume, accept_spent)
        except RegisterError:
            if not resume and not directory.ledger.exists():
                directory.remove()  # nothing was drawn, nor is it entered
            raise
        if store or confidential_store:
            with directory.lock():
                sync.finish(progress, directory.read_manifest()["outputs"])
    return outcome


def _made(
    maker: Maker,
    directory: RunDirectory,
    choice: EngineChoice,
    progress: Progress,
    sync: StoreSync,
    resume: bool,
    accept_spent: bool,
) -> Outcome:
    stages = Stages()
    asked = 1 if choice.automatic else choice.workers
    begin_loading(asked)
    if resume:
        refuse_lost(directory.release)
        maker.check_same(directory)
    else:
        maker.begin(directory, choice, stages, progress)
    try:
        with executor(asked):
            pass  # a script that cannot have workers is refused before anything is measured
    except UserError:
        if not resume:
            directory.remove()
        raise
    if directory.manifest.exists():
        TaskStore(directory.root).remove()
        private = bool(maker.spec.private)
        return Outcome(directory, was_finished=True, private=private, **maker.finished(directory))
    choice = maker.performed_by(choice, directory)
    return continue_run(maker, directory, choice, stages, progress, sync, accept_spent)


def continue_run(
    maker: Maker,
    directory: RunDirectory,
    choice: EngineChoice,
    stages: Stages,
    progress: Progress,
    sync: StoreSync | None = None,
    accept_spent: bool = False,
) -> Outcome:
    """Continue a run that has begun to its end."""
    sync = sync or StoreSync(directory)
    with directory.lock(), opened_engine(choice) as performing:
        work = RunContext(directory, choice, performing, stages, progress, accept_spent)
        measured = maker.measure(work)
        sync.measured(LedgerFile(directory.ledger).entries.files())
        derived = maker.derive(work, measured)
        sync.released()
        return finish_run(maker, work, measured, derived)


def finish_run(
    maker: Maker, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
) -> Outcome:
    """The end of a run: compare it with the truth, and write its manifest."""
    found: Mapping[str, Any] = maker.evaluate(work, measured, derived)
    directory, spec, stages, privacy = work.directory, maker.spec, work.stages, measured.privacy
    said = {
        "name": spec.run.name,
        "entropy": privacy.entropy,
        "version": __version__,
        "spec_digest": spec.digest,
        "began": measured.began.isoformat(timespec="seconds"),
        "inputs": run_directory.read_json(directory.inputs)["inputs"],
        "stages": stages.done,
        **derived.said,
        "outputs": directory.digests(),
    }
    directory.write_manifest(marked(said, privacy.private))
    TaskStore(directory.root).remove()  # nothing of it is needed any more
    notes = tuple(stages.notes)
    return Outcome(directory, stages.seconds, notes, private=privacy.private, **found)


def run_prepared(spec: RunSpec, prepared: Prepared, out: Path, *, workers: int = 1) -> Outcome:
    """A run of counts whose input is already read, such as one of many on the same input."""
    directory = RunDirectory(out)
    run_setup.begin(spec, prepared, directory)
    maker = maker_of(spec, RunInput())
    choice = maker.performed_by(EngineChoice(workers=workers), directory)
    return continue_run(maker, directory, choice, Stages(), Silent())
