"""The confidential page of the DHC: every number that it must show, whatever there is
to show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from das.model.error_rows import ErrorRow, FigureRow, ImpossibleRow
from das.publications.dhc.files import official
from das.publications.dhc.model.figures import FIGURES, GROUPS, MEDIANS, of_group
from das.publications.dhc.page import against_official, dhc_errors_html, summaries
from das.report.facts import Facts

FACTS: Facts = {"name": "<run>", "schema": "dhcp", "private": True, "own_spine": False}


def rows(
    times: float = 1.0, levels: tuple[str, ...] = ("State", "County", "Tract", "Block")
) -> Iterator[FigureRow]:
    """Errors as many times as large as the Bureau's, where it has any."""
    for f in FIGURES:
        for level in levels:
            known = official.ERRORS.get((f.name, level))
            for j, (label, _) in enumerate(f.tabulation.columns):
                row = FigureRow(level, f.name, label, 7, 0.125, 0.5, -0.25, 3.5)
                if known:
                    mae, rmse = known[j]
                    row = FigureRow(
                        level,
                        f.name,
                        label,
                        7,
                        times * mae,
                        times * rmse,
                        1.75,
                        3.5,
                        official.UNITS[level],
                        mae,
                        rmse,
                    )
                yield row


def test_it_says_what_it_must() -> None:
    odd = [
        ImpossibleRow("children only (18)", "Block", 40, 0, 50, 3),
        ImpossibleRow("made up", "Tract", 1, 0, 0, 0),
        ImpossibleRow(of_group(MEDIANS, GROUPS[1]), "County", 5, 0, 5, 1),
    ]
    errors = [
        ErrorRow("State", q, "postprocessed", b, 6, 4.5, 5.0, 0.0, 1, 9, 11, None, expected_mae=e)
        for q, e in (("total", None), ("hispanic * sex", 1.5))
        for b in ("all", "0")
    ]
    page = dhc_errors_html(list(rows(3.0)), FACTS, odd, {"persons": errors})
    assert page == dhc_errors_html(list(rows(3.0)), FACTS, odd, {"persons": errors})
    assert "&lt;run&gt;" in page
    assert "<run>" not in page
    assert '<p class="confidential"><b>Confidential.' in page
    assert page.count("<svg") == 1
    for f in FIGURES:
        assert f.tabulation.title in page
    mortgage = page.partition("Owned with a mortgage or a loan</th>")[2].partition("</tr>")[0]
    assert mortgage.count("<td") == 3 * 4 + 2  # of the blocks there is no official number
    for number in ("25.8", "8.59", "3.00", "1.75", "0.125", "−0.250"):
        assert f">{number}</td>" in mortgage, number
    children = page.partition("children only (18)</th>")[2].partition("</tr>")[0]
    assert ">6.00%</td>" in children
    assert ">2.68%</td>" in children  # as the workbook has it
    medians = page.partition(f"(20): {GROUPS[1]}</th>")[2].partition("</tr>")[0]
    assert ">20.0%</td>" in medians
    assert ">5.62%</td>" in medians
    assert ">–</td>" in page.partition("made up</th>")[2].partition("</tr>")[0]
    assert page.count("<code>hispanic * sex</code>") == 1
    assert "What was measured of persons" in page


def test_in_short() -> None:
    found = {s.level: s for s in summaries(list(rows(1.5)))}
    assert list(found) == ["State", "County", "Tract"]
    assert all(s.ratio == pytest.approx(1.5) and s.beyond == 0 and s.n == 7 for s in found.values())
    lines = sum(
        mae > 0
        for (_, level), each in official.ERRORS.items()
        if level == "Tract"
        for mae, _ in each
    )
    assert (found["Tract"].lines, found["Tract"].official_n) == (lines, 73057)
    assert {s.beyond == s.lines for s in summaries(list(rows(2.5)))} == {True}


def marks(drawn: str) -> int:
    """Outlines that are closed."""
    return sum(path.count("z") for path in re.findall(r' d="([^"]*)"', drawn))


def test_a_mark_for_each_line_with_an_error() -> None:
    every = [r for r in rows() if r.official_mae]
    drawn = against_official(every)
    assert marks(drawn) > len(every)  # and those of the legend
    fewer = against_official([r for r in every if r.level != "Tract"])
    assert marks(drawn) - marks(fewer) >= sum(r.level == "Tract" for r in every)


@pytest.mark.parametrize("few", [[], list(rows(0.0)), list(rows(levels=("Block",)))])
def test_with_nothing_to_draw(few: list[FigureRow]) -> None:
    page = dhc_errors_html(few, FACTS)
    assert "<svg" not in page
    assert "Results that cannot be" not in page
    assert "What was measured" not in page


def test_a_seeded_run_says_so() -> None:
    assert "not-private" not in dhc_errors_html([], FACTS).partition("<body>")[2]
    assert '<p class="not-private"' in dhc_errors_html([], {**FACTS, "private": False})
