"""A run that has entered a register is given up.

It stays spent, unless none of its noise was drawn. The register alone shows that: it has the name of
each draw before that is made (:mod:`das.truth.registering` has the proof). Whatever became of the
folder and its copies, none of them gets a name afterwards. Only a run that was measured before it
entered has draws in its ledger that may have no names yet."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from das.errors import RegisterError
from das.files import register
from das.files.register import Head
from das.files.run.ledger import LedgerFile
from das.files.run.register_link import RegisterLink
from das.files.run.run_directory import RunDirectory
from das.truth.registering import check_latest


def void(run: Path) -> Head:
    """Take the entry of a run back that has drawn nothing; see the module. Raises
    :class:`RegisterError` where it may have."""
    directory = RunDirectory(run)
    link = RegisterLink.read(directory) if directory.root.is_dir() else None
    if link is None:
        _stays("its folder is not there, or has entered no register", run)
    with directory.lock(), register.locked(Path(link.register)) as file:
        check_latest(link, file, directory)
        found = file.register
        if found.given_up(link.run):
            raise RegisterError("this run is given up already", where=run)
        if link.run in found.begun or LedgerFile(directory.ledger).entries.attempts:
            _stays("it has begun to draw its noise, here or in a copy of this folder", run)
        if not (mine := found.of(link.run)):
            raise RegisterError(
                "this run has entered nothing yet", where=run, remedy="nothing to do"
            )
        for n in mine:
            head = file.append("void", {"line": n, "why": "nothing of it was drawn"})
        link.entered(directory, head)
        return head


def _stays(why: str, run: Path) -> NoReturn:
    raise RegisterError(
        f"stays spent: {why}",
        where=run,
        remedy="resume it where it is interrupted: what was measured is not measured again",
    )
