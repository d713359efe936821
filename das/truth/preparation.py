"""From the input to histograms and constraints: all that measuring needs, at any budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.engine.tasks import SILENT
from das.errors import InputError, SpecError
from das.files import machine
from das.files.readers import area_list
from das.files.readers.source import source_of
from das.geography import bounds as geography
from das.geography import optimized, tabulation
from das.geography.tabulation import NATIONAL, Geocodes
from das.model.areas import Areas, off_spine
from das.model.confidential import Confidential
from das.model.constraint import Constraint, JointTotals, LevelBounds, Limits
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.records import Blocks, Extract, Records
from das.model.source import Source
from das.model.spine import Spine
from das.model.universe import Planned, Universe
from das.spec import RunSpec
from das.spec.notes import bounds_in_words, counts_in_words, known_structures
from das.spec.parts import TreeKeys
from das.spec.schema_part import OwnUniverse
from das.stages import Stages
from das.truth import readers
from das.truth.prepared import Prepared, joined, lowest_histogram
from das.truth.readers import read, read_beside

TrueHistograms = Mapping[str, Confidential[Histogram]]


def prepare(
    spec: RunSpec, paths: Sequence[Path], stages: Stages, progress: Progress, *, threads: int = 1
) -> Prepared:
    """Read and validate the input, build the spine, and count. If the input is by state, each of
    ``threads`` threads reads one state at a time.

    Raises :class:`InputError` or :class:`SpecError` if the input is wrong."""
    check_lists(spec.geography)
    parts = _apart(spec, paths)
    if len(parts) == 1:
        return _prepare(spec, parts[0], stages, progress)
    with stages("read"):
        found = _each(spec, parts, progress, threads)
    known = {*spec.geography.levels, *(areas.kind for part in found for areas in part.areas)}
    if lost := [name for name in spec.geography.named if name not in known]:
        raise optimized.unknown(lost[0], sorted(known))
    whole = joined(found)
    machine.give_back()
    return whole


def check_lists(geography: TreeKeys) -> None:
    """Raises :class:`InputError` for a target that is a file which does not exist."""
    for path in geography.lists:
        if not Path(path).is_file():
            raise InputError(
                f"no such file: {path}",
                where="geography.targets",
                remedy="name a list of blocks as seen from here, or a field of the input",
            )


def _each(
    spec: RunSpec, parts: Sequence[Sequence[Path]], progress: Progress, threads: int
) -> list[Prepared]:
    """Each part of the input by itself. Threads suffice, because the libraries that read and sort
    release the interpreter's lock."""
    progress.stage("read", len(parts))
    found = []
    with ThreadPoolExecutor(threads) as pool:
        for part in pool.map(
            lambda paths: _prepare(spec, paths, Stages(), SILENT, partly=True), parts
        ):
            found.append(part)
            machine.give_back()
            progress.advance()
    return found


def _named(spec: RunSpec, paths: Sequence[Path]) -> list[Path]:
    paths = list(paths) or [Path(p) for p in spec.data.path]
    if not paths:
        raise SpecError(
            "no input is named", where="data.path", remedy="set data.path, or give --data PATH"
        )
    return paths


