"""``das intervals``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from das.cli.options import PATH, guarded, json_option, run_options, warn
from das.engine.display import Live
from das.files.run.ledger import INTERVALS
from das.files.run.run_directory import is_private, release_of
from das.jobs.intervals import intervals as made
from das.model.not_private import marked
from das.release.area_counts import COVERAGE
from das.release.replicated import ENOUGH, PAGE, SAYS
from das.replicates import RULES


@click.command()
@click.argument("release", type=PATH)
@click.option("--replicates", "count", type=click.IntRange(2), default=ENOUGH, show_default=True,
              help="25 do for counts; shares, extremes and simultaneous intervals want 50.")  # fmt: skip
@click.option("--coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=COVERAGE, show_default=True,
              help="How often an interval holds the true count.")  # fmt: skip
@click.option("--rule", type=click.Choice(list(RULES)), default="ct", show_default=True,
              help="How replicates become an interval; ct is the Bureau's.")  # fmt: skip
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Of this table alone, such as P1; repeatable.")
@click.option(
    "--level", "levels", multiple=True, metavar="NAME", help="Of this level alone, such as Tract; repeatable."
)
@click.option("--out", type=PATH, help="Folder of the intervals. Default: intervals/ of the release.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True,
              help="Of the replicates' noise. It is public, and no secret of the release.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with what was interrupted.")
@run_options
@json_option
@guarded
def intervals(
    release: Path, count: int, coverage: float, rule: str, tables: tuple[str, ...], levels: tuple[str, ...], out: Path | None,
    seed: int, resume: bool, workers: int, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """An interval for every published count of a RUN or release, from the release alone.

    The algorithm is run again on what was published, with fresh public noise: that costs no budget. Intervals are of
    disclosure avoidance alone.
    """
    out, private = out or release_of(release) / INTERVALS, is_private(release)
    with Live(quiet) as progress:
        rows = made(release, out, replicates=count, coverage=coverage, rule=rule, tables=tables, levels=levels, seed=seed,
                    workers=workers, resume=resume, progress=progress)  # fmt: skip
    if as_json:
        said = {"out": str(out), "replicates": count, "coverage": coverage, "rule": rule, "seed": seed, "rows": rows,
                "page": str(out / PAGE)}  # fmt: skip
        click.echo(json.dumps(marked(said, private)))
        return
    warn(private)
    for name, n in rows.items():
        click.echo(f"  {name}: {n:,} intervals")
    click.echo(f"written: {out}; to look a place up: {out / PAGE}")
    for line in SAYS:
        click.echo(f"  {line}")
