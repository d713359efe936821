"""Answers of queries, and columns of tables, as tidy frames: a row for each of them and unit, with
names of places and words for the codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.files.release.tables import marks
from das.model.codes import Codes, text
from das.model.not_private import CELL, COLUMN, Private
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.tables import Table


def tidy(
    spine: Spine,
    level: str,
    schema: Schema,
    query: Query,
    columns: Mapping[str, NDArray[Any]],
    *,
    private: Private = True,
) -> pd.DataFrame:
    """``columns`` are arrays ``(units, answers)`` by name. Before them stand ``level``,
    ``geocode``, ``name``, ``query``, a column for each attribute with the code of the group (``*``
    where summed out) and ``label``, what was counted."""
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
    """A row for each unit, of which these are the ``codes``, and column of a table."""
    width = len(table.columns)
    out: dict[str, Any] = {
        "table": table.name,
        "level": level,
        "geocode": np.repeat(text(codes).astype(object), width),
        "name": np.repeat(names_of(spine, level, codes), width),
        "field": np.tile(np.array(table.columns, dtype=object), len(codes)),
        "label": np.tile(np.array(table.labels, dtype=object), len(codes)),
    }
    out |= {name: values.ravel() for name, values in columns.items()}
    return pd.DataFrame(out | marks(table, private))


def names_of(spine: Spine, level: str, codes: Codes) -> NDArray[Any]:
    """The name of each code, empty where the spine does not have it."""
    unit = spine.find(level, codes)
    return np.where(unit < 0, "", spine.names[spine.index(level)][unit]).astype(object)
