"""The closed form against dense least squares, against published numbers, and what it says of a
nation.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import null_space

import das
from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand
from das.design.optimize import CertifiedAllocation, optimize
from das.design.target_set import AccuracyTarget, TargetSet
from das.errors import SpecError
from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from tests.design.dense import check_gradient
from tests.estimate.world import PLAIN, SMALL
from tests.oracles import dense

GROUPED = Schema(
    "grouped",
    (Attribute("race", ("w", "x", "y", "z")), Attribute("sex", ("f", "m"))),
    recodes=(Grouping("white", "race", ("w", "not-w"), (0, 1, 1, 1)),),
)
MEASURED = {
    "plain": ("total", "race", "detailed"),
    "small": ("total", "home", "age * race", "detailed"),
    "grouped": ("total", "white * sex", "detailed"),
}
ASKED = {
    "plain": ("age", "race"),
    "small": ("home * age", "race", "home"),
    "grouped": ("race", "white"),
}
UNITS = (1, 2, 6, 12)
LEVELS = ("A", "B", "C", "D")


def model(schema: Schema, known: int, units: tuple[int, ...] = UNITS) -> Homogeneous:
    levels = LEVELS[: len(units)]
    measurements = Choices.alike([(lv, q) for lv in levels for q in MEASURED[schema.name]], "all")
    names = dict.fromkeys((*MEASURED[schema.name], *ASKED[schema.name]))
    return Homogeneous.for_schema(
        schema,
        levels,
        units,
        measurements,
        [Estimand(lv, q) for lv in levels for q in names],
        known,
    )


def least_squares(m: Homogeneous, precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every cell of every lowest unit a variable; of dwellings households alone."""
    schema, units = m.schema, m.units
    cell = schema.possible.copy()
    if schema.dwelling is not None:
        cell &= schema.level_of(schema.dwelling) == 0
    leaves = units[-1]
    inside = {
        lv: np.kron(np.eye(n), np.ones((1, leaves // n)))
        for lv, n in zip(m.levels, units, strict=True)
    }

    def rows(level: str, query: str) -> NDArray[np.float64]:
        return np.kron(inside[level], dense(schema, schema.query(query))[:, cell]).astype(float)

    x = np.zeros((leaves * cell.sum(),) * 2)
    for (level, query), p in zip(m.measurements.pairs, precision, strict=True):
        x += p * rows(level, query).T @ rows(level, query)
    n = np.eye(len(x)) if m.known < 0 else null_space(rows(m.levels[m.known], "total"))
    covariance = n @ np.linalg.solve(n.T @ x @ n, n.T)
    out = []
    for estimand in m.estimands:
        asked = rows(estimand.place, estimand.query)
        asked = asked[asked.any(axis=1)]  # answers that somebody can give
        out.append(np.einsum("ij,jk,ik->i", asked, covariance, asked).mean())
    return np.array(out)


@pytest.mark.parametrize("known", [-1, 0, 1, 3])
@pytest.mark.parametrize("schema", [PLAIN, SMALL, GROUPED], ids=lambda s: s.name)
def test_the_closed_form_is_dense_least_squares(schema: Schema, known: int) -> None:
    rng = np.random.default_rng(known + 1)
    m = model(schema, known)
    precision = rng.uniform(0.05, 3, len(m.measurements.pairs))
    found = m.variances(precision)
    assert np.abs(found - least_squares(m, precision)).max() < 1e-10
    exact = [
        estimand.query == "total" and LEVELS.index(estimand.place) <= known
        for estimand in m.estimands
    ]
    assert not found[exact].any()  # zero, not nearly
    check_gradient(m, precision, rng)


@pytest.mark.parametrize("units", [(1,), (1, 1), (1, 4), (1, 1, 3, 3)])
def test_levels_of_one_unit_and_levels_that_are_the_same_are_no_exception(
    units: tuple[int, ...],
) -> None:
    rng = np.random.default_rng(5)
    for known in (-1, 0):
        m = model(PLAIN, known, units)
        precision = rng.uniform(0.05, 3, len(m.measurements.pairs))
        assert np.abs(m.variances(precision) - least_squares(m, precision)).max() < 1e-10
        check_gradient(m, precision, rng)


def test_a_level_that_measures_nothing_is_told_by_the_others() -> None:
    m = model(PLAIN, -1)
    precision = np.where(np.array([lv for lv, _ in m.measurements.pairs]) == "B", 0.0, 0.7)
    assert np.abs(m.variances(precision) - least_squares(m, precision)).max() < 1e-10


def test_cells_that_nothing_tells_apart_are_told() -> None:
    m = model(PLAIN, -1)
    lowest = np.array([pair == ("D", "detailed") for pair in m.measurements.pairs])
    with pytest.raises(SpecError, match="tells some cells"):
        m.variances(np.where(lowest, 0.0, 0.7))
    assert np.isfinite(m.variances(np.where(lowest, 1e-9, 0.7))).all()


#: Of an independent computation: attributes a (2 levels) and b (3), queries total, a, b and a * b.
CASE = (
    (1, 2, 6, 12),
    (
        ("1/2", "1", "3/2", "2"),
        ("1/3", "2/3", "1", "4/3"),
        ("1/4", "1/2", "3/4", "1"),
        ("1/5", "2/5", "3/5", "4/5"),
    ),
)
VARIANCES = {
    -1: (
        (0.3761755485893417, 0.30094043887147304, 0.22570532915360517, 0.19435736677115978),
        (0.39707419017763845, 0.31765935214211066, 0.23824451410658307, 0.2051549982584465),
        (0.5635998739447016, 0.4508798991557612, 0.3381599243668208, 0.29119326820476255),
        (0.8227181503043574, 0.6581745202434857, 0.4936308901826144, 0.42507104432391785),
    ),
    1: (
        (0.0, 0.20689655172413657, 0.18390804597701105, 0.18390804597701108),
        (0.0, 0.21839080459770052, 0.19412515964240065, 0.19412515964240082),
        (0.5194805194805192, 0.4398500605397155, 0.3332577738708005, 0.2899677305807574),
        (0.8116883116883115, 0.6554170605894742, 0.49240535255860934, 0.42476465991791656),
    ),
}


@pytest.mark.parametrize("known", [-1, 1])
def test_the_numbers_of_an_independent_computation(known: int) -> None:
    schema = Schema("ab", (Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2"))))
    pairs = [(lv, q) for lv in LEVELS for q in ("total", "a", "b", "a * b")]
    m = Homogeneous.for_schema(
        schema, LEVELS, CASE[0], Choices.alike(pairs, "all"), [Estimand(*p) for p in pairs], known
    )
    rho = np.array([float(Fraction(r)) for row in CASE[1] for r in row])
    assert np.abs(m.variances(rho) - np.ravel(VARIANCES[known])).max() < 1e-10


# --- a nation
# ---------------------------------------------------------------------------------------------------

NATION = (1, 52, 3221, 73057, 217740, 6_500_000)
POLICY = (
    [("State", q) for q in ("hispanic * cenrace", "votingage * hispanic * cenrace")]
    + [
        (lv, q)
        for lv in ("County", "Tract", "Block_Group")
        for q in ("total", "votingage", "hispanic * cenrace", "votingage * hispanic * cenrace")
    ]
    + [("Block", q) for q in ("total", "votingage * hispanic * cenrace")]
)
OF_HOUSEHOLDS = (
    "total",
    "votingage",
    "hispanic",
    "cenrace",
    "votingage * hispanic",
    "votingage * cenrace",
    "hispanic * cenrace",
    "votingage * hispanic * cenrace",
)
ONE_AMONG_HOUSEHOLDS = ("total", "hhgq", "hhinstlevels")


def nation(
    wished: list[tuple[str, str]], keep: tuple[tuple[str, str], ...] = (), *, gap: float
) -> CertifiedAllocation:
    """The least share of the production rho. The State total is published exactly."""
    spec = das.load_spec("configs/pl94-2010.toml")
    plan = spec.persons.plan
    measurements = Choices.alike([(d.level, d.query) for d in plan.plain], "all")
    now = np.array([float(d.cost / plan.cost) for d in plan.plain])
    target_set = TargetSet("least", tuple(AccuracyTarget(Estimand(*w)) for w in wished), keep=keep)
    m = Homogeneous.for_schema(
        spec.persons.schema,
        spec.geography.levels,
        NATION,
        measurements,
        target_set.estimands(()),
        1,
    )
    return optimize(target_set.problem(m, now, now), gap, 3000)


def test_the_policy_list_needs_two_thirds_of_the_production_rho() -> None:
    assert len(POLICY) == 16
    found = nation(POLICY, gap=5e-4)
    assert found.value == pytest.approx(0.6489, abs=5e-4)
    assert found.gap <= 5e-4
    assert found.bound <= 0.64886 <= found.value + 1e-5  # both sides of what was found before
    assert found.over <= 1e-6


def test_all_that_production_measures_needs_as_much_as_its_draws_but_the_state_total() -> None:
    every = [
        (lv, q)
        for lv in das.load_spec("configs/pl94-2010.toml").geography.levels
        for q in OF_HOUSEHOLDS
        if (lv, q) not in (("US", "total"), ("State", "total"))
    ]
    assert len(every) == 46
    found = nation(every, gap=2e-3)
    assert found.value == pytest.approx(0.6751, abs=1e-3)
    assert found.bound == pytest.approx(0.6751, abs=2e-3)


def test_with_the_state_total_kept_next_to_nothing_is_saved() -> None:
    kept = tuple(("State", q) for q in ONE_AMONG_HOUSEHOLDS)
    found = nation(POLICY, kept, gap=1e-3)
    assert found.value == pytest.approx(0.97345, abs=1e-3)
    assert found.gap <= 1e-3
