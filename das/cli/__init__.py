"""Arguments to pipeline to exit code: one module for each group of commands."""

from __future__ import annotations

import click

import das
from das.cli.kit.lazy import LazyGroup
from das.plugins import Plugins

#: The sections of ``das --help`` and their lines, in its order, so that it loads none of these
#: commands. The line of another package's command is the beginning of its help; its section is its
#: attribute ``section``, or the last.
SECTIONS = {
    "Make": {
        "init": "Write a first configuration for a table of your own.",
        "check": "Validate a configuration; print its cost and margins of error.",
        "plan": "Show margins of error for a budget, or a budget for margins.",
        "run": "Run everything, from records to a release; show a run's progress.",
        "estimate": "Estimate again, from a release's measurements alone.",
    },
    "Read": {
        "tables": "Print published tables as CSV, Parquet or Markdown.",
        "area": "Show counts of areas of blocks, with intervals.",
        "ages": "Draw the ages of places, with intervals.",
        "map": "Draw a number for each unit on a map, with your boundaries.",
        "intervals": "Make an interval for every published count.",
    },
    "Judge": {
        "evaluate": "Recompute the errors of a finished run (confidential).",
        "compare": "Compare a run with another, with published counts or its truth.",
        "sweep": "Run the same input at several budgets; draw curves.",
        "risk": "Show what an intruder learns.",
        "frontier": "Compare methods of protection; protect tables by one.",
    },
    "Account": {
        "account": "Show the privacy loss of a plan or a run; verify a release.",
        "register": "Keep a register of all that your office spends, with a cap.",
    },
    "Files": {
        "data": "Simulate extracts; list and fetch official files.",
        "nmf": "Summarize, print and verify noisy measurement files.",
        "store": "Copy a release to S3 or another store, or fetch one.",
    },
    "More": {
        "detailed": "Plan the Detailed DHC; estimates and risk of its groups.",
        "link": "Put the persons of a DHC into households (experimental).",
    },
}
LINES = {name: line for lines in SECTIONS.values() for name, line in lines.items()}
#: Old spellings, and the new ones.
MOVED = {
    "status": "run status",
    "tasks": "run tasks",
    "task": "run task",
    "protect": "frontier protect",
}
#: British spellings of options, which are read without a word.
SPELT = {"optimise": "optimize", "neighbours": "neighbors"}
COMMANDS: Plugins[click.Command] = Plugins("das.commands", "command", click.Command, tuple(LINES))


@click.group(
    cls=LazyGroup,
    late=COMMANDS,
    sections=SECTIONS,
    moved=MOVED,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda option: SPELT.get(option, option),
    },
)
@click.version_option(das.__version__, prog_name="das")
def main() -> None:
    """The TopDown disclosure-avoidance system: census records to noisy measurements and synthetic
    microdata."""
