"""The task store of a run: what is left is known after any kill, torn files are no answers, and two
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
from das.files.run.stage_tasks import ArrayEngine, attempt, opened, perform
from das.files.run.task_store import TaskStore
from tests.engine.stages import SECRET, brief, count, fail, linger, tasks, unsure
from tests.told import Told


@pytest.fixture
def task_store(tmp_path: Path) -> TaskStore:
    """With a stage of three partitions, which sees the truth."""
    found = TaskStore(tmp_path)
    found.plan(tasks(tmp_path, "abc"), confidential=True)
    return found


def times(run: Path) -> Counter[str]:
    return Counter((run / "done.txt").read_text().split())


# --- plans and answers
# -------------------------------------------------------------------------------------------


def test_a_plan_is_read_back_as_it_was(task_store: TaskStore) -> None:
    assert task_store.stages() == ["dummy"]
    assert task_store.tasks("dummy") == tasks(task_store.root, "abc")
    assert task_store.task("dummy", "b") == tasks(task_store.root, "abc")[1]
    assert task_store.left("dummy") == task_store.tasks("dummy")
    assert task_store.answers("dummy") == {}


def test_what_tells_of_the_truth_lies_with_it_and_else_beside_it(task_store: TaskStore) -> None:
    assert task_store.is_confidential("dummy")
    task_store.plan(tasks(task_store.root, "xy", "later"))
    assert not task_store.is_confidential("later")
    for stage, p in (("dummy", "a"), ("later", "x")):
        attempt(brief, task_store.task(stage, p))
    lies = {p.relative_to(task_store.root).parts[0] for p in task_store.root.rglob("*dummy*")}
    assert lies == {"confidential"}
    assert {p.relative_to(task_store.root).parts[:2] for p in task_store.root.rglob("x.json")} == {
        ("work", "later")
    }
    assert (task_store.root / "confidential").stat().st_mode & 0o777 == 0o700
    assert task_store.stages() == ["dummy", "later"]


def test_a_stage_that_has_begun_keeps_its_partitions(task_store: TaskStore) -> None:
    task_store.write(task_store.task("dummy", "a"), {"n": 1}, 1.0)
    (whole,) = [Task(task_store.root, "dummy", "all", (1, 3), 6.0)]
    assert task_store.plan([whole], confidential=True) == tasks(task_store.root, "abc")
    assert [t.partition for t in task_store.left("dummy")] == ["b", "c"]
    with pytest.raises(ReleaseError, match="other subtrees"):
        task_store.plan([Task(task_store.root, "dummy", "all", (1, 4))], confidential=True)


@pytest.mark.parametrize("names, stages", [("aa", "ss"), ("ab", "st"), ("", "")])
def test_what_is_no_stage_is_refused(tmp_path: Path, names: str, stages: str) -> None:
    with pytest.raises(ValueError):
        TaskStore(tmp_path).plan(
            [Task(tmp_path, s, n, (1, 1)) for n, s in zip(names, stages, strict=True)]
        )
    assert not list(tmp_path.iterdir())


def test_what_is_not_on_the_task_store_is_said(task_store: TaskStore) -> None:
    with pytest.raises(UserError, match=r"no stage 'measure' has begun[^\0]*dummy"):
        task_store.tasks("measure")
    with pytest.raises(UserError, match="no partition 'z'"):
        task_store.task("dummy", "z")
    with pytest.raises(UserError, match="begin the run"):
        TaskStore(task_store.root / "elsewhere").tasks("dummy")


@pytest.mark.parametrize("torn", [b"", b'{"answer": {"n"', b"[]", b"{}", b"\xff"])
def test_a_torn_answer_is_none_and_is_written_again(task_store: TaskStore, torn: bytes) -> None:
    task = task_store.task("dummy", "a")
    task_store.write(task, {"n": 1}, 1.0)
    (path,) = task_store.root.rglob("answers/a.json")
    path.write_bytes(torn)
    assert task_store.answer(task) is None
    assert task in task_store.left("dummy")
    task_store.write(task, {"n": 1}, 1.0)
    assert task_store.answer(task) == {"n": 1}


def test_a_torn_plan_is_said(task_store: TaskStore) -> None:
    (path,) = task_store.root.rglob("plan.json")
    path.write_text('{"tasks": [{"partition"')
    with pytest.raises(ReleaseError, match=r"plan\.json"):
        task_store.tasks("dummy")


def test_the_same_answer_again_is_welcome_and_another_is_an_alarm(task_store: TaskStore) -> None:
    task = task_store.task("dummy", "a")
    task_store.write(task, {"digest": "d", "subtrees": (1, 2)}, 1.0)
    (path,) = task_store.root.rglob("answers/a.json")
    before = path.read_bytes()
    task_store.write(task, {"digest": "d", "subtrees": (1, 2)}, 9.0)
    assert path.read_bytes() == before
    with pytest.raises(PrivacyError, match="two attempts"):
        task_store.write(task, {"digest": "e", "subtrees": (1, 2)}, 1.0)
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
    task_store = TaskStore(tmp_path)
    task_store.plan(of)
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
    task_store.remove()
    assert not (tmp_path / "work").exists()


HEAD = """
import sys
from pathlib import Path
from das.engine.local import LocalEngine
from das.engine.tasks import Silent
from das.files.run.stage_tasks import perform
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
    task_store = TaskStore(tmp_path)
    assert len(task_store.left("dummy")) == 3
    with LocalEngine(1) as engine:
        found = perform(engine, linger, tasks(tmp_path, "abc"), Told(), confidential=True)
    assert {a["pid"] for a in found.values()} == {os.getpid()}
    assert task_store.left("dummy") == []
    assert not [p for p in tmp_path.rglob(".*") if p.is_file()]


