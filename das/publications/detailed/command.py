"""Tables of detailed groups: what a plan gives, and estimates from a release."""

from __future__ import annotations

from pathlib import Path

import click

from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.lazy import LateCommands, LazyGroup
from das.cli.kit.options import OUT, PATH, warn
from das.files.run.run_directory import release_of
from das.model.not_private import marked

LINES = {
    "estimate": "Estimates that add up, with intervals, from a release alone.",
    "plan": "Margins, thresholds and budgets, exactly.",
    "risk": "What an intruder learns of one person, and of the size of a group.",
}
COMMANDS = LateCommands(
    {
        "estimate": __name__,
        "plan": "das.publications.detailed.planning.command",
        "risk": "das.publications.detailed.risk",
    }
)


@click.group(cls=LazyGroup, late=COMMANDS, sections={"Commands": LINES})
def detailed() -> None:
    """Tables of detailed race and ethnic groups (SafeTab-P and SafeTab-H): folders as those
    programs take them."""


@click.command()
@click.argument("release", type=PATH)
@click.option(
    "--out",
    type=OUT,
    required=True,
    help="Folder of the estimates; existing estimates are replaced.",
)
@click.option(
    "--integers", is_flag=True, help="Also nonnegative integers that add up: the column COUNT."
)
@click.option("--csv", is_flag=True, help="Also write each part as CSV.")
@answering
def estimate(release: Path, out: Path, integers: bool, csv: bool) -> CommandAnswer:
    """Estimate all groups of a RUN or release from its measurements: values that add up, with
    standard errors and 95 % intervals."""
    from das.publications.detailed.estimation.release import estimate as estimated  # slow to load
    from das.publications.detailed.release import open_groups

    opened = open_groups(release_of(release))
    rows, private = estimated(opened, out, integers=integers, csv=csv), opened.spec.run.private

    def show() -> None:
        warn(private)
        for kind, n in rows.items():
            click.echo(f"  {kind}: {n:,} rows")
        click.echo(f"written: {out}")

    return CommandAnswer(marked({"out": str(out), "rows": rows}, private), show)
