"""What several tables of a configuration have: exact numbers (:mod:`das.model.exact`), read as a
``Fraction`` and written as an integer or a text; a delta; one text or a list of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from das.accounting.quoted import USUAL
from das.model.exact import exact


def _plain(value: Fraction) -> str | int:
    return value.numerator if value.denominator == 1 else str(value)


ExactNumber = Annotated[Fraction, BeforeValidator(exact), PlainSerializer(_plain)]


def _is_a_delta(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError(
            f"delta is {value}, not between 0 and 1: say 1e-10, or another small number"
        )
    return value


def _one_or_many(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


DeltaNumber = Annotated[ExactNumber, AfterValidator(_is_a_delta)]
OneOrMore = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]
#: Of a configuration that names no delta.
DELTA = USUAL
