"""The command line: what it prints, and that every mistake gives one message, exit code 2 and no
release.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das.cli import main, running
from das.cli.kit.console import shows_errors
from das.cli.kit.terminal_tables import worse_lines
from das.errors import UserError
from das.evaluate.comparison import Headline
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory
from das.publications.counts.truth import maker
from das.release.estimating import MISFITS, WORSE
from das.release.outcome import Outcome
from das.truth import by_subtree, measuring, run_setup
from tests.altered import sealed
from tests.worlds import Worlds


class SubtreeMoments(NamedTuple):
    code: int
    out: str
    err: str


Das = Callable[..., SubtreeMoments]


@pytest.fixture
def das(capsys: pytest.CaptureFixture[str], root: Path, monkeypatch: pytest.MonkeyPatch) -> Das:
    """Run the command line in the checkout."""
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*args: object) -> SubtreeMoments:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in args])
        out, err = capsys.readouterr()
        return SubtreeMoments(int(end.value.code or 0), out, err)

    return call


@pytest.fixture
def copied(worlds: Worlds, tmp_path: Path) -> Path:
    """A run of a small extract, that a test may damage."""
    return worlds.copy(
        worlds.run("run.seed=1", "geography.spine=tabulation", data="three thousand"),
        tmp_path / "copied",
    )


def refused(said: SubtreeMoments, *words: str) -> None:
    """One message that names the thing, and nothing else on the error stream."""
    assert said.code == 2, said
    assert said.err.startswith("das: "), said.err
    assert said.err.count("das: ") == 1, said.err
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err


# --- what works
# -------------------------------------------------------------------------------------------------


def test_run_says_what_it_wrote_how_long_it_took_and_how_good_it_is(
    das: Das, worlds: Worlds, tmp_path: Path
) -> None:
    data = worlds.data("one thousand")
    said = das(
        "run", "configs/pl94-2010.toml", "--data", data, "--out", tmp_path / "run", "--quiet"
    )
    assert said.code == 0, said.err
    assert said.err == ""
    first = said.out.splitlines()[:5]
    assert [line.split()[0] for line in first] == [
        *("release", "page", "accuracy", "privacy", "next")
    ]
    ledger = json.loads((tmp_path / "run" / "release" / "privacy.json").read_text())["ledger"]
    counties = [
        line
        for line in ledger
        if (line["universe"], line["level"], line["query"]) == ("persons", "County", "total")
    ]
    most = max(counties, key=lambda line: line["units"])
    (margin,) = re.findall(
        r"^total by County was measured to within ±(\d+) \(95 %\)", first[2][10:]
    )
    assert abs(int(margin) - 1.96 * float(Fraction(most["sigma_sq"])) ** 0.5) < 1
    assert re.search(r"epsilon 16\.7\d+ at delta = 1e-10, for one record of each kind", first[3])
    assert first[4].split()[1:4] == ["das", "intervals", str(tmp_path / "run" / "release")]
    assert "not met" not in said.out  # nobody asked for a target
    for part in ("release", "report.html", "written in", " s"):
        assert part in said.out
    assert "error of" not in said.out  # nobody looks: it would be kept in a log
    assert "Mean absolute" not in said.out
    assert "measured units" not in said.out
    assert (
        f"{tmp_path / 'run' / 'confidential' / 'evaluation' / 'errors.csv'}   (confidential"
        in said.out
    )
    assert "NOT PRIVATE" not in said.out
    for page in ("release", "confidential"):  # both are named where a person sees them
        path = tmp_path / "run" / page / "report.html"
        assert path.is_file()
        assert f" {path} " in said.out
    seeded = das(
        "run",
        "configs/pl94-2010.toml",
        "--data",
        data,
        "--out",
        tmp_path / "seeded",
        "--set",
        "run.seed=1",
        "--set",
        "output.report=false",
        "--show-errors",
    )
    assert seeded.code == 0
    _, found, errors = seeded.out.partition("confidential: these errors reveal the true counts.")
    assert found
    for part in ("Mean absolute error", "Block_Group", "as measured", "measured units"):
        assert part in errors
    assert "report" not in seeded.out
    assert not list((tmp_path / "seeded").rglob("report.html"))
    assert "NOT PRIVATE" in seeded.out


def test_a_level_that_is_published_worse_than_measured_has_its_reason_in_one_line() -> None:
    rows = [
        Headline("State", 3, None, 0.0),
        Headline("Tract", 40, 1.36, 1.364),
        Headline("Block_Group", 90, 1.4, 4.72),
        Headline("Block", 900, 70.0, 71.0),
    ]
    assert worse_lines(rows, {"Block_Group": "Tract"}) == [
        "Block_Group 1.40 -> 4.72: group-quarters block groups were fixed from noisier tract counts.",
        "Block 70.00 -> 71.00: counts must agree with all levels and be 0 or more; over few places,"
        " chance adds to it.",
    ]


@pytest.mark.parametrize("settled", [{"L1": "Tract"}, {}])
@pytest.mark.parametrize("spare", [["a third of rho measured the total"], []])
def test_one_line_says_what_other_settings_avoid_and_nothing_of_chance(
    settled: dict[str, str], spare: list[str], tmp_path: Path
) -> None:
    found = [{"universe": "persons", "level": f"L{i}", "query": "total"} for i in range(4)]
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / MISFITS).write_text(json.dumps({WORSE: found}))
    outcome = Outcome(RunDirectory(tmp_path), settled=settled)
    said = [text for name, text in running._settings(outcome, spare) if name == "settings"]
    assert len(said) == bool(settled or spare)
    assert ["fixed from noisier tract counts" in text for text in said] == [bool(settled)] * len(
        said
    )
    assert ["full-information avoids it" in text for text in said] == [bool(settled)] * len(said)
    assert all(spare[0] in text for text in said if spare)
    assert not any("chance" in text for text in said)


@pytest.mark.parametrize("terminal", [True, False])
def test_errors_are_printed_to_who_looks_or_asks(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert shows_errors(False, quiet=False, as_json=False) is terminal
    assert shows_errors(True, quiet=False, as_json=False)
    for never in ({"quiet": True, "as_json": False}, {"quiet": False, "as_json": True}):
        assert not shows_errors(False, **never)
        with pytest.raises(UserError, match="not printed with --quiet or --json"):
            shows_errors(True, **never)


def test_a_run_as_json_says_nothing_of_the_truth(das: Das, worlds: Worlds) -> None:
    """Every number of it is in the release, or a time."""
    run = worlds.run("run.seed=1", data="one thousand")
    said = das(
        "run",
        "configs/pl94-2010.toml",
        "--set",
        "geography.spine=tabulation",
        "--set",
        "run.seed=1",
        "--set",
        "output.report=false",
        "--data",
        worlds.data("one thousand"),
        "--out",
        run,
        "--resume",
        "--json",
    )
    assert said.code == 0, said.err
    assert set(json.loads(said.out)) == {
        "out",
        "release",
        "seconds",
        "report",
        "page",
        "was_finished",
        "worse_than_measured",
        "private",
        "warning",
    }


def test_run_takes_several_files_as_one_nation(das: Das, worlds: Worlds, tmp_path: Path) -> None:
    nj, ny = (worlds.data("three thousand") / f"{ss}2010.pl.zip" for ss in ("nj", "ny"))
    said = das(
        "run",
        "configs/pl94-2010.toml",
        "--data",
        ny,
        "--data",
        nj,
        "--out",
        tmp_path / "run",
        "--set",
        "output.report=false",
    )
    assert said.code == 0, said.err
    table = pd.read_csv(tmp_path / "run" / "release" / "tables" / "P1_State.csv", dtype=str)
    assert list(table["GEOCODE"]) == ["34", "36"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert {s["name"] for s in manifest["inputs"]} == {"nj2010.pl.zip", "ny2010.pl.zip"}


def test_check_prints_the_plan(das: Das) -> None:
    said = das("check", "configs/pl94-2010.toml")
    assert said.code == 0, said.err
    for part in (
        "293764/114921",
        "11417641/152349649",
        "17.1436",
        "1e-10",
        "bounded",
        "discrete-gaussian",
        "hispanic * cenrace",
        "Block_Group",
        "margin",
    ):
        assert part in said.out, part
    pure = das("check", "configs/1940-pure-dp.toml")
    assert pure.code == 0
    assert "epsilon = 1/4" in pure.out


def test_check_as_json_has_exact_costs_and_margins(das: Das) -> None:
    said = das("check", "configs/pl94-2010.toml", "--json", "--set", "budget.rho=1")
    plan = json.loads(said.out)
    assert said.code == 0
    assert plan["neighbours"] == "bounded"
    persons = [
        line for line in plan["plan"] if line["universe"] == "persons" and "class" not in line
    ]  # with siblings
    assert sum(Fraction(line["rho"]) for line in persons) == 1
    at = {(line["level"], line["query"]): line for line in persons}
    line = at["State", "total"]
    assert Fraction(line["rho"]) == Fraction(1440, 4099) * Fraction(3773, 4097)
    assert Fraction(line["sigma_sq"]) == 1 / Fraction(line["rho"])
    assert line["margin_95"] == 3  # sigma = 1.76: P[|X| <= 3] = 0.954, P[|X| <= 2] = 0.84
    assert plan["guarantee"]["persons"]["rho"] == "1"


def test_compare_sets_noisy_beside_published(das: Das, copied: Path) -> None:
    said = das("compare", copied, "--show-errors")
    assert said.code == 0, said.err
    for part in ("MAE noisy", "published", "Tract", "hispanic * cenrace"):
        assert part in said.out
    assert (copied / "confidential" / "compare.html").read_text().count("<svg") >= 4
    rows = json.loads(das("compare", copied, "--json").out)
    assert set(rows) == {"persons", "housing"}
    errors = tallies.read_errors(copied / "confidential" / "evaluation" / "errors.csv")
    expected = [(r.level, r.query, r.bin, r.mae) for r in errors if r.source == "postprocessed"]
    assert [
        (r["level"], r["query"], r["bin"], r["mae_published"]) for r in rows["persons"]
    ] == expected


def test_evaluate_writes_the_errors_again(das: Das, copied: Path) -> None:
    path = copied / "confidential" / "evaluation" / "errors.csv"
    before = path.read_bytes()
    path.unlink()
    said = das("evaluate", copied, "--show-errors")
    assert said.code == 0, said.err
    assert str(path.parent) in said.out
    assert path.name in said.out
    assert path.read_bytes() == before
    rows = json.loads(das("evaluate", copied, "--json").out)
    assert set(rows) == {"persons", "housing"}
    assert rows["persons"][0]["level"] == "US"


def test_evaluate_takes_areas_of_ones_own(das: Das, copied: Path, tmp_path: Path) -> None:
    """They join those that the header of the extract has; one more area is one more row of each
    column.
    """
    tables = copied / "confidential" / "evaluation" / "tables.csv"
    assert {"Place", "County_Subdivision", "Block_Group"} <= set(pd.read_csv(tables)["geography"])
    spine = pq.read_table(copied / "release" / "spine.parquet").to_pandas()
    blocks = spine.loc[spine["level"] == "Block", "geocode"].tolist()
    areas = tmp_path / "wards.csv"
    areas.write_text("area,block\n" + "".join(f"one,{b}\n" for b in blocks) + f"two,{blocks[0]}\n")
    shown = das("evaluate", copied, "--areas", areas, "--show-errors")
    assert shown.code == 0
    assert all(
        text in shown.out for text in ("Errors of areas: wards", "P1", "H1", "RMSE", "tables.csv")
    )
    rows = pd.read_csv(tables)
    total = rows[(rows["column"] == "P0010001") & (rows["size"] == "all")].set_index("geography")
    assert total.loc["wards", "n"] == 2
    assert "Place" in total.index
    areas.write_text("area,block\none,nowhere\n")
    refused(das("evaluate", copied, "--areas", areas), "wards.csv, line 2", "nowhere")


def test_sweep_runs_every_budget_and_draws_them(das: Das, tmp_path: Path) -> None:
    said = das(
        "sweep",
        "configs/1940.toml",
        "--rho",
        "1/10,2",
        "--repeats",
        "2",
        "--out",
        tmp_path / "sweep",
        "--quiet",
    )
    assert said.code == 0, said.err
    rows = pd.read_csv(tmp_path / "sweep" / "sweep.csv")
    runs = rows[["budget_exact", "repeat"]].drop_duplicates()
    assert sorted(map(tuple, runs.to_numpy().tolist())) == [
        ("1/10", 0),
        ("1/10", 1),
        ("2", 0),
        ("2", 1),
    ]
    some = rows[
        (rows["level"] == "Enumdist") & (rows["query"] == "detailed") & (rows["bin"] == "all")
    ]
    noisy = some[some["source"] == "nmf"].groupby("budget")["rmse"].mean()
    assert noisy[0.1] / noisy[2.0] == pytest.approx(20**0.5, rel=0.1)  # sigma is rho^(-1/2)
    page = (tmp_path / "sweep" / "sweep.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert len(list((tmp_path / "sweep" / "runs").iterdir())) == 4
    assert (tmp_path / "sweep").stat().st_mode & 0o777 == 0o700  # errors depend on the truth


def test_a_sweep_keeps_budgets_apart_and_stays_in_its_folder(das: Das, tmp_path: Path) -> None:
    """Budgets that agree in many digits, and a name that points elsewhere."""
    said = das(
        "sweep",
        "configs/1940.toml",
        "--rho",
        "1,1.0000001",
        "--out",
        tmp_path / "a" / "sweep",
        "--quiet",
        "--set",
        "run.name=../../../elsewhere",
    )
    assert said.code == 0, said.err
    assert len(list((tmp_path / "a" / "sweep" / "runs").iterdir())) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["sweep"]


def test_data_simulate_writes_an_extract_that_runs(das: Das, tmp_path: Path) -> None:
    said = das(
        "data",
        "simulate",
        "1940",
        "--out",
        tmp_path / "in",
        "--seed",
        "5",
        "--states",
        "2",
        "--persons",
        "4000",
    )
    assert said.code == 0, said.err
    path = Path(said.out.strip())
    assert path.is_file()
    run = das(
        "run",
        "configs/1940.toml",
        "--data",
        path,
        "--out",
        tmp_path / "run",
        "--set",
        "output.report=false",
    )
    assert run.code == 0, run.err
    assert len(pd.read_parquet(tmp_path / "run" / "release" / "microdata" / "persons")) == 4000
    refused(
        das("data", "simulate", "1940", "--out", tmp_path / "no", "--seed", "5", "--sf1"), "--sf1"
    )
    refused(
        das("data", "simulate", "2010", "--out", tmp_path / "no", "--seed", "5", "--persons", "10"),
        "1000 a state",
    )
    assert not (tmp_path / "no").exists()


def test_data_list_names_official_addresses(das: Das) -> None:
    said = das("data", "list")
    assert said.code == 0
    assert "https://www2.census.gov/" in said.out
    refused(das("data", "fetch", "no-such-file", "--out", "nowhere"), "no-such-file")


def test_help_and_version(das: Das) -> None:
    assert das("--help").code == 0
    assert "0." in das("--version").out
    assert das("run", "--help").code == 0


# --- mistakes in arguments and configuration
# -----------------------------------------------------------------------


def edit(root: Path, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The redistricting configuration with pieces of its text replaced."""
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    path = tmp_path / "edited.toml"
    path.write_text(text, encoding="utf-8")
    return path


