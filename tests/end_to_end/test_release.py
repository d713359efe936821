"""A whole run on the shipped 2010 extract, held against its input and against itself by independent
means.
"""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from das import spec
from das.engine import Silent, executor
from das.files.run import tallies
from das.publications.published.public import estimate_from
from das.release import post_processing
from das.release.opened import open_release
from das.runs import pipeline
from das.spec import RunSpec
from das.truth import assessment
from tests.end_to_end import independent as free
from tests.worlds import Worlds

LEVELS = ["US", "State", "County", "Tract", "Block_Group", "Block"]


def load(root: Path, name: str, *changes: str) -> RunSpec:
    text = (root / "configs" / f"{name}.toml").read_text(encoding="utf-8")
    return spec.parse(text, where=name, overrides=changes)


@pytest.fixture(scope="module")
def zips(root: Path) -> list[Path]:
    return sorted((root / "data" / "pl94_2010").glob("*.zip"))


@pytest.fixture(scope="module")
def truth(zips: list[Path]) -> pd.DataFrame:
    return free.published_rows(zips)


@pytest.fixture(scope="module")
def few(worlds: Worlds) -> pd.DataFrame:
    """The true counts of three thousand persons."""
    return free.published_rows(sorted(worlds.data("three thousand").glob("*.zip")))


@pytest.fixture
def seeded(worlds: Worlds) -> Path:
    return worlds.run("run.seed=1", "geography.spine=optimized")


@pytest.fixture
def small(worlds: Worlds) -> Path:
    """A release of fewer persons, with its pages."""
    return worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand", report=True)


@pytest.fixture
def private(worlds: Worlds) -> Path:
    return worlds.run("geography.spine=optimized", data="three thousand", report=True)


def test_the_shipped_extract_is_what_these_tests_need(truth: pd.DataFrame) -> None:
    no_unit, empty = truth["H0010001"] == 0, truth["P0010001"] == 0
    assert (no_unit & empty).any()
    assert (no_unit & ~empty).any()
    assert ((truth["H0010002"] == 0) & ~no_unit & ~empty).any() or (no_unit & ~empty).sum() > 1
    assert truth["P0010001"].sum() == 12_000


def test_every_invariant_holds(seeded: Path, truth: pd.DataFrame) -> None:
    free.assert_invariants(seeded / "release", truth)


def test_the_microdata_give_every_table_and_every_parent_is_the_sum_of_its_children(
    seeded: Path, truth: pd.DataFrame
) -> None:
    free.assert_tables(seeded / "release", truth)


def test_the_microdata_give_the_histogram_of_every_level(seeded: Path) -> None:
    """All 2,016 cells of all levels, as estimation hands them on: of the measured blocks, added up
    the published spine.
    """
    opened = open_release(seeded / "release")
    with executor(1) as pool:
        released = post_processing.estimate(opened, opened.spec.persons, pool, Silent())
    blocks = opened.tree(opened.spec.persons).published(
        released.histograms["Block"], opened.spine.units("Block")
    )
    histograms = blocks.upward(opened.spine)
    people = free.persons(seeded / "release")
    g, v, h, r = (people[c] for c in ("GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"))
    cell = ((g * 2 + v - 1) * 2 + h - 1) * 63 + r - 1
    for level in opened.spine.levels:
        codes = opened.spine.geocodes(level)
        number = {code: i for i, code in enumerate(codes.tolist())}
        expected = np.zeros((len(codes), 2016), dtype=np.int64)
        np.add.at(expected, (free.units_of(people["block"], level).map(number), cell), 1)
        assert np.array_equal(histograms[level].dense(), expected), level


