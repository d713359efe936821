"""What an intruder learns from a release of the Detailed DHC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from das.cli.answer import CommandAnswer, answering
from das.cli.console import console, records_table
from das.cli.detailed_plan import PRODUCT, read
from das.cli.options import PATH
from das.detailed.membership import DisclosureBySize, Membership, disclosures, membership

#: The persons for whom chances are stated: how many codes of race they are known to have written,
#: and whether their ethnicity is in a group.
PERSONS = {
    "one code of race": (1, False),
    "one code of race, and an ethnicity": (1, True),
    "as many codes as are read, and an ethnicity": (None, True),
}


@click.command()
@click.argument("folder", metavar="PARAMETERS", type=PATH)
@PRODUCT
@answering
def risk(folder: Path, product: str | None) -> CommandAnswer:
    """What an intruder learns about one person, and about the size of a group, from a release with
    these PARAMETERS.

    The intruder knows all other records and sees every level and both stages. Probabilities are
    exact, for the best possible test."""
    parameters = read(folder, product)
    found = [
        (who, membership(parameters, run, *of))
        for run in parameters.runs
        for who, of in PERSONS.items()
    ]
    seen = [
        s
        for run in parameters.runs
        for plan in parameters.plans(run)
        for s in disclosures(plan, parameters.chance)
    ]
    members = [{"who": who, **_row(m)} for who, m in found]
    data = {
        "product": parameters.product.name,
        "membership": members,
        "sizes": [asdict(s) for s in seen],
    }
    return CommandAnswer(data, lambda: _show(found, seen))


def _show(found: Sequence[tuple[str, Membership]], seen: Sequence[DisclosureBySize]) -> None:
    screen = console()
    screen.print(
        records_table(
            "Whether somebody was counted: right guesses at even odds, and who is found by false"
            " alarms",
            [{"who": who, **_shown(m)} for who, m in found],
        )
    )
    if seen:
        rows = [
            {
                "level": s.level,
                "seen": s.seen,
                "from": f"{s.least:,}",
                "to": "any" if s.most is None else f"{s.most:,}",
            }
            for s in seen
        ]
        screen.print(
            records_table(
                "How many people a group can have when this is published (other sizes would give"
                " it in at most one case of twenty)",
                rows,
            )
        )


def _row(m: Membership) -> dict[str, object]:
    return {
        "run": m.run,
        "right": m.right,
        "found": {str(alarm): share for alarm, share in m.found},
    }


def _shown(m: Membership) -> dict[str, str]:
    shares = {f"found, {float(alarm):.1%} false alarms": f"{share:.1%}" for alarm, share in m.found}
    return {"run": m.run, "right": f"{m.right:.1%}", **shares}
