"""A run compared with the truth: everything under ``confidential/evaluation/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from das.engine import Progress, Silent
from das.errors import InputError
from das.evaluate.errors import size_rows
from das.evaluate.impossible import impossible
from das.evaluate.tally import CoverageTally, coverage_rows
from das.files import rows_csv
from das.files.readers import area_list
from das.files.release import areas as areas_file
from das.files.run import tallies as errors_csv
from das.files.run.run_directory import RunDirectory
from das.model.areas import Areas
from das.model.error_rows import CoverageRow, ErrorRow, ImpossibleRow, SizeRow, TableRow
from das.model.frozen import NoRepr, NoReprRows
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.model.measurement import MeasurementSource
from das.model.not_private import Private
from das.model.spine import Spine
from das.model.universe import Planned, Universe
from das.release.opened import OpenedRelease, open_release
from das.release.prior_document import expected_size_bias
from das.spec import RunSpec
from das.tables import Table, universe_tables
from das.truth import files as truth
from das.truth.evaluation import (
    EstimateSource,
    Published,
    Tallies,
    UniverseTallies,
    Whole,
    tally_queries,
    tally_tables,
)
from das.truth.prepared import TrueHistograms, over, upward

#: In ``confidential/evaluation/``.
INTERVALS = "intervals.csv"
SIZES = "sizes.csv"
REASON = "impossible results are counted in the truth as well, for confidential/ only"


@dataclass(frozen=True, repr=False)
class AssessmentInput(NoRepr):
    """The input of an assessment: ``truth`` and ``published`` by universe and level of the
    published spine; the measured ``trees`` by universe; areas off the spine."""

    spine: Spine
    trees: Mapping[str, MeasuredSpine]
    truth: Mapping[str, TrueHistograms]
    published: Mapping[str, Mapping[str, Histogram]]
    areas: Sequence[Areas] = ()


@dataclass(frozen=True, repr=False)
class Measured(NoRepr):
    """A universe over its measured ``spine``: the true counts there, and what is compared with
    them."""

    spine: Spine
    truth: TrueHistograms
    against: Published


@dataclass(frozen=True, repr=False)
class Comparand(NoRepr):
    """One universe in a piece: ``truth`` and ``published`` by level of the published spine.
    ``measured`` is ``None`` if nothing was measured, as in a subtree without a building. ``whole``
    has the counts of the root, and ``tables`` the tables to compare."""

    universe: Universe
    truth: TrueHistograms
    published: Mapping[str, Histogram]
    measured: Measured | None
    whole: Whole
    tables: Sequence[Table]


@dataclass(frozen=True, repr=False)
class Piece(NoRepr):
    """Consecutive ``levels`` of a run, or of some of its units: an upper tree, a subtree, or all.
    ``lowest`` says whether the last of them is the lowest level of the run; then ``areas`` lists
    its units."""

    levels: Sequence[str]
    universes: Sequence[Comparand]
    lowest: bool = True
    areas: Sequence[Areas] = ()


def tally(piece: Piece) -> Tallies:
    """The tallies of a piece. Memory holds one slice of units at a time, with about 4 million
    answers."""
    level = piece.levels[-1]
    odd = (
        impossible(
            {u.universe.name: u.truth[level].open(REASON) for u in piece.universes},
            {u.universe.name: u.published[level] for u in piece.universes},
            [u.universe for u in piece.universes],
            level,
        )
        if piece.lowest
        else []
    )
    return Tallies(tuple(_tally(u, piece) for u in piece.universes), tuple(odd))


def _tally(comparand: Comparand, piece: Piece) -> UniverseTallies:
    m, schema = comparand.measured, comparand.universe.schema
    queries = (
        () if m is None else tuple(tally_queries(m.truth, m.against, m.spine, schema, piece.levels))
    )
    tables = tally_tables(
        comparand.truth,
        comparand.published,
        piece.levels,
        comparand.tables,
        comparand.whole,
        piece.areas,
    )
    return UniverseTallies(comparand.universe.name, queries, tables)


def write(
    spec: RunSpec,
    directory: RunDirectory,
    tallies: Tallies,
    tables: Mapping[str, Sequence[Table]],
    kinds: Sequence[str],
    whole: Mapping[str, Whole],
) -> dict[str, list[ErrorRow]]:
    """Write ``errors.csv`` (``errors-<name>.csv`` for other universes), ``tables.csv`` and
    ``impossible.csv``; return the errors by universe. ``tallies`` are those of all pieces, merged;
    ``kinds`` are the kinds of areas; ``tables`` and ``whole`` are by universe.

    Errors of queries, as measured and as published, are for the units of the measured tree. Errors
    of tables are for units of the published spine and for areas."""
    rows: dict[str, list[ErrorRow]] = {}
    of_tables: list[TableRow] = []
    private, mechanisms = spec.run.private, {u.name: u.plan.mechanism for u in spec.universes}
    for u in tallies.universes:
        rows[u.universe] = NoReprRows(
            row for q in u.queries for row in q.rows(mechanisms[u.universe])
        )
        of_tables += u.tables.rows(tables[u.universe], kinds, whole[u.universe])
        errors_csv.write_errors(directory.errors_of(u.universe), rows[u.universe], private=private)
    folder = directory.errors.parent
    rows_csv.write_rows(folder / "tables.csv", TableRow, of_tables, private=private)
    rows_csv.write_rows(
        folder / "impossible.csv", ImpossibleRow, tallies.impossible, private=private
    )
    return rows


def assess(
    spec: RunSpec, directory: RunDirectory, run: AssessmentInput, progress: Progress
) -> dict[str, list[ErrorRow]]:
    """Compare a run in one piece with the truth, and write its errors (:func:`write`)."""
    progress.stage("evaluate", None)
    said = OpenedRelease(directory.release, spec, run.spine, run.trees)
    piece = Piece(
        run.spine.levels, [_compared(u, said, run) for u in spec.universes], areas=run.areas
    )
    tables = {u.universe.name: u.tables for u in piece.universes}
    whole = {u.universe.name: u.whole for u in piece.universes}
    return write(
        spec, directory, Tallies.merged([tally(piece)]), tables, [a.kind for a in run.areas], whole
    )


def _compared(universe: Planned, said: OpenedRelease, run: AssessmentInput) -> Comparand:
    """One universe of a whole run."""
    name, tree, root = universe.name, run.trees[universe.name], run.spine.levels[0]
    truth, published = run.truth[name], run.published[name]
    queries, estimates = queries_by_level(universe, tree), said.estimates(universe)
    measured = measured_over(tree, truth, published, said.source(universe), queries, estimates)
    whole = Whole(truth[root], published[root])
    return Comparand(
        universe, truth, published, measured, whole, universe_tables(universe, said.assigned(name))
    )


def queries_by_level(universe: Planned, tree: MeasuredSpine) -> dict[str, tuple[str, ...]]:
    """The queries that some unit of each level of a tree is measured with."""
    draws = universe.on(UnitClasses.from_tree(tree)).measurements
    return {
        lv: tuple(dict.fromkeys(d.query for d in draws if d.level == lv))
        for lv in tree.spine.levels
    }


def measured_over(
    tree: MeasuredSpine,
    truth: TrueHistograms,
    published: Mapping[str, Histogram],
    noisy: MeasurementSource,
    queries: Mapping[str, Sequence[str]],
    estimates: EstimateSource | None,
) -> Measured:
    """A universe over its measured tree, or over a subtree's part of that tree, from counts over
    the published tree."""
    known, counts = over_tree(tree, truth, published)
    return Measured(tree.spine, known, Published(noisy, counts, queries, estimates))


def over_tree(
    tree: MeasuredSpine, truth: TrueHistograms, published: Mapping[str, Histogram]
) -> tuple[TrueHistograms, Mapping[str, Histogram]]:
    """True and published counts over the measured tree, from those of the lowest published
    level."""
    if tree.is_published:
        return truth, published
    lowest = tree.spine.levels[-1]
    return over(tree, truth[lowest]), tree.of_published(published[lowest]).upward(tree.spine)


def evaluate_run(
    run: Path, progress: Progress | None = None, *, areas: Path | None = None
) -> dict[str, list[ErrorRow]]:
    """The errors of a finished run, computed again from its release and its confidential part.
    ``areas``: a list of blocks with areas off the spine. They join the areas that the run knows,
    and the list is kept in ``evaluation/``."""
    directory = RunDirectory(run)
    opened, known = truth_of(run)
    counts = published_of(opened, [u.name for u in opened.after.universes])
    kept = areas_file.read(directory.errors.parent / areas_file.NAME, opened.spine)
    kinds = [*(k for k in opened.areas() if k.kind not in {x.kind for x in kept}), *kept]
    if areas is not None:
        new = area_list.read(areas, opened.spine)
        if new.kind in opened.spine.levels:
            raise InputError(
                f"{new.kind!r} is a level of the spine already",
                where=areas,
                remedy="give the file another name: it is that of the kind of area",
            )
        kinds = [*(k for k in kinds if k.kind != new.kind), new]
        kept = (*(k for k in kept if k.kind != new.kind), new)
        path, private = directory.errors.parent / areas_file.NAME, opened.after.private
        areas_file.write(path, kept, opened.spine, private=private)
    held = AssessmentInput(opened.spine, opened.trees, known, counts, kinds)
    rows = assess(opened.run, directory, held, progress or Silent())
    hold_intervals(opened, directory, known)
    hold_sizes(opened, directory, known, counts)
    return rows


def hold_sizes(
    opened: OpenedRelease,
    directory: RunDirectory,
    known: Mapping[str, TrueHistograms],
    published: Mapping[str, Mapping[str, Histogram]],
) -> None:
    """Write ``sizes.csv``: errors of the persons of the lowest units by size, with the bias that is
    expected of least squares."""
    persons, level = opened.after.persons.name, opened.spine.levels[-1]
    true = known[persons][level].open(REASON).totals()
    counts = published[persons][level].totals()
    rows = size_rows(level, counts, true, expected_size_bias(opened))
    write_sizes(directory, rows, private=opened.after.private)


def write_sizes(directory: RunDirectory, rows: Sequence[SizeRow], *, private: Private) -> None:
    """Write ``sizes.csv``."""
    rows_csv.write_rows(directory.errors.parent / SIZES, SizeRow, rows, private=private)


def hold_intervals(
    opened: OpenedRelease, directory: RunDirectory, known: Mapping[str, TrueHistograms]
) -> list[CoverageRow]:
    """Write ``intervals.csv``: how often the intervals of a release contain the truth. Writes
    nothing if the release has no intervals, or not yet all."""
    from das.release.own_replicates import OwnReplicates  # no run needs it

    tallies: dict[tuple[str, str], CoverageTally] = {}
    source = OwnReplicates.from_release(opened)
    for u, table, level, (value, lower, upper, _) in (
        () if source.unfinished else source.intervals()
    ):
        true = known[u.name][level].open("intervals are held against it, for confidential/ only")
        tally_ = tallies[level, table.name] = CoverageTally()
        for start, stop in opened.spine.batches(level, len(table.columns)):
            here = slice(start, stop)
            tally_.add(table.values(true.rows(start, stop)), value[here], lower[here], upper[here])
    rows = coverage_rows(tallies, opened.spine.levels)
    if rows:
        rows_csv.write_rows(
            directory.errors.parent / INTERVALS, CoverageRow, rows, private=opened.after.private
        )
    return rows


def published_of(
    release: OpenedRelease, universes: Sequence[str]
) -> dict[str, dict[str, Histogram]]:
    """The published counts of every level, by universe, from the microdata of a release."""
    return {
        u.name: release.published(u).upward(release.spine)
        for u in release.after.universes
        if u.name in universes
    }


def truth_of(run: Path) -> tuple[OpenedRelease, dict[str, TrueHistograms]]:
    """The release of a finished run, and its true histograms by universe and level: for results
    that stay confidential."""
    opened = open_release(RunDirectory(run).release)
    return opened, true_counts(run, [u.name for u in opened.after.universes], opened.spine)


def true_counts(run: Path, universes: Sequence[str], spine: Spine) -> dict[str, TrueHistograms]:
    """The true histograms of a finished run of any publication over the tree ``spine``, by universe
    and level: for results that stay confidential."""
    directory = RunDirectory(run)
    directory.read_manifest()
    directory.require_truth()
    lowest = {name: truth.read(directory.truth_of(name).parent) for name in universes}
    return {name: upward(h, spine) for name, h in lowest.items()}
