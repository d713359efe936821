"""Releases of the Detailed DHC without noise, and one that feeds the other: every row is known."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from das.publications.detailed.model.tables import PRODUCTS
from das.publications.detailed.release import open_groups
from das.release import verify
from tests.detailed import runs
from tests.files.detailed import folders

#: SHA-256 of all rows of the toy folder of SafeTab-P, equal row by row to what that program gives.
T1 = "07ee8c2149d90bb919061a792dce5a436006b9ee298199ac936e590ee961636a"
T2 = "ae59046976cd24dca3f23f5dd39a389f8c7ebcea621efbebaac3b714c66b32f0"


def digest(rows: list[dict[str, str]]) -> str:
    ordered = sorted(tuple(row.values()) for row in rows)
    return hashlib.sha256("".join("|".join(row) + "\n" for row in ordered).encode()).hexdigest()


@pytest.fixture(scope="module")
def official(shared_data: Path) -> Path:
    if not (folder := shared_data / "safetab").is_dir():
        pytest.skip(f"no data at {folder}")
    return folder


def both_runs(said: dict[str, object]) -> None:
    said["run_pr"] = True


@pytest.fixture(scope="module")
def toy(official: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The release of the toy persons at every level of both runs, and the parameters."""
    folder = tmp_path_factory.mktemp("toy")
    parameters = runs.copied(
        official / "p_toy" / "input_dir_zcdp",
        folder / "parameters",
        runs.all_quiet,
        runs.thresholds(0, 1, 2),
        both_runs,
    )
    runs.go(parameters, official / "p_toy", folder / "run")
    return folder / "run" / "release", parameters


def test_the_toy_persons_are_the_known_answers(toy: tuple[Path, Path]) -> None:
    t1, t2 = (runs.rows(toy[0], name) for name in ("t1", "t2"))
    assert Counter(r["REGION_TYPE"] for r in t1) == {
        "USA": 33,
        "STATE": 99,
        "COUNTY": 95,
        "TRACT": 171,
        "PLACE": 38,
        "AIANNH": 57,
        "PR-STATE": 33,
        "PR-COUNTY": 19,
        "PR-TRACT": 38,
        "PR-PLACE": 19,
    }
    assert (len(t1), sum(int(r["COUNT"]) for r in t1)) == (602, 217)
    assert (len(t2), sum(int(r["COUNT"]) for r in t2), sum(int(r["COUNT"]) > 0 for r in t2)) == (
        7620,
        414,
        378,
    )
    usa = {
        r["ITERATION_CODE"]: int(r["COUNT"])
        for r in t1
        if r["REGION_TYPE"] == "USA" and r["COUNT"] != "0"
    }
    assert usa == {
        "1130": 6,
        "1140": 4,
        "1150": 3,
        "1820": 1,
        "1850": 1,
        "2001": 5,
        "2930": 1,
        "2940": 1,
        "3001": 1,
        "3010": 3,
        "3011": 3,
        "3042": 1,
        "4001": 1,
    }
    assert digest(t1) == T1
    assert digest(t2) == T2
    sizes = Counter(
        Counter((r["REGION_ID"], r["REGION_TYPE"], r["ITERATION_CODE"]) for r in t2).values()
    )
    assert sizes == {10: 370, 20: 112, 48: 35}


def test_the_toy_release_is_right(toy: tuple[Path, Path]) -> None:
    assert verify.statement(toy[0]).total > 0


def group(row: dict[str, str]) -> tuple[str, str, str]:
    return row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"]


