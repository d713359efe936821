"""What a configuration or a release costs, and whether a release is what its privacy statement
says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click

from das.accounting import source_list
from das.accounting.codec import json_schema, plain
from das.accounting.document import Statement
from das.accounting.invariant_neighbours import ANY, INVARIANT_NEIGHBOURS
from das.accounting.quoted import USUAL
from das.accounting.relations import PERSONS
from das.accounting.statement import account as account_of
from das.cli.answer import CommandAnswer, answering
from das.cli.console import console
from das.cli.joint_account import is_list, of_sources
from das.cli.options import (
    PATH,
    exact_delta,
    guarded,
    key_option,
    load_any,
    run_options,
    set_option,
    warn,
)
from das.cli.shown import account_tables, promises_of
from das.engine.display import Live
from das.errors import UserError
from das.files.release import signature
from das.files.run.run_directory import release_of
from das.model.budget import PlannedMeasurement
from das.model.not_private import PLANNED, WARNING, marked
from das.release import verify as verification
from das.release.publications import publication, publication_of
from das.release.wording import Wording


def checked(found: Wording, recounted: str, recomputed: bool, signer: str | None) -> str:
    """What verification has shown of a release, and what it has not."""
    again = "; all that was estimated, from the measurements" if recomputed else ""
    lines = [
        (
            "  computed again: every cost, every epsilon and every single change, from"
            " ledger.jsonl and spec.toml; every measurement file, against the ledger; every"
            f" sentence, page and dictionary{recounted}{again}"
        ),
        "  compared with their digests: all other files; there are no others",
    ]
    if left := list(dict.fromkeys(found.left)):
        software = ", ".join(f"{k} {v}" for k, v in found.said.software.items())
        lines.append(
            f"  NOT CHECKED, because another version may have written them ({software}):"
            f" {', '.join(left)}"
        )
    made = "tables" if not recounted else "microdata and tables"
    more = "" if recomputed else f"; nor that {made} follow from the measurements (--recompute)"
    who = "" if signer else "; nor who wrote the digests (a signature shows that: --signer)"
    lines.append(f"  not shown: that the noise was drawn as stated{more}{who}")
    return "\n".join(lines)


class _PathFirst(click.Group):
    """A group whose first argument may be a path in place of a command: ``das account CONFIG``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_PathFirst,
    subcommand_metavar="[CONFIG|RUN_DIR|LIST ... | verify RUN_DIR | sign RUN_DIR | schema]",
)
def account() -> None:
    """The privacy loss of a configuration or a run: rho, epsilon exactly and by conversion, what
    single changes of a record cost, where the budget goes. With several, what one person or one
    household loses in all of them together. `das account show --help` has the options."""


@account.command()
@click.argument("sources", metavar="CONFIG|RUN_DIR|LIST...", nargs=-1, required=True, type=PATH)
@set_option
@click.option("--delta", metavar="D", help="State epsilon at this delta, such as 1e-12.")
@click.option(
    "--persons",
    type=click.IntRange(1, 1000),
    metavar="N",
    help=f"With several sources: the most persons of a household.  [default: {PERSONS}]",
)
@answering
def show(
    sources: tuple[Path, ...], changes: tuple[str, ...], delta: str | None, persons: int | None
) -> CommandAnswer:
    """Print the privacy account of a configuration, or of a run's measurements (after comparing
    its measurement files with the ledger).

    With several sources, print one account: the exact epsilon and rho of all together, for one
    person and for one household. A source is a release, a run, a privacy.json, a configuration, or
    a JSON list of what other programs state. `das account census-2020` reads the list of the seven
    publications of the 2020 Census."""
    at = None if delta is None else exact_delta(delta)
    if len(sources) > 1 or is_list(sources[0]):
        if changes:
            raise UserError(
                "several sources are accounted for as they are",
                where="--set",
                remedy="leave it out, or change a copy of the configuration",
            )
        return of_sources(sources, at or USUAL, persons or PERSONS)
    if persons is not None:
        raise UserError(
            "this is for several sources",
            where="--persons",
            remedy="name two sources or more, or a list of sources such as census-2020",
        )
    return _of_one(sources[0], changes, at)


