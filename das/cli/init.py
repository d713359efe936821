"""A first configuration from a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from das.cli.options import OUT, PATH, guarded
from das.errors import UserError
from das.files.atomic import write_text
from das.files.detailed.folders import product_of
from das.files.readers import profile
from das.spec import load
from das.spec.draft import draft, left_out, of_folders
from das.spec.guess import RARE, Guess, guess


@click.command()
@click.option("--from", "table", type=PATH, help="A table of persons, CSV or Parquet.")
@click.option(
    "--from-safetab",
    "safetab",
    type=PATH,
    metavar="FOLDER",
    help="A folder with the folders `parameters` and `data` of the Detailed DHC.",
)
@click.option(
    "--out",
    type=OUT,
    help="The configuration to write. Default: the name of the table, or folder, and .toml.",
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
def init(
    table: Path | None, safetab: Path | None, out: Path | None, geography: str | None, rare: bool
) -> None:
    """Write a complete, commented configuration for a table of your own: which columns are places,
    which attributes, a plain budget. Add the levels that it leaves out, because few people have
    them; check it before you rely on it. Or one of the Detailed DHC, for folders of SafeTab."""
    given = table or safetab
    if given is None or (table and safetab):
        raise UserError("name a table, or a folder of SafeTab", where="--from, --from-safetab")
    out = out or Path(f"{given.name.partition('.')[0] or 'own'}.toml")
    if out.exists():
        raise UserError(
            "is there already", where=out, remedy="choose another --out; nothing is overwritten"
        )
    text, said = _of_table(table, out, geography, rare) if table else _of_safetab(given, out.stem)
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
    table: Path, out: Path, geography: str | None, rare: bool
) -> tuple[str, Sequence[str]]:
    """A configuration of counts over a tree, and what to say of it."""
    seen = profile.read(table)
    found = guess(seen, [g.strip() for g in geography.split(",")] if geography else (), rare=rare)
    return draft(seen, found, out.stem, rare=rare), _said(
        found, out, [] if rare else left_out(found)
    )


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
    return of_folders(name, product, parameters, data), (
        f"  product     {product}",
        "next:",
        f"  das check {name}.toml",
        f"  das run {name}.toml",
    )


def _said(found: Guess, out: Path, without: Sequence[str]) -> list[str]:
    places = " > ".join(c.name for c in found.geography)
    lines = [
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
