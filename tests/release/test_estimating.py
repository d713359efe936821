"""A release that was estimated from another: whole by itself, for every command, and by another
method where asked.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from das import spec
from das.cli import main
from das.errors import ReleaseError
from das.files.measurements import nmf_reader
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory
from das.files.simulators import census_2010 as simulate_2010
from das.publications.published import public as from_release
from das.release import estimating
from das.runs import pipeline
from tests.altered import sealed

CHANGES = ("run.seed=5", "output.report=false", "geography.spine=tabulation")
Das = Callable[..., Result]


def das(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Callable[..., Path]:
    """Makes a run of the redistricting configuration on a very small extract, from one seed."""
    folder = tmp_path_factory.mktemp("world")
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")

    def made(name: str, *changes: str, people: int = 1) -> Path:
        out, data = folder / name, folder / f"data{people}"
        if not data.exists():
            simulate_2010.write(data, seed=people, states=1, persons=1000)
        pipeline.run(spec.parse(text, where="c", overrides=(*CHANGES, *changes)), out, paths=[data])
        return out

    return made


@pytest.fixture(scope="module")
def run(world: Callable[..., Path]) -> Path:
    """Nobody changes it."""
    return world("run")


@pytest.fixture(scope="module")
def informed(run: Path) -> Path:
    """The same measurements, estimated by the other method. Nobody changes it."""
    out = run.parent / "informed"
    done = das("estimate", "--from", run, "--out", out, "--method", "full-information")
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def whole(world: Callable[..., Path]) -> Path:
    """A run by the other method, with the same noise. Nobody changes it."""
    return world("whole", "estimation.method=full-information")


def test_each_row_group_of_a_run_is_decoded_once(
    world: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To estimate, for residuals, areas, the page and the errors; also where the published tree is
    another than the measured."""
    asked: Counter[tuple[Path, int]] = Counter()
    rows = nmf_reader._rows
    monkeypatch.setattr(
        nmf_reader,
        "_rows",
        lambda *key: asked.update([key]) or rows(*key),  # type: ignore[func-returns-value]
    )
    run = world("counted", "output.report=true", "geography.spine=optimized")
    groups = {path for path, _ in asked}
    assert groups == {*run.glob("release/nmf*/*/DPQuery/**/*.parquet")}
    assert set(asked.values()) == {1}


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_without_a_change_the_same_release_comes_again(run: Path, tmp_path: Path) -> None:
    from_release.estimate_from(run / "release", tmp_path / "again")
    assert files(tmp_path / "again" / "release") == files(run / "release")
    manifest = json.loads((tmp_path / "again" / "manifest.json").read_text())
    assert manifest["release"] == str(run / "release")


def test_measurements_are_linked_and_what_is_appended_to_is_not(run: Path, informed: Path) -> None:
    parts = [p.relative_to(run) for p in (run / "release").glob("nmf*/**/*") if p.is_file()]
    assert len(parts) > 10
    assert all(os.path.samefile(run / p, informed / p) for p in parts)
    assert not os.path.samefile(
        run / "release" / "ledger.jsonl", informed / "release" / "ledger.jsonl"
    )


def test_where_nothing_can_be_linked_it_is_copied(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: object) -> None:
        raise OSError("other file system")

    monkeypatch.setattr(os, "link", no)
    from_release.estimate_from(run / "release", tmp_path / "again", changes=["output.tables=false"])
    for kind in ("nmf", "nmf-housing"):
        assert files(tmp_path / "again" / "release" / kind) == files(run / "release" / kind)
    assert {p.stat().st_nlink for p in (tmp_path / "again").rglob("*.parquet") if p.is_file()} == {
        1
    }


