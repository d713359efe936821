"""After measurement, of a release that is cut into an upper tree and subtrees
(:mod:`das.model.measured_spine`): from files to files, subtree by subtree.

    collect (each subtree) -> upper tree -> [disperse (each subtree)] -> subtrees (each subtree) ->
    merge

``collect`` returns what is known below the upper tree's lowest units. That is bounds and, with full
information (or for only children), what the measurements say. The work of this upward pass is
nearly all of the work of estimation, and the result is kept for it. The upper tree is estimated
from these results and its own measurements. Each subtree continues from its units of the upper tree
down to the lowest level, and writes its published files. The upper tree's counts of the published
tree are their sums. Only a correction of the size bias needs a step in between (``look``), because its numbers are
estimated from all subtrees.

No more is in memory than a subtree and the upper tree. Like :mod:`das.release.post_processing`, nothing here
can see the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.engine import InProcess, Progress
from das.engine.tasks import Answer, Task
from das.errors import PrivacyError
from das.estimate import size_bias
from das.estimate.descent import topdown
from das.estimate.family import Estimator
from das.estimate.information import Information
from das.estimate.passes import Passes
from das.estimate.pooled import DescendantMeasurements, PooledSource
from das.estimate.summed import Unbiased
from das.estimate.upward_pass import SubtreeEstimates, upward_pass
from das.files import atomic, messages
from das.files.messages import named, parted
from das.files.microdata import reading as microdata_reading
from das.files.microdata import writing as microdata
from das.files.release import tables as table_columns
from das.files.release.tables import LineColumns
from das.files.run import task_store
from das.geography.invariants import Invariants
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.post_processing import BiasCorrection
from das.model.release import Release
from das.model.solution import Certificates
from das.model.spine import places
from das.model.universe import Universe
from das.release.opened import OpenedRelease, open_part
from das.release.post_processing import on_published, structures, write_estimates
from das.release.precision import ResidualSums, merged, residual_sums
from das.release.prior_document import Messages, WorkFiles, stored_correction, subtrees_of

# What the subtrees of a release have made, put together: whole files, sums, certificates.
#
# Nothing here can see the truth.


def _write_lines(
    work: WorkFiles,
    opened: OpenedRelease,
    universe: Universe,
    histograms: Mapping[str, Histogram],
    part: int,
) -> None:
    """The lines of a part in its tables."""
    every = tables.universe_tables(universe, opened.assigned(universe.name))
    for level in opened.levels:
        columns = LineColumns.read(work.columns(), level)
        for table in every:
            table_columns.write_columns(
                work.rows(table.name, level, part),
                table,
                opened.spine,
                level,
                columns,
                histograms[level],
                opened.after.private,
            )


def sums(work: WorkFiles, opened: OpenedRelease, universe: Universe) -> dict[str, Histogram]:
    """Published counts of the upper tree's levels: the sums of those of the subtrees."""
    level, subtrees = opened.cut.level, range(1, len(opened.cut) + 1)
    parts = [
        Histogram.of_arrays(parted(messages.read(work.sums(i)), universe.name)) for i in subtrees
    ]
    return Histogram.concatenate(parts).upward(opened.spine.truncated(level))


def certificates(
    answers: Sequence[Answer], upper_tree: Mapping[str, Release]
) -> dict[str, dict[str, Certificates]]:
    """The worst of each level, by universe."""
    out = {name: dict(release.certificates) for name, release in upper_tree.items()}
    for found in (f for answer in answers for subtree in answer["subtrees"] for f in subtree):
        of_u = out[found["universe"]]
        for level, c in found["certificates"].items():
            of_u[level] = of_u.get(level, Certificates()).merge(Certificates.from_dicts(c))
    return out


def residuals(
    opened: OpenedRelease, answers: Sequence[Answer], upper_tree: Mapping[str, Release]
) -> list[ResidualSums]:
    """The residuals of all parts, the upper tree first."""
    own = [
        r
        for u in opened.after.universes
        for r in residual_sums(
            u, opened.source(u), {lv: upper_tree[u.name].histograms[lv] for lv in opened.levels}
        )
    ]
    return merged(
        [
            *own,
            *(
                ResidualSums(**r)
                for a in answers
                for subtree in a["subtrees"]
                for f in subtree
                for r in f["residuals"]
            ),
        ]
    )


