"""What matplotlib draws, for print: its style, and its drawings as SVG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from markupsafe import escape
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from das.report.ink import INK, RULE

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 9.0,
    "text.parse_math": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
}


@contextmanager
def any_glyph() -> Iterator[None]:
    """Text stays text, which the browser has a font for; that ours has no glyph for it only makes
    its width a guess.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"Glyph \d+ .* missing from", category=UserWarning
        )
        yield


def svg(fig: Figure, name: str, description: str) -> str:
    """The figure as an ``<svg>`` element: same figure, same text; identifiers unique on the
    page.
    """
    return titled(fig, name, description, {})


def titled(fig: Figure, name: str, description: str, titles: Mapping[str, Sequence[str]]) -> str:
    """The same, where ``titles`` are those of the paths of collections, by the identifier
    (``gid``) of each: a browser shows them at the pointer."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}), any_glyph():
        # as savefig does, but that it draws everything twice where the layout depends on what is
        # drawn
        FigureCanvasSVG(fig).print_svg(
            out, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for gid, words in titles.items():
        text = _with_titles(text, gid, words)
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(
        r' id="([\w.-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text
    )
    text = re.sub(r"(url\(|href=\")#([\w.-]+)", lambda m: f"{m[1]}#{name}-{m[2]}", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)  # the page's own
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def _with_titles(text: str, gid: str, words: Sequence[str]) -> str:
    """Matplotlib draws the paths of a collection in their order, one element each: of a collection
    of one path that it uses (``<use>``) of a definition."""
    begin = text.index(f'<g id="{gid}">')
    end = text.index("</g>", begin)
    tag = "use" if "<use " in text[begin:end] else "path"
    head, *parts = re.split(rf"(<{tag} [^>]*?)/>", text[begin:end])
    drawn, between = parts[::2], parts[1::2]
    if len(drawn) != len(words):
        raise ValueError(f"{len(drawn)} elements in {gid}, and {len(words)} titles")
    made = [
        f"{element}><title>{escape(word)}</title></{tag}>{rest}"
        for element, word, rest in zip(drawn, words, between, strict=True)
    ]
    return text[:begin] + head + "".join(made) + text[end:]
