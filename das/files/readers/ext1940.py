"""The 1940 Census extract EXT1940USCB of IPUMS USA, recoded as in the 2018 end-to-end test.

A hierarchical fixed-width ASCII file, plain or gzip: each household is one ``H`` line of 159
characters, then its ``NUMPREC`` persons, ``P`` lines of 273. ``H`` lines padded with blanks to 273,
and CRLF line ends, are accepted. The whole file is 42 GB and 171 million lines; it is read a chunk
of whole households at a time.

The recode, schema ``1940-e2e`` (8 x 2 x 2 x 6):

* ``hhgq`` from GQTYPE: 0 -> 0 (household); 2, 3, 4 -> 1, 2, 3; 6, 7, 8, 9 -> 4, 5, 6, 7. GQTYPE 1
  and 5 do not occur in 1940 and are refused;
* ``votingage`` = AGE >= 18; ``hispanic`` = HISPAN > 0 (so 9, not reported, counts as Hispanic);
  ``race`` = RACE - 1.

Places: ``State`` (STATEFIP), ``County`` (with the 4-digit COUNTY, 6 characters), ``Enumdist`` (with
the 4-digit ENUMDIST, 10 characters), the lowest level; and ``Supdist`` (county and SUPDIST, 9
characters), which is left out where some enumeration district has households in more than one
supervisor's district.

Large group quarters that IPUMS split up (SPLIT40) count as the units that they were split into, as
in the end-to-end test.

Sources: the record layout of EXT1940USCB (IPUMS USA, DOI 10.18128/D010.V8.0.EXT1940USCB); the
reader of the 2018 end-to-end test (github.com/uscensusbureau/census2020-das-e2e),
``e2e_1940_reader.py``."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.readers.source import Member, Stream, members, sources
from das.model.confidential import Confidential
from das.model.names import of_characters, state_names
from das.model.records import Blocks, Extract, Records
from das.model.redistricting import E2E_1940
from das.model.schema import Schema
from das.model.source import Source

Ints = NDArray[np.int64]

CHUNK = 1 << 26  #: bytes read at a time
MERGE = 1 << 22  #: distinct counts kept aside before they are merged
H_LENGTH, P_LENGTH = 159, 273
AGE_LIMIT = (
    120  #: the largest age in the file, by the reader of the 2010 demonstration data products
)

#: First column (from 1) and width of each field.
COLUMNS = {
    "SERIAL": (8, 8),
    "NUMPREC": (16, 2),
    "STATEFIP": (54, 2),
    "COUNTY": (56, 4),
    "GQ": (94, 1),
    "GQTYPE": (95, 1),
    "ENUMDIST": (125, 4),
    "SUPDIST": (129, 3),
    "AGE": (74, 3),
    "RACE": (85, 1),
    "HISPAN": (89, 1),
}
#: The hhgq level of each GQTYPE; -1 where there is none.
HHGQ = np.array([0, -1, 1, 2, 3, -1, 4, 5, 6, 7])
NOT_THE_FORMAT = "give the file EXT1940USCB.dat or EXT1940USCB.dat.gz as IPUMS delivers it"


def read(paths: Sequence[Path], schema: Schema, *, progress: Progress = SILENT) -> Extract:
    """Read one or more EXT1940USCB files (or folders of ``.dat`` and ``.dat.gz`` files); together
    they are the nation.

    ``structures`` of shape ``(enumeration districts, 8)`` counts housing units (vacant ones too) in
    column 0 and group quarters by type in the others. There is no housing-unit universe: ``units``
    is ``None``. HISTID is not read.

    Raises
    ------
    InputError : another schema; a file that is missing, damaged, of another format or given twice;
        and, with the line, a record of the wrong length, a field that is no number or outside its
        codes, a person outside its household, a household whose NUMPREC is not the number of its
        persons, a vacant unit with persons or a group-quarters type, an occupied one without."""
    if schema != E2E_1940:
        raise InputError(
            f"the 1940 extract is read into schema {E2E_1940.name!r}, not {schema.name!r}",
            where="schema.name",
            remedy=f'set schema.name = "{E2E_1940.name}"',
        )
    files = _files(paths)
    persons, homes, districts = _Tally(), _Tally(), _Tally()
    for member in files:
        line = 1
        size, done = _size(member), 0
        progress.stage(f"read {member.base}", size)
        with member.open() as stream:
            for text in _households(stream, member.name):
                batch = _Lines(np.frombuffer(text, dtype=np.uint8), member.name, line)
                _count(batch, persons, homes, districts)
                line += len(batch.start)
                before, done = done, done + len(text) if size is None else _position(stream)
                progress.advance(done - before)
        if line == 1:
            raise InputError("the file has no records", where=member.name, remedy=NOT_THE_FORMAT)
    used = sources(files)
    if len({s.sha256 for s in used}) < len(used):
        raise InputError(
            "two of the files are the same", where="data.path", remedy="give each file once"
        )
    return _extract(persons, homes, districts, used)


def _files(paths: Sequence[Path]) -> list[Member]:
    """The data files among ``paths``: a file as it is, a folder's (or zip's) ``.dat`` files."""
    found: list[Member] = []
    for path in map(Path, paths):
        inside = members(path)
        chosen = (
            inside if inside == [Member(path)] else [m for m in inside if m.base.endswith(".dat")]
        )
        if not chosen:
            raise InputError("holds no .dat or .dat.gz file", where=path, remedy=NOT_THE_FORMAT)
        found += chosen
    if not found:
        raise InputError("no input files", where="data.path", remedy=NOT_THE_FORMAT)
    if len({(m.path.resolve(), m.inner) for m in found}) < len(found):
        raise InputError("a file is given twice", where="data.path", remedy="give each file once")
    return found


def _size(member: Member) -> int | None:
    """Bytes of the file; ``None`` in a zip, whose entries do not say how far they are read."""
    return None if member.inner is not None else member.path.stat().st_size


def _position(stream: Stream) -> int:
    """Bytes of the file read so far: compressed ones in a gzip file."""
    raw: Any = stream.fileobj if isinstance(stream, gzip.GzipFile) and stream.fileobj else stream
    return int(raw.tell())


def _households(stream: Stream, name: str) -> Iterator[bytes]:
    """The text in pieces of about ``CHUNK`` bytes, each ending where an ``H`` line, or the file,
    does not go on.

    At most one household is carried from piece to piece (99 persons, 27 KB). Anything longer is not
    a household; it is passed on unchanged, to be refused."""
    kept = b""
    for chunk in iter(lambda: stream.read(CHUNK), b""):
        text = kept + chunk
        cut = text.rfind(b"\nH") + 1
        if not cut and len(text) > (1 << 20):
            cut = text.rfind(b"\n") + 1
            if not cut:
                raise InputError("there are no line ends", where=name, remedy=NOT_THE_FORMAT)
        if cut:
            yield text[:cut]
        kept = text[cut:]
    if kept:
        yield kept


@dataclass(frozen=True, eq=False)
class _Lines:
    """Lines as bytes; ``first`` is the number of the first of them in the file ``name``, from 1."""

    text: NDArray[np.uint8]
    name: str
    first: int

    @cached_property
    def _ends(self) -> Ints:
        ends = np.flatnonzero(self.text == ord("\n"))
        return (
            ends
            if len(ends) and ends[-1] == len(self.text) - 1
            else np.append(ends, len(self.text))
        )

    @cached_property
    def start(self) -> Ints:
        """The offset of each line."""
        return np.concatenate([[0], self._ends[:-1] + 1])

    @cached_property
    def length(self) -> Ints:
        """Characters in each line, without its end."""
        return (
            self._ends
            - self.start
            - ((self.text[self._ends - 1] == ord("\r")) & (self._ends > self.start))
        )

    def characters(self, lines: Ints, column: int, width: int) -> NDArray[np.uint8]:
        """Columns ``column`` to ``column + width - 1`` (from 1), shape ``(lines, width)``."""
        return sliding_window_view(self.text, width)[self.start[lines] + column - 1]

    def number(self, lines: Ints, field: str) -> Ints:
        """A whole number, padded on the left with zeros or blanks."""
        text = self.characters(lines, *COLUMNS[field])
        digit = text - np.uint8(ord("0"))
        sound = digit <= 9
        if not sound.all():
            blank = np.logical_and.accumulate(text == ord(" "), axis=1)
            blank[:, -1] = False
            digit[blank] = 0
            self.check(np.asarray((sound | blank).all(axis=1)), lines, f"{field} is not a number")
        value = np.zeros(len(lines), dtype=np.int64)
        for column in digit.T:
            value = value * 10 + column
        return value

    def check(
        self, good: NDArray[np.bool_], lines: Ints, what: str, remedy: str | None = None
    ) -> None:
        """Refuse the file at the first of ``lines`` that is not ``good``. The message names the
        line and ``what`` is wrong with it. It quotes no value: a log is no place for records."""
        if not good.all():
            where = f"{self.name}, line {self.first + int(lines[np.argmin(good)])}"
            raise InputError(
                what, where=where, remedy=remedy or "the file is damaged or altered: fetch it again"
            )


class _Tally:
    """How often each code occurred; codes are non-negative integers."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints]] = []

    def add(self, codes: Ints) -> None:
        code, count = np.unique(codes, return_counts=True)
        self._parts.append((code, count.astype(np.int64)))
        if len(self._parts) > 1 and sum(len(c) for c, _ in self._parts[1:]) > MERGE:
            self._parts = [self.result()]

    def result(self) -> tuple[Ints, Ints]:
        """Distinct codes, increasing, and their counts."""
        codes = np.concatenate([np.zeros(0, dtype=np.int64), *(c for c, _ in self._parts)])
        counts = np.concatenate([np.zeros(0, dtype=np.int64), *(n for _, n in self._parts)])
        code, which = np.unique(codes, return_inverse=True)
        total = np.zeros(len(code), dtype=np.int64)
        np.add.at(total, which, counts)
        return code, total


