"""What every stage of a run is given, and what a publication is to the runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast

from das.accounting.document import OwnStatement
from das.engine.choice import LOCAL, EngineChoice
from das.engine.tasks import Engine, Progress, Silent
from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.model.ledger import RedundantMeasurements
from das.size import Size
from das.spec import Specification, load
from das.spec.parse import PUBLICATIONS
from das.stages import Stages


@dataclass(frozen=True)
class RunInput:
    """What the caller of a run gives besides the specification. ``paths`` replace ``data.path``.
    Without ``ignore_memory``, a run is refused if this machine has too little memory for it."""

    paths: Sequence[Path] = ()
    ignore_memory: bool = False


@dataclass(frozen=True, eq=False)
class RunContext:
    """The folder of a run, the engine that performs its tasks, and where it reports progress."""

    directory: RunDirectory
    choice: EngineChoice
    engine: Engine
    stages: Stages
    progress: Progress
    accept_spent: bool = False


@dataclass(frozen=True, eq=False)
class MeasuringRecord:
    """What the measuring of a run leaves for its end: when it began, and its privacy statement,
    which names the source of the noise. ``kept``: what the publication needs of it for the stages
    behind."""

    began: datetime
    privacy: OwnStatement
    kept: Any = None


@dataclass(frozen=True, eq=False)
class DerivedOutputs:
    """What was made of the measurements. ``said``: what the manifest says of it, such as
    certificates; ``kept``: what its evaluation needs."""

    said: Mapping[str, Any] = field(default_factory=dict)
    kept: Any = None


@dataclass(frozen=True)
class InputOutlook:
    """What is known of a run when its input was read: what it takes, which of its draws add
    nothing, what it ``says`` in words, with ``notes`` on what is odd, and the same as ``data``.
    What is ``confidential`` of it is for the curator of the records."""

    sizes: Sequence[Size] = ()
    spare: RedundantMeasurements = ()
    says: Sequence[str] = ()
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    confidential: bool = False


def one_folder(given: Sequence[Path], named: Sequence[str], content: str) -> Path:
    """The folder of records that is ``given``, or else ``named`` by the configuration. Raises
    :class:`UserError` unless there is one; ``content`` says what it has."""
    paths = list(given) or [Path(p) for p in named]
    if len(paths) != 1:
        raise UserError(
            f"{len(paths)} folders of records are named",
            where="data.path",
            remedy=f"give one {content}: --data FOLDER",
        )
    return paths[0]


class Maker(Protocol):
    """The half of a publication that sees the truth: one run of it, stage after stage.

    A stage reads the results of earlier stages from the folder of the run. So a run that was
    stopped resumes from there."""

    @property
    def spec(self) -> Specification:
        """What to make; for a resumed run, the specification that it began with."""

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        """Read the input, and write down what the run will measure, all of it or nothing."""

    def check_same(self, directory: RunDirectory) -> None:
        """Raises :class:`UserError` if the run in the folder began with something else."""

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        """The engine that performs the tasks: the chosen one, unless there is nothing to share."""

    def measure(self, work: RunContext) -> MeasuringRecord:
        """Noisy measurements and their statement; what has been measured, stands."""

    def derive(self, work: RunContext, measured: MeasuringRecord) -> DerivedOutputs:
        """Everything after measurement, from the release alone."""

    def evaluate(
        self, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
    ) -> Mapping[str, Any]:
        """Hold it against the truth, in ``confidential/``: fields of the outcome."""

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        """The result of a run that had already ended, from its files."""


#: Bytes of what is confidential when a run begins, below which other processes take longer to start
#: than the work takes: those of some thousand blocks.
SMALL = 1 << 19


def worth(choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
    """The same choice, with one worker if the run is small and the user did not ask for more."""
    if choice.automatic and directory.bytes_of_truth() < SMALL:
        return replace(choice, workers=1)
    return choice


def performed_where_cut(choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
    """The engine for a run over a tree. Without subtrees it has no tasks to share."""
    from das.files.release import spine as spine_file  # pyarrow, which few commands need

    choice = worth(choice, directory)
    if spine_file.read_sizes(directory.release / "spine.parquet"):
        return choice
    return EngineChoice(LOCAL, choice.workers)


class OutlookMaker(Maker, Protocol):
    """The maker of a publication that has ``check --data``."""

    def outlook(self, stages: Stages, progress: Progress) -> InputOutlook:
        """What the input says of a run on it."""


class EvaluatingMaker(Maker, Protocol):
    """The maker of a publication that has ``evaluate``."""

    def evaluated(self, directory: RunDirectory, areas: Path | None) -> Mapping[str, Any]:
        """Compare a finished run with the truth again. ``areas``: a list of blocks with the user's
        own areas."""


# Several runs of one input: what a publication is to a sweep (:mod:`das.tools.sweep.runs`).


@dataclass(frozen=True)
class BudgetAxis:
    """What is varied of a configuration: a budget in a currency, or (``times``) a multiple of all
    its budgets. ``here`` is where the configuration stands; ``changes`` (``dotted.key=value``) take
    it elsewhere."""

    name: str
    here: Fraction
    changes: Callable[[Fraction], tuple[str, ...]]

    @property
    def is_multiple(self) -> bool:
        return self.name == TIMES


#: The name of an axis of multiples.
TIMES = "times"


class SeriesMaker(Maker, Protocol):
    """A maker whose input is read once for many runs; of a publication that has ``sweep``."""

    @property
    def axis(self) -> BudgetAxis:
        """What is varied."""

    #: Whether several methods estimate from one noise.
    shares_noise: bool

    def read(self, progress: Progress) -> Any:
        """The input, as :meth:`begin_on` takes it: true counts, which are no value of an engine."""

    def check_begun(self, read: Any, directory: RunDirectory) -> None:
        """Raises :class:`UserError` where the run in the folder began with something else."""

    def begin_on(self, read: Any, directory: RunDirectory, noise: RunDirectory | None) -> None:
        """Write down what is to be measured; with the ``noise`` of another run, that it is what
        that has measured."""

    def derive_in(
        self, pool: Executor, workers: int, work: RunContext, measured: MeasuringRecord
    ) -> Future[tuple[DerivedOutputs, Stages]]:
        """As ``derive``, in the ``pool`` where that can be; with the stages that it took there."""


# How each publication is made from records: the halves that see the truth.
#
# Of the other halves, which see releases alone, it is :mod:`das.release.publications`.


def evaluating(directory: RunDirectory) -> EvaluatingMaker:
    """What made a run, by its release: of a publication that has ``evaluate``."""
    path = directory.release / "spec.toml"
    text = run_directory.read_text(path, "release specification")
    return cast(EvaluatingMaker, maker_of(load(text, where=str(path)), RunInput()))


def outlook_of(spec: Specification, given: RunInput) -> InputOutlook:
    """What an input says of a run on it: of a publication that has ``check --data``."""
    return cast(OutlookMaker, maker_of(spec, given)).outlook(Stages(), Silent())


def series_of(spec: Specification, given: RunInput) -> SeriesMaker:
    """What makes several runs of one input: of a publication that has ``sweep``."""
    return cast(SeriesMaker, maker_of(spec, given))


def maker_of(spec: Specification, given: RunInput) -> Maker:
    """What makes the publication of a specification. Raises :class:`UserError` where there is
    nothing to measure by it."""
    if spec.maker is None:
        raise UserError(
            f"this is a specification of {spec.title}: nothing is measured by it",
            where="run",
            remedy=spec.remedy,
        )
    return cast(Maker, PUBLICATIONS.load_part(spec.publication(), "maker")(spec, given))
