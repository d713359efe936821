"""The Detailed DHC: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import Invariant, Line, Statement
from das.errors import InputError, UserError
from das.files.release import statement
from das.files.release.statement import adopt, check_taken
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, digests
from das.model.ledger import Event
from das.model.names import text
from das.model.spelling import named
from das.model.spelling import product as spelt
from das.publications.detailed import release as verification
from das.publications.detailed import tables
from das.publications.detailed.files import parameters
from das.publications.detailed.files import totals as totals_file
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, LevelPlan
from das.publications.detailed.release import PARAMETERS, OpenedGroups, open_groups, write_public
from das.publications.detailed.spec import DetailedFolders, DetailedSpec
from das.publications.detailed.tables import publish
from das.release.publications import (
    DRAWN,
    PublicHalf,
    Recomputation,
    Rerun,
    RowColumns,
    RowOptions,
    spread,
)
from das.release.seal import Wording, seal

_GROUPS = "it counts groups in regions, not on a tree: no area adds up from them"
_ERRORS = (
    "its tables are sums of measurements, and nothing is estimated: `das plan` and the page of the"
    " release state their errors"
)
_PLAN = (
    "`das detailed plan PARAMETERS` finds budgets for margins of error, and thresholds: write them"
    " into config.json"
)


class PublicDetailed(PublicHalf):
    title = "the Detailed DHC"
    cannot: Mapping[str, str] = {
        "plan --margin": _PLAN,
        "plan --areas": _GROUPS,
        "plan --page": "each group has a budget of its own, and no tree: `das plan` shows its margins",
        "optimize": _PLAN,
        "spine": _GROUPS,
        "area": _GROUPS,
        "estimate --set": "its tables are sums of measurements: nothing can be changed",
        "tables": "its tables are in tables/, as SafeTab writes them and as Parquet: read those",
        "tables --areas": _GROUPS,
        "tables --margins": "`das detailed estimate` gives estimates with intervals",
        "intervals": "`das detailed estimate` gives estimates with intervals",
        "sweep": (
            "`das plan` states its errors before a run: compare the plans of several folders of"
            " parameters (das detailed plan)"
        ),
        "compare": _ERRORS,
        "evaluate": _ERRORS,
        "map": "join table t1 (REGION_ID, ITERATION_CODE) to boundaries by REGION_ID",
        "risk": (
            "`das detailed risk RUN` says what an intruder learns of one person, and of the size of"
            " a group"
        ),
        "look-up": (
            "its groups are too many for a page: `das nmf show RUN --level LEVEL --geocode REGION`"
            " lists those of a region"
        ),
        "arrays": (
            "it is made from folders as SafeTab takes them, whose code tables decide what is"
            " measured: write such folders, and `das run`"
        ),
    }

    def resolved(self, spec: DetailedFolders) -> DetailedSpec:
        if not spec.data.parameters:
            raise UserError(
                "no folder of parameters is named",
                where="data.parameters",
                remedy="name one with config.json and the code tables: --set data.parameters=DIR",
            )
        return spec.on(parameters.read(Path(spec.data.parameters), spec.product))

    def opened(self, release: Path) -> OpenedGroups:
        return open_groups(release)

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        opened = _of(path, asked)
        return summary(opened)

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return row_columns(_of(path, asked), asked)

    def planned(self, release: Path) -> tuple[DetailedSpec, Mapping[str, Sequence[Event]]]:
        opened = open_groups(release)
        return opened.spec, {
            opened.name: [e for plan in opened.spec.plans for e in opened.events(plan)]
        }

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        verification.check_files(open_groups(release))
        return said.ledger

    def check_layout(self, release: Path) -> None:
        """Its files of measurements are listed by :meth:`check_measured`."""

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        """Its tables are sums of the measurements, which are verified."""

    def again(self, rerun: Rerun) -> Recomputation:
        release, into = rerun.release, rerun.into.release
        opened, privacy = open_groups(release), statement.read_ours(release)
        totals = None if opened.totals is None else release / totals_file.FILE
        adopt(release, into)
        write_public(into, opened.spec, release / PARAMETERS, opened.regions, totals)
        check_taken(release, digests(into), privacy, opened.spec.run.private)
        opened = replace(opened, folder=into)
        with rerun.stages("tables"):
            published = publish(opened)
        with rerun.stages.page("report", rerun.into.page):
            tables.write(opened, privacy, published)
        with rerun.stages("seal"):
            files = LedgerFile(rerun.into.ledger).entries.files()
            seal(into, privacy, opened.spec.run.name, files)
        return Recomputation(
            opened.spec.run.name,
            opened.spec.digest,
            opened.spec.run.private,
            {"rows": published.rows},
            tables=published.rows,
        )


def _of(path: Path, asked: RowOptions) -> OpenedGroups:
    """The release. A universe that is asked for must be its own."""
    opened = open_groups(run_directory.release_above(path) or path)
    asked.among([opened.name])
    return opened


# Measurements of the Detailed DHC as columns, a row for each answer.
#
# Like ``das.release.post_processing``, nothing here can see the truth.

#: Rows that are listed at once.
MOST = 5_000_000


def summary(opened: OpenedGroups) -> list[dict[str, Any]]:
    """One row for each level and draw: how many groups it is of, how many answers these have, their
    variance, and the smallest and largest."""
    out: list[dict[str, Any]] = []
    for plan in opened.spec.plans:
        values: dict[str, list[NDArray[np.int64]]] = {d.query: [] for d in plan.measurements}
        groups = dict.fromkeys(values, 0)
        for m in opened.measured(plan):
            for query, (group, found, _) in _draws(plan, m).items():
                values[query].append(found)
                groups[query] += len(np.unique(group))
        classes = opened.units(plan)
        for d in (d for d in plan.measurements if d.unit_class in classes):
            found = np.concatenate(values[d.query]) if values[d.query] else np.zeros(0, np.int64)
            row = {"level": plan.level, "query": d.query, "groups": groups[d.query]}
            row |= {"answers": len(found)} | spread(np.array([d.variance]), found)
            out.append(row)
    return out


def _draws(
    plan: LevelPlan, m: GroupMeasurement
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """By query the group, the value and the number of each answer."""
    length = np.diff(m.indptr)
    group = np.repeat(np.arange(len(length)), length)
    number = np.arange(len(m.values)) - m.indptr[group]
    if not plan.first:
        return {plan.table.name: (group, m.values, number)}
    total = m.only[m.iteration[group]]
    first = np.flatnonzero((m.size != UNMEASURED) & ~m.only[m.iteration])
    return {
        ONLY: (group[total], m.values[total], number[total]),
        FIRST: (first, m.first[first], np.zeros(len(first), dtype=np.int64)),
        plan.table.name: (group[~total], m.values[~total], number[~total]),
    }


def row_columns(opened: OpenedGroups, asked: RowOptions) -> RowColumns:
    """A row for each answer of each group: its region (``geocode``) and iteration, the size of its
    table, and what the answer is in the columns of the table."""
    if asked.kind != DRAWN:
        raise UserError(
            "the Detailed DHC has no exact counts", where=opened.folder, remedy="leave it out"
        )
    asked.refuse_lists(opened.folder)
    plans = {p.level: p for p in opened.spec.plans}
    if asked.level is None and not asked.geocodes:
        raise UserError(
            "the groups of all levels are too many to list",
            where="--level",
            remedy=f"name one of {', '.join(plans)}",
        )
    level = None if asked.level is None else named(asked.level, [*plans], "level", "--level")
    parts: list[RowColumns] = []
    for plan in (p for p in plans.values() if level in (None, p.level)):
        known = [d.query for d in plan.measurements]
        query = None if asked.query is None else spelt(asked.query, known, "--query")
        for m in opened.measured(plan):
            for name, drawn in _draws(plan, m).items():
                if query in (None, name):
                    parts.append(_rows_of_groups(opened, plan, m, name, drawn, asked.geocodes))
        if (row_columns := sum(len(p["value"]) for p in parts)) > MOST:
            raise UserError(
                f"{row_columns:,} row_columns and more",
                where=plan.level,
                remedy="name regions with --geocode, or read the Parquet files of the release",
            )
    if not any(len(p["value"]) for p in parts):
        raise InputError(
            f"no region {', '.join(asked.geocodes)}",
            where="--geocode",
            remedy="regions are the REGION_ID of the tables",
        )
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _rows_of_groups(
    opened: OpenedGroups,
    plan: LevelPlan,
    m: GroupMeasurement,
    query: str,
    drawn: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    regions: Sequence[str],
) -> RowColumns:
    group, value, number = drawn
    codes = text(m.regions)
    if regions:
        here = np.isin(codes[m.region[group]], regions)
        group, value, number = group[here], value[here], number[here]
    iterations = opened.spec.parameters.iterations
    which = iterations.measured_at(plan.at)[m.iteration[group]]
    size = np.zeros(len(group), np.int64) if query in (ONLY, FIRST) else m.size[group]
    cells = np.array([plan.table.cells[s][n] for s, n in zip(size, number, strict=True)], object)
    out: RowColumns = {
        "level": np.full(len(group), plan.level, dtype=object),
        "geocode": codes[m.region[group]].astype(object),
        "iteration": iterations.code[which].astype(object),
        "iteration name": iterations.name[which].astype(object),
        "query": np.full(len(group), query, dtype=object),
        "table size": m.size[group].astype(np.int64),
    }
    for j, column in enumerate(plan.table.columns):
        out[column] = cells.reshape(len(group), -1)[:, j] if len(group) else cells
    variance = plan.measurement(query).variance
    return out | {"value": value, "variance": np.full(len(group), variance)}
