"""Plans whose units of a level have different budgets: the guarantee is that of the worst pair of
places.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from das.accounting import (
    Composition,
    calibrate,
    curve,
    delta,
    epsilon,
    pure,
    tight,
    tradeoff,
    worst_pair,
)
from das.accounting.changes import changes
from das.accounting.draws import compositions, count, record
from das.accounting.guarantee import combine, cost, guarantees
from das.accounting.statement import Terms, account, promises
from das.errors import PrivacyError
from das.model.budget import Neighbours, PlannedMeasurement, UnitPath
from das.model.ledger import Event, Ledger
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.spec import parse

CONFIG = Path(__file__).parents[2] / "configs" / "pl94-2010.toml"
BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED
PRODUCTION = parse(
    CONFIG.read_text(encoding="utf-8"), where="c", overrides=["geography.spine=tabulation"]
).persons.plan
LEVELS = PRODUCTION.levels
#: Shares of 4099 on each path, as an only child's share moves up to its parent (the 2020 production
#: run).
SHARES = {
    "plain": (104, 1440, 447, 687, 1256, 165),
    "a county of one tract": (104, 1440, 1134, 0, 1256, 165),
    "a tract of one group": (104, 1440, 447, 1943, 0, 165),
    "a group of one block": (104, 1440, 447, 687, 1421, 0),
    "a state part of one county, tract and group": (104, 3830, 0, 0, 0, 165),
    "a state part of one block": (104, 3995, 0, 0, 0, 0),
}


def irregular(
    kinds: Mapping[str, tuple[int, ...]] = SHARES, neighbours: Neighbours = BOUNDED
) -> Plan:
    """The production plan with a class for each share that a level's units have."""
    rho, draws, paths = PRODUCTION.cost, {}, []
    for shares in kinds.values():
        paths.append(
            tuple((level, str(share)) for level, share in zip(LEVELS, shares, strict=True))
        )
        for level, share in zip(LEVELS, shares, strict=True):
            whole = sum((d.cost for d in PRODUCTION.at(level)), Fraction(0))
            for d in PRODUCTION.at(level) if share else ():
                part = rho * share * d.cost / whole / 4099
                draws[level, share, d.query] = PlannedMeasurement.priced(
                    level, d.query, DISCRETE_GAUSSIAN, neighbours, part, str(share)
                )
    ordered = sorted(draws.values(), key=lambda d: LEVELS.index(d.level))
    return Plan(neighbours, tuple(ordered), tuple(paths))


def by_hand(plan: Plan, one: UnitPath, other: UnitPath) -> list[tuple[Fraction, int]]:
    return [(d.parameter, 1) for path in (one, other) for d in plan.on(path)]


PLAN = irregular()
DELTA = "1e-10"


def test_every_path_costs_the_budget() -> None:
    assert {sum((d.cost for d in PLAN.on(p)), Fraction(0)) for p in PLAN.paths} == {PRODUCTION.cost}
    assert PLAN.cost == PRODUCTION.cost
    assert PLAN.of_class("Block", "0") == ()
    assert irregular({"plain": SHARES["plain"]}).scaled(Fraction(1)).cost == 1


def test_the_worst_pair_is_not_the_plain_one() -> None:
    """Places on the plain path have 16.4652, in a state part of one county 16.4436, of one block
    16.4101; a move between the first and the last is dearer than within any."""
    kinds = {k: SHARES[k] for k in ("plain", *(k for k in SHARES if k.startswith("a state part")))}
    plan = irregular(kinds)
    same = {
        name: epsilon(by_hand(plan, p, p), DELTA)[1]
        for name, p in zip(kinds, plan.paths, strict=True)
    }
    assert round(same["plain"], 4) == 16.4652
    assert round(same["a state part of one county, tract and group"], 4) == 16.4436
    assert round(same["a state part of one block"], 4) == 16.4101
    low, high = epsilon(plan, DELTA)
    assert round(low, 4) == round(high, 4) == 16.4678
    names = {
        name: [(d.parameter, 1) for d in plan.on(p)]
        for name, p in zip(kinds, plan.paths, strict=True)
    }
    pair, interval = worst_pair(names, DELTA)
    assert set(pair) == {"plain", "a state part of one block"}
    assert interval == (low, high)


