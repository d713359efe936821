"""A DHC run that is cut into an upper tree and subtrees (:mod:`das.model.measured_spine`). It measures
and estimates subtree by subtree, one universe after the other.

    ask (each subtree) -> upper tree -> subtrees (each subtree)

``ask`` measures what lies below the upper tree's lowest units (:mod:`das.estimate.pooled`). The
upper tree is estimated with that. Then each subtree is estimated from its units of the upper tree
down to the lowest level, and writes its answers and its estimates. Estimation requests
measurements, so these tasks see the truth, each only that of its subtree. An answer is a function
of its coordinates, so two tasks that request the same coordinate get the same answer
(:mod:`das.noise.coordinates`).

``das estimate --from`` estimates the whole tree in one piece from the written measurements, with
the same result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import Answer, Engine, Task, Work
from das.errors import PrivacyError
from das.estimate.estimator_process import PartOutline
from das.estimate.outer import FromSubtrees, OuterEstimates, RefinedEstimates
from das.estimate.prior import joined_prior
from das.files import messages
from das.files.messages import named, parted
from das.files.run import task_store
from das.files.run.ledger import LedgerFile, MeasuredPart
from das.files.run.run_directory import RunDirectory
from das.files.run.stage_tasks import perform
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.measurement import RecordingSource
from das.model.solution import Certificates
from das.publications.dhc.release import OpenedDhc, open_dhc
from das.publications.dhc.spec import DhcUniverse
from das.publications.dhc.truth.measuring import MeasuringDhc, answering, attempt_at, written
from das.publications.dhc.truth.oracle import AnsweredPart, OnDemandMeasurement, Oracle, refused
from das.release.prior_document import Messages, WorkFiles, stage_tasks, subtrees_of
from das.truth.by_subtree import unaltered
from das.truth.prepared import over

ASK, SUBTREES = "ask", "subtrees-dhc"
Ints = NDArray[np.int64]


def stage(step: str, universe: DhcUniverse, attempt: int) -> str:
    """The name of a stage in the task store, for one universe and one attempt at it. Another
    attempt has other answers."""
    return f"{step}.{universe.name}.{attempt}"


def _message(root: Path, name: str, subtree: int) -> Path:
    return WorkFiles(root).work / name / f"{subtree:05d}.npz"


@dataclass(frozen=True, eq=False, repr=False)
class SubtreeOracle(NoRepr):
    """One universe of a subtree: it answers requests at the levels below the upper tree, and
    remembers the answers."""

    opened: OpenedDhc
    u: DhcUniverse
    by: OnDemandMeasurement
    said: RecordingSource

    @staticmethod
    def from_folder(root: Path, universe: str, subtree: int, attempt: int) -> SubtreeOracle:
        """Raises :class:`PrivacyError` if this is not the last attempt in the ledger. Raises
        :class:`ReleaseError` if the truth is not the one that the run began with."""
        directory = RunDirectory(root)
        opened = open_dhc(directory.release, subtree)
        budget_book = LedgerFile(directory.ledger).entries
        u = opened.spec.universe(universe)
        if attempt_at(u, opened.spine.levels, budget_book) != attempt:
            raise PrivacyError(
                f"{universe} are measured again: this attempt is given up",
                where=directory.ledger,
                remedy="resume the run: it says how to continue",
            )
        known = over(opened.tree(u), unaltered(directory, universe, subtree))
        by = answering(opened, u, known, directory, budget_book, _paid_before)
        return SubtreeOracle(opened, u, by, RecordingSource(by))

    @property
    def part(self) -> AnsweredPart:
        """What can be asked of it."""
        spine = self.opened.tree(self.u).spine
        outline = PartOutline.from_source(
            self.said, spine, self.opened.levels, self.opened.part or 0
        )
        return AnsweredPart(outline, self.said)

    def requests(self) -> Messages:
        """What was requested, by level and query."""
        return {
            f"{level}:{m.query}": m.at
            for level in self.opened.levels
            for m in self.said.recorded(level)
            if len(m.at)
        }

    def ask(self, asked: Mapping[str, Ints]) -> None:
        """Repeat the requests of the upper tree, so that the subtree's files have the answers."""
        for name, at in asked.items():
            level, _, query = name.partition(":")
            self.said.answers(level, query, *np.divmod(at, self.said.shape(level, query)[1]))


