"""What a record loses: the known totals, an enumeration of every answer, and which mixtures there
are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from das.accounting import Composition, bun_steinke, delta, epsilon
from das.model.mechanisms import GEOMETRIC
from das.publications.detailed.model.iterations import GroupLevel, Kind
from das.publications.detailed.model.tables import FIRST, ONLY, Parameters
from das.publications.detailed.planning import losses
from das.publications.detailed.planning import margins as planning
from tests.detailed import worlds

PERSONS, HOUSEHOLDS = worlds.persons(), worlds.households()
TENTH, SIXTH = Fraction(1, 10**10), Fraction(1, 10**6)
US = GroupLevel("USA", 2), GroupLevel("STATE", 2), GroupLevel("USA", 1), GroupLevel("STATE", 1)


def alone(at: GroupLevel, cost: str, **changes: object) -> Parameters:
    """One level, and nothing else."""
    return replace(PERSONS, budgets={"t2": {at: Fraction(cost)}}, **changes)


@pytest.mark.parametrize(
    "world, places, at, rho, exact",
    [
        (PERSONS, ("us",), TENTH, "4.944", 24.4019),
        (PERSONS, ("us", "us"), TENTH, "9.888", 37.5576),
        (PERSONS, ("us",), SIXTH, "4.944", 19.2844),
        (PERSONS, ("us", "us"), SIXTH, "9.888", 30.3486),
        (PERSONS, ("pr",), TENTH, "2.643", 16.7905),
        (PERSONS, ("pr", "pr"), TENTH, "5.286", 25.4170),
        (HOUSEHOLDS, ("us",), TENTH, "8.895302", 35.1184),
    ],
)
def test_known_totals(
    world: Parameters, places: tuple[str, ...], at: Fraction, rho: str, exact: float
) -> None:
    found = losses.loss(world, places, at)
    assert found.cost == Fraction(rho)
    assert [round(e, 4) for e in found.epsilon] == [exact, exact]
    assert found.epsilon[1] < found.tight < bun_steinke(found.cost, at)


def test_noise_for_eight_groups_would_cost_more() -> None:
    """As if one forgot that ethnicity is a group: a person in nine then loses 9/8 of what is
    said.
    """
    said = replace(PERSONS, race_codes=7)
    assert {p.stability for p in said.plans("us")} == {8}
    one = [
        (d.parameter, 9)
        for p in said.plans("us")
        for d in p.measurements
        if d.query in (FIRST, "t2")
    ]
    assert Composition.from_draws(one).rho == said.cost("us") * 9 / 8
    assert epsilon(one, TENTH)[0] > losses.loss(said, ("us",), TENTH).epsilon[1] + 1.5


@pytest.mark.parametrize("groups", [(0, 0), (6, 0), (0, 2), (6, 2)])
def test_every_mixture_is_among_the_compositions(groups: tuple[int, int]) -> None:
    """Of the iterations without tables there are three at the detailed level, and two at the
    regional one.
    """
    only, tables = {}, {}
    for p in PERSONS.plans("us"):
        t = (
            min(groups[0], 3)
            if (p.at.level, p.at.fine) == (2, True)
            else groups[1]
            if p.at.fine
            else 0
        )
        only[p.at], tables[p.at] = t, 9 - t
    draws = [
        (p.measurement(q).parameter, n)
        for p in PERSONS.plans("us")
        for q, n in ((ONLY, only[p.at]), (FIRST, tables[p.at]), ("t2", tables[p.at]))
        if n
    ]
    every = losses.compositions(PERSONS, ("us",))
    assert Composition.from_draws(draws) in every
    assert len(every) == 4 * 3
    assert {c.rho for c in every} == {PERSONS.cost("us")}
    assert len(losses.compositions(PERSONS, ("us", "us"))) == 7 * 5


def test_the_interval_holds_for_every_mixture() -> None:
    """Where noise is so narrow that they differ: each by itself is no more, and the largest is."""
    world = alone(GroupLevel("USA", 2), "60")
    every = losses.compositions(world, ("us",))
    each = [epsilon(c, TENTH) for c in every]
    assert max(e[0] for e in each) - min(e[0] for e in each) > 1e-3
    for order in (every, every[::-1]):
        low, high = losses.worst(order, TENTH)
        assert low == max(e[0] for e in each)
        assert max(e[1] for e in each) <= high <= low + 2e-9


def test_a_level_without_total_only_iterations_has_one_composition() -> None:
    assert len(losses.compositions(alone(GroupLevel("TRACT", 2), "1"), ("us",))) == 1
    assert len(losses.compositions(HOUSEHOLDS, ("us",))) == 1


def test_a_level_of_total_only_iterations_alone() -> None:
    """Then nobody is in a group with a table: nine draws of totals, though there are fewer
    iterations.
    """
    known = PERSONS.iterations
    only = replace(known, detailed_only=np.ones(len(known), dtype=bool))
    world = alone(GroupLevel("USA", 2), "2", iterations=only)
    (found,) = losses.compositions(world, ("us",))
    assert found == Composition.from_draws([(Fraction(9, 4), 9)])


def test_where_neither_kind_is_enough_for_nine() -> None:
    """If ethnicities alone have no tables, a person in nine groups is in eight with one, and in one
    without.
    """
    known = PERSONS.iterations
    world = alone(
        GroupLevel("USA", 2),
        "2",
        iterations=replace(known, detailed_only=known.kind == Kind.ETHNICITY),
    )
    (plan,) = world.plans("us")
    (found,) = losses.compositions(world, ("us",))
    draws = ((ONLY, 1), (FIRST, 8), ("t2", 8))
    assert found == Composition.from_draws(
        [(plan.measurement(query).parameter, n) for query, n in draws]
    )
    assert losses.loss(world, ("us",), TENTH).cost == found.rho == 2


def outcomes(sigma_sq: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers, and their probabilities where the truth is 0, and 1."""
    y = np.arange(-25, 27)
    p, q = (np.exp(-((y - truth) ** 2) / (2 * sigma_sq)) for truth in (0, 1))
    return y, p / p.sum(), q / q.sum()


