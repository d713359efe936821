"""The S-DHC, from persons, units and geography to tables.

records -> answers -> measurements | -> estimates -> tables
                 (truth ends here) |"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from das.engine.choice import LOCAL, EngineChoice
from das.engine.tasks import Progress
from das.files import rows_csv
from das.files.run.run_directory import RunDirectory
from das.publications.sdhc import modelled, tables
from das.publications.sdhc.model.published import CellEstimate, PublishedCell, published
from das.publications.sdhc.model.tables import AREA, GROUPS, LEFT_OUT, PHSAFE, STATE, USA, column
from das.publications.sdhc.page import OpenedSdhc, open_sdhc, resolved
from das.publications.sdhc.public import publish
from das.publications.sdhc.spec import SdhcSpec
from das.publications.sdhc.truth.run import Ints, begin, check_same, everybody, measure, numbers
from das.runs.protocol import (
    DerivedOutputs,
    InputOutlook,
    MeasuringRecord,
    RunContext,
    RunInput,
    one_folder,
)
from das.stages import Stages

# An S-DHC run compared with the truth. The truth counts everybody, even those whom truncation
# leaves out. For ``confidential/evaluation/errors.csv``.

_Key = tuple[str, str, str]


def assess(
    opened: OpenedSdhc, estimates: Iterable[CellEstimate], directory: RunDirectory
) -> list[dict[str, Any]]:
    """Write the errors, and return them: one row of the measured and one of the published values
    for each level, table and group of iterations. ``inside``: the share of intervals that contain
    the truth."""
    truth, rows = _regions(opened, directory), list[dict[str, Any]]()
    noisy = [e for m in opened.measured for e in _measured(m.regions, m.values, m.variance)]
    for source, every in (("measured", noisy), ("published", estimates)):
        by: dict[_Key, list[tuple[float, bool | None]]] = {}
        for e in every:
            true = _true(truth[e.region], e.cell)
            if e.cell.table in LEFT_OUT or e.value is None or true is None:
                continue
            of = next(g for g, iterations in GROUPS.items() if e.cell.iteration in iterations)
            inside = None if e.low is None or e.high is None else e.low <= true <= e.high
            level = {1: USA, 2: STATE}.get(len(e.region), AREA)
            by.setdefault((level, e.cell.table, of), []).append((e.value - true, inside))
        rows += [_row(source, key, errors) for key, errors in by.items()]
    header, lines = list(rows[0]) if rows else [], [list(r.values()) for r in rows]
    path, private = directory.errors_of(opened.spec.name), opened.spec.run.private
    rows_csv.write(path, header, lines, private=private)
    return rows


def _row(source: str, key: _Key, errors: Sequence[tuple[float, bool | None]]) -> dict[str, Any]:
    found = np.array([e for e, _ in errors])
    held = [inside for _, inside in errors if inside is not None]
    return {
        "level": key[0],
        "table": key[1],
        "iterations": key[2],
        "source": source,
        "n": len(found),
        "mae": round(float(np.abs(found).mean()), 4),
        "rmse": round(float(np.sqrt((found**2).mean())), 4),
        "bias": round(float(found.mean()), 4),
        "inside": round(sum(held) / len(held), 4) if held else "",
    }


def _regions(opened: OpenedSdhc, directory: RunDirectory) -> dict[str, Ints]:
    """By region, everybody."""
    spec = opened.spec
    exact = everybody(spec, directory, STATE)
    out = {"1": exact.sum(axis=0), **dict(zip(spec.regions(STATE), exact, strict=True))}
    if AREA in spec.levels:
        out |= zip(spec.regions(AREA), everybody(spec, directory, AREA), strict=True)
    return out


def _measured(
    regions: Sequence[str], values: Ints, variance: np.ndarray[Any, Any]
) -> Iterator[CellEstimate]:
    """Published cells, computed from the measurements alone."""
    for cell in published():
        every = [cell.above, *([cell.below] if cell.below else [])]
        if not all(np.isfinite(variance[_at(*s, cell.iteration)]).all() for s in every):
            continue
        for region, found in zip(regions, values, strict=True):
            yield CellEstimate(region, cell, _true(found, cell), None, None, None, None)


def _at(table: str, cells: Sequence[int], iteration: str) -> list[int]:
    return [column(table, iteration, c) for c in cells]


def _true(values: Ints, cell: PublishedCell) -> float | None:
    above = float(values[_at(*cell.above, cell.iteration)].sum())
    if cell.below is None:
        return above
    below = float(values[_at(*cell.below, cell.iteration)].sum())
    return above / below if below > 0 else None


class SdhcMaker:
    """One run (:class:`das.runs.protocol.Maker`)."""

    def __init__(self, spec: SdhcSpec, given: RunInput) -> None:
        self.spec = resolved(spec)
        self._paths = given.paths

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        with stages("read"):
            progress.stage("read", None)
            self.spec = begin(self.spec, self._folder(), directory)

    def _folder(self) -> Path:
        return one_folder(
            self._paths, self.spec.data.path, "with persons.csv, units.csv and geo.csv"
        )

    def check_same(self, directory: RunDirectory) -> None:
        check_same(self.spec, directory)
        self.spec = open_sdhc(directory.release).spec

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        """There is nothing to share out: a nation has 13,000 answers."""
        return EngineChoice(LOCAL, 1)

    def measure(self, work: RunContext) -> MeasuringRecord:
        began = datetime.now(UTC)
        with work.stages("measure"):
            work.progress.stage("measure", None)
            privacy = measure(self.spec, work.directory, work.accept_spent)
        return MeasuringRecord(began, privacy)

    def derive(self, work: RunContext, measured: MeasuringRecord) -> DerivedOutputs:
        rows = publish(work.directory, measured.privacy, work.stages, work.progress)
        return DerivedOutputs({"rows": rows}, rows)

    def evaluate(
        self, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
    ) -> Mapping[str, Any]:
        """Against everybody, also those whom truncation leaves out: in ``confidential/``."""
        opened = open_sdhc(work.directory.release)
        phsafe = opened.spec.sdhc.mode == PHSAFE
        with work.stages("evaluate"):
            work.progress.stage("evaluate", None)
            found = modelled.read(opened) if phsafe else tables.estimates(opened)
            rows = assess(opened, found, work.directory)
        return {
            "tables": derived.kept,
            "beside": [r for r in rows if r["level"] == STATE],
            "beside_title": "errors of states",
        }

    def outlook(self, stages: Stages, progress: Progress) -> InputOutlook:
        """The folder, with every fault at once, and how many records there are."""
        progress.stage("read", None)
        found = numbers(self.spec, self._folder())
        says = [
            f"{found['persons']:,} persons at {found['addresses']:,} addresses in the states"
            f" {', '.join(found['states'])}",
            f"{found['left out']:,} persons are left out of tables, because their address has too"
            " many",
        ]
        return InputOutlook(says=says, data=found, confidential=True)

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        return {"tables": directory.read_manifest()["rows"]}
