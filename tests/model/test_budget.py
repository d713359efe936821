"""Budgets are exact: shares sum to one, plans cost their budget, ledgers refuse what is not
covered.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import PrivacyError, SpecError
from das.model.budget import Allocation, Neighbours, PlannedMeasurement, UnitPath, total
from das.model.ledger import Event, Ledger
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.model.plan import Plan
from tests.strategies import allocations, fractions

ONE, HALF = Fraction(1), Fraction(1, 2)
SIMPLE = Allocation(
    {"A": HALF, "B": HALF}, {"A": {"total": ONE}, "B": {"total": HALF, "detailed": HALF}}
)


def event(cost: Fraction) -> Event:
    return Event("A", "total", DISCRETE_GAUSSIAN, 1 / cost if cost else ONE, cost, "persons", 1, 1)


# --- allocations
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "levels, queries, message",
    [
        ({"A": HALF}, {"A": {"q": ONE}}, r"budget\.levels: the shares sum to 1/2"),
        (
            {"A": HALF, "B": HALF + Fraction(1, 10**30)},
            {},
            r"budget\.levels: the shares sum to 1000",
        ),
        (
            {"A": ONE},
            {"A": {"q": Fraction(99, 100)}},
            r"budget\.queries\.A: the shares sum to 99/100",
        ),
        ({"A": ONE}, {"A": {}}, r"budget\.queries\.A: the shares sum to 0"),
        ({}, {}, r"budget\.levels: the shares sum to 0"),
        (
            {"A": Fraction(0), "B": ONE},
            {"A": {"q": ONE}, "B": {"q": ONE}},
            "share of 'A' is 0, not positive",
        ),
        (
            {"A": ONE},
            {"A": {"q": Fraction(-1), "r": Fraction(2)}},
            "share of 'q' is -1, not positive",
        ),
        ({"A": 1.0}, {"A": {"q": ONE}}, "'A' is a float, not an exact fraction"),
        ({"A": 1}, {"A": {"q": ONE}}, "'A' is a int, not an exact fraction"),
        ({"A": ONE}, {"A": {"q": 0.5, "r": 0.5}}, "'q' is a float, not an exact fraction"),
        ({"A": ONE}, {}, "no queries for level 'A'"),
        (
            {"A": ONE},
            {"A": {"q": ONE}, "B": {"q": ONE}},
            "queries for level 'B', which has no share",
        ),
    ],
)
def test_each_fault_of_an_allocation_is_named(levels: dict, queries: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Allocation(levels, queries)


@given(allocations())
def test_shares_that_sum_to_one_are_accepted_and_any_other_sum_is_not(
    allocation: Allocation,
) -> None:
    first = next(iter(allocation.levels))
    off = {**allocation.levels, first: allocation.levels[first] + Fraction(1, 10**40)}
    with pytest.raises(SpecError, match="not to exactly 1"):
        Allocation(off, allocation.queries)


# --- plans
# ---------------------------------------------------------------------------------------------------


@given(
    allocations(),
    fractions(),
    st.sampled_from(list(MECHANISMS.values())),
    st.sampled_from(Neighbours),
)
def test_a_plan_costs_its_budget_exactly(
    allocation: Allocation, total: Fraction, mechanism: Mechanism, neighbours: Neighbours
) -> None:
    plan = Plan.from_allocation(total, mechanism, neighbours, allocation)
    assert plan.cost == total
    assert sum((d.cost for d in plan.measurements), Fraction(0)) == total
    moved = {Neighbours.BOUNDED: 2, Neighbours.UNBOUNDED: 1}[neighbours]
    for d in plan.measurements:
        share = allocation.levels[d.level] * allocation.queries[d.level][d.query]
        assert d.cost == total * share
        # rho = s / (2 sigma^2) and epsilon = s / b, solved for neither: multiplied out
        if mechanism is DISCRETE_GAUSSIAN:
            assert 2 * d.parameter * d.cost == moved
        else:
            assert d.parameter * d.cost == moved
    assert [(d.level, d.query) for d in plan.measurements] == [
        (lv, q) for lv in allocation.levels for q in allocation.queries[lv]
    ]
    for level in allocation.levels:
        assert plan.at(level) == tuple(d for d in plan.measurements if d.level == level)
        assert (
            sum((d.cost for d in plan.at(level)), Fraction(0)) == total * allocation.levels[level]
        )
    assert plan.at("nowhere") == ()


def test_scales_by_hand() -> None:
    def scales(mechanism: Mechanism, neighbours: Neighbours) -> list[Fraction]:
        return [
            d.parameter
            for d in Plan.from_allocation(Fraction(4), mechanism, neighbours, SIMPLE).measurements
        ]

    assert scales(DISCRETE_GAUSSIAN, Neighbours.BOUNDED) == [HALF, 1, 1]
    assert scales(DISCRETE_GAUSSIAN, Neighbours.UNBOUNDED) == [Fraction(1, 4), HALF, HALF]
    assert scales(GEOMETRIC, Neighbours.BOUNDED) == [1, 2, 2]
    assert scales(GEOMETRIC, Neighbours.UNBOUNDED) == [HALF, 1, 1]


@pytest.mark.parametrize("total", [Fraction(0), Fraction(-1, 2)])
@pytest.mark.parametrize("mechanism", list(MECHANISMS.values()))
def test_a_budget_that_is_not_positive_is_refused(total: Fraction, mechanism: Mechanism) -> None:
    with pytest.raises(SpecError, match=rf"budget\.{mechanism.currency}: the budget is {total}"):
        Plan.from_allocation(total, mechanism, Neighbours.BOUNDED, SIMPLE)


def test_currencies_and_sensitivities() -> None:
    assert [m.currency for m in MECHANISMS.values()] == ["rho", "epsilon"]
    assert (Neighbours.BOUNDED.sensitivity, Neighbours.UNBOUNDED.sensitivity) == (2, 1)


# --- ledgers
# -------------------------------------------------------------------------------------------------


@given(allocations(), fractions())
def test_a_ledger_takes_a_whole_plan_and_nothing_more(
    allocation: Allocation, total: Fraction
) -> None:
    plan = Plan.from_allocation(total, DISCRETE_GAUSSIAN, Neighbours.BOUNDED, allocation)
    ledger = Ledger(total)
    for d in plan.measurements:
        ledger.append(event(d.cost))
    assert ledger.cost == total == ledger.budget
    before = ledger.events
    with pytest.raises(PrivacyError, match="of a budget of"):
        ledger.append(event(Fraction(1, 10**50)))
    assert ledger.events == before
    assert ledger.cost == total


@pytest.mark.parametrize("cost", [Fraction(0), Fraction(-1, 10)])
def test_a_ledger_refuses_events_that_cost_nothing_or_less(cost: Fraction) -> None:
    ledger = Ledger(ONE)
    with pytest.raises(PrivacyError, match="not positive"):
        ledger.append(event(cost))
    assert ledger.events == ()


def test_a_ledger_is_written_before_append_returns_and_only_what_is_covered() -> None:
    written: list[Event] = []
    ledger = Ledger(ONE, write=written.append)
    ledger.append(event(HALF))
    assert written == [event(HALF)]
    with pytest.raises(PrivacyError):
        ledger.append(event(ONE))
    assert written == [event(HALF)]


def test_an_event_that_cannot_be_written_is_an_error() -> None:
    def full(_: Event) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Ledger(ONE, write=full).append(event(HALF))


def test_what_an_earlier_process_spent_is_spent() -> None:
    ledger = Ledger(ONE, spent=[event(HALF), event(Fraction(1, 4))])
    assert ledger.cost == Fraction(3, 4)
    with pytest.raises(PrivacyError):
        ledger.append(event(HALF))
    ledger.append(event(Fraction(1, 4)))
    with pytest.raises(PrivacyError, match="3/2 was spent of a budget of 1"):
        Ledger(ONE, spent=[event(ONE), event(HALF)])


def test_events_cannot_be_taken_back() -> None:
    ledger = Ledger(ONE)
    ledger.append(event(HALF))
    assert isinstance(ledger.events, tuple)
    with pytest.raises(AttributeError):
        ledger.events = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ledger.events[0].cost = Fraction(0)  # type: ignore[misc]
    assert ledger.cost == HALF


# --- classes and paths
# -----------------------------------------------------------------------------------------

GAUSSIAN, BOUNDED = DISCRETE_GAUSSIAN, Neighbours.BOUNDED
#: Shares of 10: a block alone in its group moves its share up, and is not measured.
PLAIN = (("State", "all"), ("Group", "plain"), ("Block", "all"))
ALONE = (("State", "all"), ("Group", "of one block"), ("Block", "alone"))
#: Less is spent on it than on the others.
POOR = (("State", "all"), ("Group", "poor"), ("Block", "alone"))


def drawn(
    level: str,
    cost: int,
    unit_class: str = "all",
    query: str = "total",
    mechanism: Mechanism = GAUSSIAN,
) -> PlannedMeasurement:
    return PlannedMeasurement.priced(level, query, mechanism, BOUNDED, Fraction(cost), unit_class)


IRREGULAR = Plan(
    BOUNDED,
    (
        drawn("State", 2),
        drawn("Group", 2, "plain"),
        drawn("Group", 3, "plain", "detailed"),
        drawn("Group", 8, "of one block", "detailed"),
        drawn("Group", 1, "poor"),
        drawn("Block", 3),
    ),
    (PLAIN, ALONE, POOR),
)


def costs(plan: Plan) -> list[Fraction]:
    return [total(plan.on(path)) for path in plan.paths]


def test_a_plan_costs_what_its_dearest_path_does() -> None:
    assert costs(IRREGULAR) == [10, 10, 3]
    assert IRREGULAR.cost == 10
    assert sum(d.cost for d in IRREGULAR.measurements) == 19  # no record sees them all
    assert [d.query for d in IRREGULAR.on(PLAIN)] == ["total", "total", "detailed", "total"]
    assert IRREGULAR.levels == ("State", "Group", "Block")
    dearer = Plan(
        BOUNDED, (*IRREGULAR.measurements, drawn("Group", 9, "poor", "detailed")), IRREGULAR.paths
    )
    assert (dearer.cost, costs(dearer)) == (12, [10, 10, 12])


def test_the_draws_of_a_class_and_those_of_all_classes() -> None:
    assert len(IRREGULAR.at("Group")) == 4
    assert [d.query for d in IRREGULAR.of_class("Group", "plain")] == ["total", "detailed"]
    assert IRREGULAR.of_class("Block") == IRREGULAR.at("Block")
    assert IRREGULAR.of_class("Block", "alone") == ()  # not measured, and a class all the same
    with pytest.raises(KeyError, match="'Block' has no class 'plain'"):
        IRREGULAR.of_class("Block", "plain")


@given(fractions())
def test_scaling_keeps_the_paths_and_every_proportion(budget: Fraction) -> None:
    scaled = IRREGULAR.scaled(budget)
    assert (scaled.cost, scaled.paths) == (budget, IRREGULAR.paths)
    assert costs(scaled) == [c * budget / 10 for c in costs(IRREGULAR)]
    assert [(d.place, d.query) for d in scaled.measurements] == [
        (d.place, d.query) for d in IRREGULAR.measurements
    ]
    assert all(2 * d.parameter * d.cost == 2 for d in scaled.measurements)


@given(
    allocations(),
    fractions(),
    st.sampled_from(list(MECHANISMS.values())),
    st.sampled_from(Neighbours),
)
def test_with_one_class_to_a_level_the_path_is_the_sum(
    allocation: Allocation, budget: Fraction, mechanism: Mechanism, neighbours: Neighbours
) -> None:
    plan = Plan.from_allocation(budget, mechanism, neighbours, allocation)
    assert plan.paths == (tuple((level, "all") for level in allocation.levels),)
    assert plan.on(plan.paths[0]) == plan.measurements
    assert all(plan.of_class(level) == plan.at(level) for level in plan.levels)


def test_a_bypassed_child_moves_its_share_up_and_no_path_changes() -> None:
    """With the shares of the 2020 production run: whatever chain of only children is bypassed,
    every path costs the same.
    """
    shares = {
        "US": 104,
        "State": 1440,
        "County": 447,
        "Tract": 687,
        "Block_Group": 1256,
        "Block": 165,
    }
    levels = list(shares)
    draws, paths = {}, []
    for first in range(len(levels)):
        for last in range(
            first, len(levels)
        ):  # the only children between: their shares are those of the first
            path = []
            for i, level in enumerate(levels):
                inside = first <= i <= last
                held = (
                    sum(shares[lv] for lv in levels[first : last + 1])
                    if i == first
                    else 0
                    if inside
                    else shares[level]
                )
                name = f"share {held}"
                path.append((level, name))
                if held:
                    draws[level, name] = drawn(level, held, name)
            paths.append(tuple(path))
    plan = Plan(
        BOUNDED, tuple(sorted(draws.values(), key=lambda d: levels.index(d.level))), tuple(paths)
    )
    assert set(costs(plan)) == {Fraction(4099)}
    assert plan.cost == 4099


@pytest.mark.parametrize(
    "draws, paths, message",
    [
        (
            (drawn("A", 1, "x"), drawn("A", 1, "y")),
            (),
            "two classes of 'A', 'x' and 'y'.*give the paths",
        ),
        ((drawn("A", 1),), ((("A", "all"), ("A", "x")),), "two classes of 'A'"),
        ((drawn("A", 1, "x"),), ((("A", "all"),),), "'total' of class 'x' at 'A' is on no path"),
        ((drawn("A", 1),), ((("B", "all"),),), "on no path: its cost would be counted nowhere"),
        (
            (drawn("A", 1),),
            ((("A", "all"), ("B", "all")), (("B", "x"), ("A", "all"))),
            "a path has the levels B, A, another A, B",
        ),
    ],
)
def test_each_fault_of_paths_is_named(
    draws: tuple[PlannedMeasurement, ...], paths: tuple[UnitPath, ...], message: str
) -> None:
    with pytest.raises(PrivacyError, match=f"(?s){message}"):
        Plan(BOUNDED, draws, paths)


def test_costs_in_two_currencies_do_not_add_up() -> None:
    mixed = (drawn("A", 1), drawn("B", 1, mechanism=GEOMETRIC))
    with pytest.raises(
        PrivacyError,
        match=r"discrete-gaussian noise \(rho\) and geometric noise \(epsilon\) do not add up",
    ):
        assert Plan(BOUNDED, mixed).cost
    with pytest.raises(PrivacyError, match="do not add up"):
        Ledger(Fraction(9), spent=[Event.from_measurement(d, "persons", 1, 1) for d in mixed])
    with pytest.raises(PrivacyError, match="this plan has discrete-gaussian, geometric noise"):
        assert Plan(BOUNDED, mixed).mechanism
    classes = (drawn("A", 1, "x"), drawn("A", 1, "y", mechanism=GEOMETRIC))
    apart = Plan(
        BOUNDED, classes, ((("A", "x"),), (("A", "y"),))
    )  # though a record sees one of them at most
    with pytest.raises(PrivacyError, match="do not add up"):
        assert apart.cost
    assert apart.at("A")[1].mechanism == GEOMETRIC
    assert "discrete-gaussian, geometric" in repr(apart)


def test_a_ledger_adds_up_by_path() -> None:
    ledger = Ledger(IRREGULAR.cost, paths=IRREGULAR.paths)
    for d in IRREGULAR.measurements:
        ledger.append(Event.from_measurement(d, "persons", 4, 2))
    assert ledger.cost == 10
    assert [e.unit_class for e in ledger.events] == [d.unit_class for d in IRREGULAR.measurements]
    ledger.append(
        Event.from_measurement(drawn("Group", 7, "poor"), "persons", 4, 2)
    )  # its path has room
    for full in ("plain", "of one block"):
        with pytest.raises(PrivacyError, match="would spend 101/10 of a budget of 10"):
            ledger.append(
                Event.from_measurement(
                    PlannedMeasurement.priced(
                        "Group", "hhgq", GAUSSIAN, BOUNDED, Fraction(1, 10), full
                    ),
                    "persons",
                    4,
                    2,
                )
            )
    with pytest.raises(PrivacyError, match="on no path"):
        ledger.append(Event.from_measurement(drawn("Group", 1, "unheard of"), "persons", 4, 2))
    assert ledger.cost == 10
    with pytest.raises(PrivacyError, match="give the paths"):
        Ledger(Fraction(100), spent=ledger.events)
