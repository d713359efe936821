"""A seeded run is not private: every command says so, and every text file, and nothing is called
safe.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from das.api.arrays.noisy import read_noisy
from das.api.reading import read_microdata, read_nmf
from das.cli import main
from das.errors import ReleaseError
from das.files.messages import privacy_of
from das.files.simulators import census_2010 as simulate_2010
from das.model.not_private import (
    CELL,
    COLUMN,
    PLANNED,
    UNKNOWN,
    UNSTATED,
    WARNING,
    WITHOUT,
    Private,
)
from das.publications.published.public import estimate_from
from das.release.estimating import MISFITS
from docs import reference
from tests.altered import sealed
from tests.marks import unmarked
from tests.spec.test_parse import BASE, UNITS

#: Commands that are about no run and no configuration, or about its tasks alone.
OTHERS = {
    "run task",
    "run tasks",
    "run status",
    "init",
    "account schema",
    "data simulate",
    "data list",
    "data fetch",
    "risk posterior",
    "risk marginal",
    "risk decision",
    "risk hierarchical",
    "risk changes",
    "detailed plan",
    "detailed risk",
    "frontier init",
    "frontier",
    "frontier protect",
    "frontier verify",
    *(f"register {name}" for name in ("init", "check", "sign", "void")),
}
#: Needs an extra, or prints no JSON, or is of the Detailed DHC, and is asked in a test of its own.
ELSEWHERE = {
    *("account sign", "map", "store push", "store pull", "detailed estimate"),
    *("register add", "register show", "link", "risk reconstruct", "risk link", "ages"),
    "risk combine",
}
#: One call at least of each of the others; RUN, CONFIG and NEW are put in.
CALLS = {
    "run": ["CONFIG", "--out", "NEW/run", "--quiet"],
    "check": ["CONFIG"],
    "account show": ["CONFIG"],
    "account verify": ["RUN"],
    "plan": ["CONFIG"],
    "estimate": ["--from", "RUN", "--out", "NEW/again", "--quiet"],
    "evaluate": ["RUN"],
    "compare": ["RUN"],
    "sweep": ["CONFIG", "--rho", "1", "--out", "NEW/sweep", "--quiet"],
    "tables": ["RUN", "--level", "State", "--table", "P1"],
    "area": ["RUN", "--kind", "Place"],
    "intervals": [
        "RUN",
        "--replicates",
        "2",
        "--level",
        "State",
        "--out",
        "NEW/intervals",
        "--quiet",
    ],
    "nmf summary": ["RUN"],
    "nmf show": ["RUN", "--level", "State", "--query", "total"],
    "nmf verify": ["RUN"],
    "risk report": ["RUN"],
}
MORE = (
    ("account show", ["RUN"]),
    ("account show", ["CONFIG", "--delta", "1e-7"]),
    ("tables", ["RUN"]),
    ("tables", ["RUN", "--level", "State", "--table", "H1", "--format", "md"]),
    ("tables", ["RUN", "--level", "State", "--table", "P2", "--out", "NEW/p2.csv"]),
    ("tables", ["RUN", "--geocode", "US"]),
    ("area", ["RUN", "--kind", "Place", "--statistics", "P5", "--out", "NEW/p2.csv"]),
    ("nmf summary", ["RUN/release/nmf"]),
    ("nmf show", ["RUN", "--level", "Block", "--constraints"]),
    ("compare", ["RUN", "RUN"]),
    ("risk report", ["CONFIG"]),
    ("risk report", ["RUN", "--public"]),
)


Das = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small configuration, seeded and not, and its data."""
    folder = tmp_path_factory.mktemp("seeded")
    simulate_2010.write(folder / "data", seed=1, states=1, persons=1000)
    data = f"path = {json.dumps(str(folder / 'data'))}"
    text = BASE.replace('path = ["a.zip", "b.zip"]', data) + UNITS + "\n[output]\ncsv = true\n"
    (folder / "private.toml").write_text(text)
    (folder / "seeded.toml").write_text(text.replace("[run]", "[run]\nseed = 7"))
    return folder


@pytest.fixture
def das(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Das:
    def call(config: str, command: str, args: list[str]) -> str:
        run = folder / f"run-{config}"
        put = {"CONFIG": str(folder / f"{config}.toml"), "RUN": str(run), "NEW": str(tmp_path)}
        for word, path in put.items():
            args = [a.replace(word, path) for a in args]
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*command.split(), *args])
        out, err = capsys.readouterr()
        assert end.value.code == 0, (command, args, err)
        return out

    if not (folder / "run-seeded").exists():
        for config in ("seeded", "private"):
            call(config, "run", ["CONFIG", "--out", "RUN", "--quiet"])
    return call


