"""Tables of a release of the S-DHC in the tight mode: least squares of its measurements, with
intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from das.files.sdhc import tables
from das.model.sdhc.published import TITLES, CellEstimate, PublishedCell
from das.model.sdhc.sensitivity import untruncated
from das.model.sdhc.tables import EXCESS, EXCESS_CHILDREN, LEFT_OUT, TABLES
from das.release.sdhc import OpenedSdhc
from das.sdhc.intervals import combined, count_of
from das.sdhc.least_squares import RegionEstimates, estimated, non_negative
from das.threads import one_thread

#: Persons that tables leave out.
_EXCESS = tuple(
    PublishedCell(table, "*", c, (table, cells))
    for table, c, cells in (
        (EXCESS, 1, (2, 3)),
        (EXCESS, 2, (2,)),
        (EXCESS, 3, (3,)),
        (EXCESS_CHILDREN, 2, (2,)),
    )
)


@one_thread()
def estimates(opened: OpenedSdhc) -> list[CellEstimate]:
    """Every published cell of every region, nation first."""
    part = opened.spec.sdhc
    whole = untruncated(part.mode, part.relation) is not None
    found = estimated(opened.measured, whole)
    return [c for e in found for c in (*combined(e, part.most.persons), *_left_out(e))]


def _left_out(e: RegionEstimates) -> Iterator[CellEstimate]:
    fitted = non_negative(e)
    for cell in _EXCESS:
        for r, region in enumerate(e.regions):
            if (found := count_of(e, r, region, cell, fitted[r])) is not None:
                yield found


def write(opened: OpenedSdhc, found: Sequence[CellEstimate]) -> dict[str, int]:
    """One file for each table: how many rows each has."""
    rows = {}
    for table in TITLES:
        of = [(c, counted(opened, c.cell)) for c in found if c.cell.table == table]
        if of:
            rows[table] = tables.write(opened.folder, table, of, opened.spec.run.private)
    return rows


def counted(opened: OpenedSdhc, cell: PublishedCell) -> int | None:
    """How many persons of one address a cell counts, where not all."""
    part, table = opened.spec.sdhc, cell.above[0]
    if table in LEFT_OUT or not TABLES[table].people:
        return None
    if cell.iteration == "*" and table == untruncated(part.mode, part.relation):
        return None
    return opened.spec.tau[table]