def test_a_task_that_is_not_deterministic_stops_the_run(tmp_path: Path) -> None:
    (task,) = tasks(tmp_path, "a")
    TaskStore(tmp_path).plan([task], confidential=True)
    assert outcome(partial(attempt, unsure), task, confidential=True) == {"digest": "first"}
    with pytest.raises(PrivacyError, match="dummy a: PrivacyError in a task that sees the truth"):
        answer_of(task, outcome(partial(attempt, unsure), task, confidential=True))
    fault = TaskStore(tmp_path).fault(task)
    assert fault is not None
    assert "two attempts" in fault.what


def test_the_words_of_a_confidential_fault_are_with_the_truth_alone(tmp_path: Path) -> None:
    with LocalEngine(2) as engine, pytest.raises(InputError) as raised:
        perform(engine, fail, tasks(tmp_path, ["input"]), Told(), confidential=True)
    assert SECRET not in str(raised.value)
    said = [p for p in tmp_path.rglob("*") if p.is_file() and SECRET in p.read_text()]
    assert [p.relative_to(tmp_path).parts[0] for p in said] == ["confidential"]
    fault = TaskStore(tmp_path).fault(tasks(tmp_path, ["input"])[0])
    assert fault == Fault(
        "InputError", "InputError", f"the count is {SECRET}", "line 3", "repair it"
    )


# --- late attempts
# ------------------------------------------------------------------------------------------------


def outlive(what: str, task: Task) -> Answer:
    """While it is under way its stage ends, or its run; then it writes, as if nothing had been, or
    raises.
    """
    task_store, draft = TaskStore(task.run), task.run / "release" / "part"
    with atomic.file(draft) as begun:
        begun.write_text("late")
        task_store.end(task.stage) if what == "stage" else task_store.remove()
    return {}


def fall(what: str, task: Task) -> Answer:
    task_store = TaskStore(task.run)
    task_store.end(task.stage) if what == "stage" else task_store.remove()
    raise InputError("no")


@pytest.mark.parametrize("what", ["stage", "run"])
@pytest.mark.parametrize("work", [outlive, fall])
@pytest.mark.parametrize("confidential", [False, True])
def test_what_is_under_way_when_all_is_over_leaves_nothing(
    tmp_path: Path, what: str, work: Callable[[str, Task], Answer], confidential: bool
) -> None:
    of = tasks(tmp_path, "a")
    (tmp_path / "release").mkdir()
    task_store = TaskStore(tmp_path)
    task_store.plan(of, confidential=confidential)
    found = outcome(partial(attempt, partial(work, what)), of[0])
    assert isinstance(found, Fault)
    assert "comes too late" in found.what
    assert not list((tmp_path / "release").iterdir())
    left = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert left == ({"plan.json", "over", "a.json"} if what == "stage" else set())
    assert task_store.answer(of[0]) is None
    assert task_store.fault(of[0]) is None
    assert not (tmp_path / "work").exists() or not confidential


def test_what_begins_when_all_is_over_is_not_done(tmp_path: Path) -> None:
    """A task of a stage that is over answers what it did; none is left of a run that is. Planned
    again, it is done again.
    """
    of = tasks(tmp_path, "ab")
    with LocalEngine(1) as engine:
        found = perform(engine, count, of, Told())
        task_store = TaskStore(tmp_path)
        assert task_store.is_over("dummy")
        assert attempt(unsure, of[0]) == found["a"]
        assert times(tmp_path) == Counter("ab")
        task_store.plan(of)
        assert attempt(count, of[0]) == found["a"]
        assert times(tmp_path) == Counter("aab")
        task_store.remove()
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
        assert f"das run tasks {tmp_path} | xargs -L 1 das run task {tmp_path}" in str(handed.value)
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
    monkeypatch.setattr("das.files.run.stage_tasks.sleep", lambda _: attempt(count, next(waiting)))
    TaskStore(tmp_path).plan(of)
    with ArrayEngine(wait=True) as engine:
        assert [t.partition for t, _ in engine.answers(count, of)] == ["b", "c", "a"]


