"""The tables of a configuration, each with its keys; what a key means stands under its field."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)

from das.accounting.calibration import Target
from das.accounting.guarantee import DEFAULT_DELTA
from das.model.exact import exact
from das.model.measured_spine import FANOUT
from das.model.mechanisms import DISCRETE_GAUSSIAN, EPSILON, MECHANISMS, RHO
from das.model.post_processing import BiasName, Method, OccupiedName
from das.plugins import READERS

if TYPE_CHECKING:
    MechanismName = str
else:
    MechanismName = Literal[tuple(MECHANISMS)]


# What several tables of a configuration have: exact numbers (:mod:`das.model.exact`), read as a
# ``Fraction`` and written as an integer or a text; a delta; one text or a list of them.


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


#: A budget beyond these is a slip of the pen, and beyond what the noise and its accounting are made
#: for.
LEAST_BUDGET, MOST_BUDGET = Fraction(1, 10**20), Fraction(10**9)
#: More is a slip, too: no tract has so many blocks, and no code so many digits.
MOST_FANOUT, MOST_DIGITS = 10**6, 9


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, ignored_types=(cached_property,), defer_build=True
    )


class Run(Part):
    """``[run]``; each publication has its own, with its ``publication``."""

    name: str = Field(min_length=1, coerce_numbers_to_str=True, pattern=r"^\P{C}+$")
    """Name of the run, its default folder and its outputs; without control characters."""
    seed: int | None = Field(default=None, ge=0, strict=True)
    """Makes the run repeatable **and not private**; every output says so. Absent: private."""
    entropy: Literal["keyed", "forgetful", "kernel"] = "keyed"
    """The source of random bits. `"keyed"`: AES-256 with a run key that is kept until everything
    is measured. `"forgetful"`: the same with a key that is never stored. `"kernel"`: the
    operating system supplies every byte. With these two, a run that stops loses the budget of
    the measurements in progress."""

    @property
    def private(self) -> bool:
        """Whether the noise of a run can be drawn by nobody else."""
        return self.seed is None


class CountsRun(Run):
    """``[run]``."""

    publication: Literal["counts"] = "counts"
    """The publication: ``"counts"`` (counts over a tree), ``"dhc"`` (the DHC),
    ``"detailed-dhc"`` (the Detailed DHC) or ``"sdhc"`` (the S-DHC). Each has its own configuration tables."""


class Files(Part):
    """Where data are, and in which encoding."""

    path: OneOrMore = ()
    """A file or folder, or a list of them, read together. Paths are relative to the folder where
    you run the command."""
    encoding: str = "utf-8"
    """Text encoding of the input: ``"latin-1"``, ``"cp1252"``, ``"utf-16"``, or any other that
    Python knows."""

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, value: str) -> str:
        try:
            "".encode(value)
        except (LookupError, ValueError):
            raise ValueError(
                f"there is no encoding {value!r}: write utf-8, latin-1, cp1252, utf-16"
            ) from None
        return value


class TableData(Files):
    """``[universes.<name>.data]``: the tables of a universe of your own."""

    columns: dict[str, Any]
    """The columns, as under ``[data.columns]``. The last level of its geography joins a record
    to its place."""


class Data(Files):
    """``[data]``."""

    reader: str
    """The format of the input. ``"pl94-2010"``, ``"pl94-2020"``: redistricting files. ``"ext1940"``:
    the 1940 IPUMS extract. ``"ppmf"``: a privacy-protected microdata file. ``"table"``: a table of
    your own. An installed package can add others."""
    path: OneOrMore = ()
    """A file or folder, or a list of them, read together. Paths are relative to the folder where
    you run the command. ``--data`` replaces it."""
    columns: dict[str, Any] | None = None
    """For the reader ``table``: the columns that it reads; see *Your own data*."""

    @field_validator("reader")
    @classmethod
    def _is_there(cls, value: str) -> str:
        if value not in READERS:
            raise ValueError(f"there is no reader {value!r}: there are {', '.join(READERS)}")
        return value

    @model_validator(mode="after")
    def _has_options(self) -> Data:
        takes = READERS[self.reader].options
        if "columns" in takes and self.columns is None:
            raise ValueError(f"the reader {self.reader!r} needs data.columns")
        if "columns" not in takes and self.columns is not None:
            raise ValueError(f"the reader {self.reader!r} takes no data.columns")
        if "encoding" not in takes and self.encoding != "utf-8":
            raise ValueError(f"the reader {self.reader!r} takes no data.encoding")
        return self


class TreeKeys(Part):
    """``[geography]``: the levels of the tree, and which tree is measured."""

    levels: tuple[str, ...] = Field(min_length=1)
    """The levels of the tree, from the root down; those below the root are fields of the input."""
    spine: Literal["tabulation", "optimized"] = "tabulation"
    """The tree that is measured: `"tabulation"`, the tree of the input's codes, or
    `"optimized"`, the Bureau's optimized spine of 2020."""
    targets: OneOrMore | None = None
    """With an optimized spine: areas that no block group may straddle. Each is a field of the
    input (``"Place"``, ``"SLDL"``, ``"VTD"``; ``"Block_Group"`` for tabulation block groups; in
    the DHC a kind of area of its release), or the path of a list of blocks, with a ``.`` in its
    name (``"precincts.csv"``). Absent: only those of 2020."""
    fanout: int | Literal["none"] | None = None
    """With an optimized spine: a block group has at most √n + fanout + 1 blocks, rounded down,
    in a tract of n blocks. ``"none"``: no limit. Absent: 12, as in 2020, and with targets
    ``"none"``."""
    geocodes: Literal["2020", "2010"] | None = None
    """With an optimized spine: the layout of its codes, that of the 2020 measurement files or
    that of the 2010 demonstration data. Absent: 2020."""
    digits: dict[str, int] | None = None
    """With an optimized spine: the minimum number of digits for a level's unit numbers in codes.
    A level that you omit has the nation's digits, ``{ Tract = 4, Block_Group = 2 }``, or 1."""

    @field_validator("geocodes", mode="before")
    @classmethod
    def _is_a_year(cls, value: Any) -> Any:
        return str(value) if type(value) is int else value

    @field_validator("fanout", mode="before")
    @classmethod
    def _is_whole(cls, value: Any) -> Any:
        if value is None or value == "none" or (type(value) is int and 0 <= value <= MOST_FANOUT):
            return value
        raise ValueError(
            f'{value!r} is no fan-out: give a whole number from 0 to {MOST_FANOUT:,}, or "none"'
        )

    @field_validator("digits")
    @classmethod
    def _are_few(cls, value: dict[str, int] | None) -> dict[str, int] | None:
        if odd := [n for n in (value or {}).values() if not 1 <= n <= MOST_DIGITS]:
            raise ValueError(f"{odd[0]} is no number of digits: give 1 to {MOST_DIGITS}")
        return value

    @property
    def runs(self) -> int | None:
        """The fan-out of the block groups of an optimized spine; ``None`` where they are not cut
        into runs."""
        if self.fanout is None:
            return None if self.targets else FANOUT
        return None if self.fanout == "none" else self.fanout

    @property
    def lists(self) -> tuple[str, ...]:
        """The targets that are files."""
        return tuple(t for t in self.targets or () if "." in Path(t).name)

    @property
    def named(self) -> tuple[str, ...]:
        """The targets, files by their names alone."""
        return tuple(Path(t).name if t in self.lists else t for t in self.targets or ())


