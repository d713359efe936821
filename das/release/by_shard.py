"""After measurement, of a release that is cut into a trunk and shards (:mod:`das.model.shards`):
from files to files, shard by shard.

    collect (each shard) -> trunk -> [look (each shard)] -> branch (each shard) -> merge

``collect`` says of the trunk's lowest units what is known below them: bounds, and with full
information (or of only children) what the measurements say; of that, what the lowest units say of
those above them is nearly all of the work, and kept for the branch. The trunk is estimated from
what it was told and its own measurements. A ``branch`` goes on from its units of the trunk down to
the lowest level, and writes what is published of it; the trunk's counts of the published tree are
their sums. Only with a prior is something asked in between, for its numbers are found from all
shards (``look``).

No more is in memory than a shard and the trunk. Like :mod:`das.release.post`, nothing here can see
the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.engine import InProcess, Progress
from das.engine.tasks import Answer, Task
from das.errors import PrivacyError
from das.estimate import spreads
from das.estimate.collapse import Collapsed, collapse
from das.estimate.descent import topdown
from das.estimate.estimator import Estimator
from das.estimate.information import Information
from das.estimate.passes import Passes
from das.estimate.pooled import Estate, Pooled
from das.estimate.unbiased import Unbiased
from das.files import atomic, messages
from das.files.messages import named, parted
from das.files.microdata import reading as microdata_reading
from das.files.microdata import writing as microdata
from das.files.release import spine as spine_file
from das.files.release import table_columns
from das.files.release.table_columns import LineColumns
from das.files.run import made, run_directory
from das.geography.known import Invariants
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.prior import Dispersion, HousingPrior, QuerySpreads
from das.model.release import Release
from das.model.solution import Certificates
from das.model.spine import places
from das.model.universe import Universe
from das.release.post import Opened, on_published, open_part, structures, write_estimates
from das.release.residuals import ResidualSums, merged, residual_sums

Messages = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Desk:
    """Where the parts of one release lie: its folder, and beside it what they tell each other while
    they are at work.
    """

    root: Path

    @property
    def release(self) -> Path:
        return self.root / "release"

    @property
    def work(self) -> Path:
        return self.root / "work"

    def told(self, shard: int) -> Path:
        """What a shard says of its units of the trunk."""
        return self.work / "told" / f"{shard:05d}.npz"

    def leaves(self, shard: int) -> Path:
        """With full information: what a shard's lowest units say of those above them, by
        universe.
        """
        return self.work / "leaves" / f"{shard:05d}.npz"

    def trunk(self) -> Path:
        """What is published of the trunk's lowest units, and known of them."""
        return self.work / "trunk.npz"

    def columns(self) -> Path:
        return self.work / "columns.json"

    def prior(self) -> Path:
        return self.work / "prior.json"

    def seen(self, shard: int) -> Path:
        return self.work / "seen" / f"{shard:05d}.npz"

    def published(self, shard: int) -> Path:
        """What is published of a shard's lowest units, by universe."""
        return self.work / "published" / f"{shard:05d}.npz"

    def sums(self, shard: int) -> Path:
        """The same of its units of the trunk."""
        return self.work / "sums" / f"{shard:05d}.npz"

    def microdata(self, u: Universe, shard: int) -> Path:
        return self.work / "microdata" / u.kind.folder / f"{shard:05d}"

    def rows(self, table: str, level: str, shard: int) -> Path:
        """Lines of a published table."""
        return self.work / "tables" / f"{table}_{level}" / f"{shard:05d}.csv"


def tasks(desk: Desk, size: int, stage: str) -> list[Task]:
    """A stage of the run: its partitions are shards that follow each other, as many as have
    ``size`` lowest units together; none of a release that has no shards.
    """
    weights = spine_file.read_sizes(desk.release / "spine.parquet")
    if not weights:
        return []
    out, first, held = [], 1, 0
    for shard, weight in enumerate(weights, 1):
        if held and held + weight > size:
            out.append(_task(desk, stage, first, shard - 1, held))
            first, held = shard, 0
        held += weight
    return [*out, _task(desk, stage, first, len(weights), held)]


def _task(desk: Desk, stage: str, first: int, last: int, weight: int) -> Task:
    return Task(desk.root, stage, f"{first:05d}-{last:05d}", (first, last), weight)


def is_informed(opened: Opened) -> bool:
    return opened.after.method == "full-information"


def shards_of(task: Task) -> range:
    return range(task.shards[0], task.shards[1] + 1)


# --- collect
# -------------------------------------------------------------------------------------------------


