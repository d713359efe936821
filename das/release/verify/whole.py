"""A whole statement, computed again from ``ledger.jsonl`` and ``spec.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from das.accounting import statement as stated
from das.accounting.codec import plain
from das.accounting.document import ALTERED, NAME, ForeignLine, ForeignStatement, Line, Statement
from das.errors import ReleaseError
from das.files.measurements.nmf_reader import NmfReader
from das.files.parquet import opened
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.run import run_directory
from das.model.constraint import Constraint, summed
from das.model.mechanisms import MECHANISMS
from das.noise import entropy
from das.release import dhc_dictionary, dictionary
from das.release.dhc import is_dhc_release, open_dhc
from das.release.groups import is_groups, open_groups
from das.release.verify import dhc, groups
from das.release.verify.books import check_books, drawn, trees_of
from das.release.verify.differences import differences
from das.release.verify.measured import check_files
from das.release.verify.place import place
from das.release.verify.sealed import check_page, check_seal, same_software
from das.spec import DhcSpec, RunSpec
from das.spec.detailed import DetailedSpec

#: What is not a function of the ledger and the specification: held against something else, or believed.
_NOT_RECOMPUTED = ("what_this_means", "digests", "software")


def check(release: Path) -> Sequence[Line | ForeignLine]:
    """Compare the files with the ledger of ``privacy.json``, draw by draw. Returns the ledger's lines. Raises
    :class:`ReleaseError` at the first difference.

    Measurements of another publisher have no ledger; their files are held against the list ``measured``, which is
    returned then.
    """
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


def statement(release: Path) -> Statement:
    """Check everything, and return the statement. Raises :class:`ReleaseError` at the first difference, with the
    file and line of it."""
    spec, made = drawn(release)
    check(release)
    said = privacy_statement.read_ours(release)
    if not isinstance(spec, DetailedSpec):
        _check_layout(release, spec)
    if isinstance(spec, RunSpec):
        _check_constraints(release, spec, said)
        if same_software(said):
            _check_dictionary(release, _dictionary(release, spec, said.assigned))
    if isinstance(spec, DhcSpec):
        opened_dhc = open_dhc(release)
        dhc.check_counts(opened_dhc, said)
        if same_software(said):
            _check_dictionary(release, dhc_dictionary.text(opened_dhc))
    _check_again(release, spec, made, said)
    check_seal(release, said)
    check_page(release, said, spec.run.name)
    return said


def _check_again(release: Path, spec: RunSpec | DetailedSpec | DhcSpec, made: stated.Drawn, said: Statement) -> None:
    """Every value that follows from ledger, specification and source, and every sentence that follows from them."""
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    notes = spec.notes if isinstance(spec, DhcSpec) else ()
    again = stated.statement(spec.terms, made, said.outside, name, private, notes, assigned=said.assigned)
    if lost := [x for x in again.says if x not in said.says]:
        raise ReleaseError(f"it does not say: {lost[0]}", where=release / NAME,
                           remedy=f"{ALTERED}; or check it with the version of das that stated it")  # fmt: skip
    one, other = ({k: v for k, v in plain(s).items() if k not in _NOT_RECOMPUTED} for s in (again, said))
    for at, expected, found in differences(one, other, ()):
        raise ReleaseError(f"{'.'.join(map(str, at))} is {found}, and computed again {expected}",
                           where=place(release / NAME, at), remedy=ALTERED)  # fmt: skip


def _check_layout(release: Path, spec: RunSpec | DhcSpec) -> None:
    """Nothing lies beside the levels' measurements, and no column beside those of the trees: what nobody reads, nobody
    checks."""
    trees: dict[Path, tuple[str, ...]] = {release / "spine.parquet": spine_file.COLUMNS}
    for u in spec.universes:
        root = run_directory.nmf_folder(release, u.name)
        levels = {f"{level}.parquet" for level in spec.geography.levels}
        if odd := [name for name in run_directory.entries(root) if name not in {*levels, tree_file.NAME}]:
            raise ReleaseError(f"{odd[0]} is not of a level", where=root, remedy=ALTERED)
        if (root / tree_file.NAME).is_file():
            trees[root / tree_file.NAME] = (*spine_file.COLUMNS, *tree_file.COLUMNS)
    for path, columns in trees.items():
        if odd := [name for name in opened(path).schema_arrow.names if name not in columns]:
            raise ReleaseError(f"it has a column {odd[0]!r}, which none has", where=path, remedy=ALTERED)


def _check_constraints(release: Path, spec: RunSpec, said: Statement) -> None:
    """The constraints that the statement lists are those of the files; above the lowest level of a measured tree are also
    the sums of what is known of that."""
    trees = trees_of(release, [u.name for u in spec.universes])
    listed = {(c.universe, c.level, c.constraint, c.sign) for c in said.outside}
    there = set()
    for u in spec.universes:
        tree, root = trees[u.name], run_directory.nmf_folder(release, u.name)
        reader = NmfReader(root, tree.spine, tree.measured)
        found = {level: reader.constraints(level) for level in tree.spine.levels}
        if not tree.alike:
            lowest = tree.spine.levels[-1]
            given = [Constraint(name, lowest, name, sign, bound) for name, (sign, bound) in found[lowest].items()]
            for c in summed(given, tree.spine):
                sign, bound = found[c.level].pop(c.name, ("", c.bound[:0]))
                if sign != c.sign or not np.array_equal(bound, c.bound):
                    raise ReleaseError(f"constraint {c.name!r} of {c.level!r} is not the sum of those below it", where=root,
                                       remedy=ALTERED)  # fmt: skip
        there |= {(u.name, level, name, sign) for level, names in found.items() for name, (sign, _) in names.items()}
    for odd in sorted(listed ^ there):
        where = release / NAME if odd in listed else run_directory.nmf_folder(release, odd[0])
        raise ReleaseError(f"constraint {odd[2]!r} of {odd[0]} at {odd[1]!r} is {'not ' if odd in listed else ''}in the "
                           f"files, and {'' if odd in listed else 'not '}in the statement", where=where, remedy=ALTERED)  # fmt: skip


def _dictionary(release: Path, spec: RunSpec, assigned: dictionary.Assigned) -> str:
    spine = spine_file.read(release / "spine.parquet")
    apart = [name for name, tree in trees_of(release, [u.name for u in spec.universes]).items() if not tree.alike]
    return dictionary.text(spec.after, spine, assigned, apart)


def _check_dictionary(release: Path, again: str) -> None:
    """Line by line what the specification gives. Before anything is post-processed there is none."""
    path = release / dictionary.NAME
    if not path.exists():
        return
    said = run_directory.read_text(path, "data dictionary")
    for i, (one, other) in enumerate(zip_longest(said.splitlines(), again.splitlines())):
        if one != other:
            raise ReleaseError("this line is not what the specification gives", where=f"{path}, line {i + 1}",
                               remedy=ALTERED)  # fmt: skip