def merge(
    work: WorkFiles,
    opened: OpenedRelease,
    published: Mapping[str, Mapping[str, Histogram]],
    progress: Progress,
) -> None:
    """Join the parts of the published files into whole files and folders."""
    after, subtrees = opened.after, range(1, len(opened.cut) + 1)
    below = open_part(work.release, 1)
    for u in after.universes:
        folder = work.release / "microdata" / u.kind.folder
        progress.stage(f"microdata: {u.name}", None)
        microdata.publish_parts(
            (work.microdata(u, i) for i in subtrees), folder, csv=after.csv, private=after.private
        )
        if not after.tables:
            continue
        progress.stage(f"tables: {u.name}", len(below.spine))
        _write_lines(work, opened, u, published[u.name], 0)
        every = tables.universe_tables(u, opened.assigned(u.name))
        for level in below.spine.levels:
            columns = LineColumns.read(work.columns(), level)
            numbers = [0] if level in opened.levels else subtrees
            for table in every:
                table_columns.join(
                    work.release / "tables" / f"{table.name}_{level}.csv",
                    table,
                    columns,
                    after.private,
                    (work.rows(table.name, level, i) for i in numbers),
                )
            progress.advance()


def is_informed(opened: OpenedRelease) -> bool:
    return opened.after.method == "full-information"


# --- collect


def collect(task: Task) -> Answer:
    """What the subtrees of a partition know about the upper tree's lowest units; and which columns
    of places their tables have."""
    work, columns, written = WorkFiles(task.run), [], list[Path]()
    for subtree in subtrees_of(task):
        opened, found, leaves = open_part(work.release, subtree), Messages(), Messages()
        for u in opened.after.universes:
            said, below = _told(opened, u)
            found |= named(u.name, said)
            leaves |= named(u.name, below)
        messages.write(work.messages(subtree), found)
        written.append(work.messages(subtree))
        if leaves:
            messages.write(work.leaves(subtree), leaves)
            written.append(work.leaves(subtree))
        columns.append(
            {
                level: asdict(LineColumns.for_level(opened.spine, level))
                for level in opened.spine.levels
            }
        )
    return {"columns": columns} | task_store.digests_made(work.root, written)


def _told(opened: OpenedRelease, universe: Universe) -> tuple[Messages, Messages]:
    """For the upper tree; and for estimating the same subtree."""
    tree, level = opened.tree(universe), opened.cut.level
    known, depth = opened.known(universe), tree.spine.index(level)
    out: Messages = {
        "codes": tree.spine.codes[depth],
        "lowest": np.array(len(tree.spine.codes[-1])),
    }
    out |= named("known", known.up(universe.schema, tree.spine, level).to_arrays())
    bounds, source = known.bounds(universe.schema, tree.spine), opened.source(universe)
    if is_informed(opened):
        found = upward_pass(source, tree.spine, bounds, universe, to=level)
        return out | named("information", found.below(level).to_arrays()), found.leaves.to_arrays()
    handed_up = DescendantMeasurements.below_level(
        source, tree.spine, bounds, universe.schema, level, tree.measured
    )
    return out | named("descendants", handed_up.to_arrays()), {}


def write_columns(work: WorkFiles, answers: Sequence[Answer]) -> None:
    """Write down which columns of places the tables of each level have: those that those of some
    subtree have."""
    found: dict[str, LineColumns] = {}
    for level, said in (
        (lv, LineColumns(**c))
        for a in answers
        for subtree in a["columns"]
        for lv, c in subtree.items()
    ):
        found[level] = found.get(level, said).union(said)
    atomic.write_json(work.columns(), {level: asdict(c) for level, c in found.items()})


# --- upper tree


