"""The layout of 2020 redistricting (P.L. 94-171) files, and their geographic header.

Source: 2020 Census State Redistricting Data (P.L. 94-171) Summary File, technical documentation."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from das.errors import InputError
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_header
from das.files.readers.source import DelimitedFormat, Member, batches, fixed_width
from das.model.names import Names

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


def read_header(member: Member, stusab: str) -> pl94_header.Header:
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
            for levels in (pl94_header.LEVELS, pl94_header.NAMED)
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
            remedy=pl94_header.AGAIN,
        )
    widths = {"SUMLEV": 3, **pl94.WIDTHS}
    fields = {
        n: fixed_width(table.column(n).chunk(0), w, f"{n} of {member.name}")
        for n, w in widths.items()
    }
    return pl94_header.Header(
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
    return pl94_header.names_of(field.pop("SUMLEV"), field, name)
