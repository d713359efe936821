"""What a configuration or a release costs, and whether a release is what its privacy statement
says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from das.accounting import sources as source_list
from das.accounting.codec import json_schema, plain
from das.accounting.document import Statement, decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.invariant_neighbours import ANY, INVARIANT_NEIGHBOURS
from das.accounting.sources import (
    PERSONS,
    JointAccount,
    JointCase,
    JointEpsilon,
    JointRelation,
    PrivacySource,
    joint_account,
    relations,
)
from das.accounting.statement import account as account_of
from das.cli.kit.console import CommandAnswer, answering, console
from das.cli.kit.options import (
    PATH,
    exact_delta,
    guarded,
    key_option,
    load_any,
    run_options,
    set_option,
    warn,
)
from das.cli.kit.terminal_tables import account_tables, promises_of
from das.errors import DasError, UserError
from das.files import kept_epsilons, packaged
from das.files.messages import privacy_of
from das.files.run.run_directory import release_of
from das.model.budget import PlannedMeasurement
from das.model.not_private import PLANNED, WARNING, WITHOUT, Private, marked, weakest
from das.release.privacy_sources import GivenSources, SourceReader
from das.release.publications import publication, publication_of
from das.report.privacy import bound

if TYPE_CHECKING:
    from das.release.seal import Wording

#: A folder with this file has exact coarse tables.
ATOMS = "atoms.csv"

# One account of several sources, as tables of the terminal or as JSON.


def is_list(given: Path) -> bool:
    """Whether this is a JSON file, or the name of a list of sources that comes with the package."""
    return not given.is_dir() and (given.suffix == ".json" or str(given) in packaged.accounts())


def of_sources(given: Sequence[Path], delta: Fraction, persons: int) -> CommandAnswer:
    """The account of all together."""
    named = relations(persons)
    reader = SourceReader(named)
    each = [_named(path, reader) for path in given]
    sources = _distinct([source for one in each for source in one.sources])
    says = tuple(dict.fromkeys(line for one in each for line in one.says))
    found = joint_account(sources, named, delta, says)
    private = weakest(source.private for source in sources)
    return CommandAnswer(marked(plain(found), private), lambda: _print(found, private))


def _named(given: Path, reader: SourceReader) -> GivenSources:
    """With the source in whatever is refused."""
    try:
        return _read(given, reader)
    except DasError as error:
        error.add_note(f"this is about the source {given}")
        if not given.exists():
            error.add_note(f"lists of sources that have a name: {', '.join(packaged.accounts())}")
        raise


def _read(given: Path, reader: SourceReader) -> GivenSources:
    if given.is_dir():
        return reader.release(given)
    if str(given) in packaged.accounts() and not given.is_file():
        return reader.json(packaged.accounts()[str(given)])
    if given.suffix == ".json":
        return reader.json(given)
    return reader.specification(load_any(given, ()), given.stem)


def _distinct(sources: Sequence[PrivacySource]) -> list[PrivacySource]:
    """With a number for names that occur again."""
    seen: Counter[str] = Counter()
    out = []
    for source in sources:
        seen[source.name] += 1
        n = seen[source.name]
        out.append(source if n == 1 else replace(source, name=f"{source.name} ({n})"))
    return out


# --- tables


def _print(account: JointAccount, private: Private) -> None:
    warn(private)
    screen = console()
    delta = account.relations[0].cases[0].epsilon.delta
    summary = Table(
        title=f"What one person, or one household, loses in all sources together (delta ="
        f" {decimal(delta)}{'' if private else f'; {WITHOUT}'})",
        title_justify="left",
    )
    summary.add_column("between populations that differ by")
    for name in ("rho", "epsilon", "from rho alone"):
        summary.add_column(name, justify="right")
    for relation in account.relations:
        for case in relation.cases:
            e = case.epsilon
            words = f"{relation.title}{_which(case, relation)}"
            summary.add_row(words, _rho(case.rho), _short(e), bound(e.tight))
    for line in conclusion(account, private):
        screen.print(line, highlight=False, soft_wrap=True)
    screen.print(summary)
    for relation in account.relations:
        screen.print(f"\n{relation.title}. {relation.says}", highlight=False)
        screen.print(_table(relation))
        for case in relation.cases:
            screen.print(_line(case, relation), highlight=False)
    screen.print("\nAssumed:", highlight=False)
    for line in account.assumptions:
        screen.print(f"  * {line}", highlight=False)
    screen.print(
        "A sum over the sources of one record added or removed in each is rho ="
        f" {_rho(account.naive)}. It leaves out that one person changes several records.",
        highlight=False,
    )


def conclusion(account: JointAccount, private: Private) -> list[str]:
    """The account in three lines: the number to quote, the most that can be, and where most of it
    comes from."""
    first = account.relations[0]
    case = first.cases[0]
    sources = len(case.sources)
    every = [(r, c) for r in account.relations for c in r.cases]
    relation, worst = max(every, key=lambda found: found[1].epsilon.pld[1])
    most = max(case.sources, key=lambda line: line.rho)
    delta = decimal(case.epsilon.delta)
    quote = "Quote epsilon" if private else f"Epsilon, {WITHOUT},"
    return [
        f"{quote} {'=' if case.epsilon.exact else 'at most'} {bound(case.epsilon.pld)} at"
        f" delta = {delta} for {_small(first.title)}, in"
        f" all {sources} sources together.",
        f"The largest change here is {_small(relation.title)}: epsilon is at most"
        f" {bound(worst.epsilon.pld[1])}.",
        f"Most of the first number comes from {most.source}:"
        f" {100 * float(most.rho / case.rho):.0f} % of its rho."
        if case.rho
        else "Nothing here costs anything.",
    ]


def _small(title: str) -> str:
    return title[:1].lower() + title[1:]


def _table(relation: JointRelation) -> Table:
    """A row for each source, with the cases that need not agree on anything."""
    cases = [case for case in relation.cases if not case.same_invariants]
    table = Table()
    for name in ("source", "what changes there"):
        table.add_column(name)
    table.add_column("rho as stated", justify="right")
    for case in cases:
        table.add_column("times", justify="right")
        where = "same answers" if case.alike else "different answers"
        table.add_column(f"rho, {where}" if len(cases) > 1 else "rho", justify="right")
    for rows in zip(*(case.sources for case in cases), strict=True):
        one = rows[0]
        cells = [c for row in rows for c in (_times(row.multiple), _rho(row.rho))]
        stated = f"{_rho(one.stated)} ({one.neighbours})"
        known = "" if one.draws_known else " (rho alone is known)"
        table.add_row(one.source, one.changes + known, stated, *cells)
    table.add_section()
    sums = [c for case in cases for c in ("", _rho(case.rho))]
    table.add_row("all together", "", "", *sums)
    return table


def _line(case: JointCase, relation: JointRelation) -> str:
    e = case.epsilon
    which = _which(case, relation).strip(" ,") or "all together"
    return (
        f"{which}: rho = {case.rho}\n  epsilon {_exactly(e)} at delta = {decimal(e.delta)}"
        f"  (from rho alone: {bound(e.tight)}; looser conversion: {bound(e.simple)})"
    )


def _which(case: JointCase, relation: JointRelation) -> str:
    """Which of the cases of a relation, in words."""
    words = []
    if any(c.alike for c in relation.cases):
        words.append(
            "worst case: all records fall in the same counts"
            if case.alike
            else "in different answers"
        )
    if case.same_invariants:
        words.append("same answers to what is published exactly")
    return "".join(f", {w}" for w in words)


def _exactly(e: JointEpsilon) -> str:
    return f"= {bound(e.pld)} exactly" if e.exact else f"{_short(e)} (a bound)"


def _short(e: JointEpsilon) -> str:
    low, high = e.pld
    return bound(high) if e.exact else f"{low:.4f} to {bound(high)}"


def _times(value: Fraction) -> str:
    """A simple fraction as it is, others in decimals."""
    return str(value) if value.denominator < 10 else f"{float(value):.4f}"


def _rho(value: Fraction) -> str:
    """Six decimals, rounded up."""
    return f"{ceil(value * 10**6) / 10**6:.6f}"


def checked(wording: Wording, recounted: str, recomputed: bool, signer: str | None) -> str:
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
    if left := list(dict.fromkeys(wording.left)):
        software = ", ".join(f"{k} {v}" for k, v in wording.said.software.items())
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
    cls=_PathFirst, subcommand_metavar="[CONFIG|RUN|LIST ... | verify RUN | sign RUN | schema]"
)
def account() -> None:
    """The privacy loss of a configuration or a run: rho, epsilon exactly and by conversion, what
    single changes of a record cost, where the budget goes. With several, what one person or one
    household loses in all of them together. `das account show --help` has the options."""


@account.command()
@click.argument("sources", metavar="CONFIG|RUN|LIST...", nargs=-1, required=True, type=PATH)
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
    publications of the 2020 Census. A run with exact tables of `das frontier protect
    coarsen-least`: which differences keep a guarantee, and which have none."""
    if any((source / ATOMS).is_file() for source in sources):
        return _with_exact(sources, changes, delta, persons)
    kept_epsilons.use()
    at = None if delta is None else exact_delta(delta)
    if len(sources) > 1 or is_list(sources[0]):
        if changes:
            raise UserError(
                "several sources are accounted for as they are",
                where="--set",
                remedy="leave it out, or change a copy of the configuration",
            )
        return of_sources(sources, at or DEFAULT_DELTA, persons or PERSONS)
    if persons is not None:
        raise UserError(
            "this is for several sources",
            where="--persons",
            remedy="name two sources or more, or a list of sources such as census-2020",
        )
    return _of_one(sources[0], changes, at)


