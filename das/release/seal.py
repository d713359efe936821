"""A release is sealed: its privacy statement lists the digests of all its files, including its
page.

Anyone who alters a file can alter its digest too. So a seal detects accidents and careless
alterations only. :mod:`das.release.verify` does not trust the statement: it recomputes what it
says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from das.accounting.codec import own_digest
from das.accounting.document import ALTERED, INTERVALS_LIST, NAME, PAGE, Stated, Statement
from das.errors import ReleaseError
from das.files import atomic
from das.files.atomic import files_below
from das.files.messages import check_marked
from das.files.release import statement
from das.files.run import run_directory
from das.files.run.ledger import digests
from das.report.privacy import privacy_page
from das.version import __version__

S = TypeVar("S", bound=Stated)


def seal(release: Path, said: S, name: str, known: Mapping[str, str] | None = None) -> S:
    """Write the statement ``said`` and its page, with the digests of all that is there now; returns
    it as written. Files whose digest is ``known``, by their paths, are not read again. Drafts of an
    attempt that was killed are deleted."""
    atomic.clear_drafts(release)
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


# Whose words a release has: texts depend on the version of the software that wrote them, which the
# statement names, and which anybody can alter.


@dataclass(frozen=True)
class Wording:
    """What to do where a text of the statement ``said`` differs from the one that is written again.
    ``left`` are the texts that are taken to come from another version."""

    said: Statement
    other_version: bool = False
    left: list[str] = field(default_factory=list)

    @property
    def ours(self) -> bool:
        """Whether the software that the statement names is the one at work."""
        return dict(self.said.software) == software()

    def differs(self, what: str, where: object, name: str = "") -> None:
        """A text differs. Raises :class:`ReleaseError`, unless another version may have written
        it."""
        if self.ours:
            raise ReleaseError(what, where=where, remedy=ALTERED)
        if not self.other_version:
            made = ", ".join(f"{k} {v}" for k, v in self.said.software.items()) or "no software"
            raise ReleaseError(
                f"{what}; the statement says that {made} wrote it, and here are "
                + ", ".join(f"{k} {v}" for k, v in software().items()),
                where=where,
                remedy=(
                    "verify it with those versions; with --other-version texts are not checked,"
                    " and das lists them"
                ),
            )
        self.left.append(name or Path(str(where)).name)
