"""What a release of the DHC publishes of its counts: microdata of persons and of units, and the 65
tables.

Everything here is a function of published counts, for three universes over one tree: ``persons``
(``dhcp``), ``units`` (``tenvacgq``) and ``households`` (``dhch``); or for persons alone. The folder ``out`` gets

* ``microdata/persons``: a row for each person, 16 fields; ``microdata/units``: a row for each
  household, vacant unit and facility, 27 fields. :func:`read_counts` reads exactly the counts of
  the lowest level from them.
* ``tables/<Table>_<Level>.csv``: the same format as in every release, for the levels at which each
  table is published (:func:`levels_of`).

Block tables are small, so they are CSV files like all others. For the 25,181 blocks of Rhode Island
the 33 block tables take 67 MB. Tables of all other levels take 4 MB, and the microdata 7 MB. No
array of units by cells is made: a table costs the stored counts and its own size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.microdata import reading, writing
from das.files.microdata.reading import cells_of, coded, read_form
from das.files.microdata.writing import write_form
from das.files.release import tables as table_files
from das.microdata import drawn
from das.model.histogram import Histogram
from das.model.names import Codes
from das.model.not_private import Private
from das.model.spine import Spine
from das.model.universe import PERSONS, Publication, Universe
from das.publications.dhc.model import microdata, publications
from das.publications.dhc.model.microdata import KIND_OF_TEN, KINDS
from das.publications.dhc.model.persons import DHCP
from das.tables import Table, table

#: By level and universe of a release.
DhcCounts = Mapping[str, Mapping[str, Histogram]]
#: How each universe is published, and in which order.
PUBLISHED = {
    "persons": publications.persons,
    "units": publications.units,
    "households": publications.households,
}
#: The last level that tables of these letters are published for, where the tree has it; else the
#: last but one, or all of a tree that ends above it. Others go down to the end.
LAST = {"PCO": "County", "PCT": "Tract", "HCT": "Tract"}
_PERSONS, _UNITS = (Path("microdata", folder) for folder in ("persons", "units"))


def write(
    out: Path,
    spine: Spine,
    counts: DhcCounts,
    *,
    name: str,
    private: Private,
    csv: bool = False,
    tables: bool = True,
    progress: Progress = SILENT,
) -> None:
    """Write microdata and, unless they are not wanted, ``tables`` under ``out``. ``counts`` are
    those of each universe by level.

    ``name`` is that of the release; with ``csv`` the microdata are there as text, too. Not
    ``private``: every file says so.

    Raises:
        InputError: a universe or level that is missing, or of other units or cells; households of a
            tenure that are not the occupied units of it: nothing is written then."""
    check(spine, counts)
    progress.stage("microdata", 2)
    lowest = {u: levels[spine.levels[-1]] for u, levels in counts.items()}
    how: dict[str, Any] = {"build": name, "csv": csv, "private": private}
    codes = spine.codes[-1]
    if not _alone(counts):
        units, households = lowest["units"], lowest["households"]
        write_units(out / _UNITS, units, households, codes, **how)
    progress.advance()
    writing.write(out / _PERSONS, lowest["persons"], codes, _persons(), **how)
    progress.advance()
    if tables:
        write_tables(out / "tables", spine, counts, private=private, progress=progress)


def write_tables(
    folder: Path, spine: Spine, counts: DhcCounts, *, private: Private, progress: Progress = SILENT
) -> list[Path]:
    """The tables of all universes and levels, each level of a universe whole or not at all; returns
    their files."""
    todo = [
        (u, level, [t for t in tables_of(u) if level in levels_of(t, spine)])
        for u in PUBLISHED
        if u in counts
        for level in spine.levels
    ]
    progress.stage("tables", sum(len(chosen) for _, _, chosen in todo))
    out = []
    for universe, level, chosen in todo:
        out += table_files.write(
            folder,
            level,
            spine.codes[spine.index(level)],
            chosen,
            counts[universe][level],
            beside=table_files.identifiers(spine, level),
            private=private,
        )
        progress.advance(len(chosen))
    return out


def read_counts(out: Path, spine: Spine) -> dict[str, Histogram]:
    """The counts of the lowest level, by universe, from the microdata under ``out``.

    Raises:
        InputError: microdata that are damaged, incomplete, of other blocks, or contradict
            themselves."""
    codes = spine.codes[-1]
    units, households = read_units(out / _UNITS, codes)
    return {"persons": read_persons(out, spine), "units": units, "households": households}


def read_persons(out: Path, spine: Spine) -> Histogram:
    """Those of persons alone. Raises as :func:`read_counts`."""
    return reading.read(out / _PERSONS, _persons(), spine.codes[-1])


@cache
def tables_of(universe: str) -> tuple[Table, ...]:
    """The tables that are sums of cells of a universe."""
    publication = PUBLISHED[universe]()
    return tuple(table(t, publication.schema) for t in publication.tables)


def levels_of(table: Table, spine: Spine) -> tuple[str, ...]:
    """The levels that a table is published for: ``P`` and ``H`` all, ``PCT`` and ``HCT`` to the
    tracts, ``PCO`` to the counties.

    >>> tree = Spine.from_frame(
    ...     {"County": ["1"], "Tract": ["11"], "Block": ["111"]},
    ...     ["State", "County", "Tract", "Block"],
    ... )
    >>> for t in tables_of("units") + tables_of("persons"):
    ...     if t.name in ("H1", "PCT8", "PCO1"):
    ...         print(t.name, *levels_of(t, tree))
    H1 State County Tract Block
    PCT8 State County Tract
    PCO1 State County"""
    last = LAST.get(table.name.rstrip("0123456789"))
    if last is None or (last == "Tract" and spine.levels[-1] in ("State", "County")):
        return spine.levels
    return spine.levels[: spine.index(last) + 1 if last in spine.levels else max(1, len(spine) - 1)]


def check(spine: Spine, counts: DhcCounts) -> None:
    """Raise :class:`InputError` where counts are not those of the three universes over a tree, or
    of persons alone."""
    for universe, publication in PUBLISHED.items():
        if _alone(counts) and universe not in counts:
            continue
        for level in spine.levels:
            h = counts.get(universe, {}).get(level)
            if h is None:
                raise InputError(
                    f"there are no counts of {universe} at level {level!r}",
                    where="counts of the DHC",
                    remedy="give those of every level of the tree",
                )
            _fits(h, publication(), spine.units(level), f"{universe}, {level}")


def _alone(counts: DhcCounts) -> bool:
    """Whether these are counts of persons, and of nothing else."""
    return list(counts) == list(PUBLISHED)[:1]


def _fits(h: Histogram, publication: Publication, units: int, where: str) -> None:
    cells = publication.schema.cells
    if (h.units, h.cells) != (units, cells):
        raise InputError(
            f"{h.units:,} units of {h.cells:,} cells, not {units:,} of {cells:,}",
            where=where,
            remedy="give the counts of this tree",
        )


def _persons() -> Universe:
    return Universe(PERSONS, DHCP)


# The microdata of units of the DHC: households, vacant units and group quarters facilities in one
# folder, by block.
#
# Which of a block's rented households pay no cash rent (``TEN`` 4) is not estimated; the units say
# how many. Here they are drawn at random, all choices equally likely. The seed of the draw is a
# digest of the published units and households, and of nothing else. So anyone who has the counts
# makes the same file, and the file reveals nothing beyond them. (The Bureau's writer takes the last
# rented rows of a block in the order of cells: women, and the oldest.)

_CALLED = ("households", "households without cash rent", "vacant units and facilities")


def records_of(units: Histogram, households: Histogram) -> Histogram:
    """The records, as :mod:`das.publications.dhc.model.microdata` has them. Raises :class:`InputError` where
    units and households differ."""
    digest = sha256()
    for h in (units, households):
        for values in h.to_arrays().values():
            digest.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    free = drawn(microdata.rented(households), microdata.without_rent(units), digest.digest())
    return microdata.joined(units, households, free)


def write_units(
    directory: Path,
    units: Histogram,
    households: Histogram,
    codes: Codes,
    *,
    build: str = "das",
    csv: bool = False,
    private: Private = True,
) -> list[Path]:
    """Write the records of the lowest level into ``directory`` as
    :func:`das.files.microdata.writing.write` does; return the files.

    ``units`` are over ``tenvacgq``, ``households`` over ``dhch``. Raises as that does, and where
    households of a tenure are not the occupied units of it."""
    records = records_of(units, households)
    return write_form(
        directory, records, codes, microdata.form(), build=build, csv=csv, private=private
    )


def read_units(directory: Path, codes: Codes) -> tuple[Histogram, Histogram]:
    """Units and households of the blocks ``codes``: what was written. Raises as
    :func:`das.files.microdata.reading.read` does."""
    return microdata.parted(
        read_form(directory, microdata.form(), codes, microdata.CELLS, _cells, "a file of units")
    )


def _cells(batch: pa.RecordBatch, where: str) -> NDArray[np.int64]:
    """The cell of each record: its tenure gives its kind, and its own columns the cell within that
    kind."""
    values, index = coded(batch, "TEN", where)
    known = np.array([KIND_OF_TEN.get(v, -1) for v in values], dtype=np.int64)[index]
    if (known < 0).any():
        first = int(np.argmax(known < 0))
        raise InputError(
            f"TEN is {values[index[first]]!r} in the record {first} after that; its codes are 0"
            " to 4",
            where=where,
        )
    out = np.empty(batch.num_rows, dtype=np.int64)
    columns = microdata.form().columns
    for kind, (first, schema) in enumerate(KINDS):
        here = known == kind
        own = [c.parts[kind][1] for c in columns]
        out[here] = first + cells_of(
            batch.filter(pa.array(here)), own, schema, f"{where}, {_CALLED[kind]} alone"
        )
    return out
