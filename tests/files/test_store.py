"""Objects appear whole or not at all, whatever cuts the connection; what is no store is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from das.errors import StoreError, UserError
from das.files import store as module
from das.files.store import Store
from tests.s3 import S3, Line, running


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with running() as server:
        yield server


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", ())


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return Store.at(f"file://{tmp_path}/store")
    server: S3 = request.getfixturevalue("s3")
    return Store.at(server.url(server.bucket(f"b{abs(hash(tmp_path)) % 10**9}") + "/pre/fix"))


def test_what_is_put_is_listed_and_comes_back(store: Store, tmp_path: Path) -> None:
    store.check()
    assert store.sizes() == {}
    data = {"a": b"", "b/c.bin": bytes(range(256)) * 1000, "b/d": b"x"}
    for name, content in data.items():
        (tmp_path / "given").write_bytes(content)
        store.put(name, tmp_path / "given")
        store.get(name, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
    assert store.sizes() == {name: len(content) for name, content in data.items()}
    store.remove("b/d")
    assert set(store.sizes()) == {"a", "b/c.bin"}


@pytest.mark.parametrize("sent", [300, 11_500_000])
def test_a_connection_that_is_cut_leaves_no_object_and_the_next_attempt_is_whole(
    s3: S3, at_once: None, tmp_path: Path, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the object is begun, within its first part, and within its second, when the first has
    arrived.
    """
    monkeypatch.setattr(module, "CHUNK", 11 << 20)
    file, bucket, line = tmp_path / "big", s3.bucket(f"cut-{sent}"), Line(s3.port)
    file.write_bytes(bytes(12 << 20) + b"end")
    store = Store.at(s3.url(bucket, line.port))
    line.cut_after(sent)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(StoreError, match="big cannot be written"):
            pool.submit(store.put, "big", file).result()
        assert line.cuts
        assert s3.objects(bucket) == {}
        line.cut_after(None)
        pool.submit(store.put, "big", file).result()
    assert s3.objects(bucket) == {"big": file.read_bytes()}
    line.close()


class _WithoutDeletion:
    """A file system whose connection is gone before anything can be deleted."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def delete_file(self, path: str) -> None:
        raise OSError(f"no answer about {path}")


def test_an_attempt_that_ends_while_it_looks_is_in_no_ones_way(store: Store) -> None:
    """The next one finds the store as empty as it was."""
    with pytest.raises(UserError, match="nothing can be written there, or deleted"):
        replace(store, _fs=_WithoutDeletion(store._fs)).check()
    assert store.sizes() == {}
    store.check()


def test_a_stream_that_another_error_interrupts_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow closes what is given up, and half an object would have the name."""
    monkeypatch.setattr(module, "CHUNK", Once(4))
    (tmp_path / "given").write_bytes(b"123456789")
    with pytest.raises(MemoryError):
        store.put("half", tmp_path / "given")
    assert store.sizes() == {}


class Once(int):
    """A size of pieces, for which there is memory once."""

    asked = 0

    def __radd__(self, other: int) -> int:
        self.asked += 1
        if self.asked > 1:
            raise MemoryError
        return other + int(self)


@pytest.mark.parametrize(
    "url, said",
    [
        ("here", "this is no store"),
        ("ftp://x/y", "this is no store"),
        ("s3://", "no bucket and no folder"),
        ("s3://b/x?endpoint=1", "this is no store"),
        ("file:///dev/null", "this is no folder"),
        ("mock://x/y", "does not know whether objects appear whole"),
    ],
)
def test_what_is_no_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Store.at(url)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(UserError, match="credentials are no part") as error:
        Store.at("s3://KEY:HUSH@bucket/x")
    assert "HUSH" not in str(error.value)


def test_a_bucket_that_is_not_there_is_refused(s3: S3) -> None:
    with pytest.raises(UserError, match=r"nothing can be written there.*does not exist"):
        Store.at(s3.url("nowhere/x")).check()


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../../b", "a//b", "a\\b", "."])
def test_names_stay_in_the_store(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="no name of an object"):
        store.get(name, tmp_path / "out")


def test_one_in_another_is_known() -> None:
    a, b, c = (Store.at(f"file:///x/{p}") for p in ("a", "a/b", "ab"))
    assert a.overlaps(a)
    assert a.overlaps(b)
    assert b.overlaps(a)
    assert not a.overlaps(c)


def test_what_is_confidential_is_its_owners_alone_in_a_folder_of_this_machine(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        (tmp_path / "given").write_bytes(b"truth")
        (tmp_path / "given").chmod(0o644)
        store = Store.at(f"file://{tmp_path}/above/store", confidential=True)
        store.check()
        for name in ("a", "b/c/d", "a"):
            store.put(name, tmp_path / "given")
    finally:
        os.umask(before)
    there = tmp_path / "above" / "store"
    modes = {
        p.relative_to(there).as_posix(): p.stat().st_mode & 0o777
        for p in (there, *there.rglob("*"))
    }
    assert modes == {".": 0o700, "a": 0o600, "b": 0o700, "b/c": 0o700, "b/c/d": 0o600}
    assert store.sizes() == {"a": 5, "b/c/d": 5}


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o710, 0o740])
def test_a_folder_that_others_can_read_gets_nothing_confidential(tmp_path: Path, mode: int) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(mode)
    with pytest.raises(UserError, match="others can read this folder"):
        Store.at(f"file://{there}", confidential=True).check()
    assert not list(there.iterdir())
    Store.at(f"file://{there}").check()
    there.chmod(0o700)
    Store.at(f"file://{there}", confidential=True).check()


def test_a_folder_of_another_user_gets_nothing_confidential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: there.stat().st_uid + 1)
    with pytest.raises(UserError, match="others can read this folder"):
        Store.at(f"file://{there}", confidential=True).check()
