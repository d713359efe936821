"""From the input to histograms and constraints: all that measuring needs, at any budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.errors import InputError, SpecError
from das.files.readers.registry import read, read_beside
from das.geography import bounds as geography
from das.geography import tabulation
from das.model.areas import Areas, off_spine
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.histogram import Histogram
from das.model.records import Blocks, Extract, Records, Source
from das.model.spine import Spine
from das.model.universe import Universe
from das.spec import RunSpec
from das.spec.parts import OwnUniverse
from das.stages import Stages
from das.truth.histogram import histograms

TrueHistograms = Mapping[str, Confidential[Histogram]]


@dataclass(frozen=True, repr=False)
class Prepared(Closed):
    """The input as histograms, with its public structure: all that measuring needs, at any budget."""

    spine: Spine
    truth: Mapping[str, TrueHistograms]
    constraints: Mapping[str, tuple[Constraint, ...]]
    sources: tuple[Source, ...]
    notes: tuple[str, ...]
    areas: tuple[Areas, ...] = ()  #: off the spine
    assigned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: by universe: see ``Extract.assigned``


def prepare(spec: RunSpec, paths: Sequence[Path], stages: Stages, progress: Progress) -> Prepared:
    """Read and validate the input, build the spine, count."""
    paths = list(paths) or [Path(p) for p in spec.data.path]
    if not paths:
        raise SpecError("no input is named", where="data.path", remedy="set data.path, or give --data PATH")
    with stages("read"):
        progress.stage("read", None)
        extract = read(spec.data.reader, paths, spec.persons.schema, columns=spec.data.columns,
                       encoding=spec.data.encoding, progress=progress)  # fmt: skip
        records, sources = _records(spec, extract, progress)
    with stages("histograms"):
        progress.stage("histograms", None)
        spine, unit = tabulation.spine(extract.blocks, spec.geography.levels, spec.geography.define)
        counted = {name: histograms(r, unit, spine) for name, r in records.items()}
        structures = _at_units(extract.blocks.structures, unit, spine)
        constraints = {u.name: _constraints(u, spine, counted[u.name], structures) for u in spec.universes}
        places = extract.blocks
        areas = off_spine(places.fields, spine.levels, unit, spine.units(spine.levels[-1]), places.names)
    return Prepared(spine, counted, constraints, sources, extract.notes, areas, {spec.persons.name: extract.assigned})


def _records(
    spec: RunSpec, extract: Extract, progress: Progress
) -> tuple[dict[str, Confidential[Records]], tuple[Source, ...]]:
    """The records of every universe, and all files that they are from."""
    records, sources = {spec.persons.name: extract.persons}, extract.sources
    for u in spec.universes[1:]:
        part = spec.own.get(u.name)
        if u.name in extract.others and (part is None or not part.data.path):
            records[u.name] = extract.others[u.name]
        elif part is None:
            raise InputError(f"the input has no {u.records}", where=u.kind.table,
                             remedy=f"delete the table [{u.kind.table}]")  # fmt: skip
        else:
            records[u.name], more = _own(u, part, extract.blocks, progress)
            sources += more
    return records, sources


def _own(
    u: Universe, part: OwnUniverse, blocks: Blocks, progress: Progress
) -> tuple[Confidential[Records], tuple[Source, ...]]:
    """The records of a universe that has files of its own."""
    if not part.data.path:
        key = u.key("data.path")
        raise SpecError("no input is named", where=key, remedy=f"set it, or give --set {key}=FILE")
    return read_beside([Path(p) for p in part.data.path], u.schema, blocks, columns=part.data.columns,
                       encoding=part.data.encoding, where=u.key("data.columns"), progress=progress)  # fmt: skip


def _at_units(structures: NDArray[np.int64] | None, unit: NDArray[np.int64], spine: Spine) -> NDArray[np.int64] | None:
    """Structures of the lowest units, which may be larger than blocks."""
    if structures is None:
        return None
    out = np.zeros((spine.units(spine.levels[-1]), structures.shape[1]), dtype=np.int64)
    np.add.at(out, unit, structures)
    return out


def _constraints(
    u: Universe, spine: Spine, truth_by_level: TrueHistograms, structures: NDArray[np.int64] | None
) -> tuple[Constraint, ...]:
    """What is published exactly. These are the only values of the truth that leave without noise."""
    lowest = spine.levels[-1]
    out = []
    wanted = u.exact
    low_high = geography.lowest(
        u.schema, structures, housing_units=wanted.housing_units, group_quarters=wanted.group_quarters
    )
    if low_high is not None:
        dwelling = str(u.schema.dwelling)
        low = f"the number of group-quarters facilities of each type in every {lowest}, each holding somebody"
        high = f"the number of housing units and of facilities in every {lowest} (times 99,999 persons at most)"
        for name, sign, bound, says in (("lb", ">=", low_high[0], low), ("ub", "<=", low_high[1], high)):
            out.append(Constraint(f"{dwelling}_total_{name}", lowest, dwelling, sign, bound, says))
    for level, query in wanted.counts:
        counts = truth_by_level[level].open("these counts are invariant").answer(u.schema.query(query))
        by = "" if query == "total" else f" by {query}"
        says = f"the number of {u.records} of every {level}{by}, exactly"
        out.append(Constraint(query, level, query, "=", counts, says))
    return tuple(out)
