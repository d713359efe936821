"""Tables of detailed groups: what a plan gives, and estimates from a release."""

from __future__ import annotations

import click

from das.cli.kit.lazy import LateCommands, LazyGroup

LINES = {
    "estimate": "Estimates that add up, with intervals, from a release alone.",
    "plan": "Margins, thresholds and budgets, exactly.",
    "risk": "What an intruder learns of one person, and of the size of a group.",
}
COMMANDS = LateCommands(
    {
        "estimate": "das.publications.detailed.estimation.command",
        "plan": "das.publications.detailed.planning.command",
        "risk": "das.publications.detailed.risk",
    }
)


@click.group(cls=LazyGroup, late=COMMANDS, sections={"Commands": LINES})
def detailed() -> None:
    """Tables of detailed race and ethnic groups (SafeTab-P and SafeTab-H): folders as those
    programs take them."""
