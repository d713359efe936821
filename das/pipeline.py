"""The stages, on one screen.

    spec -> records -> histograms -> measurements | -> estimates -> rounded -> microdata -> tables
                                (truth ends here) |                                   -> evaluation
                                -> report

A run that is small goes through them in one piece (:func:`run_prepared`); one that is large is cut
into shards, and each stage is a task over some of them, from files to files (:func:`_cut`).
``das.truth.preparation`` and ``das.truth.measuring`` see the truth; ``das.release.post`` cannot;
``das.truth.assessment`` sees both and writes only to ``confidential/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das import spec as specification
from das.engine import Progress, Silent, executor, refuse_within_import
from das.engine.choice import EngineChoice
from das.files import atomic, machine
from das.files.run import errors_csv, truth
from das.files.run.board import Board
from das.files.run.carrier import Carrier
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, refuse_to_resume
from das.files.run.staged import opened as opened_engine
from das.model.error_rows import ErrorRow
from das.model.not_private import marked
from das.model.source import Source
from das.release.estimating import Made, Outcome, certificates_json, post_process, post_process_cut
from das.release.post import open_part, open_release
from das.report import ByPlace, by_place, html
from das.report.answers import AnswerKey, Shown
from das.report.facts import facts
from das.size import Held, Size, refuse_beyond, sizes
from das.spec import RunSpec
from das.stages import Stages
from das.truth import by_shard
from das.truth.assessment import Assessed, assess
from das.truth.begun import Begun
from das.truth.histogram import over
from das.truth.measuring import (
    MeasuringRecord,
    begin,
    check_configuration,
    check_same,
    measure_release,
)
from das.truth.preparation import prepare
from das.truth.prepared import Prepared, TrueHistograms
from das.version import __version__


def run(
    spec: RunSpec,
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
) -> Outcome:
    """Everything, from input to report. ``paths`` replace ``data.path``. A run that the machine has
    not the memory for is refused before anything is measured, but with ``ignore_memory``.

    A run that is large is cut into a trunk and shards (:mod:`das.model.shards`); the ``engine``
    performs its stages as tasks. Any other is done here, by the ``workers`` of the engine.

    With ``resume`` a run in ``out`` that was interrupted goes on: what was measured is kept, and
    what was being measured is the same draw again where its noise has a key or a seed. Otherwise
    its budget is spent: it is measured again, and both spendings stated, only with
    ``accept_spent``. A run that is finished stays as it is; where none was begun, ``resume`` is
    refused.

    With a ``store`` (a URL) the release is carried there, too, and what is confidential to the
    ``confidential_store``."""
    refuse_within_import()
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    engine = engine or EngineChoice(workers=workers)
    if resume and not directory.can_go_on():
        refuse_to_resume(directory.root)
    if not resume:
        directory.refuse_if_taken()
    with Carrier.of(directory, store, confidential_store) as carrier:
        if resume and directory.manifest.exists():
            outcome = _finished(spec, directory)
        else:
            how = (resume, resume and accept_spent, ignore_memory)
            outcome = _run(spec, paths, directory, engine, stages, progress, carrier, *how)
        if store or confidential_store:
            with directory.held():
                carrier.finish(progress, directory.read_manifest()["outputs"])
    return outcome


def _run(
    spec: RunSpec,
    paths: Sequence[Path],
    directory: RunDirectory,
    engine: EngineChoice,
    stages: Stages,
    progress: Progress,
    carrier: Carrier,
    resume: bool,
    accept_spent: bool,
    ignore_memory: bool,
) -> Outcome:
    if resume and directory.begun.exists():
        check_configuration(spec, directory)
        return _cut(spec, directory, engine, stages, progress, carrier, accept_spent)
    with executor(engine.workers) as pool:
        prepared = prepare(spec, paths, stages, progress, threads=engine.workers)
        cut = bool(len(prepared.shards))
        prepared = prepared if cut else prepared.together()
        if not ignore_memory:
            refuse_beyond(sizes_of(spec, prepared), engine.workers)
        if not cut:
            if resume:
                check_same(spec, prepared, directory)
            return run_prepared(
                spec,
                prepared,
                directory,
                pool,
                stages,
                progress,
                carrier,
                resume=resume,
                accept_spent=accept_spent,
            )
        with stages("begin"):
            progress.stage("begin", None)
            by_shard.begin(spec, prepared, directory)
    del prepared
    machine.give_back()
    return _cut(spec, directory, engine, stages, progress, carrier)


def _cut(
    spec: RunSpec,
    directory: RunDirectory,
    choice: EngineChoice,
    stages: Stages,
    progress: Progress,
    carrier: Carrier,
    accept_spent: bool = False,
) -> Outcome:
    """A run that has begun, and is cut into shards: its stages as tasks over partitions."""
    begun = Begun.read(directory)
    spec = spec.on(begun.ways)
    with directory.held(), opened_engine(choice) as engine:
        measured = by_shard.measure_shards(
            spec, begun, directory, engine, choice.size, stages, progress, accept_spent
        )
        carrier.measured(LedgerFile(directory.ledger).entries.files())
        made = post_process_cut(directory.root, spec, engine, choice, stages, progress)
        carrier.released()
        trunk = open_part(directory.release, 0)
        with stages("evaluate"):
            rows = by_shard.assess_shards(
                spec, begun, directory, trunk, made.published, engine, choice.size, progress
            )
        beside = None
        if made.shown is not None:
            with stages.page("errors by place", directory.report):
                known = {
                    u.name: by_shard.trunk_of(trunk, directory, u.name)[0] for u in spec.universes
                }
                beside = by_place(made.shown, _true_answers(spec, made.shown, known))
        outcome = _written(
            spec,
            directory,
            measured,
            made,
            beside,
            rows,
            begun.sources,
            not trunk.apart,
            stages,
            progress,
        )
        Board(directory.root).remove()  # the manifest is there: nothing of it is needed any more
        return outcome


def sizes_of(spec: RunSpec, prepared: Prepared) -> list[Size]:
    """The memory and time that a run on this input takes. Of one that is cut, the memory of its
    trunk or of its largest shard, by which all others are told, and how many cells are there
    above."""
    if not len(prepared.shards):
        whole = prepared.together()
        return sizes(
            spec, {name: tree.spine for name, tree in whole.trees.items()}, _held(whole.measured)
        )
    shards, spine = prepared.shards, prepared.spine
    blocks = np.diff(shards.lowest(spine))
    largest = int(blocks.argmax())
    a, b = shards.lowest(spine)[[largest, largest + 1]]
    counts = {name: prepared.rows(name, int(a), int(b)) for name in prepared.trees}
    trees = {
        name: shards.shard_of(tree, spine, largest + 1) for name, tree in prepared.trees.items()
    }
    held = _held({name: over(tree, counts[name]) for name, tree in trees.items()})
    above = {name: tree.spine.truncated(shards.level) for name, tree in prepared.trees.items()}
    as_there = {
        name: {level: np.full(t.units(level), held[name][level].max()) for level in t.levels}
        for name, t in above.items()
    }
    trunk = sizes(spec, above, as_there, shards.levels(spine, 0))
    shard = sizes(
        spec, {name: tree.spine for name, tree in trees.items()}, held, shards.levels(spine, 1)
    )
    return [
        replace(
            max(t, s, key=lambda size: size.memory),
            seconds=t.seconds + s.seconds * float(blocks.sum() / (b - a)),
        )
        for t, s in zip(trunk, shard, strict=True)
    ]


def _held(counts: Mapping[str, TrueHistograms]) -> dict[str, Held]:
    """How many cells each unit has somebody in, by universe and level."""
    return {
        name: {
            level: np.diff(
                h.open("how many cells have somebody, for the memory that they take").indptr
            )
            for level, h in levels.items()
        }
        for name, levels in counts.items()
    }


def _finished(spec: RunSpec, directory: RunDirectory) -> Outcome:
    """A run that had ended, as its files say it; the manifest is written last. Nothing is done but
    what follows it.
    """
    check_configuration(spec, directory)
    Board(directory.root).remove()
    rows = {u.name: errors_csv.read(directory.errors_of(u.name)) for u in spec.universes}
    return Outcome(directory, rows, 0.0, was_finished=True, private=spec.run.seed is None)


def run_prepared(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    pool: Executor,
    stages: Stages,
    progress: Progress,
    carrier: Carrier | None = None,
    *,
    resume: bool = False,
    accept_spent: bool = False,
) -> Outcome:
    """Measure, then post-process, evaluate and report."""
    if not resume:
        begin(spec, prepared, directory)
    carrier = carrier or Carrier(directory)
    with directory.held():
        measured = measure_release(spec, prepared, directory, stages, progress, accept_spent)
        carrier.measured(LedgerFile(directory.ledger).entries.files())
        made = post_process(
            open_release(directory.release), directory.release, pool, stages, progress
        )
        carrier.released()
        made, beside = laid_out(spec, prepared, made, directory, stages, progress)
        return finish(spec, prepared, directory, measured, made, beside, stages, progress)


def laid_out(
    spec: RunSpec,
    prepared: Prepared,
    made: Made,
    directory: RunDirectory,
    stages: Stages,
    progress: Progress,
) -> tuple[Made, ByPlace | None]:
    """What the confidential page has of single places; and what was made without the answers that
    it was laid out from, the memory of which is free for the evaluation."""
    if made.shown is None:
        return made, None
    beside = None
    with stages.page("errors by place", directory.report):
        progress.stage("errors by place", None)
        beside = by_place(made.shown, _true_answers(spec, made.shown, prepared.truth))
    return replace(made, shown=None), beside


def finish(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    measured: MeasuringRecord,
    made: Made,
    beside: ByPlace | None,
    stages: Stages,
    progress: Progress,
) -> Outcome:
    """The end of a run: what post-processing made is held against the truth, and all is written
    down.
    """
    for name, levels in prepared.truth.items():
        truth.write(directory.truth_of(name), levels[prepared.spine.levels[-1]])
    with stages("evaluate"):
        held = Assessed(
            prepared.spine, prepared.trees, prepared.truth, made.published, prepared.areas
        )
        rows = assess(spec, directory, held, progress)
    alike = all(tree.alike for tree in prepared.trees.values())
    return _written(
        spec, directory, measured, made, beside, rows, prepared.sources, alike, stages, progress
    )


def _written(
    spec: RunSpec,
    directory: RunDirectory,
    measured: MeasuringRecord,
    made: Made,
    beside: ByPlace | None,
    rows: dict[str, list[ErrorRow]],
    sources: Sequence[Source],
    alike: bool,
    stages: Stages,
    progress: Progress,
) -> Outcome:
    """The page of the errors, and the manifest. ``alike``: what was measured is what is
    published.
    """
    privacy = measured.privacy
    if beside is not None:
        first = spec.persons.name
        page = facts(
            spec.run.name,
            spec.persons.schema,
            privacy,
            stages.done,
            {lv: c.estimation for lv, c in made.certificates[first].items()},
            apart=not alike,
        )
        page |= {"version": __version__, "digest": specification.digest(spec)}
        with stages.page("report", directory.report):
            progress.stage("report", None)
            others = {u: rs for u, rs in rows.items() if u != first}
            schemas = {u.name: u.schema for u in spec.universes}
            atomic.write_text(directory.report, html(rows[first], page, others, beside, schemas))
    directory.write_manifest(
        marked(
            {
                "name": spec.run.name,
                "entropy": measured.entropy,
                "version": __version__,
                "spec_digest": specification.digest(spec),
                "began": measured.began.isoformat(timespec="seconds"),
                "inputs": [asdict(s) for s in sources],
                "stages": stages.done,
                "certificates": certificates_json(made.certificates),
                "outputs": directory.digests(),
            },
            measured.private,
        )
    )
    return Outcome(directory, rows, stages.seconds, tuple(stages.notes), private=measured.private)


def _true_answers(
    spec: RunSpec, shown: Shown, known: Mapping[str, TrueHistograms]
) -> dict[AnswerKey, NDArray[np.int64]]:
    """The truth beside everything that the report shows of the release."""
    schemas = {u.name: u.schema for u in spec.universes}
    true = {
        (u, level): h.open("for the report in confidential/")
        for u, hs in known.items()
        for level, h in hs.items()
    }
    lowest = shown.spine.levels[-1]
    true |= {(u, a.kind): a.histogram(true[u, lowest]) for u in known for a in shown.areas}
    return {
        a.key: true[a.universe, a.level].answer(schemas[a.universe].query(a.query))
        for a in shown.answers
    }


def scaled(spec: RunSpec, budget: Fraction, name: str) -> RunSpec:
    """The same specification with another name and budget for persons; those of other universes
    move along.
    """
    currency = spec.persons.plan.mechanism.currency
    changes = (f"budget.{currency}={budget}", f"run.name={name}")
    return specification.parse(specification.dump(spec), where=name, overrides=changes)
