"""The noise of a table's columns: by hand, and never less than that of the best linear estimate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.model import tabulation
from das.model.areas import Areas
from das.model.budget import Allocation, Neighbours
from das.model.measured_spine import MeasuredSpine
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.model.query import Query
from das.model.redistricting import H1, PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.model.universe import HOUSING, PERSONS, Planned, Universe
from das.release.table_noise import TableNoise, _answers
from das.tables import Table, published

TOY = Schema(
    "toy", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old")))
)
HALF = Fraction(1, 2)


def universe(schema: Schema, queries: dict[str, Fraction]) -> Planned:
    shares = Allocation({"A": HALF, "B": HALF}, {"A": queries, "B": queries})
    plan = Plan.from_allocation(Fraction(1, 50), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares)
    return Planned(PERSONS, schema, plan=plan)


def variances(
    u: Universe, t: Table, levels: list[str], exact: dict[str, tuple[str, ...]]
) -> NDArray[np.float64]:
    """Of one unit of each level, one below the other, measured as it is published."""
    spine = Spine(
        tuple(levels), tuple(np.array([x]) for x in levels), tuple(np.zeros(1, int) for _ in levels)
    )
    noise = TableNoise.for_table(u, t, MeasuredSpine.from_published(spine), spine, exact)
    return np.concatenate([noise.of_level(level) for level in levels])


def table(name: str) -> Table:
    return {t.name: t for s, kind in ((PL94, PERSONS), (H1, HOUSING)) for t in published(s, kind)}[
        name
    ]


def test_adults_do_not_have_the_noise_of_everybody() -> None:
    u = universe(PL94, {"total": Fraction(9, 10), "votingage * hispanic": Fraction(1, 10)})
    of = {d.query: d.variance for d in u.plan.at("A")}
    nothing = {"A": (), "B": ()}
    everybody = 1 / (1 / of["total"] + 1 / (4 * of["votingage * hispanic"]))
    assert variances(u, table("P1"), ["A", "B"], nothing)[:, 0] == pytest.approx([everybody] * 2)
    assert variances(u, table("P3"), ["A", "B"], nothing)[:, 0] == pytest.approx(
        [2 * of["votingage * hispanic"]] * 2
    )
    origin = variances(u, table("P4"), ["A", "B"], nothing)[0]
    assert origin[:3] == pytest.approx(np.array([2, 1, 1]) * of["votingage * hispanic"])
    assert np.isinf(origin[3:]).all()  # race was not measured
    exact = variances(u, table("P3"), ["A", "B"], {"A": ("total",), "B": ()})[:, 0]
    assert exact == pytest.approx(
        np.array([1, 2]) * of["votingage * hispanic"]
    )  # the others tell it as well
    assert variances(u, table("P1"), ["A", "B"], {"A": ("total",), "B": ()})[0, 0] == 0


def test_a_housing_unit_that_is_not_vacant_is_occupied() -> None:
    u = universe(H1, {"detailed": Fraction(1)})
    of = u.plan.measurements[0].variance
    assert variances(u, table("H1"), ["A"], {"A": ("total",)})[0] == pytest.approx(
        [0, of / 2, of / 2]
    )
    assert variances(u, table("H1"), ["A"], {"A": ()})[0] == pytest.approx([2 * of, of, of])


def test_no_better_than_the_best_linear_estimate() -> None:
    """Of each answer of each table: that estimate has the weights of least norm among those that
    add up to the column.
    """
    u = universe(TOY, {q: Fraction(1, 4) for q in ("total", "sex", "age", "detailed")})
    rows = np.concatenate(
        [TOY.query(d.query).answer(np.eye(TOY.cells)).T / d.variance**0.5 for d in u.plan.at("A")]
    )
    tables = published(TOY)
    assert [len(t.columns) for t in tables] == [1, 2, 3, 6]
    for t in tables:
        for j in range(len(t.columns)):
            inside = t.mask(j).astype(float)
            best = float(np.sum((np.linalg.pinv(rows.T) @ inside) ** 2))
            alone = min(
                d.variance * TOY.query(d.query).answer(inside).astype(bool).sum()
                for d in u.plan.at("A")
                if tells(TOY.query(d.query), inside)
            )
            assert (
                best * (1 - 1e-9) <= variances(u, t, ["A"], {"A": ()})[0, j] <= alone * (1 + 1e-9)
            )


def tells(query: Query, inside: NDArray[np.float64]) -> bool:
    """Whether no answer has cells inside and outside."""
    return not (query.answer(inside) * query.answer(1 - inside)).any()


LEVELS = ("Country", "Town", "Quarter", "Block")


def tree(rng: np.random.Generator, blocks: int) -> Spine:
    """Blocks in random runs, and these in runs: often of one."""
    codes, parents, number = [np.array([f"b{i:02}" for i in range(blocks)])], [], blocks
    for name in "qt":
        starts = rng.random(number) < 0.5
        starts[0] = True
        parents.insert(0, np.cumsum(starts) - 1)
        number = int(starts.sum())
        codes.insert(0, np.array([f"{name}{i:02}" for i in range(number)]))
    parents.insert(0, np.zeros(number, int))
    return Spine(LEVELS, (np.array(["c"]), *codes), (np.zeros(1, int), *parents))


@given(st.integers(0, 10_000))
def test_published_units_and_areas_are_sums_over_the_units_that_were_measured(seed: int) -> None:
    """Against sets of blocks: two trees of the same blocks, where one lacks some; only children
    bypassed; totals exact down to some level of the other, or nowhere."""
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(2, 9))
    published = tree(rng, blocks)
    place = rng.permutation(blocks)[: int(rng.integers(1, blocks + 1))]
    measured = MeasuredSpine.bypassed(tree(rng, len(place)), place)
    shares = Allocation(
        dict.fromkeys(LEVELS, Fraction(1, 4)), {lv: {"total": Fraction(1)} for lv in LEVELS}
    )
    plan = Plan.from_allocation(
        Fraction(4),
        DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        shares,
        tabulation.classes(LEVELS, measured.paths),
        measured.paths,
    )
    depth = int(rng.integers(-1, 4))  # of the totals that are exact
    exact = {level: ("total",) if at <= depth else () for at, level in enumerate(LEVELS)}
    noise = TableNoise.for_table(
        Planned(PERSONS, PL94, plan=plan, usual=measured.usual),
        table("P1"),
        measured,
        published,
        exact,
    )

    def within(spine: Spine, at: int, number: NDArray[np.int64]) -> list[set[int]]:
        up = spine.up(LEVELS[-1], LEVELS[at])
        return [set(number[up == u].tolist()) for u in range(len(spine.codes[at]))]

    held = [within(measured.spine, at, place) for at in range(4)]
    there = [
        [b & set(place.tolist()) for b in within(published, at, np.arange(blocks))]
        for at in range(4)
    ]

    def own(at: int, unit: int) -> float:
        if at <= depth and all(
            not (p & held[at][unit]) or p <= held[at][unit] for p in there[depth]
        ):
            return 0.0
        (name,) = (n for n, where in measured.classes(LEVELS[at]).items() if where[unit])
        return next((d.variance for d in plan.of_class(LEVELS[at], name)), np.inf)

    def cost(area: set[int], least: bool, at: int = 0, unit: int = 0) -> float:
        parts = np.flatnonzero(measured.spine.parent[at + 1] == unit) if at < 3 else []
        below = sum(cost(area, least, at + 1, int(u)) for u in parts)
        if held[at][unit] <= area:
            return min(own(at, unit), below) if least and at < 3 else own(at, unit)
        return below

    for at, level in enumerate(LEVELS):
        each = [0.0 if at <= depth else cost(area, False) for area in there[at]]
        assert noise.of_level(level)[:, 0] == pytest.approx(each)
    inside = rng.random((3, blocks)) < 0.6
    inside[:, 0] = True
    areas = Areas("Ward", np.array(["a", "b", "c"]), *np.nonzero(inside))
    each = [cost(set(np.flatnonzero(x).tolist()), True) for x in inside]
    assert noise.of_areas(areas, 1)[:, 0] == pytest.approx(each)


@pytest.mark.parametrize(
    "query",
    ["total", "hhgq", "hhinstlevels", "votingage * cenrace", "hispanic * cenrace", "detailed"],
)
def test_which_answers_lie_in_a_column_is_found_without_the_cells(query: str) -> None:
    """Against the answer for every cell: an answer is inside, outside, or across."""
    asked = PL94.query(query)
    size = np.bincount(asked.index)
    for t in published(PL94):
        inside, outside = _answers(t, asked)
        for j in range(len(t.columns)):
            own = np.bincount(asked.index[t.mask(j)], minlength=asked.answers)
            whole = own == size
            number = whole.sum() if (whole | (own == 0)).all() else np.inf
            assert (inside[j], outside[j]) == (
                number,
                asked.answers - number if np.isfinite(number) else np.inf,
            )
