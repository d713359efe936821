"""Where the truth is used in a run that is cut into subtrees (:mod:`das.model.measured_spine`). Each task
reads and writes the files of its subtree.

    (input) -> store -> measure (each subtree), upper tree -> ... after measurement ... -> evaluate
    (each subtree), upper tree

The true counts of a subtree's lowest units are in ``confidential/truth/``. A task reads them there,
and answers with paths and digests. It also adds up its subtree's share of the upper tree's units,
and keeps these sums in ``confidential/sums/`` for the upper tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from das.accounting.document import OwnStatement
from das.accounting.statement import LedgerEvents, statement
from das.engine import Progress
from das.engine.tasks import Answer, Engine, Task
from das.errors import ReleaseError
from das.files import messages
from das.files.messages import named, parted
from das.files.run import run_directory, tallies, task_store
from das.files.run.ledger import LedgerFile, MeasuredPart
from das.files.run.run_directory import RunDirectory
from das.files.run.stage_tasks import perform
from das.model.confidential import Confidential
from das.model.error_rows import ErrorRow
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.spine import places
from das.model.universe import Universe
from das.noise import entropy
from das.release.opened import OpenedRelease, open_part, open_upper_tree
from das.release.prior_document import WorkFiles, stage_tasks, subtrees_of
from das.release.seal import seal
from das.spec import RunSpec
from das.spec.notes import notes
from das.tables import universe_tables
from das.truth import files as truth
from das.truth.assessment import AssessmentInput, Comparand, Measured, Piece, assess, tally, write
from das.truth.bookkeeping import BudgetBook
from das.truth.evaluation import Published, Tallies, Whole
from das.truth.measure import check_fits
from das.truth.measuring import measure_part, planned
from das.truth.prepared import TrueHistograms, over, upward
from das.truth.run_noise import noise_for
from das.truth.run_setup import ResumeState, truth_digests

FOR = "a part of the run is counted by itself"


def unaltered(directory: RunDirectory, universe: str, part: int) -> Confidential[Histogram]:
    """The true counts of a subtree. Raises :class:`ReleaseError` if they are not those that the run
    began with."""
    path = directory.truth_of(universe, part)
    if not path.is_file():
        raise _another(path)
    digest, lowest = run_directory.file_digest(path), truth.read(path)
    if digest != _digest_of(directory, universe, path.name):
        raise _another(path)
    return lowest


def _digest_of(directory: RunDirectory, universe: str, name: str) -> str | None:
    """The digest that the run has for one file of true counts."""
    known: Mapping[str, str] = run_directory.read_json(directory.inputs)["truth"].get(universe, {})
    return known.get(name)


# --- measure


def measure(task: Task) -> Answer:
    """The subtrees of a partition, all universes and levels. The answer says which parts of the
    measurements have been written."""
    directory, parts = RunDirectory(task.run), []
    for subtree in subtrees_of(task):
        opened = open_part(directory.release, subtree)
        sums: dict[str, Any] = {}
        for u in opened.run.universes:
            published, measured = _known(opened, directory, u.name)
            parts += [
                measured_level(opened, directory, u.name, level, measured[level])
                for level in opened.levels
            ]
            level = opened.cut.level
            for kind, known in (("measured", measured), ("published", published)):
                counts = known[level].open("the upper tree is the sum of its subtrees").to_arrays()
                sums |= named(f"{u.name}:{kind}", counts)
            spine = opened.tree(u).spine
            sums |= {f"{u.name}:codes": spine.codes[spine.index(level)]}
        messages.write(directory.sums_of(subtree), sums, 0o600)
    written = [directory.sums_of(i) for i in subtrees_of(task)] + [
        directory.release / f for p in parts for f in p.files
    ]
    return {"parts": [asdict(p) for p in parts]} | task_store.digests_made(directory.root, written)


def measured_level(
    opened: OpenedRelease,
    directory: RunDirectory,
    universe: str,
    level: str,
    known: Confidential[Histogram],
) -> MeasuredPart:
    """Measure a level that a part is responsible for, unless the ledger already has it: a part that
    stands is not drawn again."""
    u, part, stage = opened.run.universe(universe), opened.part or 0, (universe, level)
    budget_book = LedgerFile(directory.ledger).entries
    tree = opened.tree(opened.run.universe(universe))
    if (stands := budget_book.standing(stage).get(part)) is not None:
        return stands
    noise = noise_for([stage], budget_book, opened.run, directory)
    number = budget_book.number(stage)
    return measure_part(
        u, level, known, tree, noise, directory.release, number=number, subtree=part
    )


@dataclass(frozen=True, repr=False)
class _Counted(NoRepr):
    """The true counts of a part at all levels, over the published and over the measured tree; and
    the file that they were read from, with its digest at that time."""

    published: TrueHistograms
    measured: TrueHistograms
    path: Path
    digest: str

    def check(self, directory: RunDirectory, universe: str) -> None:
        """Raises :class:`ReleaseError` if they are not those that the run began with."""
        if self.digest != _digest_of(directory, universe, self.path.name):
            raise _another(self.path)


def _counted(opened: OpenedRelease, directory: RunDirectory, universe: str) -> _Counted:
    """Raises :class:`PrivacyError` if the counts do not fit the tree, :class:`ReleaseError` if the
    file is missing."""
    path = directory.truth_of(universe, opened.part or 0)
    if not path.is_file():
        raise _another(path)
    tree, schema = opened.trees[universe], opened.run.universe(universe).schema
    digest, lowest = run_directory.file_digest(path), truth.read(path)
    published = upward(lowest, opened.spine)
    measured = published if tree.alike else over(tree, lowest)
    for level, counts in measured.items():
        check_fits(counts, level, universe, schema, tree)
    return _Counted(published, measured, path, digest)


def _another(path: Path) -> ReleaseError:
    return ReleaseError(
        "the true counts are not those that this run began with",
        where=path,
        remedy="resume with the inputs that the run began with, or start another run in a new"
        " folder",
    )


def _known(
    opened: OpenedRelease, directory: RunDirectory, universe: str
) -> tuple[TrueHistograms, TrueHistograms]:
    """The true counts of a part at all levels, over the published and over the measured tree.
    Raises :class:`ReleaseError` if they are not those that the run began with."""
    found = _counted(opened, directory, universe)
    found.check(directory, universe)
    return found.published, found.measured


def upper_tree_of(
    opened: OpenedRelease, directory: RunDirectory, universe: str
) -> tuple[TrueHistograms, TrueHistograms]:
    """The true counts of the upper tree, over the published and over the measured tree, added up
    from its subtrees. Without subtrees the upper tree is the whole tree."""
    if not len(opened.cut):
        return _known(opened, directory, universe)
    tree, level = opened.trees[universe], opened.cut.level
    codes = tree.spine.codes[tree.spine.index(level)]
    of_subtrees = [
        parted(messages.read(directory.sums_of(i)), universe) for i in range(1, len(opened.cut) + 1)
    ]
    parts = [Histogram.of_arrays(parted(arrays, "published")) for arrays in of_subtrees]
    published = upward(Confidential(Histogram.concatenate(parts)), opened.spine)
    if tree.alike:
        return published, published
    unit, cell, count = [], [], []
    for arrays in of_subtrees:
        h = Histogram.of_arrays(parted(arrays, "measured"))
        unit.append(places(codes, arrays["codes"])[h.unit])
        cell.append(h.cell)
        count.append(h.count)
    whole = Histogram.from_triplets(
        len(codes), parts[0].cells, *map(np.concatenate, (unit, cell, count))
    )
    return published, upward(Confidential(whole), tree.spine)


# --- evaluate


def evaluate(task: Task) -> Answer:
    """Count the errors of the subtrees of a partition, and write them to files."""
    work, directory = WorkFiles(task.run), RunDirectory(task.run)
    for subtree in subtrees_of(task):
        opened = open_part(directory.release, subtree)
        found = messages.read(work.published(subtree))
        compared = []
        for u in opened.after.universes:
            published, known = _known(opened, directory, u.name)
            lowest, tree = Histogram.of_arrays(parted(found, u.name)), opened.tree(u)
            counts = lowest.upward(opened.spine)
            of_tree = counts if tree.alike else tree.of_published(lowest).upward(tree.spine)
            compared.append(_compared(opened, directory, u, known, of_tree, published, counts))
        tallies.write(
            directory.tallies_of(subtree),
            tally(Piece(opened.levels, compared, areas=opened.areas())),
        )
    return task_store.digests_made(directory.root, map(directory.tallies_of, subtrees_of(task)))


def upper_tree_tallies(
    opened: OpenedRelease, directory: RunDirectory, made: Mapping[str, Mapping[str, Histogram]]
) -> Tallies:
    """The tallies of the upper tree. ``made`` has its published counts, by universe and level."""
    arrays, compared = messages.read(WorkFiles(directory.root).upper_tree()), []
    for u in opened.after.universes:
        published, known = upper_tree_of(opened, directory, u.name)
        of_tree = Histogram.of_arrays(parted(parted(arrays, u.name), "counts")).upward(
            opened.tree(u).spine
        )
        compared.append(_compared(opened, directory, u, known, of_tree, published, made[u.name]))
    return tally(Piece(opened.levels, compared, lowest=False))


def write_whole(
    opened: OpenedRelease, directory: RunDirectory, made: Mapping[str, Mapping[str, Histogram]]
) -> dict[str, Whole]:
    """Write the true and the published counts of the root: the totals behind shares."""
    out, root = {}, opened.spine.levels[0]
    for u in opened.after.universes:
        out[u.name] = Whole(upper_tree_of(opened, directory, u.name)[0][root], made[u.name][root])
    arrays = {
        name: array
        for u, w in out.items()
        for name, array in (
            named(f"{u}:truth", w.truth.open(FOR).to_arrays())
            | named(f"{u}:published", w.published.to_arrays())
        ).items()
    }
    messages.write(directory.whole, arrays, 0o600)
    return out


def _compared(
    opened: OpenedRelease,
    directory: RunDirectory,
    universe: Universe,
    known: TrueHistograms,
    of_tree: Mapping[str, Histogram],
    truth: TrueHistograms,
    published: Mapping[str, Histogram],
) -> Comparand:
    spine = opened.tree(universe).spine
    arrays = parted(messages.read(directory.whole), universe.name)
    queries = {level: opened.queries_by_level(universe).get(level, ()) for level in opened.levels}
    against = Published(opened.source(universe), of_tree, queries, opened.estimates(universe))
    whole = Whole(
        Confidential(Histogram.of_arrays(parted(arrays, "truth"))),
        Histogram.of_arrays(parted(arrays, "published")),
    )
    return Comparand(
        universe,
        truth,
        published,
        Measured(spine, known, against),
        whole,
        universe_tables(universe, opened.assigned(universe.name)),
    )


# --- the head


def measure_release(
    spec: RunSpec,
    resume_state: ResumeState,
    directory: RunDirectory,
    engine: Engine,
    size: int,
    progress: Progress,
    accept_spent: bool = False,
) -> OwnStatement:
    """Noisy measurements and their privacy statement, in the folder of a run that has begun. Parts
    that were already measured stand. ``spec`` knows the classes of units in the trees."""
    drawn = _measured(spec, resume_state, directory, engine, size, progress, accept_spent)
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    progress.stage("privacy statement", None)
    said = statement(
        spec.terms,
        drawn,
        resume_state.outside,
        name,
        private,
        notes(spec),
        assigned=resume_state.assigned,
    )
    return seal(
        directory.release, said, spec.run.name, LedgerFile(directory.ledger).entries.files()
    )


def _measured(
    spec: RunSpec,
    resume_state: ResumeState,
    directory: RunDirectory,
    engine: Engine,
    size: int,
    progress: Progress,
    accept_spent: bool,
) -> LedgerEvents:
    upper_tree = open_upper_tree(directory.release)
    subtrees = tuple(range(1, len(upper_tree.cut) + 1))
    classes, levels = resume_state.unit_classes, upper_tree.levels
    due = planned(spec, classes, lambda level: (0,) if level in levels else subtrees)
    names = [u.name for u in spec.universes]
    # find counts that do not fit before anything is paid for
    known = {} if subtrees else {name: _counted(upper_tree, directory, name) for name in names}
    digests = truth_digests(directory, names)
    budget_book = BudgetBook.start(spec, due, directory, digests, accept_spent)
    for name, counted in known.items():
        counted.check(directory, name)
    # subtrees are measured before the upper tree, so all stages begin here, in the plan's order
    for stage in due if subtrees else ():
        budget_book.begin(stage)
    tasks = stage_tasks(WorkFiles(directory.root), size, "measure")
    answers = perform(engine, measure, tasks, progress, confidential=True)
    if any(budget_book.missing(stage) for stage in due):
        budget_book.acknowledge(
            MeasuredPart(**part) for answer in answers.values() for part in answer["parts"]
        )
        for name in names:
            progress.stage(f"measure {name}", len(levels))
            counts = (
                upper_tree_of(upper_tree, directory, name)[1] if subtrees else known[name].measured
            )
            for level in levels:
                budget_book.begin((name, level))
                part = measured_level(upper_tree, directory, name, level, counts[level])
                budget_book.acknowledge([part])
                progress.advance()
    return budget_book.close()


def assess_release(
    spec: RunSpec,
    resume_state: ResumeState,
    directory: RunDirectory,
    upper_tree: OpenedRelease,
    made: Mapping[str, Mapping[str, Histogram]],
    engine: Engine,
    size: int,
    progress: Progress,
) -> dict[str, list[ErrorRow]]:
    """Compare a run with the truth, subtree by subtree, and write its errors
    (:func:`das.truth.assessment.write`). ``made``: the published counts of the upper tree."""
    if not len(upper_tree.cut):
        known = {u.name: upper_tree_of(upper_tree, directory, u.name)[0] for u in spec.universes}
        held = AssessmentInput(upper_tree.spine, upper_tree.trees, known, made, upper_tree.areas())
        return assess(spec, directory, held, progress)
    whole = write_whole(upper_tree, directory, made)
    tasks = stage_tasks(WorkFiles(directory.root), size, "evaluate")
    perform(engine, evaluate, tasks, progress, confidential=True)

    def parts() -> Iterator[Tallies]:
        yield upper_tree_tallies(upper_tree, directory, made)
        for subtree in range(1, len(upper_tree.cut) + 1):
            yield tallies.read(directory.tallies_of(subtree), Tallies)

    tables = {u.name: universe_tables(u, upper_tree.assigned(u.name)) for u in spec.universes}
    return write(spec, directory, Tallies.merged(parts()), tables, resume_state.areas, whole)