def _of_one(source: Path, changes: tuple[str, ...], at: Fraction | None) -> CommandAnswer:
    """The account of one configuration or run."""
    draws: dict[str, Sequence[PlannedMeasurement]]
    if source.is_dir():
        if changes:
            raise UserError(
                "a run is accounted for as it is",
                where="--set",
                remedy="leave it out, or name a configuration",
            )
        release = release_of(source)
        verification.check(release)
        spec, drawn = verification.drawn(release)
        draws = dict(drawn.every)
    else:
        given = load_any(source, changes)
        spec = publication(given.publication()).resolved(given)
        draws = {u.name: u.plan.measurements for u in spec.universes}
    terms = spec.terms if at is None else replace(spec.terms, delta=at)
    warning = WARNING if source.is_dir() else PLANNED
    out = account_of(terms, draws)

    def for_a_reader() -> None:
        warn(spec.run.private, warning)
        console().print(account_tables(spec.run.name, out, spec.run.private))

    data = {"name": spec.run.name} | plain(out)
    return CommandAnswer(marked(data, spec.run.private, warning), for_a_reader)


@account.command()
@click.argument("run_dir", type=PATH)
@click.option(
    "--recompute",
    is_flag=True,
    help=(
        "Also estimate again from the measurements, and compare every file. Takes as long as `das"
        " estimate`."
    ),
)
@click.option(
    "--other-version",
    is_flag=True,
    help=(
        "Accept texts (pages, dictionary, sentences) of another version of the software; "
        "says which were not checked."
    ),
)
@click.option(
    "--signer",
    type=PATH,
    metavar="FILE",
    help="The release must be signed by a key of this list: an allowed_signers file of ssh-keygen.",
)
@run_options
@answering
def verify(
    run_dir: Path,
    recompute: bool,
    other_version: bool,
    signer: Path | None,
    workers: int,
    quiet: bool,
) -> CommandAnswer:
    """Check the privacy statement of a release from its published files alone. Compares the
    measurements with the ledger, and invariants, microdata and tables with each other.
    Recomputes every cost and epsilon. Checks the digests, and any signature."""
    release = release_of(run_dir)
    found = verification.verified(release, other_version=other_version)
    said, signed = found.said, signature.check(release, signer)
    if recompute:
        from das.jobs.recomputing import check_recomputed

        with Live(quiet) as progress:
            check_recomputed(release, found, workers=workers, progress=progress)
    shown = ("rho", "epsilon", "digests", "neighbours_of", ANY, INVARIANT_NEIGHBOURS)
    out = {"right": True, "draws": len(said.ledger)} | {
        k: v for k, v in plain(said).items() if k in shown
    }
    out |= {
        "recomputed": recompute,
        "not_checked": list(dict.fromkeys(found.left)),
        "signed": signed.there,
        "signer": signed.by,
    }
    recounted = checked(found, publication_of(release).recounted, recompute, signed.by)
    text = f"{recounted}\n  {signed.says}"
    return CommandAnswer(marked(out, said.private), lambda: _print_verified(said, text))


def _print_verified(said: Statement, checks: str) -> None:
    warn(said.private)
    click.echo(
        f"{len(said.ledger)} draws, {len(said.digests)} digests: the privacy statement is right; "
        f"total {said.total} (about {float(said.total):.6g})"
    )
    click.echo(checks)
    target_delta = said.target.delta if said.target else None
    lines = promises_of(said, said.neighbours, said.private, target_delta)
    console().print("\n".join(lines), highlight=False)


@account.command()
@click.argument("run_dir", type=PATH)
@key_option
@guarded
def sign(run_dir: Path, key: Path) -> None:
    """Verify a release and sign it with your office's SSH key. Anyone with the public key can then
    check who published it.

    `ssh-keygen` signs privacy.json, which has the digest of every other file, and writes
    privacy.json.sig next to it. Make intervals first, because they change privacy.json. `das
    account verify --signer FILE` checks the signature, and so does ssh-keygen:

    ssh-keygen -Y verify -f allowed_signers -I PRINCIPAL -n das-release -s privacy.json.sig <
    privacy.json"""
    release = release_of(run_dir)
    said = verification.statement(release)
    if not said.private:
        raise UserError(
            "this release was seeded, and must not be published",
            where=release,
            remedy="run again without run.seed",
        )
    signature.refuse_signed(
        release, remedy=f"to sign it with another key, delete {signature.SIGNATURE} first"
    )
    click.echo(f"signed: {signature.sign(release, key)}")


@account.command()
@click.option("--sources", is_flag=True, help="Print that of a list of sources instead.")
def schema(sources: bool) -> None:
    """Print the JSON Schema of release/privacy.json: the names and types of this version of the
    format.
    """
    click.echo(json.dumps(source_list.json_schema() if sources else json_schema(), indent=2))
