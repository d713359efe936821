"""Measurements of the Detailed DHC as columns, a row for each answer.

Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, UserError
from das.model.names import text
from das.model.spelling import named
from das.model.spelling import product as spelt
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, LevelPlan
from das.publications.detailed.release import OpenedGroups
from das.release.publications import DRAWN, RowColumns, RowOptions, spread

#: Rows that are listed at once.
MOST = 5_000_000


def summary(opened: OpenedGroups) -> list[dict[str, Any]]:
    """One row for each level and draw: how many groups it is of, how many answers these have, their
    variance, and the smallest and largest.
    """
    out: list[dict[str, Any]] = []
    for plan in opened.spec.plans:
        values: dict[str, list[NDArray[np.int64]]] = {d.query: [] for d in plan.measurements}
        groups = dict.fromkeys(values, 0)
        for m in opened.measured(plan):
            for query, (group, found, _) in _draws(plan, m).items():
                values[query].append(found)
                groups[query] += len(np.unique(group))
        classes = opened.units(plan)
        for d in (d for d in plan.measurements if d.unit_class in classes):
            found = np.concatenate(values[d.query]) if values[d.query] else np.zeros(0, np.int64)
            row = {"level": plan.level, "query": d.query, "groups": groups[d.query]}
            row |= {"answers": len(found)} | spread(np.array([d.variance]), found)
            out.append(row)
    return out


def _draws(
    plan: LevelPlan, m: GroupMeasurement
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """By query the group, the value and the number of each answer."""
    length = np.diff(m.indptr)
    group = np.repeat(np.arange(len(length)), length)
    number = np.arange(len(m.values)) - m.indptr[group]
    if not plan.first:
        return {plan.table.name: (group, m.values, number)}
    total = m.only[m.iteration[group]]
    first = np.flatnonzero((m.size != UNMEASURED) & ~m.only[m.iteration])
    return {
        ONLY: (group[total], m.values[total], number[total]),
        FIRST: (first, m.first[first], np.zeros(len(first), dtype=np.int64)),
        plan.table.name: (group[~total], m.values[~total], number[~total]),
    }


def rows(opened: OpenedGroups, asked: RowOptions) -> RowColumns:
    """A row for each answer of each group: its region (``geocode``) and iteration, the size of its
    table, and what the answer is in the columns of the table.
    """
    if asked.kind != DRAWN:
        raise UserError(
            "the Detailed DHC has no exact counts", where=opened.folder, remedy="leave it out"
        )
    asked.refuse_lists(opened.folder)
    plans = {p.level: p for p in opened.spec.plans}
    if asked.level is None and not asked.geocodes:
        raise UserError(
            "the groups of all levels are too many to list",
            where="--level",
            remedy=f"name one of {', '.join(plans)}",
        )
    level = None if asked.level is None else named(asked.level, [*plans], "level", "--level")
    parts: list[RowColumns] = []
    for plan in (p for p in plans.values() if level in (None, p.level)):
        known = [d.query for d in plan.measurements]
        query = None if asked.query is None else spelt(asked.query, known, "--query")
        for m in opened.measured(plan):
            for name, drawn in _draws(plan, m).items():
                if query in (None, name):
                    parts.append(_rows_of_groups(opened, plan, m, name, drawn, asked.geocodes))
        if (rows := sum(len(p["value"]) for p in parts)) > MOST:
            raise UserError(
                f"{rows:,} rows and more",
                where=plan.level,
                remedy="name regions with --geocode, or read the Parquet files of the release",
            )
    if not any(len(p["value"]) for p in parts):
        raise InputError(
            f"no region {', '.join(asked.geocodes)}",
            where="--geocode",
            remedy="regions are the REGION_ID of the tables",
        )
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _rows_of_groups(
    opened: OpenedGroups,
    plan: LevelPlan,
    m: GroupMeasurement,
    query: str,
    drawn: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    regions: Sequence[str],
) -> RowColumns:
    group, value, number = drawn
    codes = text(m.regions)
    if regions:
        here = np.isin(codes[m.region[group]], regions)
        group, value, number = group[here], value[here], number[here]
    iterations = opened.spec.parameters.iterations
    which = iterations.measured_at(plan.at)[m.iteration[group]]
    size = np.zeros(len(group), np.int64) if query in (ONLY, FIRST) else m.size[group]
    cells = np.array([plan.table.cells[s][n] for s, n in zip(size, number, strict=True)], object)
    out: RowColumns = {
        "level": np.full(len(group), plan.level, dtype=object),
        "geocode": codes[m.region[group]].astype(object),
        "iteration": iterations.code[which].astype(object),
        "iteration name": iterations.name[which].astype(object),
        "query": np.full(len(group), query, dtype=object),
        "table size": m.size[group].astype(np.int64),
    }
    for j, column in enumerate(plan.table.columns):
        out[column] = cells.reshape(len(group), -1)[:, j] if len(group) else cells
    variance = plan.measurement(query).variance
    return out | {"value": value, "variance": np.full(len(group), variance)}
