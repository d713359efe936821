"""The privacy statement: exact sums of the ledger, honest about what is outside."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.accounting import bun_steinke, codec, implied, tight
from das.accounting import epsilon as exact_epsilon
from das.accounting.calibration import Target
from das.accounting.document import FORMS, Zcdp, decimal
from das.accounting.draws import record
from das.accounting.guarantee import guarantees
from das.accounting.statement import CURVE, LedgerEvents, Terms, invariants, statement
from das.model.budget import Neighbours
from das.model.constraint import Constraint
from das.model.ledger import Event
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.model.redistricting import H1, PL94

DELTA = Fraction(1, 10**10)
GAUSSIAN = DISCRETE_GAUSSIAN


def event(cost: Fraction, mechanism: Mechanism = GAUSSIAN, universe: str = "persons") -> Event:
    """Bounded neighbors: rho = 1/sigma^2, or epsilon = 2/b."""
    parameter = (1 if mechanism is GAUSSIAN else 2) / cost
    return Event("State", "total", mechanism, parameter, cost, universe, 3, 1)


def state(  # type: ignore[no-untyped-def]
    events,
    delta: Fraction = DELTA,
    constraints=(),
    private: bool = True,
    lost=None,
    neighbours=Neighbours.BOUNDED,
    target=None,
    exact=(),
):
    mechanism = next(e.mechanism for es in events.values() for e in es)
    terms = Terms(
        mechanism,
        neighbours,
        delta,
        ("US", "State", "Block"),
        {"persons": PL94, "housing": H1},
        {"persons": exact, "housing": ()},
        target,
    )
    outside = invariants({"persons": constraints})
    out = statement(terms, LedgerEvents(events, lost or {}), outside, "source", private, ["a note"])
    out = out.sealed({"spec.toml": "abc"}, {"das": "0"})
    text = codec.text(out)
    again = codec.document_from_json(json.loads(text))
    assert again == out
    assert codec.text(again) == text
    return codec.plain(out)


costs = st.integers(1, 4).map(lambda k: Fraction(k, 8))


@settings(max_examples=10, deadline=None)
@given(st.lists(costs, min_size=1, max_size=6), st.lists(costs, min_size=1, max_size=3))
def test_totals_are_exact_sums(persons: list[Fraction], units: list[Fraction]) -> None:
    out = state(
        {
            "persons": [event(c) for c in persons],
            "housing": [event(c, universe="housing") for c in units],
        }
    )
    sums = {"persons": sum(persons), "housing": sum(units), "total": sum(persons) + sum(units)}
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
    assert list(found) == ["1e-5", "1e-10", "1e-15", "1e-20", "1e-30"]
    for name, e in found.items():
        assert e["zcdp-tight"] == tight(rho, Fraction(name))
        assert e["zcdp-bun-steinke"] == bun_steinke(rho, Fraction(name))
        assert e["pld"] == list(exact_epsilon([(2 / rho, 4)], Fraction(name)))
        assert e["pld"][1] < e["zcdp-tight"]
    assert round(found["1e-10"]["zcdp-tight"], 2) == 17.14


@pytest.mark.parametrize(
    "delta, names",
    [
        (Fraction(1, 10**10), ["1e-5", "1e-10", "1e-15", "1e-20", "1e-30"]),
        (Fraction(1, 3), ["1/3", "1e-5", "1e-10", "1e-15", "1e-20", "1e-30"]),
        (Fraction(1, 10**12), ["1e-5", "1e-10", "1e-12", "1e-15", "1e-20", "1e-30"]),
    ],
)
def test_the_delta_asked_for_is_there_once(delta: Fraction, names: list[str]) -> None:
    draws = {"persons": [event(Fraction(1))]}
    stated = guarantees(
        GAUSSIAN.currency, {u: record(ds, Neighbours.BOUNDED) for u, ds in draws.items()}, delta
    )["persons"]
    assert isinstance(stated, Zcdp)
    assert [decimal(e.delta) for e in stated.epsilon] == names


def test_each_mechanism_has_its_documents() -> None:
    assert list(FORMS) == list(MECHANISMS.values())


def test_pure_budgets_are_stated_as_they_are() -> None:
    out = state({"persons": [event(Fraction(1, 10), GEOMETRIC), event(Fraction(3, 20), GEOMETRIC)]})
    assert out["mechanism"] == "geometric"
    assert out["epsilon"] == {"persons": "1/4", "total": "1/4"}
    assert out["guarantee"] == {"persons": {"epsilon": "1/4", "delta": "0"}}
    assert [line["scale"] for line in out["ledger"]] == ["20", "40/3"]
    assert "rho" not in out


def test_every_constraint_is_listed_as_outside_the_guarantee() -> None:
    bound = np.ones((1, 1), dtype=np.int64)
    constraints = (
        Constraint("total", "State", "total", "=", bound),
        Constraint("hhgq_total_lb", "Block", "hhgq", ">=", bound),
    )
    out = state({"persons": [event(Fraction(1))]}, constraints=constraints)
    assert out["outside_the_guarantee"] == [
        {
            "universe": "persons",
            "constraint": "total",
            "level": "State",
            "query": "total",
            "sign": "=",
            "says": "",
        },
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
    lost = {
        "persons": [event(Fraction(1, 3))],
        "housing": [event(Fraction(1, 7), universe="housing")],
    }
    out = state(kept, lost=lost)
    assert out["rho"] == {"persons": "5/6", "housing": "1/7", "total": "41/42"}
    assert out["guarantee"]["total"]["rho"] == "41/42"
    assert [line["rho"] for line in out["ledger"]] == ["1/2"]
    assert [line["rho"] for line in out["spent_by_interrupted_attempts"]] == ["1/3", "1/7"]
    assert out["spending"]["persons"] == {"levels": {"State": "5/6"}, "queries": {"total": "5/6"}}
    assert state(kept)["spent_by_interrupted_attempts"] == []


@pytest.mark.parametrize("private", [True, False])
def test_it_says_where_the_bits_came_from_and_who_the_neighbours_are(private: bool) -> None:
    out = state({"persons": [event(Fraction(1))]}, private=private)
    assert out["private"] is private
    assert out["entropy"] == "source"
    assert out["neighbours"] == "bounded"
    assert out["ledger"][0]["units"] == 3
    assert out["digests"] == {"spec.toml": "abc"}
    assert "a note" in out["what_this_means"]
    assert "target" not in out


def test_the_curve_falls_and_stays_below_the_conversions() -> None:
    rows = state(
        {"persons": [event(Fraction(1))], "housing": [event(Fraction(1, 2), universe="housing")]}
    )["curve"]
    assert [Fraction(r["delta"]) for r in rows] == list(CURVE)
    assert all(
        0 <= r["pld"][0] <= r["pld"][1] < r["zcdp-tight"] < r["zcdp-bun-steinke"] for r in rows
    )
    assert all(a["pld"][1] < b["pld"][0] for a, b in pairwise(rows))  # delta falls along the rows
    assert rows[2]["pld"] == list(exact_epsilon([(Fraction(1), 2), (Fraction(2), 2)], DELTA))


def test_unbounded_neighbours_are_said_to_be_half_of_a_change() -> None:
    e = Event("State", "hispanic", GAUSSIAN, Fraction(1, 2), Fraction(1), "persons", 3, 2)
    out = state({"persons": [e]}, neighbours=Neighbours.UNBOUNDED)
    assert out["rho"]["persons"] == "1"
    assert {c["what"]: c["rho"] for c in out["changes"]["persons"]} == {
        "anything": "2",
        "hhgq": "0",
        "votingage": "0",
        "hispanic": "2",
        "cenrace": "0",
        "every attribute": "2",
        "place within one US": "2",
        "place within one State": "0",
    }
    assert any("one record removed and one added" in x for x in out["what_this_means"])
    nothing = next(c for c in out["changes"]["persons"] if c["what"] == "cenrace")
    assert (nothing["pld"], nothing["zcdp-tight"]) == ([0.0, 0.0], 0.0)


def test_a_move_across_an_invariant_total_is_said_not_to_be_covered() -> None:
    bound = np.ones((1, 1), dtype=np.int64)
    total = Constraint("total", "State", "total", "=", bound)
    with_total = state({"persons": [event(Fraction(1))]}, constraints=(total,))["what_this_means"]
    without = state({"persons": [event(Fraction(1))]})["what_this_means"]
    assert sum("from one State to another" in x for x in with_total) == 1
    assert not any("from one State to another" in x for x in without)


def test_a_change_of_dwelling_is_said_not_to_fit_exact_bounds() -> None:
    bound = np.zeros((1, 2), dtype=np.int64)
    rows = [
        Constraint(f"hhgq_total_{x}", "Block", "hhgq", sign, bound)
        for x, sign in (("lb", ">="), ("ub", "<="))
    ]
    said = [
        x
        for x in state({"persons": [event(Fraction(1))]}, constraints=rows)["what_this_means"]
        if "bounds" in x
    ]
    assert len(said) == 1
    assert "persons that changes its hhgq, or moves from one Block to another" in said[0]


def test_a_target_is_stated() -> None:
    out = state({"persons": [event(Fraction(1, 4))]}, target=Target(Fraction(5), DELTA, "exact"))
    assert out["target"] == {
        "universe": "persons",
        "epsilon": "5",
        "delta": "1e-10",
        "calibration": "exact",
    }
