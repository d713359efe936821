"""2020 redistricting (P.L. 94-171) files: four pipe-delimited files a state, without names.

``{ss}geo2020.pl`` (97 fields), ``{ss}000012020.pl`` (P1, P2), ``{ss}000022020.pl`` (P3, P4, H1) and
``{ss}000032020.pl`` (P5), loose or in ``{ss}2020.pl.zip``. Files of the 2018 end-to-end test in
this format (``{ss}geo2018_2020Style.pl``) are read too. Records that are read: geographic variant
and component 00 at the levels state, county, tract, block group and block. Source: 2020 Census
State Redistricting Data (P.L. 94-171) Summary File, technical documentation.

What differs from 2010:

* P5 counts the persons in group quarters by type for each block. The rule of
  :func:`das.files.readers.sf1_group_quarters.assign` decides which people of the block they are. A
  block has 1 facility of each type that somebody lives in.
* The files are themselves protected. Their housing counts need not match the header's HU100, which
  is not compared, and occupied units need not match persons. What the records need is checked. A
  nursing home has no more residents than the block has adults; without a housing unit nobody lives
  outside group quarters. A file that breaks this cannot be turned into records without changing
  published counts, and is refused.
* Blocks must add up to block groups and tracts in every file, and to counties and the state in a
  whole one. A file is taken as whole when its record numbers run 1, 2, 3, ... without a gap. A
  selection of records, as distributed for trials, has gaps, and its county and state rows count
  people who are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from das.engine.progress import SILENT, Progress
from das.errors import InputError
from das.files.readers import pl94_2020_files as files
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_header, pl94_records
from das.files.readers import sf1_group_quarters as group_quarters
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
    groups = by_state(paths, files.PATTERN, files.NAMES)
    found = [_read_state(stusab.upper(), parts, progress) for stusab, parts in groups.items()]
    return pl94_records.extract(
        found, schema, sources([m for parts in groups.values() for m in parts.values()])
    )


def states(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each state among ``paths``, which can be read by themselves."""
    return apart(by_state(paths, files.PATTERN, files.NAMES))


def _read_state(
    stusab: str, parts: Mapping[str, Member], progress: Progress
) -> pl94_records.StateExtract:
    for part in files.PARTS:
        if part not in parts:
            raise InputError(
                f"{stusab.lower()}{part}2020.pl is missing",
                where=next(iter(parts.values())).path,
                remedy=f"a state is {files.NAMES}",
            )
    progress.stage(f"read {stusab}: header", None)
    header = files.read_header(parts["geo"], stusab)
    found = pl94_header.places(header)
    progress.stage(f"read {stusab}", len(files.SEGMENTS) * len(header.logrecno))
    values = pl94.segments(
        {n: parts[f"{n:05d}"] for n in files.SEGMENTS}, header, files.SEGMENTS, "|", progress
    )
    pl94.check_sums(
        values, [*pl94.IDENTITIES, *_GQ_SUMS], pl94.CELLS, header.line, f"segments of {header.name}"
    )
    pl94_header.check_header(
        header, "POP100", header.pop100, values[pl94.POPULATION], pl94.CELLS[pl94.POPULATION]
    )
    whole = np.array_equal(header.logrecno, np.arange(1, len(header.logrecno) + 1))
    levels = ["150", "140", "050", "040"] if whole else ["150", "140"]
    pl94_header.check_levels(values, found, levels, pl94.CELLS, header.name)
    blocks = found.rows["750"]
    types = values[[pl94.GROUP_QUARTERS + i for i in pl94.GQ_LEAVES]][:, blocks].T.astype(np.int64)
    housing = values[pl94.HOUSING : pl94.HOUSING + 3, blocks].astype(np.int64)
    people = pl94_records.persons(values, found, header.name)
    people = group_quarters.assign(people, types, housing[0], found.codes["750"], header.name)
    return pl94_records.StateExtract(geography(header, found), people, housing, header.names)


_GQ_SUMS = [
    (pl94.GROUP_QUARTERS + c, [pl94.GROUP_QUARTERS + i for i in parts]) for c, parts in pl94.GQ_SUMS
]
