"""What the parts of a release tell each other while they are at work, and the tasks of a stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from das.engine.tasks import Task
from das.files.release import spine as spine_file
from das.model.universe import Universe

Messages = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class WorkFiles:
    """Where the parts of one release are: its folder, and the working folder through which parts
    exchange results.
    """

    root: Path

    @property
    def release(self) -> Path:
        return self.root / "release"

    @property
    def work(self) -> Path:
        return self.root / "work"

    def messages(self, subtree: int) -> Path:
        """The file of what a subtree knows about its units of the upper tree."""
        return self.work / "messages" / f"{subtree:05d}.npz"

    def leaves(self, subtree: int) -> Path:
        """With full information: the file of what a subtree's lowest units say about those above
        them, by universe.
        """
        return self.work / "leaves" / f"{subtree:05d}.npz"

    def upper_tree(self) -> Path:
        """What is published of the upper tree's lowest units, and known of them."""
        return self.work / "upper_tree.npz"

    def columns(self) -> Path:
        return self.work / "columns.json"

    def prior(self) -> Path:
        return self.work / "prior.json"

    def seen(self, subtree: int) -> Path:
        return self.work / "seen" / f"{subtree:05d}.npz"

    def published(self, subtree: int) -> Path:
        """What is published of a subtree's lowest units, by universe."""
        return self.work / "published" / f"{subtree:05d}.npz"

    def sums(self, subtree: int) -> Path:
        """The file of the subtree's sums for its units of the upper tree."""
        return self.work / "sums" / f"{subtree:05d}.npz"

    def microdata(self, u: Universe, subtree: int) -> Path:
        return self.work / "microdata" / u.kind.folder / f"{subtree:05d}"

    def rows(self, table: str, level: str, subtree: int) -> Path:
        """Lines of a published table."""
        return self.work / "tables" / f"{table}_{level}" / f"{subtree:05d}.csv"


def stage_tasks(work: WorkFiles, size: int, stage: str) -> list[Task]:
    """A stage of the run. Its partitions are consecutive subtrees that have at most ``size`` lowest
    units together (a larger subtree is alone). A release without subtrees has no partition.
    """
    weights = spine_file.read_sizes(work.release / "spine.parquet")
    if not weights:
        return []
    out, first, held = [], 1, 0
    for subtree, weight in enumerate(weights, 1):
        if held and held + weight > size:
            out.append(_task(work, stage, first, subtree - 1, held))
            first, held = subtree, 0
        held += weight
    return [*out, _task(work, stage, first, len(weights), held)]


def _task(work: WorkFiles, stage: str, first: int, last: int, weight: int) -> Task:
    return Task(work.root, stage, f"{first:05d}-{last:05d}", (first, last), weight)


def subtrees_of(task: Task) -> range:
    return range(task.subtrees[0], task.subtrees[1] + 1)
