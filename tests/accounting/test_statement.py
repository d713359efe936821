"""The privacy statement: exact sums of the ledger, honest about what is outside."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.accounting import bun_steinke, implied, tight
from das.accounting.statement import guarantees, statement
from das.model.budget import Event, Mechanism, Neighbours
from das.model.constraint import Constraint, Kind
from tests.strategies import fractions

DELTA = Fraction(1, 10**10)
GAUSSIAN, GEOMETRIC = Mechanism.DISCRETE_GAUSSIAN, Mechanism.GEOMETRIC


def event(cost: Fraction, mechanism: Mechanism = GAUSSIAN, universe: str = "persons") -> Event:
    return Event(universe, "State", "total", 3, 1, mechanism, 1 / cost, cost)


def state(events, delta: Fraction = DELTA, constraints=(), private: bool = True):  # type: ignore[no-untyped-def]
    out = statement(events, Neighbours.BOUNDED, delta, {"persons": constraints}, "source", private)
    assert json.loads(json.dumps(out)) == out  # plain data
    return out


@given(st.lists(fractions(), min_size=1, max_size=6), st.lists(fractions(), min_size=1, max_size=3))
def test_totals_are_exact_sums(persons: list[Fraction], units: list[Fraction]) -> None:
    out = state({"persons": [event(c) for c in persons], "units": [event(c, universe="units") for c in units]})
    sums = {"persons": sum(persons), "units": sum(units), "total": sum(persons) + sum(units)}
    assert {k: Fraction(v) for k, v in out["rho"].items()} == sums
    assert {k: Fraction(g["rho"]) for k, g in out["guarantee"].items()} == sums
    assert sum(Fraction(line["rho"]) for line in out["ledger"]) == sums["total"]
    assert len(out["ledger"]) == len(persons) + len(units)
    for line in out["ledger"]:
        assert Fraction(line["sigma_sq"]) * Fraction(line["rho"]) == 1


def test_one_universe_has_one_guarantee() -> None:
    out = state({"persons": [event(Fraction(1))]})
    assert list(out["guarantee"]) == ["persons"]
    assert out["rho"] == {"persons": "1", "total": "1"}


def test_epsilons_are_the_conversions_at_each_delta() -> None:
    rho = Fraction(293764, 114921)
    out = state({"persons": [event(rho / 2), event(rho / 2)]})["guarantee"]["persons"]
    assert out["implied_epsilon"] == implied(rho)
    found = {e["delta"]: e for e in out["epsilon"]}
    assert list(found) == ["1e-5", "1e-10", "1e-15"]
    for name, e in found.items():
        assert e["zcdp-tight"] == tight(rho, Fraction(name))
        assert e["zcdp-bun-steinke"] == bun_steinke(rho, Fraction(name))
    assert round(found["1e-10"]["zcdp-tight"], 2) == 17.14


@pytest.mark.parametrize("delta, names", [
    (Fraction(1, 10**10), ["1e-5", "1e-10", "1e-15"]),
    (Fraction(1, 1000), ["1/1000", "1e-5", "1e-10", "1e-15"]),
    (Fraction(1, 10**12), ["1e-5", "1e-10", "1/1000000000000", "1e-15"]),
])  # fmt: skip
def test_the_delta_asked_for_is_there_once(delta: Fraction, names: list[str]) -> None:
    epsilon = guarantees(GAUSSIAN, {"persons": Fraction(1)}, delta)["persons"]["epsilon"]
    assert [e["delta"] for e in epsilon] == names


def test_pure_budgets_are_stated_as_they_are() -> None:
    out = state({"persons": [event(Fraction(1, 10), GEOMETRIC), event(Fraction(3, 20), GEOMETRIC)]})
    assert out["mechanism"] == "geometric"
    assert out["epsilon"] == {"persons": "1/4", "total": "1/4"}
    assert out["guarantee"] == {"persons": {"epsilon": "1/4", "delta": "0"}}
    assert [line["scale"] for line in out["ledger"]] == ["10", "20/3"]
    assert "rho" not in out


def test_only_invariants_are_listed_as_outside_the_guarantee() -> None:
    bound = np.ones((1, 1), dtype=np.int64)
    constraints = (
        Constraint("total", "State", "total", "=", Kind.INVARIANT, bound),
        Constraint("zeros", "Block", "hhgq", "<=", Kind.STRUCTURAL, bound),
        Constraint("hhgq_total_lb", "Block", "hhgq", ">=", Kind.INVARIANT, bound),
    )
    out = state({"persons": [event(Fraction(1))]}, constraints=constraints)
    assert out["outside_the_guarantee"] == [
        {"universe": "persons", "constraint": "total", "level": "State", "query": "total", "sign": "=", "says": ""},
        {
            "universe": "persons",
            "constraint": "hhgq_total_lb",
            "level": "Block",
            "query": "hhgq",
            "sign": ">=",
            "says": "",
        },
    ]


def test_what_interrupted_attempts_drew_is_spent_too() -> None:
    kept = {"persons": [event(Fraction(1, 2))]}
    lost = {"persons": [event(Fraction(1, 3))], "units": [event(Fraction(1, 7), universe="units")]}
    out = statement(kept, Neighbours.BOUNDED, DELTA, {}, "source", True, lost)
    assert out["rho"] == {"persons": "5/6", "units": "1/7", "total": "41/42"}
    assert out["guarantee"]["total"]["rho"] == "41/42"
    assert [line["rho"] for line in out["ledger"]] == ["1/2"]
    assert [line["rho"] for line in out["spent_by_interrupted_attempts"]] == ["1/3", "1/7"]
    assert state(kept)["spent_by_interrupted_attempts"] == []


@pytest.mark.parametrize("private", [True, False])
def test_it_says_where_the_bits_came_from_and_who_the_neighbours_are(private: bool) -> None:
    out = state({"persons": [event(Fraction(1))]}, private=private)
    assert out["private"] is private
    assert out["entropy"] == "source"
    assert out["neighbours"] == "bounded"
    assert out["ledger"][0]["units"] == 3
