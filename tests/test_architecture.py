"""The design's rules about which part can import which, checked on the source files themselves.

The privacy argument depends on one of them: what runs after measurement (``das.release.post_processing``)
cannot reach the truth."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from das.model.mechanisms import MECHANISMS
from das.model.universe import KINDS
from docs import pages

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """Of the table in docs/reference/architecture.md: parts, each a package or a module right under ``das``,
    and what they may import. Those at the ``top`` bring the others together and may import all that
    are above them."""

    parts: frozenset[str]
    imports: frozenset[str]
    libraries: frozenset[str]
    top: bool


@cache
def rows() -> tuple[Row, ...]:
    out: list[Row] = []
    text = pages.text("architecture")
    for line in text.partition("| room |")[2].partition("\n\n")[0].splitlines()[2:]:
        rooms, _, imported, libraries = line.split("|")[1:-1]
        parts, names, others = (
            frozenset(QUOTED.findall(cell)) for cell in (rooms, imported, libraries)
        )
        top = imported.strip() == "all above"
        above = frozenset(p for row in out for p in row.parts)
        out.append(
            Row(
                frozenset(
                    p.removeprefix("das.") if p == "das.cli.kit" else part_of(p) for p in parts
                ),
                above if top else names,
                others,
                top,
            )
        )
    return tuple(out)


QUOTED = re.compile(r"`([\w.]+)`")
#: Every part can import these of ours, and NumPy, except those that import nothing.
VALUES = frozenset({"errors", "model"})
ALONE = frozenset({"errors", "version"})
#: Libraries that are there because another one needs them itself, or whose package has another
#: name.
COMES_WITH = {
    "shapely": "geopandas",
    "flint": "python_flint",
    "markupsafe": "jinja2",
    "requests": "pooch",
}

#: Who names the type of confidential values, besides modules below a folder ``truth``.
SEES_THE_TRUTH = {"model", "files", "api"}
#: Who opens one: the table below *The truth is a type* in docs/reference/architecture.md says for what. Each is
#: below a folder ``truth``.
OPENS_THE_TRUTH = {
    "das.publications.counts.truth.maker",
    "das.publications.detailed.truth.folders",
    "das.publications.detailed.truth.groups",
    "das.publications.detailed.truth.run",
    "das.publications.dhc.truth.assessment",
    "das.publications.dhc.truth.oracle",
    "das.publications.dhc.truth.preparation",
    "das.publications.dhc.truth.simulated",
    "das.publications.sdhc.truth.run",
    "das.tools.link.truth.risk",
    "das.tools.maps.truth.mapping",
    "das.tools.protection.truth.frontier",
    "das.tools.protection.truth.method",
    "das.tools.protection.truth.methods.coarsening",
    "das.tools.protection.truth.reconstructing",
    "das.tools.protection.truth.study_input",
    "das.tools.risk.truth.exposure",
    "das.truth.assessment",
    "das.truth.by_subtree",
    "das.truth.evaluation",
    "das.truth.files",
    "das.truth.measure",
    "das.truth.preparation",
    "das.truth.prepared",
    "das.truth.readers",
    "das.truth.run_noise",
}
#: Who imports modules below a folder ``truth`` and lies below none: what runs a publication, commands
#: of tools that hold something against the truth, and readers of public extracts.
RUNS_THE_TRUTH = {
    "das.runs.pipeline",
    "das.runs.tasks",
    "das.api.arrays.counting",
    "das.api.arrays.measuring",
    "das.tools.comparison.page",
    "das.tools.link.risk_command",
    "das.tools.maps.command",
    "das.tools.protection.attack.command",
    "das.tools.protection.study.command",
    "das.tools.risk.command",
    "das.tools.sweep.command",
    "das.cli.data",  # to simulate records with the counts of a public extract
    "das.publications.dhc.simulation.packaged",
    "das.tools.areas.page",  # the tree of a public extract
    "das.tools.planning.ground",
    "das.tools.planning.page",  # who is alone in a run: on a confidential page
}


# --- reading the sources
# -------------------------------------------------------------------------------------


@cache
def sources() -> Mapping[str, Path]:
    """Every module of the project and its file."""
    out = {}
    for path in sorted((ROOT / "das").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def part_of(module: str) -> str:
    """The room of a module; what commands share is one by itself."""
    parts = module.split(".")
    if parts[1:3] == ["cli", "kit"]:
        return "cli.kit"
    return parts[1] if len(parts) > 1 else "__init__"


def folder_of(module: str) -> str:
    """The publication or tool that a module belongs to, ``"publications/dhc"``; "" for the core."""
    parts = module.split(".")
    inside = len(parts) > 2 and parts[1] in {"publications", "tools"}
    return "/".join(parts[1:3]) if inside else ""


def is_truth(module: str) -> bool:
    """Whether it lies below a folder ``truth``."""
    return "truth" in module.split(".")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(sources()[module].read_text(encoding="utf-8"))


@cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    """All of the tree, walked once for all who ask."""
    return tuple(ast.walk(tree_of(module)))


@pytest.fixture(scope="module", autouse=True)
def _trees_go_with_these_tests() -> Iterator[None]:
    yield
    tree_of.cache_clear()
    nodes_of.cache_clear()


def _targets(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names)
        return
    assert node.level == 0, f"{module} has a relative import"
    assert node.module is not None
    for a in node.names:
        full = f"{node.module}.{a.name}"
        yield full if full in sources() else node.module


@cache
def imports(module: str) -> frozenset[str]:
    """Every module that ``module`` imports, anywhere in its text: of ``das`` in full, of others by
    name.
    """
    nodes = [n for n in nodes_of(module) if isinstance(n, ast.Import | ast.ImportFrom)]
    return frozenset(t for n in nodes for t in _targets(n, module) if t != "__future__")


def imports_when_loaded(module: str) -> set[str]:
    """Those that run when ``module`` is imported, not inside a function or under
    ``TYPE_CHECKING``.
    """
    out: set[str] = set()
    waiting: list[ast.AST] = [tree_of(module)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            out |= set(_targets(node, module)) - {"__future__"}
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not checking and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        ):
            waiting += ast.iter_child_nodes(node)
    return out


def ours(names: Iterable[str]) -> set[str]:
    return {n for n in names if n.split(".")[0] == "das"}


def packages_of(module: str) -> list[str]:
    """The packages whose ``__init__`` runs before ``module`` does."""
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def reach(start: str, *, packages: bool) -> set[str]:
    """Every module of the project that ``start`` imports, directly or not, at the top or in a
    function. With ``packages``, those too that are loaded only because a package's ``__init__``
    runs before a module in it."""
    found, loaded, waiting = {start}, {start}, [(start, True)]
    while waiting:
        module, named = waiting.pop()
        new = ours(imports(module) if named else imports_when_loaded(module))
        if named:
            waiting += [(m, True) for m in new - found]
            found |= new
        else:
            waiting += [(m, False) for m in new - loaded - found]
        loaded |= new
        if packages:
            above = set(packages_of(module)) - loaded
            waiting += [(m, False) for m in above]
            loaded |= above
    return (loaded if packages else found) - {start}


# --- layers
# --------------------------------------------------------------------------------------------------


def test_the_sources_are_found() -> None:
    assert {
        "das",
        "das.release.post_processing",
        "das.model.confidential",
        "das.files.measurements.nmf",
    } <= set(sources())
    assert "das.model.confidential" in imports("das.truth.measure")
    # from das import spec as ...; from das.files.run import ...
    assert {"das.spec", "das.files.run.run_directory"} <= imports("das.release.opened")
    assert "importlib" in imports("das.plugins")


def imported_by(row: Row) -> tuple[set[str], set[str]]:
    """Other parts and libraries that the modules of a row import, besides those free to all."""
    found = {i for m in sources() if part_of(m) in row.parts for i in imports(m)}
    libraries = {i.split(".")[0] for i in found} - set(sys.stdlib_module_names) - {"das"}
    alone = row.parts <= ALONE
    return (
        {part_of(m) for m in ours(found) - {"das"}} - row.parts - (set() if alone else VALUES),
        libraries - (set() if alone else {"numpy"}),
    )


def test_every_part_has_a_row() -> None:
    parts = [p for row in rows() for p in row.parts]
    assert sorted(parts) == sorted({part_of(m) for m in sources()}), (
        "say in docs/reference/architecture.md what it may import"
    )


@pytest.mark.parametrize("row", rows(), ids=lambda row: "-".join(sorted(row.parts)))
def test_each_part_imports_what_its_row_says(row: Row) -> None:
    parts, libraries = imported_by(row)
    assert not parts - row.imports
    assert not libraries - row.libraries
    assert row.top or not row.imports - parts, "the table names what is not imported"
    assert not row.libraries - libraries, "the table names what is not imported"


def test_estimation_goes_from_arrays_to_arrays() -> None:
    """Measurements come from a source, and a release is a value: no path, no format, no
    specification. A worker that estimates loads none of it."""
    for module in (m for m in sources() if part_of(m) == "estimate"):
        parts = {part_of(m) for m in reach(module, packages=False)}
        values = {"errors", "model", "fold", "plugins"}
        assert parts <= values | {"solve", "rounding", "engine", "threads", "estimate"}, module
        outside = {i.split(".")[0] for i in imports(module)} - {"das", "numpy"}
        assert outside <= {
            "__future__",
            "collections",
            "concurrent",
            "dataclasses",
            "functools",
            "itertools",
            "math",
            "scipy",
        } | {"typing"}, module


def test_values_need_numpy_and_the_standard_library_only() -> None:
    for module in (m for m in sources() if part_of(m) == "model"):
        others = {i.split(".")[0] for i in imports(module)} - {"das", "numpy"}
        assert others <= set(sys.stdlib_module_names), module
        assert {part_of(m) for m in ours(imports(module))} <= {"model", "errors", "plugins"}, module
        shut = {
            "random",
            "secrets",
            "os",
            "pathlib",
            "io",
            "shutil",
            "tempfile",
            "subprocess",
            "socket",
        }
        assert not others & shut, module
        assert "numpy.random" not in imports(module), module
        names = {n.attr for n in nodes_of(module) if isinstance(n, ast.Attribute)}
        assert "random" not in names, module


def test_the_solver_knows_nothing_of_a_census() -> None:
    for module in sources():
        if part_of(module) == "solve":
            allowed = {"das.errors", "das.model.solution"}
            assert {m for m in ours(imports(module)) if part_of(m) != "solve"} <= allowed, module


#: Which publication or tool rests on which other: the table of folders in docs/reference/architecture.md.
RESTS_ON = {
    "publications/published": {"publications/counts", "publications/dhc"},
    "publications/sdhc": {"publications/dhc"},
    "tools/link": {"tools/protection"},
    "tools/planning": {"tools/areas", "tools/risk"},
    "tools/protection": {"tools/maps"},
    "tools/risk": {"tools/link", "tools/protection"},
}


def test_the_map_has_few_rows_and_names_what_is_there() -> None:
    """A module, or a name in one; or a group of entry points."""
    assert len(rows()) <= 25
    text = pages.text("architecture")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    gone = set()
    for name in set(re.findall(r"`(das(?:\.\w+)+)", text)) - set(groups) - set(sources()):
        module, _, last = name.rpartition(".")
        while module and module not in sources():
            module, _, last = module.rpartition(".")
        if not re.search(rf"\b{last}\b", sources()[module].read_text(encoding="utf-8")):
            gone.add(name)
    assert gone == set()


def test_a_publication_or_tool_is_one_folder() -> None:
    """The core imports none, a publication no tool, and each only those that it is said to rest
    on."""
    wrong = set()
    for module in sources():
        own = folder_of(module)
        core = not own and part_of(module) not in {"cli", "api", "__init__", "__main__"}
        for other in {folder_of(i) for i in ours(imports(module))} - {own, ""}:
            tool_on_publication = own.startswith("tools") and other.startswith("publications")
            rests = tool_on_publication or other in RESTS_ON.get(own, set())
            if core or (own and not rests):
                wrong.add((module, other))
    assert wrong == set()


#: Modules of ours, at most: the last is that of two releases of the same census.
MODULES = 519


def test_there_are_few_modules() -> None:
    assert len(sources()) <= MODULES


def test_every_library_that_is_used_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = [
        *project["dependencies"],
        *(d for ds in project.get("optional-dependencies", {}).values() for d in ds),
    ]
    declared = {re.match(r"[\w-]+", d).group().lower().replace("-", "_") for d in every}  # type: ignore[union-attr]
    used = (
        {i.split(".")[0] for m in sources() for i in imports(m)}
        - set(sys.stdlib_module_names)
        - {"das"}
    )
    missing = {u for u in used if COMES_WITH.get(u, u) not in declared}
    assert not missing


def test_every_library_that_is_declared_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {
        re.match(r"[\w-]+", d).group().lower().replace("-", "_") for d in project["dependencies"]
    }  # type: ignore[union-attr]
    used = {i.split(".")[0] for m in sources() for i in imports(m)}
    assert not declared - used
    told = pages.text("dependencies")
    assert not {d for d in declared if d.replace("_", "-") not in told}, (
        "docs/reference/dependencies.md says why each is there"
    )


def test_one_module_knows_stores() -> None:
    assert {
        m
        for m in sources()
        if imports(m) & {"pyarrow.fs"}
        or "pyarrow.fs" in sources()[m].read_text()
        or "from pyarrow import fs" in sources()[m].read_text()
    } == {"das.files.store"}


def test_two_solvers_with_one_core_are_never_loaded_together() -> None:
    """OR-Tools and highspy each bring HiGHS; in one process they crash."""
    everything = {i.split(".")[0] for m in sources() for i in imports(m)}
    assert not {"ortools", "highspy"} <= everything


# --- the truth
# -----------------------------------------------------------------------------------------------


def test_confidential_values_are_known_to_few() -> None:
    knowing = {m for m in sources() if "das.model.confidential" in imports(m)}
    outside = {m for m in knowing if not is_truth(m)}
    assert {part_of(m) for m in outside if "files" not in m.split(".")} <= SEES_THE_TRUTH
    assert knowing - outside


def openings(module: str) -> list[int]:
    """The lines where ``.open`` is given a reason: what is neither the mode of a file, nor a file
    of an archive.
    """
    out = []
    for call in (n for n in nodes_of(module) if isinstance(n, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "open":
            given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "reason")]
            reasons = [r for r in given if not MODE.fullmatch(ast.unparse(r).strip("'\""))]
            if reasons and ast.unparse(call.func.value) not in {"os", "gzip", "archive"}:
                out.append(call.lineno)
    return out


def test_confidential_values_are_opened_by_those_who_say_so() -> None:
    assert {m for m in sources() if openings(m)} == OPENS_THE_TRUTH
    assert all(map(is_truth, OPENS_THE_TRUTH))
    told = pages.text("architecture").partition("## The truth is a type")[2]
    table = [
        line.split("|")[1]
        for line in told.partition("\n## ")[0].splitlines()
        if line.startswith("|")
    ]
    names = set(QUOTED.findall(" ".join(table)))
    assert not {m for m in OPENS_THE_TRUTH if not {m, m.rpartition(".")[0]} & names}


def test_the_truth_is_imported_by_what_runs_it() -> None:
    """Below a folder ``truth`` is all that opens confidential values. An import of it from elsewhere
    is an arrow through the wall, and each has its reason above."""
    assert {m for m in sources() if truths(m) and not is_truth(m)} == RUNS_THE_TRUTH


def truths(module: str) -> set[str]:
    return {i for i in ours(imports(module)) if is_truth(i)}


def test_an_import_through_the_wall_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in the page of a release, and in a reader's neighbor."""
    planted = ast.parse("def late() -> None:\n    from das.truth.measure import measure\n")
    whole, known = tree_of, imports
    monkeypatch.setattr(
        "tests.test_architecture.tree_of",
        lambda m: planted if m == "das.release.page" else whole(m),
    )
    known.cache_clear()
    nodes_of.cache_clear()
    try:
        assert truths("das.release.page") == {"das.truth.measure"}
        assert beyond(
            reach("das.release.post_processing", packages=False)
            | reach("das.release.page", packages=False)
        )
    finally:
        known.cache_clear()
        nodes_of.cache_clear()


