"""What counts as a draw: plans, ledgers, events and pairs, under both kinds of neighbors; pairs of
paths.
"""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest

from das.accounting import Composition, epsilon, pure, worst_pair
from das.accounting.draws import changed
from das.errors import PrivacyError
from das.model.budget import Allocation, Neighbours
from das.model.ledger import Event, Ledger
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.model.plan import Plan

HALF = Fraction(1, 2)
SHARES = Allocation(
    {"A": Fraction(1, 3), "B": Fraction(2, 3)},
    {"A": {"x": Fraction(1)}, "B": {"x": HALF, "y": HALF}},
)
GAUSSIAN = DISCRETE_GAUSSIAN


def events(plan: Plan) -> list[Event]:
    return [Event.from_measurement(d, "persons", 5, 3) for d in plan.measurements]


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_plan_a_ledger_and_its_events_are_the_same_draws(neighbours: Neighbours) -> None:
    plan = Plan.from_allocation(Fraction(3), GAUSSIAN, neighbours, SHARES)
    s = neighbours.sensitivity
    by_hand = Composition.from_draws(
        [(s / (2 * Fraction(1)), 3 * s)]
    )  # each of the three draws costs rho = 1
    ledger = Ledger(Fraction(3))
    for e in events(plan):
        ledger.append(e)
    assert (
        Composition.from_draws(plan)
        == Composition.from_draws(ledger)
        == Composition.from_draws(events(plan))
        == by_hand
    )
    assert Composition.from_draws(plan).rho == 3
    assert epsilon(plan, "1e-6") == epsilon(ledger, "1e-6") == epsilon([(HALF * s, 3 * s)], "1e-6")


def test_neighbours_matter() -> None:
    """The same noise, replaced or removed: twice the draws."""
    bounded = Plan.from_allocation(Fraction(3), GAUSSIAN, Neighbours.BOUNDED, SHARES)
    removed = Plan.from_allocation(Fraction(3, 2), GAUSSIAN, Neighbours.UNBOUNDED, SHARES)
    assert [d.parameter for d in bounded.measurements] == [
        d.parameter for d in removed.measurements
    ]
    assert [2 * n for _, n in Composition.from_draws(removed).parts] == [
        n for _, n in Composition.from_draws(bounded).parts
    ]
    assert epsilon(removed, "1e-6")[1] < epsilon(bounded, "1e-6")[0] - 1


def test_an_event_that_costs_no_whole_number_of_changes_is_refused() -> None:
    with pytest.raises(ValueError, match="no number of unit changes"):
        Composition.from_draws(
            [Event("A", "x", GAUSSIAN, Fraction(3), Fraction(1, 5), "persons", 1, 1)]
        )


def test_geometric_draws_add_up() -> None:
    plan = Plan.from_allocation(Fraction(1, 4), GEOMETRIC, Neighbours.BOUNDED, SHARES)
    ledger = Ledger(Fraction(1), spent=events(plan))
    assert pure(plan) == pure(ledger) == pure(events(plan)) == Fraction(1, 4)
    for draws in (plan, ledger, events(plan), iter(events(plan))):
        assert epsilon(draws, "1e-10") == (0.25, 0.25)
    with pytest.raises(
        PrivacyError, match=r"(?s)geometric noise is not composed.*das\.accounting\.pure"
    ):
        epsilon(plan, "1e-10", "zcdp-tight")


def test_an_epsilon_that_is_no_float_is_between_two() -> None:
    low, high = epsilon(
        Plan.from_allocation(Fraction(1, 10), GEOMETRIC, Neighbours.BOUNDED, SHARES), "1e-10"
    )
    assert Fraction(low) < Fraction(1, 10) < Fraction(high)
    assert high == math.nextafter(low, 1)


def test_costs_in_rho_are_no_epsilon() -> None:
    """The number would be a budget of rho, and far too small."""
    plan = Plan.from_allocation(Fraction(1, 2), GAUSSIAN, Neighbours.BOUNDED, SHARES)
    for draws in (plan, Ledger(Fraction(1), spent=events(plan)), events(plan)):
        with pytest.raises(
            PrivacyError,
            match=r"discrete-gaussian noise has no epsilon without a delta[\s\S]*das.epsilon",
        ):
            pure(draws)


def test_what_is_no_draws_is_told() -> None:
    with pytest.raises(TypeError, match="this is a int: give a plan, a ledger, or events"):
        epsilon(7, "1e-10")  # type: ignore[call-overload]


def test_lattice_step() -> None:
    assert Composition.from_draws([(Fraction(4), 1), (Fraction(6), 1)]).step == Fraction(1, 12)
    whole = Composition.from_draws([(Fraction(1, 3), 2), (Fraction(2), 1)])
    assert whole.step == HALF
    assert whole.scaled(Fraction(7, 5)).step == HALF * 5 / 7
    assert whole.rho == Fraction(13, 4)
    assert whole + whole == Composition.from_draws([(Fraction(1, 3), 4), (Fraction(2), 2)])


def test_worst_pair_is_the_worst_of_all() -> None:
    paths = {
        "plain": [(Fraction(6), 5), (Fraction(3), 1)],
        "bypassed": [(Fraction(6), 4), (Fraction(7, 4), 1)],
        "short": [(Fraction(6), 3)],
    }
    pair, (low, high) = worst_pair(paths, "1e-8")
    every = {(a, b): epsilon([*paths[a], *paths[b]], "1e-8") for a in paths for b in paths}
    assert every[pair][1] == high == max(h for _, h in every.values())
    assert low == max(x for x, _ in every.values())
    assert pair == ("bypassed", "bypassed")
    with pytest.raises(ValueError, match="no paths"):
        worst_pair({}, "1e-8")


def test_a_hash_stays_in_its_process() -> None:
    found = changed([(Fraction(3), 2)])
    assert hash(found) == hash(changed([(Fraction(3), 2)]))
    (part,) = pickle.loads(pickle.dumps(found))
    assert "_hash" not in part.__dict__
    assert (part,) == found
    assert hash((part,)) == hash(found)
