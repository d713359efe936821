"""``privacy.json`` as a file. What it says is :mod:`das.accounting.document`."""

from __future__ import annotations

from pathlib import Path

from das.accounting import codec
from das.accounting.document import NAME, Document, OwnStatement, Stated, Statement
from das.errors import ReleaseError
from das.files import atomic
from das.files.run import run_directory


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
