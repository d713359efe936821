"""Answers of queries, and columns of tables, as tidy frames: a row for each of them and unit, with
names of places and words for the codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.files.release.tables import marks
from das.model.names import Codes, text
from das.model.not_private import CELL, COLUMN, Private
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.tables import WITHIN, Table


def tidy(
    spine: Spine,
    level: str,
    schema: Schema,
    query: Query,
    columns: Mapping[str, NDArray[Any]],
    *,
    private: Private = True,
) -> pd.DataFrame:
    """A row for each unit and answer. ``columns`` are arrays ``(units, answers)`` by name. The
    columns before them are ``level``, ``geocode``, ``name`` and ``query``. Then comes a column for
    each attribute, with the code of the group (``*`` where summed out), and ``label``, what was
    counted."""
    depth = spine.index(level)
    codes, names = spine.geocodes(level), spine.names[depth]
    out: dict[str, Any] = {
        "level": level,
        "geocode": np.repeat(codes.astype(object), query.answers),
        "name": np.repeat(names.astype(object), query.answers),
        "query": query.name,
    }
    groups = list(product(*(g.groups for g in query.groupings)))
    for i, attribute in enumerate(schema.attributes):
        out[attribute.name] = np.tile(np.array([g[i] for g in groups], dtype=object), len(codes))
    out["label"] = np.tile(np.array(query.captions(), dtype=object), len(codes))
    out |= {name: np.ascontiguousarray(values).ravel() for name, values in columns.items()}
    return pd.DataFrame(out | ({} if private else {COLUMN: CELL}))


def of_table(
    spine: Spine,
    private: Private,
    table: Table,
    level: str,
    codes: Codes,
    columns: Mapping[str, Any],
) -> pd.DataFrame:
    """A row for each unit in ``codes`` and each column of a table."""
    width = len(table.columns)
    out: dict[str, Any] = {"table": table.name, "level": level}
    places = _places(spine, level, codes)
    out |= {column: np.repeat(told, width) for column, told in places.items()}
    paths = [WITHIN.join(path) for path in table.paths]
    for column, told in (("field", table.columns), ("label", table.unique_labels), ("path", paths)):
        out[column] = np.tile(np.array(told, dtype=object), len(codes))
    out |= {name: values.ravel() for name, values in columns.items()}
    return pd.DataFrame(out | marks(table, private))


def wide(
    spine: Spine, private: Private, parts: Iterable[tuple[Table, str, Codes, NDArray[np.int64]]]
) -> pd.DataFrame:
    """A row for each unit, and a column for each column of the tables, missing where a table is
    not of the level; the attribute ``labels`` of the frame has their paths. ``parts`` are tables
    with a level, codes and values ``(units, columns)``."""
    levels: dict[str, pd.DataFrame] = {}
    labels: dict[str, str] = {}
    notes: dict[str, list[str]] = {}
    for table, level, codes, values in parts:
        columns = dict(zip(table.columns, values.T, strict=True))
        places = pd.DataFrame({"level": level, **_places(spine, level, codes)})
        before = levels.get(level, places)
        levels[level] = pd.concat([before, pd.DataFrame(columns)], axis=1)
        labels |= {c: WITHIN.join(p) for c, p in zip(table.columns, table.paths, strict=True)}
        for name, cell in marks(table, private).items():
            said = cell if name == COLUMN else f"{table.name}: {cell}"
            notes[name] = list(dict.fromkeys([*notes.get(name, []), said]))
    frame = pd.concat(levels.values(), ignore_index=True)
    gaps = [c for c in labels if frame[c].isna().any()]
    frame = frame.astype(dict.fromkeys(gaps, "Int64"))
    last = sorted(notes, key=COLUMN.__eq__)
    frame = frame.assign(**{name: "; ".join(notes[name]) for name in last})
    frame.attrs["labels"] = labels
    return frame


def _places(spine: Spine, level: str, codes: Codes) -> dict[str, NDArray[Any]]:
    """Codes, GEOIDs (empty where there are none) and names of units, as text."""
    unit, geoids = spine.find(level, codes), text(spine.geoids(level))
    return {
        "geocode": text(codes).astype(object),
        "geoid": np.where(unit < 0, "", geoids[unit]).astype(object),
        "name": names_of(spine, level, codes),
    }


def names_of(spine: Spine, level: str, codes: Codes) -> NDArray[Any]:
    """The name of each code, empty where the spine does not have it."""
    unit = spine.find(level, codes)
    return np.where(unit < 0, "", spine.names[spine.index(level)][unit]).astype(object)
