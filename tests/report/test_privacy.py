"""The privacy page: what it must say, in every kind of release, and that it stands alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from das.accounting.calibration import Target
from das.accounting.document import (
    FORMAT,
    ForeignStatement,
    GaussianStatement,
    GeometricStatement,
    Invariant,
    Promises,
    decimal,
)
from das.accounting.guarantee import DEFAULT_DELTA, quoted
from das.accounting.statement import LedgerEvents, Terms, statement
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism
from das.model.redistricting import H1, PL94
from das.report.privacy import Certainty, approx, bound, privacy_page
from tests.report.parsed import Page, assert_sound

GAUSSIAN = DISCRETE_GAUSSIAN


def said(
    mechanism: Mechanism = GAUSSIAN,
    neighbours: Neighbours = Neighbours.BOUNDED,
    private: bool = True,
    target: Target | None = None,
    lost: bool = False,
    cost: Fraction = Fraction(1, 3),
) -> GaussianStatement | GeometricStatement:
    parameter = neighbours.sensitivity / ((2 if mechanism is GAUSSIAN else 1) * cost)
    draws = [
        ("persons", "US", "hispanic * cenrace"),
        ("persons", "Block_Group", "total"),
        ("housing", "US", "detailed"),
    ]
    events = [Event(level, q, mechanism, parameter, cost, u, 7, 4) for u, level, q in draws]
    by = {u: [e for e in events if e.universe == u] for u in ("persons", "housing")}
    terms = Terms(
        mechanism,
        neighbours,
        Fraction(1, 10**10),
        ("US", "State", "Block_Group"),
        {"persons": PL94, "housing": H1},
        {"persons": [("State", "total")], "housing": []},
        target,
    )
    outside = [
        Invariant(
            universe="persons",
            constraint="total",
            level="State",
            query="total",
            sign="=",
            says="the number of persons of every State, exactly",
        )
    ]
    drawn = LedgerEvents(by, {"persons": events[:1]} if lost else {})
    out = statement(terms, drawn, outside, "the <source>", private, ["a <b>note</b>"])
    return out.sealed({"spec.toml": "f00d" * 16}, {})


def test_it_says_what_the_statement_says() -> None:
    data = said(target=Target(Fraction(9), Fraction(1, 10**12), "exact"))
    text = Page(privacy_page(data, "my run")).text
    for part in (
        "Privacy statement: my run",
        "ρ = 1",
        "replaced",
        "discrete Gaussian",
        "hispanic * cenrace",
        "Block group",
        "the number of persons of every State, exactly",
        "place within one State",
        "every attribute",
        "need not agree",
        "that agree on everything",
        "anything within one State",
        "das account verify",
        "f00d" * 16,
        "Target",
        "1e-12",
        "1e-30",
    ):
        assert part in text, part
    promised = [g for says, by in data.each if says in text for g in by.values()]
    assert len(promised) == 6
    for e in (e for each in promised for e in each.epsilon):
        for value in (e.pld, e.tight, e.simple):
            assert bound(value) in text
    for c in data.changes["persons"]:
        assert bound(c.pld) in text
    assert "NOT PRIVATE" not in text


def test_it_stands_alone_and_escapes_what_it_is_given() -> None:
    html = privacy_page(said(), "<script>alert(1)</script>")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "<b>note" not in html
    assert "the &lt;source&gt;" in html
    assert html.count("<svg") == 1
    assert_sound(html)
    rest = html.replace("http://www.w3.org", "")
    for outside in ("http", "src=", "url(//", "@import", "<link"):
        assert outside not in rest, outside
    assert privacy_page(said(), "x") == privacy_page(said(), "x")


def test_a_seeded_run_is_not_private() -> None:
    html = privacy_page(said(private=False), "x")
    assert "NOT PRIVATE" in html
    assert_sound(html)


def test_one_epsilon_is_quoted_before_the_table_of_all() -> None:
    """At the delta of the target, or of the 2020 Census, or at one that is stated."""
    usual = "the delta is that of the 2020 Census"
    aims = {d: said(target=Target(Fraction(9), Fraction(1, 10**d), "exact")) for d in (15, 12)}
    for data, delta, why in (
        (said(), "1e-10", usual),
        (aims[15], "1e-15", "the delta is that of the configured target"),
        (aims[12], "1e-10", usual),  # what is stated at no other
    ):
        assert isinstance(data, GaussianStatement)
        rows = {decimal(e.delta): e for e in data.guarantee["total"].epsilon}
        text = Page(privacy_page(data, "x")).text
        told = f"ε = {bound(rows[delta].pld)} at δ = {delta} for one record of each kind"
        assert text.count(told) == 1
        assert text.index(told) < text.index("Quote this one. Why: ") < text.index("ε and δ")
        assert why in text
    few = {"total": said().guarantee["total"]}
    others = tuple(e for e in few["total"].epsilon if e.delta != DEFAULT_DELTA)
    one = Promises.make(
        neighbours_of={"guarantee": "Between any."},
        guarantee={"persons": few["total"].make(**{**dict(few["total"]), "epsilon": others})},
    )
    got = quoted(one, "unbounded")
    assert got.epsilon == others[0].pld[1]
    assert got.change == "one record added or removed (unbounded neighbors)"
    assert got.why.endswith("the delta is the largest that is stated")


def test_what_was_lost_is_told() -> None:
    assert "interrupted" in privacy_page(said(lost=True), "x")
    assert "interrupted" not in privacy_page(said(), "x")


def test_unbounded_neighbours() -> None:
    text = Page(privacy_page(said(neighbours=Neighbours.UNBOUNDED), "x")).text
    assert "whether a person was counted or not" in text
    assert "one record removed and one added" in text


def test_a_pure_budget() -> None:
    html = privacy_page(said(GEOMETRIC), "x")
    text = Page(html).text
    assert "ε = 1 for one record of each kind replaced by any other (bounded neighbors)." in text
    assert "Quote this one." in text
    assert "Between data sets that agree on what is published exactly, ε = 1." in text
    assert "two-sided geometric" in text
    for never in ("ρ", "δ", "<svg"):
        assert never not in html, never


def test_measurements_of_another_publisher() -> None:
    total = Invariant(
        universe="persons",
        constraint="total",
        level="US",
        query="total",
        sign="=",
        says="the total",
    )
    privacy = ForeignStatement.make(
        format=FORMAT,
        private="unknown",
        entropy="as published",
        mechanism="discrete-gaussian",
        guarantee="that of the publisher of the noisy measurements",
        outside=[total],
        measured=[],
        ledger=(),
        says=["nothing is measured at Tract"],
        digests={},
        software={},
    )
    text = Page(privacy_page(privacy, "x")).text
    for part in (
        "another publisher",
        "that of the publisher",
        "the total",
        "nothing is measured at Tract",
    ):
        assert part in text


@pytest.mark.parametrize(
    "value, shown", [(1.23450001, "1.2346"), (2.0, "2.0000"), ([1.0, 1.00001], "1.0001")]
)
def test_a_loss_is_never_rounded_down(value: Any, shown: str) -> None:
    assert bound(value) == shown


def test_a_long_fraction_is_also_told_roughly() -> None:
    assert (
        approx(Fraction(46066969010197, 17508174012729))
        == "46066969010197/17508174012729 (about 2.63117)"
    )


def test_the_total_and_the_exact_figures_are_told_for_what_they_are() -> None:
    """The total is of one record of each universe, not of all; what is exact is excepted from the
    promise.
    """
    data = said()
    text = " ".join(Page(privacy_page(data, "x")).text.split())
    assert "one record of each together" in text
    assert "for one record of each kind replaced by any other (bounded neighbors)." in text
    assert "it counts one record of each kind together" in text
    assert "All records together" not in text
    assert "both of which leave the exact counts as they are" in text
    assert "Figures published exactly can reveal a change" in text
    data = data.make(**{**dict(data), "outside": ()})
    assert "exact counts stay" not in Page(privacy_page(data, "x")).text


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 4.6, 5.0, 9.62, 16.7472, 31.0, 400.0])
@pytest.mark.parametrize("delta", ["0", "1e-10", "0.001"])
def test_an_intruder_is_right_no_more_often_than_the_page_says(epsilon: float, delta: str) -> None:
    """The best test of two neighbors of the mechanism that meets (epsilon, delta) exactly: it tells
    with chance delta, and answers at random otherwise (Kairouz et al.)."""
    exact = (1 - Fraction(delta)) / (1 + Fraction(math.exp(epsilon)))
    said = Certainty.from_loss(epsilon, delta)
    wrong = 1 - Fraction(said.text) / 100
    assert wrong <= exact * (1 + Fraction(1, 10**9))
    assert wrong >= exact * Fraction(9, 10) - Fraction(1, 10**11)
    assert said.weak == (exact < Fraction(1, 100))


@pytest.mark.parametrize("cost", ["1/1000", "2"])
def test_the_page_promises_no_more_than_its_epsilon(cost: str) -> None:
    text = Page(privacy_page(said(cost=Fraction(cost)), "x")).text
    assert "nearly the same" not in text
    assert ("by itself promises little" in text) == (cost == "2")