def test_readers_are_used_at_the_top_alone() -> None:
    for module in sources():
        inside = {"files", "simulation"} & set(module.split("."))
        if not is_truth(module) and not inside and part_of(module) != "runs":
            assert not imports(module) & readers(), module
            assert "das.files" not in imports(module), (
                f"{module} imports a name from das.files that is no module"
            )


def readers() -> set[str]:
    """The modules of folders ``files`` that read confidential records."""
    return {
        m
        for m in sources()
        if "files" in m.split(".")[1:-1] and imports(m) & RECORDS and not is_truth(m)
    }


RECORDS = {"das.model.confidential", "das.model.records"}
FORBIDDEN = {"das.runs.pipeline", "das.evaluate", "das.risk", "das.noise"}


def beyond(modules: set[str]) -> set[str]:
    """Those that post-processing must not reach."""
    return {
        m
        for m in modules
        if m in RECORDS | readers()
        or is_truth(m)
        or any(m == f or m.startswith(f + ".") for f in FORBIDDEN)
    }


def test_an_attack_cannot_reach_records() -> None:
    """It sees what a method publishes, not whom it protects."""
    records = {"das.model.confidential", "das.tools.protection.truth.method"}
    assert not reach("das.tools.protection.attack", packages=False) & records
    assert records <= reach("das.tools.protection.truth.methods.swapping", packages=False)


