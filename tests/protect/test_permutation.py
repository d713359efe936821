"""Permutation swapping: its law, its epsilon by enumeration, its invariants."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest

from das.errors import SpecError
from das.tools.protection.truth.method import Guarantee
from das.tools.protection.truth.methods.swapping import (
    PermutationSwapping,
    conditional_epsilon,
    derangement,
    moves,
)
from tests.protect.people import SCHEMA, records, tables

#: b, p, epsilon.
EXACT = (
    (3, 0.5, 0.6931),
    (4, 0.05, 8.0861),
    (5, 0.05, 8.9799),
    (6, 0.05, 9.2714),
    (6, 0.5, 3.3825),
    (6, 0.75, 2.1972),
    (100, 0.05, 15.089),
    (1000, 0.05, 19.703),
    (1000, 0.5, 13.815),
)


@pytest.mark.parametrize(("b", "p", "epsilon"), EXACT)
def test_values(b: int, p: float, epsilon: float) -> None:
    assert conditional_epsilon(b, p) == pytest.approx(epsilon, abs=6e-5 if b < 9 else 6e-4)


def law(b: int, p: float) -> dict[tuple[int, ...], float]:
    """The probability of each outcome of a stratum, summed over who is chosen and how they are
    permuted: the algorithm as it is written, without its closed form."""
    out: Counter[tuple[int, ...]] = Counter()
    for k in range(b + 1):
        if k == 1:
            continue
        ways = [q for q in permutations(range(k)) if all(q[i] != i for i in range(k))]
        for chosen in combinations(range(b), k):
            for q in ways:
                outcome = list(range(b))
                for i, j in enumerate(q):
                    outcome[chosen[i]] = chosen[j]
                out[tuple(outcome)] += p**k * (1 - p) ** (b - k) / len(ways)
    every = sum(out.values())
    return {outcome: mass / every for outcome, mass in out.items()}


@pytest.mark.parametrize("b", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.75])
def test_epsilon_by_enumeration(b: int, p: float) -> None:
    """Two data sets: one has households 0 to b - 1 in places 0 to b - 1, the other has the first two
    exchanged. An outcome says which household is in which place."""
    chance = law(b, p)
    worst = 0.0
    for outcome, mass in chance.items():
        exchanged = (outcome[1], outcome[0], *outcome[2:])
        worst = max(worst, abs(np.log(mass / chance[exchanged])))
    assert conditional_epsilon(b, p) == pytest.approx(worst, abs=1e-9)


@pytest.mark.parametrize("p", [0.05, 0.5])
def test_the_closed_form_and_the_bound(p: float) -> None:
    """-2 ln o + ln(D_b / D_(b - 2)) for p <= 1/2; below 2 (ln(b + 1) - ln o)."""
    derangements = [1, 0]
    for n in range(2, 31):
        derangements.append((n - 1) * (derangements[-1] + derangements[-2]))
    odds = np.log(p / (1 - p))
    for b in range(4, 31):
        epsilon = -2 * odds + np.log(derangements[b] / derangements[b - 2])
        assert conditional_epsilon(b, p) == pytest.approx(epsilon)
        assert epsilon < 2 * (np.log(b + 1) - odds)


def test_the_sampler_has_that_law() -> None:
    rng, b, p, n = np.random.default_rng(5), 4, 0.4, 20_000
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(n):
        chosen, outcome = moves(b, p, rng), np.arange(b)
        outcome[chosen] = chosen[derangement(len(chosen), rng)]
        seen[tuple(outcome.tolist())] += 1
    expected = law(b, p)
    assert set(seen) == set(expected)
    chi = sum((seen[x] - n * q) ** 2 / (n * q) for x, q in expected.items())
    assert chi < len(expected) + 5 * np.sqrt(2 * len(expected))
    wrong = law(b, 0.45)
    assert sum((seen[x] - n * q) ** 2 / (n * q) for x, q in wrong.items()) > 10 * len(wrong)


def test_invariants_and_epsilon_of_records() -> None:
    people = records()
    method = PermutationSwapping(0.3, ("votingage",), "Tract")
    swapped = method.swapped(people, b"k")
    assert (swapped.place != people.place).any()
    before, after = (x.histogram().upward(x.spine) for x in (people, swapped))
    query = SCHEMA.query("votingage")
    assert (before["Block"].answer(query) == after["Block"].answer(query)).all()
    assert before["Tract"].same_as(after["Tract"])
    assert (method.swapped(people, b"k").place == swapped.place).all()
    shown = method.published(people, tables(), b"k").levels["Block"].value
    assert (shown == tables().lines("Block").counts(after["Block"])).all()
    wide = PermutationSwapping(0.3)  # all households of a size, some hundred
    assert wide.epsilon(people) > method.epsilon(people) > 0
    largest = int(np.bincount(np.bincount(people.household[people.household >= 0])).max())
    assert wide.epsilon(people) == conditional_epsilon(largest, 0.3)
    assert method.guarantee is Guarantee.CONDITIONAL


@pytest.mark.parametrize(
    ("change", "message"), [({"p": 0.0}, "p is 0.0"), ({"unit": "dog"}, "dog")]
)
def test_refusals(change: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        PermutationSwapping(**change)