class Geography(TreeKeys):
    """``[geography]``."""

    places: str | None = None
    """For the reader ``table``: a table of all places, also of those where nobody lives, with the
    columns that ``data.columns`` names for levels, areas, names and housing units."""
    define: dict[str, tuple[str, ...]] = {}
    """Levels that are products of fields, with a unit for each combination that occurs."""


class BudgetPart(Part):
    """``[budget]``: the privacy-loss budget of the persons' measurements, and its shares."""

    rho: ExactNumber | None = None
    """The total for the discrete Gaussian, from 1e-20 to 1e9. With ``calibration`` you can omit
    it, and ``das`` finds it."""
    epsilon: ExactNumber | None = None
    """The total for the geometric mechanism. With ``calibration``, the target for the discrete
    Gaussian."""
    calibration: Literal["exact", "zcdp-tight"] | None = None
    """Find ``rho`` from ``epsilon`` and ``delta``, by exact composition or by the tight
    conversion of zCDP. A resolved specification has all three; its ``rho`` must meet the target."""
    neighbors: Literal["bounded", "unbounded"]
    """The neighbor relation: `"bounded"` (one record replaced) or `"unbounded"` (one record
    added or removed)."""
    delta: DeltaNumber = DEFAULT_DELTA
    """The delta of the target. Epsilon is also stated at this delta."""
    mechanism: MechanismName = DISCRETE_GAUSSIAN.name
    """The noise: discrete Gaussian under zCDP, or two-sided geometric under pure differential
    privacy."""
    levels: dict[str, ExactNumber]
    """The share of each level of the tree. Shares must sum to exactly 1."""
    queries: dict[str, dict[str, ExactNumber]]
    """The share of each query in its level. Shares must sum to exactly 1 in each level."""
    made_from: tuple[str, ...] = ()
    """What the shares were made from, if more than the configuration. The privacy statement
    repeats it."""

    @model_validator(mode="after")
    def _one_currency(self) -> BudgetPart:
        wanted = MECHANISMS[self.mechanism].currency
        other = EPSILON if wanted == RHO else RHO
        for name in (RHO, EPSILON):
            value = getattr(self, name)
            if value is not None and value > 0 and not LEAST_BUDGET <= value <= MOST_BUDGET:
                raise ValueError(
                    f"{name} is {float(value):.3g}, which is not between 1e-20 and 1e9: the one is"
                    " all noise, the other none"
                )
        if self.calibration is None:
            if getattr(self, wanted) is None or getattr(self, other) is not None:
                hint = (
                    ' (for a target epsilon, add calibration = "exact")'
                    if wanted == RHO and self.epsilon
                    else ""
                )
                raise ValueError(
                    f"mechanism {self.mechanism!r} wants {wanted}, and no {other}{hint}"
                )
        elif wanted != RHO or self.epsilon is None or self.epsilon <= 0:
            raise ValueError(
                "calibration finds rho from a target: it goes with a positive epsilon, a delta, and"
                " the mechanism 'discrete-gaussian'"
            )
        return self

    @property
    def total(self) -> Fraction | None:
        """What the persons' plan costs, in its own currency; ``None`` where it has yet to be
        found."""
        return self.rho if MECHANISMS[self.mechanism].currency == RHO else self.epsilon

    @property
    def target(self) -> Target | None:
        if self.calibration is None or self.epsilon is None:
            return None
        return Target(self.epsilon, self.delta, self.calibration)