def test_the_readers_are_found() -> None:
    known = {
        "das.files.readers.pl94_2010",
        "das.files.readers.pl94_2020",
        "das.files.readers.ext1940",
        "das.files.readers.ppmf",
        "das.files.readers.table",
        "das.publications.dhc.files.linked",
        "das.publications.detailed.files.records",
    }
    assert known <= readers()
    assert beyond(reach("das.publications.counts.truth.maker", packages=False)) >= {
        "das.truth.measure",
        "das.truth.files",
        "das.noise.entropy",
    }


@pytest.mark.parametrize(
    "module",
    [
        "das.release.opened",
        "das.release.post_processing",
        "das.release.page",
        "das.release.by_subtree",
        "das.release.estimating",
        "das.release.area_counts",
        "das.release.publications",
        "das.publications.published.replicates",
        "das.api.arrays.noisy",
        "das.publications.detailed.release",
        "das.publications.detailed.tables",
        "das.engine.enclosed",
        "das.estimate.estimator_process",
        "das.publications.dhc.release",
        "das.publications.dhc.publishing",
        "das.publications.dhc.release_files",
        "das.publications.dhc.page",
        "das.publications.dhc.agreement.tables",
        "das.tools.link.population",
        "das.tools.link.files",
        "das.publications.dhc.spec",
        "das.publications.detailed.spec",
        "das.publications.detailed.planning.margins",
        "das.publications.detailed.files.parameters",
        "das.publications.detailed.files.geography",
        "das.publications.detailed.files.totals",
        "das.publications.detailed.files.output",
        "das.publications.detailed.files.measurements",
    ],
)
def test_post_processing_cannot_reach_the_truth(module: str) -> None:
    """No import, at any depth and in any function, leads from it to the truth, to noise or to a
    reader.
    """
    assert not beyond(reach(module, packages=False))


