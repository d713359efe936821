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
#: Those of few files, each of which is altered in every way, and verified as a whole each time.
SMALL = ("the S-DHC", "the toy")


@pytest.fixture(params=list(EVERY))
def release(request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path) -> Iterator[Path]:
    published = EVERY[request.param](worlds, tmp_path / "given")
    whole = published.whole(worlds)
    with published.around():
        copy = worlds.copy(whole / "release", tmp_path / "release")
        yield copy
        assert contents(copy) == contents(whole / "release")  # the last test verifies it


def contents(release: Path) -> dict[str, bytes]:
    return {p.relative_to(release).as_posix(): p.read_bytes() for p in files(release)}


def is_small(request: pytest.FixtureRequest) -> bool:
    return request.node.callspec.params["release"] in SMALL


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
    said, ways, tried = statement.read_ours(release), cycle(ALTERED), set[Path]()
    small = is_small(request)
    for path in files(release):
        if path.name == statement.NAME:
            continue  # the seal itself, which is held against what it says
        if not small and path.parent in tried and path.parent != release:
            continue
        tried.add(path.parent)
        for how in ALTERED if small else [next(ways)]:
            with altered(path, how), pytest.raises(UserError) as caught:
                check_seal(release, said)
            assert names(str(caught.value), path, release), (how, str(caught.value))
    check_seal(release, said)


def test_every_altered_file_is_refused_when_all_is_verified(
    release: Path, request: pytest.FixtureRequest
) -> None:
    """Of a large release one file of each folder, each in another way; of others every one."""
    small = is_small(request)
    tried, ways = set[Path](), cycle(ALTERED)
    for path in files(release):
        kind = Path(*path.relative_to(release).parts[:1]) if path.parent != release else path
        if not small and kind in tried:
            continue
        tried.add(kind)
        for how in ("one bit is another", "it is gone") if small else [next(ways)]:
            with altered(path, how):
                message = refused(release)
            assert names(message, path, release), (how, message)
    assert len(tried) > 3


def test_an_altered_specification_is_named(release: Path) -> None:
    """Everything is computed again from it, so what differs first is often in another file."""
    path = release / "spec.toml"
    whole = path.read_bytes()
    for at in (len(whole) // 8, 5 * len(whole) // 8):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "spec.toml" in refused(release), whole[at - 20 : at + 20]
    path.unlink()
    assert "there is no spec.toml" in refused(release)
    path.write_bytes(whole)


#: By what is said of it.
BESIDE: dict[str, Callable[[Path], object]] = {
    "": lambda at: at.write_text("x"),
    "is an empty folder": lambda at: at.mkdir(),
    "is a named pipe": os.mkfifo,
    "is a link": lambda at: at.symlink_to(at.parent / statement.NAME),
}


def test_what_lies_beside_them_is_refused(release: Path) -> None:
    """Each kind in the release, or in a folder of it that has files. Nobody waits for a pipe."""
    folders = cycle(sorted({path.parent for path in files(release)})[:3])
    for folder, (says, add) in zip(folders, BESIDE.items(), strict=False):
        add(folder / "more.txt")
        message = refused(release)
        assert names(message, folder / "more.txt", release)
        assert says in message
        remove(folder / "more.txt")


def test_the_command_refuses_and_names_it(release: Path, commands: Commands) -> None:
    verified = commands.named("account")
    code, out, err = verified("verify", release)
    assert (code, err) == (0, "")
    assert "the privacy statement is right" in out
    for how in ("one bit is another", "it is gone"):
        with altered(release / "ledger.jsonl", how):
            code, out, err = verified("verify", release)
        assert (code, out) == (2, "")
        assert err.count("das: ") == 1
        assert "Traceback" not in err
        assert "ledger.jsonl" in err
