r"""The loss of a record of the Detailed DHC, by enumeration of everything that can be published.

**One group is enough.** Noise is drawn for each group by itself, and a group's own noisy count
decides which table it gets. So what is published of all groups is a product of distributions, one
for each. A record is in s groups at most. The distributions of the others are the same with it and
without it, and their factors cancel. The loss is a sum of independent losses, one for each of the s
groups.

Here the distribution of one group is computed for true counts that differ by a record, over every
answer of both stages. The code that measures computes it; only its noise is replaced, by each
possible value. The rest is a convolution.

The table is small: three leaves, in two cells or in three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import ceil, exp, inf, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from das.accounting import epsilon
from das.accounting.statement import account
from das.model.budget import PlannedMeasurement
from das.model.mechanisms import GEOMETRIC
from das.noise.entropy import seeded
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.model.tables import (
    FIRST,
    ONLY,
    AdaptiveTable,
    LevelPlan,
    Parameters,
    Product,
)
from das.publications.detailed.spec import DetailedSpec
from das.publications.detailed.truth import run
from tests.detailed import worlds
from tests.detailed.runs import configured

TABLE = AdaptiveTable(
    "t2",
    ("CELL",),
    tuple(np.array(of, dtype=np.int16) for of in ((0, 0, 0), (0, 0, 1), (0, 1, 2))),
    ((("*",),), (("ab",), ("c",)), (("a",), ("b",), ("c",))),
)
USA, DELTA = GroupLevel("USA", 2), Fraction(1, 10**6)
#: Beyond it noise has no probability to speak of: less than e to the minus this.
FAR = 38.0
Ints = NDArray[np.int64]
#: What may be published, each as a number, in order; and how probably.
Law = tuple[Ints, NDArray[np.float64]]
#: Losses in order, and their probabilities; the last may be infinite.
Losses = tuple[NDArray[np.float64], NDArray[np.float64]]


def parameters(rho: str = "12", first: Fraction = Fraction(1, 4), **changes: object) -> Parameters:
    """One level, of iterations with tables and without; variances of 3/2 and 1/2 where a record is
    in nine groups.
    """
    return worlds.persons(
        product=Product("persons", "person", "p", (TABLE,), staged=True),
        budgets={"t2": {USA: Fraction(rho)}},
        thresholds={"t2": {USA: (1, 3)}},
        first=first,
        runs=("us",),
        **changes,
    )


def spec_of(given: Parameters) -> DetailedSpec:
    return configured(run={"name": "x"}, delta=DELTA).on(given)


def noise(draw: PlannedMeasurement) -> dict[int, float]:
    """The probability of each value, summed by itself."""
    power, scale = (
        (1, float(draw.parameter))
        if draw.mechanism == GEOMETRIC
        else (2, 2 * float(draw.parameter))
    )
    most = ceil(sqrt(scale * FAR)) if power == 2 else ceil(scale * FAR / 2)
    weight = {k: exp(-(abs(k) ** power) / scale) for k in range(-most, most + 1)}
    return {k: w / sum(weight.values()) for k, w in weight.items()}


@dataclass
class Copies:
    """This many groups with the same people."""

    leaves: tuple[int, ...]
    regions: int
    iterations: int = 1

    def totals(self) -> Ints:
        return np.full(self.regions, sum(self.leaves))

    def table(self, name: str, leaves: int, groups: Ints) -> Ints:
        assert (name, leaves) == ("t2", 3)
        return np.tile(np.array(self.leaves), (len(groups), 1))

    def digest(self) -> bytes:
        return b""


def law(plan: LevelPlan, leaves: tuple[int, ...], only: bool = False, loud: bool = True) -> Law:
    """What is published of a group, and how probably: the first stage, the size of the table, its
    answers. ``loud``: the first stage has noise."""
    each = {d.query: noise(d) for d in plan.measurements}
    rows, chances = [], []
    for first, chance in ({0: 1.0} if only or not loud else each[FIRST]).items():
        width = 1 if only else TABLE.answers[int(plan.size(np.array([sum(leaves) + first]))[0])]
        second = each[ONLY if only else "t2"]
        values = np.stack(np.meshgrid(*[list(second)] * width, indexing="ij"), axis=-1).reshape(
            -1, width
        )

        def given(
            draw: PlannedMeasurement,
            size: int,
            _: object,
            first: int = first,
            values: Ints = values,
        ) -> Ints:
            if draw.query == FIRST:
                return np.full(size, first)
            assert draw.query == (ONLY if only else "t2") or not size
            return values.ravel()[:size]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "_noise", given)
            m = run._measured(
                Copies(leaves, len(values)),
                plan,
                np.full(len(values), b"1"),
                np.array([only]),
                None,
                seeded(1),
            )
        assert (np.diff(m.indptr) == width).all()
        told = np.zeros((len(values), 5), dtype=np.int64)
        told[:, 0], told[:, 1], told[:, 2 : 2 + width] = (
            m.first,
            m.size,
            m.values.reshape(-1, width),
        )
        rows.append((told + 512) @ 1024 ** np.arange(5))
        chances.append(
            chance * reduce(np.multiply.outer, [np.array(list(second.values()))] * width).ravel()
        )
    row, found = np.concatenate(rows), np.concatenate(chances)
    order = np.argsort(row)
    assert (np.diff(row[order]) > 0).all()
    assert abs(found.sum() - 1) < 1e-12
    return row[order], found[order]


def losses(one: Law, other: Law) -> Losses:
    """The law of the loss under ``one``."""
    at = np.searchsorted(other[0], one[0])
    there = other[0].take(at, mode="clip") == one[0]
    return merged(np.where(there, np.log(one[1] / other[1].take(at, mode="clip")), inf), one[1])


def merged(at: NDArray[np.float64], chance: NDArray[np.float64]) -> Losses:
    found, which = np.unique(np.round(at, 9), return_inverse=True)
    whole = np.bincount(which.ravel(), chance)
    exact = np.where(
        np.isinf(found),
        inf,
        np.bincount(which.ravel(), chance * np.where(np.isinf(at), 0, at))
        / np.maximum(whole, 1e-300),
    )
    return exact, whole


def together(parts: list[Losses]) -> Losses:
    at, chance = np.zeros(1), np.ones(1)
    for a, p in parts:
        at, chance = merged(np.add.outer(at, a).ravel(), np.outer(chance, p).ravel())
    return at, chance


def delta_of(found: Losses, eps: float) -> float:
    """The divergence of order e to the eps: P(o) - e^eps Q(o), where that is positive."""
    at, chance = found
    above = at > eps
    return float((chance[above] * -np.expm1(eps - at[above])).sum())


def epsilon_of(found: Losses, delta: float) -> float:
    low, high = 0.0, 400.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(found, middle) > delta else (low, middle)
    return high


def renyi(found: Losses, alpha: float) -> float:
    at, chance = found
    some = (at < 200) & (chance > 1e-18)  # beyond it are the ends of what is enumerated
    return float(np.log((chance[some] * np.exp((alpha - 1) * at[some])).sum()) / (alpha - 1))


PEOPLE = (0, 0, 0), (1, 0, 0), (2, 0, 3)


def one_loss(plan: LevelPlan, only: bool = False, loud: bool = True) -> Losses:
    """That of one group: of one more in a leaf."""
    return losses(law(plan, (3, 0, 0), only, loud), law(plan, (2, 0, 0), only, loud))


def enumerated(plan: LevelPlan, groups: int, loud: bool = True) -> dict[int, float]:
    """The exact epsilon of a record in ``groups`` groups, t of them without a table, by t."""
    table, only = one_loss(plan, loud=loud), one_loss(plan, only=True)
    return {
        t: epsilon_of(together([only] * t + [table] * (groups - t)), float(DELTA))
        for t in range(groups + 1)
    }


def check(given: Parameters, groups: int, plan: LevelPlan | None = None, loud: bool = True) -> None:
    """The statement says the largest epsilon of a record in this many ``groups``, and not less; no
    Rényi divergence is above its line.
    """
    (stated,) = given.plans("us")
    spec, plan = spec_of(given), plan or stated
    said = account(spec.terms, {"persons": spec.universes[0].plan.measurements}).guarantee[
        "persons"
    ]
    (row,) = [e for e in said.epsilon if e.delta == DELTA]
    alone = int(given.iterations.detailed_only[given.iterations.measured_at(USA)].sum())
    every = enumerated(plan, groups, loud)
    largest = max(e for t, e in every.items() if t <= alone)
    assert row.pld[0] - 1e-9 <= largest <= row.pld[1] + 1e-9
    assert row.pld[1] - row.pld[0] < 1e-6
    assert said.cost == stated.cost
    for only in (False, True):
        of_one = one_loss(plan, only, loud)
        whole = together([of_one] * groups)
        for alpha in (1.25, 2.0, 3.0):
            assert renyi(of_one, alpha) <= alpha * float(stated.cost) / groups + 1e-9
            assert renyi(whole, alpha) <= alpha * float(stated.cost) + 1e-8


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("leaf", range(3))
@pytest.mark.parametrize("base", [(0, 0, 0), (1, 0, 0), (2, 0, 3)])
def test_the_loss_is_one_law(base: tuple[int, ...], leaf: int, only: bool) -> None:
    """Whichever other people are in the group, whichever leaf a record is in, and whether it comes
    or goes: at every epsilon.
    """
    (plan,) = parameters().plans("us")
    known, more = one_loss(plan, only), tuple(n + (i == leaf) for i, n in enumerate(base))
    with_one, without = law(plan, more, only), law(plan, base, only)
    for found in (losses(with_one, without), losses(without, with_one)):
        for eps in (0.0, 0.3, 1.0, 2.5, 5.0):
            assert abs(delta_of(found, eps) - delta_of(known, eps)) < 1e-12


def test_the_noise_is_that_of_the_table_of_variances() -> None:
    (plan,) = parameters().plans("us")
    assert plan.stability == 9
    assert {d.query: d.parameter for d in plan.measurements} == {
        ONLY: Fraction(9, 24),
        FIRST: Fraction(3, 2),
        "t2": Fraction(1, 2),
    }


@pytest.mark.parametrize(
    ("rho", "first"), [("12", Fraction(1, 4)), ("9", Fraction(1, 2)), ("20", Fraction(1, 10))]
)
def test_what_is_stated_is_what_every_answer_gives(rho: str, first: Fraction) -> None:
    check(parameters(rho, first), 9)


@pytest.mark.parametrize(("codes", "groups"), [(1, 3), (3, 4)])
def test_with_fewer_codes_a_record_is_in_fewer_groups(codes: int, groups: int) -> None:
    check(parameters("6", race_codes=codes), groups)


def test_noise_for_fewer_groups_than_a_record_is_in_fails() -> None:
    """The same check, of noise for eight groups: a record in nine loses more than is stated."""
    given = parameters()
    (plan,) = given.plans("us")
    with pytest.raises(AssertionError):
        check(given, 9, replace(plan, stability=8))
    check(replace(given, race_codes=7), 8)  # it is right for a person in eight


def test_a_first_stage_without_noise_fails() -> None:
    with pytest.raises(AssertionError):
        check(parameters(), 9, loud=False)


def test_a_table_that_counts_somebody_twice_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a cell other than a leaf's has it, too."""
    real = Copies.table

    def twice(self: Copies, name: str, leaves: int, groups: Ints) -> Ints:
        out = real(self, name, leaves, groups)
        out[:, 2] += out[:, 0]
        return out

    monkeypatch.setattr(Copies, "table", twice)
    with pytest.raises(AssertionError):
        check(parameters(), 9)


