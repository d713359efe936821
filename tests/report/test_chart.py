"""Figures drawn by hand: values stand where they belong, words have room, and the file is sound."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from math import log10

import pytest

from das.report.chart import Chart
from das.report.panel import EDGE, Axis, MarkStyle, Words, even_steps, width_of

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart, name="x"):
    return ET.fromstring(chart.svg(name, "what <it> says"))


def words(root):
    return {t.text: t for t in root.iter(f"{SVG}text")}


def test_a_value_stands_at_its_part_of_the_axes():
    chart = Chart(4, 3)
    chart.plot([1, 10, 100], [0, 5, 10], MarkStyle("#000", "-"))
    chart.x.log, chart.x.low, chart.x.high = True, 1, 100
    chart.y.low, chart.y.high = 0, 10
    panel = chart.panel()
    assert panel.x(1) == pytest.approx(panel.left)
    assert panel.x(10) == pytest.approx((panel.left + panel.right) / 2)
    assert panel.x(100) == pytest.approx(panel.right)
    assert (panel.y(0), panel.y(10)) == pytest.approx((panel.bottom, panel.top))
    path = next(p.get("d") for p in parsed(chart).iter(f"{SVG}path") if p.get("stroke") == "#000")
    drawn = [tuple(map(float, p.split())) for p in re.split("[ML]", path) if p]
    expected = [(panel.x(x), panel.y(y)) for x, y in ((1, 0), (10, 5), (100, 10))]
    assert [x for p in drawn for x in p] == pytest.approx(
        [x for p in expected for x in p], abs=0.01
    )


@pytest.mark.parametrize("value", [-250.0, -0.1, -0.04, 0.0, 0.03, 0.1, 7.0, 1000.0])
def test_an_axis_with_a_threshold_is_odd_and_joins(value):
    axis = Axis(threshold=0.1)
    assert axis.forward(-value) == pytest.approx(-axis.forward(value))
    assert axis.forward(0.1 - 1e-12) == pytest.approx(axis.forward(0.1 + 1e-12))
    assert axis.forward(10.0) - axis.forward(1.0) == pytest.approx(1.0)
    assert axis.forward(0.05) == pytest.approx(axis.forward(0.1) / 2)


@pytest.mark.parametrize("low, high", [(0, 1), (-3, 42), (-0.002, 0.0005), (990, 1010), (0, 2e6)])
@pytest.mark.parametrize("most", [2, 5, 6])
def test_even_steps_are_few_and_within(low, high, most):
    steps = even_steps(low, high, most)
    assert 1 <= len(steps) <= most + 1
    assert all(low - 1e-9 <= s <= high + 1e-9 for s in steps)
    apart = {round((b - a) / (high - low), 6) for a, b in pairwise(steps)}
    assert len(apart) <= 1
    assert all(float(s).is_integer() for s in even_steps(low, high, most, whole=True))


@pytest.mark.parametrize("reach", [(-0.5, 0.5), (-1, 20), (-3000, 2), (-1e9, 1e9), (0, 5)])
def test_an_axis_on_both_sides_of_zero_has_zero_and_a_few_powers_of_ten(reach):
    axis = Axis(threshold=0.1, low=reach[0], high=reach[1])
    shown = [v for v, _ in axis.shown()]
    assert 0.0 in shown
    assert 2 <= len(shown) <= 2 * axis.most + 3
    assert all(reach[0] <= v <= reach[1] for v in shown)
    assert all(log10(abs(v)) == pytest.approx(round(log10(abs(v)))) for v in shown if v)


def test_all_values_are_within_the_axes_with_a_margin():
    chart = Chart(4, 3)
    chart.plot([5, 7], [-2, 30], MarkStyle("#000", mark="o"))
    chart.errors([5], [3], [-9], [4], MarkStyle("#000"))
    panel = chart.panel()
    assert panel.left < panel.x(5) < panel.x(7) < panel.right
    assert panel.top < panel.y(30) < panel.y(-9) < panel.bottom


def test_words_push_the_axes_and_are_not_cut():
    chart = Chart(4, 3)
    chart.plot([0, 1], [0, 1], MarkStyle("#000", "-"))
    chart.rows(["short", "a row whose words are long"])
    chart.say(Words("beyond the end of the axis", 1.0, 0, 2))
    panel = chart.panel()
    for said in chart._words:
        start, end = said.ends(panel)
        assert start >= EDGE - 0.01
        assert end <= chart.width - EDGE + width_of("beyond", 8)  # the axis moves once
    assert panel.left > width_of("a row whose words are long", 9)
    assert panel.right < chart.width - 40


def test_every_label_has_its_key_and_no_legend_has_none():
    chart = Chart(4, 3)
    chart.plot([0, 1], [0, 1], MarkStyle("#111", "--", "s"), "one & two")
    chart.bars([(0, 1, 0, 1)], MarkStyle("#222"), "<three>")
    chart.finish("T")
    there = words(parsed(chart))
    assert {"T", "one & two", "<three>"} <= set(there)
    assert float(there["<three>"].get("y")) <= chart.height
    chart.finish("T", 0)
    assert "<three>" not in words(parsed(chart))


def test_identifiers_are_the_figures_own_and_all_are_there():
    chart = Chart(4, 3)
    chart.bars([(0, 1, 0, 1)], MarkStyle("#222"), hatched=True)
    text = chart.svg("mine", "d")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert all(i.startswith("mine-") for i in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) == {"mine-box", "mine-hatch"} <= set(ids)
    assert text == chart.svg("mine", "d")


@pytest.mark.parametrize("mark", ["o", "s", "^", "v", "D", "P", "X", "*", "x"])
def test_a_mark_is_drawn_around_its_value(mark):
    chart = Chart(4, 3)
    chart.plot([2.0], [3.0], MarkStyle("#123456", mark=mark, size=6))
    panel = chart.panel()
    path = next(p for p in parsed(chart).iter(f"{SVG}path") if p.get("stroke") == "#123456")
    first = [float(v) for v in re.findall(r"-?[\d.]+", path.get("d"))[:2]]
    assert first[0] == pytest.approx(panel.x(2), abs=5)
    assert first[1] == pytest.approx(panel.y(3), abs=5)


def test_a_chart_of_nothing_is_still_one():
    chart = Chart(4, 3)
    chart.finish("Nothing")
    assert "Nothing" in words(parsed(chart))
