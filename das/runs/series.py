"""Several runs of one input: what a publication is to a sweep (:mod:`das.tools.sweep.runs`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from das.engine.progress import Progress
from das.files.run.run_directory import RunDirectory
from das.runs.protocol import DerivedOutputs, Maker, MeasuringRecord, RunContext
from das.stages import Stages


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
        that has measured.
        """

    def derive_in(
        self, pool: Executor, workers: int, work: RunContext, measured: MeasuringRecord
    ) -> Future[tuple[DerivedOutputs, Stages]]:
        """As ``derive``, in the ``pool`` where that can be; with the stages that it took there."""
