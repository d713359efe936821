"""What a run knows of the register that it is entered in: ``confidential/register.json``.

It is made with the folder of the run, so that no run can go on without its register. Once the run
has entered, it has the head that it saw: the run is a witness of the register."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from das.errors import ReleaseError
from das.files import atomic
from das.files.register import Head
from das.files.run.run_directory import RunDirectory, read_json


@dataclass(frozen=True)
class RegisterLink:
    """``register`` is the file and ``id`` its name, ``run`` the name of this run in it, and ``title``
    what it publishes. ``salt``, which is in no register, hides what names of draws are made of."""

    register: str
    id: str
    run: str
    title: str
    population: str
    salt: str
    disjoint_from: tuple[str, ...] = ()
    head: Head | None = None

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

    def entered(self, directory: RunDirectory, head: Head) -> None:
        """Written down that the register has this head."""
        replace(self, head=head).write(directory)
