"""Noisy measurement files as the Bureau publishes them, made into a release that post-processing can open.

``<folder>/<Level>.parquet/{DPQuery,Constraint}/State=<d><SS>/[County=.../]part-*.parquet`` and nothing else: no
specification, no spine, no privacy statement. All three are read off the rows.

*Spine.* The levels are the folders, from the root down in the order of the publications, or by their numbers of
units where a name is not one of these. A unit's parent is the unit of the level above whose geocode its own begins
with. A unit that was bypassed has no rows: it is there if codes below begin with it, and unmeasured.
*Variances.* Those of the rows; infinite where a unit was not measured (no row, or a variance of NaN, infinity or 0).
*Constraints.* The bounds of the dwelling groups at the lowest level, and the totals of the lowest level of which
all are known.

Rows are read tolerantly, as the published partitions drift: any width of integers or floats, with or without
``plb``, ``sign``, ``query_shape`` and the suffixes of names, in any order, cut into row groups anyhow.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError, SpecError, UserError
from das.files import nmf, run_directory
from das.files import spine as spine_file
from das.model.constraint import Constraint, Kind
from das.model.measurement import Measurement
from das.model.query import Query
from das.model.schema import SCHEMAS, Schema
from das.model.spine import Spine

Codes = NDArray[np.str_]
Ints = NDArray[np.int64]

#: The levels of the publications, root first.
KNOWN = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Tract", "Block_Group", "Block")
_FIXED = ("geocode", "query_name", "query_shape", "value", "variance", "sign", "plb", *KNOWN)
_SIGNS = {"total": "=", "lb": ">=", "ub": "<="}
_SAYS = {"al": "the total", "lb": "least numbers in the dwelling groups", "ub": "most numbers in the dwelling groups"}
_SAME_SIGN = {"==": "=", "le": "<=", "ge": ">=", "eq": "="}
#: Where a unit has no upper bound: more than everybody.
_NO_LIMIT = 1 << 34
#: Values of one level held at a time.
_BATCH = 1 << 24
_AGAIN = "the files are incomplete or altered: get them again from where they were published"


def is_published(folder: Path) -> bool:
    """True if ``folder`` holds folders ``<Level>.parquet``, and no specification of a release of ours."""
    return not (folder / "spec.toml").is_file() and bool(_folders(folder))


def convert(folder: Path, out: Path, batch: int = _BATCH) -> None:
    """Write the release ``out``, which must not be there yet, from the published files under ``folder``.

    ``out`` appears whole or not at all. What could not be taken over as it stands is listed in its
    ``privacy.json`` under ``notes``.

    Raises:
        InputError, ReleaseError: no levels, unreadable files, attributes or groupings of no schema that is built
            in, geocodes that make no tree, values that do not fit their query, totals that contradict each other.
    """
    draft = out.with_name(f".{out.name}.tmp")
    there = out.parent.exists()
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"cannot be created ({error.strerror})", where=draft, remedy="choose another --out") from None
    try:
        _convert(folder, draft, batch)
        draft.rename(out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        if not there and not any(out.parent.iterdir()):
            out.parent.rmdir()
        raise


def _convert(folder: Path, draft: Path, batch: int) -> None:
    schema, levels = _scan(folder)
    spine = _spine(levels, folder)
    notes: list[str] = []
    constraints = _constraints(schema, spine, levels, notes)
    measured = [_Measured.of(schema, level) for level in levels]
    root = run_directory.nmf_folder(draft, "persons")
    for level, what in zip(levels, measured, strict=True):
        nmf.write(root, level.name, schema, spine, _measurements(level, what, spine, batch))
        if not what.variances:
            notes.append(f"nothing is measured at {level.name}")
    if not measured[0].variances:
        if all(q.answers < schema.cells for q in measured[-1].queries):
            raise InputError(f"nothing is measured at {levels[0].name}, nor the detailed query at {levels[-1].name}: "
                             "there is nothing to begin an estimate with", where=folder, remedy=_AGAIN)  # fmt: skip
        notes.append(f"{levels[0].name} is estimated from the levels below it: the method is full-information")
    nmf.write_constraints(root, schema, spine, constraints)
    spine_file.write(draft / "spine.parquet", spine)
    name = folder.resolve().name or "published"
    run_directory.write_text(draft / "spec.toml", _spec(name, schema, measured, constraints))
    run_directory.write_json(draft / "privacy.json", _privacy(spine, measured, constraints, notes))


# --- what the files hold -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """A row group of a file, and the first and last of its geocodes."""

    path: Path
    number: int
    first: str
    last: str


@dataclass
class _Level:
    """One level as a first look at its files shows it."""

    name: str
    groups: list[_Group] = field(default_factory=list)
    constraints: list[_Group] = field(default_factory=list)
    codes: Codes = field(default_factory=lambda: np.zeros(0, dtype="<U1"))
    #: Measured units by variance, for each name of a query in the files and what it stands for.
    found: dict[str, tuple[Query, Counter[float]]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  #: of constraints


def _folders(folder: Path) -> dict[str, Path]:
    """The folders of the levels, by name."""
    try:
        found = sorted(p for p in folder.glob("*.parquet") if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=folder) from None
    return {p.name.removesuffix(".parquet"): p for p in found}


def _scan(folder: Path) -> tuple[Schema, list[_Level]]:
    """The schema, and the levels from the root down."""
    folders = _folders(folder)
    if not folders:
        raise InputError("no folder <Level>.parquet is here", where=folder,
                         remedy="give the folder that holds US.parquet, State.parquet, ...")  # fmt: skip
    schema: Schema | None = None
    levels = []
    for name, path in folders.items():
        level = _Level(name)
        codes = [level.codes]
        for kind in ("DPQuery", "Constraint"):
            for file in _files(path / kind):
                here = _schema(file)
                if schema is not None and here != schema:
                    raise InputError(f"its attributes are those of schema {here.name!r}, in other files of "
                                     f"{schema.name!r}", where=file, remedy="convert persons and units one by one")  # fmt: skip
                schema = here
                groups = range(_open(file).num_row_groups)
                codes.append(_union([_look(file, number, kind, schema, level) for number in groups]))
        level.codes = _union(codes)
        levels.append(level)
    if schema is None or not any(level.groups for level in levels):
        raise InputError("there are no measurements in the folders of the levels", where=folder, remedy=_AGAIN)
    return schema, _ordered(levels, folder)


def _ordered(levels: list[_Level], folder: Path) -> list[_Level]:
    """From the root down. A root without rows is known all the same: it is the only unit, of whatever geocode."""
    if all(level.name in KNOWN for level in levels):
        levels = sorted(levels, key=lambda level: KNOWN.index(level.name))
    else:
        size = {level.name: (len(level.codes), *np.strings.str_len(level.codes[:1]).tolist()) for level in levels}
        levels = sorted(levels, key=lambda level: size[level.name])
        if same := [(a.name, b.name) for a, b in pairwise(levels) if size[a.name] == size[b.name]]:
            raise InputError(f"which of the levels {' and '.join(same[0])} is the upper one cannot be told: they have as "
                             "many units", where=folder,
                             remedy=f"name the levels as the publications do ({', '.join(KNOWN)})")  # fmt: skip
    if not len(levels[0].codes):
        levels[0].codes = np.array([levels[0].name])
    if empty := [level.name for level in levels if not len(level.codes)]:
        raise InputError("this level has no rows", where=folder / f"{empty[0]}.parquet",
                         remedy="complete it, or move its folder away to go without the level")  # fmt: skip
    return levels


def _union(codes: Sequence[Codes]) -> Codes:
    return np.unique(np.concatenate([np.zeros(0, dtype="<U1"), *codes]))


def _files(folder: Path) -> list[Path]:
    found = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    return sorted(p for p in found if p.suffix != ".crc")


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise ReleaseError(f"not a readable Parquet file ({error})", where=path, remedy=_AGAIN) from None


def _schema(path: Path) -> Schema:
    """The schema whose attributes are the columns of a file."""
    names = [n for n in _open(path).schema_arrow.names if n not in _FIXED]
    for schema in SCHEMAS.values():
        if set(names) == {a.name for a in schema.attributes}:
            return schema
    known = "; ".join(f"{s.name}: {', '.join(a.name for a in s.attributes)}" for s in SCHEMAS.values())
    raise InputError(f"its attributes ({', '.join(names) or 'none'}) are those of no schema that is built in",
                     where=path, remedy=f"the schemas that are built in are {known}")  # fmt: skip


def _read(path: Path, group: int, needed: Sequence[str], wanted: Sequence[str] = ()) -> pa.Table:
    """Columns of a row group: all that are ``needed``, and of the ``wanted`` those there are. Texts are whole."""
    file = _open(path)
    there = file.schema_arrow.names
    if lost := [n for n in needed if n not in there]:
        raise ReleaseError(f"there is no column {lost[0]!r}", where=path, remedy=_AGAIN)
    try:
        table = file.read_row_group(group, [*needed, *(n for n in wanted if n in there)])
    except (OSError, pa.ArrowException) as error:
        raise ReleaseError(f"cannot be read ({error})", where=path, remedy=_AGAIN) from None
    for i, column in enumerate(table.schema):
        if column.name in ("value", "variance", "query_shape"):
            continue
        try:
            table[i].validate(full=True)
        except pa.ArrowException as error:
            raise ReleaseError(f"column {column.name!r} is not text ({error})", where=path, remedy=_AGAIN) from None
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or table[i].null_count:
            raise ReleaseError(f"column {column.name!r} is not text, or some of it is missing", where=path,
                               remedy=_AGAIN)  # fmt: skip
        table = table.set_column(i, column.name, table[i].cast(pa.string()))
    return table


def _look(path: Path, number: int, kind: str, schema: Schema, level: _Level) -> Codes:
    """The geocodes of a row group. Adds to ``level`` what it holds: the names of constraints, or the queries with
    their variances."""
    attributes = [a.name for a in schema.attributes]
    measured = kind == "DPQuery"
    table = _read(path, number, ["geocode", "query_name", *attributes, *(["variance"] if measured else [])])
    codes = np.sort(np.array(pc.unique(table["geocode"]).to_pylist(), dtype=str))
    if not len(codes):
        return codes
    group = _Group(path, number, str(codes[0]), str(codes[-1]))
    if not measured:
        level.constraints.append(group)
        level.names |= {_bare(n) for n in pc.unique(table["query_name"]).to_pylist()}
        return codes
    level.groups.append(group)
    table = table.set_column(table.schema.get_field_index("variance"), "variance", pa.array(_variance(table, path)))
    for row in table.group_by(["query_name", *attributes, "variance"]).aggregate([([], "count_all")]).to_pylist():
        name = row["query_name"]
        query = _query(schema, _bare(name), [row[a] for a in attributes], path)
        before, units = level.found.setdefault(name, (query, Counter()))
        if before.groupings != query.groupings:
            raise ReleaseError(f"{name!r} does not mean the same in all rows", where=path, remedy=_AGAIN)
        if np.isfinite(row["variance"]):
            units[row["variance"]] += row["count_all"]
    return codes


def _bare(name: str) -> str:
    return name.removesuffix("_dpq").removesuffix("_con")


def _variance(table: pa.Table, path: Path) -> NDArray[np.float64]:
    """The variance of each row, infinite where it was not measured."""
    try:
        variance = table["variance"].cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise ReleaseError(f"variances are not numbers ({error})", where=path, remedy=_AGAIN) from None
    if (variance < 0).any():
        raise ReleaseError("a variance is negative", where=path, remedy=_AGAIN)
    return np.where(np.isfinite(variance) & (variance > 0), variance, np.inf)


def _query(schema: Schema, name: str, labels: Sequence[str], path: Path) -> Query:
    """The query that the columns of the attributes spell, under its own name where that spells the same."""
    factors = {
        a.name: a.name if label == "detailed" else label
        for a, label in zip(schema.attributes, labels, strict=True)
        if label != "*"
    }
    every = len(factors) == len(labels) and set(labels) == {"detailed"}
    try:
        query = schema.query("detailed" if every else " * ".join(factors.values()) or "total")
        wrong = [a for a, f in factors.items() if schema.query(f).groupings[schema.axis(a)].is_total]
    except SpecError as error:
        raise InputError(f"query {name!r} has a grouping that is not built in: {error.what}", where=path,
                         remedy=error.remedy) from None  # fmt: skip
    if wrong:
        raise InputError(f"query {name!r} groups {wrong[0]!r} by {factors[wrong[0]]!r}, which groups another attribute",
                         where=path, remedy=_AGAIN)  # fmt: skip
    try:
        named = schema.query(name)
    except SpecError:
        return query
    if named.groupings != query.groupings:
        raise ReleaseError(f"the columns of the attributes say that query {name!r} is {query.name!r}", where=path,
                           remedy=_AGAIN)  # fmt: skip
    return named


# --- the tree ------------------------------------------------------------------------------------------------


def _spine(levels: Sequence[_Level], folder: Path) -> Spine:
    """From the lowest level up: each level's own units, and those that codes below begin with."""
    codes: list[Codes] = [np.zeros(0, dtype=str)] * len(levels)
    parents: list[Ints] = [np.zeros(1, dtype=np.int64)] * len(levels)
    _stand_ins(levels)
    codes[-1] = levels[-1].codes
    for depth in range(len(levels) - 1, 0, -1):
        here, above = levels[depth], levels[depth - 1]
        _check_free(codes[depth], here.name, folder)
        if depth == 1:
            codes[0] = above.codes
            parents[1] = np.zeros(len(codes[1]), dtype=np.int64)
        else:
            home = _homes(codes[depth], here.name, above, folder)
            codes[depth - 1] = np.union1d(above.codes, home)
            parents[depth] = np.searchsorted(codes[depth - 1], home).astype(np.int64)
            childless = np.setdiff1d(codes[depth - 1], home)
            if len(childless):
                raise InputError(f"{above.name} {str(childless[0])!r} has no unit of level {here.name} below it "
                                 f"({len(childless)} such units)", where=folder,
                                 remedy="get the missing partitions, or leave out those of its branch everywhere")  # fmt: skip
    if len(codes[0]) != 1:
        raise InputError(f"level {levels[0].name} has {len(codes[0])} units ({codes[0][0]}, {codes[0][1]}, ...), but "
                         "the tree has one root", where=folder,
                         remedy="get the folder of the level above, or keep one branch alone")  # fmt: skip
    return Spine(tuple(level.name for level in levels), tuple(codes), tuple(parents))


