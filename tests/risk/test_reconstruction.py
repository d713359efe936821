from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import InputError, UserError
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.tools.protection.attack import (
    AttackOptions,
    AttackStatus,
    Reconstruction,
    areas,
    reconstruct,
)
from das.tools.protection.published import UNBOUNDED, WITHHELD, LevelLines, ProtectedTables
from tests.risk.attack_worlds import (
    CROSSED,
    PEOPLE,
    people,
    published,
    solutions,
    tables_of,
    tree,
    two_way,
)

Ints = NDArray[np.int64]
CERTIFY = AttackOptions()
QUICK = AttackOptions(variability=False)


@pytest.fixture(scope="module")
def world() -> tuple[Histogram, ProtectedTables]:
    rng = np.random.default_rng(5)
    spine, h = tree(12, 2), people(rng, 12, 4.0)
    return h, published(h, spine, tables_of(PEOPLE, CROSSED))


def counts(p: ProtectedTables, h: Histogram) -> Ints:
    return p.tables.lines("Block").counts(h)


def noisy(p: ProtectedTables, rng: np.random.Generator, price: tuple[float, ...]) -> LevelLines:
    """Each line moved by at most one, with bounds of one either way."""
    true = p.levels["Block"].value
    value = np.maximum(true + rng.integers(-1, 2, true.shape), 0)
    return LevelLines(np.maximum(value - 1, 0), value + 1, value, price)


# --- exact lines
# -------------------------------------------------------------------------------------------------


def test_a_guess_obeys_every_line_and_unique_records_are_the_true_ones(
    world: tuple[Histogram, ProtectedTables],
) -> None:
    h, p = world
    found = reconstruct(p, CERTIFY)
    assert np.array_equal(counts(p, found.histogram), counts(p, h))
    assert 0 < found.unique.sum() < len(found.unique)
    assert np.array_equal(found.histogram.dense()[found.unique], h.dense()[found.unique])
    assert found.count(AttackStatus.UNIQUE) + found.count(AttackStatus.SOLVED) == len(found.status)


@pytest.mark.parametrize(
    ("rows", "columns", "number"),
    [
        ((1, 1), (1, 1), 2),
        ((2, 1), (2, 1), 2),
        ((3, 2), (2, 2, 1), 5),
        ((2, 2, 2), (2, 2, 2), 21),
        ((1, 1, 1, 1), (2, 1, 1), 12),
        ((1, 1, 1, 1, 1), (4, 1), 5),
        ((5,), (3, 2), 1),
    ],
)
def test_margins_have_one_solution_only_where_a_margin_has_one_entry(
    rows: tuple[int, ...], columns: tuple[int, ...], number: int
) -> None:
    p = two_way(rows, columns)
    found = reconstruct(p, QUICK)
    assert found.unique.all() == (number == 1)
    assert np.array_equal(counts(p, found.histogram), p.levels["Block"].value)
    if number < 10:
        m, y = p.tables.lines("Block").matrix.toarray(), p.levels["Block"].value[0]
        assert len(solutions(m, y, y, max(rows))) == number


def test_parts_of_the_work_are_the_whole(world: tuple[Histogram, ProtectedTables]) -> None:
    _, p = world
    whole = reconstruct(p, QUICK)
    parts = [reconstruct(p, QUICK, units=units) for units in areas(p)]
    assert len(parts) == 2
    assert (parts[0].status[6:] == AttackStatus.SKIPPED).all()
    again = Reconstruction.merged(parts)
    assert again.histogram.same_as(whole.histogram)
    assert np.array_equal(again.status, whole.status)
    with pytest.raises(InputError, match="attacked the same unit"):
        Reconstruction.merged([parts[0], whole])


def test_contradictions_are_no_guess(world: tuple[Histogram, ProtectedTables]) -> None:
    _, p = world
    value = p.levels["Block"].value.copy()
    value[0, 1] += 1  # one more of some sex and age than persons
    found = reconstruct(replace(p, levels={"Block": LevelLines.exact(value)}), QUICK)
    assert found.status[0] == AttackStatus.INFEASIBLE
    assert found.histogram.totals()[0] == 0
    assert (found.status[1:] != AttackStatus.INFEASIBLE).all()


def test_published_records_are_the_guess(world: tuple[Histogram, ProtectedTables]) -> None:
    h, p = world
    found = reconstruct(replace(p, records=h), units=np.array([3]))
    assert found.status[3] == AttackStatus.RECORDS
    assert np.array_equal(found.histogram.dense()[3], h.dense()[3])
    assert found.histogram.count.sum() == h.totals()[3]


# --- bounds and prices
# -------------------------------------------------------------------------------------------------

SMALL = Schema.from_attributes("small", {"sex": 2, "age": 2})


