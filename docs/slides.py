"""The notebooks as decks of slides: ``python -m docs.slides [NAME...]`` (``make slides``).

nbconvert makes them, in ``build/slides``, with the outputs that are stored. A heading begins a slide,
and each cell of code one below it. A page takes reveal.js from the network when it is opened."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import SlidesExporter

from docs import pages

NOTEBOOKS = pages.ROOT / "notebooks"


def parts(cell: Any) -> Iterator[Any]:
    """A cell, cut before its headings; each part knows whether it begins a slide, one below, or
    goes on with the last."""
    code = cell["cell_type"] == "code"
    texts = [cell["source"]] if code else re.split(r"(?m)^(?=#+ )", cell["source"])
    for n, text in enumerate(texts):
        if text:
            kind = "subslide" if code else "slide" if text.startswith("#") else "-"
            part = nbformat.from_dict(cell | {"source": text, "id": f"{cell['id']}-{n}"})
            part["metadata"] = {"slideshow": {"slide_type": kind}}
            yield part


def deck(notebook: Path) -> str:
    """The page of a deck."""
    read = nbformat.read(notebook, as_version=4)
    read.cells = [part for cell in read.cells for part in parts(cell)]
    exporter = SlidesExporter(reveal_scroll=True)
    page, _ = exporter.from_notebook_node(read, {"metadata": {"name": notebook.stem}})
    return str(page)


def main(names: list[str], folder: Path = pages.ROOT / "build" / "slides") -> None:
    """Write the decks of these notebooks, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        written = folder / f"{name}.html"
        written.write_text(deck(NOTEBOOKS / f"{name}.ipynb"), encoding="utf-8")
        print(f"written: {written}")


if __name__ == "__main__":
    main(sys.argv[1:])
