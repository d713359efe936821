"""The figures of Kazan and Reiter: their numbers, and that they are drawn the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from das import risk
from studies.__main__ import draw, main
from studies.curves import FORMATS
from studies.figure import Curve, Curves, FigureData
from studies.kazan_reiter import figures
from studies.kazan_reiter.figures import FIGURES, RHO
from studies.kazan_reiter.tiles import Tiles
from tests.risk.oracle import RHO1, RHO2

QUICK = [n for n in FIGURES if n not in ("figure-5", "figure-6")]


def test_the_costs_of_the_application() -> None:
    assert RHO[:2] == (RHO1, RHO2)
    assert all(0.05 < r < 0.052 for r in RHO[2:])  # "levels 3-6 all have rho of about 0.05"


@pytest.mark.parametrize("name", QUICK)
def test_every_figure_is_drawn(name: str) -> None:
    figure = FIGURES[name]()
    image = draw(figure, "svg").decode()
    for panel in figure.panels:
        assert panel.title in image
        if isinstance(panel, Curves):
            assert all(
                np.isfinite([*c.x, *c.y]).all() and len(c.x) == len(c.y) for c in panel.curves
            )


@pytest.mark.parametrize(("rho2", "exact"), [(0.4, 0.310), (1.0, 0.350), (50.0, 0.587)])
def test_figure_6_shows_a_fall_that_the_sampler_does_not(rho2: float, exact: float) -> None:
    assert figures._decided(1, rho2, "exact") == pytest.approx(exact, abs=0.002)
    assert figures._decided(1, rho2, "gibbs-unconstrained") == pytest.approx(0.59, abs=0.004)


def test_the_map_of_figure_4_is_the_decision_map() -> None:
    panel = FIGURES["figure-4"]().panels[0]
    assert isinstance(panel, Tiles)
    made = risk.decision_map(
        [0, 1, 2, 3, 4], panel.y, panel.x, rho1=RHO1, rho2=RHO2, d=27, prior=0.5
    )
    for x1 in range(5):  # class k stands for "least x1* is k - 1"
        assert np.array_equal(made[x1], panel.classes <= x1 + 1)


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(kind: str) -> None:
    """The same figure gives the same file."""
    figure = FigureData("f", [Curves("t", "x", "y", [Curve("c", [1, 2], [3, 4])])])
    image = draw(figure, kind)
    assert image.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[kind])
    assert image == draw(figure, kind)


def test_the_command_writes_the_figures_that_are_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "new" / "f"
    said = CliRunner().invoke(
        main, ["kazan-reiter", "--out", str(out), "--only", "figure-1", "--only", "figure-4"]
    )
    assert said.exit_code == 0, said.output
    assert sorted(p.name for p in out.iterdir()) == ["figure-1.svg", "figure-4.svg"]
    assert "figure-4.svg" in said.output
