"""The fields of a privacy statement: exact numbers as text, and read-only containers.

pydantic checks them, as it checks a configuration. One definition gives the check, the text and the
schema, so these always agree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    WrapSerializer,
)

from das.accounting.zcdp import LARGEST

_NUMBER = r"[0-9]{1,2000}(/[0-9]{1,2000})?"
_POWER = r"1e-[0-9]{1,4}"


def decimal(value: Fraction) -> str:
    """Powers of ten as people write them, other values as exact fractions.

    >>> decimal(Fraction(1, 10**10)), decimal(Fraction(1, 3))
    ('1e-10', '1/3')
    """
    zeros = len(str(value.denominator)) - 1
    return f"1e-{zeros}" if value == Fraction(1, 10**zeros) and zeros else str(value)


def _exact(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and re.fullmatch(_NUMBER, value):
        over = value.partition("/")[2]
        if not over or over.strip("0"):
            return Fraction(value)
    raise ValueError("this is no exact number such as 1/4")


def _delta(value: object) -> Fraction:
    return (
        Fraction(value) if isinstance(value, str) and re.fullmatch(_POWER, value) else _exact(value)
    )


def _positive(value: Fraction) -> Fraction:
    if value <= 0:
        raise ValueError("this is 0, and must be positive")
    return value


def _countable(value: Fraction) -> Fraction:
    if not 1 / LARGEST <= value <= LARGEST:
        raise ValueError("this is not between 1e-100 and 1e100")
    return value


def _schema(pattern: str, says: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})$", "description": says})


StatedFraction = Annotated[
    Fraction, PlainValidator(_exact), PlainSerializer(str), _schema(_NUMBER, "an exact fraction")
]
Positive = Annotated[StatedFraction, AfterValidator(_positive), AfterValidator(_countable)]
Delta = Annotated[
    Fraction,
    PlainValidator(_delta),
    AfterValidator(_positive),
    PlainSerializer(decimal),
    _schema(f"{_NUMBER}|{_POWER}", "an exact fraction, or a power of ten"),
]
Count = Annotated[int, Field(ge=0)]
Loss = Annotated[FiniteFloat, Field(ge=0)]

T = TypeVar("T")
#: Arrays, and arrays that are not empty.
Many: TypeAlias = Annotated[tuple[T, ...], Field(strict=False)]
Some: TypeAlias = Annotated[tuple[T, ...], Field(strict=False, min_length=1)]
#: Read-only objects whose keys are names.
By: TypeAlias = Annotated[
    Mapping[str, T],
    AfterValidator(MappingProxyType),
    WrapSerializer(lambda value, written: written(dict(value))),
]
BySome: TypeAlias = Annotated[By[T], Field(min_length=1)]


class Section(BaseModel):
    """Any part of a statement. It has exactly its fields, and does not change."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", populate_by_name=True, defer_build=True
    )

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """Make it from fields by their names here, not by their names in the text."""
        return cls(**fields)
