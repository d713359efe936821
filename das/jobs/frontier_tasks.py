"""The tasks of a study: protect the records by a setting, and attack what is published of a group of
sampled places. Each goes from files to files of the study's folder, which is confidential, so that
a study continues wherever it was interrupted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import Answer, Task
from das.errors import UserError
from das.evaluate.protected import UsesAtLevels
from das.files import atomic, messages
from das.files.listing import files_below
from das.files.run import tallies
from das.files.run.run_directory import read_json, read_text
from das.jobs.frontier_scoring import GroupScores, measured, part, part_of
from das.jobs.frontier_study import FrontierPoint, ResolvedStudy, resolved_study
from das.jobs.frontier_topdown import TopDown
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.protect.study_records import StudyRecords
from das.truth import study_input

Ints = NDArray[np.int64]
#: Stages.
PROTECT, ATTACK = "protect", "attack"
#: Groups of sampled places: at most this many, so that a task is not much shorter than its reading.
GROUPS = 64


@dataclass(frozen=True)
class StudyFolder:
    """The files of a study."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "study.toml"

    @property
    def state(self) -> Path:
        """What all tasks share: digest, key and sample."""
        return self.root / "study.json"

    @property
    def records(self) -> Path:
        return self.root / "records.npz"

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing but what a study writes before its state."""
        own = [self.records, self.spec, self.state] if self.records.exists() else [self.records]
        names = {p.name for p in (*own, *map(atomic.draft_of, own))}
        return names.issuperset(files_below(self.root))

    @property
    def results(self) -> Path:
        return self.root / "results.csv"

    @property
    def page(self) -> Path:
        return self.root / "frontier.html"

    def published(self, point: str, group: int) -> Path:
        """Protected tables of a group, until it is attacked."""
        return self.root / "work" / point / f"{group}.npz"

    def scores(self, point: str, group: int) -> Path:
        return self.root / "scores" / point / f"{group}.npz"


@dataclass(frozen=True, eq=False)
class OpenStudy:
    """A study with its records, in one process."""

    folder: StudyFolder
    study: ResolvedStudy
    key: bytes
    groups: tuple[Ints, ...]
    spine: Spine
    truth: Histogram

    def points(self) -> dict[str, FrontierPoint]:
        return {p.name: p for p in self.study.points()}

    def key_of(self, point: FrontierPoint) -> bytes:
        """The same for all settings of one repeat: they differ by what they do, and not by
        chance."""
        return hashlib.sha256(self.key + f"repeat {point.repeat}".encode()).digest()


def opened(root: Path) -> OpenStudy:
    """The study in a folder; in each process it is opened once."""
    state = read_json(StudyFolder(root).state)
    return _opened(root, str(state["digest"]))


@lru_cache(maxsize=1)
def _opened(root: Path, digest: str) -> OpenStudy:
    folder = StudyFolder(root)
    state = read_json(folder.state)
    if state["digest"] != digest:  # another process has continued it with another study
        raise UserError("was changed while it was opened", where=root, remedy="start it again")
    study = resolved_study(read_text(folder.spec, "study"), str(folder.spec))
    known = study_input.load(folder.records, study.schema).open(
        "to score attacks on what is published about them; the scores stay in the study's folder"
    )
    groups = tuple(np.asarray(g, dtype=np.int64) for g in state["groups"])
    return OpenStudy(
        folder, study, bytes.fromhex(state["key"]), groups, known.spine, known.histogram()
    )


def grouped(sampled: Ints) -> list[list[int]]:
    """The groups of sampled places, in order."""
    return [g.tolist() for g in np.array_split(sampled, min(GROUPS, len(sampled)))]


# --- protect


def protect_tasks(of: OpenStudy, points: Sequence[FrontierPoint]) -> list[Task]:
    """Those of points with groups that are neither protected nor scored."""
    due = [
        p
        for p in points
        if any(
            not of.folder.scores(p.name, g).exists() and not of.folder.published(p.name, g).exists()
            for g in range(len(of.groups))
        )
    ]
    return [Task(of.folder.root, PROTECT, p.name, (0, len(of.groups) - 1), _effort(p)) for p in due]


def _effort(point: FrontierPoint) -> float:
    """TopDown takes by far the longest, so it begins first."""
    return 100.0 if isinstance(point.method, TopDown) else 1.0


def protect_task(task: Task) -> Answer:
    """Protect all records, and keep what is published of each group."""
    of = opened(task.run)
    point = of.points()[task.partition]
    records = study_input.load(of.folder.records, of.study.schema)
    tables = of.study.tables(point.also)
    level, sampled = of.study.spec.sample_level, np.concatenate(of.groups)
    on_sample = isinstance(point.method, TopDown)
    if on_sample:
        records = study_input.restricted(records, level, sampled)
    published = point.method.protect(records, tables, of.key_of(point))
    for g, units in enumerate(of.groups):
        if not of.folder.scores(point.name, g).exists():
            here = np.searchsorted(sampled, units) if on_sample else units
            arrays = part(published, level, here)
            arrays["others"] = np.array(published.tables is not tables)
            messages.write(of.folder.published(point.name, g), arrays, 0o600, small=True)
    return {"groups": len(of.groups)}


# --- attack


def attack_tasks(of: OpenStudy, points: Sequence[FrontierPoint]) -> list[Task]:
    """Those of groups without scores."""
    return [
        Task(of.folder.root, ATTACK, f"{p.name}.{g}", (g, g), float(len(units)))
        for p in points
        for g, units in enumerate(of.groups)
        if not of.folder.scores(p.name, g).exists()
    ]


def attack_task(task: Task) -> Answer:
    """Attack the tables of a group, and keep the scores instead of the tables."""
    of = opened(task.run)
    name, _, number = task.partition.rpartition(".")
    group = int(number)
    level, units = of.study.spec.sample_level, of.groups[group]
    path = of.folder.published(name, group)
    arrays = messages.read(path)
    uses = _uses(of, name, bool(arrays["others"]))
    published = part_of(arrays, of.spine, level, units, uses.tables)
    truth = of.truth.some(of.spine.kept(level, units)[-1])
    found = measured(published, truth, level, units, uses, of.study.intruder)
    tallies.write(of.folder.scores(name, group), found)
    atomic.remove_file(path)
    return {"group": group}


@lru_cache(maxsize=64)
def _uses(of: OpenStudy, name: str, others: bool) -> UsesAtLevels:
    """The tables that a point publishes, and what they answer. Those of a method that publishes
    others than it is asked for do not depend on the records: they are what it makes of nobody's."""
    point = of.points()[name]
    tables = of.study.tables(point.also)
    if others:
        nobody = np.zeros(0, dtype=np.int64)
        empty = StudyRecords(tables.schema, of.spine, nobody, nobody)
        tables = point.method.published(empty, tables, of.key_of(point)).tables
    return of.study.uses_of(tables, point.also)


def scores_of(of: OpenStudy, point: FrontierPoint) -> list[GroupScores]:
    """The scores of all groups of a point."""
    return [
        tallies.read(of.folder.scores(point.name, g), GroupScores) for g in range(len(of.groups))
    ]
