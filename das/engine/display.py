"""Shows the progress of long work: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any

from das.engine.tasks import Pace, Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

#: Seconds between two lines in a log of a stage that goes on.
EVERY = 60.0


class Live:
    """A line for each stage, on stderr. If stderr is not a terminal, lines for long stages. Silent
    when quiet."""

    def __init__(self, quiet: bool) -> None:
        self._bars = None if quiet else _bars()
        self._task: Any = None
        self._log: Lines | Silent = Silent() if quiet or self._bars else Lines(short=False)

    def __enter__(self) -> Live:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._finish()
            if isinstance(self._log, Lines):
                self._log.finish()
        if self._bars:
            self._bars.stop()

    def stage(self, name: str, total: int | None) -> None:
        self._finish()
        if self._bars:
            self._task = self._bars.add_task(name, total=total)
        self._log.stage(name, total)

    def advance(self, n: int = 1) -> None:
        if self._bars:
            self._bars.advance(self._task, n)
        self._log.advance(n)

    def _finish(self) -> None:
        if self._bars and self._task is not None:
            done = self._bars.tasks[-1]
            self._bars.update(self._task, total=done.total or 1, completed=done.total or 1)


def _bars() -> Bars | None:
    """Where stderr is a terminal, or is to be taken for one, as Rich decides."""
    if not (sys.stderr.isatty() or os.environ.keys() & {"FORCE_COLOR", "TTY_COMPATIBLE"}):
        return None
    from das.engine.bars import bars, terminal

    console = terminal()
    return bars(console) if console else None


class Lines:
    """A line for each stage as it ends, on stderr, and one a minute while it runs. For use without
    a terminal, as in a notebook or a log. Stages shorter than a minute are shown only with
    ``short``."""

    def __init__(self, short: bool = True) -> None:
        self._short = short
        self._stage: tuple[str, int | None] | None = None
        self._began = self._said = 0.0
        self._done = 0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.finish()

    def stage(self, name: str, total: int | None) -> None:
        self.finish()
        self._stage, self._done = (name, total), 0
        self._began = self._said = perf_counter()

    def advance(self, n: int = 1) -> None:
        self._done += n
        now = perf_counter()
        if self._stage is not None and now - self._said >= EVERY:
            name, total = self._stage
            self._say(
                f"{name:<32} {now - self._began:8.1f} s:"
                f" {Pace(self._done, total, now - self._began)}"
            )
            self._said = now

    def finish(self) -> None:
        """End the stage."""
        if self._stage is not None:
            took = perf_counter() - self._began
            if self._short or took >= EVERY:
                self._say(f"{self._stage[0]:<32} {took:8.1f} s")
            self._stage = None

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this program, so that a person is watching."""
    kernel = sys.modules.get("ipykernel.zmqshell")
    shell = kernel and kernel.ZMQInteractiveShell
    return bool(shell and shell.initialized())


def display(progress: bool | Progress | None) -> AbstractContextManager[Progress]:
    """The progress display for a caller from Python: none, the one that fits the environment, or
    the caller's own. ``None`` means a display in a notebook and none elsewhere."""
    if progress is None:
        progress = in_notebook()
    if not isinstance(progress, bool):
        return nullcontext(progress)
    if not progress:
        return nullcontext(Silent())
    from das.engine.bars import terminal

    return Live(quiet=False) if terminal() else Lines()
