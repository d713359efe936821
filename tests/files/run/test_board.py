"""The board of a run: what is left is known after any kill, torn files are no answers, and two
answers are an alarm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from das.engine.choice import EngineChoice
from das.engine.local import LocalEngine
from das.engine.tasks import Answer, Fault, HandedOver, Task, answer_of, outcome
from das.errors import InputError, PrivacyError, ReleaseError, UserError
from das.files import atomic
from das.files.run.array import ArrayEngine
from das.files.run.board import Board
from das.files.run.staged import attempt, opened, perform
from tests.engine.stages import SECRET, brief, count, fail, linger, tasks, unsure
from tests.told import Told


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """With a stage of three partitions, which sees the truth."""
    found = Board(tmp_path)
    found.plan(tasks(tmp_path, "abc"), confidential=True)
    return found


def times(run: Path) -> Counter[str]:
    return Counter((run / "done.txt").read_text().split())


# --- plans and answers
# -------------------------------------------------------------------------------------------


def test_a_plan_is_read_back_as_it_was(board: Board) -> None:
    assert board.stages() == ["dummy"]
    assert board.tasks("dummy") == tasks(board.root, "abc")
    assert board.task("dummy", "b") == tasks(board.root, "abc")[1]
    assert board.left("dummy") == board.tasks("dummy")
    assert board.answers("dummy") == {}


def test_what_tells_of_the_truth_lies_with_it_and_else_beside_it(board: Board) -> None:
    assert board.is_confidential("dummy")
    board.plan(tasks(board.root, "xy", "later"))
    assert not board.is_confidential("later")
    for stage, p in (("dummy", "a"), ("later", "x")):
        attempt(brief, board.task(stage, p))
    lies = {p.relative_to(board.root).parts[0] for p in board.root.rglob("*dummy*")}
    assert lies == {"confidential"}
    assert {p.relative_to(board.root).parts[:2] for p in board.root.rglob("x.json")} == {
        ("work", "later")
    }
    assert (board.root / "confidential").stat().st_mode & 0o777 == 0o700
    assert board.stages() == ["dummy", "later"]


def test_a_stage_that_has_begun_keeps_its_partitions(board: Board) -> None:
    board.write(board.task("dummy", "a"), {"n": 1}, 1.0)
    (whole,) = [Task(board.root, "dummy", "all", (1, 3), 6.0)]
    assert board.plan([whole], confidential=True) == tasks(board.root, "abc")
    assert [t.partition for t in board.left("dummy")] == ["b", "c"]
    with pytest.raises(ReleaseError, match="other shards"):
        board.plan([Task(board.root, "dummy", "all", (1, 4))], confidential=True)


@pytest.mark.parametrize("names, stages", [("aa", "ss"), ("ab", "st"), ("", "")])
def test_what_is_no_stage_is_refused(tmp_path: Path, names: str, stages: str) -> None:
    with pytest.raises(ValueError):
        Board(tmp_path).plan(
            [Task(tmp_path, s, n, (1, 1)) for n, s in zip(names, stages, strict=True)]
        )
    assert not list(tmp_path.iterdir())


def test_what_is_not_on_the_board_is_said(board: Board) -> None:
    with pytest.raises(UserError, match=r"no stage 'measure' has begun[^\0]*dummy"):
        board.tasks("measure")
    with pytest.raises(UserError, match="no partition 'z'"):
        board.task("dummy", "z")
    with pytest.raises(UserError, match="begin the run"):
        Board(board.root / "elsewhere").tasks("dummy")


@pytest.mark.parametrize("torn", [b"", b'{"answer": {"n"', b"[]", b"{}", b"\xff"])
def test_a_torn_answer_is_none_and_is_written_again(board: Board, torn: bytes) -> None:
    task = board.task("dummy", "a")
    board.write(task, {"n": 1}, 1.0)
    (path,) = board.root.rglob("answers/a.json")
    path.write_bytes(torn)
    assert board.answer(task) is None
    assert task in board.left("dummy")
    board.write(task, {"n": 1}, 1.0)
    assert board.answer(task) == {"n": 1}


def test_a_torn_plan_is_said(board: Board) -> None:
    (path,) = board.root.rglob("plan.json")
    path.write_text('{"tasks": [{"partition"')
    with pytest.raises(ReleaseError, match=r"plan\.json"):
        board.tasks("dummy")


def test_the_same_answer_again_is_welcome_and_another_is_an_alarm(board: Board) -> None:
    task = board.task("dummy", "a")
    board.write(task, {"digest": "d", "shards": (1, 2)}, 1.0)
    (path,) = board.root.rglob("answers/a.json")
    before = path.read_bytes()
    board.write(task, {"digest": "d", "shards": (1, 2)}, 9.0)
    assert path.read_bytes() == before
    with pytest.raises(PrivacyError, match="two attempts"):
        board.write(task, {"digest": "e", "shards": (1, 2)}, 1.0)
    assert path.read_bytes() == before


def test_of_two_who_write_at_once_one_sees_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found nothing there: the name is given once all the same."""
    path = tmp_path / "a.json"
    link = os.link
    monkeypatch.setattr(os, "link", lambda a, b: (path.write_bytes(b"first"), link(a, b)))
    assert atomic.create(path, b"second") is False
    assert path.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_without_hard_links_an_answer_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", none)
    assert atomic.create(tmp_path / "a.json", b"x")
    assert not atomic.create(tmp_path / "a.json", b"y")
    assert (tmp_path / "a.json").read_bytes() == b"x"


