"""The ledger on disk: every measurement is written here before its noise is drawn.

``ledger.jsonl`` has one JSON object a line. The run only ever appends to it, and forces it to disk
(fsync) before the next step:

* ``begin``: a stage begins, which is one level of one universe. ``parts`` is its number of parts,
  and ``entropy`` the source of its noise. ``key`` is the name of the run key, if the noise follows
  from a key that can draw it again. ``anew`` says that earlier measurements of the stage do not
  stand.
* ``draw``: one for every draw of the stage. Noise of the stage is drawn only when all of these
  lines are on disk.
* ``part``: the part of a stage in one subtree (:mod:`das.model.measured_spine`) is measured, and its
  files are on disk, with these digests. ``stream`` tells draws apart: equal in a replay, different
  in any other (:mod:`das.noise.entropy`).
* ``parts``: a list of such parts that are measured together. A line is there whole or not at all,
  and so are the parts.
* ``done``, the last: every stage has all its parts.

So at any moment, whatever kills the process, the ledger has at least the draws that were made. A
stage that begins once is drawn once, however often its parts are measured; a stage that begins
again has been drawn again. A last line that was cut off is dropped: the step that it announced had
not begun."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from das.accounting.document import INTERVALS_LIST, NAME, PAGE, SIGNATURE
from das.errors import PrivacyError, ReleaseError
from das.files import atomic
from das.files.atomic import files_below
from das.files.run.run_directory import file_digest
from das.model.budget import ALL
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS

#: A level of a universe.
StageKey = tuple[str, str]

#: Folders of a level's measurements: drawn whole, or on demand.
_MEASURED = ("DPQuery", "Revealed")
#: The folder of intervals in a release.
INTERVALS = INTERVALS_LIST.partition("/")[0]


@dataclass(frozen=True)
class MeasuredPart:
    """What was measured of a stage for one subtree: ``files`` has the SHA-256 of each file, by its
    path in the release."""

    universe: str
    level: str
    subtree: int
    stream: str
    files: Mapping[str, str]

    def __post_init__(self) -> None:
        if type(self.subtree) is not int or self.subtree < 0 or not isinstance(self.stream, str):
            raise ValueError("a part of no subtree")
        if odd := [path for path, sha256 in self.files.items() if len(bytes.fromhex(sha256)) != 32]:
            raise ValueError(f"no digest of {odd[0]}")

    @property
    def stage(self) -> StageKey:
        return self.universe, self.level


@dataclass
class Attempt:
    """One time that a stage was drawn: of ``parts`` parts, by ``key`` if they can be drawn
    again."""

    universe: str
    level: str
    parts: int
    key: str | None = None
    anew: bool = False
    events: list[Event] = field(default_factory=list)
    measured: dict[int, MeasuredPart] = field(default_factory=dict)
    entropy: str = ""  #: the name of the source, once it is written down

    @property
    def stage(self) -> StageKey:
        return self.universe, self.level


@dataclass
class Entries:
    """All that a ledger tells: the attempts at stages, in the order in which they began, and
    whether it is closed."""

    attempts: list[Attempt] = field(default_factory=list)
    closed: bool = False

    def last(self) -> dict[StageKey, Attempt]:
        """For each stage, the attempt that its measurements come from."""
        return {a.stage: a for a in self.attempts}

    def lost(self) -> list[Attempt]:
        """Those that were drawn again, wholly or in part: spent."""
        last = self.last()
        return [a for a in self.attempts if a is not last[a.stage]]

    def number(self, stage: StageKey) -> int:
        """How often a stage has begun."""
        return sum(a.stage == stage for a in self.attempts)

    def standing(self, stage: StageKey) -> dict[int, MeasuredPart]:
        """The parts of a stage that are measured, by subtree, whichever attempt they are from."""
        out: dict[int, MeasuredPart] = {}
        for a in (a for a in self.attempts if a.stage == stage):
            out = (out if not a.anew else {}) | a.measured
        return out

    def whole(self, stage: StageKey) -> bool:
        last = self.last().get(stage)
        return last is not None and len(self.standing(stage)) == last.parts

    def files(self) -> dict[str, str]:
        """SHA-256 of every file of measurements, by its path in the release."""
        return {
            path: sha256
            for stage in self.last()
            for part in self.standing(stage).values()
            for path, sha256 in part.files.items()
        }


class LedgerFile:
    """One process writes to a ledger, through one of these."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def entries(self) -> Entries:
        """All that the file told when it was first asked, and what was written since. Raises
        :class:`ReleaseError` where it cannot be understood."""
        out = Entries()
        if not self.path.exists():
            return out
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
                PrivacyError,
            ) as error:
                raise ReleaseError(
                    f"line {number} cannot be understood ({error})",
                    where=self.path,
                    remedy="a ledger that was altered proves nothing: start a new run",
                ) from None
        return out

    def begin(self, attempt: Attempt, entropy: str) -> None:
        """A stage begins, with all its draws. Returns when they are on disk. ``entropy`` is the
        name of the source."""
        a = attempt
        said = {"universe": a.universe, "level": a.level, "parts": a.parts, "entropy": entropy}
        said |= ({} if a.key is None else {"key": a.key}) | ({"anew": True} if a.anew else {})
        self._append([{"begin": said}, *({"draw": to_json(e)} for e in a.events)])

    def draw(self, events: Sequence[Event]) -> None:
        """The rest of the draws of the stage that began last, where writing them down was
        interrupted."""
        self._append([{"draw": to_json(e)} for e in events])

    def acknowledge(self, parts: Iterable[MeasuredPart], *, together: bool = False) -> None:
        """These parts are measured. Returns when that is on disk; what they name must be already.
        What was acknowledged before is not written again. Of parts that are acknowledged
        ``together`` all are on disk, or none.

        Raises:
            PrivacyError: one was measured before with another result."""
        told = [
            {
                "universe": p.universe,
                "level": p.level,
                "shard": p.subtree,
                "stream": p.stream,
                "files": dict(p.files),
            }
            for p in parts
            if not _is_there(self.entries, p)
        ]
        self._append([{"parts": told}] if together and told else [{"part": p} for p in told])

    def close(self) -> None:
        """Nothing will be drawn any more."""
        self._append([{"done": {}}])

    def _append(self, values: Sequence[Mapping[str, Any]]) -> None:
        if not values:
            return
        entries, new = self.entries, not self.path.exists()
        with self.path.open("ab") as file:
            if not new:
                _drop_torn_line(self.path, file.fileno())
            file.write(b"".join(json.dumps(value).encode() + b"\n" for value in values))
            file.flush()
            os.fsync(file.fileno())
        if new:
            atomic.force(self.path.parent)
        for value in values:
            _apply(value, entries)


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