def _stand_ins(levels: Sequence[_Level]) -> None:
    """Where a unit of a level has a code as long as those of the next, it stands for a unit of the next, too: its
    only child, bypassed, which need not have rows of its own."""
    for above, here in pairwise(levels[1:]):
        lengths = np.unique(np.strings.str_len(here.codes))
        own = np.strings.str_len(above.codes)
        if len(lengths) == 1 and own.min() < own.max():
            here.codes = np.union1d(here.codes, above.codes[own == lengths[0]])


def _check_free(codes: Codes, name: str, folder: Path) -> None:
    """No code of a level begins with another: then a code below has one parent at most, and the order of the
    codes is that of their parents."""
    bad = np.flatnonzero(np.strings.startswith(codes[1:], codes[:-1]))
    if len(bad):
        a, b = codes[bad[0]], codes[bad[0] + 1]
        raise InputError(f"geocode {str(b)!r} of level {name} begins with {str(a)!r}, another unit of that level",
                         where=folder, remedy=_AGAIN)  # fmt: skip


def _homes(codes: Codes, name: str, above: _Level, folder: Path) -> Codes:
    """The code of each unit's parent: the unit of the level above that it begins with or, if none, as much of it
    as the codes of that level are long."""
    lengths = np.unique(np.strings.str_len(above.codes)).tolist()
    home = np.full(len(codes), "", dtype=f"<U{max(lengths)}")
    for length in lengths:
        cut = codes.astype(f"<U{length}")
        known = np.isin(cut, above.codes)
        home[known] = cut[known]
    lost = home == ""
    if lost.any() and len(lengths) == 1:
        derived = lost & (np.strings.str_len(codes) >= lengths[0])
        home[derived] = codes.astype(f"<U{lengths[0]}")[derived]
        lost &= ~derived
    if lost.any():
        raise InputError(f"{name} {str(codes[lost][0])!r} belongs to no unit of level {above.name}: no geocode there "
                         f"is its beginning ({int(lost.sum())} such units)", where=folder, remedy=_AGAIN)  # fmt: skip
    return home


