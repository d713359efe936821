"""What the budget of a configuration buys, where nothing of it is chosen: the margin of error of
every query of every level, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import click
from rich.table import Table

from das.accounting.codec import plain
from das.accounting.planning import LevelQuery
from das.accounting.statement import promises
from das.cli.answer import CommandAnswer, print_answer
from das.cli.console import console
from das.cli.options import warn
from das.cli.shown import margin_cells, measurement_line, promises_of
from das.model.not_private import PLANNED, marked
from das.model.plan import Plan
from das.model.spelling import named
from das.release.publications import PlanningHalf, PublicHalf, require
from das.spec import Specification


def refuse(of: PublicHalf, requests: Mapping[str, tuple[str, object]]) -> None:
    """``requests`` are options that choose, with the feature that each needs: where the publication
    does not have it, they are refused with its reason."""
    for option, (feature, asked) in requests.items():
        if asked:
            require(of, feature, option)


def show_margins(
    of: PublicHalf,
    given: Specification,
    universe: str | None,
    coverages: Sequence[float],
    config: Path,
    as_json: bool,
) -> None:
    """Show the margins of every universe, or of one; also after estimation, where they are known."""
    spec = of.resolved(given)
    names = [u.name for u in spec.universes]
    wanted = names if universe is None else [named(universe, names, "universe", "--universe")]
    plans = {u.name: u.plan for u in spec.universes}
    errors: Mapping[LevelQuery, float] = {}
    notes: Sequence[str] = ()
    if "plan --margin" not in of.cannot:
        choice = cast(PlanningHalf, of).choices(spec, universe)
        errors = choice.repricing.errors(choice.repricing.plan)
        notes = choice.notes(choice.repricing.plan)
    promise = promises(spec.terms, {name: plan.measurements for name, plan in plans.items()})
    private = spec.run.private
    rows = [_row(name, plans[name], errors, coverages) for name in wanted]
    said = {"name": spec.run.name, "universes": rows, "notes": list(notes), **plain(promise)}
    no_optimiser = [f"no optimiser: {of.cannot['optimise']}"] if "optimise" in of.cannot else []

    def for_a_reader() -> None:
        warn(private, PLANNED)
        for name in wanted:
            console().print(_table(spec.run.name, name, plans[name], errors, coverages))
        neighbours = next(iter(plans.values())).neighbours.value
        for note in notes:
            click.echo(note)
        for line in promises_of(promise, neighbours, private):
            console().print(line, highlight=False)
        for line in (*no_optimiser, f"das check {config} prints the exact noise of every query"):
            click.echo(line)

    print_answer(CommandAnswer(marked(said, private, PLANNED), for_a_reader), as_json)


def _row(
    name: str, plan: Plan, errors: Mapping[LevelQuery, float], coverages: Sequence[float]
) -> dict[str, Any]:
    """A plan as data."""
    currency = plan.mechanism.currency
    lines = [
        measurement_line(d, plan, errors, coverages) | {"share": float(d.cost / plan.cost)}
        for d in plan.measurements
    ]
    return {"universe": name, currency: str(plan.cost), "plan": lines}


def _table(
    title: str,
    name: str,
    plan: Plan,
    errors: Mapping[LevelQuery, float],
    coverages: Sequence[float],
) -> Table:
    """A line for each level and query, and before them what the level gets."""
    currency = plan.mechanism.currency
    says = f"{title}: {name}, {currency} = {float(plan.cost):.6g}, margins of error"
    says += ", measured (and after estimation)" if errors else ""
    table = Table(title=says, title_justify="left")
    for column in ("level", "query"):
        table.add_column(column, no_wrap=True)
    for column in (currency, "share", *(f"{100 * c:g} %" for c in coverages)):
        table.add_column(column, justify="right")
    levels: dict[str, Fraction] = {}
    for d in plan.plain:
        levels[d.level] = levels.get(d.level, Fraction(0)) + d.cost
    for level, cost in levels.items():
        here = [d for d in plan.plain if d.level == level]
        if len(here) > 1:
            table.add_row(level, "all", f"{float(cost):.4g}", _share(cost, plan))
        for d in here:
            margins = margin_cells(measurement_line(d, plan, errors, coverages)).values()
            table.add_row(level, d.query, f"{float(d.cost):.4g}", _share(d.cost, plan), *margins)
        table.add_section()
    return table


def _share(cost: Fraction, plan: Plan) -> str:
    return f"{100 * float(cost / plan.cost):.2g} %"
