"""Errors of the DHC: the figures by which the Bureau judged its own, next to the Bureau's errors;
and errors of what is measured.

Truth and release are histograms by universe (``persons``, ``units``, ``households``) and level.
Everything is computed from their positive cells. Memory holds only the answers to one figure, or to
a query of at most :data:`SMALL` answers, for some units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt

from das.evaluate.errors import Moments, expected
from das.model.confidential import Confidential
from das.model.error_rows import ErrorRow, FigureRow
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurements
from das.model.plan import Plan
from das.model.schema import Schema
from das.publications.dhc.files import official
from das.publications.dhc.model.figures import FIGURES, SCHEMAS
from das.tables import table
from das.truth.evaluation import Published, Whole, tally_queries, tally_tables

#: Universe, level.
TrueCounts = Mapping[str, Mapping[str, Confidential[Histogram]]]
PublishedCounts = Mapping[str, Mapping[str, Histogram]]
#: Answers that a query has at the most whose errors are reported.
SMALL = 300


def figures(
    truth: TrueCounts, published: PublishedCounts, levels: Sequence[str]
) -> list[FigureRow]:
    """Rows of ``figures.csv``: every figure of the given universes, at each of the ``levels``, root
    first.

    Measures are those of :mod:`das.truth.evaluation`. The errors of the Bureau's run are added where
    it states them: for states, counties and tracts of the whole nation, even if only some are
    counted here."""
    out = []
    for universe in (name for name in SCHEMAS if name in truth):
        known, made = truth[universe], published[universe]
        tables = [table(f.tabulation, f.schema) for f in FIGURES if f.universe == universe]
        place = {column: (t.name, j) for t in tables for j, column in enumerate(t.columns)}
        whole = Whole(known[levels[0]], made[levels[0]])
        for r in tally_tables(known, made, levels, tables, whole).rows(tables, (), whole):
            if r.size == "all":
                figure, j = place[r.column]
                row = FigureRow(r.geography, figure, r.label, r.n, r.mae, r.rmse, r.me, r.mape)
                out.append(_beside(row, j))
    return out


def _beside(row: FigureRow, column: int) -> FigureRow:
    errors = official.ERRORS.get((row.figure, row.level))
    if errors is None:
        return row
    mae, rmse = errors[column]
    return replace(row, official_n=official.UNITS[row.level], official_mae=mae, official_rmse=rmse)


def query_errors(
    truth: Mapping[str, Confidential[Histogram]],
    published: Mapping[str, Histogram],
    tree: MeasuredSpine,
    schema: Schema,
    plan: Plan,
) -> Iterator[ErrorRow]:
    """Rows of ``errors.csv`` of one universe, by level: of published counts, of every query of the
    plan with at most :data:`SMALL` answers. ``truth`` and ``published`` are counts of the ``tree``
    that was measured; ``expected_mae`` and ``expected_rmse`` what the noise alone would give: that
    of a unit has the variance that the plan says of its class."""
    levels = tree.spine.levels
    asked = {
        level: tuple(
            dict.fromkeys(d.query for d in plan.at(level) if schema.query(d.query).answers <= SMALL)
        )
        for level in levels
    }
    held = Published(Measurements({}), published, asked)
    for tally in tally_queries(truth, held, tree.spine, schema, levels):
        noise = _noise(plan, tree, tally.level, tally.query)
        for row in tally.rows(plan.mechanism):
            yield (
                row
                if noise is None
                else replace(row, expected_mae=noise.mean_abs, expected_rmse=sqrt(noise.variance))
            )


def _noise(plan: Plan, tree: MeasuredSpine, level: str, query: str) -> Moments | None:
    """The distribution of the noise of an answer in a random measured unit."""
    classes, units = tree.classes(level), dict[float, int]()
    for d in plan.at(level):
        if d.query == query and d.unit_class in classes:
            units[d.variance] = units.get(d.variance, 0) + int(classes[d.unit_class].sum())
    return expected(plan.mechanism, units) if sum(units.values()) else None
