"""``das register``: what an office has spent on its records, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import nextafter
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from markupsafe import Markup

from das.accounting.document import decimal
from das.accounting.sources import PERSONS, relations
from das.accounting.statement import CURVE
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
from das.model.not_private import CELL
from das.register import checking
from das.register import file as files
from das.register.book import Cap, Entry, Opening, Register, in_words
from das.register.checking import void as give_up
from das.register.entering import RegisterOptions
from das.register.file import Head
from das.report.chart import Chart
from das.report.facts import PUBLISHED, height_of
from das.report.panel import INK, MarkStyle, Words, short
from das.report.template import render

# The page of an office's register: what was spent, by publication and year, what is left, and
# epsilon of all of it.

#: An entry in words, by column.
RegisterRow = Mapping[str, str]


@dataclass(frozen=True)
class RegisterFacts:
    """What a reader wants to know of a register. ``relation`` says what its numbers are for, and
    ``populations`` are those that one person can be in at the highest cost. If not ``exact``,
    ``spent`` is an upper bound. ``sums`` has what each publication and year of them costs in rho, and
    ``curve`` epsilon of all of them at several deltas."""

    cap: Cap
    relation: str
    whole: bool
    spent: Fraction
    exact: bool
    left: Fraction
    populations: Sequence[str]
    rows: Sequence[RegisterRow]
    sums: Mapping[str, Fraction]
    curve: Sequence[tuple[Fraction, float]]
    head: str
    notes: Sequence[str]

    @staticmethod
    def from_register(register: Register, head: str, no_witness: str) -> RegisterFacts:
        """``no_witness`` is noted where the register has none."""
        cap, relation, spent = register.opening.cap, register.opening.relation, register.spent
        found, sums = register.spendings(spent.populations), Counter[str]()
        for e in register.standing.values():
            if e.population in spent.populations:
                sums[f"{e.name}, {e.when[:4]}"] += e.spending.rho  # type: ignore[assignment]
        return RegisterFacts(
            cap,
            relation.title,
            relation.whole,
            spent.cost,
            spent.exact,
            register.left,
            sorted(spent.populations),
            [_row(register, n, e) for n, e in register.entries.items()],
            {name: Fraction(rho) for name, rho in sums.items()},
            [(d, _up(Cap(EPSILON, Fraction(1), d).spent(found))) for d in CURVE] if found else [],
            head,
            [] if register.opening.witness else [no_witness],
        )

    @property
    def who(self) -> str:
        if not self.populations:
            return "by nobody"
        one = "household" if self.whole else "person"
        return f"by one {one} in {', '.join(self.populations)}"

    @property
    def at_most(self) -> str:
        """Before the number that was spent."""
        return "" if self.exact else "at most "


def _up(value: Fraction) -> float:
    """The float at a number, or the next above."""
    near = float(value)
    return near if Fraction(near) >= value else nextafter(near, float("inf"))


def _row(register: Register, n: int, e: Entry) -> RegisterRow:
    state = "spent" if e.private else f"spent; {CELL}"
    return {
        "line": str(n),
        "publication": e.title,
        "name": e.name,
        "population": e.population,
        "year": e.when[:4],
        "kind": e.kind,
        "stated": f"rho {figure_of(e.spending.stated)}, {e.spending.neighbours}",
        "counted, rho": figure_of(e.spending.rho),
        "state": f"given up: {register.void[n]}" if n in register.void else state,
    }


def figure_of(value: Fraction) -> str:
    """Exactly where that is short."""
    return str(value) if len(str(value)) <= 6 else f"{float(value):.6g}"


def register_page(facts: RegisterFacts, name: str) -> str:
    """One self-contained page."""
    return render(
        "register.html",
        name=name,
        private=True,
        facts=facts,
        spent=figure_of(facts.spent),
        left=figure_of(facts.left),
        figures=[Markup(f) for f in (_bars(facts), _curve(facts))] if facts.sums else [],
        curve=[(decimal(d), e) for d, e in facts.curve],
    )


def _bars(facts: RegisterFacts) -> str:
    """What each publication costs in rho, all together, and the cap."""
    total = sum(facts.sums.values(), Fraction(0))
    values = {**facts.sums, "all together": total}
    words = [short(w) for w in values]
    chart = Chart(4.6, 1.2 + height_of(words, 0.13))
    rows = [(0.0, float(v), y - 0.325, y + 0.325) for y, v in enumerate(values.values())]
    chart.bars(rows, MarkStyle(INK, face=PUBLISHED, width=0.6))
    for y, value in enumerate(values.values()):
        chart.say(Words(f"{float(value):.4g}", float(value), y, 4))
    most = float(total)
    if facts.cap.currency == RHO:
        most = max(most, float(facts.cap.most))
        chart.rule(float(facts.cap.most), upright=True, dash="--")
    chart.x.low, chart.x.high = 0.0, most * 1.2
    chart.rows(words)
    chart.ends_at("rho (dashed: the cap)" if facts.cap.currency == RHO else "rho")
    chart.finish("Spent, by publication and year", 0)
    return chart.svg("spent", "What each publication has cost, in rho, and the cap of the register")


def _curve(facts: RegisterFacts) -> str:
    """Epsilon against delta."""
    chart = Chart(4.6, 3.2)
    chart.x.log = True
    deltas, epsilons = zip(*((float(d), e) for d, e in facts.curve), strict=True)
    chart.plot(deltas, epsilons, MarkStyle(PUBLISHED, "-", "o", size=4))
    if facts.cap.delta is not None:
        at = float(facts.cap.delta), float(facts.cap.most)
        chart.plot((at[0],), (at[1],), MarkStyle(INK, mark="D"), "the cap")
    chart.x.ticks = [(float(d), decimal(d)) for d in [d for d, _ in facts.curve][::2]]
    chart.x.label, chart.y.label = "delta", "epsilon"
    chart.y.low = 0.0
    chart.finish(f"Epsilon of all that was spent {facts.who}", 1)
    return chart.svg("curve", "Epsilon of everything spent, against delta")


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
    help="The relation of the cap: what differs between two populations (docs/how-to/register.md).",
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
@click.argument("source", metavar="RUN|STATEMENT|CONFIG", type=PATH)
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
        found.check_known(Head.from_text(head), "--head")
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
    facts = RegisterFacts.from_register(found.register, str(found.head), NO_WITNESS)
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
@click.argument("run_dir", metavar="RUN", type=PATH)
@guarded
def void(run_dir: Path) -> None:
    """Give up a run that has entered a register and has written nothing: its key is deleted, and its
    entry does not count. Refused where that cannot be proved (docs/how-to/register.md)."""
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
