"""Worker processes: a script that would be run again by them is refused before anything is
measured, and they end with the run, whatever ends it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import das.errors
from das.engine import executor, local, server
from das.errors import DasError, UserError
from tests.commands import Commands
from tests.worlds import Worlds

RUN = """
import sys, das
spec = das.load_spec(sys.argv[1])
das.run(spec, sys.argv[2], workers=2)
"""
#: A run whose workers never end what they are given to solve; each says that it was given something.
HELD = """
import os, sys, time
from pathlib import Path
if __name__ == "__main__":
    from das.accounting import guarantee
    from das.accounting.worst import WorstLoss
    from das.cli import main
    guarantee.worst_epsilon = lambda found, _: WorstLoss(0.0, 0.0, (0,) * len(found))  # not searched
    main()
else:
    from das.estimate import descent
    def _solve(*_):
        (Path(__file__).parent / f"held-{os.getpid()}").touch()
        time.sleep(1000)
    descent._solve = _solve
"""
POOL = """
from das.engine import executor
def main():
    print("begun", flush=True)
    with executor(2) as pool:
        print(list(pool.map(abs, [-1, -2])))
"""


def python(root: Path, *args: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, *args],
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        cwd=root,
        timeout=120,
        check=False,
    )


def test_a_script_without_the_guard_is_refused_before_anything_is_measured(
    root: Path, tmp_path: Path
) -> None:
    """Its workers import it, and would run it: they end without a word, and the script ends with
    the remedy.
    """
    script = tmp_path / "script.py"
    script.write_text(RUN)
    done = python(root, str(script), "configs/1940.toml", str(tmp_path / "run"))
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert done.stderr.count("Error: ") == 1, done.stderr
    assert done.stderr.count('if __name__ == "__main__":') == 1
    assert [p.name for p in tmp_path.iterdir()] == ["script.py"]


def test_a_pool_of_ones_own_does_not_measure_again(root: Path, tmp_path: Path) -> None:
    """The run itself needs no workers; a process of another pool imports the script all the same,
    and is told. It gets no further: here, not to input that is not there."""
    script = tmp_path / "script.py"
    script.write_text("""
import sys, das
from multiprocessing import get_context
from das.errors import DasError
try:
    das.run(das.load_spec(sys.argv[1]), sys.argv[2], paths=["none"])
except DasError as error:
    print(__name__, type(error).__name__, error.what)
if __name__ == "__main__":
    process = get_context("spawn").Process(target=print, args=("worked",))
    process.start()
    process.join()
""")
    done = python(root, str(script), "configs/1940.toml", str(tmp_path / "run"))
    own, other, worked = done.stdout.splitlines()
    assert own.startswith("__main__ InputError")
    assert other.startswith("__mp_main__ UserError")
    assert "everything again" in other
    assert worked == "worked"


@pytest.mark.parametrize("kind", ["guarded", "-c", "stdin"])
def test_every_other_way_to_begin_works(root: Path, tmp_path: Path, kind: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(POOL + '\nif __name__ == "__main__":\n    main()\n')
    given = POOL + "\nmain()\n"
    done = {
        "guarded": lambda: python(root, str(script)),
        "-c": lambda: python(root, "-c", given),
        "stdin": lambda: python(root, "-", given=given),
    }[kind]()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "begun\n[1, 2]\n"


# --- what a worker has of the process that started it
# -------------------------------------------------------------


def seen(names: Sequence[str]) -> tuple[dict[str, str | None], bool, int]:
    """In a worker: variables of its environment, whether it has what a test put into a module, and
    its parent.
    """
    return (
        {name: os.environ.get(name) for name in names},
        hasattr(das.errors, "RECORDS"),
        os.getppid(),
    )


def test_a_worker_has_the_environment_of_now_and_nothing_that_was_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the process that workers are forked from began before: they are forked from it,
    and not from this one.
    """
    monkeypatch.setattr(das.errors, "RECORDS", "the truth", raising=False)
    monkeypatch.setenv("TOKEN", "old")
    monkeypatch.setenv("GONE", "1")
    names = ("TOKEN", "GONE", "PYTHONPATH", "PYTHONSAFEPATH", "OMP_NUM_THREADS")
    parents = []
    for token in ("old", "new"):
        monkeypatch.setenv("TOKEN", token)
        with executor(2) as pool:
            environment, has_records, parent = pool.submit(seen, names).result()
        assert environment == {name: os.environ.get(name) for name in names}
        assert environment["TOKEN"] == token
        assert not has_records
        parents.append(parent)
        monkeypatch.delenv("GONE", raising=False)
    if sys.platform == "linux":
        assert parents[0] == parents[1] != os.getpid()


def lose_the_server(of: list[int]) -> None:
    """With a worker at work; ``of`` takes the processes of both."""
    with executor(2) as pool:
        of += [pool.submit(os.getpid).result(), pool.submit(seen, ()).result()[2]]
        asleep = pool.submit(time.sleep, 100)
        os.kill(of[1], signal.SIGKILL)
        asleep.result()


@pytest.mark.skipif(
    sys.platform != "linux", reason="workers are forked from a server on Linux alone"
)
def test_workers_end_with_their_server_and_are_there_again() -> None:
    """Who is at work then is lost as any worker is, and writes no more."""
    of: list[int] = []
    with pytest.raises(DasError, match="a worker process was ended"):
        lose_the_server(of)
    worker, lost = of
    until(lambda: not Path(f"/proc/{worker}").exists())
    with executor(2) as pool:
        assert pool.submit(seen, ()).result()[2] not in (lost, os.getpid())


