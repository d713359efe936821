"""Arguments to pipeline to exit code: one module for each group of commands."""

from __future__ import annotations

import gc

import click

import das
from das.cli.lazy import LazyGroup

#: Each command, the module that defines it under its own name, and its line in ``das --help``.
COMMANDS = {
    "init": ("das.cli.init", "A first configuration from a table of your own."),
    "run": ("das.cli.running", "The whole pipeline, from records to a release and a report."),
    "status": (
        "das.cli.tasks",
        "How far a run is: what is done, how fast, when it ends, who is at work.",
    ),
    "tasks": ("das.cli.tasks", "What is left to do of a run, for jobs of your own."),
    "task": ("das.cli.tasks", "Do one task of a run."),
    "check": (
        "das.cli.check",
        "Validate a configuration; print its cost, noise and margins of error.",
    ),
    "plan": ("das.cli.plan", "Margins of error for a budget, and the budget for margins of error."),
    "account": (
        "das.cli.account",
        "The privacy loss of a configuration or a run; verify a release.",
    ),
    "estimate": (
        "das.cli.estimate",
        "Everything after measurement, from a release's measurements alone.",
    ),
    "tables": ("das.cli.tables", "Published tables as CSV, Parquet or Markdown."),
    "intervals": (
        "das.cli.intervals",
        "An interval for every published count, from the release alone.",
    ),
    "area": (
        "das.cli.area",
        "Counts of any areas of blocks, published and estimated, with intervals.",
    ),
    "map": ("das.cli.maps", "A number of each unit on a map, with boundaries that you name."),
    "evaluate": ("das.cli.accuracy", "The errors of a finished run again (confidential)."),
    "compare": ("das.cli.accuracy", "Noisy measurements beside published counts (confidential)."),
    "sweep": (
        "das.cli.accuracy",
        "The same input at several budgets, methods and repeats, with curves.",
    ),
    "risk": ("das.cli.risk", "What an intruder learns."),
    "nmf": (
        "das.cli.nmf",
        "Noisy measurement files: what they hold, rows of them, whether they are whole.",
    ),
    "store": (
        "das.cli.store",
        "Carry a finished run to S3 or another store; fetch a release from one.",
    ),
    "detailed": (
        "das.cli.detailed",
        "Tables of detailed race and ethnic groups, from the folders of SafeTab.",
    ),
    "data": ("das.cli.data", "Simulated extracts, and official files."),
}


@click.group(cls=LazyGroup, late=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(das.__version__, prog_name="das")
def main() -> None:
    """The TopDown disclosure-avoidance system: census records to noisy measurements and synthetic
    microdata.
    """
    gc.set_threshold(
        50_000, 20, 100
    )  # what is loaded and counted stays: to look for cycles is a tenth of a short command
