"""Persons of privacy-protected microdata files (PPMF, MDF), counted: one line per person, comma- or
pipe-separated, named columns.

All releases of the persons' file are read by the names of their columns, whatever their order:

==============  ======================================  ====================================
quantity        columns                                 codes
==============  ======================================  ====================================
place           TABBLKST, TABBLKCOU, TABTRACT[CE],      numbers; leading zeros may be lost
                TABBLKGRP[CE], TABBLK
dwelling        GQTYPE_PL, else GQTYPE                  0 to 7, or 0 and three digits (101,
                                                        ..., 904), whose first digit is the
                                                        type
voting age      VOTING_AGE                              1 under 18, 2 18 and over
                VOTINGAGE                               **0** under 18, **1** 18 and over
                QAGE                                    years
Hispanic        CENHISP                                 1 no, 2 yes
race            CENRACE                                 01 to 63
==============  ======================================  ====================================

RTYPE (3 housing unit, 5 group quarters), where present, must agree with the dwelling. Lines that
begin with ``#`` before the names are metadata. Records are counted batch by batch, so the file can
be larger than memory. Memory grows with the number of distinct pairs of a block and a cell of
:data:`das.model.redistricting.PL94`.

Someone who uses such a file as the truth reads it with :mod:`das.files.readers.ppmf`. Published
microdata are no secret, so this module counts them without that protection. Sources: 2010
Demonstration Data Products file specifications, 2019 to 2023."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.readers import pl94_common
from das.files.readers.source import DelimitedFormat, Member, batches, members
from das.model.names import Codes, of_characters
from das.model.redistricting import PL94

ColumnArrays = Mapping[str, NDArray[np.int64]]

#: Names of each quantity, the preferred one first.
NAMES = {
    "state": ("TABBLKST",),
    "county": ("TABBLKCOU",),
    "tract": ("TABTRACTCE", "TABTRACT"),
    "group": ("TABBLKGRPCE", "TABBLKGRP"),
    "block": ("TABBLK",),
    "dwelling": ("GQTYPE_PL", "GQTYPE"),
    "age": ("VOTING_AGE", "VOTINGAGE", "QAGE"),
    "hispanic": ("CENHISP",),
    "race": ("CENRACE",),
}
#: Lowest and highest code by column.
RANGES = {
    "TABBLKST": (1, 99),
    "TABBLKCOU": (0, 999),
    "TABTRACTCE": (0, 999_999),
    "TABTRACT": (0, 999_999),
    "TABBLKGRPCE": (0, 9),
    "TABBLKGRP": (0, 9),
    "TABBLK": (0, 9999),
    "GQTYPE_PL": (0, 7),
    "GQTYPE": (0, 999),
    "VOTING_AGE": (1, 2),
    "VOTINGAGE": (0, 1),
    "QAGE": (0, 130),
    "CENHISP": (1, 2),
    "CENRACE": (1, 63),
    "RTYPE": (3, 5),
}
#: Columns that the file of housing units has, and that of persons has not.
UNITS = frozenset({"HH_STATUS", "TEN", "VACS", "OCCUPIED_COUNT"})


class BlockCounts(NamedTuple):
    """``number[i]`` persons of cell ``cell[i]`` of ``PL94`` live in ``place[block[i]]``; in order
    of block and cell. Places are blocks with somebody in them, numbers of 15 digits that
    increase."""

    place: NDArray[np.int64]
    block: NDArray[np.int64]
    cell: NDArray[np.int64]
    number: NDArray[np.int64]


def tables(path: Path) -> list[Member]:
    """The files of ``path`` that can contain persons, in order: files of text, and a file that is
    named itself."""
    return [m for m in members(path) if _is_table(m, path)]


def count(files: Sequence[Member], *, progress: Progress = SILENT) -> BlockCounts:
    """The persons of all ``files`` together. Raises :class:`InputError` where there is none, or a
    line is none of such a file."""
    if not files:
        raise InputError(
            "no input files",
            where="data.path",
            remedy="name at least one persons' file (.csv, .txt, .gz)",
        )
    tally = KeyCounts()
    for member in files:
        progress.stage(f"read {member.base}", None)
        for key in _keys(member):
            tally.add(key)
            progress.advance(len(key))
    keys, number = tally.result()
    if not len(keys):
        raise InputError("has no persons", where=files[0].name)
    place, cell = np.divmod(keys, PL94.cells)
    first = _starts(place)
    block = np.repeat(np.arange(len(first)), np.diff(first, append=len(place)))
    return BlockCounts(place[first], block, cell, number)


class KeyCounts:
    """Counts of int64 keys that come in batches; memory grows with the number of distinct keys.

    Batches wait until they hold as many keys as are merged already, and ``limit`` at least."""

    def __init__(self, limit: int = 1 << 23) -> None:
        self._limit = limit
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._waiting, self._merged = 0, 0

    def add(self, keys: NDArray[np.int64]) -> None:
        if not len(keys):
            return
        self._parts.append(np.unique(keys, return_counts=True))
        self._waiting += len(self._parts[-1][0])
        if self._waiting > max(self._merged, self._limit):
            self.result()

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct keys in order, and the count of each."""
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        keys = np.concatenate([k for k, _ in self._parts])
        count = np.concatenate([c for _, c in self._parts])
        self._parts.clear()
        order = np.argsort(
            keys, kind="stable"
        )  # runs that are sorted already are merged, not sorted again
        keys, count = keys[order], count[order]
        first = _starts(keys)
        self._parts = [(keys[first], np.add.reduceat(count, first))]
        self._waiting, self._merged = 0, len(first)
        return self._parts[0]


