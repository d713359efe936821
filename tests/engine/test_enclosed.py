"""A process that has nothing but what it is sent, and the pipe to it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from das.engine.channel import Channel
from das.engine.enclosed import EnclosedProcess, enclosed, pickled
from das.errors import InfeasibleError, PrivacyError, UserError
from das.model.confidential import Confidential
from tests.engine.enclosed_jobs import Failure, Forever, Reading, Surroundings

ROOT = Path(__file__).resolve().parents[2]
ANY = arrays.arrays(
    st.sampled_from(["i8", "f8", "?", "u1", "S3", "U2"]),
    arrays.array_shapes(min_dims=0, min_side=0),
)


def landlocked() -> bool:
    """Whether the system would refuse a process files: asked in one that ends."""
    code = "from das.engine.landlock import code_alone; print(code_alone())"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, check=True).stdout == b"True\n"


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
    assert (said["folder"], said["arguments"], said["files"]) == (os.sep, ["-c"], [])
    assert not [m for m in said["modules"] if m.split(".")[:2][-1] in ("truth", "files", "making")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as ``python -m`` does
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("DAS_ANYTHING", "PWD", "OLDPWD"):
        monkeypatch.setenv(name, str(tmp_path))
    new = EnclosedProcess()
    new.begin(Surroundings(), 1)
    environment = new.receive()[0]["done"]["environment"]
    new.end()
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert not [v for v in environment.values() if str(tmp_path) in v]


@pytest.mark.skipif(not landlocked(), reason="the system has no Landlock")
@pytest.mark.parametrize("workers", [1, 2])
def test_it_cannot_open_a_file_even_if_it_knows_the_path(
    process: EnclosedProcess, tmp_path: Path, workers: int
) -> None:
    """Nor can its workers; all of them still find their code."""
    path = tmp_path / "confidential" / "noise.key"
    path.parent.mkdir()
    path.write_text("key")
    process.begin(Reading(str(path)), workers)
    said = process.receive()[0]["done"]
    assert said == {"read": ["PermissionError"] * 2, "code": '"""'}


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
