"""``release/report.html``: what was measured and guaranteed, and the published numbers beside the
noisy ones.

A function of published values alone, and so as public as they are: no argument of it knows the
truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from das.model.kinds import kind_of
from das.report import lookup, release_figures
from das.report.answers import SMALL, Answers, Shown
from das.report.facts import Facts, ListedDraw
from das.report.template import environment

#: Levels with no more units than this have them all listed.
LISTED = 60
#: Before an interval that the published count lies outside of; ``lookup.js`` has the same.
OUTSIDE = "\u2691 outside "


def release_html(
    shown: Shown,
    facts: Facts,
    draws: Mapping[str, Sequence[ListedDraw]],
    *,
    says: Sequence[str] = (),
    privacy_page: bool = False,
    worse: Sequence[Any] = (),
    prior: Sequence[Any] = (),
) -> str:
    """``draws`` are the measurements by universe, persons first; ``says`` what a reader of the
    privacy statement must know; ``worse`` the queries that are published worse than they were
    measured; ``prior`` how the lowest units were assumed to spread.

    The same arguments give the same page: it holds no time and no name of a machine.
    """
    persons = next(iter(draws.values()))
    page = environment().get_template("release.html")
    return page.render(
        confidential=False,
        private=facts["private"],
        facts=facts,
        levels=[(lv, shown.spine.units(lv)) for lv in shown.spine.levels],
        says=says,
        privacy_page=privacy_page,
        worse=worse,
        prior=prior,
        plans={kind_of(universe).records: _grid(rows) for universe, rows in draws.items()},
        bought_figure=Markup(release_figures.bought(persons)),
        nothing=[(d.level, d.title, d.share) for d in persons if d.nothing],
        budget_figures=[Markup(f) for f in release_figures.budget(persons)],
        scale_figure=Markup(release_figures.scales(persons)),
        totals=[_total(shown.total(u, lv)) for u in shown.universes for lv in shown.spine.levels],
        root=_root(shown),
        listed=[_listed(shown, lv) for lv in shown.whole if 1 < shown.spine.units(lv) <= LISTED],
        beside_figures=[Markup(f) for f in release_figures.beside(shown)],
        lookup=Markup(lookup.data(shown)),
        left_out=[lv for lv in shown.spine.levels if lv not in shown.whole],
    )


def _grid(draws: Sequence[ListedDraw]) -> dict[str, Any]:
    """Queries down, those of few answers first, levels across."""
    levels = list(dict.fromkeys(d.level for d in draws))
    queries = {d.query: d.answers for d in sorted(draws, key=lambda d: d.answers)}
    titles = {d.query: d.title for d in draws}
    return {
        "levels": levels,
        "queries": queries,
        "titles": titles,
        "at": {(d.query, d.level): d for d in draws},
    }


def _total(a: Answers) -> dict[str, Any]:
    published = a.published[:, 0]
    return {
        "records": a.records,
        "level": a.level,
        "units": len(published),
        "least": published.min(),
        "middle": int(np.quantile(published, 0.5, method="inverted_cdf")),
        "most": published.max(),
        "says": "exact" if a.exact else _margin(a),
    }


def _margin(a: Answers) -> str:
    """In words: one margin, or the range of those of the units that have one."""
    known = np.zeros(0, dtype=np.int64) if a.within is None else a.within[a.within >= 0]
    if not known.size:
        return "unknown"
    low, high = known.min(), known.max()
    return f"±{low:,}" if low == high else f"±{low:,} to ±{high:,}"


def _root(shown: Shown) -> list[dict[str, Any]]:
    """Every query of the root, answer by answer."""
    return [
        {
            "title": a.title,
            "query": a.query,
            "records": a.records,
            "rows": [(label, *_cells(a, 0, i)) for i, label in enumerate(a.labels)],
        }
        for a in shown.at(shown.spine.levels[0])
    ]


def _cells(a: Answers, unit: int, answer: int) -> tuple[int, str, str]:
    """Published, noisy and the interval from all that is known; a published count that lies outside
    is marked.
    """
    published = int(a.published[unit, answer])
    noisy = _number(int(a.noisy[unit, answer])) if a.noisy is not None and a.measured[unit] else ""
    return published, noisy or ("exact" if a.exact else "not measured"), _interval(a, unit, answer)


def _interval(a: Answers, unit: int, answer: int) -> str:
    published = int(a.published[unit, answer])
    if a.exact:
        return _number(published)
    ends = a.interval(unit, answer)
    if ends is None:
        return "–"
    low, high = ends
    mark = "" if low <= published <= high else OUTSIDE
    return f"{mark}{_number(low)} to {_number(high)}" if low < high else f"{mark}{_number(low)}"


def _number(value: int) -> str:
    return f"{value:,}".replace("-", "−")


def _listed(shown: Shown, level: str) -> dict[str, Any]:
    """The units of a small level: totals with their noise, and the published answers of small
    queries.
    """
    totals = [a for a in shown.at(level) if a.query == "total"]
    others = [a for a in shown.at(level) if 1 < len(a.labels) <= SMALL]
    return {
        "level": level,
        "totals": [a.records for a in totals],
        "groups": [(f"{a.title} ({a.records})", a.labels) for a in others],
        "rows": [
            (
                shown.spine.title(level, u),
                [_cells(a, u, 0) for a in totals],
                [(int(v), i == 0) for a in others for i, v in enumerate(a.published[u])],
            )
            for u in range(shown.spine.units(level))
        ],
    }
