"""The spending of a release: the statement's lines against their sums and ``ledger.jsonl``, and
that against the plan."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from das.accounting import statement as stated
from das.accounting.document import ALTERED, NAME, Statement
from das.errors import ReleaseError
from das.files.release import statement as privacy_statement
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS
from das.noise import entropy
from das.release.publications import Specified, publication_of
from das.release.verify.place import place


def drawn(release: Path) -> tuple[Specified, stated.LedgerEvents]:
    """The specification of a release, and the events of its ledger. Those are each draw of the plan
    once, kept, and what interrupted attempts drew. Raises :class:`ReleaseError` if there is no
    ledger, or it does not fit this plan."""
    privacy_statement.read_ours(release)
    _check_is_toml(release / "spec.toml")
    of = publication_of(release)
    if missing := [name for name in of.needed if not (release / name).is_file()]:
        raise ReleaseError(
            f"there is no {missing[0]}",
            where=release,
            remedy="name the run that has the noisy measurements",
        )
    spec, planned = of.planned(release)
    return spec, _entered(LedgerFile(release / "ledger.jsonl"), planned)


def _check_is_toml(path: Path) -> None:
    """Otherwise nobody can tell which publication the release is. (If the file is missing,
    :func:`publication_of` says so.)"""
    if not path.is_file():
        return
    try:
        tomllib.loads(run_directory.read_text(path, "specification"))
    except (ValueError, RecursionError) as error:
        raise ReleaseError(f"is not TOML: {error}", where=path, remedy=ALTERED) from None


def _entered(book: LedgerFile, planned: Mapping[str, Sequence[Event]]) -> stated.LedgerEvents:
    """What a ledger says, if it is what was ``planned``, by universe."""
    events: dict[str, tuple[Event, ...]] = dict.fromkeys(planned, ())
    lost: dict[str, tuple[Event, ...]] = {}
    entries = book.entries
    for into, attempts in ((events, entries.last().values()), (lost, entries.lost())):
        for a in attempts:
            into[a.universe] = (*into.get(a.universe, ()), *a.events)
    for universe, due in planned.items():
        if list(events[universe]) != list(due) or not set(lost.get(universe, ())) <= set(due):
            raise ReleaseError(
                f"the draws of {universe} are not those of the plan in spec.toml",
                where=book.path,
                remedy=ALTERED,
            )
    if torn := [stage for stage in entries.last() if not entries.whole(stage)]:
        raise ReleaseError(
            f"{torn[0][0]} at {torn[0][1]} has not all its parts", where=book.path, remedy=ALTERED
        )
    if not entries.closed:
        raise ReleaseError(
            "it does not say that everything was measured", where=book.path, remedy=ALTERED
        )
    return stated.LedgerEvents(events, lost)


def check_spending(release: Path, said: Statement) -> None:
    """Raises :class:`ReleaseError` at the first line that is not what it should be."""
    _check_sums(said, release / NAME)
    _check_ledger(said, release)


def check_source(release: Path, name: str, private: bool) -> None:
    """Check that every line of the ledger names the specification's source of noise, and that its
    run key does not come from a small seed. A seed that was removed from one of the two files is
    still in the other."""
    path, remedy = release / "ledger.jsonl", f"publish nothing of it; {ALTERED}"
    attempts = LedgerFile(path).entries.attempts
    for a in attempts:
        if a.entropy != name:
            raise ReleaseError(
                f"{a.universe} at {a.level} was drawn from {a.entropy!r}, and the specification"
                f" says {name!r}",
                where=path,
                remedy=remedy,
            )
    for key in dict.fromkeys(a.key for a in attempts if private and a.key is not None):
        if (seed := entropy.seed_of(key)) is not None:
            raise ReleaseError(
                f"the run key {key} is that of the seed {seed}, and the specification names none",
                where=path,
                remedy=remedy,
            )


def _check_sums(said: Statement, path: Path) -> None:
    """Every noise costs what its line says, and the lines of the dearest path add up to the totals:
    exactly, in fractions.
    """
    mechanism = MECHANISMS[said.mechanism]
    sensitivity = Neighbours(said.neighbours).sensitivity
    for table, lines in (("ledger", said.ledger), ("spent_by_interrupted_attempts", said.lost)):
        for i, d in enumerate(lines):
            if mechanism.cost(d.parameter, sensitivity * (d.stability or 1)) != d.cost:
                raise ReleaseError(
                    f"{d.query!r} at {d.level!r}: its noise does not cost {d.cost}",
                    where=place(path, (table, i, mechanism.currency)),
                    remedy=ALTERED,
                )
    sums = {u: _dearest(said, u, path) for u in dict.fromkeys(d.universe for d in said.every)}
    sums["total"] = sum(sums.values(), Fraction(0))
    for universe, total in said.totals.items():
        if total != sums.get(universe):
            raise ReleaseError(
                f"the total of {universe!r} is given as {total}, the lines add up to"
                f" {sums.get(universe)}",
                where=place(path, (mechanism.currency, universe)),
                remedy=ALTERED,
            )


def _dearest(said: Statement, universe: str, path: Path) -> Fraction:
    """The sum of the lines on the dearest path of a universe."""
    lines = [d for d in said.every if d.universe == universe]
    paths = said.paths_of(universe, lines)
    if stray := [d for d in lines if not any(d.place in p for p in paths)]:
        raise ReleaseError(
            f"{stray[0].query!r} of class {stray[0].unit_class!r} at {stray[0].level!r} is on none"
            " of the paths that are stated",
            where=path,
            remedy=ALTERED,
        )
    return max(sum((d.cost for d in lines if d.place in p), Fraction(0)) for p in paths)


def _check_ledger(said: Statement, release: Path) -> None:
    """The statement has the draws of ``ledger.jsonl``, no more and no fewer."""
    events = [e for a in LedgerFile(release / "ledger.jsonl").entries.attempts for e in a.events]
    made, here = (
        Counter(
            (d.universe, d.level, d.query, d.cost, d.parameter, d.units, d.answers, d.place)
            for d in lines
        )
        for lines in (events, said.every)
    )
    if odd := [*(made - here), *(here - made)]:
        universe, level, query, cost, *_ = odd[0]
        raise ReleaseError(
            f"the draws are not those of ledger.jsonl: {query!r} at {level!r} ({universe}), at"
            f" {cost}, is there {made[odd[0]]} times, and here {here[odd[0]]} times",
            where=release / NAME,
            remedy=ALTERED,
        )
