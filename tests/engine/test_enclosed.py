"""A process that has nothing but what it is sent, and the pipe to it."""

from __future__ import annotations

import ctypes
import io
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from das.engine import enclosure
from das.engine.enclosed import Channel, EnclosedProcess, enclosed, pickled
from das.engine.enclosure import Refusals
from das.engine.server import ENVIRONMENT
from das.errors import InfeasibleError, PrivacyError, UserError
from das.model.confidential import Confidential
from tests.engine.enclosed_jobs import Failure, Forever, Multiplication, Surroundings
from tests.engine.ways_out import WAYS, Escape, Known

ROOT = Path(__file__).resolve().parents[2]
ANY = arrays.arrays(
    st.sampled_from(["i8", "f8", "?", "u1", "S3", "U2"]),
    arrays.array_shapes(min_dims=0, min_side=0),
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), ANY, max_size=3), st.dictionaries(st.text(), st.integers()))
def test_what_is_sent_is_received(sent: dict[str, np.ndarray], head: dict[str, int]) -> None:
    pipe = io.BytesIO()
    Channel(pipe, pipe).send(head, sent)
    pipe.seek(0)
    said, found = Channel(pipe, pipe).receive()
    assert (said, list(found)) == (head, list(sent))
    for name, a in sent.items():
        assert (a.dtype, a.shape, a.tobytes()) == (
            found[name].dtype,
            found[name].shape,
            found[name].tobytes(),
        )
    with pytest.raises(EOFError):
        Channel(pipe, pipe).receive()


@pytest.mark.parametrize("about", ['["O", [1]]', '["i8", [-1]]'])
def test_what_is_no_number_is_refused(about: str) -> None:
    text = f'[{{}}, {{"a": {about}}}]'.encode()
    pipe = io.BytesIO(len(text).to_bytes(8, "little") + text + bytes(64))
    with pytest.raises(ValueError, match="an array"):
        Channel(pipe, pipe).receive()


def test_half_a_message_is_none() -> None:
    pipe = io.BytesIO()
    Channel(pipe, pipe).send({}, {"a": np.arange(9)})
    with pytest.raises(EOFError):
        Channel(io.BytesIO(pipe.getvalue()[:-1]), pipe).receive()


@pytest.fixture
def process() -> Iterator[EnclosedProcess]:
    """One that is kept for the next test unless it fails."""
    with enclosed() as found:
        yield found