def test_another_method_gives_what_a_run_by_it_gives(
    run: Path, informed: Path, whole: Path, tmp_path: Path
) -> None:
    """With one seed the noise is one: whether the method was chosen before or after measuring, the
    release is the same, byte for byte. And back again."""
    assert files(informed / "release") == files(whole / "release")
    assert (
        spec.parse((informed / "release" / "spec.toml").read_text(), where="i").estimation.method
        != "topdown"
    )
    assert files(informed / "release") != files(run / "release")
    from_release.estimate_from(
        informed / "release", tmp_path / "back", changes=["estimation.method=topdown"]
    )
    assert files(tmp_path / "back" / "release") == files(run / "release")


def test_a_correction_is_chosen_before_or_after_measuring(
    world: Callable[..., Path], run: Path, tmp_path: Path
) -> None:
    """One release, byte for byte, of a run with it and of one that had none; the numbers are found
    again, by one worker or by two, and a reader finds them. And back again."""
    corrected, again = world("corrected", "estimation.bias=corrected"), tmp_path / "again"
    from_release.estimate_from(
        run / "release", again, changes=["estimation.bias=corrected"], workers=2
    )
    assert files(again / "release") == files(corrected / "release")
    said = json.loads((again / "release" / "prior.json").read_text())
    assert said["seen"] > 0
    assert min(said["linear"], said["quadratic"]) >= 0 < said["linear"] + said["quadratic"]
    shown = ["estimation.bias=corrected", "output.report=true"]
    from_release.estimate_from(run / "release", tmp_path / "shown", changes=shown)
    page = (tmp_path / "shown" / "release" / "report.html").read_text()
    assert "takes people from large units" in page
    assert f"{said['quadratic']:.3f} <i>m</i>²" in page
    assert "prior.json" in (again / "release" / "dictionary.csv").read_text()
    done = das("account", "verify", again)
    assert done.exit_code == 0, done.output
    from_release.estimate_from(
        corrected / "release", tmp_path / "back", changes=["estimation.bias=none"]
    )
    assert files(tmp_path / "back" / "release") == files(run / "release")


def test_every_command_works_on_it(informed: Path, tmp_path: Path) -> None:
    table = das("tables", informed, "--level", "County", "--table", "P1", "--names", "both")
    assert table.exit_code == 0, table.output
    for command in (
        ["tables"],
        ["account", "verify"],
        ["account"],
        ["nmf", "summary"],
        ["nmf", "verify"],
    ):
        done = das(*command, informed)
        assert done.exit_code == 0, (command, done.output)
    assert das("nmf", "show", informed, "--level", "County", "--query", "total").exit_code == 0
    assert (
        das(
            "estimate",
            "--from",
            informed,
            "--out",
            tmp_path / "new",
            "--set",
            "output.tables=false",
        ).exit_code
        == 0
    )
    for command in (["evaluate"], ["compare"], ["risk"]):
        done = das(*command, informed)
        assert done.exit_code == 2
        assert "there is no truth here" in done.output, (command, done.output)


def test_every_command_works_on_what_another_publisher_measured(run: Path, tmp_path: Path) -> None:
    """Their files alone; what has no ledger is not verified against it, and says so."""
    shutil.copytree(run / "release" / "nmf", tmp_path / "theirs")
    out = tmp_path / "out"
    assert (
        das(
            "estimate", "--from", tmp_path / "theirs", "--out", out, "--method", "full-information"
        ).exit_code
        == 0
    )
    assert json.loads((out / "manifest.json").read_text())["release"] == str(tmp_path / "theirs")
    for command in (["tables"], ["nmf", "summary"], ["nmf", "verify"]):
        done = das(*command, out)
        assert done.exit_code == 0, (command, done.output)
    assert (
        das("estimate", "--from", out, "--out", tmp_path / "new", "--method", "topdown").exit_code
        == 0
    )
    assert compared(out, tmp_path / "new")["one_noise"] is True
    for command, words in (
        ("account verify", "another publisher"),
        ("evaluate", "no truth"),
        ("compare", "no truth"),
    ):
        done = das(*command.split(), out)
        assert done.exit_code == 2
        assert words in done.output, done.output


