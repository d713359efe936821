"""The process that workers are forked from, on Linux.

It starts as a fresh process, loads the modules that are loaded here, and then only forks. Workers
forked from it inherit only loaded code, and start in milliseconds instead of a second. They inherit
no data and no random state, because no module of ours keeps a random generator.

*Why not the server of* :mod:`multiprocessing`. That one listens at a name in a folder: who connects
to it has its own code run by a process that may read everything its user may. This one hears its
parent alone: both hold an end of a pair of sockets that has no name. Nothing is left of it: this
process waits for its end, and a server whose parent is gone ends its workers and itself."""

from __future__ import annotations

import atexit
import ctypes
import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import reduction, util
from multiprocessing.connection import wait
from multiprocessing.context import set_spawning_popen
from multiprocessing.process import BaseProcess
from multiprocessing.spawn import _main as perform
from multiprocessing.spawn import get_executable, get_preparation_data

if sys.platform == "linux":
    from multiprocessing import forkserver, popen_forkserver

#: What the server loads besides our modules: pyarrow looks for it when it makes its first array.
PANDAS = "pandas"
#: Its environment: it looks for modules in no folder that it happens to be in, and its linear
#: algebra has no threads.
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_MOST = 64  #: files that one worker is handed
_PROGRAM = """
import sys
sys.path[:] = {!r}
for name in {!r}:
    try:
        __import__(name)
    except ImportError:
        pass
from {} import main
main()
"""


class Server:
    """The server, from the side of its parent, which starts it for its first worker. Its linear
    algebra has no threads, because a fork does not inherit them. It has one thread of pyarrow's
    allocator, jemalloc, which handles forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._asked = False  #: whether it was asked for a worker
        self.held: Sequence[int] = ()  #: files that the server and its workers keep open

    def fork(self, files: Sequence[int]) -> tuple[int, int]:
        """Ask for a worker that has these files. The first pipe says its number and how it ended;
        what is written to the second one is what it does. Raises :class:`ConnectionError` if the
        server was killed: the next worker is of a new one."""
        with self._lock:
            requests = self._requests or self._started()
            self._asked = True
            said, says = os.pipe()
            does, given = os.pipe()
            try:
                socket.send_fds(requests, [b"."], [does, says, *files])
            except OSError:
                os.close(said)
                os.close(given)
                self._end()
                raise
            finally:
                os.close(does)
                os.close(says)
            return said, given

    def begin(self) -> None:
        """Start the server, if it does not run: it loads its modules while others work."""
        with self._lock:
            if self._requests is None:
                self._started()

    def _started(self) -> socket.socket:
        modules = [
            name
            for name in sys.modules
            if name.startswith("das.") and not name.startswith("das.cli")
        ]
        places = [os.path.abspath(path) for path in sys.path]  # it looks nowhere else
        program = _PROGRAM.format(places, [*sorted(modules), PANDAS], __name__)
        flags = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
        self._requests, end = socket.socketpair()
        with end, _deaf():
            self._process = subprocess.Popen(
                [os.fsdecode(get_executable()), *flags, "-c", program],
                stdin=end.fileno(),
                pass_fds=self.held,
                env=os.environ | ENVIRONMENT,
            )
        return self._requests

    def end(self) -> None:
        """End the server and its workers, and wait for their end."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._requests is not None and self._process is not None:
            self._requests.close()
            if not self._asked:
                self._process.kill()  # it may still load modules, for nobody
            self._process.wait()
        self._process, self._requests, self._asked = None, None, False


SERVER = Server()
atexit.register(SERVER.end)
os.register_at_fork(after_in_child=lambda: SERVER.__init__())  # type: ignore[misc]


if sys.platform == "linux":

    class Popen(popen_forkserver.Popen):
        """A worker of our server, from the side of its parent."""

        def _launch(self, process_obj: BaseProcess) -> None:
            data = io.BytesIO()
            set_spawning_popen(self)
            try:
                reduction.dump(get_preparation_data(process_obj.name), data)
                reduction.dump(process_obj, data)
            finally:
                set_spawning_popen(None)
            self.sentinel, given = SERVER.fork(self._fds)  # type: ignore[attr-defined]
            # the worker sees by the second end of the pipe that this process has ended
            ends = os.dup(given), self.sentinel
            self.finalizer = util.Finalize(self, util.close_fds, ends)  # type: ignore[attr-defined]
            with os.fdopen(given, "wb") as file:
                file.write(data.getbuffer())
            self.pid = forkserver.read_signed(self.sentinel)


def main() -> None:
    """In the server: fork a worker for each request, and say how it ended, until the parent is
    gone."""
    requests = socket.socket(fileno=os.dup(0))
    nothing, end = os.pipe()
    os.dup2(nothing, 0)
    os.close(nothing)
    os.close(end)
    ended, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    workers: dict[int, int] = {}  # where each one's end is said
    try:
        while True:
            ready = wait([requests, ended])
            if ended in ready:
                os.read(ended, 1 << 16)
                _say_ends(workers)
            if requests in ready:
                files = socket.recv_fds(requests, 1, _MOST)[1]
                if not files:
                    break
                does, says, *given = files
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, before)
                    requests.close()
                    _serve(does, given, (ended, wakes, says, *workers.values()))
                workers[pid] = says
                _say(says, pid)
                for fd in (does, *given):
                    os.close(fd)
    finally:
        _kill(workers)
        os._exit(0)  # libraries take their time to end


def _kill(workers: Mapping[int, int]) -> None:
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    for pid in workers:
        os.waitpid(pid, 0)


def _say(says: int, number: int) -> None:
    with suppress(BrokenPipeError):
        forkserver.write_signed(says, number)


def _say_ends(workers: dict[int, int]) -> None:
    while workers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _say(workers[pid], os.waitstatus_to_exitcode(status))
        os.close(workers.pop(pid))


def _serve(does: int, given: Sequence[int], others: Sequence[int]) -> None:
    """In a worker: close the server's files, do what it is given, and end."""
    code = 1
    try:
        for fd in others:
            os.close(fd)
        forkserver._forkserver._inherited_fds = given  # type: ignore[attr-defined]
        code = perform(does, os.dup(does))
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started within this block ignore Ctrl-C from their first instruction, because the
    parent handles it. By itself, the server would ignore it only after loading Python, and would
    print a traceback."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # no other thread may set what a signal does
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_with_it() -> None:
    """In a worker: be killed when the server ends. Only the server can tell the parent that a
    worker has ended, and a worker that counts as lost must not write any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def put(environment: Mapping[str, str]) -> None:
    """Make this the environment of the process. A worker must have its parent's present
    environment, not the server's."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