def upper_tree(
    work: WorkFiles, opened: OpenedRelease, pool: Executor, progress: Progress
) -> dict[str, Release]:
    """Estimate and round the upper tree; write down what its subtrees go on from. ``opened`` is the
    upper tree of the release. Returns what it is, by universe."""
    told = [messages.read(work.messages(i)) for i in range(1, len(opened.cut) + 1)]
    out, releases, facilities = Messages(), {}, np.zeros(len(told), dtype=np.int64)
    for u in opened.after.universes:
        of_u = [parted(arrays, u.name) for arrays in told]
        tree, level = opened.tree(u), opened.cut.level
        codes = tree.spine.codes[tree.spine.index(level)]
        units = [places(codes, arrays["codes"]) for arrays in of_u]
        known = opened.known(u).with_subtrees(
            [Invariants.of_arrays(u.schema, parted(a, "known")) for a in of_u], units
        )
        result, unbiased = _estimated(work, opened, u, known, of_u, units, pool, progress)
        releases[u.name], h = result, result.histograms[level]
        out |= named(u.name, {"codes": codes, **named("counts", h.to_arrays())})
        if unbiased is not None:
            out |= named(u.name, named("unbiased", unbiased.to_arrays()))
        if u is opened.after.persons and u.schema.dwelling is not None and known.limits is not None:
            lower = known.limits.some(slice(None))[0][:, 1:].sum(axis=1)
            facilities = np.array([lower[here].sum() for here in units])
        records = np.array([h.totals()[here].sum() for here in units])
        if u.microdata.facilities:
            records = records + facilities
        out |= named(
            u.name,
            {
                "first": np.concatenate([[0], np.cumsum(records)]),
                "lowest": np.sum([a["lowest"] for a in of_u]),
            },
        )
    messages.write(work.upper_tree(), out)
    return releases


def _estimated(
    work: WorkFiles,
    opened: OpenedRelease,
    universe: Universe,
    known: Invariants,
    told: Sequence[Messages],
    units: Sequence[NDArray[np.int64]],
    pool: Executor,
    progress: Progress,
) -> tuple[Release, Unbiased | None]:
    """The estimate of the upper tree of one universe; with full information, also what all
    measurements say about its lowest units."""
    tree, source, after = opened.tree(universe), opened.source(universe), opened.after
    bounds = known.bounds(universe.schema, tree.spine)
    method = Passes(universe.passes, after.tolerance)
    if not is_informed(opened):
        handed_up = DescendantMeasurements.gathered(
            [DescendantMeasurements.of_arrays(parted(a, "descendants")) for a in told], units
        )
        pooled = PooledSource.over_chains(
            source, tree.spine, bounds, universe.schema, tree.measured, handed_up=handed_up
        )
        return topdown(pooled, tree.spine, bounds, universe, method, pool, progress), None
    below = Information.concatenate([Information.of_arrays(parted(a, "information")) for a in told])
    order = np.argsort(np.concatenate(units))
    found = upward_pass(
        source,
        tree.spine,
        bounds,
        universe,
        pool,
        progress,
        told=below.rows(order),
        asked=opened.queries_by_level(universe),
    )
    estimator = found.estimator(method, after.tolerance)
    result = topdown(source, tree.spine, bounds, universe, estimator, pool, progress)
    write_estimates(found, universe, work.release, private=after.private)
    *_, (_, lowest) = found.down()
    return result, lowest


# --- subtrees


@dataclass(frozen=True, eq=False)
class _Given:
    """What the estimation of one universe of a subtree starts from, for its units of the upper
    tree.

    ``first`` is the number of its first record, out of ``records``; the tree has ``lowest`` units.
    ``leaves``: :meth:`WorkFiles.leaves`."""

    counts: Histogram
    first: int
    records: int
    lowest: int
    unbiased: Unbiased | None
    leaves: Path

    @staticmethod
    def for_subtree(
        work: WorkFiles, opened: OpenedRelease, universe: Universe, subtree: int
    ) -> _Given:
        arrays = parted(messages.read(work.upper_tree()), universe.name)
        spine = opened.tree(universe).spine
        at = places(arrays["codes"], spine.codes[spine.index(opened.cut.level)])
        unbiased = parted(arrays, "unbiased")
        first = arrays["first"]
        return _Given(
            Histogram.of_arrays(parted(arrays, "counts")).some(at),
            int(first[subtree - 1]),
            int(first[-1]),
            int(arrays["lowest"]),
            Unbiased.of_arrays(unbiased).rows(at) if unbiased else None,
            work.leaves(subtree),
        )


def disperse(task: Task) -> Answer:
    """What the subtrees of a partition see of the spread of households at the lowest level
    (:mod:`das.estimate.size_bias`)."""
    work = WorkFiles(task.run)
    for subtree in subtrees_of(task):
        opened = open_part(work.release, subtree)
        u, (above, lowest) = opened.after.persons, opened.spine.levels[-2:]
        given = _Given.for_subtree(work, opened, u, subtree)
        result = _descended(opened, u, given, to=above)[0]
        bounds, source = opened.known(u).bounds(u.schema, opened.tree(u).spine), opened.source(u)
        seen = size_bias.sample_households(
            source,
            opened.tree(u).spine,
            bounds[lowest],
            u,
            result.histograms[above],
            InProcess(),
            lowest=given.lowest,
        )
        messages.write(work.seen(subtree), seen.to_arrays())
    return task_store.digests_made(work.root, map(work.seen, subtrees_of(task)))


