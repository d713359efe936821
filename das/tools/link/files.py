"""The files of a linked population: ``persons``, ``households``, ``group_quarters`` and ``units``,
in Parquet or CSV, and ``crosswalk.csv``, the names that other tools have for their columns.

A household's name is the code of its block, ``H`` and a number; a person's that of the household
and a number, 1 for the householder. Persons in group quarters are named after their facility, the
code of its block, ``G`` and a number. Every row says that it is synthetic.

:mod:`das.publications.dhc.files.linked` reads the folder, and refuses any contradiction in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.files import atomic, csv_text, rows_csv
from das.files import codes as texts
from das.files.parquet import marked
from das.model.names import Codes, text
from das.model.not_private import CELL, COLUMN, Private
from das.publications.dhc.agreement.counted import HOME, type_fields
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import COUPLES, DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.tools.link.population import LinkedPopulation

Ints = NDArray[np.int64]
ArrowColumns = Mapping[str, pa.Array]

#: What every file says of each row.
SYNTHETIC = "synthetic: no household is a real one"
NOTE = "note"
NAMES = ("persons", "households", "group_quarters", "units")
CROSSWALK = "crosswalk.csv"
#: For each file and column the name that another tool has for it.
_OTHERS = (
    ("households", "household", "household_id", "household_id", "SYNTHETIC_HID", "hh_id"),
    ("households", "block", "home_zone_id", "BLOCK", "PLACE", "stcotrbg"),
    ("households", "size", "hhsize", "NP", "NP", "persons"),
    ("households", "hhage", "", "HHAGE", "HHAGE", "hh_age"),
    ("households", "race", "", "RACE", "RACE", "hh_race"),
    ("households", "hhtenshort_3lev", "own_rent", "TEN", "TEN", "tenure"),
    ("persons", "person_id", "person_id", "person_id", "SYNTHETIC_PID", "p_id"),
    ("persons", "household", "household_id", "household_id", "SYNTHETIC_HID", "hh_id"),
    ("persons", "per_num", "PNUM", "per_num", "SPORDER", "relate"),
    ("persons", "block", "home_zone_id", "BLOCK", "PLACE", "stcotrbg"),
    ("persons", "sex", "sex", "SEX", "SEX", "sex"),
    ("persons", "age", "age", "AGEP", "AGEP", "agep"),
    ("persons", "hispanic", "", "HISP", "HISP", "hisp"),
    ("persons", "cenrace", "", "RAC", "RAC1P", "race"),
    ("persons", "relgq", "", "RELSHIPP", "RELP", "relate"),
    ("group_quarters", "gq_id", "household_id", "household_id", "gq_id", "gq_id"),
)
_HEADER = ("file", "column", "ActivitySim", "PopulationSim", "SPEW", "RTI")
#: Rows of a CSV file written at a time.
_BATCH = 1 << 18


def write(
    folder: Path, linked: LinkedPopulation, codes: Codes, *, csv: bool, private: Private
) -> list[Path]:
    """Write the files, all or none; returns their paths. ``codes``: those of the blocks."""
    blocks = text(codes).tolist()
    tables = dict(zip(NAMES, _tables(linked, blocks), strict=True))
    suffix = ".csv" if csv else ".parquet"
    paths = [folder / f"{name}{suffix}" for name in tables]
    with atomic.files(paths) as drafts:
        for columns, draft in zip(tables.values(), drafts, strict=True):
            _write(draft, columns, csv, private)
    rows_csv.write(folder / CROSSWALK, _HEADER, _OTHERS, private=private)
    return [*paths, folder / CROSSWALK]


def _write(path: Path, columns: ArrowColumns, csv: bool, private: Private) -> None:
    rows = len(next(iter(columns.values())))
    said = {**columns, NOTE: _repeated(SYNTHETIC, rows)}
    if csv and not private:
        said[COLUMN] = _repeated(CELL, rows)
    table = pa.table(said)
    if not csv:
        pq.write_table(table.cast(marked(table.schema, private)), path, compression="zstd")
        return
    options = pacsv.WriteOptions(include_header=False, quoting_style="needed")
    with path.open("wb") as file:
        file.write((",".join(table.column_names) + "\n").encode())
        for start in range(0, rows, _BATCH):
            csv_text.write_table(_plain(table.slice(start, _BATCH)), file, options)


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries."""
    return pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


def _repeated(value: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), [value])