def _paid_before(level: str) -> None:
    """A task pays nothing: the process that sent it keeps the budget book. Either the ledger has
    every draw of the attempt (:meth:`MeasuringDhc.pay_below`), or there is no noise for it."""
    del level


def _subtrees(task: Task) -> Iterable[tuple[int, SubtreeOracle]]:
    _, universe, attempt = task.stage.split(".")
    return (
        (i, SubtreeOracle.from_folder(task.run, universe, i, int(attempt)))
        for i in subtrees_of(task)
    )


def ask(task: Task) -> Answer:
    """Write what the subtrees of a partition know about the upper tree's lowest units."""
    out = []
    for number, subtree in _subtrees(task):
        opened = subtree.opened
        known = Oracle().known_below(subtree.part, opened.spec.estimation.most, opened.cut.level)
        out.append(_message(task.run, task.stage, number))
        messages.write(out[-1], known)
    return task_store.digests_made(task.run, out)


def estimate_subtrees(task: Task) -> Answer:
    """Estimate the subtrees of a partition, and write the measurements that they requested. The
    answer says which parts of the measurements have been written."""
    directory, parts, said, out = RunDirectory(task.run), list[MeasuredPart](), [], list[Path]()
    for number, subtree in _subtrees(task):
        opened, u = subtree.opened, subtree.u
        tree, (lowest, places) = opened.tree(u), opened.lowest
        given = messages.read(_given(task.run, task.stage, number))
        subtree.ask(parted(given, "asked"))
        homes = Histogram.of_arrays(parted(given, "homes")) if u.rests_on else None
        above = opened.cut.level, Histogram.of_arrays(parted(given, "above"))
        ties = opened.ties(u, homes, given["kinds"])
        problem = opened.problem(u, tree.spine, ties, above)
        found = opened.solved(u, problem, subtree.said, Oracle().estimated)
        parts += written(opened, u, subtree.said, subtree.by, directory)
        said.append({level: asdict(c) for level, c in found.certificates.items()})
        out.append(_message(task.run, task.stage, number))
        counts = tree.published(found.counts[lowest], places)
        result = named("counts", counts.to_arrays())
        if found.prior is not None:
            codes = tree.spine.codes[tree.spine.index(found.prior.level)]
            result |= named("prior", {"code": codes, **found.prior.to_arrays()})
        messages.write(out[-1], result)
    out += [directory.release / f for p in parts for f in p.files]
    return {"parts": [asdict(p) for p in parts], "subtrees": said} | task_store.digests_made(
        task.run, out
    )


def _given(root: Path, name: str, subtree: int) -> Path:
    """The path of what the head gives a subtree's estimation."""
    return _message(root, f"{name}.given", subtree)


