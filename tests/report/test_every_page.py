"""What holds for every page, in a browser: on a telephone and on a screen, in light and dark, and on
paper.

Needs Playwright and a Chromium, as the look-up does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das.cli import main
from das.evaluate.comparison import compared, summary
from das.model.error_rows import SweepRow
from das.model.mechanisms import RHO
from das.model.redistricting import PL94
from das.publications.counts.report import html
from das.publications.dhc.page import dhc_errors_html
from das.tools.comparison.page import compare_page
from das.tools.protection.least import files as least_files
from das.tools.protection.study.page import frontier_page
from das.tools.sweep.runs import SweptAxis, sweep_page
from tests.protect.test_coarsening import publication
from tests.report import test_compare, test_dhc_errors, test_frontier_page, test_page
from tests.worlds import Worlds

#: What is wrong with a page at the width that it is shown at.
WRONG = """() => {
  const out = [], all = (s, of = document) => [...of.querySelectorAll(s)];
  if (document.documentElement.scrollWidth > innerWidth + 1) out.push("it scrolls to the side");
  if (all("h1").length !== 1 || !document.title.trim()) out.push("it has no one heading and title");
  let last = 0;
  for (const h of all("h1, h2, h3, h4")) {
    if (+h.tagName[1] > last + 1) out.push(`a level of headings is left out: ${h.textContent}`);
    last = +h.tagName[1];
  }
  for (const th of all("th")) if (!th.scope || !th.textContent.trim() && !th.closest(".bars, table").querySelector(".bar")) out.push(`a head without scope or words: ${th.outerHTML}`);
  for (const t of all("table")) if (!t.caption) out.push(`no caption: ${t.textContent.slice(0, 50)}`);
  for (const i of all("input, select")) if (!i.labels.length && !i.ariaLabel) out.push(`no label: ${i.outerHTML}`);
  const ids = all("[id]").map((e) => e.id);
  for (const id of new Set(ids.filter((x, i) => ids.indexOf(x) !== i))) out.push(`an id twice: ${id}`);
  for (const svg of all("svg")) {
    if (svg.getAttribute("role") !== "img" || !svg.ariaLabel?.trim()) out.push("a figure without a name");
    const box = svg.getBoundingClientRect();
    if (box.width) for (const text of all("text", svg)) {
      const r = text.getBoundingClientRect();
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1)
        out.push(`cut in ${svg.ariaLabel}: ${text.textContent}`);
    }
  }
  for (const e of all("h1, h2, h3, svg text, .lead"))
    if (/ \\* |_Group|\\d{8,}\\/\\d/.test(e.textContent)) out.push(`a name for machines: ${e.textContent}`);
  const [ink, page] = ["color", "backgroundColor"].map((x) => getComputedStyle(document.body)[x]);
  if (ink === page) out.push("nothing can be read");
  return out;
}"""
PAGES = (
    "ages", "areas", "coarsening", "compare", "confidential", "DHC", "DHC errors", "DHC privacy",
    "errors", "frontier", "privacy", "sweep",
)  # fmt: skip


def written(worlds: Worlds, folder: Path) -> Iterator[tuple[str, Path]]:
    """The pages of two runs, and of commands on them."""
    run = worlds.run("run.seed=1", data="three thousand", report=True)
    yield "confidential", run / "confidential" / "report.html"
    yield "privacy", run / "release" / "privacy.html"
    yield "areas", folder / "areas.html"
    areas = ["area", str(run), "--kind", "Place", "--out", str(folder / "areas.html")]
    assert not main(areas, standalone_mode=False)
    whole, dhc = worlds.dhc("output.report=true"), worlds.dhc_with_intervals()
    yield "DHC", whole / "release" / "report.html"
    yield "DHC privacy", dhc / "release" / "privacy.html"
    yield "ages", folder / "ages.html"
    (folder / "coarse").mkdir()
    yield "coarsening", least_files.write(folder / "coarse", publication(("Ward",), True))[-1]
    ages = ["ages", str(dhc), "--level", "Tract", "--out", str(folder / "ages.html")]
    assert not main(ages, standalone_mode=False)


def made() -> Iterator[tuple[str, str]]:
    """Pages of values made by hand."""
    yield "errors", html(test_page.rows(), test_page.facts(), schemas={"persons": PL94})
    words = {"total": "Everybody counted, wherever they live"}
    yield "compare", compare_page(compared(test_compare.errors()), "a run", True, words)
    rows = [
        SweepRow(Fraction(1234567891011, 10**12) * b, m, 0, e)
        for b in (1, 2)
        for m in ("topdown", "full-information")
        for e in test_compare.errors(1 / b)
    ]
    said = {
        "what_this_means": "costs add up", "private": True, "runs": [{}] * 4,
        RHO: {"total": "322468783071379/35016348025458"},
        "epsilon": {"delta": "1e-10", "zcdp-tight": 39.171},
    }  # fmt: skip
    axis = SweptAxis(RHO, rows[0].budget, RHO, {"persons": Fraction(1)})
    yield "sweep", sweep_page({"persons": summary(rows)}, "a run", axis, said, {"persons": PL94})[0]
    yield "frontier", frontier_page(test_frontier_page.MEANS, test_frontier_page.FACTS)[0]
    yield "DHC errors", dhc_errors_html(list(test_dhc_errors.rows(3.0)), test_dhc_errors.FACTS)


@pytest.fixture(scope="module")
def pages(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    out = dict(written(worlds, folder))
    for name, text in made():
        out[name] = folder / f"{name}.html"
        out[name].write_text(text, encoding="utf-8")
    return out


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_it_can_be_read(pages: dict[str, Path], browser: Any, width: int, scheme: str) -> None:
    """At both widths, and in both schemes, which change colors alone."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown, wrong = context.new_page(), {}
    for name in PAGES:
        shown.goto(pages[name].resolve().as_uri())
        if found := shown.evaluate(WRONG):
            wrong[name] = found
    context.close()
    assert not wrong