TWO = irregular({k: SHARES[k] for k in ("plain", "a state part of one block")})


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_plan_is_as_good_as_its_worst_places(neighbours: Neighbours) -> None:
    plan = irregular({k: SHARES[k] for k in ("plain", "a state part of one block")}, neighbours)
    moves = list(combinations_with_replacement(plan.paths, neighbours.sensitivity))
    each = [
        Composition.from_draws([(d.parameter, 1) for path in move for d in plan.on(path)])
        for move in moves
    ]
    assert set(compositions(plan)) == set(each)
    assert len(each) == {BOUNDED: 3, UNBOUNDED: 2}[neighbours]
    assert {c.rho for c in each} == {PRODUCTION.cost}
    deltas, eps = ["1e-6", DELTA], Fraction(15)
    every = [curve(c, deltas) for c in each]
    assert curve(plan, deltas) == [
        (max(low for low, _ in at), max(high for _, high in at)) for at in zip(*every, strict=True)
    ]
    assert delta(plan, eps)[1] == max(delta(c, eps)[1] for c in each)
    assert tradeoff(plan, ["0.01"])[0][0] == min(tradeoff(c, ["0.01"])[0][0] for c in each)
    assert epsilon(plan, DELTA, "zcdp-tight") == tight(PRODUCTION.cost, Fraction(DELTA))


def test_what_is_calibrated_meets_the_target_between_all_places() -> None:
    """Just so: the target lies between the epsilon of the plain path and that of the worst pair."""
    target = "16.466"
    factor = calibrate(TWO, target, DELTA)
    assert 1 < factor < 1.001
    assert 16.4659999 < epsilon(TWO.scaled(TWO.cost / factor), DELTA)[1] <= Fraction(target)
    assert calibrate(PRODUCTION, target, DELTA) < 1


def test_several_compositions_are_not_taken_for_one() -> None:
    with pytest.raises(
        PrivacyError, match=r"3 pairs of places.*each pair is a composition of its own"
    ):
        Composition.from_draws(TWO)
    events = [Event.from_measurement(d, "persons", 1, 1) for d in TWO.measurements]
    for said in (events, TWO.measurements):
        with pytest.raises(PrivacyError, match="two classes of 'State'"):
            Composition.from_draws(said)
    with pytest.raises(PrivacyError, match="two classes of"):
        record(TWO.measurements, BOUNDED)
    with pytest.raises(PrivacyError, match="composed"):
        Composition.from_draws(
            Plan(
                BOUNDED, (PlannedMeasurement.priced("A", "total", GEOMETRIC, BOUNDED, Fraction(1)),)
            )
        )
    draws = tuple(
        PlannedMeasurement.priced(d.level, d.query, GEOMETRIC, BOUNDED, d.cost, d.unit_class)
        for d in TWO.measurements
    )
    plan = Plan(BOUNDED, draws, TWO.paths)
    ledger = Ledger(
        TWO.cost, spent=[Event.from_measurement(d, "persons", 1, 1) for d in draws], paths=TWO.paths
    )
    assert pure(ledger) == TWO.cost == pure(plan)
    low, high = epsilon(plan, DELTA)
    assert low <= TWO.cost <= high


# --- single changes, and statements
# --------------------------------------------------------------------------


def attribute_epsilons(*kinds: str) -> dict[str, float]:
    plan = irregular({k: SHARES[k] for k in kinds})
    lines = changes(plan.measurements, PL94, LEVELS, (), plan.paths)
    return {c.what: tight(cost("rho", c.differing), Fraction(DELTA)) for c in lines}


def test_the_bureaus_figures_by_attribute_are_those_of_the_plain_path_and_no_upper_bounds() -> None:
    """Its certificates state 7.24, 7.57, 10.04 and 10.08; on other paths an attribute costs
    more.
    """
    plain = attribute_epsilons("plain")
    four = ("hhgq", "votingage", "hispanic", "cenrace")
    assert [round(plain[a], 2) for a in four] == [7.24, 7.57, 10.04, 10.08]
    single = attribute_epsilons("plain", "a county of one tract")
    assert [round(single[a], 2) for a in four[:2]] == [7.45, 7.80]
    group = attribute_epsilons("plain", "a tract of one group", "a group of one block")
    assert [round(group[a], 2) for a in four[2:]] == [10.16, 10.22]
    every = attribute_epsilons(*SHARES)
    assert all(every[a] >= max(plain[a], single[a], group[a]) for a in four)
    assert every["anything"] == plain["anything"] == tight(PRODUCTION.cost, Fraction(DELTA))
    assert all(
        every[x] <= plain[x] + 1e-12 for x in plain if x.startswith("place within")
    )  # shares only move up