@pytest.mark.parametrize("confidential", [False, True])
def test_what_a_task_of_an_array_raised_is_said_once_and_it_can_be_done_again(
    tmp_path: Path, confidential: bool
) -> None:
    of = tasks(tmp_path, ["input", "a"])
    TaskStore(tmp_path).plan(of, confidential=confidential)
    with pytest.raises(InputError):
        attempt(fail, of[0])
    with ArrayEngine() as engine:
        with pytest.raises(InputError) as raised:
            perform(engine, fail, of, Told(), confidential=confidential)
        assert (SECRET in str(raised.value)) is not confidential
        with pytest.raises(HandedOver, match="2 tasks"):
            perform(engine, fail, of, Told(), confidential=confidential)
    attempt(brief, of[0])
    assert TaskStore(tmp_path).fault(of[0]) is None


def test_engines_give_the_same_answers(tmp_path: Path) -> None:
    """Local with one and two workers, and by an array in another order."""
    found = []
    for name, workers in (("one", 1), ("two", 2)):
        with LocalEngine(workers) as engine:
            found.append(perform(engine, brief, tasks(tmp_path / name, "abcd"), Told()))
    of = tasks(tmp_path / "array", "abcd")
    TaskStore(of[0].run).plan(of)
    for i in (2, 0, 3, 1):
        attempt(brief, of[i])
    with ArrayEngine() as array:
        found.append(perform(array, brief, of, Told()))
    assert found[0] == found[1] == found[2]


# --- how far it is
# -----------------------------------------------------------------------------------------------


def dated(task_store: TaskStore, partition: str, ended: datetime, **more: object) -> None:
    """An answer of another time."""
    task_store.write(task_store.task("dummy", partition), {}, 10.0)
    (path,) = task_store.root.rglob(f"answers/{partition}.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended": ended.isoformat()} | more))


def opened_at(task_store: TaskStore, when: datetime) -> None:
    (path,) = task_store.root.rglob("plan.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"opened": when.isoformat()}))


def test_how_far_a_stage_is_and_when_it_ends(task_store: TaskStore) -> None:
    """Weights are 3, 2, 1. Three are done since the head began 90 s ago; three more take as
    long.
    """
    now = datetime.now(UTC)
    opened_at(task_store, now - timedelta(seconds=90))
    dated(task_store, "a", now, peak_mb=512.0)
    task_store.begin(task_store.task("dummy", "b"))
    s = task_store.standing("dummy")
    assert (s.done, s.tasks, s.weight_done, s.weight, s.share) == (1, 3, 3.0, 6.0, 0.5)
    assert s.pace.rate == pytest.approx(3 / 90, rel=0.05)
    assert s.pace.left == pytest.approx(90, rel=0.05)
    assert [(a.partition, a.process) for a in s.at_work] == [("b", os.getpid())]
    opened_at(
        task_store, datetime.now(UTC)
    )  # the run goes on: who was at work before is not any more
    assert task_store.standing("dummy").at_work == ()
    assert s.peak_mb == 512.0
    assert s.seconds == 10.0


def test_a_night_between_two_attempts_is_no_time_of_work(task_store: TaskStore) -> None:
    now = datetime.now(UTC)
    opened_at(task_store, now - timedelta(seconds=60))
    dated(task_store, "a", now - timedelta(hours=9))
    assert task_store.standing("dummy").pace.left is None
    dated(task_store, "b", now)
    s = task_store.standing("dummy")
    assert s.share == pytest.approx(5 / 6)
    assert s.pace.left == pytest.approx(30, rel=0.1)


def test_a_stage_that_is_done_has_no_time_left_however_late_one_asks(task_store: TaskStore) -> None:
    then = datetime.now(UTC) - timedelta(hours=5)
    opened_at(task_store, then)
    for p in "abc":
        dated(task_store, p, then + timedelta(seconds=30))
    s = task_store.standing("dummy")
    assert (s.share, s.pace.left, s.at_work) == (1.0, 0.0, ())
    assert s.pace.rate == pytest.approx(6 / 30)


def refuse(task: Task) -> Answer:
    raise InputError("no", where=task)


def test_faults_are_seen_and_who_failed_is_not_at_work(task_store: TaskStore) -> None:
    with pytest.raises(InputError):
        attempt(refuse, task_store.task("dummy", "a"))
    s = task_store.standing("dummy")
    assert set(s.faults) == {"a"}
    assert s.at_work == ()
