"""``release/report.html`` of the S-DHC, from published values: average household sizes of the nation,
their intervals, and what stands behind them. Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from das.accounting.document import OwnStatement
from das.files import atomic
from das.files.release import plain
from das.publications.sdhc.model.published import TITLES, CellEstimate
from das.publications.sdhc.model.tables import (
    EXCESS,
    EXCESS_CHILDREN,
    ITERATIONS,
    PHSAFE,
    untruncated,
)
from das.publications.sdhc.release import OpenedSdhc
from das.report.chart import Chart
from das.report.facts import decimal, group_facts
from das.report.panel import RULE, Look
from das.report.template import PublicFrame, public_page
from das.version import __version__

NAME = "report.html"
FILES = {
    "tables": "the published tables, with intervals",
    "estimates": "what the Bureau's model makes of the measurements",
    "measurements": "every noisy measurement, in the layout of PHSafe",
    "dictionary.csv": "what every column and code means",
    "ledger.jsonl": "every draw of noise: das account verify computes its cost again",
}


@dataclass(frozen=True)
class ShownCell:
    """A cell of the nation: ``value`` with its interval, as numbers."""

    iteration: str
    label: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ShownNoise:
    """A query: how many answers of a region it has, and their noise."""

    level: str
    query: str
    answers: int
    cost: str
    sigma: float
    margin: int


def write(
    opened: OpenedSdhc,
    privacy: OwnStatement,
    found: Sequence[CellEstimate],
    rows: Mapping[str, int],
    measured: Mapping[str, int],
) -> None:
    """Write the page into the folder of the tables, with the estimates of the nation."""
    spec = opened.spec
    what = f"tables PH1 to PH8 of {len(spec.sdhc.states)} states ({spec.sdhc.mode})"
    title = "persons and households (S-DHC)"
    frame = PublicFrame(
        spec.run.name, title, spec.run.name, __version__, (), plain.listed(opened.folder, FILES)
    )
    shown = {f"{t}: {words}": _cells(found, t) for t, words in TITLES.items()}
    tables = {title: cells for title, cells in shown.items() if cells}
    page = public_page(
        "sdhc.html",
        group_facts(spec.run.name, what, privacy),
        frame,
        levels=[],
        tables=tables,
        noise=_noise(opened),
        thresholds=_thresholds(opened, found),
        rows=rows or measured,
        figure=Markup(averages(next(iter(tables.values())))) if tables else None,
        privacy_page=True,
    )
    atomic.write_text(opened.folder / NAME, page)


def _cells(found: Sequence[CellEstimate], table: str) -> list[ShownCell]:
    """The cells of the nation; for tables with iterations, the totals."""
    here = [c for c in found if c.region == "1" and c.cell.table == table]
    several = len({c.cell.iteration for c in here}) > 1
    return [
        ShownCell(ITERATIONS[c.cell.iteration], c.cell.label, c.value, c.low, c.high)
        for c in here
        if not several or c.cell.cell == 1
    ]


def _noise(opened: OpenedSdhc) -> list[ShownNoise]:
    return [
        ShownNoise(e.level, e.query, e.answers, decimal(e.cost), e.variance**0.5, e.margin(0.9))
        for e in opened.events
    ]


def _thresholds(opened: OpenedSdhc, found: Sequence[CellEstimate]) -> str:
    """How many persons of an address are counted, and how many are left out."""
    spec, part = opened.spec, opened.spec.sdhc
    if part.mode == PHSAFE:
        each = ", ".join(f"{t} {n}" for t, n in spec.tau.items())
        return (
            f"Tables count at most this many persons at one address: {each}. Others are left out"
            " and were not counted: true totals are larger than intervals here allow for."
        )
    out = (
        f"Tables count {part.most.persons} persons of one address at most, and {part.most.children}"
        " children in PH3 and PH6. Others are left out."
    )
    if untruncated(part.mode, part.relation):
        out += " PH1 for all counts everybody."
    for table, cell, who in (
        (EXCESS, 1, "Persons left out of the other tables"),
        (EXCESS_CHILDREN, 2, "Children left out of PH3 and PH6"),
    ):
        for c in found:
            if (c.region, c.cell.table, c.cell.cell) == ("1", table, cell) and c.high is not None:
                out += f" {who}: {c.low:,.0f} to {c.high:,.0f}."
    return out


def averages(cells: Sequence[ShownCell]) -> str:
    """Average sizes of households by iteration, with their intervals."""
    shown = [
        (c.iteration, c.value, c.low, c.high)
        for c in cells
        if c.value is not None and c.low is not None and c.high is not None
    ]
    chart = Chart(6.4, 1.0 + 0.26 * max(1, len(shown)))
    for y, (_, value, low, high) in enumerate(shown):
        chart.rule(y, colour=RULE, width=0.6, z=1)
        chart.plot((low, high), (y, y), Look("#0072B2", line="-"), "" if y else "90 % interval")
        chart.plot((value,), (y,), Look("#D55E00", mark="o"), "" if y else "estimate")
    chart.rows([name for name, *_ in shown])
    chart.ends_at("persons of a household")
    chart.finish("Average household size")
    return chart.svg("averages", "Average household size by race and origin, with 90 % intervals")