def test_replicates_have_noise_and_no_truth() -> None:
    """Theirs is public, on counts that are published."""
    for module in ("das.release.replicates", "das.tools.link.release"):
        found = beyond(reach(module, packages=False))
        assert found
        assert {m for m in found if not m.startswith("das.noise.")} == set(), module


def test_packages_bring_in_no_more_than_a_type() -> None:
    """Loading a module loads its packages. That of ``das.files`` names the type of what readers
    return, and through it ``Confidential``; no module of post-processing imports either, so none
    has a name for them."""
    extra = reach("das.release.post_processing", packages=True) - reach(
        "das.release.post_processing", packages=False
    )
    assert beyond(extra) <= RECORDS
    for package in packages_of("das.release.post_processing") + [
        m for m in extra if sources()[m].name == "__init__.py"
    ]:
        assert not beyond(imports_when_loaded(package)) - {"das.model.records"}, package


def test_post_processing_imports_by_name_only() -> None:
    """Nor do its modules take names from ``das.files`` itself, or import modules of ours by a
    computed name.

    ``importlib`` may load other libraries; a module that uses it has no text in it that begins with
    ``das``. What is loaded by entry points is in the tests below."""
    for module in {"das.release.estimating", *reach("das.release.estimating", packages=False)} - {
        "das.plugins"
    }:  # das.release.post_processing among them
        assert "das.files" not in imports(module), (
            f"{module} imports a name from das.files that is no module"
        )
        nodes = nodes_of(module)
        called = {
            n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert not called & {"__import__", "eval", "exec", "compile", "globals"}, module
        if imports(module) & {"importlib", "runpy", "pkgutil"}:
            texts = {
                n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)
            }
            assert not {t for t in texts if t.startswith("das")}, module