def enumerated(first_sq: float, second_sq: float, eps: float, cells: Callable[[int], int]) -> float:
    """delta of one group of nobody or one, over every answer of the first stage and of the second:
    by ``cells`` of the noisy count. The record is in one cell, and the others do not differ."""
    y, p, q = outcomes(first_sq)
    _, pz, qz = outcomes(second_sq)
    found = 0.0
    for count, a, b in zip(y.tolist(), p, q, strict=True):
        same = (
            pz[None, :] if cells(count) > 1 else np.ones((1, 1))
        )  # another cell, where there is one
        joint, other = a * pz[:, None] * same, b * qz[:, None] * same
        found += np.maximum(0, joint - np.exp(eps) * other).sum()
    return found


@pytest.mark.parametrize("eps", [0.0, 0.4, 1.3])
@pytest.mark.parametrize("at_most", [-3, 2, 100])
def test_one_group_loses_what_enumeration_says(eps: float, at_most: int) -> None:
    """Whatever the threshold, and so the law of the size: the loss is that of two independent
    draws.
    """
    world = alone(GroupLevel("USA", 2), "4")
    (plan,) = world.plans("us")
    first, second = plan.measurement(FIRST).parameter, plan.measurement("t2").parameter
    direct = enumerated(float(first), float(second), eps, lambda count: 1 if count < at_most else 8)
    low, high = delta([(first, 1), (second, 1)], Fraction(eps))
    assert low - 1e-9 <= direct <= high + 1e-9
    wrong = delta([(first * Fraction(8, 9), 1), (second * Fraction(8, 9), 1)], Fraction(eps))
    assert wrong[0] > direct * 1.02  # noise for eight groups


