"""Simulated folders of the Detailed DHC: code tables as large as those of 2020, records that pass
all checks, functions of the seed.
"""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError
from das.publications.detailed.files import geography, parameters
from das.publications.detailed.model.iterations import NO_CODE, GroupLevel, Regions
from das.publications.detailed.model.records import GroupRecords
from das.publications.detailed.model.tables import PRODUCTS, Parameters
from das.publications.detailed.simulation import codes as group_codes
from das.publications.detailed.simulation import files
from das.publications.detailed.simulation.people import Mixture, _common, draw_codes
from tests.commands import Commands
from tests.files.detailed.whole import all_of

FEW = 60  #: codes, where it does not matter how many


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def opened(out: Path, product: str = "persons") -> tuple[Parameters, Regions, GroupRecords]:
    found = parameters.read(out / "parameters", PRODUCTS[product])
    regions = geography.regions(out / "data", found)
    return found, regions, all_of(out / "data", found, regions)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("detailed") / "out"
    files.write(out, seed=3, states="AZ,NM,PR", persons=20_000, codes=300)
    return out


# --- code tables
# ----------------------------------------------------------------------------------------------


def test_the_tables_are_laid_out_as_those_of_2020(tmp_path: Path) -> None:
    """How many iterations there are at each level, totals only and not; every person is in nine
    groups of a level at most.
    """
    group_codes.write(tmp_path, PRODUCTS["persons"], files.chosen("all"), group_codes.CODES)
    found = parameters.read(tmp_path, PRODUCTS["persons"])
    i = found.iterations
    assert (len(found.names), len(i.tabulated)) == (1755, 2996)
    of = {at: i.measured_at(at) for at in GroupLevel.of_run("us")}
    assert [len(of[GroupLevel(r, 2)]) for r in ("USA", "TRACT")] == [2944, 2150]
    assert [len(of[GroupLevel(r, 1)]) for r in ("USA", "TRACT")] == [52, 48]
    assert sum(i.detailed_only[of[GroupLevel("USA", 2)]]) == 794
    assert {i.stability(at, 8) for at in of} == {9}
    assert (found.cost("us"), found.cost("pr")) == (Fraction("4.944"), Fraction("2.643"))


def test_each_detailed_group_is_in_one_regional_group_or_in_none() -> None:
    found = Counter[bool]()
    texts = group_codes.tables()
    level = {r.split("|")[0]: r.split("|")[2:4] for r in texts[parameters.RACE].splitlines()[1:]}
    codes: dict[str, set[str]] = {}
    for row in texts[parameters.MEMBERS].splitlines()[1:]:
        iteration, code = row.split("|")
        codes.setdefault(iteration, set()).add(code)
    regional = [codes[i] for i, (of, alone) in level.items() if (of, alone) == ("1", "True")]
    for i, (of, alone) in level.items():
        if (of, alone) == ("2", "True"):
            inside = [codes[i] <= region for region in regional]
            assert sum(inside) == sum(bool(codes[i] & region) for region in regional) <= 1
            found[any(inside)] += 1
    assert (found[True], found[False]) == (1440, 17)


@pytest.mark.parametrize("codes", [group_codes.LEAST_CODES, 200])
def test_smaller_tables_have_every_kind_of_group(codes: int, tmp_path: Path) -> None:
    group_codes.write(tmp_path, PRODUCTS["persons"], files.chosen("RI"), codes)
    i = parameters.read(tmp_path, PRODUCTS["persons"]).iterations
    every = {
        (int(k), int(lv), bool(only))
        for k, lv, only in zip(i.kind, i.level, i.detailed_only, strict=True)
        if lv
    }
    assert {(k, lv, False) for k in range(3) for lv in (1, 2)} <= every
    assert {(k, 2, True) for k in range(3)} <= every


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_budgets_are_those_of_2020(product: str, tmp_path: Path) -> None:
    group_codes.write(tmp_path, PRODUCTS[product], files.chosen("all"), FEW)
    found = parameters.read(tmp_path, PRODUCTS[product])
    rho = {"persons": ("4.944", "2.643"), "households": ("8.895302", "4.754134")}[product]
    assert [found.cost(run) for run in found.runs] == [Fraction(r) for r in rho]
    assert len(found.states) == 51


