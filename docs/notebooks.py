"""The notebooks with what they print and draw: ``python -m docs.notebooks`` (``make notebooks``)
runs and stores them.

They are stored so that they can be read on any page that shows notebooks, and so that the site
holds them. What depends on the machine or the hour is left out; figures are kept small. The digest
of a notebook's cells is stored with it: a test refuses outputs of other cells than those that are
there."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.utils import run_sync
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
COLORS = 64  #: of a figure; a third of the bytes of a full one


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


@contextmanager
def kernel() -> Iterator[AsyncKernelManager]:
    """One for several notebooks, in their folder: loading what they import takes longer than most
    of what they do.
    """
    manager = AsyncKernelManager(kernel_name="python3")
    run_sync(manager.start_kernel)(cwd=str(FOLDER))
    try:
        yield manager
    finally:
        run_sync(manager.shutdown_kernel)(now=True)


def executed(path: Path, manager: AsyncKernelManager | None = None) -> Any:
    """The notebook after a run from top to bottom in a kernel of its own; or in one of several,
    from which the names of others are removed first."""
    notebook = nbformat.read(path, as_version=4)
    first = [nbformat.v4.new_code_cell("%reset -f")] if manager else []
    notebook.cells[:0] = first
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources=where,
    )
    client.execute()
    if manager:
        client.kc.stop_channels()  # which it leaves, with a kernel that is not its own
    del notebook.cells[: len(first)]
    return notebook


def digest(notebook: Any) -> str:
    """SHA-256 of the sources of all cells."""
    sources = [["".join(c["source"]), c["cell_type"]] for c in notebook["cells"]]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def kinds(notebook: Any) -> list[list[str]]:
    """What each cell puts out: the kinds of its outputs, warnings and progress left out."""
    return [
        [
            o.get("name") or "+".join(sorted(o.get("data", {"error": 0})))
            for o in c.get("outputs", ())
            if o.get("name") != "stderr"
        ]
        for c in notebook["cells"]
    ]


def cleaned(notebook: Any) -> Any:
    """As it is stored: outputs without warnings, figures with few colors, and nothing of the
    machine.
    """
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            cell["outputs"] = [_small(o) for o in cell["outputs"] if o.get("name") != "stderr"]
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "das": {"cells_sha256": digest(notebook)},
    }
    return notebook


def _small(output: Any) -> Any:
    data = output.get("data", {})
    if "image/png" in data:
        picture = io.BytesIO()
        full = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
        full.quantize(COLORS, dither=Image.Dither.NONE).save(picture, "PNG", optimize=True)
        data["image/png"] = base64.b64encode(picture.getvalue()).decode()
        output["metadata"] = {}
    return output


if __name__ == "__main__":
    for chosen in [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or paths():
        nbformat.write(cleaned(executed(chosen)), chosen)
        print(chosen)
