"""What two records cost, against every pair of records of small schemas; and what the packaged
configurations promise of every pair, counted from their plans alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import das
from das.accounting.changes import pair_limits, told_apart
from das.accounting.guarantee import exact_epsilon
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.universe import Planned
from das.publications.dhc.model import strategy
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS, DhcSpec, all_of_production
from das.spec import RunSpec
from tests.spec.test_dhc_best import EIGHT, of

Costs = Mapping[tuple[str, str], Fraction]
SCHEMA = Schema.from_attributes(
    "small",
    {"age": 5, "sex": 2, "race": 3},
    groupings={
        "adult": ("age", {"no": [0, 1], "yes": [2, 3, 4]}),
        "odd": ("age", {"even": [0, 2, 4], "odd": [1, 3]}),
        "first": ("race", {"first": [0], "other": [1, 2]}),
    },
)
QUERIES = ("total", "adult", "odd * sex", "first", "adult * race", "age * sex", "detailed")
LEVELS = ("Root", "Middle", "Leaf")
#: Leaves 0 and 1 are in one middle unit, leaf 2 in another.
MIDDLE = (0, 0, 1)

costs_of_queries = st.dictionaries(
    st.tuples(st.sampled_from(LEVELS), st.sampled_from(QUERIES)),
    st.fractions(min_value=Fraction(1, 50), max_value=3, max_denominator=50),
    min_size=len(LEVELS),
).map(lambda found: dict(sorted(found.items(), key=lambda pair: LEVELS.index(pair[0][0]))))
in_every_level = costs_of_queries.filter(lambda costs: len({lv for lv, _ in costs}) == len(LEVELS))


def answers(record: tuple[int, int], level: str, query: str) -> tuple[int, int]:
    """The unit and the answer that a record, ``(leaf, cell)``, is counted in."""
    leaf, cell = record
    unit = {"Root": 0, "Middle": MIDDLE[leaf], "Leaf": leaf}[level]
    return unit, int(SCHEMA.query(query).index[cell])


def test_what_tells_records_apart_is_so_of_every_pair() -> None:
    """The sets are those of all pairs of cells, and no others."""
    cells = range(SCHEMA.cells)
    found = {
        frozenset(q for q in QUERIES if len(set(SCHEMA.query(q).index[[a, b]].tolist())) == 2)
        for a, b in product(cells, cells)
    }
    assert told_apart(SCHEMA, QUERIES) == found


@settings(max_examples=12, deadline=None)
@given(in_every_level, in_every_level)
def test_the_limit_of_what_two_records_change_is_their_cost(ours: Costs, other: Costs) -> None:
    """Over every pair of records at the three leaves, answer by answer, at the costs of another
    plan over the same levels."""
    other = {pair: other.get(pair, Fraction(0)) for pair in (*ours, *other)}
    other = dict(sorted(other.items(), key=lambda pair: LEVELS.index(pair[0][0])))
    records = list(product(range(3), range(SCHEMA.cells)))
    # two records with different roots change everything
    seen = {frozenset(ours): sum(other.values(), Fraction(0))}
    answered = {p: [answers(record, *p) for record in records] for p in other}
    for a, b in combinations(range(len(records)), 2):
        told = [p for p, of in answered.items() if of[a] != of[b]]
        changed = frozenset(p for p in told if p in ours)
        cost = sum((other[p] for p in told), Fraction(0))
        if changed:
            seen[changed] = min(cost, seen.get(changed, cost))
    assert pair_limits(SCHEMA, list(ours), other) == seen


# --- what configurations promise
# -----------------------------------------------------------------------------------------------


def redistricting(name: str) -> Planned:
    spec = das.load_spec(f"configs/{name}.toml")
    assert isinstance(spec, RunSpec)
    return spec.persons


def costs(plan: Plan) -> dict[tuple[str, str], Fraction]:
    return {(d.level, d.query): d.cost for d in plan.plain}


def relations(
    ours: Costs, theirs: Costs, schema: Schema
) -> Iterator[tuple[str, str, Fraction, Fraction]]:
    """For each set of attributes that two persons differ in most (every query of one of them tells
    them apart), and each place that they share: the rho of both plans. Nothing of
    :mod:`das.accounting.changes` is used."""
    levels = list(dict.fromkeys(lv for lv, _ in theirs))
    names = [a.name for a in schema.attributes]
    for some in (s for n in range(len(names) + 1) for s in combinations(names, n)):
        for shared in range(len(levels) + 1):
            mine, other = (
                sum(
                    (
                        c
                        for (lv, q), c in plan.items()
                        if levels.index(lv) >= shared
                        or any(not schema.query(q).groupings[schema.axis(a)].is_total for a in some)
                    ),
                    Fraction(0),
                )
                for plan in (ours, theirs)
            )
            if other:
                yield " * ".join(some), levels[shared - 1] if shared else "", mine, other


@pytest.mark.parametrize("name, dearer", [("pl94-2010-fair", 0), ("pl94-2010-best", 111)])
def test_relations_of_a_redistricting_release_next_to_production(name: str, dearer: int) -> None:
    """Of 111 relations (attributes and place) none is dearer in fair, and each in best."""
    ours, theirs = (redistricting(n) for n in (name, "pl94-2010"))
    found = list(relations(costs(ours.plan), costs(theirs.plan), theirs.schema))
    assert len(found) == 111
    assert sum(mine > other for *_, mine, other in found) == dearer


def dearer_pairs(name: str) -> tuple[int, int]:
    """Kinds of pairs of persons that cost more than in production, and all."""
    ours, theirs = (costs(redistricting(n).plan) for n in (name, "pl94-2010"))
    schema = redistricting("pl94-2010").schema
    limits = pair_limits(schema, list(theirs), theirs)
    over = [
        sum(ours.get(p, Fraction(0)) for p in changed) > most for changed, most in limits.items()
    ]
    return sum(over), len(over)


def test_no_two_persons_cost_more_in_fair_than_in_production() -> None:
    """Every pair of persons at every two places of a tree without only children."""
    assert dearer_pairs("pl94-2010-fair") == (0, 143)
    assert dearer_pairs("pl94-2010-best")[0] > 100


def test_over_every_tree_no_change_has_a_dearer_worst_place_in_fair() -> None:
    """Only children share their parents' budget, and a pair in such a chain can cost more than in
    production; but not more than production's worst pair of the same kind."""
    fair, production = (redistricting(f"pl94-2010{n}") for n in ("-fair", ""))
    queries = {d.query for d in production.plan.measurements}
    dearer = 0
    for told in told_apart(production.schema, queries) - {frozenset()}:
        ours, theirs = (_on_paths(u.plan, told) for u in (fair, production))
        assert max(ours.values()) <= max(theirs.values())
        dearer += sum(ours[path] > theirs[path] for path in theirs)
        assert all(ours[path] < Fraction(132, 100) * theirs[path] for path in theirs)
    assert dearer == 172  # of 736, on 32 paths


