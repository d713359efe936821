"""Where the truth is used in a run that is cut into shards (:mod:`das.model.shards`): from files to
files, shard by shard.

    (input) -> store -> measure (each shard), trunk -> ... after measurement ... -> evaluate (each
    shard), trunk

The true counts of a shard's lowest units lie in ``confidential/truth/``; a task reads them there,
and answers with paths and digests. What a shard holds of the trunk's units is counted by its task,
too, and kept in ``confidential/sums/`` for the trunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.statement import Drawn, statement
from das.engine import Progress
from das.engine.tasks import Answer, Engine, Task
from das.errors import ReleaseError
from das.evaluate import Published, Tallies, Whole
from das.files import messages
from das.files.measurements import nmf
from das.files.messages import named, parted
from das.files.release.estimates import EstimateReader, folder_of
from das.files.run import made, run_directory, tallies, truth
from das.files.run.ledger import LedgerFile, MeasuredPart
from das.files.run.run_directory import RunDirectory
from das.files.run.staged import perform
from das.model.confidential import Confidential
from das.model.constraint import Constraint, summed
from das.model.error_rows import ErrorRow
from das.model.histogram import Histogram
from das.model.spine import places
from das.model.universe import Universe
from das.noise import entropy
from das.release import by_shard
from das.release.by_shard import Desk, shards_of
from das.release.post import Opened, open_part
from das.release.seal import seal
from das.spec import RunSpec
from das.spec.notes import notes
from das.stages import Stages
from das.tables import of as tables_of
from das.truth.assessment import Compared, Measured, Piece, tally, write
from das.truth.begun import Begun
from das.truth.bookkeeping import Books
from das.truth.histogram import over, upward
from das.truth.measuring import MeasuringRecord, measure_part, noise_for, planned, write_down
from das.truth.prepared import Prepared, TrueHistograms

FOR = "a part of the run is counted by itself"


def begin(spec: RunSpec, prepared: Prepared, directory: RunDirectory) -> None:
    """Make the folder of a run, and write down what it is to measure, shard by shard. What stops it
    here leaves nothing.
    """
    directory.create()
    with directory.whole_or_nothing():
        _store(prepared, directory)
        _write_constraints(spec, prepared, directory)
        write_down(spec, prepared, directory, _digests(directory, [u.name for u in spec.universes]))
        Begun.of(prepared).write(directory)


def _store(prepared: Prepared, directory: RunDirectory) -> None:
    """The true counts of each shard in a file."""
    ends = prepared.shards.lowest(prepared.spine)
    for name in prepared.trees:
        for i, (a, b) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True), 1):
            truth.write(directory.truth_of(name, i), prepared.rows(name, a, b))


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
            nmf.write_constraints(
                root,
                u.schema,
                part,
                [*own, *(c for c in sums if c.level in below)],
                i,
                private=spec.run.private,
            )
            for c in (c for c in sums if c.level == level):
                empty = np.zeros((len(home), c.bound.shape[1]), dtype=np.int64)
                told.setdefault(c.name, replace(c, bound=empty))
                told[c.name] = replace(c, bound=_put(told[c.name].bound, units, c.bound))
        trunk, at_trunk = tree.spine.truncated(level), list(told.values())
        own = prepared.stated(u.name, above)
        nmf.write_constraints(
            root,
            u.schema,
            trunk,
            [*own, *at_trunk, *summed(at_trunk, trunk)],
            0,
            private=spec.run.private,
        )


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
            parts += measured_levels(opened, directory, u.name, measured)
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


def measured_levels(
    opened: Opened, directory: RunDirectory, universe: str, known: TrueHistograms
) -> list[MeasuredPart]:
    """Measure the levels that a part is responsible for, but for what the ledger has: that stands,
    and is not drawn again.
    """
    u, part = opened.run.universe(universe), opened.part or 0
    books, out = LedgerFile(directory.ledger).entries, []
    for level in opened.levels:
        stage = universe, level
        stands = books.standing(stage).get(part)
        out.append(
            stands
            or measure_part(
                u,
                level,
                known[level],
                opened.tree(u),
                noise_for([stage], books, opened.run, directory),
                directory.release,
                number=books.number(stage),
                shard=part,
            )
        )
    return out


def _known(
    opened: Opened, directory: RunDirectory, universe: str
) -> tuple[TrueHistograms, TrueHistograms]:
    """The true counts of a shard, of all levels: of what is published, and of what is measured.
    Raises :class:`ReleaseError` where they are not those that the run goes by."""
    path = directory.truth_of(universe, opened.part or 0)
    if not path.is_file() or run_directory.file_digest(path) != _digest_of(
        directory, universe, path.name
    ):
        raise ReleaseError(
            "the true counts are not those that this run began with",
            where=path,
            remedy="resume with what the run began with, or start another in a new folder",
        )
    tree, lowest = opened.trees[universe], truth.read(path)
    published = upward(lowest, opened.spine)
    return published, published if tree.alike else over(tree, lowest)


def trunk_of(
    opened: Opened, directory: RunDirectory, universe: str
) -> tuple[TrueHistograms, TrueHistograms]:
    """The same of the trunk, from what its shards hold."""
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


def measure_shards(
    spec: RunSpec,
    begun: Begun,
    directory: RunDirectory,
    engine: Engine,
    size: int,
    stages: Stages,
    progress: Progress,
    accept_spent: bool = False,
) -> MeasuringRecord:
    """Noisy measurements and their privacy statement, in a folder that has begun; what it has
    already, stands. ``spec`` knows the classes of units that there are."""
    began, (name, private) = datetime.now(UTC), entropy.stated(spec.run.entropy, spec.run.seed)
    with stages("measure"):
        drawn = _measured(spec, begun, directory, engine, size, progress, accept_spent)
    said = statement(
        spec.terms, drawn, begun.outside, name, private, notes(spec), assigned=begun.assigned
    )
    privacy = seal(
        directory.release, said, spec.run.name, LedgerFile(directory.ledger).entries.files()
    )
    return MeasuringRecord(began, name, private, privacy)


def _measured(
    spec: RunSpec,
    begun: Begun,
    directory: RunDirectory,
    engine: Engine,
    size: int,
    progress: Progress,
    accept_spent: bool,
) -> Drawn:
    trunk = open_part(directory.release, 0)
    shards = tuple(range(1, len(trunk.cut) + 1))
    due = planned(spec, begun.ways, lambda level: (0,) if level in trunk.levels else shards)
    books = Books.of(
        spec, due, directory, _digests(directory, [u.name for u in spec.universes]), accept_spent
    )
    for stage in due:
        books.begin(stage)
    answers = perform(
        engine,
        measure,
        by_shard.tasks(Desk(directory.root), size, "measure"),
        progress,
        confidential=True,
    )
    if any(books.missing(stage) for stage in due):
        books.acknowledge(
            MeasuredPart(**part) for answer in answers.values() for part in answer["parts"]
        )
        for u in spec.universes:
            known = trunk_of(trunk, directory, u.name)[1]
            books.acknowledge(measured_levels(trunk, directory, u.name, known))
    return books.close()


def assess_shards(
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
    (:func:`das.truth.assessment.write`).
    """
    whole = write_whole(trunk, directory, made)
    perform(
        engine,
        evaluate,
        by_shard.tasks(Desk(directory.root), size, "evaluate"),
        progress,
        confidential=True,
    )

    def parts() -> Iterator[Tallies]:
        yield trunk_tallies(trunk, directory, made)
        for shard in range(1, len(trunk.cut) + 1):
            yield tallies.read(directory.tallies_of(shard), Tallies)

    tables = {u.name: tables_of(u, trunk.assigned(u.name)) for u in spec.universes}
    return write(spec, directory, Tallies.merged(parts()), tables, begun.areas, whole)
