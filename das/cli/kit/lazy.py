"""A group whose commands are imported when they are called: `das --help` loads click, and nothing
else.

What ends it before a command has begun, while its module is imported, ends as in a command
(:func:`das.cli.kit.options.guarded`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from das.errors import LONGEST, PluginError, bounded


@contextmanager
def _bounded() -> Iterator[None]:
    """What is wrong with the arguments quotes them, and they may be long."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = bounded(error.message, LONGEST["what"])
        raise


def out_of_memory(error: BaseException) -> bool:
    """Whether an error comes from too little memory. It says so, or its cause does, or not even a
    little memory is available. A library that is imported with too little memory can raise any
    error."""
    known: BaseException | None = error
    while known is not None:
        if (
            isinstance(known, MemoryError)
            or "annot allocate memory" in str(known)
            or "failed to map segment" in str(known)
        ):
            return True
        known = known.__cause__ or known.__context__
    try:
        bytearray(_LITTLE)
    except MemoryError:
        return True
    return False


_LITTLE = 1 << 25
#: The most characters of a command's line in the help.
_LINE = 90
MEMORY = (
    "there is not enough memory for this\n  what to do: use fewer workers, end other programs,"
    " raise the limit (ulimit -v), or take a machine with more"
)


@contextmanager
def _ended() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("das: interrupted", err=True)
        sys.exit(130)
    except (MemoryError, ImportError, PluginError) as error:
        if not out_of_memory(error) and not isinstance(error, PluginError):
            raise
        click.echo(f"das: {MEMORY if out_of_memory(error) else error}", err=True)
        sys.exit(2)


class LateCommands(Mapping[str, click.Command]):
    """Commands by name, each imported from its ``modules`` when it is asked for."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(self._modules[name]), name)
        return command

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class LazyGroup(click.Group):
    """``late`` has the commands by name, and loads each when it is asked for. ``lines`` are what
    the group's help shows of those that need not be loaded for it. Click's documentation calls this
    pattern lazy loading of subcommands."""

    def __init__(
        self, *args: Any, late: Mapping[str, click.Command], lines: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.late, self.lines = late, lines

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _bounded(), _ended():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _bounded(), _ended():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.late.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._line(name)) for name in self.late])

    def _line(self, name: str) -> str:
        try:
            return self.lines.get(name) or self.late[name].get_short_help_str(_LINE)
        except PluginError:
            return f"(cannot be loaded: `das {name}` says why)"