def _on_paths(plan: Plan, told: frozenset[str]) -> dict[object, Fraction]:
    """What two records at one place cost, by the path to it."""
    return {
        path: sum(
            (
                d.cost
                for d in plan.measurements
                if (d.level, d.unit_class) in path and d.query in told
            ),
            Fraction(0),
        )
        for path in plan.paths
    }


@pytest.fixture(scope="module")
def best() -> DhcSpec:
    return of("dhc-best.toml")


def pairs_of_values(best: DhcSpec, name: str, attribute: str) -> tuple[int, int, Fraction]:
    """How many pairs of values of an attribute cost more than in production, of how many, and the
    largest ratio; value by value, from the groups of each query."""
    production = of("dhc-2020.toml", EIGHT)
    schema, axis = best.universe(name).schema, best.universe(name).schema.axis(attribute)
    plans = [costs(s.universe(name).plan) for s in (best, production)]
    queries = sorted({q for plan in plans for _, q in plan})
    group = np.stack([schema.query(q).groupings[axis].group_of for q in queries])
    rho = [[sum(c for (_, at), c in plan.items() if at == q) for q in queries] for plan in plans]
    by_row: dict[bytes, tuple[Fraction, Fraction]] = {}
    over, pairs, ratio = 0, 0, Fraction(0)
    for a, b in combinations(range(group.shape[1]), 2):
        apart = group[:, a] != group[:, b]
        key = apart.tobytes()
        if key not in by_row:
            by_row[key] = tuple(  # type: ignore[assignment]
                sum((r for r, is_ in zip(of_plan, apart, strict=True) if is_), Fraction(0))
                for of_plan in rho
            )
        ours, theirs = by_row[key]
        over, pairs, ratio = over + (ours > theirs), pairs + 1, max(ratio, ours / theirs)
    return over, pairs, ratio


