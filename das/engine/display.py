"""What a person sees of a long piece of work: bars in a terminal, lines where there is none."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from das.engine.progress import Progress, Silent


class Live:
    """A line for each stage, on stderr; silent when quiet or not on a terminal."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._display = Bars(
            SpinnerColumn(), TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=console, disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._task: Any = None

    def __enter__(self) -> Live:
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self._display.stop()

    def stage(self, name: str, total: int | None) -> None:
        self._finish()
        self._task = self._display.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        self._display.advance(self._task, n)

    def _finish(self) -> None:
        if self._task is not None:
            done = self._display.tasks[-1]
            self._display.update(self._task, total=done.total or 1, completed=done.total or 1)


class Lines:
    """A line for each stage as it ends, on stderr: where there is no terminal, as in a notebook or a log."""

    def __init__(self) -> None:
        self._stage: tuple[str, float] | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    def stage(self, name: str, total: int | None) -> None:
        del total
        self._finish()
        self._stage = name, perf_counter()

    def advance(self, n: int = 1) -> None:
        del n

    def _finish(self) -> None:
        if self._stage is not None:
            name, began = self._stage
            print(f"{name:<32} {perf_counter() - began:8.1f} s", file=sys.stderr, flush=True)


def display(progress: bool | Progress) -> AbstractContextManager[Progress]:
    """What a caller from Python asks for: nothing, the display that fits where it is, or one of its own."""
    if not isinstance(progress, bool):
        return nullcontext(progress)
    if not progress:
        return nullcontext(Silent())
    return Live(quiet=False) if Console(stderr=True).is_terminal else Lines()