def _starts(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each run of equal values begins; ``values`` are not empty."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def _is_table(member: Member, path: Path) -> bool:
    return Path(member.base).suffix in (".csv", ".txt", ".psv") or (
        path.is_file() and member.inner is None
    )


def header(member: Member) -> PpmfHeader:
    """The first line that is not metadata."""
    with member.open() as stream:
        for line, raw in enumerate(iter(lambda: stream.readline(1 << 16), b""), start=1):
            if raw.startswith(b"#"):
                continue
            text = raw.decode("utf-8-sig", errors="replace").strip()
            delimiter = "|" if "|" in text else ","
            names = tuple(n.strip().strip('"').upper() for n in text.split(delimiter))
            return PpmfHeader(member, names, delimiter, line)
    raise InputError("has no line with the names of its columns", where=member.name)


class PpmfHeader(NamedTuple):
    """Names of the columns, the delimiter, and the number of the line that says so."""

    member: Member
    names: tuple[str, ...]
    delimiter: str
    line: int

    @property
    def of_units(self) -> bool:
        """Whether it belongs to the file of housing units."""
        return not UNITS.isdisjoint(self.names)

    def columns(self) -> dict[str, str]:
        """The column of each quantity. Raises :class:`InputError` where one is missing, or two have
        one name."""
        where = f"{self.member.name}, line {self.line}"
        if len(set(self.names)) != len(self.names):
            raise InputError("two columns have the same name", where=where)
        column = {}
        for quantity, candidates in NAMES.items():
            if not (present := [c for c in candidates if c in self.names]):
                raise InputError(
                    f"has no column {' or '.join(candidates)}, but {', '.join(self.names[:30])}",
                    where=where,
                    remedy=(
                        "give a persons' file of a privacy-protected release (not the housing"
                        " units' file)"
                    ),
                )
            column[quantity] = present[0]
        return column


def _keys(member: Member) -> Iterator[NDArray[np.int64]]:
    """Batches of keys: block (15 digits: the block group is the block's first) x cell of
    ``PL94``."""
    head = header(member)
    column, line = head.columns(), head.line
    wanted = {*column.values(), *(["RTYPE"] if "RTYPE" in head.names else [])}
    kinds = {n: pa.int32() if n in wanted else None for n in head.names}
    for batch in batches(
        member, DelimitedFormat(head.delimiter, kinds, skip=line, quotes=True), 1 << 25
    ):
        values = {n: batch.column(n).to_numpy().astype(np.int64) for n in wanted}
        for name in wanted:
            low, high = RANGES[name]
            _check(values[name], (values[name] >= low) & (values[name] <= high), name, member, line)
        yield _encode(values, column, member, line)
        line += len(batch)


def _check(
    values: NDArray[np.int64], good: NDArray[np.bool_], name: str, member: Member, line: int
) -> None:
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise InputError(
            f"{name} is {values[bad]}, which is no code of this column, or contradicts the others"
            " of its line",
            where=f"{member.name}, line {line + bad + 1}",
            remedy=(
                "VOTING_AGE is 1 or 2, VOTINGAGE 0 or 1; CENHISP 1 or 2; CENRACE 1 to 63; RTYPE 3"
                " with GQTYPE 0, 5 with another; TABBLK begins with its block group"
            ),
        )


def _encode(
    values: ColumnArrays, column: Mapping[str, str], member: Member, line: int
) -> NDArray[np.int64]:
    place = {q: values[column[q]] for q in ("state", "county", "tract", "group", "block")}
    _check(place["block"], place["block"] // 1000 == place["group"], "TABBLK", member, line)
    raw = values[column["dwelling"]]
    _check(raw, (raw <= 7) | (raw >= 101), column["dwelling"], member, line)
    dwelling = np.minimum(
        np.where(raw > 7, raw // 100, raw), 7
    )  # 8xx and 9xx are other noninstitutional
    if "RTYPE" in values:
        rtype = values["RTYPE"]
        _check(rtype, rtype == np.where(dwelling == 0, 3, 5), "RTYPE", member, line)
    adult = values[column["age"]] >= {"VOTING_AGE": 2, "VOTINGAGE": 1, "QAGE": 18}[column["age"]]
    cell = ((dwelling * 2 + adult) * 2 + values["CENHISP"] - 1) * 63 + values["CENRACE"] - 1
    block = (
        (place["state"] * 1000 + place["county"]) * 1_000_000 + place["tract"]
    ) * 10_000 + place["block"]
    return block * PL94.cells + cell


def fields(places: NDArray[np.int64]) -> dict[str, Codes]:
    """Geographic fields of blocks given as numbers of 15 digits."""
    digits = (places[:, None] // 10 ** np.arange(14, -1, -1) % 10 + ord("0")).astype(np.uint8)
    digits = np.insert(digits, 11, digits[:, 11], axis=1)
    fields = {
        level.field: of_characters(digits[:, : level.width])
        for level in pl94_common.LEVELS.values()
    }
    return fields | {"Tract_Group": of_characters(digits[:, :9])}


# A folder of published microdata and its replicates: which file is which.
#
# Approximate Monte Carlo comes as a release, number 0, and its replicates, 1 to N: files, or folders
# of files, side by side. Their names are alike except for a number in them. **The number of each is
# the last one in its name that differs between names**:
#
# =============================================  ==========================
# ``PPMF20_0_PER.csv.gz``, ``PPMF20_1_PER...``   0, 1: 20 is in every name
# ``ppmf0.csv``, ``ppmf1.zip``                   0, 1: endings do not count
# ``2010-dhc-replicate-00/``, ``...-01/``        0, 1
# =============================================  ==========================
#
# Files of housing units are ignored, as are names that begin with ``.`` or ``_``, files that are not
# text, and folders without text files.

Series = Mapping[str, Sequence[Member]]  #: by name of the entry
_ENDINGS = (".csv", ".txt", ".psv", ".gz", ".zip")
_EXPECTED = (
    "0 is the published microdata, 1, 2, ... are its replicates: names of files or folders must"
    " differ only in that number (ppmf0.csv, ppmf1.csv, ...), in a folder of their own"
)


def replicate_files(folder: Path, most: int | None = None) -> tuple[tuple[Member, ...], ...]:
    """The persons' files of the release and of its replicates, of all or of the first ``most``, by
    number. The columns of each are there.

    Raises:
        InputError: no such folder; names that are not alike; a number that is missing, or there
            twice; another file; fewer replicates than ``most``."""
    if not folder.is_dir():
        raise InputError("no such folder", where=folder, remedy=_EXPECTED)
    alike: dict[tuple[str, ...], dict[str, list[Member]]] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or not (
            path.is_dir() or path.suffix.lower() in _ENDINGS
        ):
            continue
        files = [m for m in tables(path) if _is_of_persons(m)]
        if files:
            alike.setdefault(tuple(re.split(r"\d+", _stem(path.name))), {})[path.name] = files
    if len(alike) != 1:
        firsts = [next(iter(series)) for series in alike.values()]
        what = (
            f"names that are not alike: {', '.join(firsts[:4])}"
            if firsts
            else "no persons' file of microdata"
        )
        raise InputError(f"has {what}", where=folder, remedy=_EXPECTED)
    every = _in_order(folder, next(iter(alike.values())))
    if most is not None and most >= len(every):
        raise InputError(
            f"has {len(every) - 1} replicates, not {most}",
            where=folder,
            remedy="ask for fewer, or for all",
        )
    return every if most is None else every[: most + 1]


def _in_order(folder: Path, series: Series) -> tuple[tuple[Member, ...], ...]:
    """Those of a series, by their numbers."""
    numbers = {name: [int(n) for n in re.findall(r"\d+", _stem(name))] for name in series}
    differ = [i for i, of in enumerate(zip(*numbers.values(), strict=True)) if len(set(of)) > 1]
    if not differ:
        raise InputError(
            f"has nothing that differs by a number: {', '.join(list(series)[:4])}",
            where=folder,
            remedy=_EXPECTED,
        )
    names: dict[int, str] = {}
    for name, found in numbers.items():
        if (other := names.setdefault(found[differ[-1]], name)) != name:
            raise InputError(
                f"{other} and {name} are both number {found[differ[-1]]}",
                where=folder,
                remedy=_EXPECTED,
            )
    lost = next((n for n in range(max(names)) if n not in names), None)
    if lost is not None or len(names) < 3:
        what = "which is one replicate alone" if lost is None else f"but no number {lost}"
        raise InputError(
            f"has numbers {_spans(sorted(names))} ({names[min(names)]}, ...), {what}",
            where=folder,
            remedy=_EXPECTED,
        )
    return tuple(tuple(series[names[n]]) for n in sorted(names))


def _is_of_persons(member: Member) -> bool:
    """Whether a file contains persons, not housing units. Raises :class:`InputError` if it is
    neither."""
    head = header(member)
    return not head.of_units and bool(head.columns())


def _stem(name: str) -> str:
    """A name without its endings, in small letters."""
    stem = name.lower()
    while stem.endswith(_ENDINGS):
        stem = stem.rpartition(".")[0]
    return stem


def _spans(numbers: Sequence[int]) -> str:
    """
    >>> _spans([0, 1, 2, 5])
    '0 to 2, 5'"""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and spans[-1][1] == n - 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in spans)
