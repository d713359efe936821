"""The pages of a comparison and of a sweep: what they must say, whatever there is to show."""

from fractions import Fraction

import pytest

from das.evaluate.comparison import compared, summary
from das.model.budget import Allocation
from das.model.error_rows import ErrorRow, SweepRow
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS
from das.model.not_private import COLUMN
from das.report.panel import Axis
from das.tools.comparison.page import compare_page
from das.tools.sweep.runs import SweptAxis, sweep_page

ONE = Fraction(1)
SHARES = Allocation(
    {"County": ONE / 2, "Block": ONE / 2}, {"County": {"total": ONE}, "Block": {"total": ONE}}
)


def errors(scale=1.0):
    for level in ("County", "Block"):
        for bin_ in ("all", "0", "10-99"):
            known = level == "County" and bin_ == "all"  # published exactly
            yield ErrorRow(
                level,
                "total",
                "postprocessed",
                bin_,
                9,
                0.0 if known else 12.5 * scale,
                2.0,
                0.5,
                1,
                2,
                3,
                None,
                bias_low=-0.25,
                bias_high=1.25,
            )
            if level == "Block":
                yield ErrorRow(
                    level,
                    "total",
                    "nmf",
                    bin_,
                    9,
                    50.0 * scale,
                    60.0,
                    0.0,
                    1,
                    2,
                    3,
                    None,
                    expected_mae=49.0 * scale,
                )


def test_a_comparison():
    page = compare_page(
        compared(errors()), "<run>", True, {"total": "Everybody counted, wherever they live"}
    )
    assert "&lt;run&gt;" in page
    assert "<run>" not in page
    assert "Confidential" in page
    assert ">Everybody counted,</text>" in page  # in the figure in lines, and in the table
    assert "Everybody counted, wherever they live</td>" in page.replace(" </td>", "</td>")
    assert page.count("<svg") == 2  # the county was not measured: nothing to compare with
    for number in (
        "50.0",
        "49.0",
        "12.5",
        "0.250",
        "−0.250 to 1.25",
    ):  # noisy, theory, published, ratio, interval
        assert number in page, number


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_sweep(mechanism, repeats):
    currency = mechanism.currency
    axis = SweptAxis(currency, ONE, currency, {"persons": ONE})
    rows = [
        SweepRow(Fraction(b), m, i, e)
        for b in (1, 4)
        for m in ("topdown", "full-information")
        for i in range(repeats)
        for e in errors(1 / b + i / 10)
    ]
    said = {
        "what_this_means": "costs add up",
        "private": False,
        "runs": [{}] * 4,
        currency: {"total": "10"},
    }
    if mechanism is DISCRETE_GAUSSIAN:
        said["epsilon"] = {"delta": "1/10000000000", "zcdp-tight": 39.171}
    page, picture = sweep_page({"persons": summary(rows)}, "s", axis, said)
    assert page.count("<svg") == 1  # nothing is off in counties: there is nothing to draw
    assert "these levels: county." in page
    for words in ("Confidential", "costs add up", f"{currency} = 10", COLUMN, "full-information"):
        assert words in page, words
    assert ("39.18" in page) == ("epsilon at delta" in page) == (mechanism is DISCRETE_GAUSSIAN)
    assert ("averaged over" in page) == (repeats > 1)
    again, drawn = sweep_page({"persons": summary(rows)}, "s", axis, said)
    assert (again, drawn.svg()) == (page, picture.svg())
    for words in (picture.says, "Confidential", COLUMN):
        assert words.split()[0] in picture.svg()
    assert picture.says in page


@pytest.mark.parametrize(
    ("low", "high"), [(2, 6), (0.59, 1), (1, 1.3), (0.5, 12), (3, 90), (0.001, 1000)]
)
def test_a_logarithmic_axis_has_numbers_to_read(low, high):
    """Also where there is no power of ten between its ends, or one: no number is rounded to
    another.
    """
    axis = Axis(log=True)
    axis.take([low, high])
    left, right = (10.0**end for end in axis.reach())
    shown = axis.shown()
    assert 2 <= len(shown) <= 10
    assert all(left <= x <= right for x, _ in shown)
    assert [float(words.replace(",", "")) for _, words in shown] == pytest.approx(
        [x for x, _ in shown]
    )
    assert len({words for _, words in shown}) == len(shown)
