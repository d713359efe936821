"""The tables of a configuration, each with its keys; what a key means stands under its field."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from das.accounting.target import Target
from das.errors import SpecError
from das.model.grouping import Grouping
from das.model.kinds import PERSONS
from das.model.measured_spine import FANOUT
from das.model.mechanism import EPSILON, RHO
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS
from das.model.post_processing import Method, PriorName
from das.model.readers import READERS, TABLE
from das.model.schema import Attribute, Schema
from das.model.schemas import SCHEMAS
from das.spec.exact import ExactNumber

#: A budget beyond these is a slip of the pen, and beyond what the noise and its accounting are made
#: for.
LEAST_BUDGET, MOST_BUDGET = Fraction(1, 10**20), Fraction(10**9)
#: More is a slip, too: no tract has so many blocks, and no code so many digits.
MOST_FANOUT, MOST_DIGITS = 10**6, 9

if TYPE_CHECKING:
    MechanismName = str
    ReaderName = str
else:
    MechanismName = Literal[tuple(MECHANISMS)]
    ReaderName = Literal[READERS]

Named = TypeVar("Named", Attribute, Grouping)


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, ignored_types=(cached_property,), defer_build=True
    )


class Run(Part):
    """``[run]``; each publication has its own, with its ``publication``."""

    name: str = Field(min_length=1, coerce_numbers_to_str=True)
    """Names the run, its default folder and its outputs."""
    seed: int | None = Field(default=None, ge=0, strict=True)
    """Makes the run repeatable **and not private**; every output says so. Absent: private."""
    entropy: Literal["keyed", "forgetful", "kernel"] = "keyed"
    """Random bits: AES-256 keyed by what is measured under a run key, which is kept until all is
    measured, so that what is measured again is the same draw; or under a key that is never stored;
    or the operating system for every byte (slow). With the last two, what was being drawn when a
    run stopped is spent."""

    @property
    def private(self) -> bool:
        """Whether the noise of a run can be drawn by nobody else."""
        return self.seed is None


class CountsRun(Run):
    """``[run]``."""

    publication: Literal["counts"] = "counts"
    """What is published: counts over a tree; ``"dhc"``: the demographic file; ``"detailed-dhc"``:
    population groups. Each has tables of its own."""


class Files(Part):
    """Where data are, and in which encoding."""

    path: tuple[str, ...] = ()
    """Files or folders, one or a list, read together; relative to where the command is run."""
    encoding: str = "utf-8"
    """That of the text: ``"latin-1"``, ``"cp1252"``, ``"utf-16"``, or any other that Python
    knows.
    """

    @field_validator("path", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

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
    """Which column holds what, as under ``[data.columns]``; the last level of its geography joins a
    record to its place.
    """


class Data(Files):
    """``[data]``."""

    reader: ReaderName
    """The format of the input: redistricting files of 2010 or 2020, the 1940 extract of IPUMS, a
    privacy-protected microdata file, or a table of your own."""
    path: tuple[str, ...] = ()
    """Files or folders, one or a list, read together; relative to where the command is run.
    ``--data`` replaces it.
    """
    columns: dict[str, Any] | None = None
    """For the reader ``table``: which column holds what; see *Your own data*."""

    @model_validator(mode="after")
    def _columns_for_tables(self) -> Data:
        if (self.reader == TABLE) != (self.columns is not None):
            raise ValueError("data.columns goes with the reader 'table', and that reader needs it")
        if self.reader != TABLE and self.encoding != "utf-8":
            raise ValueError(
                "data.encoding goes with the reader 'table'; the other formats say theirs"
            )
        return self


class GroupingPart(Part):
    """``[schema.groupings.<name>]``: a coarser view of one attribute, a query of its own."""

    attribute: str
    """The attribute that it groups."""
    groups: dict[str, tuple[str, ...]]
    """Name of each group, and the levels in it; each level in exactly one."""


class LabelsPart(Part):
    """``[schema.labels.<name>]``: what people read in place of the codes of an attribute or
    grouping.
    """

    title: str | None = None
    """Such as ``"Voting age"``; absent: the name itself."""
    levels: dict[str, str] = {}
    """Code of a level (or group), and its label; one that is left out keeps its code."""


class SchemaPart(Part):
    """``[schema]``: the attributes of a record, whose combinations are the cells of the
    histogram.
    """

    name: str
    """A published schema (``pl94``, ``1940-e2e``, ``dhcp``), or, with ``attributes``, a name for
    your own.
    """
    attributes: dict[str, tuple[str, ...]] | None = None
    """Your own: each attribute with its levels, in order."""
    groupings: dict[str, GroupingPart] = {}
    """Coarser views of attributes, by name."""
    labels: dict[str, LabelsPart] = {}
    """Words for pages and tables, for attributes and groupings of any schema."""
    impossible: tuple[dict[str, tuple[str, ...]], ...] = ()
    """Combinations that cannot occur, each a table of attributes or groupings and levels; their
    cells are always 0.
    """
    dwelling: str | None = None
    """The attribute that says where a person lives, its first level a household in a housing unit,
    the others types of group quarters; housing units and facilities then bound it."""

    def build(self) -> Schema:
        """The schema: a published one by name, or the one written out here, with its labels."""
        schema = self._unlabelled()
        known = [a.name for a in schema.attributes] + [g.name for g in schema.recodes]
        if unknown := set(self.labels).difference(known):
            raise SpecError(
                f"{min(unknown)!r} is neither an attribute nor a grouping",
                where="schema.labels",
                remedy=f"it has {', '.join(known)}",
            )
        return replace(
            schema,
            attributes=tuple(map(self._labelled, schema.attributes)),
            recodes=tuple(map(self._labelled, schema.recodes)),
        )

    def _labelled(self, named: Named) -> Named:
        said = self.labels.get(named.name)
        return (
            named
            if said is None
            else named.labelled(said.title, said.levels, f"schema.labels.{named.name}")
        )

    def _unlabelled(self) -> Schema:
        if self.attributes is None:
            if self.name not in SCHEMAS:
                raise SpecError(
                    f"no schema is called {self.name!r}",
                    where="schema.name",
                    remedy=f"use {', '.join(SCHEMAS)}, or write your own under [schema.attributes]",
                )
            if self.groupings or self.impossible or self.dwelling:
                raise SpecError(
                    f"schema {self.name!r} is a published one and cannot be altered",
                    where="schema",
                    remedy="give it another name and write out its attributes",
                )
            return SCHEMAS[self.name]
        attributes = tuple(Attribute(k, v) for k, v in self.attributes.items())
        recodes = tuple(self._grouping(k, g) for k, g in self.groupings.items())
        return Schema(self.name, attributes, recodes, self.impossible, self.dwelling)

    def _grouping(self, name: str, part: GroupingPart) -> Grouping:
        where = f"schema.groupings.{name}"
        levels = (self.attributes or {}).get(part.attribute)
        if levels is None:
            raise SpecError(f"no attribute {part.attribute!r}", where=where)
        return Grouping.of(name, part.attribute, levels, part.groups, where)


class Geography(Part):
    """``[geography]``."""

    levels: tuple[str, ...] = Field(min_length=1)
    """The levels of the tree, from the root down; those below the root are fields of the input."""
    spine: Literal["tabulation", "optimized"] = "tabulation"
    """The tree that is measured: that of the codes of the input, or the one that the Bureau
    optimised for 2020.
    """
    define: dict[str, tuple[str, ...]] = {}
    """Levels that are products of fields: a unit for each combination that occurs."""
    targets: tuple[str, ...] | None = None
    """With an optimised spine: areas that its block groups keep apart. Each is a field of the input
    (``"Place"``, ``"SLDL"``, ``"VTD"``; ``"Block_Group"`` for those of tabulation), or a list of
    blocks: the path of a file whose name has a ``.`` in it (``"precincts.csv"``), relative to where
    the command is run. Absent: those of 2020 alone."""
    fanout: int | Literal["none"] | None = None
    """With an optimised spine: of n blocks of a tract that are alike, as many as the root of n and
    this and one more are a block group; ``"none"``: all of them are. Absent: 12, as in 2020, and
    with targets ``"none"``."""
    geocodes: Literal["2020", "2010"] | None = None
    """With an optimised spine: its codes are laid out as in the measurements of 2020, or as in
    those of the 2010 demonstration data. Absent: as in 2020."""
    digits: dict[str, int] | None = None
    """With an optimised spine: the least digits of the numbers of a level's units in their codes.
    Where a level is not named, those of the nation, ``{ Tract = 4, Block_Group = 2 }``, and 1 for
    others."""

    @field_validator("targets", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

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
        """The fan-out of the block groups of an optimised spine; ``None`` where they are not cut
        into runs.
        """
        if self.fanout is None:
            return None if self.targets else FANOUT
        return None if self.fanout == "none" else self.fanout

    @property
    def lists(self) -> tuple[str, ...]:
        """Those of the targets that are files."""
        return tuple(t for t in self.targets or () if "." in Path(t).name)

    @property
    def named(self) -> tuple[str, ...]:
        """The targets, files by their names alone."""
        return tuple(Path(t).name if t in self.lists else t for t in self.targets or ())


class BudgetPart(Part):
    """``[budget]``: what the persons' measurements cost, and how that is shared out."""

    rho: ExactNumber | None = None
    """The total of the discrete Gaussian, from 1e-20 to 1e9. With ``calibration`` it may be left
    out, and is then found.
    """
    epsilon: ExactNumber | None = None
    """The total of the geometric mechanism; with ``calibration``, the target of the discrete
    Gaussian.
    """
    calibration: Literal["exact", "zcdp-tight"] | None = None
    """Find ``rho`` from ``epsilon`` and ``delta``: by exact composition, or by the tight conversion
    of zCDP. A resolved specification has all three, and ``rho`` is taken as it stands if it meets
    the target."""
    neighbours: Literal["bounded", "unbounded"]
    """Which data sets count as neighbours: one record replaced, or one added or removed."""
    delta: ExactNumber = Fraction(1, 10**10)
    """The delta of the target, and one of those at which epsilon is stated."""
    mechanism: MechanismName = DISCRETE_GAUSSIAN.name
    """The noise: discrete Gaussian under zCDP, or two-sided geometric under pure differential
    privacy.
    """
    levels: dict[str, ExactNumber]
    """The share of each level of the tree; they sum to exactly 1."""
    queries: dict[str, dict[str, ExactNumber]]
    """The share of each query in its level; they sum to exactly 1 in each level."""
    made_from: tuple[str, ...] = ()
    """What the shares were made from, where that is more than the configuration: it stands in the
    privacy statement.
    """

    @model_validator(mode="after")
    def _one_currency(self) -> BudgetPart:
        wanted = MECHANISMS[self.mechanism].currency
        other = EPSILON if wanted == RHO else RHO
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}, not between 0 and 1")
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
        found.
        """
        return self.rho if MECHANISMS[self.mechanism].currency == RHO else self.epsilon

    @property
    def target(self) -> Target | None:
        if self.calibration is None or self.epsilon is None:
            return None
        return Target(self.epsilon, self.delta, self.calibration)


class RelativeBudget(Part):
    """``[housing.budget]``: as ``[budget]``, for housing units."""

    relative: ExactNumber
    """The universe's total as a multiple of the persons', so that a rerun at another budget moves
    both.
    """
    levels: dict[str, ExactNumber]
    """The share of each level; they sum to exactly 1."""
    queries: dict[str, dict[str, ExactNumber]]
    """The share of each query in its level."""
    made_from: tuple[str, ...] = ()
    """What the shares were made from."""


class Housing(Part):
    """``[housing]``: housing units, a second universe over the same tree. Absent: none. Earlier
    configurations call this table ``[units]``, which is still read."""

    schema_: Literal["h1"] = Field(default="h1", alias="schema")
    """Vacant or occupied."""
    budget: RelativeBudget
    """The housing units' own budget."""


