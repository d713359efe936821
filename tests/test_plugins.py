"""Another package adds a publication, a reader, a protection method and a command by its entry
points, and no line of das knows it. What its publication shares with all others is tested in
tests/contract/."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from das_toy.public import TABLE

from das.cli import COMMANDS, LINES, SECTIONS
from das.errors import PluginError, UserError
from das.plugins import READERS
from das.publications.published.public import estimate_from
from das.release import publications, verify
from das.runs import pipeline
from das.spec import load
from das.spec.parse import PUBLICATIONS
from das.tools.protection.truth.study import METHODS, load_study
from tests.commands import Commands
from tests.contract.publications import TOY
from tests.jobs import frontier_small
from tests.plugged import TOY as PACKAGE
from tests.plugged import declare, on_the_path, toy_declared

#: Counts over a tree, read by the toy's reader.
TALLIED = """
[run]
name = "tallied"
seed = 1
[data]
reader = "toy-tally"
path = "people.txt"
[schema]
name = "people"
[schema.attributes]
sex = ["f", "m"]
[tables.by_sex]
title = "Sex"
query = "sex"
[geography]
levels = ["County", "Town", "Block"]
[constraints]
total = "County"
[budget]
rho = 2
neighbors = "bounded"
levels = { County = "1/2", Town = "1/4", Block = "1/4" }
[budget.queries]
County = { total = "1/2", detailed = "1/2" }
Town = { total = "1/2", detailed = "1/2" }
Block = { total = "1/2", detailed = "1/2" }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of tests/plugin, built and installed without network."""
    pytest.importorskip(
        "hatchling", reason="the build backend is not installed: pip install 'topdown-das[test]'"
    )
    out = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    how = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(out), str(PACKAGE)]
    subprocess.run([*pip, *how], check=True, timeout=300)
    return out


@pytest.fixture
def installed(site: Path) -> Iterator[None]:
    """The same, in this process."""
    with on_the_path(site):
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the commands, with what they read."""
    monkeypatch.chdir(tmp_path)
    Path("toy.toml").write_text(TOY)
    Path("people.csv").write_text("region\n" + "north\n" * 30 + "south\n" * 12)
    Path("tallied.toml").write_text(TALLIED)
    Path("people.txt").write_text("a1 3 2\na2 0 1\nb1 4 4\n")
    return tmp_path


