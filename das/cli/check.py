"""Check a configuration, of whatever publication, and print its plan."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from das.accounting.codec import plain
from das.accounting.document import Promises
from das.accounting.statement import promises
from das.cli import idle
from das.cli.console import console
from das.cli.options import PATH, config_argument, guarded, json_option, load_any, warn
from das.cli.shown import class_of, plan_table
from das.engine import Silent
from das.making import maker_of
from das.making.work import RunInput
from das.model.not_private import PLANNED, marked
from das.release.publications import Specified, publication, require
from das.size import Size
from das.stages import Stages


@click.command()
@config_argument
@click.option(
    "--data",
    "paths",
    type=PATH,
    multiple=True,
    help="Read this file or folder, too, and say what memory and time a run on it takes.",
)
@json_option
@guarded
def check(config: Path, changes: tuple[str, ...], paths: tuple[Path, ...], as_json: bool) -> None:
    """Validate a configuration and print its plan: cost, noise and margin of error of every query,
    and its size.

    It says which draws buy nothing, because what they measure is published exactly, and what share
    of the budget they take. On an optimised spine some may buy something where a state is in two
    units: with --data it is known where."""
    given = load_any(config, changes)
    of = publication(given.publication())
    spec = of.resolved(given)
    found, spare = of.outlook(spec)
    if paths:
        require(of, "check --data", "--data")
        found, spare = maker_of(given, RunInput(paths)).outlook(Stages(), Silent())
    promise = promises(spec.terms, {u.name: u.plan.draws for u in spec.universes})
    if as_json:
        out = _planned(spec, promise) | {"idle": idle.as_data(spare)}
        out["sizes"] = [asdict(s) | {"with_data": bool(paths)} for s in found]
        click.echo(json.dumps(out, indent=2))
        return
    warn(spec.run.private, PLANNED)
    plans = {u.name: u.plan for u in spec.universes}
    console().print(plan_table(spec.run.name, plans, promise, spec.run.private))
    for line in (*idle.lines(spare, config), *(_sized(size, bool(paths)) for size in found)):
        click.echo(line)


def _planned(spec: Specified, promise: Promises) -> dict[str, Any]:
    """A plan as data: what it costs, and a line for each of its draws."""
    lines = [
        {
            "universe": u.name,
            "level": d.level,
            "query": d.query,
            d.mechanism.currency: str(d.cost),
            d.mechanism.symbol: str(d.parameter),
            "margin_95": d.margin(),
        }
        | class_of(d, u.plan)
        for u in spec.universes
        for d in u.plan.draws
    ]
    named = {"name": spec.run.name, "neighbours": spec.terms.neighbours.value}
    return named | marked(plain(promise), spec.run.private, PLANNED) | {"plan": lines}


def _sized(size: Size, with_data: bool) -> str:
    """One line: cells, memory and time."""
    least = "" if with_data else "at least "
    beside = "" if with_data else " (with --data: for the places and records that there are)"
    return (
        f"{size.universe}: {size.cells:,} cells; a run takes {least}{size.memory / 1e9:.1f} GB of"
        f" memory (at {size.where}) and {least}{_time(size.seconds)} of one core{beside}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
