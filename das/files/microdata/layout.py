"""Which columns the microdata file of a schema has, and what each cell and each block puts into them.

Sources: the redistricting microdata detail file of the 2020 production system, persons and units; the
1940 file of the 2018 end-to-end test. Any other schema gets ``geocode``, ``EPNUM`` (persons) and one column
of labels for each attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.schema import E2E_1940, H1, PL94, Schema
from das.model.universe import PERSONS

GEOCODE = "geocode"
SERIAL = "EPNUM"


@dataclass(frozen=True)
class CodedColumn:
    """A coded column: ``values`` are its codes, ``index[k]`` says which of them cell ``k`` has.

    ``decodes`` names the attribute that the column carries: ``levels[i]`` is the level that code ``i``
    means (-1 where a record is of no cell of the schema). A column without it follows from the others.
    """

    name: str
    values: tuple[str, ...]
    index: NDArray[np.int64]
    decodes: str | None = None
    levels: tuple[int, ...] = ()


@dataclass(frozen=True)
class MicrodataLayout:
    """The columns of one file. ``order`` is the header; ``geography`` gives name and width of each part of
    the code of a block, taken from its right end, or the single part ``geocode`` of any width (0)."""

    kind: str
    geography: tuple[tuple[str, int], ...]
    constants: Mapping[str, str]
    columns: tuple[CodedColumn, ...]
    order: tuple[str, ...]

    @property
    def width(self) -> int:
        """Characters of a block's code that the file holds, 0 for all of them."""
        return sum(width for _, width in self.geography)


TABULATION = (("TABBLKST", 2), ("TABBLKCOU", 3), ("TABTRACTCE", 6), ("TABBLKGRPCE", 1), ("TABBLK", 4))
ENUMERATION = (("STATE", 2), ("COUNTY", 4), ("ENUMDIST", 4))
WHOLE = ((GEOCODE, 0),)


def layout(schema: Schema, universe: str, codes: NDArray[np.str_], build: str) -> MicrodataLayout:
    """The layout for a schema whose lowest level has the units ``codes``.

    The block columns of the redistricting and 1940 files are used where every code ends in a block code of
    that file (16, and exactly 10, digits); otherwise one column ``geocode`` holds the whole code.
    """
    if universe == PERSONS and schema.attributes == PL94.attributes:
        return _pl94_persons(_geography(codes, TABULATION), build)
    if universe != PERSONS and schema.attributes == H1.attributes:
        return _pl94_units(_geography(codes, TABULATION), build)
    if universe == PERSONS and schema.attributes == E2E_1940.attributes:
        return _e2e_1940_persons(_geography(codes, ENUMERATION, exact=True))
    return _labelled(schema, universe)


def _geography(
    codes: NDArray[np.str_], parts: tuple[tuple[str, int], ...], exact: bool = False
) -> tuple[tuple[str, int], ...]:
    width = sum(w for _, w in parts)
    length = np.strings.str_len(codes)
    if not len(codes) or (length < width).any() or (exact and (length > width).any()):
        return WHOLE
    tail = tails(codes, width)
    return parts if ((tail >= ord("0")) & (tail <= ord("9"))).all() else WHOLE


def tails(codes: NDArray[np.str_], width: int) -> NDArray[np.uint32]:
    """The last ``width`` characters of each code, ``(units, width)`` code points."""
    codes = np.ascontiguousarray(codes)
    points = codes.view(np.uint32).reshape(len(codes), -1)
    at = np.strings.str_len(codes)[:, None] - width + np.arange(width)
    return np.take_along_axis(points, at, axis=1)


def _column(name: str, schema: Schema, attribute: str, codes: tuple[str, ...]) -> CodedColumn:
    """A column with one code for each level of ``attribute``."""
    return CodedColumn(name, codes, schema.level_of(attribute), attribute, tuple(range(len(codes))))


def _names(geography: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    return tuple(name for name, _ in geography)


def _pl94_persons(geography: tuple[tuple[str, int], ...], build: str) -> MicrodataLayout:
    columns = (
        CodedColumn("RTYPE", ("3", "5"), (PL94.level_of("hhgq") > 0).astype(np.int64)),
        _column("GQTYPE_PL", PL94, "hhgq", tuple(map(str, range(8)))),
        _column("VOTING_AGE", PL94, "votingage", ("1", "2")),
        _column("CENHISP", PL94, "hispanic", ("1", "2")),
        _column("CENRACE", PL94, "cenrace", tuple(f"{i:02d}" for i in range(1, 64))),
    )
    head = {"SCHEMA_TYPE_CODE": "MPD", "SCHEMA_BUILD_ID": build}
    order = (*head, *_names(geography), SERIAL, *(c.name for c in columns))
    return MicrodataLayout("redistricting microdata detail file, persons", geography, head, columns, order)


def _pl94_units(geography: tuple[tuple[str, int], ...], build: str) -> MicrodataLayout:
    # cells: 0 vacant, 1 occupied; 2 a group-quarters facility, of which the file tells no type
    columns = (
        CodedColumn("RTYPE", ("2", "4"), np.array([0, 0, 1])),
        CodedColumn("HH_STATUS", ("0", "1", "2"), np.array([2, 1, 0]), "h1", (-1, 1, 0)),
    )
    head = {"SCHEMA_TYPE_CODE": "MUD", "SCHEMA_BUILD_ID": build}
    order = (*head, *_names(geography), *(c.name for c in columns))
    return MicrodataLayout("redistricting microdata detail file, units", geography, head, columns, order)


def _e2e_1940_persons(geography: tuple[tuple[str, int], ...]) -> MicrodataLayout:
    """The 23 PER columns, and after them ``GQTYPE`` of the UNIT file (000 in a household, else 100 x type + 1).

    In the 1940 files a person's type of group quarters stands in the unit record that EUID names. This file
    has no unit records, so EUID is 0 and the type is written beside the person: nothing of the histogram is
    lost. Codes for what is not measured are those of the 1940 file (QREL 99, QSEX 9, QSPANX 9999, ...).
    """
    s = E2E_1940
    columns = (
        CodedColumn("RTYPE", ("3", "5"), (s.level_of("hhgq") > 0).astype(np.int64)),
        _column("QAGE", s, "votingage", ("17", "18")),
        _column("CENHISP", s, "hispanic", ("1", "2")),
        _column("CENRACE", s, "race", tuple(map(str, range(1, 7)))),
        _column("GQTYPE", s, "hhgq", ("000", *(f"{i}01" for i in range(1, 8)))),
    )
    races = tuple(f"QRACE{i}" for i in range(1, 9))
    constants = {"SCHEMA_TYPE_CODE": "MPD1940", "SCHEMA_BUILD_ID": "3.1.4", "EUID": "0", "QREL": "99", "QSEX": "9"}
    constants |= {"QSPANX": "9999", **dict.fromkeys(races, "9999"), "CIT": "9"}
    order = ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID", *_names(geography), "EUID", SERIAL, "RTYPE", "QREL", "QSEX")
    order += ("QAGE", "CENHISP", "CENRACE", "QSPANX", *races, "CIT", "GQTYPE")
    return MicrodataLayout("1940 microdata detail file, persons", geography, constants, columns, order)


def _labelled(schema: Schema, universe: str) -> MicrodataLayout:
    columns = tuple(_column(a.name, schema, a.name, a.levels) for a in schema.attributes)
    serial = (SERIAL,) if universe == PERSONS else ()
    order = (GEOCODE, *serial, *(c.name for c in columns))
    return MicrodataLayout(f"microdata, {universe}, schema {schema.name}", WHOLE, {}, columns, order)