class Estimation(Part):
    """``[estimation]``; see *Estimation*."""

    method: Method = "topdown"
    """Each level from its own measurements given the level above, or from all measurements of the
    tree.
    """
    prior: PriorName = "none"
    """What is assumed of the lowest units beside what was measured: nothing, or that people live
    where the housing units are.
    """
    tolerance: ExactNumber = Fraction(1, 10)
    """How far a later pass may move the answers of an earlier one, in persons."""
    passes: dict[str, tuple[tuple[str, ...], ...]] = {}
    """For each level, or ``default``: lists of queries, estimated one list after the other; ``"*"``
    is the rest. Absent: by rule; a resolved specification has them written out."""


class RoundingPart(Part):
    """``[rounding]``; see *Estimation*."""

    objective: Literal["nearest", "bureau-2020"] = "nearest"
    """As close as possible to the estimates, or to their fractional sums rounded first, as in
    production.
    """
    chain: tuple[str, ...] | None = None
    """Nested queries, fine to coarse, whose sums count beside the cells. Absent: the published
    schema's own; for a schema of your own, the sums of all measured queries are kept, nested or
    not."""


class InvariantPart(Part):
    """``[[constraints.invariants]]``: counts that are published exactly. All of a universe must be
    nested: of any two queries one is a sum of the other, such as ``total``, ``sex`` and ``"sex *
    age"``."""

    query: str
    """Such as ``"sex"``."""
    levels: tuple[str, ...] = Field(min_length=1)
    """A level, or a list: the units of which it is exact, and so are those above them."""

    @field_validator("levels", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class OwnConstraints(Part):
    """``[universes.<name>.constraints]``: what of it is published exactly, outside the
    guarantee.
    """

    total: str | None = None
    """The level whose totals are exact, and with it every level above. Absent: none."""
    invariants: tuple[InvariantPart, ...] = ()
    """Counts of other queries that are exact, too."""

    @property
    def queries(self) -> tuple[tuple[str, str], ...]:
        """Level and query of the invariants."""
        return tuple((level, i.query) for i in self.invariants for level in i.levels)


class Constraints(OwnConstraints):
    """``[constraints]``: what is published exactly, outside the guarantee."""

    housing_units: bool = True
    """Nobody lives in a household where there is no housing unit (where the schema has a
    dwelling).
    """
    group_quarters: bool = True
    """Each facility holds somebody, and nobody lives in group quarters where there is no
    facility.
    """


class ColumnPart(Part):
    """``[[tables.<name>.columns]]``: one column."""

    label: str
    """Its heading."""
    where: dict[str, tuple[str, ...]] = {}
    """Attribute or grouping, and the levels of which a record must have one to be counted. Absent:
    all are.
    """


class TablePart(Part):
    """``[tables.<name>]``: a table of your own, beside those that every schema has. It has the
    answers to a query after their total, or columns that you list."""

    title: str
    """What it shows."""
    universe: str = PERSONS.name
    """Whose records it counts."""
    query: str | None = None
    """Such as ``"sex * age"``."""
    where: dict[str, tuple[str, ...]] = {}
    """Only records that have one of these levels, of each attribute or grouping that is named."""
    columns: tuple[ColumnPart, ...] = ()
    """In place of a query."""

    @model_validator(mode="after")
    def _query_or_columns(self) -> TablePart:
        if (self.query is None) != bool(self.columns):
            raise ValueError("give either a query or columns")
        return self


class Output(Part):
    """``[output]``."""

    csv: bool = False
    """Write the persons as ``persons.csv``, too."""
    tables: bool = True
    """Write the tables."""
    report: bool = True
    """Write the reports: ``release/report.html`` and ``confidential/report.html``."""


class OwnEstimation(Part):
    """``[universes.<name>.estimation]``; method and tolerance are those of the persons."""

    passes: dict[str, tuple[tuple[str, ...], ...]] = {}
    """As ``[estimation.passes]``."""


class OwnRounding(Part):
    """``[universes.<name>.rounding]``; the objective is that of the persons."""

    chain: tuple[str, ...] = ()
    """As ``rounding.chain``. Absent: none."""


class OwnUniverse(Part):
    """``[universes.<name>]``: a universe of your own, such as households, counted over the same
    tree as the persons.
    """

    letter: str = Field(default="", pattern=r"^[A-Z]{0,12}$")
    """Capital letters that the names of its tables begin with. Absent: its name in capitals."""
    data: TableData
    """Its records."""
    schema_: SchemaPart = Field(alias="schema")
    """The attributes of its records, as ``[schema]``."""
    budget: RelativeBudget
    """Its own budget."""
    constraints: OwnConstraints = OwnConstraints()
    """What of it is exact."""
    estimation: OwnEstimation = OwnEstimation()
    """How it is estimated."""
    rounding: OwnRounding = OwnRounding()
    """How it is rounded."""
