"""The study of the size bias: over a small extract it makes every table of its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from docs.pages import page
from studies.__main__ import main
from studies.size_bias import cell_step, four_blocks, tables

ROOT = Path(__file__).resolve().parents[2]
EXTRACT = ROOT / "data" / "pl94_2010" / "pa2010.pl.zip"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    given = ["size-bias", "--data", str(EXTRACT), "--runs", "1", "--draws", "2000"]
    said = CliRunner().invoke(
        main, [*given, "--method", "topdown", "--out", str(out)], catch_exceptions=False
    )
    assert said.exit_code == 0, said.output
    return out


def test_it_makes_the_tables_of_the_page(made: Path) -> None:
    """Every table there has the heading of one that is made."""
    text = (made / "size-bias.md").read_text()
    headings = re.findall(
        r"^\s*(\|.*\|)\n\s*\|(?:\s*---\s*\|)+$", page("size-bias").read_text(), re.M
    )
    assert len(headings) >= 4
    assert [h for h in headings if f"{h}\n" not in text] == []


def test_it_keeps_what_it_measured(made: Path) -> None:
    found = json.loads((made / "size-bias.json").read_text())
    line = found["lines"]["topdown: total, blocks of 1 to 9"]
    row = next(r for r in (made / "size-bias.md").read_text().splitlines() if "of 1 to 9" in r)
    assert row.split(" | ")[1].split(" -> ") == [f"{line[k]:#.3g}" for k in ("none", "housing")]
    assert line["housing"] < line["none"]
    assert "<svg" in (made / "size-bias.svg").read_text()


def test_without_the_real_file_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAS_SHARED_DATA", str(tmp_path))
    said = CliRunner().invoke(main, ["size-bias", "--out", str(tmp_path / "out")])
    assert said.exit_code != 0
    assert "--data" in said.output
    assert not (tmp_path / "out").exists()


def test_the_closed_form_is_the_mean_of_draws() -> None:
    found = four_blocks.compared(20_000, np.random.default_rng(3))
    assert [x.formula for x in found] == pytest.approx([x.drawn for x in found], abs=0.15)
    assert len(tables.of_four(found)[1]) == 4


def test_where_all_cells_are_small_no_bias_is_left_to_take_out() -> None:
    """Both sums are fixed, and noise reaches over every cell alike: as in ages by block."""
    people, cells = np.array([40.0, 25.0, 9.0, 2.0]), np.full(38, 2.0)
    bias, mean = cell_step.expected_bias(people, cells)
    assert np.abs(bias.sum(axis=0)).max() < 1e-6
    assert np.abs(bias.sum(axis=1)).max() < 1e-6
    assert np.abs(bias).max() < 0.01 * mean.max()
