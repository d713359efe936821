"""A whole statement, computed again from ``ledger.jsonl`` and ``spec.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from das.errors import ReleaseError, UserError
from das.files.json_lines import RecordKey
from das.files.provenance import check_marks
from das.files.release import statement as privacy_statement
from das.files.release.plain import require_plain
from das.files.run import run_directory
from das.noise import entropy
from das.release import dictionary
from das.release.publications import Specified, publication_of
from das.release.verify.place import place
from das.release.verify.sealed import check_seal
from das.release.verify.spending import check_source, check_spending, drawn
from das.release.verify.written import check_page, check_says
from das.release.wording import Wording

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


def verified(release: Path, *, other_version: bool = False) -> Wording:
    """The same; with what was left out, if anything was."""
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
    follows from them.
    """
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
