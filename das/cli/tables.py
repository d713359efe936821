"""Published tables of a run, with the labels of their columns."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
from numpy.typing import NDArray

from das.cli.kit.console import CommandAnswer, console, print_answer, records_table
from das.cli.kit.options import (
    OUT,
    PATH,
    coverage_option,
    guarded,
    json_option,
    say_note,
    say_notes,
    warn,
)
from das.engine.display import Live
from das.errors import UserError
from das.files import atomic
from das.files.readers import area_list
from das.files.release import place_search, table_export
from das.files.release.place_search import NamedPlace, PlaceColumns, added_up
from das.files.run.run_directory import release_of
from das.model.areas import Areas
from das.model.not_private import marked_rows
from das.model.spelling import named
from das.release.intervals import CountIntervals, Intervals
from das.release.publications import source_of
from das.release.replicate_source import ReleaseSource
from das.tables import Table

#: Of units or areas ``start:stop``, the intervals of all columns.
RangeIntervals = Callable[[int, int], CountIntervals]


@click.command()
@click.argument("run", type=PATH)
@click.option(
    "--level", help="Such as County, or areas off the spine, such as Place or County_Subdivision."
)
@click.option(
    "--areas",
    "listed",
    type=PATH,
    help=(
        "Areas of your own instead of a level: a CSV file area,block, or a "
        "block-assignment file of the Bureau."
    ),
)
@click.option("--table", "name", help="Such as P2.")
@click.option(
    "--geocode",
    "prefixes",
    multiple=True,
    metavar="PREFIX",
    help="Only units whose code or GEOID begins with this; repeatable.",
)
@click.option(
    "--name",
    "called",
    multiple=True,
    metavar="TEXT",
    help=(
        "Only units with this in their name, or with this GEOID; repeatable. Without --level: the"
        " one place with this name, cities first. Without --table: list all matches."
    ),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(table_export.FORMATS),
    help="Default: that of --out's name, or csv. `md` is Markdown.",
)
@click.option(
    "--names",
    type=click.Choice(table_export.NAMES),
    default="both",
    show_default=True,
    help="Columns as 'P0020001 Total', P0020001, or 'Total'.",
)
@click.option(
    "--noise",
    "noise",
    is_flag=True,
    help="After each column the standard error of what its interval is about: '... SE'.",
)
@click.option(
    "--margins",
    is_flag=True,
    help=(
        "After each column the ends of its interval: columns '... low' and '... high'. For the DHC:"
        " the intervals that `das intervals` has made."
    ),
)
@coverage_option
@click.option("--out", type=OUT, help="A file. Default: standard output.")
@click.option("--quiet", is_flag=True, help="No progress display.")
@json_option
@guarded
def tables(
    run: Path,
    level: str | None,
    listed: Path | None,
    name: str | None,
    prefixes: tuple[str, ...],
    called: tuple[str, ...],
    form: str | None,
    names: str,
    noise: bool,
    margins: bool,
    coverage: float,
    out: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print a published table of a RUN or release. Without --level and --table: list the available
    tables.

    Counts of areas off the spine are sums of the published counts of their blocks."""
    release = source_of(release_of(run))
    if level is None and name is None and listed is None:
        named = called or prefixes
        print_answer(_found(release, prefixes, called) if named else _list(release), as_json)
        return
    if name is None or (level is not None and listed is not None):
        raise _unnamed()
    one = _called(release, prefixes, called) if level is None and listed is None else None
    level = level if one is None else one[0].level
    form = "json" if as_json else _form(form, out)
    at, areas = _level(release, level, listed)
    _check_noise(release, noise)
    lowest = at if areas is None else release.spine.levels[-1]
    every = [t for _, t in release.tables]
    table = table_export.choose(release.folder, every, release.spine.levels, name, lowest)
    places = (
        PlaceColumns.of_level(release.spine, at)
        if areas is None
        else PlaceColumns.of_areas(areas, lowest)
    )
    wanted = places.wanted(prefixes, called) if one is None else place_search.only(places, one)
    with Live(quiet or out is None) as progress:
        progress.stage(f"{table.name}, {at}", table_export.size(release.folder, table, lowest))
        parts = table_export.rows(release.folder, table, lowest, progress.advance)
        if areas is not None:
            parts = added_up(parts, areas, table.columns)
        if margins or noise:
            read = _intervals(release, table, at, areas, coverage, wanted)
            told = partial(_after, read, margins=margins, noise=noise)
            parts = table_export.with_intervals(parts, table.columns, told)
        chosen = places.identified(parts, wanted)
        with _opened(out) as file:
            n = table_export.write(chosen, table, at, form, names, file, private=release.private)
    if areas is not None and release.measured is not None and not (margins or noise):
        click.echo(SUMS.format(lowest=lowest, at=at), err=True)
    if out is not None:
        warn(release.private)
        click.echo(f"written: {out} ({n:,} units)")