# --- records
# --------------------------------------------------------------------------------------------------


def test_as_many_people_as_were_asked_for_live_in_the_states(folder: Path) -> None:
    _, regions, people = opened(folder)
    assert len(people) == 20_000
    of = np.unique(regions.state[people.block], return_counts=True)
    assert of[0].tolist() == [b"04", b"35", b"72"]
    assert np.argsort(-of[1]).tolist() == [0, 2, 1]  # Arizona, Puerto Rico, New Mexico
    empty = 1 - len(np.unique(people.block)) / len(regions.block)
    assert 0.2 < empty < 0.5


def test_blocks_are_in_places_and_areas_and_some_areas_cross_states(folder: Path) -> None:
    _, regions, _ = opened(folder)
    for kind in ("PLACE", "AIANNH", "PR-PLACE"):
        assert len(regions.ids[kind])
        assert (regions.of_block[kind] < 0).any()
    shared = set(regions.of_state("AIANNH", b"04")) & set(regions.of_state("AIANNH", b"35"))
    assert len(shared) == 1


def test_people_write_one_code_mostly_and_none_twice(folder: Path) -> None:
    _, _, people = opened(folder)
    given = people.codes != NO_CODE
    many = given.sum(axis=1)
    share = np.bincount(many, minlength=9) / len(many)
    assert share[0] == 0
    assert share[1] > 0.6
    assert (share[1:-2] > share[2:-1]).all()
    assert many.max() == 8
    assert (given[:, :-1] | ~given[:, 1:]).all()
    ordered = np.sort(people.codes, axis=1)
    assert not ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_CODE)).any()


def test_groups_cluster_in_tracts(folder: Path) -> None:
    """In some tract a code is several times as common as in all of them, by more than chance."""
    _, regions, people = opened(folder)
    tract = regions.of_block["TRACT"][people.block]
    here, code = people.codes[tract >= 0, 0], np.unique(people.codes[:, 0])
    counts = np.zeros((len(code), tract.max() + 1))
    np.add.at(counts, (np.searchsorted(code, here), tract[tract >= 0]), 1)
    common = counts[counts.sum(axis=1) > 100]
    expected = common.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    chi = ((common - expected) ** 2 / expected).sum()
    assert chi > 20 * common.size


def test_codes_repeat_as_those_of_a_million_do() -> None:
    """Of 100,000 people in 25 tracts some 35,000 have a combination of codes that nobody before
    them had.
    """
    rng = np.random.default_rng(1)
    text = group_codes.tables()[parameters.CODES].splitlines()[1:-1]
    code = np.array([int(row[:4]) for row in text], dtype=np.int16)
    of = Mixture(
        code,
        _common(rng, len(code)),
        np.arange(len(code)) // 70,
        code[-162:],
        _common(rng, 162),
        9950,
    )
    codes, ethnicity = draw_codes(rng, of, np.sort(rng.integers(0, 25, 100_000)))
    many = len(np.unique(np.column_stack([codes, ethnicity]), axis=0))
    assert 20_000 < many < 45_000


def test_the_same_seed_gives_the_same_files_whoever_makes_them(
    folder: Path, tmp_path: Path
) -> None:
    again = {"states": "AZ,NM,PR", "persons": 20_000, "codes": 300}
    files.write(tmp_path / "same", seed=3, workers=2, **again)
    assert contents(tmp_path / "same") == contents(folder)
    files.write(tmp_path / "other", seed=4, **again)
    assert (
        contents(tmp_path / "other")["data/person-records/35-NM.txt"]
        != contents(folder)["data/person-records/35-NM.txt"]
    )


def test_drawing_in_pieces_loses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TOGETHER", 500)
    files.write(tmp_path / "out", seed=3, states="DC", persons=5_000, codes=FEW)
    _, regions, people = opened(tmp_path / "out")
    assert len(people) == 5_000
    assert (tmp_path / "out" / "data" / "person-records.txt").is_file()
    assert set(regions.of_block["TRACT"][people.block]) == set(range(len(regions.ids["TRACT"])))