def _with_exact(sources: Sequence[Path], *others: object) -> CommandAnswer:
    """The account of a noisy release and of exact coarse tables of the same census."""
    noisy = [s for s in sources if not (s / ATOMS).is_file()]
    if len(sources) != 2 or len(noisy) != 1 or any(others):
        raise UserError(
            "has exact tables, which have no epsilon: the account says what they leave of one other",
            where=next(s for s in sources if s not in noisy),
            remedy="das account NOISY COARSE, without options; NOISY is a run or a release",
        )
    from das.cli.kit.console import records_table  # what reads a configuration does without
    from das.release.opened import open_release
    from das.tools.protection.least import files as least
    from das.tools.protection.least.combining import EXACT, remaining

    (coarse,) = (s for s in sources if s not in noisy)
    release = open_release(release_of(noisy[0]))
    left, private = [r.row for r in remaining(release, least.read(coarse))], privacy_of(noisy[0])

    def for_a_reader() -> None:
        warn(private)
        click.echo(EXACT)
        console().print(records_table("What is left of the guarantee", left))

    return CommandAnswer(marked({"says": EXACT, "left": left}, private), for_a_reader)


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
        from das.release import verify as verification  # what reads a configuration does without

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
@click.argument("run_dir", metavar="RUN", type=PATH)
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
    from das.engine.display import Live
    from das.files.release import statement
    from das.release import verify as verification

    release = release_of(run_dir)
    found = verification.verified(release, other_version=other_version)
    said, signed = found.said, statement.check(release, signer)
    if recompute:
        from das.runs.recomputing import check_recomputed

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
@click.argument("run_dir", metavar="RUN", type=PATH)
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
    from das.files.release import statement
    from das.release import verify as verification

    release = release_of(run_dir)
    said = verification.statement(release)
    if not said.private:
        raise UserError(
            "this release was seeded, and must not be published",
            where=release,
            remedy="run again without run.seed",
        )
    statement.refuse_signed(
        release, remedy=f"to sign it with another key, delete {statement.SIGNATURE} first"
    )
    click.echo(f"signed: {statement.sign(release, key)}")


@account.command()
@click.option("--sources", is_flag=True, help="Print that of a list of sources instead.")
def schema(sources: bool) -> None:
    """Print the JSON Schema of release/privacy.json: the names and types of this version of the
    format."""
    click.echo(json.dumps(source_list.json_schema() if sources else json_schema(), indent=2))
