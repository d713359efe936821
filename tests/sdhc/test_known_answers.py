"""The program of 2020 and this one count the same: its own tests, and a simulated folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from das.model.confidential import Confidential
from das.model.mechanisms import MECHANISMS
from das.model.names import STATES
from das.noise import entropy
from das.publications.sdhc import modelled
from das.publications.sdhc.files import columns as config
from das.publications.sdhc.files import measurements
from das.publications.sdhc.files.records import records
from das.publications.sdhc.model.published import published
from das.publications.sdhc.model.tables import (
    HOUSEHOLD,
    LEFT_OUT,
    PHSAFE,
    STATE,
    TIGHT,
    USA,
    MeasuredRegions,
    RegionAnswer,
    answers,
    columns,
    reach,
    variances,
)
from das.publications.sdhc.page import resolved
from das.publications.sdhc.spec import SdhcSpec
from das.publications.sdhc.truth.counts import counts
from das.publications.sdhc.truth.run import noisy
from das.release import verify
from das.runs import pipeline
from das.spec import load, of_kind
from tests.sdhc.folders import PHSAFE as DATA
from tests.sdhc.folders import needs_shared
from tests.worlds import ROOT

Cells = dict[tuple[str, str, str, str, str], int]
GAUSSIAN, GEOMETRIC = MECHANISMS["discrete-gaussian"], MECHANISMS["geometric"]


def packaged(name: str, *changes: str) -> SdhcSpec:
    text = (ROOT / "configs" / f"{name}.toml").read_text(encoding="utf-8")
    return of_kind(SdhcSpec, load(text, where="c", overrides=changes), "c")


def counted(folder: Path, tau: Mapping[str, int], states: list[str]) -> dict[str, str]:
    """The official files of exact counts."""
    found = records(folder, states, strict=False)[0].open("a test")
    exact = counts(found, PHSAFE, "person", tau)
    nothing = np.array([np.inf if a.table in LEFT_OUT else 0.0 for a in answers()])
    levels = [
        MeasuredRegions(USA, ("1",), exact.sum(axis=0, keepdims=True), nothing),
        MeasuredRegions(STATE, found.addresses.states, exact, nothing),
    ]
    return measurements.official(levels, GAUSSIAN, True)


def cells(files: Mapping[str, str]) -> Cells:
    out = {}
    for path, text in files.items():
        table = path.split("/")[-2]
        for row in csv.DictReader(text.splitlines(), delimiter="|"):
            (cell,) = [v for k, v in row.items() if k.endswith("DATA_CELL")]
            of = row.get("ITERATION_CODE") or "*"
            out[table, row["REGION_ID"], row["REGION_TYPE"], of, cell] = int(row["COUNT"])
    return out


def expected(rows: Iterator[dict[str, str]]) -> Cells:
    return {
        (r["TABLE"], r["REGION_ID"], r["REGION_TYPE"], r["ITERATION_CODE"] or "*", r["DATA_CELL"]):
        int(r["COUNT"])
        for r in rows
    }  # fmt: skip


@needs_shared
@pytest.mark.parametrize(
    ("config", "answers"), [("small", "small_tau"), ("production", "prod_tau")]
)
def test_976_cells_of_a_simulated_folder(config: str, answers: str) -> None:
    """PHSafe itself has confirmed 287 and 259 of them."""
    said = json.loads((DATA / "sim" / f"config_exact_{config}_tau.json").read_text())
    with (DATA / "sim" / f"expected_{answers}.csv").open() as file:
        wanted = expected(csv.DictReader(file, delimiter="|"))
    assert len(wanted) == 976
    assert cells(counted(DATA / "sim", said["tau"], said["state_filter"])) == wanted


@needs_shared
def test_488_cells_of_its_own_end_to_end_test() -> None:
    folder = DATA / "tests" / "test2"
    said = json.loads((folder / "config.json").read_text())
    wanted = cells({f"x/{p.stem}/y": p.read_text() for p in (folder / "expected").glob("*.csv")})
    assert len(wanted) == 488
    assert cells(counted(folder, said["tau"], said["state_filter"])) == wanted


@needs_shared
def test_its_test_without_noise() -> None:
    """Which prints sums, too. Its PH8_num is a sum of FINAL_POP, and not of persons."""
    folder = DATA / "tests" / "test1"
    said = json.loads((folder / "config.json").read_text())
    found = records(folder, said["state_filter"], strict=False)[0].open("a test")
    exact = counts(found, PHSAFE, "person", dict.fromkeys(said["tau"], 99)).sum(axis=0)
    mine: Cells = {}
    for c in published():
        for side, name in ((c.above, c.above[0]), (c.below, c.below[0] if c.below else "")):
            if side is None or (name == "PH7" and c.table == "PH8"):
                continue
            name = "PH5_num" if c.table == "PH5" and name == "PH4" else name
            n = sum(int(exact[i]) for i in columns(side[0]) if _in(answers()[i], c.iteration, side))
            for region, kind in (("1", "USA"), ("06", "STATE")):
                mine[name, region, kind, c.iteration, str(c.cell)] = n
    files = {f"x/{p.stem}/y": p.read_text() for p in (folder / "expected").glob("*.csv")}
    wanted = {k: n for k, n in cells(files).items() if k[0] != "PH8_num"}
    assert len(wanted) == 102
    assert {k: n for k, n in mine.items() if n} == wanted


def _in(answer: RegionAnswer, iteration: str, side: tuple[str, tuple[int, ...]]) -> bool:
    return answer.iteration == iteration and answer.cell in side[1]


@needs_shared
def test_the_toy() -> None:
    said = json.loads((DATA / "toy" / "config_zcdp.json").read_text())
    found = cells(counted(DATA / "toy", said["tau"], said["state_filter"]))
    assert len(found) == 488
    tables = {
        ("PH1_denom", "1"): 2, ("PH1_num", "2"): 2, ("PH1_num", "3"): 3, ("PH2", "3"): 3,
        ("PH2", "9"): 2, ("PH3", "2"): 2, ("PH4", "2"): 2, ("PH4", "3"): 1, ("PH5_denom", "1"): 1,
        ("PH5_num", "2"): 2, ("PH5_num", "3"): 1, ("PH7", "3"): 5, ("PH8_num", "2"): 5,
        ("PH8_denom", "2"): 2,
    }  # fmt: skip
    wanted = {
        (t, region, kind, i, c): n
        for (t, c), n in tables.items()
        for region, kind in (("1", "USA"), ("44", "STATE"))
        for i in ("*" if t == "PH2" else "*AI")
    }
    assert {k: n for k, n in found.items() if n} == wanted
    spec = resolved(packaged("sdhc-2020-phsafe", f"data.parameters={DATA}/toy/config_zcdp.json"))
    state = variances([d for d in spec.measurements if d.level == "State"])
    m = MeasuredRegions(STATE, ("44",), np.zeros((1, len(state)), dtype=np.int64), state)
    noise = {
        path.split("/")[1]: float(text.splitlines()[1].split("|")[-1])
        for path, text in measurements.official([m], GAUSSIAN, True).items()
    }
    assert noise["PH2"] == 242
    assert {noise[t] for t in ("PH3", "PH4", "PH7")} == {144}
    assert (noise["PH8_num"], noise["PH5_denom"]) == (288, 4)
    assert noise["PH1_num"] == pytest.approx(218.1818, abs=1e-4)
    assert noise["PH1_denom"] == pytest.approx(6.0606, abs=1e-4)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the model of 2020: how good they are is tested where the model is."""
    monkeypatch.setattr(modelled, "DRAWS", 600)


