"""Sweeps: noise against its theory, what is kept and what is made again, and what all of it
costs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import das
from das.errors import RegisterError, SpecError, UserError
from das.evaluate.errors import moments
from das.files.measurements import nmf
from das.files.run.ledger import measurements
from das.files.run.run_directory import RunDirectory
from das.model.error_rows import ErrorRow
from das.model.measurement import Measurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, RHO
from das.model.schema import Schema
from das.model.spine import Spine
from das.register import file
from das.register.book import Cap, Opening
from das.register.entering import RegisterOptions
from das.release import verify
from das.spec import RunSpec, parse
from das.tools.sweep.runs import SweepResult, sweep
from tests.stopped import Killed, Step

BUDGET = Fraction(4)


@pytest.fixture(scope="module")
def spec(root: Path) -> RunSpec:
    return das.load_spec(root / "configs" / "1940.toml")


@pytest.fixture(scope="module")
def data(root: Path, spec: RunSpec) -> list[Path]:
    return [root / p for p in spec.data.path]


@pytest.fixture(scope="module")
def swept(spec: RunSpec, data: list[Path], tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """One budget, both methods, twice, in two processes. Nobody changes it."""
    out = tmp_path_factory.mktemp("sweep") / "sweep"
    return sweep(
        spec,
        [BUDGET],
        out,
        methods=("topdown", "full-information"),
        repeats=2,
        paths=data,
        workers=2,
    )


def test_the_noise_is_what_theory_says_at_every_level_and_query(
    spec: RunSpec, data: list[Path], swept: SweepResult, tmp_path: Path
) -> None:
    """Each mean absolute error is within its sampling error of that of its noise. So are all
    together: 100,000 answers, which noise 3 percent wider or narrower would put ten standard
    deviations away."""
    more = sweep(spec, [BUDGET], tmp_path / "more", repeats=2, paths=data, workers=1)
    once = [
        r.error for r in [*swept.rows, *more.rows] if r.method == "topdown"
    ]  # the other method has the same noise
    rows = [e for e in once if e.source == "nmf" and e.bin == "all" and e.n >= 20]
    assert {(r.level, r.query) for r in rows} >= {
        ("Enumdist", "detailed"),
        ("County", "hhgq"),
        ("State", "detailed"),
    }
    assert max(abs(r.mae_z) for r in rows if r.mae_z is not None) < 5.5
    assert abs(off_by(rows, 1.0)) < 4.5
    assert off_by(rows, 0.97) > 6
    assert off_by(rows, 1.03) < -6


def off_by(rows: list[ErrorRow], factor: float) -> float:
    """How many standard deviations the sum of all absolute errors is above that of noise ``factor``
    times as wide.
    """
    excess = variance = 0.0
    for r in rows:
        assert r.expected_rmse is not None
        m = moments(DISCRETE_GAUSSIAN, (factor * r.expected_rmse) ** 2)
        excess += r.n * (r.mae - m.mean_abs)
        variance += r.n * m.deviation_abs**2
    return excess / variance**0.5


def test_the_table_is_long_and_the_summary_has_intervals(swept: SweepResult) -> None:
    table = pd.read_csv(swept.table, dtype={"budget_exact": str})
    assert len(table) == len(swept.rows)
    runs = table[["budget_exact", "method", "repeat"]].drop_duplicates()
    assert len(runs) == 4
    assert set(table["source"]) == {"nmf", "postprocessed", "estimates"}
    assert set(table[table["source"] == "estimates"]["method"]) == {"full-information"}
    summary = pd.read_csv(swept.summary, dtype={"budget_exact": str})
    keys = ["budget_exact", "method", "level", "query", "source", "bin"]
    means = table.groupby(keys, sort=False)["mae"].mean()
    pd.testing.assert_series_equal(summary.set_index(keys)["mae"], means)
    assert (summary["repeats"] == 2).all()
    inside = summary[(summary["source"] == "postprocessed") & summary["difference"].notna()]
    assert (inside["difference_low"] <= inside["difference"]).all()
    noisy = summary[summary["source"] == "nmf"].set_index(keys)["mae"]
    one = ("4", "topdown", "Enumdist", "detailed")
    assert inside.set_index(keys).loc[
        (*one, "postprocessed", "all"), "difference"
    ] == pytest.approx(means[(*one, "postprocessed", "all")] - noisy[(*one, "nmf", "all")])


def test_intervals_of_the_estimates_cover(swept: SweepResult) -> None:
    rows = [
        r.error
        for r in swept.rows
        if r.error.source == "estimates" and r.error.coverage is not None
    ]
    many = [r for r in rows if r.query == "detailed" and r.n > 1000]
    assert many
    assert 0.86 < np.average([r.coverage for r in many], weights=[r.n for r in many]) < 0.94


def test_the_statement_adds_up_every_run(swept: SweepResult) -> None:
    said = json.loads(swept.statement.read_text())
    each = [
        json.loads(
            (swept.table.parent / "runs" / r["run"] / "release" / "privacy.json").read_text()
        )
        for r in said["runs"]
    ]
    assert [Fraction(s["rho"]["total"]) for s in each] == [BUDGET] * 4
    assert Fraction(said["rho"]["total"]) == 2 * BUDGET  # two noises, each estimated from twice
    assert [(r["run"], r["noise_of"]) for r in said["runs"]] == [
        ("rho-4-topdown-0", None),
        ("rho-4-topdown-1", None),
        ("rho-4-full-information-0", "rho-4-topdown-0"),
        ("rho-4-full-information-1", "rho-4-topdown-1"),
    ]
    assert said["private"] is True
    for words in ("their costs add up", "choosing"):
        assert words in said["what_this_means"]
        assert words in swept.page.read_text()


def test_methods_share_a_noise_and_repeats_do_not(swept: SweepResult) -> None:
    """The same measurements to the byte, hence the same errors of the noise; a release of its own
    for each, that verifies."""
    runs = swept.table.parent / "runs"

    def noise(run: str) -> dict[str, bytes]:
        folder = runs / run / "release" / "nmf"
        return {
            str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        }

    assert noise("rho-4-topdown-0") == noise("rho-4-full-information-0") != noise("rho-4-topdown-1")
    for method in ("topdown", "full-information"):
        verify.statement(runs / f"rho-4-{method}-1" / "release")
    nmf_errors = {(r.method, r.repeat): [] for r in swept.rows}
    for r in swept.rows:
        if r.error.source == "nmf":
            nmf_errors[r.method, r.repeat].append(r.error)
    assert nmf_errors["topdown", 0] == nmf_errors["full-information", 0] != nmf_errors["topdown", 1]


def test_methods_are_compared_on_one_noise(swept: SweepResult) -> None:
    assert swept.paired is not None
    found = pd.read_csv(swept.paired, dtype={"budget_exact": str})
    assert set(found["method"]) == {"full-information"}
    assert set(found["against"]) == {"topdown"}
    assert (found["repeats"] == 2).all()
    mae = {
        (r.method, r.repeat): r.error.mae
        for r in swept.rows
        if (r.error.level, r.error.query, r.error.source, r.error.bin)
        == ("County", "hhgq", "postprocessed", "all")
    }
    row = found[
        (found["level"] == "County") & (found["query"] == "hhgq") & (found["bin"] == "all")
    ].iloc[0]
    d = [mae["full-information", i] - mae["topdown", i] for i in range(2)]
    assert row["difference"] == pytest.approx(np.mean(d))
    reach = 12.7062 * np.std(d, ddof=1) / 2**0.5  # Student's t, one degree of freedom
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(
        (np.mean(d) - reach, np.mean(d) + reach), rel=1e-4
    )


def test_a_method_that_joins_a_sweep_takes_its_noise(
    spec: RunSpec, data: list[Path], swept: SweepResult, tmp_path: Path
) -> None:
    """Resumed with one more method, nothing is measured: neither where a run is finished, nor where
    it was lost and its noise is with the other method's run."""
    out, first = tmp_path / "copy", "rho-4-topdown-0"
    shutil.copytree(swept.table.parent / "runs" / first, out / "runs" / first)
    both = ("topdown", "full-information")
    again = sweep(spec, [BUDGET], out, methods=both, paths=data, resume=True)
    said = json.loads(again.statement.read_text())
    assert Fraction(said["rho"]["total"]) == BUDGET
    ledger = (out / "runs" / first / "release" / "ledger.jsonl").read_bytes()
    shutil.rmtree(out / "runs" / first)
    back = json.loads(
        sweep(spec, [BUDGET], out, methods=both, paths=data, resume=True).statement.read_text()
    )
    assert (out / "runs" / first / "release" / "ledger.jsonl").read_bytes() == ledger
    assert Fraction(back["rho"]["total"]) == BUDGET  # counted once, though both took it over


