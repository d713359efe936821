"""The measurement of a whole release: every level into its file, in the ledger on disk before its first draw.

This is the part of a run that sees the truth and spends the budget. A run that was interrupted here goes on with
what its ledger says: levels that were written stand; what was drawn and lost is spent, and is stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction

from das import spec as specification
from das.accounting.document import OwnStatement
from das.accounting.statement import Drawn, invariants, statement
from das.engine import Progress
from das.errors import PrivacyError, ReleaseError, UserError
from das.files import atomic
from das.files.measurements import nmf
from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release.adoption import adopt
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, folder_digest
from das.files.run.run_directory import RunDirectory
from das.model.budget import UnitPath, dearest
from das.model.constraint import summed
from das.model.ledger import Event, Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.not_private import marked
from das.noise import entropy
from das.release.seal import seal
from das.spec import RunSpec
from das.stages import Stages
from das.truth.measure import measure
from das.truth.prepared import Prepared


@dataclass(frozen=True)
class MeasuringRecord:
    """What the measuring of a run leaves for its end: when it began, its randomness, and its privacy statement."""

    began: datetime
    entropy: str
    private: bool
    privacy: OwnStatement


def begin(spec: RunSpec, prepared: Prepared, directory: RunDirectory, measured: RunDirectory | None = None) -> None:
    """Make the folder of a run, and write down what it is to measure. What stops it here leaves nothing.

    With a run that has ``measured`` the same, its measurements and its ledger are taken over: nothing is left to draw.
    """
    directory.create()
    try:
        taken = {"measured_in": measured.root.name} if measured is not None else {}
        inputs = marked({"inputs": [asdict(s) for s in prepared.sources]} | taken, spec.run.private)
        atomic.write_json(directory.inputs, inputs)
        atomic.write_text(directory.release / "spec.toml", specification.dump(spec))
        spine_file.write(directory.release / "spine.parquet", prepared.spine)
        if measured is None:
            for name, tree in prepared.trees.items():
                tree_file.write(directory.nmf(name) / tree_file.NAME, tree, prepared.spine)
        if prepared.areas:
            areas_file.write(directory.release / areas_file.NAME, prepared.areas, prepared.spine)
        if measured is not None:
            adopt(measured.release, directory.release)
    except BaseException:
        directory.remove()
        raise


def measure_release(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    stages: Stages,
    progress: Progress,
    accept_spent: bool = False,
) -> MeasuringRecord:
    """Noisy measurements and their privacy statement, in a folder that has begun; what it has already, stands."""
    spec = spec.on(prepared.trees)
    began = datetime.now(UTC)
    noise = _entropy(spec)
    with stages("measure"):
        events, lost = _measured(spec, prepared, directory, noise, progress, accept_spent)
    said = statement(spec.terms, Drawn(events, lost), invariants(prepared.constraints), noise.name, noise.private,
                     prepared.notes, assigned=prepared.assigned)  # fmt: skip
    privacy = seal(directory.release, said, spec.run.name, LedgerFile(directory.ledger).attempts())
    return MeasuringRecord(began, noise.name, noise.private, privacy)


_REMEDY = "resume with what the run began with, or start another in a new folder"


def check_same(spec: RunSpec, prepared: Prepared, directory: RunDirectory) -> None:
    """A run goes on with its own specification and input, or not at all."""
    check_configuration(spec, directory)
    if run_directory.read_json(directory.inputs)["inputs"] != [asdict(s) for s in prepared.sources]:
        raise UserError("the input is not the one that this run began with", where=directory.root, remedy=_REMEDY)


def check_configuration(spec: RunSpec, directory: RunDirectory) -> None:
    """The folder is that of a run of this specification."""
    if run_directory.read_text(directory.release / "spec.toml", "release specification") != specification.dump(spec):
        raise UserError(
            "the configuration is not the one that this run began with", where=directory.root, remedy=_REMEDY
        )


def _measured(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    noise: entropy.Entropy,
    progress: Progress,
    accept_spent: bool,
) -> tuple[dict[str, tuple[Event, ...]], dict[str, tuple[Event, ...]]]:
    """Write the noisy measurements. Returns what was drawn for them, and what was drawn and lost before."""
    book = LedgerFile(directory.ledger)
    _check_ledger(book, spec, prepared.trees)
    kept, lost = _history(book, directory, {u.name: u.plan.paths for u in spec.universes}, accept_spent)
    events = {}
    for u in spec.universes:
        before = [e for (universe, _), es in kept.items() for e in es if universe == u.name]
        ledger, tree = Ledger(u.plan.cost, book.draw, before, u.plan.paths), prepared.trees[u.name]
        progress.stage(f"measure {u.name}", len(prepared.spine))
        for level in prepared.spine.levels:
            if (u.name, level) not in kept:
                book.begin(u.name, level, noise.name)
                noisy = measure(prepared.measured[u.name][level], level, u.name, u.schema, tree, u.plan,
                                noise.of(f"{u.kind.folder}/{level}"), ledger)  # fmt: skip
                folder = nmf.write(directory.nmf(u.name), level, u.schema, tree.spine, noisy)
                book.done(u.name, level, folder_digest(folder))
            progress.advance()
        known = prepared.constraints[u.name]
        above = () if tree.alike else summed(known, tree.spine)
        nmf.write_constraints(directory.nmf(u.name), u.schema, tree.spine, [*known, *above])
        if ledger.cost != u.plan.cost:
            raise PrivacyError(f"the ledger says {ledger.cost}, the plan {u.plan.cost}", where=u.name)
        events[u.name] = ledger.events
    return events, lost


def _entropy(spec: RunSpec) -> entropy.Entropy:
    """The source that the configuration asks for; a seed makes the run repeatable and not private."""
    if spec.run.seed is not None:
        return entropy.seeded(spec.run.seed)
    return entropy.kernel() if spec.run.entropy == "kernel" else entropy.system()


def _history(
    book: LedgerFile, directory: RunDirectory, paths: Mapping[str, Sequence[UnitPath]], accept_spent: bool
) -> tuple[dict[tuple[str, str], list[Event]], dict[str, tuple[Event, ...]]]:
    """From the ledger of an interrupted run: the stages that stand, and the draws that were lost, by universe."""
    kept: dict[tuple[str, str], list[Event]] = {}
    lost: dict[str, tuple[Event, ...]] = {}
    for attempt in book.attempts():
        folder = directory.nmf(attempt.universe) / f"{attempt.level}.parquet" / "DPQuery"
        if attempt.digest is None:
            lost[attempt.universe] = (*lost.get(attempt.universe, ()), *attempt.events)
        elif folder_digest(folder) == attempt.digest:
            kept[attempt.universe, attempt.level] = attempt.events
        else:
            raise ReleaseError("these measurements are not those that the ledger says were written", where=folder,
                               remedy="they were altered or lost: start a new run in another folder")  # fmt: skip
    if any(lost.values()) and not accept_spent:
        cost = sum((dearest(es, paths[universe]) for universe, es in lost.items()), Fraction(0))
        where = ", ".join(dict.fromkeys(f"{e.universe} at {e.level}" for es in lost.values() for e in es))
        raise UserError(f"measuring {where} was interrupted: its budget of {cost} ({float(cost):.4g}) is spent",
                        where=directory.ledger,
                        remedy="measure again with --accept-spent (the privacy statement then names both "
                               "spendings), or give the run up")  # fmt: skip
    return kept, lost


def _check_ledger(book: LedgerFile, spec: RunSpec, trees: Mapping[str, MeasuredSpine]) -> None:
    """Every draw in the ledger of an interrupted run is one of the plan's; a stage that was done has all, once."""
    planned = {
        (u.name, level): [
            Event.of(d, u.name, int(trees[u.name].classes(level)[d.unit_class].sum()), u.schema.query(d.query).answers)
            for d in u.plan.at(level)
        ]
        for u in spec.universes for level in trees[u.name].spine.levels
    }  # fmt: skip
    done = set()
    for attempt in book.attempts():
        stage = attempt.universe, attempt.level
        due = planned.get(stage, [])
        whole = attempt.digest is not None
        if attempt.events != (due if whole else due[: len(attempt.events)]) or (whole and stage in done):
            raise ReleaseError(f"what it says of {stage[0]} at {stage[1]} is not what the plan draws there",
                               where=book.path, remedy="a ledger that was altered proves nothing: start a new run")  # fmt: skip
        if whole:
            done.add(stage)