def test_paper_holds_whole_tables(pages: dict[str, Path], browser: Any) -> None:
    """Nothing that scrolls on a screen is cut on paper; each page prints."""
    context = browser.new_context(viewport={"width": 794, "height": 1123})
    shown = context.new_page()
    shown.emulate_media(media="print")
    for name in PAGES:
        shown.goto(pages[name].resolve().as_uri())
        cut = shown.evaluate(
            "() => [...document.querySelectorAll('.scroll, .all')]"
            ".filter((x) => getComputedStyle(x).overflowX !== 'visible').length"
        )
        assert not cut, name
        assert shown.pdf(format="A4")[:5] == b"%PDF-"
    context.close()


def test_every_page_with_figures_begins_with_a_sentence(pages: dict[str, Path]) -> None:
    """Before the first figure or table."""
    for name in ("ages", "frontier", "sweep", "errors", "compare", "DHC errors"):
        text = pages[name].read_text(encoding="utf-8")
        lead = re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)
        assert lead, name
        assert lead.start() < min(text.find(x) % len(text) for x in ("<svg", "<table")), name
        assert re.search(r"\d|No ", lead[1]), name


BAD = """<!DOCTYPE html><html lang="en"><head><title>x</title></head><body style="color: #fff; background: #fff">
<h1>x</h1><h3>hispanic * race</h3><div style="width: 3000px">x</div><input><i id="a"></i><i id="a"></i>
<table><tr><th>x</th></tr></table><svg width="20" height="20"><text x="15" y="15">words</text></svg></body></html>"""


def test_what_is_wrong_is_found(browser: Any) -> None:
    """Each of ten faults, once."""
    shown = browser.new_page(viewport={"width": 390, "height": 900})
    shown.set_content(BAD)
    found = " ".join(shown.evaluate(WRONG))
    for fault in (
        "scrolls", "a level of headings", "without scope", "no caption", "no label", "an id twice",
        "a figure without a name", "cut in", "a name for machines", "nothing can be read",
    ):  # fmt: skip
        assert fault in found, fault
    shown.close()
