"""Whose words a release has: texts depend on the version of the software that wrote them, which the
statement names, and which anybody can alter."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from das.accounting.document import ALTERED, Statement
from das.errors import ReleaseError
from das.release.seal import software


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
        it.
        """
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
