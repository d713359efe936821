"""2010 redistricting (P.L. 94-171) files, with group quarters from Summary File 1 if that is in the
same place.

A state is the zip ``{ss}2010.pl.zip``, or its three files: ``{ss}geo2010.pl`` (fixed width, 500
characters), ``{ss}000012010.pl`` (P1, P2) and ``{ss}000022010.pl`` (P3, P4, H1), comma-separated,
without names. Records that are read: geographic component 00 at the levels state, county, tract,
block group and block. Source: 2010 Census Redistricting Data (P.L. 94-171) Summary File, technical
documentation, chapters 2 and 6.

**Group quarters.** The 2010 file does not say where people live. Two ways to fill the ``hhgq``
attribute:

* Without Summary File 1, a block's persons beyond 20 for each occupied housing unit are put in
  group quarters of type 7 (other noninstitutional): everybody where no unit is occupied. All others
  are in households. This is an imputation. It finds too few residents of group quarters (small
  facilities in blocks with households), and all have one type.
* With ``{ss}2010.sf1.zip`` (or ``{ss}geo2010.sf1`` and ``{ss}000062010.sf1``) among the paths, the
  published counts by block and type (table P42) are met exactly. A deterministic rule decides which
  of the block's people they are (:func:`das.files.readers.sf1_group_quarters.assign`).

The files do not count facilities either: a block gets 1 facility of each type that somebody lives
in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine.progress import SILENT, Progress
from das.errors import InputError
from das.files.readers import pl94_2010_files as files
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_header, pl94_records
from das.files.readers import sf1_group_quarters as sf1
from das.files.readers.formats import MOST_AT_HOME, PL94_2010
from das.files.readers.pl94_fields import geography
from das.files.readers.source import Member, apart, by_state, sources
from das.model.records import Extract
from das.model.schema import Schema


def read(paths: Sequence[Path], schema: Schema, *, progress: Progress = SILENT) -> Extract:
    """Read all states among ``paths`` (zips, files or folders); together they are one nation.

    ``schema`` has attributes among hhgq, votingage, hispanic and cenrace. Raises
    :class:`InputError` for anything that is not the complete, consistent P.L. 94-171 of each state.
    """
    pl94_records.cell_map(schema)
    groups, with_sf1 = _groups(paths)
    found = [_read_state(stusab.upper(), parts, progress) for stusab, parts in groups.items()]
    read_from = sources([m for parts in groups.values() for m in parts.values()])
    return pl94_records.extract(found, schema, read_from, {} if with_sf1 else PL94_2010.assigned)


def states(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each state among ``paths``, which can be read by themselves."""
    return apart(_groups(paths)[0])


def _groups(paths: Sequence[Path]) -> tuple[dict[str, dict[str, Member]], bool]:
    """The parts of each state, and whether Summary File 1 is there, for every one or for none."""
    groups = by_state(paths, files.PATTERN, files.NAMES)
    with_sf1 = [s for s, parts in groups.items() if any(p.endswith("sf1") for p in parts)]
    if with_sf1 and len(with_sf1) != len(groups):
        lacking = sorted(set(groups) - set(with_sf1))
        raise InputError(
            f"Summary File 1 is there for {with_sf1[0].upper()}, but not for {lacking[0].upper()}",
            where="data.path",
            remedy=(
                "give it for every state or for none, so that group quarters mean the same"
                " everywhere"
            ),
        )
    return groups, bool(with_sf1)


def _read_state(
    stusab: str, parts: Mapping[str, Member], progress: Progress
) -> pl94_records.StateExtract:
    needed = ["geo2010.pl", "000012010.pl", "000022010.pl"]
    if any(p.endswith("sf1") for p in parts):
        needed += ["geo2010.sf1", "000062010.sf1"]
    for part in needed:
        if part not in parts:
            raise InputError(
                f"{stusab.lower()}{part} is missing",
                where=next(iter(parts.values())).path,
                remedy=f"a state is {files.NAMES}; Summary File 1 is geo2010.sf1 and 000062010.sf1",
            )
    progress.stage(f"read {stusab}: header", None)
    header = files.read_header(parts["geo2010.pl"], "PLST", stusab)
    found = pl94_header.places(header)
    progress.stage(f"read {stusab}", len(files.SEGMENTS) * len(header.logrecno))
    values = pl94.segments(
        {n: parts[f"{n:05d}2010.pl"] for n in files.SEGMENTS}, header, files.SEGMENTS, ",", progress
    )
    _check(header, found, values)
    people = pl94_records.persons(values, found, header.name)
    housing = values[pl94.HOUSING : pl94.HOUSING + 3, found.rows["750"]].astype(np.int64)
    if "geo2010.sf1" in parts:
        beside = files.read_header(parts["geo2010.sf1"], "SF1ST", stusab)
        population = values[pl94.POPULATION, found.rows["750"]]
        types = sf1.counts(parts["000062010.sf1"], beside, found.codes["750"], population)
    else:
        types = _imputed(people, housing)
    people = sf1.assign(people, types, housing[0], found.codes["750"], header.name)
    return pl94_records.StateExtract(geography(header, found), people, housing, header.names)


def _imputed(people: pl94_records.Counts, housing: NDArray[np.int64]) -> NDArray[np.int64]:
    """Persons in group quarters by type, ``(blocks, 7)``: those beyond ``MOST_AT_HOME`` for each
    occupied unit, as type 7."""
    types = np.zeros((housing.shape[1], 7), dtype=np.int64)
    np.add.at(types[:, 6], people.block, people.number)
    types[:, 6] = np.maximum(types[:, 6] - MOST_AT_HOME * housing[1], 0)
    return types


def _check(
    header: pl94_header.Header, found: pl94_header.HeaderPlaces, values: NDArray[np.int32]
) -> None:
    pl94.check_sums(values, pl94.IDENTITIES, files.CELLS, header.line, f"segments of {header.name}")
    for name, of_header, cell in (
        ("POP100", header.pop100, pl94.POPULATION),
        ("HU100", header.hu100, pl94.HOUSING),
    ):
        pl94_header.check_header(header, name, of_header, values[cell], files.CELLS[cell])
    pl94_header.check_levels(values, found, list(pl94_header.LEVELS)[1:], files.CELLS, header.name)
