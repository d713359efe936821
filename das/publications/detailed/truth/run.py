"""The part of a Detailed DHC run that sees the truth: records become noisy measurements, state by
state.

    (folders) -> parameters, regions, records of each state -> measure (each state), what crosses
    states -> ... after measurement ...

Each state is a task that reads and writes files (:mod:`das.engine.tasks`). For regions that cross
states, a task writes its counts by cell to ``confidential/work/sums/``. When all states are done,
these are added up and measured. In the ledger, states are the parts 1, 2, ..., and the regions that
cross them are part 0."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import OwnStatement
from das.accounting.statement import LedgerEvents, statement
from das.engine import Progress
from das.engine.tasks import Answer, Engine, Task
from das.errors import PrivacyError, ReleaseError
from das.files import atomic, messages
from das.files.messages import named, parted
from das.files.run import run_directory, task_store
from das.files.run.ledger import LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.files.run.stage_tasks import perform
from das.model.budget import PlannedMeasurement
from das.model.confidential import Confidential
from das.model.not_private import marked
from das.noise import entropy
from das.noise.entropy import ChunkLabel, Entropy, encoded
from das.noise.samplers import SAMPLERS, VERSION
from das.publications.detailed.files import measurements
from das.publications.detailed.model.iterations import ACROSS, GroupLevel, Iterations
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, LevelPlan
from das.publications.detailed.release import OpenedGroups, open_groups, write_public
from das.publications.detailed.spec import DetailedSpec
from das.publications.detailed.truth.folders import (
    PeopleBatch,
    ReadFolders,
    people_path,
    read_people,
    write_people,
)
from das.publications.detailed.truth.groups import (
    GroupCounter,
    GroupCounts,
    Ints,
    SummedGroups,
    added_up,
)
from das.release.seal import seal
from das.truth.bookkeeping import BudgetBook, StagePlan
from das.truth.run_noise import noise_for

# Measuring the groups of the Detailed DHC in two stages. The first measures the size of each
# group; the second measures a table that is as detailed as this size allows.
#
# :mod:`das.publications.detailed.model.tables` proves the cost; :mod:`das.noise.entropy` has the proof for the noise.
# Both need these facts:
#
# * *Every* group of the level is measured, in each of its regions, even if nobody is in it: public
# tables list the groups. (If table sizes come from an earlier release, its groups are measured,
# which are public, too.)
# * The size of a table is a function of the noisy first stage, or of that release, and of nothing
# else.
# * A person is in one leaf, so in one answer of a table of any size.
#
# The groups of a batch of regions are one chunk of noise, with its own source. The source gives the
# bits of all totals that are measured alone, then of the first stage, then of the second, group by
# group. So the numbers are a function of truth, plan and key.

#: Most groups of one batch.
MOST_GROUPS = 1 << 22


def batches(regions: int, iterations: int) -> Iterator[slice]:
    """The regions of each chunk; the last chunk can have fewer."""
    size = max(1, MOST_GROUPS // max(1, iterations))
    for start in range(0, regions, size):
        yield slice(start, min(start + size, regions))


def measure(
    truth: Confidential[GroupCounts],
    plan: LevelPlan,
    iterations: Iterations,
    regions: NDArray[np.bytes_],
    entropy: Entropy,
    *,
    universe: str,
    number: int = 1,
    sizes: NDArray[np.int8] | None = None,
) -> tuple[str, GroupMeasurement]:
    """Measure one chunk: the groups of some ``regions`` (their ids). Returns the name of its
    stream, and the measurement.

    ``sizes`` gives the sizes of tables if there is no first stage, -1 for a group that is not
    measured. The ledger must have the draws before this is called. ``number`` says how often the
    level is drawn (:class:`das.noise.entropy.ChunkLabel`).

    Raises:
        PrivacyError: the counts are not those of these regions, or table sizes are given although
            the first stage decides them."""
    counts, members = truth.open("to add noise to it"), iterations.measured_at(plan.at)
    only = iterations.detailed_only[members] if plan.first else np.zeros(len(members), dtype=bool)
    if (counts.regions, counts.iterations) != (len(regions), len(only)) or (
        sizes is None
    ) is not bool(plan.first):
        raise PrivacyError("these are not the counts of these groups", where=plan.level)
    label = ChunkLabel(
        universe,
        plan.level,
        number,
        bytes(regions[0]),
        bytes(regions[-1]),
        _plan_digest(plan, iterations, regions, only, sizes),
        VERSION,
        counts.digest(),
    )
    return entropy.mark(label), _measured(counts, plan, regions, only, sizes, entropy.chunk(label))


def _measured(
    counts: GroupCounts,
    plan: LevelPlan,
    regions: NDArray[np.bytes_],
    only: NDArray[np.bool_],
    sizes: NDArray[np.int8] | None,
    entropy: Entropy,
) -> GroupMeasurement:
    totals, alone = counts.totals(), np.tile(only, len(regions))
    noisy = totals.copy()
    first = np.zeros(len(totals), dtype=np.int64)
    if plan.first:
        noisy[alone] += _noise(plan.measurement(ONLY), int(alone.sum()), entropy)
        first[~alone] = totals[~alone] + _noise(
            plan.measurement(FIRST), int((~alone).sum()), entropy
        )
        sizes = np.where(alone, 0, plan.size(first)).astype(np.int8)
    assert sizes is not None
    indptr, values = _answers(counts, plan, noisy, sizes)
    fresh = np.repeat(~alone, np.diff(indptr))
    values[fresh] += _noise(plan.measurement(plan.table.name), int(fresh.sum()), entropy)
    return GroupMeasurement(regions, only, first, sizes, indptr, values)


def _answers(
    counts: GroupCounts, plan: LevelPlan, totals: NDArray[np.int64], sizes: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The answers of every group to the table of its size, one after the other."""
    table = plan.table
    width = np.array([*table.answers, 0])  # the last is for size -1
    indptr = np.concatenate([[0], np.cumsum(width[sizes])])
    values = np.zeros(indptr[-1], dtype=np.int64)
    small = sizes == 0
    values[indptr[:-1][small]] = totals[small]
    large = np.flatnonzero(sizes > 0)
    leaves = counts.table(table.name, table.leaves, large)
    for size in range(1, len(table.sizes)):
        here = sizes[large] == size
        answers = np.zeros((int(here.sum()), table.answers[size]), dtype=np.int64)
        np.add.at(answers.T, table.sizes[size], leaves[here].T)
        values[indptr[large[here]][:, None] + np.arange(table.answers[size])] = answers
    return indptr, values


