"""What every stage of a run is given, and what a publication is to the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from das.accounting.document import OwnStatement
from das.engine.choice import EngineChoice
from das.engine.progress import Progress
from das.engine.tasks import Engine
from das.files.run.run_directory import RunDirectory
from das.model.idle import IdleDraws
from das.size import Size
from das.spec.specification import Specification
from das.stages import Stages


@dataclass(frozen=True)
class RunInput:
    """What the caller of a run says beside the specification: ``paths`` replace ``data.path``.
    Without ``ignore_memory`` a run is refused that this machine has not the memory for."""

    paths: Sequence[Path] = ()
    ignore_memory: bool = False


@dataclass(frozen=True, eq=False)
class Running:
    """The folder of a run, who performs its tasks, and what is told of it while it goes on."""

    directory: RunDirectory
    choice: EngineChoice
    engine: Engine
    stages: Stages
    progress: Progress
    accept_spent: bool = False


@dataclass(frozen=True, eq=False)
class MeasuringRecord:
    """What the measuring of a run leaves for its end: when it began, its randomness, and its
    privacy statement. ``kept``: what the publication needs of it for the stages behind."""

    began: datetime
    entropy: str
    private: bool
    privacy: OwnStatement
    kept: Any = None


@dataclass(frozen=True, eq=False)
class Derived:
    """What was made of the measurements. ``said``: what the manifest says of it, such as
    certificates; ``kept``: what its evaluation needs."""

    said: Mapping[str, Any] = field(default_factory=dict)
    kept: Any = None


class Maker(Protocol):
    """The half of a publication that sees the truth: one run of it, stage after stage.

    A stage finds in the folder of the run what those before it have left, so that a run goes on
    from there when it was stopped."""

    @property
    def spec(self) -> Specification:
        """What is to be made; of a run that goes on, what it began with."""

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        """Read the input, and write down what is to be measured, whole or not at all."""

    def check_same(self, directory: RunDirectory) -> None:
        """Raises :class:`UserError` where the run in the folder began with something else."""

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        """Who performs the tasks: who was chosen, unless there are none to share out."""

    def measure(self, work: Running) -> MeasuringRecord:
        """Noisy measurements and their statement; what has been measured, stands."""

    def derive(self, work: Running, measured: MeasuringRecord) -> Derived:
        """Everything after measurement, from the release alone."""

    def evaluate(
        self, work: Running, measured: MeasuringRecord, derived: Derived
    ) -> Mapping[str, Any]:
        """Hold it against the truth, in ``confidential/``: fields of the outcome."""

    def outlook(self, stages: Stages, progress: Progress) -> tuple[Sequence[Size], IdleDraws]:
        """What a run on the input takes, and which of its draws buy nothing; of a publication that
        has ``check --data``.
        """

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        """Hold a finished run against the truth once more; of a publication that has ``evaluate``.
        ``areas``: a list of blocks with areas of the user's own."""

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        """The same of a run that had ended, as its files say it."""
