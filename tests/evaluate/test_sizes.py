"""Errors by size of the lowest units: by hand, as a run keeps them, and as a picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from das.cli import main
from das.evaluate.errors import size_rows
from das.files import rows_csv
from das.model.error_rows import FIRST_SIZES, SIZES, SizeRow
from das.publications.counts.report import size_chart, size_says
from das.truth.assessment import published_of, truth_of
from tests.worlds import Worlds

COUNT = st.integers(0, 900)


@given(st.lists(st.tuples(COUNT, COUNT), min_size=1, max_size=60))
def test_every_unit_is_in_one_class_and_the_classes_add_up(pairs: list[tuple[int, int]]) -> None:
    published, true = np.array(pairs).T
    rows = size_rows("Block", published, true, None)
    assert sum(r.n for r in rows) == len(pairs)
    assert np.isclose(sum(r.n * r.bias for r in rows), (published - true).sum())
    assert np.isclose(sum(r.n * r.mae for r in rows), np.abs(published - true).sum())
    for r in rows:
        first = FIRST_SIZES[SIZES.index(r.size)]
        assert (true >= first).sum() >= r.n
        assert r.predicted is None
        assert r.bias_low <= r.bias <= r.bias_high


def test_predictions_stand_where_they_are_known() -> None:
    """A unit that is known to be empty is left out; one that is not predicted counts as it is."""
    true, published = np.array([0, 0, 5, 7, 600]), np.array([0, 3, 6, 9, 570])
    expected = np.array([[np.nan, 2.0, 1.5, np.nan, -25.0], [np.nan, np.nan, np.nan, np.nan, 16.0]])
    rows = {r.size: r for r in size_rows("Block", published, true, expected)}
    assert (rows["0"].n, rows["0"].bias, rows["0"].predicted) == (1, 3.0, 2.0)
    assert (rows["1-9"].n, rows["1-9"].bias, rows["1-9"].predicted) == (2, 1.5, 1.5)
    assert (rows["500+"].bias, rows["500+"].predicted) == (-30.0, -25.0)
    assert (rows["0"].intervals, rows["0"].coverage) == (0, None)
    assert (rows["500+"].intervals, rows["500+"].coverage, rows["500+"].width) == (1, 1.0, 62.0)
    expected[1, 4] = 15.0  # 570 and 29 persons do not reach the truth
    (large,) = (r for r in size_rows("Block", published, true, expected) if r.size == "500+")
    assert (large.coverage, large.width) == (0.0, 58.0)
    nothing = size_rows("Block", published, true, np.full((2, 5), np.nan))
    assert nothing == size_rows("Block", published, true, None)


def test_the_sentence_is_what_the_figures_say() -> None:
    rows = [
        SizeRow("Block", "0", 50, 1.0, 1.0, 0.8, 1.2, 1.0),
        SizeRow("Block", "1-9", 50, 4.0, 3.6, 3.0, 4.2, 3.9),
        SizeRow("Block", "200-499", 20, 9.0, 0.2, -1.0, 1.4, -11.6),
        SizeRow("Block", "500+", 3, 40.0, -40.0, -60.0, -20.0, -22.3),  # too few
    ]
    assert size_says(rows) == (
        "On average, the published total of a block of 200 to 499 is right, and that of one of"
        " 1 to 9 is 3.6 persons too high. Predicted without a correction: 11.6 too low and 3.9 too"
        " high."
    )
    drawn = size_chart(rows, 6, 3).svg("sizes", "")
    assert "predicted" in drawn
    alone = size_rows("B", np.array([3]), np.array([4]), None)
    assert "predicted" not in size_chart(alone, 6, 3).svg("sizes", "")


def test_a_run_keeps_them_and_evaluate_predicts_and_draws(worlds: Worlds, tmp_path: Path) -> None:
    run = tmp_path / "run"
    world = worlds.run("run.seed=1", data="three thousand", report=True)
    shutil.copytree(world, run)
    kept, picture = run / "confidential" / "evaluation" / "sizes.csv", tmp_path / "sizes.svg"
    before = rows_csv.read_rows(kept, SizeRow, "errors by size")
    assert all(r.predicted is None for r in before)  # it was not corrected
    done = CliRunner().invoke(main, ["evaluate", str(run), "--picture", str(picture)])
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines()[-1] == f"written: {picture} (confidential)"
    after = rows_csv.read_rows(kept, SizeRow, "errors by size")
    opened, known = truth_of(run)
    level = opened.spine.levels[-1]
    true = known["persons"][level].open("a test").totals()
    published = published_of(opened, ["persons"])["persons"][level].totals()
    assert sum(r.n for r in before) == len(true)
    assert np.isclose(sum(r.n * r.bias for r in after), (published - true).sum())
    assert any(r.predicted is not None for r in after)
    drawn = picture.read_text()
    assert "Confidential" in drawn
    assert "NOT PRIVATE" in drawn
    assert picture.stat().st_mode & 0o077 == 0
    assert size_says(after).split()[0] in drawn
