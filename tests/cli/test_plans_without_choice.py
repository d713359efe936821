"""`das plan` of publications whose queries are given: what each level and query gets, and its
margins of error."""

from __future__ import annotations

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from das.release.publications import publication
from das.spec import load
from tests.commands import Commands
from tests.worlds import Worlds


@pytest.fixture(params=["dhc", "detailed"])
def config(request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path, root: Path) -> Path:
    if request.param == "dhc":
        return root / "configs" / "dhc-2020.toml"
    folder = worlds.group_folders()
    path = tmp_path / "groups.toml"
    path.write_text(
        '[run]\nname = "groups"\npublication = "detailed-dhc"\n'
        '[detailed]\nproduct = "persons"\n'
        f'[data]\npath = "{folder / "data"}"\nparameters = "{folder / "parameters"}"\n'
    )
    return path


def test_it_says_what_every_query_gets(config: Path, commands: Commands) -> None:
    code, out, err = commands.named("plan")(config, "--json", "--coverage", "0.9")
    assert code == 0, err
    given = load(config.read_text(encoding="utf-8"), where="c")
    spec, said = publication(given.publication()).resolved(given), json.loads(out)
    for u, row in zip(spec.universes, said["universes"], strict=True):
        assert (row["universe"], Fraction(row["rho"])) == (u.name, u.plan.cost)
        assert len(row["plan"]) == len(u.plan.measurements)
        for d, line in zip(u.plan.measurements, row["plan"], strict=True):
            assert (line["level"], line["query"]) == (d.level, d.query)
            assert line["margins"] == {"0.9": d.margin(0.9)}
            assert line["share"] == pytest.approx(float(d.cost / u.plan.cost))
    code, out, err = commands.named("plan")(config)
    assert code == 0, err
    assert ("no optimizer: " in out) == ("optimize" in publication(given.publication()).cannot)
    assert "epsilon = " in out


def test_what_chooses_is_refused_with_the_reason(config: Path, commands: Commands) -> None:
    for more in (("--margin", "x:y=1"), ("--add", "x:y=1"), ("--areas", "x"), ("--toml",)):
        code, _, err = commands.named("plan")(config, *more)
        assert (code, "is not there for" in err) == (2, True), err


def test_check_reads_the_input_and_says_what_a_run_takes(
    worlds: Worlds, commands: Commands, root: Path
) -> None:
    earlier = worlds.run("run.seed=1", data="one thousand")
    chosen = ("--set", f"constraints.from={earlier}", "--set", "run.seed=1")
    call = (root / "configs" / "dhc-2020.toml", *chosen, "--data", worlds.linked())
    code, out, err = commands.named("check")(*call)
    assert code == 0, err
    assert "1,578,528 cells; a run takes" in out
    assert "it fits into the memory of this machine" in out
    said = json.loads(commands.named("check")(*call, "--json")[1])
    assert [s["universe"] for s in said["sizes"]] == ["persons", "units", "households"]
    assert all(s["with_data"] and s["memory"] > 0 for s in said["sizes"])


def test_check_notes_where_the_counts_that_are_kept_were_measured_less_precisely(
    commands: Commands, root: Path, tmp_path: Path
) -> None:
    """By the specification of the release below alone: nothing else of it is there. 29 and 5 are
    1 / sqrt(sum of rho over answers of an adult count), by hand from the two configurations."""
    for below in ("pl94-2010", "pl94-2010-best"):
        (tmp_path / below / "release").mkdir(parents=True)
        shutil.copy(root / "configs" / f"{below}.toml", tmp_path / below / "release" / "spec.toml")
    for config, below, noted in (
        ("dhc-best", "pl94-2010", ["Tract", "Block_Group"]),
        ("dhc-best", "pl94-2010/release", ["Tract", "Block_Group"]),
        ("dhc-best", "pl94-2010-best", []),
        ("dhc-best", "nothing", []),
        ("dhc-2020", "pl94-2010", []),
    ):
        chosen = f"constraints.from={tmp_path / below}"
        code, _, err = commands.named("check")(root / "configs" / f"{config}.toml", "--set", chosen)
        assert code == 0, err
        assert re.findall(r"adults in each (\w+) is kept", err) == noted, (config, below)
        assert not noted or "29 persons. The queries of this plan alone would have 5." in err
