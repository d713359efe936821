"""A run, on one screen: what the runs of all publications share.

    begin -> measure | -> derive -> evaluate -> manifest
        (truth ends here)

Which stages there are, and what they do, is the publication's (:mod:`das.making`). A run begins
once, and goes on from its folder: what is in it decides what is left to do. The manifest is its
last file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from das.engine import Progress, Silent, executor, refuse_within_import
from das.engine.choice import EngineChoice
from das.errors import RegisterError
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, refuse_lost
from das.files.run.run_directory import RunDirectory, refuse_to_resume
from das.files.run.staged import opened as opened_engine
from das.files.run.store_sync import StoreSync
from das.files.run.task_store import TaskStore
from das.making import maker_of
from das.making.work import DerivedOutputs, Maker, MeasuringRecord, RunContext, RunInput
from das.model.not_private import marked
from das.release.outcome import Outcome
from das.spec import RunSpec, Specification
from das.stages import Stages
from das.truth import beginning
from das.truth.prepared import Prepared
from das.truth.registering import RegisterOptions
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
    """Everything, from input to report. ``paths`` replace ``data.path``. A run that the machine has
    not the memory for is refused before anything is measured, but with ``ignore_memory``.

    The ``engine`` performs the tasks of a run that is cut into subtrees
    (:mod:`das.model.subtrees`); what is in one piece is done here, by its ``workers``.

    With ``resume`` a run in ``out`` that was interrupted goes on: measurements are kept, and
    what was being measured is the same draw again where its noise has a key or a seed. Otherwise
    its budget is spent: it is measured again, and both spendings stated, only with
    ``accept_spent``. A run that is finished stays as it is; where none was begun, ``resume`` is
    refused.

    With a ``store`` (a URL) the release is carried there, too, and what is confidential to the
    ``confidential_store``.

    With a ``register`` the run enters it before anything is measured. Where the cap of the register
    would be passed it is refused, and leaves no folder. A run that has entered goes on in its
    register, named or not."""
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
    with StoreSync.of(directory, store, confidential_store) as sync:
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
    with executor(1 if choice.automatic else choice.workers):
        pass  # a script that cannot have workers is refused before anything is read
    if resume:
        refuse_lost(directory.release)
        maker.check_same(directory)
    else:
        maker.begin(directory, choice, stages, progress)
    if directory.manifest.exists():
        TaskStore(directory.root).remove()
        private = bool(maker.spec.private)
        return Outcome(directory, was_finished=True, private=private, **maker.finished(directory))
    choice = maker.performed_by(choice, directory)
    return gone_on(maker, directory, choice, stages, progress, sync, accept_spent)


def gone_on(
    maker: Maker,
    directory: RunDirectory,
    choice: EngineChoice,
    stages: Stages,
    progress: Progress,
    sync: StoreSync | None = None,
    accept_spent: bool = False,
) -> Outcome:
    """A run that has begun, to its end."""
    sync = sync or StoreSync(directory)
    with directory.lock(), opened_engine(choice) as performing:
        work = RunContext(directory, choice, performing, stages, progress, accept_spent)
        measured = maker.measure(work)
        sync.measured(LedgerFile(directory.ledger).entries.files())
        derived = maker.derive(work, measured)
        sync.released()
        return concluded(maker, work, measured, derived)


def concluded(
    maker: Maker, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
) -> Outcome:
    """The end of a run: it is held against the truth, and its manifest is written."""
    found: Mapping[str, Any] = maker.evaluate(work, measured, derived)
    directory, spec, stages = work.directory, maker.spec, work.stages
    said = {
        "name": spec.run.name,
        "entropy": measured.entropy,
        "version": __version__,
        "spec_digest": spec.digest,
        "began": measured.began.isoformat(timespec="seconds"),
        "inputs": run_directory.read_json(directory.inputs)["inputs"],
        "stages": stages.done,
        **derived.said,
        "outputs": directory.digests(),
    }
    directory.write_manifest(marked(said, measured.private))
    TaskStore(directory.root).remove()  # nothing of it is needed any more
    return Outcome(
        directory, stages.seconds, tuple(stages.notes), private=measured.private, **found
    )


def run_prepared(spec: RunSpec, prepared: Prepared, out: Path, *, workers: int = 1) -> Outcome:
    """A run of counts whose input was read before, such as one of many on the same."""
    directory = RunDirectory(out)
    beginning.begin(spec, prepared, directory)
    maker = maker_of(spec, RunInput())
    choice = maker.performed_by(EngineChoice(workers=workers), directory)
    return gone_on(maker, directory, choice, Stages(), Silent())
