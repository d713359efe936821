"""Copies the files of a run to stores, object by object: publishable files to one store,
confidential files to another.

A file is copied when it cannot change any more, at most once. The run's ``carried.jsonl`` has a
line for each copied object with its size and SHA-256. The seal of a release (``privacy.json``) goes
last, when everything else is there: anyone who sees it sees a whole release. The noise key and work
in progress are never copied."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Any

from das.accounting.document import NAME as SEAL
from das.engine.tasks import Progress
from das.errors import PrivacyError, StoreError, UserError
from das.files.run.run_directory import RunDirectory, file_digest
from das.files.store import Store

AT_ONCE = 4  #: objects on their way


@dataclass(frozen=True)
class StoredObject:
    """A file of a run that is in a store under this name."""

    store: str
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class StoreContents:
    """What of a run a store has; ``sealed``: all of its release."""

    store: str
    objects: int
    bytes: int
    sealed: bool


class SyncRecord:
    """What was carried of a run, and the stores that it claimed."""

    def __init__(self, directory: RunDirectory) -> None:
        self.path = directory.carried
        self.claimed: set[str] = set()
        self.objects: dict[tuple[str, str], StoredObject] = {}
        self._lock = Lock()
        for line in self._lines():
            if "claim" in line:
                self.claimed.add(line["claim"])
            else:
                self._know(StoredObject(**line))

    def objects_in(self, store: str) -> dict[str, StoredObject]:
        """The objects of a store, by name."""
        return {c.name: c for c in self.objects.values() if c.store == store}

    def stores(self) -> list[StoreContents]:
        """What each has that was claimed."""
        held = {url: self.objects_in(url) for url in sorted(self.claimed)}
        return [
            StoreContents(url, len(of), sum(c.size for c in of.values()), SEAL in of)
            for url, of in held.items()
        ]

    def claim(self, store: Store) -> None:
        """Nobody else's objects are there. Raises :class:`UserError` where there are some, before
        anything is carried."""
        if store.url in self.claimed:
            return
        if others := sorted(store.sizes()):
            raise UserError(
                f"there is something else, such as {others[0]}",
                where=store.url,
                remedy="choose another prefix; a store is never overwritten",
            )

    def begin(self, store: Store) -> None:
        """From here on what is in the store is of this run."""
        if store.url not in self.claimed:
            self._append({"claim": store.url})
            self.claimed.add(store.url)

    def add(self, carried: StoredObject) -> None:
        with self._lock:
            self._append(vars(carried))
            self._know(carried)

    def _know(self, carried: StoredObject) -> None:
        self.objects[carried.store, carried.name] = carried

    def _append(self, line: Mapping[str, object]) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, ("\n" + json.dumps(line)).encode())
        finally:
            os.close(descriptor)

    def _lines(self) -> Iterator[dict[str, Any]]:
        """A line that a kill cut off is ignored: its object is copied again."""
        text = self.path.read_bytes() if self.path.exists() else b""
        for line in text.split(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


class StoreSync:
    """Copies the files of a run to stores: in the background while it goes on, and the rest at its
    end. Without stores it does nothing."""

    def __init__(
        self,
        directory: RunDirectory,
        release: Store | None = None,
        confidential: Store | None = None,
    ) -> None:
        self._directory, self._release, self._confidential = directory, release, confidential
        self._record = SyncRecord(directory)
        self._pool = ThreadPoolExecutor(AT_ONCE, "store-sync")
        self._under_way: dict[tuple[str, str], Future[None]] = {}
        self._silent = (
            Event()
        )  # a store does not answer: nothing is begun in the background any more

    @staticmethod
    def for_stores(
        directory: RunDirectory, store: str | None = None, confidential_store: str | None = None
    ) -> StoreSync:
        """The copier for the stores of these URLs.

        Raises :class:`UserError` if one is not a store, does not exist, is not writable, or has
        something else in it. It does so, too, if others can read the folder of the confidential
        store, or if confidential files would be in the public one."""
        release = None if store is None else Store.at(store)
        confidential = (
            None if confidential_store is None else Store.at(confidential_store, confidential=True)
        )
        if release and confidential and release.overlaps(confidential):
            raise UserError(
                "confidential files would be in the release's store, or the other way round",
                where=confidential.url,
                remedy="give --confidential-store a bucket, or a prefix, of its own",
            )
        out = StoreSync(directory, release, confidential)
        for each in (release, confidential):
            if each is not None:
                _refuse_nested(directory, each)
                each.check()
                out._record.claim(each)
        return out

    def __enter__(self) -> StoreSync:
        return self

    def __exit__(self, *rest: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def measured(self, files: Mapping[str, str]) -> None:
        """These files of the release, with their digests, do not change any more: they are on their
        way when this returns. What fails is tried again by :meth:`finish`."""
        if self._release is not None:
            for name, sha256 in files.items():
                self._begin(self._release, name, self._directory.release / name, sha256, once=True)

    def released(self) -> None:
        """Nor does any other; all but the seal are on their way."""
        if self._release is not None:
            for name, path in _files_of(self._directory.release).items():
                if name != SEAL:
                    self._begin(self._release, name, path, None, once=True)

    def finish(self, progress: Progress, known: Mapping[str, str] | None = None) -> None:
        """The run has ended: when this returns, the stores have all of it. Files whose digest is
        ``known``, by their paths in the run, are not read for it. Raises :class:`StoreError` for
        the first that could not be carried."""
        for each, files in (
            (self._release, _files_of(self._directory.release)),
            (self._confidential, confidential_files(self._directory)),
        ):
            if each is not None:
                digests = {
                    n: (known or {}).get(str(p.relative_to(self._directory.root)))
                    for n, p in files.items()
                }
                digests[SEAL] = None  # it is written again where intervals are made
                self._carry_all(each, files, digests, progress)

    def _carry_all(
        self,
        store: Store,
        files: Mapping[str, Path],
        digests: Mapping[str, str | None],
        progress: Progress,
    ) -> None:
        for begun in list(self._under_way.values()):
            with suppress(StoreError):
                begun.result()
        self._under_way.clear()
        there, told = store.sizes(), self._record.objects_in(store.url)
        left = [
            n for n in files if not self._stands(told.get(n), there.get(n), files[n], digests[n])
        ]
        progress.stage(f"carry to {store.url}", len(left))
        for some in ([n for n in left if n != SEAL], [n for n in left if n == SEAL]):
            for done in as_completed([self._begin(store, n, files[n], digests[n]) for n in some]):
                done.result()
                progress.advance()
        for name in sorted(told.keys() & there.keys() - files.keys()):
            store.remove(name)

    @staticmethod
    def _stands(
        told: StoredObject | None, there: int | None, path: Path, sha256: str | None
    ) -> bool:
        """Whether a file is in the store as it is here."""
        return (
            told is not None
            and told.size == there == path.stat().st_size
            and told.sha256 == (sha256 or file_digest(path))
        )

    def _begin(
        self, store: Store, name: str, path: Path, sha256: str | None, *, once: bool = False
    ) -> Future[None]:
        """``once``: not if it has been carried as it is."""
        self._refuse(store, path)
        self._record.begin(store)
        key = store.url, name
        if key not in self._under_way:
            self._under_way[key] = self._pool.submit(self._carry, store, name, path, sha256, once)
        return self._under_way[key]

    def _carry(self, store: Store, name: str, path: Path, sha256: str | None, once: bool) -> None:
        if once and self._silent.is_set():
            return
        carried = StoredObject(store.url, name, path.stat().st_size, sha256 or file_digest(path))
        if once and self._record.objects.get((store.url, name)) == carried:
            return
        try:
            store.put(name, path)
        except StoreError:
            self._silent.set()
            raise
        self._record.add(carried)

    def _refuse(self, store: Store, path: Path) -> None:
        """Raises :class:`PrivacyError` before a noise key is carried anywhere, or to the release's
        store what is not of the release."""
        real, root = path.resolve(), self._directory.root.resolve()
        if path.name == self._directory.noise_key.name:
            raise PrivacyError(
                "the noise key is never copied: with the release it reveals the truth", where=path
            )
        if not real.is_relative_to(root / "release" if store is self._release else root):
            raise PrivacyError("this file does not belong to the store", where=path)


def confidential_files(directory: RunDirectory) -> dict[str, Path]:
    """What a confidential store gets, by name: the folder, without its key and the work under way;
    and the manifest."""
    found = {
        f"{directory.confidential.name}/{name}": path
        for name, path in _files_of(directory.confidential).items()
        if path != directory.noise_key and not name.startswith("work/")
    }
    return found | (
        {directory.manifest.name: directory.manifest} if directory.manifest.exists() else {}
    )


def _files_of(folder: Path) -> dict[str, Path]:
    return {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}


def _refuse_nested(directory: RunDirectory, store: Store) -> None:
    """Refuse a store on this machine that is within the run, or contains it."""
    root = directory.root.resolve()
    if store.folder is not None and (
        store.folder.is_relative_to(root) or root.is_relative_to(store.folder)
    ):
        raise UserError(
            "the store lies in the folder of the run, or that in it",
            where=store.url,
            remedy="choose a place outside it",
        )
