"""Small delimited texts, line by line: UTF-8, ``|`` between fields, names in the first line.

Ends of lines may be those of any system; a mark of the encoding at the beginning, blank lines and
blanks at the end of a field mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from das.errors import LONGEST, InputError, UserError, bounded

# Faults of input files, collected so that a user sees all of them at once.

#: Faults that a message lists, and characters of each, before it says how many more there are.
SHOWN, WIDEST = 20, 240
_REST = len("\n  and 1,000,000,000 more")


@dataclass(frozen=True)
class InputFault:
    """What is wrong in a line of a file, or in all of it.

    >>> print(InputFault("GRF-C.txt", 7, "TABBLK is '1'"))
    GRF-C.txt:7: TABBLK is '1'"""

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
        for."""
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


DELIMITER = "|"


@dataclass(frozen=True)
class Pattern:
    """What a field looks like, and how a person says it."""

    form: re.Pattern[str]
    says: str


def pattern(form: str, says: str) -> Pattern:
    return Pattern(re.compile(form), says)


@dataclass(frozen=True)
class TextRow:
    """A line with as many fields as it should have; ``sound`` if each looks as it should."""

    line: int
    fields: tuple[str, ...]
    sound: bool


def rows(path: Path, columns: Mapping[str, Pattern], faults: Faults) -> list[TextRow] | None:
    """The lines of a table with these columns, in this order; ``None`` if its lines cannot be
    interpreted."""
    if (lines := _lines(path, faults)) is None:
        return None
    names = [n.strip() for n in lines[0].split(DELIMITER)]
    if wrong := list(misnamed(names, list(columns))):
        for what in wrong:
            faults.add(path.name, 1, what)
        return None
    out = []
    for number, line in enumerate(lines[1:], start=2):
        fields = tuple(f.rstrip() for f in line.split(DELIMITER))
        if not line.strip():
            continue
        if len(fields) != len(columns):
            faults.add(
                path.name, number, f"has {len(fields)} fields, where {len(columns)} are expected"
            )
            continue
        odd = [
            (n, f, p.says)
            for (n, p), f in zip(columns.items(), fields, strict=True)
            if not p.form.fullmatch(f)
        ]
        for name, value, says in odd:
            faults.add(path.name, number, f"{name} is {value!r}, not {says}")
        out.append(TextRow(number, fields, not odd))
    if not out:
        faults.add(path.name, None, "has no lines but the first")
    return out


def misnamed(
    names: Sequence[str], expected: Sequence[str], *, others: bool = False
) -> Iterator[str]:
    """What is wrong with the names of columns. ``others`` may be among them, in any order."""
    if lost := [n for n in expected if n not in names]:
        yield f"has no column {', '.join(lost)}"
    if twice := [n for n in expected if list(names).count(n) > 1]:
        yield f"has more than one column {', '.join(twice)}"
    if not others and (odd := [n for n in names if n not in expected]):
        yield f"has a column that is not expected: {', '.join(map(repr, odd))}"
    elif not others and not lost and not twice and list(names) != list(expected):
        yield f"has its columns in another order: they are expected as {DELIMITER.join(expected)}"


def text(path: Path, faults: Faults) -> str | None:
    """All of a file; ``None`` where it is not there, or no UTF-8."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OSError("it is no file")
        raw = path.read_bytes()
    except OSError as error:
        faults.add(path.name, None, f"is not there, or cannot be read ({error.strerror or error})")
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        faults.add(
            path.name, raw.count(b"\n", 0, error.start) + 1, f"is not UTF-8 ({error.reason})"
        )
        return None


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys differ: of two values for one key, a reader might see the other."""
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {key!r} is there twice")
        out[key] = value
    return out


def _lines(path: Path, faults: Faults) -> list[str] | None:
    if (whole := text(path, faults)) is None:
        return None
    if not whole.strip():
        faults.add(path.name, None, "is empty")
        return None
    return whole.replace("\r\n", "\n").replace("\r", "\n").split("\n")
