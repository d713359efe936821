"""One account of several sources: the seven publications of 2020 by hand, tiny ones by every value
of their noise, and what relations cost by every change there is.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import ceil
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from das.accounting.codec import plain
from das.accounting.draws import Composition
from das.accounting.profile import PrivacyProfile
from das.accounting.sources import (
    SOURCES_FORMAT,
    JointCase,
    JointRelation,
    Multiple,
    PrivacySource,
    Relation,
    Unit,
    joint_account,
    json_schema,
    relations,
    source_list_from_json,
)
from das.accounting.zcdp import tight
from das.errors import SpecError
from das.publications.dhc.model import strategy
from das.publications.sdhc.model.tables import PHSAFE, reach
from das.publications.sdhc.spec import SdhcSpec
from das.spec import load
from tests.accounting.test_shifted import by_sum

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "configs" / "accounts" / "census-2020.json").read_text(encoding="utf-8")
LIST = source_list_from_json(json.loads(TEXT), "census-2020")
DELTA = Fraction(1, 10**10)
NAMED = relations()
#: Of "facts": what one person added or removed costs in each publication, rounded up.
BY_HAND = {
    "P.L. 94-171, persons": ("1/2", "1.278113"),
    "P.L. 94-171, housing units": ("1", "0.074944"),
    "DHC, persons": ("1/2", "2.481100"),
    "DHC, housing units": ("1", "0.883300"),
    "DHC, households": ("1", "6.817200"),
    "Detailed DHC-A": ("1", "4.944000"),
    "Detailed DHC-B": ("2", "17.790604"),
    "Supplemental DHC": ("1", "1.257281"),
}


def sources(value: dict[str, Any] | None = None) -> list[PrivacySource]:
    found = LIST if value is None else source_list_from_json(value, "a test")
    return [s.source(NAMED) for s in found.sources]


def up(value: Fraction) -> str:
    return f"{ceil(value * 10**6) / 10**6:.6f}"


def case(found: JointRelation, alike: bool = False) -> JointCase:
    (one,) = [c for c in found.cases if c.alike is alike and not c.same_invariants]
    return one


def named(value: dict[str, Any], name: str, delta: Fraction = DELTA) -> JointRelation:
    every = joint_account(sources(value), NAMED, delta).relations
    return next(r for r in every if r.name == name)


def listed(*rows: dict[str, Any]) -> dict[str, Any]:
    usual = {"publication": "p", "unit": "person", "neighbours": "unbounded", "from": "here"}
    each = [{"name": f"s{i}", **usual, **row} for i, row in enumerate(rows)]
    return {"format": SOURCES_FORMAT, "name": "a test", "sources": each}


# --- the 2020 Census
# ---------------------------------------------------------------------------------------------------


def test_one_person_in_all_of_2020_by_hand() -> None:
    start = time.process_time()
    found = joint_account(sources(), NAMED, DELTA)
    assert time.process_time() - start < 10
    added = case(found.relations[0])
    lines = {line.source: line for line in added.sources}
    assert {n: (str(x.multiple), up(x.rho)) for n, x in lines.items()} == BY_HAND
    assert up(added.rho) == "35.526542"
    assert up(found.naive) == "22.743518"
    assert all(x.rho == x.multiple * x.stated for x in added.sources)
    dhch = lines["DHC, housing units"].rho + lines["DHC, households"].rho
    assert dhch == Fraction(15401, 2000)
    low, high = added.epsilon.pld
    assert added.epsilon.exact
    assert high - low < 1e-9
    assert (round(low, 4), round(added.epsilon.tight, 4)) == (88.4041, 91.1832)
    replaced, moved = (case(r) for r in found.relations[1:3])
    assert replaced.rho == added.rho + Fraction(293764, 114921) / 2 + Fraction(24811, 10000) + (
        Fraction("4.944")
    )
    assert moved.rho == 2 * added.rho  # of all that changes once, two do
    assert plain(found)["relations"][0]["cases"][0]["rho"] == str(added.rho)


def test_the_draws_of_2020_are_those_of_the_configurations() -> None:
    """From the budgets once more: the list has no number that does not follow from them."""
    stated = {
        s.name: Counter({(d.sigma_sq, d.by): d.answers for d in s.draws or ()})
        for s in LIST.sources
    }
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    redistricting = load(text, where="c", overrides=("geography.spine=tabulation",))
    plans = [u.plan for u in redistricting.universes]
    for name, draws in (
        ("P.L. 94-171, persons", plans[0].measurements),
        ("P.L. 94-171, housing units", plans[1].measurements),
        ("DHC, persons", strategy.persons().plan().measurements),
        ("DHC, housing units", strategy.units().plan().measurements),
        ("DHC, households", strategy.households().plan().measurements),
    ):
        assert stated[name] == Counter((d.parameter, 1) for d in draws), name
    levels = (("2.134", "1.9208", 2), ("0.159", "0.142869", 4), ("0.008", "0.006915", 5))
    a: Counter[tuple[Fraction, int]] = Counter()
    b: Counter[tuple[Fraction, int]] = Counter()
    for persons, households, n in levels:
        for share in ("0.1", "0.9"):
            a[9 / (2 * Fraction(share) * Fraction(persons)), 1] += 9 * n
        b[9 / (2 * Fraction(households)), 1] += 2 * 9 * n
    assert stated["Detailed DHC-A"] == a
    assert stated["Detailed DHC-B"] == b
    text = (ROOT / "configs" / "sdhc-2020-phsafe.toml").read_text(encoding="utf-8")
    sdhc = load(text, where="c")
    assert isinstance(sdhc, SdhcSpec)
    s: Counter[tuple[Fraction, int]] = Counter()
    for d in sdhc.measurements:
        table, group = d.query.split(" ")
        to = reach(table, group, sdhc.tau, PHSAFE)
        assert to is not None
        s[d.parameter, to.by] += to.answers
    assert stated["Supplemental DHC"] == s
    assert any(f"rho = {float(sdhc.tight_cost):.6f}." in line for line in LIST.says)


def test_the_epsilon_of_2020_is_that_of_all_draws_in_one_composition() -> None:
    whole = Composition(())
    for s in LIST.sources:
        times = int(Fraction(BY_HAND[s.name][0]) * s.times)
        for d in s.draws or ():
            p, n = 1 / d.sigma_sq, times * d.answers
            whole += Composition(((p, n),)) if d.by == 1 else Composition((), ((p, d.by, n),))
    low, high = PrivacyProfile(whole).epsilon(DELTA)
    found = case(joint_account(sources(), NAMED[:1], DELTA).relations[0]).epsilon.pld
    assert found[0] <= high
    assert found[1] >= low
    assert abs(found[1] - high) < 1e-9


# --- tiny ones, by every value
# ---------------------------------------------------------------------------------------------------

PERSON = {"rho": "1/6", "draws": [{"sigma_sq": "3", "answers": 1}]}
HOUSEHOLD = {
    "unit": "household",
    "neighbours": "bounded",
    "rho": "1/4",
    "draws": [{"sigma_sq": "4", "answers": 1}],
}
ADDRESS = {
    "unit": "person-and-household",
    "rho": "1/5",
    "draws": [{"sigma_sq": "40", "answers": 1, "by": 4}],
    "multiples": {"replaced": 1, "moved": 2, "household": 1},
}
THREE = listed(PERSON, HOUSEHOLD, ADDRESS)
A, B, C = Fraction(3), Fraction(4), Fraction(40)


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("added-or-removed", [(A, 1, 1), (B, 1, 2), (C, 4, 1)]),
        ("replaced", [(A, 1, 2), (B, 1, 2), (C, 4, 1)]),
        ("moved", [(A, 1, 2), (B, 1, 4), (C, 4, 2)]),
        ("household", [(A, 1, 6), (B, 1, 2), (C, 4, 1)]),
        ("household-moved", [(A, 1, 6), (B, 1, 2), (C, 4, 2)]),
    ],
)
def test_tiny_sources_by_every_value_of_the_noise(
    name: str, draws: list[tuple[Fraction, int, int]]
) -> None:
    """At both ends of epsilon, on either side of delta."""
    goal = Fraction(1, 1000)
    found = case(named(THREE, name, goal))
    assert found.rho == sum(n * k * k / (2 * s) for s, k, n in draws)
    low, high = found.epsilon.pld
    assert found.epsilon.exact
    assert by_sum(draws, low - 1e-6) > float(goal)
    assert by_sum(draws, high + 1e-6) < float(goal)


def test_all_alike_costs_the_square_and_is_a_bound_where_noise_is_small() -> None:
    goal = Fraction(1, 1000)
    found = case(named(THREE, "household", goal), alike=True)
    draws = [(A, 3, 2), (B, 1, 2), (C, 4, 1)]
    assert found.rho == sum(n * k * k / (2 * s) for s, k, n in draws)
    low, high = found.epsilon.pld
    assert not found.epsilon.exact
    assert by_sum(draws, low - 1e-6) > float(goal) > by_sum(draws, low + 1e-6)
    assert high == pytest.approx(tight(found.rho, goal), rel=1e-8)
    large = named(listed(PERSON | {"rho": "1/60", "draws": [{"sigma_sq": "30", "answers": 1}]}),
                  "household")  # fmt: skip
    assert case(large, alike=True).epsilon.exact


# --- properties
# ---------------------------------------------------------------------------------------------------


def test_more_costs_more() -> None:
    """A source more, more persons, a smaller delta: never less; the same twice is twice the rho."""
    one, two = listed(PERSON, HOUSEHOLD), listed(PERSON, HOUSEHOLD, ADDRESS)
    twice = listed(PERSON, HOUSEHOLD, PERSON, HOUSEHOLD)
    for name in (r.name for r in NAMED):
        a, b, c = (case(named(x, name)) for x in (one, two, twice))
        assert a.rho < b.rho
        assert a.epsilon.pld[1] < b.epsilon.pld[0]
        assert c.rho == 2 * a.rho
        assert c.epsilon.pld[0] > a.epsilon.pld[1]
        smaller = case(named(one, name, DELTA / 10)).epsilon
        assert smaller.pld[0] > a.epsilon.pld[1]
        assert a.epsilon.pld[1] <= a.epsilon.tight * (1 + 1e-8) < a.epsilon.simple
    sums = [
        case(joint_account([s.source(relations(n)) for s in source_list_from_json(two, "t").sources], relations(n),
                           DELTA).relations[3]).rho
        for n in (1, 2, 5)
    ]  # fmt: skip
    assert sums == sorted(set(sums))


def test_rho_alone_gives_an_interval_around_what_the_draws_give() -> None:
    known, unknown = listed(PERSON, HOUSEHOLD), listed(PERSON, HOUSEHOLD)
    del unknown["sources"][1]["draws"]
    exact, bound = (case(named(x, "added-or-removed")) for x in (known, unknown))
    assert exact.rho == bound.rho
    assert [line.draws_known for line in bound.sources] == [True, False]
    assert bound.epsilon.pld[0] < exact.epsilon.pld[0]
    assert bound.epsilon.pld[1] > exact.epsilon.pld[1]
    assert (exact.epsilon.exact, bound.epsilon.exact) == (True, False)
    alone = case(named(listed(PERSON), "added-or-removed"))
    assert bound.epsilon.pld[0] == pytest.approx(alone.epsilon.pld[0], abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_k_records_that_are_replaced_cost_no_more_than_the_square_of_k(k: int) -> None:
    """Every way in which k records can each leave one of four answers for another, as the squared
    length of what changes.
    """
    one = [np.eye(4, dtype=int)[b] - np.eye(4, dtype=int)[a] for a, b in permutations(range(4), 2)]
    lengths = [int((sum(vs) ** 2).sum()) for vs in product(one, repeat=k)]
    household = next(r for r in relations(k) if r.name == "household")
    times = household.multiple(Unit.PERSON)
    assert times == Multiple(k, k * k)
    assert max(lengths) == 2 * times.most
    many = np.eye(2 * k, dtype=int)
    apart = sum(many[2 * i] - many[2 * i + 1] for i in range(k))
    assert int((apart**2).sum()) == 2 * times.apart


def test_addresses_without_multiples_are_counted_by_what_always_holds() -> None:
    """n changes of one cost n^2 at most: a person replaced is two, a household of n 2 n."""
    times = {r.name: r.of_addresses() for r in relations(3)}
    assert times == {
        "added-or-removed": 1,
        "replaced": 4,
        "moved": 4,
        "household": 36,
        "household-moved": 144,
    }
    given = {"replaced": 1, "moved": 2, "household": 1}
    assert [r.of_addresses(**given) for r in NAMED] == [1, 1, 2, 1, 2]


def test_every_relation_says_what_changes_of_every_unit() -> None:
    for r in NAMED:
        assert set(r.changed) == set(Unit)
        assert isinstance(r, Relation)
    assert not NAMED[0].same_total
    assert all(r.same_total for r in NAMED[1:])


# --- the format
# ---------------------------------------------------------------------------------------------------


def test_the_list_of_2020_is_valid_by_its_schema() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(TEXT), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(listed(PERSON | {"rho": 0.5}), schema)


def altered(**changes: Any) -> dict[str, Any]:
    value = listed(PERSON)
    value["sources"][0] |= changes
    return {**value, "sources": [{k: v for k, v in value["sources"][0].items() if v is not None}]}


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (altered(rho="1/5"), "its draws cost rho = 1/6"),
        (altered(neighbours="bounded"), "its draws cost rho = 1/3"),
        (altered(rho=0.25), "sources.0.rho"),
        (altered(rho="0"), "must be positive"),
        (altered(unit="family"), "sources.0.unit"),
        (altered(extra=1), "sources.0.extra"),
        (altered(**{"from": None}), "sources.0.from"),
        (altered(draws=[{"sigma_sq": "3", "answers": 0}]), "answers"),
        (altered(draws=[{"sigma_sq": "12", "answers": 1, "by": 2}]), "person-and-household"),
        (altered(multiples={"replaced": 1, "moved": 1, "household": 1}), "multiples"),
        (altered(unit="person-and-household", neighbours="bounded", draws=None), "unbounded"),
        (listed(PERSON, PERSON | {"name": "s0"}), "two sources are called 's0'"),
        ({**listed(PERSON), "sources": []}, "sources"),
        ({**listed(PERSON), "format": "das-sources/2"}, "format"),
    ],
)
def test_what_is_no_list_is_refused_with_its_place(value: dict[str, Any], word: str) -> None:
    with pytest.raises(SpecError) as refused:
        source_list_from_json(value, "mine.json")
    assert word in str(refused.value)
    assert str(refused.value).startswith("mine.json: ")
    assert refused.value.exit_code == 2
