"""Installed, the package is found, quick to start, and complete: wheel and editable, wherever
Python is started.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import das
from das.cli import COMMANDS, LINES, MOVED, SECTIONS, main
from das.cli.kit.options import load_any, load_counts
from das.errors import DasError, SpecError
from das.files import packaged
from das.spec import RunSpec
from das.tools.planning.target_file import read_targets
from docs import reference

ROOT = Path(__file__).resolve().parents[1]
FROM = "import das, sys; print(das.__file__)"


def python(
    executable: Path | str, *args: object, cwd: Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A new interpreter, with ``path`` alone in PYTHONPATH; what it prints."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | (
        {"PYTHONPATH": str(path)} if path else {}
    )
    done = subprocess.run(
        [executable, *map(str, args)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done


# --- what is imported
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_the_command_line_and_nothing_else(option: str) -> None:
    """The time of `das --version` is that of what it imports, and unlike it this can be checked on
    any machine.
    """
    done = python(sys.executable, "-X", "importtime", "-m", "das", option, cwd=ROOT)
    loaded = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "click" in loaded
    assert {m for m in loaded if m.startswith("das.")} <= {
        "das.cli",
        "das.cli.kit",
        "das.cli.kit.lazy",
        "das.__main__",
        "das.plugins",
        "das.version",
        "das.errors",
    }
    heavy = {
        "numpy",
        "scipy",
        "pandas",
        "pyarrow",
        "pydantic",
        "rich",
        "jinja2",
        "ortools",
        "cryptography",
    }
    assert not {m.split(".")[0] for m in loaded} & heavy


def test_a_command_loads_no_library_before_it_is_used() -> None:
    """Pandas and the larger parts of SciPy take as long to load as all the rest, in each worker,
    too."""
    solving = {
        "das.tools.sweep.command",
        "das.tools.comparison.command",
        "das.cli.data",
        "das.tools.protection.study.command",
        "das.tools.link.command",
        "das.cli.nmf",
        "das.tools.risk.command",
    }  # programs, or making frames
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["das.commands"].values()
    modules = {value.partition(":")[0] for value in declared} - solving | {"das.cli.tasks"}
    said = "; ".join(f"import {m}" for m in (*sorted(modules), "das.runs.pipeline"))
    done = python(sys.executable, "-c", f"import sys; {said}; print(*sys.modules)", cwd=ROOT)
    loaded = set(done.stdout.split())
    assert {"das.cli.running", "das.release.by_subtree", "numpy"} <= loaded
    late = {"pandas", "scipy.linalg", "scipy.optimize", "scipy.stats"}
    assert not loaded & late


def test_pages_are_drawn_without_a_plotting_library() -> None:
    """Maps, too."""
    pages = (
        "report.release_page",
        "report.privacy",
        "report.answers",
        "report.template",
        "publications.counts.report",
        "publications.dhc.page",
        "publications.dhc.figures",
        "tools.comparison.page",
        "tools.maps.choropleth",
        "tools.sweep.runs",
    )
    said = "; ".join(f"import das.{p}" for p in pages)
    done = python(sys.executable, "-c", f"import sys; {said}; print(*sys.modules)", cwd=ROOT)
    loaded = set(done.stdout.split())
    assert "das.report.chart" in loaded
    assert not loaded & {"matplotlib", "pandas"}


def test_the_package_loads_nothing_before_a_name_is_asked_for() -> None:
    done = python(sys.executable, "-c", "import das, sys; print(*sys.modules)", cwd=ROOT)
    assert {m for m in done.stdout.split() if m.split(".")[0] in ("das", "numpy", "pandas")} == {
        "das",
        "das.version",
    }


def test_what_lies_lower_down_needs_no_import_of_its_own() -> None:
    said = (
        "das.solve.children_qp, das.solve.round_children, das.noise.discrete_gaussian.sample,"
        " das.noise.entropy.system, "
    )
    said += "das.accounting.delta, das.risk.hierarchical_posterior"
    done = python(
        sys.executable, "-c", f"import das; print(all(map(callable, [{said}])))", cwd=ROOT
    )
    assert done.stdout.strip() == "True"


def test_every_command_is_found_by_its_name_and_has_its_line() -> None:
    context = main.make_context("das", [], resilient_parsing=True)
    assert list(COMMANDS) == list(LINES)
    *groups, added = (list(section) for section in SECTIONS.values())
    assert sum(map(len, groups)) <= 20
    assert len(added) <= 2
    for name, line in LINES.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert line.endswith(".")
        assert len(line) < 68  # on one line of a terminal
    assert main.get_command(context, "no-such-command") is None
    names = {name.removeprefix("das ") for name, _ in reference.walk(main, "das")}
    assert set(MOVED.values()) <= names
    assert not set(MOVED) & names


def test_a_public_name_is_the_same_for_a_type_checker() -> None:
    """Names that are loaded late are imported, from where they are, under ``TYPE_CHECKING``."""
    [checked] = [n for n in ast.parse(inspect.getsource(das)).body if isinstance(n, ast.If)]
    named = {
        a.name: n.module for n in checked.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    assert das._LATE.items() <= named.items()
    assert das._LATE.keys() == {*das.__all__} - {"__version__", "load_spec", "run"}


def errors() -> list[type[DasError]]:
    """The tree of errors."""
    below = [DasError]
    for kind in below:
        below += (k for k in kind.__subclasses__() if k.__module__ == DasError.__module__)
    return below


def test_a_script_can_catch_every_error_by_a_public_name() -> None:
    assert len(errors()) == 11
    with pytest.raises(das.SpecError, match="write for instance"):
        das.load_spec("pl94-2010", "budget.rho=1/2")
    assert all(getattr(das, kind.__name__) is kind for kind in errors())


def test_the_names_of_the_package() -> None:
    """What scripts hold on to: a name that is added or taken away is a change of the product."""
    assert das.__all__ == sorted(das.__all__) == dir(das)
    assert set(das.__all__) == {
        "__version__",
        "load_spec",
        "run",
        "intervals",
        "Schema",
        "Spine",
        "Plan",
        "count",
        "measure",
        "epsilon",
        "Noisy",
        "bounds",
        "topdown",
        "full_information",
        "Estimator",
        "read_nmf",
        "read_noisy",
        "read_microdata",
        "read_tables",
        "read_errors",
        "read_estimates",
        "read_intervals",
        "read_areas",
        *(kind.__name__ for kind in errors()),
    }
    for name in das.__all__:
        assert getattr(das, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'read_nothing'"):
        _ = das.read_nothing


# --- configurations by name
# --------------------------------------------------------------------------------------


def test_a_configuration_by_name_reads_the_packaged_extract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert packaged.names() == sorted(p.stem for p in (ROOT / "configs").glob("*.toml"))
    for name in packaged.names():
        spec = load_any(Path(name), ())
        assert spec.run.name == name
        if isinstance(spec, RunSpec):  # nobody has the records of the other
            assert all(Path(p).is_absolute() and Path(p).exists() for p in spec.data.path)
    assert load_counts("plan", Path("1940"), ("data.path=mine",)).data.path == ("mine",)


def test_a_file_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "1940").mkdir()
    assert das.load_spec("1940").run.name == "1940"
    text = (ROOT / "configs" / "1940.toml").read_text()
    Path("pl94-2010").write_text(text.replace('name = "1940"', 'name = "mine"'))
    spec = das.load_spec("pl94-2010")
    assert spec.run.name == "mine"
    assert spec.data.path == (
        "data/ext1940",
    )  # a file's paths are relative to the folder of the command


def test_what_is_neither_file_nor_name_is_told_the_names() -> None:
    with pytest.raises(
        SpecError,
        match=r"no such configuration[\s\S]*check the path, or name a packaged .*pl94-2010",
    ):
        das.load_spec("pl94-2011")


def test_targets_by_name_are_the_packaged_ones_and_a_file_goes_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = sorted((ROOT / "configs" / "targets").glob("*.toml"))
    assert "policy" in {p.stem for p in there}
    for path in there:
        assert packaged.targets(Path(path.stem)) == path.read_text(encoding="utf-8")
        assert read_targets(packaged.targets(path), where=path.stem).target
    Path("policy").write_text("mine")
    assert packaged.targets(Path("policy")) == "mine"
    with pytest.raises(
        SpecError,
        match=r"no such file of targets[\s\S]*check the path, or name packaged ones: .*policy",
    ):
        packaged.targets(Path("polic"))


# --- installed
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pip() -> list[str]:
    pytest.importorskip(
        "hatchling", reason="the build backend is not installed: pip install 'topdown-das[test]'"
    )
    return [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(pip: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", out, ROOT],
        check=True,
        timeout=300,
    )
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, to be put on the path before everything else. (That pip
    and uv install it, with its commands, is what .ci/run sees.)"""
    out = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(out)
    return out


