"""Estimates for race and ethnic groups, with intervals, from a release's folder alone. They use all
its measurements, including those of groups that its tables leave out.

There are three passes, and none holds more than one state and the nation in memory. First each
state summarizes its own measurements; then the nation combines the states; then each state receives
the results. The statistics are in :mod:`das.publications.detailed.estimation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import ReleaseError, UserError
from das.files import atomic
from das.model.mechanisms import COVERAGE
from das.model.names import encoded
from das.model.not_private import Private, marked
from das.publications.detailed.estimation.forest import Above, Bundle, Forest, Outline
from das.publications.detailed.estimation.layers import KnownTotals, Layer, LevelSource
from das.publications.detailed.estimation.published import (
    Estimates,
    Wholes,
    bundles,
    estimates,
    hosts,
    sums,
    wholes,
)
from das.publications.detailed.files.measurements import SUMMARY, EstimateFile, EstimateRows, place
from das.publications.detailed.model.tables import AdaptiveTable
from das.publications.detailed.release import OpenedGroups
from das.publications.detailed.tables import rows_of

# How the estimates of race and ethnic groups are cut: by run, by iterations, by state.

#: Iterations that are done together.
TOGETHER = 256


@dataclass(frozen=True)
class RunKinds:
    """Types of regions of a run: those that states and what is below them add up to, from the top;
    and those that make no such sums."""

    nation: str | None
    state: str
    below: tuple[str, ...]
    beside: tuple[str, ...]


KINDS: Mapping[str, RunKinds] = {
    "us": RunKinds("USA", "STATE", ("COUNTY", "TRACT"), ("PLACE", "AIANNH")),
    "pr": RunKinds(None, "PR-STATE", ("PR-COUNTY", "PR-TRACT"), ("PR-PLACE",)),
}


@dataclass(frozen=True, eq=False)
class Chunk:
    """Iterations that are done together: their numbers; sums and bundles by their places among
    these."""

    columns: NDArray[np.int32]
    sums: tuple[tuple[int, tuple[int, ...]], ...]
    bundles: tuple[Bundle, ...]


def of_state(forest: Forest, row: int, whole: Wholes | None) -> tuple[Above, Wholes | None]:
    """What one state is given."""
    states = {(0, b): s for (r, b), s in forest.fallen(1) if r == row}
    above = Above(forest.final[1].rows(np.array([row])), states)
    if whole is None:
        return above, None
    tables = {(0, 0, c): x for (at, r, c), x in whole.tables.items() if at == 1 and r == row}
    return above, Wholes([whole.totals[1][[row]]], tables)


# Where estimates for race and ethnic groups are written: a file for each state and type of region.

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EstimateOutput:
    """The ``folder`` of a run's estimates, the ``layout`` of its ``table`` by size, and the
    ``codes`` of the iterations. ``rows`` counts what was written, by type of region."""

    folder: Path
    private: Private
    csv: bool
    table: AdaptiveTable
    layout: Sequence[tuple[tuple[tuple[str, ...], ...], Ints]]
    codes: NDArray[np.str_]
    rows: dict[str, int] = field(default_factory=dict)

    def state_files(self, subtree: int) -> StateFiles:
        """The files of one state; those of the nation have the number 0."""
        return StateFiles(self, subtree)


class StateFiles:
    """The files that one state writes, one for each type of region."""

    def __init__(self, output: EstimateOutput, subtree: int) -> None:
        self.output, self.subtree, self.files = output, subtree, dict[str, EstimateFile]()

    def __enter__(self) -> StateFiles:
        return self

    def __exit__(self, *_: object) -> None:
        rows = self.output.rows
        for kind, file in self.files.items():
            file.__exit__()
            rows[kind] = rows.get(kind, 0) + file.rows

    def write(
        self,
        forest: Forest,
        at: int,
        layer: Layer,
        columns: NDArray[np.int32],
        whole: Wholes | None,
        host: Ints | None = None,
        own: Ints | None = None,
    ) -> None:
        """The estimates of a layer, for the iterations ``columns``."""
        out = self.output
        if layer.kind not in self.files:
            self.files[layer.kind] = EstimateFile(
                out.folder, layer.kind, self.subtree, private=out.private, csv=out.csv
            )
        codes = encoded(out.codes[columns])
        for found in estimates(forest, at, layer, out.layout, whole, host, own):
            self.files[layer.kind].write(_rows(found, layer, codes, out.table))


def _rows(
    estimates: Estimates, layer: Layer, codes: NDArray[np.bytes_], table: AdaptiveTable
) -> EstimateRows:
    groups, times = estimates.value.shape
    labels = np.array(estimates.labels, dtype="S")
    return EstimateRows(
        layer.kind,
        np.repeat(layer.regions[estimates.row], times),
        np.repeat(codes[estimates.column], times),
        {c: np.tile(labels[:, i], groups) for i, c in enumerate(table.columns)},
        estimates.value.ravel(),
        estimates.error.ravel(),
        estimates.lower.ravel(),
        estimates.upper.ravel(),
        np.repeat(estimates.matters, times),
        None if estimates.count is None else estimates.count.ravel(),
    )


def estimate(
    opened: OpenedGroups, out: Path, *, integers: bool = False, csv: bool = False
) -> dict[str, int]:
    """Write the estimates of a release into the folder ``out``, in place of estimates that are
    there. Returns how many rows each type of region has.

    Raises:
        UserError: the release is one of households; or ``out`` holds something else."""
    if not opened.spec.parameters.product.staged:
        raise UserError(
            "estimates are of persons: a release of households has no first stage, and no"
            " measurements of groups whose totals were not published",
            where=opened.folder,
            remedy="take its tables, and its measurements with their noise",
        )
    out = place(out, opened.folder)
    rows: dict[str, int] = {}
    with atomic.folder(out) as draft:
        for run in opened.spec.parameters.runs:
            for kind, n in _RunEstimates(opened, run, draft, integers, csv).write().items():
                rows[kind] = rows.get(kind, 0) + n
        said = {
            "release": opened.spec.run.name,
            "rows": rows,
            "coverage": COVERAGE,
            "integers": integers,
        }
        atomic.write_json(draft / SUMMARY, marked(said, opened.spec.run.private))
    return rows


class _RunEstimates:
    """One run's regions."""

    def __init__(
        self, opened: OpenedGroups, run: str, folder: Path, integers: bool, csv: bool
    ) -> None:
        self.opened, self.kinds, self.integers = opened, KINDS[run], integers
        self.iterations, self.regions = opened.spec.parameters.iterations, opened.regions
        self.plans = {
            k: tuple(p for p in opened.spec.plans if p.at.region == k and len(ids))
            for k, ids in self.regions.ids.items()
        }
        here = {bytes(s) for s in np.unique(self.regions.state[self.regions.here(run)])}
        self.states = [(i, s) for i, s in enumerate(self.regions.states, 1) if s in here]
        self.output = EstimateOutput(
            folder,
            opened.spec.run.private,
            csv,
            self.table,
            [rows_of(self.table, size) for size in range(len(self.table.sizes))],
            self.iterations.code,
        )

    @cached_property
    def table(self) -> AdaptiveTable:
        return self.opened.spec.parameters.product.tables[0]

    @cached_property
    def chain(self) -> tuple[str, ...]:
        """Types of regions that add up, from the states down; those below that are not measured are
        passed over."""
        return self.kinds.state, *(k for k in self.kinds.below if self.plans.get(k))

    @property
    def order(self) -> tuple[str, ...]:
        """The order of estimation. A region with several names is estimated under its lowest, which
        has the most iterations."""
        return *reversed(self.chain), *(k for k in self.kinds.beside if self.plans.get(k))

    @cached_property
    def hosts(self) -> Mapping[str, tuple[NDArray[np.int8], Ints]]:
        guests = tuple(k for k in self.kinds.beside if self.plans.get(k))
        return hosts(self.regions, self.order, guests)

    @cached_property
    def chunks(self) -> list[Chunk]:
        levels = {p.at.level for plans in self.plans.values() for p in plans}
        every = np.flatnonzero(np.isin(self.iterations.level, sorted(levels))).astype(np.int32)
        added = sums(self.iterations) if self._whole_chain else ()
        first = [i for together in bundles(added) for i in together]
        rest = every[~np.isin(every, first)]
        rest = rest[np.argsort(self.iterations.detailed_only[rest], kind="stable")]
        parts = [np.sort(np.array(first, dtype=np.int32))] if first else []
        parts += [np.sort(rest[i : i + TOGETHER]) for i in range(0, len(rest), TOGETHER)]
        out = []
        for columns in parts:
            place = {int(c): i for i, c in enumerate(columns)}
            inside = [s for s in added if s.whole in place]
            out.append(
                Chunk(
                    columns,
                    tuple((place[s.whole], tuple(place[p] for p in s.parts)) for s in inside),
                    tuple(tuple(place[i] for i in b) for b in bundles(inside)),
                )
            )
        return out

    @cached_property
    def _whole_chain(self) -> bool:
        """Whether each type of region that adds up is measured at both levels of iterations."""
        nation = (self.kinds.nation,) if self.kinds.nation else ()
        return all(len(self.plans.get(k, ())) == 2 for k in (*nation, *self.chain))

    # --- walks

    def write(self) -> dict[str, int]:
        across = "AIANNH" if self.plans.get("AIANNH") and "AIANNH" in self.kinds.beside else None
        areas = self._sources(across, 0) if across else ()
        tops = self._nation(areas) if self.kinds.nation else {}
        for subtree, state in self.states:
            tree = _StateTree(self, subtree, state, areas)
            with self.output.state_files(subtree) as files:
                for i, chunk in enumerate(self.chunks):
                    self._down(tree, chunk, tops.get((subtree, i)), files)
        if across:
            with self.output.state_files(0) as files:
                for chunk in self.chunks:
                    self._alone(
                        across,
                        areas,
                        np.flatnonzero(self.hosts[across][0] < 0),
                        self.regions.ids[across],
                        chunk,
                        files,
                        (),
                    )
        return self.output.rows

    def _nation(
        self, areas: Sequence[LevelSource]
    ) -> dict[tuple[int, int], tuple[Above, Wholes | None]]:
        """What the nation makes of its states: by state and chunk."""
        usa = self._sources(str(self.kinds.nation), 0)
        wanted = self._tables_everywhere(usa)
        said: list[list[tuple[Above, NDArray[np.int8]]]] = [[] for _ in self.chunks]
        for subtree, state in self.states:
            tree = _StateTree(self, subtree, state, areas)
            for i, chunk in enumerate(self.chunks):
                forest, _ = tree.forest(chunk)
                asked = [*chunk.bundles, *((int(c),) for c in self._singles(chunk, wanted))]
                said[i].append((forest.above(asked), forest.layers[0].node_size))
        out: dict[tuple[int, int], tuple[Above, Wholes | None]] = {}
        with self.output.state_files(0) as files:
            for i, chunk in enumerate(self.chunks):
                forest, top = self._national(usa, chunk, said[i], self._singles(chunk, wanted))
                whole = wholes(forest) if self.integers else None
                files.write(forest, 0, top, chunk.columns, whole)
                for row, (subtree, _) in enumerate(self.states):
                    out[subtree, i] = of_state(forest, row, whole)
        return out

    def _national(
        self,
        usa: Sequence[LevelSource],
        chunk: Chunk,
        said: Sequence[tuple[Above, NDArray[np.int8]]],
        singles: Ints,
    ) -> tuple[Forest, Layer]:
        known = KnownTotals(
            *(
                np.concatenate(x)
                for x in zip(
                    *((a.known.value, a.known.work, a.known.true) for a, _ in said), strict=True
                )
            )
        )
        states = {(row, b): s for row, (a, _) in enumerate(said) for (_, b), s in a.states.items()}
        size = np.concatenate([s for _, s in said])
        jointly = np.zeros(len(chunk.columns), dtype=bool)
        jointly[singles] = True
        for bundle in chunk.bundles:
            jointly[list(bundle)] = True
        top = self._layer(
            str(self.kinds.nation), usa, chunk, self.regions.ids[str(self.kinds.nation)]
        )
        bottom = Outline(
            self._measured(self.kinds.state, chunk),
            np.where(jointly, size, np.minimum(size, 0)),
            self.table,
            Above(known, states),
        )
        forest = Forest(
            [top, bottom], [np.zeros(len(size), dtype=np.int64)], chunk.sums, chunk.bundles
        )
        forest.fall()
        return forest, top

    def _down(
        self,
        tree: _StateTree,
        chunk: Chunk,
        top: tuple[Above, Wholes | None] | None,
        files: StateFiles,
    ) -> None:
        forest, layers = tree.forest(chunk)
        above, given = top or (None, None)
        forest.fall(above)
        whole = wholes(forest, given) if self.integers else None
        for at, layer in enumerate(layers):
            files.write(forest, at, layer, chunk.columns, whole)
            for guest, host, own in layer.guests:
                files.write(forest, at, guest, chunk.columns, whole, host, own)
        for kind in self.kinds.beside:
            if kind != "AIANNH" and self.plans.get(kind):
                some = tree.some(kind)
                free = np.flatnonzero(self.hosts[kind][0][some] < 0)
                self._alone(
                    kind,
                    tree.sources[kind],
                    free,
                    self.regions.ids[kind][some],
                    chunk,
                    files,
                    tree.guests(kind, chunk, some, free),
                )

    def _alone(
        self,
        kind: str,
        sources: Sequence[LevelSource],
        rows: Ints,
        ids: NDArray[np.bytes_],
        chunk: Chunk,
        files: StateFiles,
        guests: Sequence[tuple[Layer, Ints, Ints]],
    ) -> None:
        """Regions that are part of no sum."""
        layer = self._layer(kind, sources, chunk, ids, rows)
        layer.guests.extend(guests)
        if not len(layer) or not layer.measured.any():
            return
        forest = Forest([layer], [], chunk.sums, chunk.bundles)
        forest.fall()
        whole = wholes(forest) if self.integers else None
        files.write(forest, 0, layer, chunk.columns, whole)
        for guest, host, own in layer.guests:
            files.write(forest, 0, guest, chunk.columns, whole, host, own)

    # --- parts

    def _sources(
        self, kind: str, subtree: int, ids: NDArray[np.bytes_] | None = None
    ) -> tuple[LevelSource, ...]:
        ids = self.regions.ids[kind] if ids is None else ids
        out = tuple(LevelSource(p, self.opened.part(p, subtree)) for p in self.plans.get(kind, ()))
        for source in out:
            if not np.array_equal(source.measured.regions, ids):
                raise ReleaseError(
                    f"the measurements of {source.plan.level} are not of the regions of"
                    " regions.parquet",
                    where=self.opened.folder,
                    remedy="take an undamaged copy of the release",
                )
        return out

    def _layer(
        self,
        kind: str,
        sources: Sequence[LevelSource],
        chunk: Chunk,
        ids: NDArray[np.bytes_],
        rows: Ints | None = None,
    ) -> Layer:
        return Layer.made(kind, self.table, ids, sources, self.iterations, chunk.columns, rows)

    def _measured(self, kind: str, chunk: Chunk) -> NDArray[np.bool_]:
        out = np.zeros(len(chunk.columns), dtype=bool)
        for plan in self.plans.get(kind, ()):
            out |= np.isin(chunk.columns, self.iterations.measured_at(plan.at))
        return out

    def _tables_everywhere(self, usa: Sequence[LevelSource]) -> set[int]:
        """Iterations that have a table in the nation and in every state."""
        out: set[int] = set()
        for source, plan in zip(usa, self.plans.get(str(self.kinds.nation), ()), strict=True):
            members = self.iterations.measured_at(plan.at)
            having = source.measured.size > 0
            for other in (
                p for p in self.plans.get(self.kinds.state, ()) if p.at.level == plan.at.level
            ):
                for subtree, _ in self.states:
                    having = having & (self.opened.part(other, subtree).size > 0)
                out |= set(members[having].tolist())
        return out

    def _singles(self, chunk: Chunk, wanted: set[int]) -> Ints:
        bundled = {i for b in chunk.bundles for i in b}
        return np.array(
            [i for i, c in enumerate(chunk.columns.tolist()) if c in wanted and i not in bundled],
            dtype=np.int64,
        )


