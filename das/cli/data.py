"""Simulate extracts; list and fetch official files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from das.cli.kit.console import CommandAnswer, answering, print_answer
from das.cli.kit.options import OUT, PATH, guarded, json_option, quiet_option, say_notes
from das.engine.display import Live
from das.engine.tasks import Progress
from das.errors import UserError
from das.files import fetch
from das.files.simulators import census_1940 as simulate_1940
from das.files.simulators import census_2010 as simulate_2010
from das.files.simulators import census_2020
from das.publications.detailed.model.tables import PRODUCTS
from das.publications.detailed.simulation import files as detailed
from das.publications.dhc.truth import simulated
from das.publications.published import fetch as fetch_nmf

#: What takes an option that not all take.
_TAKE = {
    "states": ("2010", "1940", "nation", "detailed"),
    "persons": ("2010", "1940", "detailed"),
    "sf1": ("2010",),
    "share": ("nation", "detailed"),
    "workers": ("nation", "detailed"),
    "product": ("detailed",),
    "parameters": ("detailed",),
    "blocks": ("dhc",),
    "reader": ("dhc",),
}


@click.group()
def data() -> None:
    """Simulate extracts; list and fetch official files."""


@data.command()
@click.argument("what", type=click.Choice(["2010", "1940", "nation", "detailed", "dhc"]))
@click.option(
    "--out", type=OUT, required=True, help="Output folder; existing states of a nation are kept."
)
@click.option("--seed", type=int, required=True, help="The same seed gives the same files.")
@click.option(
    "--states",
    help=(
        "How many states. For the nation and the Detailed DHC: which, such as RI,TX; the "
        "latter also takes PR and all. [default: 3, all of the nation, and AZ,RI,PR]"
    ),
)
@click.option(
    "--persons",
    type=click.IntRange(1),
    help="Total number of persons; fixed for the nation. [default: 12000]",
)
@click.option(
    "--sf1", is_flag=True, help="2010 only: also write group quarters by type (SF1 segment 06)."
)
@click.option(
    "--share",
    type=float,
    help=(
        "Nation and detailed only: the share of each state to simulate, such as 0.1. "
        "[default: 1, or --persons]"
    ),
)
@click.option(
    "--product",
    type=click.Choice(list(PRODUCTS)),
    help="Detailed only: whose records.  [default: persons]",
)
@click.option(
    "--parameters",
    type=PATH,
    metavar="DIR",
    help=(
        "Detailed only: take the code tables of this folder, and its budgets if they are "
        "for the product. Default: simulated codes, as many as in 2020."
    ),
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Nation and detailed only: number of processes; each simulates a state at a time.",
)
@click.option(
    "--blocks",
    type=PATH,
    multiple=True,
    help=(
        "DHC only: a redistricting file, or a folder of them, with the counts of each "
        "block; repeatable."
    ),
)
@click.option(
    "--reader",
    type=click.Choice(simulated.READERS),
    help=f"DHC only: its format.  [default: {simulated.READERS[0]}]",
)
@json_option
@quiet_option
@guarded
def simulate(what: str, out: Path, seed: int, as_json: bool, quiet: bool, **given: Any) -> None:
    """Write a simulated input for testing. WHAT is one of:

    2010 or 1940: an extract in the true format of P.L. 94-171 or EXT1940USCB.

    nation: 51 states in the true format of 2020, with 8.1 million blocks and the public totals of
    states and counties.

    detailed: the folders of parameters and of records that `das run detailed-dhc` takes.

    dhc: linked persons, households and units for the DHC, with the exact counts of given
    redistricting files. They are as confidential as those files, so only you can read them."""
    said = click.get_current_context().get_parameter_source
    for name, takers in _TAKE.items():
        if what not in takers and said(name) is ParameterSource.COMMANDLINE:
            raise UserError(
                f"is of {', '.join(takers)}, not of {what}",
                where=f"--{name}",
                remedy="leave it out",
            )
    with Live(quiet) as progress:
        written = _simulated(what, out, seed, given, progress)
    _print(written, as_json)


def _simulated_dhc(
    blocks: Sequence[Path], out: Path, seed: int, reader: str | None, progress: Progress
) -> list[Path]:
    if not blocks:
        raise UserError(
            "no redistricting file is given",
            where="--blocks",
            remedy="give one with the counts of blocks; `das data simulate 2010` makes some",
        )
    reader = reader or simulated.READERS[0]
    made = simulated.made_up(blocks, seed=seed, reader=reader, progress=progress)
    progress.stage("write", None)
    written = simulated.write(out, made.world, made.blocks)
    say_notes(made.notes)
    return written


def _simulated(
    what: str, out: Path, seed: int, given: Mapping[str, Any], progress: Progress
) -> list[Path]:
    states, persons, share, workers = (
        given[name] for name in ("states", "persons", "share", "workers")
    )
    if what == "dhc":
        return _simulated_dhc(given["blocks"], out, seed, given["reader"], progress)
    if what == "detailed":
        return detailed.write(
            out,
            seed=seed,
            states=detailed.DEFAULT_STATES if states is None else states,
            persons=persons,
            share=share,
            product=given["product"] or "persons",
            given=given["parameters"],
            workers=workers,
            progress=progress,
        )
    if what == "nation":
        named = states.upper().split(",") if states is not None else None
        return census_2020.write(
            out,
            seed=seed,
            share=1.0 if share is None else share,
            states=named,
            workers=workers,
            progress=progress,
        )
    if what == "2010":
        return simulate_2010.write(
            out, seed=seed, states=_number(states), persons=persons or 12_000, sf1=given["sf1"]
        )
    return simulate_1940.write(out, seed=seed, states=_number(states), persons=persons or 12_000)


def _number(states: str | None) -> int:
    try:
        return 3 if states is None else int(states)
    except ValueError:
        raise UserError(
            f"{states!r} is no number of states",
            where="--states",
            remedy="name states of a nation only",
        ) from None


@data.command("list")
@answering
def list_() -> CommandAnswer:
    """List the official files that `das data fetch` knows."""
    every = [*((e.name, e.url) for e in fetch.catalog()), *fetch_nmf.catalog()]
    lines = [f"{name:20}  {url}" for name, url in every]
    rows = [{"name": name, "url": url} for name, url in every]
    return CommandAnswer(rows, lambda: click.echo("\n".join(lines)))


@data.command("fetch")
@click.argument("names", nargs=-1, required=True)
@click.option("--out", type=OUT, required=True, help="Output folder; files already there are kept.")
@click.option(
    "--product",
    "products",
    type=click.Choice(list(fetch_nmf.PRODUCTS)),
    multiple=True,
    help="nmf-2020 only: which files; repeatable.  [default: persons, units]",
)
@click.option(
    "--levels",
    metavar="L1,L2",
    help="nmf-2020 only: these levels.  [default: all; of the DHC: State,County]",
)
@click.option("--county", help="nmf-2020, DHC only: one county by its three digits, such as 007.")
@click.option(
    "--list", "only_list", is_flag=True, help="nmf-2020 only: print addresses and sizes; no more."
)
@click.option("--mirror", metavar="URL", help="A server with the same paths as the official one.")
@json_option
@quiet_option
@guarded
def fetch_(
    names: tuple[str, ...],
    out: Path,
    mirror: str | None,
    as_json: bool,
    quiet: bool,
    **measured: Any,
) -> None:
    """Download official files by name (see `das data list`), and check them.

    nmf-2020-ri: the noisy measurements of a state, for `das estimate --from`. The files are listed
    first, with their size. An interrupted download goes on where it stopped."""
    plain = [name for name in names if not name.startswith(fetch_nmf.FAMILY)]
    wanted = _measurements([n for n in names if n not in plain], **measured)
    paths: list[Path] = []
    with Live(quiet) as progress:
        for one in wanted:
            files = fetch_nmf.listed(one, mirror or fetch_nmf.BUCKET)
            _say_files(one, files, measured["only_list"], mirror or fetch_nmf.BUCKET)
            if not measured["only_list"]:
                paths.append(fetch_nmf.fetch(one, files, out, mirror or fetch_nmf.BUCKET, progress))
        if not measured["only_list"]:
            paths += fetch.fetch(plain, out, base_url=mirror, progress=progress)
    if not measured["only_list"]:
        _print(paths, as_json)


def _measurements(
    names: Sequence[str],
    products: tuple[str, ...],
    levels: str | None,
    county: str | None,
    only_list: bool,
) -> list[fetch_nmf.NmfRequest]:
    """What is wanted of the noisy measurement files."""
    if not names and (products or levels or county or only_list):
        raise UserError(
            "goes with noisy measurement files",
            where="--product, --levels, --county, --list",
            remedy="name a state's, such as nmf-2020-ri",
        )
    chosen = tuple(levels.split(",")) if levels else ()
    return [
        fetch_nmf.NmfRequest(fetch_nmf.state_of(name), product, chosen, county)
        for name in names
        for product in products or ("persons", "units")
    ]


def _say_files(
    wanted: fetch_nmf.NmfRequest, files: Sequence[fetch_nmf.BucketFile], every: bool, base_url: str
) -> None:
    """How much it is, on stderr; with ``every`` each address and size, as the result."""
    if every:
        for file in files:
            click.echo(f"{file.size:>13,}  {base_url.rstrip('/')}/{file.key}")
    size = sum(file.size for file in files) / 1e6
    click.echo(f"das: {wanted.folder}: {len(files):,} files, {size:,.1f} MB", err=True)


def _print(paths: Sequence[Path], as_json: bool) -> None:
    names = list(map(str, paths))
    print_answer(CommandAnswer(names, lambda: click.echo("\n".join(names))), as_json)
