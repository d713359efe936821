"""The tables of a configuration of the Supplemental DHC, each with its keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field, field_validator, model_validator

from das.model.sdhc.tables import ALL_LEVELS, CHILDREN, TABLES, TRUNCATED
from das.model.states import STATES
from das.spec.exact import DELTA, DeltaNumber, ExactNumber, OneOrMore
from das.spec.parts import Files, Part, Run

#: By kind of area, how many digits its code has.
DIGITS = {"county": 5, "place": 7}
_KNOWN = frozenset(s.fips for s in STATES)
#: Thresholds of production.
PRODUCTION_TAU = {t: 6 if t in CHILDREN else 10 for t in TRUNCATED}


class SdhcRun(Run):
    """``[run]``."""

    publication: Literal["sdhc"] = "sdhc"
    """The Supplemental DHC."""


class SdhcData(Files):
    """``[data]``."""

    path: OneOrMore = ()
    """A folder with ``persons.csv``, ``units.csv`` and ``geo.csv`` in PHSafe's format, or one with
    linked records of the DHC. ``--data`` replaces it."""
    parameters: str = ""
    """A ``config.json`` of PHSafe: its budgets, states and definition of privacy replace those of
    ``[sdhc]``; in the mode ``"phsafe"`` its thresholds do, too."""


class SdhcMost(Part):
    """``[sdhc.most]``: persons of one address that are counted, in the mode ``"tight"``."""

    persons: int = Field(default=18, gt=0, strict=True)
    """Persons of one address that tables count. The others are left out, and counted as ``excess``."""
    children: int = Field(default=10, gt=0, strict=True)
    """Persons under 18 of one address that the tables PH3 and PH6 count. The others are counted as
    ``excess_children``."""


class SdhcAreas(Part):
    """``[sdhc.areas]``: areas below the state, measured by the queries with a budget such as
    ``"area_*"``, in the mode ``"tight"``."""

    kind: Literal["county", "place"] = "county"
    """Counties, or places."""
    codes: tuple[str, ...] = ()
    """FIPS codes: five digits of a county, seven of a place. Absent: every county of the input."""

    @model_validator(mode="after")
    def _are_areas(self) -> SdhcAreas:
        digits = DIGITS[self.kind]
        if odd := [c for c in self.codes if not (c.isdecimal() and len(c) == digits)]:
            raise ValueError(f"codes: {odd[0]!r} is no code of a {self.kind}: give {digits} digits")
        if list(self.codes) != sorted({*self.codes}):
            raise ValueError("codes: give each area once, in order")
        return self


class SdhcPart(Part):
    """``[sdhc]``."""

    mode: Literal["tight", "phsafe"] = "tight"
    """``"tight"``: noise for the tight sensitivity of each query, one truncation for all tables,
    least squares. ``"phsafe"``: what PHSafe did in 2020."""
    relation: Literal["person", "household"] = "person"
    """The unit of privacy. ``"household"`` needs the mode ``"tight"``."""
    definition: Literal["zcdp", "puredp"] = "zcdp"
    """Discrete Gaussian noise, with budgets in rho; or two-sided geometric noise, in epsilon."""
    states: tuple[str, ...] = ()
    """FIPS codes of the states to tabulate. Absent: those of ``geo.csv``."""
    dhc: str = ""
    """Path of a release of the DHC of the same records: its noisy counts of households and persons
    are further observations in the least squares. In a release: its name."""
    dhc_digest: str = ""
    """In a release: SHA-256 of that release's privacy statement."""
    delta: DeltaNumber = DELTA
    """The privacy statement gives epsilon at this delta."""
    most: SdhcMost = SdhcMost()
    """How many persons of one address are counted, in the mode ``"tight"``."""
    areas: SdhcAreas = SdhcAreas()
    """Areas below the state."""
    tau: dict[str, int] = Field(default_factory=lambda: dict(PRODUCTION_TAU))
    """By table, how many persons of one address it counts, in the mode ``"phsafe"``."""
    budget: dict[str, dict[str, ExactNumber]] = Field(default_factory=dict)
    """By table, the budget of each query, such as ``"state_A-G"`` or, of areas, ``"area_*"``. 0 or
    absent: not measured."""

    @field_validator("states")
    @classmethod
    def _are_states(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if odd := [s for s in value if s not in _KNOWN]:
            raise ValueError(f"{odd[0]!r} is none of the 50 states, 11 or 72: give two digits")
        if len(set(value)) < len(value):
            raise ValueError("a state is there twice")
        if "72" in value and len(value) > 1:
            raise ValueError("72 (Puerto Rico) is not in the nation: run it by itself")
        return tuple(sorted(value))

    @field_validator("tau")
    @classmethod
    def _of_tables(cls, value: dict[str, int]) -> dict[str, int]:
        if set(value) != set(TRUNCATED) or any(type(n) is not int or n < 1 for n in value.values()):
            raise ValueError(f"give {', '.join(TRUNCATED)} a positive whole number each")
        return value

    @field_validator("budget")
    @classmethod
    def _of_queries(cls, value: dict[str, dict[str, Fraction]]) -> dict[str, dict[str, Fraction]]:
        for table, of in value.items():
            if table not in TABLES:
                raise ValueError(f"there is no table {table!r}: they are {', '.join(TABLES)}")
            known = [f"{r}_{g}" for r in ALL_LEVELS for g in TABLES[table].groups]
            for key, cost in of.items():
                if key not in known:
                    raise ValueError(f"{table} has no query {key!r}: they are {', '.join(known)}")
                if cost < 0:
                    raise ValueError(f"{table}.{key} is {cost}: give 0 or more")
        return value