@pytest.mark.parametrize(
    "change,part",
    [
        ("budget.rho=1", "budget"),
        ("run.seed=6", "run"),
        ("constraints.group_quarters=false", "constraints"),
        ("schema.name=1940-e2e", "--set"),
        ("estimation.method=best", "estimation.method"),
        ("housing.budget.relative=1", "housing"),
    ],
)
def test_what_was_measured_cannot_be_changed(
    run: Path, tmp_path: Path, change: str, part: str
) -> None:
    done = das("estimate", "--from", run, "--out", tmp_path / "new", "--set", change)
    assert done.exit_code == 2
    assert part in done.output, done.output
    assert not (tmp_path / "new").exists()


def test_a_failure_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(estimating, "publish", stopped)
    done = das("estimate", "--from", run, "--out", tmp_path / "new")
    assert done.exit_code == 130
    assert not (tmp_path / "new").exists()


def test_what_another_process_begins_in_the_folder_stays(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger tells what it has spent: without it, the same records could be measured again as
    if for the first time.
    """
    out, looked = tmp_path / "new", RunDirectory.refuse_if_taken

    def then_another_begins(self: RunDirectory) -> None:
        looked(self)
        if not out.exists():
            (out / "release").mkdir(parents=True)
            (out / "release" / "ledger.jsonl").write_text("drawn")

    monkeypatch.setattr(RunDirectory, "refuse_if_taken", then_another_begins)
    done = das("estimate", "--from", run, "--out", out)
    assert done.exit_code == 2, done.output
    assert (out / "release" / "ledger.jsonl").read_text() == "drawn"


@pytest.mark.parametrize("name", ["spec.toml", "ledger.jsonl", "nmf/County.parquet"])
def test_what_was_altered_gets_no_new_seal(run: Path, tmp_path: Path, name: str) -> None:
    """It would look as if it had been stated."""
    shutil.copytree(run / "release", tmp_path / "release")
    path = tmp_path / "release" / name
    if path.is_dir():  # one count
        path = next(p for p in path.rglob("DPQuery/**/*.parquet") if p.is_file())
        file = pq.ParquetFile(path)
        groups = [file.read_row_group(g) for g in range(file.num_row_groups)]
        at = groups[0].schema.get_field_index("value")
        values = groups[0]["value"].to_pylist()
        values[0][0] += 1
        groups[0] = groups[0].set_column(
            at, "value", pa.array(values, groups[0].schema.field(at).type)
        )
        with pq.ParquetWriter(path, groups[0].schema) as out:
            for group in groups:
                out.write_table(group)
    elif name == "ledger.jsonl":
        path.write_text(path.read_text().replace('"begin": ', '"begin":'))
    else:
        path.write_text(path.read_text().replace("[output]", "[output] # altered"))
    with pytest.raises(ReleaseError, match=r"does not match its digest in privacy\.json"):
        from_release.estimate_from(
            tmp_path / "release", tmp_path / "new", changes=["output.tables=false"]
        )
    assert not (tmp_path / "new").exists()


# --- two estimates side by side
# -------------------------------------------------------------------------------------


def compared(*args: object) -> Any:
    done = das("compare", *args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_two_methods_are_held_against_the_truth(run: Path, informed: Path, whole: Path) -> None:
    """Each side's errors are those that its own run has, or would have had; in the confidential
    part, and nowhere else."""
    before = files(run / "release"), files(informed)
    told = compared(run, informed)
    assert (files(run / "release"), files(informed)) == before
    assert told["one_noise"] is True
    assert told["private"] is False  # seeded
    assert told["truth"] == str(run)
    errors = [
        {
            (e.level, e.query): e
            for e in tallies.read_errors(folder / "confidential" / "evaluation" / "errors.csv")
            if (e.source, e.bin) == ("postprocessed", "all")
        }
        for folder in (run, whole)
    ]
    rows = told["rows"]["persons"]
    assert {(r["level"], r["query"]) for r in rows} == set(errors[0])
    for r in rows:
        a, b = (e[r["level"], r["query"]] for e in errors)
        assert (r["n"], r["mae_a"], r["mae_b"]) == (a.n, a.mae, b.mae)
        assert (r["rmse_a"], r["rmse_b"], r["bias_a"], r["bias_b"]) == (
            a.rmse,
            b.rmse,
            a.bias,
            b.bias,
        )
        assert r["difference"] == pytest.approx(b.mae - a.mae)
        if r["difference_low"] is not None:
            assert r["difference_low"] <= r["difference"] <= r["difference_high"]
    table = run / "confidential" / "evaluation" / f"compare-{run.name}-informed.csv"
    assert [row["mae_b"] for row in rows] == pd.read_csv(table)["mae_b"].tolist()
    back = compared(informed, run)["rows"]["housing"]
    assert [r["mae_a"] for r in back] == [r["mae_b"] for r in told["rows"]["housing"]]
    shown = das("compare", run, informed)
    assert "the same noisy measurements" in shown.output
    assert "confidential" in shown.output


def test_without_the_truth_published_counts_are_compared(run: Path, informed: Path) -> None:
    """From the releases alone; the tables say the same."""
    before = files(run)
    told = compared(run / "release", informed)
    assert files(run) == before
    assert told["truth"] is None
    by = {(r["level"], r["query"]): r for r in told["rows"]["persons"]}
    for level in ("County", "Tract", "Block"):
        a, b = (
            pd.read_csv(f / "release" / "tables" / f"P1_{level}.csv")["P0010001"]
            for f in (run, informed)
        )
        r, d = by[level, "total"], b - a
        assert (r["n"], r["differ"], r["largest"]) == (len(d), int((d != 0).sum()), d.abs().max())
        assert r["mean_absolute"] == pytest.approx(d.abs().mean())
        assert r["root_mean_square"] == pytest.approx((d**2).mean() ** 0.5)
        assert r["mean"] == pytest.approx(d.mean())
    assert any(r["differ"] for r in by.values())
    assert all(
        r["differ"] == 0 for rows in compared(informed, informed)["rows"].values() for r in rows
    )
    assert (
        compared(run / "release", informed, "--truth", run)["rows"]
        == compared(run, informed)["rows"]
    )


def test_what_cannot_be_compared_is_refused(
    run: Path, informed: Path, world: Callable[..., Path], tmp_path: Path
) -> None:
    other = world("other", "output.tables=false", people=2)
    for args, words in (
        ((run, other), "its places"),
        ((run, "--truth", run), "goes with two"),
        ((informed, informed, "--truth", informed), "no truth"),
        ((run, tmp_path), "spec.toml"),
    ):
        done = das("compare", *args)
        assert done.exit_code == 2
        assert words in done.output, done.output


def test_constraints_that_contradict_each_other_are_the_fault_of_the_release(
    run: Path, tmp_path: Path
) -> None:
    """Somebody set all upper bounds to zero: there is no place for the persons of the state."""
    copied = Path(shutil.copytree(run / "release", tmp_path / "copied"))
    for path in (copied / "nmf" / "Block.parquet" / "Constraint").rglob("*.parquet"):
        table = pq.read_table(path)
        upper = [n.endswith("_ub_con") for n in table["query_name"].to_pylist()]
        values = [
            [0] * len(v) if u else v for u, v in zip(upper, table["value"].to_pylist(), strict=True)
        ]
        at = table.column_names.index("value")
        pq.write_table(
            table.set_column(at, "value", pa.array(values, table.schema.field(at).type)), path
        )
    sealed(copied)
    done = das("estimate", "--from", copied, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "cannot be met together" in done.output
    assert not (tmp_path / "out").exists()
