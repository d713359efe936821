"""The source of a run's noise. The configuration chooses it, and the ledger records its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from das.accounting.statement import Terms
from das.errors import PrivacyError
from das.files.run import noise_key
from das.files.run.ledger import Entries, StageKey
from das.files.run.run_directory import RunDirectory
from das.noise import entropy
from das.noise.entropy import Entropy
from das.spec.parts import Run
from das.spec.specification import PlannedRecords


class Measuring(Protocol):
    """What a run measures: a configuration, or the parameters of the Detailed DHC."""

    @property
    def run(self) -> Run: ...

    @property
    def universes(self) -> Sequence[PlannedRecords]: ...

    @property
    def terms(self) -> Terms: ...


def source_of(spec: Measuring, directory: RunDirectory) -> Entropy | None:
    """The source that the configuration chooses. A seed makes the run repeatable and not private.
    ``None`` if the source needs a run key and there is none: before the run begins, or after it has
    measured everything."""
    if spec.run.seed is not None:
        return entropy.seeded(spec.run.seed)
    if spec.run.entropy != "keyed":
        return entropy.kernel() if spec.run.entropy == "kernel" else entropy.system()
    key = noise_key.read(directory.noise_key)
    return None if key is None else entropy.keyed(key.open("the noise follows from it"))


def new_source(directory: RunDirectory) -> Entropy:
    return entropy.keyed(noise_key.create(directory.noise_key).open("the noise follows from it"))


def noise_of(spec: Measuring, directory: RunDirectory) -> Entropy:
    """The source of a run whose budget book is open. A process that measures reads the run key from
    its file."""
    source = source_of(spec, directory)
    if source is None:
        raise PrivacyError(
            "there is no run key", where=directory.confidential, remedy="resume the run"
        )
    return source


def noise_for(
    stages: Iterable[StageKey], budget_book: Entries, spec: Measuring, directory: RunDirectory
) -> Entropy:
    """The source for measuring these ``stages``, at the attempts that ``budget_book`` has last.

    Raises:
        PrivacyError: the key is not the one of the last attempt at a stage. A task that outlives
            its run has the number of one attempt, and may find the key of a later one. Noise from
            the two would be a draw that no line of the ledger counts."""
    source, last = noise_of(spec, directory), budget_book.last()
    for stage in stages:
        if stage not in last or last[stage].key != source.key_mark:
            raise PrivacyError(
                f"the run key is not the one that {stage[0]} at {stage[1]} is measured by",
                where=directory.ledger,
                remedy="resume the run: it says what is lost, and how to continue",
            )
    return source
