"""Counts of areas of blocks, as published and as measured, with intervals.

Figures and tables of the terminal are imported where they are needed: with them the command takes
half a second longer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das.cli.kit.console import CommandAnswer, console, print_answer, records_table
from das.cli.kit.options import (
    OUT,
    PATH,
    coverage_option,
    guarded,
    json_option,
    picture_option,
    say_note,
    say_notes,
    warn,
    warn_of,
    write_picture,
)
from das.engine import Silent
from das.errors import UserError
from das.files import atomic, rows_csv
from das.files.readers import area_list
from das.files.release import place_search
from das.files.run.run_directory import release_of
from das.model.areas import AreaRow, Areas
from das.model.not_private import CELL, COLUMN, PLANNED, Private, marked
from das.release.area_counts import ComputedStatistic, counts, statistics, unasked
from das.release.publications import source_of
from das.release.replicate_source import ENOUGH, ReleaseSource
from das.spec import RunSpec
from das.tools.areas.page import AreaPlan, AreasOnSpine, planned


@click.command()
@click.argument("release", metavar="RUN", type=PATH)
@click.option(
    "--blocks",
    "listed",
    type=PATH,
    help="A CSV file area,block, or a block-assignment file of the Bureau.",
)
@click.option(
    "--kind", help="Areas that the release knows, instead of a list, such as SLDL, VTD or Place."
)
@click.option(
    "--name",
    "called",
    multiple=True,
    metavar="TEXT",
    help="The place that is called so, or has this GEOID, of any kind or level; repeatable.",
)
@click.option(
    "--statistics",
    "asked",
    multiple=True,
    metavar="NAME",
    help=(
        "A table (P2), a column (P0020002), or a query (votingage * hispanic); for other "
        "universes than persons, prefix the name and a colon. Computed for each area: "
        "share:P0040002/P0040001, difference:A/B, rank:A. Over all areas: deviation:A, "
        "dissimilarity:A/B. Repeatable. Default: the totals."
    ),
)
@coverage_option
@click.option(
    "--simultaneous",
    "together",
    is_flag=True,
    help="Intervals from replicates that hold for all areas at once.",
)
@click.option(
    "--plan",
    "as_plan",
    is_flag=True,
    help="The areas are the districts of a plan: each block must be in one.",
)
@picture_option
@json_option
@click.option(
    "--out",
    type=OUT,
    help=(
        "A file that ends in .csv, .parquet or .json, or in .html: a page with the population and"
        " deviation of each district and, by default, the voting-age population by race. Default: a"
        " table on the terminal."
    ),
)
@guarded
def area(
    release: Path,
    listed: Path | None,
    kind: str | None,
    called: tuple[str, ...],
    asked: tuple[str, ...],
    coverage: float,
    together: bool,
    as_plan: bool,
    picture: Path | None,
    as_json: bool,
    out: Path | None,
) -> None:
    """Counts of areas of blocks from a RUN or release: published counts, and unbiased estimates
    from all its measurements.

    The estimate has an exact standard error for any area. The published count agrees with every
    other published count. It has an interval if `das intervals` has made replicates. Measurements
    on demand (DHC) give no estimate: only the published count and its interval."""
    source = source_of(release_of(release), "area")
    _check_out(out, listed)
    areas = _chosen(source, listed, kind, called)
    if as_plan:
        areas.check_partition(source.spine)
    page = out if out is not None and out.suffix == ".html" else None
    wanted = statistics(source, asked or (unasked(source) if page else ()))
    found = counts(source, areas, wanted, coverage, together=together)
    rows, private = found.rows(), source.private
    if page is not None or picture is not None:
        from das.tools.areas import page as area_page
    if picture is not None:
        drawn = write_picture(picture, area_page.picture(source, found), *NO_PLAN)
        click.echo(f"written: {drawn}", err=True)
    if page is not None:
        atomic.write_text(page, area_page.page(source, found))
    elif out is not None:
        write(out, areas.kind, coverage, rows, private=private)
    if as_json or out is None:
        data = as_data(areas.kind, coverage, rows, private=private)
        print_answer(
            CommandAnswer(data, lambda: _print(areas.kind, coverage, rows, private)), as_json
        )
    if not called:
        _said(source, areas)
    computed = any(isinstance(a, ComputedStatistic) for a in wanted) or together
    if not found.replicates and (unfinished := source.unfinished):
        say_note(unfinished)
    elif computed or (source.measured is None and not found.replicates):
        _said_of_replicates(found.replicates)
    if found.replicates:
        say_notes(source.beside)
    if out is not None and not as_json:
        warn(private)
        click.echo(f"written: {out} ({len(areas):,} areas)")


#: Why some areas have no picture, and which do.
NO_PLAN = (
    ": the figure is of total persons in the districts of a plan, with each person in one",
    "draw all districts, with --blocks FILE --plan or a --kind such as SLDL; or leave it out",
)


def _print(kind: str, coverage: float, rows: Sequence[AreaRow], private: Private) -> None:
    from das.cli.kit.console import console, records_table
    from das.tools.areas.page import natural

    ordered = sorted(rows, key=lambda r: (not r.area, natural(r.name or r.area)))
    warn(private)
    console().print(records_table(f"{kind}: intervals at {100 * coverage:g} %", _shown(ordered)))
    if len({r.area for r in rows}) == 1 and (sentence := _quoted(rows[0], coverage)):
        click.echo(sentence)


def _quoted(row: AreaRow, coverage: float) -> str | None:
    """A sentence on the total of a place, as its page has it; none without an interval, and of
    another count."""
    low, high = (
        (row.estimate_low, row.estimate_high) if row.lower is None else (row.lower, row.upper)
    )
    if row.field != "total" or low is None or high is None:
        return None
    before = (
        "this follows from counts that were published without noise"
        if low == high
        else f"before noise was added, the count was between {max(low, 0):,.0f} and {high:,.0f}"
        f" ({100 * coverage:g}% confidence)"
    )
    return f"To quote: “{row.name or row.area} has {row.value:,.0f} {row.universe}; {before}.”"


def _chosen(
    source: ReleaseSource, listed: Path | None, kind: str | None, called: Sequence[str]
) -> Areas:
    if not called:
        return area_list.chosen(listed, kind, source.areas(), source.spine)
    if listed is not None:
        raise UserError(
            "the areas of a list of blocks have codes, and no names",
            where="--blocks, --name",
            remedy="give one of both",
        )
    return place_search.areas_called(source.spine, source.areas(), kind, called, say_note)


def _said(source: ReleaseSource, areas: Areas) -> None:
    """What a reader should know about the list; on stderr, because it is not a result."""
    level = source.spine.levels[-1]
    outside = source.spine.units(level) - len(np.unique(areas.unit))
    if outside:
        click.echo(f"{areas.kind}: {outside:,} units of {level} are in no area", err=True)
    twice = len(areas.unit) - len(np.unique(areas.unit))
    if twice:
        click.echo(
            f"{areas.kind}: areas overlap: {twice:,} units of {level} are in another area, too",
            err=True,
        )


def _said_of_replicates(replicates: int) -> None:
    if not replicates:
        say_note(
            "this release has no replicates, and so no intervals of published values: `das"
            " intervals` makes them"
        )
    elif replicates < ENOUGH:
        say_note(
            f"from {replicates} replicates: computed statistics, and intervals of all areas at"
            f" once, need {ENOUGH}"
        )


def _shown(rows: Sequence[AreaRow]) -> list[dict[str, Any]]:
    """Rows for the terminal; ends from replicates where there are any."""
    replicated = any(r.lower is not None for r in rows)
    return [
        {
            "area": f"{r.name} ({r.area})" if r.name and r.area else r.name or r.area,
            "records": r.universe,
            "count": r.label if ":" in r.field else f"{r.label} ({r.field})",
            "published": _number(r.value),
            **({"from": _number(r.lower), "to": _number(r.upper)} if replicated else {}),
            "estimate": _number(r.estimate, 1),
            "standard error": _number(r.standard_error, 1),
            "interval": (
                "–" if r.estimate_low is None else f"{r.estimate_low:,} to {r.estimate_high:,}"
            ),
        }
        for r in rows
    ]


def _number(value: float | None, digits: int | None = None) -> str:
    """Counts are whole; what is computed has four digits."""
    if value is None or value != value:
        return "–"
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:,.4g}"
        if digits is None
        else f"{value:,.{digits}f}"
    )


def _check_out(out: Path | None, listed: Path | None) -> None:
    if out is None:
        return
    if listed is not None and out.resolve() == listed.resolve():
        raise UserError(
            "this is the list of blocks itself", where=out, remedy="choose another --out"
        )
    if out.suffix.removeprefix(".") not in (forms := (*FORMATS, "html")):
        raise UserError(
            f"{out.suffix!r} is none of the formats {', '.join(forms)}",
            where=out,
            remedy="end the name in one of them",
        )
    if not out.absolute().parent.is_dir():
        raise UserError(
            "there is no such folder", where=out, remedy="make it, or choose another --out"
        )


# ``das plan --areas``: how well areas would be known on each spine, on the terminal or as JSON.

#: Areas that the terminal lists; JSON has all.
LISTED = 200
NOTE = (
    "standard deviations of totals, before anything is measured. topdown: of the descent, before"
    " non-negativity, which makes those of areas that cut block groups several times smaller. full"
    " information: from all levels. estimate: the standard error that `das area` will state, with"
    " all that is known of structures."
)
FIGURES = ("topdown", "full_information", "estimate")


def of_areas(spec: RunSpec, universe: str, listed: Path, paths: Sequence[Path]) -> CommandAnswer:
    """How well the areas of a list would be known."""
    found = planned(spec, paths, universe, listed, Silent())
    data = marked(_plan_said(found, spec, universe), spec.run.private, PLANNED)
    return CommandAnswer(data, lambda: _print_plan(found, spec, universe))


def _print_plan(plan: AreaPlan, spec: RunSpec, universe: str) -> None:
    warn_of(spec)
    console().print(
        records_table(
            f"{spec.run.name}: {universe}, root mean square over {len(plan.areas):,} areas of "
            f"{plan.areas.kind}",
            [_root(s) for s in plan.spines],
        )
    )
    shown = plan.areas.codes[:LISTED]
    rows: list[dict[str, Any]] = [
        {"area": plan.areas.title(i)}
        | {
            f"{s.name}, {n}": _plan_shown(getattr(s, n)[i])
            for s in plan.spines
            for n in ("topdown", "estimate")
        }
        for i in range(len(shown))
    ]
    console().print(records_table("Standard deviation of each total", rows))
    if len(shown) < len(plan.areas):
        click.echo(f"and {len(plan.areas) - len(shown):,} areas more: --json has all")
    if plan.shares:
        shares = [
            {"level": s.level, "share now, %": 100 * s.now, "best for these areas, %": 100 * s.best}
            for s in plan.shares
        ]
        console().print(
            records_table("Shares of the levels, on the spine of the configuration", shares)
        )
    click.echo(NOTE)


def _root(s: AreasOnSpine) -> dict[str, Any]:
    return {"spine": s.name, "which is": s.says} | {
        n.replace("_", " "): _plan_shown(np.sqrt(np.mean(getattr(s, n) ** 2))) for n in FIGURES
    }


def _plan_shown(value: float) -> float | str:
    return round(float(value), 2) if np.isfinite(value) else "–"


def _plan_said(plan: AreaPlan, spec: RunSpec, universe: str) -> dict[str, Any]:
    spines = [
        {
            "name": s.name,
            "says": s.says,
            "root_mean_square": {
                n: _plan_number(np.sqrt(np.mean(getattr(s, n) ** 2))) for n in FIGURES
            },
            "areas": [
                {"area": plan.areas.code(i)} | {n: _plan_number(getattr(s, n)[i]) for n in FIGURES}
                for i in range(len(plan.areas))
            ],
        }
        for s in plan.spines
    ]
    return {
        "name": spec.run.name,
        "universe": universe,
        "kind": plan.areas.kind,
        "spines": spines,
        "shares": [{"level": s.level, "now": s.now, "best": s.best} for s in plan.shares],
    }


def _plan_number(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


# Counts of areas as CSV, Parquet or JSON, by the ending of the file's name.

FORMATS = ("csv", "parquet", "json")
_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def write(
    path: Path, kind: str, coverage: float, rows: Sequence[AreaRow], *, private: Private
) -> None:
    """``kind`` of areas, with intervals of ``coverage``. The file appears whole or not at all."""
    if path.suffix == ".csv":
        rows_csv.write_rows(path, AreaRow, rows, private=private)
    elif path.suffix == ".parquet":
        with atomic.file(path) as draft:
            pq.write_table(_table(rows, private), draft, compression="zstd")
    else:
        data = as_data(kind, coverage, rows, private=private)
        atomic.write_text(path, json.dumps(data, ensure_ascii=False))


def as_data(
    kind: str, coverage: float, rows: Sequence[AreaRow], *, private: Private
) -> dict[str, Any]:
    """The rows as JSON has them, with what they are."""
    about = {"kind": kind, "coverage": coverage, "rows": [asdict(r) for r in rows]}
    return marked(about, private)


def _table(rows: Sequence[AreaRow], private: Private) -> pa.Table:
    """Numbers are numbers, even where all of a column are missing."""
    columns: dict[str, pa.Array] = {}
    for name, said in AreaRow.__annotations__.items():
        kind = _KINDS[next(k for k in _KINDS if k.__name__ == said.split(" ")[0])]
        columns[name] = pa.array(list(map(attrgetter(name), rows)), kind)
    return pa.table(columns | ({} if private else {COLUMN: pa.repeat(CELL, len(rows))}))
