"""``release/report.html``: a look-up of every place, how sure its numbers are, what protects
people, and where the files are; for specialists, what was measured.

A function of published values alone, and so as public as they are: no argument of it knows the
truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from das.model.kinds import kind_of
from das.report import lookup, release_figures
from das.report.answers import Answers, Shown
from das.report.facts import Facts, ListedMeasurement
from das.report.public import PublicFrame
from das.report.template import public_page

#: Places that the page draws, the largest first.
DRAWN = 10
#: Before an interval that the published count lies outside of; ``lookup.js`` has the same.
OUTSIDE = "\u2691 outside "


def release_html(
    shown: Shown,
    facts: Facts,
    measurements: Mapping[str, Sequence[ListedMeasurement]],
    frame: PublicFrame,
    *,
    assigned: Sequence[str] = (),
    privacy_page: bool = False,
    worse: Sequence[Any] = (),
    prior: Sequence[Any] = (),
) -> str:
    """``measurements`` are the measurements by universe, persons first; ``assigned`` says which
    attributes were made up by a rule; ``worse`` the queries that are published worse than they were
    measured; ``prior`` how the lowest units were assumed to spread. The same arguments give the
    same page."""
    level = _below(shown)
    brief, left_out = lookup.brief(shown, example=(level, _largest(shown, level)))
    return public_page(
        "release.html",
        facts,
        frame,
        records=[kind_of(u).records for u in shown.universes],
        levels=[(lv, shown.spine.units(lv)) for lv in shown.spine.levels],
        assigned=assigned,
        privacy_page=privacy_page,
        worse=worse,
        prior=prior,
        largest=_bars(shown, level),
        sure=[_sure(shown.total(shown.universes[0], lv)) for lv in shown.spine.levels],
        **_measured(measurements),
        beside_figures=[Markup(f) for f in release_figures.beside(shown)],
        lookup=Markup(brief),
        left_out=left_out,
    )


def _measured(measurements: Mapping[str, Sequence[ListedMeasurement]]) -> dict[str, Any]:
    """What specialists read of the measurements."""
    persons = next(iter(measurements.values()))
    return {
        "plans": {
            kind_of(universe).records: _grid(rows) for universe, rows in measurements.items()
        },
        "precision_figure": Markup(release_figures.achieved_precision(persons)),
        "nothing": [(d.level, d.title, d.share) for d in persons if d.nothing],
        "budget_figures": [Markup(f) for f in release_figures.budget(persons)],
        "scale_figure": Markup(release_figures.scales(persons)),
    }


def _below(shown: Shown) -> str:
    """The first level of several units; the lowest where there is none."""
    levels = shown.spine.levels
    return next((lv for lv in levels if shown.spine.units(lv) > 1), levels[-1])


def _largest(shown: Shown, level: str) -> int:
    """The unit with the most persons; of several the first."""
    return int(shown.total(shown.universes[0], level).published[:, 0].argmax())


def _bars(shown: Shown, level: str) -> dict[str, Any]:
    """The largest units of a level, with a bar as wide as each is large, in percent."""
    total = shown.total(shown.universes[0], level)
    counts = total.published[:, 0]
    first = np.argsort(-counts, kind="stable")[:DRAWN].tolist()
    most = max(int(counts.max(initial=0)), 1)
    rows = [
        (
            str(shown.spine.names[shown.spine.index(level)][u]) or shown.spine.title(level, u),
            counts[u],
            "exact" if total.exact else _interval(total, u, 0),
            round(100 * max(int(counts[u]), 0) / most, 1),
        )
        for u in first
    ]
    return {"level": level, "rows": rows, "more": len(counts) - len(rows)}


def _sure(a: Answers) -> dict[str, Any]:
    """How large the margin of a total is, and what share of a unit of median size."""
    counts = a.published[:, 0]
    middle = int(np.quantile(counts, 0.5, method="inverted_cdf"))
    known = np.zeros(0, dtype=np.int64) if a.within is None else a.within[a.within >= 0]
    out = {"level": a.level, "units": len(counts), "middle": middle}
    if a.exact or not known.size or not middle:
        return out | {"says": "exact" if a.exact else _margin(a), "share": "–", "width": 0}
    share = 100 * float(np.median(known)) / middle
    text = "over 100%" if share > 100 else f"{share:.2g}%" if share >= 0.01 else "under 0.01%"
    return out | {"says": _margin(a), "share": text, "width": round(min(share, 100.0), 1)}


def _grid(measurements: Sequence[ListedMeasurement]) -> dict[str, Any]:
    """Queries down, those of few answers first, levels across."""
    levels = list(dict.fromkeys(d.level for d in measurements))
    queries = {d.query: d.answers for d in sorted(measurements, key=lambda d: d.answers)}
    titles = {d.query: d.title for d in measurements}
    return {
        "levels": levels,
        "queries": queries,
        "titles": titles,
        "at": {(d.query, d.level): d for d in measurements},
    }


def _margin(a: Answers) -> str:
    """In words: one margin, or the range of those of the units that have one."""
    known = np.zeros(0, dtype=np.int64) if a.within is None else a.within[a.within >= 0]
    if not known.size:
        return "unknown"
    low, high = known.min(), known.max()
    return f"±{low:,}" if low == high else f"±{low:,} to ±{high:,}"


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