def gone(_: object) -> None:
    raise EOFError


@pytest.mark.skipif(
    sys.platform != "linux", reason="workers are forked from a server on Linux alone"
)
def test_a_server_that_never_begins_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_TRIES", 2)
    monkeypatch.setattr(server.SERVER, "fork", gone)
    with pytest.raises(UserError, match="ended before they began"), executor(2):
        pass


@pytest.mark.parametrize("flags", [(), ("-I",)], ids=["", "isolated"])
def test_workers_load_no_other_modules_than_their_parent(
    root: Path, tmp_path: Path, flags: Sequence[str]
) -> None:
    """Not those of the folder where the program happens to be called."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "das").mkdir(parents=True)
    (elsewhere / "das" / "__init__.py").write_text("raise SystemExit('another das')")
    (elsewhere / "pandas.py").write_text("raise SystemExit('another pandas')")
    script = tmp_path / "script.py"
    script.write_text(f"""
import sys
sys.path.insert(0, {str(root)!r})
from das.engine import executor, local, server
from das.errors import DasError, UserError
def found(_):
    import das, pandas
    return das.__file__, pandas.__file__
if __name__ == "__main__":
    with executor(2) as pool:
        assert list(pool.map(found, [1])) == [found(1)], (list(pool.map(found, [1])), found(1))
    print(found(1)[0])
""")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *flags, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        cwd=elsewhere,
        timeout=120,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", f"{root / 'das' / '__init__.py'}\n")


# --- the end of a run
# ---------------------------------------------------------------------------------------------


@pytest.fixture
def words(worlds: Worlds, tmp_path: Path) -> list[str]:
    """The arguments of a run with two workers."""
    keys = ("output.report=false", "output.tables=false", "geography.spine=tabulation")
    changes = [word for key in keys for word in ("--set", key)]
    files = ("--out", str(tmp_path / "run"), "--data", str(worlds.data("one thousand")))
    return ["run", "configs/pl94-2010.toml", *changes, *files, "--workers", "2"]


@pytest.fixture
def estimating(
    root: Path, words: list[str], tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run that has measured everything, in a process group of its own; and its folder. It stays
    where it is: its workers are at work until they are ended.
    """
    script = tmp_path / "held.py"
    script.write_text(HELD)
    with subprocess.Popen(
        [sys.executable, str(script), *words],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until(lambda: any(tmp_path.glob("held-*")) or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            assert (tmp_path / "run" / "release" / "privacy.json").exists()
            assert len(group(process.pid)) >= 3  # the run, the server, a worker
            yield process, tmp_path / "run"
        finally:
            if group(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


def group(leader: int) -> list[str]:
    """Processes of a group that have not ended."""
    every = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat=,command="], capture_output=True, text=True, check=True
    )
    lines = [line.split(None, 2) for line in every.stdout.splitlines()]
    return [
        command for pgid, stat, command in lines if int(pgid) == leader and not stat.startswith("Z")
    ]


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_workers_end_with_a_run_that_is_killed(
    estimating: tuple[subprocess.Popen[str], Path],
) -> None:
    process, _ = estimating
    process.kill()
    assert process.wait() == -signal.SIGKILL
    until(lambda: not group(process.pid))


def test_a_terminated_run_says_how_to_resume_and_goes_on(
    root: Path,
    words: list[str],
    estimating: tuple[subprocess.Popen[str], Path],
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGTERM is answered as Ctrl-C is: one message with the command to go on, and no process is
    left. That command draws nothing again, and a second time changes nothing."""
    process, out = estimating
    ledger = (out / "release" / "ledger.jsonl").read_bytes()
    process.terminate()
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait() == 143
    until(lambda: not group(process.pid))
    assert said.startswith("das: terminated\n  measurements are kept; to continue: das run "), said
    assert "Traceback" not in said
    again = shlex.split(said.partition("to continue: das ")[2])
    assert again == [*words, "--resume"]
    assert not (out / "manifest.json").exists()
    assert python(root, "-m", "das", *again).returncode == 0
    assert (out / "release" / "ledger.jsonl").read_bytes() == ledger
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    monkeypatch.chdir(root)
    code, last, said = commands.named("run")(*again[1:], "--json")
    assert code == 0
    assert "is finished: there is nothing to resume" in said
    assert json.loads(last)["was_finished"] is True
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before


@pytest.mark.skipif(
    sys.platform != "linux", reason="workers are forked from a server on Linux alone"
)
def test_the_server_of_workers_ignores_ctrl_c_while_it_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that is ignored stays so in the program that is started; this process answers it
    again afterwards.
    """
    there: list[object] = []

    def begun(*_: object, **__: object) -> None:
        there.append(signal.getsignal(signal.SIGINT))
        raise ConnectionError

    monkeypatch.setattr(subprocess, "Popen", begun)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ConnectionError):
        server.Server().fork([])
    assert there == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_waits_until_a_process_that_is_being_started_is_known() -> None:
    """Else nobody ends it, and it prints a traceback about semaphores that are gone."""
    done: list[int] = []

    def started() -> None:
        with local._whole():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        started()
    assert done == [1]
    with local._whole():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