def ours_declared() -> Mapping[str, Mapping[str, str]]:
    """By group and name, the values of our entry points."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, str]] = tomllib.loads(text)["project"]["entry-points"]
    return found


@pytest.mark.parametrize("group", ["das.publications", "das.readers"])
def test_what_an_entry_point_loads_cannot_reach_the_truth(group: str) -> None:
    """A specification and the notes of a reader are loaded to verify a release."""
    for value in ours_declared()[group].values():
        module = value.partition(":")[0]
        assert not beyond({module, *reach(module, packages=False)}), module


#: Who loads which part of a plugin.
LOADS = {
    ("das.runs.protocol", "maker"),
    ("das.runs.tasks", "tasks"),
    ("das.release.publications", "public"),
    ("das.truth.readers", "module"),
}


def test_the_parts_of_plugins_that_see_the_truth_are_loaded_by_few() -> None:
    """Each is named where it is loaded."""
    found = set()
    for module in sources():
        for call in (n for n in nodes_of(module) if isinstance(n, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "load_part":
                found.add((module, ast.literal_eval(call.args[1])))
    assert found == LOADS


def test_what_is_loaded_with_post_processing() -> None:
    """The same, asked of a running interpreter."""
    script = (
        "import sys, das.release.page, das.release.post_processing;"
        " print(*sorted(m for m in sys.modules if m.split('.')[0] == 'das'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "das.release.post_processing" in loaded
    assert beyond(loaded) <= RECORDS


# --- words
# ---------------------------------------------------------------------------------------------------


def classes() -> Mapping[str, list[str]]:
    """The modules that define a class of each name."""
    out: dict[str, list[str]] = {}
    for module in sources():
        for node in nodes_of(module):
            if isinstance(node, ast.ClassDef):
                out.setdefault(node.name, []).append(module)
    return out


def aliases() -> Mapping[str, set[str]]:
    """What each name of a type, assigned at the top of a module, stands for; constants have no
    small letter.
    """
    out: dict[str, set[str]] = {}
    for node in (n for m in sources() for n in tree_of(m).body if isinstance(n, ast.Assign)):
        name = node.targets[0]
        if isinstance(name, ast.Name) and name.id[0].isupper() and not name.id.isupper():
            out.setdefault(name.id, set()).add(ast.unparse(node.value))
    return out


def test_a_class_has_its_name_for_itself() -> None:
    assert not {name: modules for name, modules in classes().items() if len(modules) > 1}
    assert not classes().keys() & aliases().keys()


def test_a_type_that_is_named_twice_is_the_same() -> None:
    assert not {name: types for name, types in aliases().items() if len(types) > 1}


def test_no_code_asks_for_a_universe_by_its_name() -> None:
    """What differs between universes is in their kinds, and a kind is found, not asked for."""
    named, constants = (
        {n for k in KINDS.values() for n in (k.name, k.folder)},
        {name.upper() for name in KINDS},
    )
    for module in sources():
        for node in (n for n in nodes_of(module) if isinstance(n, ast.Compare | ast.MatchValue)):
            words = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)} & named
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & constants
            assert not words | names, f"{module}:{node.lineno}"


#: Who asks which mechanism they have: its three entries, and those that are of one by what they do.
OF_ONE_MECHANISM = {
    "das.model.mechanisms",
    "das.noise.samplers",
    "das.accounting.document",
    "das.accounting.draws",  # exact composition
    "das.accounting.codec",
    "das.report.privacy",
    "das.report.facts",  # the curve that one has
    "das.model.plan",
    "das.risk.recursion",  # a bare rho or epsilon
    "das.risk.decisions",  # a figure of zCDP
    "das.spec.parts",
    "das.spec.published",  # where nothing is said
    "das.publications.published.files.layout",  # what the Census Bureau drew
}


def test_few_ask_which_mechanism_they_have() -> None:
    words = {
        "DISCRETE_GAUSSIAN",
        "GEOMETRIC",
        "GaussianStatement",
        "GeometricStatement",
        "GaussianAccount",
        "GeometricAccount",
    }
    asking = set()
    for module in sources():
        named = {n.id for n in nodes_of(module) if isinstance(n, ast.Name)}
        said = {
            n.value
            for n in nodes_of(module)
            if isinstance(n, ast.Constant) and isinstance(n.value, str)
        }
        if named & words or said & set(MECHANISMS):
            asking.add(module)
    assert asking == OF_ONE_MECHANISM


# --- paths
# ---------------------------------------------------------------------------------------------------

TOUCHES_DISK = {
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "mkdir",
    "touch",
    "unlink",
    "rmdir",
    "rename",
    "symlink_to",
    "hardlink_to",
    "chmod",
    "iterdir",
    "glob",
    "rglob",
    "makedirs",
    "rmtree",
    "copyfile",
    "copytree",
    "listdir",
    "scandir",
    "read_csv",
    "to_csv",
    "read_parquet",
    "to_parquet",
    "write_table",
    "read_table",
    "memmap",
    "fromfile",
    "tofile",
    "savez",
    "savez_compressed",
    "loadtxt",
    "savetxt",
    "genfromtxt",
    "NamedTemporaryFile",
    "mkstemp",
    "mkdtemp",
}
MODE = re.compile(r"[rwaxbt+]{1,4}")


def disk_calls(module: str) -> list[str]:
    """Calls that open a path, with their lines. A function of a module of ``das.files`` is not
    one.
    """
    from_files = {
        a.asname or a.name
        for n in nodes_of(module)
        if isinstance(n, ast.ImportFrom) and is_rim(n.module or "")
        for a in n.names
    }
    out = []
    for call in (n for n in nodes_of(module) if isinstance(n, ast.Call)):
        f = call.func
        if isinstance(f, ast.Name):
            bad = f.id == "open" and f.id not in from_files
        elif isinstance(f, ast.Attribute):
            rim = isinstance(f.value, ast.Name) and f.value.id in from_files
            first = call.args[0] if call.args else None
            text = (
                first.value
                if isinstance(first, ast.Constant) and isinstance(first.value, str)
                else None
            )
            opens = f.attr == "open" and (
                first is None or (text is not None and bool(MODE.fullmatch(text)))
            )
            bad = not rim and (opens or f.attr in TOUCHES_DISK)
        else:
            bad = False
        if bad:
            out.append(f"{sources()[module].relative_to(ROOT)}:{call.lineno}")
    return out


#: One looks where code is, so that a process can be refused all other files, and reads none. The
#: other reads what a clone declares, in the file beside its code.
FINDS_CODE = {"das.engine.enclosure", "das.plugins"}


#: Formats of one room each, and files of a tool.
OTHER_FORMATS = {
    "das.register.file",
    "das.publications.published.fetch",
    "das.tools.protection.attack.published_tables",
    "das.tools.link.averages",
    "das.publications.dhc.truth.simulated",
    "das.publications.detailed.truth.folders",
}


def is_rim(module: str) -> bool:
    """Whether a module is there to open paths: of a folder or by the name ``files``, a simulation,
    or a command."""
    rim = {"files", "simulation", "cli", "command"}
    return bool(rim & set(module.split("."))) or module in OTHER_FORMATS


def test_only_the_rim_opens_paths() -> None:
    others = {m for m in sources() if not is_rim(m)} - FINDS_CODE
    assert not [call for m in others for call in disk_calls(m)]


def test_what_is_written_is_written_by_one_module() -> None:
    """Else it might be there by half, or not be on disk. The ledger is appended to."""
    wrong = []
    for module in set(sources()) - {"das.files.atomic"}:
        for call in (n for n in nodes_of(module) if isinstance(n, ast.Call)):
            f = call.func
            if not isinstance(f, ast.Attribute) or (
                isinstance(f.value, ast.Name) and f.value.id == "atomic"
            ):
                continue
            renames = f.attr in {"rename", "replace"} and len(call.args) == 1 and not call.keywords
            if renames or f.attr in {"write_text", "write_bytes", "fsync"}:
                wrong.append(f"{sources()[module].relative_to(ROOT)}:{call.lineno}")
    assert len(wrong) == 1, wrong
    assert wrong[0].startswith("das/files/run/ledger.py:")


def test_calls_that_open_paths_are_found() -> None:
    assert disk_calls("das.files.measurements.nmf")
    assert disk_calls("das.files.run.run_directory")
    assert disk_calls("das.files.run.ledger")


def test_nothing_imports_in_a_circle() -> None:
    """Inside functions neither; the package itself has public names of all."""
    within = {m: (imports(m) & sources().keys()) - {m, "das"} for m in sources()}
    assert len(list(TopologicalSorter(within).static_order())) == len(within)
    within["das.errors"] = {"das.spec.run"}
    with pytest.raises(CycleError):
        TopologicalSorter(within).prepare()


#: Lines of a module and of a function, with its signature and docstring, at most.
MODULE, FUNCTION = 700, 40
#: To be divided; the list only becomes shorter.
LONG_MODULES: frozenset[str] = frozenset()
LONG_FUNCTIONS = frozenset(
    {
        "das/__init__.py:run",
        "das/accounting/planning.py:options",
        "das/api/arrays/counting.py:count",
        "das/api/arrays/estimating.py:topdown",
        "das/api/arrays/measuring.py:measure",
        "das/tools/sweep/command.py:sweep",
        "das/tools/areas/command.py:area",
        "das/publications/detailed/planning/command.py:plan",
        "das/tools/planning/command.py:plan",
        "das/cli/tables.py:tables",
        "das/publications/detailed/estimation/published.py:_totals",
        "das/publications/detailed/estimation/published.py:estimates",
        "das/engine/choice.py:_check_address",
        "das/estimate/descent.py:topdown",
        "das/estimate/fixed_counts.py:from_histogram",
        "das/estimate/outer.py:_asked",
        "das/estimate/upward_pass.py:upward_pass",
        "das/publications/detailed/files/parameters.py:read",
        "das/publications/published/files/rules.py:constraints_of",
        "das/files/readers/area_list.py:read",
        "das/tools/maps/boundaries.py:joined",
        "das/files/readers/ext1940.py:read",
        "das/files/readers/pl94_2020.py:read_header",
        "das/files/readers/pl94_common.py:segment",
        "das/files/readers/pl94_records.py:extract",
        "das/files/readers/pl94_records.py:assign",
        "das/files/readers/table.py:joined",
        "das/files/simulators/census_1940.py:_p_records",
        "das/publications/detailed/simulation/files.py:write",
        "das/files/simulators/header.py:totals",
        "das/geography/optimized.py:measured_spine",
        "das/api/intervals.py:intervals",
        "das/tools/planning/optimizing.py:_described",
        "das/tools/sweep/runs.py:sweep",
        "das/publications/detailed/truth/maker.py:outlook",
        "das/model/plan.py:from_allocation",
        "das/model/schema.py:from_attributes",
        "das/model/spine.py:from_frame",
        "das/runs/pipeline.py:run",
        "das/api/reading.py:read_estimates",
        "das/api/reading.py:read_nmf",
        "das/release/post_processing.py:estimate",
        "das/release/post_processing.py:publish",
        "das/publications/dhc/page.py:dhc_html",
        "das/publications/counts/report.py:html",
        "das/risk/decisions.py:decisions",
        "das/spec/guess.py:guess",
        "das/truth/bookkeeping.py:start",
        "das/publications/detailed/truth/run.py:_parts",
        "das/truth/measuring.py:measure_part",
    }
)


def length(f: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (f.end_lineno or f.lineno) - f.lineno + 1


def longer(nodes: Iterable[ast.AST], limit: int) -> Iterator[str]:
    """Names of the functions among ``nodes`` that have more lines than that."""
    for f in nodes:
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) and length(f) > limit:
            yield f.name


def test_modules_and_functions_are_short() -> None:
    """And what is short again is struck from the lists."""
    modules, functions = set(), set()
    for module, path in sources().items():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        modules |= {name} if len(text.splitlines()) > MODULE else set()
        functions |= {f"{name}:{f}" for f in longer(nodes_of(module), FUNCTION)}
    assert modules == LONG_MODULES
    assert functions == LONG_FUNCTIONS


def body(f: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its signature and docstring."""
    first = f.body[1:] if ast.get_docstring(f) is not None else f.body
    return (f.end_lineno or f.lineno) - first[0].lineno + 1 if first else 0


def test_no_body_of_a_function_is_long() -> None:
    """Without exceptions: what the lists above still have is long by its signature or docstring."""
    long = {
        f"{path.relative_to(ROOT).as_posix()}:{f.name}"
        for module, path in sources().items()
        for f in nodes_of(module)
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) and body(f) > FUNCTION
    }
    assert long == set()


def test_a_long_function_is_found() -> None:
    body = "    x = 1\n" * FUNCTION
    nodes = list(ast.walk(ast.parse(f"def f():\n{body}")))
    assert list(longer(nodes, FUNCTION)) == ["f"]
    assert not list(longer(nodes, FUNCTION + 1))