def test_totals_feed_households(toy: tuple[Path, Path], official: Path, tmp_path: Path) -> None:
    """The folder t1 of one is the totals of the other. Without noise the sums of each group count
    the records.
    """
    release, parameters = toy
    other = runs.copied(
        official / "h_toy" / "input_dir_zcdp",
        tmp_path / "p",
        runs.all_quiet,
        runs.thresholds(0, 1, 2),
        both_runs,
    )
    for name in (p.name for p in parameters.iterdir() if p.suffix == ".txt"):
        (other / name).write_bytes((parameters / name).read_bytes())
    data = tmp_path / "data"
    data.mkdir()
    for name in ("GRF-C.txt", "household-records.txt"):
        (data / name).write_bytes((official / "h_toy" / name).read_bytes())
    out = runs.go(
        other, data, tmp_path / "run", "households", totals=release / "tables" / "t1"
    ).directory.release
    assert verify.statement(out).total == open_groups(out).spec.universes[0].plan.cost
    known = {group(r): int(r["COUNT"]) for r in runs.rows(release, "t1")}
    kept = (
        runs.rows(out, "t3/T03001")
        + runs.rows(out, "t3/T03002")
        + runs.rows(out, "t3/T03003")
        + runs.rows(out, "t3/T03004")
    )
    assert {group(r) for r in kept} == known.keys()
    for size in range(4):
        here = {group(r) for r in runs.rows(out, f"t3/T0300{size + 1}")}
        assert here == {
            g for g, n in known.items() if min(n + 1, 3) == size
        }  # thresholds of 0, 1 and 2: nobody is of size 1
    t3, t4 = (
        {
            group(r): r["COUNT"]
            for i in range(sizes)
            for r in runs.rows(out, f"{table}/T{int(table[1:]):02d}{i + 1:03d}")
            if r[f"{table.upper()}_DATA_CELL"] == "0"
        }
        for table, sizes in (("t3", 4), ("t4", 2))
    )
    assert t3 == t4
    assert t3.keys() == known.keys()
    assert {r for g, r in t3.items() if g[0] == "USA"} > {"0"}


# --- a small world
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "size"), [(-(10**6), 3), (10**6, 0)])
def test_thresholds_far_from_all_counts_give_one_size_everywhere(
    tmp_path: Path, at: int, size: int
) -> None:
    parameters, data = runs.given(tmp_path, change=runs.thresholds(at, at, at))
    release = runs.go(parameters, data, tmp_path / "run", seed=3).directory.release
    opened = open_groups(release)
    for plan in opened.spec.plans:
        for m in opened.measured(plan):
            assert set(m.size[~m.only[m.iteration]].tolist()) <= {size}
            assert set(m.size[m.only[m.iteration]].tolist()) <= {0}


def test_without_suppression_every_group_has_a_row(tmp_path: Path) -> None:
    """Iterations without tables at states and above; those for coarse regions alone below them."""
    parameters, data = runs.given(tmp_path, zero_suppression_chance=0)
    release = runs.go(parameters, data, tmp_path / "run", seed=3).directory.release
    found = {group(r) for r in runs.rows(release, "t1")}
    opened = open_groups(release)
    expected = {
        (plan.at.region, region.decode(), code)
        for plan in opened.spec.plans
        for region in opened.regions.ids[plan.at.region].tolist()
        for code in opened.codes[plan.level]
    }
    assert found == expected
    fine = {"1130", "2001", "3010", "1140", "1150", "3001", "3011", "4001"}
    assert {i for t, _, i in found if t in ("USA", "STATE", "PR-STATE")} == fine
    assert {i for t, _, i in found if t == "TRACT"} == fine - {"4001", "1150"} | {"7000", "1810"}


def test_sums_of_a_table_are_those_of_its_cells(tmp_path: Path) -> None:
    parameters, data = runs.given(
        tmp_path, change=runs.thresholds(-99, -99, 2), zero_suppression_chance=0
    )
    release = runs.go(parameters, data, tmp_path / "run", seed=5).directory.release
    totals = {group(r): int(r["COUNT"]) for r in runs.rows(release, "t1")}
    cells: dict[tuple[str, str, str], dict[tuple[str, str, str], int]] = defaultdict(dict)
    for r in runs.rows(release, "t2"):
        key = r["AGESTART"], r["AGEEND"], r["SEX"]
        assert key not in cells[group(r)]
        cells[group(r)][key] = int(r["COUNT"])
    assert {len(c) for c in cells.values()} == {20, 48}
    for g, found in cells.items():
        parts = {
            sex: sum(n for (start, _, s), n in found.items() if s == sex and start != "*")
            for sex in "12"
        }
        assert {sex: found["*", "*", sex] for sex in "12"} == parts
        assert totals[g] == sum(parts.values())


