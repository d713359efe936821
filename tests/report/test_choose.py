"""The page for choosing a budget, in a browser: whatever shares somebody sets, its margins, epsilons
and risks are those that the commands compute of the configuration that it gives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from benchmarks.choose import READ, SIMULATED, UNITS, Differences, drawn_areas, opened, settings
from das.files import packaged
from das.spec import RunSpec, load, of_kind
from tests.commands import Commands, Das
from tests.worlds import Worlds

NATION = ",".join(map(str, UNITS))
COUNTIES = (1, 49, 3108, 140_000)
TABULATION = ("--set", "geography.spine=tabulation")


@pytest.fixture
def plan(commands: Commands) -> Das:
    return commands.named("plan")


@pytest.fixture(scope="module")
def pages() -> dict[tuple[object, ...], bytes]:
    """The pages that were made, of units that are given."""
    return {}


@pytest.fixture
def made(plan: Das, tmp_path: Path, pages: dict[tuple[object, ...], bytes]) -> Callable[..., Path]:
    """The page of a configuration."""

    def make(config: object, *more: object, units: Sequence[int] = UNITS) -> Path:
        file, asked = tmp_path / "page.html", (config, *more, *units)
        if units and asked in pages:
            file.write_bytes(pages[asked])
            return file
        given = ("--units", ",".join(map(str, units))) if units else ()
        code, out, err = plan(config, "--page", file, *given, *more)
        assert (code, err) == (0, ""), err
        assert f"written: {file}" in out
        pages[asked] = file.read_bytes()
        return file

    return make


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that may ask for nothing over the network, and whose scripts may not fail."""
    context, wrong = browser.new_context(), []
    context.set_default_timeout(60_000)
    context.on("request", lambda r: r.url.startswith(("file:", "about:")) or wrong.append(r.url))
    context.on("weberror", lambda e: wrong.append(str(e.error)))
    yield context.new_page()
    context.close()
    assert not wrong