@needs_shared
@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_a_folder_of_phsafe_is_run_as_it_is(tmp_path: Path, definition: str) -> None:
    said = DATA / "toy" / f"config_{definition}.json"
    spec = packaged("sdhc-2020-phsafe", f"data.parameters={said}")
    pipeline.run(spec, tmp_path / "run", paths=[DATA / "toy"])
    release = tmp_path / "run" / "release"
    files = {
        str(p.relative_to(release)): p.read_text()
        for p in (release / "measurements").rglob("*.csv")
    }
    assert len(cells(files)) == 488
    assert verify.statement(release).private


def test_production_budgets_and_variances() -> None:
    spec = packaged("sdhc-2020-phsafe")
    (persons,) = spec.universes
    assert persons.plan.cost == Fraction(1257281, 10**6)
    assert packaged("sdhc-2020").universes[0].plan.cost == Fraction(1257281, 10**6)
    sigma_sq = {(d.level, d.query): d.parameter for d in spec.measurements}
    written = {
        ("State", "PH3 A-G"): 147.81832223187556,
        ("State", "PH7 A-G"): 1708.7740605273184,
        ("State", "PH1_denom A-G"): 1709.4017094017092,
        ("State", "PH2 *"): 14782.2369,
        ("US", "PH4 H,I"): 92401.68,
        ("US", "PH6 *"): 92365.6927,
        ("US", "PH8_denom *"): 90909.0909,
    }
    for key, value in written.items():
        wanted = pytest.approx(value, rel=1e-12 if len(str(value)) > 12 else 1e-6)
        assert float(sigma_sq[key]) == wanted
    assert round(float(spec.tight_cost), 6) == 0.476637
    assert sum(d.cost for d in spec.measurements if d.query[:3] == "PH3") == Fraction("0.679419")
    household = Fraction(0)
    for d in spec.measurements:
        to = reach(*d.query.split(" "), spec.tau, TIGHT, HOUSEHOLD)
        assert to is not None
        household += GAUSSIAN.cost(d.parameter, to.stability(GAUSSIAN))
    assert round(float(household), 6) == 0.488329
    state = variances([d for d in spec.measurements if d.level == "State"])
    m = MeasuredRegions(STATE, ("44",), np.zeros((1, len(state)), dtype=np.int64), state)
    text = measurements.official([m], GAUSSIAN, True)["measurements/PH8_num/part-00000-das.csv"]
    both = [float(line.split("|")[-1]) for line in text.splitlines() if "|*|" in line]
    assert both == pytest.approx([29564.4738, 14782.2369], abs=5e-5)


