"""``das account`` with several sources: releases, runs, statements, configurations, lists."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das.report.privacy import bound
from tests.commands import Commands
from tests.worlds import Worlds

ROOT = Path(__file__).resolve().parents[2]
TABULATION = 'spine = "tabulation"'


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The redistricting configuration, on a tree whose units are its places."""
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    path = tmp_path_factory.mktemp("config") / "pl94.toml"
    path.write_text(text.replace('spine = "optimized"', TABULATION), encoding="utf-8")
    return path


def read(commands: Commands, *args: object) -> dict[str, Any]:
    code, out, err = commands.named("account")(*args, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def cases(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (relation,) = [r for r in found["relations"] if r["name"] == name]
    every: list[dict[str, Any]] = relation["cases"]
    return every


def rho(found: dict[str, Any], name: str = "added-or-removed") -> Fraction:
    return Fraction(cases(found, name)[0]["rho"])


def test_the_census_of_2020_as_text(commands: Commands) -> None:
    code, out, err = commands.named("account")("census-2020")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    for part in (
        "One person added or removed │ 35.526542 │ 88.4042 │ 91.1833",
        "Detailed DHC-B │ one household record replaced │ 8.895302 (unbounded) │ 2 │ 17.790604",
        "epsilon = 88.4042 exactly at delta = 1e-10",
        "One household of at most 3 persons replaced",
        "their relationships to the householder",
        "rho = 22.743518",
        "(a bound)",
    ):
        assert part in words, part
    (first,) = (line for line in out.splitlines() if "One person added or removed " in line)
    assert out.index(first) < 1800  # the answer comes first


def test_three_lines_come_first(commands: Commands) -> None:
    """What to quote, the worst that can be, and who causes most of it: as the tables say below."""
    lines = commands.named("account")("census-2020")[1].splitlines()
    found = read(commands, "census-2020")
    case = cases(found, "added-or-removed")[0]
    every = [c["epsilon"]["pld"][1] for r in found["relations"] for c in r["cases"]]
    most = max(case["sources"], key=lambda line: Fraction(line["rho"]))
    share = 100 * Fraction(most["rho"]) / Fraction(case["rho"])
    quoted, largest, cause = lines[:3]
    assert quoted.startswith("Quote epsilon = 88.4042 at delta = 1e-10 for one person added or")
    assert f"all {len(case['sources'])} sources" in quoted
    assert largest.endswith(f"at most {bound(max(every))}.")
    assert f"{most['source']}: {float(share):.0f} % of its rho." in cause


def test_several_configurations_compose(commands: Commands, config: Path) -> None:
    one = read(commands, config, "sdhc-2020-phsafe")
    both = read(commands, config, "sdhc-2020-phsafe", config)
    persons, housing = Fraction(293764, 114921), Fraction(11417641, 152349649)
    sdhc = Fraction(1257281, 10**6)
    assert rho(one) == persons / 2 + housing + sdhc
    assert rho(both) == persons + 2 * housing + sdhc
    names = [line["source"] for line in cases(both, "moved")[0]["sources"]]
    assert names == [
        *("pl94: persons", "pl94: housing", "sdhc-2020-phsafe"),
        *("pl94: persons (2)", "pl94: housing (2)"),
    ]
    assert all(c["epsilon"]["exact"] for c in cases(both, "replaced"))


def test_populations_that_agree_on_what_is_exact_lose_less(
    commands: Commands, config: Path
) -> None:
    """Totals of states are published exactly here: they tell nothing. One person more or less
    changes them, so there is no such line."""
    found = read(commands, config, "sdhc-2020-phsafe")
    assert [c["same_invariants"] for c in cases(found, "added-or-removed")] == [False]
    whole, same = (
        next(c for c in cases(found, "replaced") if c["same_invariants"] is x)
        for x in (False, True)
    )
    plan = json.loads(commands.named("account")(config, "--json")[1])
    agree = plan["guarantee_of_neighbours_that_agree"]
    less = sum(Fraction(plan["rho"][u]) - Fraction(agree[u]["rho"]) for u in ("persons", "housing"))
    assert less > 0
    assert Fraction(whole["rho"]) - Fraction(same["rho"]) == less
    assert same["epsilon"]["pld"][1] < whole["epsilon"]["pld"][0]


def test_another_delta_and_a_larger_household(commands: Commands) -> None:
    usual = read(commands, "census-2020")
    other = read(commands, "census-2020", "--delta", "1e-20", "--persons", "5")
    a, b = (cases(x, "added-or-removed")[0]["epsilon"] for x in (usual, other))
    assert (a["delta"], b["delta"]) == ("1e-10", "1e-20")
    assert b["pld"][0] > a["pld"][1]
    persons = {x["source"]: x["changes"] for x in cases(other, "household")[0]["sources"]}
    assert persons["DHC, persons"] == "5 person records replaced"
    assert rho(other, "household") > rho(usual, "household")
    assert rho(other) == rho(usual)


def test_runs_and_releases_and_their_statements(
    commands: Commands, worlds: Worlds, tmp_path: Path
) -> None:
    """A run, its release and its privacy.json are one thing; a statement alone says the same by its
    ledger."""
    run = worlds.run("run.seed=1", data="one thousand")
    alone = tmp_path / "privacy.json"
    shutil.copy(run / "release" / "privacy.json", alone)
    each = [
        read(commands, source, "census-2020")
        for source in (run, run / "release", run / "release" / "privacy.json", alone)
    ]
    for found in each:
        assert found["private"] is False
        assert "NOT PRIVATE" in found["warning"]
    sums = [[(r["name"], cases(x, r["name"])[0]["rho"]) for r in x["relations"]] for x in each]
    assert sums[0] == sums[1] == sums[2] == sums[3]
    epsilons = [cases(x, "moved")[0]["epsilon"] for x in each]
    assert epsilons[0] == epsilons[1] == epsilons[2] == epsilons[3]
    assert "NOT PRIVATE" in commands.named("account")(run, "census-2020")[1]


def test_the_dhc_and_the_detailed_dhc_by_their_own_terms(
    commands: Commands, worlds: Worlds, tmp_path: Path
) -> None:
    """Records in several groups at once cost what their release states; its statement alone is
    known by rho only."""
    dhc, groups, homes = worlds.dhc(), worlds.groups(), worlds.groups("households")
    found = read(commands, dhc, groups, homes)
    stated = {x: json.loads((x / "release/privacy.json").read_text())["rho"] for x in (dhc, groups, homes)}  # fmt: skip
    d = {u: Fraction(v) for u, v in stated[dhc].items()}
    persons, households = (Fraction(stated[x]["total"]) for x in (groups, homes))
    assert rho(found) == (
        d["persons"] / 2 + d["households"] + d["units"] + persons + 2 * households
    )
    assert rho(found, "replaced") == d["total"] + 2 * persons + 2 * households
    assert cases(found, "replaced")[0]["epsilon"]["exact"]
    alone = tmp_path / "groups.json"
    shutil.copy(groups / "release" / "privacy.json", alone)
    bound = read(commands, dhc, alone, homes)
    assert rho(bound) == rho(found)
    assert not cases(bound, "added-or-removed")[0]["epsilon"]["exact"]


def test_noise_without_a_delta_adds_its_epsilon(commands: Commands, config: Path) -> None:
    alone, both = (
        cases(read(commands, *sources), "added-or-removed")[0]
        for sources in ((config, config), (config, config, "1940-pure-dp"))
    )
    pure = json.loads(commands.named("account")("1940-pure-dp", "--json")[1])
    epsilon = Fraction(pure["epsilon"]["total"]) / 2
    (line,) = [x for x in both["sources"] if x["source"] == "1940-pure-dp"]
    assert Fraction(line["rho"]) == epsilon**2 / 2
    assert not line["draws_known"]
    assert both["epsilon"]["pld"][0] == alone["epsilon"]["pld"][0]
    more = both["epsilon"]["pld"][1] - alone["epsilon"]["pld"][1]
    assert more == pytest.approx(float(epsilon), rel=1e-9)


def test_the_schema_of_lists_is_printed(commands: Commands) -> None:
    code, out, _ = commands.named("account")("schema", "--sources")
    assert code == 0
    assert json.loads(out) == json.loads(
        (ROOT / "docs" / "sources.schema.json").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("census-2020", "nowhere.json"), ("nowhere.json", "no such statement")),
        (("census-2020", "no-such-name"), ("no-such-name", "census-2020")),
        (("census-2020", "--set", "budget.rho=1"), ("--set", "leave it out")),
        (("pl94-2010", "--persons", "2"), ("--persons", "several sources")),
        (("census-2020", "--delta", "2"), ("--delta", "between 0 and 1")),
        (("pl94-2010", "detailed-dhc"), ("data.parameters", "the source detailed-dhc")),
        (("{broken}", "census-2020"), ("broken.json", "no JSON")),
        (("{other}",), ("other.json", "das-sources/1")),
        (("{folder}", "census-2020"), ("folder",)),
        (("census-2020", "--persons", "0"), ("--persons",)),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(
    args: tuple[str, ...], words: tuple[str, ...], commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "other.json").write_text('{"format": "geojson"}', encoding="utf-8")
    (tmp_path / "folder").mkdir()
    named = {x: str(tmp_path / f"{x}.json") for x in ("broken", "other")}
    named["folder"] = str(tmp_path / "folder")
    code, out, err = commands.named("account")(*(a.format(**named) for a in args))
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    for word in words:
        assert word in err, err


@pytest.mark.parametrize(
    "given",
    [
        {"rho": "1" + "0" * 400},
        {"rho": "1/1" + "0" * 400},
        {"rho": "inf"},
        {"rho": "5" + "0" * 399, "draws": [{"sigma_sq": "1/1" + "0" * 400, "answers": 1}]},
        {"rho": "1/2" + "0" * 400, "draws": [{"sigma_sq": "1" + "0" * 400, "answers": 1}]},
        {"rho": "5" + "0" * 399, "draws": [{"sigma_sq": "1", "answers": 10**400}]},
        {"rho": "1" + "0" * 99},
        {
            "unit": "person-and-household",
            "rho": "1",
            "multiples": {"replaced": 10**400, "moved": 4, "household": 4},
        },
    ],
)
def test_a_number_that_floats_do_not_carry_is_refused(
    given: dict[str, Any], commands: Commands, tmp_path: Path
) -> None:
    source = {"name": "s", "publication": "p", "unit": "person", "neighbours": "unbounded"}
    source |= {"from": "here"} | given
    path = tmp_path / "list.json"
    # the last but one is carried itself; of a household of 1000 it is not
    more = ("--persons", "1000") if given["rho"] == "1" + "0" * 99 else ()
    text = {"format": "das-sources/1", "name": "t", "sources": [source]}
    path.write_text(json.dumps(text), encoding="utf-8")
    code, out, err = commands.named("account")(str(path), *more)
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    assert "rho" in err or "answers" in err or "multiples" in err
