"""The page of published counts next to what the measurements say: "the count of your town, and how
sure it is".

A function of published values alone, so it is as public as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from das.model.not_private import Private
from das.model.published_rows import PublishedCountRow, PublishedShareRow
from das.report.template import render

#: Places that a page lists, level by level from the upper ones: those of a level that has no room
#: are in the file of all.
ROOM = 4000


@dataclass(frozen=True)
class ListedPlace:
    """One place of the list: its level, title and GEOID, and its first counts."""

    level: str
    title: str
    geoid: str
    counts: tuple[PublishedCountRow, ...]


@dataclass(frozen=True)
class PublishedPage:
    """What the page shows. ``lines`` are places with room for them, and ``left_out`` the levels
    without; ``fields`` are the counts of a line."""

    name: str
    source: str
    coverage: float
    shares: tuple[PublishedShareRow, ...]
    fields: tuple[tuple[str, str], ...]
    lines: tuple[ListedPlace, ...]
    left_out: tuple[str, ...]
    elsewhere: int
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(
        name: str,
        source: str,
        coverage: float,
        rows: Sequence[PublishedCountRow],
        shares: Sequence[PublishedShareRow],
        elsewhere: int,
        notes: Sequence[str],
        most: int = 3,
    ) -> PublishedPage:
        """With the first ``most`` counts of each place."""
        fields = list(dict.fromkeys((r.field, r.label) for r in rows))[:most]
        shown = [r for r in rows if (r.field, r.label) in fields]
        lines: list[ListedPlace] = []
        left_out = []
        for level, group in groupby(shown, key=attrgetter("level")):
            places = [
                ListedPlace(
                    level,
                    f"{first.name} ({first.code})" if first.name else first.code,
                    first.geoid,
                    counts,
                )
                for _, of in groupby(group, key=attrgetter("code"))
                for counts in [tuple(of)]
                for first in [counts[0]]
            ]
            if len(lines) + len(places) > ROOM:
                left_out.append(level)
            else:
                lines += places
        return PublishedPage(
            name, source, coverage, tuple(shares), tuple(fields), tuple(lines), tuple(left_out),
            elsewhere, tuple(notes),
        )  # fmt: skip

    def html(self, private: Private) -> str:
        """The page. The same values give the same page."""
        return render(
            "published.html", page=self, percent=f"{100 * self.coverage:g}", private=private
        )
