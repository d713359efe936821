"""The seal of a release: the files are exactly those in the statement, each with the digest that it
gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path

import numpy as np

from das.accounting.codec import identity, own_digest
from das.accounting.document import ALTERED, INTERVALS_LIST, NAME, PAGE, Stated, Statement
from das.errors import DasError, ReleaseError, UserError
from das.files.measurements import nmf_reader
from das.files.messages import RecordKey, line_of
from das.files.parquet import LOST, opened
from das.files.release import measured_spine as tree_file
from das.files.release import replicates
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.release.own_bytes import require_plain
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS, LedgerFile, digests, measured_files
from das.model.measured_spine import MeasuredSpine
from das.model.names import text
from das.release import dictionary
from das.release.seal import Wording, page

# Which files accompany the measurements of a release whose units are those of trees.


def check_layout(release: Path, universes: Iterable[str], levels: Iterable[str]) -> None:
    """Check that the folders hold only measurements of the levels, and the trees only their own
    columns. Content that nothing reads would not be verified."""
    trees: dict[Path, tuple[str, ...]] = {release / "spine.parquet": spine_file.COLUMNS}
    known = {*(f"{level}.parquet" for level in levels), tree_file.NAME, nmf_reader.NAME}
    for universe in universes:
        root = run_directory.nmf_folder(release, universe)
        if odd := [name for name in run_directory.entries(root) if name not in known]:
            raise ReleaseError(f"{odd[0]} is not of a level", where=root, remedy=ALTERED)
        if (root / tree_file.NAME).is_file():
            trees[root / tree_file.NAME] = (*spine_file.COLUMNS, *tree_file.COLUMNS)
        if (root / nmf_reader.NAME).is_file():
            trees[root / nmf_reader.NAME] = nmf_reader.COLUMNS
    for path, columns in trees.items():
        if odd := [name for name in opened(path).schema_arrow.names if name not in columns]:
            raise ReleaseError(
                f"it has a column {odd[0]!r}, which none has", where=path, remedy=ALTERED
            )


# Where in ``privacy.json`` a fault is.


def place(path: Path, at: tuple[RecordKey, ...]) -> str:
    """File and line of a value."""
    return f"{path}, line {line_of(run_directory.read_text(path, 'privacy statement'), at)}"


# The trees that the universes of a release were measured over.


def trees_of(release: Path, universes: Iterable[str]) -> dict[str, MeasuredSpine]:
    """The tree that each universe was measured over: the release's spine, or the universe's own,
    stored with the measurements."""
    spine = spine_file.read(release / "spine.parquet")
    return {
        u: tree_file.read(run_directory.nmf_folder(release, u) / tree_file.NAME, spine)
        for u in universes
    }


def check_places(trees: Mapping[str, MeasuredSpine], release: Path) -> None:
    """The code of a lowest unit of a tree of its own ends with that of the place that it is
    (:mod:`das.geography.tabulation`)."""
    published = spine_file.read(release / "spine.parquet")
    for universe, tree in trees.items():
        place = published.codes[-1][tree.place]
        if not tree.is_published and len(
            odd := np.flatnonzero(~np.strings.endswith(tree.spine.codes[-1], place))
        ):
            raise ReleaseError(
                f"{tree.spine.code(tree.spine.levels[-1], int(odd[0]))} is said to be"
                f" {text(place[odd])[0]}",
                where=run_directory.nmf_folder(release, universe) / tree_file.NAME,
                remedy=ALTERED,
            )


# What software writes, written again and compared with the release: pages, the dictionary, and the
# sentences of a statement.
#
# Their text depends on the version that wrote it, which the statement names and which anybody can
# alter. So they are always written again: where they are the same, no version matters. Where they
# differ and the version named is the one at work, the release is altered. Where another is named
# nobody can tell, and it is refused, unless the reader says that another version may have written it
# (``other_version``): then what was left out is said.


def check_page(release: Path, wording: Wording, name: str) -> None:
    """The page of a release called ``name``, written again."""
    if page(wording.said, name) != run_directory.read_text(release / PAGE, "page"):
        wording.differs("is not the page of this statement, written again", release / PAGE)


def check_says(release: Path, wording: Wording, again: Statement) -> None:
    """Sentence by sentence ``what_this_means``."""
    for one, other in zip_longest(again.says, wording.said.says):
        if one == other:
            continue
        if one is not None and one not in wording.said.says:
            what = f"it does not say: {one}"
        elif other is not None and other not in again.says:
            what = f"it says what does not follow from the release: {other}"
        else:
            what = f"it says twice, or in another place: {other or one}"
        wording.differs(what, release / NAME, "what_this_means")
        return


def check_dictionary(release: Path, wording: Wording, again: str) -> None:
    """Line by line what the specification gives. Before anything is post-processed there is
    none."""
    path = release / dictionary.NAME
    if not path.exists():
        return
    said = run_directory.read_text(path, "data dictionary")
    for i, (one, other) in enumerate(zip_longest(said.splitlines(), again.splitlines())):
        if one != other:
            wording.differs(
                "this line is not what the specification gives",
                f"{path}, line {i + 1}",
                dictionary.NAME,
            )
            return


#: What a release has as soon as anything is estimated.
_DERIVED = ("microdata/", "tables/")
#: Of a file that das cannot read back, although nobody changed it.
INTACT = (
    "the files are as they were sealed: unless somebody altered digests too, this is a defect of"
    " das; please report this message"
)


def check_seal(release: Path, said: Statement) -> None:
    """Check that every file of the release exists and has the digest that the statement gives.

    The same holds for measurements and the ledger. No other file, hidden or not, can be there."""
    check_digests(release, said, check_measured(release))
    if not privacy_statement.as_written(release, said):
        raise ReleaseError(
            "has the right content, but not the exact text that das writes",
            where=release / NAME,
            remedy=ALTERED,
        )


def _check_intervals(release: Path, said: Stated) -> None:
    """Those that are there are of this release."""
    if (release / INTERVALS).exists():
        replicates.check(release / INTERVALS)
        if run_directory.read_json(release / INTERVALS_LIST).get("release") != identity(said):
            raise ReleaseError(
                "these are intervals of another release", where=release / INTERVALS, remedy=ALTERED
            )


def check_digests(release: Path, said: Stated, parts: Mapping[str, str] | None = None) -> None:
    """The same, of a statement of any publisher's measurements, without the ledger; ``parts`` are
    digests of files that are known."""
    require_plain(release)
    _check_intervals(release, said)
    found = digests(release, parts) | {NAME: own_digest(said)}
    if (release / PAGE).is_file():
        found[PAGE] = run_directory.file_digest(release / PAGE)
    _check_ended(release, said, found)
    for name in sorted({*said.digests, *found}):
        listed, here = said.digests.get(name), found.get(name)
        if here is None:
            raise ReleaseError(
                f"there is no {name}, although the statement has its digest",
                where=release,
                remedy=ALTERED,
            )
        if listed is None:
            raise ReleaseError(
                f"{name} is in the release, but not in its statement",
                where=release,
                remedy=(
                    "remove the folder, and make the intervals with `das intervals`, which seals"
                    " them"
                    if name == INTERVALS_LIST
                    else (
                        f"finish an interrupted run with --resume; remove added files; or {ALTERED}"
                    )
                ),
            )
        if listed != here:
            raise ReleaseError(
                f"digests.{name} is {listed}, and computed again {here}",
                where=place(release / NAME, ("digests", name)),
                remedy=ALTERED,
            )


def _check_ended(release: Path, said: Stated, files: Mapping[str, str]) -> None:
    """What a run makes after measuring is under the seal, if there is any."""
    late = next((name for name in files if name.startswith(_DERIVED)), None)
    if late is not None and not any(name.startswith(_DERIVED) for name in said.digests):
        raise ReleaseError(
            f"the run has measured, and has not ended: {late} is not under the seal yet",
            where=release,
            remedy="`das run status RUN` shows its stages; finish it with `das run ... --resume`",
        )


def check_measured(release: Path) -> dict[str, str]:
    """Check that the files of measurements are those that the ledger says were written. Returns
    their digests."""
    here = {name: run_directory.file_digest(path) for name, path in measured_files(release).items()}
    told = LedgerFile(release / "ledger.jsonl").entries.files()
    for name in sorted({*told, *here}):
        if here.get(name) != told.get(name):
            raise ReleaseError(
                f"the digest is {here.get(name, 'of no file')}, and in ledger.jsonl"
                f" {told.get(name, 'there is none')}",
                where=release / name,
                remedy=ALTERED,
            )
    return here


def fault_of(error: ReleaseError) -> DasError:
    """The same error, unless the release that it names is exactly as das wrote it: then no file was
    damaged, and to get it again is no help."""
    where = Path(str(error.where))
    inside = (p for p in (where, *where.parents) if (p / "ledger.jsonl").is_file())
    if error.remedy != LOST or (release := next(inside, None)) is None:
        return error
    try:
        if (release / NAME).is_file():
            check_seal(release, privacy_statement.read_ours(release))
        else:  # a run that is not at its end: what it derives has no digests yet
            check_measured(release)
    except UserError:
        return error
    return DasError(error.what, where=error.where, remedy=INTACT)
