"""Simulated 2020 redistricting files, in exactly the official format: a zip a state, of a header
and three segments.

The four members are pipe-delimited text without names (:mod:`das.files.readers.pl94_2020` says
which fields there are). They are written a few thousand records at a time, level after level:
state, county subdivisions, blocks, block groups, tracts, counties, places, districts and voting
districts. Every upper record is the exact sum of its blocks.

Source: 2020 Census State Redistricting Data (P.L. 94-171) Summary File, technical documentation."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from das.engine.local import executor
from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files import atomic
from das.files.readers.pl94_2020 import FIELDS, POSITIONS
from das.files.simulators.census_2010 import writing
from das.files.simulators.header import SummaryLevel, chosen, fields_of, levels, totals
from das.files.simulators.nation_people import CELLS, SparsePopulation, draw_people, draw_state
from das.files.simulators.people import (
    Ints,
    SimulatedBlocks,
    delimited,
    generator,
    home_cells,
    origin_cells,
    quarters_cells,
)
from das.model.names import State

ROWS = 1 << 14  #: records written at a time
#: Position (from 1) of the header's fields that are filled, except those that the reader reads.
_ALSO = {
    6: "CHARITER",
    7: "CIFSN",
    9: "GEOID",
    10: "GEOCODE",
    11: "REGION",
    12: "DIVISION",
    16: "COUNTYCC",
    19: "COUSUBCC",
    31: "PLACECC",
    37: "AIHHTLI",
    38: "AIANHHFP",
    39: "AIANHHCC",
    85: "AREALAND",
    86: "AREAWATR",
    87: "BASENAME",
    89: "FUNCSTAT",
    93: "INTPTLAT",
    94: "INTPTLON",
    95: "LSADC",
}
_POSITIONS = {
    position: {"CD116": "CD", "SLDU18": "SLDU", "SLDL18": "SLDL"}.get(name, name)
    for position, name in (POSITIONS | _ALSO).items()
}
#: The codes that a record's GEOCODE is made of, by summary level.
_GEOCODE = {
    "040": "STATE",
    "060": "STATE COUNTY COUSUB",
    "750": "STATE COUNTY TRACT BLOCK",
    "150": "STATE COUNTY TRACT BLKGRP",
    "140": "STATE COUNTY TRACT",
    "050": "STATE COUNTY",
    "160": "STATE PLACE",
    "500": "STATE CD",
    "610": "STATE SLDU",
    "620": "STATE SLDL",
    "700": "STATE COUNTY VTD",
}


@dataclass(frozen=True, eq=False)
class SimulatedState:
    """A state to write: its blocks, who lives in them, and their land and water, ``(2, blocks)``,
    square meters."""

    state: State
    at: SimulatedBlocks
    people: SparsePopulation
    area: Ints


@dataclass(frozen=True, eq=False)
class _Records:
    """Some records of a level, LOGRECNO from ``number`` on. Record i has the blocks from
    ``first[i]`` up to, but not including, ``end[i]``."""

    level: SummaryLevel
    number: int
    first: Ints
    end: Ints

    def sums(self, values: NDArray[np.int32] | Ints) -> Ints:
        """``values`` ``(..., blocks)``, added up for each record."""
        edges = np.stack([self.first, self.end], axis=1).ravel()
        stop = edges[-1] == values.shape[-1]
        totals = np.add.reduceat(values, edges[:-1] if stop else edges, axis=-1, dtype=np.int64)
        return totals[..., ::2]


def _records(world: SimulatedState) -> Iterator[_Records]:
    number = 1
    for level, start in levels(world.at, world.state, "750"):
        end = np.append(start[1:], len(world.at))[np.isin(start, level.first)]
        for begin in range(0, len(level.first), ROWS):
            some = slice(begin, begin + ROWS)
            yield _Records(
                replace(level, first=level.first[some]),
                number + begin,
                level.first[some],
                end[some],
            )
        number += len(level.first)


def write_state(path: Path, world: SimulatedState, about: str) -> None:
    """Write ``{ss}2020.pl.zip``, with ``about`` as its comment; it appears whole or not at all."""
    ss = world.state.usps.lower()
    parts = {"geo": _header, "00001": _first, "00002": _second, "00003": _third}
    with (
        atomic.file(path) as draft,
        zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        archive.comment = about.encode()
        for part, columns in parts.items():
            with archive.open(f"{ss}{part}2020.pl", "w", force_zip64=True) as member:
                for records in _records(world):
                    member.write(delimited(columns(world, records), "|"))


# --- segments


def _segment(
    world: SimulatedState, records: _Records, number: int, cells: list[Ints]
) -> list[pa.Array]:
    n = len(records.first)
    ids = [pa.repeat(text, n) for text in ("PLST", world.state.usps, "000", f"{number:02d}")]
    return [*ids, pa.array(records.number + np.arange(n)), *map(pa.array, cells)]


def _persons(world: SimulatedState, records: _Records) -> Ints:
    """Persons of the records, ``(2, 2, 63, records)``: voting age, Hispanic, race."""
    people, n = world.people, len(records.first)
    begin, end = np.searchsorted(people.block, [records.first[0], records.end[-1]])
    block = people.block[begin:end]
    row = np.searchsorted(records.first, block, side="right") - 1
    inside = block < records.end[row]
    at = people.cell[begin:end][inside].astype(np.int64) * n + row[inside]
    counts = np.bincount(at, people.number[begin:end][inside], minlength=CELLS * n)
    return counts.astype(np.int64).reshape(2, 2, 63, n)


def _first(world: SimulatedState, records: _Records) -> list[pa.Array]:
    return _segment(world, records, 1, origin_cells(_persons(world, records).sum(axis=0)))


def _second(world: SimulatedState, records: _Records) -> list[pa.Array]:
    homes = records.sums(world.people.homes)
    return _segment(
        world, records, 2, [*origin_cells(_persons(world, records)[1]), *home_cells(homes)]
    )


def _third(world: SimulatedState, records: _Records) -> list[pa.Array]:
    return _segment(world, records, 3, quarters_cells(records.sums(world.people.quarters)))


# --- the header


def _header(world: SimulatedState, records: _Records) -> list[pa.Array]:
    """The 97 fields of the geographic header; what a record does not have is empty."""
    level, n, area = records.level, len(records.first), records.sums(world.area)
    said = fields_of(world.state, world.at, level)
    said |= {"FILEID": "PLST", "GEOVAR": "00", "CIFSN": "00", "BASENAME": said["NAME"]}
    fields = {field: _text(text, n) for field, text in said.items()}
    geocode = _joined(*(fields[field] for field in _GEOCODE[level.sumlev].split()))
    fields |= {
        "LOGRECNO": pa.array(records.number + np.arange(n)),
        "GEOCODE": geocode,
        "GEOID": _joined(_text(f"{level.sumlev}0000US", n), geocode),
        "AREALAND": pa.array(area[0]),
        "AREAWATR": pa.array(area[1]),
        "POP100": pa.array(records.sums(world.people.quarters).sum(axis=0)),
        "HU100": pa.array(records.sums(world.people.homes).sum(axis=0)),
    }
    empty = pa.nulls(n, pa.string())
    return [fields.get(_POSITIONS.get(position, ""), empty) for position in range(1, FIELDS + 1)]


def _text(values: NDArray[np.str_] | str, rows: int) -> pa.Array:
    return (
        pa.repeat(values, rows)
        if isinstance(values, str)
        else pa.array(np.broadcast_to(values, rows))
    )


def _joined(*texts: pa.Array) -> pa.Array:
    return pa.compute.binary_join_element_wise(*texts, "")


# A simulated nation of 2020: 51 redistricting files with the true numbers of counties, tracts,
# block groups and blocks.
#
# State totals are the public ones, and county totals follow them
# (:mod:`das.files.simulators.header`); everything below is made up. There is one zip a state, each
# made by itself. It is a function of seed, share and state, in whatever order and by whatever process
# it is made. An existing file that was made with the same arguments is kept.

VERSION = 1  #: of what the files hold


def write(
    directory: Path,
    *,
    seed: int,
    share: float = 1.0,
    states: Sequence[str] | None = None,
    workers: int = 1,
    progress: Progress = SILENT,
) -> list[Path]:
    """Write ``{ss}2020.pl.zip`` of all ``states`` (postal abbreviations; all 51 where none are
    named), and return the paths.

    ``share`` is of each state's persons and units. Raises :class:`InputError` for arguments out of
    range, and for files in ``directory`` that others made."""
    if seed < 0:
        raise InputError(f"seed {seed}", where="simulate", remedy="give a seed of 0 or more")
    blocks = {state: totals(state, share).blocks for state in chosen(states)}
    about = (
        f"SIMULATED data: no person or home in it is real. Version {VERSION}, seed {seed}, share"
        f" {share!r}."
    )
    paths = {state: directory / f"{state.usps.lower()}2020.pl.zip" for state in blocks}
    with writing(directory):
        left = [state for state in blocks if not _is_there(paths[state], about)]
        left.sort(key=lambda state: -blocks[state])
        progress.stage("simulate blocks", sum(blocks[state] for state in left))
        with executor(min(workers, max(1, len(left)))) as pool:
            jobs = {
                pool.submit(_write_one, state, paths[state], seed, share, about): state
                for state in left
            }
            for job in as_completed(jobs):
                job.result()
                progress.advance(blocks[jobs[job]])
    return list(paths.values())


def _is_there(path: Path, about: str) -> bool:
    """Whether the file was made before, with the same arguments. Raises :class:`InputError` where
    it is another."""
    if not path.exists():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            said = archive.comment.decode("utf-8", "replace")
    except zipfile.BadZipFile:
        said = "no zip archive"
    if said != about:
        raise InputError(
            f"is there, and is another file ({said or 'without a comment'})",
            where=path,
            remedy="give an empty folder, or the seed and share that its files were made with",
        )
    return True


def _write_one(state: State, path: Path, seed: int, share: float, about: str) -> None:
    of = totals(state, share)
    key = (seed, 2020, int(state.fips))
    rng = generator(*key)
    at = draw_state(rng, of)
    n = len(at)
    area = np.stack([5_000 + 400_000 * rng.random(n) ** 3, 100_000 * rng.random(n) ** 9]).astype(
        np.int64
    )
    area[:, at.water] = area[0, at.water] * np.array([[0], [1]])
    write_state(path, SimulatedState(state, at, draw_people(key, at, of), area), about)
