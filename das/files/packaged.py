"""Configurations, files of targets, lists of sources and simulated extracts that come with the
package: a name in place of a file."""

from __future__ import annotations

from pathlib import Path

from das.files.run.run_directory import read_text

_INSTALLED = Path(__file__).resolve().parents[1] / "packaged"


def root() -> Path:
    """The folder of ``configs/`` and ``data/``: in an installed package its own, else the
    checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1]


def names() -> list[str]:
    """What may stand in place of the path of a configuration."""
    return sorted(p.stem for p in (root() / "configs").glob("*.toml"))


def configuration(given: Path) -> tuple[str, Path | None]:
    """The text of a configuration, and, of a packaged one, the folder that its ``data.path`` is
    relative to.

    ``given`` is a file or, if there is no such file, the name of a packaged configuration. Raises
    :class:`SpecError` if it is neither."""
    text, mine = _found(given, root() / "configs", "configuration", "a packaged configuration")
    return text, root() if mine else None


def accounts() -> dict[str, Path]:
    """The lists of sources for ``das account`` that come with the package, by name."""
    return {p.stem: p for p in sorted((root() / "configs" / "accounts").glob("*.json"))}


def targets(given: Path) -> str:
    """The text of a file of targets: ``given`` is the file or, if there is no such file, the name
    of a packaged one. Raises :class:`SpecError` if it is neither."""
    return _found(given, root() / "configs" / "targets", "file of targets", "packaged ones")[0]


def _found(given: Path, folder: Path, what: str, packaged: str) -> tuple[str, bool]:
    """The text, and whether it is one that came with the package."""
    known = sorted(p.stem for p in folder.glob("*.toml"))
    if given.is_file() or str(given) not in known:
        return read_text(
            given, what, f"check the path, or name {packaged}: {', '.join(known)}"
        ), False
    return read_text(folder / f"{given}.toml", what), True
