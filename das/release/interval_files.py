"""What is written beside the intervals of a release: a page to look them up on, and what each file
and column means.

The page of the release is sealed, and stays as it is: the one here is the same look-up, with one
column more. Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from das.files import atomic
from das.files.release import replicates
from das.model.count_range import count_range, range_of_areas
from das.model.histogram import Histogram
from das.model.universe import Universe
from das.release import interval_dictionary, page
from das.release.post import Opened
from das.release.replicated import BY_TRUTH, ENOUGH, PAGE, AskedIntervals, Tabulated
from das.replicates import ReplicateErrors, interval
from das.report.answers import Answers, Shown
from das.report.interval_page import interval_html

#: By level, counts of the release or of a replicate.
CountsByLevel = Mapping[str, Histogram]


def write(of: Tabulated, out: Path, asked: AskedIntervals, tables: Collection[str]) -> None:
    """Into ``out``, which has the replicates, and intervals of ``tables``. Of the demographic file
    there is no page.
    """
    paged = isinstance(of.opened, Opened)
    atomic.write_text(
        out / interval_dictionary.NAME, interval_dictionary.text(of, set(tables), paged=paged)
    )
    if isinstance(of.opened, Opened):
        _page(of.opened, out, asked, of.says(asked.rule))


def _page(opened: Opened, out: Path, asked: AskedIntervals, says: Sequence[str]) -> None:
    held = {u.name: _held(opened, out, u, asked.count) for u in opened.after.universes}
    shown = replicated(
        opened, page.shown(opened, {name: found[0] for name, found in held.items()}), held, asked
    )
    html = interval_html(
        shown,
        opened.after.name,
        asked.coverage,
        asked.count,
        ENOUGH,
        says,
        private=opened.after.private,
    )
    atomic.write_text(out / PAGE, html)


def replicated(
    opened: Opened, shown: Shown, held: Mapping[str, Sequence[CountsByLevel]], asked: AskedIntervals
) -> Shown:
    """What a page shows, with the interval of every published answer; ``held`` are the counts of
    the release and of its replicates, by universe."""
    lowest, schemas = opened.spine.levels[-1], {u.name: u.schema for u in opened.after.universes}
    bounds = {u.name: opened.published_bounds(u) for u in opened.after.universes}
    kinds = {areas.kind: areas for areas in shown.areas}
    off = {
        (name, areas.kind): [areas.histogram(levels[lowest]) for levels in found]
        for name, found in held.items()
        for areas in shown.areas
    }

    def of(a: Answers) -> Answers:
        query, found = schemas[a.universe].query(a.query), held[a.universe]
        counts = off.get((a.universe, a.level)) or [levels[a.level] for levels in found]
        spread = ReplicateErrors.over(a.published, (h.answer(query) for h in counts[1:]))
        masks = query.index == np.arange(query.answers)[:, None]
        if a.level in kinds:
            within = range_of_areas(bounds[a.universe][lowest], opened.spine, kinds[a.level], masks)
        else:
            within = count_range(bounds[a.universe][a.level], masks, 0, len(a.published))
        rule = "ct" if asked.rule == BY_TRUTH else asked.rule
        made = interval(a.published, spread, asked.coverage, rule, within=within)
        return replace(a, lower=made.lower.astype(np.int64), upper=made.upper.astype(np.int64))

    return replace(shown, answers=tuple(of(a) for a in shown.answers))


def _held(opened: Opened, out: Path, u: Universe, count: int) -> list[CountsByLevel]:
    """The release, and its replicates after it."""
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    paths = [replicates.path_of(out, u.kind.folder, n) for n in range(count + 1)]
    return [replicates.read(path, codes, u.schema).upward(opened.spine) for path in paths]
