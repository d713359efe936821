"""Noisy measurement files as the Bureau publishes them, made into a release that post-processing
can open.

``<folder>/<Level>.parquet/{DPQuery,Constraint}/State=<d><SS>/[County=.../]part-*.parquet`` and
nothing else: no specification, no spine, no privacy statement. All three are derived from the rows.

*Spine.* The levels are the folders, from the root down. Their order is that of the publications or,
where a name is unknown, of their numbers of units. A unit's parent is the unit of the level above
whose geocode begins its own. A bypassed unit has no rows: it exists, unmeasured, if codes below
begin with its code.

*Variances.* Those of the rows; infinite for a query without an answer (no row, or a variance of
NaN, infinity or 0). A unit without any answer is not measured and has no row; ``spine.parquet`` in
the folder of the measurements then says so.

*Constraints.* The bounds of the dwelling groups at the lowest level, and totals. The totals are
those of the lowest level whose totals are all known, of each unit or of each place in several parts
(:mod:`das.files.measurements.published_constraints`).

Rows are read tolerantly, because the published partitions vary. Integers or floats can have any
width. Columns can come in any order, with or without ``plb``, ``sign``, ``query_shape`` and the
suffixes of names. Row groups can be of any size."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.accounting.document import FORMAT, ForeignLine, ForeignStatement, Invariant, Variance
from das.engine.progress import SILENT, Progress
from das.errors import InputError, ReleaseError, UserError
from das.files import atomic
from das.files import codes as texts
from das.files.measurements import nmf
from das.files.measurements.published_constraints import constraints_of
from das.files.measurements.published_files import (
    AGAIN,
    Group,
    Ints,
    PublishedLevel,
    check_shape,
    folders,
    matrix,
    read,
    scan,
    variance_of,
)
from das.files.measurements.published_sums import MeasuredTotals
from das.files.measurements.published_tree import spine_of
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release import statement
from das.files.run import run_directory
from das.model.constraint import Constraint
from das.model.kinds import kind_with
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.not_private import UNKNOWN, UNSTATED, WARNING, Private
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

#: Values of one level held at a time.
_BATCH = 1 << 24
_SAYS = {
    "total": "the total",
    "joint_total": "the total, all parts together,",
    "lb": "least numbers in the dwelling groups",
    "ub": "most numbers in the dwelling groups",
}


def is_published(folder: Path) -> bool:
    """True if ``folder`` holds folders ``<Level>.parquet``, and no specification of a release of
    ours.
    """
    return not (folder / "spec.toml").is_file() and bool(folders(folder))


def convert(folder: Path, out: Path, batch: int = _BATCH, progress: Progress = SILENT) -> None:
    """Write the release ``out``, which must not be there yet or be empty, from the published files
    under ``folder``.

    ``out`` appears whole or not at all. What could not be taken over as it stands is listed in its
    ``privacy.json`` under ``notes``.

    Raises:
        InputError, ReleaseError: no levels, unreadable files, attributes or groupings of no schema
            that is built in, geocodes that make no tree, values that do not fit their query, totals
            that contradict each other, parts that are missing.
    """
    if out.exists() and any(out.iterdir()):
        raise UserError("is there already, and not empty", where=out, remedy="choose another --out")
    there = out.parent.exists()
    try:
        with ExitStack() as stack:
            try:
                draft = stack.enter_context(atomic.folder(out))
            except OSError as error:
                raise UserError(
                    f"cannot be created ({error.strerror})",
                    where=out,
                    remedy="choose another --out",
                ) from None
            _convert(folder, draft, batch, progress)
    except BaseException:
        if not there and out.parent.exists() and not any(out.parent.iterdir()):
            out.parent.rmdir()
        raise


def _convert(folder: Path, draft: Path, batch: int, progress: Progress) -> None:
    progress.stage("scan", None)
    schema, levels, seeded = scan(folder)
    private: Literal[False, "unknown"] = False if seeded else UNKNOWN
    spine = spine_of(levels, folder)
    notes = [UNSTATED] if private else []
    constraints = constraints_of(schema, spine, levels, notes)
    measured = [_LevelMeasured.of(schema, level) for level in levels]
    universe = kind_with(schema).name
    root = run_directory.nmf_folder(draft, universe)
    asked = [np.zeros(spine.units(level.name), dtype=bool) for level in levels]
    totals = MeasuredTotals(spine)
    for c in constraints:
        if c.name == "total":
            totals.exact(c.level, c.bound[:, 0])
    for level, what, here in zip(levels, measured, asked, strict=True):
        progress.stage(f"convert {level.name}", spine.units(level.name))
        found = _noted(_measurements(level, what, spine, batch, progress), here, totals)
        nmf.write(root, level.name, schema, spine, found, private=private)
        totals.check(level.name, folder)
        if not what.variances:
            notes.append(f"nothing is measured at {level.name}")
    if not measured[0].variances:
        if all(q.answers < schema.cells for q in measured[-1].queries):
            raise InputError(
                f"nothing is measured at {levels[0].name}, nor the detailed query at"
                f" {levels[-1].name}: there is nothing to begin an estimate with",
                where=folder,
                remedy=AGAIN,
            )
        notes.append(
            f"{levels[0].name} is estimated from the levels below it: the method is"
            " full-information"
        )
    nmf.write_constraints(root, schema, spine, constraints, private=private)
    spine_file.write(draft / "spine.parquet", spine)
    tree_file.write(root / tree_file.NAME, MeasuredSpine.of_measured(spine, asked), spine)
    name = folder.resolve().name or "published"
    known = any(c.name in ("total", "joint_total") for c in constraints)
    atomic.write_text(draft / "spec.toml", _spec(name, schema, measured, known, private))
    statement.write(draft, _privacy(universe, spine, measured, constraints, notes, private))


# --- measurements
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LevelMeasured:
    """What is measured at a level: by the names of queries in the files, the query; and the usual
    variance and number of units of each that is measured anywhere."""

    level: str
    names: Mapping[str, Query]
    variances: Mapping[str, Counter[float]]
    queries: tuple[Query, ...]

    @staticmethod
    def of(schema: Schema, level: PublishedLevel) -> _LevelMeasured:
        names: dict[str, Query] = {}
        variances: dict[str, Counter[float]] = {}
        for name, (query, units) in level.found.items():
            if units:
                names[name] = query
                if query.name in variances:
                    variances[query.name] = variances[query.name] + units
                else:
                    variances[query.name] = units
        queries = {q.name: q for q in names.values()} or {"total": schema.query("total")}
        return _LevelMeasured(level.name, names, variances, tuple(queries.values()))

    def usual(self, query: str) -> float:
        return (
            self.variances[query].most_common(1)[0][0] if query in self.variances else float("inf")
        )


def _measurements(
    level: PublishedLevel, what: _LevelMeasured, spine: Spine, limit: int, progress: Progress
) -> Iterator[Measurement]:
    """All queries of a slice of units, and so on: what is not in the files is zero with infinite
    variance.
    """
    ends = np.array([[g.first, g.last] for g in level.groups], dtype=np.bytes_).reshape(-1, 2)
    first, last = (
        spine.find(level.name, ends[:, i]) if len(ends) else np.zeros(0, dtype=int) for i in (0, 1)
    )
    for start, stop in spine.batches(level.name, sum(q.answers for q in what.queries), limit):
        values = {q.name: np.zeros((stop - start, q.answers), dtype=np.int64) for q in what.queries}
        variance = {q.name: np.full(stop - start, np.inf) for q in what.queries}
        for i in np.flatnonzero((first < stop) & (last >= start)):
            group = level.groups[i]
            for query, unit, got, var in _rows(group, what, spine, level.name, start, stop):
                again = np.isfinite(variance[query.name][unit])
                if again.any() or len(np.unique(unit)) != len(unit):
                    raise ReleaseError(
                        f"two measurements of {query.name!r} for one unit of {level.name}",
                        where=group.path,
                        remedy=AGAIN,
                    )
                values[query.name][unit], variance[query.name][unit] = got, var
        for q in what.queries:
            yield Measurement(level.name, q.name, start, values[q.name], variance[q.name])
        progress.advance(stop - start)


def _noted(
    measurements: Iterator[Measurement], asked: NDArray[np.bool_], totals: MeasuredTotals
) -> Iterator[Measurement]:
    """The same; in ``asked``, the units that something was asked of, and in ``totals`` how many
    records they have.
    """
    for m in measurements:
        totals.add(m)
        asked[m.start : m.start + len(m.values)] |= np.isfinite(m.variance)
        yield m


def _rows(
    group: Group, what: _LevelMeasured, spine: Spine, level: str, start: int, stop: int
) -> Iterator[tuple[Query, Ints, Ints, NDArray[np.float64]]]:
    """The measured rows of a row group in units ``start:stop``: query, units (from 0), values and
    variances.
    """
    table = read(
        group.path, group.number, ["geocode", "query_name", "value", "variance"], ["query_shape"]
    )
    unit = spine.find(level, texts.codes(table["geocode"])) - start
    variance = variance_of(table, group.path)
    here = (unit >= 0) & (unit < stop - start) & np.isfinite(variance)
    name = texts.texts(table["query_name"])
    for written, query in what.names.items():
        row = np.flatnonzero(here & (name == written))
        if len(row):
            check_shape(table, int(row[0]), query, group.path)
            yield (
                query,
                unit[row],
                matrix(table["value"].take(pa.array(row)), query, group.path),
                variance[row],
            )


# --- what a release says of itself
# ---------------------------------------------------------------------------


def _spec(
    name: str, schema: Schema, measured: Sequence[_LevelMeasured], known: bool, private: Private
) -> str:
    """A specification of what follows measurement; ``known`` if a level's totals are. It has no
    budget, which nobody states."""
    levels = [m.level for m in measured]
    method = (
        "topdown" if measured[0].variances else "full-information"
    )  # topdown would have no root to begin with
    at_once = [*(levels[:1] if known else []), levels[-1]]
    lines = [
        "# Read off noisy measurement files as they were published, for what follows measurement.",
        f"run.name = {_text(name)}",
        'run.publication = "published"',
        f"schema.name = {_text(schema.name)}",
        f"geography.levels = [{', '.join(map(_text, levels))}]",
        f"estimation.method = {_text(method)}",
        "[estimation.passes]",
        'default = [["total"], ["*"]]',
        *(f'{_text(level)} = [["*"]]' for level in dict.fromkeys(at_once)),
        "[published]",
        'mechanism = "discrete-gaussian"',
        f"private = {_text(private) if isinstance(private, str) else 'false'}",
    ]
    for m in measured:
        lines.append(f"[published.variance.{_text(m.level)}]")
        lines += [
            f"{_text(q.name)} = {m.usual(q.name) if q.name in m.variances else _text('unmeasured')}"
            for q in m.queries
        ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _invariant(universe: str, c: Constraint) -> Invariant:
    return Invariant.make(
        universe=universe,
        constraint=c.name,
        level=c.level,
        query=c.query,
        sign=c.sign,
        says=f"{_SAYS.get(c.name) or _SAYS[c.name[-2:]]} of every {c.level}, as published",
    )


def _privacy(
    universe: str,
    spine: Spine,
    measured: Sequence[_LevelMeasured],
    constraints: Sequence[Constraint],
    notes: Sequence[str],
    private: Literal[False, "unknown"],
) -> ForeignStatement:
    """What can be known: no ledger and no guarantee, which the publisher states."""
    return ForeignStatement.make(
        format=FORMAT,
        private=private,
        warning=None if private else WARNING,
        entropy="as published",
        mechanism="discrete-gaussian",
        guarantee="that of the publisher of the noisy measurements",
        outside=[_invariant(universe, c) for c in constraints],
        measured=[
            ForeignLine(
                universe=universe,
                level=m.level,
                query=q.name,
                units=sum(m.variances[q.name].values()),
                of_units=spine.units(m.level),
                answers=q.answers,
                variance=Variance(
                    usual=m.usual(q.name),
                    least=min(m.variances[q.name]),
                    most=max(m.variances[q.name]),
                ),
            )
            for m in measured
            for q in m.queries
            if q.name in m.variances
        ],
        ledger=(),
        says=notes,
        digests={},
        software={},
    )
