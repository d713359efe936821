"""Confidential records of persons or of households, a state or a nation: ``person-records.txt``, or
several such files.

They are read in pieces of bounded size. From each record only what the Detailed DHC needs is kept:
23 bytes for a person. A record in a state that is in no run is ignored; a record in a block that
the geography does not have is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.delimited import Faults
from das.files.readers.source import source_of
from das.model.confidential import Confidential
from das.model.names import Codes
from das.publications.detailed.files import geography
from das.publications.detailed.files.columns import (
    Field,
    LinesRead,
    Reading,
    choice,
    decimal,
    digits,
    whole,
)
from das.publications.detailed.model.iterations import MOST_CODES, NO_CODE, RACE_CODES, Regions
from das.publications.detailed.model.records import GroupRecords
from das.publications.detailed.model.tables import (
    AGES,
    HOUSEHOLD_TYPE,
    OLDEST,
    SEX_BY_AGE,
    TENURE,
    Parameters,
    Product,
)

RACES = tuple(f"QRACE{i}" for i in range(1, RACE_CODES + 1))
NULL = b"Null"
_NULL = np.frombuffer(NULL, np.uint32)[0]  # as four characters are compared at once
FIRST_CODE = MOST_CODES // 10
TYPES, TENURES = ("1", "2", "3", "4", "5"), ("1", "2", "3", "4")
REMEDY = "fix these records, and read the folder again"

#: The place of each age among those of the finest table.
_AGE = (np.searchsorted(AGES[-1], np.arange(OLDEST + 1), side="right") - 1).astype(np.int8)
#: By table, the leaf of each record.
_LEAVES: Mapping[str, Callable[[LinesRead], NDArray[np.int8]]] = {
    SEX_BY_AGE.name: (
        lambda lines: (lines.values["QSEX"] * len(AGES[-1]) + _AGE[lines.values["QAGE"]]).astype(
            np.int8
        )
    ),
    HOUSEHOLD_TYPE.name: lambda lines: lines.values["HOUSEHOLD_TYPE"].astype(np.int8),
    TENURE.name: lambda lines: lines.values["TEN"].astype(np.int8),
}


def batches(
    path: Path, parameters: Parameters, regions: Regions, left_out: list[int] | None = None
) -> Iterator[GroupRecords]:
    """The records of one file, some hundred thousand at a time. What is in a file may be in no run
    at all.

    Raises:
        InputError: at the end, with all faults of the file, or as many as the message has room for.
            After the first fault nothing is given any more, and the rest of the file is looked
            through."""
    faults = Faults()
    yield from _read(path, parameters, regions, faults, left_out)
    faults.refuse(path.parent, REMEDY)


def every(
    paths: Iterable[Path],
    parameters: Parameters,
    regions: Regions,
    left_out: list[int] | None = None,
) -> Iterator[Confidential[GroupRecords]]:
    """The records of several files, piece after piece. How many are in states of no run is added to
    ``left_out``.

    Raises:
        InputError: as :func:`batches`, after each file; and at the end, if a run has no record."""
    inhabited, given = np.zeros(100, dtype=bool), list(paths)
    for path in given:
        for batch in batches(path, parameters, regions, left_out):
            inhabited[regions.number[batch.block] // 10 ** (geography.WIDTH - 2)] = True
            yield Confidential(batch)
    faults, names = Faults(), ", ".join(p.name for p in given[:3])
    geography.check_runs(
        np.flatnonzero(inhabited), parameters, names, parameters.product.record, faults
    )
    faults.refuse(given[0].parent, REMEDY)


def _refuse_copies(paths: Sequence[Path]) -> None:
    """Records that are there twice would be counted twice. Raises :class:`InputError`."""
    known: dict[tuple[int, str], Path] = {}
    sizes = Counter(p.stat().st_size for p in paths)
    for p in paths:
        if sizes[size := p.stat().st_size] > 1 and size:
            first = known.setdefault((size, source_of(p).sha256), p)
            if first is not p:
                raise InputError(
                    f"is the same as {first.name}: its records would be counted twice",
                    where=p,
                    remedy="take one of the two away",
                )


def files(folder: Path, product: Product) -> tuple[Path, ...]:
    """``person-records.txt``, or in its place several files whose names begin so, or all in a
    folder ``person-records``: say, one of each state. Any may be compressed. Raises
    :class:`InputError` where there is none, or two of these."""
    stem = f"{product.record}-records"
    forms = [
        sorted(p for p in folder.glob(f"{stem}*") if p.is_file() and _is_text(p)),
        sorted(p for p in (folder / stem).glob("*") if p.is_file() and _is_text(p)),
    ]
    found = [f for f in forms if f]
    alone = any(p.name.removesuffix(".gz") == f"{stem}.txt" for p in forms[0])
    if len(found) > 1 or (alone and len(forms[0]) > 1):
        names = ", ".join(str(p.relative_to(folder)) for paths in found for p in paths[:2])
        raise InputError(
            f"has the same records twice, it seems: {names}",
            where=folder,
            remedy=f"keep {stem}.txt, or several files {stem}-*.txt, or a folder {stem}",
        )
    form = re.compile(rf"{stem}(-.*)?\.txt(\.gz)?")
    if odd := [p.name for p in forms[0] if not form.fullmatch(p.name)]:
        raise InputError(
            f"has a file {odd[0]}, which may be records and is not named so",
            where=folder,
            remedy=f"name it {stem}-*.txt if it is to be read, and otherwise take it away",
        )
    for paths in found:
        _refuse_copies(paths)
    if not found:
        raise InputError(
            f"has no file {stem}.txt",
            where=folder,
            remedy=(
                f"name the folder that holds it; files of each state are {stem}-*.txt, or are in a"
                f" folder {stem}"
            ),
        )
    return tuple(found[0])


def _is_text(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".txt") and not path.name.startswith(".")


def fields(product: Product, known: Sequence[str]) -> list[Field]:
    """The columns of a product's records, in their order; codes of race and ethnicity are among
    those that are ``known``."""
    races = [
        _code(RACES[0], known),
        *(_code(name, known, null=True) for name in RACES[1:]),
        _code("QSPAN", known),
    ]
    if product.record == "person":
        return [
            _age(),
            choice("QSEX", "12"),
            choice("HOUSEHOLDER", ("True", "False"), kind=None),
            *geography.block_fields(),
            digits("CENRACE", 2, kind=None),
            *races,
        ]
    return [
        *geography.block_fields(),
        digits("HHRACE", 2, 1, 63, kind=None),
        *races,
        choice("HOUSEHOLD_TYPE", TYPES),
        choice("TEN", TENURES),
    ]


def _age() -> Field:
    def number(values: Codes) -> NDArray[np.int64]:
        n = whole(values, 3)
        return np.where(n <= OLDEST, n, -1)

    return Field(
        "QAGE",
        number,
        (f"not an age from 0 to {OLDEST}",),
        np.int8,
        3,
        lambda rows: decimal(rows, 0, OLDEST),
    )


@lru_cache(maxsize=1)
def _listed(known: tuple[str, ...]) -> NDArray[np.bool_]:
    out = np.zeros(MOST_CODES, dtype=bool)
    out[[int(code) for code in known]] = True
    return out


def _code(name: str, known: Sequence[str], *, null: bool = False) -> Field:
    listed = _listed(tuple(known))

    def number(values: Codes) -> NDArray[np.int64]:
        n = np.where(np.strings.str_len(values) == 4, whole(values, 4), -1)
        n = np.where(n >= FIRST_CODE, np.where(listed[n], n, -2), -1)
        return np.where(values == NULL, NO_CODE, n) if null else n

    def tidy(rows: NDArray[np.uint8]) -> NDArray[np.int16] | None:
        given = np.flatnonzero(rows.view(np.uint32)[:, 0] != _NULL) if null else slice(None)
        n = decimal(rows[given], FIRST_CODE, MOST_CODES - 1)
        if n is None or not listed[n].all():
            return None
        out = np.full(len(rows), NO_CODE, dtype=np.int16)
        out[given] = n
        return out

    form = "not four digits, the first not 0" + (", nor Null" if null else "")
    return Field(
        name,
        number,
        (form, "a code that race-and-ethnicity-codes.txt does not have"),
        np.int16,
        len(NULL),
        tidy,
    )


def _read(
    path: Path,
    parameters: Parameters,
    regions: Regions,
    faults: Faults,
    left_out: list[int] | None = None,
) -> Iterator[GroupRecords]:
    """The records of the runs, until something is wrong."""
    wanted, product = geography.states_read(parameters), parameters.product
    with Reading(path, fields(product, tuple(parameters.names)), faults) as file:
        for lines in file.batches():
            here = wanted[lines.values["TABBLKST"]]
            if not here.all():
                if left_out is not None:
                    left_out[0] += int((~here).sum())
                lines = lines.where(here)
            number = geography.block_numbers(lines.values)
            block = regions.find(number)
            if len(lost := np.flatnonzero(block < 0)):
                code = f"{number[lost[0]]:0{geography.WIDTH}}"
                file.note(
                    "block",
                    f"is in block {code}, which {geography.FILE} does not have",
                    lines.record[lost],
                )
            codes = np.stack([lines.values[name] for name in RACES], axis=1)
            gap = (codes[:, 1:-1] == NO_CODE) & (codes[:, 2:] != NO_CODE)
            if gap.any():
                file.note("gap", "has a code of race after a Null", lines.record[gap.any(axis=1)])
            if file.sound and len(lines):
                cells = {t.name: _LEAVES[t.name](lines) for t in product.tables}
                yield GroupRecords(block, codes, lines.values["QSPAN"].astype(np.int16), cells)
