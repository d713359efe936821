"""Where in ``privacy.json`` a fault is."""

from __future__ import annotations

from pathlib import Path

from das.files.json_lines import RecordKey, line_of
from das.files.run import run_directory


def place(path: Path, at: tuple[RecordKey, ...]) -> str:
    """File and line of a value."""
    return f"{path}, line {line_of(run_directory.read_text(path, 'privacy statement'), at)}"
