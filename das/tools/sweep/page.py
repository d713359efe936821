"""The page of a sweep: error against budget, for noisy measurements, their theory and published
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any

from markupsafe import Markup

from das.accounting.document import decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.zcdp import tight
from das.files import rows_csv
from das.model.error_rows import ErrorRow, PairedRow, SummaryRow, SweepRow
from das.model.mechanisms import RHO
from das.model.names import level_words
from das.model.not_private import Private
from das.model.post_processing import METHODS
from das.model.universe import kind_of
from das.report.chart import Chart
from das.report.facts import SERIES
from das.report.panel import Look
from das.report.template import render, upward

#: Drawn where they were measured, one panel for each level.
QUERIES = ("total", "votingage", "hispanic * cenrace", "votingage * hispanic * race", "detailed")
#: How each method is drawn.
LINES = dict(zip(METHODS, ("-", "--", "-.", ":"), strict=False))


@dataclass(frozen=True)
class SweptAxis:
    """What was varied: a budget in the ``currency``, or (of another ``name``) a multiple of it.
    ``here``: where the configuration stands; ``costs``: what each universe costs there."""

    name: str
    here: Fraction
    currency: str
    costs: Mapping[str, Fraction]

    @property
    def label(self) -> str:
        return self.name if self.name == self.currency else "multiple of the budget"

    def epsilon(self, universe: str, budgets: Sequence[Fraction]) -> dict[Fraction, float]:
        """At :data:`DEFAULT_DELTA`, of each budget."""
        if self.currency != RHO:
            return {}
        return {b: tight(self.costs[universe] * b / self.here, DEFAULT_DELTA) for b in budgets}


def sweep_page(
    means: Mapping[str, Sequence[SummaryRow]],
    name: str,
    axis: SweptAxis,
    statement: Mapping[str, Any],
) -> str:
    """One self-contained page. ``means`` are by universe; the budget of the configuration as it
    stands is marked on the ``axis``. ``statement`` says what all runs together cost."""
    first = next(iter(means.values()))
    budgets = sorted({r.budget for r in first})
    return render(
        "sweep.html",
        name=name,
        private=statement["private"],
        currency=axis.currency,
        axis=axis,
        sections=[_section(u, rows, axis, budgets) for u, rows in means.items()],
        budgets=budgets,
        delta=decimal(DEFAULT_DELTA),
        repeats=max(r.repeats for r in first),
        statement=statement,
        together=upward(statement["epsilon"]["zcdp-tight"]) if axis.currency == RHO else None,
    )


def _section(
    universe: str, rows: Sequence[SummaryRow], axis: SweptAxis, budgets: Sequence[Fraction]
) -> dict[str, Any]:
    """What the page has of one universe."""
    every = [r for r in rows if r.bin == "all"]
    epsilon = axis.epsilon(universe, budgets)
    panels = [
        Markup(_panel([r for r in every if r.level == level], axis, epsilon, f"{universe}{i}"))
        for i, level in enumerate(dict.fromkeys(r.level for r in every))
    ]
    noisy = {(r.budget, r.method, r.level, r.query): r for r in every if r.source == "nmf"}
    published = [
        (r, noisy.get((r.budget, r.method, r.level, r.query)))
        for r in every
        if r.source == "postprocessed"
    ]
    return {
        "records": kind_of(universe).records,
        "panels": panels,
        "epsilon": {b: upward(e) for b, e in epsilon.items()},
        "rows": [(r, n) for r, n in published if r.query in drawn(every)],
    }


def drawn(rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """The queries of the panels, at most as many as there are colors. If none of the known queries
    except the total is present, they are the first that have errors.
    """
    present = dict.fromkeys(r.query for r in rows)
    known = [q for q in QUERIES if q in present]
    others = dict.fromkeys(r.query for r in rows if r.mae > 0)
    chosen = known if len(known) > 1 else list(others) or known
    return tuple(chosen)[: len(SERIES)] or ("total",)


def _panel(
    rows: Sequence[SummaryRow], axis: SweptAxis, epsilon: Mapping[Fraction, float], name: str
) -> str:
    level = rows[0].level
    chart = Chart(4.6, 3.9)
    chart.x.log = chart.y.log = True
    for query, (colour, marker, _) in zip(drawn(rows), SERIES, strict=False):
        asked = [r for r in rows if r.query == query]
        noisy = [r for r in asked if r.source == "nmf"]
        _theory(chart, noisy or asked, colour, marker, query, drawn=bool(noisy))
        for method in dict.fromkeys(r.method for r in rows):
            here = [
                r
                for r in rows
                if (r.query, r.method, r.source) == (query, method, "postprocessed") and r.mae > 0
            ]
            _line(chart, here, Look(colour, LINES[method], marker, size=5), f"{query}, {method}")
    if chart.has_data():
        chart.rule(float(axis.here), upright=True, dash="-.")
        chart.x.above = [(float(b), f"{e:.3g}") for b, e in epsilon.items()]
        chart.x.above_label = f"epsilon at delta = {decimal(DEFAULT_DELTA)}" if epsilon else ""
    chart.x.label = f"{axis.label} (dash-dotted: this configuration)"
    chart.y.label = "mean absolute error"
    chart.finish(level_words(level), 2)
    return chart.svg(name, f"Mean absolute error against {axis.label}: {level}")


def _theory(
    chart: Chart, noisy: Sequence[SummaryRow], colour: str, marker: str, query: str, *, drawn: bool
) -> None:
    """Open marks: measured, where all was ``drawn``; dotted: what the noise alone must give."""
    at = sorted((float(r.budget), r.mae) for r in noisy if drawn and r.mae > 0)
    if at:
        xs, ys = zip(*at, strict=True)
        chart.plot(xs, ys, Look(colour, mark=marker, face="#fff", size=5), f"{query}, noisy")
    known = sorted({(float(r.budget), r.expected_mae) for r in noisy if r.expected_mae})
    if known:
        xs, ys = zip(*known, strict=True)
        chart.plot(xs, ys, Look(colour, ":", width=1.1))


def _line(chart: Chart, rows: Sequence[SummaryRow], look: Look, label: str) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda r: r.budget)
    x, mae = [float(r.budget) for r in rows], [r.mae for r in rows]
    lows = [r.mae if r.mae_low is None else max(r.mae_low, r.mae / 10) for r in rows]
    low = [min(pair) for pair in zip(mae, lows, strict=True)]
    high = [r.mae if r.mae_high is None else r.mae_high for r in rows]
    chart.errors(x, mae, low, high, look, cap=2)
    chart.plot(x, mae, look, label)


# ``sweep.csv``, ``summary.csv`` and ``paired.csv``: budgets as decimals (``budget``) and exactly
# (``budget_exact``), the method and, in ``sweep.csv``, the number of the run; then the columns of the
# errors.


def write(path: Path, rows: Sequence[SweepRow], *, private: Private = True) -> None:
    """Long: one line for each line of each run's ``errors.csv``."""
    header = ("budget", "budget_exact", "method", "repeat", *rows_csv.columns(ErrorRow))
    error = attrgetter(*rows_csv.columns(ErrorRow))
    lines = ((float(r.budget), r.budget, r.method, r.repeat, *error(r.error)) for r in rows)
    rows_csv.write(path, header, lines, private=private)


def write_summary(path: Path, rows: Sequence[SummaryRow], *, private: Private = True) -> None:
    """One line for each budget, method, level, query, source and class: means and intervals over
    the repeats.
    """
    _write(path, SummaryRow, rows, private)


def write_paired(path: Path, rows: Sequence[PairedRow], *, private: Private = True) -> None:
    """One line for each budget, level, query, class and method except the first. It compares the
    method with the first on the same noise.
    """
    _write(path, PairedRow, rows, private)


def _write(
    path: Path, kind: type, rows: Sequence[SummaryRow] | Sequence[PairedRow], private: Private
) -> None:
    """Rows whose first field is the budget."""
    header = ("budget", "budget_exact", *rows_csv.columns(kind)[1:])
    values = attrgetter(*rows_csv.columns(kind))
    rows_csv.write(path, header, ((float(r.budget), *values(r)) for r in rows), private=private)