def _count(lines: _Lines, persons: _Tally, homes: _Tally, districts: _Tally) -> None:
    """Check the records, recode them, and add them to the tallies: enumeration district x cell
    (persons), x hhgq (homes) and x supervisor's district."""
    h, p, owner = _records(lines)
    district, hhgq = _homes(lines, h, np.bincount(owner, minlength=len(h)))
    homes.add(district * 8 + hhgq)
    districts.add(district * 1000 + lines.number(h, "SUPDIST"))
    age, race, hispan = (lines.number(p, f) for f in ("AGE", "RACE", "HISPAN"))
    lines.check(age <= AGE_LIMIT, p, f"AGE is more than {AGE_LIMIT}")
    lines.check((race >= 1) & (race <= 6), p, "RACE is not 1 to 6")
    lines.check((hispan <= 4) | (hispan == 9), p, "HISPAN is not 0 to 4 or 9")
    cell = ((hhgq[owner] * 2 + (age >= 18)) * 2 + (hispan > 0)) * 6 + race - 1
    persons.add(district[owner] * E2E_1940.cells + cell)


def _records(lines: _Lines) -> tuple[Ints, Ints, Ints]:
    """The lines with H records, those with P records, and the number of the household of each
    person."""
    everything = np.arange(len(lines.start))
    lines.check(lines.length > 0, everything, "an empty line", NOT_THE_FORMAT)
    kind = lines.text[lines.start]
    is_h = kind == ord("H")
    lines.check(
        is_h | (kind == ord("P")),
        everything,
        "the line begins with neither H nor P",
        NOT_THE_FORMAT,
    )
    allowed = (lines.length == P_LENGTH) | (is_h & (lines.length == H_LENGTH))
    for type_, expected in (("H", f"{H_LENGTH} (or {P_LENGTH})"), ("P", str(P_LENGTH))):
        wrong = (
            f"a record of type {type_} does not have the {expected} characters that are expected"
        )
        lines.check(allowed | (kind != ord(type_)), everything, wrong, NOT_THE_FORMAT)
    h, p = np.flatnonzero(is_h), np.flatnonzero(~is_h)
    padded = h[lines.length[h] == P_LENGTH]
    if len(padded):
        tail = lines.characters(padded, H_LENGTH + 1, P_LENGTH - H_LENGTH)
        lines.check(
            (tail == ord(" ")).all(axis=1),
            padded,
            f"an H record that goes on after column {H_LENGTH}",
        )
    lines.check(is_h[:1], everything[:1], "a person before the first household", NOT_THE_FORMAT)
    owner = np.searchsorted(h, p) - 1
    serial = [
        np.ascontiguousarray(lines.characters(of, *COLUMNS["SERIAL"])).view(np.uint64)[:, 0]
        for of in (h, p)
    ]
    lines.check(serial[1] == serial[0][owner], p, "SERIAL is not that of the household above")
    return h, p, owner


