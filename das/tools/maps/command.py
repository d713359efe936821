"""Maps of a run, with boundaries that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.options import OUT, PATH, warn
from das.errors import UserError
from das.files.run.run_directory import RunDirectory
from das.model.not_private import marked
from das.tools.maps.truth import mapping


@click.command("map")
@click.argument("run", type=PATH)
@click.option(
    "--boundaries", type=PATH, required=True, help="GeoPackage, GeoJSON or shapefile, with GEOIDs."
)
@click.option(
    "--level", required=True, help="Such as County, or areas off the spine, such as Place."
)
@click.option(
    "--show",
    type=click.Choice(("count", "margin", "error")),
    default="count",
    show_default=True,
    help="Published counts, margins of error of the noise, or errors (confidential).",
)
@click.option("--query", default="total", show_default=True, help="Such as hispanic.")
@click.option(
    "--answer",
    help=(
        "Which answer to the query, or line of the table: its name, such as 'Hispanic or "
        "Latino', or its number. A line can also be named by its field, such as P0120003."
    ),
)
@click.option("--table", help="A published table instead of a query, such as P12.")
@click.option(
    "--share-of",
    metavar="ANSWER",
    help="In percent of this: total, or another line of the table, such as P0120001.",
)
@click.option(
    "--per",
    metavar="COLUMN",
    help=(
        "Density: land-area, per square mile of the boundaries' column ALAND, or any other of"
        " their columns of numbers."
    ),
)
@click.option("--universe", help="Such as housing, or households.  [default: persons]")
@click.option("--key", help="The boundaries' column of GEOIDs. Default: found automatically.")
@click.option(
    "--out",
    type=OUT,
    help="A file name in .html or .svg. Default: map-<level>.html, errors in confidential/.",
)
@answering
def map(
    run: Path,
    boundaries: Path,
    level: str,
    show: str,
    query: str,
    answer: str | None,
    table: str | None,
    share_of: str | None,
    per: str | None,
    universe: str | None,
    key: str | None,
    out: Path | None,
) -> CommandAnswer:
    """Draw a number for each unit of a RUN or release on a map. Needs the extra `maps` (geopandas).

    Places are joined to boundaries by GEOID, or else by code. Places without a match are counted
    and named."""
    if table is not None and query != "total":
        raise UserError(
            "a map shows a query or a table", where="--query, --table", remedy="leave one out"
        )
    options = mapping.MapOptions(
        level, query, answer, cast(mapping.Show, show), universe, table, share_of, per
    )
    data = mapping.choropleth(run, options, boundaries, key)
    if out is None:
        out = (
            RunDirectory(run).confidential if data.confidential else Path()
        ) / f"map-{level.replace(' ', '_')}.html"
    mapping.write(data, out)
    said = {"map": str(out), "confidential": data.confidential, "lacks": list(data.lacks)}
    written = f"written: {out}{' (confidential)' if data.confidential else ''}"

    def show_written() -> None:
        warn(data.private)
        click.echo("\n".join([*data.lacks, written]))

    return CommandAnswer(marked(said, data.private), show_written)
