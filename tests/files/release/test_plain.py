"""No reader of a release that a user names waits for a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from das.errors import ReleaseError
from das.files.run.run_directory import release_of
from tests.commands import Commands

PLACES = (
    "release/privacy.json",
    "release/spec.toml",
    "release/nmf/Block.parquet/DPQuery/part.parquet",
    "release/tied.parquet",
    "release/intervals/manifest.json",
)


def folder(root: Path) -> Path:
    for name in PLACES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("linked", [False, True])
def test_pipes_are_refused_wherever_they_are(tmp_path: Path, name: str, linked: bool) -> None:
    run = folder(tmp_path / "run")
    assert release_of(run) == run / "release"
    (run / name).unlink()
    os.mkfifo(tmp_path / "pipe" if linked else run / name)
    if linked:
        (run / name).symlink_to(tmp_path / "pipe")
    for given in (run, run / "release"):
        with pytest.raises(ReleaseError, match="is a named pipe"):
            release_of(given)


@pytest.mark.parametrize(
    "command",
    [
        lambda pipe, out: ("estimate", "--from", pipe, "--out", out),
        lambda pipe, out: (
            "run",
            "dhc-2020",
            "--set",
            f"constraints.from={pipe}",
            "--data",
            pipe,
            "--out",
            out,
        ),
        lambda pipe, _: ("account", "verify", pipe),
        lambda pipe, out: ("intervals", pipe, "--out", out),
        lambda pipe, out: ("tables", pipe, "--out", out),
    ],
)
def test_commands_do_not_wait(
    tmp_path: Path, command: Callable[[str, str], tuple[str, ...]], commands: Commands
) -> None:
    run = folder(tmp_path / "run")
    (run / PLACES[0]).unlink()
    os.mkfifo(run / PLACES[0])
    name, *arguments = command(str(run), str(tmp_path / "out"))
    code, _, err = commands.named(name)(*arguments)
    assert code == 2
    assert "is a named pipe" in err
    assert not (tmp_path / "out").exists()


def test_links_and_other_folders_are_read(tmp_path: Path) -> None:
    """Of a release in parts some may be links; and a folder that is no release is not gone through
    to its end.
    """
    run = folder(tmp_path / "run")
    (run / "release" / "areas.parquet").symlink_to(run / PLACES[0])
    (run / "release" / "gone").symlink_to(tmp_path / "nowhere")
    assert release_of(run) == run / "release"
    (tmp_path / "large" / "below").mkdir(parents=True)
    os.mkfifo(tmp_path / "large" / "below" / "pipe")
    assert release_of(tmp_path / "large") == tmp_path / "large"
    for none in (tmp_path / "nowhere", tmp_path / "no\0name"):
        assert release_of(none) == none


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser may read everything")
def test_what_may_not_be_read_is_left_to_its_reader(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    (run / "release" / "nmf").chmod(0o400)
    try:
        assert release_of(run) == run / "release"
    finally:
        (run / "release" / "nmf").chmod(0o700)