def test_the_noise_is_where_the_plan_puts_it(seeded: Path, truth: pd.DataFrame) -> None:
    """State totals at the production budget: sigma is 0.9 persons; blocks: 89. And tables differ
    from the truth.
    """
    nmf = pd.read_parquet(seeded / "release" / "nmf" / "Block.parquet" / "DPQuery")
    total = nmf[nmf["query_name"] == "total_dpq"].set_index("geocode")["value"].map(lambda v: v[0])
    error = (
        total.rename(lambda code: code[-16:]) - truth["P0010001"]
    ).dropna()  # others were not measured
    assert len(error) > len(truth) / 2
    plan = load_plan(seeded)["Block", "total"]
    assert 0.8 < error.std() / float(plan) ** 0.5 < 1.2
    assert (free.tables(seeded / "release", "Block")["P0010001"] != truth["P0010001"]).mean() > 0.3


def load_plan(run: Path) -> dict[tuple[str, str], Fraction]:
    ledger = free.read_json(run / "release" / "privacy.json")["ledger"]
    return {
        (e["level"], e["query"]): Fraction(e["sigma_sq"])
        for e in ledger
        if e["universe"] == "persons"
    }


def test_the_privacy_statement_adds_up(private: Path) -> None:
    statement = free.read_json(private / "release" / "privacy.json")
    rho = {k: Fraction(v) for k, v in statement["rho"].items()}
    assert rho["persons"] == Fraction(293764, 114921)
    assert rho["housing"] == Fraction(11417641, 152349649)
    assert rho["total"] == rho["persons"] + rho["housing"]
    for universe in ("persons", "housing"):
        lines = [e for e in statement["ledger"] if e["universe"] == universe]
        paths = [p for p in statement["paths"][universe] if p["classes"]]
        assert len(paths) > 1
        for path in paths:  # what a person in one of these places sees
            seen = [e for e in lines if path["classes"].get(e["level"]) == e["class"]]
            assert sum(Fraction(e["rho"]) for e in seen) == rho[universe], path
        assert all(
            Fraction(e["sigma_sq"]) == 1 / Fraction(e["rho"]) for e in lines
        )  # bounded neighbors
    assert statement["neighbours"] == "bounded"
    assert statement["mechanism"] == "discrete-gaussian"
    tight = {e["delta"]: e["zcdp-tight"] for e in statement["guarantee"]["persons"]["epsilon"]}
    assert tight["1e-10"] == pytest.approx(17.1436, abs=1e-4)  # the Bureau's published 17.14
    outside = {(c["constraint"], c["level"]) for c in statement["outside_the_guarantee"]}
    assert outside == {
        ("joint_total", "State"),
        ("hhgq_total_lb", "Block"),
        ("hhgq_total_ub", "Block"),
        ("total", "Block"),
    }


def test_the_manifest_names_inputs_and_outputs_by_their_digests(
    seeded: Path, zips: list[Path]
) -> None:
    manifest = free.read_json(seeded / "manifest.json")
    assert {s["name"]: s["sha256"] for s in manifest["inputs"]} == {
        p.name: free.digests(p.parent)[p.name] for p in zips
    }
    assert {
        f"release/{k}": v for k, v in free.digests(seeded / "release").items()
    }.items() <= manifest["outputs"].items()
    stages = {s["name"]: s for s in manifest["stages"]}
    assert {"read", "measure", "estimate and round", "microdata and tables", "evaluate"} <= set(
        stages
    )
    assert all(s["peak_mb"] > 0 and s["seconds"] >= 0 for s in stages.values())


def test_the_truth_stays_in_a_folder_of_its_owner_alone(private: Path) -> None:
    assert (private / "confidential").stat().st_mode & 0o777 == 0o700
    assert not list((private / "release").rglob("*errors*"))
    assert not list((private / "release").rglob(".*"))  # no draft is left
    text = (private / "release" / "spec.toml").read_text()
    assert "path" not in text  # where the input lies is nobody's business