def _homes(lines: _Lines, h: Ints, present: Ints) -> tuple[Ints, Ints]:
    """The enumeration district of each household (10 digits) and its hhgq level; ``present``:
    persons that follow."""
    said = lines.number(h, "NUMPREC")
    lines.check(said == present, h, "NUMPREC is not the number of person records that follow")
    gq, kind = lines.number(h, "GQ"), lines.number(h, "GQTYPE")
    hhgq = HHGQ[kind]
    lines.check(gq <= 6, h, "GQ is not 0 to 6")
    lines.check(hhgq >= 0, h, "GQTYPE does not occur in 1940 and has no level in the schema")
    lines.check((gq > 0) | (present == 0), h, "a vacant unit (GQ 0) with persons")
    lines.check((gq > 0) | (hhgq == 0), h, "a vacant unit (GQ 0) that is group quarters")
    lines.check(
        (gq == 0) | (present > 0), h, "group quarters, or an occupied housing unit, without persons"
    )
    state, county, number = (lines.number(h, f) for f in ("STATEFIP", "COUNTY", "ENUMDIST"))
    return (state * 10**4 + county) * 10**4 + number, hhgq


def _extract(
    persons: _Tally, homes: _Tally, districts: _Tally, used: tuple[Source, ...]
) -> Extract:
    home, number = homes.result()
    district = np.unique(home // 8)
    structures = np.zeros((len(district), 8), dtype=np.int64)
    structures[np.searchsorted(district, home // 8), home % 8] = number
    code = _digits(district, 10)
    fields = {"State": code[:, :2], "County": code[:, :6], "Enumdist": code}
    above = districts.result()[0]
    if len(above) == len(district):
        fields["Supdist"] = np.concatenate([code[:, :6], _digits(above % 1000, 3)], axis=1)
    person, count = persons.result()
    block = np.searchsorted(district, person // E2E_1940.cells)
    return Extract(
        Blocks(
            {name: of_characters(rows) for name, rows in fields.items()}, structures, state_names()
        ),
        Confidential(Records(E2E_1940, block, person % E2E_1940.cells, count)),
        {},
        used,
    )


def _digits(values: Ints, width: int) -> NDArray[np.uint8]:
    """The decimal digits of each value as characters, ``(n, width)``."""
    return (ord("0") + values[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10).astype(np.uint8)
