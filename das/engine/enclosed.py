"""A process that computes and sees nothing but what it is sent: it is at the other end of a pipe.

The process with the truth starts it, sends it a *job*, answers its questions, and gets its result.

*Why it cannot have more than it is sent.* It is a fresh interpreter, not a fork, so it has never had
memory of the process that started it. It inherits no open file except the two pipes, standard
error, and an end of a third pipe. That one is closed when it and all that it has started have
ended. It is told no path: its folder is the root, and its arguments name this module and that end
alone. Of the environment it has only what sets Python and its libraries. The system refuses it every
file except code, every socket, and other processes (:mod:`das.engine.enclosure`). A job is a value
of arrays.
What it asks reaches the other side as JSON and numbers (:mod:`das.engine.enclosed`), which are never
run there; only it unpickles, and only what the process that started it has sent.

It serves one job after the other, and keeps its workers, but nothing of a job. It ends when the
process that started it ends, however that happens. Ctrl-C is for that process alone."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.engine.enclosure import Refusals, enclose
from das.engine.local import executor, load
from das.engine.server import ENVIRONMENT, SERVER
from das.engine.tasks import Fault
from das.errors import UserError
from das.model import core_dumps

# Messages between two processes over a pipe: a few words as JSON, and arrays of numbers.
#
# Nothing that is received is ever run. There is no pickle here, so a process that reads from one it
# does not trust gets numbers and texts, or an error.

Arrays = Mapping[str, NDArray[Any]]

_LENGTH = struct.Struct("<Q")
#: Kinds of numbers and texts: no array of Python objects is made of bytes.
_KINDS = "biufSU"


class Channel:
    """Both ends of a conversation: what one sends, the other receives, in order."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer

    def send(self, head: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Raises :class:`OSError` if nobody is there to read it."""
        given = {name: np.asarray(a, order="C") for name, a in (arrays or {}).items()}
        about = {name: (a.dtype.str, a.shape) for name, a in given.items()}
        text = json.dumps([head, about]).encode()
        self._writer.write(_LENGTH.pack(len(text)) + text)
        for a in given.values():
            if a.size:
                self._writer.write(a.reshape(-1).view(np.uint8).data)
        self._writer.flush()

    def receive(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The next message. Raises :class:`EOFError` if the other end is gone, and
        :class:`ValueError` for what is no message."""
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        head, about = json.loads(self._exactly(size))
        return head, {name: self._array(*described) for name, described in about.items()}

    def _array(self, code: str, shape: list[int]) -> NDArray[Any]:
        dtype = np.dtype(code)
        if dtype.kind not in _KINDS or any(n < 0 for n in shape):
            raise ValueError(f"an array {shape} of {code!r}")
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._exactly(count * dtype.itemsize), dtype).reshape(shape)

    def _exactly(self, size: int) -> bytes:
        found = self._reader.read(size) if size else b""
        if len(found) < size:
            raise EOFError("the other end of a channel is gone")
        return found


Received = tuple[dict[str, Any], Mapping[str, Any]]

#: Beginnings of the names in an environment that say how Python, the libraries of arrays and the C
#: library work. No other variable is given: any can name or open a store.
_GIVEN = (
    "LANG",
    "LC_",
    "LD_LIBRARY_PATH",
    "TZ",
    "PYTHONHOME",
    "PYTHONHASHSEED",
    "NPY_",
    "OPENBLAS_",
)
_RESUME = "nothing is lost: go on with --resume"


class Conversation:
    """The end of the enclosed process. It is a :class:`das.engine.Progress`, too."""

    def __init__(self, channel: Channel, heard: SimpleQueue[Received]) -> None:
        self._channel, self._heard = channel, heard

    def ask(self, head: Mapping[str, Any], arrays: Arrays | None = None) -> Mapping[str, Any]:
        """The arrays of the answer to a question."""
        self._channel.send(head, arrays)
        return self._heard.get()[1]

    def stage(self, name: str, total: int | None) -> None:
        self._channel.send({"stage": name, "total": total})

    def advance(self, n: int = 1) -> None:
        self._channel.send({"advance": int(n)})


class Job(Protocol):
    """What an enclosed process does: a value that can be pickled."""

    def perform(self, beyond: Conversation, pool: Any) -> tuple[Mapping[str, Any], Arrays]:
        """Words and arrays of the result. ``beyond`` answers questions."""
        ...


