"""What a configuration or a release costs, and whether a release is what its privacy statement says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from das.accounting.agreeing import AGREEING, ANY
from das.accounting.codec import json_schema, plain
from das.accounting.document import Statement
from das.accounting.statement import account as account_of
from das.cli.console import console
from das.cli.options import PATH, exact_option, guarded, json_option, load_any, set_option, warn
from das.cli.shown import account_tables, promises_of
from das.errors import UserError
from das.files.run.run_directory import release_of
from das.model.budget import Draw
from das.model.not_private import PLANNED, WARNING, marked
from das.release import verify as verification
from das.release.groups import is_groups


def checked(said: Statement, groups: bool) -> str:
    """What verification has shown of a release, and what it has not."""
    again = verification.same_software(said)
    made = ", ".join(f"{k} {v}" for k, v in said.software.items())
    return (
        "  computed again: every cost, every epsilon and every single change, from ledger.jsonl and spec.toml; every "
        f"measurement file against the ledger{'; privacy.html, from privacy.json' if again else ''}\n"
        "  held against their digests: all other files; there is none beside them"
        + ("" if again else f"\n  not written again: privacy.html, which {made} wrote")
        + "\n  not shown: that the noise was drawn as stated, nor who wrote the digests"
        + ("" if groups else "; `das estimate --from` makes microdata and tables again from the measurements")
    )


class _PathFirst(click.Group):
    """A group whose first argument may be a path in place of a command: ``das account CONFIG``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_PathFirst, subcommand_metavar="[CONFIG|RUN_DIR | verify RUN_DIR | schema]")
def account() -> None:
    """The privacy loss of a configuration or a run: rho, epsilon exactly and by conversion, what single changes of a
    record cost, where the budget goes. `das account show --help` has the options."""


@account.command()
@click.argument("source", metavar="CONFIG|RUN_DIR", type=PATH)
@set_option
@click.option("--delta", metavar="D", help="State epsilon at this delta, such as 1e-12.")
@json_option
@guarded
def show(source: Path, changes: tuple[str, ...], delta: str | None, as_json: bool) -> None:
    """Print the account of a configuration, or of what a run has drawn (its measurement files are held against the
    ledger first)."""
    at = None if delta is None else exact_option("--delta", delta)
    if at is not None and not 0 < at < 1:
        raise UserError(f"{delta} is not between 0 and 1", where="--delta")
    draws: dict[str, Sequence[Draw]]
    if source.is_dir():
        if changes:
            raise UserError(
                "a run is accounted for as it is", where="--set", remedy="leave it out, or name a configuration"
            )
        release = release_of(source)
        spec, drawn = verification.drawn(release)
        verification.check(release)
        draws = dict(drawn.every)
    else:
        spec = load_any(source, changes)
        draws = {u.name: u.plan.draws for u in spec.universes}
    terms = spec.terms if at is None else replace(spec.terms, delta=at)
    warning = WARNING if source.is_dir() else PLANNED
    out = account_of(terms, draws)
    if as_json:
        click.echo(json.dumps(marked({"name": spec.run.name} | plain(out), spec.run.private, warning), indent=2))
    else:
        warn(spec.run.private, warning)
        console().print(account_tables(spec.run.name, out, spec.run.private))


@account.command()
@click.argument("run_dir", type=PATH)
@json_option
@guarded
def verify(run_dir: Path, as_json: bool) -> None:
    """Check the privacy statement of a release from its published files alone: measurements against the ledger, every
    cost and every epsilon computed again, digests."""
    said = verification.statement(release_of(run_dir))
    if as_json:
        shown = ("rho", "epsilon", "digests", "neighbours_of", ANY, AGREEING)
        out = {"right": True, "draws": len(said.ledger)} | {k: v for k, v in plain(said).items() if k in shown}
        click.echo(json.dumps(marked(out, said.private)))
        return
    warn(said.private)
    click.echo(f"{len(said.ledger)} draws, {len(said.digests)} digests: the privacy statement is right; "
               f"total {said.total} (about {float(said.total):.6g})")  # fmt: skip
    click.echo(checked(said, is_groups(release_of(run_dir))))
    console().print("\n".join(promises_of(said, said.private)), highlight=False)


@account.command()
def schema() -> None:
    """Print the JSON Schema of release/privacy.json: the names and types of this version of the format."""
    click.echo(json.dumps(json_schema(), indent=2))