def test_perturbed_lines_have_the_likeliest_records() -> None:
    """Against brute force over all records that obey the bounds."""
    rng, price = np.random.default_rng(3), (0.0, 0.7, 2.0)
    tables = tables_of(SMALL, {"P1": "total", "P2": "sex", "P3": "age", "P4": "sex * age"})
    dense = rng.poisson(1.5, (6, 4))
    unit, cell = np.nonzero(dense)
    h, spine = Histogram.from_triplets(6, 4, unit, cell, dense[unit, cell]), tree(6)
    exact = published(h, spine, tables)
    lines = noisy(exact, rng, price)
    found = reconstruct(replace(exact, levels={"Block": lines}), QUICK)
    m = tables.lines("Block").matrix.toarray()
    for u in range(6):
        y = lines.value[u]
        each = solutions(m, lines.lower[u], lines.upper[u], 6)
        cost = [sum(price[d] for d in np.abs(m @ x - y)) for x in each]
        mine = found.histogram.dense()[u]
        assert sum(price[d] for d in np.abs(m @ mine - y)) == pytest.approx(min(cost), abs=0.05)


def test_rounded_lines_without_prices_keep_the_printed_total() -> None:
    tables = tables_of(SMALL, {"P1": "total", "P2": "sex * age"})
    value = np.array([[10, 5, 0, 5, 0]])
    lines = LevelLines(np.maximum(value - 2, 0), value + 2, value)
    found = reconstruct(ProtectedTables(tree(1), tables, {"Block": lines}), QUICK)
    assert found.histogram.totals().tolist() == [10]
    assert found.status[0] == AttackStatus.SOLVED


def test_withheld_lines_leave_what_the_others_say() -> None:
    tables = tables_of(SMALL, {"P1": "total", "P2": "sex", "P3": "sex * age"})
    value = np.array([[3, 3, 0, 2, 1, 0, 0]])
    lower, upper, shown = value.copy(), value.copy(), value.copy()
    lower[0, 3:], upper[0, 3:], shown[0, 3:] = 0, UNBOUNDED, WITHHELD
    lines = LevelLines(lower, upper, shown)
    found = reconstruct(ProtectedTables(tree(1), tables, {"Block": lines}), QUICK)
    assert found.histogram.dense().reshape(2, 2).sum(axis=1).tolist() == [3, 0]
    assert found.status[0] == AttackStatus.SOLVED  # of three men somebody's age is open
    low = lower.copy()
    low[0, 4] = 3  # not shown, but at least three: these are all
    lines = LevelLines(low, upper, shown)
    found = reconstruct(ProtectedTables(tree(1), tables, {"Block": lines}), QUICK)
    assert found.unique.all()
    assert found.histogram.dense().tolist() == [[0, 3, 0, 0]]


def test_blocks_that_show_their_total_share_the_rest_of_their_tract(
    world: tuple[Histogram, ProtectedTables],
) -> None:
    """Some blocks show everything; what the tract has besides is dealt out to the others."""
    h, exact = world
    tables = tables_of(PEOPLE, {"P1": "total", "P5": "detailed"}, ("Tract", "Block"))
    p = published(h, exact.spine, tables)
    lower, upper, value = (
        getattr(p.levels["Block"], k).copy() for k in ("lower", "upper", "value")
    )
    hidden = np.array([0, 2, 3])
    lower[hidden, 1:], upper[hidden, 1:], value[hidden, 1:] = 0, UNBOUNDED, WITHHELD
    levels = {**p.levels, "Block": LevelLines(lower, upper, value)}
    found = reconstruct(replace(p, levels=levels), QUICK)
    assert set(found.status[hidden].tolist()) == {AttackStatus.DEALT}
    assert np.array_equal(found.histogram.totals(), h.totals())
    tract = [x.dense()[:6].sum(axis=0) for x in (found.histogram, h)]
    assert np.array_equal(*tract)
    assert np.array_equal(found.histogram.dense()[4:], h.dense()[4:])


def test_a_tract_without_block_tables_is_dealt_out_evenly(
    world: tuple[Histogram, ProtectedTables],
) -> None:
    h, exact = world
    p = published(h, exact.spine, tables_of(PEOPLE, {"P5": "detailed"}, ("Tract",)))
    found = reconstruct(p, QUICK)
    totals = found.histogram.totals()
    assert totals[:6].sum() == h.totals()[:6].sum()
    assert np.ptp(totals[:6]) <= 1


@pytest.mark.parametrize("change", [{"seconds": 0.0}, {"gap": -1.0}, {"few": -1}])
def test_options_that_make_no_sense(change: dict[str, float]) -> None:
    with pytest.raises(UserError, match="options of an attack"):
        replace(CERTIFY, **change)  # type: ignore[arg-type]


def test_places_that_do_not_exist(world: tuple[Histogram, ProtectedTables]) -> None:
    _, p = world
    with pytest.raises(InputError, match="does not exist"):
        reconstruct(p, QUICK, units=np.array([12]))
    with pytest.raises(InputError, match="'Block' is no level above"):
        reconstruct(p, replace(QUICK, around="Block"))
