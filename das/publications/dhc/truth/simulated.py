"""Simulated persons and households as linked files, whose values are the codes of the schemas'
levels.

======================
================================================================================================
``persons.parquet``     a line a person: ``block``, ``household`` (null in group quarters), the
attributes of ``dhcp`` ``households.parquet``  a line a household, in order of its number:
``household``, ``block``, the attributes of ``dhch`` ``units.parquet``       a line a block and
level that occurs, ``count`` of them: ``block``, ``tenvacgq``; a line of 0 for
                        a block that has neither units nor facilities
======================
================================================================================================

A household has the four classes of tenure in ``units.parquet`` alone, by block.
:mod:`das.publications.dhc.files.linked` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files import atomic
from das.files import codes as texts
from das.files.readers.formats import MOST_AT_HOME
from das.files.run.run_directory import create_private
from das.files.simulators.census_2010 import writing
from das.files.simulators.people import generator
from das.model.histogram import Histogram
from das.model.names import Codes, encoded, text
from das.model.redistricting import H1, PL94
from das.model.universe import HOUSING
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation import records
from das.publications.dhc.simulation.records import SimulatedDhc
from das.truth.readers import read

NAMES = ("persons.parquet", "households.parquet", "units.parquet")
#: Formats that tell which units are occupied, and the facilities of each block.
READERS = ("pl94-2010", "pl94-2020")
_OCCUPIED = H1.attributes[0].levels.index("occupied")


class MadeUp(NamedTuple):
    """Simulated records, the code of each block, and what their user should know: who was put into
    group quarters, and blocks of households with more than ``MOST_AT_HOME`` persons."""

    world: SimulatedDhc
    blocks: Codes
    notes: list[str]


def simulate(
    paths: Sequence[Path],
    directory: Path | str,
    *,
    seed: int,
    reader: str = READERS[0],
    progress: Progress = SILENT,
) -> list[Path]:
    """Read a redistricting extract, make up persons and households with its counts, and write the
    three files; returns their paths.

    The files are a function of the input and the seed, and have the counts of the input exactly:
    they are as confidential as it is, and their owner's alone; so is the folder, if it is new or
    empty.

    Raises :class:`InputError` for what the reader or :func:`das.publications.dhc.simulation.records.simulate`
    refuses."""
    made = made_up(paths, seed=seed, reader=reader, progress=progress)
    progress.stage("write", None)
    return write(directory, made.world, made.blocks)


def made_up(
    paths: Sequence[Path], *, seed: int, reader: str = READERS[0], progress: Progress = SILENT
) -> MadeUp:
    """What :func:`simulate` writes. Raises as that does."""
    if reader not in READERS:
        raise InputError(
            f"{reader!r} does not tell which units are occupied",
            where="simulate",
            remedy=f"give redistricting files of {' or '.join(READERS)}",
        )
    rng = generator(seed)
    extract = read(reader, paths, PL94, progress=progress)
    structures = extract.blocks.structures
    assert structures is not None
    people, homes = (
        box.open("what is made up has these counts")
        for box in (extract.persons, extract.others[HOUSING.name])
    )
    occupied = np.zeros(len(extract.blocks), dtype=np.int64)
    np.add.at(occupied, homes.block, np.where(homes.cell == _OCCUPIED, homes.count, 0))
    persons = Histogram.from_triplets(
        len(occupied), PL94.cells, people.block, people.cell, people.count
    )
    progress.stage("make up persons and households", None)
    world = records.simulate(rng, persons, structures[:, 0], occupied, structures[:, 1:])
    away = int((world.people.household < 0).sum())
    notes = [
        f"{away:,} persons live in group quarters. {said}" for said in extract.assigned.values()
    ]
    housed = np.bincount(world.block[world.people.household >= 0], minlength=world.blocks)
    if crowded := int((housed > MOST_AT_HOME * structures[:, 0]).sum()):
        notes.append(
            f"{crowded:,} blocks have more than {MOST_AT_HOME} persons at home for each housing"
            " unit, and their group quarters are counted: their households are larger than that"
        )
    return MadeUp(world, extract.blocks.fields["Block"], notes)


def write(directory: Path | str, world: SimulatedDhc, blocks: ArrayLike) -> list[Path]:
    """Write the three files, all or none and their owner's alone, and return their paths.
    ``blocks``: the code of each block.

    Raises :class:`InputError` for codes of other blocks, and where nothing can be written."""
    codes = text(encoded(blocks)).tolist()
    if len(codes) != world.blocks or len(set(codes)) != len(codes):
        raise InputError(
            f"{len(set(codes))} codes of {world.blocks} blocks",
            where="simulate",
            remedy="give each block one of its own",
        )
    tables = (_persons(world, codes), _households(world, codes), _units(world, codes))
    paths = [Path(directory, name) for name in NAMES]
    if not (folder := Path(directory)).exists() or (folder.is_dir() and not any(folder.iterdir())):
        create_private(folder)
    with writing(folder), atomic.files(paths, 0o600) as drafts:
        for table, draft in zip(tables, drafts, strict=True):
            pq.write_table(pa.table(table), draft, compression="zstd")
    return paths


def _persons(world: SimulatedDhc, codes: Sequence[str]) -> Mapping[str, pa.Array]:
    household = world.people.household
    number = pa.array(household, mask=household < 0)
    return {"block": texts.coded(world.block, codes), "household": number} | texts.attributes(
        DHCP, world.people.cells
    )


def _households(world: SimulatedDhc, codes: Sequence[str]) -> Mapping[str, pa.Array]:
    number = pa.array(np.arange(len(world.cell)))
    return {"household": number, "block": texts.coded(world.home_block, codes)} | texts.attributes(
        DHCH, world.cell
    )


def _units(world: SimulatedDhc, codes: Sequence[str]) -> Mapping[str, pa.Array]:
    units = world.units()
    empty = np.flatnonzero(np.diff(units.indptr) == 0)
    nothing = np.zeros_like(empty)
    block, cell, count = (
        np.concatenate(both)
        for both in ((units.unit, empty), (units.cell, nothing), (units.count, nothing))
    )
    return (
        {"block": texts.coded(block, codes)}
        | texts.attributes(TENVACGQ, cell)
        | {"count": pa.array(count)}
    )