def data(file: Path) -> dict[str, Any]:
    found = re.search(r'id="choose-data">(.*?)</script>', file.read_text("utf-8"), re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


@pytest.mark.parametrize(
    ("config", "more", "units", "number"),
    [
        ("pl94-2010", TABULATION, UNITS, 3),
        ("pl94-2010", (), UNITS, 1),
        ("kazan-reiter", (), UNITS, 2),
        ("1940", (), COUNTIES, 3),
    ],
)
def test_every_number_is_that_of_the_configuration_that_the_page_gives(
    made: Callable[..., Path],
    page: Any,
    config: str,
    more: Sequence[str],
    units: Sequence[int],
    number: int,
) -> None:
    file = made(config, *more, units=units)
    levels, queries = (data(file)[k] for k in ("levels", "queries"))
    finest = [q["name"] for q in queries].index("detailed")
    met = Differences()
    for fragment in settings(len(levels), len(queries), finest, number):
        met.add(opened(page, file, fragment), units)
    assert met.kept, met


@pytest.mark.parametrize("spine", ["tabulation", "optimized"])
def test_margins_of_areas_are_those_of_das_plan(
    made: Callable[..., Path], page: Any, tmp_path: Path, spine: str
) -> None:
    """Of areas that cut the tree, also with queries that are not measured, and of all there is."""
    listed, text = tmp_path / "drawn.csv", packaged.configuration(Path("pl94-2010"))[0]
    drawn_areas(of_kind(RunSpec, load(text, where="test"), "test"), [SIMULATED], listed)
    more = ("--set", f"geography.spine={spine}", "--data", SIMULATED, "--areas", listed)
    file, met = made("pl94-2010", *more, units=()), Differences()
    known = data(file)
    finest = [q["name"] for q in known["queries"]].index("detailed")
    for fragment in settings(len(known["levels"]), len(known["queries"]), finest, 2):
        read = opened(page, file, fragment)
        assert len(read["areas"]) == 10
        assert read["areas"][1][0] == 0  # all of the state, whose total is exact
        met.of_areas(read, [SIMULATED], listed)
    assert met.kept, met
    page.select_option("#goal-level", label="Drawn: the middle one")
    page.fill("#goal-margin", "100")
    page.keyboard.press("Enter")
    middle = sorted(a[3] for a in settled(page)["areas"])[4]
    assert 99.99 < middle <= 100


def settled(page: Any) -> dict[str, Any]:
    page.wait_for_function(
        "() => document.body.dataset.settled === decodeURIComponent(location.hash.slice(1))"
    )
    return dict(page.evaluate(READ))


def margin(read: dict[str, Any], level: str, query: str) -> float:
    return float(next(m[3] for m in read["margins"] if m[:2] == [level, query]))


def test_somebody_finds_the_least_budget_and_the_configuration_that_has_it(
    made: Callable[..., Path], page: Any, commands: Commands, tmp_path: Path
) -> None:
    """With the keyboard alone; ``das check`` and ``das risk`` of what is copied print the page's
    figures; undo and the link lead back."""
    file = made("pl94-2010", *TABULATION)
    page.goto(file.as_uri())
    first = settled(page)
    before = page.url
    assert margin(first, "Tract", "votingage") > 20
    page.focus("#presets >> text=/^Best$/")
    page.keyboard.press("Enter")
    page.select_option("#goal-level", label="Tract")
    page.select_option("#goal-query", label="Voting age")
    page.fill("#goal-margin", "10")
    page.keyboard.press("Enter")
    least = settled(page)
    assert 9.99 < margin(least, "Tract", "votingage") <= 10
    assert least["epsilon"] < first["epsilon"] / 2.5
    assert "rho = 0.442319, epsilon = 6.13" in page.text_content("#goal-says")
    met = Differences()
    met.by_command(least, tmp_path)
    assert met.noise == 0
    assert 0 <= met.low <= met.high < 0.01
    asked = ("--prior", least["prior"], "--query", "detailed", "--json")
    code, out, err = commands.named("risk")(tmp_path / "chosen.toml", *asked)
    assert code == 0, err
    ladder = max(json.loads(out), key=lambda r: int(r["levels"]))
    assert ladder["level"] == "US"
    assert least["risk"]["ladder"] == pytest.approx(ladder["marginal_posterior"], rel=1e-9)
    link = page.url
    for _ in range(2):
        page.click("#undo")
    assert settled(page) == first
    assert page.url == before
    page.goto("about:blank")
    page.goto(link)
    assert settled(page) == least


def test_what_the_page_cannot_do_is_said_at_once_and_changes_nothing(
    made: Callable[..., Path], page: Any
) -> None:
    page.goto(made("pl94-2010", *TABULATION).as_uri())
    first = settled(page)
    page.select_option("#goal-level", label="Tract")
    for margin in ("0.1", "0.01", "0.001", "1000000000"):
        page.fill("#goal-margin", margin)
        page.keyboard.press("Enter")
        assert "The page knows totals from 0.001 to 1000" in page.text_content("#goal-says")
    for margin in ("", "0"):
        page.fill("#goal-margin", margin)
        page.keyboard.press("Enter")
        assert "above 0" in page.text_content("#goal-margin-wrong")
        assert not page.text_content("#goal-says")
    for rho in ("abc", "-3", "0", "0,5", "", "1e9"):
        page.fill("#rho", rho)
        page.keyboard.press("Enter")
        assert "above 0, with a point" in page.text_content("#rho-wrong")
    assert settled(page) == first
    page.fill("#rho", "1000")  # the most, with noise of hardly any width
    page.keyboard.press("Enter")
    assert not page.text_content("#rho-wrong")
    assert settled(page)["epsilon"] > 1000
    page.goto(f"{page.url.split('#')[0]}#{page.url.split('#')[1].replace('1000_', '1e6_', 1)}")
    assert settled(page)["epsilon"] > 1e6


def test_controls_keep_the_other_shares_in_proportion(made: Callable[..., Path], page: Any) -> None:
    page.goto(made("pl94-2010", *TABULATION).as_uri())
    settled(page)
    number = page.get_by_label("Share of the tract, per cent", exact=True)
    number.fill("40")
    number.press("Tab")
    settled(page)
    levels = [int(x) for x in page.url.split("#")[1].split("_")[1].split(".")]
    assert levels[3] == pytest.approx(0.4 * sum(levels), rel=1e-5)
    assert levels[1] / levels[2] == pytest.approx(1440 / 447, rel=1e-4)
    gone = page.get_by_label("Share of Total within the tract, per cent", exact=True)
    gone.fill("0")
    gone.press("Tab")
    assert ["Tract", "total", ""] in [m[:3] for m in settled(page)["margins"]]


def test_shares_that_tell_some_cells_apart_at_no_level_are_said_to(
    made: Callable[..., Path], page: Any
) -> None:
    file = made("1940", units=COUNTIES)
    names = [q["name"] for q in data(file)["queries"]]
    weights = ".".join("1" if q == "hhgq" else "0" for q in names)
    page.goto(f"{file.as_uri()}#1_1.1.1.1_{'_'.join([weights] * 4)}")
    settled(page)
    assert page.is_visible("#untold")


def test_the_page_is_one_small_file_whose_controls_have_names(
    made: Callable[..., Path], page: Any
) -> None:
    file = made("pl94-2010")
    text = file.read_text("utf-8")
    assert len(text) < 1_000_000
    assert "http" not in text
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(file.as_uri())
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    unnamed = """() => [...document.querySelectorAll("input, select, textarea, button")].filter(
        (x) => !x.labels?.length && !x.ariaLabel && !x.textContent.trim()).length"""
    assert page.evaluate(unnamed) == 0


def test_a_page_says_what_it_is_made_of(
    plan: Das, made: Callable[..., Path], page: Any, tmp_path: Path
) -> None:
    """The tree of areas without ``--data`` is that of the configuration; targets have names."""
    file, targets = tmp_path / "page.html", tmp_path / "mine.toml"
    file.write_text("before")
    code, out, err = plan("pl94-2010", "--page", file, "--areas", "SLDL")
    assert (code, err) == (0, "")
    tree = "the units of pl94_2010 on the optimized spine, with areas SLDL"
    assert f"written: {file} over the one before; its tree: {tree}" in out
    targets.write_text('[[target]]\nlevel = "Tract"\nquery = "votingage"\n', "utf-8")
    page.goto(made("pl94-2010", *TABULATION, "--optimize", targets).as_uri())
    settled(page)
    assert page.text_content("#targets") == "mine (tract: Voting age)"
    assert "Typical margin of the target of mine" in page.text_content("#curve-says")
    page.click("text=Best for the targets")
    page.select_option("#goal-level", label="Tract")
    page.fill("#goal-margin", "0.1")
    page.keyboard.press("Enter")
    settled(page)
    assert f"epsilon = {page.text_content('#epsilon')}." in page.text_content("#goal-says")
    targets.write_text('[[target]]\nlevel = "Tract"\nquery = "total"\nwithin = 9\n', "utf-8")
    code, _, err = plan("pl94-2010", "--optimize", targets, "--units", NATION)
    assert code == 2
    assert "target.0.within" in err
    assert "[[target]] has query, weight, margin" in err


def test_a_tree_is_counted_in_the_input_without_its_records(made: Callable[..., Path]) -> None:
    units = data(made("pl94-2010", units=()))["units"]
    assert units[0] == 1
    assert units == sorted(units)
    assert units[-1] > 100


def test_a_run_makes_the_page_confidential_and_its_release_does_not(
    made: Callable[..., Path], page: Any, worlds: Worlds
) -> None:
    run = worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand")
    file = made("pl94-2010", *TABULATION, "--data", run, units=())
    known = data(file)
    assert known["alone"]["detailed"] > 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert "CONFIDENTIAL" in file.read_text("utf-8")
    page.goto(file.as_uri())
    found = settled(page)["risk"]
    assert found["persons"] == pytest.approx(known["alone"]["detailed"] * found["decided"])
    public = made("pl94-2010", *TABULATION, "--data", run / "release", units=())
    assert "CONFIDENTIAL" not in public.read_text("utf-8")
    assert data(public) == {k: v for k, v in known.items() if k != "alone"}
    areas = made("pl94-2010", *TABULATION, "--data", run / "release", "--areas", "Place", units=())
    assert len(data(areas)["areas"]["titles"]) == len(data(areas)["areas"]["areas"]) > 0
    assert "predicted" not in data(areas)["areas"]["says"]  # what was published is no part of it


@pytest.mark.parametrize("spine", ["tabulation", "optimized"])
def test_who_is_alone_are_those_of_das_risk(
    made: Callable[..., Path], commands: Commands, worlds: Worlds, tmp_path: Path, spine: str
) -> None:
    """Not persons of units that were never measured: only children, on the optimized spine."""
    made_once = worlds.run("run.seed=1", f"geography.spine={spine}", data="one thousand")
    run = worlds.copy(made_once, tmp_path / "run")
    file = made("pl94-2010", "--set", f"geography.spine={spine}", "--data", run, units=())
    code, out, err = commands.named("risk")(run, "--prior", "0.5", "--query", "detailed", "--json")
    assert code == 0, err
    lowest = [r for r in json.loads(out) if (r["level"], r["bin"]) == ("Block", "all")]
    assert data(file)["alone"]["detailed"] == next(r["uniques"] for r in lowest if r["levels"] == 1)
    counts = parquet.read_table(run / "confidential" / "truth" / "persons.parquet")["count"]
    everybody = int((counts.to_numpy() == 1).sum())
    assert 0 < data(file)["alone"]["detailed"] <= everybody
    assert (data(file)["alone"]["detailed"] < everybody) == (spine == "optimized")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("dhc-2020",), "a million cells"),
        (("sdhc-2020",), "over no tree"),
        (("detailed-dhc",), "no tree"),
        (("1940-pure-dp", "--units", "1,2,3,4"), "adds up in epsilon"),
        (("pl94-2010", "--units", NATION, "--universe", "housing"), "about persons"),
        (("pl94-2010", "--units", NATION, "--toml"), "goes without --page"),
        (("pl94-2010", "--units", NATION, "--areas", __file__), "goes without --units"),
        (("pl94-2010", "--areas", "wards"), "no such kind of areas"),
        (("pl94-2010", "--units", NATION, "--data", "x"), "goes without --units"),
        (("pl94-2010", "--units", "1,x"), "no list of whole numbers"),
    ],
)
def test_what_has_no_page_is_said(
    plan: Das, tmp_path: Path, args: Sequence[str], says: str
) -> None:
    code, out, err = plan(*args, "--page", tmp_path / "page.html")
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "page.html").exists()