def _apart(spec: RunSpec, paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each part of the input that is read by itself. States are such parts, unless
    lists of blocks or files of another universe cross them."""
    paths = _named(spec, paths)
    across = bool(spec.geography.lists) or any(part.data.path for part in spec.own.values())
    apart = not across and "State" in spec.geography.levels[1:-1]
    return readers.apart(spec.data.reader, paths) if apart else [paths]


def _prepare(
    spec: RunSpec, paths: Sequence[Path], stages: Stages, progress: Progress, partly: bool = False
) -> Prepared:
    """One part of the input, by itself. With ``partly`` there are other parts, which may have
    fields that this one lacks."""
    with stages("read"):
        extract = _extract(spec, paths, progress)
        records, sources = _records(spec, extract, progress)
    with stages("histograms"):
        progress.stage("histograms", None)
        spine, unit = tabulation.spine(extract.blocks, spec.geography.levels, spec.geography.define)
        lowest = {name: lowest_histogram(r, unit, spine) for name, r in records.items()}
        lists = {path.name: area_list.read(path, spine) for path in map(Path, spec.geography.lists)}
        sources += tuple(source_of(Path(path)) for path in spec.geography.lists)
        trees = trees_of(spec, extract.blocks, spine, unit, lists, partly=partly)
        structures = _at_units(extract.blocks.structures, unit, spine)
        constraints = {
            u.name: _constraints(u, trees[u.name], lowest[u.name], structures, spine)
            for u in spec.universes
        }
        fields, names = extract.blocks.fields, extract.blocks.names
        areas = off_spine(fields, spine.levels, unit, spine.units(spine.levels[-1]), names)
        areas = (
            *(a for a in areas if a.kind not in {x.kind for x in lists.values()}),
            *lists.values(),
        )
    return Prepared(
        spine, lowest, trees, constraints, sources, areas, {spec.persons.name: extract.assigned}
    )


def places(
    spec: RunSpec, paths: Sequence[Path], progress: Progress
) -> tuple[Blocks, Spine, NDArray[np.int64]]:
    """Only the public structure of the input: its blocks, their tabulation spine, and each block's
    lowest unit."""
    blocks = _extract(spec, _named(spec, paths), progress).blocks
    return blocks, *tabulation.spine(blocks, spec.geography.levels, spec.geography.define)


def _extract(spec: RunSpec, paths: Sequence[Path], progress: Progress) -> Extract:
    progress.stage("read", None)
    return read(
        spec.data.reader,
        paths,
        spec.persons.schema,
        columns=spec.data.columns,
        encoding=spec.data.encoding,
        places=None if spec.geography.places is None else Path(spec.geography.places),
        progress=progress,
    )


def trees_of(
    spec: RunSpec,
    blocks: Blocks,
    spine: Spine,
    unit: NDArray[np.int64],
    lists: Mapping[str, Areas],
    *,
    partly: bool = False,
) -> dict[str, MeasuredSpine]:
    """The measured tree of each universe. Facilities divide the block groups of universes with
    dwellings. The trees use structures only where these are published exactly, as bounds on
    persons' dwellings are. ``partly``: leave out targets that these blocks lack, because blocks of
    another part have them."""
    g, known = spec.geography, known_structures(spec)
    if g.spine == "tabulation":
        return {u.name: MeasuredSpine.from_published(spine) for u in spec.universes}
    there = {*spine.levels, *blocks.fields, *lists}
    named = [name for name in g.named if name in there or not partly]
    rule = optimized.Rule(
        g.runs,
        optimized.target_codes(named, blocks, spine, unit, lists),
        Geocodes(g.geocodes or "2020", {**NATIONAL, **(g.digits or {})}),
        structures=known.housing_units and known.group_quarters,
        facilities=known.group_quarters,
    )
    return {
        u.name: optimized.measured_spine(
            blocks, spine, unit, rule, facilities=u.schema.dwelling is not None
        )
        for u in spec.universes
    }


def _records(
    spec: RunSpec, extract: Extract, progress: Progress
) -> tuple[dict[str, Confidential[Records]], tuple[Source, ...]]:
    """The records of every universe, and all files that they were read from."""
    records, sources = {spec.persons.name: extract.persons}, extract.sources
    for u in spec.universes[1:]:
        part = spec.own.get(u.name)
        if u.name in extract.others and (part is None or not part.data.path):
            records[u.name] = extract.others[u.name]
        elif part is None:
            raise InputError(
                f"the input has no {u.records}",
                where=u.kind.table,
                remedy=f"delete the table [{u.kind.table}]",
            )
        else:
            records[u.name], more = _own(u, part, extract.blocks, progress)
            sources += more
    return records, sources


def _own(
    universe: Universe, part: OwnUniverse, blocks: Blocks, progress: Progress
) -> tuple[Confidential[Records], tuple[Source, ...]]:
    """The records of a universe with its own files."""
    if not part.data.path:
        key = universe.key("data.path")
        raise SpecError("no input is named", where=key, remedy=f"set it, or give --set {key}=FILE")
    return read_beside(
        [Path(p) for p in part.data.path],
        universe.schema,
        blocks,
        columns=part.data.columns,
        encoding=part.data.encoding,
        where=universe.key("data.columns"),
        progress=progress,
    )


def _at_units(
    structures: NDArray[np.int64] | None, unit: NDArray[np.int64], spine: Spine
) -> NDArray[np.int64] | None:
    """Structures of the lowest units, which can be larger than blocks."""
    if structures is None:
        return None
    out = np.zeros((spine.units(spine.levels[-1]), structures.shape[1]), dtype=np.int64)
    np.add.at(out, unit, structures)
    return out


def _constraints(
    universe: Universe,
    tree: MeasuredSpine,
    lowest_counts: Confidential[Histogram],
    structures: NDArray[np.int64] | None,
    published: Spine,
) -> tuple[Constraint, ...]:
    """What is published exactly about the units of the tree. These are the only true values that
    leave without noise."""
    lowest = tree.spine.levels[-1]
    out = _bounds(universe, tree, structures)
    known = lowest_counts.open("some counts are invariant")
    there = known if tree.alike else tree.of_published(known)
    for level, query in universe.exact.counts:
        home = tree.spine.up(lowest, level)
        counts = there.up(home, tree.spine.units(level)).answer(universe.schema.query(query))
        whole = _wholes(tree, published, level, universe.key("constraints"))
        split = len(np.unique(whole)) < len(whole)
        if split and query != "total":
            raise InputError(
                f"a {level} of two branches has its {query!r} in two units",
                where=universe.key("constraints.invariants"),
                remedy=(
                    "on an optimized spine only totals of states can be exact: name these, or set"
                    ' geography.spine = "tabulation"'
                ),
            )
        if split:
            joint = np.zeros(published.units(level), dtype=np.int64)
            np.add.at(joint, whole, counts[:, 0])
            counts = joint[whole, None]
        name, says = "joint_total" if split else query, counts_in_words(universe, level, query)
        out.append(Constraint(name, level, query, "=", counts, says))
    return tuple(out)


def _bounds(
    universe: Universe, tree: MeasuredSpine, structures: NDArray[np.int64] | None
) -> list[Constraint]:
    """What housing units and facilities, whose numbers are public, say of the lowest units."""
    low_high = geography.lowest(
        universe.schema,
        None if structures is None else structures[tree.place],
        housing_units=universe.exact.housing_units,
        group_quarters=universe.exact.group_quarters,
    )
    if low_high is None:
        return []
    lowest, dwelling = tree.spine.levels[-1], str(universe.schema.dwelling)
    says = bounds_in_words(lowest)
    return [
        Constraint(f"{dwelling}_total_{name}", lowest, dwelling, sign, bound, says[name])
        for name, sign, bound in (("lb", ">=", low_high[0]), ("ub", "<=", low_high[1]))
    ]


def _wholes(tree: MeasuredSpine, published: Spine, level: str, where: str) -> NDArray[np.int64]:
    """The published unit that contains each unit of the tree. Raises :class:`InputError` if a unit
    of the tree lies in no published unit. Also raises it if a published unit lies in several units
    of the tree that are not the two branches of a state: its exact total then fixes no unit's."""
    whole = tree.home_units(level, published)
    up = tree.spine.parent[tree.spine.index(level)]
    home, units = np.zeros(published.units(level), dtype=np.int64), np.bincount(whole[whole >= 0])
    home[whole] = up
    if (
        (whole < 0).any()
        or (home[whole] != up).any()
        or (units.max() > 1 and level not in tree.split)
    ):
        raise InputError(
            f"the totals of {level!r} are not those of units of the optimized spine",
            where=where,
            remedy=(
                f"make those of a level above exact, or of {tree.spine.levels[-1]}; or set "
                'geography.spine = "tabulation"'
            ),
        )
    return whole


# What is public of an input: its blocks, their trees, and what is known of their structures,
# before anything is counted.

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PublicTree:
    """Blocks, on their tabulation spine: ``unit`` ``(blocks,)`` is the lowest unit of each;
    ``lists`` of them by name."""

    blocks: Blocks
    spine: Spine
    unit: Ints
    lists: Mapping[str, Areas]

    @staticmethod
    def read(
        spec: RunSpec, paths: Sequence[Path], progress: Progress, lists: Sequence[Path] = ()
    ) -> PublicTree:
        """The tree of an input, read without its records; ``lists`` of blocks are added to those of
        the specification. Raises :class:`UserError` for a faulty input."""
        blocks, spine, unit = places(spec, paths, progress)
        return PublicTree(
            blocks,
            spine,
            unit,
            {p.name: area_list.read(p, spine) for p in (*map(Path, spec.geography.lists), *lists)},
        )

    def trees(self, spec: RunSpec) -> dict[str, MeasuredSpine]:
        return trees_of(spec, self.blocks, self.spine, self.unit, self.lists)

    def structures(self, tree: MeasuredSpine) -> Ints | None:
        """The structures of the lowest units of a tree."""
        given = self.blocks.structures
        if given is None:
            return None
        out = np.zeros((self.spine.units(self.spine.levels[-1]), given.shape[1]), dtype=np.int64)
        np.add.at(out, self.unit, given)
        return out[tree.place]

    def bounds(self, universe: Planned, tree: MeasuredSpine) -> dict[str, LevelBounds]:
        """What is known exactly, with zeros for totals: variances depend on no count."""
        e = universe.exact
        found = geography.lowest(
            universe.schema,
            self.structures(tree),
            housing_units=e.housing_units,
            group_quarters=e.group_quarters,
        )
        # no lower bounds: with totals of zero these could not be met
        limits = None if found is None else Limits.from_bounds(np.zeros_like(found[0]), found[1])
        total: Ints | JointTotals | None = None
        if e.total is not None:
            total = np.zeros(tree.spine.units(e.total), dtype=np.int64)
            part = np.unique(tree.home_units(e.total, self.spine), return_inverse=True)[1]
            if part.max() + 1 < len(part):
                total = JointTotals(part, np.zeros(part.max() + 1, dtype=np.int64))
        return geography.bounds(universe.schema, tree.spine, limits, total, e.total)

    def areas(self) -> dict[str, Areas]:
        """Areas by kind: the geographic fields that are not levels, the published units of each
        level, and the lists."""
        units, below = len(self.spine.codes[-1]), self.spine.levels[-1]
        found = {
            a.kind: a for a in off_spine(self.blocks.fields, self.spine.levels, self.unit, units)
        }
        for level, codes in zip(self.spine.levels[:-1], self.spine.codes, strict=False):
            found[level] = Areas(level, codes, self.spine.up(below, level), np.arange(units))
        return found | dict(self.lists)