def _apply(entry: Mapping[str, Any], out: Entries) -> None:
    ((kind, value),) = entry.items()
    if out.closed:
        raise ValueError("an entry after the last")
    if kind == "begin":
        key, anew = value.get("key"), value.get("anew", False)
        if type(value["parts"]) is not int or value["parts"] < 0 or anew not in (True, False):
            raise ValueError("a stage of how many parts")
        out.attempts.append(
            Attempt(
                value["universe"],
                value["level"],
                value["parts"],
                key,
                anew,
                entropy=value["entropy"],
            )
        )
    elif kind == "draw":
        event, now = from_json(value), out.attempts[-1]
        if (event.universe, event.level) != now.stage or now.measured:
            raise ValueError("a draw outside its stage")
        now.events.append(event)
    elif kind in ("part", "parts"):
        for p in [value] if kind == "part" else value:
            part = MeasuredPart(
                p["universe"], p["level"], p["shard"], p["stream"], dict(p["files"])
            )
            _is_there(out, part)
            out.last()[part.stage].measured[part.subtree] = part
    elif kind == "done":
        out.closed = True
    else:
        raise ValueError(f"unknown entry {kind!r}")


def _is_there(entries: Entries, part: MeasuredPart) -> bool:
    """Whether a part of the last attempt at its stage has been measured before. Raises
    :class:`PrivacyError` where it has, and was another."""
    before = entries.last()[part.stage].measured.get(part.subtree)
    if before is not None and before != part:
        what = "has another stream" if before.stream != part.stream else "has other files"
        raise PrivacyError(
            f"{part.universe} at {part.level}, part {part.subtree}, was measured twice, and {what}"
            " the second time: it is not the draw that is in the ledger",
            where="ledger",
            remedy=(
                "publish nothing of this run: what measures is not the same everywhere (its"
                " version, its machine, the truth that it reads), or its noise cannot be drawn"
                " again"
            ),
        )
    return before is not None


