"""The Bureau's measures: an example by hand, and every row against their definitions applied to
whole arrays.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.schema import Attribute, Schema
from das.tables import published
from das.truth.evaluation import SIZES, TableTallies, Whole, tally_tables

TOY = Schema("toy", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "old"))))
LEVELS = ("State", "Block")


def from_dense(table):
    unit, cell = np.nonzero(table)
    return Histogram.from_triplets(*table.shape, unit, cell, table[unit, cell])


def rows_of(true, out, areas=()):
    known = {
        "State": Confidential(from_dense(true.sum(axis=0)[None])),
        "Block": Confidential(from_dense(true)),
    }
    made = {"State": from_dense(out.sum(axis=0)[None]), "Block": from_dense(out)}
    whole, tables = Whole(known["State"], made["State"]), published(TOY)
    tallies = TableTallies.merged([tally_tables(known, made, LEVELS, tables, whole, areas)])
    return list(tallies.rows(tables, [a.kind for a in areas], whole))


def test_by_hand():
    """Men in five blocks, true 100, 50, 8, 0, 0 and published 103, 44, 8, 2, 0: percent differences
    3, -12, 0, 200, 0.

    The fourth is 2/((0 + 2)/2), as the Bureau has it where the true count is 0.
    """
    true, out = np.zeros((5, 4), dtype=np.int64), np.zeros((5, 4), dtype=np.int64)
    true[:, 0], out[:, 0] = (100, 50, 8, 0, 0), (103, 44, 8, 2, 0)
    rows = {(r.geography, r.label, r.size): r for r in rows_of(true, out)}
    row = rows["Block", "male", "all"]
    assert (row.n, row.mae, row.me) == (5, 11 / 5, -1 / 5)
    assert row.rmse == pytest.approx(np.sqrt((9 + 36 + 4) / 5))
    assert row.mape == pytest.approx((3 + 12 + 200) / 5)
    assert row.malpe == pytest.approx((3 - 12 + 200) / 5)
    assert row.cv == pytest.approx(100 * np.sqrt(49 / 5) / (158 / 5))
    assert (row.from_2_to_5_percent, row.over_5_percent, row.over_200) == (1, 2, 0)
    assert row.shares == pytest.approx(
        sum(abs(p / 157 - t / 158) for t, p in zip(true[:, 0], out[:, 0], strict=True))
    )
    assert [rows["Block", "male", s].n for s in SIZES] == [3, 1, 1]
    assert rows["Block", "male", "0-9"].mape == pytest.approx(200 / 3)
    women = rows["Block", "female", "all"]
    assert (women.n, women.mae, women.mape, women.cv, women.shares) == (5, 0, 0, None, None)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.sampled_from([3, 40, 4000]), st.integers(0, 2**32 - 1))
def test_every_row_is_that_of_the_definitions(n, scale, seed):
    rng = np.random.default_rng(seed)
    true, out = (rng.integers(0, scale, (n, 4)) * rng.integers(0, 2, (n, 4)) for _ in range(2))
    pairs = [(a, u) for a in range(3) for u in range(n) if rng.random() < 0.5 or u == a % n]
    areas = Areas("Parish", np.array(["a", "b", "c"]), *np.array(pairs).T)
    found = rows_of(true, out, [areas])
    inside = np.zeros((3, n), dtype=np.int64)
    inside[tuple(np.array(pairs).T)] = 1
    geographies = {
        "State": np.ones((1, n), dtype=np.int64),
        "Block": np.eye(n, dtype=np.int64),
        "Parish": inside,
    }
    seen = set()
    for table in published(TOY):
        for geography, sums in geographies.items():
            t_all, p_all = (table.values(from_dense(sums @ x)) for x in (true, out))
            for j, column in enumerate(table.columns):
                t, p = t_all[:, j], p_all[:, j]
                mine = {
                    r.size: r
                    for r in found
                    if (r.geography, r.table, r.column) == (geography, table.name, column)
                }
                low = {
                    "all": (0, 1 << 60),
                    "0-9": (0, 9),
                    "10-99": (10, 99),
                    "100+": (100, 1 << 60),
                }
                assert set(mine) - {s for s in mine if s.startswith("total")} == {
                    s for s, (a, b) in low.items() if ((t >= a) & (t <= b)).any()
                }
                for size, row in mine.items():
                    seen.add(size)
                    if size.startswith("total"):
                        a, _, b = size.removeprefix("total ").removesuffix("+").partition("-")
                        a, b = int(a), int(b or 1 << 60)
                        assert j == 0
                    else:
                        a, b = low[size]
                    check(row, t[(t >= a) & (t <= b)], p[(t >= a) & (t <= b)])
    assert "all" in seen


def check(row, t, p):
    e = p - t
    r = np.array(
        [
            0 if x == y else 100 * (y - x) / (x or (x + y) / 2)
            for x, y in zip(t.tolist(), p.tolist(), strict=True)
        ]
    )
    assert row.n == len(t)
    assert (row.mae, row.me, row.rmse) == pytest.approx(
        (np.abs(e).mean(), e.mean(), np.sqrt((e**2).mean()))
    )
    assert (row.mape, row.malpe) == pytest.approx((np.abs(r).mean(), r.mean()))
    assert row.cv == (pytest.approx(100 * np.sqrt((e**2).mean()) / t.mean()) if t.any() else None)
    size = np.abs(r)
    assert (row.from_2_to_5_percent, row.over_5_percent) == (
        ((size >= 2) & (size <= 5)).sum(),
        (size > 5).sum(),
    )
    assert row.over_200 == (np.abs(e) > 200).sum()
