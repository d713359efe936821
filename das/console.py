"""What a person sees in the terminal: progress, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from das.accounting.margins import PlanRow
from das.evaluate import Headline
from das.model.budget import Plan
from das.model.result import ErrorRow

#: Columns of output that goes to no terminal.
WIDE = 160


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for any table where it is a file or a pipe."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=WIDE)


class Live:
    """A line for each stage, on stderr; silent when quiet or not on a terminal."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._display = Progress(
            SpinnerColumn(), TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=console, disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._task: Any = None

    def __enter__(self) -> Live:
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self._display.stop()

    def stage(self, name: str, total: int | None) -> None:
        self._finish()
        self._task = self._display.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        self._display.advance(self._task, n)

    def _finish(self) -> None:
        if self._task is not None:
            done = self._display.tasks[-1]
            self._display.update(self._task, total=done.total or 1, completed=done.total or 1)


def headline_table(rows: Sequence[Headline]) -> Table:
    table = Table(title="Mean absolute error of the total", title_justify="left")
    for name in ("level", "units", "noisy", "published"):
        table.add_column(name, justify="left" if name == "level" else "right")
    for r in rows:
        table.add_row(r.level, f"{r.units:,}", "not measured" if r.nmf is None else f"{r.nmf:,.2f}",
                      f"{r.postprocessed:,.2f}")  # fmt: skip
    return table


def compare_table(rows: Sequence[ErrorRow]) -> Table:
    """Noisy measurements beside published counts: mean absolute error, root mean square, bias."""
    found = {(r.level, r.query, r.source): r for r in rows}
    table = Table(title="Noisy measurements (noisy) against published counts", title_justify="left")
    for name in ("level", "query"):
        table.add_column(name)
    for name in ("MAE noisy", "published", "RMSE noisy", "published", "bias noisy", "published"):
        table.add_column(name, justify="right")
    previous = None
    for level, query in dict.fromkeys((r.level, r.query) for r in rows):
        if previous not in (None, level):
            table.add_section()
        previous = level
        noisy, out = found.get((level, query, "nmf")), found.get((level, query, "postprocessed"))
        cells = [f"{getattr(r, m):,.3f}" if r else "–" for m in ("mae", "rmse", "bias") for r in (noisy, out)]
        table.add_row(level, query, *cells)
    return table


def plan_table(
    name: str, plans: Mapping[str, Plan], rows: Mapping[str, Sequence[PlanRow]], promise: Mapping[str, Any]
) -> Group:
    tables: list[Any] = []
    for universe, plan in plans.items():
        currency = plan.mechanism.currency
        table = Table(title=f"{name}: {universe}, {currency} = {plan.cost} ({float(plan.cost):.6g}), "
                            f"{plan.neighbours.value} neighbours, {plan.mechanism.value}", title_justify="left")  # fmt: skip
        table.add_column("level", no_wrap=True)
        table.add_column("query", no_wrap=True)
        for column in (currency, "sigma²" if currency == "rho" else "scale", "95 % margin"):
            table.add_column(column, justify="right")
        previous = None
        for r in rows[universe]:
            if previous not in (None, r.level):
                table.add_section()
            previous = r.level
            table.add_row(r.level, r.query, f"{float(r.cost):.6g}", f"{float(r.scale):,.5g}", f"±{r.margin:,}")
        tables.append(table)
    return Group(*tables, *(line for name, each in promise.items() for line in _promise(name, each)))


def _promise(name: str, promise: Mapping[str, Any]) -> list[str]:
    if "rho" not in promise:
        return [f"{name}: epsilon = {promise['epsilon']}, delta = 0"]
    lines = [f"{name}: rho = {promise['rho']}; implied epsilon sqrt(2 rho) = {promise['implied_epsilon']:.4g}"]
    lines += [f"  epsilon = {e['zcdp-tight']:.4f} at delta = {e['delta']}  (looser conversion: "
              f"{e['zcdp-bun-steinke']:.4f})" for e in promise["epsilon"]]  # fmt: skip
    return lines


def records_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of one kind, as they are."""
    table = Table(title=title, title_justify="left")
    for name, value in rows[0].items() if rows else ():
        table.add_column(name, justify="left" if isinstance(value, str) else "right", no_wrap=isinstance(value, str))
    for row in rows:
        table.add_row(*(v if isinstance(v, str) else f"{v:,.6g}" for v in row.values()))
    return table
