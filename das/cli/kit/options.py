"""What the commands share: their options, and how an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from das import spec as specification
from das.cli.kit.interruption import STOPPED, Terminated, terminable
from das.cli.kit.lazy import MEMORY, out_of_memory
from das.engine.choice import ENGINES, LOCAL, SIZE, TLS, EngineChoice, cores
from das.errors import LONGEST, DasError, ReleaseError, UserError, bounded
from das.files import packaged
from das.files.run.run_directory import refuse_inside_release, write_outside
from das.model import core_dumps
from das.model.exact import exact
from das.model.mechanisms import COVERAGE
from das.model.not_private import PLANNED, UNKNOWN, UNSTATED, WARNING, Private
from das.release.publications import publication, require
from das.spec import RunSpec, Specification

if TYPE_CHECKING:
    from das.register.entering import RegisterOptions
    from das.report.chart import Picture


class _Path(click.Path):
    """A path that is valid UTF-8, because a run records it, and that is on this machine.

    ``run:1`` is, although the libraries below would take it for an address; as an absolute path it
    is none. ``s3://...`` is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if _ADDRESS.match(str(value)):
            self.fail(
                f"{str(value)!r} is the address of a store, and a path of this machine is needed:"
                " das store pull fetches a release, and das run --store carries one",
                param,
                ctx,
            )
        found = Path(str(super().convert(value, param, ctx)))
        try:
            str(found).encode()
        except UnicodeEncodeError:
            self.fail(f"{str(found)!r} is no text in UTF-8: name it otherwise", param, ctx)
        return Path.cwd() / found if ":" in "".join(found.parts[:1]) else found


class _Out(_Path):
    """Where to write something that must not be in a release: its seal would no longer fit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = Path(super().convert(value, param, ctx))
        try:
            refuse_inside_release(found)
        except UserError as error:
            self.fail(str(error), param, ctx)
        except OSError as error:
            self.fail(bounded(f"{found}: {error.strerror}", LONGEST["what"]), param, ctx)
        return found


class _Drawing(_Out):
    """Where to draw a picture."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found.suffix != ".svg":
            self.fail(f"{str(found)!r} is no name of a picture: end it in .svg", param, ctx)
        return found


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
PATH = _Path(path_type=Path)
OUT = _Out(path_type=Path)
#: What the system says of a path, or of what there is too little of, that the user can fix.
_PATHS = (
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EMFILE,
)


#: Click ends on these itself.
_QUIET = (click.ClickException, click.exceptions.Exit, SystemExit, BrokenPipeError)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Errors become one message on stderr and an exit code: 2 what the user can fix, 3 the rest;
    130 after Ctrl-C, 143 after SIGTERM."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            # before a file is opened: a reader holds records before they are in a box
            core_dumps.forbid()
            with terminable():
                command(*args, **kwargs)
        except DasError as error:
            sys.exit(_said(error))
        except (KeyboardInterrupt, Terminated) as stop:
            said, code = STOPPED[type(stop)]
            _say(said, stop)
            sys.exit(code)
        except _QUIET:
            raise
        except OSError as error:
            said = bounded(
                f"{error.filename or command.__name__}: {error.strerror or error}", LONGEST["what"]
            )
            _say(said, error)
            sys.exit(2 if error.errno in _PATHS else 3)
        except Exception as error:
            if out_of_memory(error):
                _say(MEMORY, error)
                sys.exit(2)
            traceback.print_exc()
            click.echo(
                "das: this should not have happened; please report it with the lines above",
                err=True,
            )
            sys.exit(3)

    return guarded


def write_picture(
    path: Path, picture: Picture | None, what: str = "", remedy: str = "leave it out"
) -> str:
    """Draw what ``--picture`` asks for; the file's name. Raises :class:`UserError` where there is
    no picture: it is of ``what``, and the ``remedy`` draws it."""
    if picture is None:
        raise UserError(f"there is nothing to draw{what}", where="--picture", remedy=remedy)
    write_outside(path, picture.svg().encode(), confidential=picture.confidential)
    return str(path)


def warn(private: Private, warning: str = WARNING) -> None:
    """What is printed of a seeded run begins so; of noise from elsewhere a line on stderr says that
    nobody knows."""
    if private == UNKNOWN:
        click.echo(f"das: note: {UNSTATED}", err=True)
    elif not private:
        click.secho(warning, fg="red", bold=True)


