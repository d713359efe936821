"""``intervals/`` of a release: replicates, and intervals of every published count from them.

    replicates (each by itself) -> spreads of each table and level -> intervals

A function of the release, the seed and the number of replicates: the same files for any number of workers. It writes into its own folder
alone; what was made before is kept, so whatever stops it, it goes on. Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from das import tables
from das.accounting.document import NAME as STATEMENT
from das.engine import Progress, executor, in_order
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.release import interval_rows, replicates
from das.files.release.interval_rows import IntervalRows
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS
from das.model.histogram import Histogram
from das.model.not_private import marked
from das.model.universe import Universe
from das.release.post import Opened, open_release
from das.release.replicates import published, replicate
from das.replicates import Interval, Spread, interval
from das.tables import Table
from das.version import __version__

MANIFEST = "manifest.json"
#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22
#: What must stand beside intervals.
SAYS = (
    "Of disclosure avoidance alone: not of coverage or response errors of the census.",
    "Approximate, and by published value: true counts that are small and were published as 0 are missed more often.",
    "Each by itself: of many intervals together some miss.",
)


@dataclass(frozen=True)
class Asked:
    """What is asked for: ``count`` replicates of ``seed``, the ``rule`` and ``coverage`` of intervals, and of which tables and levels (all,
    where none is named)."""

    count: int
    seed: int
    coverage: float
    rule: str = "ct"
    tables: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()


def make(release: Path, out: Path, asked: Asked, *, workers: int, resume: bool, progress: Progress) -> dict[str, int]:
    """Write ``out``; returns the rows of each file.

    Raises:
        UserError: ``out`` has something else in it, or intervals of another seed or release; no such table or level.
    """
    opened = open_release(release)
    chosen = _chosen(opened, asked)
    said = {"release": _digest(release), "seed": asked.seed, "version": __version__}
    _begin(out, said, resume, opened.after.private)
    opened.run  # noqa: B018 - refused before anything is made
    counts = published(opened)
    for u in opened.after.universes:
        first = replicates.path_of(out, u.kind.folder, 0)
        if not first.exists():
            codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
            replicates.write(first, codes, u.schema, counts[u.name], private=opened.after.private)
    left = [n for n in range(1, asked.count + 1)
            if not all(replicates.path_of(out, u.kind.folder, n).exists() for u in opened.after.universes)]  # fmt: skip
    progress.stage("replicates", asked.count)
    progress.advance(asked.count - len(left))
    with executor(min(workers, max(len(left), 1))) as pool:
        for _ in in_order(pool, partial(_made, release, out, asked.seed), left, ahead=2 * workers):
            progress.advance()
    rows = _intervals(opened, out, asked, chosen, progress)
    listed = {"replicates": asked.count, "coverage": asked.coverage, "rule": asked.rule, "says": SAYS, "rows": rows}
    files = {str(p.relative_to(out)): run_directory.file_digest(p) for p in sorted(out.rglob("*.parquet"))}
    atomic.write_json(out / MANIFEST, marked(said | listed | {"digests": files}, opened.after.private))
    return rows


def _begin(out: Path, said: Mapping[str, Any], resume: bool, private: bool) -> None:
    """The manifest says from the first what the folder is of."""
    manifest = out / MANIFEST
    if manifest.is_file():
        before = run_directory.read_json(manifest)
        if other := [key for key, value in said.items() if before.get(key) != value]:
            raise UserError(f"has intervals of another {other[0]}: {before.get(other[0])}", where=out,
                            remedy="take the folder away, or name another --out")  # fmt: skip
        if not resume and "rows" not in before:
            raise UserError("was begun, and not finished", where=out, remedy="go on with --resume, or take it away")
        return
    run_directory.refuse_full(out)
    atomic.write_json(manifest, marked(said, private))


def _digest(release: Path) -> str:
    """What tells the release from any other."""
    return run_directory.file_digest(release / STATEMENT)


def replicates_of(opened: Opened, u: Universe) -> Iterator[Histogram]:
    """The replicates that a release has, in order: those of which its intervals are; none where it has none, or not yet."""
    out = opened.folder / INTERVALS
    if not (out / MANIFEST).is_file():
        return
    said = run_directory.read_json(out / MANIFEST)
    if said.get("release") != _digest(opened.folder):
        raise ReleaseError(
            "these replicates are of another release", where=out, remedy="take the folder away, and make them again"
        )
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    for n in range(1, 1 + int(said.get("replicates", 0))):
        yield replicates.read(replicates.path_of(out, u.kind.folder, n), codes, u.schema)


# --- replicates ----------------------------------------------------------------------------------------------


def _made(release: Path, out: Path, seed: int, number: int) -> None:
    """One replicate, by whatever process."""
    opened, counts = _opened(release)
    found = replicate(opened, counts, number, seed)
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    for u in opened.after.universes:
        path = replicates.path_of(out, u.kind.folder, number)
        replicates.write(path, codes, u.schema, found[u.name], private=opened.after.private)


@lru_cache(maxsize=1)
def _opened(release: Path) -> tuple[Opened, dict[str, Histogram]]:
    opened = open_release(release)
    return opened, published(opened)


# --- intervals -----------------------------------------------------------------------------------------------


def _chosen(opened: Opened, asked: Asked) -> list[tuple[Universe, Table, str]]:
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


def _intervals(
    opened: Opened, out: Path, asked: Asked, chosen: Sequence[tuple[Universe, Table, str]], progress: Progress
) -> dict[str, int]:
    rows: dict[str, int] = {}
    progress.stage("intervals", len(chosen))
    spine = opened.spine
    codes = replicates.codes_of(spine, spine.levels[-1])
    for u in opened.after.universes:
        of_u = [(table, level) for other, table, level in chosen if other is u]
        if not of_u:
            continue
        paths = [replicates.path_of(out, u.kind.folder, n) for n in range(asked.count + 1)]
        found = [replicates.read(path, codes, u.schema).upward(spine) for path in paths]
        for table, level in of_u:
            name = f"{table.name}_{level}.parquet"
            parts = _parts(opened, table, level, [levels[level] for levels in found], asked)
            rows[name] = interval_rows.write(out / name, table, parts, private=opened.after.private)
            progress.advance()
    for path in out.glob("*.parquet"):
        if path.name not in rows:
            path.unlink()  # of other replicates, or another coverage
    return rows


def _parts(
    opened: Opened, table: Table, level: str, found: Sequence[Histogram], asked: Asked
) -> Iterator[IntervalRows]:
    """Some units at a time: of the release, the first of ``found``, and its replicates."""
    codes = replicates.codes_of(opened.spine, level)
    for start, stop in opened.spine.batches(level, len(table.columns), BATCH):
        value = table.values(found[0].rows(start, stop))
        first, second = np.zeros_like(value), np.zeros_like(value)
        for h in found[1:]:
            d = table.values(h.rows(start, stop)) - value
            first += d
            second += d * d
        spread = Spread(len(found) - 1, first, second)
        made: Interval = interval(value, spread, asked.coverage, asked.rule)
        yield IntervalRows(codes[start:stop], value, spread, made)