# --- measurements --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    """What is measured at a level: by the names of queries in the files, the query; and the usual variance and
    number of units of each that is measured anywhere."""

    level: str
    names: Mapping[str, Query]
    variances: Mapping[str, Counter[float]]
    queries: tuple[Query, ...]

    @staticmethod
    def of(schema: Schema, level: _Level) -> _Measured:
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
        return _Measured(level.name, names, variances, tuple(queries.values()))

    def usual(self, query: str) -> float:
        return self.variances[query].most_common(1)[0][0] if query in self.variances else float("inf")


def _measurements(level: _Level, what: _Measured, spine: Spine, limit: int) -> Iterator[Measurement]:
    """All queries of a slice of units, and so on: what is not in the files is zero with infinite variance."""
    ends = np.array([[g.first, g.last] for g in level.groups], dtype=str).reshape(-1, 2)
    first, last = (spine.find(level.name, ends[:, i]) if len(ends) else np.zeros(0, dtype=int) for i in (0, 1))
    for start, stop in spine.batches(level.name, sum(q.answers for q in what.queries), limit):
        values = {q.name: np.zeros((stop - start, q.answers), dtype=np.int64) for q in what.queries}
        variance = {q.name: np.full(stop - start, np.inf) for q in what.queries}
        for i in np.flatnonzero((first < stop) & (last >= start)):
            group = level.groups[i]
            for query, unit, got, var in _rows(group, what, spine, level.name, start, stop):
                again = np.isfinite(variance[query.name][unit])
                if again.any() or len(np.unique(unit)) != len(unit):
                    raise ReleaseError(f"two measurements of {query.name!r} for one unit of {level.name}",
                                       where=group.path, remedy=_AGAIN)  # fmt: skip
                values[query.name][unit], variance[query.name][unit] = got, var
        for q in what.queries:
            yield Measurement(level.name, q.name, start, values[q.name], variance[q.name])


def _rows(
    group: _Group, what: _Measured, spine: Spine, level: str, start: int, stop: int
) -> Iterator[tuple[Query, Ints, Ints, NDArray[np.float64]]]:
    """The measured rows of a row group in units ``start:stop``: query, units (from 0), values and variances."""
    table = _read(group.path, group.number, ["geocode", "query_name", "value", "variance"], ["query_shape"])
    unit = spine.find(level, np.array(table["geocode"].to_pylist(), dtype=str)) - start
    variance = _variance(table, group.path)
    here = (unit >= 0) & (unit < stop - start) & np.isfinite(variance)
    name = np.array(table["query_name"].to_pylist(), dtype=str)
    for written, query in what.names.items():
        row = np.flatnonzero(here & (name == written))
        if len(row):
            _check_shape(table, int(row[0]), query, group.path)
            yield query, unit[row], _matrix(table["value"].take(pa.array(row)), query, group.path), variance[row]


def _check_shape(table: pa.Table, row: int, query: Query, path: Path) -> None:
    """The answers are in the order of our attributes. Axes of one answer may be left out."""
    if "query_shape" in table.column_names:
        shape = table["query_shape"][row].as_py() or []
        if [n for n in shape if n != 1] != [n for n in query.shape if n != 1]:
            raise ReleaseError(f"the shape of query {query.name!r} is {shape}, not {list(query.shape)}", where=path,
                               remedy="the schema of these files is not the one that is built in")  # fmt: skip


def _matrix(column: pa.ChunkedArray, query: Query, path: Path) -> Ints:
    """Lists of whole numbers, one for each answer, as rows of an array."""
    where = f"{path}, query {query.name!r}"
    try:
        widths = set(pc.unique(pc.list_value_length(column)).to_pylist())
        flat = pc.list_flatten(column)
    except pa.ArrowException as error:
        raise ReleaseError(f"values are not lists ({error})", where=where, remedy=_AGAIN) from None
    if widths != {query.answers}:
        wrong = sorted(map(str, widths - {query.answers}))[0]
        raise ReleaseError(f"{wrong} values where the query has {query.answers} answers", where=where, remedy=_AGAIN)
    values = flat.to_numpy()
    whole = not flat.null_count and values.dtype.kind in "iuf" and bool((np.rint(values) == values).all())
    if not whole or (np.abs(values) > 2.0**62).any():
        raise ReleaseError("values are not whole numbers", where=where, remedy=_AGAIN)
    return values.astype(np.int64).reshape(len(column), query.answers)


# --- constraints ---------------------------------------------------------------------------------------------


def _constraints(schema: Schema, spine: Spine, levels: Sequence[_Level], notes: list[str]) -> list[Constraint]:
    """Those that post-processing enforces: totals of one level, and bounds of the dwelling groups."""
    dwelling = schema.dwelling
    bounds = [] if dwelling is None else [f"{dwelling}_total_{end}" for end in ("lb", "ub")]
    structural = {"nurse_nva_0"} if schema.impossible else set()
    for level in levels:
        if strange := sorted(level.names - {"total", *bounds} - structural):
            notes.append(f"{level.name}: constraints that are not enforced: {', '.join(strange)}")
    out = _known_total(schema, spine, levels, notes)
    lowest = levels[-1]
    if not lowest.names & set(bounds):
        if above := [level.name for level in levels if level.names & set(bounds)]:
            notes.append(f"bounds of the groups of {dwelling!r} are given at {', '.join(above)} and not at "
                         f"{lowest.name}: not enforced")  # fmt: skip
        return out
    low, high = (_bound(schema, spine, lowest, name, name[-2:], str(dwelling)) for name in bounds)
    for name, bound in zip(bounds, (low, high), strict=True):
        if missing := int((bound < 0).any(axis=1).sum()):
            notes.append(f"{lowest.name}: {name} is not given for {missing} of {len(bound)} units, which are unbounded")
    low, high = np.where(low < 0, 0, low), np.where(high < 0, _NO_LIMIT, high)
    if (bad := (low > high).any(axis=1)).any():
        raise InputError(f"{lowest.name} {spine.codes[-1][bad][0]}: a lower bound is above the upper one",
                         where="hhgq_total_lb and hhgq_total_ub", remedy=_AGAIN)  # fmt: skip
    notes += _stricter(schema, spine, levels, [c.level for c in out], low, high)
    for name, sign, bound in zip(bounds, (">=", "<="), (low, high), strict=True):
        out.append(Constraint(name, lowest.name, str(dwelling), sign, Kind.INVARIANT, bound))
    return out


def _stricter(
    schema: Schema, spine: Spine, levels: Sequence[_Level], total: Sequence[str], low: Ints, high: Ints
) -> Iterator[str]:
    """Notes on bounds of levels above the lowest that say more than those below them. Where totals are known they
    do not: published bounds are then cut to what the total leaves, as these are by the total itself."""
    first = spine.index(total[0]) + 1 if total else 0
    for level in levels[first:-1]:
        home = spine.up(levels[-1].name, level.name)
        for end, lowest, way in (("lb", low, 1), ("ub", high, -1)):
            name = f"{schema.dwelling}_total_{end}"
            if name in level.names:
                sums = np.add.reduceat(lowest, np.searchsorted(home, np.arange(spine.units(level.name))), axis=0)
                given = _bound(schema, spine, level, name, end, str(schema.dwelling))
                if (bad := ((given - sums) * way > 0) & (given >= 0)).any():
                    yield (f"{level.name}: {name} is stricter than the bounds below it for {int(bad.any(axis=1).sum())} "
                           f"of {len(bad)} units: not enforced")  # fmt: skip


def _known_total(schema: Schema, spine: Spine, levels: Sequence[_Level], notes: list[str]) -> list[Constraint]:
    """The totals of the lowest level of which all are known; those above must be their sums."""
    known: tuple[str, Ints] | None = None
    for level in reversed(levels):
        if "total" not in level.names:
            continue
        total = _bound(schema, spine, level, "total", "total", "total")[:, 0]
        if (total < 0).any():
            notes.append(f"{level.name}: the total is known for {int((total >= 0).sum())} of {len(total)} units, and "
                         "treated as unknown for all")  # fmt: skip
        elif known is None:
            known = level.name, total
        else:
            sums = np.bincount(spine.up(known[0], level.name), weights=known[1], minlength=len(total))
            if (bad := sums != total).any():
                code = spine.codes[spine.index(level.name)][bad][0]
                raise InputError(f"the total of {level.name} {code} is {total[bad][0]}, but those of level {known[0]} "
                                 f"below it sum to {int(sums[bad][0])}", where="total_con", remedy=_AGAIN)  # fmt: skip
    if known is None:
        return []
    return [Constraint("total", known[0], "total", "=", Kind.INVARIANT, known[1][:, None])]


def _bound(schema: Schema, spine: Spine, level: _Level, name: str, kind: str, query: str) -> Ints:
    """The bounds that a constraint sets, ``(units, answers)``; -1 where it has no row."""
    spelt = schema.query(query)
    bound = np.full((spine.units(level.name), spelt.answers), -1, dtype=np.int64)
    for group in level.constraints:
        table = _read(group.path, group.number, ["geocode", "query_name", "value"], ["sign", "query_shape"])
        names = np.array(table["query_name"].to_pylist(), dtype=str)
        row = np.flatnonzero((names == f"{name}_con") | (names == name))
        if not len(row):
            continue
        if "sign" in table.column_names:
            signs = {_SAME_SIGN.get(s, s) for s in table["sign"].take(pa.array(row)).to_pylist()}
            if signs != {_SIGNS[kind]}:
                raise ReleaseError(f"constraint {name!r} has the sign {sorted(signs - {_SIGNS[kind]})[0]!r}, not "
                                   f"{_SIGNS[kind]!r}", where=group.path, remedy=_AGAIN)  # fmt: skip
        table = table.take(pa.array(row))
        unit = spine.find(level.name, np.array(table["geocode"].to_pylist(), dtype=str))
        _check_shape(table, 0, spelt, group.path)
        got = _matrix(table["value"], spelt, group.path)
        if (bound[unit] >= 0).any() or len(np.unique(unit)) != len(unit) or (got < 0).any():
            raise ReleaseError(f"constraint {name!r} is there twice for a unit of {level.name}, or negative",
                               where=group.path, remedy=_AGAIN)  # fmt: skip
        bound[unit] = got
    return bound


# --- what a release says of itself ---------------------------------------------------------------------------


def _spec(name: str, schema: Schema, measured: Sequence[_Measured], constraints: Sequence[Constraint]) -> str:
    """A specification that post-processing can work by. Shares are in the ratio of the usual precisions."""
    levels = [m.level for m in measured]
    total = [c.level for c in constraints if c.name == "total"]
    bounded = "true" if len(constraints) > len(total) else "false"
    parts = {m.level: {q.name: max(1, round(1e12 / m.usual(q.name))) for q in m.queries} for m in measured}
    sums = {level: sum(queries.values()) for level, queries in parts.items()}
    every = sum(sums.values())
    method = "topdown" if measured[0].variances else "full-information"  # topdown would have no root to begin with
    at_once = [*(levels[:1] if total else []), levels[-1]]
    lines = [
        "# Read off noisy measurement files as they were published, for what follows measurement. The budget is what",
        "# their variances imply of a zCDP mechanism; data.reader is there because a specification must have one.",
        f"run.name = {_text(name)}",
        'data.reader = "pl94-2020"',
        f"schema.name = {_text(schema.name)}",
        f"geography.levels = [{', '.join(map(_text, levels))}]",
        *(f"constraints.total = {_text(level)}" for level in total),
        f"constraints.housing_units = {bounded}",
        f"constraints.group_quarters = {bounded}",
        f"estimation.method = {_text(method)}",
        "[estimation.passes]",
        'default = [["total"], ["*"]]',
        *(f'{_text(level)} = [["*"]]' for level in dict.fromkeys(at_once)),
        "[budget]",
        f'rho = "{Fraction(every, 10**12)}"',
        'neighbours = "bounded"',
        "[budget.levels]",
        *(f'{_text(level)} = "{Fraction(part, every)}"' for level, part in sums.items()),
    ]
    for level, queries in parts.items():
        lines.append(f"[budget.queries.{_text(level)}]")
        lines += [f'{_text(q)} = "{Fraction(part, sums[level])}"' for q, part in queries.items()]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _privacy(
    spine: Spine, measured: Sequence[_Measured], constraints: Sequence[Constraint], notes: Sequence[str]
) -> dict[str, object]:
    """What can be known: no ledger and no guarantee, which the publisher states."""
    return {
        "private": True,
        "entropy": "as published",
        "mechanism": "discrete-gaussian",
        "guarantee": "that of the publisher of the noisy measurements",
        "outside_the_guarantee": [
            {"universe": "persons", "constraint": c.name, "level": c.level, "query": c.query, "sign": c.sign,
             "says": f"{_SAYS[c.name[-2:]]} of every {c.level}, as published"}
            for c in constraints
        ],
        "measured": [
            {
                "universe": "persons", "level": m.level, "query": q.name, "units": sum(m.variances[q.name].values()),
                "of_units": spine.units(m.level), "answers": q.answers,
                "variance": {"usual": m.usual(q.name), "least": min(m.variances[q.name]),
                             "most": max(m.variances[q.name])},
            }
            for m in measured for q in m.queries if q.name in m.variances
        ],
        "ledger": [],
        "notes": list(notes),
    }  # fmt: skip
