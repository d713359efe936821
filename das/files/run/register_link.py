"""What a run knows of the register that it is entered in: ``confidential/register.json``.

It is made with the folder of the run, so that no run can go on without its register. Once the run
has entered, it has the head that it saw: the run is a witness of the register. ``listing`` is the
digest of the names of all files that the folder had at that time. As long as the folder has the
same, besides its ledger and its key, nothing that was measured has ever been written there."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Any

from das.errors import ReleaseError
from das.files import atomic
from das.files.register import Head
from das.files.run.run_directory import RunDirectory, read_json


@dataclass(frozen=True)
class RegisterLink:
    """``register`` is the file and ``id`` its name, ``run`` the name of this run in it, and ``title``
    what it publishes. ``giving_up``: the key of the run is deleted, or about to be, and nothing may
    be measured any more."""

    register: str
    id: str
    run: str
    title: str
    population: str
    disjoint_from: tuple[str, ...] = ()
    head: Head | None = None
    listing: str = ""
    giving_up: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def read(directory: RunDirectory) -> RegisterLink | None:
        """None where a run has no register."""
        path = directory.register_link
        if not path.exists():
            return None
        value = read_json(path)
        try:
            head = value.pop("head")
            return RegisterLink(
                **value | {"disjoint_from": tuple(value["disjoint_from"])},
                head=None if head is None else Head(**head),
            )
        except (KeyError, TypeError, AttributeError):
            raise ReleaseError(
                "this does not say in which register the run is",
                where=path,
                remedy="put it back as it was; or start a new run",
            ) from None

    def write(self, directory: RunDirectory) -> None:
        atomic.write_json(directory.register_link, self.to_json(), 0o600)

    def entered(self, directory: RunDirectory, head: Head, *, new: bool) -> RegisterLink:
        """Written down that the run has entered; its first ``listing`` stays. Of a run that is not
        ``new``, whose ledger has lines, nobody knows what was written before: it has none."""
        listing = self.listing or (names_digest(directory) if new else "unknown")
        out = replace(self, head=head, listing=listing)
        out.write(directory)
        return out


def names_digest(directory: RunDirectory) -> str:
    """SHA-256 of the names of the files in the folder of a run, besides what is written before
    anything is measured."""
    passing = {directory.ledger, directory.noise_key, directory.register_link}
    found = (p for p in directory.root.rglob("*") if not p.is_dir() and p not in passing)
    names = sorted(str(p.relative_to(directory.root)) for p in found)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
