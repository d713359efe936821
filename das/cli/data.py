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
from das.files.simulators import detailed, nation
from das.model.adaptive import PRODUCTS


@click.group()
def data() -> None:
    """Simulated extracts, and official files."""


@data.command()
@click.argument("what", type=click.Choice(["2010", "1940", "nation", "detailed"]))
@click.option("--out", type=PATH, required=True, help="Folder to write to; states of a nation that are there are kept.")
@click.option("--seed", type=int, required=True, help="The same seed gives the same files.")
@click.option("--states", help="How many states; of the nation and of detailed groups which, as RI,TX, of these PR and all, too.  "
              "[default: 3, all of the nation, and AZ,RI,PR]")  # fmt: skip
@click.option("--persons", type=click.IntRange(1), help="Persons in all; the nation's are given.  [default: 12000]")
@click.option("--sf1", is_flag=True, help="2010 only: write group quarters by type (SF1 segment 06) too.")
@click.option(
    "--share",
    type=float,
    help="Nation and detailed only: the part of each state to make, as 0.1.  [default: 1, or --persons]",
)
@click.option("--product", type=click.Choice(list(PRODUCTS)), help="Detailed only: whose records.  [default: persons]")
@click.option("--parameters", type=PATH, metavar="DIR", help="Detailed only: a folder whose code tables, and budgets if they are of the "
              "product, are taken. Default: made up, as many as in 2020.")  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True,
    help="Nation and detailed only: processes, a state to each.",
)  # fmt: skip
@json_option
@quiet_option
@guarded
def simulate(
    what: str, out: Path, seed: int, states: str | None, persons: int | None, sf1: bool, share: float | None,
    product: str | None, parameters: Path | None, workers: int, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write a simulated extract in the true format of 2010 (P.L. 94-171) or 1940 (EXT1940USCB), or a NATION of 51 states in
    that of 2020, with its 8.1 million blocks and the public totals of states and counties; or folders of parameters and of records for
    DETAILED groups, as `das detailed` takes them."""
    if sf1 and what != "2010":
        raise UserError(f"there is no SF1 for {what}", where="--sf1")
    if what != "detailed" and (product is not None or parameters is not None):
        raise UserError(f"--product and --parameters are of detailed groups, not of {what}", where="das data simulate")
    if what in ("2010", "1940") and (share is not None or workers != 1):
        raise UserError(
            f"--share and --workers are of the nation and of detailed groups, not of {what}", where="das data simulate"
        )
    if what == "detailed":
        with Live(quiet) as progress:
            written = detailed.write(out, seed=seed, states=detailed.DEFAULT_STATES if states is None else states, persons=persons, share=share,
                                     product=product or "persons", given=parameters, workers=workers, progress=progress)  # fmt: skip
    elif what == "nation":
        if persons is not None:
            raise UserError("a nation has the persons of its states", where="--persons", remedy="give --share")
        with Live(quiet) as progress:
            named = states.upper().split(",") if states is not None else None
            part = 1.0 if share is None else share
            written = nation.write(out, seed=seed, share=part, states=named, workers=workers, progress=progress)
    elif what == "2010":
        written = simulate_2010.write(out, seed=seed, states=_number(states), persons=persons or 12_000, sf1=sf1)
    else:
        written = simulate_1940.write(out, seed=seed, states=_number(states), persons=persons or 12_000)
    _print(written, as_json)


def _number(states: str | None) -> int:
    try:
        return 3 if states is None else int(states)
    except ValueError:
        raise UserError(
            f"{states!r} is no number of states", where="--states", remedy="name states of a nation only"
        ) from None


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
