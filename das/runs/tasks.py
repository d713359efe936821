"""What each stage of a run does with a task: of stages that several publications have, here; of a
publication's own, where its specification says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from das.engine.tasks import Answer, Work, answer_of, outcome
from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.files.run.stage_tasks import attempt
from das.files.run.task_store import TaskStore
from das.release import by_subtree
from das.spec import load
from das.spec.parse import PUBLICATIONS
from das.truth import by_subtree as truth_by_subtree

#: The work of each common stage that is done by tasks, by its name, or what that begins with and a
#: dot.
STAGES: Mapping[str, Work] = {
    "measure": truth_by_subtree.measure,
    "collect": by_subtree.collect,
    "disperse": by_subtree.disperse,
    "subtrees": by_subtree.estimate_subtrees,
    "evaluate": truth_by_subtree.evaluate,
}


def do(run: Path, stage: str, partition: str) -> Answer:
    """One task of the task store of ``run``, in this process; its answer is on the task store then.

    Raises:
        UserError: the run has ended, or there is no such task.
        DasError: what the task raised; if it sees the truth, without its words."""
    task_store = TaskStore(run.resolve())
    if RunDirectory(run).manifest.exists():
        raise UserError(
            "this run has ended: nothing is left to do",
            where=run,
            remedy="das run tasks lists what is left of a run",
        )
    task, kind = task_store.task(stage, partition), stage.partition(".")[0]
    work = STAGES.get(kind) or _own(run).get(kind)
    if work is None:
        raise UserError(
            f"this version of das has no stage {stage!r}",
            where=run,
            remedy="use the version that began the run",
        )
    return answer_of(task, outcome(partial(attempt, work), task, task_store.is_confidential(stage)))


def _own(run: Path) -> Mapping[str, Work]:
    """The work of the stages that only the publication of this run has."""
    path = RunDirectory(run).release / "spec.toml"
    if not path.is_file():
        return {}
    spec = load(run_directory.read_text(path, "release specification"), where=str(path))
    return PUBLICATIONS.load_part(spec.publication(), "tasks") if spec.tasks else {}
