"""Counts over a tree, from records to the errors of a run.

    spec -> records -> histograms -> measurements | -> estimates -> rounded -> microdata -> tables
                                (truth ends here) |                                   -> evaluation

A run is an upper tree (the upper tree) and any number of subtrees below it
(:mod:`das.model.measured_spine`), none where it is small: then everything is done here, in one piece, and
else each stage is a task over some of the subtrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine import begin_loading
from das.engine.choice import EngineChoice
from das.engine.tasks import Progress
from das.evaluate.errors import size_rows
from das.files import atomic, machine
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory, check_inputs
from das.model.error_rows import ErrorRow, SizeRow
from das.publications.counts.report import ByPlace, by_place, html
from das.release.estimating import (
    PublishedEstimates,
    certificates_json,
    post_process,
    post_processed,
)
from das.release.opened import OpenedRelease, open_upper_tree
from das.release.prior_document import expected_size_bias
from das.report.answers import AnswerKey, LookUp
from das.report.facts import facts
from das.runs.protocol import (
    BudgetAxis,
    DerivedOutputs,
    InputOutlook,
    MeasuringRecord,
    RunContext,
    RunInput,
    performed_where_cut,
)
from das.size import Held, Size, refuse_beyond, sizes
from das.spec import RunSpec
from das.spec.notes import redundant_by_trees
from das.stages import Stages
from das.truth import by_subtree, run_setup
from das.truth.assessment import evaluate_run, write_sizes
from das.truth.measuring import check_configuration, check_sources
from das.truth.preparation import prepare
from das.truth.prepared import Prepared, TrueHistograms, over
from das.truth.run_setup import ResumeState
from das.version import __version__

# What a run of counts takes of a machine, when its input is known.


def sizes_of(spec: RunSpec, prepared: Prepared) -> list[Size]:
    """The memory and time that a run on this input takes. If the tree is cut, the memory is that of
    the upper tree or of the largest subtree, whichever is larger. The largest subtree stands for
    all others, and also tells how many cells are occupied in the upper tree."""
    if not len(prepared.subtrees):
        whole = prepared.whole()
        return sizes(
            spec, {name: tree.spine for name, tree in whole.trees.items()}, _held(whole.measured)
        )
    subtrees, spine = prepared.subtrees, prepared.spine
    blocks = np.diff(subtrees.lowest(spine))
    largest = int(blocks.argmax())
    a, b = subtrees.lowest(spine)[[largest, largest + 1]]
    counts = {name: prepared.rows(name, int(a), int(b)) for name in prepared.trees}
    trees = {
        name: subtrees.subtree_of(tree, spine, largest + 1) for name, tree in prepared.trees.items()
    }
    held = _held({name: over(tree, counts[name]) for name, tree in trees.items()})
    above = {name: tree.spine.truncated(subtrees.level) for name, tree in prepared.trees.items()}
    as_there = {
        name: {level: np.full(t.units(level), held[name][level].max()) for level in t.levels}
        for name, t in above.items()
    }
    upper_tree = sizes(spec, above, as_there, subtrees.levels(spine, 0))
    subtree = sizes(
        spec, {name: tree.spine for name, tree in trees.items()}, held, subtrees.levels(spine, 1)
    )
    return [
        replace(
            max(t, s, key=lambda size: size.memory),
            seconds=t.seconds + s.seconds * float(blocks.sum() / (b - a)),
        )
        for t, s in zip(upper_tree, subtree, strict=True)
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


class CountsMaker:
    """One run (:class:`das.runs.protocol.Maker`), or one of many of the same input
    (:class:`das.runs.protocol.SeriesMaker`)."""

    shares_noise = True

    def __init__(self, spec: RunSpec, given: RunInput) -> None:
        self.spec, self._given = spec, given

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        """Read and count; written down subtree by subtree."""
        prepared = prepare(self.spec, self._given.paths, stages, progress, threads=choice.workers)
        prepared = prepared if len(prepared.subtrees) else prepared.whole()
        if not self._given.ignore_memory:
            refuse_beyond(sizes_of(self.spec, prepared), choice.workers)
        with stages("begin"):
            progress.stage("begin", None)
            run_setup.begin(self.spec, prepared, directory)
        del prepared
        machine.give_back()

    def check_same(self, directory: RunDirectory) -> None:
        check_configuration(self.spec, directory)
        check_inputs(directory, self._given.paths)

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        choice = performed_where_cut(choice, directory)
        begin_loading(choice.workers)  # while this process measures
        return choice

    def measure(self, work: RunContext) -> MeasuringRecord:
        began = datetime.now(UTC)
        resume_state = ResumeState.read(work.directory)
        spec = self.spec.on(resume_state.unit_classes)
        with work.stages("measure"):
            privacy = by_subtree.measure_release(
                spec,
                resume_state,
                work.directory,
                work.engine,
                work.choice.size,
                work.progress,
                work.accept_spent,
            )
        return MeasuringRecord(began, privacy, (spec, resume_state))

    def derive(self, work: RunContext, measured: MeasuringRecord) -> DerivedOutputs:
        spec, _ = measured.kept
        made = post_process(
            work.directory.root, spec, work.engine, work.choice, work.stages, work.progress
        )
        return derived(made)

    def evaluate(
        self, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
    ) -> Mapping[str, Any]:
        """The errors; and, where pages are asked for, that of single places and of the errors."""
        (spec, resume_state), made = measured.kept, derived.kept
        upper_tree = replace(open_upper_tree(work.directory.release), spec=spec)
        beside = self._by_place(upper_tree, made.shown, work)
        with work.stages("evaluate"):
            rows = by_subtree.assess_release(
                spec,
                resume_state,
                work.directory,
                upper_tree,
                made.published,
                work.engine,
                work.choice.size,
                work.progress,
            )
        if beside is not None:
            self._write_page(upper_tree, made, measured, beside, rows, work)
        return {"rows": rows, "own_spine": self._has_own_spine, "settled": self.spec.settled}

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        return {
            "rows": evaluate_run(directory.root, areas=areas),
            "own_spine": self._has_own_spine,
            "settled": self.spec.settled,
        }

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        rows = {
            u.name: tallies.read_errors(directory.errors_of(u.name)) for u in self.spec.universes
        }
        return {"rows": rows, "own_spine": self._has_own_spine, "settled": self.spec.settled}

    @property
    def axis(self) -> BudgetAxis:
        """The budget of persons, in its currency; those of other universes move along."""
        plan = self.spec.persons.plan
        key = f"budget.{plan.mechanism.currency}"
        return BudgetAxis(plan.mechanism.currency, plan.cost, lambda b: (f"{key}={b}",))

    def read(self, progress: Progress) -> Prepared:
        return prepare(self.spec, self._given.paths, Stages(), progress).whole()

    def check_begun(self, read: Prepared, directory: RunDirectory) -> None:
        check_configuration(self.spec, directory)
        check_sources(read.sources, directory)

    def begin_on(self, read: Prepared, directory: RunDirectory, noise: RunDirectory | None) -> None:
        run_setup.begin(self.spec, read, directory, noise)

    def derive_in(
        self, pool: Executor, workers: int, work: RunContext, measured: MeasuringRecord
    ) -> Future[tuple[DerivedOutputs, Stages]]:
        return pool.submit(_derived, work.directory.root, workers)

    @property
    def _has_own_spine(self) -> bool:
        return self.spec.geography.spine == "optimized"

    def outlook(self, stages: Stages, progress: Progress) -> InputOutlook:
        prepared = prepare(self.spec, self._given.paths, stages, progress)
        spare = redundant_by_trees(self.spec, prepared.trees, prepared.spine)
        return InputOutlook(sizes_of(self.spec, prepared), spare)

    def _by_place(
        self, upper_tree: OpenedRelease, shown: LookUp | None, work: RunContext
    ) -> ByPlace | None:
        """What the confidential page has of single places, from the answers that the public one
        shows."""
        beside = None
        if shown is not None:
            with work.stages.page("errors by place", work.directory.report):
                work.progress.stage("errors by place", None)
                known = {
                    u.name: by_subtree.upper_tree_of(upper_tree, work.directory, u.name)[0]
                    for u in self.spec.universes
                }
                true = _true_answers(self.spec, shown, known)
                beside = by_place(shown, true, self._sizes(upper_tree, shown, true))
        return beside

    def _sizes(
        self, upper_tree: OpenedRelease, shown: LookUp, true: Mapping[AnswerKey, NDArray[np.int64]]
    ) -> list[SizeRow]:
        """Errors by size of the lowest units; where these were corrected, with the bias that was
        expected. None of a run that is cut, whose page does not reach them."""
        if len(upper_tree.cut):
            return []
        corrected = upper_tree.after.bias != "none"
        expected = expected_size_bias(upper_tree) if corrected else None
        total = shown.total(shown.universes[0], shown.spine.levels[-1])
        return size_rows(total.level, total.published[:, 0], true[total.key][:, 0], expected)

    def _write_page(
        self,
        upper_tree: OpenedRelease,
        made: PublishedEstimates,
        measured: MeasuringRecord,
        beside: ByPlace,
        rows: Mapping[str, Sequence[ErrorRow]],
        work: RunContext,
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
            own_spine=bool(upper_tree.own_spine),
        )
        page |= {"version": __version__, "digest": spec.digest}
        with stages.page("report", work.directory.report):
            work.progress.stage("report", None)
            others = {u: found for u, found in rows.items() if u != first.name}
            schemas = {u.name: u.schema for u in spec.universes}
            text = html(rows[first.name], page, others, beside, schemas, spec.settled)
            atomic.write_text(work.directory.report, text)
            if beside.sizes:
                write_sizes(work.directory, beside.sizes, private=spec.run.private)


def derived(made: PublishedEstimates) -> DerivedOutputs:
    """What post-processing made, for the end of a run."""
    return DerivedOutputs({"certificates": certificates_json(made.certificates)}, made)


def _derived(root: Path, workers: int) -> tuple[DerivedOutputs, Stages]:
    made, stages = post_processed(root, workers)
    return derived(made), stages


def _true_answers(
    spec: RunSpec, shown: LookUp, known: Mapping[str, TrueHistograms]
) -> dict[AnswerKey, NDArray[np.int64]]:
    """The true answer for every answer of the release that the report shows."""
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
