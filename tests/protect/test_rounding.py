"""Rounding: bounds, bias and variance, the same cell the same treatment, prices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from das.errors import SpecError
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import LevelLines, LineMatrix
from das.tools.protection.truth.method import exact_lines, generator
from das.tools.protection.truth.methods.rounding import GAP, Rounding, controlled
from das.tools.protection.uses import narrowed
from tests.protect.people import GRID_TABLES, records, tables


@pytest.mark.parametrize("base", [2, 3, 5, 10])
@pytest.mark.parametrize("how", ["random", "nearest"])
def test_multiples_within_their_bounds(base: int, how: str) -> None:
    people, method = records(), Rounding(base, how)
    exact = exact_lines(people.histogram(), people.spine, tables())
    shown = method.published(people, tables(), b"k")
    for level, lines in shown.levels.items():
        truth = exact[level].value
        assert not (lines.value % base).any()
        assert (lines.lower <= truth).all()
        assert (truth <= lines.upper).all()
        assert (lines.value[truth % base == 0] == truth[truth % base == 0]).all()
        most = base - 1 if how == "random" else base // 2
        assert abs(lines.value - truth).max() <= most
        assert (lines.upper - lines.lower).max() <= 2 * most
    assert shown == method.published(people, tables(), b"k")
    assert (shown != method.published(people, tables(), b"l")) == (how == "random")
    assert method.random == (how == "random")


@pytest.mark.parametrize(("base", "mean"), [(3, 4 / 3), (5, 4), (10, 16.5)])
def test_unbiased_with_variance_r_b_minus_r(base: int, mean: float) -> None:
    """Base 3: 2 for residuals 1 and 2. Over all residuals (b^2 - 1) / 6."""
    chance, method = generator(b"k").random(40_000), Rounding(base)
    variances = []
    for r in range(base):
        t = np.full((1, len(chance)), 2 * base + r)
        error = (method.rounded(t, chance[None]).value - t).ravel()
        assert abs(error.mean()) < 5 * base / 2 / np.sqrt(len(chance))
        assert error.var() == pytest.approx(r * (base - r), abs=0.02 * base**2)
        variances.append(r * (base - r))
    assert np.mean(variances) == pytest.approx(mean)


def test_the_price_is_minus_the_log_likelihood() -> None:
    assert Rounding(3).price == pytest.approx([0, 0.405, 1.099], abs=5e-4)
    assert Rounding(5).price == pytest.approx([0, 0.223, 0.511, 0.916, 1.609], abs=5e-4)
    chance = generator(b"k").random(40_000)
    for d in range(3):  # 3 printed, where the truth is 3 + d
        t = np.full((1, len(chance)), 3 + d)
        share = (Rounding(3).rounded(t, chance[None]).value == 3).mean()
        assert -np.log(share) == pytest.approx(Rounding(3).price[d], abs=0.03)
    assert Rounding(3, "nearest").price == (0.0,)


def test_the_same_cell_in_two_tables_is_rounded_in_the_same_way() -> None:
    people = records()
    exact = exact_lines(people.histogram(), people.spine, tables())["Block"].value
    names = tables().lines("Block").names
    race, origin = names.index("T0020001"), names.index("T0030001")
    same = (exact[:, race] == exact[:, origin]) & (exact[:, race] % 3 > 0)
    assert same.any()
    value = Rounding(3).published(people, tables(), b"k").levels["Block"].value
    assert (value[same, race] == value[same, origin]).all()
    assert (value[:, race] != 3 * (exact[:, race] // 3)).any()


def test_small_groups_vanish_at_the_nearest_five() -> None:
    t = np.arange(14)[None]
    assert Rounding(5, "nearest").rounded(t).value[0].tolist() == [0] * 3 + [5] * 5 + [10] * 5 + [
        15
    ]
    assert Rounding(10, "nearest").rounded(t).value[0].tolist() == [0] * 5 + [10] * 9


@pytest.mark.parametrize("base", [3, 5])
def test_controlled_rounding_keeps_all_sums(base: int) -> None:
    people = records(households=60)
    exact = exact_lines(people.histogram(), people.spine, tables())
    shown = Rounding(base, "controlled").published(people, tables(), b"")
    for level, lines in shown.levels.items():
        truth, y = exact[level].value, lines.value
        matrix = tables().lines(level).matrix.toarray().astype(float)
        fitted = np.linalg.lstsq(matrix, y.T.astype(float), rcond=None)[0]
        assert abs(matrix @ fitted - y.T).max() < 1e-6
        assert not (y % base).any()
        assert (y[truth == 0] == 0).all()
        assert (lines.lower <= truth).all()
        assert (truth <= lines.upper).all()
        assert lines.price == (0.0,)
    assert shown == Rounding(base, "controlled").published(people, tables(), b"x")


def test_a_two_way_table_is_rounded_next_to_its_counts_and_best() -> None:
    """Against all ways to round the nine counts of a table up or down."""
    counts = np.array([5, 2, 8, 1, 9, 7, 6, 4, 2])
    matrix = GRID_TABLES.lines("Place").matrix
    t = (matrix @ counts).astype(np.int64)
    lines = controlled(LevelLines.exact(t[None]), GRID_TABLES.lines("Place"), 5)
    y = lines.value[0]
    assert abs(y - t).max() < 5
    assert (lines.upper[0] - y == 4).all()
    ways = np.array(list(product(*([5 * (c // 5), -5 * (-c // 5)] for c in counts))))
    sums = ways @ matrix.T
    good = sums[(abs(sums - t) < 5).all(axis=1)]
    best = abs(good - t).sum(axis=1).min()
    assert best <= abs(y - t).sum() <= best * (1 + GAP)


def test_a_three_way_table_can_need_slack() -> None:
    """Of 3 x 3 x 3 counts with all their sums, some have no rounding to base 2 next to them. Their
    bounds are wider by the slack, and their sums hold."""
    cube = Schema.from_attributes("cube", {"a": 3, "b": 3, "c": 3})
    asked = ("a * b * c", "a * b", "a * c", "b * c", "a", "b", "c", "total")
    lines = LineMatrix.from_tables(
        tuple(table(Tabulation(f"G{i}", "", q, total=False), cube) for i, q in enumerate(asked))
    )
    counts = [np.random.default_rng(seed).poisson(1.5, size=27) for seed in (0, 1, 2, 5)]
    t = (lines.matrix @ np.array(counts).T).T
    shown = controlled(LevelLines.exact(t), lines, 2)
    assert (shown.upper - shown.value).max(axis=1).tolist() == [1, 1, 3, 3]
    assert (shown.lower <= t).all()
    assert (t <= shown.upper).all()
    matrix = lines.matrix.toarray().astype(float)
    fitted = np.linalg.lstsq(matrix, shown.value.T.astype(float), rcond=None)[0]
    assert abs(matrix @ fitted - shown.value.T).max() < 1e-6


def test_refusals_and_label() -> None:
    with pytest.raises(SpecError, match="base is 1"):
        Rounding(1)
    with pytest.raises(SpecError, match="how is 'down'"):
        Rounding(3, "down")
    assert Rounding(5, "nearest").label == "rounded to the nearest base 5"


@pytest.mark.parametrize("seed", range(6))
def test_bounds_that_follow_from_sums_are_those_of_all_counts(seed: int) -> None:
    """A total, its parts and theirs, each rounded by itself: against every table of counts."""
    rng = np.random.default_rng(seed)
    cells = [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4, dtype=int).tolist(), [1, 1, 0, 0]]
    matrix = sparse.csr_array(np.array(cells))
    of = LineMatrix(matrix, (*tuple("tabcdef"), "again"), np.array([0, 0, 0, 1, 1, 1, 1, 2]))
    true = np.array(list(product(range(7), repeat=4)))[rng.integers(7**4, size=30)] @ matrix.T
    printed = 3 * (true // 3 + (rng.random(true.shape) < true % 3 / 3))
    lines = Rounding(3).known(printed)
    lower, upper = narrowed(of, lines.lower, lines.upper)
    every = np.array(list(product(range(9), repeat=4))) @ matrix.T
    for unit in range(len(true)):
        able = every[((every >= lines.lower[unit]) & (every <= lines.upper[unit])).all(axis=1)]
        assert lower[unit].tolist() == able.min(axis=0).tolist()
        assert upper[unit].tolist() == able.max(axis=0).tolist()


def test_bounds_that_no_counts_have_cross() -> None:
    of = LineMatrix(sparse.csr_array([[1, 1], [1, 0], [0, 1]]), ("t", "a", "b"), np.zeros(3, int))
    lower, upper = narrowed(of, np.array([[9, 0, 0]]), np.array([[9, 4, 4]]))
    assert (lower > upper).any()