@needs_shared
def test_its_files_say_the_same() -> None:
    for name, rho in (("us", 1257281), ("pr", 1226649)):
        path = DATA / "production" / f"config_{name}.json"
        spec = resolved(packaged("sdhc-2020-phsafe", f"data.parameters={path}"))
        assert spec.universes[0].plan.cost == Fraction(rho, 10**6)
    us = config.read_config(DATA / "production" / "config_us.json")
    mine = packaged("sdhc-2020-phsafe").sdhc
    assert (us["budget"], us["tau"]) == (mine.budget, mine.tau)


@pytest.mark.parametrize("name", ["sdhc-2020", "sdhc-2020-phsafe"])
def test_noise_has_the_variance_of_its_query(name: str) -> None:
    """Of every query, from 2,040 draws or more; 0.8 or 1.25 times as much would be found out."""
    states = [s.fips for s in STATES if s.fips != "72"]
    spec = packaged(name, f"sdhc.states={states}")
    truth = Confidential(np.full((51, len(answers())), 1000, dtype=np.int64))
    drawn = [noisy(spec, STATE, truth, entropy.seeded(n))[1] for n in range(40)]
    error = np.concatenate([m.values for m in drawn]) - 1000.0
    for event in spec.events(STATE):
        here = error[:, list(columns(*event.query.split(" ")))]
        ratio = float((here**2).mean()) / float(event.parameter)
        wide = 5 * (2 / here.size) ** 0.5
        assert abs(ratio - 1) < wide < 0.2
        assert abs(here.mean()) < 5 * (float(event.parameter) / here.size) ** 0.5


@pytest.mark.parametrize(
    ("tau", "cost", "variance", "pure"),
    [(1, Fraction(1), 8, 31.83385287773731), (2, Fraction(2), 9, None)],
)
def test_its_unit_tests_of_variances(
    tau: int, cost: Fraction, variance: float, pure: float | None
) -> None:
    to = reach("PH7", "*", {"PH7": tau}, PHSAFE)
    assert to is not None
    assert GAUSSIAN.parameter(cost, to.stability(GAUSSIAN)) == variance
    if pure is not None:
        scale = GEOMETRIC.parameter(cost, to.stability(GEOMETRIC))
        assert GEOMETRIC.variance(scale) == pytest.approx(pure, rel=1e-12)


def test_its_unit_tests_of_denominators() -> None:
    to = reach("PH1_denom", "A-G", {}, PHSAFE)
    assert to is not None
    of = [GAUSSIAN.parameter(rho, to.stability(GAUSSIAN)) for rho in (Fraction(1, 2), Fraction(1))]
    assert of == [4, 2]
    for epsilon, variance in ((1, 7.835396178065527), (2, 1.8413471884155848)):
        scale = GEOMETRIC.parameter(Fraction(epsilon), to.stability(GEOMETRIC))
        assert GEOMETRIC.variance(scale) == pytest.approx(variance, rel=1e-12)
