"""What each stage of a run does with a task: the one place where ``das task`` looks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from das.engine.tasks import Answer, Work, answer_of, outcome
from das.errors import UserError
from das.files.run.board import Board
from das.files.run.run_directory import RunDirectory
from das.files.run.staged import attempt
from das.release import by_shard
from das.truth import by_shard as truth_by_shard
from das.truth import group_run

#: The work of each stage that is done by tasks, by its name.
STAGES: Mapping[str, Work] = {
    "measure": truth_by_shard.measure,
    "collect": by_shard.collect,
    "look": by_shard.look,
    "branch": by_shard.branch,
    "evaluate": truth_by_shard.evaluate,
    "groups": group_run.task,
}


def do(run: Path, stage: str, partition: str) -> Answer:
    """One task of the board of ``run``, in this process; its answer is on the board then.

    Raises:
        UserError: the run has ended, or there is no such task.
        DasError: what the task raised; if it sees the truth, without its words.
    """
    board = Board(run.resolve())
    if RunDirectory(run).manifest.exists():
        raise UserError(
            "this run has ended: nothing is left to do",
            where=run,
            remedy="das tasks lists what is left of a run",
        )
    task = board.task(stage, partition)
    if stage not in STAGES:
        raise UserError(
            f"this version of das has no stage {stage!r}",
            where=run,
            remedy="use the version that began the run",
        )
    return answer_of(
        task, outcome(partial(attempt, STAGES[stage]), task, board.is_confidential(stage))
    )
