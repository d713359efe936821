"""A coordinate pair for each lowest place, for methods that look for near partners.

Three kinds of file: a table (CSV or Parquet) with columns ``code``, ``x``, ``y``; the geographic
header of 2010 redistricting files (``{ss}2010.pl.zip``), whose internal points are used; or
boundaries, whose centroids it takes. Degrees become kilometers on a plane, so that distances in
both directions compare."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from das.errors import InputError
from das.files.parquet import DAMAGE
from das.files.readers.source import members
from das.model.names import Codes, encoded, text
from das.model.spine import places
from das.tools.maps import boundaries

Points = NDArray[np.float64]
#: Columns of a table.
CODE, X, Y = "code", "x", "y"
#: Kilometers in a degree of latitude.
_DEGREE = 111.195
#: Of the header of 2010, from 0: the level, the code of a block, and its internal point.
_LEVEL, _BLOCK = slice(8, 11), (slice(27, 32), slice(54, 65))
_LATITUDE, _LONGITUDE = slice(336, 347), slice(347, 359)


def read(path: Path, codes: Codes, geoids: Codes) -> Points:
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
