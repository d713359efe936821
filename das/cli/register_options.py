"""The options of commands that enter a register."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from das.cli.options import PATH
from das.truth.registering import RegisterOptions


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
