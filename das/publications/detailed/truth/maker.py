"""The Detailed DHC, from folders of parameters and records to tables.

parameters, regions, records -> measurements | -> tables
                        (truth ends here)    |"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from das.engine.choice import EngineChoice
from das.engine.tasks import Progress
from das.errors import UserError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.publications.detailed import tables
from das.publications.detailed.files import parameters as parameter_files
from das.publications.detailed.release import open_groups
from das.publications.detailed.spec import DetailedFolders
from das.publications.detailed.tables import publish
from das.publications.detailed.truth.folders import GivenFolders, check_same, read_folders
from das.publications.detailed.truth.run import begin, measure_groups
from das.release.seal import seal
from das.runs.protocol import (
    DerivedOutputs,
    InputOutlook,
    MeasuringRecord,
    RunContext,
    RunInput,
    one_folder,
    worth,
)
from das.stages import Stages


class DetailedMaker:
    """One run (:class:`das.runs.protocol.Maker`)."""

    def __init__(self, spec: DetailedFolders, given: RunInput) -> None:
        self.spec = spec
        self._given = folders_of(spec, given)

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        self._given.refuse(directory.root)
        with stages("read"):
            progress.stage("read", None)
            read = read_folders(self._given)
            begin(self.spec.on(read.parameters), read, directory)

    def check_same(self, directory: RunDirectory) -> None:
        parameters = parameter_files.read(self._given.parameters, self._given.product)
        check_same(self.spec.on(parameters), self._given, directory)

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        return worth(choice, directory)

    def measure(self, work: RunContext) -> MeasuringRecord:
        began = datetime.now(UTC)
        with work.stages("measure"):
            privacy = measure_groups(work.directory, work.engine, work.progress, work.accept_spent)
        return MeasuringRecord(began, privacy)

    def derive(self, work: RunContext, measured: MeasuringRecord) -> DerivedOutputs:
        directory, privacy = work.directory, measured.privacy
        opened = open_groups(directory.release)
        with work.stages("tables"):
            work.progress.stage("tables", None)
            published = publish(opened)
        with work.stages.page("report", directory.page):
            tables.write(opened, privacy, published)
        with work.stages("seal"):
            files = LedgerFile(directory.ledger).entries.files()
            seal(directory.release, privacy, self.spec.run.name, files)
        return DerivedOutputs(
            {"product": self.spec.product.name, "rows": published.rows}, published.rows
        )

    def evaluate(
        self, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
    ) -> Mapping[str, Any]:
        """Its tables are sums of what was measured: their errors are those of the noise."""
        return {"tables": derived.kept}

    def outlook(self, stages: Stages, progress: Progress) -> InputOutlook:
        """The folders, with every fault at once, and how many records there are: all of them are
        read, state by state, so that there is no size to refuse."""
        progress.stage("read", None)
        read = read_folders(self._given)
        records = read.counted()
        given, spec = read.parameters, self.spec.on(read.parameters)
        regions = {kind: len(ids) for kind, ids in read.regions.ids.items()}
        currency, iterations = given.mechanism.currency, len(given.iterations.tabulated)
        costs = {run: given.cost(run) for run in given.runs}
        left = read.left_out[0]
        product = self._given.product.name
        beside = f" ({left:,} more in states of no run are left out)" if left else ""
        says = [
            f"{records:,} records of {product}{beside}, {len(read.regions.block):,} blocks,"
            f" {iterations:,} iterations",
            "regions: " + ", ".join(f"{kind} {n:,}" for kind, n in regions.items()),
            *(
                f"run {run}: {currency} = {cost} (about {float(cost):.6g})"
                for run, cost in costs.items()
            ),
        ]
        data = {
            "product": product,
            "records": records,
            "left_out": left,
            "regions": regions,
            currency: {run: str(cost) for run, cost in costs.items()},
            "levels": [
                {"level": p.level, currency: str(p.cost), "stability": p.stability}
                for p in spec.plans
            ],
            "iterations": iterations,
        }
        notes = [
            f"the totals have no group in any region of state {', '.join(read.unmeasured)}:"
            " nothing below the nation would be measured of them"
        ]
        return InputOutlook(
            says=says, notes=notes if read.unmeasured else (), data=data, confidential=True
        )

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        return {"tables": directory.read_manifest()["rows"]}


def folders_of(spec: DetailedFolders, given: RunInput) -> GivenFolders:
    """Where parameters and records are. Raises :class:`UserError` where that is not said."""
    data = one_folder(given.paths, spec.data.path, "folder as SafeTab takes it")
    if not spec.data.parameters:
        raise UserError(
            "no folder of parameters is named",
            where="data.parameters",
            remedy="name one with config.json and the code tables: --set data.parameters=FOLDER",
        )
    totals = None if spec.data.totals is None else Path(spec.data.totals)
    return GivenFolders.from_paths(Path(spec.data.parameters), data, spec.detailed.product, totals)
