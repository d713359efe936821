"""The S-DHC, from persons, units and geography to tables.

records -> answers -> measurements | -> estimates -> tables
                 (truth ends here) |
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from das.engine.choice import LOCAL, EngineChoice
from das.engine.progress import Progress
from das.files.run.run_directory import RunDirectory
from das.making.work import (
    DerivedOutputs,
    InputOutlook,
    MeasuringRecord,
    RunContext,
    RunInput,
    one_folder,
)
from das.model.sdhc.sensitivity import PHSAFE
from das.model.sdhc.tables import STATE
from das.release import sdhc_modelled, sdhc_tables
from das.release.public_sdhc import publish
from das.release.sdhc import open_sdhc, resolved
from das.spec.sdhc import SdhcSpec
from das.stages import Stages
from das.truth.sdhc_assessment import assess
from das.truth.sdhc_run import begin, check_same, measure, numbers


class SdhcMaker:
    """One run (:class:`das.making.work.Maker`)."""

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
            found = sdhc_modelled.read(opened) if phsafe else sdhc_tables.estimates(opened)
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
