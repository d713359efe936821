"""The units whose published counts are furthest from the truth. Confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.closed import Closed
from das.model.spine import Spine
from das.report.answers import AnswerKey, Answers, Shown

#: Places listed in one table.
LISTED = 8


@dataclass(frozen=True, repr=False)
class Place(Closed):
    """One count of one unit, whose name comes before its code in ``title``; ``noisy`` is ``None``
    where it was not measured."""

    code: str
    title: str
    what: str
    true: int
    noisy: int | None
    published: int

    @property
    def error(self) -> int:
        return self.published - self.true


def places(
    shown: Shown, true: Mapping[AnswerKey, NDArray[np.int64]]
) -> dict[str, list[tuple[str, list[Place]]]]:
    """By level, lowest first, the tables with their captions; levels without an error have none."""
    out = {}
    for level in reversed(shown.spine.levels):
        totals = [a for a in shown.at(level) if a.query == "total"]
        others = [a for a in shown.at(level) if a.query != "total"]
        found = [
            (caption, _worst(chosen, true, shown.spine))
            for caption, chosen in (("Totals", totals), ("Any other count", others))
        ]
        if tables := [(caption, rows) for caption, rows in found if rows]:
            out[level] = tables
    return out


def _worst(
    chosen: Sequence[Answers], true: Mapping[AnswerKey, NDArray[np.int64]], spine: Spine
) -> list[Place]:
    """The largest errors, the worst one of each unit; ties in the order of the queries and
    units.
    """
    found = []
    for a in chosen:
        error = np.abs(a.published - true[a.key])
        for at in np.argsort(-error, axis=None, kind="stable")[:LISTED]:
            unit, i = divmod(int(at), error.shape[1])
            if error[unit, i]:
                noisy = int(a.noisy[unit, i]) if a.noisy is not None and a.measured[unit] else None
                what = (
                    a.records if a.query == "total" else f"{a.labels[i]} ({a.title}, {a.records})"
                )
                found.append(
                    Place(
                        spine.code(a.level, unit),
                        spine.title(a.level, unit),
                        what,
                        int(true[a.key][unit, i]),
                        noisy,
                        int(a.published[unit, i]),
                    )
                )
    found.sort(key=lambda p: -abs(p.error))
    by_unit = {p.code: p for p in reversed(found)}
    return [p for p in found if by_unit[p.code] is p][:LISTED]
