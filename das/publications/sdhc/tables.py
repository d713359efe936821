"""Tables of a release of the S-DHC in the tight mode: least squares of its measurements, with
intervals: ``tables/PH1.csv`` to ``tables/PH8.csv``, ``tables/excess.csv`` and
``tables/excess_children.csv``, one line a region, iteration and cell. An empty field is not known.
And ``dictionary.csv``, of both modes: files, columns and codes, a function of the
specification alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from das.files import atomic, rows_csv
from das.model.names import STATES
from das.model.not_private import Private
from das.model.plan import Plan
from das.publications.sdhc import from_dhc
from das.publications.sdhc.files.measurements import FOLDER as MEASUREMENTS
from das.publications.sdhc.files.measurements import REGION_TYPES
from das.publications.sdhc.least_squares import (
    WIDE,
    RegionEstimates,
    alone,
    combined,
    estimated,
    non_negative,
)
from das.publications.sdhc.model.published import (
    LABELS,
    TITLES,
    CellEstimate,
    PublishedCell,
    published,
)
from das.publications.sdhc.model.tables import (
    AREA,
    EXCESS,
    EXCESS_CHILDREN,
    ITERATIONS,
    LEFT_OUT,
    PHSAFE,
    TABLES,
    FurtherSums,
    MeasuredRegions,
    answers,
    column,
    columns,
    untruncated,
    variances,
)
from das.publications.sdhc.page import OpenedSdhc
from das.publications.sdhc.spec import LEVELS, SdhcSpec
from das.release import dictionary
from das.release.dictionary import NAME, LineParts, of_codes, of_file, of_files, of_universe
from das.threads import one_thread

FOLDER = "tables"
#: By column, what is in it.
COLUMNS: Mapping[str, str] = {
    "region_id": "1 for the nation, FIPS code of a state, county or place",
    "region": "name of the region",
    "iteration": "iteration of the table: * for all, A to G by race, H and I by origin",
    "iteration_label": "what the iteration is",
    "cell": "number of the cell",
    "label": "what the cell is",
    "estimate": "least squares of all measurements: unbiased for what is counted, may be negative",
    "standard_error": "of a count; a ratio has none",
    "low": "lower end of the 90 % interval; of a ratio empty where it is not known",
    "high": "upper end of the 90 % interval",
    "non_negative": "the nearest estimate without a negative count: biased upwards near 0",
    "most_per_address": "persons of one address that the cell counts; empty: all",
}
_NAMES = {s.fips: s.name for s in STATES} | {"1": "all states"}

#: Persons that tables leave out.
_EXCESS = tuple(
    PublishedCell(table, "*", c, (table, cells))
    for table, c, cells in (
        (EXCESS, 1, (2, 3)),
        (EXCESS, 2, (2,)),
        (EXCESS, 3, (3,)),
        (EXCESS_CHILDREN, 2, (2,)),
    )
)


@one_thread()
def estimates(opened: OpenedSdhc) -> list[CellEstimate]:
    """Every published cell of every region, nation first."""
    found, part = region_estimates(opened), opened.spec.sdhc
    cells = (*published(), *_EXCESS)
    return [c for e in found for c in combined(e, cells, part.most.persons, non_negative(e))]


def region_estimates(opened: OpenedSdhc) -> list[RegionEstimates]:
    """Least squares of all measurements of a release, of each level."""
    return _estimated(opened.measured, opened.spec, opened.further)


#: States of the nation, and DC: what errors are stated for where nobody has named the states.
_NATION = 51
#: Households of areas, and persons of each, for which errors of averages are stated.
_SIZES, _PERSONS = (1_000, 10_000, 100_000), 2.5


def errors(
    spec: SdhcSpec, plan: Plan, more: Sequence[FurtherSums] = ()
) -> dict[tuple[str, str], float]:
    """By level and query of a plan, the largest standard error of its answers after least squares;
    empty in the mode ``phsafe``, which has none. ``more``: what is taken over from the DHC."""
    found = _expected(spec, plan, more)
    error = {LEVELS[e.level]: np.sqrt(np.maximum(0, np.diag(e.covariance))) for e in found}
    return {
        (d.level, d.query): float(error[d.level][list(columns(*d.query.split(" ")))].max())
        for d in plan.measurements
        if d.level in error
    }


def area_notes(spec: SdhcSpec, plan: Plan) -> list[str]:
    """How well averages of areas will be known, by their size."""
    out = []
    for e in (e for e in _expected(spec, plan) if e.level == AREA):
        for iteration, who in (("*", "all"), ("A", "one race")):
            above = [column("PH1_num", iteration, c) for c in (2, 3)]
            below = column("PH1_denom", iteration, 1)
            if not e.known[[*above, below]].all():
                continue
            weight = np.zeros(len(answers()))
            weight[above], weight[below] = 1, -_PERSONS
            wide = WIDE * float(np.sqrt(weight @ e.covariance @ weight))
            each = ", ".join(f"{wide / n:.2g} of {n:,} households" for n in _SIZES)
            out.append(f"average household size of an area ({who}), 90 %: within {each}")
    return out


@one_thread()
def _expected(
    spec: SdhcSpec, plan: Plan, more: Sequence[FurtherSums] = ()
) -> list[RegionEstimates]:
    """Estimates as of a run of a plan: their covariances do not depend on what is measured."""
    part, levels = spec.sdhc, dict[str, MeasuredRegions]()
    if part.mode == PHSAFE:
        return []
    for level, name in LEVELS.items():
        if draws := plan.at(name):
            regions = spec.regions(level) or ("",) * _NATION
            nothing = np.zeros((len(regions), len(answers())), dtype=np.int64)
            levels[level] = MeasuredRegions(level, regions, nothing, variances(draws))
    return _estimated([*levels.values()], spec, more)


def _estimated(
    measured: Sequence[MeasuredRegions], spec: SdhcSpec, more: Sequence[FurtherSums]
) -> list[RegionEstimates]:
    """Of the nation and its states together, and of each area by itself."""
    whole = untruncated(spec.sdhc.mode, spec.sdhc.relation) is not None
    above = [m for m in measured if m.level != AREA]
    found = [*(estimated(above, whole, more) if above else ())]
    return found + [alone(m, whole) for m in measured if m.level == AREA]


def write(opened: OpenedSdhc, estimates: Sequence[CellEstimate]) -> dict[str, int]:
    """One file for each table: how many rows each has."""
    rows = {}
    for table in TITLES:
        of = [(c, counted(opened, c.cell)) for c in estimates if c.cell.table == table]
        if of:
            rows[table] = _write_table(opened.folder, table, of, opened.spec.run.private)
    return rows


def _write_table(
    release: Path, table: str, rows: Iterable[tuple[CellEstimate, int | None]], private: Private
) -> int:
    """The rows of a table, each with how many persons of an address it counts. Returns how many
    there are."""
    lines: list[Sequence[object]] = []
    for e, most in rows:
        cell = e.cell
        lines.append(
            [
                e.region,
                _NAMES.get(e.region, f"area {e.region}"),
                cell.iteration,
                ITERATIONS[cell.iteration],
                cell.cell,
                cell.label,
                *(_number(x) for x in (e.value, e.error, e.low, e.high, e.fitted)),
                "" if most is None else most,
            ]
        )
    rows_csv.write(release / FOLDER / f"{table}.csv", [*COLUMNS], lines, private=private)
    return len(lines)


def _number(value: float | None) -> str:
    """To a thousandth, without a sign of zero: what is behind it depends on the machine."""
    return "" if value is None else f"{round(value, 3) + 0.0:.3f}"


def counted(opened: OpenedSdhc, cell: PublishedCell) -> int | None:
    """How many persons of one address a cell counts, where not all."""
    part, table = opened.spec.sdhc, cell.above[0]
    if table in LEFT_OUT or not TABLES[table].people:
        return None
    if cell.iteration == "*" and table == untruncated(part.mode, part.relation):
        return None
    return opened.spec.tau[table]


# --- the dictionary

_OFFICIAL = {
    "REGION_ID": "1, or the FIPS code of a state",
    "REGION_TYPE": " or ".join(REGION_TYPES.values()),
    "ITERATION_CODE": "iteration of the table (not PH2 and PH6)",
    "<table>_DATA_CELL": "number of the cell",
    "COUNT": "the count with its noise: may be negative",
    "NOISE_DISTRIBUTION": "the law of the noise",
    "VARIANCE": "of the noise: sigma^2 of a discrete Gaussian",
}
_MODELLED = {
    "COUNT_NOISY": "sum of measurements (of a ratio _NUM and _DENOM)",
    "VARIANCE": "its variance",
    "MOE_NOISY": "its margin of error at 90 %",
    "PRED": "mean of a normal law cut off at 0, rounded: biased upwards near 0",
    "PRED_LO": "5 % quantile",
    "PRED_HI": "95 % quantile",
    "RATIO_PRED": "mean of the ratio of truncated normal laws",
}


def dictionary_text(opened: OpenedSdhc) -> str:
    return dictionary.written(of_universe("", _lines(opened)), opened.spec.run.private)


def write_dictionary(opened: OpenedSdhc) -> None:
    atomic.write_text(opened.folder / NAME, dictionary_text(opened))


def _lines(opened: OpenedSdhc) -> Iterator[LineParts]:
    known = ("spec.toml", "privacy.json", "privacy.html", "ledger.jsonl", NAME)
    yield from of_files({name: dictionary.FILES[name] for name in known})
    yield from of_files({"report.html": "tables of the nation, and their errors"})
    file = f"{MEASUREMENTS}/*/part-00000-das.csv"
    says = "every noisy measurement in the layout of PHSafe; PH5_num and PH8_num follow from others"
    yield from of_file(file, says, _OFFICIAL)
    if opened.spec.sdhc.dhc:
        says = "noisy measurements of the DHC, which estimates use besides those of this release"
        yield from of_file(from_dhc.NAME, says, from_dhc.COLUMNS)
    if opened.spec.sdhc.mode == PHSAFE:
        file = "estimates/*/estimates/*_trunc_normal.csv"
        yield from of_file(file, "what the Bureau's model makes of the measurements", _MODELLED)
    else:
        for table in TITLES:
            name = f"{FOLDER}/{table}.csv"
            yield from of_file(name, TITLES[table], COLUMNS)
            yield from of_codes(name, "cell", map(str, LABELS[table]), LABELS[table].values())
    yield from of_codes("", "iteration", ITERATIONS, ITERATIONS.values())
