"""The records of a study of protection methods, from its input to a file in the study's folder,
which is confidential as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError, SpecError
from das.files import messages
from das.geography import tabulation
from das.model.confidential import Confidential
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import Codes, Names, geoids
from das.model.records import Blocks
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.spine import Spine
from das.publications.dhc.files import linked, persons
from das.publications.dhc.files.linked import linked_household
from das.publications.dhc.model.members import HousedPersons, LinkedPersons
from das.publications.dhc.model.persons import DHCP
from das.tools.protection.census_tables import recoded
from das.tools.protection.study.files import read_points
from das.tools.protection.study.spec import LINKED, StudyGeography, StudySpec
from das.tools.protection.truth.method import NO_HOUSEHOLD, StudyRecords
from das.truth import readers


def read(
    spec: StudySpec, schema: Schema, progress: Progress = SILENT
) -> Confidential[StudyRecords]:
    """The records that a study names, in cells of ``schema``. Raises :class:`InputError` as the
    readers do, and where a level is not in the input."""
    found = (
        _linked(spec, schema, progress)
        if spec.data.reader == LINKED
        else _table(spec, schema, progress)
    )
    if spec.data.points is None:
        return Confidential(found)
    level, codes = found.spine.levels[-1], found.spine.codes[-1]
    at = read_points(Path(spec.data.points), codes, found.spine.geoids(level))
    return Confidential(
        StudyRecords(schema, found.spine, found.place, found.cell, found.household, at)
    )


def blocks(folder: Path) -> Codes:
    """The codes of the blocks of linked records. The list is public."""
    return linked.blocks(folder)


def _linked(spec: StudySpec, schema: Schema, progress: Progress) -> StudyRecords:
    if len(spec.data.path) != 1:
        raise SpecError("linked records are one folder", where="data.path", remedy="name it alone")
    found = linked.tables(Path(spec.data.path[0]), encoding=spec.data.encoding, progress=progress)
    spine, unit = _tree(_levels(found.codes, spec.geography), spec.geography)
    people = found.people.rows
    each = np.repeat(np.arange(len(people)), people.count)
    home = np.full(len(each), NO_HOUSEHOLD, dtype=np.int64)
    inside = ~people.household.empty[each]
    named = people.household.index[each][inside]
    home[inside] = np.unique(named, return_inverse=True)[1].ravel()
    cell = recoded(people.cell[each], DHCP, schema)
    return StudyRecords(schema, spine, unit[found.people.block[each]], cell, home)


def _levels(codes: Codes, geography: StudyGeography) -> Blocks:
    """The code of each block at each level: its first characters."""
    *above, lowest = geography.levels
    width = codes.dtype.itemsize
    fields = {}
    for level in above:
        size = geography.prefixes.get(level)
        if size is None and level != geography.levels[0]:
            raise SpecError(
                f"{level} needs the length of its codes",
                where="geography.prefixes",
                remedy=f"such as {level} = 11: how many characters of a block's code it has",
            )
        if size is not None:
            if not 0 < size < width:
                raise SpecError(
                    f"a code of {size} characters, of {width}", where=f"geography.prefixes.{level}"
                )
            fields[level] = codes.astype(f"S{size}")
    return Blocks({**fields, lowest: codes})


def _table(spec: StudySpec, schema: Schema, progress: Progress) -> StudyRecords:
    places = None if spec.geography.places is None else Path(spec.geography.places)
    found = persons.read(
        [Path(p) for p in spec.data.path],
        schema,
        columns=spec.data.columns or {},
        household=spec.data.household,
        encoding=spec.data.encoding,
        places=places,
        progress=progress,
    )
    spine, unit = _tree(found.blocks, spec.geography)
    return StudyRecords(schema, spine, unit[found.place], found.cell, found.household)


def _tree(blocks: Blocks, geography: StudyGeography) -> tuple[Spine, NDArray[np.int64]]:
    spine, unit = tabulation.spine(blocks, geography.levels)
    if len(np.unique(unit)) != len(unit):
        raise InputError(
            f"several places of the input are in one unit of {geography.levels[-1]}",
            where="geography.levels",
            remedy="end with the lowest level of the input",
        )
    return spine, unit


# --- in the study's folder


def write(path: Path, records: Confidential[StudyRecords]) -> None:
    """Keep the records for the tasks of a study. The schema is that of the study, and not kept."""
    known = records.open("to keep them in the study's folder, where its tasks read them")
    arrays: dict[str, NDArray[Any]] = {"place": known.place, "cell": known.cell}
    for name, value in (("household", known.household), ("points", known.points)):
        if value is not None:
            arrays[name] = value
    for depth, level in enumerate(known.spine.levels):
        arrays[f"code:{level}"] = known.spine.codes[depth]
        arrays[f"parent:{level}"] = known.spine.parent[depth]
        arrays[f"name:{level}"] = known.spine.names[depth]
    messages.write(path, arrays, 0o600)


def load(path: Path, schema: Schema) -> Confidential[StudyRecords]:
    """The records that :func:`write` kept."""
    arrays = messages.read(path)
    codes = messages.parted(arrays, "code")
    parents, names = messages.parted(arrays, "parent"), messages.parted(arrays, "name")
    spine = Spine(
        tuple(codes), tuple(codes.values()), tuple(parents.values()), tuple(names.values())
    )
    return Confidential(
        StudyRecords(
            schema,
            spine,
            arrays["place"],
            arrays["cell"],
            arrays.get("household"),
            arrays.get("points"),
        )
    )


def restricted(
    records: Confidential[StudyRecords], level: str, units: NDArray[np.int64]
) -> Confidential[StudyRecords]:
    """The records of some units of ``level``, over the tree of these."""
    known = records.open("a part of them, which stays in its box")
    spine = known.spine
    kept = spine.kept(level, units)[-1]
    place = np.full(spine.units(spine.levels[-1]), -1)
    place[kept] = np.arange(len(kept))
    inside = place[known.place] >= 0
    home = None if known.household is None else known.household[inside]
    if home is not None:
        homes = np.unique(home[home != NO_HOUSEHOLD])
        home = np.where(home == NO_HOUSEHOLD, NO_HOUSEHOLD, np.searchsorted(homes, home))
    points_of = None if known.points is None else known.points[kept]
    return Confidential(
        StudyRecords(
            known.schema,
            spine.restricted(level, units),
            place[known.place[inside]],
            known.cell[inside],
            home,
            points_of,
        )
    )


def sample(records: Confidential[StudyRecords], spec: StudySpec) -> tuple[NDArray[np.int64], int]:
    """The units of the sampled level that are attacked, drawn among those with persons without
    replacement; and how many those are."""
    known = records.open("to sample among the places with persons, which are published")
    level = spec.sample_level
    of = known.spine.up(known.spine.levels[-1], level)
    inhabited = np.unique(of[known.place])
    wanted = spec.sample.units
    if not len(inhabited):
        raise InputError("there are no persons", where="data.path", remedy="name the records")
    if wanted == "all" or wanted >= len(inhabited):
        return inhabited, len(inhabited)
    drawn = np.random.default_rng(spec.sample.seed).choice(inhabited, wanted, replace=False)
    return np.sort(drawn), len(inhabited)


# The persons of linked records, in the cells and places of an attack.


def linked_people(folder: Path, spine: Spine, schema: Schema) -> Confidential[Histogram]:
    """Counts of the lowest level of ``spine`` by cell of ``schema``, of those who live there.
    Raises :class:`InputError` where nobody does."""
    found = linked.tables(folder)
    rows = found.people.rows
    unit = _places(spine, found.codes)[found.people.block]
    inside = unit >= 0
    if not inside.any():
        raise InputError(
            "no record is in a place of the tables", where=folder, remedy="compare their codes"
        )
    cell = recoded(rows.cell[inside], DHCP, schema)
    units = spine.units(spine.levels[-1])
    return Confidential(
        Histogram.from_triplets(units, schema.cells, unit[inside], cell, rows.count[inside])
    )


def housed_people(folder: Path, spine: Spine) -> Confidential[HousedPersons]:
    """The persons of linked records in units of the lowest level, with their households. Raises
    :class:`InputError` where nobody lives in a unit."""
    found = linked.tables(folder)
    rows, homes = found.people.rows, found.homes.rows
    unit = _places(spine, found.codes)[found.people.block]
    inside = np.repeat(unit >= 0, rows.count)
    if not inside.any():
        raise InputError(
            "no record is in a place of the release", where=folder, remedy="compare their codes"
        )
    household = np.repeat(linked_household(rows, homes), rows.count)[inside]
    levels = (np.repeat(x, rows.count)[inside] for x in rows.levels().values())
    of, number = np.unique(household, return_inverse=True)
    away = int(of[0] < 0)
    people = LinkedPersons(number.reshape(-1) - away, *levels)
    place = np.repeat(unit, rows.count)[inside]
    return Confidential(HousedPersons(people, place, len(of) - away))


def _places(spine: Spine, blocks: Codes) -> NDArray[np.int64]:
    """The unit of the lowest level that each block is, or is in; -1 for none. Codes of blocks can
    have the digit of their group, or be standard GEOIDs."""
    lowest = spine.levels[-1]
    width = spine.codes[-1].dtype.itemsize
    unit = spine.find(lowest, blocks)
    if (unit < 0).all():
        unit = spine.find(lowest, geoids("Block", blocks))
    if (unit < 0).all() and width < blocks.dtype.itemsize:
        unit = spine.find(lowest, blocks.astype(f"S{width}"))
    return unit


# Counts by place and cell, with all that places are in: what a coarsening is found from.


@dataclass(frozen=True, eq=False)
class CountedPlaces(Frozen):
    """``fields``: by kind of districts, the code of each lowest unit, ``(units,)``; ``names`` of
    districts by kind."""

    schema: Schema
    spine: Spine
    counts: Confidential[Histogram]
    fields: Mapping[str, Codes]
    names: Mapping[str, Names]


#: Readers by what the names of a redistricting file's files have in them, and the levels of their places.
_READERS = {"2010": "pl94-2010", "2020": "pl94-2020"}
_LEVELS = ("State", "County", "Tract", "Block_Group", "Block")


def redistricting(path: Path, progress: Progress) -> CountedPlaces:
    """The persons of redistricting files of a state. Raises :class:`InputError`."""
    if not path.exists():
        raise InputError("is not there", where=path, remedy="check the path")
    names = [*(ZipFile(path).namelist() if is_zipfile(path) else ()), path.name]
    reader = next((r for name in names for y, r in _READERS.items() if y in name), None)
    if reader is None or not path.is_file():
        raise InputError(
            "is no redistricting file, and no folder of linked records",
            where=path,
            remedy="such as ri2010.pl.zip, whose files have their official names: rigeo2010.pl",
        )
    extract = readers.read(reader, [path], PL94, progress=progress)
    spine, unit = tabulation.spine(extract.blocks, _LEVELS)
    known = extract.persons.open("to count them by block, for a coarsening")
    units = spine.units(_LEVELS[-1])
    counts = Histogram.from_triplets(units, PL94.cells, unit[known.block], known.cell, known.count)
    block = np.zeros(units, dtype=np.int64)
    block[unit] = np.arange(len(unit))
    fields = {k: v[block] for k, v in extract.blocks.fields.items() if k not in _LEVELS}
    return CountedPlaces(PL94, spine, Confidential(counts), fields, extract.blocks.names)


def counted(records: Confidential[StudyRecords]) -> CountedPlaces:
    """The records of a study, counted."""
    known = records.open("to count them by place, for a coarsening")
    return CountedPlaces(known.schema, known.spine, Confidential(known.histogram()), {}, {})
