"""Answers of published files on demand: those that stand there, whatever the files look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.model.redistricting import PL94
from das.publications.published.files import answers as published_answers
from das.publications.published.files.answers import PublishedAnswers
from das.publications.published.files.listing import scan
from das.publications.published.files.tree import spine_of

Ints = NDArray[np.int64]
UNITS, QUERIES = 5, ("votingage", "hispanic * cenrace", "detailed")
CODES = [f"04410{n:03d}" for n in range(UNITS)]


def written(
    folder: Path, kind: pa.DataType, group: int, odd: dict[str, Any] | None = None
) -> dict[str, Ints]:
    """Files of a state and its counties, whose rows stand in any order. The last county is not
    measured by the first query. ``odd``: what is wrong with one row. Returns the counties' answers."""
    rng = np.random.default_rng(1)
    answers = {q: rng.integers(-99, 99, (UNITS, PL94.query(q).answers)) for q in QUERIES}
    rows: list[dict[str, Any]] = []
    for unit, code in enumerate(CODES):
        for name in QUERIES[1 if unit == UNITS - 1 else 0 :]:
            query = PL94.query(name)
            words = [
                "*" if g.is_total else "detailed" if name == "detailed" else g.attribute
                for g in query.groupings
            ]
            row: dict[str, Any] = dict(
                zip(("hhgq", "votingage", "hispanic", "cenrace"), words, strict=True)
            )
            row |= {"geocode": code, "query_name": f"{name}_dpq", "variance": 2.0 + unit}
            rows.append(row | {"value": answers[name][unit].tolist()})
    order = rng.permutation(len(rows)).tolist()
    rows = [rows[i] for i in order]
    if odd is not None:
        at = next(i for i, r in enumerate(rows) if r["query_name"] == "detailed_dpq")
        rows[at] |= {k: v(rows[at][k]) for k, v in odd.items()}
    put(folder / "County.parquet", rows, kind, group)
    total = {**rows[0], "geocode": "044"}
    put(folder / "State.parquet", [total], kind, group)
    return answers


def put(folder: Path, rows: list[dict[str, Any]], kind: pa.DataType, group: int) -> None:
    path = folder / "DPQuery" / "State=044"
    path.mkdir(parents=True)
    columns: dict[str, Any] = {k: [r[k] for r in rows] for k in rows[0]}
    columns["value"] = pa.array(columns["value"], kind)
    pq.write_table(pa.table(columns), path / "part-0.parquet", row_group_size=group)


def opened(folder: Path) -> PublishedAnswers:
    _, levels, _ = scan(folder)
    return PublishedAnswers(tuple(levels), spine_of(levels, folder))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.list_(pa.float32()), pa.large_list(pa.int64())]
)
@pytest.mark.parametrize("group", [1, 4, 100])
def test_any_request_is_answered_as_the_files_have_it(
    tmp_path: Path, kind: pa.DataType, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where hardly anything is kept or decoded at once: the same answers again and again."""
    monkeypatch.setattr(published_answers, "_KEPT", 3000)
    monkeypatch.setattr(published_answers, "_TOGETHER", 1)
    true = written(tmp_path, kind, group)
    source, rng = opened(tmp_path), np.random.default_rng(2)
    assert set(source.queries("County")) == set(QUERIES)
    for name in (*QUERIES, *QUERIES[::-1]):
        variance = source.variance("County", name)
        assert source.shape("County", name) == true[name].shape
        assert np.isfinite(variance).sum() == UNITS - (name == QUERIES[0])
        units = rng.integers(0, UNITS - 1, 300)
        cells = rng.integers(0, true[name].shape[1], 300)
        found = source.answers("County", name, units, cells)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, true[name][units, cells])
    nothing = np.zeros(0, dtype=np.int64)
    assert not len(source.answers("County", "detailed", nothing, nothing))


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    written(tmp_path, pa.list_(pa.int64()), 3)
    source, one = opened(tmp_path), np.ones(1, dtype=np.int64)
    with pytest.raises(InputError, match=f"{CODES[-1]} is not measured by this query"):
        source.answers("County", QUERIES[0], one * (UNITS - 1), one)
    with pytest.raises(InputError, match="'total' is not measured at level 'County'"):
        source.answers("County", "total", one, one)
    with pytest.raises(InputError, match="there is no answer 2016"):
        source.answers("County", "detailed", one, one * PL94.cells)


@pytest.mark.parametrize(
    "odd, says",
    [
        ({"value": lambda v: v[:-1]}, "2015 values where the query has 2016 answers"),
        ({"value": lambda v: [x + 0.5 for x in v]}, "values are not whole numbers"),
        ({"value": lambda v: [None, *v[1:]]}, "values are not whole numbers"),
        ({"value": lambda _: None}, "values are not lists"),
    ],
)
def test_damage_is_found_where_it_is_read(tmp_path: Path, odd: dict[str, Any], says: str) -> None:
    written(tmp_path, pa.list_(pa.float64()), 100, odd)
    source = opened(tmp_path)
    unit = np.arange(UNITS)
    with pytest.raises(ReleaseError, match=says):
        source.answers("County", "detailed", unit, np.ones_like(unit))


def test_two_rows_of_one_unit_are_refused(tmp_path: Path) -> None:
    written(tmp_path, pa.list_(pa.int64()), 4)
    part = tmp_path / "County.parquet" / "DPQuery" / "State=044" / "part-0.parquet"
    pq.write_table(pq.read_table(part), part.with_name("part-1.parquet"))
    with pytest.raises(ReleaseError, match="two measurements of"):
        opened(tmp_path).variance("County", "detailed")
