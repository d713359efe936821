"""``das detailed check`` and ``das detailed run``."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import click

from das.cli.console import console
from das.cli.interruption import of_engine, optional, resumable
from das.cli.options import (
    PATH,
    chosen_engine,
    engine_options,
    exact_delta,
    guarded,
    json_option,
    run_options,
    say_notes,
    warn,
)
from das.engine.choice import EngineChoice
from das.engine.display import Live
from das.errors import UserError
from das.jobs.groups import run_groups
from das.model.adaptive import PRODUCTS
from das.model.not_private import CELL, COLUMN, marked
from das.release.group_tables import TABLES
from das.spec.detailed import DELTA, DetailedSpec
from das.spec.parts import Run
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
    spec = DetailedSpec(Run(name=product), read.parameters)
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
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with an interrupted run in --out; refused where there is none.",
)
@click.option(
    "--accept-spent",
    is_flag=True,
    help=(
        "With --resume: draw a second time what cannot be drawn again as it was, and state both"
        " spendings."
    ),
)
@engine_options
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
    resume: bool,
    accept_spent: bool,
    engine: str,
    scheduler: str | None,
    tls: Path | None,
    wait: bool,
    size: int,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure the groups of DATA as the folder PARAMETERS says, and write their tables."""
    if (accept_spent and not resume) or (resume and out is None):
        raise UserError(
            "--accept-spent goes with --resume, and --resume with --out", where="das detailed run"
        )
    spec = Run(name=name or product, seed=seed)
    out = out or Path("runs") / f"{product}-{datetime.now():%Y%m%d-%H%M%S}"
    choice, at = (
        chosen_engine(EngineChoice(engine, workers, scheduler, tls, wait, size)),
        exact_delta(delta),
    )
    again = [
        "das",
        "detailed",
        "run",
        parameters,
        data,
        "--product",
        product,
        "--out",
        out,
        *optional("--totals", totals),
        *optional("--name", name),
        *optional("--seed", seed),
        *(["--delta", delta] if at != DELTA else []),
        *(["--workers", workers] if workers > 1 else []),
        *of_engine(choice),
    ]
    with resumable(out, again), Live(quiet) as progress:
        outcome = run_groups(
            parameters,
            data,
            product,
            out,
            run=spec,
            delta=at,
            totals=totals,
            engine=choice,
            progress=progress,
            resume=resume,
            accept_spent=accept_spent,
        )
    if outcome.was_finished:
        click.echo(
            f"das: note: {out} is finished: there is nothing to resume, and nothing was changed",
            err=True,
        )
    say_notes(outcome.notes)
    release, private = outcome.directory.release, outcome.spec.run.private
    if as_json:
        said = {
            "release": str(release),
            "rows": outcome.rows,
            "seconds": outcome.seconds,
            "was_finished": outcome.was_finished,
        }
        click.echo(json.dumps(marked(said, private)))
        return
    warn(private)
    screen = console()
    for table, rows in outcome.rows.items():
        screen.print(f"  {table}: {rows:,} rows", highlight=False)
    if not outcome.was_finished:
        screen.print(f"written in {outcome.seconds:.1f} s:", highlight=False)
    may = "safe to publish under the guarantee in privacy.json" if private else f"{COLUMN}: {CELL}"
    click.echo(f"  release  {release}   ({may})")
    click.echo(f"  tables   {release / TABLES}")
    if outcome.directory.page.is_file():
        click.echo(f"  report   {outcome.directory.page}")