@pytest.mark.parametrize("eps", [0.0, 0.7, 2.0])
def test_two_groups_lose_what_enumeration_says(eps: float) -> None:
    """A person of one code of race and no ethnicity that counts is in two groups: alone and in
    combination.
    """
    world = alone(GroupLevel("TRACT", 2), "10")
    (plan,) = world.plans("us")
    (found,) = losses.compositions(world, ("us",), race_codes=1, ethnic=False)
    assert sum(n for _, n in found.parts) == 4
    joint, other = np.ones(1), np.ones(1)
    for query in (FIRST, FIRST, "t2", "t2"):
        _, p, q = outcomes(float(plan.measurement(query).parameter))
        p, q = p[12:-13], q[12:-13]
        joint, other = np.outer(joint, p).ravel(), np.outer(other, q).ravel()
    direct = np.maximum(0, joint - np.exp(eps) * other).sum()
    low, high = delta(found, Fraction(eps))
    assert low - 2e-3 <= direct <= high + 1e-9  # what lies outside of the enumeration is left out
    assert (
        delta(
            Composition.from_draws([(plan.measurement(q).parameter, 3) for q in (FIRST, "t2")]),
            Fraction(eps),
        )[0]
        > direct + 0.02
    )


@pytest.mark.parametrize(
    "codes, ethnic, groups",
    [(1, False, 2), (2, False, 2), (3, False, 3), (8, False, 8), (1, True, 3), (8, True, 9)],
)
def test_who_writes_down_fewer_codes_loses_less(codes: int, ethnic: bool, groups: int) -> None:
    found = losses.loss(PERSONS, ("us",), TENTH, codes, ethnic)
    assert found.cost == PERSONS.cost("us") * groups / 9
    assert all(c.rho == found.cost for c in losses.compositions(PERSONS, ("us",), codes, ethnic))


def test_codes_that_are_not_read_are_in_no_group() -> None:
    world = replace(PERSONS, race_codes=3)
    assert losses.loss(world, ("us",), TENTH, 8) == losses.loss(world, ("us",), TENTH)


def test_moves_between_runs() -> None:
    """Of production, where all that Puerto Rico has the states have too, a move costs less than a
    replacement.
    """
    assert losses.is_contained(PERSONS, "pr", "us")
    assert not losses.is_contained(PERSONS, "us", "pr")
    assert [found.places for found in losses.losses(PERSONS, TENTH)] == [
        ("us",),
        ("us", "us"),
        ("pr",),
        ("pr", "pr"),
    ]
    dearer = replace(
        PERSONS, budgets={"t2": {**PERSONS.budgets["t2"], GroupLevel("PR-TRACT", 2): Fraction(1)}}
    )
    *_, moved = losses.losses(dearer, TENTH)
    assert moved.places == ("us", "pr")
    assert moved.cost == dearer.cost("us") + dearer.cost("pr")
    mine, both = (losses.loss(PERSONS, places, TENTH) for places in (("us", "pr"), ("us", "us")))
    assert mine.cost == Fraction("7.587")
    assert mine.epsilon[1] < both.epsilon[0]


def test_losses_add_up_record_by_record() -> None:
    """Each composition of a replacement is one of the old record and one of the new."""
    each, both = losses.compositions(PERSONS, ("us",)), losses.compositions(PERSONS, ("us", "us"))
    assert set(both) == {a + b for a, b in product(each, each)}


def test_pure_differential_privacy_adds_up() -> None:
    found = losses.loss(worlds.persons(GEOMETRIC), ("us", "us"), TENTH)
    assert found.cost == Fraction("9.888")
    assert found.epsilon == (9.888, 9.888)


def test_a_plan_for_the_margins_of_the_paper_is_less_to_lose() -> None:
    margins = {p.at: 50 if p.at.level == 1 else 3 if p.at.fine else 11 for p in PERSONS.plans("us")}
    found = losses.loss(planning.planned(PERSONS, margins), ("us",), TENTH)
    assert (found.cost, round(found.epsilon[1], 4)) == (Fraction("3.675255"), 20.4086)
