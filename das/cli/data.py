"""Simulated extracts, and official files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from das.cli.options import PATH, guarded, json_option, quiet_option
from das.engine.display import Live
from das.errors import UserError
from das.files import fetch
from das.files.simulators import census_1940 as simulate_1940
from das.files.simulators import census_2010 as simulate_2010


@click.group()
def data() -> None:
    """Simulated extracts, and official files."""


@data.command()
@click.argument("year", type=click.Choice(["2010", "1940"]))
@click.option("--out", type=PATH, required=True, help="Folder to write to.")
@click.option("--seed", type=int, required=True, help="The same seed gives the same files.")
@click.option("--states", type=click.IntRange(1, 51), default=3, show_default=True)
@click.option("--persons", type=click.IntRange(1), default=12_000, show_default=True)
@click.option("--sf1", is_flag=True, help="2010 only: write group quarters by type (SF1 segment 06) too.")
@json_option
@guarded
def simulate(year: str, out: Path, seed: int, states: int, persons: int, sf1: bool, as_json: bool) -> None:
    """Write a simulated extract in the true format of 2010 (P.L. 94-171) or 1940 (EXT1940USCB)."""
    if sf1 and year == "1940":
        raise UserError("there is no SF1 for 1940", where="--sf1")
    if year == "2010":
        written = simulate_2010.write(out, seed=seed, states=states, persons=persons, sf1=sf1)
    else:
        written = simulate_1940.write(out, seed=seed, states=states, persons=persons)
    _print(written, as_json)


@data.command("list")
@json_option
@guarded
def list_(as_json: bool) -> None:
    """The official files that `das data fetch` knows."""
    if as_json:
        click.echo(json.dumps([{"name": entry.name, "url": entry.url} for entry in fetch.catalog()]))
        return
    for entry in fetch.catalog():
        click.echo(f"{entry.name:20}  {entry.url}")


@data.command("fetch")
@click.argument("names", nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="Folder to write to; files already there are kept.")
@json_option
@quiet_option
@guarded
def fetch_(names: tuple[str, ...], out: Path, as_json: bool, quiet: bool) -> None:
    """Download official files by name (see `das data list`), check and keep them."""
    with Live(quiet) as progress:
        paths = fetch.fetch(names, out, progress=progress)
    _print(paths, as_json)


def _print(paths: Sequence[Path], as_json: bool) -> None:
    click.echo(json.dumps([str(p) for p in paths]) if as_json else "\n".join(map(str, paths)))