def _noise(draw: PlannedMeasurement, size: int, entropy: Entropy) -> NDArray[np.int64]:
    return SAMPLERS[draw.mechanism.name].sample(draw.parameter, size, entropy)


def _plan_digest(
    plan: LevelPlan,
    iterations: Iterations,
    regions: NDArray[np.bytes_],
    only: NDArray[np.bool_],
    sizes: NDArray[np.int8] | None,
) -> bytes:
    """SHA-256 of everything except the truth that decides what is drawn for some groups: regions
    and iterations, in order; which have no table, and the size of the others or how it is found;
    the queries of each size; and the noise."""
    members = iterations.measured_at(plan.at)
    asked = [encoded(*of.tolist()) for of in plan.table.sizes]
    noise = [encoded(d.query, d.mechanism.name, str(d.parameter)) for d in plan.measurements]
    how = b"" if sizes is None else np.ascontiguousarray(sizes).tobytes()
    parts = [
        encoded(*map(bytes, regions)),
        encoded(*iterations.code[members].tolist()),
        np.packbits(only).tobytes(),
        encoded(*plan.thresholds),
        how,
        encoded(plan.table.name, *asked),
        encoded(*noise),
    ]
    return hashlib.sha256(encoded(*parts)).digest()


__all__ = ["MOST_GROUPS", "UNMEASURED", "batches", "measure"]


#: The counts of some of the regions of a level.
CountsOf = Callable[[slice], GroupCounts]


def begin(spec: DetailedSpec, read: ReadFolders, directory: RunDirectory) -> None:
    """Make the folder of a run, with what it will measure. A failure here leaves no folder."""
    given = read.given
    directory.create()
    with directory.whole_or_nothing():
        write_public(directory.release, spec, given.parameters, read.regions, given.totals)
        write_people(_kept(directory, spec), read.records, read.regions)
        sources = [asdict(s) for s in given.sources()]
        atomic.write_json(
            directory.inputs,
            marked({"inputs": sources, "truth": _digests(directory, spec)}, spec.run.private),
        )


