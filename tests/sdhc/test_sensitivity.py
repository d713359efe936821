"""Tight sensitivities, by exhaustion: every household of a few kinds of persons, every unit record,
both relations. No query reaches further than its table says, and nearly all reach that far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from das.accounting.sources import relations
from das.model.mechanisms import MECHANISMS
from das.publications.sdhc.model.tables import (
    CHILDREN,
    EXCESS,
    EXCESS_CHILDREN,
    HOUSEHOLD,
    LEFT_OUT,
    PERSON,
    TIGHT,
    TRUNCATED,
    Addresses,
    Residents,
    SdhcRecords,
    answers,
    columns,
    queries,
    reach,
)
from das.publications.sdhc.spec import SdhcSpec
from das.publications.sdhc.truth.counts import counts
from das.spec import load

Ints = NDArray[np.int64]
GAUSSIAN, GEOMETRIC = MECHANISMS["discrete-gaussian"], MECHANISMS["geometric"]
#: Age, origin, race, relationship: two ages, two races; families and others.
PEOPLE = [
    (40, 1, 1, 20),
    (40, 1, 2, 21),
    (5, 1, 1, 25),
    (5, 2, 2, 25),
    (3, 1, 1, 30),
    (40, 1, 1, 34),
]
#: HHT, HHT2, CPLT of households with own children, or nobody; race, origin, tenure.
KINDS = [(1, 1, 1), (5, 3, 3), (3, 6, 5)]
UNITS = [((0, 0, 0), 0, 0, 0), *product(KINDS, [1, 2], [1], [1]), *product(KINDS, [1, 2], [2], [3])]
MOST = 100


def tallied(
    relation: str, tau: Mapping[str, int], mafid: int, of: int | list[tuple[int, ...]]
) -> dict[tuple[int, ...], Ints]:
    """By household, as numbers of kinds of persons, its answers with each unit record. Each is its
    own state. ``of`` are the households, or the most persons of all there are."""
    homes = (
        of
        if isinstance(of, list)
        else [
            h for n in range(of + 1) for h in combinations_with_replacement(range(len(PEOPLE)), n)
        ]
    )
    each = [(h, u) for h in homes for u in UNITS]
    rows = []
    for start in range(0, len(each), MOST):
        some = each[start : start + MOST]
        units = np.array([[*kind, race, hisp, ten] for _, (kind, race, hisp, ten) in some], np.int8)
        who = [(i, *PEOPLE[p]) for i, (h, _) in enumerate(some) for p in h]
        people = np.array(who or np.zeros((0, 5)), np.int64).reshape(-1, 5)
        one = np.ones(len(some), np.int8)
        a = Addresses(
            tuple(map(str, range(len(some)))),
            np.full(len(some), mafid, np.int32),
            np.arange(len(some), dtype=np.int8),
            2 * one, units[:, 4], units[:, 3], units[:, 5], units[:, 0], units[:, 1], units[:, 2],
        )  # fmt: skip
        p = people.astype(np.int8)
        residents = Residents(people[:, 0].astype(np.int32), np.full(len(p), 3, np.int8), *p.T[1:])
        rows.append(counts(SdhcRecords(a, residents), TIGHT, relation, tau))
    answers = np.concatenate(rows).reshape(len(homes), len(UNITS), -1)
    return dict(zip(homes, answers, strict=True))


def distances(x: Ints, y: Ints) -> tuple[int, int]:
    """The largest square sum and sum of differences, of any two rows."""
    d = np.abs(np.unique(x, axis=0)[:, None] - np.unique(y, axis=0)[None])
    return int((d**2).sum(axis=2).max()), int(d.sum(axis=2).max())


def largest(homes: dict[tuple[int, ...], Ints], relation: str) -> Ints:
    """Of each query, both: ``(queries, 2)``."""
    if relation == HOUSEHOLD:
        every = np.concatenate(list(homes.values()))
        return np.array([distances(every[:, at], every[:, at]) for at in map(_at, queries())])
    inside = np.zeros((len(answers()), len(queries())), dtype=np.float32)
    for q, of in enumerate(queries()):
        inside[_at(of), q] = 1
    out = np.zeros((len(queries()), 2))
    for h, a in homes.items():
        for p in range(len(PEOPLE)):
            if (more := tuple(sorted((*h, p)))) in homes:
                d = np.abs(a[:, None] - homes[more][None]).astype(np.float32)
                here = [(x @ inside).max(axis=(0, 1)) for x in (d**2, d)]
                out = np.maximum(out, np.stack(here, axis=1))
    return out.astype(np.int64)


def _at(query: tuple[str, str]) -> list[int]:
    return list(columns(*query))


@pytest.mark.parametrize("relation", [PERSON, HOUSEHOLD])
@pytest.mark.parametrize(("tau", "children", "size"), [(1, 1, 3), (2, 2, 3), (2, 1, 3), (3, 3, 4)])
def test_no_query_reaches_further(relation: str, tau: int, children: int, size: int) -> None:
    most = {t: children if t in CHILDREN else tau for t in TRUNCATED}
    worlds = [tallied(relation, most, m, size) for m in (100_000_001, 345_678_901)]
    found, loose = np.max([largest(w, relation) for w in worlds], axis=0), []
    for (table, group), (squares, sums) in zip(queries(), found, strict=True):
        if (to := reach(table, group, most, TIGHT, relation)) is None:
            assert table in LEFT_OUT
            assert relation == HOUSEHOLD
            continue
        assert squares <= to.stability(GAUSSIAN)
        assert sums <= to.stability(GEOMETRIC)
        if squares < to.stability(GAUSSIAN):
            loose.append((table, group))
    assert loose == []


def configured(children: int, persons: int = 18, *more: str) -> SdhcSpec:
    text = (Path(__file__).resolve().parents[2] / "configs" / "sdhc-2020.toml").read_text("utf-8")
    limits = (f"sdhc.most.persons={persons}", f"sdhc.most.children={children}")
    spec = load(text, where="c", overrides=(*limits, *more))
    assert isinstance(spec, SdhcSpec)
    return spec


@pytest.mark.parametrize(("tau", "children", "size"), [(1, 1, 2), (2, 1, 3), (3, 3, 2)])
def test_no_relation_of_a_joint_account_reaches_further(tau: int, children: int, size: int) -> None:
    """A person replaced; a household of at most ``size`` replaced: every change at one address."""
    spec = configured(children, tau)
    homes = tallied(PERSON, spec.tau, 100_000_001, size)
    every = np.concatenate(list(homes.values()))
    _, replaced, _, household, _ = relations(size)
    reached = {"replaced": 0, "household": 0}
    for table, group in queries():
        at = list(columns(table, group))
        one = [
            distances(a[:, at], b[:, at])
            for h, a in homes.items()
            for g, b in homes.items()
            if len(h) == len(g) and sum((Counter(h) - Counter(g)).values()) <= 1
        ]
        whole = distances(every[:, at], every[:, at])
        for relation, (squares, sums) in (
            (replaced, (max(f for f, _ in one), max(s for _, s in one))),
            (household, whole),
        ):
            to = spec.reach_of(table, group, relation)
            assert squares <= to.stability(GAUSSIAN), (relation.name, table, group)
            assert sums <= to.stability(GEOMETRIC), (relation.name, table, group)
            reached[relation.name] += squares == to.stability(GAUSSIAN)
    assert reached["household"] == len(queries())
    assert tau > 1 or reached["replaced"] > len(queries()) // 2  # others need larger households


#: Persons in the order in which they are kept: whether each is a child.
Household = tuple[bool, ...]


def by_person(h: Household, tau: int, children: int) -> dict[str, tuple[int, ...]]:
    """What is counted person by person, by the definition of each answer: children and adults."""
    minors, kept, left = sum(h), sum(h[:tau]), h[tau:]
    return {
        "PH1_num": (minors, len(h) - minors),
        EXCESS: (sum(left), len(left) - sum(left)),
        EXCESS_CHILDREN: (minors - min(children, kept),),
    }


def apart(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, int]:
    d = [abs(a - b) for a, b in zip(x, y, strict=True)]
    return sum(k * k for k in d), sum(d)


@pytest.mark.parametrize(
    ("tau", "children", "size"),
    [(18, 10, 3), (1, 1, 1), (1, 1, 3), (4, 1, 3), (2, 3, 5), (3, 2, 5), (5, 3, 6), (6, 5, 6)],
)
def test_what_is_counted_by_person_reaches_exactly_as_far(
    tau: int, children: int, size: int
) -> None:
    """Of all households of at most ``size``, whoever is kept first; and of all households with one
    person replaced, of any size."""
    spec, (_, replaced, _, household, moved) = configured(children, tau), relations(size)
    homes = [h for n in range(size + 1) for h in product([False, True], repeat=n)]
    larger = [
        h for n in (1, 2, tau, tau + 1, tau + 2) if n < 9 for h in product([False, True], repeat=n)
    ]
    swaps = {
        (h, (*rest[:j], new, *rest[j:]))
        for h in larger
        for i in range(len(h))
        for rest in [(*h[:i], *h[i + 1 :])]
        for j in range(len(h))
        for new in (False, True)
    }
    answers = {h: by_person(h, tau, children) for h in {*homes, *larger}}
    for table, group in (("PH1_num", "*"), (EXCESS, "*"), (EXCESS_CHILDREN, "*")):
        each = {answers[h][table] for h in homes}
        found = [apart(x, y) for x in each for y in each]
        most = max(f for f, _ in found), max(s for _, s in found)
        to = spec.reach_of(table, group, household)
        assert (to.stability(GAUSSIAN), to.stability(GEOMETRIC)) == most, table
        both = spec.reach_of(table, group, moved)
        assert (both.stability(GAUSSIAN), both.stability(GEOMETRIC)) == (4 * most[0], 2 * most[1])
        one = [apart(answers[h][table], answers[g][table]) for h, g in swaps]
        to = spec.reach_of(table, group, replaced)
        assert max(f for f, _ in one) <= to.stability(GAUSSIAN), table
        assert max(s for _, s in one) <= to.stability(GEOMETRIC), table
        if tau < 7:  # households that are larger than what is kept
            assert max(f for f, _ in one) == to.stability(GAUSSIAN), table


@pytest.mark.parametrize(
    ("children", "size", "budget", "pair"),
    [(1, 3, "5", "20.70"), (10, 18, "0.1", "19.56"), (10, 20, "1", "116.06"), (1, 3, "0.5", "2.702")],
)  # fmt: skip
def test_a_household_of_children_costs_no_more_than_its_account(
    children: int, size: int, budget: str, pair: str
) -> None:
    """Children at one address against adults, or one child and adults: their exact cost, query by
    query, whatever the unit record says."""
    spec = configured(children, 18, f'sdhc.budget.excess_children.state_*="{budget}"')
    draws = spec.universes[0].plan.measurements
    child, other, adult = 2, 3, 5
    homes = [(n,) * size for n in (child, adult)]
    homes.append((other, *(adult,) * (size - 1)))
    x, *others = tallied(PERSON, spec.tau, 100_000_001, homes).values()
    cost = np.zeros((len(others), len(UNITS), len(UNITS)))
    for d in draws:
        table, group = d.query.split(" ")
        at = _at((table, group))
        for i, y in enumerate(others):
            squares = ((x[:, None, at] - y[None, :, at]) ** 2).sum(axis=2)
            cost[i] += squares / float(2 * d.parameter)
    stated = spec._moves(draws, relations(size)[3]).rho
    assert cost.max() <= stated < 1.1 * cost.max()
    assert cost.max() == pytest.approx(float(pair), rel=0.06)
    assert float(pair) <= stated


def test_the_program_pays_for_more() -> None:
    tau = dict.fromkeys(TRUNCATED, 10)
    program = reach("PH7", "*", tau, "phsafe")
    tight = reach("PH7", "*", tau, TIGHT)
    assert program is not None
    assert tight is not None
    assert (program.stability(GAUSSIAN), tight.stability(GAUSSIAN)) == (484, 200)
    assert (program.stability(GEOMETRIC), tight.stability(GEOMETRIC)) == (22, 20)