def test_group_quarters_that_were_assigned_are_not_shown_as_counted(
    root: Path, private: Path, tmp_path: Path
) -> None:
    """2010 files without Summary File 1: the table, its CSV and the page say so, from the run and
    from its release.
    """
    estimate_from(private / "release", tmp_path / "again")
    for release in (private / "release", tmp_path / "again" / "release"):
        assert (
            "(hhgq) was assigned"
            in free.read_json(release / "privacy.json")["assigned"]["persons"]["hhgq"]
        )
        for level in LEVELS:
            p5 = pd.read_csv(release / "tables" / f"P5_{level}.csv", dtype=str)
            assert list(p5.columns[-2:]) == ["P0050010", "NOT COUNTED"]
            assert set(p5["NOT COUNTED"]) == {"hhgq assigned"}
        for name in ("P1", "P2", "P3", "P4", "H1"):
            assert "NOT COUNTED" not in (release / "tables" / f"{name}_State.csv").read_text()
        page = (release / "report.html").read_text()
        assert "Major group quarters type (NOT COUNTED: hhgq assigned)" in page
        assert "Voting age (NOT COUNTED" not in page
        assert "A 0 there does not mean that nobody lives in such a place" in page
        assert "(hhgq) was assigned, not counted" in (release / "privacy.html").read_text()
    errors = pd.read_csv(
        private / "confidential" / "evaluation" / "tables.csv", usecols=["table", "label"]
    )
    assert (
        errors["label"].str.endswith("(NOT COUNTED: hhgq assigned)") == (errors["table"] == "P5")
    ).all()


def test_a_seeded_run_says_that_it_is_not_private(small: Path, private: Path) -> None:
    for path in (small / "manifest.json", small / "release" / "privacy.json"):
        said = free.read_json(path)
        assert said["private"] is False
        assert "NOT PRIVATE" in said["entropy"]
    assert "not private" in (small / "confidential" / "report.html").read_text().lower()
    for path in (private / "manifest.json", private / "release" / "privacy.json"):
        said = free.read_json(path)
        assert said["private"] is True
        assert "NOT PRIVATE" not in said["entropy"]
    assert "not private" not in (private / "confidential" / "report.html").read_text().lower()


def test_a_seeded_run_repeats_bit_for_bit_with_two_processes(
    root: Path, worlds: Worlds, small: Path, tmp_path: Path
) -> None:
    """The real command, with two workers: all of ``release/`` is the same."""
    command = [
        sys.executable,
        "-m",
        "das",
        "run",
        "configs/pl94-2010.toml",
        "--set",
        "run.seed=1",
        "--workers",
        "2",
        "--data",
        str(worlds.data("three thousand")),
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "NOT PRIVATE" in done.stdout
    assert done.stderr == ""  # not a terminal: no display
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("settings ")]
    told = "up to 32.35 % of rho measured what is exact already, total at State (`das plan"
    assert told in line
    assert free.digests(tmp_path / "run" / "release") == free.digests(small / "release")


def test_another_seed_and_no_seed_give_other_noise(worlds: Worlds) -> None:
    changes = (
        ["run.seed=1"],
        ["run.seed=7"],
        [],
        ["output.tables=false"],
    )  # of the last two neither is seeded
    runs = [worlds.run(*c, config="1940", data="1940") for c in changes]
    noisy = [{k: v for k, v in free.digests(r / "release").items() if "DPQuery" in k} for r in runs]
    assert all(noisy)
    for i, first in enumerate(noisy):
        for second in noisy[i + 1 :]:
            assert first.keys() == second.keys()
            assert not set(first.values()) & set(second.values())


def test_estimation_from_the_release_alone_gives_the_same_bits(small: Path, tmp_path: Path) -> None:
    """Input and confidential part gone, release copied elsewhere without its microdata and
    tables.
    """
    copy = tmp_path / "copy"
    for path in sorted((small / "release").rglob("*")):
        inside = path.relative_to(small / "release")
        if path.is_file() and inside.parts[0] not in ("microdata", "tables"):
            (copy / inside).parent.mkdir(parents=True, exist_ok=True)
            (copy / inside).write_bytes(path.read_bytes())
    estimate_from(copy, tmp_path / "new")
    for part in ("microdata", "tables"):
        old = free.digests(small / "release" / part)
        assert old
        assert free.digests(tmp_path / "new" / "release" / part) == old
    assert not (tmp_path / "new" / "confidential").exists()
    outputs = free.read_json(tmp_path / "new" / "manifest.json")["outputs"]
    assert {
        f"release/{k}": v for k, v in free.digests(tmp_path / "new" / "release").items()
    }.items() <= outputs.items()