def collect(task: Task) -> Answer:
    """What the shards of a partition say of the trunk's lowest units; and which columns of places
    their tables have.
    """
    desk, columns, written = Desk(task.run), [], list[Path]()
    for shard in shards_of(task):
        opened, found, leaves = open_part(desk.release, shard), Messages(), Messages()
        for u in opened.after.universes:
            said, below = _told(opened, u)
            found |= named(u.name, said)
            leaves |= named(u.name, below)
        messages.write(desk.told(shard), found)
        written.append(desk.told(shard))
        if leaves:
            messages.write(desk.leaves(shard), leaves)
            written.append(desk.leaves(shard))
        columns.append(
            {level: asdict(LineColumns.of(opened.spine, level)) for level in opened.spine.levels}
        )
    return {"columns": columns} | made.of(desk.root, written)


def _told(opened: Opened, u: Universe) -> tuple[Messages, Messages]:
    """For the trunk; and for the branch of the same shard."""
    tree, level = opened.tree(u), opened.cut.level
    known, depth = opened.known(u), tree.spine.index(level)
    out: Messages = {
        "codes": tree.spine.codes[depth],
        "lowest": np.array(len(tree.spine.codes[-1])),
    }
    out |= named("known", known.up(u.schema, tree.spine, level).to_arrays())
    bounds, source = known.bounds(u.schema, tree.spine), opened.source(u)
    if is_informed(opened):
        found = collapse(source, tree.spine, bounds, u, to=level)
        return out | named("information", found.below(level).to_arrays()), found.leaves.to_arrays()
    estate = Estate.of(source, tree.spine, bounds, u.schema, level, tree.measured)
    return out | named("estate", estate.to_arrays()), {}


def write_columns(desk: Desk, answers: Sequence[Answer]) -> None:
    """Write down which columns of places the tables of each level have: those that those of some
    shard have.
    """
    found: dict[str, LineColumns] = {}
    for level, said in (
        (lv, LineColumns(**c)) for a in answers for shard in a["columns"] for lv, c in shard.items()
    ):
        found[level] = found.get(level, said).together(said)
    atomic.write_json(desk.columns(), {level: asdict(c) for level, c in found.items()})


# --- trunk
# ---------------------------------------------------------------------------------------------------


def trunk(desk: Desk, opened: Opened, pool: Executor, progress: Progress) -> dict[str, Release]:
    """Estimate and round the trunk; write down what its shards go on from. ``opened`` is the trunk
    of the release. Returns what it is, by universe."""
    told = [messages.read(desk.told(i)) for i in range(1, len(opened.cut) + 1)]
    out, releases, facilities = Messages(), {}, np.zeros(len(told), dtype=np.int64)
    for u in opened.after.universes:
        of_u = [parted(arrays, u.name) for arrays in told]
        tree, level = opened.tree(u), opened.cut.level
        codes = tree.spine.codes[tree.spine.index(level)]
        units = [places(codes, arrays["codes"]) for arrays in of_u]
        known = opened.known(u).with_shards(
            [Invariants.of_arrays(u.schema, parted(a, "known")) for a in of_u], units
        )
        result, unbiased = _estimated(desk, opened, u, known, of_u, units, pool, progress)
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
    messages.write(desk.trunk(), out)
    return releases


def _estimated(
    desk: Desk,
    opened: Opened,
    u: Universe,
    known: Invariants,
    told: Sequence[Messages],
    units: Sequence[NDArray[np.int64]],
    pool: Executor,
    progress: Progress,
) -> tuple[Release, Unbiased | None]:
    """The trunk of one universe; with full information also what all measurements say of its lowest
    units.
    """
    tree, source, after = opened.tree(u), opened.source(u), opened.after
    bounds, method = known.bounds(u.schema, tree.spine), Passes(u.passes, after.tolerance)
    if not is_informed(opened):
        estate = Estate.gathered([Estate.of_arrays(parted(a, "estate")) for a in told], units)
        pooled = Pooled.of(source, tree.spine, bounds, u.schema, tree.measured, estate=estate)
        return topdown(pooled, tree.spine, bounds, u, method, pool, progress), None
    below = Information.concatenate([Information.of_arrays(parted(a, "information")) for a in told])
    order = np.argsort(np.concatenate(units))
    found = collapse(
        source, tree.spine, bounds, u, pool, progress, told=below.rows(order), asked=opened.asked(u)
    )
    result = topdown(
        source, tree.spine, bounds, u, found.estimator(method, after.tolerance), pool, progress
    )
    write_estimates(found, u, desk.release, private=after.private)
    *_, (_, lowest) = found.down()
    return result, lowest


