"""The DHC: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import Invariant, Line, Statement
from das.errors import InputError
from das.files.run import run_directory
from das.files.run.ledger import digests
from das.model.ledger import Event, RedundantMeasurement, RedundantMeasurements, open_answers
from das.model.mechanisms import MECHANISMS
from das.model.names import BESIDE, text
from das.model.spelling import named
from das.model.spelling import product as spelt
from das.model.spine import Spine
from das.publications.dhc.spec import DhcSpec, DhcUniverse
from das.release.publications import (
    DRAWN,
    PublicHalf,
    Recomputation,
    Rerun,
    RowColumns,
    RowOptions,
    spread,
)

if TYPE_CHECKING:
    from das.estimate.outer import OuterEstimates
    from das.publications.dhc.files.on_demand import OnDemandReader
    from das.publications.dhc.release import OpenedDhc
    from das.release.replicate_source import ReleaseSource
    from das.release.seal import Wording
    from das.size import Size

# What was measured on demand, as columns: a row for each answer that was looked at.
#
# Like ``das.release.post_processing``, nothing here can see the truth.


class MeasuredOnDemand(Protocol):
    """A specification of what is measured on demand."""

    @property
    def universes(self) -> Sequence[DhcUniverse]: ...


class OnDemandRelease(Protocol):
    """A release with what was measured on demand of some universes."""

    @property
    def folder(self) -> Path: ...

    @property
    def spec(self) -> MeasuredOnDemand: ...

    def measured(self, universe: DhcUniverse) -> Spine:
        """The spine that a universe is measured over."""

    def geocodes(self, universe: DhcUniverse) -> str:
        """Where the codes of its units are listed."""

    def source(self, universe: DhcUniverse) -> OnDemandReader:
        """The answers of a universe."""


def summary(opened: OnDemandRelease, asked: RowOptions) -> list[dict[str, Any]]:
    """One row for each universe, level and query: the units, the answers of each, and how many of
    all were looked at; their variance, and the smallest and largest."""
    names = [u.name for u in opened.spec.universes]
    wanted = names if asked.universe is None else [asked.among(names)]
    out = []
    for u in opened.spec.universes:
        source = opened.source(u)
        for level in opened.measured(u).levels if u.name in wanted else ():
            for query in source.queries(level):
                m = source.read(level, query)
                units = int(np.isfinite(m.variance).sum())
                row = {"universe": u.name, "level": level, "query": query, "units": units}
                row |= {"answers": m.cells, "looked at": len(m.at), "of": units * m.cells}
                out.append(row | spread(m.variance[np.isfinite(m.variance)], m.values))
    return out


def rows(opened: OnDemandRelease, asked: RowOptions) -> Any:
    """A row for each answer that was looked at; rows of constraints are in files as any."""
    name = asked.among([u.name for u in opened.spec.universes])
    u = next(u for u in opened.spec.universes if u.name == name)
    if asked.kind != DRAWN:
        from das.files.measurements import frame  # with pandas, which a run does without

        root = run_directory.nmf_folder(opened.folder, u.name)
        wanted = (asked.level, asked.query, asked.geocodes or None)
        return frame.read_nmf(root, *wanted, tidy=asked.tidy, schema=u.schema, kind=asked.kind)
    asked.refuse_lists(opened.folder)
    levels = list(opened.measured(u).levels)
    levels = levels if asked.level is None else [named(asked.level, levels, "level", "--level")]
    parts = []
    for level in levels:
        known = opened.source(u).queries(level)
        queries = known if asked.query is None else [spelt(asked.query, known, "--query")]
        units = _units(opened.measured(u), level, asked)
        parts += [_of_query(opened, u, level, query, units) for query in queries if len(units)]
    if not parts:
        raise InputError(
            f"no place {', '.join(asked.geocodes)}", where="--geocode", remedy=opened.geocodes(u)
        )
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _units(spine: Spine, level: str, asked: RowOptions) -> NDArray[np.int64]:
    codes = text(spine.codes[spine.index(level)])
    if not asked.geocodes:
        return np.arange(len(codes))
    return np.flatnonzero(np.isin(codes, asked.geocodes))


def _of_query(
    opened: OnDemandRelease, universe: DhcUniverse, level: str, query: str, units: NDArray[np.int64]
) -> RowColumns:
    m = opened.source(universe).read(level, query)
    q = universe.schema.query(query)
    spine = opened.measured(universe)
    unit, cell = np.divmod(m.at, m.cells)
    here = np.isin(unit, units)
    unit, cell, values = unit[here], cell[here], m.values[here]
    out: RowColumns = {
        "level": np.full(len(unit), level, dtype=object),
        "geocode": text(spine.codes[spine.index(level)])[unit].astype(object),
        "query": np.full(len(unit), query, dtype=object),
    }
    shape = [len(g.groups) for g in q.groupings]
    at, words = np.unravel_index(cell, shape), []
    for attribute, g, i in zip(universe.schema.attributes, q.groupings, at, strict=True):
        out[attribute.name] = np.array(g.groups, dtype=object)[i]
        if not g.is_total:
            words.append(np.array(g.labels, dtype=object)[i])
    labels = words[0] if words else np.full(len(unit), q.words.total, dtype=object)
    for more in words[1:]:
        labels = labels + BESIDE + more
    return out | {"label": labels, "value": values, "variance": m.variance[unit]}


_NEEDED = ("ledger.jsonl", "spec.toml", "spine.parquet")
_SHARES = (
    "give the rho of each query in budget.queries, or multiply production's budgets:"
    " budget.persons, .units, .households. `das sweep --times` shows what that buys"
)
#: Answers of the finest counts that are held fixed: no query with more follows from them.
_MOST_KNOWN = 2016
_AREAS = (
    "totals of areas are those of the redistricting release: plan its configuration. For ages in"
    " areas, set geography.targets here, too (docs/how-to/areas.md)"
)


# What reads, verifies or makes a release is loaded then: what reads a configuration does without.


class PublicDhc(PublicHalf):
    title = "the DHC"
    optimized_from: Literal["tree", "release"] = "release"
    cannot: Mapping[str, str] = {
        "plan --margin": _SHARES,
        "plan --areas": _AREAS,
        "plan --page": (
            "its schemas have a million cells, too many for a page: `das plan --optimize` shows what"
            " shares buy"
        ),
        "estimate --set": "only the answers that its estimation requested are known: leave it out",
        "risk": (
            "models of an intruder need counts that were measured whole: use `das risk report` on"
            " the redistricting release, and `das plan` for the noise of each answer here"
        ),
        "arrays": (
            "its schemas of a million cells cannot be drawn whole: benchmarks/dhc.py, in a clone,"
            " measures a universe on demand from arrays"
        ),
    }
    needed: Sequence[str] = _NEEDED
    recounted = "; microdata, tables and exact counts, which agree"

    def outlook(self, spec: DhcSpec) -> tuple[Sequence[Size], RedundantMeasurements]:
        return (), [(u, m) for u in spec.universes for m in _redundant(u, spec)]

    def opened(self, release: Path) -> OpenedDhc:
        from das.publications.dhc.release import open_dhc

        return open_dhc(release)

    def source(self, release: Path) -> ReleaseSource:
        from das.publications.dhc.replicates import DhcReplicates

        return DhcReplicates.from_release(self.opened(release))

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        opened, asked = _asked(path, asked)
        return summary(opened, asked)

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return rows(*_asked(path, asked))

    def planned(self, release: Path) -> tuple[DhcSpec, Mapping[str, Sequence[Event]]]:
        opened = self.opened(release)
        return opened.spec, {
            u.name: [e for level in opened.spine.levels for e in opened.events(u, level)]
            for u in opened.spec.universes
        }

    def notes(self, spec: DhcSpec) -> tuple[str, ...]:
        return spec.notes

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        from das.publications.dhc import verification

        verification.check_files(self.opened(release), MECHANISMS[said.mechanism], said.ledger)
        return said.ledger

    def check_layout(self, release: Path) -> None:
        from das.release.verify.sealed import check_layout

        opened = self.opened(release)
        check_layout(release, [u.name for u in opened.spec.universes], opened.spine.levels)

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        from das.publications.dhc import publishing, verification
        from das.release.verify.sealed import check_dictionary, check_places

        opened = self.opened(release)
        check_places(opened.trees, release)
        verification.check_counts(opened, wording.said)
        check_dictionary(release, wording, publishing.text(opened))
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        from das.publications.dhc import verification

        verification.check_published(self.opened(release), wording)

    def again(self, rerun: Rerun) -> Recomputation:
        from das.engine import executor
        from das.files.release import statement
        from das.publications.dhc.files import fixed_counts
        from das.publications.dhc.publishing import cost, link_run, publish
        from das.publications.dhc.release import SPEC
        from das.release.estimating import certificates_json
        from das.release.seal import seal

        release, into = rerun.release, rerun.into.release
        opened, privacy = self.opened(release), statement.read(release)
        also = [SPEC, *(fixed_counts.name(name) for name in opened.fixed)]
        statement.adopt(release, into, also)
        statement.check_taken(release, digests(into), privacy, opened.spec.run.private)
        name = opened.spec.run.name
        privacy = seal(into, privacy, name)  # the page of the release refers to its page
        done: dict[str, OuterEstimates] = {}
        with rerun.stages("estimate"), executor(rerun.workers) as pool:
            for u in opened.spec.universes:
                done[u.name] = opened.estimate(u, opened.source(u), done, pool, rerun.progress)
        publish(replace(opened, folder=into), done, privacy, rerun.stages, rerun.progress)
        link_run(
            rerun.into,
            opened.spec.link,
            workers=rerun.workers,
            stages=rerun.stages,
            progress=rerun.progress,
        )
        certificates = certificates_json({u: e.certificates for u, e in done.items()})
        said = {"certificates": certificates}
        return Recomputation(
            name, opened.spec.digest, opened.spec.run.private, said, cost=cost(privacy)
        )


def _redundant(universe: DhcUniverse, spec: DhcSpec) -> Iterator[RedundantMeasurement]:
    """What follows from the counts that are held fixed in each lowest unit, at any level."""
    small = dict.fromkeys(
        d.query
        for d in universe.plan.plain
        if universe.schema.query(d.query).answers <= _MOST_KNOWN
    )
    nothing = [q for q in small if not open_answers(universe.schema, q, universe.fixed_query)]
    known = spec.geography.levels[-1], universe.fixed_query
    for d in universe.plan.plain:
        if d.query in nothing:
            yield RedundantMeasurement(d, known, d.cost / universe.plan.cost, kept=True)


def _asked(path: Path, asked: RowOptions) -> tuple[OpenedDhc, RowOptions]:
    """The release, and the requested rows; a folder of files has one universe."""
    opened = PublicDhc().opened(run_directory.release_above(path) or path)
    folders = {u.kind.file("nmf"): u.name for u in opened.spec.universes}
    return opened, asked.on(path, folders)
