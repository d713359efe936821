"""``das account`` and ``das plan``: what they print, as text and JSON, and what they refuse."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import tomli_w

from das import spec
from das.accounting import epsilon
from das.accounting.codec import own_digest
from das.accounting.planning import least_cost, normal_cost
from das.cli import main
from das.files import atomic
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.run import run_directory
from das.files.simulators import census_2010 as simulate_2010
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.publications.published.files import layout
from das.report.privacy import bound
from das.runs import pipeline
from tests.altered import sealed
from tests.spec.test_parse import BASE, UNITS
from tests.worlds import Worlds


class SubtreeMoments(NamedTuple):
    code: int
    out: str
    err: str


Das = Callable[..., SubtreeMoments]


@pytest.fixture
def das(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Das:
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*args: object) -> SubtreeMoments:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in args])
        return SubtreeMoments(int(end.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "small.toml"
    path.write_text(BASE + UNITS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(config: Path) -> Path:
    simulate_2010.write(config.parent / "data", seed=1, states=1, persons=1000)
    chosen = spec.parse(config.read_text(), where="c", overrides=("output.report=false",))
    pipeline.run(chosen, config.parent / "run", paths=[config.parent / "data"])
    return config.parent / "run"


def refused(said: SubtreeMoments, *words: str) -> None:
    assert said.code == 2, said
    assert said.err.startswith("das: "), said.err
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err


def by(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return {r[key]: r for r in rows}


# --- das account
# ---------------------------------------------------------------------------------------------------


def test_the_account_of_a_configuration(das: Das, config: Path) -> None:
    said = das("account", config)
    assert said.code == 0, said.err
    for part in (
        "bounded",
        "5/2",
        "exactly at delta = 1e-10",
        "implied epsilon",
        "for one record of each kind replaced by any other (bounded neighbors)",
        "hispanic (same place)",
        "place within one State (same attributes)",
        "where the budget goes",
        "persons, by levels",
        "housing",
    ):
        assert part in said.out, part
    account = json.loads(das("account", "--json", config).out)
    assert account["rho"] == {"persons": "5/2", "housing": "1/4", "total": "11/4"}
    assert account["spending"]["persons"]["levels"] == {"US": "5/8", "State": "5/8", "Block": "5/4"}
    assert account["spending"]["persons"]["queries"]["detailed"] == str(
        Fraction(5, 8) * (Fraction(2, 3) + Fraction(1, 3))
    )
    changes = by(account["changes"]["persons"], "what")
    # hhgq and detailed at the US, detailed at the State tell hhgq apart
    assert Fraction(changes["hhgq"]["rho"]) == Fraction(5, 8) + Fraction(5, 8) / 3
    assert Fraction(changes["place within one State"]["rho"]) == Fraction(5, 4)
    draws = [(Fraction(4, 5), 2)]  # the one draw below the State: rho = 5/4 = 2/(2 sigma^2)
    low, high = epsilon(draws, "1e-10")
    assert low <= changes["place within one State"]["pld"][1] <= high + 1e-9


def test_the_account_of_a_run_is_that_of_its_configuration(
    das: Das, config: Path, finished: Path
) -> None:
    planned = json.loads(das("account", config, "--json").out)
    for folder in (finished, finished / "release"):
        assert json.loads(das("account", folder, "--json").out) == planned
    assert "anything" in das("account", finished).out


def test_another_delta(das: Das, config: Path) -> None:
    account = json.loads(das("account", config, "--json", "--delta", "1e-12").out)
    deltas = [e["delta"] for e in account["guarantee"]["persons"]["epsilon"]]
    assert deltas == ["1e-5", "1e-10", "1e-12", "1e-15", "1e-20", "1e-30"]
    assert {c["delta"] for c in account["changes"]["persons"]} == {"1e-12"}


@pytest.mark.parametrize(
    "args, words",
    [
        (["{config}", "--delta", "0"], ["--delta", "between 0 and 1"]),
        (["{config}", "--delta", "1"], ["--delta", "between 0 and 1"]),
        (["{config}", "--delta", "-1e-3"], ["--delta", "between 0 and 1"]),
        (["{config}", "--delta", "tiny"], ["--delta", "'tiny' is not a number"]),
        (["{config}", "--set", "budget.rho=-1"], ["budget.rho", "-1"]),
        (
            ["{config}", "--set", "budget.levels.US=1/3"],
            ["budget.levels", "the shares sum to 13/12"],
        ),
        (
            ["{config}", "--set", "budget.queries.US={{hhgq = 0.5, detailed = 0.5}}"],
            ["budget.queries.US.hhgq", "float"],
        ),
        (["{run}", "--set", "budget.rho=1"], ["--set", "accounted for as it is"]),
        (["{config}.gone"], ["no such configuration"]),
        (["{empty}"], ["privacy.json"]),
        (["verify", "{empty}"], ["privacy.json"]),
    ],
)
def test_what_is_not_an_account_is_refused(
    das: Das, config: Path, finished: Path, tmp_path: Path, args: list[str], words: list[str]
) -> None:
    refused(
        das("account", *(a.format(config=config, run=finished, empty=tmp_path) for a in args)),
        *words,
    )


def test_verify(das: Das, finished: Path, tmp_path: Path) -> None:
    for folder in (finished, finished / "release"):
        said = das("account", "verify", folder)
        assert said.code == 0, said.err
        assert "9 draws" in said.out
        assert "11/4 (about 2.75)" in said.out
        assert "NOT PRIVATE" not in said.out
    copied = Path(shutil.copytree(finished, tmp_path / "copied"))
    path = copied / "release" / "privacy.json"
    value = json.loads(path.read_text())
    value["guarantee"]["total"]["epsilon"][1]["pld"] = [1.0, 2.0]
    atomic.write_json(path, value)
    refused(das("account", "verify", copied), "privacy.json, line", "guarantee.total.epsilon.1.pld")


def test_measurements_that_do_not_match_their_ledger_have_no_account(
    das: Das, finished: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(finished, tmp_path / "copied"))
    part = next((copied / "release" / "nmf" / "State.parquet" / "DPQuery").rglob("*.parquet"))
    part.write_bytes(
        (copied / "release" / "nmf" / "Block.parquet" / "DPQuery")
        .rglob("*.parquet")
        .__next__()
        .read_bytes()
    )
    refused(das("account", copied), "State")


def test_files_of_another_publisher(das: Das, finished: Path, tmp_path: Path) -> None:
    """The files are held against what was read off them; there is no ledger to account for."""
    layout.convert(finished / "release" / "nmf", tmp_path / "release")
    said = das("nmf", "verify", tmp_path)
    assert said.code == 0, said.err
    assert "6 queries by level" in said.out
    refused(das("account", tmp_path), "another publisher")


def test_a_seeded_run_is_right_and_not_private(das: Das, config: Path, tmp_path: Path) -> None:
    chosen = spec.parse(BASE, where="c", overrides=("run.seed=1", "output.report=false"))
    pipeline.run(chosen, tmp_path / "run", paths=[config.parent / "data"])
    assert "NOT PRIVATE" in das("account", "verify", tmp_path / "run").out


def test_what_is_estimated_from_a_release_has_its_ledger_and_statement(
    das: Das, finished: Path, tmp_path: Path
) -> None:
    assert das("estimate", "--from", finished / "release", "--out", tmp_path / "new").code == 0
    old, new = (p / "release" / "privacy.html" for p in (finished, tmp_path / "new"))
    assert new.read_bytes() == old.read_bytes()
    assert "the privacy statement is right" in das("account", "verify", tmp_path / "new").out


def test_check_gives_the_exact_epsilon(das: Das, config: Path) -> None:
    promise = json.loads(das("check", config, "--json").out)["guarantee"]["persons"]
    draws = [
        (d.parameter, 2)
        for d in spec.parse(config.read_text(), where="c").persons.plan.measurements
    ]
    ten = by(promise["epsilon"], "delta")["1e-10"]
    assert ten["pld"] == pytest.approx(list(epsilon(draws, "1e-10")), rel=1e-9)
    assert f"epsilon = {bound(ten['pld'])} exactly" in das("check", config).out


# --- das plan
# --------------------------------------------------------------------------------------------------------


def test_a_pure_budget_has_plans_and_an_account_too(das: Das, root: Path) -> None:
    config = root / "configs" / "1940-pure-dp.toml"
    changes = by(json.loads(das("account", config, "--json").out)["changes"]["persons"], "what")
    assert changes["place within one County"] == {
        "kind": "place",
        "what": "place within one County",
        "epsilon": "1/16",
        "says": "place within one County (same attributes)",
    }
    said = json.loads(das("plan", config, "--margin", "State:detailed=30", "--json").out)
    assert "rho_normal" not in said["prices"][0]
    options = by(said["options"], "name")
    assert options["all-scaled"]["guarantee"] == {
        "epsilon": options["all-scaled"]["epsilon"],
        "delta": "0",
    }
    assert Fraction(options["others-unchanged"]["epsilon"]) == Fraction(1, 4) * Fraction(
        39, 40
    ) + Fraction(said["prices"][0]["epsilon"])
    assert das("account", config).code == das("plan", config).code == 0


def test_margins_of_a_budget(das: Das, config: Path) -> None:
    said = das("plan", config)
    assert said.code == 0, said.err
    for part in ("90 %", "95 %", "99 %", "State", "hispanic * cenrace", "rho = 5/2", "1e-30"):
        assert part in said.out, part
    (option,) = json.loads(das("plan", config, "--json", "--coverage", "0.5").out)["options"]
    line = next(d for d in option["plan"] if (d["level"], d["query"]) == ("State", "total"))
    assert (
        line["sigma_sq"] == "24/5"
    )  # sigma = 2.19; half is within 1.48: P[|X| <= 1] = 0.51 at least
    assert line["margins"] == {"0.5": 1}


def test_wishes_take_any_spelling(das: Das, config: Path) -> None:
    exact = das("plan", config, "--margin", "Block:hispanic * cenrace=9", "--json")
    assert das("plan", config, "--margin", "block:CENRACE*Hispanic=9", "--json") == exact
    said = das("plan", config, "--add", "Blok:hispanic=1/100")
    assert (said.code, "did you mean Block?" in said.err) == (2, True)


def test_what_margins_and_queries_cost(das: Das, config: Path) -> None:
    args = ("plan", config, "--margin", "State:total=3", "--add", "Block:hispanic=1/100")
    said = json.loads(das(*args, "--json").out)
    options = by(said["options"], "name")
    assert list(options) == ["now", "others-unchanged", "same-total", "all-scaled"]
    price = least_cost(DISCRETE_GAUSSIAN, Neighbours.BOUNDED, 3, 0.95)
    (shown,) = said["prices"]
    assert (shown["rho"], shown["rho_normal"]) == (
        str(price),
        normal_cost(Neighbours.BOUNDED, 3, 0.95),
    )
    assert Fraction(options["others-unchanged"]["rho"]) == Fraction(5, 2) - Fraction(
        5, 24
    ) + price + Fraction(1, 100)
    assert Fraction(options["same-total"]["rho"]) == Fraction(5, 2)
    eps = [e for o in options.values() for e in o["guarantee"]["epsilon"]]
    assert [e["delta"] for e in eps] == ["1e-10"] * 4
    assert eps[0]["pld"][1] < eps[1]["pld"][0] < eps[3]["pld"][0]
    text = das(*args).out
    for part in (
        "others-unchanged",
        "same-total",
        "all-scaled",
        "State:total within 3 at 95 %",
        "SafeTab-P",
        "–",
    ):
        assert part in text, part


def test_housing_units_have_a_plan_too(das: Das, config: Path) -> None:
    said = json.loads(
        das("plan", config, "--universe", "housing", "--margin", "Block:detailed=9", "--json").out
    )
    assert [o["name"] for o in said["options"]] == [
        "now",
        "others-unchanged",
        "same-total",
        "all-scaled",
    ]
    assert said["options"][0]["rho"] == "1/4"


def test_a_plan_that_is_chosen_goes_into_the_configuration(
    das: Das, config: Path, tmp_path: Path
) -> None:
    args = ("plan", config, "--add", "Block:hispanic=1/100")
    tree = tomllib.loads(config.read_text())
    printed = tomllib.loads(das(*args, "--toml", "same-total").out)
    tree["budget"] = printed["budget"]
    tree["housing"]["budget"] |= printed["housing"]["budget"]
    (tmp_path / "new.toml").write_text(tomli_w.dumps(tree))
    wanted = by(json.loads(das(*args, "--json").out)["options"], "name")["same-total"]["plan"]
    got = json.loads(das("check", tmp_path / "new.toml", "--json").out)["plan"]
    key = ("level", "query", "rho", "sigma_sq")
    persons = [tuple(d[k] for k in key) for d in got if d["universe"] == "persons"]
    assert sorted(persons) == sorted(tuple(d[k] for k in key) for d in wanted)


@pytest.mark.parametrize(
    "args, words",
    [
        (["--margin", "State:total"], ["--margin", "LEVEL:QUERY=VALUE"]),
        (["--margin", "total=5"], ["--margin", "LEVEL:QUERY=VALUE"]),
        (["--margin", "State:total=2.5"], ["whole number", "2.5"]),
        (["--margin", "State:total=-1"], ["whole number"]),
        (
            ["--margin", "State:votingage=3"],
            ["State:votingage", "no such draw", "it measures total"],
        ),
        (["--margin", "Ward:total=3"], ["the levels are US, State, Block"]),
        (["--margin", "State:total=3", "--margin", "State:total=4"], ["there twice"]),
        (["--add", "State:votingage=0"], ["not positive"]),
        (["--add", "State:votingage=x"], ["--add State:votingage=x", "not a number"]),
        (["--add", "State:age=1"], ["'age'"]),
        (["--universe", "dogs"], ["--universe", "persons, housing"]),
        (["--toml", "best"], ["--toml", "choose from now"]),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(
    das: Das, config: Path, args: list[str], words: list[str]
) -> None:
    refused(das("plan", config, *args), *words)


def test_a_coverage_of_nothing_or_all(das: Das, config: Path) -> None:
    for value in ("0", "1", "95"):
        assert das("plan", config, "--coverage", value).code == 2


def test_a_coverage_that_is_no_number(das: Das, config: Path) -> None:
    refused(das("plan", config, "--coverage", "nan"), "--coverage", "not a number")


def test_verify_as_data(das: Das, finished: Path, tmp_path: Path) -> None:
    said = json.loads(das("account", "verify", finished, "--json").out)
    statement_ = json.loads((finished / "release" / "privacy.json").read_text())
    assert (said["right"], said["private"], said["rho"]) == (True, True, statement_["rho"])
    assert said["draws"] == len(statement_["ledger"])
    assert said["digests"] == statement_["digests"]


def test_areas_are_not_named_as_a_level_is(das: Das, finished: Path, tmp_path: Path) -> None:
    """Their rows in ``tables.csv`` could not be told apart."""
    spec_, spine_ = (finished / "release" / n for n in ("spec.toml", "spine.parquet"))
    levels = tomllib.loads(spec_.read_text())["geography"]["levels"]
    path = tmp_path / f"{levels[1]}.csv"
    path.write_text(f"area,block\nx,{spine_file.read(spine_).code('Block', 0)}\n")
    refused(
        das("evaluate", finished, "--areas", path),
        path.name,
        "is a level of the spine",
        "another name",
    )


def test_the_schema_is_the_published_one_and_that_of_real_statements(
    das: Das, root: Path, finished: Path
) -> None:
    code, out, _ = das("account", "schema")
    assert code == 0
    assert out == (root / "docs" / "privacy-statement.schema.json").read_text(encoding="utf-8")
    jsonschema.validate(
        run_directory.read_json(finished / "release" / "privacy.json"), json.loads(out)
    )


# --- verification and signature
# --------------------------------------------------------------------------------------


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_a_release_is_signed_last_and_verified_with_its_signer(
    das: Das, copied: Path, tmp_path: Path
) -> None:
    key, allowed = tmp_path / "office", tmp_path / "allowed"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    allowed.write_text(f"office@example.gov {key.with_suffix('.pub').read_text()}")
    assert "not signed" in das("account", "verify", copied).out
    refused(das("account", "verify", copied, "--signer", allowed), "this release is not signed")
    assert "privacy.json.sig" in das("account", "sign", copied, "--key", key).out
    said = json.loads(
        das(
            "account", "verify", copied, "--signer", allowed, "--recompute", "--quiet", "--json"
        ).out
    )
    assert (said["signed"], said["signer"], said["recomputed"], said["not_checked"]) == (
        True,
        "office@example.gov",
        True,
        [],
    )
    shown = das("account", "verify", copied, "--signer", allowed).out
    assert "signed: by office@example.gov" in shown
    assert "nor who wrote the digests" not in shown  # the next line says who
    again = das("account", "sign", copied, "--key", key)
    refused(again, "this release is signed already", "delete privacy.json.sig")
    assert "--out" not in again.err  # which the command does not have
    refused(
        das("intervals", copied, "--replicates", 2, "--quiet"), "this release is signed", "--out"
    )
    assert not (copied / "release" / "intervals").exists()
    sealed(copied / "release")  # somebody who altered it does this: the same statement again
    assert das("account", "verify", copied, "--signer", allowed).code == 0
    path = copied / "release" / "spec.toml"
    path.write_text("# mine\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    sealed(copied / "release")
    refused(das("account", "verify", copied), "this is no signature of privacy.json")


def test_what_was_not_checked_is_said(das: Das, copied: Path) -> None:
    said = privacy_statement.read(copied / "release")
    made = {**said.software, "das": "0.0.7"}
    (copied / "release" / "privacy.html").write_text("<p>nothing is lost</p>", encoding="utf-8")
    said = said.sealed(
        {
            **said.digests,
            "privacy.html": run_directory.file_digest(copied / "release" / "privacy.html"),
        },
        made,
    )
    privacy_statement.write(
        copied / "release", said.sealed({**said.digests, "privacy.json": own_digest(said)}, made)
    )
    refused(das("account", "verify", copied), "das 0.0.7", "--other-version")
    out = das("account", "verify", copied, "--other-version").out
    assert "NOT CHECKED" in out
    assert "privacy.html" in out
    assert json.loads(das("account", "verify", copied, "--other-version", "--json").out)[
        "not_checked"
    ] == ["privacy.html"]


def test_a_seeded_release_is_signed_by_nobody(das: Das, worlds: Worlds, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    refused(
        das(
            "account",
            "sign",
            worlds.run("run.seed=1", data="one thousand"),
            "--key",
            tmp_path / "key",
        ),
        "was seeded",
    )


def test_a_folder_that_is_not_there_is_said_to_be_missing(das: Das, tmp_path: Path) -> None:
    said = das("account", "verify", tmp_path / "nowhere")
    refused(said, "there is no such folder", "finished run")
    assert "permissions" not in said.err
    refused(das("account", "verify", tmp_path), "privacy.json", "finished run")


def test_a_margin_that_holds_already_is_said(das: Das, config: Path) -> None:
    args = ("plan", config, "--margin", "State:total=50")
    text = das(*args).out
    (line,) = (li for li in text.splitlines() if "already" in li)
    assert re.fullmatch(r"State:total is ±\d already; you ask for ±50", line)
    assert "recommended: now. Keep the plan" in text
    assert "--out" not in text
    assert json.loads(das(*args, "--json").out)["recommended"] == "now"


@pytest.mark.parametrize("universe", ["persons", "housing"])
def test_the_recommended_command_writes_a_configuration_with_the_margin(
    das: Das, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, universe: str
) -> None:
    """It is the cheapest alternative that meets what was asked; all else stays as it was."""
    monkeypatch.chdir(tmp_path)
    query = "Block:total" if universe == "persons" else "Block:detailed"
    args = ("plan", config, "--margin", f"{query}=1", "--universe", universe)
    args = (*args, "--set", "run.name=planned here")
    said = json.loads(das(*args, "--json").out)
    found = by(said["options"], "name")
    best = said["recommended"]
    meets = [n for n in found if n not in ("now", "same-total")]
    assert Fraction(found[best]["rho"]) == min(Fraction(found[n]["rho"]) for n in meets)
    (command,) = (li for li in das(*args).out.splitlines() if li.startswith("  das plan "))
    assert das(*shlex.split(command)[1:]).code == 0
    wanted = [(d["level"], d["query"], d["rho"]) for d in found[best]["plan"]]
    checked = json.loads(das("check", tmp_path / "planned.toml", "--json").out)
    assert checked["name"] == "planned here"
    plan = checked["plan"]
    assert sorted(wanted) == sorted(
        (d["level"], d["query"], d["rho"]) for d in plan if d["universe"] == universe
    )
    before = json.loads(das("check", config, "--json").out)["plan"]
    assert [d for d in plan if d["universe"] != universe] == [
        d for d in before if d["universe"] != universe
    ]


def test_a_plan_is_written_by_name_alone(das: Das, config: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "new.toml")
    for wrong in (("--toml", "now"), ("--margin", "Block:total=2")):
        said = das("plan", config, *wrong, *out)
        assert (said.code, "--out" in said.err) == (2, True)
    assert not (tmp_path / "new.toml").exists()
