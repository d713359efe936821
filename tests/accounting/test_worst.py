"""The worst of very many compositions, held against composing every one of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from das.accounting import curve, delta, epsilon, kept, peaks, worst
from das.accounting import worst as shared_quadrature
from das.accounting.draws import Composition, Differing, Moves, changed, composed, count
from das.accounting.guarantee import combine, epsilons
from das.accounting.profile import PrivacyProfile, worst_epsilon
from das.accounting.zcdp import tight
from das.model import tabulation
from das.model.budget import Allocation, Neighbours
from das.model.measured_spine import MeasuredSpine
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.model.spine import Spine
from das.spec import parse
from tests.model.test_measured_spine import spines
from tests.strategies import shares

CONFIG = Path(__file__).parents[2] / "configs" / "pl94-2010.toml"
LEVELS = ("US", "County", "Tract", "Block")
D = Fraction(1, 10**10)


@pytest.fixture(scope="module")
def production() -> dict[str, Plan]:
    """Plans of all conceivable paths."""
    text = CONFIG.read_text(encoding="utf-8")
    spec = parse(text, where="c", overrides=["geography.spine=optimized"])
    return {u.name: u.plan for u in spec.universes}


def plan_of(
    rho: Fraction,
    levels: dict[str, Fraction],
    queries: dict[str, Fraction],
    paths: tuple,
    neighbours: Neighbours,
) -> Plan:
    allocation = Allocation(levels, dict.fromkeys(levels, queries))
    return Plan.from_allocation(
        rho,
        DISCRETE_GAUSSIAN,
        neighbours,
        allocation,
        tabulation.classes(list(levels), paths),
        paths,
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Over a random tree, with random shares, from all noise to hardly any."""
    tree = MeasuredSpine.bypassed(spine := draw(spines(LEVELS)), np.arange(len(spine.codes[-1])))
    queries = draw(shares([f"q{i}" for i in range(draw(st.integers(1, 4)))]))
    rho = Fraction(draw(st.integers(1, 60)), draw(st.sampled_from([10, 100])))
    return plan_of(
        rho, draw(shares(list(LEVELS))), queries, tree.paths, draw(st.sampled_from(Neighbours))
    )


def brute(found: Differing, of: Callable[..., tuple[float, float]]) -> tuple[float, float]:
    every = [of(c) for _, c in composed(found)]
    return max(low for low, _ in every), max(high for _, high in every)


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


@settings(max_examples=8, deadline=None)
@given(plans(), st.sampled_from([2, 10, 20]))
def test_the_interval_holds_the_largest_epsilon_of_all_pairs_of_places(
    plan: Plan, power: int
) -> None:
    found, at = changed(plan), Fraction(1, 10**power)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worst, "FEW", 0)
        low, high = epsilon(plan, at)
        eps = Fraction(low) + Fraction(1, 10)
        least, most = delta(plan, eps)
    true = brute(found, lambda c: epsilon(c, at))
    assert overlap((low, high), true)
    assert high >= true[0]
    assert low <= true[1]
    assert high - low <= 0.05 * high + 1e-3
    assert overlap((least, most), brute(found, lambda c: delta(c, eps)))


def test_no_composition_is_above_its_bound(production: dict[str, Plan]) -> None:
    """Of persons and of housing units, at several epsilons of one line: all 528 pairs are below the
    largest bound, and where it is taken away, the next is above all others."""
    for name, at in (("persons", "16.4"), ("housing", "2.3")):
        found, eps = changed(production[name]), Fraction(at)
        bounds = worst._Bounds(found)
        line = bounds._line(eps)
        assert len(line.groups) == 2
        every = dict(list(composed(found))[::37])
        for e in (eps, eps * Fraction(101, 100)):
            values = {}
            for group in line.groups:
                numbers, sums = group._numbers[0].tolist(), group._every(e)
                values |= {
                    n: group._log(e, float(x) + group.error)
                    for n, x in zip(numbers, sums, strict=True)
                }
            assert len(values) == count(found) > 500
            for (number,), composition in every.items():
                exact = PrivacyProfile(composition).log_delta(e)
                assert exact.low <= values[number]
                assert values[number] <= exact.high + 0.2
            top, at_top = bounds.highest(e)
            assert top == pytest.approx(max(values.values()), abs=2e-7)
            assert values[at_top[0]] == pytest.approx(top, abs=2e-7)
            assert bounds.highest(e, [at_top])[0] <= top


