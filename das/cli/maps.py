"""Maps of a run, beside boundaries that the user names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import click

from das.cli.options import OUT, PATH, guarded, json_option, warn
from das.files.run.run_directory import RunDirectory
from das.jobs import mapping
from das.model.not_private import marked


@click.command("map")
@click.argument("run", type=PATH)
@click.option(
    "--boundaries", type=PATH, required=True, help="GeoPackage, GeoJSON or shapefile, with GEOIDs."
)
@click.option(
    "--level", required=True, help="Such as County, or areas across the levels, such as Place."
)
@click.option(
    "--show",
    type=click.Choice(("count", "margin", "error")),
    default="count",
    show_default=True,
    help="Published counts, margins of the noise, or errors (confidential).",
)
@click.option("--query", default="total", show_default=True, help="Such as hispanic.")
@click.option(
    "--answer",
    help="Which answer to the query: its name, such as 'Hispanic or Latino', or its number.",
)
@click.option("--universe", default="persons", show_default=True, help="Such as housing.")
@click.option(
    "--key", help="The column of the boundaries that holds GEOIDs. Default: the one that does."
)
@click.option(
    "--out",
    type=OUT,
    help="A name in .html, .svg or .png. Default: map-<level>.html, errors in confidential/.",
)
@json_option
@guarded
def map(
    run: Path,
    boundaries: Path,
    level: str,
    show: str,
    query: str,
    answer: str | None,
    universe: str,
    key: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Draw a number of each unit of a RUN or release on a map. Needs the extra maps (geopandas).

    Places are joined to boundaries by their GEOID, or else by their code; those without a match are
    counted and named."""
    wanted = mapping.Wanted(level, query, answer, cast(mapping.Show, show), universe)
    data = mapping.choropleth(run, wanted, boundaries, key)
    if out is None:
        out = (
            RunDirectory(run).confidential if data.confidential else Path()
        ) / f"map-{level.replace(' ', '_')}.html"
    mapping.write(data, out)
    if as_json:
        said = {"map": str(out), "confidential": data.confidential, "lacks": list(data.lacks)}
        click.echo(json.dumps(marked(said, data.private)))
        return
    warn(data.private)
    for line in data.lacks:
        click.echo(line)
    click.echo(f"written: {out}{' (confidential)' if data.confidential else ''}")
