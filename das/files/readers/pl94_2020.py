"""2020 redistricting (P.L. 94-171) files: four pipe-delimited files a state, without names.

``{ss}geo2020.pl`` (97 fields), ``{ss}000012020.pl`` (P1, P2), ``{ss}000022020.pl`` (P3, P4, H1) and
``{ss}000032020.pl`` (P5), loose or in ``{ss}2020.pl.zip``. Files of the 2018 end-to-end test in
this format (``{ss}geo2018_2020Style.pl``) are read too. Records that are read: geographic variant
and component 00 at the levels state, county, tract, block group and block. Source: 2020 Census
State Redistricting Data (P.L. 94-171) Summary File, technical documentation.

What differs from 2010:

* P5 counts the persons in group quarters by type for each block. The rule of
  :func:`das.files.readers.pl94_records.assign` decides which people of the block they are. A
  block has 1 facility of each type that somebody lives in.
* The files are themselves protected. Their housing counts need not match the header's HU100, which
  is not compared, and occupied units need not match persons. What the records need is checked. A
  nursing home has no more residents than the block has adults; without a housing unit nobody lives
  outside group quarters. A file that breaks this cannot be turned into records without changing
  published counts, and is refused.
* Blocks must add up to block groups and tracts in every file, and to counties and the state in a
  whole one. A file is taken as whole when its record numbers run 1, 2, 3, ... without a gap. A
  selection of records, as distributed for trials, has gaps, and its county and state rows count
  people who are not in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.readers import pl94_common, pl94_records
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_records as group_quarters
from das.files.readers.pl94_records import geography
from das.files.readers.source import (
    DelimitedFormat,
    Member,
    apart,
    batches,
    by_state,
    fixed_width,
    sources,
)
from das.model.names import Names
from das.model.records import Extract
from das.model.schema import Schema

# The layout of 2020 redistricting (P.L. 94-171) files, and their geographic header.
#
# Source: 2020 Census State Redistricting Data (P.L. 94-171) Summary File, technical documentation.

PATTERN = re.compile(
    r"(?P<state>[a-z]{2})(?P<part>geo|00001|00002|00003)(2020\.pl|2018_2020style\.pl)"
)
PARTS = ("geo", "00001", "00002", "00003")
NAMES = "{ss}2020.pl.zip, or its files {ss}geo2020.pl and {ss}000012020.pl to {ss}000032020.pl"
SEGMENTS = {
    1: [*pl94.NAMES["P001"], *pl94.NAMES["P002"]],
    2: [*pl94.NAMES["P003"], *pl94.NAMES["P004"], *pl94.NAMES["H001"]],
    3: pl94.NAMES["P005"],
}
FIELDS = 97
#: Position (from 1) of the header's fields that are read.
POSITIONS = {
    1: "FILEID",
    2: "STUSAB",
    3: "SUMLEV",
    4: "GEOVAR",
    5: "GEOCOMP",
    8: "LOGRECNO",
    13: "STATE",
    15: "COUNTY",
    18: "COUSUB",
    30: "PLACE",
    33: "TRACT",
    34: "BLKGRP",
    35: "BLOCK",
    36: "AIANHH",
    63: "CD116",
    68: "SLDU18",
    73: "SLDL18",
    78: "VTD",
    81: "SDELM",
    82: "SDSEC",
    83: "SDUNI",
    88: "NAME",
    91: "POP100",
    92: "HU100",
}
#: The districts that stand for those of their kind: the only ones that every edition of the file
#: fills.
DISTRICTS = {"CD116": "CD", "SLDU18": "SLDU", "SLDL18": "SLDL"}
#: What is no text in UTF-8.
TYPES = {"LOGRECNO": pa.int64(), "POP100": pa.int64(), "HU100": pa.int64(), "NAME": pa.binary()}


def _kinds() -> dict[str, pa.DataType | None]:
    """The type of each field of the header; None for those that nothing reads."""
    kinds: dict[str, pa.DataType | None] = {}
    for position in range(1, FIELDS + 1):
        name = POSITIONS.get(position, f"field {position}")
        kinds[DISTRICTS.get(name, name)] = (
            TYPES.get(name, pa.string()) if position in POSITIONS else None
        )
    return kinds


def read_header(member: Member, stusab: str) -> pl94_common.Header:
    """The pipe-delimited geographic header."""
    records, lines, kept, start = [], [], [], 0
    named: list[pa.RecordBatch] = []
    for batch in batches(member, DelimitedFormat("|", _kinds())):
        for name, fixed in (("FILEID", "PLST"), ("STUSAB", stusab)):
            pl94.check_id(member, start, name, batch.column(name), fixed)
        records.append(batch.column("LOGRECNO").to_numpy())
        parts = (pa.compute.equal(batch.column(n), "00") for n in ("GEOVAR", "GEOCOMP"))
        whole = pa.compute.and_(*parts)
        of_level, of_named = (
            pa.compute.and_(whole, pa.compute.is_in(batch.column("SUMLEV"), pa.array(list(levels))))
            for levels in (pl94_common.LEVELS, pl94_common.NAMED)
        )
        named.append(batch.filter(of_named))
        lines.append(np.flatnonzero(of_level.to_numpy(zero_copy_only=False)) + start)
        kept.append(batch.drop_columns(["NAME"]).filter(of_level))
        start += len(batch)
    table = pa.Table.from_batches(kept).combine_chunks()
    line = np.concatenate(lines)
    if not len(line):
        raise InputError(
            "has no state, county, tract, block group or block",
            where=member.name,
            remedy=pl94_common.AGAIN,
        )
    widths = {"SUMLEV": 3, **pl94.WIDTHS}
    fields = {
        n: fixed_width(table.column(n).chunk(0), w, f"{n} of {member.name}")
        for n, w in widths.items()
    }
    return pl94_common.Header(
        name=member.name,
        stusab=stusab,
        logrecno=np.concatenate(records),
        line=line,
        sumlev=fields.pop("SUMLEV"),
        fields=fields,
        pop100=table.column("POP100").to_numpy(),
        hu100=table.column("HU100").to_numpy(),
        names=_names(pa.Table.from_batches(named).combine_chunks(), member),
    )


def _names(table: pa.Table, member: Member) -> dict[str, Names]:
    if not len(table):
        return {}
    widths = {"SUMLEV": 3, **pl94.WIDTHS}
    field = {
        n: fixed_width(table.column(n).chunk(0), w, f"{n} of {member.name}")
        for n, w in widths.items()
    }
    name = np.array([n.decode("latin-1") for n in table.column("NAME").to_pylist()])
    return pl94_common.names_of(field.pop("SUMLEV"), field, name)


def read(paths: Sequence[Path], schema: Schema, *, progress: Progress = SILENT) -> Extract:
    """Read all states among ``paths`` (zips, files or folders); together they are one nation.

    ``schema`` has attributes among hhgq, votingage, hispanic and cenrace. Raises
    :class:`InputError` for anything that is not the complete, consistent P.L. 94-171 of each state.
    """
    pl94_records.cell_map(schema)
    groups = by_state(paths, PATTERN, NAMES)
    found = [_read_state(stusab.upper(), parts, progress) for stusab, parts in groups.items()]
    return pl94_records.extract(
        found, schema, sources([m for parts in groups.values() for m in parts.values()])
    )


def states(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each state among ``paths``, which can be read by themselves."""
    return apart(by_state(paths, PATTERN, NAMES))


