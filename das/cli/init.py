"""A first configuration from a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from das.cli.options import OUT, PATH, guarded
from das.errors import UserError
from das.files.atomic import write_text
from das.files.readers import profile
from das.spec import parse
from das.spec.draft import draft, left_out
from das.spec.guess import RARE, Guess, guess


@click.command()
@click.option(
    "--from", "table", type=PATH, required=True, help="A table of persons, CSV or Parquet."
)
@click.option(
    "--out",
    type=OUT,
    help="The configuration to write. Default: the table's name, ending in .toml.",
)
@click.option(
    "--geography",
    metavar="C1,C2,...",
    help="The columns of places, from the top down. Default: guessed.",
)
@click.option(
    "--rare-levels",
    "rare",
    is_flag=True,
    help=(
        f"Copy levels that fewer than {RARE} rows have, too: for a trial, for a configuration is"
        " published."
    ),
)
@guarded
def init(table: Path, out: Path | None, geography: str | None, rare: bool) -> None:
    """Write a complete, commented configuration for a table of your own: which columns are places,
    which attributes, a plain budget. Add the levels that it leaves out, because few people have
    them; check it before you rely on it."""
    out = out or Path(f"{table.name.partition('.')[0] or 'own'}.toml")
    if out.exists():
        raise UserError(
            "is there already", where=out, remedy="choose another --out; nothing is overwritten"
        )
    seen = profile.read(table)
    found = guess(seen, [g.strip() for g in geography.split(",")] if geography else (), rare=rare)
    text = draft(seen, found, out.stem, rare=rare)
    parse(text, where=str(out))
    try:
        write_text(out, text)
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror})", where=out, remedy="choose another --out"
        ) from None
    for line in _said(found, out, [] if rare else left_out(found)):
        click.echo(line)


def _said(found: Guess, out: Path, without: Sequence[str]) -> list[str]:
    places = " > ".join(c.name for c in found.geography)
    lines = [
        f"written: {out}",
        f"  places      {places}"
        + (" (codes put together: they repeat)" if found.within_parent else ""),
        f"  attributes  {', '.join(c.name for c in found.attributes)}",
    ]
    if found.areas:
        lines.append(f"  areas       {', '.join(c.name for c in found.areas)}")
    if found.names:
        lines.append(
            "  names      "
            f" {', '.join(f'{c.name} (of {level})' for level, c in found.names.items())}"
        )
    if found.count is not None:
        lines.append(f"  count       {found.count.name}")
    lines += [f"  not used    {name}: {why}" for name, why in found.left.items()]
    if without:
        lines.append(
            f"  left out    levels that fewer than {RARE} rows have, of {', '.join(without)}: add"
            " them, or try with --rare-levels"
        )
    return [
        *lines,
        "check next:",
        (
            "  1. [schema.attributes]: its levels were read off the data; make each list public,"
            " fixed in advance"
        ),
        (
            "  2. [data.columns.geography]: the places are those of the table; list empty ones with"
            " a count of 0"
        ),
        f"  3. das check {out}     (what it costs, and how exact it is)",
        f"  4. das run {out} --out runs/{out.stem}",
    ]
