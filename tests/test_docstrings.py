"""Examples in docstrings give what they say.

All are collected here: a collector of doctests would import each module of the package in every
worker, and look for examples in every file of tests, too.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)


def modules() -> list[str]:
    """Those of the package and of the studies in which there is an example, by their names."""
    files = (p for part in ("das", "studies") for p in sorted((ROOT / part).rglob("*.py")))
    with_examples = (p for p in files if EXAMPLE.search(p.read_text(encoding="utf-8")))
    parts = (p.relative_to(ROOT).with_suffix("").parts for p in with_examples)
    return [".".join(x for x in ps if x != "__init__") for ps in parts]


@pytest.mark.parametrize("name", modules())
def test_examples_of_a_module(name: str) -> None:
    """Of its own functions and classes; what is wrong is printed."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_no_docstring_is_passed_over() -> None:
    """As many examples run as there are lines that begin one: none is in the docstring of what
    cannot be found, such as a decorated function."""
    assert len(modules()) > 50
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in modules():
        module = importlib.import_module(name)
        found = sum(len(test.examples) for test in finder.find(module))
        assert module.__file__ is not None
        assert found == len(EXAMPLE.findall(Path(module.__file__).read_text(encoding="utf-8"))), (
            name
        )


def test_a_docstring_ends_on_its_last_line() -> None:
    """Where the quotes have room there."""
    wrong = []
    for path in sorted((ROOT / "das").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                end = (node.end_lineno or 0) - 1
                last = lines[end - 1]
                if lines[end].strip() == '"""' and len(last) <= 97 and last[-1:] != '"':
                    wrong.append(f"{path.relative_to(ROOT)}:{end + 1}")
    assert wrong == []