def _read_state(
    stusab: str, parts: Mapping[str, Member], progress: Progress
) -> pl94_records.StateExtract:
    for part in PARTS:
        if part not in parts:
            raise InputError(
                f"{stusab.lower()}{part}2020.pl is missing",
                where=next(iter(parts.values())).path,
                remedy=f"a state is {NAMES}",
            )
    progress.stage(f"read {stusab}: header", None)
    header = read_header(parts["geo"], stusab)
    found = pl94_common.places(header)
    progress.stage(f"read {stusab}", len(SEGMENTS) * len(header.logrecno))
    values = pl94.segments(
        {n: parts[f"{n:05d}"] for n in SEGMENTS}, header, SEGMENTS, "|", progress
    )
    pl94.check_sums(
        values, [*pl94.IDENTITIES, *_GQ_SUMS], pl94.CELLS, header.line, f"segments of {header.name}"
    )
    pl94_common.check_header(
        header, "POP100", header.pop100, values[pl94.POPULATION], pl94.CELLS[pl94.POPULATION]
    )
    whole = np.array_equal(header.logrecno, np.arange(1, len(header.logrecno) + 1))
    levels = ["150", "140", "050", "040"] if whole else ["150", "140"]
    pl94_common.check_levels(values, found, levels, pl94.CELLS, header.name)
    blocks = found.rows["750"]
    types = values[[pl94.GROUP_QUARTERS + i for i in pl94.GQ_LEAVES]][:, blocks].T.astype(np.int64)
    housing = values[pl94.HOUSING : pl94.HOUSING + 3, blocks].astype(np.int64)
    people = pl94_records.persons(values, found, header.name)
    people = group_quarters.assign(people, types, housing[0], found.codes["750"], header.name)
    return pl94_records.StateExtract(geography(header, found), people, housing, header.names)


_GQ_SUMS = [
    (pl94.GROUP_QUARTERS + c, [pl94.GROUP_QUARTERS + i for i in parts]) for c, parts in pl94.GQ_SUMS
]