def _unnamed() -> UserError:
    return UserError(
        "a table is named by both, its name and its level (or --name, or --areas)",
        where="--level, --table",
        remedy="`das tables RUN` lists them",
    )


def _called(
    release: ReleaseSource, prefixes: Sequence[str], called: Sequence[str]
) -> list[NamedPlace]:
    """The places that are named without their level."""
    if not called:
        raise _unnamed()
    return place_search.named_places(
        place_search.every(release.spine, release.areas()), prefixes, called, say_note
    )


def _form(form: str | None, out: Path | None) -> str:
    """The format that was asked for, or that the name of the file tells."""
    form = form or _suffix(out) or "csv"
    if form == "parquet" and out is None:
        raise UserError(
            "Parquet is no text", where="--format parquet", remedy="give a file with --out"
        )
    return form


def _check_noise(release: ReleaseSource, noise: bool) -> None:
    if noise and release.measured is None:
        raise UserError(
            "its answers were measured on demand, and do not tell the noise of a table",
            where="--noise",
            remedy="leave it out; --margins has the intervals that `das intervals` makes",
        )


def _after(
    read: RangeIntervals, start: int, stop: int, *, margins: bool, noise: bool
) -> dict[str, np.ma.MaskedArray[Any, Any]]:
    """What stands after each column: the ends of its interval, its standard error."""
    found, out = read(start, stop), dict[str, np.ma.MaskedArray[Any, Any]]()
    if margins:
        ends = ((table_export.LOW, found.low), (table_export.HIGH, found.high))
        out |= {called: np.ma.array(end, mask=found.high < 0) for called, end in ends}
    if noise:
        out[table_export.ERROR] = np.ma.masked_invalid(found.error.round(2))
    return out


def _intervals(
    release: ReleaseSource,
    table: Table,
    at: str,
    areas: Areas | None,
    coverage: float,
    wanted: NDArray[np.bool_],
) -> RangeIntervals:
    """The intervals of each column, of units of a level or of areas: from the measurements, or,
    where these were made on demand, those that `das intervals` has made."""
    if release.measured is None:
        every = _made(release, table, at, areas)
    else:
        known = Intervals(release.measured, release.universe(table), coverage)
        if areas is None:
            return partial(known.of_units, at, table.masks, wanted=wanted)
        every = CountIntervals.unknown(len(areas), len(table.columns))
        if wanted.any():
            found = known.of_areas(areas.some(wanted), table.masks)
            every = every.filled(np.flatnonzero(wanted), found)
    return lambda start, stop: every.rows(np.arange(start, stop))


