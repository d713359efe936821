"""Areas off the spine as a list of blocks: one's own, or a block-assignment file of the Bureau."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.errors import InputError
from das.files import codes as texts
from das.files.readers.source import DelimitedFormat, batches, members
from das.model.areas import Areas
from das.model.names import Codes
from das.model.spelling import named
from das.model.spine import Spine

#: Columns of a list that name the unit, and those that make up the area's code in block-assignment
#: files.
BLOCK = ("block", "blockid", "blockid10", "blockid20", "geocode", "geoid", "geoid10", "geoid20")
ASSIGNED = (
    "countyfp",
    "district",
    "placefp",
    "cousubfp",
    "aiannhce",
    "comptyp",
    "sldust",
    "sldlst",
    "cdfp",
    "vtdst",
)


@dataclass(frozen=True, eq=False)
class _List:
    """The columns of a list: each line's area and block as text, and the names of the columns."""

    area: Codes
    block: Codes
    every: bool  #: each line must name an area


def read(path: Path, spine: Spine) -> Areas:
    """A list of the lowest units with their areas, as delimited text with a header: ``area,block``
    in any order, or one of the Bureau's block-assignment files (``BLOCKID|DISTRICT``,
    ``BLOCKID|COUNTYFP|DISTRICT``), where a block may be in no area. Blocks are named by their codes
    or their GEOIDs. The kind is the name of the file without its ending.

    Raises:
        InputError: no such file, another header, lines that name no area or no unit, or a unit that
            stands under one area twice: with the first such line, and how many there are."""
    given, level = _list(path), spine.levels[-1]
    blank = np.flatnonzero(given.area == b"")
    if given.every and len(blank):
        _refuse(
            path,
            blank,
            "a line must be an area and a block: there is no area",
            "name one, or delete the line",
        )
    at = spine.find(level, given.block)
    geoid = spine.geoids(level)
    if (at < 0).any() and geoid[0]:
        order = np.argsort(geoid)
        found = order[np.minimum(np.searchsorted(geoid, given.block, sorter=order), len(order) - 1)]
        at = np.where((at < 0) & (geoid[found] == given.block), found, at)
    if len(odd := np.flatnonzero(at < 0)):
        _refuse(
            path,
            odd,
            f"{given.block[odd[0]].decode()!r} is not a unit of level {level!r}",
            "use the codes or the GEOIDs of the release's spine.parquet, and no blocks of"
            " elsewhere",
        )
    inside = np.flatnonzero(given.area != b"")
    if not len(inside):
        raise InputError("no area is listed", where=path, remedy="name an area on each line")
    codes, area = np.unique(given.area[inside], return_inverse=True)
    key = area * spine.units(level) + at[inside]
    _, first = np.unique(key, return_index=True)
    if len(first) < len(key):
        odd = np.delete(inside, first)
        _refuse(
            path,
            odd,
            f"{given.block[odd[0]].decode()!r} stands under {given.area[odd[0]].decode()!r} twice",
            "list it once",
        )
    return Areas(path.name.split(".")[0], codes, area.astype(np.int64), at[inside])


def chosen(blocks: Path | None, kind: str | None, known: Sequence[Areas], spine: Spine) -> Areas:
    """Areas by the file of a list of their blocks, or by their kind among those that are ``known``.
    Raises
    :class:`InputError`."""
    if (blocks is None) == (kind is None):
        kinds = ", ".join(a.kind for a in known) or "none"
        raise InputError(
            "areas are named by a list of their blocks, or by their kind",
            where="--blocks, --kind",
            remedy=(
                f"give one of both, or the --name of a place; this release knows the kinds: {kinds}"
            ),
        )
    if blocks is not None:
        return read(blocks, spine)
    by_kind = {a.kind: a for a in known}
    return by_kind[named(str(kind), list(by_kind), "kind of area", "--kind")]


def _refuse(path: Path, lines: NDArray[np.intp], what: str, remedy: str) -> NoReturn:
    """The first line, and how many."""
    more = f" (and {len(lines) - 1:,} more such lines)" if len(lines) > 1 else ""
    raise InputError(f"{what}{more}", where=f"{path}, line {int(lines[0]) + 2}", remedy=remedy)


def _list(path: Path) -> _List:
    remedy = (
        "write the header area,block, or give a block-assignment file of the Bureau"
        " (BLOCKID|DISTRICT)"
    )
    if not path.exists():
        raise InputError(
            "no such file",
            where=path,
            remedy="name the file of a list of blocks, with the header area,block",
        )
    inside = members(path)
    if len(inside) != 1:
        raise InputError(
            f"there are {len(inside)} files in it", where=path, remedy="give one list of blocks"
        )
    with inside[0].open() as stream:
        first = stream.readline(1 << 16).decode("utf-8-sig", errors="replace")
    delimiter = max("|,;\t", key=first.count)
    names = [n.strip().strip('"').lower() for n in first.strip().split(delimiter)]
    block = [n for n in names if n in BLOCK]
    area = [n for n in names if n == "area"] or [n for n in names if n in ASSIGNED]
    if len(block) != 1 or not area or len(set(names)) != len(names):
        raise InputError(
            f"the first line is {first.strip()[:60]!r}, not 'area,block'", where=path, remedy=remedy
        )
    kinds = {n: pa.string() if n in (*block, *area) else None for n in names}
    parts = list(batches(inside[0], DelimitedFormat(delimiter, kinds, skip=1, quotes=True)))
    if not parts:
        raise InputError("has no records", where=path, remedy=remedy)
    column = {n: _texts([b.column(n) for b in parts]) for n in (*block, *area)}
    whole = column[area[-1]]  # the code within those that stand before it, if there is one
    joined = whole
    for n in reversed(area[:-1]):
        joined = np.strings.add(column[n], joined)
    return _List(np.where(whole == b"", b"", joined), column[block[0]], "area" in area)


def _texts(parts: Sequence[pa.Array]) -> Codes:
    return np.strings.strip(texts.codes(pa.chunked_array(parts)))
