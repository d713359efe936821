"""Slides from the notebooks: a slide for each heading, with all that the notebook shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("nbconvert")

from docs import slides


@pytest.mark.parametrize("name", ["first-run", "noisy-and-published", "choosing-rho"])
def test_a_heading_begins_a_slide(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = json.loads((slides.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    prose = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    code = [c for c in cells if c["cell_type"] == "code"]
    slides.main([name], tmp_path)
    assert str(tmp_path) in capsys.readouterr().out
    page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
    assert page.count("<section") == page.count("</section>") == 2 * len(headings) + len(code)
    first = re.findall(r"<section ?>\s*<section ?>(.*?)</section>", page, re.DOTALL)
    assert [bool(re.search(r"<h[1-6]", slide)) for slide in first] == [True] * len(headings)
    pictures = sum("image/png" in o.get("data", {}) for c in code for o in c["outputs"])
    assert page.count('src="data:image/png') == pictures > 0
