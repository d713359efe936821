"""docs/how-to/own-data.md, followed to its end: made-up tables in the printed layouts, and then nothing
but what is printed.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
import re
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import das
from das.cli import main
from das.spec import parse
from docs import pages

PAGE = pages.text("own-data")
HEADERS = re.findall(r"```\n(.*)\n.*\n\.\.\.\n```", PAGE)
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
(PYTHON,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
VILLAGES = [
    f"{region}{district}{village}" for region in "NS" for district in "12" for village in "abc"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("own"), random.Random(1)
    people, listed, households = (h.split(",") for h in HEADERS)
    write(
        folder / "places.csv",
        listed,
        [
            {
                "region": v[0],
                "district": v[:2],
                "village": v,
                "village_name": f"Village {v}",
                "seat": "East" if v[2] == "a" else "West",
            }
            for v in [*VILLAGES, "S2d"]
        ],
    )
    write(
        folder / "people.csv",
        people,
        [
            {
                "region": v[0],
                "district": v[:2],
                "village": v,
                "seat": "East" if v[2] == "a" else "West",
                "sex": draw.choice(("female", "male")),
                "age": draw.choice(("young", "middle", "old")),
                "religion": draw.choice(("x", "y", "z", "")),
            }
            for v in VILLAGES
            for _ in range(30)
        ],
    )
    write(
        folder / "households.csv",
        households,
        [
            {"village": v, "size": s, "tenure": t, "n": draw.randrange(9)}
            for v in VILLAGES
            for s in "123"
            for t in ("own", "rent")
        ],
    )
    places = ["province", "county", "municipality", "parish", "village", "block"]
    codes = ["".join(x) for x in itertools.product("12", repeat=6)]
    ages = itertools.cycle(range(120))
    write(
        folder / "deep.csv",
        [*places, "sex", "age"],
        [
            {
                **{p: c[: i + 1] for i, p in enumerate(places)},
                "sex": draw.choice("fm"),
                "age": next(ages),
            }
            for c in codes
            for _ in range(8)
        ],
    )
    (folder / "my.toml").write_text("\n".join(TOML), encoding="utf-8")
    return folder


def write(path: Path, header: list[str], rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, header)
        out.writeheader()
        out.writerows(rows)


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, str]:
    """Every printed command, in order, in that folder: its output."""
    out = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for line in (line for block in COMMANDS for line in block):
            done = CliRunner().invoke(main, line.removeprefix("das ").split())
            assert done.exit_code == 0, f"{line}\n{done.output}"
            out[line] = done.output
    return out


def test_every_command_is_followed(said: dict[str, str]) -> None:
    assert [len(b) for b in COMMANDS] == [3, 2, 7, 3]
    assert len(TOML) == 3
    assert len(HEADERS) == 3


def test_an_empty_village_is_published_too(folder: Path, said: dict[str, str]) -> None:
    table = pd.read_csv(folder / "runs" / "placed" / "release" / "tables" / "T0_Village.csv")
    assert table["GEOCODE"].tolist() == [*VILLAGES, "S2d"]
    assert "Village S2d" in table["NAME"].tolist()


def test_the_draft_finds_what_the_guide_writes_by_hand(folder: Path, said: dict[str, str]) -> None:
    draft, mine = (
        parse((folder / name).read_text(encoding="utf-8"), where=name)
        for name in ("draft.toml", "my.toml")
    )
    assert draft.geography.levels == mine.geography.levels
    assert {a.name: set(a.levels) for a in draft.persons.schema.attributes} == {
        a.name: set(a.levels) for a in mine.persons.schema.attributes
    }
    assert draft.data.columns is not None
    assert draft.data.columns["missing"] == {"religion": "unknown"}
    assert list(draft.data.columns["areas"].values()) == ["seat"]


def test_persons_and_households(folder: Path, said: dict[str, str]) -> None:
    release = folder / "runs" / "mine" / "release"
    privacy = json.loads((release / "privacy.json").read_text())
    assert privacy["rho"] == {"persons": "2", "households": "1", "total": "3"}
    assert "women0001" in said["das tables runs/mine --level Region --table women"]
    seats = said["das tables runs/mine --level Constituency --table T1"].splitlines()
    assert [line.split(",")[0] for line in seats[1:3]] == ["East", "West"]
    assert "households" in said["das compare runs/mine"].lower()
    true = pd.read_csv(folder / "people.csv")
    table = pd.read_csv(release / "tables" / "women_Region.csv", index_col="GEOCODE")
    women = true[true["sex"] == "female"].groupby("region").size()
    assert table["women0001"].to_dict() == women.to_dict()  # sex is exact at the regions


def test_the_python_runs(folder: Path, said: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        frames = [
            eval(line, {"das": das}) for line in PYTHON.splitlines() if line.startswith("das.")
        ]
    assert list(frames[0]["age"]) == ["minor", "adult"] * 2
    assert list(frames[1]["size"][:2]) == ["one", "one"]
    assert set(frames[2]["age"]) == {"Under 18 years", "18 to 64 years", "65 years and over"}
    assert len(frames[2]) == 360
    assert set(frames[3].columns) == {"geocode", "size", "tenure"}


def test_seven_levels_and_a_hundred_and_twenty_ages_in_little_memory(
    folder: Path, said: dict[str, str]
) -> None:
    spec = parse((folder / "deep.toml").read_text(encoding="utf-8"), where="deep.toml")
    assert len(spec.geography.levels) == 7
    assert spec.persons.schema.shape == (2, 120)
    manifest = json.loads((folder / "runs" / "deep" / "manifest.json").read_text())
    assert max(stage["peak_mb"] for stage in manifest["stages"]) < 2000
