"""Exact numbers: what is read, and that nothing inexact is."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.model.exact import exact


@pytest.mark.parametrize(
    "given_, value",
    [
        (3, 3),
        (0, 0),
        (-2, -2),
        (Fraction(2, 3), Fraction(2, 3)),
        ("104/4099", Fraction(104, 4099)),
        (" 1 / 4 ", Fraction(1, 4)),
        ("+1/2", Fraction(1, 2)),
        ("-1/2", Fraction(-1, 2)),
        ("0.25", Fraction(1, 4)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("2.56", Fraction(64, 25)),
        ("1e-10", Fraction(1, 10**10)),
        ("1E3", 1000),
        ("2.5e+2", 250),
        (".5e1", 5),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_what_is_read(given_: object, value: Fraction) -> None:
    read = exact(given_)
    assert read == value
    assert isinstance(read, Fraction)


@given(st.fractions())
def test_any_fraction_survives_its_text(value: Fraction) -> None:
    assert exact(str(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12))
def test_any_decimal_is_exact(value: object) -> None:
    assert exact(str(value)) == Fraction(str(value))


@pytest.mark.parametrize("bad", [0.5, 1.0, float("nan"), float("inf")])
def test_floats_are_refused_with_what_to_write(bad: float) -> None:
    with pytest.raises(
        ValueError, match=r'a float, which is not exact: write it as a string such as "1/4"'
    ):
        exact(bad)


@pytest.mark.parametrize("bad", [True, None, [1], {"a": 1}])
def test_other_things_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=type(bad).__name__):
        exact(bad)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " ",
        "half",
        "1/2/3",
        "1//2",
        "0x10",
        "nan",
        "inf",
        "1,5",
        "1e",
        "1/2.5",
        "1e99999",
        "1_000",
        "--1",
        "1 2",
    ],
)
def test_text_that_is_no_number_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        exact(bad)


def test_division_by_zero() -> None:
    with pytest.raises(ValueError, match="divides by zero"):
        exact("1/0")


@pytest.mark.parametrize("odd", ["1\t/2", "1/\n2"])
def test_odd_white_space_is_read_or_refused_in_words(odd: str) -> None:
    assert exact(odd) == Fraction(1, 2)


@pytest.mark.parametrize("bad", ["1e-301", "1e301", "-1e301", "1e-5000", "1/1" + "0" * 301])
def test_beyond_floats(bad: str) -> None:
    with pytest.raises(ValueError, match="not between 1e-300 and 1e300"):
        exact(bad)
    assert exact("1e-300") * exact("1e300") == 1
