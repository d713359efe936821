"""Files of a study of protection methods: records as counts for a run, protected tables as CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from das.errors import InputError
from das.files import atomic, rows_csv
from das.files import codes as texts
from das.files.parquet import DAMAGE
from das.files.readers.source import members
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import Codes, encoded, text
from das.model.schema import Schema
from das.model.spine import Spine, places
from das.tools.maps import boundaries
from das.tools.protection.published import UNBOUNDED, WITHHELD, LevelLines, ProtectedTables, most


def write_counts(path: Path, spine: Spine, counts: Histogram, schema: Schema) -> None:
    """Records of the lowest level for the reader ``table``: the codes of all levels
    (``code:<level>``), the attributes (``attribute:<name>``) and a ``count``; a line with a count
    of 0 for each place, so that all of them are known."""
    lowest = spine.levels[-1]
    empty = np.arange(spine.units(lowest))
    unit = np.concatenate([counts.unit, empty])
    cell = np.concatenate([counts.cell, np.zeros(len(empty), dtype=np.int64)])
    count = np.concatenate([counts.count, np.zeros(len(empty), dtype=np.int64)])
    columns: dict[str, pa.Array] = {}
    for depth, level in enumerate(spine.levels):
        known = texts.column(spine.codes[depth])
        at = pa.array(spine.up(lowest, level)[unit])
        columns[f"code:{level}"] = pa.DictionaryArray.from_arrays(at, known).cast(pa.string())
    levels = np.unravel_index(cell, schema.shape)
    for attribute, index in zip(schema.attributes, levels, strict=True):
        known = pa.array(attribute.levels, pa.string())
        coded = pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), known)
        columns[f"attribute:{attribute.name}"] = coded.cast(pa.string())
    columns["count"] = pa.array(count)
    with atomic.file(path, 0o600) as draft:
        pq.write_table(pa.table(columns), draft, compression="zstd")


#: How a place is named: by its GEOID, or by its code where it has none.
_CODES = ("GEOID", "GEOCODE")


def write_protected(folder: Path, published: ProtectedTables) -> list[Path]:
    """The tables of each level as CSV, as the Census Bureau publishes its own: a row a place, a
    column a line, empty where it is withheld (``tables/<level>.csv``).

    Next to them what anybody can know of each line, in the same shape: ``bounds/<level>_lower.csv``
    and ``_upper.csv``, empty where there is no upper bound, not even a line that holds its records; and the words of the lines,
    ``lines.csv``."""
    out, words = [], []
    for level, lines in published.levels.items():
        tables = published.tables.tables[level]
        words += [(level, t.name, c, x) for t in tables for c, x in zip(t.columns, t.labels)]
        head, places = _places(published.spine, level)
        header = (*head, *published.tables.lines(level).names)
        for name, values, none in (
            (f"tables/{level}", lines.value, WITHHELD),
            (f"bounds/{level}_lower", lines.lower, None),
            (f"bounds/{level}_upper", most(lines, published.tables.lines(level).matrix), UNBOUNDED),
        ):
            path = folder / f"{name}.csv"
            atomic.make_folder(path.parent)
            rows = zip(places, values.tolist(), strict=True)
            out.append(
                rows_csv.write(
                    path, header, ((*p, *("" if v == none else v for v in row)) for p, row in rows)
                )
            )
    return [*out, rows_csv.write(folder / "lines.csv", ("level", "table", "line", "label"), words)]


def _places(spine: Spine, level: str) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    """How the columns of places are named; and the GEOID of each place, or its code where it has
    none, and its name."""
    geoids, codes = spine.geoids(level), spine.codes[spine.index(level)]
    known = bool((geoids != b"").all())
    names = spine.names[spine.index(level)].tolist()
    coded = text(geoids if known else codes).tolist()
    return (_CODES[0 if known else 1], "NAME"), list(zip(coded, names, strict=True))


@dataclass(frozen=True, eq=False)
class ProtectedRows(Frozen):
    """A level of what :func:`write_protected` wrote: ``codes`` of the units, ``names`` of the
    lines, and what is known of each, ``(units, lines)``."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    lines: LevelLines


def read_protected(folder: Path, price: tuple[float, ...] = (0.0,)) -> dict[str, ProtectedRows]:
    """The tables and bounds of a folder, by level; none where it has no bounds. Prices are not in
    the files. Raises :class:`InputError` for a file that is damaged."""
    return {
        path.stem: _protected(folder, path.stem, price)
        for path in sorted((folder / "tables").glob("*.csv"))
        if _bounds(folder, path.stem, "lower").is_file()
    }


def _bounds(folder: Path, level: str, end: str) -> Path:
    return folder / "bounds" / f"{level}_{end}.csv"


def _protected(folder: Path, level: str, price: tuple[float, ...]) -> ProtectedRows:
    value = _numbers(folder / "tables" / f"{level}.csv", WITHHELD)
    lower = _numbers(_bounds(folder, level, "lower"), 0)
    upper = _numbers(_bounds(folder, level, "upper"), UNBOUNDED)
    for of, end in ((lower, "lower"), (upper, "upper")):
        if of[:2] != value[:2]:
            where = _bounds(folder, level, end)
            raise InputError("has other places or lines than the tables", where=where)
    return ProtectedRows(*value[:2], LevelLines(lower[2], upper[2], value[2], price))