class _StateTree:
    """The measurements of one state, and its tree."""

    def __init__(
        self, run: _RunEstimates, subtree: int, state: bytes, areas: Sequence[LevelSource]
    ) -> None:
        self.run, self.state = run, state
        beside = [k for k in run.kinds.beside if k != "AIANNH" and run.plans.get(k)]
        self.sources = {
            k: run._sources(k, subtree, run.regions.ids[k][self.some(k)])
            if len(self.some(k))
            else ()
            for k in (*run.chain, *beside)
        }
        self.sources["AIANNH"] = tuple(areas)
        self.parents = [self._parent(a, b) for a, b in zip(run.chain, run.chain[1:], strict=False)]

    def some(self, kind: str) -> NDArray[np.int32]:
        return self.run.regions.of_state(kind, self.state)

    def _parent(self, above: str, kind: str) -> Ints:
        """For each region, the index of the region above among those of the state."""
        regions = self.run.regions
        here = regions.state == self.state
        child, first = np.unique(regions.of_block[kind][here], return_index=True)
        return np.searchsorted(self.some(above), regions.of_block[above][here][first[child >= 0]])

    def forest(self, chunk: Chunk) -> tuple[Forest, list[Layer]]:
        run = self.run
        layers = []
        for kind in run.chain:
            some = self.some(kind)
            layer = run._layer(kind, self.sources[kind], chunk, run.regions.ids[kind][some])
            layer.guests.extend(self.guests(kind, chunk, some))
            layers.append(layer)
        used = [i for i, layer in enumerate(layers) if i == 0 or layer.measured.any()]
        last = max(used)
        return (
            Forest(layers[: last + 1], self.parents[:last], chunk.sums, chunk.bundles),
            layers[: last + 1],
        )

    def guests(
        self, kind: str, chunk: Chunk, some: NDArray[np.int32], rows: Ints | None = None
    ) -> list[tuple[Layer, Ints, Ints]]:
        """Regions of other types that are the same as some of these, with measurements of their
        own."""
        run, out = self.run, []
        mine = some if rows is None else some[rows]
        for guest, (of, number) in run.hosts.items():
            theirs = self.some(guest)
            here = (of[theirs] == run.order.index(kind)) & np.isin(number[theirs], mine)
            if here.any() and self.sources.get(guest):
                every = theirs if guest != "AIANNH" else np.arange(len(run.regions.ids[guest]))
                layer = run._layer(guest, self.sources[guest], chunk, run.regions.ids[guest][every])
                out.append(
                    (
                        layer,
                        np.searchsorted(mine, number[theirs[here]]),
                        np.searchsorted(every, theirs[here]),
                    )
                )
        return out