@pytest.fixture(scope="module")
def editable(pip: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with this checkout in editable mode, and the libraries of
    this one.
    """
    out = tmp_path_factory.mktemp("editable")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", out], check=True, timeout=120)
    site = next(out.glob("lib/python*/site-packages"))
    (site / "zz_libraries.pth").write_text(
        "\n".join(p for p in sys.path if p.endswith("site-packages"))
    )
    mine = out / "bin" / "python"
    subprocess.run(
        [
            *pip,
            "--python",
            mine,
            "install",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
            "--editable",
            ROOT,
        ],
        check=True,
        timeout=300,
    )
    return mine


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder that contains a clone called das."""
    (tmp_path / "das").symlink_to(ROOT, target_is_directory=True)
    (tmp_path / "script.py").write_text(FROM)
    return tmp_path


def test_the_wheel_is_complete_and_has_nothing_else(wheel: Path) -> None:
    inside = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    ours = {
        f"das/{p.relative_to(ROOT / 'das').as_posix()}"
        for p in (ROOT / "das").rglob("*")
        if p.is_file()
        and p.suffix in {".py", ".html", ".j2", ".css", ".js", ".typed", ".csv", ".json"}
    }
    extra = {
        f"das/packaged/{p.relative_to(ROOT).as_posix()}"
        for part in ("configs", "data")
        for p in (ROOT / part).rglob("*")
        if p.is_file()
    }
    assert ours | extra == inside
    assert wheel.stat().st_size < 2_700_000  # 0.6 MB are data, the rest is code


def test_the_wheel_runs_a_packaged_configuration_in_an_empty_folder(
    installed: Path, tmp_path: Path
) -> None:
    """An ordinary run, which has no need of pandas: to load it takes longer than many a run."""
    run = ("run", "pl94-2010", "--quiet", "--workers", "1", "--out", "run")
    run = (*run, "--set", "output.report=false")  # pages: see above, and .ci/run
    done = python(
        sys.executable, "-X", "importtime", "-m", "das", *run, cwd=tmp_path, path=installed
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "das.runs.pipeline" in loaded
    assert "pandas" not in loaded
    assert (tmp_path / "run" / "release" / "microdata" / "persons").is_dir()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert str(installed) not in (tmp_path / "run" / "release" / "spec.toml").read_text()


def test_a_wheel_is_found_beside_a_clone(installed: Path, beside: Path) -> None:
    for how in (("-c", FROM), ("script.py",)):
        assert (
            python(sys.executable, *how, cwd=beside, path=installed).stdout.strip()
            == f"{installed}/das/__init__.py"
        )


def test_an_editable_installation_is_found_beside_the_clone_and_in_it(
    editable: Path, beside: Path, tmp_path: Path
) -> None:
    """Python's path finder takes the folder das/ for a namespace package if it finds no regular one
    after it.
    """
    empty = tmp_path / "empty"
    empty.mkdir()
    for cwd, how in (
        (beside, ("-c", FROM)),
        (beside, ("script.py",)),
        (ROOT, ("-c", FROM)),
        (empty, ("-c", FROM)),
    ):
        assert python(editable, *how, cwd=cwd).stdout.strip() == f"{ROOT}/das/__init__.py"
    assert python(editable, "-m", "das", "check", "1940", cwd=beside).stdout
