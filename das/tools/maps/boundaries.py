"""Boundaries of places from a file that a user names: GeoPackage, GeoJSON, shapefile, or what else
geopandas reads.

geopandas comes with the extra ``maps``; it is loaded when a file is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, UserError

Ring = NDArray[np.float64]
#: Details smaller than this share of the whole extent are left out: less than a point of any
#: screen.
DETAIL = 1 / 2000
#: The word for the column of land area, and how the Census Bureau's files begin its name; it is in
#: square meters.
LAND = "land-area"
LAND_COLUMNS = ("ALAND", "AREALAND")


@dataclass(frozen=True, eq=False)
class Boundaries:
    """``shapes[i]``: the rings of unit ``i``, ``(points, 2)`` each, outer ones anticlockwise and
    holes clockwise; none where the file has no boundary of it. ``column`` is what they were joined
    by, ``others`` are keys of no unit. ``sums``: of a column of numbers that was asked for, the sum
    over the boundaries of each unit, NaN where there is none; ``summed`` is its name."""

    shapes: tuple[tuple[Ring, ...], ...]
    column: str
    others: tuple[str, ...]
    sums: NDArray[np.float64] | None = None
    summed: str = ""


def joined(
    frame: Any,
    path: Path,
    geoids: NDArray[np.str_],
    codes: NDArray[np.str_],
    column: str | None = None,
    per: str | None = None,
) -> Boundaries:
    """The boundary of each unit from the rows of :func:`opened`, joined by its GEOID or its code,
    whichever the file has.

    ``column`` is the column of the file with the GEOIDs; without it, the one with the most of them.
    ``per`` is a column of numbers to add up, or :data:`LAND`, whatever its name is.

    Raises:
        UserError: there is no such column.
        InputError: the file has none of these units."""
    summed = "" if per is None else _numbers(frame, per, path)
    texts = {str(c): _texts(frame[c], geoids) for c in frame.columns if c != frame.geometry.name}
    if column is not None and column not in texts:
        raise UserError(
            f"there is no column {column!r}",
            where=path,
            remedy=f"its columns are {', '.join(texts)}",
        )
    hits = {
        (c, kind): int(np.isin(known[known != ""], texts[c]).sum())
        for c in ([column] if column else texts)
        for kind, known in (("GEOID", geoids), ("code", codes))
    }
    best = max(hits, key=lambda k: hits[k], default=None)
    if best is None or not hits[best]:
        raise InputError(
            "no boundary belongs to a unit of this level, such as the one with the GEOID"
            f" {geoids[0] or codes[0]}",
            where=path,
            remedy=(
                "choose a file and a --level that go together; --key names the column "
                f"that holds the GEOIDs: {' or '.join(texts) or 'there is none'}"
            ),
        )
    keys, known = texts[best[0]], geoids if best[1] == "GEOID" else codes
    rings: dict[str, list[Ring]] = {}
    for key, geometry in zip(keys, _drawn(frame, np.isin(keys, known)), strict=True):
        rings.setdefault(key, []).extend(_rings(geometry))
    others = tuple(k for k in rings if k not in set(known.tolist()))
    return Boundaries(
        tuple(tuple(rings.get(k, ()) if k else ()) for k in known.tolist()),
        best[0],
        others,
        _sums(keys, frame[summed].to_numpy(np.float64), known) if summed else None,
        summed,
    )


def _numbers(frame: Any, per: str, path: Path) -> str:
    """The name of the column of numbers that was asked for. Raises :class:`UserError`."""
    there = [str(c) for c in frame.columns if frame[c].dtype.kind in "iuf"]
    beginning = LAND_COLUMNS if per == LAND else (per,)
    found = [c for c in there if c == per or (per == LAND and c.upper().startswith(beginning))]
    if not found:
        raise UserError(
            "these boundaries have no column of land area (ALAND, ALAND20, ...)"
            if per == LAND
            else f"there is no column of numbers {per!r}",
            where=path,
            remedy=f"name a column that has it: --per COLUMN, of {', '.join(there)}"
            if there
            else "it has no numbers: take boundaries that come with their areas, such as TIGER/Line",
        )
    return found[0]


def _sums(
    keys: NDArray[np.str_], values: NDArray[np.float64], known: NDArray[np.str_]
) -> NDArray[np.float64]:
    """For each known key, the sum over its rows: NaN if there is no row, or no number in one."""
    sums: dict[str, float] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        sums[key] = sums.get(key, 0.0) + value
    return np.array([sums.get(k, np.nan) if k else np.nan for k in known.tolist()])


def opened(path: Path) -> Any:
    """The rows of a file, a boundary each.

    Raises:
        UserError: geopandas is not installed.
        InputError: not a file of boundaries."""
    try:
        import geopandas
    except ImportError:
        raise UserError(
            "maps need geopandas, which is not installed",
            where="das map",
            remedy="python -m pip install 'topdown-das[maps]'",
        ) from None
    if not path.exists():
        raise InputError("there is no such file of boundaries", where=path, remedy="check the path")
    try:
        frame = geopandas.read_file(path)
    except Exception as error:  # one of several of the libraries below it
        raise InputError(
            f"cannot be read as boundaries ({str(error).splitlines()[0][:200]})",
            where=path,
            remedy="give a GeoPackage, GeoJSON or shapefile",
        ) from None
    if not hasattr(frame, "geometry") or not len(frame):
        raise InputError(
            "has no boundaries in it", where=path, remedy="give a GeoPackage, GeoJSON or shapefile"
        )
    return frame


def _texts(values: Any, geoids: NDArray[np.str_]) -> NDArray[np.str_]:
    """Keys as text. A file that holds them as numbers has lost their leading zeros, which come
    back."""
    numbers = values.dtype.kind in "iuf"
    texts = [
        ("" if v != v or v is None else str(int(v)) if numbers else str(v).strip()) for v in values
    ]
    width = max(map(len, geoids.tolist()), default=0)
    return np.array([t.zfill(width) if numbers and t else t for t in texts], dtype=np.str_)


def _drawn(frame: Any, wanted: NDArray[np.bool_]) -> Sequence[Any]:
    """Geometries in a plane, as it is seen from above the middle of those that are wanted."""
    shapes = frame.geometry
    west, south, east, north = shapes[wanted].total_bounds
    degrees = (
        frame.crs.is_geographic if frame.crs is not None else abs(east) <= 180 and abs(north) <= 90
    )
    simple = shapes.simplify(max(east - west, north - south) * DETAIL)
    if degrees:
        simple = simple.affine_transform(
            [float(np.cos(np.radians((south + north) / 2))), 0, 0, 1, 0, 0]
        )
    return list(simple)


def _rings(geometry: Any) -> list[Ring]:
    from shapely.geometry.polygon import orient

    parts = getattr(geometry, "geoms", [geometry])
    areas = [
        orient(p) for p in parts if p is not None and p.geom_type == "Polygon" and not p.is_empty
    ]
    return [
        np.asarray(r.coords, dtype=np.float64)[:, :2]
        for a in areas
        for r in (a.exterior, *a.interiors)
    ]
