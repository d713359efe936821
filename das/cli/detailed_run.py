"""``das detailed check`` and ``das detailed run``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from das.cli.console import console
from das.cli.interruption import optional
from das.cli.options import (
    PATH,
    Going,
    Stores,
    engine_options,
    exact_delta,
    guarded,
    json_option,
    resume_options,
    run_options,
    store_options,
)
from das.cli.running import performed, show
from das.engine.choice import EngineChoice
from das.model.adaptive import PRODUCTS
from das.spec import DetailedFolders, of_kind, of_tree
from das.spec.detailed import DELTA
from das.truth.group_folders import GivenFolders, read_folders

product_option = click.option(
    "--product",
    type=click.Choice(list(PRODUCTS)),
    default="persons",
    show_default=True,
    help="Records of persons (SafeTab-P), or of households (SafeTab-H).",
)
totals_option = click.option(
    "--totals",
    type=PATH,
    metavar="FILE",
    help=(
        "Of households: the published totals of groups of persons. Default: pop-group-totals.txt in"
        " DATA."
    ),
)


@click.command()
@click.argument("parameters", type=PATH)
@click.argument("data", type=PATH)
@product_option
@totals_option
@json_option
@guarded
def check(parameters: Path, data: Path, product: str, totals: Path | None, as_json: bool) -> None:
    """Check the folders PARAMETERS and DATA, with every fault at once, and say what would be
    measured.

    What is wrong with records is confidential: the message is for their curator.
    """
    read = read_folders(GivenFolders.of(parameters, data, product, totals))
    records = read.counted()
    spec = of_folders(parameters, data, product, totals).on(read.parameters)
    if read.unmeasured:
        click.echo(
            "das: note: the totals have no group in any region of state"
            f" {', '.join(read.unmeasured)}: nothing below the nation would be measured of them",
            err=True,
        )
    regions = {kind: len(ids) for kind, ids in read.regions.ids.items()}
    rho = {run: str(read.parameters.cost(run)) for run in read.parameters.runs}
    currency = read.parameters.mechanism.currency
    if as_json:
        levels = [
            {"level": p.level, currency: str(p.cost), "stability": p.stability} for p in spec.plans
        ]
        out = {
            "product": product,
            "records": records,
            "left_out": read.left_out[0],
            "regions": regions,
            currency: rho,
            "levels": levels,
            "iterations": len(read.parameters.iterations.tabulated),
        }
        click.echo(json.dumps(out))
        return
    screen = console()
    screen.print(
        "confidential: counts of records are for their curator alone", style="bold", highlight=False
    )
    left = (
        f" ({read.left_out[0]:,} more in states of no run are left out)" if read.left_out[0] else ""
    )
    screen.print(
        f"{records:,} records of {product}{left}, {len(read.regions.block):,} blocks, "
        f"{len(read.parameters.iterations.tabulated):,} iterations",
        highlight=False,
    )
    screen.print(
        "regions: " + ", ".join(f"{kind} {n:,}" for kind, n in regions.items()), highlight=False
    )
    for run, cost in rho.items():
        screen.print(
            f"run {run}: {currency} = {cost} (about {float(read.parameters.cost(run)):.6g})",
            highlight=False,
        )


@click.command()
@click.argument("parameters", type=PATH)
@click.argument("data", type=PATH)
@product_option
@totals_option
@click.option(
    "--out", type=PATH, help="Folder of the run (new or empty). Default: runs/<product>-<time>."
)
@click.option("--name", help="Names the run and its outputs. Default: the product.")
@click.option("--seed", type=click.IntRange(0), help="Makes the run repeatable and NOT PRIVATE.")
@click.option(
    "--delta",
    metavar="D",
    default="1e-10",
    show_default=True,
    help="The privacy statement says epsilon at this delta.",
)
@resume_options
@engine_options
@store_options
@run_options
@json_option
@guarded
def run(
    parameters: Path,
    data: Path,
    product: str,
    totals: Path | None,
    out: Path | None,
    name: str | None,
    seed: int | None,
    delta: str,
    going: Going,
    choice: EngineChoice,
    stores: Stores,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure the groups of DATA as the folder PARAMETERS says, and write their tables.

    The same as `das run` of a configuration that names these folders (`das init
    --from-safetab`)."""
    exact_delta(delta)
    spec = of_folders(parameters, data, product, totals, name=name, seed=seed, delta=delta)
    again = ["detailed", "run", parameters, data, "--product", product]
    again += [*optional("--totals", totals), *optional("--name", name), *optional("--seed", seed)]
    again += ["--delta", delta] if spec.detailed.delta != DELTA else []
    outcome = performed(spec, again, out, (), going, False, choice, stores, quiet)
    show(spec, outcome, stores, show_errors=False, as_json=as_json)


def of_folders(
    parameters: Path,
    data: Path,
    product: str,
    totals: Path | None,
    *,
    name: str | None = None,
    seed: int | None = None,
    delta: str = "1e-10",
) -> DetailedFolders:
    """The configuration that names these folders."""
    named = {"totals": str(totals)} if totals is not None else {}
    seeded = {"seed": seed} if seed is not None else {}
    tree = {
        "run": {"name": name or product, "publication": "detailed-dhc"} | seeded,
        "data": {"path": str(data), "parameters": str(parameters)} | named,
        "detailed": {"product": product, "delta": delta},
    }
    spec = of_tree(tree, where="das detailed run")
    return of_kind(DetailedFolders, spec, "das detailed run")
