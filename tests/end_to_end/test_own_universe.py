"""An office with two tables: persons, and the households that they live in, over one tree of
municipalities whose codes are unique within their province only, with constituencies across it. One
run, looked at from its files."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from click.testing import CliRunner

from das import read_microdata
from das.cli import main
from das.errors import InputError, SpecError, UserError
from das.files.release.areas import read as read_areas
from das.files.release.spine import read as read_spine
from das.model.columns import BUILD, CodedColumn, MicrodataForm
from das.model.schema import Attribute, Schema
from das.model.tabulation import Tabulation
from das.model.universe import KINDS, Publication, RecordKind
from das.publications.published import public as from_release
from das.release import verify
from das.release.outcome import Outcome
from das.runs import pipeline
from das.spec import RunSpec, budget_toml, parse
from das.truth.assessment import evaluate_run

CONFIG = """
[run]
name = "office"

[data]
reader = "table"
path = "{folder}/people.csv"
encoding = "latin-1"

[data.columns]
unique_within_parent = true

[data.columns.geography]
Province = "province"
Municipality = "municipality"

[data.columns.areas]
Constituency = "seat"

[data.columns.missing]
religion = "unknown"

[schema]
name = "mine"
[schema.attributes]
sex = ["female", "male"]
religion = ["x", "y", "unknown"]

[geography]
levels = ["Country", "Province", "Municipality"]

[constraints]
total = "Province"

[budget]
rho = "2"
neighbors = "bounded"
levels = {{ Country = "1/3", Province = "1/3", Municipality = "1/3" }}
[budget.queries]
Country = {{ detailed = 1 }}
Province = {{ detailed = 1 }}
Municipality = {{ total = "1/2", detailed = "1/2" }}

[tables.women]
title = "Women by religion"
query = "religion"
where = {{ sex = ["female"] }}

[tables.renting]
title = "Households that rent"
universe = "households"
columns = [
  {{ label = "All", where = {{ tenure = ["rent"] }} }},
  {{ label = "Small", where = {{ tenure = ["rent"], size = ["one", "two"] }} }},
]

