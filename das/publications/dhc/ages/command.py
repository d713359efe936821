"""Ages of places as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.options import OUT, PATH, warn
from das.model.not_private import marked
from das.publications.dhc.ages import drawing as pictures


@click.command("ages")
@click.argument("run", type=PATH)
@click.option("--level", default="County", show_default=True, help="Such as Tract.")
@click.option("--geocode", "prefixes", multiple=True, help="Places whose code begins like this.")
@click.option("--name", "names", multiple=True, help="Places with this in their name.")
@click.option(
    "--first",
    type=click.IntRange(1),
    default=12,
    show_default=True,
    help="Most places; those with the most persons are shown.",
)
@click.option("--out", type=OUT, help="A file name in .html. Default: ages-<level>.html.")
@answering
def ages(
    run: Path,
    level: str,
    prefixes: tuple[str, ...],
    names: tuple[str, ...],
    first: int,
    out: Path | None,
) -> CommandAnswer:
    """Draw the ages of places of a RUN or release of the DHC: pyramids in classes of five years and
    in single years, and median ages. Where the release has intervals (`das intervals`), they are
    drawn."""
    source, found = pictures.age_pictures(run, pictures.PlaceChoice(level, prefixes, names, first))
    out = out or Path(f"ages-{found.level.replace(' ', '_')}.html")
    pictures.write(source, found, out)
    said = {
        "ages": str(out),
        "places": list(found.names),
        "replicates": found.replicates,
        "left_out": found.left_out,
    }

    def show() -> None:
        warn(source.private)
        if not found.replicates:
            click.echo("without intervals: das intervals makes them")
        click.echo(f"written: {out}")

    return CommandAnswer(marked(said, source.private), show)
