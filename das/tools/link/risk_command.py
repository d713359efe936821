"""``das risk link``: what linked records say about true persons and households."""

from __future__ import annotations

from pathlib import Path

import click

from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.options import PATH, warn
from das.files.messages import privacy_of
from das.model.not_private import marked
from das.tools.link.truth.risk import attack_link
from das.tools.protection.attack.command import plain_rows

_SHOWN = (
    *("records", "read", "group", "persons"),
    *("agreement", "putative", "precision", "leave_one_out"),
)


@click.command()
@click.argument("run", type=PATH)
@click.option("--truth", type=PATH, required=True, help="The folder of the true linked records.")
@click.option("--linked", type=PATH, help="The output of `das link`. Default: that of the run.")
@answering
def link(run: Path, truth: Path, linked: Path | None) -> CommandAnswer:
    """Attack the linked population of a RUN or release of the DHC, and compare it with the true
    records: persons, who else lives in a household, and whole households. Next to it is the same
    attack on the linked records of another block, which cannot say anything about this one."""
    rows, private = list(attack_link(run, linked, truth)), privacy_of(run)

    def show() -> None:
        warn(private)
        every = [
            {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items() if k in _SHOWN}
            for row in rows
            if row["size"] == "all"
        ]
        console().print(records_table("Compared with the truth (confidential)", every))

    return CommandAnswer(marked({"scores": plain_rows(rows)}, private), show)