def warn_of(spec: Specification) -> None:
    """Warn as :func:`warn` does, for a configuration."""
    warn(spec.run.private, PLANNED)


def say_notes(notes: Iterable[str]) -> None:
    """What the user should know about a command that did its work: a line each on stderr."""
    for note in notes:
        say_note(note)


def say_note(note: str) -> None:
    click.echo(f"das: note: {note}", err=True)


def _say(what: str, error: BaseException) -> None:
    """One message on stderr, with the notes that the error has collected on its way."""
    click.echo("\n  ".join([f"das: {what}", *getattr(error, "__notes__", ())]), err=True)


def _said(error: DasError) -> int:
    """The exit code, after the message."""
    found: DasError = error
    if isinstance(error, ReleaseError):
        from das.release.verify.sealed import fault_of  # slow to load

        found = fault_of(error)
    _say(str(found), error)
    return found.exit_code


def config_argument(function: Callable[..., None]) -> Callable[..., None]:
    return click.argument("config", type=PATH)(set_option(function))


def exact_option(name: str, value: str) -> Fraction:
    """The exact number given to an option."""
    try:
        return exact(value)
    except ValueError as error:
        raise UserError(str(error), where=name) from None


def exact_delta(value: str) -> Fraction:
    """The value of ``--delta``."""
    at = exact_option("--delta", value)
    if not 0 < at < 1:
        raise UserError(f"{value} is not between 0 and 1", where="--delta")
    return at


_WORKERS = "Processes that estimate and round. The result does not depend on it."


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    function = click.option(
        "--workers", type=click.IntRange(1), default=1, show_default=True, help=_WORKERS
    )(function)
    return quiet_option(function)


def whole_run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options for a run that reads records: without ``--workers`` it uses as many workers as are
    worthwhile."""
    function = click.option(
        "--workers", type=click.IntRange(1), show_default="all cores", help=_WORKERS
    )(function)
    return quiet_option(function)


def engine_options(function: Callable[..., None]) -> Callable[..., None]:
    """Who performs the tasks of a run, and what that takes: one value, ``choice``."""

    @guarded
    @wraps(function)
    def chosen(
        *args: Any,
        engine: str,
        scheduler: str | None,
        tls: Path | None,
        wait: bool,
        size: int,
        workers: int | None,
        **kwargs: Any,
    ) -> None:
        choice = EngineChoice(
            engine, workers or cores(), scheduler, tls, wait, size, automatic=workers is None
        )
        if choice.open_to_users:
            say_notes(
                [
                    "a scheduler at tcp:// obeys every user of this machine, who could run code"
                    " where the truth is: use tcp:// where nobody else can log in, and tls://"
                    " elsewhere"
                ]
            )
        function(*args, choice=choice, **kwargs)

    for option in reversed(_ENGINE):
        chosen = option(chosen)
    return chosen


_ENGINE = (
    click.option(
        "--engine",
        "engine",
        type=click.Choice(ENGINES),
        default=LOCAL,
        show_default=True,
        help=(
            "Where the work runs: processes of this machine, a Dask cluster, or jobs that"
            " call `das run task`."
        ),
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="With --engine dask: tls://HOST:PORT, or tcp:// on this machine.",
    ),
    click.option(
        "--tls",
        type=PATH,
        metavar="DIR",
        help=f"With --engine dask: a folder with {', '.join(TLS)}.",
    ),
    click.option(
        "--wait",
        is_flag=True,
        help="With --engine array: wait until other processes have done the tasks.",
    ),
    click.option(
        "--partition",
        "size",
        type=click.IntRange(1),
        default=SIZE,
        show_default=True,
        metavar="BLOCKS",
        help="For partitioned runs: the target number of blocks per task (whole counties).",
    ),
)


@dataclass(frozen=True)
class Stores:
    """URLs of stores, where they are named."""

    release: str | None = None
    confidential: str | None = None


def store_options(function: Callable[..., None]) -> Callable[..., None]:
    """Where the files of a run are carried: one value, ``stores``."""

    @wraps(function)
    def chosen(
        *args: Any, store: str | None, confidential_store: str | None, **kwargs: Any
    ) -> None:
        function(*args, stores=Stores(store, confidential_store), **kwargs)

    return click.option(
        "--store",
        metavar="URL",
        help=(
            "Also copy the release there: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, file:///FOLDER."
        ),
    )(confidential_store_option(chosen))


@dataclass(frozen=True)
class ResumeOptions:
    """How a run is resumed."""

    resume: bool = False
    accept_spent: bool = False

    def check(self, out: Path | None, where: str) -> None:
        """Raises :class:`UserError` for options that need others."""
        if (self.accept_spent and not self.resume) or (self.resume and out is None):
            raise UserError(
                "--accept-spent goes with --resume, and --resume with --out", where=where
            )


def resume_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options for resuming a run, passed on as one value, ``going``."""

    @wraps(function)
    def chosen(*args: Any, resume: bool, accept_spent: bool, **kwargs: Any) -> None:
        function(*args, going=ResumeOptions(resume, accept_spent), **kwargs)

    accepted = click.option(
        "--accept-spent",
        is_flag=True,
        help=(
            "With --resume: measure again where the original noise cannot be reproduced. "
            "Both measurements are charged and reported."
        ),
    )(chosen)
    return click.option(
        "--resume",
        is_flag=True,
        help="Continue the interrupted run in --out; refused if there is none.",
    )(accepted)


