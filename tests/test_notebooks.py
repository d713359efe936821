"""Every notebook runs from top to bottom, and is kept with the outputs of the cells that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from docs import notebooks

NOTEBOOKS = notebooks.paths()
HERE = re.escape(str(notebooks.FOLDER.parent))
MACHINE = re.compile(
    rf"{HERE}|/tmp/|/home/|/root/|/Users/|\b0x[0-9a-f]{{6,}}|\.venv|site-packages|Traceback"
)
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def stored(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 8


@pytest.fixture(scope="module")
def kernel() -> Iterator[notebooks.AsyncKernelManager]:
    with notebooks.kernel() as manager:
        yield manager


@each
def test_it_runs_and_puts_out_what_is_stored(
    path: Path, kernel: notebooks.AsyncKernelManager
) -> None:
    """Claims in the prose are asserted in the cells, so a claim that ceased to hold stops it here.
    The numbers are of new noise each time; the kinds of output are the same."""
    assert notebooks.kinds(notebooks.executed(path, kernel)) == notebooks.kinds(stored(path)), (
        "run `make notebooks`"
    )


@each
def test_its_outputs_are_those_of_its_cells(path: Path) -> None:
    notebook = stored(path)
    nbformat.validate(notebook)
    assert notebook["metadata"]["das"]["cells_sha256"] == notebooks.digest(notebook), (
        "run `make notebooks`"
    )
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    assert "error" not in {k for ks in notebooks.kinds(notebook) for k in ks}
    assert any("image/png" in k or "text/html" in k for ks in notebooks.kinds(notebook) for k in ks)


@each
def test_its_outputs_tell_nothing_of_the_machine_and_are_small(path: Path) -> None:
    notebook = stored(path)
    outputs = [dict(o) for c in notebook["cells"] for o in c.get("outputs", ())]
    for o in outputs:
        o["data"] = {k: v for k, v in o.get("data", {}).items() if k != "image/png"}
    assert not MACHINE.findall(json.dumps(outputs))
    assert not [c for c in notebook["cells"] if "execution" in c["metadata"]]
    assert path.stat().st_size < 400_000


@each
def test_it_has_exercises_with_solutions_that_run(path: Path) -> None:
    """Exercises stand under their heading, solutions in a section of their own, in cells that the
    site folds.
    """
    cells = stored(path)["cells"]
    heads = ["".join(c["source"]).split("\n")[0] for c in cells]
    exercises, solutions = heads.index("## Exercises"), heads.index("## Solutions")
    asked = re.findall(r"^(\d)\. ", "".join(cells[exercises]["source"]), re.MULTILINE)
    code = [c for c in cells[solutions:] if c["cell_type"] == "code"]
    assert exercises < solutions
    assert len(asked) == len(code) >= 2
    for number, cell in zip(asked, code, strict=True):
        assert "".join(cell["source"]).startswith(f"# {number}. ")
        assert cell["metadata"]["tags"] == ["hide-cell"]


@each
def test_it_uses_what_is_public(path: Path) -> None:
    """No name of ours that begins with an underscore, and no opening of the truth but through a
    run's own files.
    """
    code = "".join(
        "".join(c["source"]) + "\n" for c in stored(path)["cells"] if c["cell_type"] == "code"
    )
    assert "import _" not in code
    assert "._" not in code
    assert ".open(" not in code