def test_evaluation_is_reproduced_from_the_files(
    worlds: Worlds, few: pd.DataFrame, tmp_path: Path
) -> None:
    seeded = worlds.copy(worlds.run("run.seed=1", data="three thousand"), tmp_path / "run")
    truth, path = few, seeded / "confidential" / "evaluation" / "errors.csv"
    before = path.read_bytes()
    path.unlink()
    assessment.evaluate_run(seeded)
    assert path.read_bytes() == before
    row = {(r.level, r.query, r.source, r.bin): r for r in tallies.read_errors(path)}
    for level in LEVELS:
        published = free.tables(seeded / "release", level, "P1")["P0010001"]
        true = truth.groupby(free.units_of(truth.index.to_series(), level))["P0010001"].sum()
        error = published - true
        mine = row[level, "total", "postprocessed", "all"]
        assert mine.mae == pytest.approx(error.abs().mean())
        assert mine.bias == pytest.approx(error.mean())
        assert mine.n == len(true)


# --- budgets
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", ["1/100", "1000000"])
def test_a_budget_of_a_hundredth_and_of_a_million(worlds: Worlds, rho: str) -> None:
    """The same holds of the budget of the configuration, which lies between them."""
    release = worlds.run("run.seed=1", f"budget.rho={rho}", data="one state") / "release"
    zips = [worlds.data("one state")]
    truth = free.published_rows(zips)
    free.assert_invariants(release, truth)
    free.assert_tables(release, truth)
    statement = free.read_json(release / "privacy.json")
    assert Fraction(statement["rho"]["persons"]) == Fraction(rho)
    ratio = Fraction(statement["rho"]["housing"]) / Fraction(rho)
    assert ratio == Fraction(11417641, 152349649) / Fraction(293764, 114921)
    wrong = np.mean(
        [
            (
                free.tables(release, lv).to_numpy()
                != free.published_rows(zips, lv)[free.CELLS[:288]].to_numpy()
            ).mean()
            for lv in ("Tract", "Block")
        ]
    )
    assert wrong < 1e-3 if rho == "1000000" else wrong > 1e-2


# --- the other configurations
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kazan-reiter", "dhc-2022-08-25"])
def test_other_allocations_on_the_same_extract(
    root: Path, worlds: Worlds, few: pd.DataFrame, name: str, tmp_path: Path
) -> None:
    out, truth = tmp_path / "run", few
    pipeline.run(
        load(root, name, "output.report=false", "run.seed=1"),
        out,
        paths=[worlds.data("three thousand")],
    )
    people = free.persons(out / "release")
    assert len(people) == truth["P0010001"].sum()
    state = free.units_of(truth.index.to_series(), "State")
    assert (
        people.groupby(people["block"].str[:2]).size().to_dict()
        == truth.groupby(state)["P0010001"].sum().to_dict()
    )
    levels = [p.name.removesuffix(".parquet") for p in (out / "release" / "nmf").iterdir()]
    assert set(levels) == set(load(root, name).geography.levels)
    assert len(levels) == (8 if name.startswith("dhc") else 6)
    sums = {
        lv: pd.read_csv(out / "release" / "tables" / f"P1_{lv}.csv").filter(regex="^P001").sum()
        for lv in levels
    }
    assert all((s == sums["Block"]).all() for s in sums.values())
    assert not (out / "release" / "nmf-housing").exists()
    statement = free.read_json(out / "release" / "privacy.json")
    expected = {"kazan-reiter": "64/25", "dhc-2022-08-25": "235225/64516"}[name]
    assert statement["rho"] == {"persons": expected, "total": expected}
    sensitivity = 1 if name == "kazan-reiter" else 2
    assert all(
        Fraction(e["sigma_sq"]) == sensitivity / (2 * Fraction(e["rho"]))
        for e in statement["ledger"]
    )
