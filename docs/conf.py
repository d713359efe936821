"""The documentation site: Sphinx over these pages, and the notebooks with their stored outputs."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parents[1]))

import das

logger = logging.getLogger(__name__)

project = "das"
author = "the das authors"
release = das.__version__
copyright = author

extensions = ["myst_nb"]
include_patterns = [
    "docs/index.md",
    "docs/**/*.md",
    "notebooks/*.ipynb",
]  # of the repository, so that links are the same there and here
root_doc = "docs/index"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nitpicky = False

nb_execution_mode = "off"  # they are stored with their outputs

html_theme = "furo"
html_title = f"das {release}"
html_math_renderer = "mathml"
linkcheck_timeout = 20

#: Commands that docutils does not know, in terms of those that it does.
SPELT = {
    r"\Big": r"\Bigl",
    r"\big": r"\bigl",
    r"\dots": r"\ldots",
    r"\tfrac": r"\frac",
    r"\iff": r"\Longleftrightarrow",
}


def mathml(node: nodes.Element, **options: bool) -> str:
    """A formula as MathML; one that cannot be read is a warning, and stays as it is written."""
    text = re.sub(r"\\[A-Za-z]+", lambda m: SPELT.get(m[0], m[0]), node.astext())
    if "\\\\" in text and "\\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    try:
        return str(tex2mathml(text, **options))
    except MathError as error:
        logger.warning("%s in %r", error, text, location=node)
        return html.escape(text)


def inline_math(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node))
    raise nodes.SkipNode


def block_math(self: Any, node: nodes.math_block) -> None:
    self.body.append(mathml(node, as_block=True))
    raise nodes.SkipNode


def entrance(app: Any, exception: Exception | None) -> None:
    """The site begins at its own index."""
    if exception is None and app.builder.format == "html":
        page = (
            '<!doctype html><meta http-equiv="refresh" content="0;'
            ' url=docs/index.html"><title>das</title>\n'
        )
        (Path(app.outdir) / "index.html").write_text(page)


def setup(app: Any) -> None:
    """Formulas become MathML, which every current browser shows: no script, no network."""
    app.connect("build-finished", entrance)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