def _tables(
    linked: LinkedPopulation, blocks: list[str]
) -> tuple[ArrowColumns, ArrowColumns, ArrowColumns, ArrowColumns]:
    names = _household_names(linked, blocks)
    facility, of_facility, away = _facilities(linked)
    gq = _numbered(facility[:, 0], blocks, "G", 4)
    home, far = len(linked.people), len(away)
    start = np.cumsum(linked.size) - linked.size
    nth = np.arange(home) - start[linked.household] + 1
    inside = np.argsort(of_facility, kind="stable")
    away, of_facility = away[inside], of_facility[inside]
    many = np.bincount(of_facility, minlength=len(facility))
    nth_away = np.arange(far) - (np.cumsum(many) - many)[of_facility] + 1
    number = np.concatenate([nth, nth_away])
    household = np.concatenate([linked.household, np.full(far, -1)])
    gq_of = np.concatenate([np.full(home, -1), of_facility])
    owner = [*(names[h] for h in linked.household.tolist()), *(gq[g] for g in of_facility.tolist())]
    persons = {
        "person_id": pa.array(
            [f"{o}-{n:02d}" for o, n in zip(owner, number.tolist(), strict=True)]
        ),
        "household": _taken(names, household),
        "gq_id": _taken(gq, gq_of),
        "per_num": pa.array(number),
        "block": texts.coded(
            np.concatenate([linked.people.block, facility[of_facility, 0]]), blocks
        ),
        **texts.attributes(
            DHCP, np.concatenate([linked.people.linked(linked.household).cells, away])
        ),
    }
    quarters_table = {
        "gq_id": pa.array(gq, pa.string()),
        "block": texts.coded(facility[:, 0], blocks),
        "type": texts.coded(facility[:, 1], quarters.LEVELS),
        "persons": pa.array(many),
    }
    return persons, _households(linked, names, blocks), quarters_table, _units(linked, blocks)


def _households(linked: LinkedPopulation, names: list[str], blocks: list[str]) -> ArrowColumns:
    kind = np.asarray(np.unravel_index(linked.cell, DHCH.shape)[-1], dtype=np.int64)
    t = type_fields()
    return {
        "household": pa.array(names, pa.string()),
        "block": texts.coded(linked.block, blocks),
        "size": pa.array(linked.size),
        **texts.attributes(DHCH, linked.cell),
        "couple": texts.coded(t.couple[kind], list(COUPLES)),
        **{
            name: pa.array(getattr(t, name)[kind])
            for name in ("relatives", "own", "children", "minor", "multig")
        },
    }


def _units(linked: LinkedPopulation, blocks: list[str]) -> ArrowColumns:
    units = linked.units
    empty = np.flatnonzero(np.diff(units.indptr) == 0)
    nothing = np.zeros_like(empty)
    block, cell, count = (
        np.concatenate(both)
        for both in ((units.unit, empty), (units.cell, nothing), (units.count, nothing))
    )
    return {
        "block": texts.coded(block, blocks),
        **texts.attributes(TENVACGQ, cell),
        "count": pa.array(count),
    }


def _household_names(linked: LinkedPopulation, blocks: list[str]) -> list[str]:
    return _numbered(linked.block, blocks, "H", 4)


def _numbered(block: Ints, blocks: list[str], letter: str, digits: int) -> list[str]:
    """A name for each of some things in order of their blocks."""
    many = np.bincount(block, minlength=len(blocks))
    nth = np.arange(len(block)) - (np.cumsum(many) - many)[block] + 1
    pairs = zip(block.tolist(), nth.tolist(), strict=True)
    return [f"{blocks[b]}{letter}{n:0{digits}d}" for b, n in pairs]


def _facilities(linked: LinkedPopulation) -> tuple[Ints, Ints, Ints]:
    """Block and type of each facility, ``(facilities, 2)``; the facility of each person in group
    quarters, who are spread evenly over those of a block and type; and their cells."""
    there = linked.facilities
    block, kind = np.nonzero(there)
    many = there[block, kind]
    facility = np.stack([np.repeat(block, many), np.repeat(kind, many)], axis=1)
    first = np.zeros_like(there)
    first[block, kind] = np.cumsum(many) - many
    away = linked.away
    unit, cell = np.repeat(away.unit, away.count), np.repeat(away.cell, away.count)
    of = np.asarray(cell // (DHCP.cells // DHCP.shape[0]) - HOME, dtype=np.int64)
    key = unit * len(quarters.TYPES) + of
    order = np.argsort(key, kind="stable")
    unit, of, cell, key = unit[order], of[order], cell[order], key[order]
    starts = np.searchsorted(key, key)
    nth = np.arange(len(key)) - starts
    return facility, first[unit, of] + nth % there[unit, of], cell


def _taken(names: list[str], index: Ints) -> pa.Array:
    """Names by number; none for -1."""
    number = pa.array(index.astype(np.int32), mask=index < 0)
    return pa.DictionaryArray.from_arrays(number, pa.array(names, pa.string()))
