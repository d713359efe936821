"""Ctrl-C and SIGTERM: both end a command with a message, what it cost, and how to go on."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from das.engine.choice import LOCAL, SIZE, EngineChoice
from das.engine.tasks import HandedOver
from das.errors import ReleaseError, UserError
from das.files.messages import privacy_of
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.files.run.task_store import TaskStore


class Terminated(BaseException):
    """SIGTERM has arrived."""


#: Seconds until a signal that was dropped comes again.
_LATER = 0.02
#: What is said, and the exit code: 128 and the number of the signal, as shells have it.
STOPPED = {KeyboardInterrupt: ("interrupted", 130), Terminated: ("terminated", 143)}


@contextmanager
def terminable() -> Iterator[None]:
    """Within it, SIGTERM raises :class:`Terminated`; afterwards SIGTERM has its earlier effect. A
    program that handles SIGTERM itself keeps its handler.

    Neither SIGTERM nor Ctrl-C is lost where Python drops an exception, such as in a finalizer. The
    same holds where a library swallows it, such as during its import, and fails later because of
    it."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not ours:
        yield
        return
    came: list[BaseException] = []
    hook, before = sys.unraisablehook, signal.getsignal(signal.SIGINT)
    sys.unraisablehook = partial(_dropped, hook)
    signal.signal(signal.SIGTERM, partial(_raise, Terminated, came))
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, partial(_raise, KeyboardInterrupt, came))
    try:
        yield
    except Exception as error:
        if not came:
            raise
        for note in getattr(error, "__notes__", ()):
            came[0].add_note(note)
        raise came[0] from error
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook


def _raise(stop: type[BaseException], came: list[BaseException], *_: object) -> None:
    came.append(stop())
    raise came[-1]


def _dropped(otherwise: Callable[[Any], object], what: Any) -> None:
    """What was raised in a finalizer, and dropped: a signal comes again, a little later; of
    anything else Python says so."""
    number = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}.get(what.exc_type)
    if number is None:
        otherwise(what)
        return
    again = threading.Timer(_LATER, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def repeated(name: str, values: Sequence[object]) -> list[object]:
    """An option that is repeated for each value."""
    return [x for value in values for x in (name, value)]


@contextmanager
def resumable(out: Path, command: Sequence[object]) -> Iterator[None]:
    """When a run or a sweep stops within it, a note says what was spent and which ``command``
    resumes it in ``out``. A user's mistake has its own remedy."""
    try:
        yield
    except UserError:
        raise
    except HandedOver as handed:
        handed.add_note(f"then go on: {shlex.join(map(str, (*command, '--resume')))}")
        raise
    except BaseException as error:
        if done := _tasks_done(out):
            error.add_note(done)
        error.add_note(_how_to_resume(RunDirectory(out), command))
        raise


def of_engine(choice: EngineChoice) -> list[object]:
    """The options that choose it again, with its workers."""
    out: list[object] = [] if choice.name == LOCAL else ["--engine", choice.name]
    out += [*optional("--scheduler", choice.scheduler), *optional("--tls", choice.tls)]
    out += repeated("--partition", [choice.size] * (choice.size != SIZE))
    out += [] if choice.automatic else ["--workers", choice.workers]
    return out + ["--wait"] * choice.wait


def optional(name: str, value: object) -> list[object]:
    """An option, if it was given."""
    return [] if value is None else [name, value]


def _tasks_done(out: Path) -> str | None:
    """How far the stage is that was under way, if it is done by tasks."""
    task_store = TaskStore(out)
    try:
        standings = [task_store.standing(s) for s in task_store.stages()]
    except ReleaseError as error:
        return str(error)
    if not standings:
        return None
    last = standings[-1]
    return (
        f"{last.done} of {last.tasks} tasks of the stage {last.stage!r} are done"
        f" ({100 * last.share:.0f} %), and are kept"
    )


def _how_to_resume(directory: RunDirectory, command: Sequence[object]) -> str:
    try:
        entries = LedgerFile(directory.ledger).entries
    except ReleaseError as error:
        return str(error)
    again = shlex.join(map(str, (*command, "--resume")))
    if (directory.root / "runs").is_dir():
        return f"finished runs, and the measurements of others, are kept; to continue: {again}"
    if not any(a.events for a in entries.attempts):
        said = "nothing was measured: no budget is spent"
        return (
            f"{said}; the data read are kept; to continue: {again}"
            if directory.can_go_on()
            else said
        )
    missing = [a for a in entries.last().values() if a.events and not entries.whole(a.stage)]
    if not missing:
        return f"measurements are kept; to continue: {again}"
    if all(a.key for a in missing) and (
        directory.noise_key.exists() or privacy_of(directory.root) is False
    ):
        return (
            "measurements are kept, and those in progress are drawn again with the same noise: this"
            f" costs nothing; to continue: {again}"
        )
    return (
        "measurements in progress are spent"
        f" ({', '.join(f'{a.universe} at {a.level}' for a in missing)}); to continue and measure"
        " again, which spends the same budget again (the privacy statement then states both"
        f" spendings): {again} --accept-spent"
    )
