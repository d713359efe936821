"""``das link``: persons in their households, from a release of the DHC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.options import OUT, PATH, picture_option, run_options, warn, write_picture
from das.engine.display import Live
from das.files.run.run_directory import release_of
from das.tools.link.release import (
    AFTER,
    BEFORE,
    LinkOptions,
    agreement_picture,
    link_release,
    usual,
)


@click.command()
@click.argument("release", metavar="RUN", type=PATH)
@click.option("--out", type=OUT, required=True, help="A new or empty folder.")
@click.option(
    "--number",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Which link: others make other choices between equals. Compare several.",
)
@click.option("--csv", is_flag=True, help="Write CSV files, not Parquet.")
@click.option("--no-tables", is_flag=True, help="Leave out the tables of the DHC.")
@click.option(
    "--replicates",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Replicates to link for the errors of averages. Each takes as long as the estimation.",
)
@click.option(
    "--targets",
    type=PATH,
    help="A RUN or release of the S-DHC of the same records: the link is moved towards its totals"
    " of persons in households by tenure, and by race of the householder and age.",
)
@picture_option
@run_options
@answering
def link(
    release: Path,
    out: Path,
    number: int,
    csv: bool,
    no_tables: bool,
    replicates: int,
    targets: Path | None,
    picture: Path | None,
    workers: int,
    quiet: bool,
) -> CommandAnswer:
    """Put the persons of a DHC into households (experimental).

    Reads a RUN or release, and costs no budget. Writes persons, households and group
    quarters that agree with each other, and the files of the DHC that follow from them. No
    household is a real one."""
    sdhc = None if targets is None else release_of(targets)
    options = LinkOptions(number, csv, not no_tables, replicates, sdhc)
    with Live(quiet) as progress:
        found = link_release(release_of(release), out, options, workers=workers, progress=progress)
    if picture is not None:
        drawn = write_picture(picture, agreement_picture(out, found))
        click.echo(f"written: {drawn}", err=True)
    return CommandAnswer(found, lambda: _print(found, out))


def _print(facts: Mapping[str, Any], out: Path) -> None:
    warn(facts.get("private", True))
    odd = facts["blocks_that_disagree"]
    click.echo(
        f"{facts['persons_in_households']:,} persons in {facts['households']:,} households:"
        " synthetic, no household is a real one"
    )
    click.echo(
        f"blocks whose persons and households disagree: {odd[BEFORE]:,} of {facts['blocks']:,} as"
        f" published, {odd[AFTER]:,} as linked"
    )
    if odd[BEFORE]:
        click.echo("  " + usual(odd[BEFORE] / facts["blocks"]))
    click.echo(
        f"households that moved to another block: {facts['households_in_other_blocks']:,}"
        f" ({out / 'changes.csv'})"
    )
    for figure in facts["kinship"]:
        click.echo(f"{figure['says']}: {figure['value']:.3g}")
    click.echo(f"written: {out}")
