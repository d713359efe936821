"""The page: says what must be said, escapes what it is given, stands alone, and is the same for the
same run.
"""

import re

import numpy as np
import pytest

from das.accounting.guarantee import QuotedLoss
from das.model.error_rows import ErrorRow
from das.model.not_private import WARNING, WITHOUT
from das.model.solution import Certificate
from das.publications.counts.report import html
from das.report import facts as figures
from das.report.answers import distinct_rows
from das.report.template import clock, figure, upward
from tests.report.parsed import Page

LEVELS = {
    "US": 1,
    "State": 51,
    "County": 3143,
    "Tract": 73057,
    "Block_Group": 217740,
    "Block": 6398202,
}
QUERIES = ("total", "hispanic * cenrace", "votingage", "detailed")


def row(level, query, source, bin_, n=10, mae=2.5, bias=0.5, tvd=None):
    return ErrorRow(level, query, source, bin_, n, mae, mae * 1.3, bias, 2.0, 7.0, 31.0, tvd)


def rows():
    out = []
    for i, (level, n) in enumerate(LEVELS.items()):
        for query in QUERIES:
            if (level, query) != ("US", "total"):  # known exactly, so not measured
                out.append(row(level, query, "nmf", "all", n, 10.0 + i))
            out.append(
                row(level, query, "postprocessed", "all", n, 0.0 if i < 2 else 1.0 + i, tvd=0.9375)
            )
            for bin_, bias in (("0", 0.3), ("1-9", -0.2), ("10-99", -4.0)):
                out.append(row(level, query, "postprocessed", bin_, n, 1.0, bias))
                out.append(row(level, query, "nmf", bin_, n, 1.0, 0.0))
    return out


def facts(**changes):
    return {
        "name": "pl94-2010",
        "schema": "pl94",
        "own_spine": False,
        "private": True,
        "neighbours": "bounded",
        "mechanism": "discrete-gaussian",
        "rho": "293764/114921",
        "quoted": QuotedLoss(17.1401, "1e-10", "one record replaced by any other", "why not"),
        "invariants": ["total population of each State"],
        "stages": [
            {"name": "read", "seconds": 2.0, "peak_mb": 310.0},
            {"name": "estimate", "seconds": 80.0, "peak_mb": 1210.0},
        ],
        "certificates": {"Block_Group": Certificate(244, 3, 1, 3.2e-7, 2e-6, 81500)},
        "version": "0.1.0",
        "digest": "a" * 64,
        **changes,
    }


@pytest.fixture(scope="module")
def page():
    return html(rows(), facts())


def test_it_is_confidential_and_says_why(page):
    text = Page(page).text
    assert "Confidential." in text
    assert "errors depend on the true data" in text
    assert "do not publish" in text


def test_the_guarantee_in_words(page):
    text = Page(page).text
    assert "Budget ρ = 293764/114921 " in text
    assert "ε = 17.15 at δ = 1e-10 for one record replaced by any other." in text  # rounded up
    assert "No later use of these files can raise it. It covers the noise only" in text
    assert "Published exactly total population of each State " in text
    assert WITHOUT not in text
    other = Page(html([], facts(invariants=[]))).text
    assert "Published exactly nothing " in other
    assert "It covers the noise only" not in other


def test_pure_differential_privacy():
    pure = QuotedLoss(0.25, "0", "one record replaced by any other", "why not")
    given = facts(mechanism="geometric", pure_epsilon="1/4", quoted=pure)
    del given["rho"]
    text = Page(html([], given)).text
    assert "ε = 0.25 for one record replaced by any other." in text
    assert "Budget ε = 1/4 " in text
    assert "δ" not in text


def test_a_seeded_run_is_loudly_not_private(page):
    assert 'class="not-private"' not in page
    seeded = html([], facts(private=False))
    assert seeded.index('class="not-private" role="alert"') < seeded.index("<h1>")
    text = Page(seeded).text
    assert WARNING in text
    assert f"ε = 17.15 at δ = 1e-10 for one record replaced by any other ({WITHOUT})." in text
    assert "Without the seed, ε bounds" in text


def test_numbers_stand_in_the_tables(page):
    text = Page(page).text
    assert re.search(r"US 1 not measured 0 2 7 31 0\.500 0\.938", text)
    assert re.search(r"Block 6,398,202 15\.0 6\.00 2 7 31 0\.500 0\.938", text)
    assert re.search(r"Block group 244 3\.2e-07 2\.0e-06 3 1 81,500", text)
    assert re.search(r"estimate 1 min 20 s 1,210 MB", text)
    assert f"{len(rows())} rows" in text