def load_any(config: Path, changes: tuple[str, ...]) -> Specification:
    """A configuration of any publication."""
    text, folder = packaged.configuration(config)
    return specification.load(
        text, where=str(config), overrides=changes, folder=folder, note=say_note
    )


def load_counts(feature: str, config: Path, changes: tuple[str, ...]) -> RunSpec:
    """The configuration of a command that needs counts over a tree (:mod:`das.model.universe`).
    Raises :class:`UserError` with the reason if its publication cannot do it."""
    spec = load_any(config, changes)
    require(publication(spec.publication()), feature, config)
    return specification.of_kind(RunSpec, spec, str(config))


confidential_store_option = click.option(
    "--confidential-store",
    metavar="URL",
    help="Also copy the confidential files there. It must be a separate place.",
)
set_option = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the configuration, such as budget.rho=1/2.",
)
show_errors_option = click.option(
    "--show-errors",
    is_flag=True,
    help="Print the confidential errors even if the output is not a terminal.",
)
picture_option = click.option(
    "--picture",
    type=_Drawing(path_type=Path),
    metavar="FILE.svg",
    help="Also draw the main figure alone, with its sentence, as for a slide.",
)
quiet_option = click.option("--quiet", is_flag=True, help="No progress display.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

#: The key of an office that signs.
key_option = click.option(
    "--key",
    type=PATH,
    required=True,
    metavar="FILE",
    help="An SSH key such as ~/.ssh/id_ed25519, or the public half of one that ssh-agent holds.",
)

#: How often intervals hold, of every command that has any.
coverage_option = click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=COVERAGE,
    show_default=True,
    help="How often an interval holds the true count.",
)


# The options of commands that enter a register.


def register_options(function: Callable[..., None]) -> Callable[..., None]:
    """The register that a run enters: one value, ``register``."""

    @wraps(function)
    def chosen(
        *args: Any,
        register: Path | None,
        population: str | None,
        disjoint_from: tuple[str, ...],
        **kwargs: Any,
    ) -> None:
        if register is None and (population or disjoint_from):
            raise click.UsageError("--population and --disjoint-from go with --register")
        from das.register.entering import RegisterOptions  # most runs enter none

        found = None if register is None else RegisterOptions(register, population, disjoint_from)
        function(*args, register=found, **kwargs)

    return click.option(
        "--register",
        type=PATH,
        envvar="DAS_REGISTER",
        show_envvar=True,
        metavar="FILE",
        help=(
            "Enter the run in this register of your office before anything is measured; "
            "refused where its cap would be passed."
        ),
    )(population_options(chosen))


def population_options(function: Callable[..., None]) -> Callable[..., None]:
    """Whose records an entry of a register is about."""
    for option in (
        click.option(
            "--disjoint-from",
            multiple=True,
            metavar="NAME",
            help="Nobody in the population is in this one. Without it their costs add up.",
        ),
        click.option(
            "--population",
            metavar="NAME",
            help="Whose records these are, such as us-2020. Default: that of the register.",
        ),
    ):
        function = option(function)
    return function


def again_in(register: RegisterOptions | None) -> list[object]:
    """The options by which a run goes on in its register."""
    if register is None:
        return []
    named = ["--population", register.population] if register.population else []
    others = [x for name in register.disjoint_from for x in ("--disjoint-from", name)]
    return ["--register", register.path, *named, *others]
