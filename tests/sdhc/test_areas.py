"""Averages below the state: counties, and places by a list."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError, SpecError, UserError
from das.publications.published.public import estimate_from
from das.publications.sdhc.files.records import records
from das.publications.sdhc.model.tables import AREA, STATE
from das.publications.sdhc.spec import SdhcSpec
from das.publications.sdhc.truth import run as sdhc_run
from das.publications.sdhc.truth.run import true_answers
from das.release import verify
from das.runs import pipeline
from tests.commands import Commands
from tests.sdhc.folders import Folder, made_up
from tests.sdhc.test_known_answers import packaged
from tests.worlds import ROOT, Worlds

BUDGET = [f"sdhc.budget.{t}.area_{g}=1" for t in ("PH1_num", "PH1_denom") for g in ("*", "A-G")]
PLACES = ("sdhc.areas.kind=place", "sdhc.areas.codes=['4400002', '4900001']")


def placed(folder: Path) -> Path:
    """Addresses in three counties, and in two places or none."""
    made: Folder = made_up(3, 240)
    for n, row in enumerate(made.lines["geo.csv"]):
        row[3], row[9] = f"{1 + 2 * (n % 3):03d}", ("00001", "00002", "99999")[n % 5 % 3]
    return made.write(folder)


def lines(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))


def with_areas(*changes: str) -> SdhcSpec:
    return packaged("sdhc-2020", *BUDGET, *changes)


@pytest.mark.parametrize("changes", [(), PLACES], ids=["county", "place"])
def test_averages_of_areas(tmp_path: Path, changes: tuple[str, ...]) -> None:
    """Counted by hand; verified, and made again from the release alone."""
    data = placed(tmp_path / "data")
    spec = with_areas("sdhc.most.persons=4", *changes)
    budget = {t: dict.fromkeys(of, 10**9) for t, of in spec.model_dump()["sdhc"]["budget"].items()}
    run = pipeline.run(spec.amended_by({"budget": budget}), tmp_path / "run", paths=[data])
    release = run.directory.release
    at = 9 if changes else 3
    where = {}
    for row in lines(data / "geo.csv"):
        where[row[1]] = row[2] + row[at]
    people = [r for r in lines(data / "persons.csv") if r[0] == "3"]
    persons = Counter(where[r[1]] for r in people)
    homes = Counter(where[mafid] for mafid in {r[1] for r in people})
    head, *rest = lines(release / "tables" / "PH1.csv")
    rows = [dict(zip(head, row, strict=True)) for row in rest]
    found = {
        r["region_id"]: float(r["estimate"])
        for r in rows
        if len(r["region_id"]) > 2 and (r["iteration"], r["cell"]) == ("*", "1")
    }
    assert len(found) == (2 if changes else 6)
    for code, average in found.items():
        assert average == pytest.approx(persons[code] / homes[code], abs=1e-3)
    assert "Area" in {d.level for d in verify.statement(release).ledger}
    again = estimate_from(release, tmp_path / "again").directory.release
    for path in release.rglob("*.csv"):
        assert (again / path.relative_to(release)).read_bytes() == path.read_bytes()
    assert not [p for p in (release / "measurements").rglob("*.csv") if "44001" in p.read_text()]
    assert {r["level"] for r in run.beside} == {STATE}
    pipeline.run(spec.amended_by({"budget": budget}), tmp_path / "run", paths=[data], resume=True)


def test_an_address_is_in_one_area_at_most(tmp_path: Path) -> None:
    """So that a query of areas has the sensitivity of that of states: areas sum up to no more than
    their state, answer by answer, and counties to all of it."""
    data = placed(tmp_path / "data")
    for changes, whole in (((), True), (PLACES, False)):
        spec = with_areas(*changes)
        run = pipeline.run(spec, tmp_path / f"run{whole}", paths=[data]).directory
        areas, states = (true_answers(spec, run, level).sum(axis=0) for level in (AREA, STATE))
        assert (areas <= states).all()
        assert np.array_equal(areas, states) == whole


def test_linked_records_have_counties_of_the_list_of_blocks(worlds: Worlds) -> None:
    found, _ = records(worlds.linked(), (), strict=True, area="county")
    people = found.open("a test")
    addresses = people.addresses
    assert addresses.area is not None
    assert {f"{a:05d}" for a in addresses.area} <= {*addresses.areas}
    assert {a[:2] for a in addresses.areas} == {*addresses.states}
    with pytest.raises(InputError, match="do not say the place of a household"):
        records(worlds.linked(), (), strict=True, area="place")


def test_a_plan_says_how_well_averages_will_be_known(commands: Commands) -> None:
    config, change = ROOT / "configs" / "sdhc-2020.toml", "sdhc.budget.PH1_num.area_*=1/100"
    more = "sdhc.budget.PH1_denom.area_*=1/100"
    code, out, err = commands.named("plan")(config, "--set", change, "--set", more, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert [r["query"] for r in said["universes"][0]["plan"] if r["level"] == "Area"] == [
        *("PH1_num *", "PH1_denom *")
    ]
    # 1 / (2 rho) is the variance of each: of two ages, and of households 2.5 times
    margin = 1.645 * np.sqrt(50 * (2 + 2.5**2)) / 1000
    assert said["notes"] == [
        f"average household size of an area (all), 90 %: within {margin:.2g} of 1,000 households,"
        f" {margin / 10:.2g} of 10,000 households, {margin / 100:.2g} of 100,000 households"
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (("sdhc.areas.codes=['4401']",), "no code of a county"),
        (("sdhc.areas.codes=['44003', '44001']",), "once, in order"),
        (("sdhc.areas.kind=place",), "name the codes of each place"),
        (("sdhc.states=['44']", "sdhc.areas.codes=['49001']"), "in none of the states"),
        (("sdhc.mode=phsafe",), "PHSafe has no areas"),
    ],
)
def test_what_is_no_list_of_areas(changes: tuple[str, ...], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        with_areas(*changes)


def test_an_area_without_an_address(tmp_path: Path) -> None:
    data = placed(tmp_path / "data")
    spec = with_areas("sdhc.areas.codes=['44777']")
    for asked in (
        lambda: pipeline.run(spec, tmp_path / "run", paths=[data]),
        lambda: sdhc_run.numbers(spec, data),
    ):
        with pytest.raises(UserError, match="no address is in the county 44777"):
            asked()
