"""``privacy.json`` as it is read: its structure is checked here, once, so that no reader meets a surprise.

The models name what some reader uses, and how it must look; whatever else a statement says is kept as it is. Values
stay what JSON made of them: exact numbers are texts, which :class:`~fractions.Fraction` understands.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from das.errors import ReleaseError
from das.files.run import run_directory

NAME, PAGE = "privacy.json", "privacy.html"
REMEDY = "the release is altered: get it again from where it was published"
_EXACT = re.compile(r"\d{1,2000}(/\d{1,2000})?|1e-\d{1,4}")


def _exact(value: str) -> str:
    if not _EXACT.fullmatch(value) or (("/" in value) and not value.split("/")[1].strip("0")):
        raise ValueError("this is no exact number such as 1/4")
    return value


def _positive(value: str) -> str:
    if not Fraction(_exact(value)):
        raise ValueError("this is 0, and must be positive")
    return value


Exact = Annotated[str, AfterValidator(_exact)]
Positive = Annotated[str, AfterValidator(_positive)]
Count = Annotated[int, Field(ge=0)]
Loss = Annotated[FiniteFloat, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Epsilons(_Part):
    delta: Positive
    pld: Annotated[list[Loss], Field(min_length=2, max_length=2)]
    zcdp_tight: Loss = Field(alias="zcdp-tight")
    zcdp_bun_steinke: Loss = Field(alias="zcdp-bun-steinke")


class _Gaussian(_Part):
    rho: Exact
    implied_epsilon: Loss
    epsilon: Annotated[list[_Epsilons], Field(min_length=1)]


class _Pure(_Part):
    epsilon: Exact
    delta: Literal["0"]


class _GaussianChange(_Epsilons):
    says: str
    rho: Exact


class _PureChange(_Part):
    says: str
    epsilon: Exact


class _Spending(_Part):
    levels: dict[str, Exact]
    queries: dict[str, Exact]


class _Target(_Part):
    universe: str
    epsilon: Positive
    delta: Positive
    calibration: str


class _Invariant(_Part):
    universe: str
    constraint: str
    level: str
    query: str
    sign: str
    says: str


class _Event(_Part):
    universe: str
    level: str
    query: str
    units: Count
    answers: Count


class _GaussianEvent(_Event):
    sigma_sq: Positive
    rho: Positive


class _PureEvent(_Event):
    scale: Positive
    epsilon: Positive


class _Variance(_Part):
    least: Loss
    most: Loss


class _ForeignEvent(_Event):
    of_units: Count
    variance: _Variance


class _Any(_Part):
    private: bool
    entropy: str
    outside_the_guarantee: list[_Invariant]
    digests: dict[str, str]
    notes: list[str] = []


class _Ours(_Any):
    neighbours: Literal["bounded", "unbounded"]
    neighbours_of: Annotated[dict[Literal["guarantee", "guarantee_of_neighbours_that_agree"], str], Field(min_length=1)]
    assigned: dict[str, dict[str, str]] = {}
    spending: dict[str, _Spending]
    what_this_means: list[str]
    software: dict[str, str]
    target: _Target | None = None

    @model_validator(mode="after")
    def _stated(self) -> _Ours:
        if lost := [name for name in self.neighbours_of if getattr(self, name) is None]:
            raise ValueError(f"there is no {lost[0]}")
        return self


class _OursGaussian(_Ours):
    mechanism: Literal["discrete-gaussian"]
    rho: dict[str, Exact]
    guarantee: Annotated[dict[str, _Gaussian], Field(min_length=1)]
    guarantee_of_neighbours_that_agree: Annotated[dict[str, _Gaussian], Field(min_length=1)] | None = None
    changes: dict[str, Annotated[list[_GaussianChange], Field(min_length=1)]]
    curve: list[_Epsilons]
    ledger: Annotated[list[_GaussianEvent], Field(min_length=1)]
    spent_by_interrupted_attempts: list[_GaussianEvent]


class _OursPure(_Ours):
    mechanism: Literal["geometric"]
    epsilon: dict[str, Exact]
    guarantee: Annotated[dict[str, _Pure], Field(min_length=1)]
    guarantee_of_neighbours_that_agree: Annotated[dict[str, _Pure], Field(min_length=1)] | None = None
    changes: dict[str, Annotated[list[_PureChange], Field(min_length=1)]]
    ledger: Annotated[list[_PureEvent], Field(min_length=1)]
    spent_by_interrupted_attempts: list[_PureEvent]


class _Foreign(_Any):
    """Of measurements that another publisher drew."""

    mechanism: Literal["discrete-gaussian"]
    guarantee: str
    measured: list[_ForeignEvent]
    ledger: Annotated[list[Any], Field(max_length=0)]


def read(release: Path) -> dict[str, Any]:
    """The statement of a release. Raises :class:`ReleaseError` where it is none, with the first fault's place."""
    path = release / NAME
    value = run_directory.read_json(path)
    pure = value.get("mechanism") == "geometric"
    model = _Foreign if "measured" in value else _OursPure if pure else _OursGaussian
    try:
        model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        at = "".join(f"{x}." for x in first["loc"]).removesuffix(".")
        whole = first["type"] == "missing" or isinstance(first["input"], dict | list)
        fault = first["msg"].removeprefix("Value error, ") + ("" if whole else f", not {first['input']!r}")
        raise ReleaseError(f"this is no privacy statement ({f'{at}: ' if at else ''}{fault})", where=path,
                           remedy=REMEDY) from None  # fmt: skip
    currency = "epsilon" if pure else "rho"
    if model is not _Foreign and "total" not in value[currency]:
        raise ReleaseError(f"this is no privacy statement ({currency}: there is no total)", where=path, remedy=REMEDY)
    return value


def own_digest(statement: Mapping[str, Any]) -> str:
    """SHA-256 of what a statement says, but for this digest: keys in order, and no spaces."""
    digests = {k: v for k, v in statement.get("digests", {}).items() if k != NAME}
    text = json.dumps({**statement, "digests": digests}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def as_written(release: Path, statement: Mapping[str, Any]) -> bool:
    """Whether the file has the very bytes that ``statement``, read from it, is written with: :func:`own_digest` is of
    what it says, and two texts may say the same, as 0.1 and 0.10 do."""
    return (release / NAME).read_bytes() == run_directory.json_text(statement).encode()
