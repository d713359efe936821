"""Suppression: the worked example, the audit against enumeration, the ranges that are promised."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from das.errors import InfeasibleError, InputError, SpecError
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import UNBOUNDED, WITHHELD, LevelLines, TableSet
from das.tools.protection.truth.method import StudyRecords, exact_lines
from das.tools.protection.truth.methods.complementary import (
    DistinctLines,
    Protection,
    audit,
    cheapest,
    enough,
    ranges,
)
from das.tools.protection.truth.methods.suppression import Suppression
from tests.protect.people import GRID, GRID_TABLES, records, tables


def grid(counts: list[int]) -> StudyRecords:
    cells = np.repeat(np.arange(9), counts)
    spine = Spine.from_frame({"Place": ["a"]}, ["All", "Place"])
    return StudyRecords(GRID, spine, np.zeros(len(cells), dtype=np.int64), cells)


EXAMPLE = grid([5, 2, 8, 1, 9, 7, 6, 4, 2])


def example() -> tuple[DistinctLines, np.ndarray]:
    exact = exact_lines(EXAMPLE.histogram(), EXAMPLE.spine, GRID_TABLES)["Place"].value[0]
    unit = DistinctLines.from_bounds(GRID_TABLES.lines("Place").matrix, exact, exact, UNBOUNDED)
    return unit, np.flatnonzero(unit.lower < 3)


def test_the_worked_example() -> None:
    """5 2 8 / 1 9 7 / 6 4 2 with all totals: 2, 1 and 2 alone are no secret; with 5, 7 and 4 (16 in
    all) they have these ranges."""
    lines = GRID_TABLES.lines("Place")
    primary = Suppression("primary").published(EXAMPLE, GRID_TABLES, b"").levels["Place"]
    assert (primary.value[0, :9] == WITHHELD).nonzero()[0].tolist() == [1, 3, 8]
    found = audit(primary, lines)
    assert found.lower[0, [1, 3, 8]].tolist() == found.upper[0, [1, 3, 8]].tolist() == [2, 1, 2]
    shown = Suppression("complementary").published(EXAMPLE, GRID_TABLES, b"").levels["Place"]
    hidden = np.flatnonzero(shown.value[0] == WITHHELD)
    assert hidden.tolist() == [0, 1, 3, 5, 7, 8]
    assert (shown.upper[0, hidden] == UNBOUNDED).all()
    found = audit(shown, lines)
    assert list(zip(found.lower[0, hidden], found.upper[0, hidden], strict=True)) == [
        (1, 6), (1, 6), (0, 5), (3, 8), (0, 5), (1, 6),
    ]  # fmt: skip


def concealed(unit: DistinctLines, hidden: np.ndarray) -> DistinctLines:
    """The unit with nothing known of the hidden rows."""
    return replace(
        unit, lower=np.where(hidden, 0.0, unit.lower), upper=np.where(hidden, np.inf, unit.upper)
    )


def test_no_cheaper_set_is_enough() -> None:
    unit, primary = example()
    chosen = cheapest(unit, primary, unit.lower, Protection())
    extra = unit.lower[chosen].sum() - unit.lower[primary].sum()
    assert extra == 16
    others = np.setdiff1d(np.arange(len(unit.lower)), primary)
    for n in range(1, 5):
        for more in combinations(others, n):
            if unit.lower[list(more)].sum() < extra:
                hidden = np.zeros(len(unit.lower), dtype=bool)
                hidden[[*primary, *more]] = True
                low, high = ranges(concealed(unit, hidden), primary)
                assert Protection().short(unit.lower, low, high)[primary].any()


def test_the_quick_way_finds_the_same_here() -> None:
    unit, primary = example()
    assert (
        enough(unit, primary, unit.lower, Protection())
        == cheapest(unit, primary, unit.lower, Protection())
    ).all()


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_keep_their_promise_and_one_is_the_cheapest(seed: int) -> None:
    counts = np.random.default_rng(seed).poisson(2.5, size=9)
    exact = (GRID_TABLES.lines("Place").matrix @ counts).astype(np.int64)
    unit = DistinctLines.from_bounds(GRID_TABLES.lines("Place").matrix, exact, exact, UNBOUNDED)
    primary, wanted = np.flatnonzero(unit.lower < 3), Protection(1, 4)
    quick, best = (f(unit, primary, unit.lower, wanted) for f in (enough, cheapest))
    for hidden in (quick, best):
        low, high = ranges(concealed(unit, hidden), primary)
        for i in primary:
            assert low[i] <= unit.lower[i] - 1
            assert high[i] >= unit.lower[i] + 1
            assert high[i] - low[i] >= 4
    assert unit.lower[best].sum() <= unit.lower[quick].sum()


@pytest.mark.parametrize("seed", range(4))
def test_the_audit_against_enumeration(seed: int) -> None:
    """Every table of 2 x 3 counts of six persons. Real numbers reach as far as integers here: the
    lines of a two-way table are a network."""
    rng = np.random.default_rng(seed)
    schema = Schema.from_attributes("two", {"a": 2, "b": 3})
    asked = ("a * b", "a", "b", "total")
    lines = TableSet(
        "two",
        schema,
        {
            "Place": tuple(
                table(Tabulation(f"G{i}", "", q, total=False), schema) for i, q in enumerate(asked)
            )
        },
    ).lines("Place")
    every = np.array([x for x in product(range(7), repeat=6) if sum(x) == 6])
    truth = rng.multinomial(6, np.ones(6) / 6)
    t, values = lines.matrix @ truth, every @ lines.matrix.T
    hidden = (t > 0) & (rng.random(len(t)) < 0.7)
    hidden[-1] = False
    known = LevelLines(
        np.where(hidden, 0, t)[None],
        np.where(hidden, UNBOUNDED, t)[None],
        np.where(hidden, WITHHELD, t)[None],
    )
    possible = values[(values[:, ~hidden] == t[~hidden]).all(axis=1)]
    found = audit(known, lines)
    assert (found.lower[0] == possible.min(axis=0)).all()
    assert (found.upper[0] == possible.max(axis=0)).all()


def test_an_audit_knows_rounded_lines_too() -> None:
    t = np.array([[0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 2, 2, 4, 0, 0, 4]])
    y = 3 * (t // 3)
    found = audit(LevelLines(np.maximum(y - 2, 0), y + 2, y), GRID_TABLES.lines("Place"))
    assert (found.lower <= t).all()
    assert (t <= found.upper).all()
    contrary = LevelLines(np.where(t > 2, 9, 0), np.where(t > 2, 9, 2), np.where(t > 2, 9, 1))
    with pytest.raises(InfeasibleError, match="no records"):
        audit(contrary, GRID_TABLES.lines("Place"))


def test_what_nothing_bounds_is_unbounded() -> None:
    t = np.full((1, 16), 5)
    nothing = LevelLines(0 * t, 0 * t + UNBOUNDED, 0 * t + WITHHELD)
    found = audit(nothing, GRID_TABLES.lines("Place"))
    assert (found.upper == UNBOUNDED).all()
    assert not found.lower.any()


@pytest.mark.parametrize("rule", ["primary", "complementary"])
def test_what_is_shown_is_exact_and_zeros_are(rule: str) -> None:
    people = records(households=20)
    exact = exact_lines(people.histogram(), people.spine, tables())
    method = Suppression(rule, threshold=4)
    blocks = TableSet("blocks", tables().schema, {"Block": tables().tables["Block"]})
    lines, truth = method.published(people, blocks, b"").levels["Block"], exact["Block"].value
    small = (truth > 0) & (truth < 4)
    assert (lines.value[small] == WITHHELD).all()
    assert lines.shown[truth == 0].all()
    assert (lines.value == truth)[lines.shown].all()
    assert (lines.lower <= truth).all()
    assert (truth <= lines.upper).all()
    if rule == "primary":
        assert lines.shown[~small].all()
        assert set(lines.lower[small]) == {1}
        assert set(lines.upper[small]) == {3}
    else:
        assert not lines.shown[~small].all()
        found = audit(lines, blocks.lines("Block"))
        assert (found.width[small] >= 3).all()
        assert ((found.lower < truth) & (truth < found.upper))[small].all()
        assert method.published(people, blocks, b"x").levels["Block"] == lines


def test_refusals_and_labels() -> None:
    for change, message in (
        ({"rule": "secret"}, "rule is 'secret'"),
        ({"threshold": 1}, "threshold is 1"),
        ({"side": 0}, "side is 0"),
        ({"width": 1}, "twice the side"),
    ):
        with pytest.raises(SpecError, match=message):
            replace(Suppression(), **change)
    with pytest.raises(SpecError, match="tables by race"):
        Suppression("1980").published(EXAMPLE, GRID_TABLES, b"")
    with pytest.raises(InputError, match="contradict"):
        DistinctLines.from_bounds(
            GRID_TABLES.lines("Place").matrix[[0, 0]], np.array([1, 2]), np.array([1, 2]), 9
        )
    assert Suppression().label == "counts under 3 hidden, primary"
    assert Suppression("complementary").label.endswith("ranges of 3 or more")
