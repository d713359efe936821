"""What one person costs in a release of the DHC, as its statement says it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from das.accounting.sources import joint_account, relations
from das.accounting.statement import Terms, account
from das.accounting.zcdp import tight
from das.model.budget import Neighbours
from das.model.plan import Plan
from das.publications.dhc.spec import are_costs, replaced, sentences, total
from das.release.privacy_sources import SourceReader
from das.spec import load, parse

ROOT = Path(__file__).resolve().parents[2]
DHC = load((ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8"), where="c")
COSTS = {u.name: u.plan.cost for u in DHC.universes}
DELTA = Fraction(1, 10**10)


def test_discrete_gaussian_noise_pays_for_the_squared_length() -> None:
    """The Renyi divergence of an answer that changes by two is that of four answers that change by
    one, at most.
    """
    x, sigma_sq = np.arange(-200, 203), 3.0
    whole = np.log(np.exp(-(x**2) / (2 * sigma_sq)).sum())
    p, q = -(x**2) / (2 * sigma_sq) - whole, -((x - 2) ** 2) / (2 * sigma_sq) - whole
    for alpha in (1.5, 2, 4, 10):
        found = np.log(np.sum(np.exp(alpha * p + (1 - alpha) * q))) / (alpha - 1)
        assert found <= alpha * 4 / (2 * sigma_sq) * (1 + 1e-9)
        assert found > alpha * 3.99 / (
            2 * sigma_sq
        )  # two draws that change by one would be half of it


def test_one_person_is_no_single_record() -> None:
    """By production's budgets, written out. Records of one kind do not just add up: that holds
    where no two change one answer.
    """
    persons, households, units = Fraction("3.7194"), Fraction("5.0694"), Fraction("0.6887")
    assert {"persons": persons, "units": units, "households": households} == COSTS
    added, _, moved, *_ = relations()
    for most in (False, True):
        assert total(added, COSTS, most=most) == persons / 2 + households + units
    apart = total(moved, COSTS, most=False)
    assert apart == persons + 2 * households + 2 * units == Fraction("15.2356")
    most = total(moved, COSTS, most=True)
    assert most == persons + 4 * households + 4 * units == Fraction("26.7518")


def test_the_sentences_are_what_the_joint_account_says() -> None:
    """One thing said in two places, from one definition: with both sums and both releases."""
    earlier = {"persons": Fraction(2), "housing": Fraction("0.1")}
    alone, both = sentences(COSTS, {}, DELTA), sentences(COSTS, earlier, DELTA)
    assert len(alone) == len(both) == len(relations())
    given = SourceReader(relations()).specification(DHC, "dhc")
    for sentence, relation in zip(
        alone, joint_account(given.sources, relations(), DELTA).relations, strict=True
    ):
        assert are_costs(sentence)
        assert sentence.startswith(relation.title)
        costs = [str(float(case.rho)) for case in relation.cases if not case.same_invariants]
        assert [x.split(" ")[0] for x in sentence.split("rho = ")[1:]] == costs
    for says, costs in (
        (alone[2], ["15.2356", "26.7518"]),
        (both[2], ["15.2356", "26.7518", "17.4356", "29.1518"]),
    ):
        assert [x.split(" ")[0] for x in says.split("rho = ")[1:]] == costs
        epsilons = [float(x.split(")")[0]) for x in says.split("(epsilon ")[1:]]
        for epsilon, rho in zip(epsilons, costs, strict=True):
            assert 0 <= epsilon - tight(Fraction(rho), DELTA) <= 0.01 + 1e-6
    assert "redistricting" not in alone[2]


def test_a_release_of_other_terms_is_counted_as_a_replaced_record() -> None:
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    bounded = parse(text, where="c")
    plans = {u.name: u.plan for u in bounded.universes}
    assert replaced(account(bounded.terms, {u: p.measurements for u, p in plans.items()})) == {
        u: p.cost for u, p in plans.items()
    }
    pure = Plan.of_epsilon("1/2", {"US": 1}, ["total"], neighbours=Neighbours.UNBOUNDED.value)
    schemas = {"persons": bounded.persons.schema}
    terms = Terms(pure.mechanism, Neighbours.UNBOUNDED, DELTA, ("US",), schemas, {"persons": ()})
    assert replaced(account(terms, {"persons": pure.measurements})) == {
        "persons": Fraction(1, 2)
    }  # epsilon 1: rho 1/2