def test_the_worst_of_all_conceivable_places_is_that_of_the_bureaus_plan(
    production: dict[str, Plan],
) -> None:
    """facts/spine.md 3.7: 16.4652 on the plain path, 16.4678 from there to a state part of one
    block.
    """
    found = changed(production["persons"])
    assert count(found) == 528
    row = epsilons(found, D)
    assert row.between == {"persons": ("plain", "State to Block")}
    assert f"{row.pld[0]:.4f}" == f"{row.pld[1]:.4f}" == "16.4678"
    assert row.pld[1] - row.pld[0] < 1e-7
    plain = epsilon(production["persons"].along([production["persons"].paths[0]]), D)
    assert f"{plain[1]:.4f}" == "16.4652"


def test_records_of_two_kinds_are_worst_where_both_are(production: dict[str, Plan]) -> None:
    """Held against every combination of some paths; and of all paths it is no less."""
    paths = [production["persons"].paths[i] for i in (0, 15, 16)]
    few = [changed(plan.along(paths)) for plan in production.values()]
    both = combine(few)
    assert count(both) == 36
    true = brute(both, lambda c: epsilon(c, D))
    some = worst_epsilon(both, D)
    assert some.low <= true[1] <= some.high + 1e-9
    assert some.high - some.low < 1e-6
    assert some.low >= true[0] - 1e-7
    every = worst_epsilon(combine(map(changed, production.values())), D)
    assert every.high >= some.low
    assert every.high - every.low < 1e-6