def to_json(e: Event) -> dict[str, Any]:
    """The line of an event.

    The mechanism names the parameter and the cost. The class of units is there if a level has
    several. The number of units that a record can be in is there if it is more than one."""
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
        **({} if e.stability == 1 else {"stability": e.stability}),
    }


def from_json(value: dict[str, Any]) -> Event:
    mechanism = MECHANISMS[value["mechanism"]]
    parameter, cost = (Fraction(value[key]) for key in (mechanism.symbol, mechanism.currency))
    return Event(
        value["level"],
        value["query"],
        mechanism,
        parameter,
        cost,
        value["universe"],
        value["units"],
        value["answers"],
        unit_class=value.get("class", ALL),
        stability=value.get("stability", 1),
    )


def folder_digest(folder: Path, known: Mapping[str, str] | None = None) -> str:
    """SHA-256 over the names and contents of all files below a folder; those whose digest is
    ``known``, by their paths from there, are not read."""
    total = hashlib.sha256()
    for name in files_below(folder):
        total.update(name.encode() + b"\0")
        total.update(bytes.fromhex((known or {}).get(name) or file_digest(folder / name)))
    return total.hexdigest()


def measured_files(release: Path) -> dict[str, Path]:
    """Every file of measurements, by its path in the release."""
    names = (
        f"{folder}/{name}"
        for folder in _folders(release, _MEASURED)
        for name in files_below(release / folder)
    )
    return {name: release / name for name in names}


def refuse_lost(release: Path) -> None:
    """Raises :class:`ReleaseError` if a release has measurements and no ledger. A run that
    continued would draw them again, and nothing would count that."""
    path = release / "ledger.jsonl"
    if not path.exists() and measured_files(release):
        raise ReleaseError(
            "there are measurements, and no ledger of them",
            where=path,
            remedy="put it back; or start a new run in another folder, which spends its own budget",
        )


def measurements(release: Path) -> dict[str, str]:
    """The digest of every folder of measurements: two releases with the same are estimates of one
    noise."""
    return {name: folder_digest(release / name) for name in _folders(release, _MEASURED)}


def _folders(release: Path, kinds: Sequence[str]) -> list[str]:
    """Those of measurements, or of constraints, by their paths in the release."""
    found = (p for kind in kinds for p in release.glob(f"nmf*/*.parquet/{kind}"))
    return [p.relative_to(release).as_posix() for p in sorted(found)]


def digests(release: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """SHA-256 of everything in a release except its privacy statement.

    There is one digest for every folder of measurements and of constraints, and for every other
    file. ``intervals/`` is represented by its list, which has the digests of its other files. Files
    whose digest is ``known``, by their paths, are not read again."""
    folders, known = _folders(release, (*_MEASURED, "Constraint")), known or {}
    found = {}
    for folder in folders:
        told = {
            n.removeprefix(f"{folder}/"): x for n, x in known.items() if n.startswith(f"{folder}/")
        }
        found[folder] = folder_digest(release / folder, told)
    inside = (*(f"{folder}/" for folder in folders), f"{INTERVALS}/")
    for name in files_below(release):
        if name not in (NAME, PAGE, SIGNATURE) and (
            name == INTERVALS_LIST or not name.startswith(inside)
        ):
            found[name] = file_digest(release / name)
    return found
