"""The Detailed DHC, from folders of parameters and records to tables.

parameters, regions, records -> measurements | -> tables
                        (truth ends here)    |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from das.engine.choice import EngineChoice
from das.engine.progress import Progress
from das.errors import UserError
from das.files.detailed import parameters as parameter_files
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.making.work import Derived, MeasuringRecord, RunInput, Running
from das.model.idle import IdleDraws
from das.noise import entropy
from das.release import group_page
from das.release.group_tables import publish
from das.release.groups import open_groups
from das.release.seal import seal
from das.size import Size
from das.spec import DetailedFolders
from das.stages import Stages
from das.truth.group_folders import GivenFolders, check_same, read_folders
from das.truth.group_run import begin, measure_groups


class DetailedMaker:
    """One run (:class:`das.making.work.Maker`)."""

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
        return choice

    def measure(self, work: Running) -> MeasuringRecord:
        began, (name, private) = (
            datetime.now(UTC),
            entropy.stated(self.spec.run.entropy, self.spec.run.seed),
        )
        with work.stages("measure"):
            privacy = measure_groups(work.directory, work.engine, work.progress, work.accept_spent)
        return MeasuringRecord(began, name, private, privacy)

    def derive(self, work: Running, measured: MeasuringRecord) -> Derived:
        directory, privacy = work.directory, measured.privacy
        opened = open_groups(directory.release)
        with work.stages("tables"):
            work.progress.stage("tables", None)
            published = publish(opened)
        with work.stages.page("report", directory.page):
            group_page.write(opened, privacy, published)
        with work.stages("seal"):
            files = LedgerFile(directory.ledger).entries.files()
            seal(directory.release, privacy, self.spec.run.name, files)
        return Derived({"product": self.spec.product.name, "rows": published.rows}, published.rows)

    def evaluate(
        self, work: Running, measured: MeasuringRecord, derived: Derived
    ) -> Mapping[str, Any]:
        """Its tables are sums of what was measured: their errors are those of the noise."""
        return {"tables": derived.kept}

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        raise NotImplementedError

    def outlook(self, stages: Stages, progress: Progress) -> tuple[Sequence[Size], IdleDraws]:
        raise NotImplementedError

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        return {"tables": directory.read_manifest()["rows"]}


def folders_of(spec: DetailedFolders, given: RunInput) -> GivenFolders:
    """Where parameters and records are. Raises :class:`UserError` where that is not said."""
    data = list(given.paths) or [Path(p) for p in spec.data.path]
    if len(data) != 1:
        raise UserError(
            f"{len(data)} folders of records are named",
            where="data.path",
            remedy="give one folder as SafeTab takes it: --data FOLDER",
        )
    if not spec.data.parameters:
        raise UserError(
            "no folder of parameters is named",
            where="data.parameters",
            remedy="name one with config.json and the code tables: --set data.parameters=FOLDER",
        )
    totals = None if spec.data.totals is None else Path(spec.data.totals)
    return GivenFolders.of(Path(spec.data.parameters), data[0], spec.detailed.product, totals)
