"""A group whose commands are imported when they are called: `das --help` loads click, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from das.errors import LONGEST, bounded


@contextmanager
def _bounded() -> Iterator[None]:
    """What is wrong with the arguments quotes them, and they may be long."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = bounded(error.message, LONGEST["what"])
        raise


class LazyGroup(click.Group):
    """``late`` has, by the name of each command, the module that defines it and the line that the group's help shows
    of it. Click's documentation calls this pattern lazy loading of subcommands."""

    def __init__(self, *args: Any, late: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.late = late

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _bounded():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _bounded():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.late:
            return None
        command: click.Command = getattr(import_module(self.late[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.late.items()])