def _made(release: ReleaseSource, table: Table, at: str, areas: Areas | None) -> CountIntervals:
    """Those that `das intervals` has made."""
    made = [] if areas is not None else list(release.intervals([table.name], [at]))
    if not made:
        raise UserError(
            f"there are no intervals of {table.name} at {at}",
            where="--margins",
            remedy=(
                f"`das intervals RUN --table {table.name} --level {at}` makes them"
                if areas is None
                else "`das area` has intervals of areas"
            ),
        )
    _, lower, upper, _ = made[0][3]
    say_notes([MADE, *release.beside])
    return replace(CountIntervals.unknown(*lower.shape), low=lower, high=upper)


#: What margins from replicates are.
MADE = "the ends are those of `das intervals`, at its coverage; what has none is not covered"
#: What counts of areas are.
SUMS = "{at}: sums of the published counts of {lowest}; --margins adds their intervals"


def _level(
    release: ReleaseSource, level: str | None, listed: Path | None
) -> tuple[str, Areas | None]:
    """The level or kind of area that is meant, with its areas."""
    if listed is not None:
        areas = area_list.read(listed, release.spine)
        outside = release.spine.units(release.spine.levels[-1]) - len(np.unique(areas.unit))
        if outside:
            click.echo(
                f"{listed}: {outside:,} units of {release.spine.levels[-1]} are in no area",
                err=True,
            )
        return areas.kind, areas
    known = {a.kind: a for a in release.areas()}
    at = named(str(level), [*release.spine.levels, *known], "level", "--level")
    return at, known.get(at)


def _found(release: ReleaseSource, prefixes: Sequence[str], called: Sequence[str]) -> CommandAnswer:
    """Units of every level, and areas, by code, GEOID or name."""
    found = place_search.matches(
        place_search.every(release.spine, release.areas()), prefixes, called
    )
    if not found:
        raise place_search.none_found()
    rows = [{"level": p.level, "code": p.code, "name": p.name, "geoid": p.geoid} for p in found]

    def show() -> None:
        warn(release.private)
        console().print(records_table("Units and areas", rows))
        if called:
            command = shlex.join(["das", "area", str(release.folder), "--name", found[0].geoid])
            click.echo(f"counts with intervals: {command}")

    return CommandAnswer(marked_rows(rows, release.private), show)


def _list(release: ReleaseSource) -> CommandAnswer:
    found = table_export.there(release.folder, [t for _, t in release.tables], release.spine.levels)
    kinds, lowest = [a.kind for a in release.areas()], release.spine.levels[-1]
    rows: list[dict[str, Any]] = [
        {
            "table": t.name,
            "title": t.title,
            "columns": len(t.columns),
            "levels": [*levels, *(kinds if lowest in levels else [])],
        }
        for t, levels in found
    ]

    def show() -> None:
        warn(release.private)
        if not rows:
            click.echo(
                "this release has no published tables: the run has not ended (das run status), or"
                " output.tables was false"
            )
            return
        shown = [r | {"levels": ", ".join(r["levels"])} for r in rows]
        console().print(records_table("Published tables", shown))

    return CommandAnswer(marked_rows(rows, release.private), show)


def _suffix(out: Path | None) -> str | None:
    """The format that the name of the file tells. A name that tells of another is refused."""
    suffix = out.suffix.removeprefix(".") if out else ""
    if suffix and suffix not in table_export.FORMATS:
        raise UserError(
            f"'.{suffix}' is none of the formats {', '.join(table_export.FORMATS)}",
            where=out,
            remedy="end the name in one of them, or give --format",
        )
    return suffix or None


@contextmanager
def _opened(out: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears whole or not at all."""
    if out is None and sys.stdout is None:
        raise UserError(
            "standard output is closed, and nothing else is named",
            where="das tables",
            remedy="name a file: --out",
        )
    if out is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the reader, such as head, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if (
        not out.absolute().parent.is_dir()
    ):  # which a writer of files would make: a name that was mistyped
        raise UserError(
            "there is no such folder", where=out, remedy="make it, or choose another --out"
        )
    try:
        with atomic.file(out) as draft, draft.open("wb") as file:
            yield file
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror})", where=out, remedy="choose another --out"
        ) from None
