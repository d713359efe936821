"""Releases as somebody leaves them who alters with care."""

from __future__ import annotations

from pathlib import Path

from das.files.release import statement
from das.release.seal import seal
from das.spec import parse


def sealed(release: Path) -> None:
    """Every digest and the page are those of what is there."""
    seal(
        release,
        statement.read(release),
        parse((release / "spec.toml").read_text(encoding="utf-8"), where="c").run.name,
    )
