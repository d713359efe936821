"""``privacy.json`` as a file. What it says is :mod:`das.accounting.document`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from das.accounting import codec
from das.accounting.document import (
    ALTERED,
    NAME,
    Document,
    ForeignStatement,
    OwnStatement,
    Stated,
    Statement,
)
from das.errors import ReleaseError
from das.files import atomic
from das.files.provenance import check_marks
from das.files.run import run_directory
from das.model.not_private import Private


def read(release: Path) -> Document:
    """The statement of a release. Raises :class:`ReleaseError` where it is none, with the first
    fault's place.
    """
    path = release / NAME
    return codec.of(run_directory.read_json(path), path)


def read_ours(release: Path) -> OwnStatement:
    """The statement of a release whose noise das drew. Raises :class:`ReleaseError` for
    measurements of another publisher.
    """
    said = read(release)
    if isinstance(said, Statement):
        return said
    raise ReleaseError(
        "these measurements came from another publisher: there is no ledger of them",
        where=release,
        remedy="`das nmf verify` checks the files; the guarantee is its publisher's to state",
    )


def write(release: Path, statement: Stated) -> None:
    atomic.write_text(release / NAME, codec.text(statement))


def as_written(release: Path, statement: Stated) -> bool:
    """Whether the file has exactly the bytes that ``statement``, read from it, is written with. The
    statement's digest covers its content, and two texts can have the same content, as 0.1 and 0.10
    do."""
    return (release / NAME).read_bytes() == codec.text(statement).encode()


# Copies the measured part of a release into another folder, which then is a whole release by
# itself.
#
# Files of measurements are never rewritten. So they are linked where the system can, which leaves one
# copy on disk, and copied elsewhere. The ledger is copied because a run appends to it. It appears
# last: where the ledger is, everything is.

#: Besides the folders of measurements: what every reader of them needs, and the ledger, which other
#: publishers' releases lack.
_COPIED = ("spine.parquet", "areas.parquet", "ledger.jsonl")


def adopt(release: Path, into: Path, also: Sequence[str] = ()) -> None:
    """Copy spine, ledger and noisy measurement files of ``release`` into the existing folder
    ``into``; ``also`` lists other files that its measurements depend on."""
    for folder in sorted(p for p in release.glob("nmf*") if p.is_dir()):
        with atomic.folder(into / folder.name) as draft:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                new = draft / path.relative_to(folder)
                new.parent.mkdir(parents=True, exist_ok=True)
                atomic.link(path.resolve(), new)
    for name in (*also, *_COPIED):
        if (release / name).is_file():
            with atomic.file(into / name) as draft:
                shutil.copyfile(release / name, draft)


def check_taken(release: Path, taken: Mapping[str, str], said: Document, private: Private) -> None:
    """What was ``taken`` over of a release, SHA-256 by path, is what its statement has digests of.
    Nothing is lacking that was measured, and files say of a seed what the specification does
    (``private``). Under a new seal none of this could be seen any more. Raises
    :class:`ReleaseError`. (Measurements of another publisher are without.)"""
    if isinstance(said, ForeignStatement):
        return
    check_unaltered(release, taken, said)
    check_marks(release, private)
    for name in said.digests:
        if (name in _COPIED or name.startswith("nmf")) and name not in taken:
            raise ReleaseError(
                "is not there, and privacy.json has its digest",
                where=release / name,
                remedy=ALTERED,
            )


def check_unaltered(release: Path, read: Mapping[str, str], said: Document) -> None:
    """Files that were ``read`` of a release, SHA-256 by path, are those that its statement has
    digests of. Raises :class:`ReleaseError`."""
    for name, digest in read.items():
        if said.digests.get(name) != digest:
            raise ReleaseError(
                "does not match its digest in privacy.json", where=release / name, remedy=ALTERED
            )
