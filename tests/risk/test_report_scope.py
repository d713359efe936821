"""A report on the risk leaves no level out, and says what it took instead."""

from das.model.plan import Plan
from das.model.schema import Schema
from das.tools.risk.truth.exposure import (
    OF_PERSONS,
    outlook,
    queries_by_level,
    substituted,
    summary_of_plan,
    summary_of_run,
)

SCHEMA = Schema.from_attributes("people", {"age": ["young", "old"], "sex": ["f", "m"]})
PLAN = Plan.of_rho("1", ["country", "town"], {"total": "1/2", "age": "1/4", "sex": "1/4"})


def test_each_level_has_a_query() -> None:
    assert queries_by_level(PLAN, SCHEMA) == {"country": ("age",), "town": ("age",)}
    assert queries_by_level(PLAN, SCHEMA, ["sex", "total"])["town"] == ("sex", "total")
    taken = queries_by_level(PLAN, SCHEMA, ["detailed"])
    assert taken == {"country": ("age",), "town": ("age",)}
    assert [x.split()[0] for x in substituted(taken, ["detailed"])] == ["country", "town"]
    assert substituted(queries_by_level(PLAN, SCHEMA), []) == []
    assert substituted(queries_by_level(PLAN, SCHEMA, ["sex"]), ["sex"]) == []


def test_the_sentence_is_about_the_lowest_level_and_an_even_prior() -> None:
    rows = outlook(PLAN, [0.02, 0.5], query="age")
    said = summary_of_plan(rows)
    town = next(r for r in rows if r.level == "town" and r.prior == 0.5 and r.levels == 1)
    assert said.startswith("A neighbor who knows everybody else in a town gives it 50.0 %")
    assert f"gives it {100 * town.marginal_posterior:.1f} % on average" in said
    assert f"right {100 * town.decision_probability:.1f} % of the time" in said
    assert summary_of_run([]) == f"{OF_PERSONS} Nobody is alone in a measured cell of this run."