def test_the_wheel_of_a_plugin_is_all_that_is_installed(site: Path, here: Path) -> None:
    """In a process of its own, whose path has the installed package and nothing of tests/."""
    env = os.environ | {"PYTHONPATH": str(site), "COLUMNS": "200"}

    def das(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "das", *args],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    reading = das("--help").partition("Read:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in reading] == [*SECTIONS["Read"], "toy"]
    assert reading[-1].split(maxsplit=1)[1] == "List the regions of a toy publication."
    assert das("toy", "toy.toml") == "north, south\n"
    das("run", "toy.toml", "--data", "people.csv", "--out", "run", "--quiet")
    assert "rho" in das("account", "verify", "run")


@pytest.mark.usefixtures("installed", "here")
def test_records_of_a_reader_go_through_the_ordinary_commands(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    def das(command: str, *args: str) -> str:
        code, out, err = Commands(capfdbinary).named(command)(*args)
        assert code == 0, err
        return out

    assert "tallied" in das("check", "tallied.toml")
    das("run", "tallied.toml", "--out", "tallied", "--quiet")
    (county,) = csv.DictReader(
        das(
            "tables", "tallied", "--table", "by_sex", "--level", "County", "--format", "csv"
        ).splitlines()
    )
    assert "14" in county.values()  # the total of the root is exact
    das("account", "verify", "tallied")
    said = Path("tallied/release/privacy.json").read_text()
    assert "The records are a tally of each block." in said


@pytest.mark.usefixtures("installed", "here")
def test_a_method_is_listed_studied_and_applied(
    capfdbinary: pytest.CaptureFixture[bytes], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(
        sys.modules, "das.tools.protection.study.command", raising=False
    )  # it has read the names
    frontier_small.write(here)
    text = frontier_small.STUDY.format(folder=here)
    head = text[: text.index("[methods.none]")]
    Path("study.toml").write_text(head + '[methods.steps]\nmethod = "toy-steps"\nwidth = 5\n')
    (point,) = load_study(Path("study.toml")).points()
    assert list(METHODS)[-2:] == ["topdown", "toy-steps"]
    assert point.method.name == "toy-steps"

    das = Commands(capfdbinary)
    code, out, _ = das.named("frontier")("study.toml", "--out", "made", "--all", "--workers", 1)
    assert (code, "steps" in out) == (0, True)
    call = ("toy-steps", "--study", "study.toml", "--set", "width=5", "--out", "shown", "--quiet")
    code, out, err = das.named("frontier protect")(*call)
    assert code == 0, err
    assert out.startswith("toy-steps; proved: none")
    rows = list(csv.reader(Path("shown/tables/Block.csv").read_text().splitlines()))
    assert {int(n) % 5 for row in rows[1:] for n in row[2:]} == {0}


# --- the publication
# -------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    people = tmp_path / "people.csv"
    people.write_text("region\n" + "north\n" * 30 + "south\n" * 12)
    with toy_declared():
        pipeline.run(load(TOY, where="c"), tmp_path / "run", paths=[people])
        yield tmp_path / "run"


def test_it_is_run_verified_and_made_again(run: Path) -> None:
    said = verify.statement(run / "release")
    assert (said.private, str(said.total)) == (True, "1/2")
    again = estimate_from(run / "release", run.parent / "again").directory.release
    assert (again / TABLE).read_text() == (run / "release" / TABLE).read_text()
    assert pipeline.run(load(TOY, where="c"), run, resume=True).was_finished


def test_what_it_cannot_do_has_its_reason(run: Path) -> None:
    half = publications.publication_of(run / "release")
    with pytest.raises(UserError, match="it is a toy"):
        publications.require(half, "map", run)


def test_it_is_small() -> None:
    names = ("specification", "public", "maker")
    code = [PACKAGE / "das_toy" / f"{name}.py" for name in names]
    assert sum(len(f.read_text().splitlines()) for f in code) <= 250


def test_the_half_of_it_that_is_missing_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PUBLICATIONS["toy"], "public", "das_toy.pubic:PublicToy")
    with pytest.raises(
        PluginError, match=r"'toy' of das-toy 1\.2 cannot be loaded: ModuleNotFound"
    ):
        publications.publication_of(run / "release")
    monkeypatch.setattr(PUBLICATIONS["toy"], "public", "")
    with pytest.raises(PluginError, match=r"'toy' of das-toy 1\.2 has no 'public'"):
        publications.publication_of(run / "release")


def test_without_its_package_it_is_unknown() -> None:
    with pytest.raises(UserError, match="there is no publication 'toy'"):
        load(TOY, where="c")


# --- what can be wrong
# -----------------------------------------------------------------------------------------


def test_ours_come_first_in_their_order_and_others_by_name(tmp_path: Path) -> None:
    value = "das_toy.formats:TALLY"
    declare(tmp_path, "others", "1", {"das.readers": {"zeta": value, "alpha": value}})
    ours = list(READERS)
    with on_the_path(tmp_path):
        assert list(READERS) == [*ours, "alpha", "zeta"]
        assert len(READERS) == len(ours) + 2
        assert READERS["zeta"].module == "das_toy.tally"
    assert list(READERS) == ours == list(READERS.first)


def test_two_packages_that_declare_a_name_are_both_named(tmp_path: Path) -> None:
    """Whichever was loaded, a release could be verified with the other."""
    entries = {"das.readers": {"table": "das_toy.formats:TALLY", "mine": "das_toy.formats:TALLY"}}
    declare(tmp_path, "impostor", "3.1", entries)
    with on_the_path(tmp_path):
        with pytest.raises(PluginError) as raised:
            _ = READERS["table"]
        said = str(raised.value)
        assert "impostor 3.1 and topdown-das" in said
        assert "both declare the reader 'table'" in said
        assert "uninstall one of these packages" in said
        assert READERS["mine"].notes  # all else goes on


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:X", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("das_toy.formats:NOTHING", "AttributeError: module 'das_toy.formats' has no attribute"),
        ("broken_plugin:X", "RuntimeError: out of order"),
        ("das_toy.formats", "is no value of das.plugins.Reader"),
        ("das.plugins:Reader", "is no value of das.plugins.Reader"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_its_package_and_the_cause(
    tmp_path: Path, value: str, said: str
) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('out of order')")
    declare(tmp_path, "faulty", "2.0", {"das.readers": {"mine": value}})
    with on_the_path(tmp_path):
        assert "mine" in READERS
        with pytest.raises(PluginError) as raised:
            _ = READERS["mine"]
    assert str(raised.value).startswith(f"{value}: the reader 'mine' of faulty 2.0 ")
    assert said in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_publication_is_a_class(tmp_path: Path) -> None:
    entries = {"das.publications": {"odd": "das_toy.formats:TALLY", "flat": "builtins:str"}}
    declare(tmp_path, "faulty", "2.0", entries)
    with on_the_path(tmp_path):
        for name in ("odd", "flat"):
            with pytest.raises(PluginError, match=r"no class below das\.spec\.specification\.Spec"):
                _ = PUBLICATIONS[name]


def test_a_broken_command_does_not_take_the_others_along(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    declare(tmp_path, "faulty", "2.0", {"das.commands": {"mine": "no_such_module:mine"}})
    das = Commands(capfdbinary)
    with on_the_path(tmp_path):
        assert list(COMMANDS) == [*LINES, "mine"]
        code, out, _ = das.named("--help")()
        assert code == 0
        assert out.splitlines()[-1].split(maxsplit=1) == [
            *("mine", "(cannot be loaded: `das mine` says why)")
        ]
        code, out, err = das.named("mine")()
        assert (code, out) == (2, "")
        assert "the command 'mine' of faulty 2.0 cannot be loaded" in err
        assert "Traceback" not in err
        assert das.named("run")("--help")[0] == 0


#: `das` where nothing but the folder of its first argument has metadata of packages, and its second
#: is the project file that a clone would have.
ALONE = """
import importlib.metadata as m, pathlib, sys
own, project = sys.argv.pop(1), sys.argv.pop(1)
found = m.EntryPoints(e for d in m.distributions(path=[own]) for e in d.entry_points)
m.entry_points = lambda **which: found.select(**which) if which else found
from das import plugins
if project: plugins.PROJECT = pathlib.Path(project)
from das.__main__ import run
run()
"""
#: What an older version declared: too little, and what is elsewhere now.
OLDER = {"das.commands": {"run": "das.cli.gone:run"}}


def alone(folder: Path, project: str, *words: str) -> subprocess.CompletedProcess[str]:
    done = [sys.executable, "-c", ALONE, str(folder), project, *words]
    return subprocess.run(done, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("older", [None, OLDER])
def test_code_that_nothing_declares_says_how(
    tmp_path: Path, older: dict[str, dict[str, str]] | None
) -> None:
    """Or that is newer than what was installed. It is no clone: the project file beside it, if
    any, is another's."""
    other = tmp_path / "pyproject.toml"
    other.write_text('[project]\nname = "mine"\n')
    if older is not None:
        declare(tmp_path, "topdown-das", "0.0.9", older)
    for words, project in ((["--help"], other), (["run", "pl94-2010"], tmp_path / "none.toml")):
        done = alone(tmp_path, str(project), *words)
        assert (done.returncode, done.stdout) == (2, "")
        first, remedy = done.stderr.splitlines()
        assert first.startswith(
            "das: das is not installed in this environment, or its installation"
        )
        assert remedy == "  what to do: install it; in the folder of a clone: pip install -e ."


@pytest.mark.parametrize(
    "text",
    [
        b"<<<<<<< HEAD\n",
        b"\xff\xfe",
        b'[project]\nname = "topdown-das"\n',
        b'[project]\nname = "topdown-das"\nentry-points = 3\n',
        b'[project]\nname = "topdown-das"\nentry-points = { "das.commands" = 3 }\n',
    ],
)
def test_a_clone_with_a_broken_project_file_says_so(tmp_path: Path, text: bytes) -> None:
    broken = tmp_path / "pyproject.toml"
    broken.write_bytes(text)
    for words in (["--help"], ["check", "pl94-2010"]):
        done = alone(tmp_path, str(broken), *words)
        assert (done.returncode, done.stdout) == (2, "")
        first, remedy = done.stderr.splitlines()
        assert first.startswith(f"das: {broken}: what this clone declares cannot be read")
        assert remedy.startswith("  what to do: repair that file")


def test_a_clone_declares_what_its_code_has(tmp_path: Path) -> None:
    """Whatever its installation, such as one before ``git pull``, says; other packages count."""
    declare(tmp_path, "topdown-das", "0.0.9", OLDER)
    declare(tmp_path, "faulty", "2.0", {"das.commands": {"mine": "no_such_module:mine"}})
    done = alone(tmp_path, "", "check", "pl94-2010")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mine" in alone(tmp_path, "", "--help").stdout
    declare(tmp_path, "clashing", "1.0", {"das.commands": {"check": "somewhere:check"}})
    done = alone(tmp_path, "", "check", "pl94-2010")
    assert done.returncode == 2
    assert "clashing 1.0 and topdown-das both declare the command 'check'" in done.stderr
