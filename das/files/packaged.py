"""Configurations and simulated extracts that come with the package: a name in place of a file."""

from __future__ import annotations

from pathlib import Path

from das.files.run.run_directory import read_text

_INSTALLED = Path(__file__).resolve().parents[1] / "packaged"


def root() -> Path:
    """The folder of ``configs/`` and ``data/``: in an installed package its own, else the checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1]


def names() -> list[str]:
    """What may stand in place of the path of a configuration."""
    return sorted(p.stem for p in (root() / "configs").glob("*.toml"))


def configuration(given: Path) -> tuple[str, Path | None]:
    """The text of a configuration, and, of a packaged one, the folder that its ``data.path`` is relative to.

    ``given`` is a file or, where there is no such file, the name of a packaged configuration. Raises
    :class:`SpecError` where it is neither.
    """
    known = names()
    if given.is_file() or str(given) not in known:
        remedy = f"check the path, or name a packaged configuration: {', '.join(known)}"
        return read_text(given, "configuration", remedy), None
    return read_text(root() / "configs" / f"{given}.toml", "configuration"), root()