def test_a_lost_attempt_goes_with_the_noise_to_the_other_method(
    spec: RunSpec, data: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second method takes over the ledger of the first, with what was drawn and lost: counted
    once in all.
    """
    spec = parse(spec.dump(), where="c", overrides=("run.entropy=forgetful",))
    out, both, good = tmp_path / "sweep", ("topdown", "full-information"), nmf.write

    def torn(
        root: Path,
        level: str,
        schema: Schema,
        spine: Spine,
        measurements: Iterable[Measurement],
        subtree: int,
        **more: Any,
    ) -> dict[str, str]:
        if level == "County":
            assert list(measurements)
            raise KeyboardInterrupt
        return good(root, level, schema, spine, measurements, subtree, **more)

    monkeypatch.setattr(nmf, "write", torn)
    with pytest.raises(KeyboardInterrupt):
        sweep(spec, [BUDGET], out, methods=both, paths=data)
    monkeypatch.undo()
    said = json.loads(
        sweep(spec, [BUDGET], out, methods=both, paths=data, resume=True).statement.read_text()
    )
    one, other = said["runs"]
    assert one["interrupted_attempts"] == other["interrupted_attempts"] > 0
    assert other["noise_of"] == one["run"]
    assert Fraction(said["rho"]["total"]) == Fraction(one["rho"]) > BUDGET


def test_noises_that_are_equal_are_two(spec: RunSpec, data: list[Path], tmp_path: Path) -> None:
    """At an absurd budget the noise is zero, and two repeats have the same measurements: both were
    drawn.
    """
    budget = Fraction(10**6)
    found = sweep(spec, [budget], tmp_path / "s", repeats=2, paths=data)
    runs = tmp_path / "s" / "runs"
    one, other = (runs / f"rho-1000000-topdown-{i}" / "release" for i in range(2))
    assert measurements(one) == measurements(other)
    assert (one / "ledger.jsonl").read_bytes() != (
        other / "ledger.jsonl"
    ).read_bytes()  # it names the streams
    assert Fraction(json.loads(found.statement.read_text())["rho"]["total"]) == 2 * budget


def test_finished_runs_are_kept_and_others_made_again(
    spec: RunSpec, data: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run is cut off in its measuring: what it had drawn is drawn again, the same, and
    costs nothing. The third has a folder and no ledger: nothing was drawn, and it is begun anew."""
    out = tmp_path / "sweep"
    good = nmf.write

    def torn(
        root: Path,
        level: str,
        schema: Schema,
        spine: Spine,
        measurements: Iterable[Measurement],
        subtree: int,
        **more: Any,
    ) -> dict[str, str]:
        if "rho-2" in str(root) and level == "County":
            assert list(measurements)
            raise KeyboardInterrupt
        return good(root, level, schema, spine, measurements, subtree, **more)

    monkeypatch.setattr(nmf, "write", torn)
    with pytest.raises(KeyboardInterrupt):
        sweep(spec, [Fraction(1), Fraction(2)], out, paths=data)
    monkeypatch.undo()
    first = out / "runs" / "rho-1-topdown-0"
    before = {p: p.stat().st_mtime_ns for p in first.rglob("*") if p.is_file()}
    assert (first / "manifest.json").exists()
    with pytest.raises(UserError, match="not empty"):
        sweep(spec, [Fraction(1), Fraction(2)], out, paths=data)
    half = out / "runs" / "rho-3-topdown-0"
    RunDirectory(half).create()
    (half / "release" / "half").write_text("half")
    again = sweep(spec, [Fraction(1), Fraction(2), Fraction(3)], out, paths=data, resume=True)
    assert {p: p.stat().st_mtime_ns for p in first.rglob("*") if p.is_file()} == before
    assert not (half / "release" / "half").exists()
    assert list(dict.fromkeys(r.budget for r in again.rows)) == [1, 2, 3]
    said = json.loads(again.statement.read_text())
    assert [(r["rho"], r["interrupted_attempts"]) for r in said["runs"]] == [
        ("1", 0),
        ("2", 0),
        ("3", 0),
    ]
    assert Fraction(said["rho"]["total"]) == 1 + 2 + 3
    for run in (out / "runs").iterdir():
        verify.check(run / "release")
        assert not list(run.rglob("*.key"))


def test_a_sweep_of_other_data_or_settings_is_not_resumed(
    spec: RunSpec, data: list[Path], swept: SweepResult, tmp_path: Path
) -> None:
    out = tmp_path / "copy"
    (out / "runs").mkdir(parents=True)
    run = "rho-4-topdown-0"
    shutil.copytree(swept.table.parent / "runs" / run, out / "runs" / run)
    other = das.load_spec(
        Path(__file__).parents[2] / "configs" / "1940.toml", ["estimation.tolerance=1/3"]
    )
    with pytest.raises(UserError, match="not the one that this run began with"):
        sweep(other, [Fraction(4)], out, paths=data, resume=True)


@pytest.mark.parametrize("methods", [("topdown", "topdown"), ("best",), ("",)])
def test_methods_that_are_none(spec: RunSpec, tmp_path: Path, methods: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match="methods must be different"):
        sweep(spec, [Fraction(1)], tmp_path / "s", methods=methods)
    assert not (tmp_path / "s").exists()


def test_a_run_that_was_made_stays_counted(
    spec: RunSpec, data: list[Path], swept: SweepResult
) -> None:
    """Resumed with a smaller grid, the statement would forget what the other runs have spent."""
    before = swept.statement.read_text()
    for budgets, methods, repeats in (
        ([BUDGET], ("topdown",), 2),
        ([BUDGET], ("topdown", "full-information"), 1),
        ([BUDGET + 1], ("topdown", "full-information"), 2),
    ):
        with pytest.raises(UserError, match="has been made, and is not in this grid"):
            sweep(
                spec,
                budgets,
                swept.table.parent,
                methods=methods,
                repeats=repeats,
                paths=data,
                resume=True,
            )
    assert swept.statement.read_text() == before


def test_what_is_no_sweep_is_not_resumed(spec: RunSpec, data: list[Path], tmp_path: Path) -> None:
    """A release has a privacy.json, too: a sweep would replace it, and add errors to it."""
    run = tmp_path / "run"
    RunDirectory(run).create()
    for name in ("spec.toml", "ledger.jsonl", "privacy.json"):
        (run / "release" / name).write_text("kept")
    for out in (run, run / "release", run / "release" / "ledger.jsonl"):
        with pytest.raises(UserError, match="is no sweep"):
            sweep(spec, [BUDGET], out, paths=data, resume=True)
    with pytest.raises(UserError, match="may be published"):
        sweep(spec, [BUDGET], run / "release" / "new", paths=data, resume=True)
    assert (run / "release" / "privacy.json").read_text() == "kept"
    assert sorted(p.name for p in (run / "release").iterdir()) == [
        "ledger.jsonl",
        "privacy.json",
        "spec.toml",
    ]


def test_each_noise_of_a_sweep_enters_its_register_once(
    spec: RunSpec, data: list[Path], tmp_path: Path
) -> None:
    """Two budgets, one of them by two methods; stopped in the middle, and with room for all or for
    none."""
    out, both = tmp_path / "sweep", ("topdown", "full-information")
    cost = 3 * spec.persons.plan.cost
    most = cost - Fraction(1, 10**9)
    for path, cap in ((tmp_path / "full.jsonl", most), (tmp_path / "r.jsonl", cost)):
        opening = Opening("x", Cap(RHO, cap), "p")
        file.create(path, opening)
    one = spec.persons.plan.cost

    def go(path: Path, *, resume: bool = False, named: bool = True) -> SweepResult:
        office = RegisterOptions(path) if named else None
        return sweep(
            spec, [one, 2 * one], out, methods=both, paths=data, resume=resume, register=office
        )

    with pytest.raises(RegisterError, match="the cap of this register"):
        go(tmp_path / "full.jsonl")
    assert not out.exists()
    assert len(file.read(tmp_path / "full.jsonl").digests) == 1
    with pytest.MonkeyPatch.context() as patch:
        Step(RunDirectory, "write_manifest", 2).arm(patch)
        with pytest.raises(Killed):
            go(tmp_path / "r.jsonl")
    go(tmp_path / "r.jsonl", resume=True)
    found = file.read(tmp_path / "r.jsonl").register
    assert sorted(e.spending.rho for e in found.entries.values()) == [one, 2 * one]
    assert found.left == 0
