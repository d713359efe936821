"""A whole statement, computed again from ``ledger.jsonl`` and ``spec.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
from das.errors import ReleaseError
from das.files.parquet import opened
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.release.plain import require_plain
from das.files.run import run_directory
from das.model.mechanisms import MECHANISMS
from das.noise import entropy
from das.release import dhc_dictionary, dictionary
from das.release.dhc import is_dhc_release, open_dhc
from das.release.groups import is_groups, open_groups
from das.release.post import open_release
from das.release.verify import dhc, groups
from das.release.verify.books import check_books, check_marks, check_source, drawn, trees_of
from das.release.verify.differences import differences
from das.release.verify.invariants import check_assigned, check_constraints, listed
from das.release.verify.measured import check_files
from das.release.verify.place import place
from das.release.verify.published import check_published, check_published_dhc
from das.release.verify.sealed import check_seal
from das.release.verify.written import Wording, check_dictionary, check_page, check_says
from das.spec import DhcSpec, RunSpec
from das.spec.detailed import DetailedSpec
from das.spec.notes import notes

#: What is not a function of the ledger and the specification: held against something else, or
#: believed.
_NOT_RECOMPUTED = ("what_this_means", "digests", "software")
#: Fields that are words.
_WORDS = ("neighbours_of", "warning")


def check(release: Path) -> Sequence[Line | ForeignLine]:
    """Compare the files with the ledger of ``privacy.json``, draw by draw. Returns the ledger's
    lines. Raises
    :class:`ReleaseError` at the first difference.

    Measurements of another publisher have no ledger; their files are held against the list
    ``measured``, which is returned then."""
    require_plain(release)
    said = privacy_statement.read(release)
    mechanism = MECHANISMS[said.mechanism]
    if is_groups(release):
        groups.check_files(open_groups(release))
        check_books(release, privacy_statement.read_ours(release))
        return privacy_statement.read_ours(release).ledger
    if isinstance(said, ForeignStatement):
        check_files(release, mechanism, said.measured)
        return said.measured
    if is_dhc_release(release):
        dhc.check_files(open_dhc(release), mechanism, said.ledger)
    else:
        check_files(release, mechanism, said.ledger)
    check_books(release, said)
    return said.ledger


def statement(release: Path, *, other_version: bool = False) -> Statement:
    """Check everything, and return the statement. Raises :class:`ReleaseError` at the first
    difference, with the file and line of it. ``other_version``: texts may be those of another
    version of the software, where the statement names one."""
    return verified(release, other_version=other_version).said


def verified(release: Path, *, other_version: bool = False) -> Wording:
    """The same; with what was left out, if anything was."""
    require_plain(release)
    spec, made = drawn(release)
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    check_source(release, name, private)
    check(release)
    said = privacy_statement.read_ours(release)
    wording = Wording(said, other_version)
    outside = said.outside
    if not isinstance(spec, DetailedSpec):
        _check_layout(release, spec)
    check_marks(release, private)
    if isinstance(spec, RunSpec):
        trees, spine = (
            trees_of(release, [u.name for u in spec.universes]),
            spine_file.read(release / "spine.parquet"),
        )
        outside = tuple(listed(spec, trees, spine))
        check_constraints(release, spec, trees, said)
        check_assigned(release, spec, said)
        check_dictionary(release, wording, _dictionary(release, spec, said.assigned))
    if isinstance(spec, DhcSpec):
        opened_dhc = open_dhc(release)
        dhc.check_counts(opened_dhc, said)
        check_dictionary(release, wording, dhc_dictionary.text(opened_dhc))
    _check_again(release, spec, made, wording, outside)
    check_seal(release, said)
    check_page(release, wording, spec.run.name)
    if (release / dictionary.NAME).exists():
        if isinstance(spec, RunSpec):
            check_published(open_release(release), wording)
        elif isinstance(spec, DhcSpec):
            check_published_dhc(open_dhc(release), wording)
    return wording


def _check_again(
    release: Path,
    spec: RunSpec | DetailedSpec | DhcSpec,
    made: stated.Drawn,
    wording: Wording,
    outside: Sequence[Invariant],
) -> None:
    """Every value that follows from ledger, specification and source, and every sentence that
    follows from them.
    """
    said = wording.said
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    more = (
        spec.notes
        if isinstance(spec, DhcSpec)
        else notes(spec)
        if isinstance(spec, RunSpec)
        else ()
    )
    again = stated.statement(spec.terms, made, outside, name, private, more, assigned=said.assigned)
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


def _check_layout(release: Path, spec: RunSpec | DhcSpec) -> None:
    """Nothing lies beside the levels' measurements, and no column beside those of the trees: what
    nobody reads, nobody checks."""
    trees: dict[Path, tuple[str, ...]] = {release / "spine.parquet": spine_file.COLUMNS}
    for u in spec.universes:
        root = run_directory.nmf_folder(release, u.name)
        levels = {f"{level}.parquet" for level in spec.geography.levels}
        if odd := [
            name for name in run_directory.entries(root) if name not in {*levels, tree_file.NAME}
        ]:
            raise ReleaseError(f"{odd[0]} is not of a level", where=root, remedy=ALTERED)
        if (root / tree_file.NAME).is_file():
            trees[root / tree_file.NAME] = (*spine_file.COLUMNS, *tree_file.COLUMNS)
    for path, columns in trees.items():
        if odd := [name for name in opened(path).schema_arrow.names if name not in columns]:
            raise ReleaseError(
                f"it has a column {odd[0]!r}, which none has", where=path, remedy=ALTERED
            )


def _dictionary(release: Path, spec: RunSpec, assigned: dictionary.Assigned) -> str:
    spine = spine_file.read(release / "spine.parquet")
    apart = [
        name
        for name, tree in trees_of(release, [u.name for u in spec.universes]).items()
        if not tree.alike
    ]
    return dictionary.text(spec.after, spine, assigned, apart)
