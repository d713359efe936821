"""``das register``: what an office has spent on its records, and what is left."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from das.accounting.document import decimal
from das.accounting.relations import PERSONS, relations
from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.options import (
    OUT,
    PATH,
    exact_delta,
    exact_option,
    guarded,
    key_option,
    population_options,
)
from das.errors import UserError
from das.files.atomic import write_text
from das.model.mechanisms import EPSILON, RHO
from das.register import checking
from das.register import file as files
from das.register.book import Cap, Opening, in_words
from das.register.checking import void as give_up
from das.register.entering import RegisterOptions
from das.register.file import Head
from das.tools.register.page import RegisterFacts, register_page

FILE = click.argument("file", type=PATH)
NO_WITNESS = "without a witness (init --witness), a copy that goes on by itself cannot be detected"


@click.group()
def register() -> None:
    """An office's register: everything that was spent on its records, with a cap. Runs enter it with
    `das run --register FILE`, before anything is measured."""


@register.command()
@FILE
@click.option("--cap-rho", metavar="R", help="The most rho that one person may cost, exactly.")
@click.option("--cap-epsilon", metavar="E", help="Or the most epsilon, at --delta.")
@click.option("--delta", metavar="D", help="With --cap-epsilon, such as 1e-10.")
@click.option(
    "--relation",
    type=click.Choice([r.name for r in relations()]),
    default="replaced",
    show_default=True,
    help="The relation of the cap: what differs between two populations (docs/register.md).",
)
@click.option(
    "--persons",
    type=click.IntRange(1, 1000),
    default=PERSONS,
    show_default=True,
    metavar="N",
    help="With --relation household or household-moved: the most persons of a household.",
)
@click.option(
    "--population",
    default="everybody",
    show_default=True,
    metavar="NAME",
    help="Whose records are entered where an entry names no population.",
)
@click.option(
    "--disjoint",
    multiple=True,
    metavar="A=B",
    help="Nobody is in both of these populations. Without it their costs add up.",
)
@click.option(
    "--witness",
    type=PATH,
    metavar="PATH",
    help="A small file elsewhere that gets the head after each line, so that a restored backup of "
    "the register is refused.",
)
@guarded
def init(
    file: Path,
    cap_rho: str | None,
    cap_epsilon: str | None,
    delta: str | None,
    relation: str,
    persons: int,
    population: str,
    disjoint: tuple[str, ...],
    witness: Path | None,
) -> None:
    """Make a register with a cap: rho, or epsilon at a delta. The cap never changes."""
    RegisterOptions(file, population)  # which checks the name
    pairs = tuple(_pair(text) for text in disjoint)
    place = None if witness is None else str(witness.absolute())
    cap = _cap(cap_rho, cap_epsilon, delta)
    opening = Opening(uuid4().hex, cap, population, relation, persons, pairs, place)
    head = files.create(file, opening)
    click.echo(f"register {file}: {cap}\n  for   {opening.relation.title}\n  head  {head}")
    if witness is None:
        click.echo(f"  {NO_WITNESS}")


def _cap(rho: str | None, epsilon: str | None, delta: str | None) -> Cap:
    if (rho is None) is (epsilon is None) or (epsilon is None) is not (delta is None):
        raise UserError(
            "a register has one cap", where="das register init",
            remedy="give --cap-rho R, or --cap-epsilon E --delta D",
        )  # fmt: skip
    return (
        Cap(RHO, exact_option("--cap-rho", rho))
        if rho is not None
        else Cap(EPSILON, exact_option("--cap-epsilon", str(epsilon)), exact_delta(str(delta)))
    )


def _pair(text: str) -> tuple[str, str]:
    a, _, b = text.partition("=")
    if not a or not b or a == b or not text.isprintable():
        raise UserError(f"{text!r} names no two populations", where="--disjoint", remedy="A=B")
    return a, b


@register.command()
@FILE
@click.argument("source", metavar="RELEASE|STATEMENT|CONFIG", type=PATH)
@population_options
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="When it was published. Default: today.",
)
@guarded
def add(
    file: Path,
    source: Path,
    population: str | None,
    disjoint_from: tuple[str, ...],
    day: datetime | None,
) -> None:
    """Enter what was published before, or elsewhere: a release (or its run), a privacy.json, or a
    configuration that draws the same."""
    options = RegisterOptions(file, population, disjoint_from)
    head = checking.add(options, source, None if day is None else day.date())
    click.echo(f"entered: {source}\n  head  {head}")


@register.command()
@FILE
@click.argument("runs", nargs=-1, metavar="[RUN]...", type=PATH)
@click.option(
    "--head", metavar="N:DIGEST", help="A head that you have kept: the file must have it."
)
@click.option(
    "--signer",
    type=PATH,
    metavar="LIST",
    help="The register must be signed by a key of this list: an allowed_signers file of ssh-keygen.",
)
@guarded
def check(file: Path, runs: tuple[Path, ...], head: str | None, signer: Path | None) -> None:
    """Check every line: chain, numbers, cap and signatures; the head against the witness, a head of
    yours, and what RUN... know."""
    found = files.read(file)
    files.check_caps(found)
    if head is not None:
        found.check_known(Head.of(head), "--head")
    for run in runs:
        checking.check_run(file, run)
    signed = files.check_signatures(found, signer)
    said = f"signed up to line {max(signed) - 1}" if signed else "not signed"
    if signed and (who := signed[max(signed)]):
        said += f", by {who}"
    click.echo(f"{file}: {len(found.digests)} lines are right; {said}\n  head  {found.head}")
    if found.torn:
        click.echo("  a last line without its end is ignored: nobody was told of it")
    if found.register.opening.witness is None:
        click.echo(f"  {NO_WITNESS}")
        if not runs and head is None:
            click.echo("  not shown: that this is the latest register (--head or RUN... show that)")


@register.command()
@FILE
@click.option("--html", "page", type=OUT, metavar="PAGE", help="Also write a page with a picture.")
@answering
def show(file: Path, page: Path | None) -> CommandAnswer:
    """Show what was spent, by publication and year, what is left, and epsilon at several deltas."""
    found = files.read(file)
    facts = RegisterFacts.of(found.register, str(found.head), NO_WITNESS)
    if page is not None:
        write_text(page, register_page(facts, file.name))
    return CommandAnswer(_as_data(facts), lambda: _print(facts, page))


def _print(facts: RegisterFacts, page: Path | None) -> None:
    screen, cap = console(), facts.cap
    screen.print(records_table("What was entered", facts.rows))
    for line in (
        f"cap    {cap}",
        f"for    {facts.relation}",
        f"spent  {facts.at_most}{in_words(facts.spent)} {facts.who}",
        f"left   {in_words(facts.left)}",
        f"head   {facts.head}",
        *facts.notes,
    ):
        screen.print(line, highlight=False)
    screen.print(
        records_table(
            f"Epsilon of all that was spent {facts.who}",
            [{"delta": decimal(d), "epsilon": f"{e:.4f}"} for d, e in facts.curve],
        )
    )
    if page is not None:
        click.echo(f"written: {page}")


@register.command()
@FILE
@key_option
@guarded
def sign(file: Path, key: Path) -> None:
    """Sign all lines so far with the SSH key of your office. The signature is a line of its own."""
    with files.locked(file) as found:
        head = files.sign(found, key)
    click.echo(f"signed: {file}\n  head  {head}")


@register.command()
@click.argument("run_dir", type=PATH)
@guarded
def void(run_dir: Path) -> None:
    """Give up a run that has entered a register and has written nothing: its key is deleted, and its
    entry does not count. Refused where that cannot be proved (docs/register.md)."""
    click.echo(f"given up: {run_dir}\n  head  {give_up(run_dir)}")


def _plain(facts: RegisterFacts, value: Fraction) -> str | float:
    """Exactly in rho; a bound of an epsilon."""
    return str(value) if facts.cap.currency == RHO else float(value)


def _as_data(facts: RegisterFacts) -> dict[str, Any]:
    return {
        "cap": {facts.cap.currency: str(facts.cap.most)}
        | ({"delta": decimal(facts.cap.delta)} if facts.cap.delta else {}),
        "relation": facts.relation,
        "spent": _plain(facts, facts.spent),
        "exact": facts.exact,
        "left": _plain(facts, facts.left),
        "populations": list(facts.populations),
        "entries": [dict(row) for row in facts.rows],
        "epsilon": [{"delta": decimal(d), "epsilon": e} for d, e in facts.curve],
        "head": facts.head,
        "notes": list(facts.notes),
    }
