"""One number of a run for each unit of a level, on boundaries from a file that the user names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, UserError
from das.estimate.margins_of_error import UNKNOWN
from das.files.run import run_directory
from das.files.run.run_directory import release_of
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.names import level_words, text
from das.model.spelling import named
from das.model.spine import Spine
from das.release.area_counts import Statistic, counts
from das.release.intervals import Intervals
from das.release.publications import source_of
from das.release.replicate_source import ReleaseSource
from das.tools.maps import boundaries
from das.tools.maps.choropleth import Choropleth, Form, OneCount, chosen, drawing, map_page
from das.truth.assessment import true_counts

Show = Literal["count", "margin", "error"]
FORMS = (".html", ".svg")
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
SHARE = "Published counts, in per cent: no number where there is nobody."
NO_LAND = "no number where that is 0 or unknown."
#: In square meters, the unit of the Census Bureau's columns of areas.
SQUARE_MILE = 2_589_988.110336
TOTAL = "total"
REPLICATED = (
    "The farther end of the interval that `das intervals` gives the published count, at its"
    " coverage; where there is none the count is not covered."
)


@dataclass(frozen=True)
class MapOptions:
    """What a map of a run shows.

    It is the ``answer`` (a label or its number from 1) to ``query``, or a line of a ``table``.
    ``level`` can be a kind of areas across the levels. ``share_of``: in per cent of the total, or
    of another answer or line, named as ``answer`` is. ``per``: for each square mile of land, or for
    each unit of another column of the boundaries."""

    level: str
    query: str = "total"
    answer: str | None = None
    show: Show = "count"
    universe: str | None = None
    table: str | None = None
    share_of: str | None = None
    per: str | None = None


def choropleth(run: Path, options: MapOptions, file: Path, key: str | None = None) -> Choropleth:
    """The map of a run or a release (errors need a run); ``key`` names the column of ``file`` that
    has GEOIDs.

    Raises :class:`UserError` for anything that does not exist: a level, query or answer, the truth,
    boundaries of these units."""
    frame = boundaries.opened(file)  # before any work: it says what is not installed
    source = source_of(release_of(run), "map")
    count = chosen(source, options.universe, options.query, options.table, options.answer)
    known, spine = {a.kind: a for a in source.areas()}, source.spine
    level = named(options.level, [*spine.levels, *known], "level", "--level")
    areas = known.get(level)
    if options.share_of is not None or options.per is not None:
        _check_counts(options)
    geoids, codes, units = _units(spine, level, areas)
    held = boundaries.joined(frame, file, geoids, codes, key, options.per)
    values, shown, says, form = _numbers(run, source, count, level, areas, options)
    if held.sums is not None:
        values, shown, says = _density(values, shown, held, options)
        form = "density"
    return Choropleth(
        f"{_where(spine)}{shown} by {level_words(level)}: {_what(options)}",
        [says],
        units,
        held.shapes,
        values,
        options.show == "error",
        _lacks(held, units),
        options.show == "error",
        source.private,
        form,
    )


def _check_counts(options: MapOptions) -> None:
    option = "--share-of" if options.share_of is not None else "--per"
    if options.show != "count":
        raise UserError(
            "shares and densities are of published counts", where=option, remedy="leave --show out"
        )
    if options.share_of is not None and options.per is not None:
        raise UserError("a map shows a share or a density", where=option, remedy="leave one out")


def _units(
    spine: Spine, level: str, areas: Areas | None
) -> tuple[NDArray[np.str_], NDArray[np.str_], list[str]]:
    """GEOIDs, codes and titles of the units of a level, or of areas."""
    if areas is not None:
        return text(areas.geoids), text(areas.codes), [areas.title(k) for k in range(len(areas))]
    titles = [spine.title(level, k) for k in range(spine.units(level))]
    return text(spine.geoids(level)), text(spine.codes[spine.index(level)]), titles


def _numbers(
    run: Path,
    source: ReleaseSource,
    count: OneCount,
    level: str,
    areas: Areas | None,
    options: MapOptions,
) -> tuple[NDArray[np.float64], str, str, Form]:
    """The number of each unit; words for what is shown, and a note on it; how the numbers are
    printed."""
    shown, says = f"{count.says} ({count.universe.kind.records})", SAYS[options.show]
    if options.share_of is not None:
        return *_share(source, count, level, areas, options), "percent"
    if options.show == "margin":
        values, says = _margins(source, count, level, areas)
    elif options.show == "error":
        values = _errors(run, source, count, level, areas)
    else:
        values = _published(source, count, level, areas).astype(np.float64)
    return values, shown, says, "whole"


def _where(spine: Spine) -> str:
    """The name of the place that a map is of: of the smallest that has all units in it."""
    whole = [
        str(spine.names[spine.index(level)][0]) for level in spine.levels if spine.units(level) == 1
    ]
    called = [name for name in whole if name]
    return f"{called[-1]}: " if called else ""


def _what(options: MapOptions) -> str:
    if options.per is not None:
        return "density"
    return "share" if options.share_of is not None else options.show


def _density(
    values: NDArray[np.float64], shown: str, held: boundaries.Boundaries, options: MapOptions
) -> tuple[NDArray[np.float64], str, str]:
    """Counts per square mile of land, or per unit of the column that was named."""
    assert held.sums is not None
    land = options.per == boundaries.LAND
    size = held.sums / SQUARE_MILE if land else held.sums
    each = "square mile of land" if land else held.summed
    says = f"Published counts per {each} (column {held.summed} of the boundaries): {NO_LAND}"
    return (
        np.divide(values, size, out=np.full(len(values), np.nan), where=size > 0),
        f"{shown} per {each}",
        says,
    )


def _share(
    source: ReleaseSource, count: OneCount, level: str, areas: Areas | None, options: MapOptions
) -> tuple[NDArray[np.float64], str, str]:
    """Published counts in per cent of others, not a number where these are 0; words for what is
    shown, and a note on it."""
    if options.share_of == TOTAL and options.table is None:
        of = chosen(source, options.universe, TOTAL, None, None)
    else:
        of = chosen(source, options.universe, options.query, options.table, options.share_of)
    part, all_ = (_published(source, c, level, areas) for c in (count, of))
    values = np.divide(100 * part, all_, out=np.full(len(part), np.nan), where=all_ > 0)
    return values, f"{count.says} in % of {of.says} ({count.universe.kind.records})", SHARE


def write(data: Choropleth, out: Path) -> None:
    """As the name of ``out`` tells: a page (.html), or the map alone (.svg). What is confidential
    goes into no release, and is its owner's alone."""
    if out.suffix not in FORMS:
        raise UserError(
            f"'{out.suffix}' is none of {', '.join(FORMS)}",
            where=out,
            remedy="end the name in one of them",
        )
    made = map_page(data) if out.suffix == ".html" else drawing(data, alone=True) + "\n"
    run_directory.write_outside(out, made.encode(), confidential=data.confidential)