CONFIGURATIONS = {
    "wrong key": (
        [("neighbors =", "neighbers =")],
        ["budget.neighbers", "unknown key", "'neighbors'"],
    ),
    "wrong table": (
        [("[constraints]", "[constraint]")],
        ["constraint", "unknown key", "'constraints'"],
    ),
    "shares do not sum to 1": (
        [('Tract = "687/4099"', 'Tract = "688/4099"')],
        ["budget.levels", "4100/4099"],
    ),
    "shares of queries": (
        [('"hispanic * cenrace" = "130/4097"', '"hispanic * cenrace" = "1/4097"')],
        ["budget.queries.US", "3968/4097"],
    ),
    "level missing from the budget": ([('Tract = "687/4099"\n', "")], ["budget.levels", "'Tract'"]),
    "level without queries": (
        [("[budget.queries.Block_Group]", "[budget.queries.Blok_Group]")],
        ["budget.queries", "Block_Group"],
    ),
    "query that does not exist": (
        [('detailed = "189/241"', 'detail = "189/241"')],
        ["budget.queries.US", "'detail'"],
    ),
    "float": ([('rho = "293764/114921"', "rho = 2.56")], ["budget.rho", "2.56", "float", "string"]),
    "float share": (
        [('State = "1440/4099"', "State = 0.35")],
        ["budget.levels.State", "0.35", "float"],
    ),
    "negative budget": ([('rho = "293764/114921"', 'rho = "-1"')], ["-1", "rho"]),
    "no budget": ([('rho = "293764/114921"\n', "")], ["rho", "discrete-gaussian"]),
    "no neighbours": ([('neighbors = "bounded"\n', "")], ["budget.neighbors", "missing"]),
    "not TOML": ([("[run]", "[run")], ["TOML", "edited.toml", "line 7"]),
    "constraint at no level": (
        [('total = "State"', 'total = "Staat"')],
        ["constraints.total", "'Staat'"],
    ),
    "pass with a query twice": (
        [('default = [["total"], ["*"]]', 'default = [["total"], ["total", "*"]]')],
        ["estimation.passes", "a query occurs"],
    ),
    "field that the data do not have": (
        [
            ('"Tract", "Block_Group"', '"Ward", "Block_Group"'),
            ("Tract =", "Ward ="),
            ("[budget.queries.Tract]", "[budget.queries.Ward]"),
            ('Tract = "364/1025"', 'Ward = "364/1025"'),
            ("[housing.budget.queries.Tract]", "[housing.budget.queries.Ward]"),
        ],
        ["'Ward'", "County_Subdivision"],
    ),
}


