"""Arguments to pipeline to exit code: one module for each group of commands."""

from __future__ import annotations

import click

from das.cli import account, accuracy, attack, data, nmf, plan, risk, running, tables


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="topdown-das")
def main() -> None:
    """The TopDown disclosure-avoidance system: census records to noisy measurements and synthetic microdata."""


for command in (running.run, running.check, running.estimate, accuracy.evaluate, accuracy.compare, accuracy.sweep,
                data.data, nmf.nmf, account.account, plan.plan, risk.risk, tables.tables):  # fmt: skip
    main.add_command(command)
for command in (attack.attack, attack.reconstruct):
    risk.risk.add_command(command)
