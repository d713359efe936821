"""What a person sees of a plan, of its promises and of errors in the terminal: tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from statistics import NormalDist
from typing import Any

from rich.console import Group
from rich.table import Table

from das.accounting.document import (
    Epsilons,
    OwnAccount,
    Promises,
    Pure,
    PureChange,
    Zcdp,
    ZcdpChange,
    decimal,
)
from das.accounting.guarantee import QuotedLoss, quoted
from das.cli.kit.console import CONFIDENTIAL, console, records_table
from das.evaluate.comparison import Headline, headline
from das.model.budget import PlannedMeasurement
from das.model.error_rows import Comparison, DifferenceRow, TwoErrorsRow
from das.model.mechanisms import MECHANISMS
from das.model.not_private import WITHOUT, Private
from das.model.plan import Plan
from das.release.outcome import Outcome
from das.report.privacy import bound, cause
from das.runs.protocol import InputOutlook

#: What stands before the table of errors.
COLUMNS = (
    "How far a total is off on average: as measured, with noise alone (noisy), and as published"
    " after estimation (published)."
)


def headline_table(rows: Sequence[Headline], *, own_spine: bool) -> Table:
    """``apart``: the units that were measured are not the published places."""
    table = Table(title="Mean absolute error of the total", title_justify="left")
    for name in ("level", "measured units" if own_spine else "places", "noisy", "published"):
        table.add_column(name, justify="left" if name == "level" else "right")
    for r in rows:
        table.add_row(
            r.level,
            f"{r.units:,}",
            "not measured" if r.nmf is None else f"{r.nmf:,.2f}",
            f"{r.postprocessed:,.2f}",
        )
    return table


def worse_lines(rows: Sequence[Headline], settled: Mapping[str, str]) -> list[str]:
    """A line for each level whose totals are published worse than measured, with the cause;
    ``settled`` is as in :class:`das.release.outcome.Outcome`."""
    return [
        f"{r.level} {r.nmf:,.2f} -> {r.postprocessed:,.2f}: {cause(r.level, settled.get(r.level))}."
        for r in rows
        if r.nmf is not None and round(r.postprocessed, 2) > round(r.nmf, 2)
    ]


def compare_table(rows: Sequence[Comparison], title: str) -> Table:
    """Noisy measurements and published counts side by side; with the class of the true count if
    rows have several."""
    by_size = len({r.bin for r in rows}) > 1
    table = Table(title=title, title_justify="left")
    for name in ("level", "query", *(["true count"] if by_size else [])):
        table.add_column(name, no_wrap=True)
    for name in (
        "answers",
        "MAE noisy",
        "theory",
        "published",
        "ratio",
        "bias noisy",
        "published",
        "at 95 %",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    previous = None
    for r in rows:
        if previous not in (None, r.level):
            table.add_section()
        previous = r.level
        between = (
            "–"
            if r.bias_low is None or r.bias_high is None
            else f"{r.bias_low:,.3f} to {r.bias_high:,.3f}"
        )
        numbers = (
            r.mae_noisy,
            r.mae_theory,
            r.mae_published,
            r.ratio,
            r.bias_noisy,
            r.bias_published,
        )
        cells = ["–" if x is None else f"{x:,.3f}" for x in numbers]
        table.add_row(r.level, r.query, *([r.bin] if by_size else []), f"{r.n:,}", *cells, between)
    return table


def two_table(rows: Sequence[TwoErrorsRow] | Sequence[DifferenceRow], title: str) -> Table:
    """Two estimates side by side, a line for each level and query."""
    table = Table(title=title, title_justify="left")
    for name in ("level", "query"):
        table.add_column(name, no_wrap=True)
    errors = ("answers", "MAE of A", "of B", "B less A", "at 95 %", "bias of A", "of B")
    apart = ("answers", "differ", "mean |B - A|", "root mean square", "largest", "mean B - A")
    for name in errors if rows and isinstance(rows[0], TwoErrorsRow) else apart:
        table.add_column(name, justify="right", no_wrap=True)
    previous = None
    for r in rows:
        if previous not in (None, r.level):
            table.add_section()
        previous = r.level
        if isinstance(r, TwoErrorsRow):
            low, high = r.difference_low, r.difference_high
            between = "–" if low is None or high is None else f"{low:,.3f} to {high:,.3f}"
            cells = [
                f"{r.mae_a:,.3f}",
                f"{r.mae_b:,.3f}",
                f"{r.difference:,.3f}",
                between,
                f"{r.bias_a:,.3f}",
                f"{r.bias_b:,.3f}",
            ]
        else:
            cells = [
                f"{r.differ:,}",
                f"{r.mean_absolute:,.3f}",
                f"{r.root_mean_square:,.3f}",
                f"{r.largest:,.0f}",
                f"{r.mean:,.3f}",
            ]
        table.add_row(r.level, r.query, f"{r.n:,}", *cells)
    return table


def plan_table(
    name: str,
    plans: Mapping[str, Plan],
    promise: Promises,
    private: Private,
    target_delta: Fraction | None = None,
) -> Group:
    """``target_delta``: the delta of the target that the budget was found for."""
    tables: list[Any] = []
    for universe, plan in plans.items():
        mechanism, currency = plan.mechanism, plan.mechanism.currency
        table = Table(
            title=(
                f"{name}: {universe}, {currency} = {plan.cost} ({float(plan.cost):.6g}), "
                f"{plan.neighbours.value} neighbors, {mechanism}"
            ),
            title_justify="left",
        )
        table.add_column("level", no_wrap=True)
        table.add_column("query", no_wrap=True)
        for column in (currency, mechanism.title, "95 % margin"):
            table.add_column(column, justify="right")
        previous = None
        for d in plan.plain:
            if previous not in (None, d.level):
                table.add_section()
            previous = d.level
            table.add_row(
                d.level,
                d.query,
                f"{float(d.cost):.6g}",
                f"{float(d.parameter):,.5g}",
                f"±{d.margin():,}",
            )
        tables += [table, *bypassed(plan)]
    neighbours = next(iter(plans.values())).neighbours.value
    return Group(*tables, *promises_of(promise, neighbours, private, target_delta))


def class_of(draw: PlannedMeasurement, plan: Plan) -> dict[str, str]:
    """The class of units that have a measurement, as data: where these are above only children."""
    return {} if draw.place in plan.paths[0] else {"class": draw.unit_class}


def bypassed(plan: Plan) -> list[str]:
    """What units with only children below them are measured with, in words; nothing where all of a
    level are alike."""
    first = {d.place: d for d in reversed(plan.measurements) if d.place not in plan.paths[0]}
    if not first:
        return []
    times = {
        d.unit_class: float(d.parameter / same.parameter)
        for d in reversed(first.values())
        for same in plan.plain
        if (same.level, same.query) == (d.level, d.query)
    }
    noise = next(iter(first.values())).mechanism.title
    each = ", ".join(f"{name} {factor:.3g}" for name, factor in times.items())
    return [
        "above: units without only children. A unit with one child is measured with the share of"
        f" both, and the child is not measured. {noise} times that above, by the levels whose"
        f" shares a unit has: {each}"
    ]


def quoted_line(one: QuotedLoss, private: Private) -> str:
    """The one privacy loss to quote."""
    void = "" if private else f" ({WITHOUT})"
    loss = f"epsilon = {bound(one.epsilon)} at delta = {one.delta}"
    return f"Quote {loss}{void} for {one.change}. Why: {one.why}."


def promises_of(
    said: Promises, neighbours: str, private: Private, target_delta: Fraction | None = None
) -> list[str]:
    """The guarantee to quote, for a target delta ``target_delta`` if there is one. Then come all
    guarantees of a statement, each under the words that define its neighbors."""
    out = ["", quoted_line(quoted(said, neighbours, target_delta), private)]
    for words, by in said.each:
        out += [
            "",
            words,
            *(line for universe, each in by.items() for line in _promise(universe, each, private)),
        ]
    return out


def _promise(name: str, promise: Zcdp | Pure, private: Private) -> list[str]:
    void = "" if private else f"  ({WITHOUT})"
    if isinstance(promise, Pure):
        return [f"{name}: epsilon = {promise.cost}, delta = 0{void}"]
    lines = [
        f"{name}: rho = {promise.cost}; implied epsilon sqrt(2 rho) ="
        f" {promise.implied_epsilon:.4g}{void}"
    ]
    lines += [
        f"  epsilon {_exactly(e.pld)} at delta = {decimal(e.delta)}  (from rho alone:"
        f" {bound(e.tight)}; looser conversion: {bound(e.simple)}{_between(e)}){void}"
        for e in promise.epsilon
    ]
    return lines


def _between(said: Epsilons | ZcdpChange) -> str:
    """Between which paths it is largest, in words; nothing where there is one."""
    each = [
        f"{universe} {' and '.join(dict.fromkeys(paths))}"
        for universe, paths in (said.between or {}).items()
    ]
    return f"; largest for {', '.join(each)}" if each else ""


def _exactly(interval: Sequence[float]) -> str:
    """Exact to the digits that are printed, or the two ends."""
    low, high = interval
    if high - low < 1e-4:
        return f"= {bound(interval)} exactly"
    return f"at most {bound(interval)}" + (f" and at least {low:.4f}" if low else "")


def _changes_table(
    universe: str, changes: Sequence[ZcdpChange | PureChange], currency: str, void: str
) -> Table:
    """What a change of one record can cost."""
    stated = changes[0]
    at = f", at delta = {decimal(stated.delta)}" if isinstance(stated, ZcdpChange) else ""
    table = Table(
        title=f"{universe}: what a change of one record can cost{at}{void}", title_justify="left"
    )
    table.add_column("what differs")
    exact = ("epsilon, exact", "from rho alone") if currency == "rho" else ()
    for column in (currency, *exact):
        table.add_column(column, justify="right")
    for c in changes:
        cells = [bound(c.pld), bound(c.tight)] if isinstance(c, ZcdpChange) else []
        table.add_row(c.says, f"{float(c.cost):.6g}", *cells)
    return table


def account_tables(name: str, account: OwnAccount, private: Private) -> Group:
    """Epsilons, single changes, and where the budget goes."""
    currency = MECHANISMS[account.mechanism].currency
    head = f"{name}: {account.mechanism}, {account.neighbours} neighbors"
    if (t := account.target) is not None:
        head += (
            f"; calibrated ({t.calibration}) to epsilon = {t.epsilon} at delta = {decimal(t.delta)}"
            f" for {t.universe}"
        )
    out: list[Any] = [head]
    target_delta = account.target.delta if account.target else None
    out += promises_of(account, account.neighbours, private, target_delta)
    void = "" if private else f" ({WITHOUT})"
    out += [_changes_table(u, c, currency, void) for u, c in account.changes.items()]
    for universe, spending in account.spending.items():
        for by, costs in (("levels", spending.levels), ("queries", spending.queries)):
            whole = sum(costs.values())
            rows = [
                {
                    f"{universe}, by {by}": key,
                    currency: float(c),
                    "share, %": float(100 * c / whole),
                }
                for key, c in costs.items()
            ]
            out.append(records_table(f"{universe}: where the budget goes", rows))
    return Group(*out)


def measurement_line(
    d: PlannedMeasurement,
    plan: Plan,
    errors: Mapping[tuple[str, str], float],
    coverages: Sequence[float],
) -> dict[str, Any]:
    """A measurement as data, with its margins at each coverage; also after estimation, where its
    standard error is known before a run (``errors``)."""
    line = {
        "level": d.level,
        "query": d.query,
        d.mechanism.currency: str(d.cost),
        d.mechanism.symbol: str(d.parameter),
        "margins": {str(c): d.margin(c) for c in coverages},
    }
    if (error := errors.get((d.level, d.query))) is not None:
        wide = {str(c): ceil(NormalDist().inv_cdf((1 + c) / 2) * error) for c in coverages}
        line["estimated"] = wide
    return line | class_of(d, plan)


def margin_cells(line: Mapping[str, Any]) -> dict[str, str]:
    """The margins of a measurement as data, by coverage in words; in parentheses after estimation,
    where that is known before a run."""
    after = line.get("estimated", {})
    return {
        c: f"±{m:,}" + (f" ({after[c]:,})" if c in after else "")
        for c, m in line["margins"].items()
    }


def options_table(
    title: str, options: Sequence[Mapping[str, Any]], currency: str, private: Private
) -> Group:
    """Plans side by side: a column of margins for each plan and coverage, and below what each plan
    costs."""
    table = Table(title=title, title_justify="left")
    table.add_column("level", no_wrap=True)
    table.add_column("query", no_wrap=True)
    columns = [(o, c) for o in options for c in o["coverages"]]
    for o, c in columns:
        table.add_column(
            f"{o['name']}, {float(c) * 100:g} %" if len(options) > 1 else f"{float(c) * 100:g} %",
            justify="right",
        )
    cells = {
        (o["name"], d["level"], d["query"]): margin_cells(d)
        for o in options
        for d in o["plan"]
        if "class" not in d
    }
    last = ""
    for level, query in dict.fromkeys(
        (d["level"], d["query"]) for o in reversed(options) for d in o["plan"] if "class" not in d
    ):
        if last not in ("", level):
            table.add_section()
        last = level
        row = [cells.get((o["name"], level, query), {}).get(c) for o, c in columns]
        table.add_row(level, query, *("–" if m is None else m for m in row))
    lines = []
    for o in options:
        lines.append(f"{o['name']}: {o['says']}")
        lines.append(f"  {currency} = {o[currency]} (about {float(Fraction(o[currency])):.6g})")
        lines += [f"  {line.strip()}" for line in _promise("", o["guarantee"], private)[1:]]
        lines += [f"  {note}" for note in o["notes"]]
    return Group(table, *lines)


def say_input(read: InputOutlook) -> None:
    """What was read of an input, in words."""
    if read.says and read.confidential:
        screen = console()
        screen.print(
            "confidential: counts of records are for their curator alone",
            style="bold",
            highlight=False,
        )
    for line in read.says:
        console().print(line, highlight=False)


def print_errors(outcome: Outcome) -> None:
    """The errors are confidential."""
    screen = console()
    if outcome.rows or outcome.beside:
        screen.print(CONFIDENTIAL, style="bold", highlight=False)
    for rows in list(outcome.rows.values())[:1] if not outcome.beside else ():
        found = headline(rows)
        screen.print(COLUMNS, highlight=False)
        screen.print(headline_table(found, own_spine=outcome.own_spine))
        for line in worse_lines(found, outcome.settled):
            screen.print(line, highlight=False)
    if outcome.beside:
        screen.print(records_table(outcome.beside_title, list(outcome.beside)))
