"""What a user reads of a release: frames with words for the codes, from the release's own
specification."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.api import frames
from das.errors import InputError, ReleaseError
from das.files.measurements import frame as nmf_frame
from das.files.messages import privacy_of
from das.files.microdata import reading as microdata_reading
from das.files.readers import area_list
from das.files.release import spine as spine_file
from das.files.release import table_export
from das.files.release import tables as published_tables
from das.files.release.replicates import BASIS, ENDS
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory, read_text, release_above
from das.model.areas import NUMBERS as AREA_NUMBERS
from das.model.error_rows import ErrorRow
from das.model.mechanisms import COVERAGE
from das.model.names import Codes, encoded
from das.model.not_private import CELL, COLUMN
from das.model.post_processing import PostProcessing
from das.model.schema import Schema
from das.model.spelling import key, named, product
from das.model.universe import PERSONS
from das.publications.published.replicates import PublishedReplicates
from das.release import area_counts, dictionary
from das.release.area_counts import counts
from das.release.intervals import Intervals
from das.release.opened import OpenedRelease, open_release
from das.release.own_replicates import OwnReplicates
from das.release.publications import RowOptions, publication_of, require, source_of
from das.release.replicate_source import ReleaseSource, ReplicateSource
from das.spec import of_release
from das.tables import Table

SPINE = "spine.parquet"


def read_nmf(
    path: Path | str,
    level: str | None = None,
    query: str | None = None,
    geocode: str | Sequence[str] | None = None,
    *,
    tidy: bool = True,
    schema: Schema | None = None,
    kind: str = "DPQuery",
    universe: str | None = None,
) -> pd.DataFrame:
    """Measurements (``kind="DPQuery"``) or constraints (``"Constraint"``) below ``path``.

    ``path`` is a run, its release, one of its ``nmf`` folders (persons, unless you name the
    ``universe``), or a folder in the Bureau's layout. ``level``, ``query`` (with or without its
    suffix) and ``geocode`` select; case, blanks and the order of factors do not matter. Tidy: one
    row for each answer. Its columns are ``level``, ``geocode``, ``name`` (of the place, in a
    release of ours) and ``query``. Each attribute has a column with the group's code (``*`` where
    summed out). Then come ``label`` (what was counted), ``value`` and ``variance`` (or ``sign``).
    Otherwise: one row for each unit and query, lists in ``value``.

    Codes and labels are those of the release's specification. If there is none, give the
    ``schema``; otherwise a published schema with these attributes is used, or groups are
    numbered. Rows of a seeded run have a column ``NOT PRIVATE``."""
    if (
        geocode is not None
        and not isinstance(geocode, str)
        and (isinstance(geocode, int) or not all(isinstance(g, str) for g in geocode))
    ):
        raise InputError(
            f"geocode: {geocode!r} is not text", where=path, remedy='codes are text, such as "04"'
        )
    path, chosen = Path(path), () if geocode is None else geocode
    codes = (chosen,) if isinstance(chosen, str) else tuple(chosen)
    if schema is not None:
        found: Any = nmf_frame.read_nmf(
            path, level, query, codes or None, tidy=tidy, schema=schema, kind=kind
        )
    else:
        half = publication_of(release_above(path) or path)
        require(half, "nmf", path)
        found = half.measured_rows(path, RowOptions(level, query, codes, universe, kind, tidy))
    return _marked(_named(pd.DataFrame(found), path), path)


def read_microdata(path: Path | str, *, labels: bool = False) -> pd.DataFrame:
    """The microdata as a data frame, one row per record, coded columns as categories of strings.

    ``path`` is a folder of parts, one part, a pipe-delimited microdata file, or a run or release
    folder, whose persons are read. With ``labels`` the coded columns hold words instead of
    codes. The file must then be in its release, which has the labels. Rows of a seeded run have
    a column ``NOT PRIVATE``."""
    frame = microdata_reading.read_frame(path)
    if not labels:
        return frame
    release = release_above(Path(path))
    if release is None:
        raise InputError(
            "labels are those of a release, and this is in none",
            where=path,
            remedy="name the file in its release, or leave out labels=True",
        )
    here = Path(path).resolve()
    words: dict[str, dict[str, str]] = {}
    inside = (release / "microdata") in here.parents
    folder = here.relative_to(release / "microdata").parts[0] if inside else PERSONS.folder
    file = f"microdata/{folder.removesuffix('.csv')}/*.parquet"
    for entry in dictionary.entries(_after(release), spine_file.read(release / SPINE), {}):
        if (entry.kind, entry.file) == ("code", file):
            words.setdefault(entry.column, {})[entry.code] = entry.label
    return frame.assign(
        **{c: frame[c].cat.rename_categories(said) for c, said in words.items() if c in frame}
    )


def read_tables(
    path: Path | str, table: str | None = None, level: str | None = None, *, wide: bool = False
) -> pd.DataFrame:
    """The published tables of a run or a release: a row for each unit and column.

    Columns are ``table``, ``level``, ``geocode``, ``geoid`` (text, 15 digits for a block),
    ``name``, ``field`` (such as ``P0010001``), ``label``, ``path`` and ``value``. A ``label`` is
    unique within a table. A ``path`` has the labels of the columns that contain it, and its own:
    ``Total > Male > Under 5 years``.

    ``wide``: a row for each unit and a column for each field; ``frame.attrs["labels"]`` has their
    paths. ``table`` and ``level`` choose one, whatever their case. Tables that use an attribute
    assigned by a rule have a column ``NOT COUNTED``; those of a seeded run have a column ``NOT
    PRIVATE``."""
    source = source_of(_folder(path))
    if wide:
        each = _published(source, table, level)
        parts = ((here, at, rows.codes, rows.values) for here, at, rows in each)
        return frames.wide(source.spine, source.private, parts)
    return _of_tables(
        source,
        (
            (here, at, rows.codes, {"value": rows.values})
            for here, at, rows in _published(source, table, level)
        ),
    )


def read_intervals(
    path: Path | str,
    table: str | None = None,
    level: str | None = None,
    *,
    method: str = "measurements",
    coverage: float = COVERAGE,
) -> pd.DataFrame:
    """The published tables, as from ``read_tables``, with an interval for every count.

    ``"measurements"``, at ``coverage``: ``low`` and ``high``, missing where no measurement
    determines the count. An interval of a single number means that the count is known exactly.
    ``"replicates"``: ``lower`` and ``upper`` of ``value``, at the coverage of ``das intervals``,
    and their ``basis``. The path is a release to which ``das intervals`` has added them, or a
    folder that it wrote from another publisher's replicates. Ends are missing for counts that
    are not covered; the basis is empty for counts that are 0 in all replicates."""
    if method not in ("measurements", "replicates"):
        raise InputError(
            f"there is no method {method!r}",
            where="read_intervals",
            remedy="say 'measurements' or 'replicates'",
        )
    if method == "replicates":
        return _replicated(Path(path), table, level)
    release = opened(path)
    source, parts = OwnReplicates.from_release(release), []
    for here, at, rows in _published(source, table, level):
        told = Intervals(release, source.universe(here), coverage).of_units(at, here.masks)
        columns = {"value": rows.values} | _ends(("low", "high"), told.low, told.high)
        parts.append((here, at, rows.codes, columns))
    return _of_tables(source, parts)


def _replicated(path: Path, table: str | None, level: str | None) -> pd.DataFrame:
    of = PublishedReplicates.read(path) or source_of(_folder(path), "intervals")
    names = [] if table is None else [named(table, [t.name for _, t in of.tables], "table", path)]
    levels = [] if level is None else [named(level, list(of.spine.levels), "level", path)]
    parts = []
    for _, here, at, (value, lower, upper, basis) in of.intervals(names, levels):
        columns = {ENDS[0]: value} | _ends(ENDS[1:], lower, upper) | {BASIS: basis}
        parts.append((here, at, of.spine.codes[of.spine.index(at)], columns))
    if not parts:
        raise ReleaseError(
            "there are no intervals from replicates",
            where=path,
            remedy="`das intervals` makes them",
        )
    return _of_tables(of, parts)


def _of_tables(
    source: ReplicateSource, parts: Iterable[tuple[Table, str, Codes, Mapping[str, Any]]]
) -> pd.DataFrame:
    """Columns of tables and levels, one under the other."""
    each = (frames.of_table(source.spine, source.private, *part) for part in parts)
    return pd.concat(each, ignore_index=True)


def _ends(names: Sequence[str], low: NDArray[Any], high: NDArray[Any]) -> dict[str, Any]:
    """Both ends of intervals, missing where the upper one is negative."""
    return {
        name: pd.arrays.IntegerArray(end.ravel(), (high < 0).ravel())
        for name, end in zip(names, (low, high), strict=True)
    }


def read_areas(
    path: Path | str,
    blocks: Path | str | None = None,
    *,
    kind: str | None = None,
    statistics: Sequence[str] = (),
    coverage: float = COVERAGE,
    simultaneous: bool = False,
) -> pd.DataFrame:
    """Counts of areas of blocks, a row for each area and statistic: ``value`` as published,
    ``lower`` to ``upper`` its interval from replicates, where the release has any, with its
    ``rmse`` and ``bias``; the unbiased ``estimate`` from all measurements with its
    ``standard_error``, and ``estimate_low`` to ``estimate_high`` the interval about it; missing
    where the blocks' measurements do not determine the count. Intervals hold the true count with
    probability ``coverage``: each by itself, or with ``simultaneous`` those from replicates for all
    areas at once.

    ``blocks`` is a file ``area,block``, or a block-assignment file of the Bureau; ``kind`` names
    areas that the release knows, such as ``"Place"``. ``statistics`` are tables (``"P2"``), columns
    (``"P0020002"``) or queries, or computed of such, as of `das area`
    (``"share:P0040002/P0040001"``, which has ``other_side``, too); without any, the total of each
    universe."""
    source = source_of(_folder(path), "area")
    if isinstance(statistics, str):
        raise InputError(
            "statistics are a list of texts", where="read_areas", remedy=f"write [{statistics!r}]"
        )
    areas = area_list.chosen(
        None if blocks is None else Path(blocks), kind, source.areas(), source.spine
    )
    asked = area_counts.statistics(source, statistics)
    rows = counts(source, areas, asked, coverage, together=simultaneous).rows()
    if unfinished := source.unfinished:
        warnings.warn(unfinished, stacklevel=2)
    frame = pd.DataFrame([asdict(r) for r in rows]).astype(
        {"estimate_low": "Int64", "estimate_high": "Int64"} | dict.fromkeys(AREA_NUMBERS, float)
    )
    return frame if source.private else frame.assign(**{COLUMN: CELL})


def read_estimates(
    path: Path | str,
    level: str | None = None,
    query: str | None = None,
    *,
    universe: str = PERSONS.name,
) -> pd.DataFrame:
    """The unbiased estimates of a full-information release, a row for each answer. The columns
    are those of ``read_nmf``, with ``standard_error`` instead of ``variance``. The units are the
    measured ones."""
    release = opened(path)
    of = release.after.universe(universe)
    spine = release.tree(of).spine
    reader = release.estimates(of)
    levels = [lv for lv in spine.levels if reader.queries(lv)]
    if not levels:
        raise ReleaseError(
            "this release has no unbiased estimates",
            where=path,
            remedy=(
                "they are of full information: `das estimate --from` it with --method"
                " full-information"
            ),
        )
    parts = []
    for at in levels if level is None else [named(level, levels, "level", path)]:
        known = reader.queries(at)
        for name in known if query is None else [product(query, known, path)]:
            value, error = reader.read(at, name, 0, spine.units(at))
            columns: dict[str, NDArray[Any]] = {"value": value, "standard_error": error}
            parts.append(
                frames.tidy(
                    spine,
                    at,
                    of.schema,
                    of.schema.query(name),
                    columns,
                    private=release.after.private,
                )
            )
    return pd.concat(parts, ignore_index=True)


def read_errors(path: Path | str) -> pd.DataFrame:
    """The errors of a run against the truth: **confidential**, because they reveal it. The
    columns are ``universe``, those of ``errors.csv`` (``das.model.error_rows.ErrorRow``), and
    ``title``, the query in words."""
    release = opened(path)
    directory = RunDirectory(release.folder.parent)
    if not directory.errors.is_file():
        raise InputError(
            "there are no errors here: they are in the confidential part of a run, which a release"
            " is without",
            where=path,
            remedy="give the folder of the run; `das evaluate RUN` computes its errors again",
        )
    parts = []
    for u in release.after.universes:
        rows = tallies.read_errors(directory.errors_of(u.name))
        frame = pd.DataFrame([asdict(r) for r in rows], columns=[f.name for f in fields(ErrorRow)])
        frame.insert(0, "universe", u.name)
        frame.insert(3, "title", [u.schema.query(q).title for q in frame["query"]])
        parts.append(frame)
    return _marked(pd.concat(parts, ignore_index=True), path)


def opened(path: Path | str) -> OpenedRelease:
    """The release of a run, or in its folder. Raises :class:`InputError` where there is none."""
    return open_release(_folder(path))


def _folder(path: Path | str) -> Path:
    folder = release_above(Path(path))
    if folder is None:
        raise InputError(
            "this is no release", where=path, remedy="give a run, or its folder release/"
        )
    return folder


def _published(
    release: ReleaseSource, table: str | None, level: str | None
) -> Iterator[tuple[Table, str, published_tables.TableValues]]:
    """The requested published tables that have files, each with a level and its values."""
    every = [t for _, t in release.tables]
    there = {
        t.name: levels
        for t, levels in table_export.there(release.folder, every, release.spine.levels)
    }
    if not there:
        raise ReleaseError(
            "this release has no published tables",
            where=release.folder,
            remedy=(
                "the run has not ended (das run status), or output.tables was false: `das estimate"
                " --from` with it true"
            ),
        )
    names = list(there) if table is None else [named(table, list(there), "table", release.folder)]
    at = None if level is None else _level(release, level)
    for t in (t for t in every if t.name in names):
        for lv in (lv for lv in there[t.name] if at in (None, lv)):
            path = release.folder / "tables" / f"{t.name}_{lv}.csv"
            yield t, lv, published_tables.read(path)


def _level(release: ReleaseSource, wanted: str) -> str:
    if key(wanted) in {key(a.kind) for a in release.areas()}:
        remedy = f"das.read_areas(run, kind={wanted!r}, statistics=[table]) has its counts"
        raise InputError(f"{wanted!r} is no level: it cuts across them", remedy=remedy)
    return named(wanted, list(release.spine.levels), "level", release.folder)


def _named(frame: pd.DataFrame, path: Path | str) -> pd.DataFrame:
    """With the names of places after their codes; without them where there is no release that knows
    them."""
    release = release_above(Path(path))
    if release is None or not (release / SPINE).is_file():
        return frame
    spine = spine_file.read(release / SPINE)
    names = np.full(len(frame), "", dtype=object)
    for level, rows in frame.groupby("level", sort=False).indices.items():
        names[rows] = frames.names_of(spine, level, encoded(frame["geocode"].to_numpy()[rows]))
    frame.insert(list(frame.columns).index("geocode") + 1, "name", names)
    return frame


def _marked(frame: pd.DataFrame, path: Path | str) -> pd.DataFrame:
    """Rows of a seeded run say so; those of a file that is by itself have been told by its
    reader."""
    release = release_above(Path(path))
    return frame if release is None or privacy_of(release) else frame.assign(**{COLUMN: CELL})


def _after(release: Path) -> PostProcessing:
    path = release / "spec.toml"
    return of_release(read_text(path, "release specification"), where=str(path)).after
