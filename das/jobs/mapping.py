"""One number of a run for each unit of a level, beside the boundaries of a file that the user
names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, UserError
from das.files.readers import boundaries
from das.files.run import run_directory
from das.files.run.run_directory import release_of
from das.model.areas import Areas
from das.model.codes import text
from das.model.kinds import PERSONS
from das.model.labels import NOT_COUNTED, level_words
from das.model.spelling import named
from das.model.universe import Universe
from das.release import page as release_report
from das.release.post import open_release
from das.report.answers import Answers
from das.report.choropleth import Choropleth, map_page, picture
from das.truth.assessment import published_of, truth_of

Show = Literal["count", "margin", "error"]
FORMS = (".html", ".svg", ".png")
#: Units that a sentence names.
NAMED = 10
SAYS = {
    "count": "Published counts: whole numbers, estimated from the noisy measurements.",
    "margin": (
        "The 95% margin: what the true count is off the estimate from all measurements of its unit,"
        " at most, in at least 95 of 100 cases."
    ),
    "error": "Published less true count. Above zero the published count is too high.",
}


@dataclass(frozen=True)
class Wanted:
    """What of a run is drawn: the ``answer`` (a label or its number from 1) to ``query`` at
    ``level``, which may be a kind of areas across the levels."""

    level: str
    query: str = "total"
    answer: str | None = None
    show: Show = "count"
    universe: str = PERSONS.name


def choropleth(run: Path, wanted: Wanted, file: Path, key: str | None = None) -> Choropleth:
    """The map of a run or, but for errors, of a release; ``key`` names the column of ``file`` that
    has GEOIDs.

    Raises :class:`UserError` for what there is not: a level, query or answer, the truth, boundaries
    of these units."""
    opened = open_release(release_of(run))
    u = next(
        x
        for x in opened.after.universes
        if x.name
        == named(
            wanted.universe, [x.name for x in opened.after.universes], "universe", "--universe"
        )
    )
    known = {a.kind: a for a in opened.areas()}
    spine = opened.spine
    level = named(wanted.level, [*spine.levels, *known], "level", "--level")
    areas = known.get(level)
    found = release_report.answers(
        opened, published_of(opened, [u.name]), u, areas or level, wanted.query
    )
    i = _answer(found, wanted.answer)
    values = _values(run, u, found, i, wanted.show, areas)
    if areas is None:
        held = boundaries.read(
            file, text(spine.geoids(level)), text(spine.codes[spine.index(level)]), key
        )
        units = [spine.title(level, k) for k in range(spine.units(level))]
    else:
        held = boundaries.read(file, text(areas.geoids), text(areas.codes), key)
        units = [areas.title(k) for k in range(len(areas))]
    what = found.labels[i] if len(found.labels) > 1 else "Total"
    if NOT_COUNTED in found.title:
        what = f"{what} of {found.title}"
    title = f"{what} ({found.records}) by {level_words(level)}: {wanted.show}"
    return Choropleth(
        title,
        [SAYS[wanted.show]],
        units,
        held.shapes,
        values,
        wanted.show == "error",
        _lacks(held, units),
        wanted.show == "error",
        opened.after.private,
    )


def write(data: Choropleth, out: Path) -> None:
    """As the name of ``out`` tells: a page (.html), or a picture (.svg, .png). What is confidential
    goes into no release, and is its owner's alone."""
    if out.suffix not in FORMS:
        raise UserError(
            f"'{out.suffix}' is none of {', '.join(FORMS)}",
            where=out,
            remedy="end the name in one of them",
        )
    made = map_page(data).encode() if out.suffix == ".html" else picture(data, out.suffix[1:])
    run_directory.write_outside(out, made, confidential=data.confidential)


def _answer(found: Answers, answer: str | None) -> int:
    """Which of the answers of a query is meant."""
    if answer is None and len(found.labels) == 1:
        return 0
    listed = "; ".join(f"{k}: {x}" for k, x in list(enumerate(found.labels, 1))[:20])
    if answer is None:
        raise UserError(
            f"{found.query!r} has {len(found.labels)} answers, and a map shows one",
            where="--answer",
            remedy=f"choose by number or name, of {listed}",
        )
    if answer.isdigit() and 1 <= int(answer) <= len(found.labels):
        return int(answer) - 1
    same = [k for k, x in enumerate(found.labels) if x.casefold() == answer.strip().casefold()]
    if not same:
        raise UserError(
            f"no answer {answer!r} to {found.query!r}",
            where="--answer",
            remedy=f"choose of {listed}",
        )
    return same[0]


def _values(
    run: Path, u: Universe, found: Answers, i: int, show: Show, areas: Areas | None
) -> NDArray[np.float64]:
    if show == "count":
        return found.published[:, i].astype(np.float64)
    if show == "margin":
        if found.within is None or not (known := found.within[:, i] >= 0).any():
            raise InputError(
                f"nothing that was measured at {found.level!r} tells {found.query!r}: there is no"
                " margin to draw",
                where="--query",
                remedy="`das nmf summary` lists what was measured",
            )
        return np.where(known, found.within[:, i], np.nan)
    opened, truths = truth_of(run)
    level = found.level if areas is None else opened.spine.levels[-1]
    truth = truths[u.name][level].open("for a map in confidential/")
    true = (truth if areas is None else areas.histogram(truth)).answer(u.schema.query(found.query))
    return (found.published[:, i] - true[:, i]).astype(np.float64)


def _lacks(held: boundaries.Boundaries, units: list[str]) -> list[str]:
    """What was not joined, counted and named."""
    out = []
    if lost := [u for u, rings in zip(units, held.shapes, strict=True) if not rings]:
        out.append(
            f"{len(lost):,} of {len(units):,} units have no boundary in the file: {_some(lost)}."
        )
    if held.others:
        out.append(
            f"{len(held.others):,} boundaries are of no unit of this release: {_some(held.others)}."
        )
    return out


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
