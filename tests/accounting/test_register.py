"""The state of a register against brute force: who is in several populations, the cap in any order
of entries, exactly at equality; and lines that say nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.accounting import epsilon
from das.errors import DasError, RegisterError
from das.model.mechanisms import EPSILON, RHO
from das.register.book import Cap, Entry, Opening, Register
from das.register.publication_cost import PublicationCost
from tests.accounting.test_publication_cost import gaussian

NAMES = ("a", "b", "c", "d", "e")


def entry(id: str, rho: Fraction, population: str = "a", apart: Sequence[str] = ()) -> Entry:
    return Entry("run", id, id, "a publication", population, True, "2026-01-01", gaussian(rho),
                 f"key of {id}", {}, tuple(apart))  # fmt: skip


def opened(cap: Cap) -> Register:
    opening = Opening("x", cap, "a")
    return Register.opened("init", opening.to_json())


def subsets(names: Collection[str]) -> list[frozenset[str]]:
    every = chain.from_iterable(combinations(sorted(names), n) for n in range(len(names) + 1))
    return [frozenset(s) for s in every]


def joint(names: frozenset[str], disjoint: Collection[frozenset[str]]) -> bool:
    return not any(pair <= names for pair in disjoint)


RHO_OF = st.fractions(Fraction(1, 50), Fraction(2), max_denominator=50)


@given(
    st.lists(
        st.tuples(RHO_OF, st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=2)),
        max_size=8,
    ),
    st.fractions(Fraction(1, 2), Fraction(4), max_denominator=20),
)
def test_any_order_of_entries_never_passes_the_cap(
    wished: list[tuple[Fraction, str, set[str]]], most: Fraction
) -> None:
    register = opened(Cap(RHO, most))
    kept: list[tuple[Fraction, str]] = []
    apart: set[frozenset[str]] = set()
    for i, (rho, population, others) in enumerate(wished):
        new = {frozenset((population, o)) for o in others - {population}}
        e = entry(str(i), rho, population, sorted(others - {population}))
        after = register.after("spend", e.to_json())
        after_kept, after_apart = [*kept, (rho, population)], apart | new
        cost = max(
            sum((r for r, p in after_kept if p in s), Fraction(0))
            for s in subsets(NAMES)
            if joint(s, after_apart)
        )
        assert after.spent.cost == cost
        if cost <= most:
            after.check_cap()
            register, kept, apart = after, after_kept, after_apart
        else:
            with pytest.raises(RegisterError, match="the cap of this register"):
                after.check_cap()
    assert register.spent.cost <= most
    assert register.left == most - register.spent.cost


def test_the_cap_is_exact_at_equality() -> None:
    third = Fraction(1, 3)
    register = opened(Cap(RHO, Fraction(1)))
    for i in range(3):
        register = register.after("spend", entry(str(i), third).to_json())
        register.check_cap()
    assert (register.spent.cost, register.left) == (1, 0)
    more = register.after("spend", entry("more", Fraction(1, 10**30)).to_json())
    with pytest.raises(RegisterError):
        more.check_cap()


def test_an_epsilon_cap_composes_exactly() -> None:
    """Two of sigma^2 = 4 with two answers each: cheaper than by rho, dearer than one."""
    delta = Fraction(1, 10**9)
    low, high = epsilon([(Fraction(4), 4)], delta)
    entries = [entry(str(i), Fraction(1, 4)) for i in range(2)]
    for most, fits in ((Fraction(low) - Fraction(1, 10**6), False), (Fraction(high) * 2, True),
                       (Fraction(high) + Fraction(1, 10**9), True)):  # fmt: skip
        register = opened(Cap(EPSILON, most, delta))
        for e in entries:
            register = register.after("spend", e.to_json())
        assert low <= float(register.spent.cost) <= high + 1e-9
        assert register.spent.exact
        if fits:
            register.check_cap()
        else:
            with pytest.raises(RegisterError, match="the cap of this register"):
                register.check_cap()
    half = Fraction(1, 2)
    by_rho = Cap(EPSILON, Fraction(1), delta).spent(
        [PublicationCost("bounded", half, alone={"p": half})]
    )
    assert float(by_rho) > high, "of rho alone less is known"


def test_a_pure_entry_adds_its_epsilon() -> None:
    delta = Fraction(1, 10**9)
    pure = PublicationCost("bounded", Fraction(1, 8), pure={"p": Fraction(1, 2)})
    cap = Cap(EPSILON, Fraction(100), delta)
    one = gaussian(Fraction(1, 4))
    assert cap.spent([one, pure]) == cap.spent([one]) + Fraction(1, 2)
    assert Cap(RHO, Fraction(1)).spent([one, pure]) == Fraction(1, 4) + Fraction(1, 8)
    assert cap.spent([pure]) == Fraction(1, 2)


def test_who_gave_up_has_spent_nothing() -> None:
    register = opened(Cap(RHO, Fraction(1)))
    for name in ("p", "q"):
        register = register.after("spend", entry(name, Fraction(1, 2)).to_json())
    void = register.after("void", {"line": 2, "why": "nothing was drawn"})
    assert (register.spent.cost, void.spent.cost) == (1, Fraction(1, 2))
    assert list(void.entries_of("p")) == [2]
    for line in (1, 2, 7):  # the opening; a second time; nothing
        with pytest.raises(ValueError, match="gives up"):
            void.after("void", {"line": line, "why": "?"})


STAGE = "persons:State"


def named(register: Register, run: str, *names: str) -> Register:
    return register.after("begun", {"run": run, "draws": {STAGE: list(names)}})


def test_what_has_a_name_is_not_given_up_and_what_was_given_up_gets_none() -> None:
    register = opened(Cap(RHO, Fraction(9))).after("spend", entry("p", Fraction(1)).to_json())
    void = {"line": 2, "why": "?"}
    with pytest.raises(ValueError, match="may have been drawn"):
        named(register, "p", "k/1").after("void", void)
    gone = register.after("void", void)
    for line in (
        ("begun", {"run": "p", "draws": {STAGE: ["k/1"]}}),
        ("spend", entry("p", Fraction(1)).to_json()),
    ):
        with pytest.raises(ValueError, match=r"names no draw|given up"):
            gone.after(*line)
    by_hand = replace(entry("h", Fraction(1)), kind="release")
    with pytest.raises(ValueError, match="may have been drawn"):
        register.after("spend", by_hand.to_json()).after("void", {"line": 3, "why": "?"})


def test_no_stage_has_more_names_than_its_entries_pay_for() -> None:
    register = opened(Cap(RHO, Fraction(9))).after("spend", entry("p", Fraction(1)).to_json())
    once = named(register, "p", "k/1")
    again = replace(entry("p", Fraction(1)), times={STAGE: 2})
    for names in (("k/2",), ("k/1",)):
        with pytest.raises(ValueError, match="more often than it was entered"):
            named(once, "p", *names)
    paid = once.after("spend", again.to_json())
    assert named(paid, "p", "k/2").begun["p"] == {STAGE: ("k/1", "k/2")}
    with pytest.raises(ValueError, match="its name twice"):
        named(paid, "p", "k/1")
    for value in (
        {"run": "p", "draws": {}},
        {"run": "p", "draws": {STAGE: []}},
        {"run": "q", "draws": {STAGE: ["k/1"]}},
        {"run": "p", "draws": {STAGE: ["a\nb"]}},
        {"run": "p", "draws": {STAGE: ["k/1"]}, "more": 1},
    ):
        with pytest.raises((ValueError, KeyError, TypeError)):
            register.after("begun", value)


def test_a_run_may_enter_again_and_nothing_else_may() -> None:
    register = opened(Cap(RHO, Fraction(9)))
    again = replace(entry("x", Fraction(1)), times={"persons:State": 2})
    twice = register.after("spend", again.to_json()).after("spend", again.to_json())
    assert twice.spent.cost == 2
    by_hand = replace(again, kind="release")
    with pytest.raises(ValueError, match="twice"):
        twice.after("spend", by_hand.to_json())


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("spend", {"kind": "gift"}),
        ("spend", {"private": 1}),
        ("spend", {"population": ""}),
        ("spend", {"population": "a\nb"}),
        ("spend", {"disjoint_from": ["a"]}),
        ("spend", {"times": {"persons:State": "2"}}),
        ("spend", {"more": 1}),
        ("spend", {"spending": {}}),
        ("gift", {}),
    ],
)
def test_a_line_that_says_nothing(kind: str, change: dict[str, object]) -> None:
    value = entry("x", Fraction(1)).to_json() | change
    with pytest.raises((ValueError, KeyError, TypeError)):
        opened(Cap(RHO, Fraction(1))).after(kind, value)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "das-register/0"},
        {"cap": {"rho": "0"}},
        {"cap": {"rho": "1", "epsilon": "1"}},
        {"cap": {"epsilon": "1"}},
        {"cap": {"rho": "1", "delta": "1e-9"}},
        {"cap": {"epsilon": "1", "delta": "1"}},
        {"disjoint": [["a", "a"]]},
        {"relation": "near"},
        {"persons": 0},
        {"more": 1},
    ],
)
def test_an_opening_that_says_nothing(change: dict[str, object]) -> None:
    value = Opening("x", Cap(RHO, Fraction(1)), "a").to_json() | change
    with pytest.raises((ValueError, KeyError, TypeError, DasError)):
        Register.opened("init", value)