[universes.households]
letter = "HH"
[universes.households.data]
path = "{folder}/households.csv"
[universes.households.data.columns]
unique_within_parent = true
count = "n"
[universes.households.data.columns.geography]
Province = "prov"
Municipality = "muni"
[universes.households.data.columns.codes.size]
1 = "one"
2 = "two"
3 = "more"
[universes.households.schema]
name = "household"
[universes.households.schema.attributes]
size = ["one", "two", "more"]
tenure = ["own", "rent"]
[universes.households.constraints]
total = "Country"
[universes.households.estimation]
passes.default = [["total"], ["*"]]
passes.Country = [["*"]]
[universes.households.rounding]
chain = ["size"]
[universes.households.budget]
relative = "1/2"
levels = {{ Country = "1/3", Province = "1/3", Municipality = "1/3" }}
[universes.households.budget.queries]
Country = {{ detailed = 1 }}
Province = {{ total = "1/2", detailed = "1/2" }}
Municipality = {{ total = "1/2", detailed = "1/2" }}
"""
PLACES = [(province, f"0{m}") for province in ("Ä", "B") for m in (1, 2, 3)]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two tables: places share their numbers between provinces, and seats take places of
    both.
    """
    folder, draw = tmp_path_factory.mktemp("office"), random.Random(1)
    with (folder / "people.csv").open("w", newline="", encoding="latin-1") as file:
        rows = csv.writer(file)
        rows.writerow(("province", "municipality", "seat", "sex", "religion"))
        for i, (p, m) in enumerate(PLACES):
            for _ in range(40):
                religion = draw.choice(("x", "y", ""))
                rows.writerow(
                    (
                        p,
                        m,
                        "north" if i in (0, 1, 3) else "south",
                        draw.choice(("female", "male")),
                        religion,
                    )
                )
    with (folder / "households.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("muni", "prov", "size", "tenure", "n"))
        for p, m in PLACES:
            for size in "123":
                for tenure in ("own", "rent"):
                    rows.writerow((m, p, size, tenure, draw.randrange(9)))
    return folder


@pytest.fixture(scope="module")
def spec(tables: Path) -> RunSpec:
    return parse(CONFIG.format(folder=tables), where="office.toml")


@pytest.fixture(scope="module")
def run(spec: RunSpec, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return pipeline.run(spec, tmp_path_factory.mktemp("runs") / "office")


def households(tables: Path) -> Counter[tuple[str, ...]]:
    out: Counter[tuple[str, ...]] = Counter()
    names = {"1": "one", "2": "two", "3": "more"}
    with (tables / "households.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            out[f"{row['prov']}-{row['muni']}", names[row["size"]], row["tenure"]] += int(row["n"])
    return out


def test_codes_are_composed_and_areas_cut_across(run: Outcome) -> None:
    spine = read_spine(run.directory.release / "spine.parquet")
    assert spine.geocodes(spine.levels[2]).tolist() == sorted(f"{p}-{m}" for p, m in PLACES)
    (seats,) = read_areas(run.directory.release / "areas.parquet", spine)
    assert seats.kind == "Constituency"
    members = {
        seats.code(i): {spine.code(spine.levels[2], u) for u in seats.unit[seats.area == i]}
        for i in range(len(seats))
    }
    assert members == {"north": {"B-01", "Ä-01", "Ä-02"}, "south": {"B-02", "B-03", "Ä-03"}}


def test_every_output_has_the_second_universe(run: Outcome, tables: Path) -> None:
    release = run.directory.release
    made = read_microdata(release / "microdata" / "households")
    assert list(made.columns) == ["geocode", "size", "tenure"]
    assert len(made) == sum(households(tables).values())  # the country's total is exact
    assert (release / "nmf-households" / "Municipality.parquet" / "DPQuery").is_dir()
    for name in ("T0", "T3", "HH0", "HH1", "HH2", "HH3"):
        assert (release / "tables" / f"{name}_Municipality.csv").is_file()
    columns = (release / "tables" / "HH1_Country.csv").read_text().splitlines()
    assert columns[0] == "GEOCODE,HH0010001,HH0010002,HH0010003"
    assert columns[1].split(",")[1:] == [
        str((made["size"] == s).sum()) for s in ("one", "two", "more")
    ]
    assert (run.directory.confidential / "evaluation" / "errors-households.csv").is_file()
    assert "households" in (release / "report.html").read_text()
    assert "in households</caption>" in run.directory.report.read_text()


HOUSEHOLD = Schema(
    "household", (Attribute("size", ("one", "two", "more")), Attribute("tenure", ("own", "rent")))
)
DECLARED = RecordKind(
    "households",
    records="private households",
    folder="homes",
    letter="HH",
    together="A household that splits is two.",
    publications=(
        Publication(
            HOUSEHOLD,
            MicrodataForm(
                "households of the office",
                (
                    CodedColumn.for_attribute("HHSIZE", HOUSEHOLD, "size", ("1", "2", "3")),
                    CodedColumn.for_attribute("TEN", HOUSEHOLD, "tenure", ("10", "20")),
                    CodedColumn(
                        "KIND", ("A",), np.zeros(6, dtype=np.int64), labels=("any household",)
                    ),
                ),
                (BUILD, "OFFICE"),
                ("KIND", "TEN", "HHSIZE"),
                constants={"OFFICE": "7"},
                says={"OFFICE": "number of the office", "KIND": "kind of household"},
            ),
            chain=("size",),
            tables=(
                Tabulation(
                    "HA1", "Tenure", columns=(("Total", {}), ("Rented", {"tenure": ("rent",)}))
                ),
            ),
        ),
    ),
)


def test_a_universe_that_is_declared_needs_nothing_else(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value more in ``KINDS``: its words, folder, columns, tables and rounding are then those
    of every stage.
    """
    monkeypatch.setitem(cast(dict[str, RecordKind], KINDS), DECLARED.name, DECLARED)
    text = CONFIG.format(folder=tables).replace('letter = "HH"\n', "")
    text = text.replace('[universes.households.rounding]\nchain = ["size"]\n', "")
    spec = parse(text, where="office.toml")
    assert (spec.universe("households").chain, spec.universe("households").marginals) == (
        ("size",),
        False,
    )
    release = pipeline.run(spec, tmp_path / "office").directory.release
    made = read_microdata(release / "microdata" / "homes", labels=True)
    assert list(made.columns) == ["SCHEMA_BUILD_ID", "OFFICE", "geocode", "KIND", "TEN", "HHSIZE"]
    assert {*made["OFFICE"]} == {"7"}
    assert len(made) == sum(households(tables).values())
    table = (release / "tables" / "HA1_Country.csv").read_text().splitlines()[1]
    assert table.split(",")[1:] == [str(len(made)), str((made["TEN"] == "rent").sum())]
    assert not list((release / "tables").glob("HH*"))
    said = (release / "privacy.html").read_text()
    assert "private households" in said
    assert DECLARED.together in said
    assert "number of the office" in (release / "dictionary.csv").read_text()
    assert "private households" in (release / "report.html").read_text()
    assert (release / "nmf-households").is_dir()
    verify.statement(release)


def test_tables_of_ones_own(run: Outcome) -> None:
    made = read_microdata(run.directory.release)
    women = made[made["sex"] == "female"]
    head, row = (run.directory.release / "tables" / "women_Country.csv").read_text().splitlines()
    assert head == "GEOCODE,women0001,women0002,women0003,women0004"
    assert row.split(",")[1:] == [
        str(len(women)),
        *(str((women["religion"] == r).sum()) for r in ("x", "y", "unknown")),
    ]
    made = read_microdata(run.directory.release / "microdata" / "households")
    rent = made[made["tenure"] == "rent"]
    row = (run.directory.release / "tables" / "renting_Country.csv").read_text().splitlines()[1]
    assert row.split(",")[1:] == [str(len(rent)), str((rent["size"] != "more").sum())]
    done = CliRunner().invoke(
        main,
        [
            "tables",
            str(run.directory.root),
            "--level",
            "Country",
            "--table",
            "renting",
            "--names",
            "label",
        ],
    )
    assert done.output.splitlines()[0].endswith("All,Small")


def test_the_ledger_and_the_statement_count_both(run: Outcome) -> None:
    privacy = verify.statement(run.directory.release)
    assert privacy.totals == {"persons": 2, "households": 1, "total": 3}
    assert set(privacy.guarantee) == {"persons", "households", "total"}
    assert (
        privacy.guarantee["households"].epsilon[0].pld[1]
        < privacy.guarantee["total"].epsilon[0].pld[0]
    )
    said = [c.says for c in privacy.outside]
    assert "the number of households of every Country, exactly" in said
    assert any("households and persons are different records" in s for s in privacy.says)
    lines = [d for d in privacy.ledger if d.universe == "households"]
    assert len(lines) == 5


def test_almost_no_noise_gives_the_table_back(spec: RunSpec, tables: Path, tmp_path: Path) -> None:
    """What is published of households is theirs, joined to the right places."""
    exact = parse(
        CONFIG.format(folder=tables),
        where="c",
        overrides=["budget.rho=100000", "output.report=false"],
    )
    out = pipeline.run(exact, tmp_path / "exact").directory
    made = read_microdata(out.release / "microdata" / "households")
    assert Counter(zip(made["geocode"], made["size"], made["tenure"], strict=True)) == +households(
        tables
    )
    assert set(evaluate_run(out.root)) == {"persons", "households"}


def test_everything_after_measurement_again(run: Outcome, tmp_path: Path) -> None:
    again = from_release.estimate_from(run.directory.release, tmp_path / "again").directory
    for name in (
        "tables/HH3_Municipality.csv",
        "microdata/households/part-00000.parquet",
        "report.html",
    ):
        assert (again.release / name).read_bytes() == (run.directory.release / name).read_bytes()


def test_a_specification_says_it_all_but_where_the_files_are(spec: RunSpec) -> None:
    text = spec.dump()
    assert "households.csv" not in text
    assert "people.csv" not in text
    again = parse(text, where="spec.toml")
    assert again.universes == spec.universes
    plan = spec.universe("households").plan
    assert "[universes.households.budget]" in budget_toml(spec, "households", plan)
    assert 'relative = "1/2"' in budget_toml(spec, "persons", spec.persons.plan)


FAULTS = {
    "unknown key": (
        'letter = "HH"',
        'leter = "HH"',
        "universes.households.leter: unknown key; did you mean 'letter'",
    ),
    "columns": (
        'Municipality = "muni"',
        'Municipality = "muni"\n[universes.households.data.columns.code]',
        "universes.households.data.columns: unknown key 'code'",
    ),
    "code": (
        '1 = "one"',
        '1 = "un"',
        "universes.households.data.columns.codes.size.1: 'size' has no level 'un'",
    ),
    "missing": (
        'religion = "unknown"\n\n',
        'religion = "none"\n\n',
        "data.columns.missing.religion: 'religion' has no",
    ),
    "name": ("universes.households", "universes.Households", "'Households' cannot name a universe"),
    "reserved": ("universes.households", "universes.units", "'units' cannot name a universe"),
    "letter": (
        'letter = "HH"',
        'letter = "T"',
        "universes.households.letter: tables of another universe begin",
    ),
    "level": (
        'total = "Country"',
        'total = "Town"',
        "universes.households.constraints.total: 'Town' is not a level",
    ),
    "relative": ('relative = "1/2"', "relative = 0", "universes.households.budget.relative"),
    "share": (
        'Province = {{ total = "1/2", detailed',
        'Province = {{ total = "1/3", detailed',
        "universes.households.budget.queries.Province: the shares sum to 5/6",
    ),
    "query": (
        'chain = ["size"]',
        'chain = ["sise"]',
        "universes.households.rounding.chain: query 'sise'",
    ),
    "schema": ('tenure = ["own", "rent"]', 'tenure = ["own", "own"]', "universes.households"),
    "table name": ("[tables.women]", "[tables.T1]", "tables.T1: 'T1' cannot name a table"),
    "table level": ('sex = ["female"]', 'sex = ["f"]', "tables.women: 'sex' has no level 'f'"),
    "table query": ('query = "religion"', 'query = "faith"', "tables.women: 'faith' is neither"),
    "table of nobody": (
        'sex = ["female"]',
        "sex = []",
        "tables.women: no record can meet this condition",
    ),
    "table of whom": (
        'universe = "households"',
        'universe = "homes"',
        "tables.renting: there is no universe 'homes'",
    ),
    "encoding": (
        'encoding = "latin-1"',
        'encoding = "latin-99"',
        "data.encoding: there is no encoding 'latin-99'",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_universe_is_refused_with_its_key(name: str) -> None:
    old, new, message = FAULTS[name]
    assert old in CONFIG
    with pytest.raises(SpecError) as caught:
        parse(CONFIG.replace(old, new).format(folder="."), where="office.toml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "09,B,1,own,2",
            (
                "places of Municipality are not among those of the persons, such as 'B-09'; theirs"
                " are such as "
            ),
        ),
        ("01,B,7,own,2", "line 38: size has a value that is no level of it"),
        ("01,B,,own,2", "values are missing: size in 1 of 37 rows"),
        ("01,B,1,own,-1", "line 38: n is negative"),
    ],
)
def test_a_table_beside_that_does_not_fit_is_refused(
    tables: Path, tmp_path: Path, line: str, message: str
) -> None:
    """Before anything is measured: the folder of the run is not even made."""
    (tmp_path / "h.csv").write_text(
        (tables / "households.csv").read_text(encoding="utf-8") + line + "\n"
    )
    spec = parse(
        CONFIG.format(folder=tables),
        where="c",
        overrides=[f"universes.households.data.path={tmp_path / 'h.csv'}"],
    )
    with pytest.raises(InputError, match=message):
        pipeline.run(spec, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_its_input_must_be_named(spec: RunSpec, tmp_path: Path) -> None:
    bare = parse(spec.dump(), where="c")
    with pytest.raises(UserError, match=r"universes.households.data.path: no input is named"):
        pipeline.run(bare, tmp_path / "run", paths=[Path(spec.data.path[0])])