def test_negative_counts_are_cut_off_before_they_are_added(tmp_path: Path) -> None:
    parameters, data = runs.given(
        tmp_path, change=runs.thresholds(-99, 10**6, 10**6), zero_suppression_chance=0
    )
    for negative in (True, False):
        changed = runs.copied(
            parameters,
            tmp_path / f"p{negative}",
            lambda said, n=negative: said.update(allow_negative_counts=n),
        )
        release = runs.go(changed, data, tmp_path / f"run{negative}", seed=5).directory.release
        counts = [int(r["COUNT"]) for name in ("t1", "t2") for r in runs.rows(release, name)]
        assert (min(counts) < 0) == negative
    one, two = (
        {
            (*group(r), r["AGESTART"], r["SEX"]): int(r["COUNT"])
            for r in runs.rows(tmp_path / f"run{n}" / "release", "t2")
        }
        for n in (True, False)
    )
    assert all(two[k] == max(0, n) for k, n in one.items() if k[3] != "*")


def test_what_is_suppressed_is_measured_and_is_in_no_table_of_households(tmp_path: Path) -> None:
    parameters, data = runs.given(tmp_path, change=runs.thresholds(10**6, 10**6, 10**6))
    persons = runs.go(parameters, data, tmp_path / "p").directory.release
    t1, opened = runs.rows(persons, "t1"), open_groups(persons)
    groups = sum(sum(opened.units(plan).values()) for plan in opened.spec.plans)
    assert groups > len(t1) > 0
    assert not runs.rows(persons, "t2")
    below = [int(r["COUNT"]) for r in t1 if r["REGION_TYPE"] not in ("USA", "STATE", "PR-STATE")]
    assert all(n > 0 for n in below)
    other, homes = runs.given(tmp_path / "h", "households", runs.thresholds(10**6, 10**6, 10**6))
    release = runs.go(
        other, homes, tmp_path / "run", "households", totals=persons / "tables" / "t1"
    ).directory.release
    rows = runs.rows(release, "t3/T03001")
    assert sorted(map(group, rows)) == sorted(map(group, t1))
    assert verify.statement(release).ledger
    copied = (release / "pop-group-totals.txt").read_text(encoding="utf-8").splitlines()
    assert copied[0] == "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT"
    assert len(copied) == 1 + len(t1)


def test_leaves_add_up_in_tables_of_households(tmp_path: Path) -> None:
    """Of each size the cells that it has: those measured, and their sums."""
    names = {
        "T03001": {"0"},
        "T03002": {"0", "1", "6"},
        "T03003": {"0", "1", "6", "2", "3", "7", "8"},
        "T03004": {"0", "1", "6", "2", "3", "4", "5", "7", "8"},
        "T04001": {"0"},
        "T04002": {"0", "1", "2", "3"},
    }
    sums = {"0": ("1", "6"), "1": ("2", "3"), "6": ("7", "8"), "3": ("4", "5")}
    for at in ((-1, 200, 300), (-1, -1, -1)):
        parameters, data = runs.given(tmp_path / str(at), "households", runs.thresholds(*at))
        text = folders.TOTALS.replace("|-3", "|5")
        folders.written(data, {"pop-group-totals.txt": text})
        release = runs.go(
            parameters, data, tmp_path / f"run{at}", "households", seed=1
        ).directory.release
        for table in ("t3", "t4"):
            for folder in sorted((release / "tables" / table).iterdir()):
                cells: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
                for r in runs.rows(release, f"{table}/{folder.name}") if folder.is_dir() else ():
                    cells[group(r)][r[f"{table.upper()}_DATA_CELL"]] = int(r["COUNT"])
                for found in cells.values():
                    assert found.keys() == names[folder.name]
                    if table == "t3":
                        assert all(
                            found[w] == sum(found[p] for p in parts)
                            for w, parts in sums.items()
                            if set(parts) <= found.keys()
                        )
                    elif folder.name == "T04002":
                        assert found["0"] == found["1"] + found["2"] + found["3"]