# --- branches
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Given:
    """What a branch of one universe goes on from, of its units of the trunk: ``first`` is the
    number of its first record, of all ``records``; the tree has ``lowest`` units. ``leaves``:
    :meth:`Desk.leaves`."""

    counts: Histogram
    first: int
    records: int
    lowest: int
    unbiased: Unbiased | None
    leaves: Path

    @staticmethod
    def of(desk: Desk, opened: Opened, u: Universe, shard: int) -> _Given:
        arrays, spine = parted(messages.read(desk.trunk()), u.name), opened.tree(u).spine
        at = places(arrays["codes"], spine.codes[spine.index(opened.cut.level)])
        unbiased = parted(arrays, "unbiased")
        first = arrays["first"]
        return _Given(
            Histogram.of_arrays(parted(arrays, "counts")).some(at),
            int(first[shard - 1]),
            int(first[-1]),
            int(arrays["lowest"]),
            Unbiased.of_arrays(unbiased).rows(at) if unbiased else None,
            desk.leaves(shard),
        )


def look(task: Task) -> Answer:
    """What the shards of a partition see of the spreads of a prior at the lowest level
    (:mod:`das.estimate.spreads`).
    """
    desk = Desk(task.run)
    for shard in shards_of(task):
        opened = open_part(desk.release, shard)
        u, (above, lowest) = opened.after.persons, opened.spine.levels[-2:]
        given = _Given.of(desk, opened, u, shard)
        result = _descended(opened, u, given, to=above)[0]
        bounds, source = opened.known(u).bounds(u.schema, opened.tree(u).spine), opened.source(u)
        seen = spreads.look(
            source,
            opened.tree(u).spine,
            bounds[lowest],
            u,
            result.histograms[above],
            InProcess(),
            lowest=given.lowest,
        )
        messages.write(desk.seen(shard), seen.to_arrays())
    return made.of(desk.root, map(desk.seen, shards_of(task)))


def find_prior(desk: Desk, opened: Opened) -> HousingPrior:
    """From what all shards have seen."""
    u, lowest = opened.after.persons, open_part(desk.release, 1)
    seen = [
        spreads.Seen.of_arrays(messages.read(desk.seen(i))) for i in range(1, len(opened.cut) + 1)
    ]
    prior = spreads.found(u, lowest.source(u).queries(lowest.spine.levels[-1]), seen)
    atomic.write_json(desk.prior(), {"spreads": [asdict(s) for s in prior.spreads]})
    return prior


def _prior(desk: Desk, opened: Opened, u: Universe) -> HousingPrior | None:
    if opened.after.prior == "none" or u != opened.after.persons:
        return None
    return HousingPrior(
        tuple(
            QuerySpreads(
                s["query"],
                Dispersion(**s["common"]),
                {int(a): Dispersion(**d) for a, d in s["own"].items()},
                s["seen"],
            )
            for s in run_directory.read_json(desk.prior())["spreads"]
        )
    )


def branch(task: Task) -> Answer:
    """Estimate and round the shards of a partition, and write what is published of them."""
    desk, said, written = Desk(task.run), [], list[Path]()
    for shard in shards_of(task):
        opened = open_part(desk.release, shard)
        counts, sums, found = Messages(), Messages(), []
        for u in opened.after.universes:
            given = _Given.of(desk, opened, u, shard)
            result, known = _descended(opened, u, given, _prior(desk, opened, u))
            if known is not None:
                write_estimates(
                    known,
                    u,
                    desk.release,
                    given.unbiased,
                    shard=shard,
                    private=opened.after.private,
                )
            published = _publish(desk, opened, u, result, given, shard)
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
        messages.write(desk.published(shard), counts)
        messages.write(desk.sums(shard), sums)
        said.append(found)
        written += _made(desk, opened, shard)
    return {"shards": said} | made.of(desk.root, written)


def _made(desk: Desk, opened: Opened, shard: int) -> list[Path]:
    """What a branch leaves of a shard."""
    out = [desk.published(shard), desk.sums(shard)]
    for u in opened.after.universes:
        out.append(desk.microdata(u, shard))
        if opened.after.tables:
            out += [
                desk.rows(t.name, level, shard)
                for t in tables.of(u, opened.assigned(u.name))
                for level in opened.levels
            ]
    return out


def _descended(
    opened: Opened,
    u: Universe,
    given: _Given,
    prior: HousingPrior | None = None,
    to: str | None = None,
) -> tuple[Release, Collapsed | None]:
    """The descent below the trunk; with full information also what is known of its levels."""
    tree, after, level = opened.tree(u), opened.after, opened.cut.level
    source: MeasurementSource = opened.source(u)
    bounds, known = opened.known(u).bounds(u.schema, tree.spine), None
    method: Estimator = Passes(u.passes, after.tolerance)
    if is_informed(opened):
        leaves = Information.of_arrays(parted(messages.read(given.leaves), u.name))
        known = collapse(
            source, tree.spine, bounds, u, leaves=leaves, to=level, asked=opened.asked(u)
        )
        method = known.estimator(method, after.tolerance)
    else:
        source = Pooled.of(source, tree.spine, bounds, u.schema, tree.measured, under=level)
    result = topdown(
        source,
        tree.spine,
        bounds,
        u,
        method,
        housing_prior=prior or False,
        published={level: given.counts},
        to=to,
    )
    return result, known


