"""The measurement of a whole release: every level into its file, in the ledger on disk before its
first draw.

This is the part of a run that sees the truth and spends the budget.
:class:`das.truth.bookkeeping.Books` are opened, each part is measured by :func:`measure_part` and
acknowledged, and they are closed. A run that was interrupted goes on with what its ledger says:
parts that were acknowledged stand, others are measured again. That is the same draw where there is
a run key; otherwise what was drawn and lost is spent, and is stated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from das import spec as specification
from das.accounting.document import OwnStatement
from das.accounting.statement import Drawn, invariants, statement
from das.engine import Progress
from das.errors import PrivacyError, UserError
from das.files import atomic
from das.files.measurements import nmf
from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release.adoption import adopt
from das.files.run import run_directory
from das.files.run.ledger import Entries, LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.constraint import summed
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.not_private import marked
from das.model.universe import Planned
from das.model.ways import Ways
from das.noise import entropy
from das.noise.entropy import Entropy
from das.release.seal import seal
from das.spec import RunSpec
from das.spec.notes import notes
from das.stages import Stages
from das.truth.bookkeeping import Books, Measuring, StagePlan, source_of
from das.truth.measure import check_fits, draw, events, truth_digest
from das.truth.prepared import Prepared


@dataclass(frozen=True)
class MeasuringRecord:
    """What the measuring of a run leaves for its end: when it began, its randomness, and its
    privacy statement.
    """

    began: datetime
    entropy: str
    private: bool
    privacy: OwnStatement


def begin(
    spec: RunSpec, prepared: Prepared, directory: RunDirectory, measured: RunDirectory | None = None
) -> None:
    """Make the folder of a run, and write down what it is to measure. What stops it here leaves
    nothing.

    With a run that has ``measured`` the same, its measurements and its ledger are taken over:
    nothing is left to draw."""
    directory.create()
    with directory.whole_or_nothing():
        write_down(spec, prepared, directory, digests_of(prepared), measured)


def write_down(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    truth: Mapping[str, Mapping[str, str]],
    measured: RunDirectory | None = None,
) -> None:
    """What a run is to measure, of the ``truth`` of these digests."""
    taken = {"measured_in": measured.root.name} if measured is not None else {}
    read = {"inputs": [asdict(s) for s in prepared.sources], "truth": truth}
    atomic.write_json(directory.inputs, marked(read | taken, spec.run.private))
    atomic.write_text(directory.release / "spec.toml", specification.dump(spec))
    spine, shards = prepared.spine, prepared.shards
    spine_file.write(directory.release / "spine.parquet", spine, shards)
    if measured is None:
        for name, tree in prepared.trees.items():
            tree_file.write(directory.nmf(name) / tree_file.NAME, tree, spine, shards)
    if prepared.areas:
        areas_file.write(directory.release / areas_file.NAME, prepared.areas, spine, shards)
    if measured is not None:
        adopt(measured.release, directory.release)


def measure_release(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    stages: Stages,
    progress: Progress,
    accept_spent: bool = False,
) -> MeasuringRecord:
    """Noisy measurements and their privacy statement, in a folder that has begun; what it has
    already, stands.
    """
    spec = spec.on(prepared.trees)
    began = datetime.now(UTC)
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    with stages("measure"):
        drawn = _measured(spec, prepared, directory, progress, accept_spent)
    said = statement(
        spec.terms,
        drawn,
        invariants(prepared.constraints),
        name,
        private,
        notes(spec),
        assigned=prepared.assigned,
    )
    privacy = seal(
        directory.release, said, spec.run.name, LedgerFile(directory.ledger).entries.files()
    )
    return MeasuringRecord(began, name, private, privacy)


def planned(
    spec: RunSpec,
    ways: Mapping[str, Ways],
    shards: Callable[[str], tuple[int, ...]] = lambda _: (0,),
) -> dict[StageKey, StagePlan]:
    """What each stage draws, over whole trees; ``spec`` knows them (:meth:`das.spec.RunSpec.on`).
    ``shards``: those that a level is measured by."""
    return {
        (u.name, level): StagePlan(events(level, u.name, u.schema, units, u.plan), shards(level))
        for u in spec.universes
        for level, units in ways[u.name].units.items()
    }


def measure_part(
    u: Planned,
    level: str,
    truth: Confidential[Histogram],
    tree: MeasuredSpine,
    noise: Entropy,
    release: Path,
    *,
    number: int = 1,
    shard: int = 0,
) -> MeasuredPart:
    """Measure one level of a shard, whose tree and truth these are, and write its files: they are
    on disk when this returns.

    It is the same whenever and wherever it is done, if ``noise`` is that of a key; ``number`` is
    how often the level is drawn (:meth:`das.truth.bookkeeping.Books.number`). Its draws are in the
    ledger before; the part is acknowledged after.

    Raises:
        PrivacyError: the noise cannot be drawn again, and may have been drawn, by somebody who was
            lost.
    """
    if noise.key_mark is None and not RunDirectory(release.parent).claim(
        u.name, level, shard, number
    ):
        raise PrivacyError(
            "it may have been drawn by a task that was lost, and its noise cannot be drawn again",
            where=f"{u.name} at {level}, part {shard}",
            remedy="go on with --resume --accept-spent, which counts a second draw",
        )
    marks, root = hashlib.sha256(), run_directory.nmf_folder(release, u.name)

    def drawn() -> Iterator[Measurement]:
        for chunk in draw(truth, level, u.name, u.schema, tree, u.plan, noise, number):
            marks.update(bytes.fromhex(chunk.mark))
            yield from chunk.measurements

    files = nmf.write(root, level, u.schema, tree.spine, drawn(), shard, private=noise.private)
    return MeasuredPart(
        u.name,
        level,
        shard,
        marks.hexdigest()[:32],
        {f"{root.name}/{p}": sha256 for p, sha256 in files.items()},
    )


_REMEDY = "resume with what the run began with, or start another in a new folder"


def check_same(spec: RunSpec, prepared: Prepared, directory: RunDirectory) -> None:
    """A run goes on with its own specification and input, or not at all."""
    check_configuration(spec, directory)
    if run_directory.read_json(directory.inputs)["inputs"] != [asdict(s) for s in prepared.sources]:
        raise UserError(
            "the input is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )


def check_configuration(spec: RunSpec, directory: RunDirectory) -> None:
    """The folder is that of a run of this specification."""
    if run_directory.read_text(
        directory.release / "spec.toml", "release specification"
    ) != specification.dump(spec):
        raise UserError(
            "the configuration is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )


def _measured(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    progress: Progress,
    accept_spent: bool,
) -> Drawn:
    """Write the noisy measurements. Returns what was drawn for them, and what was drawn and lost
    before.
    """
    due = planned(spec, {name: Ways.of(tree) for name, tree in prepared.trees.items()})
    for u in spec.universes:
        for level, truth in prepared.measured[u.name].items():
            check_fits(truth, level, u.name, u.schema, prepared.trees[u.name])
    books = Books.of(spec, due, directory, digests_of(prepared), accept_spent)
    for u in spec.universes:
        tree = prepared.trees[u.name]
        progress.stage(f"measure {u.name}", len(prepared.spine))
        for level in prepared.spine.levels:
            stage, truth = (u.name, level), prepared.measured[u.name][level]
            books.begin(stage)
            for shard in books.missing(stage):
                noise = noise_for([stage], books.entries, spec, directory)
                number = books.number(stage)
                part = measure_part(
                    u, level, truth, tree, noise, directory.release, number=number, shard=shard
                )
                books.acknowledge([part])
            progress.advance()
        known = prepared.constraints[u.name]
        above = () if tree.alike else summed(known, tree.spine)
        nmf.write_constraints(
            directory.nmf(u.name), u.schema, tree.spine, [*known, *above], private=spec.run.private
        )
    return books.close()


def noise_of(spec: Measuring, directory: RunDirectory) -> Entropy:
    """The source of a run whose books are open: whoever measures reads the run key from its
    file.
    """
    source = source_of(spec, directory)
    if source is None:
        raise PrivacyError(
            "there is no run key", where=directory.confidential, remedy="resume the run"
        )
    return source


def noise_for(
    stages: Iterable[StageKey], books: Entries, spec: Measuring, directory: RunDirectory
) -> Entropy:
    """The same for who measures these ``stages``, as often drawn as these ``books`` say.

    Raises:
        PrivacyError: the key is not the one that the last attempt at a stage goes by. A task that
            outlives its run has the number of one attempt, and finds the key of a later one: what
            follows from both is a draw that no line of the ledger counts.
    """
    source, last = noise_of(spec, directory), books.last()
    for stage in stages:
        if stage not in last or last[stage].key != source.key_mark:
            raise PrivacyError(
                f"the run key is not the one that {stage[0]} at {stage[1]} is measured by",
                where=directory.ledger,
                remedy="resume the run: it says what is lost, and how it goes on",
            )
    return source


def digests_of(prepared: Prepared) -> dict[str, dict[str, str]]:
    """What tells the true counts that are measured from any other."""
    return {
        name: {level: truth_digest(h) for level, h in levels.items()}
        for name, levels in prepared.measured.items()
    }
