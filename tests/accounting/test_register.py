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
from das.accounting.publication_cost import PublicationCost
from das.accounting.register import Cap, Entry, Opening, Register, largest
from das.errors import DasError, RegisterError
from das.model.budget import Neighbours
from das.model.mechanism import EPSILON, RHO
from tests.accounting.test_publication_cost import gaussian

NAMES = ("a", "b", "c", "d", "e")


def entry(id: str, rho: Fraction, population: str = "a", apart: Sequence[str] = ()) -> Entry:
    return Entry("run", id, id, "a publication", population, True, "2026-01-01", gaussian(rho),
                 f"key of {id}", {}, tuple(apart))  # fmt: skip


def opened(cap: Cap, neighbours: Neighbours = Neighbours.BOUNDED) -> Register:
    opening = Opening("x", cap, neighbours, "a")
    return Register.opened("init", opening.to_json())


def subsets(names: Collection[str]) -> list[frozenset[str]]:
    every = chain.from_iterable(combinations(sorted(names), n) for n in range(len(names) + 1))
    return [frozenset(s) for s in every]


def joint(names: frozenset[str], disjoint: Collection[frozenset[str]]) -> bool:
    return not any(pair <= names for pair in disjoint)


PAIRS = st.sets(st.sampled_from([frozenset(p) for p in combinations(NAMES, 2)]), max_size=8)


@given(PAIRS)
def test_the_largest_sets_of_populations(disjoint: set[frozenset[str]]) -> None:
    allowed = [s for s in subsets(NAMES) if joint(s, disjoint)]
    expected = {s for s in allowed if not any(s < other for other in allowed)}
    found = largest(NAMES, disjoint)
    assert set(found) == expected
    assert len(found) == len(expected)


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
        assert after.spent == cost
        if cost <= most:
            after.check_cap()
            register, kept, apart = after, after_kept, after_apart
        else:
            with pytest.raises(RegisterError, match="the cap of this register"):
                after.check_cap()
    assert register.spent <= most
    assert register.left == most - register.spent


def test_the_cap_is_exact_at_equality() -> None:
    third = Fraction(1, 3)
    register = opened(Cap(RHO, Fraction(1)))
    for i in range(3):
        register = register.after("spend", entry(str(i), third).to_json())
        register.check_cap()
    assert (register.spent, register.left) == (1, 0)
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
        assert low <= float(register.spent) <= high + 1e-9
        assert register.opening.cap.holds(register.spendings(["a"])) is fits
    by_rho = Cap(EPSILON, Fraction(1), delta).spent(
        [PublicationCost(RHO, Neighbours.BOUNDED, alone={"p": Fraction(1, 2)})]
    )
    assert float(by_rho) > high, "of rho alone less is known"


def test_a_pure_entry_adds_its_epsilon() -> None:
    delta = Fraction(1, 10**9)
    pure = PublicationCost(EPSILON, Neighbours.BOUNDED, alone={"p": Fraction(1, 2)})
    cap = Cap(EPSILON, Fraction(100), delta)
    one = gaussian(Fraction(1, 4))
    assert cap.spent([one, pure]) == cap.spent([one]) + Fraction(1, 2)
    assert Cap(RHO, Fraction(1)).spent([one, pure]) == Fraction(1, 4) + Fraction(1, 8)
    assert cap.spent([pure]) == Fraction(1, 2)


def test_who_gave_up_has_spent_nothing() -> None:
    register = opened(Cap(RHO, Fraction(1)))
    for name in ("p", "q"):
        register = register.after("spend", entry(name, Fraction(1, 2)).to_json())
    void = register.after("void", {"line": 1, "why": "its key was deleted"})
    assert (register.spent, void.spent) == (1, Fraction(1, 2))
    assert list(void.of("p")) == [1]
    for line in (0, 1, 7):  # the opening; a second time; nothing
        with pytest.raises(ValueError, match="gives up"):
            void.after("void", {"line": line, "why": "?"})


def test_a_bounded_entry_is_refused_in_an_unbounded_register() -> None:
    register = opened(Cap(RHO, Fraction(9)), Neighbours.UNBOUNDED)
    with pytest.raises(RegisterError, match="nothing follows"):
        register.after("spend", entry("x", Fraction(1)).to_json())


def test_a_run_may_enter_again_and_nothing_else_may() -> None:
    register = opened(Cap(RHO, Fraction(9)))
    again = replace(entry("x", Fraction(1)), times={"persons:State": 2})
    twice = register.after("spend", again.to_json()).after("spend", again.to_json())
    assert twice.spent == 2
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
        {"neighbours": "near"},
        {"more": 1},
    ],
)
def test_an_opening_that_says_nothing(change: dict[str, object]) -> None:
    value = Opening("x", Cap(RHO, Fraction(1)), Neighbours.BOUNDED, "a").to_json() | change
    with pytest.raises((ValueError, KeyError, TypeError, DasError)):
        Register.opened("init", value)
