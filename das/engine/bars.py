"""Bars in a terminal: a module of its own, for :mod:`rich` is slow to load."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from das.engine.tasks import Pace


class _PaceColumn(ProgressColumn):
    """How fast it goes, and when it ends."""

    def render(self, task: Task) -> Text:
        if task.finished or task.total is None or not task.elapsed:
            return Text("")
        return Text(str(Pace(task.completed, task.total, task.elapsed)))


def terminal() -> Console | None:
    """That of stderr, where it is one."""
    console = Console(stderr=True)
    return console if console.is_terminal else None


def bars(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _PaceColumn(),
        console=console,
    )
