"""The page of areas: deviations of a plan and the voting-age population, as the counts have
them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from das.cli import main
from das.model.areas import Areas
from das.release.area_counts import AreaCounts, counts, statistics, unasked
from das.release.opened import OpenedRelease, open_release
from das.release.own_replicates import OwnReplicates
from das.report.template import render
from das.tools.areas import page as area_page
from das.tools.areas.page import WIDE, AreaCell, AreaSection, PlanSummary
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def opened(worlds: Worlds) -> OpenedRelease:
    return open_release(worlds.run("run.seed=1", data="three thousand") / "release")


def of(opened: OpenedRelease, units: np.ndarray, area: np.ndarray) -> AreaCounts:  # type: ignore[type-arg]
    codes = np.array([f"d{i}" for i in range(int(area.max()) + 1)])
    source = OwnReplicates.from_release(opened)
    areas = Areas("ward", codes, area, units)
    return counts(source, areas, statistics(source, unasked(source)))


def words(page: str) -> str:
    return re.sub(
        r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.S))
    )


def test_a_plan_has_its_ideal_and_its_deviations(opened: OpenedRelease) -> None:
    n = opened.spine.units("Block")
    found = of(opened, np.arange(n), np.arange(n) % 4)
    text = words(area_page.page(OwnReplicates.from_release(opened), found))
    total = found.columns[0].value
    ideal = total.mean()
    assert "NOT PRIVATE" in text
    assert "Intervals of published counts have not been made for this release" in text
    assert f"Ideal population {ideal:,.1f} (the population of all districts is exact)" in text
    assert (
        f"{total.max() - total.min():,} persons, {100 * (total.max() - total.min()) / ideal:.2f} %"
        in text
    )
    first = f"d0 {total[0]:,} {total[0] - ideal:+,.0f} {100 * (total[0] / ideal - 1):+.2f}".replace(
        "-", "−"
    )
    assert first in text
    assert "Hispanic or Latino" in text
    adults, hispanic = (
        next(c for c in found.columns if c.statistic.field == f) for f in ("P0040001", "P0040002")
    )
    assert f"{hispanic.value[0]:,} ({100 * hispanic.value[0] / adults.value[0]:.1f} %)" in text
    assert (
        f"{round(hispanic.estimate[0]):,}: {hispanic.low[0]:,} to {hispanic.high[0]:,}"
        in text.replace("−", "-")
    )
    assert "intervals are wide" in text
    assert "Housing units" in text


def test_areas_that_overlap_or_leave_somebody_out_are_no_plan(opened: OpenedRelease) -> None:
    n = opened.spine.units("Block")
    twice = of(opened, np.append(np.arange(n), 0), np.append(np.arange(n) % 4, 1))
    assert "Ideal population" not in area_page.page(OwnReplicates.from_release(opened), twice)
    half = of(opened, np.arange(n // 2), np.arange(n // 2) % 4)
    assert "Ideal population" not in area_page.page(OwnReplicates.from_release(opened), half)


def test_what_is_wide_outside_exact_or_not_told() -> None:
    cells = (
        AreaCell(100, 104, 101, 107),
        AreaCell(10, 12, 7, 17),
        AreaCell(7, 7, 7, 7),
        AreaCell(7),
    )
    assert [(c.outside, c.wide) for c in cells] == [
        (True, False),
        (False, True),
        (False, False),
        (False, False),
    ]
    section = AreaSection("Persons", ("a", "b", "c", "d"), (("<b>x</b>", cells),))
    plan = PlanSummary((("x", AreaCell(0)), ("y", AreaCell(0))), False)
    given = {"name": "r", "kind": "ward", "areas": 1, "coverage": 90.0, "wide": 100 * WIDE}
    page = render(
        "areas.html",
        sections=[section],
        plan=plan,
        computed=(),
        private=True,
        replicates=0,
        **given,
    )
    assert "<b>x</b>" not in page  # names are text
    text = words(page)
    assert "1 of 3 intervals are wide" in text
    assert all(
        t in text for t in ("104: 101 to 107 &#x2691;", "12: 7 to 17 wide", "exact", "no estimate")
    )
    assert "NOT PRIVATE" not in text


def test_districts_are_in_natural_order_and_what_is_outside_says_why(opened: OpenedRelease) -> None:
    """District 2 comes before 10, with its own numbers; the picture has a bar for each."""
    n = opened.spine.units("Block")
    found, source = of(opened, np.arange(n), np.arange(n) % 12), OwnReplicates.from_release(opened)
    page = area_page.page(source, found)
    heads = re.findall(r'<th scope="row">(d[0-9]+)</th><td class="strong">([0-9,]+)<', page)
    value = found.columns[0].value
    assert heads == [(f"d{i}", f"{value[i]:,}") for i in range(12)]
    drawn = area_page.picture(source, found)
    assert drawn is not None
    assert drawn.says in words(page)
    assert f"{value.max() - value.min():,} persons" in drawn.says
    assert "NOT PRIVATE" in drawn.svg()
    wide = AreaCell(120, 100, 90, 110)
    assert wide.beyond.startswith("10 above")
    assert replace(wide, published=85).beyond.startswith("5 below")
    assert not replace(wide, published=110).beyond
    assert replace(wide, lower=100, upper=130).quoted == (100, 130)
    assert not replace(wide, lower=100, upper=130).beyond
    assert replace(wide, lower=125, upper=130).beyond


def test_a_picture_of_areas_that_are_no_plan_is_refused(worlds: Worlds, tmp_path: Path) -> None:
    run = worlds.run("run.seed=1", data="three thousand")
    for name, said in (("p.svg", "with --blocks FILE --plan"), ("p.png", "end it in .svg")):
        asked = ["area", str(run), "--kind", "Place", "--picture", str(tmp_path / name)]
        done = CliRunner().invoke(main, asked)
        assert done.exit_code == 2
        assert said in done.output
        assert not (tmp_path / name).exists()


def test_the_command_writes_the_page(worlds: Worlds, tmp_path: Path) -> None:
    run, out = worlds.run("run.seed=1", data="three thousand"), tmp_path / "page.html"
    done = CliRunner().invoke(main, ["area", str(run), "--kind", "Place", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "areas of pl94-2010" in words(out.read_text())
    asked = CliRunner().invoke(
        main, ["area", str(run), "--kind", "Place", "--statistics", "P5", "--out", str(out)]
    )
    assert asked.exit_code == 0, asked.output
    assert "Persons, P005" in words(out.read_text())
