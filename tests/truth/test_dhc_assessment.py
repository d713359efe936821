"""What a run of the DHC leaves in ``confidential/evaluation/``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from das.files import rows_csv
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory
from das.model.error_rows import FigureRow, ImpossibleRow
from das.model.measured_spine import MeasuredSpine
from das.model.not_private import COLUMN
from das.publications.dhc.model import strategy
from das.publications.dhc.page import dhc_errors_html
from das.publications.dhc.truth.assessment import FIGURES, IMPOSSIBLE, dhc_errors, write
from tests.dhc_worlds import LEVELS, SIZES, budgeted, counts, on_tree, sealed, tree, world


@pytest.mark.parametrize("private", [True, False])
def test_files_hold_what_was_found(tmp_path: Path, private: bool) -> None:
    spine, mine, other = tree(*SIZES), world(1), world(2)
    over = MeasuredSpine.from_published(spine)
    plans = {
        "persons": strategy.persons(),
        "units": strategy.units(),
        "households": strategy.households(),
    }
    measured = {name: (over, budgeted(of).plan()) for name, of in plans.items()}
    errors = dhc_errors(
        sealed(counts(mine, mine, spine)), counts(other, other, spine), LEVELS, measured
    )
    assert "confidential" in repr(errors)
    assert "confidential" in repr(errors.figures)
    run = RunDirectory(tmp_path / "run")
    run.create()
    write(errors, run, private)
    folder = tmp_path / "run" / "confidential" / "evaluation"
    assert {p.name for p in folder.iterdir()} == {
        FIGURES,
        IMPOSSIBLE,
        "errors.csv",
        "errors-units.csv",
        "errors-households.csv",
    }
    assert rows_csv.read_rows(folder / FIGURES, FigureRow, "figures") == errors.figures
    assert rows_csv.read_rows(folder / IMPOSSIBLE, ImpossibleRow, "counts") == errors.odd
    for name in plans:
        assert tallies.read_errors(run.errors_of(name)) == errors.queries[name]
    assert all((COLUMN in p.read_text()) != private for p in folder.iterdir())
    page = dhc_errors_html(
        errors.figures,
        {"name": "r", "schema": "dhcp", "private": private, "own_spine": False},
        errors.odd,
        errors.queries,
    )
    assert "What was measured of households" in page


def test_errors_of_queries_are_over_the_tree_that_was_measured() -> None:
    """Two tracts in one in what was measured: its units are counted, not those that are
    published.
    """
    spine, coarser, mine, other = tree(2, 8, 24), tree(2, 4, 24), world(3, 24), world(4, 24)
    over = MeasuredSpine.bypassed(coarser, np.arange(24))
    both = counts(mine, mine, spine), counts(other, other, spine)
    measured = {"units": (over, on_tree(budgeted(strategy.units()), over))}
    errors = dhc_errors(sealed(both[0]), both[1], LEVELS, measured)
    (row,) = (
        r
        for r in errors.queries["units"]
        if (r.level, r.query, r.bin) == ("Tract", "tenvacgq", "all")
    )
    true, out = (h["units"]["Block"].up(coarser.up("Block", "Tract"), 4).dense() for h in both)
    assert row.n == 4 * 35
    assert row.mae == pytest.approx(np.abs(out - true).mean())
    assert row.mae > 0
    assert {r.n for r in errors.figures if r.level == "Tract"} == {8}
