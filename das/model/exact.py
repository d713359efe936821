"""Exact numbers: fractions and decimals as strings, or integers; never floats."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_NUMBER = re.compile(
    r"\s*[+-]?(\d+\s*/\s*\d+|\d+(\.\d*)?([eE][+-]?\d{1,4})?|\.\d+([eE][+-]?\d{1,4})?)\s*"
)

#: Beyond this number, and below its inverse, floats cannot express epsilon.
LARGEST = Fraction(10**300)


def exact(value: Any) -> Fraction:
    """``"104/4099"``, ``"0.25"``, ``"1e-10"`` or an integer, as a ``Fraction``."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        kind = (
            "a float, which is not exact"
            if isinstance(value, float)
            else f"a {type(value).__name__}"
        )
        raise ValueError(
            f'{value!r} is {kind}: write it as a string such as "1/4" or "0.25", or as an integer'
        )
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError(f'{value!r} is not a number: write "1/4", "0.25", "1e-10" or an integer')
    try:
        number = Fraction("".join(value.split()) if isinstance(value, str) else value)
    except ZeroDivisionError:
        raise ValueError(f"{value!r} divides by zero") from None
    if number and not 1 / LARGEST <= abs(number) <= LARGEST:
        raise ValueError(f"{value!r} is not between 1e-300 and 1e300: no budget, share or delta is")
    return number
