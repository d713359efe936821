"""A run that has entered a register is given up.

It stays spent, unless nobody can ever see its noise. Only this counts as proof:

1. its folder is there, is the one that has entered, and no process of this machine is at work in it;
2. its noise follows from a run key alone: not from a seed, and not from a source without a key;
3. the folder has the very files that it had when the run entered: no measurement, no draft of one,
   no task that was handed out, nothing acknowledged in the ledger;
4. the key in the folder is the one that has entered, and this command deletes it.

A key that is gone already proves nothing: it may have been moved. A copy of the folder cannot go on,
because its run is given up in the register that it has to enter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from das.accounting.register import Entry
from das.errors import RegisterError
from das.files import register
from das.files.register import Head
from das.files.run import noise_key
from das.files.run.ledger import LedgerFile
from das.files.run.register_link import RegisterLink, names_digest
from das.files.run.run_directory import RunDirectory
from das.truth.registering import check_latest
from das.truth.run_noise import key_mark


def void(run: Path) -> Head:
    """Delete the key of a run that has written nothing, and take its entry back; see the module.
    Raises :class:`RegisterError` where that cannot be proved."""
    directory = RunDirectory(run)
    link = RegisterLink.read(directory) if directory.root.is_dir() else None
    if link is None or link.head is None:
        _stays("its folder is not there, or has entered no register", run)
    with directory.lock(), register.locked(Path(link.register)) as file:
        check_latest(link, file, directory)
        found = file.register.of(link.run)
        if any(n in file.register.void for n in found):
            raise RegisterError("this run is given up already", where=run)
        if len(found) != 1:
            _stays("it was measured more than once", run)
        ((n, entry),) = found.items()
        _check_nothing_written(directory, link, entry)
        if not link.giving_up:  # since then nothing can have been drawn by any key
            _check_key(directory, entry)
        replace(link, giving_up=True).write(directory)  # on disk before the key is gone
        noise_key.delete(directory.noise_key)
        why = "its run key was deleted before anything was written"
        head = file.append("void", {"line": n, "why": why})
        replace(link, giving_up=True, head=head).write(directory)
        return head


def _check_nothing_written(directory: RunDirectory, link: RegisterLink, entry: Entry) -> None:
    where = directory.root
    if not entry.private or entry.key is None:
        _stays("its noise follows from no key that can be deleted", where)
    ledger = LedgerFile(directory.ledger).entries
    if ledger.closed or any(a.measured for a in ledger.attempts) or ledger.lost():
        _stays("its ledger says that it was measured", where)
    if names_digest(directory) != link.listing:
        _stays("files were written in its folder since it has entered", where)


def _check_key(directory: RunDirectory, entry: Entry) -> None:
    mark = key_mark(directory)
    if mark is None:
        _stays("its run key is gone, and nobody knows where", directory.root)
    if mark != entry.key:
        _stays("its run key is not the one that has entered", directory.root)


def _stays(why: str, run: Path) -> NoReturn:
    raise RegisterError(
        f"stays spent: {why}",
        where=run,
        remedy="resume it where it is interrupted: what was measured is not measured again",
    )
