"""The privacy statement as a document: typed, frozen, in a format with a version.

``docs/reference/privacy-statement.md`` says what each field means. A value here says what ``privacy.json``
says, and only :mod:`das.accounting.codec` writes and reads that text. The text uses the names of
the mechanism: ``cost`` here is ``rho`` or ``epsilon`` there. A change of any name, type or meaning
needs another :data:`FORMAT`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    WithJsonSchema,
    WrapSerializer,
    model_validator,
)

from das.accounting.zcdp import LARGEST
from das.model.budget import ALL, UnitPath
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism

# The fields of a privacy statement: exact numbers as text, and read-only containers.
#
# pydantic checks them, as it checks a configuration. One definition gives the check, the text and the
# schema, so these always agree.

_NUMBER = r"[0-9]{1,2000}(/[0-9]{1,2000})?"
_POWER = r"1e-[0-9]{1,4}"


def decimal(value: Fraction) -> str:
    """Powers of ten as people write them, other values as exact fractions.

    >>> decimal(Fraction(1, 10**10)), decimal(Fraction(1, 3))
    ('1e-10', '1/3')"""
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


#: The ``format`` of a statement of this version.
FORMAT = "das-privacy-statement/4"
#: The files of a release that state its privacy: for programs, and for people.
NAME, PAGE = "privacy.json", "privacy.html"
#: The signature of :data:`NAME`, if there is one. It signs the file with all digests, so it has no
#: digest itself.
SIGNATURE = f"{NAME}.sig"
#: The list of a release's intervals, with the digests of their files, if it has any. Intervals are
#: made after the release.
INTERVALS_LIST = "intervals/manifest.json"
ALTERED = "the release is altered: get it again from where it was published"


class Epsilons(Section):
    """Epsilon at ``delta``: an interval that contains the exact value (``pld``), and two
    conversions of rho alone. ``between`` names, by universe, the paths of the pair of places
    between which epsilon is largest."""

    delta: Delta
    pld: Annotated[tuple[Loss, Loss], Field(strict=False)]
    tight: Loss = Field(alias="zcdp-tight")
    simple: Loss = Field(alias="zcdp-bun-steinke")
    between: By[Some[str]] | None = None


class Promise(Section):
    """The exact cost of one universe, or of all together."""

    cost: StatedFraction

    def upper(self, delta: Fraction) -> float | None:
        """The upper end of epsilon at ``delta``, where it is stated."""
        raise NotImplementedError


class Zcdp(Promise):
    """The implied epsilon is sqrt(2 rho); ``epsilon`` at several deltas, the largest first."""

    cost: StatedFraction = Field(alias="rho")
    implied_epsilon: Loss
    epsilon: Some[Epsilons]

    def upper(self, delta: Fraction) -> float | None:
        return next((e.pld[1] for e in self.epsilon if e.delta == delta), None)


class Pure(Promise):
    cost: StatedFraction = Field(alias="epsilon")
    delta: Literal["0"]

    def upper(self, delta: Fraction) -> float:
        del delta  # it holds at every one
        return float(self.cost)


class Spending(Section):
    """Where the budget of a universe goes: exact sums by level and by query."""

    levels: By[StatedFraction]
    queries: By[StatedFraction]


class StatedChange(Section):
    """The cost of a change of one record that alters only ``what``."""

    kind: Literal["record", "attributes", "place"]
    what: str
    says: str
    cost: StatedFraction


class ZcdpChange(StatedChange):
    cost: StatedFraction = Field(alias="rho")
    delta: Delta
    pld: Annotated[tuple[Loss, Loss], Field(strict=False)]
    tight: Loss = Field(alias="zcdp-tight")
    simple: Loss = Field(alias="zcdp-bun-steinke")
    between: By[Some[str]] | None = None

    @property
    def upper(self) -> float:
        return self.pld[1]


class PureChange(StatedChange):
    cost: StatedFraction = Field(alias="epsilon")
    delta: ClassVar[Fraction] = Fraction(0)

    @property
    def upper(self) -> float:
        return float(self.cost)


class StatedTarget(Section):
    """The target from which the budget was computed."""

    universe: str
    epsilon: Positive
    delta: Delta
    calibration: str


class Invariant(Section):
    """Counts that are published exactly."""

    universe: str
    constraint: str
    level: str
    query: str
    sign: Literal["=", ">=", "<="]
    says: str


class StatedPath(Section):
    """A path from the root of the tree to a lowest unit: at each level, the class of the unit that
    it goes through. ``places`` is the number of lowest units with this path, and ``share`` their
    part of all lowest units. Both are left out before there is a tree."""

    name: str
    classes: By[str]
    places: Count | None = None
    share: StatedFraction | None = None


class Line(Section):
    """A line of the ledger: noise with one parameter on each of ``answers`` answers of each of
    ``units`` units. These are the level's units of one class, or all its units. ``stability``: the
    number of these units that can contain one record, if more than one."""

    universe: str
    level: str
    query: str
    units: Count
    answers: Count
    unit_class: str | None = Field(default=None, alias="class")
    stability: Count | None = None
    parameter: Positive
    cost: Positive

    @property
    def place(self) -> tuple[str, str]:
        """Level and class of the units that were measured."""
        return self.level, self.unit_class or ALL


class GaussianLine(Line):
    parameter: Positive = Field(alias="sigma_sq")
    cost: Positive = Field(alias="rho")


class GeometricLine(Line):
    parameter: Positive = Field(alias="scale")
    cost: Positive = Field(alias="epsilon")


class Variance(Section):
    usual: Loss
    least: Loss
    most: Loss


class ForeignLine(Section):
    """Measurements by another publisher, who measured ``units`` of ``of_units`` units."""

    universe: str
    level: str
    query: str
    units: Count
    of_units: Count
    answers: Count
    variance: Variance


class NeighboursOf(Section):
    """Who the neighbors of each guarantee are, in words."""

    any: str = Field(alias="guarantee")
    invariant_neighbours: str | None = Field(
        default=None, alias="guarantee_of_neighbours_that_agree"
    )


# --- what they make up


class Promises(Section):
    """The guarantee between any neighbors and, if there are such, between neighbors that agree on
    the exact counts."""

    neighbours_of: NeighboursOf
    guarantee: By[SerializeAsAny[Promise]]
    invariant_neighbours: By[SerializeAsAny[Promise]] | None = Field(
        default=None, alias="guarantee_of_neighbours_that_agree"
    )

    @property
    def each(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Who the neighbors are, in words, and the guarantee between them by universe, all together
        last: a :class:`Zcdp` or a :class:`Pure`."""
        out: list[tuple[str, Mapping[str, Any]]] = [(self.neighbours_of.any, self.guarantee)]
        if (
            self.invariant_neighbours is not None
            and self.neighbours_of.invariant_neighbours is not None
        ):
            out.append((self.neighbours_of.invariant_neighbours, self.invariant_neighbours))
        return out

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.invariant_neighbours is None) is not (
            self.neighbours_of.invariant_neighbours is None
        ):
            raise ValueError("a guarantee and its neighbors are stated together")
        return self


