"""Some of the published files, and what is known outside of them: right, or refused."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from das import cli
from das.errors import InputError, UserError
from das.files.release import spine as spine_file
from das.model.constraint import JointTotals
from das.model.measured_spine import Cover
from das.model.measurement import Measurement
from das.model.redistricting import PL94, SCHEMAS
from das.model.spine import Spine
from das.publications.published.files import outside as outside_totals
from das.publications.published.files.codes import ROOT, tabulation, whole_levels
from das.publications.published.files.layout import convert
from das.publications.published.files.listing import Group, PublishedLevel
from das.publications.published.files.outside import Outside, OutsideTotals
from das.publications.published.files.rules import check_rules
from das.publications.published.files.sums import MeasuredTotals
from das.publications.published.public import estimate_from

#: A state in two parts, with a county and a tract in both, and a block group of both.
TWO_PARTS = Spine(
    ("US", "State", "County", "Tract", "Block_Group", "Block"),
    (
        np.array([""]),
        np.array(["004", "104"]),
        np.array(["004100011", "104100011"]),
        np.array(["0041000110001", "1041000110001"]),
        np.array(["004100011000101", "104100011000101"]),
        np.array(
            [
                "0041000110001010400100010011000",
                "0041000110001010400100010022000",
                "1041000110001010400100010011001",
            ]
        ),
    ),
    (
        np.zeros(1, int),
        np.zeros(2, int),
        np.array([0, 1]),
        np.array([0, 1]),
        np.array([0, 1]),
        np.array([0, 0, 1]),
    ),
)


def test_places_of_two_branches_are_one_in_tabulation_codes() -> None:
    found = tabulation(TWO_PARTS)
    assert found is not None
    spine, place = found
    assert spine.geocodes("State").tolist() == ["04"]
    assert spine.geocodes("Tract").tolist() == ["04001000100"]
    assert spine.geocodes("Block_Group").tolist() == ["040010001001", "040010001002"]
    assert [spine.code("Block", int(p))[-4:] for p in place] == ["1000", "2000", "1001"]
    assert spine.parent[-1].tolist() == [0, 0, 1]


def test_files_that_end_with_counties_have_their_codes() -> None:
    assert tabulation(TWO_PARTS.truncated("County")) is None  # one county is two units
    codes = np.array(["004100011", "004100031"]), np.array([0, 0])
    one = np.zeros(1, int)
    tree = Spine(("State", "County"), (np.array(["004"]), codes[0]), (one, codes[1]))
    found = tabulation(tree)
    assert found is not None
    assert found[0].geocodes("County").tolist() == ["04001", "04003"]


@pytest.mark.parametrize(
    "levels, codes",
    [
        (("US", "State", "County"), ([""], ["004"], ["004200011"])),  # no county
        (("US", "State"), ([""], ["244"])),  # no branch
        (("US", "Block"), ([""], ["0400100010011000"])),  # the codes themselves
        (("US", "Block"), ([""], ["0041000110001010400100010021000"])),  # no block of its group
    ],
)
def test_other_codes_are_left_as_they_are(
    levels: tuple[str, ...], codes: Sequence[list[str]]
) -> None:
    parents = tuple(np.zeros(len(c), int) for c in codes)
    assert tabulation(Spine(levels, tuple(map(np.array, codes)), parents)) is None


def test_a_place_is_the_sum_of_what_is_measured_in_it() -> None:
    """The nation is the state, and is not measured: the state is the sum of its two parts."""
    home = np.zeros(3, dtype=int)
    whole = Cover.from_places(TWO_PARTS, home)
    assert whole.depth.tolist() == [0]
    parts = Cover.from_places(
        TWO_PARTS, home, lambda level: np.full(TWO_PARTS.units(level), level != "US")
    )
    assert (parts.depth.tolist(), parts.unit.tolist()) == ([1, 1], [0, 1])
    blocks = Cover.from_places(
        TWO_PARTS, home, lambda level: np.zeros(TWO_PARTS.units(level), dtype=bool)
    )
    assert (blocks.depth.tolist(), blocks.unit.tolist()) == ([5, 5, 5], [0, 1, 2])


# --- totals from outside
# ------------------------------------------------------------------------------------------------


def test_totals_of_states_are_of_both_parts() -> None:
    known = OutsideTotals({"04": 30, "05": 1}, "x").constraint(TWO_PARTS)
    assert known is not None
    assert (known.name, known.level, known.bound.tolist()) == ("joint_total", "State", [[30], [30]])
    own = OutsideTotals({"004": 10, "104": 20}, "x").constraint(TWO_PARTS)
    assert own is not None
    assert (own.name, own.bound.tolist()) == ("total", [[10], [20]])
    assert OutsideTotals().constraint(TWO_PARTS) is None
    with pytest.raises(InputError, match="no total is given for 04"):
        OutsideTotals({"05": 1}, "x").constraint(TWO_PARTS)
    root = Spine(("A",), (np.array(["A"]),), (np.zeros(1, int),))
    with pytest.raises(InputError, match="the levels are A"):
        OutsideTotals({"05": 1}, "x").constraint(root)
    with pytest.raises(InputError, match="negative"):
        OutsideTotals({"05": -1})


def test_totals_are_read_from_tables(tmp_path: Path) -> None:
    table = pa.table({"name": ["A", "B"], "geocode": ["01", "44"], "value": [5, 7]})
    pq.write_table(table, tmp_path / "totals.parquet")
    (tmp_path / "totals.csv").write_text("geocode,value\n01,5\n44,7\n", encoding="utf-8")
    for name in ("totals.parquet", "totals.csv"):
        assert outside_totals.read(tmp_path / name).value == {"01": 5, "44": 7}


@pytest.mark.parametrize(
    "text, word",
    [
        ("code,value\n01,5\n", "no column 'geocode'"),
        ("geocode,value\n01,many\n", "not a whole number"),
        ("geocode,value\n01,5\n01,5\n", "twice"),
        ("geocode,value\n01,\n", "missing"),
        ("", "cannot be read"),
    ],
)
def test_tables_that_are_no_totals_are_refused(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=word):
        outside_totals.read(tmp_path / "t.csv")


@pytest.mark.parametrize("together, off", [(True, 16), (True, 18), (False, 11), (False, 13)])
def test_known_totals_are_held_against_what_was_measured(together: bool, off: int) -> None:
    """Units of variance 4: six standard deviations are 12 for one, and 17 for the sum of two."""
    totals = MeasuredTotals(TWO_PARTS)
    if together:
        totals.joint("State", JointTotals(np.array([0, 0]), np.array([30 + off])))
    else:
        totals.exact("State", np.array([10, 20 + off]))
    totals.add(Measurement("State", "total", 0, np.array([[10], [20]]), np.full(2, 4.0)))
    if off in (18, 13):
        with pytest.raises(InputError, match="is given as"):
            totals.check("State", Path("x"))
    else:
        totals.check("State", Path("x"))


# --- rules
# ------------------------------------------------------------------------------------------------

NURSE = ("nurse_nva_0", ("gqNursingTotal", "nonvoting", "*", "*"))
TOTAL = ("total", ("*", "*", "*", "*"))


def level_of(*rules: tuple[str, tuple[str, ...]]) -> PublishedLevel:
    return PublishedLevel("State", spelt=set(rules))


def test_rules_of_the_files_are_those_of_the_schema() -> None:
    assert check_rules(PL94, [level_of(NURSE, TOTAL), level_of()], {"total"}) == []
    other = ("hhgq_va_ub", ("hhgq", "*", "*", "*"))
    assert check_rules(PL94, [level_of(NURSE, other)], {"total"}) == [
        "State: constraints that are not enforced: hhgq_va_ub"
    ]
    more = ("nurse_all", ("gqNursingTotal", "*", "*", "*"))
    with pytest.raises(InputError, match="by nurse_all combinations cannot occur"):
        check_rules(PL94, [level_of(NURSE, more)], set())


#: The rules of the DHC's persons: the levels of relgq, and the ages that do not occur.
AGES = {"age_lessthan15": [0, 1, 2, 3, 4, 5, 18, 19, 20, 21, 22], "age_greaterthan89": [6, 7, 8]}


def test_rules_of_ages_are_read() -> None:
    schema = SCHEMAS["dhcp"]
    rules = [
        (f"relgq{n}_{words}", (f"relgq{n}", "*", words, "*", "*"))
        for words, numbers in AGES.items()
        for n in numbers
    ]
    with pytest.raises(InputError, match="no rule of the files says that") as caught:
        check_rules(schema, [level_of(*rules)], set())
    stated = int((~schema.possible).sum()) // (2 * 2 * 63) - 11 * 15 - 3 * 26
    assert f"({stated:,} such combinations)" in str(caught.value)
    wrong = ("relgq0_x", ("relgq0", "*", "age_lt16_gt75", "*", "*"))
    with pytest.raises(InputError, match="relgq0_x combinations cannot occur"):
        check_rules(schema, [level_of(wrong)], set())


def test_a_rule_that_is_no_zero_is_refused(tmp_path: Path) -> None:
    for value, sign, word in ((1, "=", "a value is 1"), (0, "<=", "a sign is '<='")):
        table = pa.table({"query_name": ["nurse_nva_0_con"], "value": [[value]], "sign": [sign]})
        pq.write_table(table, tmp_path / "rule.parquet")
        level = level_of(NURSE)
        level.constraints.append(Group(tmp_path / "rule.parquet", 0, b"", b""))
        with pytest.raises(InputError, match=word):
            check_rules(PL94, [level], set())


# --- some of the parts
# ------------------------------------------------------------------------------------------------


def level_with(path: Path, name: str, totals: dict[str, int], exact: bool) -> PublishedLevel:
    """A level whose files say the total of each unit, exactly or with variance 4."""
    table = {
        "geocode": list(totals),
        "query_name": ["total_con" if exact else "total_dpq"] * len(totals),
        "value": [[n] for n in totals.values()],
        "variance": [4.0] * len(totals),
    }
    pq.write_table(pa.table(table), path / f"{name}.parquet")
    codes = np.sort(np.array(list(totals), dtype="S"))
    level = PublishedLevel(name, codes=codes)
    group = Group(path / f"{name}.parquet", 0, codes[0], codes[-1])
    (level.constraints if exact else level.groups).append(group)
    return level


@pytest.mark.parametrize(
    "nation, states, exact, left_out",
    [
        (100, {"044": 90, "144": 9}, False, False),  # noise
        (1000, {"044": 90, "144": 9}, False, True),
        (10, {"044": 90, "144": 9}, False, False),  # more than the whole: refused later
        (1000, {"044": 90, "144": 9}, True, True),  # parts of the list of 2010
        (1000, {"AB": 90, "CD": 9}, True, False),  # nobody knows what is missing
    ],
)
def test_a_root_above_parts_that_are_missing_is_left_out(
    tmp_path: Path, nation: int, states: dict[str, int], exact: bool, left_out: bool
) -> None:
    notes: list[str] = []
    root = level_with(tmp_path, "US", {"": nation}, exact)
    below = level_with(tmp_path, "State", states, exact)
    found = whole_levels([root, below], notes)
    assert [level.name for level in found] == [ROOT if left_out else "US", "State"]
    assert bool([n for n in notes if n.startswith("US is left out")]) == left_out


def test_a_state_above_some_of_its_counties_is_left_out(tmp_path: Path) -> None:
    notes: list[str] = []
    state = level_with(tmp_path, "State", {"050": 643_000}, exact=False)
    county = level_with(tmp_path, "County", {"05010009": 5_920}, exact=False)
    assert whole_levels([state, county], notes) == [county]
    assert "State is left out: it holds 643,000 records" in notes[0]


def test_several_roots_get_one_that_nothing_measures() -> None:
    notes: list[str] = []
    levels = [PublishedLevel("County", codes=np.array([b"044100011", b"044100031"]))]
    found = whole_levels(levels, notes)
    assert [level.name for level in found] == [ROOT, "County"]
    assert "no unit above the 2 of level County" in notes[0]
    one = PublishedLevel("State", codes=np.array([b"036"]))
    notes.clear()
    assert whole_levels([one], notes) == [one]
    assert notes == [
        "State: 136 is not here, the other part of a state: what is estimated is of the part that"
        " is here alone"
    ]


def population(release: Path) -> int:
    """That of the only state."""
    with (release / "tables" / "P1_State.csv").open(encoding="utf-8", newline="") as file:
        (state,) = csv.DictReader(file)
    return int(state["P0010001"])


@pytest.fixture(scope="module")
def new_jersey(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nation and the two parts of one state, made by another program: 3,782 and 300 persons."""
    whole = shared_data / "nmf_bluedown" / "US_Person_PL_PROD"
    some = tmp_path_factory.mktemp("parts") / "US_Person_PL_PROD"
    for path in whole.rglob("*"):
        parts = [p for p in path.parts if p.startswith("State=")]
        if path.is_file() and (not parts or parts[0] in ("State=034", "State=134")):
            there = some / path.relative_to(whole)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(path)
    return some


