"""Areas off the spine as a Parquet file: those of a release, or those that an evaluation was given.

One row for each unit of each area: ``kind``, ``area`` (its code), ``name``, ``geocode`` (of the
lowest level). Rows stand by kind, and in it by subtree (:mod:`das.files.release.spine`): an area may
be in several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import codes as texts
from das.files import csv_text, parquet
from das.files.release import spine as spine_file
from das.model.areas import Areas
from das.model.measured_spine import Subtrees
from das.model.names import Codes, encoded
from das.model.not_private import Private
from das.model.spine import Spine

#: Its name in a release, and in the evaluation of a run.
NAME = "areas.parquet"
REMEDY = parquet.LOST
COLUMNS = ("kind", "area", "name", "geocode")
SCHEMA = pa.schema([(name, pa.string()) for name in COLUMNS])


def write(
    path: Path,
    kinds: Sequence[Areas],
    spine: Spine,
    subtrees: Subtrees | None = None,
    *,
    private: Private = True,
) -> None:
    """Write the areas of the units of ``spine``; without ``subtrees``, in one piece."""
    spine_file.write_cut(
        path,
        SCHEMA,
        _tables(kinds, spine, subtrees or Subtrees.none(spine)),
        subtrees,
        private=private,
        use_dictionary=list(COLUMNS[:3]),
        column_encoding={"geocode": "DELTA_BYTE_ARRAY"},
    )


def _tables(
    kinds: Sequence[Areas], spine: Spine, subtrees: Subtrees
) -> Iterator[tuple[int, pa.Table]]:
    starts = subtrees.lowest(spine) if len(subtrees) else None
    for k in kinds:
        home = np.zeros(len(k.unit), dtype=np.int64)
        if starts is not None:
            home = np.searchsorted(starts, k.unit, side="right")
        order, called = np.argsort(home, kind="stable"), encoded(k.called)
        for subtree, start, stop in spine_file.pieces(home[order]):
            here = order[start:stop]
            places = k.codes[k.area[here]], called[k.area[here]], spine.codes[-1][k.unit[here]]
            yield (
                subtree,
                pa.table(
                    [texts.repeated(k.kind, len(here)), *map(texts.column, places)], schema=SCHEMA
                ),
            )


def read(path: Path, spine: Spine) -> tuple[Areas, ...]:
    """The areas of the file; none if it does not exist."""
    return _read(path, spine) if path.exists() else ()


def read_subtree(path: Path, subtree: int, spine: Spine) -> tuple[Areas, ...]:
    """The areas in a subtree, whose own ``spine`` this is. In a file that is not cut, all rows are
    read."""
    if not path.exists():
        return ()
    said = spine_file.row_groups(path)
    if said is not None and said.of_subtree(0):
        raise ReleaseError("it has areas of no subtree", where=path, remedy=REMEDY)
    return _read(path, spine, None if said is None else said.of_subtree(subtree), some=said is None)


def _read(
    path: Path, spine: Spine, groups: list[int] | None = None, some: bool = False
) -> tuple[Areas, ...]:
    """From some row groups, or from all; with ``some`` only rows of the spine's units."""
    found: dict[bytes, _Kind] = {}
    for kind, rows in spine_file.runs_of("kind", parquet.batches(path, COLUMNS, groups)):
        codes = texts.codes(rows["geocode"])
        unit = spine.find(spine.levels[-1], codes)
        there = unit >= 0
        if not (some or there.all()):
            raise ReleaseError(
                f"{codes[~there][0].decode()} is no unit of level {spine.levels[-1]!r}",
                where=path,
                remedy=REMEDY,
            )
        if there.any():
            found.setdefault(kind, _Kind()).add(rows.filter(csv_text.mask(there)), unit[there])
    try:
        return tuple(rows.areas(kind.decode()) for kind, rows in found.items())
    except InputError as error:
        raise ReleaseError(
            f"the areas cannot be read ({error})", where=path, remedy=REMEDY
        ) from None


@dataclass
class _Kind:
    """What was read of a kind, in pieces: of each the areas' codes and names, which of these a row
    has, and its unit."""

    codes: list[Codes] = field(default_factory=list)
    names: list[NDArray[np.str_]] = field(default_factory=list)
    area: list[NDArray[np.int64]] = field(default_factory=list)
    unit: list[NDArray[np.int64]] = field(default_factory=list)
    known: int = 0

    def add(self, rows: pa.Table, unit: NDArray[np.int64]) -> None:
        codes = rows["area"].combine_chunks().dictionary_encode()
        number = csv_text.integers(codes.indices)
        _, first = np.unique(number, return_index=True)
        self.codes.append(texts.codes(codes.dictionary))
        self.names.append(texts.texts(rows["name"].take(csv_text.column(first))))
        self.area.append(number + self.known)
        self.unit.append(unit)
        self.known += len(first)

    def areas(self, kind: str) -> Areas:
        codes, first, number = np.unique(
            np.concatenate(self.codes), return_index=True, return_inverse=True
        )
        area, unit = np.concatenate(self.area), np.concatenate(self.unit)
        return Areas(kind, codes, number[area], unit, np.concatenate(self.names)[first])
