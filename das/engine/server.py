"""The process that workers are forked from, on Linux.

It starts as a fresh process, loads the modules that are loaded here, and then only forks. Workers
forked from it inherit only loaded code, and start in milliseconds instead of a second. They inherit
no data and no random state, because no module of ours keeps a random generator. The server is that
of :mod:`multiprocessing`, and ends with this process."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

if sys.platform == "linux":
    from multiprocessing import forkserver

#: What the server loads besides our modules: pyarrow looks for it when it makes its first array.
PANDAS = "pandas"
#: Its environment: it looks for modules in no folder that it happens to be in, and its linear
#: algebra has no threads.
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def ensure_running() -> None:
    """Start the server of this process unless it runs. It finds modules only where this process
    does. Its linear algebra has no threads, because a fork does not inherit them. It has one thread
    of pyarrow's allocator, jemalloc, which handles forks."""
    assert sys.platform == "linux"
    ours = sorted(
        name for name in sys.modules if name.startswith("das.") and not name.startswith("das.cli")
    )
    # where it cannot be told where modules are, each worker loads its own
    multiprocessing.set_forkserver_preload([] if sys.flags.ignore_environment else [*ours, PANDAS])
    before = dict(os.environ)
    os.environ |= ENVIRONMENT | {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)
    }
    try:
        with _deaf():
            forkserver.ensure_running()
    finally:
        put(before)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started within this block ignore Ctrl-C from their first instruction, because the
    parent handles it. By itself, the server would ignore it only after loading all modules, and
    would print a traceback."""
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
