"""The look-up of the pages, in a browser. What a person types finds the place, by name, by code or
by GEOID, and the numbers shown are those of the release.

Needs Playwright (the extra ``browser``) and a Chromium: one of the machine, or Playwright's own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

from das import spec
from das.files.simulators import census_2010
from das.model.areas import Areas
from das.model.not_private import WARNING
from das.model.spine import Spine
from das.publications.counts.report import off_spine_errors
from das.report import answers as lookup
from das.report import release_page
from das.report.answers import Answers, LookUp
from das.report.template import environment
from das.runs import pipeline

#: What the page shows: its heading, what it says, the places to choose from, and the rows of each
#: table.
SEEN = """() => {
  const texts = (selector, of = document) => [...of.querySelectorAll(selector)].map((x) => x.textContent);
  return {
    title: texts("#lookup-result h3")[0] ?? "",
    says: texts("#lookup-found p, #lookup-result p"),
    choices: texts("#lookup-found button"),
    totals: texts("#lookup-result .totals dd.big"),
    tables: [...document.querySelectorAll("#lookup-result table")].map(
      (t) => [...t.querySelectorAll("tbody tr")].map((row) => texts("th, td", row))),
  };
}"""
CLEAR = (
    "() => ['found', 'result'].forEach((x) =>"
    " document.getElementById(`lookup-${x}`).replaceChildren())"
)
SETTLED = "#lookup-found p, #lookup-result table, #lookup-result .totals"

Browsed = Callable[[str], Any]


@pytest.fixture
def browsed(browser: Any) -> Iterator[Browsed]:
    """Opens a page; it may ask for nothing over the network, and its scripts may not fail."""
    context = browser.new_context()
    context.set_default_timeout(10_000)
    wrong: list[str] = []
    context.on(
        "request",
        lambda r: None if r.url.startswith("file:") else wrong.append(f"asks for {r.url}"),
    )
    context.on("weberror", lambda e: wrong.append(str(e.error)))

    def browse(url: str) -> Any:
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector(SETTLED, state="attached")
        return page

    yield browse
    context.close()
    assert not wrong


@pytest.fixture
def opened(browsed: Browsed, tmp_path: Path) -> Callable[..., Any]:
    """The look-up alone, of what is given."""

    def look_up(shown: LookUp, asked: str = "", coverage: float | None = None) -> Any:
        part = environment().get_template("lookup.html")
        html = part.render(
            lookup=Markup(lookup.data(shown, coverage=coverage)), confidential=False, left_out=[]
        )
        path = tmp_path / "page.html"
        path.write_text(
            f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><body>{html}</body></html>',
            "utf-8",
        )
        return browsed(path.as_uri() + asked)

    return look_up


def typed(page: Any, *words: str) -> list[dict[str, Any]]:
    """What the page shows after each of the words, with the level that stands before a "=" if one
    does.
    """
    out = []
    for text in words:
        level, word = text.split("=") if "=" in text else ("any level", text)
        page.select_option("#lookup-level", label=level)
        page.wait_for_selector(SETTLED, state="attached")  # a level that is chosen shows its units
        page.evaluate(CLEAR)
        page.fill("#lookup-code", word)
        page.press("#lookup-code", "Enter")
        page.wait_for_selector(SETTLED, state="attached")
        out.append(page.evaluate(SEEN))
    return out


def spine() -> Spine:
    codes = (
        ["US"],
        ["44"],
        ["44005", "44007"],
        ["4400504010011000", "4400700010011000", "4400700010022003"],
    )
    parent = ([0], [0], [0, 0], [0, 1, 1])
    names = ([""], ["Rhode Island"], ["Nuñez County", "Providence County"], [""] * 3)
    return Spine(
        ("US", "State", "County", "Block"),
        tuple(map(np.array, codes)),
        tuple(np.array(p, dtype=np.int64) for p in parent),
        tuple(map(np.array, names)),
    )


def shown(tree: Spine) -> LookUp:
    answers = tuple(
        Answers(
            "persons",
            level,
            "total",
            "Total",
            ("total",),
            10 * i + np.arange(tree.units(level))[:, None],
            None,
            None,
            False,
        )
        for i, level in enumerate(tree.levels)
    )
    return LookUp(tree, answers, tree.levels)


def with_town(tree: Spine) -> LookUp:
    """And a place across the levels."""
    town = Areas(
        "Place",
        np.array(["4459000"]),
        np.array([0, 0]),
        np.array([0, 2]),
        np.array(["Providence city"]),
    )
    counts = Answers(
        "persons", "Place", "total", "Total", ("total",), np.array([[42]]), None, None, False
    )
    return LookUp(tree, (*shown(tree).answers, counts), tree.levels, (town,))


def test_names_codes_and_geoids_find_a_place(opened):
    words = {
        "providence": "Providence County (County 44007)",
        " Rhode ": "Rhode Island (State 44)",
        "nunez county": "Nuñez County (County 44005)",  # nobody types the tilde
        "44007": "Providence County (County 44007)",
        # 15 digits, as in TIGER and in block-assignment files
        "440070001002003": "Block 4400700010022003",
        "440070001001000": "Block 4400700010011000",
        "4400504010011000": "Block 4400504010011000",
        "County=44": "",
        "Block=": "",
        "Wonderland": "",
        "<b>x</b>": "",
        "": "",
    }
    got = dict(zip(words, typed(opened(shown(spine())), *words), strict=True))
    assert {w: g["title"] for w, g in got.items()} == words
    assert got["44007"]["tables"] == [[["total", "21", "not measured", "–"]]]
    assert got["440070001001000"]["says"] == [
        "GEOID 440070001001000",
        "Part of Providence County (County 44007)",
    ]
    assert got["County=44"]["choices"] == [
        "Nuñez County (County 44005)",
        "Providence County (County 44007)",
    ]
    assert len(got["Block="]["choices"]) == 3
    assert got["Wonderland"]["says"] == [
        "No unit has “Wonderland” in its name, its code or its GEOID."
    ]
    assert got["<b>x</b>"]["says"] == ["No unit has “<b>x</b>” in its name, its code or its GEOID."]
    assert (got[""]["says"], len(got[""]["choices"])) == (["Which one?"], 7)


def test_intervals_are_those_of_the_page_from_python(opened):
    """By query one kind of unit and another, an answer that nothing tells, one outside, one that is
    certain.
    """
    tree = spine()
    published = np.array([[5, 1451], [7, 0], [3, 20]])
    middle, within = np.array([[9, 1231], [7, -2], [3, 21]]), np.array([[-1, 6], [0, 6], [0, 6]])
    noisy, margin = published + 1, np.array([4, -1, 4])
    blocks = Answers(
        "persons",
        "Block",
        "sex",
        "Sex",
        ("f", "m"),
        published,
        noisy,
        margin,
        False,
        middle,
        within,
    )
    page = opened(LookUp(tree, (*shown(tree).answers[:3], blocks), tree.levels))
    got = [g["tables"][0] for g in typed(page, *tree.geocodes(tree.levels[-1]).tolist())]
    for unit, rows in enumerate(got):
        for i, row in enumerate(rows):
            here = release_page._interval(blocks, unit, i)
            assert row[:2] == ["fm"[i], f"{published[unit, i]:,}"]
            assert row[3] == here
    assert got[0][1] == ["m", "1,451", "1,452", "\u2691 outside 1,225 to 1,237"]
    assert got[0][0][3] == "–"
    assert got[1] == [["f", "7", "not measured", "7"], ["m", "0", "not measured", "0 to 4"]]


def test_intervals_of_published_counts_stand_beside_them(opened):
    """One that is off to a side, one without width, and one of an area off the spine; the other
    interval is told apart from it.
    """
    tree = spine()
    published = np.array([[12], [0], [2000]])
    lower, upper = np.array([[13], [0], [1500]]), np.array([[40], [0], [2001]])
    blocks = Answers(
        "persons",
        "Block",
        "total",
        "Total",
        ("total",),
        published,
        None,
        None,
        False,
        published + 1,
        np.array([[5], [-1], [5]]),
        lower,
        upper,
    )
    town = with_town(tree)
    city = replace(town.answers[-1], lower=np.array([[40]]), upper=np.array([[44]]))
    page = opened(
        LookUp(tree, (*town.answers[:3], blocks, city), tree.levels, town.areas), coverage=0.9
    )
    got = [
        g["tables"][0][0]
        for g in typed(page, *tree.geocodes(tree.levels[-1]).tolist(), "Place=city", "44007")
    ]
    assert [row[1:3] for row in got] == [
        ["12", "13 to 40"],
        ["0", "0"],
        ["2,000", "1,500 to 2,001"],
        ["42", "40 to 44"],
        ["21", "–"],
    ]
    assert [row[4] for row in got] == ["8 to 18", "–", "1,996 to 2,006", "–", "–"]
    heads = page.evaluate(
        "[...document.querySelectorAll('#lookup-result th[scope=col]')].map((x) => x.textContent)"
    )
    assert [h.replace("\u00a0", " ") for h in heads] == [
        "count",
        "published",
        "90% interval of published",
        "noisy",
        "95% interval from measurements",
    ]


def rich(tree: Spine, answers: int = 3) -> LookUp:
    """With intervals, and a second query."""
    out = []
    for level in tree.levels:
        n = tree.units(level)
        total = np.arange(n)[:, None] * 1000 + 500
        for name, counts in (("total", total), ("sex", np.repeat(total // answers, answers, 1))):
            within = np.full(counts.shape, 7)
            words = tuple(f"{name} {i}" for i in range(counts.shape[1]))
            margin = np.full(n, 9)
            noisy = counts + 1
            one = Answers("persons", level, name, name.title(), words, counts, noisy, margin, False)
            out.append(replace(one, middle=counts + 2, within=within))
    return LookUp(tree, tuple(out), tree.levels)


def test_the_look_up_for_the_public_opens_with_an_example_and_its_totals(browsed, tmp_path):
    data, left_out = lookup.brief(rich(spine()), ("County", 1))
    part = environment().get_template("lookup.html")
    html = part.render(lookup=Markup(data), confidential=False, left_out=left_out)
    head = '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">'
    (tmp_path / "page.html").write_text(f"{head}<body>{html}</body></html>", "utf-8")
    page = browsed((tmp_path / "page.html").as_uri())
    assert page.evaluate(SEEN)["title"] == "Providence County (County 44007)"
    totals = "[...document.querySelectorAll('.totals dt, .totals dd')].map((x) => x.textContent)"
    assert page.evaluate(totals) == ["persons", "1,500", "95% interval: 1,495 to 1,509"]
    heads = (
        "[...document.querySelectorAll('#lookup-result th[scope=col]')].map((x) => x.textContent)"
    )
    said = [h.replace("\u00a0", " ") for h in page.evaluate(heads)]
    assert said == ["count", "published", "95% interval"]
    assert page.evaluate(SEEN)["tables"] == [[[f"sex {i}", "500", "495 to 509"] for i in range(3)]]
    (rhode,) = typed(page, "Rhode")
    assert rhode["title"] == "Rhode Island (State 44)"


def test_the_public_reads_intervals_of_areas_and_why_a_count_is_outside(browsed, tmp_path):
    tree = rich(spine()).spine
    town = with_town(tree)
    low, high = np.array([[43]]), np.array([[50]])
    total = replace(town.answers[-1], ends=(low, high))
    ages = Answers(
        *("persons", "Place", "age", "Age", ("young", "old"), np.array([[2, 40]])),
        *(None, None, False),
        ends=(np.array([[0, 0]]), np.array([[4, -1]])),
    )
    assert (ages.interval(0, 0), ages.interval(0, 1)) == ((0, 4), None)
    shown = LookUp(tree, (*rich(tree).answers, total, ages), tree.levels, town.areas)
    data, left_out = lookup.brief(shown, ("County", 1))
    part = environment().get_template("lookup.html")
    html = part.render(lookup=Markup(data), confidential=False, left_out=left_out)
    head = '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">'
    (tmp_path / "page.html").write_text(f"{head}<body>{html}</body></html>", "utf-8")
    page = browsed((tmp_path / "page.html").as_uri())
    city, county = typed(page, "Providence", "44007")
    assert city["totals"] == ["42"]
    assert city["says"] == [
        "* The published count is outside: published counts add up over all places and none is"
        " negative, which moves some. And one interval in twenty misses by chance. Quote the interval"
        " with it.",
        "To quote: “Providence city has 42 persons; before noise was added, the count was between"
        " 43 and 50 (95% confidence).”",
        "Others with this name: Providence County (County 44007) ",
    ]
    assert city["tables"] == [[["young", "2", "0 to 4"], ["old", "40", "–"]]]
    assert [s for s in county["says"] if "To quote" not in s] == ["Part of Rhode Island (State 44)"]


def test_kinds_are_said_in_words(opened):
    tree = spine()
    senate = replace(with_town(tree).areas[0], kind="SLDU", codes=np.array(["44009"]), names=None)
    counts = replace(with_town(tree).answers[-1], level="SLDU")
    page = opened(LookUp(tree, (*shown(tree).answers, counts), tree.levels, (senate,)))
    (got,) = typed(page, "44009")
    assert got["title"] == "State Senate district 44009"


def test_the_look_up_for_the_public_takes_no_more_room_than_it_has() -> None:
    """Totals of every level come first; then what there is room for, the lowest level last."""
    shown, least = rich(spine(), 60), ("US", 0)
    everything, none = lookup.brief(shown, least)
    assert none == []
    asked = {
        room: lookup.brief(shown, least, room) for room in range(0, len(everything) + 500, 250)
    }
    before: set[tuple[str, str]] = set()
    for room, (text, left_out) in asked.items():
        data = json.loads(text)
        has = {(lv["name"], q["name"]) for lv in data["levels"] for q in lv["queries"]}
        levels = [lv["name"] for lv in data["levels"]]
        assert [*levels, *left_out] == list(shown.spine.levels)
        assert len(text) <= room + 250  # what names the parts
        assert {(level, "total") for level in levels} <= has
        if ("Block", "sex") in has:
            assert len(has) == 8
        if any(name == "sex" for _, name in has):
            assert left_out == []
        assert len(has) >= len(before)
        before = has
    assert len(before) == 8


def test_what_a_rule_assigned_is_shown_on_demand(opened):
    """A button shows it and hides it again, and the next place is shown as the last one was."""
    whole = rich(spine())
    shown = replace(
        whole, answers=tuple(replace(a, assigned=a.query == "sex") for a in whole.answers)
    )
    page = opened(shown, "#County=44007")
    assert len(page.evaluate(SEEN)["tables"]) == 1
    button = "#lookup-result button.assigned"
    assert page.text_content(button) == "Show 1 table that was assigned by a rule, not counted"
    page.click(button)
    page.wait_for_selector(f"{button}[aria-pressed=true]")
    assert len(page.evaluate(SEEN)["tables"]) == 2
    (other,) = typed(page, "44005")
    assert len(other["tables"]) == 2
    page.click(button)
    page.wait_for_selector(f"{button}[aria-pressed=false]")
    assert len(page.evaluate(SEEN)["tables"]) == 1


def test_what_a_rule_assigned_has_what_room_is_left() -> None:
    """The other tables of a place come before it, however large."""
    counted, ruled = rich(spine(), 60), rich(spine(), 3)
    few = tuple(replace(a, query="quarters", assigned=True) for a in ruled.answers[1::2])
    shown = replace(counted, answers=counted.answers + few)
    for room in range(0, 20_000, 500):
        data = json.loads(lookup.brief(shown, ("US", 0), room)[0])
        for level in data["levels"]:
            has = {q["name"] for q in level["queries"]}
            assert has in ({"total"}, {"total", "sex"}, {"total", "sex", "quarters"})
    assert len(has) == 3


def test_a_tree_without_names_is_searched_by_code(opened):
    tree = spine()
    (got,) = typed(opened(shown(Spine(tree.levels, tree.codes, tree.parent))), "007")
    assert got["choices"] == ["County 44007", "Block 4400700010011000", "Block 4400700010022003"]


def test_places_across_the_levels_are_found_too(opened):
    both, part, one, county = typed(
        opened(with_town(spine())), "Providence", "prov", "Place=city", "44007"
    )
    assert both["title"] == "Providence city (Place 4459000)"  # the city first, then the others
    assert both["says"][-1] == "Others with this name: Providence County (County 44007) "
    assert part["choices"] == [
        "Providence city (Place 4459000)",
        "Providence County (County 44007)",
    ]
    assert (one["title"], one["tables"][0][0][1]) == ("Providence city (Place 4459000)", "42")
    assert "sums of published counts" in one["says"][0]
    assert county["title"] == "Providence County (County 44007)"


def test_a_keyboard_is_enough(opened):
    page = opened(with_town(spine()))
    page.keyboard.press("Tab")
    page.keyboard.type("prov")
    page.keyboard.press("Enter")
    page.wait_for_selector("#lookup-found button")
    for _ in range(3):  # the level, the button of the form, the first place
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#lookup-result h3:has-text('Providence city')")
    assert page.evaluate(SEEN)["choices"] == []


def test_a_place_leads_to_those_above_and_below_it(opened):
    page = opened(shown(spine()), "#County=44007")
    assert page.evaluate(SEEN)["title"] == "Providence County (County 44007)"
    page.click("summary:has-text('Block: 2 inside')")
    page.click("details button:has-text('4400700010022003')")
    page.click("p button:has-text('Providence County')")
    page.click("p button:has-text('Rhode Island')")
    page.wait_for_selector("h3:has-text('Rhode Island')")


def test_the_page_of_a_run_has_the_numbers_of_its_tables(browsed, root, tmp_path):
    census_2010.write(tmp_path / "data", seed=1, states=1, persons=1000)
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    text = text.replace('spine = "optimized"', 'spine = "tabulation"')
    seeded = spec.parse(text, where="c", overrides=("run.seed=7",))
    pipeline.run(seeded, tmp_path / "run", paths=[tmp_path / "data"])
    page = browsed((tmp_path / "run" / "release" / "report.html").as_uri())
    assert page.inner_text(".not-private").strip() == WARNING
    for level in ("County", "Tract", "Block"):
        with (tmp_path / "run" / "release" / "tables" / f"P1_{level}.csv").open(
            newline="", encoding="utf-8"
        ) as file:
            rows = list(csv.DictReader(file))
        for row in (rows[0], rows[-1]):
            (got,) = typed(
                page, f"{level}={row['GEOCODE']}"
            )  # a district may have the code of a county
            assert got["totals"][0] == f"{int(row['P0010001']):,}"
    (nothing,) = typed(page, "Block=")
    assert nothing["says"][0].startswith("The first 25 of ")


def test_errors_of_areas_are_those_of_their_sums():
    tree = spine()
    towns = Areas(
        "Place", np.array(["a", "b"]), np.array([0, 1]), np.array([0, 2]), np.array(["Aton", ""])
    )
    counts = Answers(
        "persons", "Place", "total", "Total", ("total",), np.array([[42], [7]]), None, None, False
    )
    page = LookUp(tree, (*shown(tree).answers, counts), tree.levels, (towns,))
    (row,) = off_spine_errors(page, {counts.key: np.array([[45], [6]])})
    assert (row.kind, row.n, row.mae, row.p50, row.max, row.bias, row.worst) == (
        "Place",
        2,
        2.0,
        1,
        3,
        -1.0,
        "Aton (a)",
    )
