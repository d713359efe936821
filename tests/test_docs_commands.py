"""Every command and every Python session that README and docs print is run as it is printed, in one
folder.

Placeholders stand for what a reader would put there; input is small where it is not named. Only
what needs the network is left out."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import das
from das.cli import main
from das.files.simulators import detailed
from tests.detailed.runs import run_groups
from tests.sdhc.folders import made_up, said

ROOT = Path(__file__).resolve().parents[1]
#: The guide to one's own data is followed, in its order, by
#: tests/end_to_end/test_own_data_guide.py.
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").glob("*.md") if p.name != "own-data.md"),
]
MADE = "<!-- Below this line the page is made"

#: What stands for something of the reader's.
GIVEN = {
    "CONFIG": "pl94-2010",
    "RUN_DIR": "runs/first",
    "RUN": "runs/first",
    "RELEASE": "runs/first/release",
    "TARGETS": "policy",
    "N,N,...": "1,52,3221,73057,217740,6500000",
    "PATH": "tiny",
    "KEY=VALUE": "budget.rho=1",
    "N": "1",
    "FILE.svg": "attack.svg",
    "FILE": "wards.csv",
    "1/10,1,10": "1",
    "M": "topdown",
    "A": "runs/first",
    "B": "again",
    "PARAMETERS": "groups/parameters",
    "DATA": "groups/data",
    "PPMF_DIR": "ppmf",
    "FOLDER": "phsafe",
}
#: Said in addition, before what is printed, where the reader may wait, and a test should not.
SMALL = ["--quiet", "--set", "output.report=false", "--set", "output.tables=false"]
BRIEF = {
    "run sdhc-2020": ["--quiet"],
    "run": SMALL,
    "sweep": SMALL,
    "estimate": SMALL[:3],
    "intervals runs/first": ["--replicates", "3"],
}
#: Instead of what is printed.
FEW = {"--replicates": "3"}
#: Not run here, and why.
LEFT_OUT = {
    "data fetch": "needs the network",
    "US_Person_PL_PROD": "needs the Bureau's files; tests/files/measurements has others like them",
    "US_DHCP_PROD": "needs the Bureau's files; tests/release/test_published_dhc.py has others",
    "runs/2020": "is made from the Bureau's files; tests/release has such a comparison",
    "--engine dask": "needs a cluster; tests/engine/test_dask.py has one",
    "s3://": "needs a store; tests/end_to_end/test_stores.py has one",
    "xargs": "needs jobs; tests/cli/test_cli_tasks.py has them",
    "--engine array": "needs jobs; tests/engine/test_loop.py has them",
    "runs/dhc": "needs linked records; tests/end_to_end/test_dhc.py has them",
    " dhc-2020 --": "needs linked records; tests/end_to_end/test_dhc.py has them",
    " dhc-best --": "needs linked records; tests/end_to_end/test_dhc.py has them",
    "account sign": "needs a key; tests/cli/test_cli_account.py has one",
    "--signer": "needs a key; tests/cli/test_cli_account.py has one",
    "frontier ": "needs records; tests/cli/test_cli_frontier.py has them",
    "protect ": "needs records; tests/cli/test_cli_frontier.py has them",
    "ri2010_bristol": "needs a file of Rhode Island; tests/end_to_end/test_rhode_island.py has it",
    "--blocks ri2010": "needs a file of Rhode Island; tests/files/simulators has others like it",
    "risk reconstruct": "needs published tables; tests/jobs/test_reconstructing.py has them",
    "link ": "needs a run of the DHC; tests/link/test_link_command.py has one",
    "--agreement": "needs a run of the DHC; tests/link/test_link_command.py has one",
    "register": "needs a register; tests/cli/test_register.py has one",
    "map runs": "needs boundaries; tests/jobs/test_mapping.py has it",
    "--optimise fair": "has a list in brackets; tests/jobs/test_epsilon_guards.py makes that plan",
    "Narragansett": "is in Rhode Island; tests/cli/test_cli_tables.py has it",
    "Providence": "is in Rhode Island; tests/cli/test_cli_tables.py has it",
}


def written(page: Path) -> Iterator[str]:
    """Lines that begin with ``das``: in blocks, and, with arguments, in the README's table of
    commands.
    """
    text = page.read_text(encoding="utf-8").partition(MADE)[0]
    blocks = [
        line for b in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in b.splitlines()
    ]
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if page.name == "README.md" else []
    named = [line for cell in cells for line in re.findall(r"`(das [^`]+[A-Z][^`]*)`", cell)]
    yield from (line for line in [*blocks, *named] if re.match(r"das [a-z]", line))


def arguments(line: str) -> tuple[str, ...]:
    """The words after ``das``: optional parts taken, placeholders filled in, output to ``OUT``."""
    words = shlex.split(re.sub(r" \.\.\.|[\[\]]", "", line), comments=True)[1:]
    words = [GIVEN.get(w, w).replace("FOLDER/", "phsafe/") for w in words]
    at = words.index("--out") + 1 if "--out" in words else None
    if at is not None and "." not in words[at]:
        words[at] = "OUT"
    words = [FEW.get(before, word) for before, word in zip(["", *words], words)]
    said = f"{' '.join(words)} "
    more = next((more for name, more in BRIEF.items() if said.startswith(f"{name} ")), [])
    return (
        words[0],
        *more,
        *words[1:],
        *(["--data", "tiny"] * (words[0] in ("run", "sweep") and not _has_records(words))),
    )


def _has_records(words: list[str]) -> bool:
    """Whether a command names its records, or is of a publication that simulates its own."""
    return "--data" in words or words[1].startswith("sdhc")


EVERY = sorted({arguments(line) for page in PAGES for line in written(page)})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader who has followed the guide: a finished run, a downloaded file."""
    here = tmp_path_factory.mktemp("reader")
    (here / "tiny").mkdir()
    shutil.copy(ROOT / "data" / "pl94_2010" / "nj2010.pl.zip", here / "tiny")
    das.run(
        das.load_spec("pl94-2010", ["output.report=false"]),
        here / "runs" / "first",
        paths=[here / "tiny"],
    )
    (here / "configs").symlink_to(ROOT / "configs")
    (here / "downloads").mkdir()
    shutil.copy(here / "tiny" / "nj2010.pl.zip", here / "downloads" / "ri2010.pl.zip")
    for product, folder in (("persons", "groups"), ("households", "homes")):
        detailed.write(
            here / folder, seed=1, states="RI,PR", persons=2_000, codes=60, product=product
        )
    run_groups(
        here / "groups" / "parameters",
        here / "groups" / "data",
        "persons",
        here / "runs" / "groups",
    )
    made_up(1, 200).write(here / "phsafe")
    (here / "phsafe" / "config.json").write_text(
        json.dumps(said() | {"state_filter": ["44", "49"]})
    )
    das.run(das.load_spec("sdhc-2020"), here / "runs" / "sdhc", paths=[here / "phsafe"])
    (here / "ppmf").mkdir()
    names = "TABBLKST,TABBLKCOU,TABTRACT,TABBLKGRP,TABBLK,GQTYPE_PL,VOTING_AGE,CENHISP,CENRACE\n"
    for n in range(3):
        (here / "ppmf" / f"ppmf{n}.csv").write_text(
            names + "44,1,100,1,1000,0,2,1,1\n" * (7 - n) + "44,1,200,1,1000,0,2,1,1\n" * n
        )
    with (here / "runs" / "first" / "release" / "tables" / "P1_Block.csv").open(newline="") as file:
        blocks = [row["GEOCODE"] for row in csv.DictReader(file)]
    (here / "wards.csv").write_text(
        "area,block\n" + "".join(f"{n % 3},{b}\n" for n, b in enumerate(blocks))
    )
    done = CliRunner().invoke(
        main,
        [
            "estimate",
            "--from",
            str(here / "runs" / "first"),
            "--out",
            str(here / "again"),
            *SMALL[:3],
        ],
    )
    assert done.exit_code == 0, done.output
    return here


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_a_command_that_is_printed_works(
    words: tuple[str, ...], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = " ".join(words)
    if reason := next((why for name, why in LEFT_OUT.items() if name in said), None):
        pytest.skip(reason)
    monkeypatch.chdir(place)
    done = CliRunner().invoke(main, [str(tmp_path / "out") if w == "OUT" else w for w in words])
    assert done.exit_code == 0, (words, done.output)


@pytest.mark.parametrize("page", ["start.md", "measurements.md", "simulated-dhc.md"])
def test_a_python_session_that_is_printed_works(
    page: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    for block in blocks:
        exec(block.replace("runs/<name>-<time>", "runs/first"), {})


def test_the_commands_are_found() -> None:
    assert len(EVERY) > 25
    assert (
        "plan",
        "pl94-2010",
        "--margin",
        "Tract:total=5",
        "--add",
        "Tract:hispanic=1/100",
    ) in EVERY
    assert arguments("das intervals RUN") == ("intervals", "--replicates", "3", "runs/first")
    assert arguments("das tables RUN --level County  # x") == (
        "tables",
        "runs/first",
        "--level",
        "County",
    )


@pytest.mark.parametrize(
    "call",
    [
        "2010",
        "1940 RHO=1/2 WORKERS=4",
        "2010 DATA=x.zip OUT=y",
        "sweep",
        "compare",
        "detailed",
        "dhc",
        "test",
    ],
)
def test_a_make_target_that_is_printed_is_a_recipe(call: str) -> None:
    """Not run: what it would run is."""
    done = subprocess.run(
        ["make", "-n", *call.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"VENV": "x"},
    )
    assert done.returncode == 0, done.stderr
    if "=" in call:
        assert {"--set budget.rho=1/2" in done.stdout, "--data x.zip" in done.stdout} == {
            True,
            False,
        }


def test_a_wheel_is_built_without_the_environment_of_the_tests() -> None:
    done = subprocess.run(
        ["make", "-n", "dist"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"VENV": "x"},
    )
    assert done.returncode == 0, done.stderr
    assert "x/bin/python -m build" in done.stdout
    assert "--editable" not in done.stdout
