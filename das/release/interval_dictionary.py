"""``intervals/dictionary.csv``: what every file of the intervals of a release means, each of its
columns, and each code in them.

The lines of :mod:`das.release.dictionary`. The dictionary of a release is sealed with it, so it
cannot list later additions. File names start at ``intervals/``."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from das.files.release import replicates
from das.files.release.interval_rows import BASIS
from das.files.release.tables import GEOID
from das.model.not_private import Private
from das.model.universe import Universe
from das.release.dictionary import (
    NAME,
    LineParts,
    marks,
    of_codes,
    of_file,
    of_files,
    of_universe,
    written,
)
from das.release.replicate_source import PAGE, ReplicateSource
from das.replicates import BASES
from das.tables import Table

FILES = {
    replicates.MANIFEST: "how the intervals were made and from which release, and digests of all"
    " other files here",
    NAME: "this file",
    PAGE: "look up a place: its published counts with their intervals, and its noisy measurements",
}
PLACE = (
    "the Bureau's standard identifier, which joins to TIGER; of a level that has none, the code of"
    " the unit"
)
#: Columns of intervals, in their order.
COLUMNS = {
    GEOID: PLACE,
    "variable": "the column of the table",
    "label": "what it counts",
    "value": "the published count",
    "lower": "lower end of its interval",
    "upper": "upper end of its interval",
    "moe": "margin of error: half the width of the interval before its ends are made whole",
    "rmse": "root mean squared difference of the replicates from the published count",
    "bias": "mean difference of the replicates from the published count",
    "bias_subtracted": "whether the interval is about the published count less the bias",
    "replicates": "how many replicates there are",
    BASIS: "what the interval rests on; ends are missing of what is not covered",
}


def text(of: ReplicateSource, tables: Collection[str], *, paged: bool) -> str:
    """The file for intervals of the ``tables`` of these names; ``paged`` says whether a page comes
    with them.
    """
    private = of.private
    files = {name: says for name, says in FILES.items() if paged or name != PAGE}
    out = [*of_universe("", of_files(files))]
    for u in of.universes:
        made_up = of.assigned(u)
        lines = list(_replicates(u, private))
        for table in (t for other, t in of.tables if other.name == u.name):
            if table.name in tables:
                lines += _table(u, table, [made_up[a] for a in table.assigned], private)
        out += of_universe(u.name, lines)
    return written(out, private)


def _table(u: Universe, table: Table, made_up: list[str], private: Private) -> Iterator[LineParts]:
    file = f"{table.name}_*.parquet"
    what, rows = f"{table.name}: {table.title} ({u.records})", "one row for each count"
    yield from of_file(file, f"{what}, {rows} that is not 0 everywhere", COLUMNS)
    yield from of_codes(file, "variable", table.columns, table.labels)
    yield from of_codes(file, BASIS, BASES, BASES.values())
    yield from marks(file, made_up, private)


def _replicates(u: Universe, private: Private) -> Iterator[LineParts]:
    file = f"{replicates.NAME}/{u.kind.folder}/replicate=*/part-*.parquet"
    says = (
        f"replicates of {u.records}, and as number 000 the release: one row for each cell of a unit"
        " of the lowest level in which anybody is"
    )
    yield from of_file(file, says, {GEOID: PLACE})
    for a in u.schema.attributes:
        yield "column", file, a.name, "", a.title
        yield from of_codes(file, a.name, a.levels, a.labels)
    yield "column", file, replicates.COUNT, "", "how many there are in the cell"
    yield from marks(file, [], private)
