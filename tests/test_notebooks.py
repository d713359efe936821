"""Every notebook runs from top to bottom, and is kept without outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[object]]]:
    """All that were asked for, two at a time, each in a kernel of its own."""
    asked = [item.callspec.params["path"] for item in request.session.items if "test_it_runs" in item.nodeid]
    with ThreadPoolExecutor(2) as pool:
        yield {path: pool.submit(executed, path) for path in asked}


def executed(path: Path) -> object:
    notebook = nbformat.read(path, as_version=4)
    return NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 8


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path: Path, runs: dict[Path, Future[object]]) -> None:
    """Claims in the prose are asserted in the cells, so a claim that ceased to hold stops it here."""
    runs[path].result()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert not [c["id"] for c in notebook["cells"] if c.get("outputs") or c.get("execution_count")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_uses_what_is_public(path: Path) -> None:
    """No name of ours that begins with an underscore, and no opening of the truth but through a run's own files."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "".join("".join(c["source"]) + "\n" for c in cells if c["cell_type"] == "code")
    assert "import _" not in code
    assert "._" not in code
    assert ".open(" not in code
