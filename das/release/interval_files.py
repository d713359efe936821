"""What is written of the replicates of a release: an interval of every published count, a page to look them up on, and what each file and
column means.

    replicates -> errors of each table and level -> <Table>_<Level>.parquet
               -> errors of what the page shows  -> index.html

The page of the release is sealed, and stays as it is: the one here is the same look-up, with one column more. Like ``das.release.post``,
nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from das.engine import Progress
from das.files import atomic
from das.files.release import interval_rows, replicates
from das.files.release.interval_rows import IntervalRows
from das.model.histogram import Histogram
from das.model.universe import Universe
from das.release import interval_dictionary, page
from das.release.post import Opened
from das.release.replicated import ENOUGH, PAGE, SAYS, AskedIntervals, file_of
from das.replicates import ReplicateErrors, interval
from das.report.answers import Answers, Shown
from das.report.interval_page import interval_html
from das.tables import Table

#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22

#: By level, counts of the release or of a replicate.
CountsByLevel = Mapping[str, Histogram]


def write(
    opened: Opened, out: Path, asked: AskedIntervals, chosen: Sequence[tuple[Universe, Table, str]], progress: Progress
) -> dict[str, int]:
    """All files beside the replicates that ``out`` has; returns the rows of each table and level that is ``chosen``."""
    rows: dict[str, int] = {}
    progress.stage("intervals", len(chosen) + 1)
    held = {u.name: _held(opened, out, u, asked.count) for u in opened.after.universes}
    for u, table, level in chosen:
        name = file_of(table, level)
        parts = _parts(opened, table, level, [levels[level] for levels in held[u.name]], asked)
        rows[name] = interval_rows.write(out / name, table, parts, private=opened.after.private)
        progress.advance()
    interval_rows.keep(out, rows)  # others are of other replicates, or of another coverage
    atomic.write_text(out / interval_dictionary.NAME, interval_dictionary.text(opened, {t.name for _, t, _ in chosen}))
    shown = replicated(opened, page.shown(opened, {name: found[0] for name, found in held.items()}), held, asked)
    html = interval_html(
        shown, opened.after.name, asked.coverage, asked.count, ENOUGH, SAYS, private=opened.after.private
    )
    atomic.write_text(out / PAGE, html)
    progress.advance()
    return rows


def replicated(
    opened: Opened, shown: Shown, held: Mapping[str, Sequence[CountsByLevel]], asked: AskedIntervals
) -> Shown:
    """What a page shows, with the interval of every published answer; ``held`` are the counts of the release and of its replicates, by
    universe."""
    lowest, schemas = opened.spine.levels[-1], {u.name: u.schema for u in opened.after.universes}
    off = {(name, areas.kind): [areas.histogram(levels[lowest]) for levels in found]
           for name, found in held.items() for areas in shown.areas}  # fmt: skip

    def of(a: Answers) -> Answers:
        query, found = schemas[a.universe].query(a.query), held[a.universe]
        counts = off.get((a.universe, a.level)) or [levels[a.level] for levels in found]
        spread = ReplicateErrors.over(a.published, (h.answer(query) for h in counts[1:]))
        made = interval(a.published, spread, asked.coverage, asked.rule)
        return replace(a, lower=made.lower.astype(np.int64), upper=made.upper.astype(np.int64))

    return replace(shown, answers=tuple(of(a) for a in shown.answers))


def _held(opened: Opened, out: Path, u: Universe, count: int) -> list[CountsByLevel]:
    """The release, and its replicates after it."""
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    paths = [replicates.path_of(out, u.kind.folder, n) for n in range(count + 1)]
    return [replicates.read(path, codes, u.schema).upward(opened.spine) for path in paths]


def _parts(
    opened: Opened, table: Table, level: str, found: Sequence[Histogram], asked: AskedIntervals
) -> Iterator[IntervalRows]:
    """Some units at a time: of the release, the first of ``found``, and its replicates."""
    codes = replicates.codes_of(opened.spine, level)
    for start, stop in opened.spine.batches(level, len(table.columns), BATCH):
        value = table.values(found[0].rows(start, stop))
        spread = ReplicateErrors.over(value, (table.values(h.rows(start, stop)) for h in found[1:]))
        yield IntervalRows(codes[start:stop], value, spread, interval(value, spread, asked.coverage, asked.rule))
