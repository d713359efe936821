"""The rule for passes where a configuration names none."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

import das
from das import spec as specification
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.model.schema import Attribute, Schema
from das.spec.universes import default_passes

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SCHEMA = Schema(
    "mine",
    (Attribute("sex", ("f", "m")), Attribute("age", tuple(map(str, range(100))))),
    (),
    (),
    None,
)


def plan(**variance: Fraction | int) -> Plan:
    costs = [("L", name.replace("_by_", " * "), Fraction(1, v)) for name, v in variance.items()]
    return Plan.priced(DISCRETE_GAUSSIAN, Neighbours.BOUNDED, costs)


@pytest.mark.parametrize("name", ["pl94-2010", "kazan-reiter", "1940"])
def test_it_gives_the_passes_that_production_chose(name: str) -> None:
    text = (CONFIGS / f"{name}.toml").read_text(encoding="utf-8")
    without = re.sub(r"(?ms)^\[estimation\.passes\].*?(?=^\[)", "", text)
    assert "passes" not in tomllib.loads(without).get("estimation", {})
    chosen = das.load_spec(CONFIGS / f"{name}.toml").persons.passes
    assert specification.parse(without, where=name).persons.passes == chosen


def test_the_total_is_first_only_where_its_cells_say_much_less_of_it() -> None:
    # 200 cells of variance 8: together 1,600, sixteen times 100
    assert default_passes(plan(total=100, detailed=8), SCHEMA, "L", root=False) == (
        ("total",),
        ("detailed",),
    )
    assert default_passes(plan(total=101, detailed=8), SCHEMA, "L", root=False) == (
        ("total", "detailed"),
    )
    # two sexes of variance 20 say 40 of it: more than a quarter of 100, and less of 10
    both = plan(total=100, sex=20, detailed=8)
    assert default_passes(both, SCHEMA, "L", root=False) == (("total", "sex", "detailed"),)
    assert default_passes(plan(total=10, sex=20, detailed=8), SCHEMA, "L", root=False)[0] == (
        "total",
    )


def test_precise_margins_have_a_pass_at_the_root_alone() -> None:
    p = plan(total=1, sex=2, age=3, detailed=8)
    assert default_passes(p, SCHEMA, "L", root=True) == (("total",), ("sex",), ("age", "detailed"))
    assert default_passes(p, SCHEMA, "L", root=False) == (("total",), ("sex", "age", "detailed"))


def test_without_a_finer_query_nothing_is_singled_out() -> None:
    assert default_passes(plan(sex=1, age=1), SCHEMA, "L", root=True) == (("sex", "age"),)
    assert default_passes(plan(detailed=1), SCHEMA, "L", root=True) == (("detailed",),)


def test_the_resolved_specification_has_the_passes_written_out() -> None:
    text = (CONFIGS / "1940.toml").read_text(encoding="utf-8")
    without = re.sub(r"(?ms)^\[estimation\.passes\].*?(?=^\[)", "", text)
    spec = specification.parse(without, where="1940")
    written = tomllib.loads(spec.dump())["estimation"]["passes"]
    assert {lv: tuple(map(tuple, p)) for lv, p in written.items()} == dict(spec.persons.passes)
    again = specification.parse(spec.dump(), where="again")
    assert again.persons.passes == spec.persons.passes
    assert again.dump() == spec.dump()
