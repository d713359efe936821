"""Whatever is altered in a release of any publication is found: every file, altered, cut off, added
to or gone, and unknown files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from das.errors import UserError
from das.files.release import statement
from das.release import verify
from das.release.verify.sealed import check_seal
from tests.commands import Commands
from tests.contract.publications import EVERY
from tests.worlds import Worlds


def flipped(data: bytes) -> bytes:
    """One bit in the middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


ALTERED: dict[str, Callable[[bytes], bytes | None]] = {
    "one bit is another": flipped,
    "it is cut off": lambda data: data[: len(data) // 2],
    "it has more": lambda data: data + b" ",
    "it is gone": lambda _: None,
}
#: Of which a check of everything takes long, for each has hundreds of files, or of which there is
#: another test of every file (tests/release/test_verify_groups.py).
LARGE = ("counts in subtrees", "the DHC", "groups of persons", "groups of households")


@pytest.fixture(params=list(EVERY))
def release(request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path) -> Iterator[Path]:
    published = EVERY[request.param](worlds, tmp_path / "given")
    whole = published.whole(worlds)
    with published.around():
        yield worlds.copy(whole / "release", tmp_path / "release")


def is_large(request: pytest.FixtureRequest) -> bool:
    return request.node.callspec.params["release"] in LARGE


def files(release: Path) -> list[Path]:
    return sorted(p for p in release.rglob("*") if p.is_file())


@contextmanager
def altered(path: Path, how: str) -> Iterator[None]:
    before = path.read_bytes()
    after = ALTERED[how](before)
    path.unlink()
    if after is not None:
        path.write_bytes(after)
    yield
    path.write_bytes(before)


def remove(path: Path) -> None:
    folder = path.is_dir() and not path.is_symlink()
    path.rmdir() if folder else path.unlink()


def refused(release: Path) -> str:
    with pytest.raises(UserError) as caught:
        verify.statement(release)
    return str(caught.value)


def names(message: str, path: Path, release: Path) -> bool:
    """The file, or a folder that it is in, below the release."""
    inside = path.relative_to(release)
    whole = [p.as_posix() for p in (inside, *inside.parents) if p != Path()]
    return any(name in message.replace(f"{release}/", "") for name in whole)


def test_every_file_is_under_the_seal(release: Path, request: pytest.FixtureRequest) -> None:
    """However it is altered (of a large release, one file of each folder, each in another way);
    and who refuses it names it, or the folder that has one digest.
    """
    said, unit_classes, tried = statement.read_ours(release), cycle(ALTERED), set[Path]()
    for path in files(release):
        if path.name == statement.NAME:
            continue  # the seal itself, which is held against what it says
        if is_large(request) and path.parent in tried and path.parent != release:
            continue
        tried.add(path.parent)
        for how in [next(unit_classes)] if is_large(request) else ALTERED:
            with altered(path, how), pytest.raises(UserError) as caught:
                check_seal(release, said)
            assert names(str(caught.value), path, release), (how, str(caught.value))
    check_seal(release, said)


def test_every_altered_file_is_refused_when_all_is_verified(
    release: Path, request: pytest.FixtureRequest
) -> None:
    """Of a large release one file of each folder, each in another way; of others every one."""
    large = is_large(request)
    tried, unit_classes = set[Path](), cycle(ALTERED)
    for path in files(release):
        kind = Path(*path.relative_to(release).parts[:1]) if path.parent != release else path
        if large and kind in tried:
            continue
        tried.add(kind)
        for how in [next(unit_classes)] if large else ("one bit is another", "it is gone"):
            with altered(path, how):
                message = refused(release)
            assert names(message, path, release), (how, message)
    assert len(tried) > 3
    verify.statement(release)


def test_an_altered_specification_is_named(release: Path) -> None:
    """Everything is computed again from it, so what differs first is often in another file."""
    path = release / "spec.toml"
    whole = path.read_bytes()
    for at in range(len(whole) // 8, len(whole), len(whole) // 4):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "spec.toml" in refused(release), whole[at - 20 : at + 20]
    path.unlink()
    assert "there is no spec.toml" in refused(release)
    path.write_bytes(whole)
    verify.statement(release)


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda at: at.write_text("x"), ""),
        (lambda at: at.mkdir(), "is an empty folder"),
        (lambda at: os.mkfifo(at), "is a named pipe"),
        (lambda at: at.symlink_to(at.parent / statement.NAME), "is a link"),
    ],
    ids=["file", "folder", "pipe", "link"],
)
def test_what_lies_beside_them_is_refused(
    release: Path, add: Callable[[Path], object], says: str
) -> None:
    """In the release, and in folders of it that have files. Nobody waits for a pipe."""
    folders = {path.parent for path in files(release)}
    for folder in sorted(folders)[:3]:
        add(folder / "more.txt")
        message = refused(release)
        assert names(message, folder / "more.txt", release)
        assert says in message
        remove(folder / "more.txt")
    verify.statement(release)


def test_the_command_refuses_and_names_it(release: Path, commands: Commands) -> None:
    verified = commands.named("account")
    code, out, err = verified("verify", release)
    assert (code, err) == (0, "")
    assert "the privacy statement is right" in out
    for how in ALTERED:
        with altered(release / "ledger.jsonl", how):
            code, out, err = verified("verify", release)
        assert (code, out) == (2, "")
        assert err.count("das: ") == 1
        assert "Traceback" not in err
        assert "ledger.jsonl" in err
