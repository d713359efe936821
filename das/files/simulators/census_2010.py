"""Simulated 2010 redistricting extracts, in exactly the official file formats.

One zip a state, with the geographic header, both data segments and the packing list of the 2010
P.L. 94-171 files, and on request a Summary File 1 zip with group quarters by type (P42). The people
are those of :mod:`das.files.simulators.people`; the rows and their geographic codes those of
:mod:`das.files.simulators.header`.

Sources: 2010 Census Redistricting Data (P.L. 94-171) Summary File, chapters 2 and 6; Summary File
1, chapter 6."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from das.errors import InputError
from das.files import atomic
from das.files.simulators.header import Bytes, characters, header_rows, levels, zeros
from das.files.simulators.people import (
    Ints,
    Population,
    SimulatedBlocks,
    delimited,
    draw_places,
    draw_population,
    generator,
    home_cells,
    origin_cells,
    quarters_cells,
    state_sizes,
)
from das.model.names import State

PERSONS_PER_BLOCK = 42  #: over all blocks, empty ones too, as in Rhode Island


# --- tables


def _tables(people: Population) -> Ints:
    """P1, P2, P3, P4, H1 and, of Summary File 1, P42 of each block, ``(blocks, 71 + 73 + 71 + 73 +
    3 + 10)``."""
    counts = people.counts.transpose(1, 2, 3, 0)
    cells = [*origin_cells(counts.sum(axis=0)), *origin_cells(counts[1])]
    return np.stack(
        [*cells, *home_cells(people.homes.T), *quarters_cells(people.quarters.T)], axis=1
    )


# --- files


def _segment(head: tuple[str, str, str], values: Ints) -> bytes:
    """A data segment: five identifying fields, then the values, with LOGRECNO counting from 1."""
    file_id, usps, number = head
    rows = len(values)
    constant = [pa.repeat(text, rows) for text in (file_id, usps, "000", number)]
    return delimited(
        [*constant, pa.array(zeros(np.arange(1, rows + 1), 7)), *map(pa.array, values.T)], ","
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """All rows of a state's files: the header characters and the value columns."""

    header: Bytes
    values: Ints


def _rows(state: State, at: SimulatedBlocks, values: Ints, kind: tuple[str, str]) -> _Rows:
    """Every level of one file family. ``values`` per block: 71 + 73 + 71 + 73 + 3 + 10 cells, then
    two areas."""
    file_id, block_level = kind
    headers, cells = [], []
    for level, start in levels(at, state, block_level):
        total = np.add.reduceat(values, start, axis=0)[np.isin(start, level.first)]
        headers.append(header_rows(state, at, level, total[:, [0, 288]], total[:, -2:], file_id))
        cells.append(total)
    header = np.concatenate(headers)
    header[:, 18:25] = characters(zeros(np.arange(1, len(header) + 1), 7), 7)
    return _Rows(header, np.concatenate(cells))


def _pl94(state: State, at: SimulatedBlocks, values: Ints) -> dict[str, bytes]:
    """The members of ``{ss}2010.pl.zip``."""
    ss, rows = state.usps.lower(), _rows(state, at, values, ("PLST", "750"))
    members = {
        f"{ss}geo2010.pl": rows.header.tobytes(),
        f"{ss}000012010.pl": _segment(("PLST", state.usps, "01"), rows.values[:, :144]),
        f"{ss}000022010.pl": _segment(("PLST", state.usps, "02"), rows.values[:, 144:291]),
    }
    listing = "".join(
        f"{name}|2010-04-01 00:00:00|{len(data)}|{len(rows.header)}|\n"
        for name, data in members.items()
    )
    text = _PACKING_LIST.format(usps=state.usps, ss=ss, listing=listing, rule="#" * 80)
    return members | {f"{ss}2010.pl.prd.packinglist.txt": text.encode("ascii")}


def _sf1(state: State, at: SimulatedBlocks, values: Ints) -> dict[str, bytes]:
    """The members of ``{ss}2010.sf1.zip`` that matter here: the header, and segment 6 with P42
    filled in."""
    ss, rows = state.usps.lower(), _rows(state, at, values, ("SF1ST", "101"))
    segment = np.zeros((len(rows.values), 254), dtype=np.int64)
    segment[:, 163:173] = rows.values[:, 291:301]
    return {
        f"{ss}geo2010.sf1": rows.header.tobytes(),
        f"{ss}000062010.sf1": _segment(("SF1ST", state.usps, "06"), segment),
    }


_PACKING_LIST = """\
{rule}
      File: Packing list for zip file.
      Note: SIMULATED data. No person or home in them is real.
    STUSAB: {usps}
   Created: Thu Apr 01 00:00:00 EST 2010
  Zip File: {ss}2010.pl.zip
{rule}

{rule}
Data Segmentation information

 Column Description
 ====== ===============================
      1 Table Name
      2 Segment information, which is 1 or more segment:cell descriptors separated by a space

p1|1:71|
p2|1:73|
p3|2:71|
p4|2:73|
h1|2:3|
{rule}

{rule}
Zip Contents, excluding the packing list (this file)

 Column Description
 ====== ===============================
      1 File Name
      2 DateTime Last Modified, format is YYYY-MM-DD HH24:MI:SS
      3 File size in bytes
      4 Row Count

{listing}{rule}
END OF PACKINGLIST
{rule}
"""


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Make the folder; what cannot be made or written in it becomes an :class:`InputError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as e:
        remedy = "give another folder, one that can be written to"
        raise InputError(
            f"cannot be written ({e.strerror or e})", where=e.filename or directory, remedy=remedy
        ) from None


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    """A zip whose bytes depend on its contents alone; it appears whole or not at all."""
    with atomic.file(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(2010, 4, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=6)
    return path


def write(
    directory: Path,
    *,
    seed: int,
    states: int = 3,
    persons: int = 12_000,
    sf1: bool = False,
    per_block: int = PERSONS_PER_BLOCK,
) -> list[Path]:
    """Write ``{ss}2010.pl.zip`` for each of ``states`` states, ``persons`` in all, about
    ``per_block`` in a block, and return the paths.

    With ``sf1`` also ``{ss}2010.sf1.zip``, whose table P42 counts the same persons in group
    quarters. The files are a function of the arguments alone. Raises :class:`InputError` for
    arguments out of range.

    Of every three states in order one has no American Indian area."""
    sizes = state_sizes(seed, states, persons)
    paths = []
    with writing(directory):
        for i, (state, size) in enumerate(sizes):
            ss = state.usps.lower()
            blocks, areas = round(size / per_block), 0 if i % 3 == 2 else 2
            at, values = _simulate(generator(seed, 1 + int(state.fips)), size, blocks, areas)
            paths.append(write_zip(directory / f"{ss}2010.pl.zip", _pl94(state, at, values)))
            if sf1:
                paths.append(write_zip(directory / f"{ss}2010.sf1.zip", _sf1(state, at, values)))
    return paths


def _simulate(
    rng: np.random.Generator, persons: int, blocks: int, reservations: int
) -> tuple[SimulatedBlocks, Ints]:
    """The blocks of a state and their values: the cells of all tables, then land and water area."""
    at = draw_places(rng, blocks, reservations)
    people = draw_population(rng, at, persons)
    n = len(at)
    area = np.stack(
        [5_000 + 400_000 * rng.random(n) ** 3, 100_000 * rng.random(n) ** 9], axis=1
    ).astype(np.int64)
    area[at.water] = area[at.water, :1] * np.array([0, 1])  # all of it water
    return at, np.concatenate([_tables(people), area], axis=1)
