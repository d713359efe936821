"""What a release publishes, checked for consistency: microdata, tables and exact counts agree.

The microdata are counted again; in every unit they meet what is published exactly, and no
structural zero is violated. From these counts every table is written again, and must be the file,
byte for byte. That they follow from the measurements is another question, which estimating again
answers (:mod:`das.runs.recomputing`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from das import tables
from das.accounting.document import ALTERED
from das.errors import InputError, ReleaseError
from das.files.microdata import reading
from das.files.microdata import writing as microdata
from das.files.release import tables as table_files
from das.files.run import run_directory
from das.geography.bounds import groups_of
from das.model.histogram import Histogram
from das.model.not_private import Private
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.opened import OpenedRelease, published_known
from das.release.seal import Wording
from das.tables import Table

TABLES, MICRODATA = "tables", "microdata"
#: Units whose dwellings are looked at together.
_BATCH = 1 << 20


def check_published(opened: OpenedRelease, wording: Wording) -> None:
    """Check a release of redistricting counts, or of one's own universes. Raises
    :class:`ReleaseError` at the first fault."""
    due = dict[str, str]()
    for u in opened.after.universes:
        counts = _counted(opened, u)
        _check_exact(opened, u, counts[opened.spine.levels[-1]], counts)
        if opened.after.tables:
            every = [
                (t, opened.spine.levels) for t in tables.universe_tables(u, opened.assigned(u.name))
            ]
            due |= check_tables(
                opened.folder, opened.spine, every, counts, opened.after.private, wording
            )
    check_names(opened.folder / TABLES, due)
    folders = [u.kind.folder for u in opened.after.universes]
    check_microdata_names(opened.folder, folders, opened.after.csv, opened.after.private, wording)


def _counted(opened: OpenedRelease, universe: Universe) -> dict[str, Histogram]:
    """What the microdata of a universe say, by level."""
    folder = opened.folder / MICRODATA / universe.kind.folder
    try:
        return reading.read(folder, universe, opened.spine.codes[-1]).upward(opened.spine)
    except InputError as error:
        raise ReleaseError(error.what, where=error.where or folder, remedy=ALTERED) from None


def _check_exact(
    opened: OpenedRelease, universe: Universe, lowest: Histogram, counts: Mapping[str, Histogram]
) -> None:
    """In every unit the counts are what is published exactly of it."""
    where = opened.folder / MICRODATA / universe.kind.folder
    tree = opened.tree(universe)
    spine = opened.spine
    if not universe.schema.possible[lowest.cell].all():
        raise ReleaseError(
            "a record is where none can be (a structural zero)", where=where, remedy=ALTERED
        )
    known = opened.known(universe)
    known = known if tree.alike else published_known(universe.schema, known, tree, spine)
    for level, query, exact in known.counts:
        odd = np.flatnonzero((counts[level].answer(query) != exact).any(axis=1))
        if len(odd):
            raise ReleaseError(
                f"{query.name!r} of {level} {spine.code(level, int(odd[0]))} is not what is"
                f" published exactly ({len(odd):,} such units)",
                where=where,
                remedy=ALTERED,
            )
    group, groups = groups_of(universe.schema)
    for start in range(0, lowest.units if known.limits is not None else 0, _BATCH):
        here = lowest.rows(start, min(start + _BATCH, lowest.units))
        held = np.zeros((here.units, groups), dtype=np.int64)
        np.add.at(held, (here.unit, group[here.cell]), here.count)
        assert known.limits is not None
        low, high = known.limits.some(slice(start, start + here.units))
        odd = np.flatnonzero(((held < low) | (held > high)).any(axis=1))
        if len(odd):
            raise ReleaseError(
                f"{spine.levels[-1]} {spine.code(spine.levels[-1], start + int(odd[0]))} has other"
                " people than its dwellings can hold, which are published exactly",
                where=where,
                remedy=ALTERED,
            )


def check_tables(
    release: Path,
    spine: Spine,
    every: Iterable[tuple[Table, Iterable[str]]],
    counts: Mapping[str, Histogram],
    private: Private,
    wording: Wording,
) -> dict[str, str]:
    """Check each table of each level against the microdata. Returns the names of the tables."""
    due = {}
    for table, levels in every:
        for level in levels:
            path = release / TABLES / table_files.file_name(table, level)
            due[path.name] = level
            if not path.is_file():
                raise ReleaseError(
                    "this table is not there, and the specification asks for it",
                    where=path,
                    remedy=ALTERED,
                )
            if table_files.digest(
                table, spine, level, counts[level], private=private
            ) == run_directory.file_digest(path):
                continue
            said = table_files.read(path)
            same = np.array_equal(
                said.codes, spine.codes[spine.index(level)]
            ) and said.columns == tuple(table.columns)
            if not same or not np.array_equal(said.values, table.values(counts[level])):
                raise ReleaseError(
                    "these are not the counts of the microdata", where=path, remedy=ALTERED
                )
            wording.differs("it has the counts of the microdata, and another text", path)
    return due


def check_microdata_names(
    release: Path, folders: Sequence[str], csv: bool, private: Private, wording: Wording
) -> None:
    """There are the folders of microdata that are due, and where they are wanted as text, this is
    their text."""
    check_names(release / MICRODATA, [*folders, *(f"{f}.csv" for f in folders if csv)])
    for folder in folders if csv else ():
        _check_text(release / MICRODATA / folder, private, wording)


def _check_text(folder: Path, private: Private, wording: Wording) -> None:
    """The microdata as text are those of the Parquet files."""
    path = folder.with_name(f"{folder.name}.csv")
    if not path.is_file() or microdata.text_digest(folder, private) != run_directory.file_digest(
        path
    ):
        wording.differs(
            "these are not the records of the Parquet files in the folder next to it", path
        )


def check_names(folder: Path, due: Iterable[str]) -> None:
    """There is nothing but what is due."""
    there = run_directory.entries(folder) if folder.is_dir() else []
    if odd := sorted(set(there) - set(due)):
        raise ReleaseError(
            "no specification asks for this file",
            where=folder / odd[0],
            remedy=f"take it away; or {ALTERED}",
        )
