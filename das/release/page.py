"""``release/report.html``, from the files of a release and the counts that were published from them.

Like ``das.release.post``, nothing here can see the truth; ``das estimate --from`` writes the same page again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from das.accounting.document import Stated
from das.files.release import statement as privacy_statement
from das.files.run import run_directory
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.universe import Planned
from das.release.intervals import Intervals
from das.release.post import Opened
from das.report.answers import Answers, Shown, World, across, gather, read
from das.report.facts import facts
from das.report.release_figures import ListedDraw
from das.report.release_page import release_html

NAME = "report.html"


def shown(release: Opened, published: Mapping[str, Mapping[str, Histogram]]) -> Shown:
    """What the pages show of a release; ``published`` are its counts by universe and level."""
    worlds = [_world(release, u, published[u.name]) for u in release.spec.universes]
    return gather(release.spine, worlds, areas=release.areas())


def answers(
    release: Opened,
    published: Mapping[str, Mapping[str, Histogram]],
    universe: Planned,
    level: str | Areas,
    query: str,
) -> Answers:
    """The answers to one query at one level, or of areas across the levels, as the pages have them."""
    world, asked = _world(release, universe, published[universe.name]), universe.schema.query(query)
    if isinstance(level, str):
        return read(world, [asked], level)[0]
    lowest = release.spine.levels[-1]
    return across(world, asked, level.kind, level.histogram(world.published[lowest]).answer(asked), lowest)


def _world(release: Opened, u: Planned, published: Mapping[str, Histogram]) -> World:
    exact = exact_queries(privacy_statement.read(release.folder), u.name, release.spine.levels)
    return World(u.name, u.schema, u.plan, published, release.source(u), exact,
                 Intervals(release, u).read, release.assigned(u.name))  # fmt: skip


def write(release: Opened, what: Shown, out: Path, worse: Sequence[Any] = ()) -> None:
    """Write the page under ``out``. ``worse``: what is published worse than it was measured, with the fields of
    :class:`das.release.residuals.Misfit`."""
    privacy, spec = privacy_statement.read(release.folder), release.spec
    draws = {u.name: _draws(release, u) for u in spec.universes}
    page = release_html(what, facts(spec.run.name, spec.persons.schema, privacy), draws, says=privacy.says,
                        privacy_page=(out / "privacy.html").is_file(), worse=worse)  # fmt: skip
    run_directory.write_text(out / NAME, page)


def exact_queries(privacy: Stated, universe: str, levels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By level, the queries that are invariant: where the statement says so, and at all levels above, as sums."""
    said = [(levels.index(c.level), c.query) for c in privacy.outside
            if (c.universe, c.sign) == (universe, "=")]  # fmt: skip
    return {level: tuple(q for depth, q in said if depth >= i) for i, level in enumerate(levels)}


def _draws(release: Opened, u: Planned) -> list[ListedDraw]:
    rows = [(d, u.schema.query(d.query)) for d in u.plan.draws]
    return [
        ListedDraw(u.name, d.level, d.query, q.title, release.spine.units(d.level), q.answers,
                 float(d.cost / u.plan.cost), d.margin())
        for d, q in rows
    ]  # fmt: skip
