"""The files below a folder are those that a walk with an object for each finds."""

from __future__ import annotations

import os
from pathlib import Path

from das.files.atomic import files_below


def test_every_file_is_listed_once_in_the_order_of_paths(tmp_path: Path) -> None:
    """Links to files and hidden files too; no pipe, no link to a folder and nothing in it."""
    for name in ("b/2.txt", "b/10.txt", "b/a/x", "b.txt", ".hidden", "a-b/x", "a/x", "empty/no/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty" / "no" / "x").unlink()
    (tmp_path / "linked").symlink_to("b.txt")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "folder").symlink_to("b", target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    walked = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    assert files_below(tmp_path) == [p.relative_to(tmp_path).as_posix() for p in walked]
    assert len(walked) == 8


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert files_below(tmp_path / "gone") == []
    (tmp_path / "file").write_text("x")
    assert files_below(tmp_path / "file") == []
