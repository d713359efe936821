"""Redistricting files (P.L. 94-171) of 2010 or 2020 as counts that were published, not as records.

Everybody can read them, so there is nothing confidential here, and no record is made of them.
Blocks are read; the rows of other levels are their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.readers import pl94_2010, pl94_2020, pl94_common
from das.files.readers import pl94_common as pl94
from das.files.readers.pl94_records import geography
from das.files.readers.source import Member, by_state
from das.model.source import CountsByBlock

_2010 = "2010.pl"
_NAMES = f"{pl94_2020.NAMES}; or of 2010 {pl94_2010.NAMES}"


def read(paths: Sequence[Path], *, progress: Progress = SILENT) -> CountsByBlock:
    """The published counts of all states among ``paths`` (zips, files or folders), of one year.

    Raises:
        InputError: there are no such files, one is missing, or they do not agree with each other.
    """
    try:
        groups = by_state(paths, pl94_2020.PATTERN, _NAMES)
    except InputError as error:
        try:
            groups = by_state(paths, pl94_2010.PATTERN, _NAMES)
        except InputError:
            raise error from None
    return CountsByBlock.joined(
        [_state(state.upper(), parts, progress) for state, parts in groups.items()]
    )


def _state(stusab: str, parts: Mapping[str, Member], progress: Progress) -> CountsByBlock:
    old = any(part.endswith(_2010) for part in parts)
    end, layout = (_2010, pl94_2010) if old else ("", pl94_2020)
    needed = [f"{part}{end}" for part in ("geo", *(f"{n:05d}" for n in layout.SEGMENTS))]
    if lost := [part for part in needed if part not in parts]:
        raise InputError(
            f"the part {lost[0]} of state {stusab} is missing",
            where=next(iter(parts.values())).path,
            remedy=f"a state is {_NAMES}",
        )
    progress.stage(f"read {stusab}: header", None)
    geo = parts[needed[0]]
    header = (
        pl94_2010.read_header(geo, "PLST", stusab) if old else pl94_2020.read_header(geo, stusab)
    )
    found = pl94_common.places(header)
    progress.stage(f"read {stusab}", len(layout.SEGMENTS) * len(header.logrecno))
    segments = {n: parts[f"{n:05d}{end}"] for n in layout.SEGMENTS}
    values = pl94.segments(segments, header, layout.SEGMENTS, "," if old else "|", progress)
    where = f"segments of {header.name}"
    pl94.check_sums(values, pl94.IDENTITIES, pl94.CELLS, header.line, where)
    blocks = np.ascontiguousarray(values[:, found.rows["750"]])
    columns = tuple(name for names in layout.SEGMENTS.values() for name in names)
    return CountsByBlock(columns, blocks, geography(header, found), header.names, header.name)