@pytest.mark.parametrize("changes,words", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_a_wrong_configuration_is_refused_with_its_key(
    das: Das, root: Path, tmp_path: Path, changes: list[tuple[str, str]], words: list[str]
) -> None:
    said = das("run", edit(root, tmp_path, *changes), "--out", tmp_path / "run")
    refused(said, *words)
    assert not (tmp_path / "run").exists()


def test_all_faults_are_told_at_once(das: Das, root: Path, tmp_path: Path) -> None:
    path = edit(
        root, tmp_path, ("neighbors =", "neighbers ="), ('State = "1440/4099"', "State = 0.35")
    )
    refused(
        das("check", path),
        "budget.neighbers",
        "budget.levels.State",
        "budget.neighbors: missing",
        "3 fault",
    )


def test_a_configuration_that_is_not_there_or_not_text(das: Das, tmp_path: Path) -> None:
    refused(
        das("run", tmp_path / "none.toml", "--out", tmp_path / "run"),
        "none.toml",
        "no such configuration",
    )
    (tmp_path / "latin.toml").write_bytes('[run]\nname = "Zürich"\n'.encode("latin-1"))
    refused(das("run", tmp_path / "latin.toml", "--out", tmp_path / "run"), "latin.toml", "utf-8")
    refused(das("check", tmp_path), str(tmp_path))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change,word",
    [
        ("budget.rho", "budget.rho"),
        ("budget.rho=0", "rho"),
        ("budget.rho=1/0", "zero"),
        ("budget.roh=1", "budget.roh"),
        ("budget.rho.x=1", "rho"),
        ("budget.rho=one", "'one'"),
        ("=1", "KEY=VALUE"),
        ("run.seed=-1", "run.seed"),
        ("geography.spine=optimist", "geography.spine"),
        ("estimation.method=guess", "estimation.method"),
    ],
)
def test_a_wrong_change_is_refused(das: Das, tmp_path: Path, change: str, word: str) -> None:
    refused(das("run", "configs/pl94-2010.toml", "--set", change, "--out", tmp_path / "run"), word)
    assert not (tmp_path / "run").exists()