def estimate_subtrees(task: Task) -> Answer:
    """Estimate and round the subtrees of a partition, and write what is published of them."""
    work, said, written = WorkFiles(task.run), [], list[Path]()
    for subtree in subtrees_of(task):
        opened = open_part(work.release, subtree)
        counts, sums, found = Messages(), Messages(), []
        for u in opened.after.universes:
            given = _Given.for_subtree(work, opened, u, subtree)
            result, known = _descended(opened, u, given, stored_correction(work, opened, u))
            if known is not None:
                write_estimates(
                    known,
                    u,
                    work.release,
                    given.unbiased,
                    subtree=subtree,
                    private=opened.after.private,
                )
            published = _publish(work, opened, u, result, given, subtree)
            counts |= named(u.name, published[opened.spine.levels[-1]].to_arrays())
            sums |= named(u.name, published[opened.cut.level].to_arrays())
            own = {level: result.histograms[level] for level in opened.levels}
            found.append(
                {
                    "universe": u.name,
                    "certificates": {lv: asdict(result.certificates[lv]) for lv in opened.levels},
                    "residuals": [asdict(r) for r in residual_sums(u, opened.source(u), own)],
                }
            )
        messages.write(work.published(subtree), counts)
        messages.write(work.sums(subtree), sums)
        said.append(found)
        written += _made(work, opened, subtree)
    return {"subtrees": said} | task_store.digests_made(work.root, written)


def _made(work: WorkFiles, opened: OpenedRelease, subtree: int) -> list[Path]:
    """What estimating leaves of a subtree."""
    out = [work.published(subtree), work.sums(subtree)]
    for u in opened.after.universes:
        out.append(work.microdata(u, subtree))
        if opened.after.tables:
            out += [
                work.rows(t.name, level, subtree)
                for t in tables.universe_tables(u, opened.assigned(u.name))
                for level in opened.levels
            ]
    return out


def _descended(
    opened: OpenedRelease,
    universe: Universe,
    given: _Given,
    correction: BiasCorrection | None = None,
    to: str | None = None,
) -> tuple[Release, SubtreeEstimates | None]:
    """The descent below the upper tree; with full information also what is known of its levels."""
    tree, after, level = opened.tree(universe), opened.after, opened.cut.level
    source: MeasurementSource = opened.source(universe)
    bounds, known = opened.known(universe).bounds(universe.schema, tree.spine), None
    method: Estimator = Passes(universe.passes, after.tolerance)
    if is_informed(opened):
        leaves = Information.of_arrays(parted(messages.read(given.leaves), universe.name))
        known = upward_pass(
            source,
            tree.spine,
            bounds,
            universe,
            leaves=leaves,
            to=level,
            asked=opened.queries_by_level(universe),
        )
        method = known.estimator(method, after.tolerance)
    else:
        source = PooledSource.over_chains(
            source, tree.spine, bounds, universe.schema, tree.measured, under=level
        )
    result = topdown(
        source,
        tree.spine,
        bounds,
        universe,
        method,
        correct=correction or False,
        published={level: given.counts},
        to=to,
    )
    return result, known


def _publish(
    work: WorkFiles,
    opened: OpenedRelease,
    universe: Universe,
    result: Release,
    given: _Given,
    subtree: int,
) -> Mapping[str, Histogram]:
    """Write a subtree's microdata and lines of tables. Returns what was published, level by level
    of the published spine."""
    spine, after = opened.spine, opened.after
    histograms, codes = on_published(opened, universe, result), spine.codes[-1]
    folder, lowest = work.microdata(universe, subtree), histograms[spine.levels[-1]]
    part = microdata.MicrodataPart(subtree, given.first, given.records)
    facilities = structures(opened) if universe.microdata.facilities else None
    microdata.write_part(
        folder,
        part,
        lowest,
        codes,
        universe,
        structures=facilities,
        build=after.name,
        private=after.private,
    )
    if not microdata_reading.read(folder, universe, codes, part).same_as(lowest):
        raise PrivacyError(
            "the microdata do not tabulate to the histogram that they were made from", where=folder
        )
    if after.tables:
        _write_lines(work, opened, universe, histograms, subtree)
    return histograms


# --- merge
