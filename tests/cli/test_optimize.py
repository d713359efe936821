"""``das plan --optimize``: what it shows, the tables that it writes, and what it answers to
impossible requests.
"""

from __future__ import annotations

import csv
import json
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
import tomli_w

from das.accounting import guarantee
from das.runs import pipeline
from das.spec import parse
from das.tools.planning import optimizing
from tests.commands import Commands, Das
from tests.contract.test_interruption import not_searched
from tests.worlds import Worlds

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pl94-2010.toml"
UNITS = ("--units", "1,52,3221,73057,217740,6500000")
TARGET = '[[target]]\nlevel = "County"\nquery = "total"\n'
TARGETS = TARGET + '[[target]]\nlevel = "tract"\nquery = "Voting-Age"\nweight = 2\n'


@pytest.fixture
def das(commands: Commands) -> Das:
    return commands.named("plan")


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    (tmp_path / "targets.toml").write_text(TARGETS)
    return tmp_path / "targets.toml"


def with_budget(tables: str) -> str:
    """The configuration with the budget of some output in place of its own."""
    tree = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    more = tomllib.loads(tables)
    tree["budget"] = more["budget"]
    tree["housing"]["budget"] |= more.get("housing", {}).get("budget", {})
    return tomli_w.dumps(tree)


def test_the_terminal_and_json_say_the_same(das: Das, targets: Path) -> None:
    args = ("pl94-2010", "--optimize", targets, *UNITS)
    code, out, err = das(*args, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert [(t["level"], t["query"], t["weight"]) for t in said["targets"]] == [
        ("County", "total", 1.0),
        ("Tract", "votingage", 2.0),
    ]
    assert (
        sum(Fraction(s["best"]) for s in said["shares"])
        == sum(Fraction(s["now"]) for s in said["shares"])
        == 1
    )
    assert said["rho"] == said["rho_now"]
    assert said["bound"] <= said["value"] < 1
    assert sum(t["price"] for t in said["targets"]) == pytest.approx(1)
    code, out, _ = das(*args)
    assert code == 0
    assert said["certificate"] in out
    assert "State:total takes 32.35 % of rho and adds nothing" in out
    for t in said["targets"]:
        assert f"{t['best']:.3g}" in out


def test_what_becomes_worse_is_said(das: Das, targets: Path, tmp_path: Path) -> None:
    """Without a guard: by how much, and that its own draw is smaller; and that nothing does, with
    one."""
    args = ("pl94-2010", "--optimize", targets, *UNITS)
    out, rows = das(*args)[1], json.loads(das(*args, "--json")[1])
    worse = [r for r in rows["others"] if r["best"] > 1.005 * r["now"]]
    assert len(worse) > 12
    worst = max(worse, key=lambda r: r["best"] / r["now"])
    share = {(s["level"], s["query"]): s for s in rows["shares"]}
    spent = share[worst["level"], worst["query"]]
    assert f"{len(worse)} of {len(rows['targets']) + len(rows['others'])} counts" in out
    assert "no [guard] holds them" in out
    (line,) = [
        x for x in out.splitlines()
        if x.startswith("  ") and f"({worst['best'] / worst['now']:,.0f} times as much)" in x
        and worst["query"] in x and worst["level"] in x
    ]  # fmt: skip
    now, best = (float(100 * Fraction(spent[x])) for x in ("now", "best"))
    assert f"its own draw from {now:.2f} to {best:.2f} % of rho" in line
    assert f"and {len(worse) - 12:,} more" in out
    guarded = tmp_path / "guarded.toml"
    guarded.write_text("[guard]\neverything = 1.0\n" + TARGETS)
    assert (
        "nothing that is a target or is measured becomes worse"
        in das("pl94-2010", "--optimize", guarded, *UNITS)[1]
    )


def test_a_gap_that_did_not_close_is_said(
    das: Das, targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("pl94-2010", "--optimize", targets, *UNITS, "--set", "geography.spine=tabulation")
    said = json.loads(das(*args, "--json")[1])
    assert said["gap"] < 4e-4
    assert "NOT PROVED BEST" not in das(*args)[1]
    monkeypatch.setitem(optimizing.GAPS, "numbers", (2e-4, 3))
    said = json.loads(das(*args, "--json")[1])
    assert said["gap"] > 4e-4
    assert said["gap"] == pytest.approx(1 - said["bound"] / said["value"])
    out = das(*args)[1]
    assert f"NOT PROVED BEST: after {said['steps']} steps" in out
    assert f"the plan is {100 * said['gap']:.2g} % above its bound" in out


def test_guards_on_epsilon_are_shown(das: Das, tmp_path: Path) -> None:
    guarded = tmp_path / "guarded.toml"
    guarded.write_text(
        'hold = ["Block", "State:total"]\n'
        '[guard.epsilon.guarantee_of_neighbours_that_agree]\npersons = "now"\n'
        '[guard.epsilon.changes]\nvotingage = "9"\n' + TARGETS
    )
    args = ("pl94-2010", "--optimize", guarded, *UNITS, "--set", "geography.spine=tabulation")
    rows = json.loads(das(*args, "--json")[1])["guards"]
    assert [(r["relation"], r["name"], r["over"]) for r in rows] == [
        ("guarantee_of_neighbours_that_agree", "persons", "whole units"),
        ("changes", "votingage", "whole units"),
    ]
    assert all(r["then"] <= r["most"] for r in rows)
    assert rows[1]["most"] == 9
    out = das(*args)[1]
    assert "Guards on epsilon" in out
    assert "every guard on epsilon holds by exact composition" in out
    refused(das(*args, "--least"), "guard.epsilon")
    guarded.write_text('[guard.epsilon.changes]\nage = "now"\n' + TARGETS)
    refused(das(*args), "no change 'age'")


def test_a_price_without_an_improvement_is_explained(das: Das, tmp_path: Path) -> None:
    limited = tmp_path / "limited.toml"
    limited.write_text(
        TARGET
        + 'ratio = 1.0\nweight = 0.001\n[[target]]\nlevel = "State"\nquery = "hispanic * cenrace"\nweight = 20\n'
    )
    args = ("pl94-2010", "--optimize", limited, *UNITS)
    row = json.loads(das(*args, "--json")[1])["targets"][0]
    assert row["price"] > 0.05
    assert row["best"] > row["now"] / 1.005
    out = das(*args)[1]
    assert (
        f"costs {100 * row['price']:.0f} % and is not better: so much of rho is what holds it"
        in out
    )


def test_tables_put_into_a_configuration_are_the_plan(
    das: Das, commands: Commands, targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its exact costs: no epsilon is searched for."""
    monkeypatch.setattr(guarantee, "worst_epsilon", not_searched)
    for options in (("--spare",), ("--rho", "22/7")):
        said = json.loads(das("pl94-2010", "--optimize", targets, *UNITS, *options, "--json")[1])
        code, tables, err = das("pl94-2010", "--optimize", targets, *UNITS, *options, "--toml")
        assert (code, err) == (0, "")
        (tmp_path / "best.toml").write_text(with_budget(tables))
        spec = parse(with_budget(tables), where="c")
        assert spec.persons.plan.cost == Fraction(said["rho"])
        shares = {
            (d.level, d.query): d.cost / spec.persons.plan.cost for d in spec.persons.plan.plain
        }
        assert shares == {
            (s["level"], s["query"]): Fraction(s["best"])
            for s in said["shares"]
            if s["best"] != "0"
        }
        assert (
            spec.universe("housing").plan.cost
            == parse(CONFIG.read_text(), where="c").universe("housing").plan.cost
        )
        _, made = spec.made_from["persons"]
        assert "6,500,000 Block" in made
    accounted = json.loads(commands.named("account")(tmp_path / "best.toml", "--json")[1])
    assert Fraction(22, 7) in {Fraction(v) for v in _values(accounted, "rho") if isinstance(v, str)}


def _values(tree: object, key: str) -> list[object]:
    if isinstance(tree, dict):
        return [v for k, v in tree.items() if k == key] + [
            x for v in tree.values() for x in _values(v, key)
        ]
    return [x for v in tree for x in _values(v, key)] if isinstance(tree, list) else []


def test_the_privacy_statement_names_what_a_plan_was_made_from(
    das: Das, targets: Path, worlds: Worlds, tmp_path: Path
) -> None:
    data = worlds.data("one thousand")
    code, tables, _ = das(
        CONFIG,
        "--set",
        "geography.spine=tabulation",
        "--optimize",
        targets,
        "--data",
        data,
        "--toml",
    )
    assert code == 0
    spec = parse(
        with_budget(tables),
        where="c",
        overrides=["geography.spine=tabulation", "output.report=false", "run.seed=1"],
    )
    pipeline.run(spec, tmp_path / "run", paths=[data])
    stated = (tmp_path / "run" / "release" / "privacy.json").read_text()
    assert (
        "The shares of the budget (persons) were made from the targets targets.toml (best); the"
        " blocks and structures of" in stated
    )
    assert "is its word: it is not checked" in stated
    assert "No record of this run entered them" not in stated


def test_another_universe_has_a_plan_of_its_own(das: Das, tmp_path: Path) -> None:
    (tmp_path / "h.toml").write_text('[[target]]\nlevel = "County"\nquery = "h1"\n')
    args = ("pl94-2010", "--optimize", tmp_path / "h.toml", *UNITS, "--universe", "housing")
    code, out, _ = das(*args, "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["universe"], [t["query"] for t in said["targets"]]) == ("housing", ["h1"])
    tables = tomllib.loads(das(*args, "--toml")[1])
    assert list(tables) == ["housing"]
    assert len(tables["housing"]["budget"]["made_from"]) == 2


def test_a_release_gives_the_tree_and_predicts(das: Das, targets: Path, worlds: Worlds) -> None:
    run = worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand")
    code, out, _ = das("pl94-2010", "--optimize", targets, "--like", run)
    assert code == 0
    assert "predicted now" in out


def test_a_list_of_blocks_is_a_target(das: Das, worlds: Worlds, tmp_path: Path) -> None:
    """By itself, and as a kind of areas in a file: of the same areas, named in either way, the same
    standard deviations; with a release, or with its input."""
    run = worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand")
    blocks = list(codes(run / "release" / "tables" / "P1_Block.csv"))
    list_ = tmp_path / "wards.csv"
    list_.write_text("area,block\n" + "".join(f"{n % 5},{b}\n" for n, b in enumerate(blocks)))
    tree = ("--set", "geography.spine=tabulation", "--json")
    like = das("pl94-2010", "--optimize", list_, "--like", run, *tree)
    data = das("pl94-2010", "--optimize", list_, "--data", worlds.data("one thousand"), *tree)
    found, over = json.loads(like[1]), json.loads(data[1])
    (target,) = found["targets"]
    assert (target["kind"], target["query"]) == ("wards.csv", "total")
    assert over["targets"][0]["now"] == pytest.approx(target["now"])
    assert target["best"] < target["now"]
    assert all(r["best"] <= 1.005 * r["now"] for r in found["others"])  # the guard
    held = [s for s in found["shares"] if s["level"] == "Block"]
    assert held
    assert all(s["best"] == s["now"] for s in held)
    (tmp_path / "t.toml").write_text(
        f'hold = ["Block"]\n[guard]\neverything = 1.0\n[[area]]\nkind = "{list_}"\nquery = "total"\n'
    )
    named = das("pl94-2010", "--optimize", tmp_path / "t.toml", "--like", run, *tree)
    assert json.loads(named[1])["targets"] == found["targets"]
    refused(das("pl94-2010", "--optimize", list_, *UNITS), "areas need real blocks")
    list_.write_text("area,block\nx,none\n")
    refused(das("pl94-2010", "--optimize", list_, "--like", run), "wards.csv, line 2")
    two = '[[area]]\nkind = "a/x.csv"\nquery = "total"\n[[area]]\nkind = "b/x.csv"\nquery = "h1"\n'
    (tmp_path / "t.toml").write_text(two)
    refused(das("pl94-2010", "--optimize", tmp_path / "t.toml", *UNITS), "have one name")


def codes(table: Path) -> list[str]:
    with table.open(newline="") as file:
        return [row["GEOCODE"] for row in csv.DictReader(file)]


BAD_FILES = {
    "empty": ("", "there is no target"),
    "truncated": ('[[target]]\nlevel = "Cou', "not valid TOML"),
    "key": (TARGET + "wieght = 2\n", "target.0.wieght"),
    "top": ("targets = 1\n" + TARGET, "targets"),
    "twice": (TARGET * 2, "County:total is a target twice"),
    "twice, spelt otherwise": (
        TARGET + '[[target]]\nlevel = "county"\nquery = "TOTAL"\n',
        "is a target twice",
    ),
    "level": ('[[target]]\nlevel = "Contry"\nquery = "total"\n', "did you mean County?"),
    "query": ('[[target]]\nlevel = "County"\nquery = "votingag"\n', "did you mean votingage?"),
    "weight 0": (TARGET + "weight = 0\n", "target.0.weight"),
    "weight below 0": (TARGET + "weight = -1\n", "target.0.weight"),
    "weight nan": (TARGET + "weight = nan\n", "target.0.weight"),
    "weight inf": (TARGET + "weight = inf\n", "target.0.weight"),
    "two limits": (TARGET + "sd = 1.0\nratio = 0.5\n", "one of margin, sd and ratio"),
    "coverage": (TARGET + "margin = 3\ncoverage = 1.5\n", "target.0.coverage"),
    "coverage of nothing": (TARGET + "coverage = 0.9\n", "coverage is that of a margin"),
    "objective": ('objective = "bset"\n' + TARGET, "'best', 'least' or 'spare'"),
    "published": ('[[target]]\nlevel = "State"\nquery = "total"\n', "published exactly"),
    "guards": (
        TARGET + "[guard]\neverything = 0.5\n",
        "no allocation of rho = 2.556 meets these limits",
    ),
    "guard nan": (TARGET + "[guard]\neverything = nan\n", "a guard of nan"),
    "guard level": (TARGET + "[guard]\nContry = 1.0\n", "did you mean County?"),
    "guard text": (TARGET + '[guard]\nCounty = "a"\n', "guard.County"),
    "too fine": (TARGET + "sd = 0.0001\n", "most of it for County:total"),
    "keep query": ('keep = ["County:nothing"]\n' + TARGET, "no attribute 'nothing'"),
    "keep what is not measured": (
        'keep = ["US:total"]\n' + TARGET,
        "'total' is not measured at 'US'",
    ),
    "keep no list": ('keep = "County"\n' + TARGET, "keep"),
    "hold all": (
        'hold = ["US", "State", "County", "Tract", "Block_Group", "Block"]\n' + TARGET,
        "every measurement is held",
    ),
    "areas": ('[[area]]\nkind = "Place"\nquery = "total"\n', "areas need real blocks"),
    "population": (
        '[[area]]\nkind = "Place"\nquery = "total"\npopulation = [1, 9]\n',
        "give --like",
    ),
    "population reversed": (
        '[[area]]\nkind = "Place"\nquery = "total"\npopulation = [9, 1]\n',
        "the least and the most",
    ),
}


def refused(found: tuple[int, str, str], said: str) -> None:
    code, out, err = found
    assert (code, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err
    assert "Warning" not in err
    assert err.count("das: ") == 1


@pytest.mark.parametrize("name", list(BAD_FILES))
def test_a_bad_file_of_targets_is_told(das: Das, tmp_path: Path, name: str) -> None:
    text, said = BAD_FILES[name]
    (tmp_path / "bad.toml").write_text(text)
    refused(das("pl94-2010", "--optimize", tmp_path / "bad.toml", *UNITS, "--json"), said)


def test_a_file_that_is_none_or_no_text_is_told(das: Das, tmp_path: Path) -> None:
    refused(das("pl94-2010", "--optimize", tmp_path / "none.toml", *UNITS), "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe[[target]]")
    refused(das("pl94-2010", "--optimize", tmp_path / "bad.toml", *UNITS), "cannot be read")
    refused(das("pl94-2010", "--optimize", tmp_path, *UNITS), "cannot be read")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--units", "1,2"), "2 numbers, and 6 levels"),
        (("--units", "1,5,4,6,7,8"), "do not nest"),
        (("--units", "1,-5,4,6,7,8"), "do not nest"),
        (("--units", "1,x,4,5,6,7"), "no list of whole numbers"),
        (("--units", ""), "no list of whole numbers"),
        (("--units", "1,2,3,4,5,1" + "0" * 400), "give no more than"),
        (("--units", "1,2,3,4,5,1" + "0" * 5000), "--units"),
        ((*UNITS, "--like", "somewhere"), "goes without --units"),
        ((*UNITS, "--data", "somewhere"), "goes without --units"),
        ((*UNITS, "--least", "--spare"), "goes without --least"),
        ((*UNITS, "--least", "--rho", "3"), "goes without --least"),
        ((*UNITS, "--rho", "0"), "give a positive one"),
        ((*UNITS, "--rho", "x"), "is not a number"),
        ((*UNITS, "--spare", "--rho", "1"), "the kept measurements take"),
        ((*UNITS, "--keep", "Contry:total"), "did you mean County?"),
        ((*UNITS, "--keep", "County:"), "--keep County:"),
        ((*UNITS, "--margin", "Tract:total=5"), "goes without --optimize"),
        ((*UNITS, "--coverage", "0.9"), "goes without --optimize"),
        ((*UNITS, "--areas", "x.csv"), "goes without --optimize"),
        ((*UNITS, "--toml", "worst"), "there is no plan 'worst'"),
        ((*UNITS, "--universe", "houses"), "there is no universe 'houses'"),
        ((*UNITS, "--universe", "housing"), "no attribute 'Voting-Age'"),
        (("--like", "nowhere"), "nowhere"),
        (("--data", "nowhere"), "nowhere"),
    ],
)
def test_options_that_do_not_go_together_or_say_nothing(
    das: Das, targets: Path, options: tuple[str, ...], said: str
) -> None:
    refused(das("pl94-2010", "--optimize", targets, *options), said)


@pytest.mark.parametrize(
    "option", [UNITS, ("--least",), ("--spare",), ("--rho", "1"), ("--keep", "US"), ("--like", "x")]
)
def test_options_of_the_optimizer_need_targets(das: Das, option: tuple[str, ...]) -> None:
    refused(das("pl94-2010", *option), "goes with --optimize")


def test_geometric_noise_is_not_optimized(das: Das, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(TARGET)
    refused(
        das("1940-pure-dp", "--optimize", tmp_path / "t.toml", "--units", "1,50,3000,100000"),
        "only plans of the discrete Gaussian",
    )


def test_a_release_of_other_levels_or_another_schema_is_told(
    das: Das, worlds: Worlds, tmp_path: Path
) -> None:
    run = worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand")
    (tmp_path / "t.toml").write_text(TARGET)
    refused(
        das("1940", "--optimize", tmp_path / "t.toml", "--like", run),
        "the release has other levels",
    )
    refused(das("pl94-2010", "--optimize", tmp_path / "t.toml", "--like", tmp_path), "spec.toml")


def test_a_tree_that_is_one_unit_is_told(das: Das, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a,b,sex\nA,B,f\nA,B,m\n")
    (tmp_path / "one.toml").write_text(ONE)
    (tmp_path / "t.toml").write_text('[[target]]\nlevel = "B"\nquery = "sex"\n')
    refused(
        das(
            tmp_path / "one.toml",
            "--optimize",
            tmp_path / "t.toml",
            "--data",
            tmp_path / "people.csv",
        ),
        "one unit, or none",
    )
    one_level = (
        ONE.replace('A = "a"\n', "")
        .replace('["A", "B"]', '["B"]')
        .replace('A = "1/2", B = "1/2"', 'B = "1"')
        .replace('A = { detailed = "1" }, ', "")
    )
    (tmp_path / "one.toml").write_text(one_level)
    refused(
        das(
            tmp_path / "one.toml",
            "--optimize",
            tmp_path / "t.toml",
            "--data",
            tmp_path / "people.csv",
        ),
        "one unit, or none",
    )
    assert (
        das(tmp_path / "one.toml", "--optimize", tmp_path / "t.toml", "--units", "1", "--json")[0]
        == 0
    )


ONE = """
[run]
name = "one"
[data]
reader = "table"
path = "people.csv"
[data.columns.geography]
A = "a"
B = "b"
[schema]
name = "mine"
[schema.attributes]
sex = ["f", "m"]
[geography]
levels = ["A", "B"]
[budget]
rho = "1"
neighbors = "bounded"
levels = { A = "1/2", B = "1/2" }
queries = { A = { detailed = "1" }, B = { detailed = "1" } }
"""
