"""Names of ours that the field's terms have replaced are gone: from code, keys and pages."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Words that stand nowhere, alone or as part of a name.
WORDS = {
    "trunk",
    "trunks",
    "shard",
    "shards",
    "desk",
    "board",
    "carrier",
    "dearest",
    "heir",
    "heirs",
    "estate",
    "idle",
    "tied",
    "collapse",
    "collapsed",
    "company",
    "companies",
    "wish",
    "wishes",
    "mend",
    "mends",
    "mended",
    "mending",
    "agreeing",
    "faint",
    "sieve",
    "revival",
    "revivals",
}
#: Why a word stands in a file all the same.
ALLOWED = {
    "das/files/release/spine.py": {"shards"},  # the key of a footer that releases have
    "das/files/run/ledger.py": {"shard"},  # the key of a line of the ledger
    "docs/reference/measurements.md": {"shard", "shards"},  # both of these
    "das/publications/dhc/files/fixed_counts.py": {"tied"},  # the name of a file of releases
    "docs/how-to/dhc.md": {"tied"},
    "das/engine/local.py": {"idle"},  # of a worker
}
#: Names that nothing defines: classes, modules, and functions that said too little.
NAMES = {
    *("Again", "Aim", "Apart", "Asked", "Assessed", "Begun", "Board", "Books", "Bought", "Carried"),
    *("Carrier", "Certified", "Coded", "Collapsed", "Combined", "Company", "Compared", "Computed"),
    *("Derived", "Draw", "Drawn", "Estate", "Estimated", "Faint", "Found", "Goal", "Going"),
    *("Hashed", "Heirs", "Idle", "InStore", "Informed", "Kept", "Layered", "Located", "Made"),
    *("Margin", "Modes", "Opened", "Pooled", "Recorded", "Redrawn", "Refined", "Replicated"),
    *("Revealing", "Revivals", "Running", "Said", "Seat", "Seen", "Summed", "Swept", "Theta"),
    *("Tied", "Wanted", "Ways", "Wish"),
    *(
        "Closed",
        "ClosedRows",
        "Look",
        "OnlyDescendants",
        "SdhcMost",
        "Shown",
        "concluded",
        "gone_on",
    ),
    *("assumed", "begun", "bought", "common_nodes", "found", "found_on", "held", "look", "modes"),
    *("revealed", "said", "sieve", "spreads", "theta", "told", "told_to", "together", "within"),
}
#: Attributes and local functions of these names that say what they are where they stand.
KEPT: set[tuple[str, str]] = set()


@cache
def pages() -> tuple[Path, ...]:
    folders = {
        "das": ("*.py", "*.html", "*.j2"),
        "docs": ("*.md", "*.toml"),
        "configs": ("*.toml",),
    }
    folders["notebooks"] = ("*.ipynb",)
    found = [p for f, kinds in folders.items() for k in kinds for p in (ROOT / f).rglob(k)]
    return (*sorted(found), ROOT / "README.md")


def words(text: str) -> set[str]:
    """All that names and prose are made of, in lower case."""
    return {w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)}


def test_names_fall_into_words() -> None:
    assert words("MeasuredTrunk of_shards IDLE tied-1") == {
        *("measured", "trunk", "of", "shards", "idle", "tied")
    }


def test_retired_words_are_gone() -> None:
    found = {}
    for path in pages():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if odd := words(text) & WORDS - ALLOWED.get(name, set()):
            found[name] = odd
    assert found == {}


def test_each_exception_is_needed() -> None:
    for name, allowed in ALLOWED.items():
        assert allowed <= words((ROOT / name).read_text(encoding="utf-8")), name


@pytest.mark.parametrize("kind", ["modules", "definitions"])
def test_retired_names_are_not_defined(kind: str) -> None:
    modules = sorted((ROOT / "das").rglob("*.py"))
    if kind == "modules":
        assert {m.stem for m in modules} & NAMES == set()
        return
    found = {
        (m.relative_to(ROOT).as_posix(), node.name)
        for m in modules
        for node in ast.walk(ast.parse(m.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in NAMES
    }
    assert found == KEPT


#: A function or parameter of such a name says nothing of what it makes, finds or takes.
SAY_NOTHING = {"functions": {"of"}, "parameters": {"of", "u", "found"}}


def says_nothing(text: str) -> list[str]:
    """Functions, and parameters of functions, with names that say nothing."""
    out = []
    for f in ast.walk(ast.parse(text)):
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef):
            out += [f"{f.name}()"] if f.name in SAY_NOTHING["functions"] else []
            every = [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]
            out += [a.arg for a in every if a.arg in SAY_NOTHING["parameters"]]
    return out


def test_functions_and_parameters_that_say_nothing_are_found() -> None:
    assert says_nothing("class A:\n def of(self, u, *, found=1): return u") == [
        *("of()", "u", "found")
    ]


def test_each_function_and_parameter_says_what_it_is() -> None:
    modules = sorted((ROOT / "das").rglob("*.py"))
    found = {m.relative_to(ROOT).as_posix(): says_nothing(m.read_text("utf-8")) for m in modules}
    assert {name: names for name, names in found.items() if names} == {}
