"""What was measured on demand, as columns: a row for each answer that was looked at.

Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.run import run_directory
from das.model.names import BESIDE, text
from das.model.spelling import named
from das.model.spelling import product as spelt
from das.model.spine import Spine
from das.publications.dhc.files.on_demand import OnDemandReader
from das.publications.dhc.spec import DhcUniverse
from das.release.measured_rows import DRAWN, RowColumns, RowOptions, spread


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

    def measured(self, u: DhcUniverse) -> Spine:
        """The spine that a universe is measured over."""

    def geocodes(self, u: DhcUniverse) -> str:
        """Where the codes of its units are listed."""

    def source(self, u: DhcUniverse) -> OnDemandReader:
        """The answers of a universe."""


def summary(opened: OnDemandRelease, asked: RowOptions) -> list[dict[str, Any]]:
    """One row for each universe, level and query: the units, the answers of each, and how many of
    all were looked at; their variance, and the smallest and largest.
    """
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
    opened: OnDemandRelease, u: DhcUniverse, level: str, query: str, units: NDArray[np.int64]
) -> RowColumns:
    m, q, spine = opened.source(u).read(level, query), u.schema.query(query), opened.measured(u)
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
    for attribute, g, i in zip(u.schema.attributes, q.groupings, at, strict=True):
        out[attribute.name] = np.array(g.groups, dtype=object)[i]
        if not g.is_total:
            words.append(np.array(g.labels, dtype=object)[i])
    labels = words[0] if words else np.full(len(unit), q.words.total, dtype=object)
    for more in words[1:]:
        labels = labels + BESIDE + more
    return out | {"label": labels, "value": values, "variance": m.variance[unit]}
