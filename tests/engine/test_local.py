"""Tasks on this machine: all are done, whatever becomes of the processes, and these are gone at the
end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from das.engine import local as processes
from das.engine.local import LocalEngine
from das.engine.tasks import AGAIN, Answer, Engine, Task, Work
from das.errors import DasError, InputError
from tests.engine.stages import SECRET, count, die, die_once, dumps, fail, linger, tasks


def performed(
    engine: Engine, work: Work, of: list[Task], confidential: bool = False
) -> dict[str, Answer]:
    with engine:
        return {
            t.partition: answer for t, answer in engine.answers(work, of, confidential=confidential)
        }


def times(run: Path) -> Counter[str]:
    return Counter((run / "done.txt").read_text().split())


def test_one_worker_is_this_process_and_begins_with_the_largest(tmp_path: Path) -> None:
    found = performed(LocalEngine(1), count, tasks(tmp_path, "abc")[::-1])
    assert {a["pid"] for a in found.values()} == {os.getpid()}
    assert list(found) == ["a", "b", "c"]


def test_each_task_is_done_once_in_processes_that_are_gone_at_the_end(tmp_path: Path) -> None:
    """The next stage has processes of its own: none that has seen the truth is among them."""
    with LocalEngine(2) as engine:
        first = dict(engine.answers(dumps, tasks(tmp_path, "ab"), confidential=True))
        found = {t.partition: a for t, a in engine.answers(count, tasks(tmp_path, "abcdef"))}
        again = {a["pid"] for _, a in engine.answers(count, tasks(tmp_path, "gh"))}
    assert {a["dumps"] for a in first.values()} == {False}
    assert times(tmp_path) == Counter("abcdefgh")
    pids = {a["pid"] for a in found.values()}
    assert os.getpid() not in pids | again
    assert not pids & again
    assert not [p for p in pids | again if alive(p)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_that_is_killed_loses_its_task_alone_and_that_is_done_again(
    tmp_path: Path,
) -> None:
    found = performed(LocalEngine(2), die_once, tasks(tmp_path, ["fatal1", "a", "fatal2", "b"]))
    assert set(found) == {"fatal1", "a", "fatal2", "b"}
    assert times(tmp_path) == Counter([*found])


def until(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def at_work(run: Path, partition: str) -> int:
    """The process that lingers at a task; 0 before there is one."""
    path = run / f"{partition}.pid"
    return int(path.read_text() or 0) if path.exists() else 0


def test_a_neighbour_goes_on_when_a_worker_is_killed(tmp_path: Path) -> None:
    """It is killed from outside, in the midst of its work; the other one's task is not begun
    again.
    """

    def kill() -> None:
        until(lambda: at_work(tmp_path, "a") and at_work(tmp_path, "b"))
        os.kill(at_work(tmp_path, "a"), signal.SIGKILL)
        until(lambda: times(tmp_path)["a"] == 2)
        (tmp_path / "enough").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    found = performed(LocalEngine(2), linger, tasks(tmp_path, "ab"))
    killer.join()
    assert set(found) == {"a", "b"}
    assert times(tmp_path) == {"a": 2, "b": 1}


def test_a_task_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(DasError, match=rf"dummy fatal: .* {AGAIN + 1} times .signal 9.") as raised:
        performed(LocalEngine(2), die, tasks(tmp_path, ["fatal", "a"]))
    assert raised.value.exit_code == 3
    assert "fewer workers" in str(raised.value)


def test_how_a_worker_ended_is_asked_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells it once: where two threads ask together, the second one is told 255."""
    forkserver = pytest.importorskip("multiprocessing.forkserver")
    read = forkserver.read_signed

    def slowly(sentinel: int) -> int:
        time.sleep(0.05)
        return int(read(sentinel))

    monkeypatch.setattr(forkserver, "read_signed", slowly)
    with pytest.raises(DasError, match=r"times .signal 9."):
        performed(LocalEngine(2), die, tasks(tmp_path, ["fatal"]))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_task_raises_is_raised_at_once(tmp_path: Path, workers: int) -> None:
    with pytest.raises(InputError, match="line 3: the count is"):
        performed(LocalEngine(workers), fail, tasks(tmp_path, ["input", *"abcdefgh"]))
    done = (tmp_path / "done.txt").read_text().split() if (tmp_path / "done.txt").exists() else []
    assert len(done) < 8


def test_a_confidential_task_does_not_quote_the_truth(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DasError) as raised:
        performed(LocalEngine(2), fail, tasks(tmp_path, ["bug", "a"]), confidential=True)
    assert "Peculiar in a task that sees the truth" in str(raised.value)
    assert raised.value.__cause__ is None
    assert SECRET not in str(raised.value) + "".join(capfd.readouterr())


def abort(_: object) -> None:
    os.abort()


def test_processes_that_cannot_begin_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_begin", abort)
    with pytest.raises(DasError, match="ended before they began") as raised:
        performed(LocalEngine(2), count, tasks(tmp_path, "a"))
    assert raised.value.exit_code == 2


def test_a_worker_that_is_killed_while_it_begins_is_lost_as_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once one has begun it is no mistake of a script."""
    with LocalEngine(2) as engine:
        list(engine.answers(count, tasks(tmp_path, "a")))
        monkeypatch.setattr(processes, "_begin", abort)
        with pytest.raises(
            DasError, match=r"ended in the midst of it, .* times .signal 6."
        ) as raised:
            list(engine.answers(count, tasks(tmp_path, "b")))
    assert raised.value.exit_code == 3


def test_answers_that_nobody_waits_for_end_with_the_engine(tmp_path: Path) -> None:
    with LocalEngine(2) as engine:
        (tmp_path / "enough").touch()
        _, first = next(iter(engine.answers(linger, tasks(tmp_path, "abc"))))
    assert not alive(first["pid"])