def test_products_have_the_levels_of_their_runs(tmp_path: Path) -> None:
    parameters, data = runs.given(tmp_path, change=lambda said: said.update(run_pr=False))
    out = runs.go(parameters, data, tmp_path / "run", seed=1)
    assert {p.at.region for p in open_groups(out.directory.release).spec.plans} == {
        "USA",
        "STATE",
        "COUNTY",
        "TRACT",
        "PLACE",
        "AIANNH",
    }
    assert sorted(p.name for p in (out.directory.release / "tables" / "t1").iterdir()) == [
        "headers.csv",
        "part-00000-us.csv",
    ]
    assert open_groups(out.directory.release).spec.parameters.product == PRODUCTS["persons"]


def test_a_level_without_regions_costs_its_budget_and_has_no_rows(tmp_path: Path) -> None:
    """No block is in a place, or in an area."""
    parameters, data = runs.given(tmp_path)
    text = "\n".join(
        line if i == 0 else "|".join([*line.split("|")[:4], "99999", "9999"])
        for i, line in enumerate(folders.GEOGRAPHY.splitlines())
    )
    folders.written(data, {"GRF-C.txt": text + "\n"})
    out = runs.go(parameters, data, tmp_path / "run")
    said = verify.statement(out.directory.release)
    assert said.total == open_groups(out.directory.release).spec.universes[0].plan.cost
    assert {
        line.units for line in said.ledger if line.level.startswith(("PLACE", "AIANNH", "PR-PLACE"))
    } == {0}
    assert not [
        r
        for r in runs.rows(out.directory.release, "t1")
        if r["REGION_TYPE"] in ("PLACE", "AIANNH", "PR-PLACE")
    ]


def test_totals_of_regions_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    """Of households a level has the groups that were published, if there are any."""
    parameters, data = runs.given(tmp_path, "households")
    text = "\n".join(
        line if i == 0 else "|".join([*line.split("|")[:4], "99999", "9999"])
        for i, line in enumerate(folders.GEOGRAPHY.splitlines())
    )
    folders.written(
        data,
        {
            "GRF-C.txt": text + "\n",
            "pop-group-totals.txt": folders.TOTALS + "0100100|PLACE|2001|50\n06|STATE|2001|9\n",
        },
    )
    out = runs.go(parameters, data, tmp_path / "run", "households")
    said = verify.statement(out.directory.release)
    units = {line.level: line.units for line in said.ledger}
    assert (
        units["USA regional, t3"],
        units["STATE regional, t4"],
        units["PR-STATE regional, t3"],
        units["PLACE regional, t3"],
    ) == (2, 1, 1, 0)
    assert said.total == open_groups(out.directory.release).spec.universes[0].plan.cost
    assert any("taken as public" in line for line in said.says)


def test_a_state_where_nobody_lives_is_measured(tmp_path: Path) -> None:
    parameters, data = runs.given(tmp_path, zero_suppression_chance=0)
    lines = [x for x in folders.PEOPLE.splitlines() if "|True|01|" not in x]
    folders.written(data, {"person-records.txt": "\n".join(lines) + "\n"})
    release = runs.go(parameters, data, tmp_path / "run").directory.release
    assert {r["REGION_ID"] for r in runs.rows(release, "t1") if r["REGION_TYPE"] == "STATE"} == {
        "01",
        "02",
    }
    verify.statement(release)
