"""Answers of queries as tidy frames: a row for each unit and answer, with names of places and words
for the codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.model.not_private import CELL, COLUMN, Private
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine


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