def test_it_is_told_no_path_and_has_no_open_file(
    process: EnclosedProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.begin(Surroundings(), 1)
    said = process.receive()[0]["done"]
    assert (said["folder"], said["arguments"]) == (os.sep, ["-c"])
    assert not [m for m in said["modules"] if m.split(".")[:2][-1] in ("truth", "files", "making")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as ``python -m`` does
    for name in ("DAS_ANYTHING", "PWD", "OLDPWD", "RUN", "GOOGLE_APPLICATION_CREDENTIALS", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("NPY_ANYTHING", "is of libraries of arrays")
    new = EnclosedProcess()
    new.begin(Surroundings(), 1)
    environment = new.receive()[0]["done"]["environment"]
    new.end()
    assert {name for name in environment if name not in os.environ} <= {*ENVIRONMENT, "PYTHONPATH"}
    assert "NPY_ANYTHING" in environment
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert not [v for v in environment.values() if str(tmp_path) in v]


# --- ways out
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    """A run, and servers and memory of its process."""
    run = tmp_path_factory.mktemp("run")
    (run / "confidential").mkdir()
    for name in ("truth", "second"):
        (run / "confidential" / name).write_text("the truth, of some forty bytes and a few")
    libc = ctypes.CDLL(None)
    memory = libc.shmget(0, 4096, 0o1600)
    with ExitStack() as kept:
        shared = kept.enter_context(NamedTemporaryFile("w", dir="/dev/shm"))
        shared.write("the truth")
        shared.flush()
        abstract = f"das-{os.getpid()}"
        listening = []
        for family, address in (
            (socket.AF_UNIX, f"{run}/listener"),
            (socket.AF_UNIX, f"\0{abstract}"),
            (socket.AF_INET, ("127.0.0.1", 0)),
        ):
            listening.append(kept.enter_context(socket.socket(family)))
            listening[-1].bind(address)
            listening[-1].listen()
        yield Known(
            str(run),
            shared.name,
            os.getpid(),
            f"{run}/listener",
            abstract,
            listening[-1].getsockname()[1],
            memory,
        )
    libc.shmctl(memory, 0, None)


@pytest.fixture(scope="module")
def escape(known: Known) -> Iterator[tuple[dict[str, dict[str, str]], Refusals]]:
    with enclosed() as process:
        process.begin(Escape(known), 2)
        said = process.receive()[0]["done"]
        assert process.refused is not None
        yield said, process.refused
    for name, found in said["here"].items():  # for those who look: ``pytest -s``
        print(f"{name.replace('_', ' ')}: {found}")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a process anything")
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("place", ["here", "worker"])
def test_no_way_leads_out(
    escape: tuple[dict[str, dict[str, str]], Refusals], place: str, name: str
) -> None:
    """Nor for its workers. What this system lacks is skipped by its name."""
    said, refusals = escape
    needs = WAYS[name][0]
    parts = {part for part in ("seccomp", "namespaces", "privileges") if refusals[part]}  # type: ignore[literal-required]
    versions = set(range(1, refusals["landlock"] + 1))
    if needs and not needs & (parts | versions):
        pytest.skip(f"this system has none of {sorted(map(str, needs))}")
    assert not said[place][name].startswith("out")


#: Ways that are open to any process of the same user.
OPEN = """read_the_truth read_it_by_a_fork read_it_by_a_shell read_shared_memory_by_its_file list_the_run
write_into_the_run append_to_the_truth truncate_the_truth rename_the_truth make_a_symbolic_link
make_a_folder delete_the_truth open_the_truth_to_others set_the_time_of_the_truth watch_the_run
read_its_command_line list_all_processes send_it_a_signal set_its_limits connect_to_a_name
connect_to_an_abstract_name connect_to_a_port send_to_a_name_by_a_pair attach_shared_memory"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a process anything")
def test_a_process_that_is_not_enclosed_finds_the_ways_out(
    known: Known, escape: tuple[dict[str, dict[str, str]], Refusals]
) -> None:
    """Else nothing would be said by a refusal. It comes last, because it changes the run."""
    del escape
    program = (
        "import json, pickle, sys; from tests.engine.ways_out import tried;"
        " print(json.dumps(tried(pickle.load(sys.stdin.buffer))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(known),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert not [name for name in OPEN.split() if not found[name].startswith("out")]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a process anything")
def test_a_system_that_refuses_nothing_is_recorded_and_works() -> None:
    """One without Landlock, namespaces and the right to give up privileges, as a container can be.
    The path of a file is then enough, and the process was told none."""
    program = (
        "import ctypes, sys; from das.engine import enclosure\n"
        "lacks = 'landlock_create_ruleset 444 444 unshare 272 97 capset 126 91'\n"
        "enclosure.CALLS, enclosure.WITH = lacks, ()\n"
        "libc = ctypes.CDLL(None); libc.prctl(38, 1, 0, 0, 0)\n"
        "if not enclosure.calls_within(libc): sys.exit('none')\n"
        "from das.engine.enclosed import EnclosedProcess\n"
        "from tests.engine.enclosed_jobs import Multiplication\n"
        "process = EnclosedProcess(); process.begin(Multiplication(), 2)\n"
        "done = process.receive()[0]['done']; print(done, process.refused); process.end()"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False
    )
    if done.stderr == "none\n":
        pytest.skip("the system has no seccomp that can make it lack the others")
    refused = {"landlock": 0, "seccomp": True, "namespaces": False, "privileges": False}
    assert done.stdout == f"{{'threads': [1, 1]}} {refused}\n", done.stderr


@pytest.mark.skipif(
    not Path("/usr/include/asm-generic/unistd.h").exists(), reason="no headers of Linux here"
)
def test_the_numbers_of_calls_are_those_of_linux() -> None:
    headers = ("x86_64-linux-gnu/asm/unistd_64.h", "asm-generic/unistd.h")
    for column, header in enumerate(headers):
        path = Path("/usr/include") / header
        if not path.exists():
            continue
        lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s", path.read_text())
        of = {name: int(number) for name, number in lines}
        assert len(of) > 300
        table = " ".join([enclosure.CALLS, enclosure.ABSENT, *(w[0] for w in enclosure.WITH)])
        ours = enclosure.numbers(table, column)
        newer = ours.keys() - of.keys()  # than these headers
        assert newer <= {"fchmodat2", "quotactl_fd", "memfd_secret", "process_madvise"}
        assert {name: of[name] for name in ours.keys() - newer} == {
            name: number for name, number in ours.items() if name not in newer
        }
        only = {name for name in enclosure.numbers(table, 0) if name not in ours}
        assert not only & of.keys()


@pytest.mark.parametrize("workers", [1, 2])
def test_its_linear_algebra_has_one_thread(process: EnclosedProcess, workers: int) -> None:
    """Though it cannot look for the libraries that have threads."""
    process.begin(Multiplication(), workers)
    assert process.receive()[0]["done"]["threads"] == [1, 1]


def test_the_truth_cannot_be_sent() -> None:
    with pytest.raises(PrivacyError):
        pickled(Confidential(1))


def test_what_a_job_raises_is_raised_here_and_the_next_one_is_done(
    process: EnclosedProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    process.begin(Failure(), 1)
    with pytest.raises(InfeasibleError, match="here: no way\n  what to do: go back"):
        process.receive()
    process.begin(Surroundings(), 1)
    assert process.receive()[0]["done"]


def test_one_that_is_killed_is_a_clear_error_and_another_is_started() -> None:
    with enclosed() as process:
        process.begin(Forever(), 1)
        assert process.receive()[0]["total"] == process.pid
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(UserError, match=r"ended in the midst .*signal 9.*\n.*--resume"):
            process.receive()
    with enclosed() as other:
        assert other.pid != process.pid
        assert other.lives


def test_it_ends_in_the_midst_of_its_work_when_the_one_that_started_it_is_killed() -> None:
    program = (
        "from das.engine.enclosed import EnclosedProcess\n"
        "from tests.engine.enclosed_jobs import Forever\n"
        "process = EnclosedProcess(); process.begin(Forever(), 1)\n"
        "print(process.receive()[0]['total'], flush=True); process.receive()"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=env) as head:
        assert head.stdout is not None
        pid = int(head.stdout.readline())
        head.kill()
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
