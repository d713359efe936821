"""The noise of the Detailed DHC has the stated distribution, at every level and stage; noise that
is three tenths off is rejected.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from das.model.budget import PlannedMeasurement, QueryNoise
from das.model.confidential import Confidential
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism
from das.noise.entropy import seeded
from das.publications.detailed import tables
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.model.records import GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, LevelPlan
from das.publications.detailed.planning.losses import Tails
from das.publications.detailed.planning.margins import suppression
from das.publications.detailed.truth.groups import GroupCounts
from das.publications.detailed.truth.run import measure
from tests.detailed import worlds

PERSONS, HOUSEHOLDS = worlds.persons(), worlds.households()
LEVELS = [("USA", 2), ("STATE", 1), ("COUNTY", 2), ("PR-TRACT", 1), ("PR-STATE", 2)]
REGIONS = 4000
Counts = NDArray[np.int64]


@dataclass
class Everywhere:
    """The same people in each group: this many in the leaf of their number."""

    people: Counts
    regions: int
    iterations: int

    def totals(self) -> Counts:
        return np.full(self.regions * self.iterations, self.people.sum())

    def table(self, name: str, leaves: int, groups: Counts) -> Counts:
        return np.tile(self.people, (len(groups), 1))

    def digest(self) -> bytes:
        return self.people.tobytes()


def plan_of(
    region: str,
    level: int,
    thresholds: tuple[int, ...] | None = None,
    mechanism: Mechanism = DISCRETE_GAUSSIAN,
) -> LevelPlan:
    at = GroupLevel(region, level)
    given = worlds.persons(mechanism)
    plan = next(p for run in given.runs for p in given.plans(run) if p.at == at)
    return plan if thresholds is None else replace(plan, thresholds=thresholds)


def measured(
    plan: LevelPlan,
    people: Counts | None = None,
    regions: int = REGIONS,
    seed: int = 1,
    sizes: NDArray[np.int8] | None = None,
) -> GroupMeasurement:
    people = np.arange(plan.table.leaves) % 5 if people is None else people
    iterations = len(PERSONS.iterations.measured_at(plan.at))
    truth: Confidential[GroupCounts] = Confidential(Everywhere(people, regions, iterations))
    ids = np.array([f"{i:08d}" for i in range(regions)], dtype="S")
    return measure(
        truth, plan, PERSONS.iterations, ids, seeded(seed), universe="persons", sizes=sizes
    )[1]


def noise_of(
    m: GroupMeasurement, plan: LevelPlan, people: Counts | None = None
) -> dict[tuple[str, int], Counts]:
    """Of each query and size of table the noise, ``(groups, answers)``; of the first stage that of
    groups of each size.
    """
    people, out = (
        np.arange(plan.table.leaves) % 5 if people is None else people,
        dict[tuple[str, int], Counts](),
    )
    alone = m.only[m.iteration]
    for size, of in enumerate(plan.table.sizes):
        groups, values = m.of_size(size, plan.table.answers[size])
        noise = values - np.bincount(of, people).astype(np.int64)
        out[plan.table.name, size] = noise[~alone[groups]]
        out[FIRST, size] = (m.first - people.sum())[groups[~alone[groups]]][:, None]
        if size == 0:
            out[ONLY, 0] = noise[alone[groups]]
    return out


def rejects(noise: Counts, draw: PlannedMeasurement, factor: float, level: float) -> bool:
    """Whether the counts of values are too far from those that a parameter of ``factor`` times that
    of the draw gives: in bins of about as many, by chi-square."""
    parameter = draw.parameter * Fraction(factor).limit_denominator(10)
    tails = Tails.from_noise(QueryNoise("", "", draw.mechanism, parameter))
    width = max(1, int((draw.variance**0.5) / 2))
    ends = width * np.arange(-6, 7)  # bins up to 3 standard deviations, and the rest
    above = np.array([1.0, *(tails.above(int(e)) for e in ends), 0.0])
    chance = above[:-1] - above[1:]
    found = np.bincount(np.searchsorted(ends, noise.ravel(), side="left"), minlength=len(chance))
    some = chance * noise.size > 5
    chance, found = (
        np.append(chance[some], chance[~some].sum()),
        np.append(found[some], found[~some].sum()),
    )
    chance, found = (
        (chance[:-1], found[:-1])
        if chance[-1] * noise.size < 1e-3 and not found[-1]
        else (chance, found)
    )
    statistic = ((found - noise.size * chance) ** 2 / (noise.size * chance)).sum()
    return bool(statistic > chi2.ppf(1 - level, len(chance) - 1))


def check(noise: Counts, draw: PlannedMeasurement) -> None:
    """True at the stated parameter; three tenths less or more are noticed."""
    assert noise.size > 3000
    assert not rejects(noise, draw, 1.0, 1e-5)
    for factor in (0.7, 1.3):
        assert rejects(noise, draw, factor, 1e-5)


def uncorrelated(a: Counts, b: Counts) -> None:
    """Neither values nor how large they are: of each column of one with each of the other."""
    for f in (lambda x: x, np.abs):
        one, other = (f(x) - f(x).mean(axis=0) for x in (a.astype(float), b.astype(float)))
        r = one.T @ other / np.outer(np.sqrt((one**2).sum(axis=0)), np.sqrt((other**2).sum(axis=0)))
        assert np.abs(r).max() < 5.5 / len(a) ** 0.5
        assert (r**2).sum() * len(a) < chi2.ppf(1 - 1e-5, r.size)


@pytest.mark.parametrize("at", LEVELS)
def test_each_stage_has_its_noise(at: tuple[str, int]) -> None:
    """Of tables of every size, whether all or some have it; of what has no table the whole
    budget.
    """
    for thresholds in (
        (10**6,) * 3,
        (-(10**6), 10**6, 10**6),
        (-(10**6),) * 2 + (10**6,),
        (-(10**6),) * 3,
    ):
        plan = plan_of(*at, thresholds)
        found = noise_of(measured(plan), plan)
        size = sum(t < 0 for t in thresholds)
        check(found["t2", size], plan.measurement("t2"))
        check(found[FIRST, size], plan.measurement(FIRST))
        if plan.at.fine:
            check(found[ONLY, 0], plan.measurement(ONLY))
            assert plan.measurement(ONLY).parameter == Fraction(plan.stability) / (2 * plan.cost)
        else:
            assert not len(found[ONLY, 0])
        assert plan.measurement(FIRST).parameter * Fraction(1, 10) == plan.measurement(
            "t2"
        ).parameter * Fraction(9, 10)


def test_geometric_noise() -> None:
    plan = plan_of("COUNTY", 2, (-(10**6), 10**6, 10**6), GEOMETRIC)
    found = noise_of(measured(plan), plan)
    assert plan.measurement(FIRST).parameter == plan.stability / (plan.cost / 10)
    check(found["t2", 1], plan.measurement("t2"))
    check(found[FIRST, 1], plan.measurement(FIRST))


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_stages_and_cells_are_independent(size: int) -> None:
    """18 cells and 46 among them; and groups that follow each other."""
    plan = plan_of("STATE", 2, (-(10**6),) * size + (10**6,) * (3 - size))
    found = noise_of(measured(plan), plan)
    first, second = found[FIRST, size], found["t2", size]
    assert second.shape[1] == (1, 8, 18, 46)[size]
    uncorrelated(first, second)
    for i in range(second.shape[1] - 1):
        uncorrelated(second[:, : i + 1], second[:, i + 1 : i + 2])
    uncorrelated(first[1:], first[:-1])
    uncorrelated(second[1:, :4], second[:-1, :4])
    uncorrelated(found[ONLY, 0][:2000], second[:2000, :1])


def test_the_noise_of_a_table_is_that_of_any_size_however_it_was_found() -> None:
    """Thresholds are where the noise of the first stage falls on either side: given the size that
    it chose, the second has its law.
    """
    people = np.zeros(46, dtype=np.int64)
    plan = plan_of("COUNTY", 2, (-12, 0, 12))
    m = measured(plan, people, regions=12_000)
    found = noise_of(m, plan, people)
    tails = Tails.from_noise(plan.measurement(FIRST))
    for size, (low, high) in enumerate(((-(10**6), -12), (-12, 0), (0, 12), (12, 10**6))):
        check(found["t2", size], plan.measurement("t2"))
        share, chance = (m.size == size).mean(), tails.above(low - 1) - tails.above(high - 1)
        assert abs(share - chance) < 5 * (chance * (1 - chance) / len(m.size)) ** 0.5
        assert ((found[FIRST, size] >= low) & (found[FIRST, size] < high)).all()


def test_households_have_one_stage() -> None:
    """Of each table its own noise, of the sizes that were published; nothing of a group that was
    not.
    """
    plans = {p.table.name: p for p in HOUSEHOLDS.plans("us") if p.at == GroupLevel("COUNTY", 2)}
    noise = {}
    for name, plan in plans.items():
        groups = REGIONS * len(PERSONS.iterations.measured_at(plan.at))
        sizes = (np.arange(groups) % (len(plan.table.sizes) + 1) - 1).astype(np.int8)
        m = measured(plan, sizes=sizes)
        assert np.array_equal(m.size, sizes)
        assert not m.first.any()
        people = np.arange(plan.table.leaves) % 5
        for size, of in enumerate(plan.table.sizes):
            _, values = m.of_size(size, plan.table.answers[size])
            noise[name, size] = values - np.bincount(of, people).astype(np.int64)
            check(noise[name, size], plan.measurement(name))
        assert plan.measurement(name).parameter == Fraction(plan.stability) / (2 * plan.cost)
    some = min(len(noise["t3", 1]), len(noise["t4", 1]))
    uncorrelated(noise["t3", 1][:some], noise["t4", 1][:some])


# --- groups of nobody
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chance", ["0.9999", "0.9", "0.5"])
@pytest.mark.parametrize("at", [("COUNTY", 2), ("PR-TRACT", 1)])
def test_groups_of_nobody_are_published_as_often_as_is_said(
    at: tuple[str, int], chance: str
) -> None:
    parameters = replace(PERSONS, chance=Fraction(chance))
    plan, nobody = plan_of(*at), np.zeros(46, dtype=np.int64)
    regions = 40_000 if chance == "0.9999" else 4000
    published = shown = groups = 0
    for seed in range(2):
        m = measured(plan, nobody, regions, seed)
        found = tables.totals(m, plan, parameters)
        groups += len(m.size)
        shown += len(found.group)
        assert (found.count > suppression(plan, parameters.chance)).all()
        published += int((m.size > 0).sum())
    assert not published  # no table
    most = suppression(plan, parameters.chance)
    assert most is not None
    tail = Tails.from_noise(plan.measurement("t2")).above(most)
    assert tail <= 1 - Fraction(chance)
    assert Tails.from_noise(plan.measurement("t2")).above(most - 1) > 1 - Fraction(chance)
    assert abs(shown - groups * tail) < 5 * (groups * tail * (1 - tail)) ** 0.5
    if chance != "0.9999":  # of that there are too few to notice it
        for factor in (0.7, 1.3):
            assert abs(shown - groups * tail * factor) > 5 * (groups * tail * (1 - tail)) ** 0.5


@pytest.mark.parametrize("at", [("USA", 2), ("STATE", 1), ("PR-STATE", 2)])
def test_none_is_left_out_at_states_and_above(at: tuple[str, int]) -> None:
    plan = plan_of(*at)
    m = measured(plan, np.zeros(46, dtype=np.int64), 500)
    found = tables.totals(m, plan, PERSONS)
    assert found.group.tolist() == list(range(len(m.size)))
    assert (found.count < 0).any()


def test_chunks_that_differ_in_anything_share_no_noise() -> None:
    """In the level, in the regions, in the truth, in the plan, in how often it is drawn."""
    plan, people = plan_of("COUNTY", 2, (10**6,) * 3), np.zeros(46, dtype=np.int64)
    iterations = len(PERSONS.iterations.measured_at(plan.at))
    ids = np.array([f"{i:05d}" for i in range(400)], dtype="S")

    def drawn(
        plan: LevelPlan = plan, people: Counts = people, ids: NDArray[np.bytes_] = ids, **how: int
    ) -> Counts:
        truth: Confidential[GroupCounts] = Confidential(Everywhere(people, len(ids), iterations))
        m = measure(truth, plan, PERSONS.iterations, ids, seeded(9), universe="persons", **how)[1]
        return m.values - people.sum()

    one_more = people.copy()
    one_more[3] = 1
    every = [
        drawn(),
        drawn(people=one_more),
        drawn(ids=np.array([b"1" + i for i in ids.tolist()])),
        drawn(number=2),
        drawn(replace(plan, thresholds=(10**6 + 1,) * 3)),
        drawn(replace(plan, cost=plan.cost * Fraction(1001, 1000))),
        drawn(replace(plan, at=GroupLevel("TRACT", 2))),
    ]
    assert np.array_equal(every[0], drawn())
    agree: dict[tuple[int, int], float] = defaultdict(float)
    for i, a in enumerate(every):
        for j, b in enumerate(every[:i]):
            agree[j, i] = float((a == b).mean())
    assert max(agree.values()) < 0.12  # as two that are independent: some 5 %
