"""Tables protected by one method, as CSV."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from das.cli.kit.options import OUT, PATH, guarded, quiet_option
from das.engine.display import Live
from das.files.run.run_directory import refuse_inside_release
from das.tools.protection.truth.protecting import protect_records, study_of_method
from das.tools.protection.truth.study import METHODS


@click.command()
@click.argument("method", type=click.Choice(sorted(METHODS)))
@click.option("--data", type=PATH, help="A folder of linked persons, households and units.")
@click.option(
    "--study", type=PATH, help="A study, for its records, tables and geography, instead of --data."
)
@click.option(
    "--out", type=OUT, required=True, help="The folder of the tables. It is confidential."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PARAMETER=VALUE",
    help="A parameter of the method, such as rate=0.05 or base=5.",
)
@click.option("--points", type=PATH, help="With --data: coordinates of the lowest places.")
@click.option("--seed", type=click.IntRange(0), help="Makes the tables repeatable.")
@quiet_option
@guarded
def protect(
    method: str,
    data: Path | None,
    study: Path | None,
    out: Path,
    settings: tuple[str, ...],
    points: Path | None,
    seed: int | None,
    quiet: bool,
) -> None:
    """Write the tables of records, protected by one METHOD: what is printed, a CSV file for each
    level, and the bounds that anybody can know. With --data these are the 34 tables of the
    published attack; with --study those of the study."""
    refuse_inside_release(out)
    resolved, value = study_of_method(method, settings, data=data, study=study, points=points)
    key = secrets.token_bytes(32) if seed is None else seed.to_bytes(32, "big")
    with Live(quiet) as progress:
        written = protect_records(resolved, value, key, out, progress)
    click.echo(f"{value.label}; proved: {value.guarantee.value}")
    for path in written:
        click.echo(f"written: {path}")