# --- drafts
# ------------------------------------------------------------------------------------------------------


def test_two_attempts_write_drafts_of_their_own(tmp_path: Path) -> None:
    """Under one draft's name, the one would give the other's half-written file its true name."""
    with atomic.attempt(), atomic.file(tmp_path / "part") as mine:
        mine.write_text("whole")
        with atomic.attempt(), atomic.file(tmp_path / "part") as other:
            other.write_text("who")
            assert mine != other
            assert mine.read_text() == "whole"
            other.write_text("whole")
    assert [p.name for p in tmp_path.iterdir()] == ["part"]
    assert atomic.draft_of(tmp_path / "part").name == ".part.tmp"


def test_drafts_of_the_killed_are_cleared(tmp_path: Path) -> None:
    with atomic.attempt():
        atomic.draft_of(tmp_path / "part").write_text("half")
        (atomic.draft_of(tmp_path / "folder") / "in").mkdir(parents=True)
    (tmp_path / "part").write_text("whole")
    atomic.clear_drafts(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["part"]


# --- stages
# ------------------------------------------------------------------------------------------------------


def test_a_stage_is_performed_and_goes_on_with_what_is_left(tmp_path: Path) -> None:
    told, of = Told(), tasks(tmp_path, "abcd")
    board = Board(tmp_path)
    board.plan(of)
    for task in of[:2]:
        attempt(count, task)
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / ".part.0123.tmp").write_text("half")
    with LocalEngine(1) as engine:
        found = perform(engine, count, of, told)
        assert list(found) == ["a", "b", "c", "d"]
        assert {a["partition"] for a in found.values()} == set("abcd")
        assert perform(engine, count, of, Told()) == found
        assert perform(engine, count, [], Told()) == {}
    assert times(tmp_path) == Counter("abcd")
    assert not list((tmp_path / "release").iterdir())
    board.remove()
    assert not (tmp_path / "work").exists()