class RelativeBudget(Part):
    """``[housing.budget]``: as ``[budget]``, for housing units."""

    relative: ExactNumber
    """The universe's total as a multiple of the persons'. A rerun at another budget changes
    both."""
    levels: dict[str, ExactNumber]
    """The share of each level. Shares must sum to exactly 1."""
    queries: dict[str, dict[str, ExactNumber]]
    """The share of each query in its level."""
    made_from: tuple[str, ...] = ()
    """What the shares were made from."""


class Housing(Part):
    """``[housing]``: housing units, a second universe over the same tree. Absent: none. ``das``
    also reads the table's earlier name, ``[units]``."""

    schema_: Literal["h1"] = Field(default="h1", alias="schema")
    """Vacant or occupied."""
    budget: RelativeBudget
    """The housing units' own budget."""


class Estimation(Part):
    """``[estimation]``; see *Estimation*."""

    method: Method = "topdown"
    """`"topdown"`: each level from its own measurements, given the level above.
    `"full-information"`: from all measurements of the tree."""
    bias: BiasName = "none"
    """`"corrected"`: counts of persons in the lowest units without their size bias. Least squares
    without negative counts makes large units too small, and small ones too large."""
    tolerance: ExactNumber = Fraction(1, 10)
    """How far a later pass can move the answers of an earlier one, in persons."""
    passes: dict[str, tuple[tuple[str, ...], ...]] = {}
    """For each level, or ``default``: lists of queries, estimated one list after the other.
    ``"*"`` is the rest. Absent: ``das`` derives them from the plan. A resolved specification
    lists them."""

    @model_validator(mode="before")
    @classmethod
    def _without_prior(cls, keys: Any) -> Any:
        """Releases of earlier versions state a prior, of housing or none."""
        if not isinstance(keys, dict) or "prior" not in keys:
            return keys
        if keys["prior"] != "none":
            raise ValueError('the prior of housing is gone: write bias = "corrected" in its place')
        return {key: value for key, value in keys.items() if key != "prior"}


class RoundingPart(Part):
    """``[rounding]``; see *Estimation*."""

    objective: Literal["nearest", "bureau-2020"] = "nearest"
    """`"nearest"`: as close as possible to the estimates. `"bureau-2020"`: to their fractional
    sums rounded first, as in production."""
    chain: tuple[str, ...] | None = None
    """Nested queries, fine to coarse, whose sums rounding keeps besides the cells. Absent: those
    of the published schema; for your own schema, the sums of all measured queries, nested or
    not."""


class InvariantPart(Part):
    """``[[constraints.invariants]]``: counts that are published exactly. All queries of a
    universe must nest, such as ``total``, ``sex`` and ``"sex * age"``: each is a sum of the
    next."""

    query: str
    """Such as ``"sex"``."""
    levels: OneOrMore = Field(min_length=1)
    """A level, or a list. The query is exact for their units, and for all levels above."""


class OwnConstraints(Part):
    """``[universes.<name>.constraints]``: the universe's invariants: what is published exactly,
    outside the guarantee."""

    total: str | None = None
    """The level with exact totals; every level above then has them, too. Absent: none."""
    invariants: tuple[InvariantPart, ...] = ()
    """Counts of other queries that are exact, too."""

    @property
    def queries(self) -> tuple[tuple[str, str], ...]:
        """Level and query of the invariants."""
        return tuple((level, i.query) for i in self.invariants for level in i.levels)


class Constraints(OwnConstraints):
    """``[constraints]``: what is published exactly, outside the guarantee."""

    housing_units: bool = True
    """Hold this exactly: nobody lives in a household where there is no housing unit (if the
    schema has a dwelling)."""
    group_quarters: bool = True
    """Hold this exactly: each facility holds somebody, and nobody lives in group quarters where
    there is no facility."""
    occupied: OccupiedName = "measured"
    """``"consistent"``: a lowest unit where somebody lives in a household has an occupied housing
    unit, and it has no more of them than such persons. Costs no budget: it is a bound from
    published persons. For runs in one piece (``docs/how-to/linked.md``)."""


class Output(Part):
    """``[output]``."""

    csv: bool = False
    """Also write the persons as ``persons.csv``."""
    tables: bool = True
    """Write the tables."""
    report: bool = True
    """Write the reports: ``release/report.html`` and ``confidential/report.html``."""