@dataclass(frozen=True, eq=False, repr=False)
class DhcSubtrees(NoRepr):
    """The head of a run that is cut (:class:`das.publications.dhc.truth.measuring.BelowUpperTree`)."""

    opened: OpenedDhc
    measuring: MeasuringDhc
    root: Path
    engine: Engine
    size: int
    oracle: Oracle

    def estimated(
        self, universe: DhcUniverse, source: RecordingSource, done: Mapping[str, OuterEstimates]
    ) -> tuple[OuterEstimates, list[MeasuredPart]]:
        opened, attempt = self.opened, self.measuring.pay_below(universe)
        homes = opened.homes(universe, done)
        self._performed(ask, stage(ASK, universe, attempt))
        lower = _OfSubtrees(opened, self.root, universe, attempt)
        ties = opened.ties(universe, homes)
        problem = opened.problem(
            universe, opened.own(universe), ties, from_subtrees=lower.known_below()
        )
        solve = partial(self.oracle.estimated, parts=lower.part)
        found = opened.solved(universe, problem, source, solve)
        name = stage(SUBTREES, universe, attempt)
        for subtree in range(1, len(opened.cut) + 1):
            above = found.by_kind.some(np.flatnonzero(lower.home == subtree))
            given = {"kinds": ties.able} | named("above", above.to_arrays())
            given |= named("asked", lower.requests(subtree))
            if homes is not None:
                given |= named("homes", self._of_lowest(homes, subtree))
            messages.write(_given(self.root, name, subtree), given)
        answers = self._performed(estimate_subtrees, name)
        return self._joined(name, found, list(answers.values())), [
            MeasuredPart(**part) for a in answers.values() for part in a["parts"]
        ]

    def _performed(self, work: Work, name: str) -> dict[str, Answer]:
        tasks = stage_tasks(WorkFiles(self.root), self.size, name)
        return perform(self.engine, work, tasks, self.oracle.progress, confidential=True)

    def _of_lowest(self, counts: Histogram, subtree: int) -> Messages:
        a, b = self.opened.cut.lowest(self.opened.spine)[[subtree - 1, subtree]].tolist()
        return counts.rows(a, b).to_arrays()

    def _joined(
        self, name: str, upper_tree: RefinedEstimates, answers: list[Answer]
    ) -> OuterEstimates:
        """The estimates of the whole tree, joined from its subtrees."""
        subtrees = range(1, len(self.opened.cut) + 1)
        results = [messages.read(_message(self.root, name, i)) for i in subtrees]
        parts = [Histogram.of_arrays(parted(r, "counts")) for r in results]
        priors = [parted(r, "prior") for r in results]
        worst = dict(upper_tree.certificates)
        for level, c in (p for a in answers for said in a["subtrees"] for p in said.items()):
            worst[level] = worst.get(level, Certificates()).merge(Certificates.from_dicts(c))
        counts = Histogram.concatenate(parts).upward(self.opened.spine)
        prior = joined_prior(self.opened.spine, priors) if all(priors) else None
        return OuterEstimates(counts, worst, prior)


class _OfSubtrees(NoRepr):
    """What the subtrees of a universe know about the upper tree."""

    def __init__(self, opened: OpenedDhc, root: Path, universe: DhcUniverse, attempt: int) -> None:
        self._opened, self._root, self._u, self._attempt = opened, root, universe, attempt
        self._open: dict[int, SubtreeOracle] = {}
        units = opened.tree(universe).home_units(opened.cut.level, opened.spine)
        #: The subtree of each of the lowest units of the measured upper tree.
        self.home: Ints = np.searchsorted(opened.cut.starts, units, side="right")

    def known_below(self) -> FromSubtrees:
        """What they said of the lowest units, in the order of the upper tree."""
        name, number = stage(ASK, self._u, self._attempt), len(self._opened.cut)
        found = [messages.read(_message(self._root, name, i)) for i in range(1, number + 1)]
        order = np.argsort(np.argsort(self.home, kind="stable"), kind="stable")
        joined = {key: np.concatenate([f[key] for f in found])[order] for key in found[0]}
        variance, sums = parted(joined, "variance"), parted(joined, "sums")
        return FromSubtrees(self.home, joined["only"], variance, sums)

    def requests(self, subtree: int) -> Messages:
        """What the upper tree has requested from a subtree."""
        return self._open[subtree].requests() if subtree in self._open else {}

    def part(self, subtree: int) -> AnsweredPart:
        """A subtree that the upper tree asks about its only children."""
        if not 1 <= subtree <= len(self._opened.cut):
            raise refused(f"subtree {subtree}")
        if subtree not in self._open:
            self._open[subtree] = SubtreeOracle.from_folder(
                self._root, self._u.name, subtree, self._attempt
            )
        return self._open[subtree].part


#: The stages of this publication that tasks do.
TASKS = {ASK: ask, SUBTREES: estimate_subtrees}