class Account(Promises):
    """The cost of draws, before or after they are made: the exact totals of each universe and of
    all together, where the totals go, and what single changes cost."""

    mechanism: str
    neighbours: Literal["bounded", "unbounded"]
    totals: By[StatedFraction]
    spending: By[Spending]
    changes: By[Many[Any]]
    target: StatedTarget | None = None
    paths: By[Some[StatedPath]] | None = None

    def paths_of(self, universe: str, lines: Iterable[Line]) -> tuple[UnitPath, ...]:
        """The paths in a universe: those that are stated or, if there are none, one path with all
        the ``lines``."""
        if self.paths is not None and universe in self.paths:
            return tuple(tuple(path.classes.items()) for path in self.paths[universe])
        return (tuple(dict.fromkeys(line.place for line in lines)),)

    @property
    def total(self) -> Fraction:
        return self.totals["total"]

    @model_validator(mode="after")
    def _summed(self) -> Self:
        if "total" not in self.totals:
            raise ValueError("there is no total")
        return self


class GaussianAccount(Account):
    guarantee: BySome[Zcdp]
    invariant_neighbours: BySome[Zcdp] | None = Field(
        default=None, alias="guarantee_of_neighbours_that_agree"
    )
    mechanism: Literal["discrete-gaussian"]
    totals: By[StatedFraction] = Field(alias="rho")
    changes: By[Some[ZcdpChange]]


