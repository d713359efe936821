"""Tables of detailed groups: check folders, plan a budget, run."""

from __future__ import annotations

import click

from das.cli.lazy import LazyGroup

COMMANDS = {
    "run": (
        "das.cli.detailed_run",
        "From folders of parameters and records to tables and measurements.",
    ),
    "check": ("das.cli.detailed_run", "Check the folders, all faults at once; what is in them."),
    "estimate": (
        "das.cli.detailed_estimate",
        "Estimates that add up, with intervals, from a release alone.",
    ),
    "plan": ("das.cli.detailed_plan", "Margins, thresholds and budgets, exactly."),
    "risk": (
        "das.cli.detailed_risk",
        "What an intruder learns of one person, and of the size of a group.",
    ),
}


@click.group(cls=LazyGroup, late=COMMANDS)
def detailed() -> None:
    """Tables of detailed race and ethnic groups (SafeTab-P and SafeTab-H): folders as those
    programs take them.
    """