def test_click_refuses_what_is_no_argument(das: Das) -> None:
    for args in (
        ["run"],
        ["run", "configs/pl94-2010.toml", "--workers", "0"],
        ["no-such-command"],
        ["estimate"],
    ):
        said = das(*args)
        assert said.code == 2
        assert "Traceback" not in said.err
        assert said.err


def test_a_folder_that_is_not_empty_is_never_overwritten(das: Das, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("keep")
    for args in (
        ("run", "configs/pl94-2010.toml"),
        ("sweep", "configs/pl94-2010.toml", "--rho", "1"),
        ("estimate", "--from", tmp_path / "run"),
    ):
        refused(das(*args, "--out", tmp_path / "run"), str(tmp_path / "run"), "not empty", "--out")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["mine"]
    (tmp_path / "file").write_text("keep")
    refused(das("run", "configs/pl94-2010.toml", "--out", tmp_path / "file"), "file", "--out")
    refused(
        das("run", "configs/pl94-2010.toml", "--out", tmp_path / "file" / "below"), "below", "--out"
    )
    refused(
        das("sweep", "configs/1940.toml", "--rho", "1", "--out", tmp_path / "file" / "below"),
        "below",
    )
    assert (tmp_path / "file").read_text() == "keep"


@pytest.mark.parametrize("budgets", ["abc", "0", "-1", "1,1", "", "1,,2", "1,0x2", "1/0", "1,2/2"])
def test_a_sweep_over_no_budgets(das: Das, tmp_path: Path, budgets: str) -> None:
    refused(
        das("sweep", "configs/1940.toml", f"--rho={budgets}", "--out", tmp_path / "sweep"), "--rho"
    )
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_of_copies_of_one_seeded_run(das: Das, tmp_path: Path) -> None:
    said = das(
        "sweep",
        "configs/1940.toml",
        "--rho",
        "1",
        "--repeats",
        "2",
        "--set",
        "run.seed=1",
        "--out",
        tmp_path / "s",
    )
    refused(said, "run.seed")


# --- mistakes in the input
# ------------------------------------------------------------------------------------------


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n) for n in archive.namelist()}


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def missing_segment(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    del nj["nj000022010.pl"]


def swapped(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    nj["nj000012010.pl"], nj["nj000022010.pl"] = nj["nj000022010.pl"], nj["nj000012010.pl"]


def other_state(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    nj["nj000012010.pl"] = ny["ny000012010.pl"]


def cut_line(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    nj["njgeo2010.pl"] = nj["njgeo2010.pl"][: 501 * 40 + 123]


def cut_rows(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    nj["njgeo2010.pl"] = nj["njgeo2010.pl"][: 501 * 40]


def cut_segment(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    lines = nj["nj000022010.pl"].splitlines(keepends=True)
    nj["nj000022010.pl"] = b"".join(lines[:-3])


def one_person_more(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    lines = nj["nj000012010.pl"].splitlines(keepends=True)
    at = next(i for i, line in enumerate(nj["njgeo2010.pl"].splitlines()) if line[8:13] == b"75000")
    fields = lines[at].split(b",")
    fields[5] = str(int(fields[5]) + 1).encode()
    nj["nj000012010.pl"] = b"".join([*lines[:at], b",".join(fields), *lines[at + 1 :]])


def other_county(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    """One block of the first county says that it lies in the second."""
    lines = nj["njgeo2010.pl"].splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line[8:13] == b"75000" and line[29:32] == b"001")
    lines[at] = lines[at][:29] + b"003" + lines[at][32:]
    nj["njgeo2010.pl"] = b"".join(lines)


def not_nested(nj: dict[str, bytes], ny: dict[str, bytes]) -> None:
    """Letters where the code of the block should be."""
    lines = nj["njgeo2010.pl"].splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line[8:13] == b"75000")
    lines[at] = lines[at][:54] + b"ABCDEF" + lines[at][60:]
    nj["njgeo2010.pl"] = b"".join(lines)


DAMAGE: dict[Callable[[dict[str, bytes], dict[str, bytes]], None], list[str]] = {
    missing_segment: ["nj000022010.pl", "missing"],
    swapped: ["nj000012010.pl", "line 1"],
    other_state: ["nj000012010.pl", "line 1", "NY"],
    cut_line: ["njgeo2010.pl", "line 41", "123 characters"],
    cut_rows: ["nj0000"],
    cut_segment: ["nj000022010.pl"],
    one_person_more: ["line", "P001"],
    other_county: ["njgeo2010.pl", "340"],
    not_nested: ["njgeo2010.pl", "ABCDEF"],
}


@pytest.mark.parametrize("damage,words", DAMAGE.items(), ids=[d.__name__ for d in DAMAGE])
def test_a_damaged_extract_is_refused_with_its_place(
    das: Das, root: Path, tmp_path: Path, damage: Callable[..., None], words: list[str]
) -> None:
    nj, ny = (members(root / "data" / "pl94_2010" / f"{ss}2010.pl.zip") for ss in ("nj", "ny"))
    damage(nj, ny)
    said = das(
        "run",
        "configs/pl94-2010.toml",
        "--data",
        pack(tmp_path / "nj2010.pl.zip", nj),
        "--out",
        tmp_path / "run",
    )
    refused(said, *words)
    assert not (tmp_path / "run").exists()


def test_input_that_is_not_there(das: Das, root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "nj2010.pl.zip").write_bytes(
        (root / "data" / "pl94_2010" / "nj2010.pl.zip").read_bytes()[:6000]
    )
    (tmp_path / "ny2010.pl.zip").touch()
    for path, word in (
        ("none", "no such"),
        ("empty", "{ss}2010.pl.zip"),
        ("nj2010.pl.zip", "zip"),
        ("ny2010.pl.zip", "empty"),
    ):
        said = das(
            "run", "configs/pl94-2010.toml", "--data", tmp_path / path, "--out", tmp_path / "run"
        )
        refused(said, path, word)
    said = das(
        "run", "configs/1940.toml", "--data", root / "data" / "pl94_2010", "--out", tmp_path / "run"
    )
    refused(said, "pl94_2010")
    assert not (tmp_path / "run").exists()


# --- releases that are not whole
# --------------------------------------------------------------------------------------


def first(copied: Path, pattern: str) -> Path:
    return sorted((copied / "release").glob(pattern))[0]


def lost_spine(copied: Path) -> None:
    (copied / "release" / "spine.parquet").unlink()


def lost_spec(copied: Path) -> None:
    (copied / "release" / "spec.toml").unlink()


def altered_spec(copied: Path) -> None:
    path = copied / "release" / "spec.toml"
    path.write_text(path.read_text().replace('"165/4099"', '"166/4099"'))


def other_query(copied: Path) -> None:
    """A query in the specification that was never measured."""
    path = copied / "release" / "spec.toml"
    path.write_text(path.read_text().replace("hhinstlevels =", '"hhgq * hispanic" =', 1))


def other_levels(copied: Path) -> None:
    """A specification that is sound in itself, and of another spine."""
    path = copied / "release" / "spec.toml"
    path.write_text(path.read_text().replace("Block_Group", "Blockgroup"))


def other_order(copied: Path) -> None:
    path = copied / "release" / "spec.toml"
    path.write_text(path.read_text().replace('"County",\n    "Tract"', '"Tract",\n    "County"'))


def torn_spine(copied: Path) -> None:
    path = copied / "release" / "spine.parquet"
    path.write_bytes(path.read_bytes()[:-50])


def lost_part(copied: Path) -> None:
    first(copied, "nmf/Tract.parquet/DPQuery/*/*.parquet").unlink()


def lost_level(copied: Path) -> None:
    shutil.rmtree(copied / "release" / "nmf" / "Block.parquet")


def lost_constraint(copied: Path) -> None:
    first(copied, "nmf/Block.parquet/Constraint/*/*.parquet").unlink()


def lost_constraints(copied: Path) -> None:
    shutil.rmtree(copied / "release" / "nmf" / "State.parquet" / "Constraint")


def lost_facilities(copied: Path) -> None:
    shutil.rmtree(copied / "release" / "nmf" / "Block.parquet" / "Constraint")


def torn_part(copied: Path) -> None:
    path = first(copied, "nmf/County.parquet/DPQuery/*/*.parquet")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped_bytes(copied: Path) -> None:
    path = first(copied, "nmf/Block.parquet/DPQuery/*/*.parquet")
    content = bytearray(path.read_bytes())
    content[1000:1200] = bytes(200)
    path.write_bytes(content)


def not_parquet(copied: Path) -> None:
    first(copied, "nmf/County.parquet/DPQuery/*/*.parquet").write_text("a,b\n1,2\n")


def other_geocode(copied: Path) -> None:
    rewrite(
        first(copied, "nmf/Tract.parquet/DPQuery/*/*.parquet"),
        "geocode",
        lambda v: ["99999999999", *v[1:]],
    )


def geocode_twice(copied: Path) -> None:
    rewrite(
        first(copied, "nmf/Tract.parquet/DPQuery/*/*.parquet"), "geocode", lambda v: [v[1], *v[1:]]
    )


def rewrite(path: Path, column: str, change: Callable[[list], list]) -> None:
    """The same row groups with the values of one column changed."""
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(g) for g in range(file.num_row_groups)]
    with pq.ParquetWriter(path, groups[0].schema) as out:
        for t in groups:
            at = t.schema.get_field_index(column)
            out.write_table(
                t.set_column(
                    at, column, pa.array(change(t[column].to_pylist()), t.schema.field(at).type)
                )
            )


SPOILT: dict[Callable[[Path], None], list[str]] = {
    lost_spine: ["spine.parquet"],
    lost_spec: ["spec.toml"],
    altered_spec: ["spec.toml", "4100/4099"],
    other_query: ["hhgq * hispanic"],
    other_levels: ["Block_Group"],
    other_order: ["County"],
    torn_spine: ["spine.parquet"],
    lost_part: ["Tract", "34"],
    lost_level: ["Block"],
    lost_constraint: ["hhgq_total_lb", "Block"],
    lost_constraints: ["total", "State"],
    lost_facilities: ["hhgq", "Block"],
    torn_part: ["County.parquet"],
    flipped_bytes: ["Block.parquet"],
    not_parquet: ["County.parquet"],
    other_geocode: ["99999999999", "Tract.parquet"],
    geocode_twice: ["Tract", "34"],
}

#: What no digest tells any more once the release is sealed again.
HIDDEN = {
    other_query,
    lost_part,
    lost_constraint,
    lost_constraints,
    lost_facilities,
    other_geocode,
    geocode_twice,
}


@pytest.mark.parametrize("spoil,words", SPOILT.items(), ids=[s.__name__ for s in SPOILT])
def test_a_release_that_is_not_whole_is_not_estimated_from(
    das: Das, copied: Path, tmp_path: Path, spoil: Callable[[Path], None], words: list[str]
) -> None:
    spoil(copied)
    refused(das("estimate", "--from", copied / "release", "--out", tmp_path / "new"), str(copied))
    if spoil in HIDDEN:
        sealed(copied / "release")
    said = das("estimate", "--from", copied / "release", "--out", tmp_path / "new")
    refused(said, *words)
    assert not list((tmp_path / "new").rglob("*.parquet")) if (tmp_path / "new").exists() else True


def test_estimation_takes_a_run_for_its_release(das: Das, copied: Path, tmp_path: Path) -> None:
    shutil.rmtree(copied / "confidential")
    assert das("estimate", "--from", copied, "--out", tmp_path / "new").code == 0
    assert not (tmp_path / "new" / "confidential").exists()
    table = "tables/P1_County.csv"
    assert (tmp_path / "new" / "release" / table).read_bytes() == (
        copied / "release" / table
    ).read_bytes()


def test_folders_that_are_no_run(das: Das, copied: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("none", "empty"):
        refused(das("evaluate", tmp_path / folder), folder)
        refused(das("compare", tmp_path / folder), folder)
        refused(
            das("estimate", "--from", tmp_path / folder, "--out", tmp_path / "new"),
            folder,
            "release/",
        )
    shutil.rmtree(copied / "confidential")
    refused(das("evaluate", copied), "confidential")
    refused(das("compare", copied), "confidential")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("spoil", [lost_spine, lost_part, torn_part])
def test_a_spoilt_release_is_not_evaluated(
    das: Das, copied: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(copied)
    refused(das("evaluate", copied), "release")


def test_microdata_that_were_altered_are_not_evaluated(das: Das, copied: Path) -> None:
    path = first(copied, "microdata/persons/*.parquet")
    table = pq.read_table(path)
    pq.write_table(table.slice(0, table.num_rows - 1), path)
    refused(das("evaluate", copied), "microdata", "records")


# --- failures that are not the user's
# -------------------------------------------------------------------------------


def test_an_unexpected_failure_is_exit_code_3_with_a_trace(
    das: Das, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the stage has a fault")

    monkeypatch.setattr(measuring, "draw", broken)
    said = das("run", "configs/1940.toml", "--out", tmp_path / "run")
    assert said.code == 3
    assert "Traceback" in said.err
    assert "the stage has a fault" in said.err
    assert not (tmp_path / "run" / "release" / "microdata").exists()
    assert not (tmp_path / "run" / "release" / "privacy.json").exists()
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_an_interruption_says_so(das: Das, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(by_subtree, "assess_release", interrupted)
    said = das("run", "configs/1940.toml", "--out", tmp_path / "run")
    assert said.code == 130
    assert said.err == (
        "das: interrupted\n  measurements are kept; to continue: "
        f"das run configs/1940.toml --out {tmp_path / 'run'} --resume\n"
    )
    refused(das("run", "configs/1940.toml", "--out", tmp_path / "run"), "not empty", "--resume")


def test_a_full_disk_says_how_to_go_on(
    das: Das, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(by_subtree, "assess_release", full)
    said = das("run", "configs/1940.toml", "--out", tmp_path / "run")
    assert said.code == 2
    assert said.err == (
        "das: run: No space left on device\n  measurements are kept; to continue: "
        f"das run configs/1940.toml --out {tmp_path / 'run'} --resume\n"
    )


def test_an_interruption_says_what_is_spent(
    das: Das, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first draw nothing is, and nothing is left behind; within a level nothing that can
    be drawn again, and where that is not kept, what was announced."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for module, name in ((maker, "prepare"), (run_setup.spine_file, "write")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            said = das("run", "configs/1940.toml", "--out", tmp_path / "run")
        assert (said.code, said.err) == (
            130,
            "das: interrupted\n  nothing was measured: no budget is spent\n",
        )
        assert not (tmp_path / "run").exists()
    for name, asked in (("keyed", []), ("forgetful", ["--accept-spent"])):
        with monkeypatch.context() as patch:
            patch.setattr(
                measuring.nmf, "write", lambda *args, **_: next(args[4]) and interrupted()
            )
            said = das(
                "run",
                "configs/1940.toml",
                "--data",
                "data/ext1940",
                "--out",
                tmp_path / name,
                "--set",
                f"run.entropy={name}",
                "--set",
                "output.report=false",
            )
        assert said.code == 130
        words = (
            ["are spent (persons at National)", "the same budget again"]
            if asked
            else ["with the same noise: this costs nothing"]
        )
        assert all(word in said.err for word in words), said.err
        again = said.err.rpartition(": das ")[2].split()
        assert again[-1 - len(asked) :] == ["--resume", *asked]
        if asked:
            refused(das(*again[:-1]), "is spent", "--accept-spent")
        assert das(*again).code == 0


def test_constraints_that_contradict_each_other_are_the_fault_of_the_release(
    das: Das, tmp_path: Path, copied: Path
) -> None:
    """A state total below what its facilities must hold: nothing the release can be repaired
    with."""
    rewrite(
        first(copied, "nmf/State.parquet/Constraint/*/*.parquet"), "value", lambda v: [[0]] * len(v)
    )
    said = das("estimate", "--from", copied / "release", "--out", tmp_path / "new")
    refused(said, "constraints", "altered")
    assert np.sum([p.suffix == ".parquet" for p in (tmp_path / "new").rglob("*")]) == 0


def test_a_run_without_its_ledger_is_not_resumed(das: Das, copied: Path) -> None:
    """Finished or not: its noise would be drawn again, and nobody would count it."""
    (copied / "release" / "ledger.jsonl").unlink()
    said = das("run", "configs/pl94-2010.toml", "--out", copied, "--resume")
    refused(said, "no ledger of them", "start a new run")


def test_a_run_cut_off_before_it_had_begun_has_nothing_to_resume(das: Das, copied: Path) -> None:
    (copied / "confidential" / "inputs.json").unlink()
    said = das("run", "configs/pl94-2010.toml", "--out", copied, "--resume")
    refused(said, "before anything was drawn", "delete the folder")


def test_output_that_nobody_reads_ends_quietly(root: Path) -> None:
    """As `das account CONFIG | head -1`."""
    command = [sys.executable, "-m", "das", "account", "configs/1940-pure-dp.toml"]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""  # in particular no traceback


def test_check_says_how_many_cells_are_impossible(das: Das, tmp_path: Path) -> None:
    """Of all rules together, each cell once, and of each."""
    config = tmp_path / "own.toml"
    config.write_text(
        """
run.name = "own"
data.reader = "table"
data.path = "people.csv"
data.columns.geography = { Village = "village" }
geography.levels = ["All", "Village"]
schema.name = "own"
budget.rho = "1"
budget.neighbors = "bounded"
budget.levels = { All = "1/2", Village = "1/2" }
budget.queries = { All = { detailed = "1" }, Village = { detailed = "1" } }

[schema.attributes]
age = ["child", "adult"]
status = ["single", "married", "widowed"]
sex = ["f", "m"]

[[schema.impossible]]
age = ["child"]
status = ["married", "widowed"]

[[schema.impossible]]
status = ["widowed"]
"""
    )
    code, out, err = das("check", config)
    assert (code, err) == (0, "")
    assert "persons: 6 of 12 cells are impossible" in out
    assert "  4: age child and status married or widowed\n  4: status widowed\n" in out
    assert "persons: 126 of 2,016 cells are impossible" in das("check", "pl94-2010")[1]


@pytest.mark.parametrize("command", ["compare", "evaluate"])
def test_errors_of_a_finished_run_print_to_no_pipe(das: Das, copied: Path, command: str) -> None:
    kept, shown = das(command, copied), das(command, copied, "--show-errors")
    assert kept.code == shown.code == 0
    assert "confidential, and in" in kept.out
    assert "reveal the true counts" not in kept.out
    assert "reveal the true counts" in shown.out
    assert "written: " in kept.out


@pytest.mark.parametrize(
    ("command", "old", "new", "more"),
    [
        ("plan", "--optimise", "--optimize", ("--units", "1,52,3221", "--toml")),
        ("risk marginal", "--neighbours", "--neighbors", ("--rho", "1")),
    ],
)
def test_british_spellings_of_options_are_read_and_not_shown(
    das: Das, root: Path, command: str, old: str, new: str, more: tuple[str, ...]
) -> None:
    first, *rest = command.split()
    given = (root / "configs/pl94-2010.toml", "missing.toml") if first == "plan" else ("bounded",)
    *config, value = given
    said = [das(first, *rest, *config, option, value, *more) for option in (old, new)]
    assert said[0] == said[1]
    assert "No such option" not in said[0][2]
    shown = das(first, *rest, "--help")[1]
    assert (new in shown, old in shown) == (True, False)
