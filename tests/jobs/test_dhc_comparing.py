"""`das compare` of the DHC: published counts against what the noise must give, and two releases
side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das.files.run import tallies
from das.files.run.run_directory import RunDirectory
from das.model.error_rows import DifferenceRow, TwoErrorsRow
from das.tools.comparison.page import compare_two
from tests.commands import Commands
from tests.worlds import Worlds

UNIVERSES = ("persons", "units", "households")


@pytest.fixture(scope="module")
def runs(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two of the same records, copies, for what is found is written into the first."""
    folder = tmp_path_factory.mktemp("two")
    other = worlds.dhc("budget.persons=4", "budget.units=4", "budget.households=4")
    return worlds.copy(worlds.dhc(), folder / "a"), worlds.copy(other, folder / "b")


def test_of_one_run(runs: tuple[Path, Path], commands: Commands) -> None:
    code, out, err = commands.named("compare")(runs[0], "--json")
    assert code == 0, err
    every = json.loads(out)
    assert tuple(every) == UNIVERSES
    for u, rows in every.items():
        errors = {
            (e.level, e.query): e
            for e in tallies.read_errors(RunDirectory(runs[0]).errors_of(u))
            if e.bin == "all"
        }
        for r in (r for r in rows if r["bin"] == "all"):
            e = errors[r["level"], r["query"]]
            assert (r["mae_noisy"], r["mae_theory"]) == (None, e.expected_mae)
            assert r["mae_published"] == e.mae
            if e.expected_mae:
                assert r["ratio"] == pytest.approx(e.mae / e.expected_mae)
    for page in ("compare", "compare-units", "compare-households"):
        text = (runs[0] / "confidential" / f"{page}.html").read_text(encoding="utf-8")
        assert "Confidential" in text
        assert "<svg" in text


def test_of_two_runs(runs: tuple[Path, Path]) -> None:
    a, b = runs
    two = compare_two(a, b)
    assert (two.one_noise, two.truth) == (False, a)
    for u in UNIVERSES:
        errors = {
            (e.level, e.query): (e.mae, e.bias)
            for e in tallies.read_errors(RunDirectory(b).errors_of(u))
            if e.bin == "all"
        }
        for r in two.rows[u]:
            assert isinstance(r, TwoErrorsRow)
            assert (r.mae_b, r.bias_b) == pytest.approx(errors[r.level, r.query])
    assert all(path.parent == a / "confidential" / "evaluation" for path in two.written)
    same = compare_two(a / "release", a / "release")
    assert (same.one_noise, same.truth) == (True, None)
    for rows in same.rows.values():
        assert all(isinstance(r, DifferenceRow) and r.differ == 0 for r in rows)


def test_what_is_not_alike_is_refused(
    runs: tuple[Path, Path], worlds: Worlds, commands: Commands
) -> None:
    other = worlds.run("run.seed=1", data="one thousand")
    code, _, err = commands.named("compare")(runs[0], other)
    assert (code, "its attributes are not those of" in err) == (2, True), err
