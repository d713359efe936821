"""Folders of parameters: exact numbers, every rule, and all faults at once with their lines."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError, SpecError, UserError
from das.publications.detailed.files import parameters
from das.publications.detailed.model.iterations import REGIONS, GroupLevel
from das.publications.detailed.model.tables import PRODUCTS, Parameters, Product
from tests.files.detailed.folders import HOUSEHOLDS, PERSONS, changed, line_of, texts, written

CONFIG, CODES, RACE, ETHNICITY, MEMBERS = parameters.FILES


def refused(folder: Path, files: dict[str, str], product: Product = PERSONS) -> str:
    with pytest.raises(UserError) as error:
        parameters.read(written(folder, files), product)
    return str(error.value)


def test_a_folder_says_what_it_says(tmp_path: Path) -> None:
    p = parameters.read(written(tmp_path, texts()), PERSONS)
    assert (p.race_codes, p.runs, p.states, p.negative) == (8, ("us", "pr"), ("01", "02"), True)
    assert (p.first, p.chance) == (Fraction(1, 10), Fraction(9999, 10000))
    assert p.mechanism.currency == "rho"
    assert set(p.budgets) == {"t2"}
    assert set(p.budgets["t2"].values()) == {Fraction(1, 4)}
    assert p.thresholds["t2"][GroupLevel("PR-PLACE", 2)] == (100, 200, 300)
    assert p.names["1020"] == "Alsatian"
    assert list(p.iterations.code) == sorted(p.iterations.code)
    albanian = list(p.iterations.code).index("3001")
    assert p.iterations.name[albanian] == "Albanian alone"
    assert list(p.iterations.race_code[p.iterations.member == albanian]) == [1010]
    assert p.cost("us") == Fraction(12, 4)


def test_households_have_no_first_stage_and_publish_all(tmp_path: Path) -> None:
    p = parameters.read(written(tmp_path, texts(HOUSEHOLDS)), HOUSEHOLDS)
    assert (p.first, p.chance) == (0, 0)
    assert {t: set(map(len, of.values())) for t, of in p.thresholds.items()} == {
        "t3": {3},
        "t4": {1},
    }
    assert p.cost("pr") == Fraction(16, 4)


def test_numbers_are_the_decimals_that_are_written(tmp_path: Path) -> None:
    """0.1 as a float is 3602879701896397 / 2^55."""
    files = changed(
        texts(),
        CONFIG,
        '"privacy_budget_p_level_1_usa": 0.25',
        '"privacy_budget_p_level_1_usa": 0.1',
    )
    files = changed(
        files,
        CONFIG,
        '"privacy_budget_p_level_2_usa": 0.25',
        '"privacy_budget_p_level_2_usa": 1.5e-3',
    )
    files = changed(
        files,
        CONFIG,
        '"privacy_budget_p_level_2_state": 0.25',
        '"privacy_budget_p_level_2_state": 3',
    )
    p = parameters.read(written(tmp_path, files), PERSONS)
    of = p.budgets["t2"]
    assert of[GroupLevel("USA", 1)] == Fraction(1, 10)
    assert of[GroupLevel("USA", 2)] == Fraction(3, 2000)
    assert of[GroupLevel("STATE", 2)] == 3
    assert all(isinstance(b, Fraction) for b in of.values())


def test_pure_privacy_is_geometric_noise(tmp_path: Path) -> None:
    p = parameters.read(written(tmp_path, changed(texts(), CONFIG, '"zcdp"', '"puredp"')), PERSONS)
    assert p.mechanism.pure


def test_the_chance_may_be_left_out(tmp_path: Path) -> None:
    files = changed(texts(), CONFIG, '"zero_suppression_chance": 0.9999,', "")
    assert parameters.read(written(tmp_path, files), PERSONS).chance == 0


def test_a_run_that_is_not_made_needs_no_states_and_no_thresholds(tmp_path: Path) -> None:
    files = changed(
        changed(texts(), CONFIG, '"run_us": true', '"run_us": false'),
        CONFIG,
        '"(USA, 1)"',
        '"(UA, 1)"',
    )
    p = parameters.read(
        written(tmp_path, changed(files, CONFIG, '"state_filter_us"', '"states"')), PERSONS
    )
    assert (p.runs, p.states) == (("pr",), ())


@pytest.mark.parametrize("file", parameters.FILES)
def test_how_lines_end_does_not_matter(tmp_path: Path, file: str) -> None:
    """A mark of the encoding, ends of lines of another system, blanks behind fields, blank lines at
    the end.
    """
    plain = parameters.read(written(tmp_path / "plain", texts()), PERSONS)
    text = texts()[file]
    odd = (
        text if file == CONFIG else text.replace("\n", "  \n", 3).replace("|", " |", 3) + "\n   \n"
    )
    other = texts() | {file: "\ufeff" + odd.replace("\n", "\r\n")}
    assert same(parameters.read(written(tmp_path / "odd", other), PERSONS), plain)


def same(a: Parameters, b: Parameters) -> bool:
    return all(getattr(a, name) == getattr(b, name) for name in Parameters.__dataclass_fields__)


BUDGET, THRESHOLDS = (
    '"privacy_budget_p_level_1_tract"',
    '"(TRACT, 1)": [\n   100,\n   200,\n   300\n  ]',
)
#: A change of one file; where the fault is (a mark of its line, or none of one line), and what it
#: says.
WRONG = [
    (CONFIG, '"max_race_codes": 8', '"max_race_codes": 9', "max_race", "from 1 to 8"),
    (CONFIG, '"max_race_codes": 8', '"max_race_codes": 0', "max_race", "from 1 to 8"),
    (CONFIG, '"max_race_codes": 8', '"max_race_codes": true', "max_race", "is true"),
    (CONFIG, '"max_race_codes": 8', '"max_race_codes": 8.0', "max_race", "is 8.0"),
    (CONFIG, '"max_race_codes": 8', '"races": 8', None, "has no max_race_codes"),
    (
        CONFIG,
        BUDGET,
        '"privacy_budget_p_level_1_trakt"',
        None,
        "has no privacy_budget_p_level_1_tract",
    ),
    (
        CONFIG,
        f"{BUDGET}: 0.25",
        f"{BUDGET}: -0.25",
        BUDGET,
        "is -0.25, not a number from 0 to 1,000,000,000",
    ),
    (
        CONFIG,
        f"{BUDGET}: 0.25",
        f"{BUDGET}: {'9' * 5000}",
        BUDGET,
        "9, not a number from 0 to 1,000,000,000",
    ),
    (CONFIG, f"{BUDGET}: 0.25", f'{BUDGET}: "0.25"', BUDGET, 'is "0.25"'),
    (CONFIG, f"{BUDGET}: 0.25", f"{BUDGET}: NaN", BUDGET, "NaN"),
    (CONFIG, f"{BUDGET}: 0.25", f"{BUDGET}: Infinity", BUDGET, "Infinity"),
    (CONFIG, f"{BUDGET}: 0.25", f"{BUDGET}: 1e99999", BUDGET, "not a number"),
    (CONFIG, f"{BUDGET}: 0.25", f"{BUDGET}: true", BUDGET, "true"),
    (CONFIG, f"{BUDGET}: 0.25", f"{BUDGET}: 0.25, {BUDGET}: 0.5", None, "is there twice"),
    (CONFIG, '_fraction": 0.1', '_fraction": 0', "_fraction", "between 0 and 1"),
    (CONFIG, '_fraction": 0.1', '_fraction": 1.0', "_fraction", "between 0 and 1"),
    (
        CONFIG,
        '"privacy_budget_p_stage_1_fraction"',
        '"gamma"',
        None,
        "has no privacy_budget_p_stage_1_fraction",
    ),
    (CONFIG, "0.9999", "1", "zero_sup", "0 to below 1"),
    (CONFIG, "0.9999", "-0.1", "zero_sup", "0 to below 1"),
    (CONFIG, '"thresholds_p"', '"thresholds"', None, "has no thresholds_p"),
    (
        CONFIG,
        THRESHOLDS,
        '"(TRACT, 1)": [100, 200]',
        '"(TRACT, 1)"',
        "has 2 thresholds, where 3 are needed",
    ),
    (CONFIG, THRESHOLDS, '"(TRACT, 1)": [1, 2, 3, 4]', '"(TRACT, 1)"', "delete the last"),
    (CONFIG, THRESHOLDS, '"(TRACT, 1)": [100, 300, 200]', '"(TRACT, 1)"', "falls"),
    (
        CONFIG,
        THRESHOLDS,
        '"(TRACT, 1)": [100, 200, 3.5]',
        '"(TRACT, 1)"',
        "not a list of whole numbers",
    ),
    (
        CONFIG,
        THRESHOLDS,
        '"(TRACT, 1)": [true, 200, 300]',
        '"(TRACT, 1)"',
        "not a list of whole numbers",
    ),
    (CONFIG, THRESHOLDS, '"(TRACT, 1)": 100', '"(TRACT, 1)"', "not a list of whole numbers"),
    (CONFIG, '"(TRACT, 1)"', '"(TRACT,1)"', '"thresholds_p"', "has no (TRACT, 1)"),
    (
        CONFIG,
        '"allow_negative_counts": true',
        '"allow_negative_counts": 1',
        "allow_neg",
        "not true or false",
    ),
    (CONFIG, '"allow_negative_counts"', '"allow"', None, "has no allow_negative_counts"),
    (CONFIG, '"run_us": true', '"run_us": "yes"', "run_us", "not true or false"),
    (
        CONFIG,
        '"run_us": true,\n "run_pr": true',
        '"run_us": false,\n "run_pr": false',
        "run_pr",
        "both false",
    ),
    (CONFIG, '"reader": "csv"', '"reader": "cef"', "reader", "convert them to person-records.txt"),
    (CONFIG, '"reader": "csv"', '"reader": "sas"', "reader", 'not "csv"'),
    (CONFIG, '"02",\n  "01"', "", "state_filter", "not a list of states"),
    (CONFIG, '"02"', '"72"', "state_filter", '"72"'),
    (CONFIG, '"02"', '"03"', "state_filter", '"03"'),
    (CONFIG, '"02"', "2", "state_filter", "two digits"),
    (CONFIG, '"02"', '"01"', "state_filter", "more than once"),
    (CONFIG, '"zcdp"', '"approxdp"', "privacy_defn", "zcdp, puredp"),
    (CONFIG, '"zcdp"', "[]", "privacy_defn", "zcdp, puredp"),
    (CONFIG, '"zcdp"', '"zcdp",', '"zcdp"', "is not JSON"),
    (
        CODES,
        "RACE_ETH_CODE|RACE_ETH_NAME",
        "RACE_ETH_CODE",
        "RACE_ETH_CODE",
        "has no column RACE_ETH_NAME",
    ),
    (
        CODES,
        "RACE_ETH_CODE|RACE_ETH_NAME",
        "RACE_ETH_CODE|RACE_ETH_NAME|X",
        "X",
        "not expected: 'X'",
    ),
    (CODES, "RACE_ETH_CODE|RACE_ETH_NAME", "RACE_ETH_NAME|RACE_ETH_CODE", "RACE", "another order"),
    (
        CODES,
        "RACE_ETH_CODE|RACE_ETH_NAME",
        "RACE_ETH_CODE|RACE_ETH_NAME|RACE_ETH_NAME",
        "RACE",
        "more than one",
    ),
    (CODES, "2020|", "0202|", "0202|", "RACE_ETH_CODE is '0202'"),
    (CODES, "2020|", "20200|", "20200|", "RACE_ETH_CODE is '20200'"),
    (CODES, "2020|Nobody's", "2020| ", "2020|", "not a name"),
    (CODES, "2020|", "1020|", "1020|Nobody's", "1020 is also on line 4"),
    (CODES, "2020|Nobody's", "2020", "2020", "has 1 fields, where 2 are expected"),
    (RACE, "|ALONE|", "|ALONE_OR_NOT|", "ITER", "has no column ALONE"),
    (RACE, "3001|", "301|", "301|", "not four digits"),
    (RACE, "Albanian alone|2", "Albanian alone|3", "3001|", "LEVEL is '3', not 0, 1 or 2"),
    (RACE, "Albanian alone|2|True", "Albanian alone|2|true", "3001|", "ALONE is 'true'"),
    (RACE, "2|True|False|False", "2|True|no|False", "3001|", "DETAILED_ONLY is 'no'"),
    (RACE, "2|True|False|False", "2|True|False|no", "3001|", "COARSE_ONLY is 'no'"),
    (RACE, "2|True|False|False", "2|True|True|True", "3001|", "both True"),
    (RACE, "2|True|False|False", "2|True|Null|False", "3001|", "Null is for LEVEL 0"),
    (RACE, "2|True|False|False", "2|True|Null|Null", "3001|", "Null is for LEVEL 0"),
    (
        RACE,
        "White alone|0|True|Null|Null",
        "White alone|0|True|False|False",
        "1001|",
        "both must be Null",
    ),
    (RACE, "1810|", "1150|", "1150|Other", "1150 is also that of line 10"),
    (
        ETHNICITY,
        "3007|Not Hispanic",
        "1001|Not Hispanic",
        "1001|",
        f"also that of line 2 of {RACE}",
    ),
    (
        ETHNICITY,
        "3011|Costa Rican|2|False|False",
        "3011|Costa Rican|2|True|True",
        "3011|",
        "both True",
    ),
    (ETHNICITY, "|LEVEL|", "|LEVEL|ALONE|", "ITER", "not expected: 'ALONE'"),
    (MEMBERS, "3011|2010", "3012|2010", "3012|", "is in neither"),
    (MEMBERS, "3011|2010", "3011|2011", "3011|", f"2011 is not in {CODES}"),
    (MEMBERS, "3011|2010", "3011|2010 \n3011|2010", "3011|2010\n", "3011|2010 is also on line 16"),
    (
        MEMBERS,
        "1810|1020",
        "1140|1020",
        "1140|1020\n3007",
        "of iteration 1140 and of 1150, at states and above",
    ),
    (
        MEMBERS,
        "4001|1020",
        "3001|1020",
        "7000|1020",
        "of iteration 7000 and of 3001, at regions below states",
    ),
    (MEMBERS, "3007|1000", "3007|1000|", "3007|", "has 3 fields"),
]

#: Changes that other lines are wrong after, too: they say what is not there any more.
MOVED = {"|ALONE|", "3001|", "1810|", "3007|Not Hispanic"}


@pytest.mark.parametrize("file, old, new, mark, says", WRONG)
def test_every_rule_is_kept(
    tmp_path: Path, file: str, old: str, new: str, mark: str | None, says: str
) -> None:
    files = changed(texts(), file, old, new)
    found = refused(tmp_path, files).splitlines()
    where = f"{file}: " if mark is None else f"{file}:{line_of(files[file], mark)}: "
    if old not in MOVED:
        assert found[0] == f"{tmp_path}: 1 fault:"
    assert [line for line in found if line.startswith(f"  {where}") and says in line], found


def test_the_line_after_the_first_that_two_iterations_are_on_has_both(tmp_path: Path) -> None:
    """Not of level 0, which is not tabulated: 1001 and 1002 have one code."""
    files = changed(texts(), MEMBERS, "2001|1020", "2001|1020\n1130|1020")
    assert f"{MEMBERS}:11: 1130|1020 is also on line 6" in refused(tmp_path, files)


@pytest.mark.parametrize("file", parameters.FILES)
def test_a_file_that_is_not_there_or_empty_or_no_text(tmp_path: Path, file: str) -> None:
    files = texts()
    whole = files.pop(file)
    assert f"{file}: is not there" in refused(tmp_path / "lost", files)
    assert f"{file}" in refused(tmp_path / "empty", files | {file: ""})
    folder = written(tmp_path / "bytes", files)
    (folder / file).write_bytes(whole.encode().replace(b"\n", b"\n\xff", 1))
    assert f"{file}:2: is not UTF-8" in refused(folder, {})


@pytest.mark.parametrize("file", parameters.FILES[1:])
def test_a_table_without_lines(tmp_path: Path, file: str) -> None:
    files = texts()
    assert f"{file}: has no lines" in refused(
        tmp_path, files | {file: files[file].splitlines()[0] + "\n"}
    )


@pytest.mark.parametrize(
    "text, says", [("[]", "not a JSON object"), ("[" * 10_000, "cannot be read"), ("1" * 5000, "")]
)
def test_what_is_no_object(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, texts() | {CONFIG: text})


@pytest.mark.parametrize(
    "old, new, says",
    [
        (
            '"privacy_budget_h_t4_level_2_aiannh"',
            '"x"',
            "has no privacy_budget_h_t4_level_2_aiannh",
        ),
        (
            '"privacy_budget_h_t3_level_1_usa": 0.25',
            '"privacy_budget_h_t3_level_1_usa": -1',
            "is -1",
        ),
        ('"thresholds_h_t4"', '"thresholds"', "has no thresholds_h_t4"),
        (
            '"(USA, 1)": [\n   100\n',
            '"(USA, 1)": [100, 200\n',
            "thresholds_h_t4 (USA, 1) has 2 thresholds",
        ),
        ('"reader": "csv"', '"reader": "cef"', "household-records.txt"),
    ],
)
def test_rules_of_households(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert says in refused(tmp_path, changed(texts(HOUSEHOLDS), CONFIG, old, new), HOUSEHOLDS)


def test_the_line_of_a_threshold_is_that_of_its_table(tmp_path: Path) -> None:
    files = changed(texts(HOUSEHOLDS), CONFIG, '"(USA, 1)": [\n   100\n', '"(USA, 1)": ["a"\n')
    line = line_of(files[CONFIG], '"(USA, 1)": ["a"')
    assert f"{CONFIG}:{line}: thresholds_h_t4 (USA, 1)" in refused(tmp_path, files, HOUSEHOLDS)


def test_the_parameters_of_the_other_product_are_known_for_what_they_are(tmp_path: Path) -> None:
    found = refused(tmp_path, texts(HOUSEHOLDS))
    assert "these are parameters of households (--product households), not of persons" in found
    assert "more" in found


def test_a_run_has_a_budget(tmp_path: Path) -> None:
    files, none = texts(), texts()
    for at in (a for run in REGIONS for a in GroupLevel.of_run(run)):
        none = changed(none, CONFIG, f'{at}": 0.25', f'{at}": 0')
        if at.region.startswith("PR"):
            files = changed(files, CONFIG, f'{at}": 0.25', f'{at}": 0.0')
    found = refused(tmp_path, files)
    assert f"{CONFIG}:{line_of(files[CONFIG], 'run_pr')}: run_pr is true, and no budget" in found
    assert "2 faults" in refused(tmp_path, none)
    parameters.read(
        written(tmp_path, changed(files, CONFIG, '"run_pr": true', '"run_pr": false')), PERSONS
    )


def test_no_budget_is_spent_on_nobody(tmp_path: Path) -> None:
    """Where no code is of an iteration there is nothing that noise could hide, and a stability of
    0.
    """
    lines = [x for x in texts()[MEMBERS].splitlines() if x[:4] not in {"2001", "1130", "3010"}]
    found = refused(tmp_path, texts() | {MEMBERS: "\n".join(lines)})
    assert "10 faults" in found
    assert "privacy_budget_p_level_1_usa is not 0, and no code" in found


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Faults of all files, and none because of another: a line with one wrong field is known by its
    code.
    """
    files = changed(texts(), CONFIG, '"max_race_codes": 8', '"max_race_codes": 80')
    files = changed(files, CODES, "2020|", "202|")
    files = changed(files, RACE, "3001|Albanian alone|2", "3001|Albanian alone|7")
    files = changed(
        files, ETHNICITY, "3011|Costa Rican|2|False|False", "3011|Costa Rican|2|True|True"
    )
    files = changed(files, MEMBERS, "3007|1000", "3007|100")
    found = refused(tmp_path, files).splitlines()
    assert found[0].endswith("5 faults:")
    assert {line.split(":")[0].strip() for line in found[1:6]} == {
        CONFIG,
        CODES,
        RACE,
        ETHNICITY,
        MEMBERS,
    }


