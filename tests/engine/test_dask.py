"""Tasks on a cluster of two worker processes that speak TLS: lost ones are done again, and the
truth stays where it may be.
"""

from __future__ import annotations

import pickle
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest

from das.engine.choice import EngineChoice
from das.engine.tasks import Fault, Work
from das.errors import DasError, InputError, UserError
from das.files.run.stage_tasks import attempt, opened, perform
from das.files.run.task_store import TaskStore
from tests.engine import certificates
from tests.engine.stages import (
    SECRET,
    brief,
    count,
    die,
    die_once,
    dumps,
    fail,
    note,
    tasks,
    unsure,
)
from tests.told import Told

distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
from das.engine import dask  # noqa: E402
from das.engine.dask import DaskEngine  # noqa: E402
from tests.engine import cluster as clusters  # noqa: E402


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates.write(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def cluster(tls: Path) -> Iterator[Any]:
    """Of its two workers, one may see the truth."""
    with clusters.cluster(tls) as made:
        yield made


@pytest.fixture
def engine(cluster: Any, tls: Path) -> Iterator[DaskEngine]:
    with opened(EngineChoice("dask", scheduler=cluster.scheduler_address, tls=tls)) as found:
        assert isinstance(found, DaskEngine)
        found._client.wait_for_workers(2, timeout=30)  # a test before may have killed one
        found._stained = False  # to start workers anew takes a second; three tests have it
        yield found
        found._stained = False


def times(run: Path) -> Counter[str]:
    return Counter((run / "done.txt").read_text().split())


def workers(cluster: Any) -> dict[str, int]:
    """The process of each worker that is there."""
    return {
        n: w.process.pid
        for n, w in cluster.workers.items()
        if w.process is not None and w.process.pid
    }


# --- what is done, and where
# --------------------------------------------------------------------------------------


def test_each_task_is_done_once_and_answers_as_it_does_here(
    engine: DaskEngine, tmp_path: Path
) -> None:
    told = Told()
    found = perform(engine, brief, tasks(tmp_path, "abcdef"), told)
    assert found == {t.partition: {"subtrees": list(t.subtrees)} for t in tasks(tmp_path, "abcdef")}
    assert told.stages == [("dummy", 21, 21)]
    assert set(perform(engine, count, tasks(tmp_path, "xyz", "next"), Told())) == set("xyz")
    assert times(tmp_path) == Counter("xyz")
    until(lambda: not engine._client.futures)  # answers are let go


def until(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_truth_is_seen_by_marked_workers_and_these_then_begin_anew(
    engine: DaskEngine, cluster: Any, tmp_path: Path
) -> None:
    before = workers(cluster)
    seen = perform(engine, count, tasks(tmp_path, "abcd", "measure"), Told(), confidential=True)
    assert {a["pid"] for a in seen.values()} == {before["marked0"]}
    until(
        lambda: before["marked0"] not in workers(cluster).values()
    )  # at once, not when they are needed
    after = perform(engine, count, tasks(tmp_path, "efgh", "estimate"), Told())
    assert before["marked0"] not in {a["pid"] for a in after.values()} | set(
        workers(cluster).values()
    )
    assert workers(cluster)["plain0"] == before["plain0"]


def test_workers_that_saw_the_truth_begin_anew_when_the_run_ends(
    cluster: Any, tls: Path, tmp_path: Path
) -> None:
    before = workers(cluster)["marked0"]
    with DaskEngine(cluster.scheduler_address, tls) as engine:
        perform(engine, dumps, tasks(tmp_path, "a"), Told(), confidential=True)
    assert TaskStore(tmp_path).answers("dummy") == {"a": {"dumps": False}}
    assert workers(cluster)["marked0"] != before


def test_a_run_that_goes_on_begins_with_workers_that_have_seen_nothing(
    cluster: Any, tls: Path, tmp_path: Path
) -> None:
    """Its main process ended before it could start them anew."""
    before = workers(cluster)["marked0"]
    with suppress(KeyboardInterrupt), DaskEngine(cluster.scheduler_address, tls) as engine:
        next(iter(engine.answers(brief, tasks(tmp_path, "a", "measure"), confidential=True)))
        raise KeyboardInterrupt
    assert workers(cluster)["marked0"] == before
    with DaskEngine(cluster.scheduler_address, tls) as engine:
        found = perform(engine, count, tasks(tmp_path, "abcd", "estimate"), Told())
    assert before not in {a["pid"] for a in found.values()} | set(workers(cluster).values())


def test_without_a_nanny_the_run_stops_before_anything_else_is_done(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("Restarting workers requires a nanny to be used.")

    monkeypatch.setattr(engine._client, "restart_workers", refuse)
    list(engine.answers(count, tasks(tmp_path, "a"), confidential=True))
    with pytest.raises(UserError, match="no nanny"):
        list(engine.answers(count, tasks(tmp_path, "b")))
    monkeypatch.undo()
    assert times(tmp_path) == Counter("a")


def test_a_worker_that_does_not_begin_anew_stops_the_run(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        engine._client, "restart_workers", lambda of, **_: dict.fromkeys(of, "timed out")
    )
    list(engine.answers(note, tasks(tmp_path, "a"), confidential=True))
    with pytest.raises(DasError, match="1 workers that have seen the truth did not start anew"):
        list(engine.answers(note, tasks(tmp_path, "b")))
    monkeypatch.undo()
    assert times(tmp_path) == Counter("a")


# --- what is lost
# -------------------------------------------------------------------------------------------------


def test_tasks_of_killed_workers_are_done_again(
    engine: DaskEngine, cluster: Any, tmp_path: Path
) -> None:
    """SIGKILL in the midst of three of them; the others are not lost, though their answers may be,
    and come again.
    """
    names = ["fatal1", *"abcdefgh", "fatal2", *"ijkl", "fatal3"]
    found = perform(engine, die_once, tasks(tmp_path, names), Told())
    assert list(found) == names
    assert set(times(tmp_path)) == set(names)


def test_a_task_that_kills_its_workers_is_given_up(
    engine: DaskEngine, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "AGAIN", 1)
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(DasError, match=r"dummy fatal: .* 2 times") as raised:
        perform(engine, die, tasks(tmp_path, ["fatal", "a"]), Told())
    assert raised.value.exit_code == 3


@pytest.mark.parametrize("work, faults", [(brief, 0), (unsure, 1)])
def test_a_task_that_both_workers_do_has_one_answer_or_is_an_alarm(
    engine: DaskEngine, tmp_path: Path, work: Work, faults: int
) -> None:
    """Twice on each, side by side: on the task store is one answer; of work that is not
    deterministic, all others are refused."""
    (task,) = tasks(tmp_path, "a")
    task_store = TaskStore(tmp_path)
    task_store.plan([task], confidential=True)
    client = engine._client
    call = pickle.dumps(dask.Call(partial(attempt, work), task, True, dask.versions()))
    futures = [
        client.submit(pickle.loads, call, workers=[w], pure=False)
        for w in [*client.scheduler_info()["workers"]] * 2
    ]
    found = client.gather(futures)
    assert len(found) == 4
    refused = [f for f in found if isinstance(f, Fault)]
    assert [f.kind for f in refused] == ["PrivacyError"] * len(refused)
    assert bool(refused) == bool(faults)
    answers = [f for f in found if not isinstance(f, Fault)]
    assert answers
    assert all(a == task_store.answer(task) for a in answers)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A scheduler on this machine, without certificates and without workers."""
    monkeypatch.setattr(dask, "LOOK", 0.05)
    options = {"protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": ":0"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with distributed.SpecCluster(workers={}, scheduler=scheduler, silence_logs=50) as made:
        yield made


def test_a_scheduler_without_workers_is_not_waited_for_without_end(
    alone: Any, tmp_path: Path
) -> None:
    with (
        DaskEngine(
            EngineChoice("dask", scheduler=alone.scheduler_address).scheduler or "", patience=0.05
        ) as engine,
        pytest.raises(UserError, match="there is no worker") as raised,
    ):
        list(engine.answers(brief, tasks(tmp_path, "a")))
    assert "dask worker" in str(raised.value)


def test_a_scheduler_that_is_gone_is_said(
    alone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "CONNECT", 1.0)
    end = threading.Timer(0.2, alone.close)
    with DaskEngine(alone.scheduler_address) as engine:
        end.start()
        with pytest.raises(DasError, match="scheduler is gone") as raised:
            list(engine.answers(brief, tasks(tmp_path, "ab")))
    end.join()
    assert raised.value.exit_code == 3
    assert "--resume" in str(raised.value)


# --- what is refused
# ----------------------------------------------------------------------------------------------


def test_what_a_task_raises_is_raised(engine: DaskEngine, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 3: the count is"):
        perform(engine, fail, tasks(tmp_path, ["input", "a"]), Told())


def test_the_truth_is_in_no_message_and_no_log(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task saw is in its words, and these are in the run's confidential folder alone."""
    monkeypatch.setattr(engine, "_start_anew", lambda: None)  # a process takes its log with it
    with clusters.recorded() as frames:
        for name in ("bug", "input", "infeasible"):
            with pytest.raises(DasError) as raised:
                perform(engine, fail, tasks(tmp_path, [name], name), Told(), confidential=True)
            assert SECRET not in str(raised.value)
        perform(engine, fail, tasks(tmp_path, ["well"], "well"), Told(), confidential=True)
    told = b"".join(frames)
    logs = str(engine._client.get_worker_logs()) + str(engine._client.get_scheduler_logs())
    assert b"infeasible" in told  # names of partitions are: it is recorded
    assert b"InfeasibleError" in told
    assert "Registered to" in logs
    assert SECRET.encode() not in told
    assert SECRET not in logs
    assert (
        SECRET in (tmp_path / "confidential" / "work" / "bug" / "faults" / "bug.json").read_text()
    )


def test_the_truth_waits_for_no_worker_that_may_not_see_it(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "LOOK", 0.05)
    monkeypatch.setattr(dask, "UNMARKED", 0.1)
    monkeypatch.setattr(dask, "RESOURCE", "elsewhere")
    with pytest.raises(UserError, match="2 workers, and none has the resource elsewhere"):
        list(engine.answers(count, tasks(tmp_path, "a"), confidential=True))
    assert not (tmp_path / "done.txt").exists()


def test_a_worker_of_another_version_is_refused(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dask.versions() | {"das": "0.0.1"}
    monkeypatch.setattr(dask, "versions", lambda: expected)
    with pytest.raises(UserError, match=r"this worker has das .* \(not 0\.0\.1\)"):
        list(engine.answers(count, tasks(tmp_path, "a")))


def test_a_worker_that_does_not_see_the_run_is_refused(engine: DaskEngine, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not see the folder"):
        list(engine.answers(count, tasks(tmp_path / "nowhere", "a")))


def test_work_that_a_worker_has_not_is_refused(
    engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("only_here")
    exec("def work(task): return {}", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(UserError, match="could not take the task"):
        list(engine.answers(module.work, tasks(tmp_path, "a")))


def test_clients_without_the_certificate_are_refused(
    cluster: Any, tls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another authority, and one that believes ours and shows none."""
    monkeypatch.setattr(dask, "CONNECT", 0.5)
    other = certificates.write(tmp_path / "other")
    (other / "ca.pem").write_bytes((tls / "ca.pem").read_bytes())
    with (
        pytest.raises(UserError, match="no scheduler answers to this client"),
        DaskEngine(cluster.scheduler_address, other),
    ):
        pass
    believing = ssl.create_default_context(cafile=tls / "ca.pem")
    believing.check_hostname = False
    address = urlsplit(cluster.scheduler_address)
    with (
        socket.create_connection((address.hostname, address.port or 0), timeout=10) as plain,
        believing.wrap_socket(plain) as wrapped,
        pytest.raises(ssl.SSLError, match="certificate required"),
    ):
        wrapped.recv(1)


def test_what_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("dask_without", dask.__file__)
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'topdown-das\[dask\]'"):
        spec.loader.exec_module(module_from_spec(spec))