def test_each_command_is_asked_or_is_about_no_run() -> None:
    names = {name.removeprefix("das ") for name, _ in reference.walk(main, "das")}
    assert names == {*CALLS, *OTHERS, *ELSEWHERE}


@pytest.mark.parametrize(
    ("command", "args"), [*CALLS.items(), *MORE], ids=lambda x: x if isinstance(x, str) else "-"
)
def test_every_command_says_it(das: Das, command: str, args: list[str], tmp_path: Path) -> None:
    out = das("seeded", command, args)
    assert COLUMN in out
    assert "safe" not in out
    if not {"md", "NEW/p2.csv"} & set(args):
        assert_marked(
            das("seeded", command, [a.replace("NEW", "NEW/json") for a in args] + ["--json"])
        )
    assert unmarked(tmp_path) == []
    for path in (p for p in tmp_path.rglob("*") if p.is_file()):
        assert_file(path)


def test_what_is_carried_to_a_store_and_back_says_it(
    das: Das, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "run-seeded", tmp_path / "run")
    assert COLUMN in das("seeded", "store push", ["NEW/run", "file://NEW/store", "--quiet"])
    assert COLUMN in das("seeded", "store pull", ["file://NEW/store", "NEW/back", "--quiet"])


def assert_marked(text: str) -> None:
    """An object or each row of a list, whatever it is in."""
    value = json.loads(text)
    lists = (
        [value]
        if isinstance(value, list)
        else list(value.values())
        if "private" not in value
        else []
    )
    assert all(r[COLUMN] == CELL for rows in lists for r in rows)
    if not lists:
        assert value["private"] is False
        assert value["warning"] in (WARNING, PLANNED)


def assert_file(path: Path) -> None:
    if path.suffix == ".parquet":
        return
    text = path.read_text(encoding="utf-8")
    assert COLUMN in text, path
    assert "safe to" not in text.lower(), path


def test_every_file_says_it(das: Das, folder: Path) -> None:
    das("seeded", "compare", ["RUN"])
    das("seeded", "risk report", ["RUN"])
    files = [p for p in (folder / "run-seeded").rglob("*") if p.is_file()]
    assert {p.suffix for p in files} == {".parquet", ".csv", ".json", ".jsonl", ".html", ".toml"}
    assert unmarked(folder / "run-seeded") == []
    for path in files:
        assert_file(path)
    part = next((folder / "run-seeded").glob("release/microdata/persons/*.parquet"))
    assert pq.read_schema(part).metadata[COLUMN.encode()] == CELL.encode()


def test_csv_stays_csv_and_every_row_says_it(folder: Path, das: Das) -> None:
    seeded, private = (
        pd.read_csv(folder / f"run-{c}" / "release" / "tables" / "P1_Block.csv")
        for c in ("seeded", "private")
    )
    assert list(seeded.columns) == [*private.columns, COLUMN]
    assert set(seeded[COLUMN]) == {CELL}
    out = das("seeded", "tables", ["RUN", "--level", "Block", "--table", "P1"])
    assert all(line.endswith(f",{CELL}") for line in out.splitlines()[1:])


def test_frames_and_outcomes_say_it(das: Das, folder: Path, tmp_path: Path) -> None:
    das("seeded", "nmf summary", ["RUN"])
    reads: list[Callable[[Path], pd.DataFrame]] = [
        lambda run: read_nmf(run, level="State"),
        lambda run: read_nmf(run / "release" / "nmf", level="Block", kind="Constraint", tidy=False),
        lambda run: read_microdata(run, labels=True),
        lambda run: read_microdata(next(run.glob("release/microdata/persons/*.parquet"))),
        lambda run: read_microdata(run / "release" / "microdata" / "persons.csv"),
    ]
    for read in reads:
        seeded, private = (read(folder / f"run-{c}") for c in ("seeded", "private"))
        assert list(seeded.columns) == [*private.columns, COLUMN]
        assert set(seeded[COLUMN]) == {CELL}
    made = estimate_from(folder / "run-seeded" / "release", tmp_path / "again")
    assert repr(made).startswith("NOT PRIVATE")


