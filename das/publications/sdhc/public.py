"""The S-DHC: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from das.accounting.document import ALTERED, Invariant, Line, OwnStatement, Pure, Statement, Zcdp
from das.accounting.guarantee import guarantee
from das.accounting.planning import Repricing
from das.engine import Progress
from das.errors import InputError, ReleaseError, UserError
from das.files import atomic
from das.files.release import statement
from das.files.release.statement import adopt, check_taken
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, digests
from das.files.run.run_directory import RunDirectory
from das.model.ledger import Event
from das.model.plan import Plan
from das.model.spelling import named
from das.model.spelling import product as spelt
from das.publications.sdhc import from_dhc, modelled, page, tables
from das.publications.sdhc.model.tables import PHSAFE, FurtherSums, answers, columns, queries, query
from das.publications.sdhc.page import OpenedSdhc, official, open_sdhc, resolved, write_official
from das.publications.sdhc.spec import LEVELS, SdhcSpec
from das.release.publications import (
    DRAWN,
    PlanChoices,
    PublicHalf,
    Recomputation,
    Rerun,
    RowColumns,
    RowOptions,
    spread,
)
from das.release.seal import Wording, seal
from das.release.verify.sealed import check_dictionary
from das.stages import Stages

_REGIONS = "it measures each region by itself, over no tree: name areas in [sdhc.areas]"
_TABLES = "its tables are in tables/, each with its intervals: read those"
_PLAN = "margins of error give its budgets, one query at a time: das plan --margin"


class PublicSdhc(PublicHalf):
    title = "the S-DHC"
    cannot: Mapping[str, str] = {
        "engine": "a nation has 13,000 answers: there is nothing to share out",
        "tasks": "its run is one piece: there are no tasks",
        "plan --areas": _REGIONS,
        "plan --page": "it measures each region by itself, over no tree: `das plan --margin` shows choices",
        "optimize": _PLAN,
        "spine": _REGIONS,
        "area": _REGIONS,
        "estimate --set": "its estimates have no choices: nothing can be changed",
        "tables": _TABLES,
        "tables --areas": _REGIONS,
        "tables --margins": _TABLES,
        "intervals": _TABLES,
        "sweep": "`das plan` states its errors before a run: compare plans with --set",
        "compare": "the page of the release states the errors of measurements and estimates",
        "evaluate": "a run compares itself with the truth: confidential/evaluation/errors.csv",
        "map": "join a table to boundaries of states by REGION_ID",
        "risk": "its answers are sums over a state: `das plan` says what each has of noise",
        "nmf verify": "`das account verify` holds every measurement against the plan",
        "look-up": "its page shows the nation and every state",
        "arrays": "it is made from a folder as PHSafe takes it: write such a folder, and `das run`",
    }

    def resolved(self, spec: SdhcSpec) -> SdhcSpec:
        return resolved(spec)

    def choices(self, spec: SdhcSpec, universe: str | None) -> PlanChoices:
        (asked,) = spec.universes
        named(universe or asked.name, [asked.name], "universe", "--universe")
        known = [query(*q) for q in queries()]
        about, more = _with_dhc(spec)

        def guaranteed(plan: Plan, deltas: Iterable[Fraction]) -> Zcdp | Pure:
            found = spec.terms.differing({asked.name: plan.measurements})
            return guarantee(plan.mechanism.currency, found[asked.name], deltas, [asked.name])

        return PlanChoices(
            asked.name,
            f"records ({spec.sdhc.relation} as the unit of privacy)",
            Repricing(
                asked.plan,
                lambda a, b: a == b,
                lambda costs: spec.repriced(costs).universes[0].plan,
                lambda plan: tables.errors(about, plan, more),
            ),
            tuple(LEVELS.values()),
            spec.sdhc.delta,
            lambda _, text, where: spelt(text, known, where),
            guaranteed,
            lambda plan: spec.repriced(
                {(d.level, d.query): d.cost for d in plan.measurements}
            ).budget_toml(),
            notes=lambda plan: tables.area_notes(spec, plan),
        )

    def opened(self, release: Path) -> OpenedSdhc:
        return open_sdhc(release)

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        return _summary(_of(path, asked))

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return _rows(_of(path, asked), asked)

    def planned(self, release: Path) -> tuple[SdhcSpec, Mapping[str, Sequence[Event]]]:
        opened = open_sdhc(release)
        return opened.spec, {opened.spec.name: opened.events}

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        open_sdhc(release).measured  # noqa: B018  refuses what is not of the plan
        return said.ledger

    def check_layout(self, release: Path) -> None:
        """Its files of measurements are listed in the ledger."""

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        opened = open_sdhc(release)
        check_dictionary(release, wording, tables.dictionary_text(opened))
        for name, text in official(opened).items():
            if run_directory.read_text(release / name, "measurements") != text:
                raise ReleaseError(
                    "is not what the measurements give", where=release / name, remedy=ALTERED
                )

    def again(self, rerun: Rerun) -> Recomputation:
        release, into = rerun.release, rerun.into.release
        opened, privacy = open_sdhc(release), statement.read_ours(release)
        opened.measured  # noqa: B018  what is not of the plan is refused before anything is written
        adopt(release, into, [from_dhc.NAME] if opened.spec.sdhc.dhc else [])
        atomic.write_text(into / "spec.toml", opened.spec.dump())
        check_taken(release, digests(into), privacy, opened.spec.run.private)
        rows = publish(rerun.into, privacy, rerun.stages, rerun.progress)
        run = opened.spec.run
        return Recomputation(run.name, opened.spec.digest, run.private, {"rows": rows}, tables=rows)


def _with_dhc(spec: SdhcSpec) -> tuple[SdhcSpec, Sequence[FurtherSums]]:
    """What a plan's errors are about: the states, and what is taken over from the DHC, if one is
    named."""
    if not spec.sdhc.dhc:
        return spec, ()
    states = spec.sdhc.states or from_dhc.states(spec)
    about, text = from_dhc.taken(spec.amended_by({"states": states}))
    return about, from_dhc.further(about, text, Path(spec.sdhc.dhc))


def _of(path: Path, asked: RowOptions) -> OpenedSdhc:
    """The release. A universe that is asked for must be its own."""
    opened = open_sdhc(run_directory.release_above(path) or path)
    asked.among([opened.spec.name])
    return opened


def _summary(opened: OpenedSdhc) -> list[dict[str, Any]]:
    """One row for each level and query."""
    out: list[dict[str, Any]] = []
    for m in opened.measured:
        for e in opened.spec.events(m.level):
            found = m.values[:, list(columns(*e.query.split(" ")))].ravel()
            row = {"level": e.level, "query": e.query, "regions": e.units, "answers": len(found)}
            out.append(row | spread(np.array([e.variance]), found))
    return out


def _rows(opened: OpenedSdhc, asked: RowOptions) -> RowColumns:
    """A row for each answer of each region that is asked for."""
    if asked.kind != DRAWN:
        raise UserError("nothing is exact of the S-DHC", where=opened.folder, remedy="leave it out")
    asked.refuse_lists(opened.folder)
    known = list(LEVELS.values())
    level = None if asked.level is None else named(asked.level, known, "level", "--level")
    found: list[tuple[str, str, str, str, int, int, float]] = []
    for m in opened.measured:
        if level not in (None, LEVELS[m.level]):
            continue
        events = opened.spec.events(m.level)
        query = None if asked.query is None else spelt(asked.query, [e.query for e in events], "")
        for e in (e for e in events if query in (None, e.query)):
            for r, region in enumerate(m.regions):
                if asked.geocodes and region not in asked.geocodes:
                    continue
                for n in columns(*e.query.split(" ")):
                    a, value = answers()[n], int(m.values[r, n])
                    found.append((e.level, region, e.query, a.iteration, a.cell, value, e.variance))
    if not found:
        raise InputError(
            f"no region {', '.join(asked.geocodes)}",
            where="--geocode",
            remedy="regions are 1 and the codes of the states",
        )
    names = ("level", "geocode", "query", "iteration", "cell", "value", "variance")
    kinds = (object, object, object, object, np.int64, np.int64, np.float64)
    return {
        name: np.array(column, dtype=kind)
        for name, column, kind in zip(names, zip(*found, strict=True), kinds, strict=True)
    }


def publish(
    directory: RunDirectory, privacy: OwnStatement, stages: Stages, progress: Progress
) -> dict[str, int]:
    """Everything after measurement, from the folder of a release: how many rows each table has."""
    opened = open_sdhc(directory.release)
    with stages("tables"):
        progress.stage("tables", None)
        measured = write_official(opened)
        if opened.spec.sdhc.mode == PHSAFE:
            rows = modelled.write(opened)
            found = modelled.read(opened)
        else:
            found = tables.estimates(opened)
            rows = tables.write(opened, found)
        tables.write_dictionary(opened)
    with stages.page("report", directory.page):
        page.write(opened, privacy, found, rows, measured)
    with stages("seal"):
        files = LedgerFile(directory.ledger).entries.files()
        seal(directory.release, privacy, opened.spec.run.name, files)
    return rows