def test_a_message_has_a_bounded_length_and_says_how_many_there_are(tmp_path: Path) -> None:
    files = texts()
    files[CODES] += "\n".join(f"x{i}|Name" for i in range(3000))
    found = refused(tmp_path, files)
    assert "3,000 faults" in found
    assert len(found) < 2000
    shown = found.count(f"{CODES}:")
    assert f"and {3000 - shown:,} more" in found


def test_faults_of_the_configuration_alone_are_of_the_specification(tmp_path: Path) -> None:
    files = changed(texts(), CONFIG, '"zcdp"', '"none"')
    with pytest.raises(SpecError):
        parameters.read(written(tmp_path, files), PERSONS)
    with pytest.raises(InputError):
        parameters.read(written(tmp_path, changed(files, CODES, "2020|", "202|")), PERSONS)


# --- official folders
# -------------------------------------------------------------------------------------------


@pytest.fixture
def official(shared_data: Path) -> Path:
    folder = shared_data / "safetab"
    if not folder.is_dir():
        pytest.skip(f"no parameters at {folder}")
    return folder


@pytest.mark.parametrize(
    "name, product, us, pr",
    [
        ("p_2020_tables", "persons", "4.944", "2.643"),
        ("h_2020_tables", "households", "8.895302", "4.754134"),
    ],
)
def test_the_parameters_of_2020(
    official: Path, tmp_path: Path, name: str, product: str, us: str, pr: str
) -> None:
    folder = written(tmp_path, {p.name: p.read_bytes() for p in (official / name).iterdir()})
    with pytest.raises(SpecError, match='reader is "cef"'):
        parameters.read(folder, PRODUCTS[product])
    text = (folder / CONFIG).read_text()
    p = parameters.read(
        written(folder, {CONFIG: text.replace('"cef"', '"csv"')}), PRODUCTS[product]
    )
    assert len(p.iterations.tabulated) == 2996
    assert p.iterations.code.shape == np.unique(p.iterations.code).shape
    assert {p.iterations.stability(at, 8) for run in REGIONS for at in GroupLevel.of_run(run)} == {
        9
    }
    assert {p.iterations.stability(at, 3) for run in REGIONS for at in GroupLevel.of_run(run)} == {
        4
    }
    assert (p.cost("us"), p.cost("pr")) == (Fraction(us), Fraction(pr))
    assert len(p.names) > 1700
    assert len(p.iterations.measured_at(GroupLevel("STATE", 2))) == 2944
    assert len(p.iterations.measured_at(GroupLevel("TRACT", 2))) == 2150
    assert [len(p.iterations.measured_at(GroupLevel(r, 1))) for r in ("USA", "PLACE")] == [52, 48]


@pytest.mark.parametrize("name, product", [("p_toy", "persons"), ("h_toy", "households")])
@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_the_folders_of_toys(official: Path, name: str, product: str, definition: str) -> None:
    p = parameters.read(official / name / f"input_dir_{definition}", PRODUCTS[product])
    assert p.mechanism.pure == (definition == "puredp")
    assert (p.states, p.runs) == (("01", "02", "11"), ("us",))
    assert len(p.iterations) == 40


def test_a_folder_is_read_in_any_place(official: Path, tmp_path: Path) -> None:
    shutil.copytree(official / "p_toy" / "input_dir_zcdp", tmp_path / "ü")
    assert parameters.read(tmp_path / "ü", PERSONS).cost("us") > 0
