"""Noisy measurement files as a tidy frame, read tolerantly.

The published partitions drift: integer widths of ``value``, float widths of ``variance``, the
column ``sign`` in some and not in others, ``plb`` in some. So each file is read by itself, and only
the columns that the frame needs, cast to one type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as crossed
from math import prod
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from das.errors import InputError, ReleaseError, SpecError
from das.files.parquet import checked, is_marked, readable
from das.model.names import BESIDE, ENGLISH
from das.model.not_private import CELL, COLUMN
from das.model.query import TOTAL, Grouping
from das.model.redistricting import SCHEMAS
from das.model.schema import Schema
from das.model.spelling import named, product

_SUFFIX = {"DPQuery": "_dpq", "Constraint": "_con"}
_NEEDED = {
    "DPQuery": ("geocode", "query_name", "query_shape", "value", "variance"),
    "Constraint": ("geocode", "query_name", "query_shape", "value", "sign"),
}
_FIXED = ("geocode", "query_name", "query_shape", "value", "variance", "sign", "plb")


def read_nmf(
    path: Path | str,
    level: str | None = None,
    query: str | None = None,
    geocode: str | Sequence[str] | None = None,
    *,
    tidy: bool = True,
    schema: Schema | None = None,
    kind: str = "DPQuery",
) -> pd.DataFrame:
    """As :func:`das.read_nmf`, with the words of ``schema``: without it a published one that has
    these attributes is taken, and where there is none, groups are numbered. Rows of files that say
    they were seeded have the column ``NOT PRIVATE``."""
    root = _root(Path(path))
    if level is not None:
        level = named(level, list(_folders(root)), "level", root)
    if query is not None:
        query = _spelt(query.removesuffix(_SUFFIX[kind]), _queries(root, level, kind), root)
    frames = [
        _tidy(frame, name, schema) if tidy else frame.assign(level=name)
        for name, folder in _levels(root, level)
        for frame in _frames(folder / kind, query, geocode, kind)
    ]
    if not frames:
        wanted = ", ".join(
            f"{k} {v!r}" for k, v in (("level", level), ("query", query), ("geocode", geocode)) if v
        )
        raise ReleaseError(
            f"no {kind} rows{' for ' + wanted if wanted else ''}",
            where=root,
            remedy="`das nmf summary` shows what there is",
        )
    found = pd.concat(frames, ignore_index=True)
    return (
        found.assign(**{COLUMN: CELL}) if any(map(is_marked, _files(root, level, kind))) else found
    )


def _files(root: Path, level: str | None, kind: str) -> Iterator[Path]:
    for _, folder in _levels(root, level):
        yield from sorted((folder / kind).rglob("*.parquet"))


def summary(path: Path | str) -> list[dict[str, str | float]]:
    """One row for each level and query: units, answers, variance (its range), smallest and largest
    value."""
    out: list[dict[str, str | float]] = []
    for level, folder in _levels(_root(Path(path)), None):
        found: dict[str, list[pd.DataFrame]] = {}
        for frame in _frames(folder / "DPQuery", None, None, "DPQuery"):
            for name, rows in frame.groupby("query_name", sort=False):
                values = np.concatenate(rows["value"].to_numpy())
                found.setdefault(str(name).removesuffix("_dpq"), []).append(
                    pd.DataFrame(
                        {
                            "units": [len(rows)],
                            "answers": len(values) // len(rows),
                            "low": rows["variance"].min(),
                            "high": rows["variance"].max(),
                            "least": values.min(),
                            "most": values.max(),
                        }
                    )
                )
        for name, parts in found.items():
            all_ = pd.concat(parts)
            out.append(
                {
                    "level": level,
                    "query": name,
                    "units": float(all_["units"].sum()),
                    "answers": float(all_["answers"].max()),
                    "variance from": float(all_["low"].min()),
                    "to": float(all_["high"].max()),
                    "least value": float(all_["least"].min()),
                    "most": float(all_["most"].max()),
                }
            )
    return out


def _root(path: Path) -> Path:
    for candidate in (path / "release" / "nmf", path / "nmf", path):
        if any(candidate.glob("*.parquet")):
            return candidate
    raise InputError(
        "there are no noisy measurement files here",
        where=path,
        remedy="give a run, its folder release/nmf, or a folder of <Level>.parquet folders",
    )


def _levels(root: Path, level: str | None) -> list[tuple[str, Path]]:
    return [(name, folder) for name, folder in _folders(root).items() if level in (None, name)]


def _folders(root: Path) -> dict[str, Path]:
    return {
        p.name.removesuffix(".parquet"): p for p in sorted(root.glob("*.parquet")) if p.is_dir()
    }


def _spelt(query: str, known: Sequence[str], root: Path) -> str:
    try:
        return product(query, known, root)
    except InputError as error:
        raise ReleaseError(error.what, where=root, remedy=error.remedy) from None


def _queries(root: Path, level: str | None, kind: str) -> list[str]:
    """The queries of the files, without their suffix."""
    found: dict[str, None] = {}
    for _, folder in _levels(root, level):
        for path in sorted((folder / kind).rglob("*.parquet")):
            names = _read(path, ["query_name"], None)["query_name"].unique().to_pylist()
            found |= dict.fromkeys(str(n).removesuffix(_SUFFIX[kind]) for n in names)
    return list(found)


def _frames(
    folder: Path, query: str | None, geocode: str | Sequence[str] | None, kind: str
) -> list[pd.DataFrame]:
    out, level = [], folder.parent.name.removesuffix(".parquet")
    for path in sorted(folder.rglob("*.parquet")):
        table = _read(path, None, _filter(query, geocode, kind, level))
        if lost := [c for c in _NEEDED[kind] if c not in table.column_names]:
            raise ReleaseError(
                f"there is no column {lost[0]!r}", where=path, remedy="get the file again"
            )
        if table.num_rows:
            frame = table.to_pandas()
            frame.loc[frame["geocode"] == "", "geocode"] = level  # a root above all places
            out.append(frame)
    return out


def _read(path: Path, columns: list[str] | None, chosen: ds.Expression | None) -> pa.Table:
    with readable(path, "get the file again"):
        data = ds.dataset(path, format="parquet")
        table = data.to_table(
            columns=columns or [c for c in data.schema.names if c != "plb"], filter=chosen
        )
        return checked(table, path, absent=("variance", "sign"))


def _filter(
    query: str | None, geocode: str | Sequence[str] | None, kind: str, level: str
) -> ds.Expression | None:
    chosen = None
    if query is not None:
        chosen = ds.field("query_name") == query + _SUFFIX[kind]
    if geocode is not None:
        wanted = [geocode] if isinstance(geocode, str) else list(geocode)
        wanted += [""] if level in wanted else []
        here = ds.field("geocode").isin(wanted)
        chosen = here if chosen is None else chosen & here
    return chosen


def _tidy(frame: pd.DataFrame, level: str, schema: Schema | None) -> pd.DataFrame:
    """One row for each answer."""
    parts, total = [], (ENGLISH if schema is None else schema.words).total
    attributes = [
        c for c in frame.columns if c not in _FIXED and not c.startswith(("State", "County"))
    ]
    for name, rows in frame.groupby("query_name", sort=False):
        first, sizes = rows.iloc[0], rows["value"].map(len)
        shape = [int(n) for n in first["query_shape"]]
        if len(shape) != len(attributes) or (sizes != prod(shape)).any():
            raise ReleaseError(
                f"{name}: {int(sizes.iloc[0])} values, and the shape of {len(attributes)}"
                f" attributes is {shape}",
                where=level,
                remedy="get the files again",
            )
        axes = _axes(first, attributes, schema)
        codes, answers = list(crossed(*(g.groups for g in axes))), prod(shape)
        shown = [g.labels for g in axes if not g.is_total]
        labels = [BESIDE.join(x) for x in crossed(*shown)] if shown else [total]
        columns: dict[str, object] = {
            "level": level,
            "geocode": np.repeat(rows["geocode"].to_numpy(), answers),
            "query": str(name).removesuffix("_dpq").removesuffix("_con"),
        }
        for i, attribute in enumerate(attributes):
            columns[attribute] = np.tile([x[i] for x in codes], len(rows))
        columns["label"] = np.tile(labels, len(rows))
        columns["value"] = np.concatenate(rows["value"].to_numpy()).astype(np.int64)
        for extra, dtype in (("variance", np.float64), ("sign", object)):
            if extra in rows:
                columns[extra] = np.repeat(rows[extra].to_numpy().astype(dtype), answers)
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _axes(row: pd.Series, attributes: list[str], schema: Schema | None) -> list[Grouping]:
    """The grouping of each attribute: from a schema that fits, else of numbers."""
    fitting = (
        [schema]
        if schema
        else [s for s in SCHEMAS.values() if [a.name for a in s.attributes] == attributes]
    )
    out = []
    for attribute, size in zip(attributes, map(int, row["query_shape"]), strict=True):
        known = (_grouping(s, attribute, str(row[attribute])) for s in fitting)
        numbers = (TOTAL,) if size == 1 else tuple(map(str, range(size)))
        found = next((g for g in known if g is not None and len(g.groups) == size), None)
        out.append(found or Grouping.detailed(attribute, numbers))
    return out


def _grouping(schema: Schema, attribute: str, how: str) -> Grouping | None:
    try:
        query = schema.query("total" if how == TOTAL else attribute if how == "detailed" else how)
        return query.groupings[schema.axis(attribute)]
    except SpecError:
        return None
