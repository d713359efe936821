"""A release is sealed: its privacy statement lists the digests of all its files, including its
page.

Anyone who alters a file can alter its digest too. So a seal detects accidents and careless
alterations only. :mod:`das.release.verify` does not trust the statement: it recomputes what it
says."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from das.accounting.codec import own_digest
from das.accounting.document import INTERVALS_LIST, NAME, PAGE, Stated
from das.files import atomic
from das.files.listing import files_below
from das.files.provenance import check_marked
from das.files.release import statement
from das.files.run import run_directory
from das.files.run.ledger import digests
from das.report.privacy import privacy_page
from das.version import __version__

S = TypeVar("S", bound=Stated)


def seal(release: Path, said: S, name: str, known: Mapping[str, str] | None = None) -> S:
    """Write the statement ``said`` and its page, with the digests of all that is there now; returns
    it as written. Files whose digest is ``known``, by their paths, are not read again."""
    check_marked(release, files_below(release), said.private)
    whole = said.sealed(digests(release, known), software())
    atomic.write_text(release / PAGE, page(whole, name))
    whole = whole.sealed(
        {**whole.digests, PAGE: run_directory.file_digest(release / PAGE)}, whole.software
    )
    whole = whole.sealed({**whole.digests, NAME: own_digest(whole)}, whole.software)
    statement.write(release, whole)
    return whole


def seal_intervals(release: Path) -> None:
    """Take the list of the intervals that were made for a release under its seal. All else stays as
    it was sealed: the page shows what the release had before."""
    said = statement.read(release)
    digest = run_directory.file_digest(release / INTERVALS_LIST)
    said = said.sealed({**said.digests, INTERVALS_LIST: digest}, said.software)
    said = said.sealed({**said.digests, NAME: own_digest(said)}, said.software)
    statement.write(release, said)


def page(said: Stated, name: str) -> str:
    """The page of a statement. It shows the digests of the other files."""
    others = {k: v for k, v in said.digests.items() if k not in (NAME, PAGE, INTERVALS_LIST)}
    return privacy_page(said.sealed(others, said.software), name)


def software() -> dict[str, str]:
    """What the bytes of a page depend on."""
    return {"das": __version__, "jinja2": version("jinja2")}
