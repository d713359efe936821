"""The specification of the DHC: budgets are production's, times what is asked; what
does not fit is said.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from das.cli.kit.redundant import lines
from das.errors import SpecError
from das.publications.dhc.model import strategy
from das.publications.dhc.spec import DhcSpec, Earlier
from das.release.publications import publication
from das.spec import load, parse

TEXT = (Path(__file__).resolve().parents[2] / "configs" / "dhc-2020.toml").read_text(
    encoding="utf-8"
)
PRODUCTION = (
    'geography.levels=["US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset",'
    ' "Block_Group", "Block"]'
)


def of(*changes: str) -> DhcSpec:
    return load(TEXT, where="c", overrides=changes)


def test_over_the_production_tree_it_costs_what_production_cost() -> None:
    spec = of(PRODUCTION, "budget.levels={}")
    cost = {u.name: u.plan.cost for u in spec.universes}
    assert cost["persons"] == Fraction(24811, 5000)
    assert cost["units"] + cost["households"] == Fraction(15401, 2000)
    assert spec.universe("persons").plan.measurements == strategy.persons().plan().measurements


@pytest.mark.parametrize("times", [Fraction(1, 7), Fraction(3)])
def test_a_budget_times_some_number_is_every_query_times_it(times: Fraction) -> None:
    for name in ("persons", "units", "households"):
        plain, more = of().universe(name).plan, of(f'budget.{name}="{times}"').universe(name).plan
        assert [(d.level, d.query, d.cost * times) for d in plain.measurements] == [
            (d.level, d.query, d.cost) for d in more.measurements
        ]
        assert more.cost == plain.cost * times


def test_each_level_has_the_budget_of_the_level_that_is_named() -> None:
    spec = of('budget.levels={Tract = "County"}')
    tract = {d.query: d.cost for d in spec.universe("persons").plan.at("Tract")}
    assert tract == strategy.persons().rho["County"]
    assert {
        d.query: d.cost for d in of().universe("persons").plan.at("Tract")
    } == strategy.persons().rho["Tract_Subset"]


def test_it_survives_its_dump_which_names_nothing_of_this_machine() -> None:
    spec = of("data.path=/somewhere/secret", "run.seed=3").after(
        Earlier.model_validate(
            {
                "from": "pl94",
                "digest": "ab" * 32,
                "exact": [["State", "total"]],
                "rho": {"persons": "5/2"},
            }
        )
    )
    text = spec.dump()
    assert "secret" not in text
    assert text.startswith("# NOT PRIVATE")
    again = load(text, where="dumped")
    assert again.dump() == text
    assert again.digest == spec.digest
    assert [u.plan.measurements for u in again.universes] == [
        u.plan.measurements for u in spec.universes
    ]


def test_a_level_can_have_shares_of_its_own_with_new_queries_and_without_some() -> None:
    own = 'budget.queries={households={Tract={elderly="1/10", detailed="1/5"}}}'
    spec = of(own, "budget.households=2", 'budget.made_from=["a release"]')
    plan = spec.universe("households").plan
    assert {d.query: d.cost for d in plan.at("Tract")} == {
        "elderly": Fraction(1, 5),
        "detailed": Fraction(2, 5),
    }
    assert {d.query for d in plan.at("Block")} == set(strategy.households().rho["Block"])
    assert "elderly" in spec.universe("households").strategy.outer[1].queries
    assert spec.universe("persons").plan.measurements == of().universe("persons").plan.measurements
    assert "(households) were made from a release" in spec.notes[-1]
    again = load(spec.dump(), where="dumped")
    assert again.universe("households").plan.measurements == plan.measurements


def test_queries_that_what_is_held_fixed_determines_are_named() -> None:
    """None of production's; of persons those of voting age, of households tenure."""
    half = publication("dhc")
    assert half.outlook(of()) == ((), [])
    own = (
        'budget.queries={persons={Tract={detailed="1/10", "votingage * cenrace"="1/10"}},'
        ' households={State={detailed="1/10", hhtenshort_2lev="1/10"}}}'
    )
    _, found = half.outlook(of(own))
    assert [(u.name, m.measurement.level, m.measurement.query) for u, m in found] == [
        ("persons", "Tract", "votingage * cenrace"),
        ("households", "State", "hhtenshort_2lev"),
    ]
    assert "is held fixed at Block" in lines(found, Path("dhc.toml"))[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("budget.persons=0", "0 is not positive"),
        ("budget.persons=much", "much"),
        ("budget.delta=1", "not between 0 and 1"),
        ('budget.levels={Tract = "Parish"}', "'Tract' has no budget of production"),
        ('budget.levels={Parish = "State"}', "'Parish' is not in geography.levels"),
        ('geography.levels=["State", "Parish", "Block"]', "'Parish' has no budget of production"),
        ('geography.levels=["State", "Block", "Block"]', "twice"),
        ("run.entropy=forgetful", "only"),
        ("rounding.objective=nearest", "unknown key"),
        ("budget.person=1", "did you mean 'persons'"),
        ("budget.where=PR", "'US' has no budget"),
        ('budget.queries={people={Block={detailed="1"}}}', "the universes are persons, units"),
        ('budget.queries={persons={Parish={detailed="1"}}}', "'Parish' is not in"),
        ('budget.queries={persons={Block={detailed="0"}}}', "'detailed' costs 0"),
        ("budget.queries={persons={Block={}}}", "must measure some query"),
        ('budget.queries={persons={Block={"sex * aeg"="1"}}}', "aeg"),
        ('budget.queries={persons={Block={"sex * age"="1", "age * sex"="1"}}}', "twice"),
    ],
)
def test_what_does_not_fit_is_said(change: str, says: str) -> None:
    with pytest.raises(SpecError, match=says.replace("(", r"\(")):
        of(change)


def test_a_prior_needs_levels_to_learn_from() -> None:
    with pytest.raises(SpecError, match="is estimated from 3 levels"):
        of('estimation.prior="shares"', 'geography.levels=["State", "Block"]')


def test_puerto_rico_has_budgets_of_its_own() -> None:
    spec = of(
        "budget.where=PR", 'geography.levels=["State", "County", "Tract", "Block_Group", "Block"]'
    )
    assert {d.query: d.cost for d in spec.universe("persons").plan.at("State")} == strategy.persons(
        "PR"
    ).rho["State"]


def test_the_levels_are_the_lower_ones_of_the_earlier_release() -> None:
    levels = ("US", "State", "County", "Tract", "Block_Group", "Block")
    assert of().lower(levels) == 0
    assert of('geography.levels=["County", "Tract", "Block_Group", "Block"]').lower(levels) == 2
    with pytest.raises(SpecError, match="the earlier release has"):
        of('geography.levels=["State", "Tract", "Block_Group", "Block"]').lower(levels)


def test_nobody_takes_it_for_another_configuration() -> None:
    assert load(TEXT, where="c").publication() == "dhc"
    with pytest.raises(SpecError, match="there is no publication 'dch'") as raised:
        load(TEXT, where="c", overrides=["run.publication=dch"])
    assert "did you mean 'dhc'" in str(raised.value)
    with pytest.raises(SpecError, match="the DHC"):
        parse(TEXT, where="c")
