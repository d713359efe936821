"""Check a configuration, of whatever publication, and print its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import click

from das.accounting.codec import plain
from das.accounting.document import Promises
from das.accounting.statement import promises
from das.cli.kit import redundant
from das.cli.kit.console import CommandAnswer, answering, console
from das.cli.kit.options import PATH, config_argument, load_any, say_notes, warn
from das.cli.kit.terminal_tables import class_of, plan_table, say_input
from das.errors import UserError
from das.files import kept_epsilons
from das.files.run.run_directory import read_text, release_of
from das.model.not_private import PLANNED, marked
from das.model.schema import Schema
from das.release.publications import Specified, publication, require
from das.runs.protocol import InputOutlook, RunInput, outlook_of
from das.size import Size, refuse_beyond
from das.spec import Specification
from das.spec.parse import of_release


@click.command()
@config_argument
@click.option(
    "--data",
    "paths",
    type=PATH,
    multiple=True,
    help=(
        "Also read this file or folder, and say how much memory and time a run on it takes. For the"
        " Detailed DHC: how many records it has, which is confidential."
    ),
)
@answering
def check(config: Path, changes: tuple[str, ...], paths: tuple[Path, ...]) -> CommandAnswer:
    """Validate a configuration and print its plan: the cost, noise and margin of error of every
    query, and the size of the run.

    It names redundant measurements, whose answers are published exactly, and their share of the
    budget. On an optimized spine some are useful where a state is in two units: --data shows
    where."""
    kept_epsilons.use()
    given = load_any(config, changes)
    of = publication(given.publication())
    spec = of.resolved(given)
    read = InputOutlook(*of.outlook(spec))
    if paths:
        require(of, "check --data", "--data")
        read = outlook_of(given, RunInput(paths))
    found, spare = read.sizes, read.spare
    say_notes((*read.notes, *_notes_on_base(given)))
    promise = promises(spec.terms, {u.name: u.plan.measurements for u in spec.universes})
    out = _planned(spec, promise) | {"redundant": redundant.as_data(spare)}
    out["sizes"] = [asdict(s) | {"with_data": bool(paths)} for s in found]
    out |= {"input": dict(read.data)} if read.data else {}
    out |= {"further": given.further} if given.further else {}

    def show() -> None:
        warn(spec.run.private, PLANNED)
        plans = {u.name: u.plan for u in spec.universes}
        target_delta = spec.terms.target.delta if spec.terms.target else None
        console().print(plan_table(spec.run.name, plans, promise, spec.run.private, target_delta))
        for line in (
            *redundant.lines(spare, config),
            *_impossible(given.listed_schemas),
            *given.further,
            *(_sized(size, bool(paths)) for size in found),
        ):
            click.echo(line)
        if paths and found:
            click.echo(_fits(found))
        say_input(read)

    return CommandAnswer(out, show)


def _notes_on_base(given: Specification) -> tuple[str, ...]:
    """What the specification of the release that a configuration rests on says, where it is
    here."""
    path = release_of(Path(given.base)) / "spec.toml"
    if not given.base or not path.is_file():
        return ()
    text = read_text(path, "release specification")
    return given.notes_on(of_release(text, where=str(path)).after)


def _fits(sizes: Sequence[Size]) -> str:
    """Whether the machine has the memory, by one process."""
    try:
        refuse_beyond(sizes, 1)
    except UserError as error:
        return f"it does not fit: {error.what}"
    return "it fits into the memory of this machine, with one worker"


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
        for d in u.plan.measurements
    ]
    named = {"name": spec.run.name, "neighbours": spec.terms.neighbours.value}
    return named | marked(plain(promise), spec.run.private, PLANNED) | {"plan": lines}


def _impossible(schemas: Mapping[str, Schema]) -> Iterator[str]:
    """How many cells the rules of each schema of counts over a tree rule out, of all and of
    each."""
    for name, schema in schemas.items():
        if not schema.impossible:
            continue
        none = int((~schema.possible).sum())
        yield f"{name}: {none:,} of {schema.cells:,} cells are impossible"
        for rule in schema.impossible:
            says = " and ".join(
                f"{attribute} {' or '.join(some)}" for attribute, some in rule.items()
            )
            yield f"  {prod(int(mask.sum()) for mask in schema.box(rule)):,}: {says}"


def _sized(size: Size, with_data: bool) -> str:
    """One line: cells, memory and time."""
    least = "" if with_data else "at least "
    beside = "" if with_data else " (with --data: for your own places and records)"
    return (
        f"{size.universe}: {size.cells:,} cells; a run takes {least}{size.memory / 1e9:.1f} GB of"
        f" memory (at {size.where}) and {least}{_time(size.seconds)} of one core{beside}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
