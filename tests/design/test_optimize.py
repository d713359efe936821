"""The search against a general solver, and what it certifies against whatever else could be
allocated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from das.design import trees
from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand, Model
from das.design.optimize import optimize
from das.design.problem import MET, CertifiedAllocation, Problem
from das.design.target_set import AccuracyTarget, Objective, TargetSet, redundant
from das.errors import SpecError
from das.model.measured_spine import MeasuredSpine
from tests.design.dense import choices
from tests.estimate.world import PLAIN, random_spine, random_world

Array = NDArray[np.float64]
LEVELS = ("A", "B", "C")
PAIRS = [(lv, q) for lv in LEVELS for q in ("total", "race", "detailed")]
NOW = np.array([0.4, 0.1, 0.5, 0.6, 0.1, 0.3, 0.2, 0.3, 0.5])
WISHES = (
    AccuracyTarget(Estimand("A", "race"), 0.5),
    AccuracyTarget(Estimand("B", "total")),
    AccuracyTarget(Estimand("B", "age")),
    AccuracyTarget(Estimand("C", "detailed"), 2.0),
)


def model(estimands: tuple[Estimand, ...], known: int = 0) -> Homogeneous:
    return Homogeneous.for_schema(
        PLAIN, LEVELS, (1, 4, 20), Choices.alike(PAIRS, "all"), estimands, known
    )


def chained(estimands: tuple[Estimand, ...]) -> Model:
    """A real tree with only children whose share their parents have: precisions are not linear in
    shares.
    """
    rng = np.random.default_rng(3)
    world = random_world(rng, PLAIN, random_spine(rng, 4, 3), empty=0.2)
    tree = MeasuredSpine.bypassed(world.spine, np.arange(world.spine.units("L3")))
    names = {"A": "L0", "B": "L1", "C": "L3"}
    measurements = choices(
        tree, [(lv, q) for lv in world.spine.levels for q in ("total", "race", "detailed")]
    )
    moved = [replace(a, place=names[a.place]) for a in estimands]
    assert any(len(held) > 1 for held in measurements.classes.values())
    return trees.of_structures(PLAIN, tree, world.bounds("L0"), measurements, moved, {})


def problem(target_set: TargetSet, start: Array = NOW) -> Problem:
    return target_set.problem(model(target_set.estimands(PAIRS)), NOW, start)


def solved(p: Problem) -> float:
    """The same by sequential quadratic programming, from several starts; without use of our
    slopes.
    """
    free = np.flatnonzero(~p.held)
    some = p.weight > 0
    limited = np.isfinite(p.limit)

    def rho(x: Array) -> Array:
        out = p.kept.copy()
        out[free] += np.exp(x)
        return out

    memory: dict[bytes, Array] = {}  # goal and limits are asked at the same places

    def logs(x: Array) -> Array:
        if (key := x.tobytes()) not in memory:
            f = p.variances(rho(x))
            memory[key] = np.log(np.where(f > 0, f, 1.0))
        return memory[key]

    total = p.start.sum()
    limits = {"type": "ineq", "fun": lambda x: np.log(p.limit[limited]) - logs(x)[limited]}
    spent = {"type": "eq", "fun": lambda x: rho(x).sum() / total - 1}
    best = np.inf
    for seed in range(2):
        x = np.log(
            np.random.default_rng(seed).dirichlet(np.ones(len(free))) * (total - p.kept.sum())
            + 1e-3
        )
        if p.least:
            found = minimize(
                lambda x: np.log(rho(x).sum()),
                x + 1,
                constraints=[limits],
                bounds=[(-16, 5)] * len(x),
                method="SLSQP",
                options={"maxiter": 500, "ftol": 1e-12},
            )
            value = float(np.exp(found.fun))
        else:
            held = [spent, *([limits] if limited.any() else [])]
            found = minimize(
                lambda x: float(p.weight[some] @ logs(x)[some]),
                x,
                constraints=held,
                bounds=[(-16, 5)] * len(x),
                method="SLSQP",
                options={"maxiter": 500, "ftol": 1e-12},
            )
            value = float(found.fun)
        if found.success and (not limited.any() or limits["fun"](found.x).min() > -1e-7):
            best = min(best, value)
    assert np.isfinite(best)
    return best


GOALS = {
    "best": TargetSet("best", WISHES),
    "best, guarded": TargetSet("best", WISHES, guard={"everything": 1.2}),
    "best, a level guarded": TargetSet("best", WISHES, guard={"everything": 1.5, "C": 1.0}),
    "best, kept": TargetSet("best", WISHES, keep=(("A", "detailed"), ("C", "race"))),
    "best, held": TargetSet("best", WISHES, hold=tuple(p for p in PAIRS if p[0] == "C")),
    "best, limited": TargetSet(
        "best", (*WISHES[:3], AccuracyTarget(Estimand("C", "detailed"), 0.1, sd=1.2))
    ),
    "least": TargetSet("least", WISHES),
    "least, limits": TargetSet(
        "least",
        (
            AccuracyTarget(Estimand("B", "total"), sd=1.0),
            AccuracyTarget(Estimand("C", "age"), ratio=1.5),
        ),
    ),
    "least, kept": TargetSet("least", WISHES, keep=(("A", "total"), ("B", "detailed"))),
    "least, held": TargetSet("least", WISHES, hold=(("C", "detailed"), ("B", "race"))),
    "spare": TargetSet("spare", WISHES),
}


@pytest.mark.parametrize("name", list(GOALS))
def test_the_search_finds_what_a_general_solver_finds(name: str) -> None:
    p = problem(GOALS[name])
    found = optimize(p, 2e-5, 4000)
    assert found.gap <= (2e-5 if not np.isfinite(p.limit).any() else 2e-3), found.steps
    other = solved(p)
    assert found.value == pytest.approx(
        other, abs=max(2e-5, 3 * MET if np.isfinite(p.limit).any() else 0)
    )
    assert found.bound <= other + 1e-7
    assert found.over <= MET
    assert (found.rho >= p.kept - 1e-12).all()
    assert found.rho[p.held] == pytest.approx(p.kept[p.held])
    if p.least:
        assert found.over <= 1e-9
        assert found.rho.sum() == pytest.approx(found.value)
    else:
        assert found.rho.sum() == pytest.approx(p.start.sum())
    assert found.price.sum() == pytest.approx(1)
    assert (found.price >= 0).all()


def test_prices_say_what_a_little_more_would_cost() -> None:
    """The least total with one limit a little tighter: by its price, to the first order."""
    tight = optimize(problem(GOALS["least"]), 1e-6, 20000)
    for i in range(len(WISHES)):
        if tight.price[i] < 0.02:
            continue
        harder = tuple(replace(w, ratio=0.98 if j == i else 1.0) for j, w in enumerate(WISHES))
        more = optimize(problem(TargetSet("least", harder)), 1e-6, 20000)
        step = -2 * np.log(0.98)
        assert np.log(more.value / tight.value) == pytest.approx(tight.price[i] * step, rel=0.1)


def others(p: Problem, found: CertifiedAllocation, rng: np.random.Generator, n: int) -> list[Array]:
    """Allocations that keep what must be kept, near what was found and far from it."""
    free = ~p.held
    out = []
    for i in range(n):
        x = np.where(free, rng.dirichlet(np.full(len(free), rng.choice([0.1, 1.0, 10.0]))), 0.0)
        if i % 2:
            x = (found.rho - p.kept) * np.exp(
                rng.normal(size=len(free)) * rng.choice([0.01, 0.1, 1.0])
            )
        x = np.where(free, x, 0.0)
        if x.sum() <= 0:
            continue
        out.append(p.kept + x / x.sum() * (p.start.sum() - p.kept.sum()))
    return out


@pytest.mark.parametrize("over", ["numbers", "chains"])
@pytest.mark.parametrize("objective", ["best", "least"])
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 30))
@settings(max_examples=6)
def test_no_allocation_beats_the_bound(
    objective: Objective, over: str, seed: int, steps: int
) -> None:
    """At any step, not only at the end: with draws that are kept and held, limits, and classes of
    only children.
    """
    rng = np.random.default_rng(seed)
    if over == "numbers":
        make, pairs = model, PAIRS
    else:
        make, pairs = (
            chained,
            [(f"L{i}", q) for i in range(4) for q in ("total", "race", "detailed")],
        )
    now = rng.dirichlet(np.ones(len(pairs))) + 0.01
    pick = [tuple(pairs[i] for i in rng.permutation(len(pairs))[:2]) for _ in range(2)]
    targets = tuple(replace(w, weight=float(rng.uniform(0.1, 2))) for w in WISHES)
    target_set = TargetSet(
        objective,
        targets,
        keep=pick[0] if rng.random() < 0.5 else (),
        hold=pick[1] if rng.random() < 0.5 else (),
    )
    built = make(tuple(w.estimand for w in targets))
    p = target_set.problem(built, now, now)
    if objective == "best" and rng.random() < 0.7:
        p = replace(p, limit=p.variances(now) * rng.uniform(0.8, 1.5, len(targets)))
    bounds: list[float] = []
    try:
        found = optimize(p, 1e-9, steps, lambda c: bounds.append(c.bound))
    except SpecError as error:
        if "meets these limits" not in str(error):
            raise
        return
    assert (np.diff(bounds) >= 0).all()
    for rho in [*others(p, found, rng, 30), now]:
        if p.least:  # made as large as the limits need, keeping what is kept
            excess = p.over(p.variances(rho)).max()
            for _ in range(30):
                if excess <= 0:
                    break
                rho = p.kept + (rho - p.kept) * np.exp(excess)
                excess = p.over(p.variances(rho)).max()
            if excess > 1e-9:
                continue
        elif np.isfinite(p.limit).any() and p.over(p.variances(rho)).max() > 0:
            continue
        assert p.value(rho, p.variances(rho)) >= found.bound - 1e-9 * (1 + abs(found.bound))


def test_a_search_for_the_least_total_leaves_where_it_began_though_its_first_step_comes_nearest_to_the_limits() -> (
    None
):
    """What is held does not grow with the rest. So a step reaches slightly beyond limits that the
    present plan meets.
    """
    held = tuple(pair for pair in PAIRS if pair[0] == "C")
    p = problem(TargetSet("least", WISHES, guard={"everything": 1.0}, hold=held))
    found = optimize(p, 1e-9, 20)
    assert found.over <= 1e-9
    assert found.value <= 2.65 < p.start.sum()
    assert found.price.max() > 2 * found.price[found.price > 0].min()


@pytest.mark.parametrize("seed", range(3))
def test_steps_are_not_shortened_before_limits_are_met_where_only_children_share_queries(
    seed: int,
) -> None:
    """All guards at what is: the plan as it is meets them, and far better ones do, which short
    steps never came to.
    """
    pairs = [(f"L{i}", q) for i in range(4) for q in ("total", "race", "detailed")]
    target_set = TargetSet("best", WISHES)
    now = np.random.default_rng(seed).uniform(0.02, 1, len(pairs))
    built = chained(target_set.estimands(PAIRS))
    p = TargetSet(
        "best", tuple(replace(w, estimand=a) for w, a in zip(WISHES, built.estimands, strict=False))
    ).problem(built, now, now)
    p = replace(p, limit=p.variances(now))
    found = optimize(p, 1e-3, 1500)
    assert found.over <= MET
    assert found.value < p.value(now, p.variances(now)) - 0.1


@pytest.mark.parametrize("steps", [1, 5, 20])
def test_a_search_that_is_cut_off_beyond_its_limits_goes_back_until_they_are_met(
    steps: int,
) -> None:
    target_set = TargetSet("best", WISHES, guard={"everything": 1.0})
    p = problem(target_set)
    found = optimize(p, 1e-9, steps)
    assert found.over <= MET
    assert found.value <= p.value(NOW, p.variances(NOW)) + 1e-12
    assert found.rho.sum() == pytest.approx(NOW.sum())
    assert found.variances == pytest.approx(p.variances(found.rho))


# --- what cannot be, and what there is no choice of
# ---------------------------------------------------------------


def test_limits_that_need_more_than_there_is_are_refused_and_said_how_much() -> None:
    target_set = TargetSet("best", (AccuracyTarget(Estimand("C", "detailed"), sd=0.5),))
    with pytest.raises(SpecError, match="no allocation of rho = 3 meets these limits") as said:
        optimize(problem(target_set), 1e-3, 400)
    least = optimize(problem(replace(target_set, objective="least")), 1e-3, 2000)
    told = float(str(said.value).split("need ")[1].split(" at least")[0])
    assert told == pytest.approx(least.value, rel=5e-3)
    assert "C:detailed" in str(said.value)
    enough = np.where(NOW > 0, NOW * least.value * 1.02 / NOW.sum(), 0.0)
    assert optimize(problem(target_set, enough), 1e-2, 2000).over <= MET


def test_guards_below_one_everywhere_contradict_the_total() -> None:
    with pytest.raises(SpecError, match="meets these limits"):
        optimize(problem(TargetSet("best", WISHES, guard={"everything": 0.9})), 1e-3, 400)


@pytest.mark.parametrize("objective", ["best", "least"])
def test_limits_that_hang_on_what_is_held_are_refused_by_name(objective: Objective) -> None:
    held = tuple(pair for pair in PAIRS if pair[0] == "C")
    target = AccuracyTarget(Estimand("C", "detailed"), ratio=0.2)
    with pytest.raises(
        SpecError, match="no rho meets these limits: C:detailed hangs on draws that are held"
    ):
        optimize(problem(TargetSet(objective, (target,), hold=held)), 1e-3, 400)


@pytest.mark.parametrize("objective", ["best", "least"])
def test_where_everything_is_held_there_is_nothing_to_choose(objective: Objective) -> None:
    with pytest.raises(SpecError, match="every measurement is held"):
        problem(TargetSet(objective, WISHES, hold=tuple(PAIRS)), NOW * 2)


def test_what_is_kept_must_leave_something() -> None:
    with pytest.raises(SpecError, match="the kept measurements take rho = 3 of 3"):
        problem(TargetSet("best", WISHES, keep=tuple(PAIRS)))
    with pytest.raises(SpecError, match="the kept measurements take"):
        problem(TargetSet("best", WISHES, keep=(("A", "detailed"),)), NOW * 0.1)


def test_the_least_total_grows_from_a_plan_that_is_kept_whole() -> None:
    """Nothing is free at the start: met limits need nothing more, tighter ones need what can be
    computed.
    """
    found = optimize(problem(TargetSet("least", WISHES, keep=tuple(PAIRS))), 1e-3, 400)
    assert found.value == pytest.approx(NOW.sum(), rel=2e-3)
    tighter = problem(
        TargetSet(
            "least",
            (*WISHES[:3], AccuracyTarget(Estimand("C", "detailed"), ratio=0.8)),
            keep=tuple(PAIRS),
        )
    )
    found = optimize(tighter, 1e-3, 400)
    assert found.gap <= 1e-3
    assert found.over <= 1e-9
    assert found.value == pytest.approx(solved(tighter), rel=2e-3)
    assert found.value > NOW.sum()


def test_targets_that_are_published_exactly_are_no_targets() -> None:
    with pytest.raises(SpecError, match="published exactly"):
        problem(TargetSet("best", (AccuracyTarget(Estimand("A", "total")),)))
    found = optimize(
        problem(TargetSet("best", (AccuracyTarget(Estimand("A", "total"), 5.0), *WISHES))), 1e-4
    )
    assert found.price[0] == 0
    assert found.value == pytest.approx(
        optimize(problem(TargetSet("best", WISHES)), 1e-4).value, abs=2e-4
    )


def test_a_draw_that_buys_nothing_is_found_and_spent_anew() -> None:
    m = model(GOALS["spare"].estimands(PAIRS))
    assert redundant(m, NOW, m.variances(NOW)).tolist() == [
        pair == ("A", "total") for pair in PAIRS
    ]
    found = optimize(problem(GOALS["spare"]), 1e-4)
    assert (found.rho[1:] >= NOW[1:] - 1e-12).all()
    assert found.rho[0] < 1e-3
    everything = Homogeneous.for_schema(
        PLAIN, LEVELS, (1, 4, 20), Choices.alike(PAIRS, "all"), GOALS["spare"].estimands(PAIRS), -1
    )
    with pytest.raises(SpecError, match="every measurement buys something"):
        GOALS["spare"].problem(everything, NOW, NOW)


def test_one_draw_is_the_best_of_one() -> None:
    one = Homogeneous.for_schema(
        PLAIN, ("A",), (1,), Choices.alike([("A", "detailed")], "all"), [Estimand("A", "age")], -1
    )
    target_set = TargetSet("best", (AccuracyTarget(Estimand("A", "age")),))
    found = optimize(target_set.problem(one, np.ones(1), np.ones(1)))
    assert found.rho == pytest.approx([1.0])
    assert found.gap <= 1e-9
    assert found.steps == 1