def _of_level(h: Histogram, spine: Spine, level: str, areas: Areas | None) -> Histogram:
    """Counts of the lowest level, added up to another or to areas."""
    return h.upward(spine)[level] if areas is None else areas.histogram(h)


def _published(
    source: ReleaseSource, count: OneCount, level: str, areas: Areas | None
) -> NDArray[np.int64]:
    return count.values(_of_level(source.counts(count.universe), source.spine, level, areas))


def _errors(
    run: Path, source: ReleaseSource, count: OneCount, level: str, areas: Areas | None
) -> NDArray[np.float64]:
    name, spine = count.universe.name, source.spine
    truth = true_counts(run, [name], spine)[name][spine.levels[-1]]
    true = count.values(_of_level(truth.open("for a map in confidential/"), spine, level, areas))
    return (_published(source, count, level, areas) - true).astype(np.float64)


def _margins(
    source: ReleaseSource, count: OneCount, level: str, areas: Areas | None
) -> tuple[NDArray[np.float64], str]:
    """What the true count is off at most, and in words by what: from the measurements, where all of
    them were drawn, and else from replicates of the line of a table."""
    if source.measured is None:
        return _replicated(source, count, level)
    if areas is None:
        found = Intervals(source.measured, count.universe).read(level, count.cells[None])
        return _known(found[1][:, 0], level, count.of), SAYS["margin"]
    asked = Statistic(count.universe, count.of, count.says, count.cells)
    (column,) = counts(source, areas, [asked]).columns
    farther = np.maximum(column.high - column.estimate, column.estimate - column.low)
    within = np.where(column.known, np.ceil(farther), UNKNOWN).astype(np.int64)
    return _known(within, level, count.of), SAYS["margin"]


def _known(within: NDArray[np.int64], level: str, query: str) -> NDArray[np.float64]:
    """NaN where nothing tells the count."""
    if not (within >= 0).any():
        raise InputError(
            f"nothing that was measured at {level!r} tells {query!r}: there is no margin to draw",
            where="--query",
            remedy="`das nmf summary` lists what was measured",
        )
    return np.where(within >= 0, within, np.nan)


def _replicated(
    source: ReleaseSource, count: OneCount, level: str
) -> tuple[NDArray[np.float64], str]:
    """The farther end of the interval of each published count."""
    found = []
    if count.line is not None and level in source.levels(count.line[0]):
        found = list(source.intervals([count.line[0].name], [level]))
    if not found or count.line is None:
        raise UserError(
            f"there are no intervals of {count.of!r} at {level!r}: its measurements were drawn on"
            " request, and do not tell its margins",
            where="--show margin",
            remedy="`das intervals` makes them, of the lines of tables: name one with --table",
        )
    value, lower, upper, _ = (a[:, count.line[1]] for a in found[0][3])
    farther = np.maximum(value - lower, upper - value)
    return np.where(upper >= 0, farther, np.nan), REPLICATED


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
