"""Arguments to pipeline to exit code: one module for each group of commands."""

from __future__ import annotations

import click

import das
from das.cli.lazy import LazyGroup

#: Each command, the module that defines it under its own name, and its line in ``das --help``.
COMMANDS = {
    "init": ("das.cli.init", "Write a first configuration for a table of your own."),
    "run": ("das.cli.running", "Run the whole pipeline, from records to a release and a report."),
    "status": ("das.cli.tasks", "Show a run's progress: stages, speed, expected end, workers."),
    "tasks": ("das.cli.tasks", "List the remaining tasks of a run, for jobs of your own."),
    "task": ("das.cli.tasks", "Do one task of a run."),
    "check": (
        "das.cli.check",
        "Validate a configuration; print its cost, noise and margins of error.",
    ),
    "plan": (
        "das.cli.plan",
        "Show margins of error for a budget, or the budget for margins of error.",
    ),
    "account": (
        "das.cli.account",
        "Show the privacy loss of a configuration or a run; verify a release.",
    ),
    "register": (
        "das.cli.register",
        "Keep an office's register of everything spent, with a cap that runs cannot pass.",
    ),
    "estimate": (
        "das.cli.estimate",
        "Do everything after measurement, from a release's measurements alone.",
    ),
    "tables": ("das.cli.tables", "Print published tables as CSV, Parquet or Markdown."),
    "intervals": (
        "das.cli.intervals",
        "Make an interval for every published count, from the release alone.",
    ),
    "area": (
        "das.cli.area",
        "Show counts of any areas of blocks, published and estimated, with intervals.",
    ),
    "link": (
        "das.cli.link",
        "Put the persons of a DHC into households that agree with its counts (experimental).",
    ),
    "ages": (
        "das.cli.ages",
        "Draw the ages of places: pyramids, single years and median ages, with intervals.",
    ),
    "map": ("das.cli.maps", "Draw a number for each unit on a map, with your boundaries."),
    "evaluate": ("das.cli.accuracy", "Recompute the errors of a finished run (confidential)."),
    "compare": (
        "das.cli.compare",
        "Compare a run with published counts, with its own truth (confidential), or with another.",
    ),
    "sweep": (
        "das.cli.accuracy",
        "Run the same input at several budgets, methods and repeats; draw curves.",
    ),
    "frontier": (
        "das.cli.frontier",
        "Compare methods of protection on your records: what each costs and protects.",
    ),
    "protect": ("das.cli.protect", "Protect tables by one method, without a study."),
    "risk": ("das.cli.risk", "Show what an intruder learns."),
    "nmf": ("das.cli.nmf", "Summarize, print and verify noisy measurement files."),
    "store": (
        "das.cli.store",
        "Copy a finished run to S3 or another store; fetch a release from one.",
    ),
    "detailed": (
        "das.cli.detailed",
        "Make the Detailed DHC (race and ethnic groups) from SafeTab folders.",
    ),
    "data": ("das.cli.data", "Simulate extracts; list and fetch official files."),
}


@click.group(cls=LazyGroup, late=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(das.__version__, prog_name="das")
def main() -> None:
    """The TopDown disclosure-avoidance system: census records to noisy measurements and synthetic
    microdata.
    """