def _numbers(path: Path, empty: int) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """The codes of the places, the names of the columns, and their numbers, ``(places, columns)``;
    ``empty`` where there is none."""
    texts_of = dict.fromkeys((*_CODES, "NAME"), pa.string())
    try:
        rows = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=texts_of))
        codes = next(rows[name].to_pylist() for name in _CODES if name in rows.column_names)
        names = tuple(name for name in rows.column_names if name not in texts_of)
        columns = [rows[name].cast(pa.int64()).fill_null(empty).to_numpy() for name in names]
    except (pa.ArrowInvalid, StopIteration) as error:
        raise InputError(f"is damaged ({error or 'no codes'})", where=path) from None
    return tuple(codes), names, np.stack(columns, axis=1)


# A coordinate pair for each lowest place, for methods that look for near partners.
#
# Three kinds of file: a table (CSV or Parquet) with columns ``code``, ``x``, ``y``; the geographic
# header of 2010 redistricting files (``{ss}2010.pl.zip``), whose internal points are used; or
# boundaries, whose centroids it takes. Degrees become kilometers on a plane, so that distances in
# both directions compare.

Points = NDArray[np.float64]
#: Columns of a table.
CODE, X, Y = "code", "x", "y"
#: Kilometers in a degree of latitude.
_DEGREE = 111.195
#: Of the header of 2010, from 0: the level, the code of a block, and its internal point.
_LEVEL, _BLOCK = slice(8, 11), (slice(27, 32), slice(54, 65))
_LATITUDE, _LONGITUDE = slice(336, 347), slice(347, 359)


def read_points(path: Path, codes: Codes, geoids: Codes) -> Points:
    """The point of each place, ``(places, 2)``. ``geoids`` are other codes by which a file may name
    them. Raises :class:`InputError` where a place has none."""
    if not path.is_file():
        raise InputError("there is no such file", where=path, remedy="check data.points")
    if path.suffix in (".csv", ".parquet"):
        known, at = _table(path)
    elif path.name.endswith((".pl.zip", "geo2010.pl")):
        known, at = _header(path)
    else:
        return _plane(_centroids(path, codes, geoids))
    for names in (codes, geoids):
        row = places(known, names)
        if (row >= 0).all():
            return _plane(at[row])
    lost = codes[places(known, codes) < 0]
    raise InputError(
        f"{len(lost):,} of {len(codes):,} places have no point, such as {text(lost)[0]}",
        where=path,
        remedy="write codes as the records do, and a line for every place",
    )


def _table(path: Path) -> tuple[Codes, Points]:
    try:
        kinds = {CODE: pa.string(), X: pa.float64(), Y: pa.float64()}
        found = (
            pyarrow.parquet.read_table(path, columns=list(kinds))
            if path.suffix == ".parquet"
            else pyarrow.csv.read_csv(
                path,
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=kinds, include_columns=list(kinds)
                ),
            )
        )
        code = encoded(found[CODE].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str))
        at = np.stack([found[c].to_numpy().astype(np.float64) for c in (X, Y)], axis=1)
    except (*DAMAGE, KeyError, ValueError) as error:
        raise InputError(
            f"is no table of points ({error})"[:300],
            where=path,
            remedy=f"give columns {CODE}, {X} and {Y}",
        ) from None
    if not np.isfinite(at).all():
        raise InputError("a place has no number as its point", where=path, remedy="fill x and y")
    return code, at


def _header(path: Path) -> tuple[Codes, Points]:
    """Of the blocks: longitude and latitude."""
    rows = []
    for member in members(path):
        if not member.base.endswith("geo2010.pl"):
            continue
        with member.open() as stream:
            for line in stream:
                if line[_LEVEL] == b"750":
                    code = b"".join(line[s] for s in _BLOCK)
                    rows.append((code, float(line[_LONGITUDE]), float(line[_LATITUDE])))
    if not rows:
        raise InputError(
            "holds no header of 2010 with blocks",
            where=path,
            remedy="give {ss}2010.pl.zip, a table of points, or boundaries",
        )
    return np.array([r[0] for r in rows]), np.array([r[1:] for r in rows], dtype=np.float64)


def _centroids(path: Path, codes: Codes, geoids: Codes) -> Points:
    """By the formula for a polygon, over all rings: holes turn the other way, and count off."""
    found = boundaries.joined(boundaries.opened(path), path, text(geoids), text(codes))
    out = np.full((len(codes), 2), np.nan)
    for i, rings in enumerate(found.shapes):
        area, sums = 0.0, np.zeros(2)
        for ring in rings:
            here, after = ring, np.roll(ring, -1, axis=0)
            cross = here[:, 0] * after[:, 1] - after[:, 0] * here[:, 1]
            area += float(cross.sum()) / 2
            sums += ((here + after) * cross[:, None]).sum(axis=0) / 6
        if area:
            out[i] = sums / area
    if (lost := ~np.isfinite(out).all(axis=1)).any():
        raise InputError(
            f"{int(lost.sum()):,} of {len(codes):,} places have no boundary, such as"
            f" {text(codes[lost])[0]}",
            where=path,
            remedy="give boundaries of the lowest places, all of them",
        )
    return out


def _plane(at: Points) -> Points:
    """Degrees as kilometers from the middle; what are no degrees stay as they are."""
    if (np.abs(at[:, 0]) > 360).any() or (np.abs(at[:, 1]) > 90).any():
        return at
    middle = at.mean(axis=0)
    across = np.cos(np.radians(middle[1]))
    return np.asarray((at - middle) * _DEGREE * np.array([across, 1.0]))
