"""``release/report.html`` of the S-DHC, from published values: average household sizes of the nation,
their intervals, and what stands behind them. Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from markupsafe import Markup

from das.accounting.document import ALTERED, OwnStatement
from das.errors import ReleaseError, SpecError, UserError
from das.files import atomic
from das.files.parquet import refuse_marked
from das.files.release import own_bytes
from das.files.run import run_directory
from das.model.ledger import Event
from das.publications.sdhc import from_dhc
from das.publications.sdhc.files import columns, measurements
from das.publications.sdhc.least_squares import PUBLISHED_COVERAGE
from das.publications.sdhc.model.published import TITLES, CellEstimate
from das.publications.sdhc.model.tables import (
    EXCESS,
    EXCESS_CHILDREN,
    ITERATIONS,
    LEFT_OUT,
    PHSAFE,
    FurtherSums,
    MeasuredRegions,
    untruncated,
    variances,
)
from das.publications.sdhc.spec import SdhcSpec
from das.report.chart import Chart
from das.report.facts import decimal, group_facts
from das.report.panel import RULE, MarkStyle
from das.report.template import PublicFrame, public_page
from das.spec import load, of_kind
from das.version import __version__

# A release of the S-DHC, opened from its folder alone, and a configuration with the file that it
# names read. Nothing here can see the truth.


@dataclass(frozen=True, eq=False)
class OpenedSdhc:
    folder: Path
    spec: SdhcSpec

    @property
    def events(self) -> Sequence[Event]:
        """All draws, in the order of the ledger."""
        return [e for level in self.spec.levels for e in self.spec.events(level)]

    @cached_property
    def measured(self) -> tuple[MeasuredRegions, ...]:
        """The measurements of each level. Raises :class:`ReleaseError` where they are not those of
        the plan."""
        return tuple(self._measured(level) for level in self.spec.levels)

    @cached_property
    def further(self) -> list[FurtherSums]:
        """What was taken over from a release of the DHC, if one is named."""
        if not self.spec.sdhc.dhc:
            return []
        path = self.folder / from_dhc.NAME
        text = run_directory.read_text(path, "measurements of the DHC")
        return from_dhc.further(self.spec, text, path)

    def _measured(self, level: str) -> MeasuredRegions:
        spec = self.spec
        file = measurements.path(run_directory.nmf_folder(self.folder, spec.name), level)
        refuse_marked(file, spec.run.private)
        found = measurements.read(file, level, spec.regions(level))
        if not np.array_equal(found.variance, variances(spec.events(level))):
            raise ReleaseError("its noise is not that of the plan", where=file, remedy=ALTERED)
        return found


def open_sdhc(release: Path) -> OpenedSdhc:
    """Open a release. Raises :class:`ReleaseError`, or :class:`SpecError` if it is not a release of
    the S-DHC."""
    path = release / "spec.toml"
    given = load(run_directory.read_text(path, "specification"), where=str(path))
    spec = of_kind(SdhcSpec, given, str(path))
    if not spec.sdhc.states:
        raise ReleaseError("has no states", where=path, remedy=ALTERED)
    return OpenedSdhc(release, spec)


def resolved(spec: SdhcSpec) -> SdhcSpec:
    """The specification with the parameters that it names read. Raises :class:`UserError`."""
    if not spec.data.parameters:
        return spec
    path = Path(spec.data.parameters)
    given = columns.read_config(path)
    if spec.sdhc.mode != PHSAFE:
        given.pop("tau")
        budget = given["budget"]
        mine = spec.sdhc.budget
        given["budget"] = budget | {t: dict(mine[t]) for t in LEFT_OUT if t in mine}
    try:
        return spec.amended_by(given)
    except (SpecError, ValueError) as error:
        raise UserError(f"does not go with the configuration: {error}", where=path) from None


def write_official(opened: OpenedSdhc) -> dict[str, int]:
    """The measurements in the official layout: how many rows each table has."""
    rows = {}
    for name, text in official(opened).items():
        atomic.write_text(opened.folder / name, text)
        rows[Path(name).parent.name] = text.count("\n") - 1
    return rows


def official(opened: OpenedSdhc) -> dict[str, str]:
    spec = opened.spec
    return measurements.official(opened.measured, spec.mechanism, spec.run.private)


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
    estimates: Sequence[CellEstimate],
    rows: Mapping[str, int],
    measured: Mapping[str, int],
) -> None:
    """Write the page into the folder of the tables, with the estimates of the nation."""
    spec = opened.spec
    what = f"tables PH1 to PH8 of {len(spec.sdhc.states)} states ({spec.sdhc.mode})"
    title = "persons and households (S-DHC)"
    frame = PublicFrame(
        spec.run.name, title, spec.run.name, __version__, (), own_bytes.listed(opened.folder, FILES)
    )
    shown = {f"{t}: {words}": _cells(estimates, t) for t, words in TITLES.items()}
    tables = {title: cells for title, cells in shown.items() if cells}
    page = public_page(
        "sdhc.html",
        group_facts(spec.run.name, what, privacy),
        frame,
        levels=[],
        tables=tables,
        noise=_noise(opened),
        thresholds=_thresholds(opened, estimates),
        rows=rows or measured,
        figure=Markup(averages(next(iter(tables.values())))) if tables else None,
        privacy_page=True,
    )
    atomic.write_text(opened.folder / NAME, page)


def _cells(estimates: Sequence[CellEstimate], table: str) -> list[ShownCell]:
    """The cells of the nation; for tables with iterations, the totals."""
    here = [c for c in estimates if c.region == "1" and c.cell.table == table]
    several = len({c.cell.iteration for c in here}) > 1
    return [
        ShownCell(ITERATIONS[c.cell.iteration], c.cell.label, c.value, c.low, c.high)
        for c in here
        if not several or c.cell.cell == 1
    ]


def _noise(opened: OpenedSdhc) -> list[ShownNoise]:
    return [
        ShownNoise(
            e.level,
            e.query,
            e.answers,
            decimal(e.cost),
            e.variance**0.5,
            e.margin(PUBLISHED_COVERAGE),
        )
        for e in opened.events
    ]


def _thresholds(opened: OpenedSdhc, estimates: Sequence[CellEstimate]) -> str:
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
        for c in estimates:
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
        chart.rule(y, color=RULE, width=0.6, z=1)
        chart.plot(
            (low, high), (y, y), MarkStyle("#0072B2", line="-"), "" if y else "90 % interval"
        )
        chart.plot((value,), (y,), MarkStyle("#D55E00", mark="o"), "" if y else "estimate")
    chart.rows([name for name, *_ in shown])
    chart.ends_at("persons of a household")
    chart.finish("Average household size")
    return chart.svg("averages", "Average household size by race and origin, with 90 % intervals")
