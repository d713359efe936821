"""One account of several sources, as tables of the terminal or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path

from rich.table import Table

from das.accounting.codec import plain
from das.accounting.fields import decimal
from das.accounting.relations import relations
from das.accounting.sources import (
    JointAccount,
    JointCase,
    JointEpsilon,
    JointRelation,
    PrivacySource,
    joint_account,
)
from das.cli.answer import CommandAnswer
from das.cli.console import console
from das.cli.options import load_any, warn
from das.errors import DasError
from das.files import packaged
from das.model.not_private import WITHOUT, Private, marked
from das.release.accounts import GivenSources, SourceReader
from das.report.privacy import bound


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
    private = _private(sources)
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


def _private(sources: Sequence[PrivacySource]) -> Private:
    """What holds of all: one that is not private makes the whole not private."""
    every = [source.private for source in sources]
    if False in every:
        return False
    return next((p for p in every if p is not True), True)


# --- tables
# --------------------------------------------------------------------------------------------


def _print(found: JointAccount, private: Private) -> None:
    warn(private)
    screen = console()
    delta = found.relations[0].cases[0].epsilon.delta
    summary = Table(
        title=f"What one person, or one household, loses in all sources together (delta ="
        f" {decimal(delta)}{'' if private else f'; {WITHOUT}'})",
        title_justify="left",
    )
    summary.add_column("between populations that differ by")
    for name in ("rho", "epsilon", "from rho alone"):
        summary.add_column(name, justify="right")
    for relation in found.relations:
        for case in relation.cases:
            e = case.epsilon
            words = f"{relation.title}{_which(case, relation)}"
            summary.add_row(words, _rho(case.rho), _short(e), bound(e.tight))
    screen.print(summary)
    for relation in found.relations:
        screen.print(f"\n{relation.title}. {relation.says}", highlight=False)
        screen.print(_table(relation))
        for case in relation.cases:
            screen.print(_line(case, relation), highlight=False)
    screen.print("\nAssumed:", highlight=False)
    for line in found.assumptions:
        screen.print(f"  * {line}", highlight=False)
    screen.print(
        "A sum over the sources of one record added or removed in each is rho ="
        f" {_rho(found.naive)}. It leaves out that one person changes several records.",
        highlight=False,
    )


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
            "in the same answers, which is the most" if case.alike else "in different answers"
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
