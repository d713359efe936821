"""Measurements of the S-DHC as columns, a row for each answer. Nothing here can see the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from das.errors import InputError, UserError
from das.model.sdhc.tables import answers, columns
from das.model.spelling import named
from das.model.spelling import product as spelt
from das.release.measured_rows import DRAWN, RowColumns, RowOptions, spread
from das.release.sdhc import OpenedSdhc
from das.spec.sdhc import LEVELS


def summary(opened: OpenedSdhc) -> list[dict[str, Any]]:
    """One row for each level and query."""
    out: list[dict[str, Any]] = []
    for m in opened.measured:
        for e in opened.spec.events(m.level):
            found = m.values[:, list(columns(*e.query.split(" ")))].ravel()
            row = {"level": e.level, "query": e.query, "regions": e.units, "answers": len(found)}
            out.append(row | spread(np.array([e.variance]), found))
    return out


def rows(opened: OpenedSdhc, asked: RowOptions) -> RowColumns:
    """A row for each answer of each region that is asked for."""
    if asked.kind != DRAWN:
        raise UserError("nothing is exact of the S-DHC", where=opened.folder, remedy="leave it out")
    asked.refuse_lists(opened.folder)
    known = list(LEVELS.values())
    level = None if asked.level is None else named(asked.level, known, "level", "--level")
    found: list[tuple[str, str, str, str, int, int, float]] = []
    for m in opened.measured:
        if level not in (None, LEVELS[m.level]):
            continue
        events = opened.spec.events(m.level)
        query = None if asked.query is None else spelt(asked.query, [e.query for e in events], "")
        for e in (e for e in events if query in (None, e.query)):
            for r, region in enumerate(m.regions):
                if asked.geocodes and region not in asked.geocodes:
                    continue
                for n in columns(*e.query.split(" ")):
                    a, value = answers()[n], int(m.values[r, n])
                    found.append((e.level, region, e.query, a.iteration, a.cell, value, e.variance))
    if not found:
        raise InputError(
            f"no region {', '.join(asked.geocodes)}",
            where="--geocode",
            remedy="regions are 1 and the codes of the states",
        )
    names = ("level", "geocode", "query", "iteration", "cell", "value", "variance")
    kinds = (object, object, object, object, np.int64, np.int64, np.float64)
    return {
        name: np.array(column, dtype=kind)
        for name, column, kind in zip(names, zip(*found, strict=True), kinds, strict=True)
    }
