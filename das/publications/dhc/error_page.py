"""``confidential/report.html`` of the DHC: its errors next to those that the Bureau found in its
own run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from das.model.error_rows import ErrorRow, FigureRow, ImpossibleRow
from das.model.frozen import Closed
from das.model.names import level_words
from das.publications.dhc.model.figures import FIGURES, IMPOSSIBLE, SCHEMAS, UNITS
from das.report.chart import Chart
from das.report.facts import SERIES, Facts, titles
from das.report.panel import INK, Look
from das.report.template import render


@dataclass(frozen=True, repr=False)
class LevelSummary(Closed):
    """A summary of the lines of a level for which the Bureau has numbers.

    It has their number, the median ratio of our MAE to the Bureau's, and how many ratios exceed
    two. ``n`` units here, ``official_n`` there."""

    level: str
    n: int
    official_n: int
    lines: int
    ratio: float
    beyond: int


@dataclass(frozen=True, repr=False)
class FigureTable(Closed):
    """A figure: ``levels`` with whether the Bureau has numbers of it there; by label, the row of
    each level.
    """

    title: str
    universe: str
    levels: Sequence[tuple[str, bool]]
    lines: Mapping[str, Sequence[FigureRow]]


def dhc_errors_html(
    rows: Sequence[FigureRow],
    facts: Facts,
    odd: Sequence[ImpossibleRow] = (),
    queries: Mapping[str, Sequence[ErrorRow]] | None = None,
) -> str:
    """The page. :func:`das.publications.dhc.truth.evaluation.figures` gives ``rows`` and
    :func:`das.publications.dhc.truth.assessment.dhc_impossible` gives ``odd``; ``queries``: errors of the
    measured queries, by universe. It needs neither network nor other files; the same arguments give
    the same page."""
    small = {
        u: [r for r in of if r.bin == "all" and r.query != "total"]
        for u, of in (queries or {}).items()
    }
    beside = [r for r in rows if r.official_mae]
    return render(
        "dhc_errors.html",
        private=facts["private"],
        facts=facts,
        summaries=summaries(rows),
        figures=_tables(rows),
        picture=Markup(against_official(beside)) if any(r.mae for r in beside) else None,
        hidden=sum(not r.mae for r in beside),
        ratio=ratio,
        odd=[(r, IMPOSSIBLE.get((r.condition, r.level))) for r in odd],
        queries=small,
        titles={u: titles(SCHEMAS[u], {r.query for r in of}) for u, of in small.items()},
    )


def ratio(row: FigureRow) -> float | None:
    """Our MAE over the Bureau's."""
    return row.mae / row.official_mae if row.official_mae else None


def summaries(rows: Sequence[FigureRow]) -> list[LevelSummary]:
    """A summary of each level that the Bureau published numbers for."""
    out = []
    for level, official_n in UNITS.items():
        here = [r for r in rows if r.level == level]
        ratios = [x for r in here if (x := ratio(r)) is not None]
        if ratios:
            out.append(
                LevelSummary(
                    level,
                    here[0].n,
                    official_n,
                    len(ratios),
                    median(ratios),
                    sum(x > 2 for x in ratios),
                )
            )
    return out


def _tables(rows: Sequence[FigureRow]) -> list[FigureTable]:
    out = []
    for figure in FIGURES:
        mine = [r for r in rows if r.figure == figure.name]
        lines: dict[str, list[FigureRow]] = {}
        for r in mine:
            lines.setdefault(r.label, []).append(r)
        levels = {r.level: r.official_n is not None for r in mine}
        if mine:
            out.append(
                FigureTable(figure.tabulation.title, figure.universe, list(levels.items()), lines)
            )
    return out


def against_official(rows: Sequence[FigureRow]) -> str:
    """A mark for each line with errors on both sides: the Bureau's MAE, and ours above it; by
    level.
    """
    chart = Chart(5.6, 5.2)
    chart.x.log = chart.y.log = True
    for level, (colour, marker, _) in zip(UNITS, SERIES, strict=True):
        here = [
            (r.official_mae, r.mae) for r in rows if r.level == level and r.official_mae and r.mae
        ]
        if here:
            xs, ys = zip(*here, strict=True)
            chart.plot(xs, ys, Look(colour, mark=marker, face="none", size=5), level_words(level))
    ends = [f(x for r in rows if r.mae for x in (r.official_mae or 0, r.mae)) for f in (min, max)]
    chart.plot(ends, ends, Look(INK, "-", width=0.8))
    chart.ends_at("mean absolute error of the Bureau’s run (log scale)")
    chart.y.label = "mean absolute error here (log scale)"
    chart.finish("Every line of every figure")
    return chart.svg("official", "Mean absolute errors of this run against those of the Bureau’s")
