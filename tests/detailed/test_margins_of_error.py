"""Half widths, held against the law of a draw and a normal error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from das.model.budget import PlannedMeasurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism
from das.publications.detailed.estimation.combine import Z, half_widths
from das.publications.detailed.model.tables import ONLY
from tests.detailed.test_combine import NATION
from tests.detailed.worlds import persons


def draw(mechanism: Mechanism) -> PlannedMeasurement:
    return next(p for p in persons(mechanism).plans("us") if p.at == NATION).measurement(ONLY)


@pytest.mark.parametrize("mechanism", [DISCRETE_GAUSSIAN, GEOMETRIC])
@pytest.mark.parametrize("blur", [0.02, 0.1, 0.3, 0.6, 1.2, 1.6])
def test_they_hold_95_percent(mechanism: Mechanism, blur: float) -> None:
    noise, lean = draw(mechanism), 0.8
    error = lean * np.sqrt(noise.variance + blur**2)
    half = float(half_widths(noise, error, lean))
    k = np.arange(-400, 401)
    p = np.exp(-float(mechanism.cost(noise.parameter, 1)) * np.abs(k) ** float(mechanism.power))
    held = (p / p.sum()) @ (ndtr((half / lean - k) / blur) - ndtr((-half / lean - k) / blur))
    assert held == pytest.approx(0.95, abs=0.003)


def test_one_draw_has_its_own_margin() -> None:
    noise = draw(DISCRETE_GAUSSIAN)
    assert float(half_widths(noise, noise.variance**0.5, 1.0)) == 3.0  # 98 %, as 2 holds 92 %
    assert Z * noise.variance**0.5 < 3


def test_what_leans_on_nothing_is_normal() -> None:
    assert float(half_widths(draw(DISCRETE_GAUSSIAN), 2.0, 0.0)) == pytest.approx(2 * Z)
