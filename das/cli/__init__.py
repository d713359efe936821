"""Arguments to pipeline to exit code: one module for each group of commands."""

from __future__ import annotations

import click

import das
from das.cli.kit.lazy import LazyGroup
from das.plugins import Plugins

#: Lines of ``das --help``, in its order, so that it loads none of these commands. The line of
#: another package's command is the beginning of its help.
LINES = {
    "init": "Write a first configuration for a table of your own.",
    "run": "Run the whole pipeline, from records to a release and a report.",
    "status": "Show a run's progress: stages, speed, expected end, workers.",
    "tasks": "List the remaining tasks of a run, for jobs of your own.",
    "task": "Do one task of a run.",
    "check": "Validate a configuration; print its cost, noise and margins of error.",
    "plan": "Show margins of error for a budget, or the budget for margins of error.",
    "account": "Show the privacy loss of a configuration or a run; verify a release.",
    "register": "Keep an office's register of everything spent, with a cap that runs cannot pass.",
    "estimate": "Do everything after measurement, from a release's measurements alone.",
    "tables": "Print published tables as CSV, Parquet or Markdown.",
    "intervals": "Make an interval for every published count, from the release alone.",
    "area": "Show counts of any areas of blocks, published and estimated, with intervals.",
    "link": "Put the persons of a DHC into households that agree with its counts (experimental).",
    "ages": "Draw the ages of places: pyramids, single years and median ages, with intervals.",
    "map": "Draw a number for each unit on a map, with your boundaries.",
    "evaluate": "Recompute the errors of a finished run (confidential).",
    "compare": (
        "Compare a run with published counts, with its own truth (confidential), or with another."
    ),
    "sweep": "Run the same input at several budgets, methods and repeats; draw curves.",
    "frontier": "Compare methods of protection on your records: what each costs and protects.",
    "protect": "Protect tables by one method, without a study.",
    "risk": "Show what an intruder learns.",
    "nmf": "Summarize, print and verify noisy measurement files.",
    "store": "Copy a finished run to S3 or another store; fetch a release from one.",
    "detailed": "Make the Detailed DHC (race and ethnic groups) from SafeTab folders.",
    "data": "Simulate extracts; list and fetch official files.",
}
COMMANDS: Plugins[click.Command] = Plugins("das.commands", "command", click.Command, tuple(LINES))


@click.group(
    cls=LazyGroup,
    late=COMMANDS,
    lines=LINES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(das.__version__, prog_name="das")
def main() -> None:
    """The TopDown disclosure-avoidance system: census records to noisy measurements and synthetic
    microdata.
    """