@pytest.mark.parametrize(
    "name, attribute, over, pairs, ratio",
    [
        (PERSONS, "age", 4036, 6670, "1.6119"),
        (PERSONS, "relgq", 121, 861, "1.0587"),
        (PERSONS, "sex", 0, 1, "0.9998"),
        (PERSONS, "hispanic", 0, 1, "0.9366"),
        (PERSONS, "cenrace", 0, 1953, "0.9997"),
        (HOUSEHOLDS, "hhtype_dhch", 22474, 135981, "1.1458"),
        (HOUSEHOLDS, "sex", 0, 1, "0.7723"),
        (HOUSEHOLDS, "hhage", 0, 36, "0.9216"),
        (HOUSEHOLDS, "hisp", 0, 1, "0.8051"),
        (HOUSEHOLDS, "race", 0, 21, "0.7862"),
        (HOUSEHOLDS, "elderly", 0, 6, "0.9131"),
        (HOUSEHOLDS, "hhtenshort_3lev", 0, 3, "0.9711"),
        (UNITS, "tenvacgq", 0, 595, "0.9999"),
    ],
)
def test_pairs_of_values_of_dhc_best_that_cost_more_are_those_that_docs_list(
    best: DhcSpec, name: str, attribute: str, over: int, pairs: int, ratio: str
) -> None:
    found = pairs_of_values(best, name, attribute)
    assert found[:2] == (over, pairs)
    assert float(found[2]) == pytest.approx(float(ratio), abs=1e-4)


@pytest.mark.parametrize(
    "name, far, tract, group, place",
    [(PERSONS, 0, 9, 32, 32), (UNITS, 0, 0, 0, 0), (HOUSEHOLDS, 0, 24, 101, 101)],
)
def test_kinds_of_pairs_of_dhc_best_that_cost_more_by_the_place_that_they_share(
    best: DhcSpec, name: str, far: int, tract: int, group: int, place: int
) -> None:
    """None of two tracts; some of one tract, of one block group, of one block."""
    u, (whole, shared) = best.universe(name), all_of_production(best, name)
    ours, levels, theirs = costs(u.plan), best.geography.levels, list(strategy.LEVELS)
    sets = told_apart(u.schema, {q for _, q in (*ours, *whole)})
    found = []
    for k, j in enumerate((-1, *(theirs.index(shared[lv]) for lv in levels))):
        found.append(
            sum(_seen(ours, levels, k, told) > _seen(whole, theirs, j + 1, told) for told in sets)
        )
    assert found == [far, far, far, far, tract, group, place]


def _seen(plan: Costs, levels: Sequence[str], shared: int, told: frozenset[str]) -> Fraction:
    return sum(
        (c for (lv, q), c in plan.items() if levels.index(lv) >= shared or q in told), Fraction(0)
    )


def test_epsilon_of_the_dearest_ages_is_what_docs_say(best: DhcSpec) -> None:
    """Age 0 and 1: from 11.909 to 15.681."""
    production = of("dhc-2020.toml", EIGHT)
    found = []
    for s in (production, best):
        u = s.universe(PERSONS)
        axis = u.schema.axis("age")
        tells = {
            d.query
            for d in u.plan.plain
            if len(set(u.schema.query(d.query).groupings[axis].group_of[:2].tolist())) == 2
        }
        age = next(
            c.differing
            for c in s.terms.changes(PERSONS, [d for d in u.plan.plain if d.query in tells])
            if c.what == "age"
        )
        found.append(exact_epsilon(age, s.budget.delta)[1])
    assert found == pytest.approx([11.909, 15.681], abs=1e-3)
