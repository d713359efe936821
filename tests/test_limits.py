"""The figures of `docs/explanation/limits.md` and `docs/explanation/method.md` that no other test has."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

import das
from das.estimate.least_squares import LEAST_VARIANCE
from das.noise import discrete_gaussian
from das.rounding.controlled import _TOTAL_WEIGHT
from das.solve.network import _SNAP
from docs import pages


def test_what_the_settings_of_2020_cost(root: Path) -> None:
    text = pages.text("limits")
    plan = das.load_spec(
        root / "configs" / "pl94-2010.toml", ["geography.spine=tabulation"]
    ).persons.plan
    total = next(d for d in plan.at("State") if d.query == "total")
    assert f"{float(total.cost / plan.cost):.1%}".replace("%", " %") in text
    assert f"(sigma = {sqrt(total.parameter):.1f})" in text
    assert (
        f"({float(sum(d.cost for d in plan.at('State')) / plan.cost):.0%} of rho)".replace(
            "%", " %"
        )
        in text
    )
    variance = {(d.level, d.query): float(d.parameter) for d in plan.measurements}
    for query in (
        "votingage",
        "hispanic",
        "cenrace",
        "hispanic * cenrace",
        "votingage * hispanic * cenrace",
        "detailed",
    ):
        us, state = variance["US", query], variance["State", query]
        cells = " | ".join(f"{sqrt(v):.1f}" for v in (us, state, 1 / (1 / us + 1 / state)))
        assert any(f"`{query}`" in line and cells in line for line in text.splitlines()), query


@pytest.mark.parametrize(
    ("sigma_sq", "said"), [(100, "0.1 %"), (10**4, "1.1 %"), (10**6, "8.9 %"), (10**8, "59 %")]
)
def test_how_many_draws_need_more_than_sixteen_bits(sigma_sq: int, said: str) -> None:
    sampler = discrete_gaussian._sampler(Fraction(sigma_sq))
    share = 100 * np.mean(sampler._table == sampler._undecided)
    digits = len(said.split()[0].partition(".")[2])
    assert f"{share:.{digits}f} %" == said
    assert said in pages.text("method")


def test_weights_and_thresholds() -> None:
    text = pages.text("method")
    assert f"weighs {_TOTAL_WEIGHT:.0f} times" in text
    assert f"below {LEAST_VARIANCE} counts" in text
    assert _SNAP == 1e-6
    assert "closer than 1e-6" in text