def test_rows_alike_are_counted_once_and_what_they_hide_is_added(
    production: dict[str, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = changed(production["persons"])
    eps = Fraction("16.4")
    whole = worst._Bounds(found).highest(eps)
    for name, value in (("MANY", 10), ("COMBINATIONS", 30)):
        monkeypatch.setattr(shared_quadrature, name, value)
    thin = worst._Bounds(found)
    assert sum(len(group._rows[0]) for group in thin._line(eps).groups) <= 60
    assert whole[0] <= thin.highest(eps)[0] <= whole[0] + 0.1


def test_where_bounds_do_not_come_down_no_more_is_claimed_than_the_tight_conversion_gives(
    production: dict[str, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hardly any noise, which the nodes of many paths do not serve: few compositions are asked
    before that is seen.
    """
    monkeypatch.setattr(worst, "FEW", 1)
    (part,) = changed(production["persons"])
    found, asked = (part.scaled(Fraction(1, 400)),), []

    def exactly(composition: Composition) -> tuple[float, float]:
        asked.append(composition)
        return PrivacyProfile(composition).epsilon(D)

    at = worst.epsilon(found, D, exactly)
    assert len(asked) <= worst.FEW
    assert at.low < at.high == pytest.approx(tight(part.rho * 400, D))
    assert all(
        PrivacyProfile(c).epsilon(D)[0] <= at.high for _, c in list(composed(found))[400:401]
    )


def test_a_budget_of_a_thousand_is_accounted_for_exactly() -> None:
    """Of the redistricting plan, at its delta alone: a whole statement at such a budget takes most
    of a minute.
    """
    spec = parse(
        CONFIG.read_text(encoding="utf-8"),
        where="c",
        overrides=["geography.spine=tabulation", "budget.rho=1000"],
    )
    low, high = epsilon(spec.persons.plan, D)
    assert 1000 < low <= high < low * (1 + 1e-7)  # the mean loss is rho
    assert high < tight(Fraction(1000), D)


def test_which_is_named_is_not_for_rounding_to_say() -> None:
    """Two paths whose draws are the same in another order are one; of equals the first is named."""
    one, other = (((DISCRETE_GAUSSIAN, Fraction(4)), 3),), (((DISCRETE_GAUSSIAN, Fraction(4)), 4),)
    moves = tuple((i, j) for i in range(2) for j in range(i, 2))
    part = Moves((other, one), moves, ((("A", "x"),), (("A", "y"),)))
    assert worst_epsilon((part,), D).at == (0,)
    swapped = Moves((one, other), moves, ())
    assert worst_epsilon((swapped,), D).at == (2,)


def test_without_draws_nothing_is_lost_and_beyond_any_use_the_conversion_is_given() -> None:
    levels = {level: Fraction(1, 4) for level in LEVELS}
    paths = tabulation.conceivable(LEVELS)
    loud = plan_of(Fraction(10**5), levels, {"q": Fraction(1)}, paths, Neighbours.BOUNDED)
    low, high = epsilon(loud, D)
    assert (low, high) == (0.0, epsilon(loud, D, "zcdp-tight"))
    assert delta(loud, 10)[0] == 0.0
    nothing = (Moves(((), ()), ((0, 0), (0, 1), (1, 1)), ((), ())),)
    assert worst_epsilon(nothing, D).high == 0.0


def test_a_curve_falls(production: dict[str, Plan]) -> None:
    found = curve(production["persons"], ["1e-5", "1e-10", "1e-20"])
    assert [low < high + 1e-6 for low, high in found] == [True] * 3
    assert [high for _, high in found] == sorted(high for _, high in found)
    assert exp(-1e-6) < found[0][0] / found[0][1] <= 1


def chain(levels: tuple[str, ...]) -> Spine:
    """A single lowest unit under only children."""
    return Spine(
        levels,
        tuple(np.array([level]) for level in levels),
        tuple(np.zeros(1, int) for _ in levels),
    )


def test_a_tree_of_only_children_has_one_path_which_needs_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worst, "_Bounds", None)
    tree = MeasuredSpine.bypassed(chain(LEVELS), np.arange(1))
    levels = {level: Fraction(1, 4) for level in LEVELS}
    plan = plan_of(Fraction(1), levels, {"q": Fraction(1)}, tree.paths, Neighbours.BOUNDED)
    assert epsilon(plan, D) == epsilon([(Fraction(1), 2)], D)


# --- one value for one question


@pytest.fixture(scope="module")
def fair() -> dict[str, Plan]:
    """Its nodes are many at some periods."""
    text = CONFIG.with_name("pl94-2010-fair.toml").read_text(encoding="utf-8")
    return {u.name: u.plan for u in parse(text, where="c").universes}


QUESTIONS = tuple(
    (name, what, at)
    for name, eps in (("persons", "16.4"), ("housing", "2.3"), ("both", "16.7"))
    for what, each in (("epsilon", ("1e-2", "1e-3", "1e-10", "1e-30")), ("delta", (eps, "9")))
    for at in each
)
_ALONE: dict[tuple[str, str, str], tuple[float, float]] = {}
#: The process's own memory, not what is kept on disk.
REMEMBERED = kept._computed


def forget() -> None:
    for memory in (worst._parts, REMEMBERED, peaks._known):
        memory.cache_clear()


def answered(plans: dict[str, Plan], name: str, what: str, at: str) -> tuple[float, float]:
    if name == "both":
        few = (plan.along(plan.paths[::4]) for plan in plans.values())
        found = combine(changed(plan) for plan in few)
        if what == "epsilon":
            return ends(REMEMBERED(found, Fraction(at)))
        most = worst.log_delta(found, Fraction(at), lambda c: tuple(log(x) for x in delta(c, at)))  # type: ignore[arg-type, return-value]
        return ends(most)
    if what == "delta":
        return delta(plans[name], at)
    return ends(REMEMBERED(changed(plans[name]), Fraction(at)))


def ends(at: worst.WorstLoss) -> tuple[float, float]:
    return at.low, at.high


@settings(max_examples=3, deadline=None)
@given(st.lists(st.sampled_from(QUESTIONS), min_size=2, max_size=4, unique=True))
@example([("persons", "epsilon", "1e-2"), ("persons", "epsilon", "1e-10")])
@example([("both", "epsilon", "1e-3"), ("both", "epsilon", "1e-10")])
def test_an_answer_is_that_of_its_question_whatever_was_asked_before(
    fair: dict[str, Plan], questions: list[tuple[str, str, str]]
) -> None:
    for question in questions:
        if question not in _ALONE:
            forget()
            _ALONE[question] = answered(fair, *question)
    forget()
    assert [answered(fair, *q) for q in questions] == [_ALONE[q] for q in questions]


def test_epsilon_of_the_packaged_persons_is_narrow_at_every_usual_delta(
    fair: dict[str, Plan],
) -> None:
    found = changed(fair["persons"])
    for k in (2, 3, 5, 10, 20, 30):
        at = worst_epsilon(found, Fraction(1, 10**k))
        assert at.high - at.low < 1e-7, k


def test_a_curve_is_its_epsilons(fair: dict[str, Plan]) -> None:
    one = fair["persons"].along(fair["persons"].paths[:1])
    deltas = ["1e-30", "1e-10", "2e-10", "1e-5", "1e-10"]
    assert curve(one, deltas) == [epsilon(one, d) for d in deltas]