def test_what_is_long_is_wrapped_or_left_out_and_never_cut_by_the_edge():
    """Every word next to an axis ends at the axis, and starts within the figure; labels of axes end
    with them.
    """
    queries = (
        "total",
        "hispanic * cenrace * a_code_that_is_longer_than_any_line_may_be",
        "detailed",
    )
    named = {
        queries[
            1
        ]: "Origin by Race by Something with a name that goes on and on and on, and further still"
    }
    drawn = figures.queries_by_level(
        [row("Ward", q, s, "all") for q in queries for s in ("nmf", "postprocessed")], named
    )
    ends = re.findall(
        r'<text style="font-size: 9px; text-anchor: end[^>]* x="([\d.]+)"[^>]*>([^<]*)</text>',
        drawn[0],
    )
    assert [text for _, text in ends] == [
        "mean absolute error, persons (log scale)",
        "Origin by Race by",
        "Something with a name …",
        "detailed",
    ]
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', drawn[0])[1])
    for x, text in ends:
        assert float(x) - 5 * len(text) >= 0  # Helvetica is narrower than that on the average
        assert float(x) <= width


def test_figures_are_inline_described_and_unambiguous(page):
    parsed = Page(page)
    assert page.count("<svg ") == 1 + len(LEVELS) + 3 + 3
    assert page.count('role="img" aria-label="') == page.count("<svg ")
    assert len(set(parsed.ids)) == len(parsed.ids)
    targets = {r.removeprefix("url(").removesuffix(")") for r in parsed.references}
    assert targets
    assert targets <= {f"#{i}" for i in parsed.ids}
    assert "no error" in parsed.text  # no logarithm of an error of zero
    for name in ("noisy measurements", "published", "hispanic * cenrace", "Block group"):
        assert name in parsed.text


def test_it_stands_alone(page):
    for address in re.findall(r"""(?:src|href|url\()\s*=?\s*["'(]?([^"')>\s]+)""", page):
        assert address.startswith("#")
    assert "<script" not in page
    assert "@import" not in page


def test_the_same_run_gives_the_same_page(page):
    assert html(rows(), facts()) == page


def test_what_it_is_given_is_escaped():
    hostile = "<script>alert(1)</script>"
    changed = [
        row(f"A&B {hostile}", f"a<b {hostile}", s, b)
        for s in ("nmf", "postprocessed")
        for b in ("all", "0")
    ]
    page = html(changed, facts(name=hostile, invariants=[hostile], data=hostile))
    assert "<script" not in page
    Page(page)


def test_little_is_enough():
    least = {
        "name": "bare",
        "schema": "toy",
        "private": True,
        "own_spine": False,
        "neighbours": "bounded",
    }
    assert "No errors were measured" in Page(html([], least)).text
    one = [
        row("State", "total", "postprocessed", "all", mae=0.0),
        row("State", "total", "postprocessed", "0", bias=0.0),
    ]
    assert Page(html(one, least)).text.count("not measured") == 1


def test_housing_units_have_their_own_table(page):
    assert "Housing units" not in Page(page).text
    units = [row("Block", "h1", s, "all", 99, m) for s, m in (("nmf", 4.0), ("postprocessed", 3.0))]
    assert (
        "Block h1 99 4.00 3.00 7 31 0.500"
        in Page(html(rows()[:4], facts(), {"housing": units})).text
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (None, "–"),
        (1234.5, "1,234"),
        (-0.04567, "−0.0457"),
        (999.6, "1,000"),
        (3e-12, "3.0e-12"),
        (2.5, "2.50"),
    ],
)
def test_figures_of_numbers(value, shown):
    assert figure(value) == shown


def test_epsilon_is_never_rounded_down():
    assert upward(17.1401) == "17.15"
    assert upward(2.0) == "2.00"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (59.99, "1 min 00 s"),
        (3599.9, "1 h 00 min"),
        (7322, "2 h 02 min"),
    ],
)
def test_clock(seconds, shown):
    assert clock(seconds) == shown


def test_errors_of_units_that_are_not_published_say_so(page):
    """On an optimized spine the tables of errors are of the units that were measured."""
    apart = html(rows(), facts(own_spine=True))
    for says in (
        "per unit of each level of the measured tree",
        "Persons were measured over an optimized spine",
    ):
        assert says in apart
        assert says not in page


def test_rows_with_one_sum_are_told_apart(monkeypatch):
    """Whatever the weights are, as ``np.unique`` has them."""
    rows = np.array([[1, 2], [2, 1], [0, 3], [2, 1], [-1, 0]])
    expected, which = np.unique(rows, axis=0, return_inverse=True)
    drawn = np.random.default_rng(0)

    class Alike:
        def integers(self, high, size):
            return np.zeros(size, dtype=np.int64)

    for generator in (drawn, Alike()):
        monkeypatch.setattr(np.random, "default_rng", lambda seed, g=generator: g)
        found, at = distinct_rows(rows)
        assert np.array_equal(found, expected)
        assert np.array_equal(at, which.ravel())
