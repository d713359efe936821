"""A whole statement, computed again from ``ledger.jsonl`` and ``spec.toml``."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from das.accounting import statement as stated
from das.accounting.codec import plain
from das.accounting.document import (
    ALTERED,
    NAME,
    ForeignLine,
    ForeignStatement,
    Invariant,
    Line,
    Statement,
)
from das.accounting.kept import recomputed
from das.errors import ReleaseError, UserError
from das.files.messages import RecordKey, check_marks
from das.files.release import statement as privacy_statement
from das.files.release.own_bytes import require_plain
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS
from das.noise import entropy
from das.release import dictionary
from das.release.publications import Specified, publication_of
from das.release.seal import Wording
from das.release.verify.sealed import check_page, check_says, check_seal, place

# The spending of a release: the statement's lines against their sums and ``ledger.jsonl``, and
# that against the plan.


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
    """Every noise costs what its line says, and the lines of the costliest path add up to the totals:
    exactly, in fractions."""
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
    sums = {u: _costliest(said, u, path) for u in dict.fromkeys(d.universe for d in said.every)}
    sums["total"] = sum(sums.values(), Fraction(0))
    for universe, total in said.totals.items():
        if total != sums.get(universe):
            raise ReleaseError(
                f"the total of {universe!r} is given as {total}, the lines add up to"
                f" {sums.get(universe)}",
                where=place(path, (mechanism.currency, universe)),
                remedy=ALTERED,
            )


def _costliest(said: Statement, universe: str, path: Path) -> Fraction:
    """The sum of the lines on the costliest path of a universe."""
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


#: Relative difference of floats that another machine may give.
CLOSE = 1e-9


def differences(
    again: Any, said: Any, at: tuple[RecordKey, ...]
) -> Iterator[tuple[tuple[RecordKey, ...], Any, Any]]:
    """Path, computed and stated value wherever two trees differ. Floats may differ by rounding;
    intervals that both hold one number overlap."""
    if isinstance(again, dict) and isinstance(said, dict):
        for key in {**again, **said}:
            yield from differences(again.get(key), said.get(key), (*at, key))
    elif at and at[-1] == "pld" and _is_interval(said):
        if not (
            0 <= said[0] <= said[1]
            and said[0] <= again[1]
            and again[0] <= said[1] <= again[1] * (1 + CLOSE)
        ):
            yield at, again, said
    elif isinstance(again, list) and isinstance(said, list):
        for i in range(max(len(again), len(said))):
            one, other = (x[i] if i < len(x) else None for x in (again, said))
            yield from differences(one, other, (*at, i))
    elif isinstance(again, float) and isinstance(said, int | float):
        if not abs(again - said) <= CLOSE * abs(again):
            yield at, again, said
    elif again != said or type(again) is not type(said):
        yield at, again, said


def _is_interval(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(x, int | float) for x in value)
    )


#: What is not a function of the ledger and the specification: held against something else, or
#: believed.
_NOT_RECOMPUTED = ("what_this_means", "digests", "software")
#: Fields that are words.
_WORDS = ("neighbours_of", "warning")


def check(release: Path) -> Sequence[Line | ForeignLine]:
    """Compare the files with the ledger of ``privacy.json``, draw by draw. Returns the ledger's
    lines. Raises
    :class:`ReleaseError` at the first difference.

    Measurements of another publisher have no ledger; their files are checked against the list
    ``measured``, which is returned then."""
    require_plain(release)
    said = privacy_statement.read(release)
    lines = publication_of(release).check_measured(release, said)
    if not isinstance(said, ForeignStatement):
        check_spending(release, said)
    return lines


def statement(release: Path, *, other_version: bool = False) -> Statement:
    """Check everything, and return the statement. Raises :class:`ReleaseError` at the first
    difference, with the file and line of it. ``other_version``: texts may be those of another
    version of the software, where the statement names one."""
    return verified(release, other_version=other_version).said


@recomputed()
def verified(release: Path, *, other_version: bool = False) -> Wording:
    """The same; with what was left out, if anything was. No epsilon is taken from those that are
    kept."""
    require_plain(release)
    said = privacy_statement.read_ours(release)
    try:
        return _verified(release, other_version)
    except UserError as error:
        raise _with_specification(release, said, error) from None


def _with_specification(release: Path, said: Statement, error: UserError) -> UserError:
    """A refusal that also names an altered specification. Most recomputed content follows from the
    specification, so the first difference can be in an unaltered file."""
    path = release / "spec.toml"
    if path.name in str(error) or run_directory.file_digest(path) == said.digests.get(path.name):
        return error
    return type(error)(
        f"{error.what}. Its spec.toml is not the file whose digest is in {NAME}, and can be the"
        " cause",
        where=error.where,
        remedy=ALTERED,
    )


def _verified(release: Path, other_version: bool) -> Wording:
    spec, made = drawn(release)
    of = publication_of(release)
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    check_source(release, name, private)
    check(release)
    wording = Wording(privacy_statement.read_ours(release), other_version)
    of.check_layout(release)
    outside = of.check_content(release, wording)
    _check_again(release, spec, made, wording, outside, of.notes(spec))
    check_seal(release, wording.said)
    check_marks(release, private)
    check_page(release, wording, spec.run.name)
    if (release / dictionary.NAME).exists():
        of.check_published(release, wording)
    return wording


def _check_again(
    release: Path,
    spec: Specified,
    made: stated.LedgerEvents,
    wording: Wording,
    outside: Sequence[Invariant],
    notes: Sequence[str],
) -> None:
    """Every value that follows from ledger, specification and source, and every sentence that
    follows from them."""
    said = wording.said
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    again = stated.statement(
        spec.terms, made, outside, name, private, tuple(notes), assigned=said.assigned
    )
    one, other = (
        {k: v for k, v in plain(s).items() if k not in _NOT_RECOMPUTED} for s in (again, said)
    )
    for at, expected, found in differences(one, other, ()):
        what = f"{'.'.join(map(str, at))} is {found}, and computed again {expected}"
        if at[0] in _WORDS or at[-1] == "says":
            wording.differs(what, place(release / NAME, at), str(at[0]))
        else:
            raise ReleaseError(what, where=place(release / NAME, at), remedy=ALTERED)
    check_says(release, wording, again)