HEAD = """
import sys
from pathlib import Path
from das.engine.local import LocalEngine
from das.engine.progress import Silent
from das.files.run.staged import perform
from tests.engine.stages import linger, tasks
if __name__ == "__main__":
    with LocalEngine(int(sys.argv[2])) as engine:
        perform(engine, linger, tasks(Path(sys.argv[1]), "abc"), Silent(), confidential=True)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_head_that_is_killed_is_gone_on_with(tmp_path: Path, root: Path, workers: int) -> None:
    script = tmp_path / "head.py"
    script.write_text(HEAD)
    environment = os.environ | {"PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, script, tmp_path, str(workers)], env=environment
    ) as head:
        while not list(tmp_path.glob("*.pid")):
            assert head.poll() is None
        head.kill()
    (tmp_path / "enough").touch()
    board = Board(tmp_path)
    assert len(board.left("dummy")) == 3
    with LocalEngine(1) as engine:
        found = perform(engine, linger, tasks(tmp_path, "abc"), Told(), confidential=True)
    assert {a["pid"] for a in found.values()} == {os.getpid()}
    assert board.left("dummy") == []
    assert not [p for p in tmp_path.rglob(".*") if p.is_file()]


def test_a_task_that_is_not_deterministic_stops_the_run(tmp_path: Path) -> None:
    (task,) = tasks(tmp_path, "a")
    Board(tmp_path).plan([task], confidential=True)
    assert outcome(partial(attempt, unsure), task, confidential=True) == {"digest": "first"}
    with pytest.raises(PrivacyError, match="dummy a: PrivacyError in a task that sees the truth"):
        answer_of(task, outcome(partial(attempt, unsure), task, confidential=True))
    fault = Board(tmp_path).fault(task)
    assert fault is not None
    assert "two attempts" in fault.what


def test_the_words_of_a_confidential_fault_are_with_the_truth_alone(tmp_path: Path) -> None:
    with LocalEngine(2) as engine, pytest.raises(InputError) as raised:
        perform(engine, fail, tasks(tmp_path, ["input"]), Told(), confidential=True)
    assert SECRET not in str(raised.value)
    said = [p for p in tmp_path.rglob("*") if p.is_file() and SECRET in p.read_text()]
    assert [p.relative_to(tmp_path).parts[0] for p in said] == ["confidential"]
    fault = Board(tmp_path).fault(tasks(tmp_path, ["input"])[0])
    assert fault == Fault("InputError", "InputError", f"the count is {SECRET}", "line 3", "mend it")


# --- late attempts
# ------------------------------------------------------------------------------------------------


def outlive(what: str, task: Task) -> Answer:
    """While it is under way its stage ends, or its run; then it writes, as if nothing had been, or
    raises.
    """
    board, draft = Board(task.run), task.run / "release" / "part"
    with atomic.file(draft) as begun:
        begun.write_text("late")
        board.end(task.stage) if what == "stage" else board.remove()
    return {}


def fall(what: str, task: Task) -> Answer:
    board = Board(task.run)
    board.end(task.stage) if what == "stage" else board.remove()
    raise InputError("no")


@pytest.mark.parametrize("what", ["stage", "run"])
@pytest.mark.parametrize("work", [outlive, fall])
@pytest.mark.parametrize("confidential", [False, True])
def test_what_is_under_way_when_all_is_over_leaves_nothing(
    tmp_path: Path, what: str, work: Callable[[str, Task], Answer], confidential: bool
) -> None:
    of = tasks(tmp_path, "a")
    (tmp_path / "release").mkdir()
    board = Board(tmp_path)
    board.plan(of, confidential=confidential)
    found = outcome(partial(attempt, partial(work, what)), of[0])
    assert isinstance(found, Fault)
    assert "comes too late" in found.what
    assert not list((tmp_path / "release").iterdir())
    left = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert left == ({"plan.json", "over", "a.json"} if what == "stage" else set())
    assert board.answer(of[0]) is None
    assert board.fault(of[0]) is None
    assert not (tmp_path / "work").exists() or not confidential


def test_what_begins_when_all_is_over_is_not_done(tmp_path: Path) -> None:
    """A task of a stage that is over answers what it did; none is left of a run that is. Planned
    again, it is done again.
    """
    of = tasks(tmp_path, "ab")
    with LocalEngine(1) as engine:
        found = perform(engine, count, of, Told())
        board = Board(tmp_path)
        assert board.is_over("dummy")
        assert attempt(unsure, of[0]) == found["a"]
        assert times(tmp_path) == Counter("ab")
        board.plan(of)
        assert attempt(count, of[0]) == found["a"]
        assert times(tmp_path) == Counter("aab")
        board.remove()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="dummy a: comes too late"):
        attempt(count, of[0])
    assert sorted(tmp_path.rglob("*")) == before
    assert times(tmp_path) == Counter("aab")


# --- array jobs
# --------------------------------------------------------------------------------------------------


def test_a_head_that_does_not_wait_hands_its_tasks_over(tmp_path: Path) -> None:
    of = tasks(tmp_path, "abc")
    with opened(EngineChoice("array")) as engine:
        with pytest.raises(HandedOver, match="3 tasks of the stage 'dummy'") as handed:
            perform(engine, count, of, Told())
        assert handed.value.exit_code == 0
        assert f"das tasks {tmp_path} | xargs -L 1 das task {tmp_path}" in str(handed.value)
        for task in (of[2], of[0]):
            attempt(count, task)
        with pytest.raises(HandedOver, match="1 tasks"):
            perform(engine, count, of, Told())
        attempt(count, of[1])
        assert list(perform(engine, count, of, Told())) == ["a", "b", "c"]
    assert times(tmp_path) == Counter("abc")


def test_a_head_that_waits_gets_answers_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = tasks(tmp_path, "abc")
    waiting = iter([of[1], of[2], of[0]])
    monkeypatch.setattr("das.files.run.array.sleep", lambda _: attempt(count, next(waiting)))
    Board(tmp_path).plan(of)
    with ArrayEngine(wait=True) as engine:
        assert [t.partition for t, _ in engine.answers(count, of)] == ["b", "c", "a"]


@pytest.mark.parametrize("confidential", [False, True])
def test_what_a_task_of_an_array_raised_is_said_once_and_it_can_be_done_again(
    tmp_path: Path, confidential: bool
) -> None:
    of = tasks(tmp_path, ["input", "a"])
    Board(tmp_path).plan(of, confidential=confidential)
    with pytest.raises(InputError):
        attempt(fail, of[0])
    with ArrayEngine() as engine:
        with pytest.raises(InputError) as raised:
            perform(engine, fail, of, Told(), confidential=confidential)
        assert (SECRET in str(raised.value)) is not confidential
        with pytest.raises(HandedOver, match="2 tasks"):
            perform(engine, fail, of, Told(), confidential=confidential)
    attempt(brief, of[0])
    assert Board(tmp_path).fault(of[0]) is None


def test_engines_give_the_same_answers(tmp_path: Path) -> None:
    """Local with one and two workers, and by an array in another order."""
    found = []
    for name, workers in (("one", 1), ("two", 2)):
        with LocalEngine(workers) as engine:
            found.append(perform(engine, brief, tasks(tmp_path / name, "abcd"), Told()))
    of = tasks(tmp_path / "array", "abcd")
    Board(of[0].run).plan(of)
    for i in (2, 0, 3, 1):
        attempt(brief, of[i])
    with ArrayEngine() as array:
        found.append(perform(array, brief, of, Told()))
    assert found[0] == found[1] == found[2]


# --- how far it is
# -----------------------------------------------------------------------------------------------


def dated(board: Board, partition: str, ended: datetime, **more: object) -> None:
    """An answer of another time."""
    board.write(board.task("dummy", partition), {}, 10.0)
    (path,) = board.root.rglob(f"answers/{partition}.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended": ended.isoformat()} | more))


def opened_at(board: Board, when: datetime) -> None:
    (path,) = board.root.rglob("plan.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"opened": when.isoformat()}))


def test_how_far_a_stage_is_and_when_it_ends(board: Board) -> None:
    """Weights are 3, 2, 1. Three are done since the head began 90 s ago; three more take as
    long.
    """
    now = datetime.now(UTC)
    opened_at(board, now - timedelta(seconds=90))
    dated(board, "a", now, peak_mb=512.0)
    board.begin(board.task("dummy", "b"))
    s = board.standing("dummy")
    assert (s.done, s.tasks, s.weight_done, s.weight, s.share) == (1, 3, 3.0, 6.0, 0.5)
    assert s.pace.rate == pytest.approx(3 / 90, rel=0.05)
    assert s.pace.left == pytest.approx(90, rel=0.05)
    assert [(a.partition, a.process) for a in s.at_work] == [("b", os.getpid())]
    opened_at(board, datetime.now(UTC))  # the run goes on: who was at work before is not any more
    assert board.standing("dummy").at_work == ()
    assert s.peak_mb == 512.0
    assert s.seconds == 10.0


def test_a_night_between_two_attempts_is_no_time_of_work(board: Board) -> None:
    now = datetime.now(UTC)
    opened_at(board, now - timedelta(seconds=60))
    dated(board, "a", now - timedelta(hours=9))
    assert board.standing("dummy").pace.left is None
    dated(board, "b", now)
    s = board.standing("dummy")
    assert s.share == pytest.approx(5 / 6)
    assert s.pace.left == pytest.approx(30, rel=0.1)


def test_a_stage_that_is_done_has_no_time_left_however_late_one_asks(board: Board) -> None:
    then = datetime.now(UTC) - timedelta(hours=5)
    opened_at(board, then)
    for p in "abc":
        dated(board, p, then + timedelta(seconds=30))
    s = board.standing("dummy")
    assert (s.share, s.pace.left, s.at_work) == (1.0, 0.0, ())
    assert s.pace.rate == pytest.approx(6 / 30)


def refuse(task: Task) -> Answer:
    raise InputError("no", where=task)


def test_faults_are_seen_and_who_failed_is_not_at_work(board: Board) -> None:
    with pytest.raises(InputError):
        attempt(refuse, board.task("dummy", "a"))
    s = board.standing("dummy")
    assert set(s.faults) == {"a"}
    assert s.at_work == ()