def test_households_come_with_totals_that_decide_their_tables(tmp_path: Path) -> None:
    files.write(
        tmp_path / "out", seed=3, states="AZ,NM", persons=9_000, codes=FEW, product="households"
    )
    found, regions, homes = opened(tmp_path / "out", "households")
    assert 9_000 / len(homes) == pytest.approx(files.PERSONS_A_HOME, rel=0.01)
    rows = (tmp_path / "out" / "data" / "pop-group-totals.txt").read_text().splitlines()[1:]
    assert len({r.rsplit("|", 1)[0] for r in rows}) == len(rows)
    code = found.iterations.code
    one = int(np.flatnonzero((found.iterations.level == 2) & (found.iterations.kind == 1))[0])
    codes = found.iterations.race_code[found.iterations.member == one]
    members = np.isin(homes.codes, codes).any(axis=1)
    assert f"1|USA|{code[one]}|{round(members.sum() * files.PERSONS_A_HOME)}" in rows
    least = [int(r.rsplit("|", 1)[1]) for r in rows if "|TRACT|" in r]
    assert min(least) > 21
    assert len(regions.block)


def test_code_tables_and_budgets_of_another_folder_are_taken(tmp_path: Path) -> None:
    group_codes.write(tmp_path / "given", PRODUCTS["persons"], files.chosen("TX"), FEW)
    path = tmp_path / "given" / "config.json"
    said = json.loads(path.read_text()) | {
        "reader": "cef",
        "max_race_codes": 3,
        "privacy_budget_p_level_2_usa": 1.25,
    }
    path.write_text(json.dumps(said))
    files.write(tmp_path / "out", seed=3, states="RI,PR", persons=3_000, given=tmp_path / "given")
    found, _, people = opened(tmp_path / "out")
    assert (found.race_codes, found.states, found.runs) == (3, ("44",), ("us", "pr"))
    assert found.budgets["t2"][GroupLevel("USA", 2)] == Fraction("1.25")
    for name in parameters.FILES[1:]:
        assert (tmp_path / "out" / "parameters" / name).read_bytes() == (
            tmp_path / "given" / name
        ).read_bytes()
    assert set(np.unique(people.codes)) - {0} <= set(map(int, found.names))
    files.write(
        tmp_path / "h",
        seed=3,
        states="RI",
        persons=3_000,
        given=tmp_path / "given",
        product="households",
    )
    assert opened(tmp_path / "h", "households")[0].cost("us") == Fraction("8.895302")


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"states": "XX"}, "'XX' is no state"),
        ({"seed": -1}, "seed -1"),
        ({"persons": 599}, "599 persons in 1 states"),
        ({"persons": 10**8}, "100,000,000 persons in 1 states"),
        ({"persons": 1_000, "share": 0.1}, "persons and a share of them"),
        ({"codes": 39}, "39 codes"),
    ],
)
def test_arguments_out_of_range_are_refused(wrong: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        files.write(tmp_path / "out", **({"seed": 1, "states": "RI"} | wrong))
    assert not (tmp_path / "out" / "data").exists()


def test_the_command_makes_folders_that_are_checked(tmp_path: Path, commands: Commands) -> None:
    def run(*arguments: object) -> tuple[int, str, str]:
        return commands.named("data")("simulate", *arguments, "--seed", "1", "--quiet")

    out = tmp_path / "out"
    code, said, _ = run("detailed", "--out", out, "--states", "ri,pr", "--persons", "2000")
    assert (code, said.split()) == (0, [str(out / "parameters"), str(out / "data")])
    given = ("--data", out / "data", "--set", f"data.parameters={out / 'parameters'}")
    code, said, err = commands.named("check")("detailed-dhc", *given)
    assert (code, err) == (0, "")
    assert "\n2,000 records of persons" in said
    code, _, err = run("detailed", "--out", out)
    assert (code, "is there already" in err) == (2, True)
    code, _, err = run("nation", "--out", tmp_path / "n", "--product", "persons")
    assert (code, "--product: is of detailed, not of nation" in err) == (2, True)