def test_a_move_within_a_unit_shares_its_classes() -> None:
    """Two classes of blocks under one class of groups, and a third under another: only the first
    two meet below.
    """

    def priced(level: str, cost: int, unit_class: str) -> PlannedMeasurement:
        return PlannedMeasurement.priced(
            level, "total", DISCRETE_GAUSSIAN, BOUNDED, Fraction(cost), unit_class
        )

    draws = (
        priced("US", 1, "all"),
        priced("Group", 6, "x"),
        priced("Group", 2, "y"),
        priced("Block", 1, "a"),
        priced("Block", 3, "b"),
        priced("Block", 5, "c"),
    )
    paths = tuple(
        (("US", "all"), ("Group", g), ("Block", b)) for g, b in (("x", "a"), ("x", "b"), ("y", "c"))
    )
    lines = {c.what: c.differing for c in changes(draws, PL94, ("US", "Group", "Block"), (), paths)}
    assert cost("rho", lines["anything"]) == 10
    within = {
        what.removeprefix("place within one "): cost("rho", d)
        for what, d in lines.items()
        if what.startswith("place")
    }
    assert within == {"US": 9, "Group": 5}
    assert count(lines["place within one Group"]) == 4  # a-a, a-b, b-b, c-c: b and c share no group
    assert count(lines["place within one US"]) == 6


def test_a_statement_adds_up_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("das.accounting.guarantee.DELTAS", ())  # but that of the terms
    exact: list[tuple[str, str]] = []
    housing = Plan.priced(DISCRETE_GAUSSIAN, BOUNDED, [("US", "total", Fraction(1, 8))])
    terms = Terms(
        DISCRETE_GAUSSIAN,
        BOUNDED,
        Fraction(DELTA),
        LEVELS,
        {"persons": PL94, "housing": PL94},
        {"persons": exact, "housing": exact},
        paths={"persons": TWO.paths},
    )
    draws = {"persons": TWO.measurements, "housing": housing.measurements}
    out = account(terms, draws)
    total = PRODUCTION.cost + Fraction(1, 8)
    assert out.totals == {"persons": PRODUCTION.cost, "housing": Fraction(1, 8), "total": total}
    (row,) = out.guarantee["persons"].epsilon
    assert (row.delta, row.pld) == (Fraction(DELTA), epsilon(TWO, DELTA))
    assert out.guarantee["total"].cost == total
    assert sum(out.spending["persons"].levels.values()) == PRODUCTION.cost
    assert promises(terms, draws).guarantee == out.guarantee
    parts = {u: record(ds, BOUNDED, terms.paths.get(u, ())) for u, ds in draws.items()}
    assert (
        count(combine(parts.values())) == 3
    )  # pairs of places of a person, times one of a housing unit
    assert guarantees("rho", parts, Fraction(DELTA)) == out.guarantee


def test_a_draw_on_no_path_is_never_left_out_of_the_account() -> None:
    stray = PlannedMeasurement.priced(
        "Block", "total", DISCRETE_GAUSSIAN, BOUNDED, Fraction(1), "unheard of"
    )
    terms = Terms(
        DISCRETE_GAUSSIAN,
        BOUNDED,
        Fraction(DELTA),
        LEVELS,
        {"persons": PL94},
        {"persons": []},
        paths={"persons": TWO.paths},
    )
    for account_of in (
        lambda: record((*TWO.measurements, stray), BOUNDED, TWO.paths),
        lambda: account(terms, {"persons": (*TWO.measurements, stray)}),
        lambda: promises(terms, {"persons": (*TWO.measurements, stray)}),
        lambda: changes((*TWO.measurements, stray), PL94, LEVELS, (), TWO.paths),
    ):
        with pytest.raises(PrivacyError, match="'unheard of' at 'Block' is on no path"):
            account_of()


def test_costs_of_two_currencies_are_refused_by_the_account() -> None:
    mixed = (
        PlannedMeasurement.priced("A", "total", DISCRETE_GAUSSIAN, BOUNDED, Fraction(1)),
        PlannedMeasurement.priced("A", "detailed", GEOMETRIC, BOUNDED, Fraction(1)),
    )
    for currency, other in (
        ("rho", "geometric noise is counted in epsilon"),
        ("epsilon", "discrete-gaussian noise is"),
    ):
        with pytest.raises(PrivacyError, match=other):
            cost(currency, record(mixed, BOUNDED))
    with pytest.raises(PrivacyError, match="do not add up"):
        pure([Event.from_measurement(d, "persons", 1, 1) for d in mixed])
