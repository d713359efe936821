"""The page of a study of protection methods. Every number comes from its summary; the page says what
each is, and what none of them can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from das.model.frontier_rows import PUBLISHED, FrontierMean
from das.model.labels import level_words
from das.report.frontier_map import (
    ABOVE,
    COLOURS,
    UNIQUES,
    ShownSetting,
    risk_utility_map,
    shown_settings,
    withheld_figure,
)
from das.report.template import render

#: The "level" of areas of consecutive lowest places.
_AREAS = "areas"


@dataclass(frozen=True)
class StudyFacts:
    """What a page says about a study: its ``tables`` and ``lines`` by level, the ``sampled`` units of
    ``level`` of a ``population``, with ``persons`` in ``units`` of the ``lowest`` level, of
    ``everybody``; the ``uses`` in words, and which one at which level is across the map."""

    name: str
    level: str
    lowest: str
    sampled: int
    population: int
    persons: int
    units: int
    everybody: int
    households: bool
    tables: str
    lines: Mapping[str, int]
    also: tuple[str, ...]
    known: tuple[str, ...]
    sensitive: tuple[str, ...]
    uses: Mapping[str, str]
    use: str
    use_level: str
    seeded: bool


def frontier_page(means: Sequence[FrontierMean], facts: StudyFacts) -> str:
    """One self-contained page."""
    settings = shown_settings(means)
    use = facts.uses[facts.use].lower()
    across = f"mean absolute error: {use}, by {_place(facts.use_level)}"
    levels = [_place(lv) for lv in _levels(settings, facts.use)]
    return render(
        "frontier.html",
        private=True,  # nothing here is for release: the page is confidential
        facts=facts,
        settings=settings,
        map=Markup(risk_utility_map(settings, facts.use, facts.use_level, across)),
        withheld=Markup(withheld_figure(settings, facts.lowest)),
        rows=[_row(s, facts) for s in settings],
        errors=[_errors(s, facts) for s in settings if s.first.tables == PUBLISHED],
        error_uses=[(name, title, levels) for name, title in facts.uses.items()],
        biases=_biases(settings, facts),
        colours=COLOURS,
        use=use,
        place=_place(facts.use_level),
        lowest=_place(facts.lowest),
        level=_place(facts.level),
        headline=_headline(settings, facts),
    )


def _place(level: str) -> str:
    """A level in words.

    >>> _place("areas"), _place("Block_Group")
    ('area', 'block group')
    """
    return "area" if level == _AREAS else level_words(level).lower()


def _levels(settings: Sequence[ShownSetting], use: str) -> list[str]:
    """The levels at which a use is measured, from the top down."""
    found = [p[2] for p in settings[0].measures if p[0] == "error" and p[3] == use]
    return list(dict.fromkeys([*(lv for lv in reversed(found) if lv != _AREAS), _AREAS]))


def _row(s: ShownSetting, facts: StudyFacts) -> dict[str, Any]:
    """A line of the main table."""
    return {
        "setting": s,
        "error": s.get("error", level=facts.use_level, use=facts.use),
        "agreement": s.value("agreement", "all"),
        "putative": s.value("putative", UNIQUES),
        "precision": s.value("precision", UNIQUES),
        "baseline": s.value("precision, leave-one-out", UNIQUES),
        "confirmed": s.value("confirmed", UNIQUES),
        "above": s.get(ABOVE, UNIQUES),
        "determined": s.value("units determined"),
        "certain": s.value("precision", f"{UNIQUES}; unique"),
        "withheld": s.value("positive lines withheld", level=facts.lowest),
        "late": s.value("units without a guess"),
    }


def _errors(s: ShownSetting, facts: StudyFacts) -> dict[str, Any]:
    """A line of the table of errors: every use at every level; and what part is a guess."""
    cells = []
    for use in facts.uses:
        for level in _levels([s], use):
            cells.append(
                (s.value("error", level=level, use=use), s.value("withheld", level=level, use=use))
            )
    return {"setting": s, "cells": cells}


def _biases(settings: Sequence[ShownSetting], facts: StudyFacts) -> list[dict[str, Any]]:
    """For each use with few columns: the bias of each column at the sampled level, in percent."""
    out = []
    for use, title in facts.uses.items():
        columns = list(
            dict.fromkeys(
                p[4]
                for p in settings[0].measures
                if (p[0], p[2], p[3]) == ("bias, percent", facts.level, use)
            )
        )
        if len(columns) > 1:
            rows = []
            for s in (s for s in settings if s.first.tables == PUBLISHED):
                found = [s.get("bias, percent", "", facts.level, use, c) for c in columns]
                rows.append((s, [None if m is None else m.value for m in found]))
            out.append({"title": title, "columns": columns, "rows": rows})
    return out


def _headline(settings: Sequence[ShownSetting], facts: StudyFacts) -> dict[str, Any]:
    """What a director reads first: without protection, and the setting with the least error among
    those that leave the attack at or below the baseline."""
    own = [s for s in settings if s.first.tables == PUBLISHED]
    exposed = max(own, key=lambda s: s.value("confirmed", UNIQUES) or 0.0)
    safe = []
    for s in own:
        above = s.get(ABOVE, UNIQUES)
        error = s.value("error", level=facts.use_level, use=facts.use)
        if above is not None and above.value is not None and error is not None:
            top = above.high if above.high is not None else above.value
            if top <= 0:
                safe.append((error, s))
    best = min(safe, key=lambda pair: pair[0], default=None)
    return {
        "exposed": exposed,
        "confirmed": exposed.value("confirmed", UNIQUES),
        "best": None if best is None else best[1],
        "error": None if best is None else best[0],
    }
