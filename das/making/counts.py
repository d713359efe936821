"""Counts over a tree, from records to the errors of a run.

    spec -> records -> histograms -> measurements | -> estimates -> rounded -> microdata -> tables
                                (truth ends here) |                                   -> evaluation

A run is an upper tree (the trunk) and any number of shards below it (:mod:`das.model.shards`), none
where it is small: then everything is done here, in one piece, and else each stage is a task over
some of the shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine.choice import LOCAL, EngineChoice
from das.engine.progress import Progress
from das.files import atomic, machine
from das.files.release import spine as spine_file
from das.files.run import errors_csv
from das.files.run.given_again import check_inputs
from das.files.run.run_directory import RunDirectory
from das.making.sizes import sizes_of
from das.making.work import Derived, MeasuringRecord, RunInput, Running
from das.model.error_rows import ErrorRow
from das.model.idle import IdleDraws
from das.noise import entropy
from das.release.estimating import Made, certificates_json, post_process
from das.release.post import Opened, open_trunk
from das.report import ByPlace, by_place, html
from das.report.answers import AnswerKey, Shown
from das.report.facts import facts
from das.size import Size, refuse_beyond
from das.spec import RunSpec
from das.spec.idle import found_on
from das.stages import Stages
from das.truth import by_shard
from das.truth.assessment import evaluate_run
from das.truth.begun import Begun
from das.truth.measuring import check_configuration
from das.truth.preparation import prepare
from das.truth.prepared import TrueHistograms
from das.version import __version__


class CountsMaker:
    """One run (:class:`das.making.work.Maker`)."""

    def __init__(self, spec: RunSpec, given: RunInput) -> None:
        self.spec, self._given = spec, given

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        """Read and count; written down shard by shard."""
        prepared = prepare(self.spec, self._given.paths, stages, progress, threads=choice.workers)
        prepared = prepared if len(prepared.shards) else prepared.together()
        if not self._given.ignore_memory:
            refuse_beyond(sizes_of(self.spec, prepared), choice.workers)
        with stages("begin"):
            progress.stage("begin", None)
            by_shard.begin(self.spec, prepared, directory)
        del prepared
        machine.give_back()

    def check_same(self, directory: RunDirectory) -> None:
        check_configuration(self.spec, directory)
        check_inputs(directory, self._given.paths)

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        """A run without shards has no tasks."""
        if spine_file.read_sizes(directory.release / "spine.parquet"):
            return choice
        return EngineChoice(LOCAL, choice.workers)

    def measure(self, work: Running) -> MeasuringRecord:
        began, (name, private) = (
            datetime.now(UTC),
            entropy.stated(self.spec.run.entropy, self.spec.run.seed),
        )
        begun = Begun.read(work.directory)
        spec = self.spec.on(begun.ways)
        with work.stages("measure"):
            privacy = by_shard.measure_release(
                spec,
                begun,
                work.directory,
                work.engine,
                work.choice.size,
                work.progress,
                work.accept_spent,
            )
        return MeasuringRecord(began, name, private, privacy, (spec, begun))

    def derive(self, work: Running, measured: MeasuringRecord) -> Derived:
        spec, _ = measured.kept
        made = post_process(
            work.directory.root, spec, work.engine, work.choice, work.stages, work.progress
        )
        return derived(made)

    def evaluate(
        self, work: Running, measured: MeasuringRecord, derived: Derived
    ) -> Mapping[str, Any]:
        """The errors; and, where pages are asked for, that of single places and of the errors."""
        (spec, begun), made = measured.kept, derived.kept
        trunk = replace(open_trunk(work.directory.release), spec=spec)
        beside = self._by_place(trunk, made.shown, work)
        with work.stages("evaluate"):
            rows = by_shard.assess_release(
                spec,
                begun,
                work.directory,
                trunk,
                made.published,
                work.engine,
                work.choice.size,
                work.progress,
            )
        if beside is not None:
            self._write_page(trunk, made, measured, beside, rows, work)
        return {"rows": rows, "apart": self._is_apart}

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        return {"rows": evaluate_run(directory.root, areas=areas), "apart": self._is_apart}

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        rows = {u.name: errors_csv.read(directory.errors_of(u.name)) for u in self.spec.universes}
        return {"rows": rows, "apart": self._is_apart}

    @property
    def _is_apart(self) -> bool:
        return self.spec.geography.spine == "optimized"

    def outlook(self, stages: Stages, progress: Progress) -> tuple[Sequence[Size], IdleDraws]:
        """What a run on this input takes, and which of its draws buy nothing."""
        prepared = prepare(self.spec, self._given.paths, stages, progress)
        spare = found_on(self.spec, prepared.trees, prepared.spine)
        return sizes_of(self.spec, prepared), spare

    def _by_place(self, trunk: Opened, shown: Shown | None, work: Running) -> ByPlace | None:
        """What the confidential page has of single places, from the answers that the public one
        shows.
        """
        beside = None
        if shown is not None:
            with work.stages.page("errors by place", work.directory.report):
                work.progress.stage("errors by place", None)
                known = {
                    u.name: by_shard.trunk_of(trunk, work.directory, u.name)[0]
                    for u in self.spec.universes
                }
                beside = by_place(shown, _true_answers(self.spec, shown, known))
        return beside

    def _write_page(
        self,
        trunk: Opened,
        made: Made,
        measured: MeasuringRecord,
        beside: ByPlace,
        rows: Mapping[str, Sequence[ErrorRow]],
        work: Running,
    ) -> None:
        """The page of the errors."""
        spec, first, stages = self.spec, self.spec.persons, work.stages
        solved = {level: c.estimation for level, c in made.certificates[first.name].items()}
        page = facts(
            spec.run.name,
            first.schema,
            measured.privacy,
            stages.done,
            solved,
            apart=bool(trunk.apart),
        )
        page |= {"version": __version__, "digest": spec.digest}
        with stages.page("report", work.directory.report):
            work.progress.stage("report", None)
            others = {u: found for u, found in rows.items() if u != first.name}
            schemas = {u.name: u.schema for u in spec.universes}
            text = html(rows[first.name], page, others, beside, schemas)
            atomic.write_text(work.directory.report, text)


def derived(made: Made) -> Derived:
    """What post-processing made, for the end of a run."""
    return Derived({"certificates": certificates_json(made.certificates)}, made)


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
