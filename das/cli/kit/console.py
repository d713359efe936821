"""The terminal, and rows of any kind as a table of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from das.cli.kit.options import guarded, json_option
from das.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


#: Stands above errors wherever they are printed.
CONFIDENTIAL = (
    "confidential: these errors reveal the true counts. Do not publish them, or keep them in a log."
)
#: Columns of output that goes to no terminal.
WIDE = 160


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for any table where it is a file or
    a pipe."""
    from rich.console import Console  # slow to load

    plain = Console()
    return plain if plain.is_terminal else Console(width=WIDE)


def shows_errors(asked: bool, *, quiet: bool = False, as_json: bool = False) -> bool:
    """Whether a command prints errors: to a terminal, or to anyone who asks for it with
    ``--show-errors``. Files, pipes and logs of jobs are kept, and others read them. So there the
    errors stay in ``confidential/``.

    Raises:
        UserError: they are asked for where they are never printed."""
    if asked and (quiet or as_json):
        raise UserError(
            "errors are confidential, and not printed with --quiet or --json",
            where="--show-errors",
            remedy="leave one of them out; `das evaluate RUN` prints errors of a finished run",
        )
    return asked or (not quiet and not as_json and sys.stdout is not None and sys.stdout.isatty())


def say_kept(folder: Path | None = None, what: str = "errors") -> None:
    """Says that errors are not printed, and in which ``folder`` they are, if they are in one."""
    where = f", and in {folder}" if folder else ""
    click.echo(f"das: note: the {what} are confidential{where}; --show-errors prints them")


def records_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of one kind, as they are. Long texts are folded before short ones are cut, and what a
    row is called never is."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, (name, value) in enumerate(rows[0].items() if rows else ()):
        text = isinstance(value, str)
        longest = max(len(str(row[name])) for row in rows)
        short = text and longest <= 30
        table.add_column(
            name,
            justify="left" if text else "right",
            no_wrap=short,
            min_width=max(longest, len(name)) if short and i == 0 else None,
        )
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _cell(value: Any) -> str:
    """A cell of a row; a missing value is a dash."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:,.6g}"


# What a command answers, and the one place that prints it: as JSON, or as text for a reader.


@dataclass(frozen=True)
class CommandAnswer:
    """``data``: what ``--json`` prints. ``show``: prints the same for a reader."""

    data: Any
    show: Callable[[], None]


def answering(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    """Give a command the option ``--json``, guard it, and print the answer that it returns."""

    @guarded
    @wraps(command)
    def answered(*args: Any, as_json: bool, **kwargs: Any) -> None:
        print_answer(command(*args, **kwargs), as_json)

    return json_option(answered)


def print_answer(answer: CommandAnswer, as_json: bool) -> None:
    """Print an answer. A command for which ``--json`` changes more than the form calls this
    itself."""
    if as_json:
        click.echo(json.dumps(answer.data, ensure_ascii=False))
    else:
        answer.show()
