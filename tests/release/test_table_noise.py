"""The noise of a table's columns: by hand, and never less than that of the best linear estimate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from das.model.allocation import Allocation
from das.model.budget import Neighbours, Plan
from das.model.kinds import HOUSING, PERSONS
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.query import Query
from das.model.schema import H1, PL94, Attribute, Schema
from das.model.universe import Planned
from das.release.table_noise import variances
from das.tables import Table, published

TOY = Schema("toy", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old"))))
HALF = Fraction(1, 2)


def universe(schema: Schema, queries: dict[str, Fraction]) -> Planned:
    shares = Allocation({"A": HALF, "B": HALF}, {"A": queries, "B": queries})
    plan = Plan.of(Fraction(1, 50), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares)
    return Planned(PERSONS, schema, plan=plan)


def table(name: str) -> Table:
    return {t.name: t for s, kind in ((PL94, PERSONS), (H1, HOUSING)) for t in published(s, kind)}[name]


def test_adults_do_not_have_the_noise_of_everybody() -> None:
    u = universe(PL94, {"total": Fraction(9, 10), "votingage * hispanic": Fraction(1, 10)})
    of = {d.query: d.variance for d in u.plan.at("A")}
    nothing = {"A": (), "B": ()}
    everybody = 1 / (1 / of["total"] + 1 / (4 * of["votingage * hispanic"]))
    assert variances(u, table("P1"), ["A", "B"], nothing)[:, 0] == pytest.approx([everybody] * 2)
    assert variances(u, table("P3"), ["A", "B"], nothing)[:, 0] == pytest.approx([2 * of["votingage * hispanic"]] * 2)
    origin = variances(u, table("P4"), ["A", "B"], nothing)[0]
    assert origin[:3] == pytest.approx(np.array([2, 1, 1]) * of["votingage * hispanic"])
    assert np.isinf(origin[3:]).all()  # race was not measured
    exact = variances(u, table("P3"), ["A", "B"], {"A": ("total",), "B": ()})[:, 0]
    assert exact == pytest.approx(np.array([1, 2]) * of["votingage * hispanic"])  # the others tell it as well
    assert variances(u, table("P1"), ["A", "B"], {"A": ("total",), "B": ()})[0, 0] == 0


def test_a_housing_unit_that_is_not_vacant_is_occupied() -> None:
    u = universe(H1, {"detailed": Fraction(1)})
    of = u.plan.draws[0].variance
    assert variances(u, table("H1"), ["A"], {"A": ("total",)})[0] == pytest.approx([0, of / 2, of / 2])
    assert variances(u, table("H1"), ["A"], {"A": ()})[0] == pytest.approx([2 * of, of, of])


def test_no_better_than_the_best_linear_estimate() -> None:
    """Of each answer of each table: that estimate has the weights of least norm among those that add up to the column."""
    u = universe(TOY, {q: Fraction(1, 4) for q in ("total", "sex", "age", "detailed")})
    rows = np.concatenate([TOY.query(d.query).answer(np.eye(TOY.cells)).T / d.variance ** 0.5
                           for d in u.plan.at("A")])  # fmt: skip
    tables = published(TOY)
    assert [len(t.columns) for t in tables] == [1, 2, 3, 6]
    for t in tables:
        for j, column in enumerate(t.columns):
            inside = np.isin(np.arange(TOY.cells), t.members(column)).astype(float)
            best = float(np.sum((np.linalg.pinv(rows.T) @ inside) ** 2))
            alone = min(d.variance * TOY.query(d.query).answer(inside).astype(bool).sum()
                        for d in u.plan.at("A") if tells(TOY.query(d.query), inside))  # fmt: skip
            assert best * (1 - 1e-9) <= variances(u, t, ["A"], {"A": ()})[0, j] <= alone * (1 + 1e-9)


def tells(query: Query, inside: NDArray[np.float64]) -> bool:
    """Whether no answer has cells inside and outside."""
    return not (query.answer(inside) * query.answer(1 - inside)).any()