class GeometricAccount(Account):
    guarantee: BySome[Pure]
    invariant_neighbours: BySome[Pure] | None = Field(
        default=None, alias="guarantee_of_neighbours_that_agree"
    )
    mechanism: Literal["geometric"]
    totals: By[StatedFraction] = Field(alias="epsilon")
    changes: By[Some[PureChange]]


class Stated(Section):
    """What every statement has: the source of the noise, and whether it is private (if not, there
    is a ``warning``); what is exact; SHA-256 of the files of the release; and the software that
    wrote its page."""

    format: Literal["das-privacy-statement/4"]
    private: bool | Literal["unknown"]
    warning: str | None = None
    entropy: str
    mechanism: str
    outside: Many[Invariant] = Field(alias="outside_the_guarantee")
    digests: By[str]
    software: By[str]

    def sealed(self, digests: Mapping[str, str], software: Mapping[str, str]) -> Self:
        """The same statement, with digests and with the software that wrote its page."""
        return self.make(**{**dict(self), "digests": digests, "software": software})


class Statement(Stated, Account):
    """The statement of a release whose noise das drew: its ledger, and the draws that interrupted
    attempts lost."""

    private: bool
    assigned: By[By[str]]
    says: Many[str] = Field(alias="what_this_means")
    ledger: Many[Any]
    lost: Many[Any] = Field(alias="spent_by_interrupted_attempts")

    def assigned_of(self, universe: str) -> Mapping[str, str]:
        """Attributes of a universe whose values a rule assigned, each with a sentence."""
        return self.assigned.get(universe, {})

    @property
    def every(self) -> tuple[Line, ...]:
        """All draws, kept and lost."""
        return (*self.ledger, *self.lost)


class GaussianStatement(GaussianAccount, Statement):
    """A statement with discrete Gaussian noise: costs are rho."""

    mechanism: Literal["discrete-gaussian"]
    curve: Many[Epsilons]
    ledger: Some[GaussianLine]
    lost: Many[GaussianLine] = Field(alias="spent_by_interrupted_attempts")


class GeometricStatement(GeometricAccount, Statement):
    """A statement with two-sided geometric noise: costs are epsilon, and delta is 0."""

    mechanism: Literal["geometric"]
    ledger: Some[GeometricLine]
    lost: Many[GeometricLine] = Field(alias="spent_by_interrupted_attempts")


class ForeignStatement(Stated):
    """The statement of a release made from measurements that another publisher drew, or that came
    without their release. It has no ledger and no account. It never calls them private: files that
    say they were seeded are not private, and for others it is unknown. ``says`` lists what could
    not be taken over from their files unchanged."""

    private: Literal[False, "unknown"]
    mechanism: Literal["discrete-gaussian"]
    guarantee: str
    measured: Many[ForeignLine]
    ledger: Annotated[Many[Any], Field(max_length=0)]
    says: Many[str] = Field(alias="notes")

    def assigned_of(self, universe: str) -> Mapping[str, str]:
        del universe
        return {}


#: The account of noise that das drew.
OwnAccount: TypeAlias = GaussianAccount | GeometricAccount
OwnStatement: TypeAlias = GaussianStatement | GeometricStatement


@dataclass(frozen=True)
class Forms:
    """The forms of a statement for one mechanism. Their field names are the mechanism's symbol and
    currency."""

    account: type[OwnAccount]
    statement: type[OwnStatement]
    line: type[Line]


FORMS: Mapping[Mechanism, Forms] = {
    DISCRETE_GAUSSIAN: Forms(GaussianAccount, GaussianStatement, GaussianLine),
    GEOMETRIC: Forms(GeometricAccount, GeometricStatement, GeometricLine),
}
#: The kinds of statements that a file can have.
Document: TypeAlias = OwnStatement | ForeignStatement
