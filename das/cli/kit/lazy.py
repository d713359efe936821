"""A group whose commands are imported when they are called: `das --help` loads click, and nothing
else.

What ends it before a command has begun, while its module is imported, ends as in a command
(:func:`das.cli.kit.options.guarded`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
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
    """``late`` has the commands by name, and loads each when it is asked for. ``sections`` have, by
    title, the lines of the group's help for commands that need not be loaded for it. Another
    command is in the section that its attribute ``section`` names, or in the last. ``moved`` has
    old spellings, which say the new one. Click's documentation calls this pattern lazy loading of
    subcommands."""

    def __init__(
        self,
        *args: Any,
        late: Mapping[str, click.Command],
        sections: Mapping[str, Mapping[str, str]],
        moved: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.late, self.sections, self.moved = late, sections, moved or {}

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _bounded(), _ended():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _bounded(), _ended():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.late and (new := self.moved.get(args[0])):
            click.echo(f"das: note: `das {args[0]}` is now `das {new}`", err=True)
            args = [*new.split(), *args[1:]]
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.late.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {title: dict(section) for title, section in self.sections.items()}
        known = {name for section in lines.values() for name in section}
        for name in (name for name in self.late if name not in known):
            title, line = self._line(name)
            lines.setdefault(title or [*lines][-1], {})[name] = line
        _write_sections(formatter, lines)

    def _line(self, name: str) -> tuple[str, str]:
        """The section of a command, if it names one, and its line."""
        try:
            command = self.late[name]
        except PluginError:
            return "", f"(cannot be loaded: `das {name}` says why)"
        return getattr(command, "section", ""), command.get_short_help_str(_LINE)


class OrSubcommand(click.Command):
    """A command whose first argument may be the name of another one: ``das run CONFIG``, ``das run
    status RUN``. A file of such a name is ``./status``. ``late`` has these others, and ``lines``
    what the help shows of them."""

    def __init__(
        self, *args: Any, late: Mapping[str, click.Command], lines: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.late, self.lines = late, lines

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args and args[0] in self.late:
            if Path(args[0]).exists():
                click.echo(
                    f"das: note: `das {info_name} {args[0]}` is a command; for the file or folder"
                    f" of that name write ./{args[0]}",
                    err=True,
                )
            name = f"{info_name} {args[0]}"
            return self.late[args[0]].make_context(name, args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        _write_sections(formatter, {"Commands": self.lines})


def _write_sections(
    formatter: click.HelpFormatter, sections: Mapping[str, Mapping[str, str]]
) -> None:
    """Write lines by title and name, all in one column."""
    width = max(len(name) for lines in sections.values() for name in lines)
    for title, lines in sections.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), line) for name, line in lines.items()])