def test_a_state_of_two_parts_is_estimated_without_the_nation(
    new_jersey: Path, tmp_path: Path
) -> None:
    """They were once published as 7,742 and 4,258."""
    done = estimate_from(new_jersey, tmp_path / "out", changes=["output.report=false"])
    assert any(n.startswith("US is left out: it holds 12,000 records") for n in done.notes)
    release = tmp_path / "out" / "release"
    spine = spine_file.read(release / "spine.parquet")
    assert spine.levels[0] == ROOT
    assert [spine.title("State", 0), spine.units("State")] == ["New Jersey (34)", 1]
    assert abs(population(release) - 4082) <= 8
    with pytest.raises(UserError, match="the method topdown begins with Whole"):
        estimate_from(new_jersey, tmp_path / "no", changes=["estimation.method=topdown"])
    assert not (tmp_path / "no").exists()


def test_a_given_total_is_exact(new_jersey: Path, shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "nmf_bluedown" / "state-totals" / "US" / "state_totals.parquet"
    outside = Outside(outside_totals.read(path))
    args = ["--from", str(new_jersey), "--out", str(tmp_path / "out"), "--totals", str(path)]
    done = CliRunner().invoke(
        cli.main, ["estimate", *args, "--set", "output.report=false", "--quiet"]
    )
    assert done.exit_code == 0, done.output
    assert f"totals of states are from {path}, and exact" in done.output
    release = tmp_path / "out" / "release"
    assert population(release) == 4082
    with pytest.raises(InputError, match="is given as 4,200, but 4,081 records were measured"):
        convert(new_jersey, tmp_path / "no", outside=Outside(OutsideTotals({"34": 4200}, "x")))
    with pytest.raises(UserError, match="which has its own"):
        estimate_from(release, tmp_path / "no", outside=outside)


def test_units_of_a_state_whose_nation_contradicts_them_are_refused(
    shared_data: Path, tmp_path: Path
) -> None:
    """Housing units are known exactly at every level, and the parts of New Jersey are none of the
    list of 2020: nobody knows what is missing."""
    whole, some = shared_data / "nmf_bluedown" / "US_Unit_PL_PROD", tmp_path / "some"
    shutil.copytree(whole, some)
    for path in [p for p in some.rglob("State=*") if p.name not in ("State=034", "State=134")]:
        shutil.rmtree(path)
    with pytest.raises(InputError, match="but those of level Block below it sum to"):
        convert(some, tmp_path / "no")


def test_households_of_the_dhc_are_refused_at_once(tmp_path: Path) -> None:
    """Nobody knows which counts are exact in their files, so 1.6 million cells a county would be
    estimated without any."""
    folder = tmp_path / "US_DHCH_PROD" / "County.parquet" / "DPQuery" / "State=050"
    folder.mkdir(parents=True)
    names = [a.name for a in SCHEMAS["dhch"].attributes]
    row = dict.fromkeys(names, "*") | {"geocode": "05010009", "query_name": "total_dpq"}
    table = {c: [v] for c, v in row.items()} | {"value": [[5]], "variance": [4.0]}
    pq.write_table(pa.table(table), folder / "part-0.parquet")
    with pytest.raises(InputError, match="schema 'dhch', with 1,578,528 cells a unit"):
        estimate_from(tmp_path / "US_DHCH_PROD", tmp_path / "out")
    assert not (tmp_path / "out").exists()