def _publish(
    desk: Desk, opened: Opened, u: Universe, result: Release, given: _Given, shard: int
) -> Mapping[str, Histogram]:
    """Write a shard's microdata and lines of tables. Returns what was published, level by level of
    the published spine.
    """
    spine, after = opened.spine, opened.after
    histograms, codes = on_published(opened, u, result), spine.codes[-1]
    folder, lowest = desk.microdata(u, shard), histograms[spine.levels[-1]]
    part = microdata.MicrodataPart(shard, given.first, given.records)
    facilities = structures(opened) if u.microdata.facilities else None
    microdata.write_part(
        folder,
        part,
        lowest,
        codes,
        u,
        structures=facilities,
        build=after.name,
        private=after.private,
    )
    if not microdata_reading.read(folder, u, codes, part).same_as(lowest):
        raise PrivacyError(
            "the microdata do not tabulate to the histogram they were made from", where=folder
        )
    if after.tables:
        _write_lines(desk, opened, u, histograms, shard)
    return histograms


def _write_lines(
    desk: Desk, opened: Opened, u: Universe, histograms: Mapping[str, Histogram], part: int
) -> None:
    """The lines of a part in its tables."""
    every = tables.of(u, opened.assigned(u.name))
    for level in opened.levels:
        columns = LineColumns.read(desk.columns(), level)
        for table in every:
            table_columns.write_lines(
                desk.rows(table.name, level, part),
                table,
                opened.spine,
                level,
                columns,
                histograms[level],
                opened.after.private,
            )


# --- merge
# ---------------------------------------------------------------------------------------------------


def sums(desk: Desk, opened: Opened, u: Universe) -> dict[str, Histogram]:
    """What is published of the trunk's levels: the sums of what is published of the shards."""
    level, shards = opened.cut.level, range(1, len(opened.cut) + 1)
    parts = [Histogram.of_arrays(parted(messages.read(desk.sums(i)), u.name)) for i in shards]
    return Histogram.concatenate(parts).upward(opened.spine.truncated(level))


def certificates(
    answers: Sequence[Answer], trunk: Mapping[str, Release]
) -> dict[str, dict[str, Certificates]]:
    """The worst of each level, by universe."""
    out = {name: dict(release.certificates) for name, release in trunk.items()}
    for found in (f for answer in answers for shard in answer["shards"] for f in shard):
        of_u = out[found["universe"]]
        for level, c in found["certificates"].items():
            of_u[level] = of_u.get(level, Certificates()).merge(Certificates.of(c))
    return out


def residuals(
    opened: Opened, answers: Sequence[Answer], trunk: Mapping[str, Release]
) -> list[ResidualSums]:
    """Of all parts, the trunk first."""
    own = [
        r
        for u in opened.after.universes
        for r in residual_sums(
            u, opened.source(u), {lv: trunk[u.name].histograms[lv] for lv in opened.levels}
        )
    ]
    return merged(
        [
            *own,
            *(
                ResidualSums(**r)
                for a in answers
                for shard in a["shards"]
                for f in shard
                for r in f["residuals"]
            ),
        ]
    )


def merge(
    desk: Desk, opened: Opened, published: Mapping[str, Mapping[str, Histogram]], progress: Progress
) -> None:
    """The parts of what is published, as whole files and folders."""
    after, shards = opened.after, range(1, len(opened.cut) + 1)
    below = open_part(desk.release, 1)
    for u in after.universes:
        folder = desk.release / "microdata" / u.kind.folder
        progress.stage(f"microdata: {u.name}", None)
        microdata.publish_parts(
            (desk.microdata(u, i) for i in shards), folder, csv=after.csv, private=after.private
        )
        if not after.tables:
            continue
        progress.stage(f"tables: {u.name}", len(below.spine))
        _write_lines(desk, opened, u, published[u.name], 0)
        every = tables.of(u, opened.assigned(u.name))
        for level in below.spine.levels:
            columns, numbers = (
                LineColumns.read(desk.columns(), level),
                [0] if level in opened.levels else shards,
            )
            for table in every:
                table_columns.join(
                    desk.release / "tables" / f"{table.name}_{level}.csv",
                    table,
                    columns,
                    after.private,
                    (desk.rows(table.name, level, i) for i in numbers),
                )
            progress.advance()