def measure_groups(
    directory: RunDirectory, engine: Engine, progress: Progress, accept_spent: bool = False
) -> OwnStatement:
    """Noisy measurements and their privacy statement, in the folder of a run that has begun. Parts
    that were already measured stand."""
    opened = open_groups(directory.release)
    spec = opened.spec
    drawn = _measured_of_run(opened, directory, engine, progress, accept_spent)
    progress.stage("privacy statement", None)
    said = statement(spec.terms, drawn, (), *entropy.stated(spec.run.entropy, spec.run.seed))
    return seal(
        directory.release, said, spec.run.name, LedgerFile(directory.ledger).entries.files()
    )


def _measured_of_run(
    opened: OpenedGroups,
    directory: RunDirectory,
    engine: Engine,
    progress: Progress,
    accept_spent: bool,
) -> LedgerEvents:
    due = planned(opened)
    budget_book = BudgetBook.start(
        opened.spec, due, directory, _digests(directory, opened.spec), accept_spent
    )
    for stage in due:
        budget_book.begin(stage)
    if any(budget_book.missing(stage) for stage in due):
        answers = perform(engine, task, _tasks(opened, directory), progress, confidential=True)
        budget_book.acknowledge(
            MeasuredPart(**part) for answer in answers.values() for part in answer["parts"]
        )
        whole = [p for p in opened.spec.plans if opened.subtrees(p) == (0,)]
        sums = _sums(opened, directory, [p for p in whole if p.at.region in ACROSS])
        for plan in whole:
            budget_book.acknowledge(_parts(opened, directory, plan, sums.get(plan.at, _nobody), 0))
    return budget_book.close()


def planned(opened: OpenedGroups) -> dict[StageKey, StagePlan]:
    """What each level draws, over all its regions."""
    out = {}
    for plan in opened.spec.plans:
        for d in plan.measurements:
            SAMPLERS[d.mechanism.name].refuse(d.parameter)
        out[opened.name, plan.level] = StagePlan(opened.events(plan), opened.subtrees(plan))
    return out


# --- a state


def task(given: Task) -> Answer:
    """Measure the groups of a state. The answer says which parts of the measurements have been
    written."""
    directory = RunDirectory(given.run)
    opened, subtree = _opened(directory), given.subtrees[0]
    state, spec = opened.regions.states[subtree - 1], opened.spec
    crowd = GroupCounter(_records(opened, directory, state), opened.regions, spec.parameters)
    parts, sums = list[MeasuredPart](), dict[str, Any]()
    for plan in spec.plans:
        some = opened.regions.of_state(plan.at.region, state)
        if plan.at.region in ACROSS:
            counts = crowd.at(plan.at, some)
            cell, count = counts.cells_of(plan.table.name, plan.table.leaves)
            sums |= named(f"{plan.level}", {"regions": some, "cell": cell, "count": count})
        elif len(some):
            parts += _parts(
                opened, directory, plan, partial(_counts, crowd, plan, some), subtree, some
            )
    messages.write(directory.sums_of(subtree), sums, 0o600)
    written = [directory.sums_of(subtree), *(directory.release / f for p in parts for f in p.files)]
    return {"parts": [asdict(p) for p in parts]} | task_store.digests_made(directory.root, written)


def _counts(
    crowd: GroupCounter, plan: LevelPlan, some: NDArray[np.int32], here: slice
) -> GroupCounts:
    return crowd.at(plan.at, some[here])


