"""Commands and Python sessions that README and docs print are run as they are printed, in one folder,
on made-up input: those that tests/accept does not run on official files.

Placeholders stand for what a reader would put there. What neither runs is left out for a reason."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import das
from das.cli import main
from das.publications.detailed.simulation import files
from docs import pages
from tests.accept import printed
from tests.accept.steps import CHAINS
from tests.accept.whole_steps import CONFIGURATIONS, OPTIMIZED, WHOLE
from tests.detailed.runs import run_groups
from tests.sdhc.folders import made_up, said

ROOT = printed.ROOT
#: What stands for something of the reader's.
GIVEN = {
    "CONFIG": "pl94-2010",
    "RUN": "runs/first",
    "RELEASE": "runs/first/release",
    "TARGETS": "policy",
    "N,N,...": "1,52,3221,73057,217740,6500000",
    "PATH": "tiny",
    "N": "1",
    "FILE.svg": "attack.svg",
    "FILE": "wards.csv",
    "A": "runs/first",
    "B": "again",
    "PPMF_DIR": "ppmf",
    "FOLDER": "phsafe",
    "OUT": "OUT",
}
#: The guide to one's own data is followed, in its order, by a test of its own.
GUIDE = "own-data.md"
#: Neither here nor by `make accept` or `make accept-all`, and why.
LEFT_OUT = {
    "data fetch": "needs the network",
    "US_Person_PL_PROD": "needs the Bureau's files; tests/files/measurements has others like them",
    "US_DHCP_PROD": "needs the Bureau's files; tests/release/test_published_dhc.py has others",
    "runs/2020": "is made from the Bureau's files; tests/release has such a comparison",
    "--engine dask": "needs a cluster; tests/engine/test_dask.py has one",
    "--resume --store": "needs an interruption; tests/end_to_end/test_stores.py has one",
    "--confidential-store": "is one folder twice; tests/end_to_end/test_stores.py has two buckets",
    "xargs": "needs jobs; tests/cli/test_cli_tasks.py has them",
    "--engine array": "needs jobs; tests/engine/test_loop.py has them",
    "cells=first": "is the DHC of accept-all with one more key; tests/estimate has it",
    "--table P12 --level Tract": "is of that DHC; accept-all has the same at counties",
    "--optimize dhc-best": "searches for hours; tests/design has it on a small tree",
    "account sign": "needs a key; tests/cli/test_cli_account.py has one",
    "--signer": "needs a key; tests/cli/test_cli_account.py has one",
    "ri2010.pl.zip --out linked": "is what accept-all does under another name, in docs/how-to/dhc.md",
    "studies/ri": "takes 20 minutes; make accept makes the quick study",
    "people.csv": "needs a table; tests/cli/test_cli_frontier.py has one",
    "towns.toml": "needs that table; tests/cli/test_cli_frontier.py has one",
    "das frontier STUDY.toml": "is the study of docs/explanation/frontier.md, which make accept makes",
    "coarsen-least --data FILE": "is that of docs/how-to/coarsening.md, which make accept makes",
    "risk combine RUN": "is that of docs/how-to/coarsening.md, which make accept makes",
    "frontier verify DIR": "is that of docs/how-to/coarsening.md, which make accept makes",
    "das frontier protect METHOD": "is cell-key of docs/explanation/frontier.md, which make accept makes",
    "das link RELEASE": "is the link of docs/how-to/linked.md, which make accept makes",
    "risk reconstruct FOLDER": "needs published tables; tests/jobs/test_reconstructing.py has them",
    "RUN_OR_RELEASE": "is the line of docs/explanation/reconstruction.md that accept-all runs",
    "register": "needs an office; tests/cli/test_register.py has one",
    "das map": "needs boundaries; tests/jobs/test_mapping.py has them",
}


def _accepted() -> set[str]:
    every = (*CHAINS.values(), *WHOLE.values())
    return {step.line for steps in every for step in steps if step.page}  # others are benchmarks


def arguments(line: str) -> tuple[str, ...]:
    """The words after ``das``: optional parts taken, placeholders filled in, output to ``OUT``."""
    words = shlex.split(re.sub(r" \.\.\.|[\[\]]", "", line), comments=True)[1:]
    words = [GIVEN.get(w, w).replace("FOLDER/", "phsafe/") for w in words]
    at = words.index("--out") + 1 if "--out" in words else None
    if at is not None and "." not in words[at]:
        words[at] = "OUT"
    return tuple(words)


#: Of every command that is printed: run here, on made-up input; the others are run on official
#: files by tests/accept, or are left out.
EVERY = [
    line
    for line, pages in printed.printed().items()
    if set(pages) != {GUIDE}
    and line not in _accepted()
    and not any(name in line for name in LEFT_OUT)
]


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
    for product, folder in (("persons", "groups"), ("households", "homes")):
        files.write(here / folder, seed=1, states="RI,PR", persons=2_000, codes=60, product=product)
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
    again = ("--out", here / "again", "--quiet", "--set", "output.report=false")
    for words in (
        ("estimate", "--from", here / "runs" / "first", *again),
        ("init", "--from-safetab", here / "groups", "--out", here / "groups.toml"),
    ):
        done = CliRunner().invoke(main, [str(w) for w in words])
        assert done.exit_code == 0, done.output
    return here


@pytest.mark.parametrize("line", EVERY)
def test_a_command_that_is_printed_works(
    line: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    words = [str(tmp_path / "out") if w == "OUT" else w for w in arguments(line)]
    if words[0] == "init" and "--out" in words:
        # the place has it already, for the lines after it, which another worker may run
        Path(words[words.index("--out") + 1]).unlink(missing_ok=True)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, (words, done.output)


def test_no_reason_is_given_for_a_command_that_nobody_prints() -> None:
    lines = printed.printed()
    assert [name for name in LEFT_OUT if not any(name in line for line in lines)] == []
    assert not any(name in line for name in LEFT_OUT for line in _accepted()), (
        "it is run, after all"
    )


def test_commands_of_the_acceptance_are_printed() -> None:
    """Word for word: what stands for words in capitals is all that a reader fills in."""
    for steps in (*CHAINS.values(), *WHOLE.values()):
        for step in steps:
            if step.page:
                assert printed.is_printed(step.page, step.line, step.more), (step.page, step.line)
                printed.words(step.line, step.given, step.more)
            else:
                pages = (page.read_text(encoding="utf-8") for page in printed.PAGES)
                assert any(" ".join(step.line.split()[:3]) in page for page in pages), step.line


@pytest.mark.parametrize("page", ["start.md", "measurements.md"])
def test_a_python_session_that_is_printed_works(
    page: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    blocks = re.findall(r"```python\n(.*?)```", pages.text(page), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block.replace("runs/<name>-<time>", "runs/first"), {})


def test_every_packaged_configuration_is_run_on_a_whole_state() -> None:
    """By each method over each tree that it has, if it is of redistricting data: some name areas that
    their tree aims at, and refuse the tree of tabulation. The others take no such file:
    those of 1940 take records that nobody may copy, and the rest are in chains of their own."""
    others = {
        *("1940", "1940-pure-dp", "detailed-dhc", "dhc-2020", "dhc-best"),
        *("sdhc-2020", "sdhc-2020-phsafe"),
    }
    packaged = {path.stem for path in (ROOT / "configs").glob("*.toml")}
    assert packaged == {*CONFIGURATIONS, *others}
    assert set(OPTIMIZED) == {
        name
        for name in CONFIGURATIONS
        if "targets" in (ROOT / "configs" / f"{name}.toml").read_text()
    }
    assert len(WHOLE["matrix"]) == len(CONFIGURATIONS) * 4 - len(OPTIMIZED) * 2


def test_the_commands_are_found() -> None:
    assert len(printed.printed()) > 150
    assert len(EVERY) > 40
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
