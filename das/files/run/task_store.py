"""The task store of a run on disk: which tasks its stages have, which are done, and by whom.

Each stage has a folder ``<stage>/`` with ``plan.json`` (its partitions, their subtrees and
weights). In ``begun/``, ``answers/``, ``faults/`` and ``alarms/`` there is a file for each
partition; ``over`` appears when the run has moved on. The folder of a stage that sees the truth is
in ``confidential/work/``, because its answers depend on the truth; otherwise it is in ``work/``.
Every file appears whole. Anyone who has the folder can do a task, on any machine: resume,
``das run tasks`` and ``das run status`` read nothing else.

An answer is a function of the task. If two attempts answer differently, something is not
deterministic: noise would have been drawn twice. This raises an alarm, which stops the run and
stays.

An attempt that comes after the end of its stage, or its run, changes nothing. It does not begin,
and one already under way gives no file its name (:func:`das.files.atomic.attempt`)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from das.engine.tasks import Answer, Fault, Pace, Task
from das.errors import PrivacyError, ReleaseError, UserError
from das.files import atomic
from das.files.machine import peak
from das.files.run.run_directory import create_private, file_digest, read_json


@dataclass(frozen=True)
class AtWork:
    """Who has begun a task and has not answered. If it was killed, nobody knows."""

    partition: str
    host: str
    process: int
    began: datetime


@dataclass(frozen=True)
class Standing:
    """How far a stage is: tasks and what they weigh, done and in all. ``pace`` is of this attempt
    at the run."""

    stage: str
    done: int
    tasks: int
    pace: Pace
    weight_done: float
    weight: float
    at_work: tuple[AtWork, ...]
    faults: dict[str, Fault]
    seconds: float
    peak_mb: float

    @property
    def share(self) -> float:
        """What is done, by weight."""
        return self.weight_done / self.weight if self.weight else self.done / max(self.tasks, 1)


class TaskStore:
    """The task store of the run in ``root``. Nothing is kept in memory."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._folders = (self.root / "confidential" / "work", self.root / "work")

    # --- the plan

    def plan(self, tasks: Iterable[Task], *, confidential: bool = False) -> list[Task]:
        """Write down the tasks of a stage. A stage that has its plan keeps it, with other
        partitions too.

        Raises:
            ReleaseError: it has one, of other subtrees.
            ValueError: no tasks, or those of two stages, or two of one name."""
        given = list(tasks)
        stage, *others = {t.stage for t in given}
        if others or len({t.partition for t in given}) < len(given):
            raise ValueError(f"{stage}: not one stage, or a partition twice")
        folder = self._folders[0 if confidential else 1] / stage
        if self._plan(stage) is not None:
            planned = self.tasks(stage)
            if _subtrees(planned) != _subtrees(given):
                raise ReleaseError(
                    "the stage was begun with other subtrees",
                    where=folder / "plan.json",
                    remedy="go on with the input of before, or start a new run",
                )
        else:
            planned = given
        if confidential and not folder.parents[1].exists():
            create_private(folder.parents[1])
        (folder / "over").unlink(missing_ok=True)
        each = [
            {"partition": t.partition, "subtrees": t.subtrees, "weight": t.weight} for t in planned
        ]
        began = (self._plan(stage) or {}).get("began", _now())
        atomic.write_json(
            folder / "plan.json", {"stage": stage, "began": began, "opened": _now(), "tasks": each}
        )
        return planned

    def stages(self) -> list[str]:
        """Those that have begun, in this order."""
        found = [
            (read_json(p), p.parent.name) for f in self._folders for p in f.glob("*/plan.json")
        ]
        return [name for _, name in sorted((plan["began"], name) for plan, name in found)]

    def tasks(self, stage: str) -> list[Task]:
        """All of a stage, as planned. Raises :class:`UserError` where it has not begun."""
        plan = self._plan(stage)
        if plan is None:
            begun = self.stages()
            raise UserError(
                f"no stage {stage!r} has begun",
                where=self.root,
                remedy=(
                    f"name one of {', '.join(begun)}"
                    if begun
                    else "begin the run: das run ... --engine array"
                ),
            )
        try:
            return [
                Task(
                    self.root,
                    stage,
                    t["partition"],
                    (t["subtrees"][0], t["subtrees"][1]),
                    t["weight"],
                )
                for t in plan["tasks"]
            ]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ReleaseError(
                f"cannot be understood ({error})",
                where=self._folder(stage) / "plan.json",
                remedy="start a new run",
            ) from None

    def task(self, stage: str, partition: str) -> Task:
        """One of them. Raises :class:`UserError` where there is none of this name."""
        for task in self.tasks(stage):
            if task.partition == partition:
                return task
        raise UserError(
            f"stage {stage!r} has no partition {partition!r}",
            where=self.root,
            remedy="das run tasks shows what is left",
        )

    def is_confidential(self, stage: str) -> bool:
        """Whether its tasks see the truth."""
        return self._folder(stage).parent == self._folders[0]

    def end(self, stage: str) -> None:
        """End a stage, because the run moves on: its tasks change nothing from now on, until they
        are planned again."""
        atomic.write_bytes(self._folder(stage) / "over", b"")

    def is_over(self, stage: str) -> bool:
        """Whether it has no tasks to do: it has ended, or the run has, or it has not begun."""
        folder = self._folder(stage)
        return not (folder / "plan.json").is_file() or (folder / "over").exists()

    def refuse_late(self, task: Task) -> None:
        """Raises :class:`UserError` where its stage is over, or its run."""
        if self.is_over(task.stage):
            raise UserError(
                "comes too late: its stage is over, or its run",
                where=task,
                remedy="nothing is left to do of it",
            )

    # --- tasks

    def begin(self, task: Task) -> None:
        """Somebody is at work."""
        who = {"host": platform.node(), "process": os.getpid(), "began": _now()}
        atomic.write_json(self._file(task, "begun"), who)

    def write(self, task: Task, answer: Answer, seconds: float) -> None:
        """The task is done. Raises :class:`PrivacyError` if it was done before, with another
        answer."""
        value = {
            "answer": answer,
            "ended": _now(),
            "seconds": round(seconds, 3),
            "peak_mb": round(peak() / (1 << 20), 1),
            "host": platform.node(),
        }
        path, data = self._file(task, "answers"), (json.dumps(value) + "\n").encode()
        if not atomic.create(path, data):
            before = self.answer(task)
            if before is not None and before != json.loads(json.dumps(answer)):
                atomic.write_json(
                    self._file(task, "alarms"), {"ended": _now(), "host": platform.node()}
                )
                self.refuse_alarms()
            if before is None:  # what is there is no answer
                atomic.write_bytes(path, data)
        self._file(task, "faults").unlink(missing_ok=True)

    def refuse_alarms(self) -> None:
        """Raises :class:`PrivacyError` if two attempts at a task gave different answers, whichever
        process made them or noticed."""
        for path in sorted(p for f in self._folders for p in f.glob("*/alarms/*.json")):
            raise PrivacyError(
                "two attempts of a task gave different answers",
                where=f"{path.parents[1].name} {path.stem}",
                remedy=(
                    "nothing of this run may be published: its noise may have been drawn twice;"
                    " report it"
                ),
            )

    def answer(self, task: Task) -> Answer | None:
        """``None`` where it is not done, or what is there is torn."""
        found = self._record(task)
        return None if found is None else found["answer"]

    def answers(self, stage: str) -> dict[str, Answer]:
        """What is done of a stage, by partition, in the order of the plan."""
        found = {t.partition: self.answer(t) for t in self.tasks(stage)}
        return {partition: answer for partition, answer in found.items() if answer is not None}

    def left(self, stage: str) -> list[Task]:
        """What is to be done of a stage."""
        return [t for t in self.tasks(stage) if self._record(t) is None]

    def fail(self, task: Task, fault: Fault) -> None:
        """The task has raised."""
        atomic.write_json(self._file(task, "faults"), asdict(fault))

    def fault(self, task: Task) -> Fault | None:
        """What it raised when it was last done."""
        found = _read(self._file(task, "faults"))
        return None if found is None else Fault(**found)

    def forget_fault(self, task: Task) -> None:
        """It will be done again."""
        self._file(task, "faults").unlink(missing_ok=True)

    # --- how far it is

    def _at_work(self, tasks: Iterable[Task], opened: datetime) -> Iterator[AtWork]:
        """Those that somebody has begun since the run was ``opened``: who began before is gone."""
        for t in tasks:
            if b := _read(self._file(t, "begun")):
                began = datetime.fromisoformat(b["began"])
                if began >= opened:
                    yield AtWork(t.partition, b["host"], b["process"], began)

    def standing(self, stage: str) -> Standing:
        """How far a stage is, now."""
        tasks = self.tasks(stage)
        records = {t.partition: self._record(t) for t in tasks}
        done = {t.partition: r for t in tasks if (r := records[t.partition]) is not None}
        weights = {t.partition: t.weight for t in tasks}
        opened = datetime.fromisoformat((self._plan(stage) or {})["opened"])
        lately = {
            p: t for p, r in done.items() if (t := datetime.fromisoformat(r["ended"])) >= opened
        }
        until = (
            max(lately.values(), default=opened) if len(done) == len(tasks) else datetime.now(UTC)
        )
        left = [t for t in tasks if records[t.partition] is None]
        faults = {t.partition: f for t in left if (f := self.fault(t)) is not None}
        before = sum(w for p, w in weights.items() if p in done and p not in lately)
        return Standing(
            stage,
            len(done),
            len(tasks),
            Pace(
                sum(weights[p] for p in lately),
                sum(weights.values()) - before,
                (until - opened).total_seconds(),
            ),
            sum(weights[p] for p in done),
            sum(weights.values()),
            tuple(a for a in self._at_work(left, opened) if a.partition not in faults),
            faults,
            sum(r["seconds"] for r in done.values()),
            max((r["peak_mb"] for r in done.values()), default=0.0),
        )

    def remove(self) -> None:
        """The run has ended: nothing is left to do."""
        for folder in self._folders:
            atomic.remove_folder(folder)

    # --- files

    def _folder(self, stage: str) -> Path:
        return (
            next(
                (f for f in self._folders if (f / stage / "plan.json").is_file()), self._folders[1]
            )
            / stage
        )

    def _file(self, task: Task, kind: str) -> Path:
        return self._folder(task.stage) / kind / f"{task.partition}.json"

    def _plan(self, stage: str) -> dict[str, Any] | None:
        path = self._folder(stage) / "plan.json"
        return read_json(path) if path.is_file() else None

    def _record(self, task: Task) -> dict[str, Any] | None:
        found = _read(self._file(task, "answers"))
        whole = found is not None and found.keys() >= {
            "answer",
            "ended",
            "seconds",
            "peak_mb",
            "host",
        }
        return found if whole else None


def _subtrees(tasks: Iterable[Task]) -> set[int]:
    """All that they are of."""
    return {n for t in tasks for n in range(t.subtrees[0], t.subtrees[1] + 1)}


def _read(path: Path) -> dict[str, Any] | None:
    """The content of a file, or ``None`` if it is missing or cut off."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _now() -> str:
    return datetime.now(UTC).isoformat()


# What a task has made, in its answer: files by their path in the run, with their SHA-256.
#
# So a resumed run knows whether the files in the task store still exist: a file that was cut short,
# or lost with a disk, is made again.

MADE = "made"  #: the key of an answer


def digests_made(root: Path, paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    """For an answer: files, and all files in folders, of the run in ``root``."""
    files = (
        p
        for path in paths
        for p in ([path] if path.is_file() else sorted(path.rglob("*")))
        if p.is_file()
    )
    return {MADE: {p.relative_to(root).as_posix(): file_digest(p) for p in files}}


def is_whole(root: Path, answer: Answer) -> bool:
    """Whether all is there that it says was made."""
    files = ((root / path, sha256) for path, sha256 in answer.get(MADE, {}).items())
    return all(path.is_file() and file_digest(path) == sha256 for path, sha256 in files)
