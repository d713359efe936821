"""Where the truth is used in a run that is cut into shards (:mod:`das.model.shards`): from files to
files, shard by shard.

    (input) -> store -> measure (each shard), trunk -> ... after measurement ... -> evaluate (each
    shard), trunk

The true counts of a shard's lowest units lie in ``confidential/truth/``; a task reads them there,
and answers with paths and digests. What a shard holds of the trunk's units is counted by its task,
too, and kept in ``confidential/sums/`` for the trunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import OwnStatement
from das.accounting.statement import Drawn, statement
from das.engine import Progress
from das.engine.tasks import Answer, Engine, Task
from das.errors import ReleaseError
from das.evaluate import Published, Tallies, Whole
from das.files import atomic, messages
from das.files.measurements import nmf
from das.files.messages import named, parted
from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release.adoption import adopt
from das.files.release.estimates import EstimateReader, folder_of
from das.files.run import made, run_directory, tallies, truth
from das.files.run.ledger import LedgerFile, MeasuredPart
from das.files.run.run_directory import RunDirectory
from das.files.run.staged import perform
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.constraint import Constraint, summed
from das.model.error_rows import ErrorRow
from das.model.histogram import Histogram
from das.model.not_private import marked
from das.model.spine import places
from das.model.universe import Universe
from das.noise import entropy
from das.release import by_shard
from das.release.by_shard import Desk, shards_of
from das.release.post import Opened, open_part, open_trunk
from das.release.seal import seal
from das.spec import RunSpec
from das.spec.notes import notes
from das.tables import of as tables_of
from das.truth.assessment import Assessed, Compared, Measured, Piece, assess, tally, write
from das.truth.begun import Begun
from das.truth.bookkeeping import Books
from das.truth.histogram import over, upward
from das.truth.measure import check_fits
from das.truth.measuring import measure_part, noise_for, planned
from das.truth.prepared import Prepared, TrueHistograms

FOR = "a part of the run is counted by itself"


def begin(
    spec: RunSpec, prepared: Prepared, directory: RunDirectory, measured: RunDirectory | None = None
) -> None:
    """Make the folder of a run, and write down what it is to measure, shard by shard. What stops it
    here leaves nothing.

    With a run that has ``measured`` the same, its measurements and its ledger are taken over:
    nothing is left to draw."""
    directory.create()
    with directory.whole_or_nothing():
        _store(prepared, directory)
        _write_public(spec, prepared, directory, measured)
        Begun.of(prepared).write(directory, spec.run.private)
        digests = _digests(directory, [u.name for u in spec.universes])
        taken = {"measured_in": measured.root.name} if measured is not None else {}
        read = {"inputs": [asdict(s) for s in prepared.sources], "truth": digests}
        atomic.write_json(directory.inputs, marked(read | taken, spec.run.private))


def _store(prepared: Prepared, directory: RunDirectory) -> None:
    """The true counts of each shard in a file; of a tree without shards those of the trunk."""
    ends = prepared.shards.lowest(prepared.spine).tolist()
    parts = list(enumerate(pairwise(ends), 1)) or [(0, (0, len(prepared.spine.codes[-1])))]
    for name in prepared.trees:
        for i, (a, b) in parts:
            truth.write(directory.truth_of(name, i), prepared.rows(name, a, b))


def _write_public(
    spec: RunSpec, prepared: Prepared, directory: RunDirectory, measured: RunDirectory | None
) -> None:
    """What a release rests on, but for its measurements; these, too, where they are ``measured``."""
    release, spine, shards = directory.release, prepared.spine, prepared.shards
    atomic.write_text(release / "spec.toml", spec.dump())
    spine_file.write(release / "spine.parquet", spine, shards)
    if prepared.areas:
        areas_file.write(release / areas_file.NAME, prepared.areas, spine, shards)
    if measured is not None:
        adopt(measured.release, release)
        return
    _write_constraints(spec, prepared, directory)
    for name, tree in prepared.trees.items():
        tree_file.write(directory.nmf(name) / tree_file.NAME, tree, spine, shards)


def _write_constraints(spec: RunSpec, prepared: Prepared, directory: RunDirectory) -> None:
    """What is published exactly, part by part; of a tree that is not the published one also the
    sums of what is of its lowest units (:func:`das.model.constraint.summed`), which the trunk has
    from its shards."""
    shards, spine, level = prepared.shards, prepared.spine, prepared.shards.level
    below, above = shards.levels(spine, 1), shards.levels(spine, 0)
    for u in spec.universes:
        tree, root = prepared.trees[u.name], directory.nmf(u.name)
        home, told = tree.within(level, spine), dict[str, Constraint]()
        for i in range(1, len(shards) + 1):
            units = np.flatnonzero((home >= shards.units(i).start) & (home < shards.units(i).stop))
            part = tree.spine.restricted(level, units)
            own = prepared.stated_of(u.name, tree.spine.kept(level, units), below)
            sums = [] if tree.alike else list(summed(own, part))
            kept = [*own, *(c for c in sums if c.level in below)]
            nmf.write_constraints(root, u.schema, part, kept, i, private=spec.run.private)
            for c in (c for c in sums if c.level == level):
                empty = np.zeros((len(home), c.bound.shape[1]), dtype=np.int64)
                told.setdefault(c.name, replace(c, bound=empty))
                told[c.name] = replace(c, bound=_put(told[c.name].bound, units, c.bound))
        own = prepared.stated(u.name, above)
        at_trunk = list(told.values())
        if len(shards):
            trunk = tree.spine.truncated(level)
            sums = [*at_trunk, *summed(at_trunk, trunk)]
        else:
            trunk, sums = tree.spine, [] if tree.alike else list(summed(own, tree.spine))
        nmf.write_constraints(root, u.schema, trunk, [*own, *sums], 0, private=spec.run.private)


def _put(
    bound: NDArray[np.int64], units: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    out = bound.copy()
    out[units] = rows
    return out


def _digests(directory: RunDirectory, universes: Sequence[str]) -> dict[str, dict[str, str]]:
    """What tells the true counts that are measured from any other, by universe."""
    return {name: run_directory.file_digests(directory.truth_of(name).parent) for name in universes}


def _digest_of(directory: RunDirectory, universe: str, name: str) -> str | None:
    """That of one file of them, as the run knows it."""
    known: Mapping[str, str] = run_directory.read_json(directory.inputs)["truth"].get(universe, {})
    return known.get(name)


# --- measure
# -------------------------------------------------------------------------------------------------


def measure(task: Task) -> Answer:
    """The shards of a partition, all universes and levels. The answer says which parts of the
    measurements have been written.
    """
    directory, parts = RunDirectory(task.run), []
    for shard in shards_of(task):
        opened = open_part(directory.release, shard)
        sums: dict[str, Any] = {}
        for u in opened.run.universes:
            published, measured = _known(opened, directory, u.name)
            parts += [
                measured_level(opened, directory, u.name, level, measured[level])
                for level in opened.levels
            ]
            level = opened.cut.level
            for kind, known in (("measured", measured), ("published", published)):
                counts = known[level].open("the trunk is the sum of its shards").to_arrays()
                sums |= named(f"{u.name}:{kind}", counts)
            spine = opened.tree(u).spine
            sums |= {f"{u.name}:codes": spine.codes[spine.index(level)]}
        messages.write(directory.sums_of(shard), sums, 0o600)
    written = [directory.sums_of(i) for i in shards_of(task)] + [
        directory.release / f for p in parts for f in p.files
    ]
    return {"parts": [asdict(p) for p in parts]} | made.of(directory.root, written)


def measured_level(
    opened: Opened,
    directory: RunDirectory,
    universe: str,
    level: str,
    known: Confidential[Histogram],
) -> MeasuredPart:
    """Measure a level that a part is responsible for, unless the ledger has it: that stands, and is
    not drawn again.
    """
    u, part, stage = opened.run.universe(universe), opened.part or 0, (universe, level)
    books, tree = LedgerFile(directory.ledger).entries, opened.tree(opened.run.universe(universe))
    if (stands := books.standing(stage).get(part)) is not None:
        return stands
    noise, number = noise_for([stage], books, opened.run, directory), books.number(stage)
    return measure_part(u, level, known, tree, noise, directory.release, number=number, shard=part)


@dataclass(frozen=True, repr=False)
class _Counted(Closed):
    """The true counts of a part, of all levels: of what is published, and of what is measured; and
    the file that they were read from, as it was."""

    published: TrueHistograms
    measured: TrueHistograms
    path: Path
    digest: str

    def check(self, directory: RunDirectory, universe: str) -> None:
        """Raises :class:`ReleaseError` where they are not those that the run goes by."""
        if self.digest != _digest_of(directory, universe, self.path.name):
            raise _another(self.path)


def _counted(opened: Opened, directory: RunDirectory, universe: str) -> _Counted:
    """Raises :class:`PrivacyError` where they do not fit the tree, :class:`ReleaseError` where
    there are none.
    """
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
        remedy="resume with what the run began with, or start another in a new folder",
    )


def _known(
    opened: Opened, directory: RunDirectory, universe: str
) -> tuple[TrueHistograms, TrueHistograms]:
    """The true counts of a part, of all levels: of what is published, and of what is measured.
    Raises :class:`ReleaseError` where they are not those that the run goes by."""
    found = _counted(opened, directory, universe)
    found.check(directory, universe)
    return found.published, found.measured


def trunk_of(
    opened: Opened, directory: RunDirectory, universe: str
) -> tuple[TrueHistograms, TrueHistograms]:
    """The same of the trunk, from what its shards hold; it is all where there are none."""
    if not len(opened.cut):
        return _known(opened, directory, universe)
    tree, level = opened.trees[universe], opened.cut.level
    codes = tree.spine.codes[tree.spine.index(level)]
    of_shards = [
        parted(messages.read(directory.sums_of(i)), universe) for i in range(1, len(opened.cut) + 1)
    ]
    parts = [Histogram.of_arrays(parted(arrays, "published")) for arrays in of_shards]
    published = upward(Confidential(Histogram.concatenate(parts)), opened.spine)
    if tree.alike:
        return published, published
    unit, cell, count = [], [], []
    for arrays in of_shards:
        h = Histogram.of_arrays(parted(arrays, "measured"))
        unit.append(places(codes, arrays["codes"])[h.unit])
        cell.append(h.cell)
        count.append(h.count)
    whole = Histogram.of(len(codes), parts[0].cells, *map(np.concatenate, (unit, cell, count)))
    return published, upward(Confidential(whole), tree.spine)


# --- evaluate
# ------------------------------------------------------------------------------------------------


def evaluate(task: Task) -> Answer:
    """Count the errors of the shards of a partition, into files."""
    desk, directory = Desk(task.run), RunDirectory(task.run)
    for shard in shards_of(task):
        opened = open_part(directory.release, shard)
        found = messages.read(desk.published(shard))
        compared = []
        for u in opened.after.universes:
            published, known = _known(opened, directory, u.name)
            lowest, tree = Histogram.of_arrays(parted(found, u.name)), opened.tree(u)
            counts = lowest.upward(opened.spine)
            of_tree = counts if tree.alike else tree.of_published(lowest).upward(tree.spine)
            compared.append(_compared(opened, directory, u, known, of_tree, published, counts))
        tallies.write(
            directory.tallies_of(shard), tally(Piece(opened.levels, compared, areas=opened.areas()))
        )
    return made.of(directory.root, map(directory.tallies_of, shards_of(task)))


def trunk_tallies(
    opened: Opened, directory: RunDirectory, made: Mapping[str, Mapping[str, Histogram]]
) -> Tallies:
    """Those of the trunk, of which ``made`` is what was published of it, by universe and level."""
    arrays, compared = messages.read(Desk(directory.root).trunk()), []
    for u in opened.after.universes:
        published, known = trunk_of(opened, directory, u.name)
        of_tree = Histogram.of_arrays(parted(parted(arrays, u.name), "counts")).upward(
            opened.tree(u).spine
        )
        compared.append(_compared(opened, directory, u, known, of_tree, published, made[u.name]))
    return tally(Piece(opened.levels, compared, lowest=False))


def write_whole(
    opened: Opened, directory: RunDirectory, made: Mapping[str, Mapping[str, Histogram]]
) -> dict[str, Whole]:
    """All that was counted, and published, anywhere: what shares are taken of."""
    out, root = {}, opened.spine.levels[0]
    for u in opened.after.universes:
        out[u.name] = Whole(trunk_of(opened, directory, u.name)[0][root], made[u.name][root])
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
    opened: Opened,
    directory: RunDirectory,
    u: Universe,
    known: TrueHistograms,
    of_tree: Mapping[str, Histogram],
    truth: TrueHistograms,
    published: Mapping[str, Histogram],
) -> Compared:
    spine, arrays = opened.tree(u).spine, parted(messages.read(directory.whole), u.name)
    queries = {level: opened.asked(u).get(level, ()) for level in opened.levels}
    folder = folder_of(opened.folder, u.name)
    read = EstimateReader(folder, spine, opened.part) if folder.is_dir() else None
    against = Published(opened.source(u), of_tree, queries, read)
    whole = Whole(
        Confidential(Histogram.of_arrays(parted(arrays, "truth"))),
        Histogram.of_arrays(parted(arrays, "published")),
    )
    return Compared(
        u,
        truth,
        published,
        Measured(spine, known, against),
        whole,
        tables_of(u, opened.assigned(u.name)),
    )


# --- the head
# ------------------------------------------------------------------------------------------------


def measure_release(
    spec: RunSpec,
    begun: Begun,
    directory: RunDirectory,
    engine: Engine,
    size: int,
    progress: Progress,
    accept_spent: bool = False,
) -> OwnStatement:
    """Noisy measurements and their privacy statement, in a folder that has begun; what it has
    already, stands. ``spec`` knows the classes of units that there are."""
    drawn = _measured(spec, begun, directory, engine, size, progress, accept_spent)
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    said = statement(
        spec.terms, drawn, begun.outside, name, private, notes(spec), assigned=begun.assigned
    )
    return seal(
        directory.release, said, spec.run.name, LedgerFile(directory.ledger).entries.files()
    )


def _measured(
    spec: RunSpec,
    begun: Begun,
    directory: RunDirectory,
    engine: Engine,
    size: int,
    progress: Progress,
    accept_spent: bool,
) -> Drawn:
    trunk = open_trunk(directory.release)
    shards = tuple(range(1, len(trunk.cut) + 1))
    due = planned(spec, begun.ways, lambda level: (0,) if level in trunk.levels else shards)
    names = [u.name for u in spec.universes]
    # counts that do not fit are found before anything is paid for
    known = {} if shards else {name: _counted(trunk, directory, name) for name in names}
    books = Books.of(spec, due, directory, _digests(directory, names), accept_spent)
    for name, counted in known.items():
        counted.check(directory, name)
    # shards are measured before the trunk: so all begins before, in the order of the plan
    for stage in due if shards else ():
        books.begin(stage)
    tasks = by_shard.tasks(Desk(directory.root), size, "measure")
    answers = perform(engine, measure, tasks, progress, confidential=True)
    if any(books.missing(stage) for stage in due):
        books.acknowledge(
            MeasuredPart(**part) for answer in answers.values() for part in answer["parts"]
        )
        for u in spec.universes:
            progress.stage(f"measure {u.name}", len(trunk.levels))
            counts = trunk_of(trunk, directory, u.name)[1] if shards else known[u.name].measured
            for level in trunk.levels:
                books.begin((u.name, level))
                part = measured_level(trunk, directory, u.name, level, counts[level])
                books.acknowledge([part])
                progress.advance()
    return books.close()


def assess_release(
    spec: RunSpec,
    begun: Begun,
    directory: RunDirectory,
    trunk: Opened,
    made: Mapping[str, Mapping[str, Histogram]],
    engine: Engine,
    size: int,
    progress: Progress,
) -> dict[str, list[ErrorRow]]:
    """Hold a run against the truth, shard by shard, and write its errors
    (:func:`das.truth.assessment.write`). ``made``: what was published of the trunk."""
    if not len(trunk.cut):
        known = {u.name: trunk_of(trunk, directory, u.name)[0] for u in spec.universes}
        held = Assessed(trunk.spine, trunk.trees, known, made, trunk.areas())
        return assess(spec, directory, held, progress)
    whole = write_whole(trunk, directory, made)
    tasks = by_shard.tasks(Desk(directory.root), size, "evaluate")
    perform(engine, evaluate, tasks, progress, confidential=True)

    def parts() -> Iterator[Tallies]:
        yield trunk_tallies(trunk, directory, made)
        for shard in range(1, len(trunk.cut) + 1):
            yield tallies.read(directory.tallies_of(shard), Tallies)

    tables = {u.name: tables_of(u, trunk.assigned(u.name)) for u in spec.universes}
    return write(spec, directory, Tallies.merged(parts()), tables, begun.areas, whole)
