"""What is published of the Detailed DHC, as the programs of 2020 publish it: sums of the noisy
cells, without small totals.

The total of a group with a table is the sum of its noisy cells; the first stage is not used. Below
the states, a group with a total alone is published only if its total is large enough. Noise on a
group of nobody exceeds that threshold with probability ``chance``. The measurements have
everything, including groups left out here; :mod:`das.publications.detailed.estimation` makes better totals from them.

Source: Haney et al. (2024), *SafeTab-P*, section 5.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.names import Codes, encoded
from das.publications.detailed.files import output
from das.publications.detailed.files.output import GroupRows, sized
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import AdaptiveTable, LevelPlan, Parameters
from das.publications.detailed.planning.margins import suppression
from das.publications.detailed.release import OpenedGroups

Ints = NDArray[np.int64]
#: The folder of a release that has its tables, and the name of that of totals.
TABLES, TOTALS_TABLE = "tables", "t1"


@dataclass(frozen=True, eq=False)
class PublishedTotals:
    """The ``count`` of each of some groups, ``(groups,)``."""

    group: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """For groups with tables of one ``size``: the ``count`` of each of the ``cells``,
    ``(groups, cells)``.
    """

    size: int
    cells: tuple[tuple[str, ...], ...]
    group: Ints
    count: Ints


def totals(m: GroupMeasurement, plan: LevelPlan, parameters: Parameters) -> PublishedTotals:
    """The total of every group that is published."""
    group = np.flatnonzero(m.size != UNMEASURED)
    values = m.values if parameters.negative else np.maximum(m.values, 0)
    count = np.add.reduceat(values, m.indptr[group]) if len(group) else values[:0]
    if (most := suppression(plan, parameters.chance)) is not None:
        kept = (m.size[group] > 0) | (count > most)
        group, count = group[kept], count[kept]
    return PublishedTotals(group, count)


def cells(m: GroupMeasurement, plan: LevelPlan, parameters: Parameters) -> Iterator[PublishedCells]:
    """The cells of every group with a table, one size after another."""
    table = plan.table
    for size in range(1 if plan.first else 0, len(table.sizes)):
        group, values = m.of_size(size, table.answers[size])
        if len(group):
            labels, member = rows_of(table, size)
            values = values if parameters.negative else np.maximum(values, 0)
            yield PublishedCells(size, labels, group, values @ member.T)


def rows_of(table: AdaptiveTable, size: int) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """The published cells of a table of a size, and which answers each cell sums,
    ``(cells, answers)``.

    The cells are the table's answers, and every sum of ``table.sums`` that is a sum of answers."""
    answers, of = table.answers[size], table.sizes[size]
    labels, member = list(table.cells[size]), [*np.eye(answers, dtype=np.int64)]
    for label, leaves in table.sums:
        inside = np.bincount(of[leaves], minlength=answers)
        whole = np.bincount(of, minlength=answers)
        if label not in labels and ((inside == 0) | (inside == whole)).all():
            labels.append(label)
            member.append((inside > 0).astype(np.int64))
    return tuple(labels), np.stack(member)


@dataclass(eq=False)
class FoundGroups:
    """For a level: how many groups have a table of each size, ``(sizes,)``, and how many are
    published.
    """

    sizes: Ints
    published: int = 0


@dataclass(frozen=True, eq=False)
class PublishedGroups:
    """How many ``rows`` each table has, and by level what was ``found``."""

    rows: dict[str, int]
    found: dict[str, FoundGroups]


def rows(opened: OpenedGroups, found: dict[str, FoundGroups]) -> Iterator[GroupRows]:
    """All that is published, level after level, of any number of states no more at a time than one
    part of the measurements. What was found is counted on the way."""
    parameters = opened.spec.parameters
    for plan in opened.spec.plans:
        codes = encoded(opened.codes[plan.level])
        of = found.setdefault(
            plan.level, FoundGroups(np.zeros(len(plan.table.sizes), dtype=np.int64))
        )
        for m in opened.measured(plan):
            there = m.size[m.size != UNMEASURED]
            of.sizes += np.bincount(there, minlength=len(of.sizes))
            if plan.first:
                kept = totals(m, plan, parameters)
                of.published += len(kept.group)
                yield _rows(TOTALS_TABLE, plan, m, codes, kept.group, kept.count, {})
            else:
                of.published += len(there)
            for part in cells(m, plan, parameters):
                name = plan.table.name if plan.first else sized(plan.table, part.size)
                group, labels = (
                    np.repeat(part.group, len(part.cells)),
                    np.array(part.cells, dtype="S"),
                )
                words = {
                    c: np.tile(labels[:, i], len(part.group))
                    for i, c in enumerate(plan.table.columns)
                }
                yield _rows(name, plan, m, codes, group, part.count.ravel(), words)


def _rows(
    table: str,
    plan: LevelPlan,
    m: GroupMeasurement,
    codes: Codes,
    group: Ints,
    count: Ints,
    cells: dict[str, Codes],
) -> GroupRows:
    return GroupRows(
        table,
        plan.at.region,
        m.regions[group // m.iterations],
        codes[group % m.iterations],
        count,
        cells,
    )


def publish(opened: OpenedGroups) -> PublishedGroups:
    """Write the tables of a release."""
    p, found = opened.spec.parameters, dict[str, FoundGroups]()
    written = output.write(
        opened.folder / TABLES,
        p.product,
        p.runs,
        rows(opened, found),
        private=opened.spec.run.private,
    )
    return PublishedGroups(written, found)
