"""Exact numbers in a configuration (:mod:`das.model.exact`): read as a ``Fraction``, written as an
integer or a text.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from das.model.exact import exact


def _plain(value: Fraction) -> str | int:
    return value.numerator if value.denominator == 1 else str(value)


ExactNumber = Annotated[Fraction, BeforeValidator(exact), PlainSerializer(_plain)]
