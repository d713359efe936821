"""``intervals/`` of a release, read: replicates, and intervals of every published count from them.

    replicates (das.release.replicates, each by itself) -> errors of each table and level -> intervals (das.release.interval_files)

Reading them needs no noise. Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.accounting.document import NAME as STATEMENT
from das.errors import ReleaseError, UserError
from das.files.release import interval_rows, replicates
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS
from das.model.histogram import Histogram
from das.model.universe import Universe
from das.release.post import Opened
from das.replicates import check_rule
from das.tables import Table

#: Replicates that do for shares, extremes and intervals of many areas at once.
ENOUGH = 50
#: Where places are looked up.
PAGE = "index.html"
#: What must stand beside intervals.
SAYS = (
    "Of disclosure avoidance alone: not of coverage or response errors of the census.",
    "Approximate, and by published value: true counts that are small and were published as 0 are missed more often.",
    "Each by itself: of many intervals together some miss.",
)


@dataclass(frozen=True)
class AskedIntervals:
    """What is asked for: ``count`` replicates of ``seed``, the ``rule`` and ``coverage`` of intervals, and of which tables and levels (all,
    where none is named)."""

    count: int
    seed: int
    coverage: float
    rule: str = "ct"
    tables: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 2 or self.seed < 0:
            raise UserError(f"{self.count} replicates of seed {self.seed}", where="intervals",
                            remedy="two replicates at the least, and a seed of 0 or more")  # fmt: skip
        check_rule(self.coverage, self.rule)


def digest_of(release: Path) -> str:
    """What tells the release from any other."""
    return run_directory.file_digest(release / STATEMENT)


def replicates_of(opened: Opened, u: Universe) -> Iterator[Histogram]:
    """The replicates that a release has, in order: those of which its intervals are; none where it has none, or not yet."""
    out, said = opened.folder / INTERVALS, _said(opened)
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    for n in range(1, 1 + int(said.get("replicates", 0))):
        yield replicates.read(replicates.path_of(out, u.kind.folder, n), codes, u.schema)


def intervals_of(opened: Opened) -> Iterator[tuple[Universe, Table, str, tuple[NDArray[np.int64], ...]]]:
    """Of each table and level of which the release has intervals: published values and the ends of their intervals,
    ``(units, columns)`` each."""
    out = opened.folder / INTERVALS
    if not _said(opened):
        return
    for u, table, level in chosen_of(opened, AskedIntervals(2, 0, 0.9)):
        if (path := out / file_of(table, level)).is_file():
            yield u, table, level, interval_rows.read(path, table, replicates.codes_of(opened.spine, level))


def _said(opened: Opened) -> dict[str, Any]:
    """What the manifest of the intervals of a release says; nothing where it has none. Raises :class:`ReleaseError` where they are
    another release's, or altered."""
    out = opened.folder / INTERVALS
    if not (out / replicates.MANIFEST).is_file():
        return {}
    said = run_directory.read_json(out / replicates.MANIFEST)
    if said.get("release") != digest_of(opened.folder):
        raise ReleaseError(
            "these replicates are of another release", where=out, remedy="take the folder away, and make them again"
        )
    replicates.check(out)
    return said


def file_of(table: Table, level: str) -> str:
    return f"{table.name}_{level}.parquet"


def chosen_of(opened: Opened, asked: AskedIntervals) -> list[tuple[Universe, Table, str]]:
    """Of each table and level that is asked for."""
    every = [(u, t) for u in opened.after.universes for t in tables.of(u, opened.assigned(u.name))]
    for name, known, what in (
        (asked.tables, [t.name for _, t in every], "tables"),
        (asked.levels, opened.spine.levels, "levels"),
    ):
        if lost := [n for n in name if n not in known]:
            raise UserError(
                f"there is no {lost[0]!r}",
                where=f"--{what.removesuffix('s')}",
                remedy=f"the {what} are {', '.join(known)}",
            )
    return [(u, t, level) for u, t in every if not asked.tables or t.name in asked.tables
            for level in opened.spine.levels if not asked.levels or level in asked.levels]  # fmt: skip
