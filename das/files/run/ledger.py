"""The ledger on disk: what was drawn, written before it is drawn.

``ledger.jsonl``, one JSON object a line, only ever appended to and forced to disk (fsync) before the next
step: ``begin`` a stage (one level of one universe), then every ``draw`` of it, *then* the noise is drawn and
its file written, then ``done`` with the digest of what was written. So at any moment, whatever kills the
process, the draws in the file are at least those that were made. A last line that was cut off is dropped:
the step that it announced had not begun.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from das.accounting.document import NAME, PAGE
from das.errors import ReleaseError
from das.files import atomic
from das.files.run.run_directory import file_digest, nmf_folder
from das.model.budget import ALL
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS


@dataclass
class Attempt:
    """One time that a stage was measured. ``digest`` is that of its files, ``None`` if it was interrupted."""

    universe: str
    level: str
    events: list[Event] = field(default_factory=list)
    digest: str | None = None


class LedgerFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._begins: dict[str, Any] | None = None

    def begin(self, universe: str, level: str, entropy: str) -> None:
        """A stage begins; it is written with its first draw, so that one which is refused before leaves nothing.
        ``entropy`` is the name of the source that the stage draws from."""
        self._begins = {"begin": {"universe": universe, "level": level, "entropy": entropy}}

    def draw(self, event: Event) -> None:
        """Record a draw. Returns when it is on disk."""
        self._begun()
        self._append({"draw": to_json(event)})

    def done(self, universe: str, level: str, digest: str) -> None:
        self._begun()
        self._append({"done": {"universe": universe, "level": level, "digest": digest}})

    def attempts(self) -> list[Attempt]:
        """All that the file tells, in order. Raises :class:`ReleaseError` where it cannot be understood."""
        if not self.path.exists():
            return []
        out: list[Attempt] = []
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], 1):  # what follows the last newline was cut off
            try:
                _apply(json.loads(line), out)
            except (
                ValueError,
                KeyError,
                TypeError,
                IndexError,
                AttributeError,
                ZeroDivisionError,
                RecursionError,
            ) as error:
                raise ReleaseError(f"line {number} cannot be understood ({error})", where=self.path,
                                   remedy="a ledger that was altered proves nothing: start a new run") from None  # fmt: skip
        return out

    def _begun(self) -> None:
        if self._begins is not None:
            self._append(self._begins)
            self._begins = None

    def _append(self, value: dict[str, Any]) -> None:
        new = not self.path.exists()
        with self.path.open("ab") as file:
            if not new:
                _drop_torn_line(self.path, file.fileno())
            file.write(json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            atomic.force(self.path.parent)


def _drop_torn_line(path: Path, descriptor: int) -> None:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        if not size:
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
    os.ftruncate(descriptor, whole)


def _apply(entry: dict[str, Any], out: list[Attempt]) -> None:
    ((kind, value),) = entry.items()
    if kind == "begin":
        out.append(Attempt(value["universe"], value["level"]))
    elif kind == "draw":
        event = from_json(value)
        if (event.universe, event.level) != (out[-1].universe, out[-1].level) or out[-1].digest is not None:
            raise ValueError("a draw outside its stage")
        out[-1].events.append(event)
    elif kind == "done":
        if (value["universe"], value["level"]) != (out[-1].universe, out[-1].level) or out[-1].digest is not None:
            raise ValueError("a stage that ends without having begun")
        out[-1].digest = value["digest"]
    else:
        raise ValueError(f"unknown entry {kind!r}")


def to_json(e: Event) -> dict[str, Any]:
    """What the line of an event says: the parameter and the cost under the names that the mechanism gives them, and the
    class of units where a level has several."""
    return {
        "universe": e.universe,
        "level": e.level,
        "query": e.query,
        "units": e.units,
        "answers": e.answers,
        "mechanism": e.mechanism.name,
        e.mechanism.symbol: str(e.parameter),
        e.mechanism.currency: str(e.cost),
        **({} if e.unit_class == ALL else {"class": e.unit_class}),
    }


def from_json(value: dict[str, Any]) -> Event:
    mechanism = MECHANISMS[value["mechanism"]]
    parameter, cost = (Fraction(value[key]) for key in (mechanism.symbol, mechanism.currency))
    return Event(
        value["level"], value["query"], mechanism, parameter, cost, value["universe"], value["units"], value["answers"],
        unit_class=value.get("class", ALL),
    )  # fmt: skip


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of all files below a folder."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        total.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def measurements(release: Path) -> dict[str, str]:
    """The digest of every folder of measurements: two releases with the same are estimates of one noise."""
    return {str(p.relative_to(release)): folder_digest(p) for p in sorted(release.glob("nmf*/*.parquet/DPQuery"))}


def digests(release: Path, attempts: Iterable[Attempt] = ()) -> dict[str, str]:
    """SHA-256 of all that a release holds beside its privacy statement: of every folder of measurements and of
    constraints, and of every other file. Measurements that are among ``attempts`` are not read again."""
    known = {
        nmf_folder(release, a.universe) / f"{a.level}.parquet" / "DPQuery": a.digest
        for a in attempts if a.digest is not None
    }  # fmt: skip
    folders = sorted(p for kind in ("DPQuery", "Constraint") for p in release.glob(f"nmf*/*.parquet/{kind}"))
    inside = set(folders)
    files = sorted(p for p in release.rglob("*") if p.is_file() and not inside & {*p.parents})
    stated = [p for p in files if p.parent != release or p.name not in (NAME, PAGE)]
    found = {p: known.get(p) or folder_digest(p) for p in folders} | {p: file_digest(p) for p in stated}
    return {str(p.relative_to(release)): sha256 for p, sha256 in found.items()}
