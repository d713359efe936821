"""A first configuration from a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from das.cli.kit.options import OUT, PATH, guarded
from das.errors import UserError
from das.files.atomic import write_text
from das.files.readers import profile
from das.model.profile import InputProfile
from das.publications.detailed.files.config import product_of
from das.publications.sdhc.files.columns import FILE, read_config
from das.spec import load
from das.spec.draft import draft, left_out, of_folder
from das.spec.guess import RARE, Guess, guess


@click.command()
@click.option("--from", "table", type=PATH, help="A table of persons, CSV or Parquet.")
@click.option(
    "--from-safetab",
    "safetab",
    type=PATH,
    metavar="FOLDER",
    help="A folder with the Detailed DHC's folders `parameters` and `data`.",
)
@click.option(
    "--from-phsafe",
    "phsafe",
    type=PATH,
    metavar="FOLDER",
    help="A folder of the S-DHC, with config.json, persons.csv, units.csv and geo.csv.",
)
@click.option(
    "--out",
    type=OUT,
    help="The configuration to write. Default: the name of the table, or folder, with .toml.",
)
@click.option(
    "--geography",
    metavar="C1,C2,...",
    help="The columns of places, from the top down. Default: guessed.",
)
@click.option(
    "--places",
    type=PATH,
    help="A table of all places, also of those where nobody lives: one line for each.",
)
@click.option(
    "--rare-levels",
    "rare",
    is_flag=True,
    help=(
        f"Also copy levels that fewer than {RARE} rows have. For trials only: such a draft is not"
        " safe to publish, and a run publishes its configuration."
    ),
)
@guarded
def init(
    table: Path | None,
    safetab: Path | None,
    phsafe: Path | None,
    out: Path | None,
    geography: str | None,
    places: Path | None,
    rare: bool,
) -> None:
    """Write a complete, commented configuration for a table of your own: its columns of places,
    its attributes, and a plain budget. It omits levels that few people have: add them, and check
    the file before you use it. Or a configuration for a folder of SafeTab or PHSafe."""
    every = [path for path in (table, safetab, phsafe) if path is not None]
    if len(every) != 1:
        raise UserError(
            "name a table, or a folder of SafeTab or PHSafe",
            where="--from, --from-safetab, --from-phsafe",
        )
    (given,) = every
    out = out or Path(f"{given.name.partition('.')[0] or 'own'}.toml")
    if out.exists():
        raise UserError(
            "is there already", where=out, remedy="choose another --out; nothing is overwritten"
        )
    if places is not None and table is None:
        raise UserError("goes with --from", where="--places")
    if table is not None:
        text, said = _of_table(table, out, geography, places, rare)
    else:
        text, said = (_of_safetab if phsafe is None else _of_phsafe)(given, out.stem)
    load(text, where=str(out))
    try:
        write_text(out, text)
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror})", where=out, remedy="choose another --out"
        ) from None
    click.echo(f"written: {out}")
    for line in said:
        click.echo(line)


def _of_table(
    table: Path, out: Path, geography: str | None, places: Path | None, rare: bool
) -> tuple[str, Sequence[str]]:
    """A configuration of counts over a tree, and what to tell the user about it."""
    seen = profile.read(table)
    listed = None if places is None else profile.read(places)
    if listed is not None and listed.encoding != seen.encoding and not _ascii(listed, seen):
        raise UserError(
            f"it reads as {listed.encoding}, and {table.name} as {seen.encoding}",
            where=listed.path,
            remedy="write both tables in one encoding, such as utf-8",
        )
    asked = [g.strip() for g in geography.split(",")] if geography else ()
    found = guess(seen, asked, rare=rare, places=listed)
    text = draft(seen, found, out.stem, rare=rare, places=None if listed is None else listed.path)
    without = [] if rare else left_out(found)
    said = _said(found, out, without, listed=listed is not None)
    if not asked:
        said[0] += "; if this is not your tree: --geography C1,C2,..."
    return text, said


def _ascii(*tables: InputProfile) -> bool:
    """Whether what reads as UTF-8 is the same in any encoding."""
    utf_8 = [t for t in tables if t.encoding == "utf-8"]
    return all(v.isascii() for t in utf_8 for c in t.columns for v in (c.name, *c.values))


def _of_safetab(folder: Path, name: str) -> tuple[str, Sequence[str]]:
    """A configuration of the Detailed DHC. Which product it is, the records say."""
    parameters, data = folder / "parameters", folder / "data"
    for path in (parameters, data):
        if not path.is_dir():
            raise UserError(
                "there is no such folder",
                where=path,
                remedy="name a folder with the folders `parameters` and `data`",
            )
    product = product_of(data)
    return of_folder(name, data, parameters, product), (
        f"  product     {product}",
        "next:",
        f"  das check {name}.toml",
        f"  das run {name}.toml",
    )


def _of_phsafe(folder: Path, name: str) -> tuple[str, Sequence[str]]:
    """A configuration of the S-DHC, whose parameters were read once."""
    parameters = folder / FILE
    read_config(parameters)
    return of_folder(name, folder, parameters), (
        "next:",
        f"  das check {name}.toml",
        f"  das run {name}.toml",
    )


def _said(guess: Guess, out: Path, without: Sequence[str], *, listed: bool) -> list[str]:
    places = " > ".join(c.name for c in guess.geography)
    lines = [
        f"  places      {places}"
        + (" (codes put together: they repeat)" if guess.within_parent else ""),
        f"  attributes  {', '.join(c.name for c in guess.attributes)}",
    ]
    if guess.areas:
        lines.append(f"  areas       {', '.join(c.name for c in guess.areas)}")
    if guess.names:
        lines.append(
            "  names      "
            f" {', '.join(f'{c.name} (of {level})' for level, c in guess.names.items())}"
        )
    if guess.count is not None:
        lines.append(f"  count       {guess.count.name}")
    lines += [f"  not used    {name or '(no name)'}: {why}" for name, why in guess.left.items()]
    lines += [f"  note        {note}" for note in guess.notes]
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
        "  2. [data.columns.geography]: the places are those of the table of places"
        if listed
        else (
            "  2. [data.columns.geography]: the places are those of the table; list all of them, also"
            " empty ones, in a table of their own (geography.places)"
        ),
        f"  3. das check {out}     (what it costs, and how exact it is)",
        f"  4. das run {out} --out runs/{out.stem}",
    ]