def test_a_mixture_can_be_worse_than_groups_of_one_kind_alone() -> None:
    """So the statement counts them all: of four groups, two with tables and two without, at a delta
    of 1e-10.
    """
    (plan,) = parameters("20", Fraction(1, 10), race_codes=3).plans("us")
    only, first, second = (plan.measurement(q).parameter for q in (ONLY, FIRST, "t2"))

    def of(t: int) -> float:
        drawn = {only: t, first: 4 - t, second: 4 - t}
        return epsilon([(parameter, n) for parameter, n in drawn.items() if n], "1e-10")[0]

    assert of(2) > max(of(0), of(4)) + 0.1
    given = parameters("20", Fraction(1, 10), race_codes=3)
    spec = configured(run={"name": "x"}, delta=Fraction(1, 10**10)).on(given)
    said = account(spec.terms, {"persons": spec.universes[0].plan.measurements}).guarantee[
        "persons"
    ]
    (row,) = [e for e in said.epsilon if e.delta == spec.delta]
    assert row.pld[1] >= of(2)
    assert row.between is not None
    assert dict(row.between) == {"persons": ("2 totals and 2 tables",)}


def test_a_record_that_is_replaced_within_a_group_loses_less_than_one_removed_and_one_added() -> (
    None
):
    """Theorem 2: two records that share a group differ in two cells of its table at most; those
    that share none in a group each.
    """
    (plan,) = parameters().plans("us")
    apart = together([one_loss(plan)] * 2)
    for base in ((0, 0, 0), (2, 0, 3)):
        for one, other in ((0, 1), (0, 2)):
            laws = [
                law(plan, tuple(n + (i == leaf) for i, n in enumerate(base)))
                for leaf in (one, other)
            ]
            shared = losses(*laws)
            for eps in (0.0, 0.5, 1.0, 2.0, 4.0):
                assert delta_of(shared, eps) <= delta_of(apart, eps) + 1e-12
            cells: Mapping[int, Fraction] = {2: plan.measurement("t2").parameter}
            for delta in ("1e-6", "1e-3"):
                assert epsilon_of(shared, float(delta)) <= epsilon([(cells[2], 2)], delta)[1] + 1e-9


def test_geometric_noise_loses_its_epsilon_and_no_more() -> None:
    given = parameters("36", mechanism=GEOMETRIC)
    (plan,) = given.plans("us")
    for only in (False, True):
        whole = together([one_loss(plan, only)] * 9)
        finite = whole[0][(whole[1] > 1e-12) & np.isfinite(whole[0])]
        assert abs(finite.max() - 36) < 1e-6
    spec = spec_of(given)
    assert (
        account(spec.terms, {"persons": spec.universes[0].plan.measurements}).totals["total"] == 36
    )