class EnclosedProcess:
    """The process, from the side that started it."""

    def __init__(self) -> None:
        given = {k: v for k, v in os.environ.items() if k.startswith(_GIVEN)}
        all_ended, held = os.pipe()  # it and each process that it starts hold the other end
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main({held})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[held],
            cwd=os.sep,
            env=given | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(_looked_in())},
            start_new_session=True,  # no terminal is its own
        )
        os.close(held)
        self._all_ended: int | None = all_ended
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._channel = Channel(self._process.stdout, self._process.stdin)
        self.refused: Refusals | None = None  #: as it says itself, before it answers

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def begin(self, job: Job, workers: int) -> None:
        """Send a job, which ``workers`` processes of its own may share. Raises as :meth:`send`."""
        self.send({"workers": workers}, {"job": pickled(job)})

    def send(self, head: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Raises :class:`UserError` if the process has ended."""
        with self._noticed():
            self._channel.send(head, arrays)

    def receive(self) -> Received:
        """What the process says next: a question, progress, or ``{"done": ...}``.

        Raises:
            UserError: the process has ended.
            DasError: what the job has raised."""
        with self._noticed():
            head, arrays = self._channel.receive()
        if "refused" in head:
            self.refused = head["refused"]
            return self.receive()
        if "fault" in head:
            raise Fault(**head["fault"]).error("the process that estimates")
        return head, arrays

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError, ValueError):
            self.end()
            code = self._process.returncode
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise UserError(
                f"the process that estimates was ended in the midst of its work ({how})",
                where="estimation",
                remedy=f"{_RESUME}; if memory was short, with fewer workers",
            ) from None

    def end(self) -> None:
        """End the process and all that it has started, even if they are working, and wait for
        their end."""
        if self._all_ended is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)  # whose pipe is gone has ended, and says how
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        with os.fdopen(self._all_ended, "rb") as all_ended:
            all_ended.read()
        self._all_ended = None


def _looked_in() -> Iterator[str]:
    """Where it looks for modules: as this process does, without the folder of the shell, which
    ``python -m`` adds, unless this package is there."""
    own, here = str(Path(__file__).resolve().parents[2]), ""
    with suppress(FileNotFoundError):  # the folder was deleted
        here = os.getcwd()
    for place in (os.path.abspath(p) if p else here for p in sys.path):
        if place != here or place == own:
            yield place


#: Those that wait for a job. A list's ``pop`` and ``append`` are whole, so threads can share it.
_waiting: list[EnclosedProcess] = []
os.register_at_fork(after_in_child=_waiting.clear)  # they belong to the process that started them


@contextmanager
def enclosed() -> Iterator[EnclosedProcess]:
    """A process for one job. It is kept for the next one; after an exception it is ended."""
    process = _waiting.pop() if _waiting else EnclosedProcess()
    if not process.lives:
        process.end()
        process = EnclosedProcess()
    try:
        yield process
    except BaseException:
        process.end()
        raise
    _waiting.append(process)


def refusals() -> Refusals | None:
    """What the system refuses the process that did the last job here, if one did."""
    return _waiting[-1].refused if _waiting else None


@atexit.register
def end_waiting() -> None:
    """End those that wait for a job. Their memory is then in what the system says of this process's
    children."""
    while _waiting:
        _waiting.pop().end()


def pickled(value: object) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A value for the enclosed process, which alone unpickles. What holds the truth or a key refuses
    to be pickled (:class:`das.model.confidential.Confidential`)."""
    return np.frombuffer(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), dtype=np.uint8)


def received(array: np.ndarray[Any, np.dtype[np.uint8]]) -> Any:
    """In the enclosed process: a value that was sent as :func:`pickled`."""
    return pickle.loads(array.tobytes())


def main(held: int) -> None:
    """In the enclosed process: one job after the other. The pipes are its own alone: what a library
    prints goes to standard error, and no process that it starts inherits them. Each inherits
    ``held``, which so is closed when all have ended."""
    SERVER.held = (held,)
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    channel.send({"refused": enclose()})
    nothing, end = os.pipe()
    os.dup2(nothing, 0)
    os.close(nothing)
    os.close(end)
    core_dumps.forbid()  # answers are confidential until they are published
    heard: SimpleQueue[Received] = SimpleQueue()
    Thread(target=_listen, args=(channel, heard), daemon=True).start()
    load()
    beyond = Conversation(channel, heard)
    with ExitStack() as kept:
        pools = cache(lambda workers: kept.enter_context(executor(workers)))
        while True:
            _serve(channel, beyond, pools, *heard.get())


def _serve(
    channel: Channel,
    beyond: Conversation,
    pools: Callable[[int], Executor],
    head: dict[str, Any],
    arrays: Mapping[str, Any],
) -> None:
    try:
        done, result = received(arrays["job"]).perform(beyond, pools(head["workers"]))
        channel.send({"done": done}, result)
    except BrokenPipeError:
        os._exit(1)  # nobody is there to hear it
    except Exception as error:
        channel.send({"fault": asdict(Fault.from_error(error))})


def _listen(channel: Channel, heard: SimpleQueue[Received]) -> None:
    """End this process, also in the midst of its work, when the one that started it is gone."""
    while True:
        try:
            heard.put(channel.receive())
        except (EOFError, OSError, ValueError):
            os._exit(1)