def test_an_epsilon_is_called_what_it_would_be(das: Das) -> None:
    for source in ("CONFIG", "RUN"):
        said = [
            x
            for x in das("seeded", "account", [source]).splitlines()
            if "epsilon" in x and "=" in x
        ]
        assert said
        assert all(WITHOUT in x for x in said)
    assert WITHOUT in das("seeded", "check", ["CONFIG"])
    assert WITHOUT in das("seeded", "plan", ["CONFIG"])


@pytest.mark.parametrize("page", ["privacy.html", "report.html"])
def test_a_page_says_it_first(folder: Path, das: Das, page: str) -> None:
    text = (folder / "run-seeded" / "release" / page).read_text()
    assert 0 < text.index(WARNING) < text.index("<h1>")
    assert WITHOUT in text
    assert WARNING not in (folder / "run-private" / "release" / page).read_text()


def test_a_private_run_has_no_mark_anywhere(folder: Path, das: Das) -> None:
    assert privacy_of(folder / "run-private") is True
    assert privacy_of(folder / "run-seeded" / "release" / "nmf") is False
    for path in (
        p for p in (folder / "run-private").rglob("*") if p.is_file() and p.suffix != ".parquet"
    ):
        assert COLUMN not in path.read_text(encoding="utf-8"), path
    assert COLUMN not in das("private", "check", ["CONFIG"])
    assert "safe to publish" in das("private", "run", ["CONFIG", "--out", "NEW/x", "--quiet"])


def test_marks_do_not_change_what_is_read(das: Das, folder: Path) -> None:
    """Errors, tables and microdata of a seeded run are read as those of a private one."""
    rows: dict[str, Any] = json.loads(das("seeded", "evaluate", ["RUN", "--json"]))
    assert {COLUMN, "mae"} <= set(rows["persons"][0])
    das("seeded", "compare", ["RUN"])


def alone(run: Path, to: Path) -> Path:
    """The measurements of persons, as somebody sends them."""
    return Path(shutil.copytree(run / "release" / "nmf", to / "nmf"))


@pytest.mark.parametrize(("config", "says"), [("seeded", False), ("private", UNKNOWN)])
def test_measurements_by_themselves_are_never_called_private(
    das: Das, folder: Path, tmp_path: Path, config: str, says: Private
) -> None:
    """Of a seeded run the files say it, wherever they are taken; of files that do not nobody knows
    who drew their noise.
    """
    das(config, "nmf summary", ["RUN"])
    nmf = alone(folder / f"run-{config}", tmp_path / "lone")
    assert privacy_of(nmf) == privacy_of(nmf.parent) == says
    frame = read_nmf(nmf, level="State")
    assert (COLUMN in frame.columns) is (says is False)
    rows = json.loads(das(config, "nmf summary", [str(nmf), "--json"]))
    assert all((COLUMN in row) is (says is False) for row in rows)
    told = json.loads(
        das(config, "estimate", ["--from", str(nmf), "--out", "NEW/again", "--quiet", "--json"])
    )
    release = tmp_path / "again" / "release"
    documents = [json.loads((release / name).read_text()) for name in ("privacy.json", MISFITS)]
    documents += [told, json.loads((tmp_path / "again" / "manifest.json").read_text())]
    assert [d["private"] for d in documents] == [says] * 4
    assert (UNSTATED in told["notes"]) is (says == UNKNOWN)
    assert privacy_of(tmp_path / "again") == privacy_of(release / "nmf") == says
    noisy, *_ = read_noisy(release)
    assert noisy.private == says
    if says is False:
        for path in (p for p in release.rglob("*") if p.is_file()):
            assert_file(path)
    else:  # and it stays so, from one estimate to the next
        estimate_from(release, tmp_path / "third")
        assert privacy_of(alone(tmp_path / "third", tmp_path / "fourth")) == UNKNOWN


def test_a_seed_that_was_taken_out_of_the_specification(
    das: Das, folder: Path, tmp_path: Path
) -> None:
    """The measurements say that they were seeded: nothing is made of them that does not."""
    das("seeded", "nmf summary", ["RUN"])
    release = Path(shutil.copytree(folder / "run-seeded" / "release", tmp_path / "release"))
    text = (release / "spec.toml").read_text(encoding="utf-8")
    (release / "spec.toml").write_text(text.replace("seed = 7\n", ""), encoding="utf-8")
    sealed(release)
    assert privacy_of(release) is False
    for use in (
        lambda: estimate_from(release, tmp_path / "again"),
        lambda: read_noisy(release)[0].read("State", "total", read_noisy(release)[1]),
    ):
        with pytest.raises(
            ReleaseError, match="says that it is of a seeded run, and the specification does not"
        ):
            use()
