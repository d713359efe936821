"""Faults of input files, collected so that a user sees all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from das.errors import LONGEST, InputError, UserError, bounded

#: Faults that a message lists, and characters of each, before it says how many more there are.
SHOWN, WIDEST = 20, 240
_REST = len("\n  and 1,000,000,000 more")


@dataclass(frozen=True)
class InputFault:
    """What is wrong in a line of a file, or in all of it.

    >>> print(InputFault("GRF-C.txt", 7, "TABBLK is '1'"))
    GRF-C.txt:7: TABBLK is '1'
    """

    file: str
    line: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


@dataclass(frozen=True)
class Faults:
    """A list that is added to while files are read, and raised at the end."""

    found: list[InputFault] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.found)

    def add(self, file: str, line: int | None, what: str) -> None:
        self.found.append(InputFault(file, line, what))

    def refuse(self, where: Path, remedy: str, kind: type[UserError] = InputError) -> None:
        """Raises an error of that kind, if there is a fault, with those that its message has room
        for.
        """
        if not self.found:
            return
        text = f"{len(self.found):,} fault{'s' if len(self.found) > 1 else ''}:"
        for number, fault in enumerate(self.found):
            line = "\n  " + bounded(str(fault), WIDEST)
            if number == SHOWN or len(text) + len(line) + _REST > LONGEST["what"]:
                text += f"\n  and {len(self.found) - number:,} more"
                break
            text += line
        raise kind(text, where=where, remedy=remedy)