def _opened(directory: RunDirectory) -> OpenedGroups:
    """The opened release. A process opens it once for all its states, because a run's folder is
    written before its tasks begin."""
    return _opened_at(directory.release, (directory.release / "spec.toml").stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _opened_at(release: Path, _: int) -> OpenedGroups:
    return open_groups(release)


def _parts(
    opened: OpenedGroups,
    directory: RunDirectory,
    plan: LevelPlan,
    counts: CountsOf,
    subtree: int,
    some: NDArray[np.int32] | None = None,
) -> list[MeasuredPart]:
    """Measure one level in some of its regions, or in all, batch by batch, and write its files."""
    budget_book, stage = LedgerFile(directory.ledger).entries, (opened.name, plan.level)
    parameters = opened.spec.parameters
    if (stands := budget_book.standing(stage).get(subtree)) is not None:
        return [stands]
    ids = opened.regions.ids[plan.at.region]
    ids = ids if some is None else ids[some]
    iterations = parameters.iterations.measured_at(plan.at)
    number = budget_book.number(stage)
    source = noise_for([stage], budget_book, opened.spec, directory)
    if source.key_mark is None and not directory.claim(*stage, subtree, number):
        raise PrivacyError(
            "a lost task may have drawn it, and its noise cannot be drawn again",
            where=f"{plan.level}, part {subtree}",
            remedy="continue with --resume --accept-spent, which charges a second measurement",
        )
    marks, files = hashlib.sha256(), {}
    for batch, here in enumerate(batches(len(ids), len(iterations))):
        truth: Confidential[GroupCounts] = Confidential(counts(here))
        sizes = opened.sizes(plan, ids[here])
        mark, found = measure(
            truth,
            plan,
            parameters.iterations,
            ids[here],
            source,
            universe=opened.name,
            number=number,
            sizes=sizes,
        )
        marks.update(bytes.fromhex(mark))
        path = measurements.path(directory.nmf(opened.name), plan, subtree, batch)
        measurements.write(
            path, found, plan, parameters.iterations.code[iterations], opened.spec.run.private
        )
        files[path.relative_to(directory.release).as_posix()] = run_directory.file_digest(path)
    return [MeasuredPart(*stage, subtree, marks.hexdigest()[:32], files)]


def _records(opened: OpenedGroups, directory: RunDirectory, state: bytes) -> PeopleBatch:
    """The records of a state. Raises :class:`ReleaseError` if they are not those that the run began
    with."""
    path = people_path(_kept(directory, opened.spec), state.decode())
    known: Mapping[str, str] = run_directory.read_json(directory.inputs)["truth"][opened.name]
    if not path.is_file() or run_directory.file_digest(path) != known.get(path.name):
        raise ReleaseError(
            "the records are not those that this run began with",
            where=path,
            remedy="resume with the inputs that the run began with, or start another run in a"
            " new folder",
        )
    return read_people(path)


# --- all of them


def _sums(
    opened: OpenedGroups, directory: RunDirectory, plans: Sequence[LevelPlan]
) -> dict[GroupLevel, CountsOf]:
    """For each level that crosses states, a function that returns the counts of some of its
    regions."""
    states = range(1, len(opened.regions.states) + 1)
    told = [messages.read(directory.sums_of(i)) for i in states]
    found: dict[GroupLevel, dict[str, tuple[int, Ints, Ints]]] = {}
    sizes: dict[GroupLevel, tuple[int, int]] = {}
    for plan in plans:
        iterations = len(opened.spec.parameters.iterations.measured_at(plan.at))
        leaves = plan.table.leaves
        sizes[plan.at] = len(opened.regions.ids[plan.at.region]), iterations
        parts = [
            (_there(a["cell"], a["regions"], iterations * leaves), a["count"])
            for a in (parted(arrays, plan.level) for arrays in told)
            if len(a)
        ]
        found.setdefault(plan.at, {})[plan.table.name] = (leaves, *added_up(parts))
    return {at: SummedGroups(*sizes[at], tables).rows for at, tables in found.items()}


def _nobody(_: slice) -> GroupCounts:
    raise AssertionError("a level without regions has nothing to count")


def _there(cell: NDArray[np.int64], regions: NDArray[np.int32], width: int) -> NDArray[np.int64]:
    """Cells numbered within the regions of a state, renumbered within all regions."""
    return regions[cell // width].astype(np.int64) * width + cell % width


def _tasks(opened: OpenedGroups, directory: RunDirectory) -> list[Task]:
    kept = _kept(directory, opened.spec)
    return [
        Task(
            directory.root,
            "groups",
            state.decode(),
            (i, i),
            people_path(kept, state.decode()).stat().st_size,
        )
        for i, state in enumerate(opened.regions.states, 1)
    ]


def _kept(directory: RunDirectory, spec: DetailedSpec) -> Path:
    return directory.truth_of(spec.universes[0].name).parent


def _digests(directory: RunDirectory, spec: DetailedSpec) -> dict[str, dict[str, str]]:
    return {spec.universes[0].name: run_directory.file_digests(_kept(directory, spec))}


#: The stages of this publication that tasks do.
TASKS = {"groups": task}
