"""The specification of a study that compares methods of protection on the same records: TOML, with
unknown keys refused and all errors together (``docs/explanation/frontier.md``).

Methods and the options of the attack are dataclasses of other rooms. Their tables are read as the
mapping of names to classes says that :func:`study_of` is given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from das.errors import InputError, SpecError
from das.model.names import Codes
from das.model.profile import InputProfile
from das.spec.draft import columns_of, level_name, listed_levels, rendered, words
from das.spec.guess import Guess
from das.spec.parse import validated
from das.spec.parts import Files, Part
from das.spec.schema_part import SchemaPart, TablePart
from das.spec.tree import built, check_numbers, override, tree_of

#: The table set that is not a named one, and the readers.
OWN = "own"
LINKED, TABLE = "linked", "table"
#: In the name of a method of one's own: ``file.py:Class``.
OWN_METHOD = ".py:"

#: Of every setting: not parameters of the method.
_OF_A_SETTING = ("label",)


class StudyRun(Part):
    """``[study]``."""

    name: str = Field(min_length=1, pattern=r"^[^\x00-\x1f]+$")
    """The name of the study."""
    repeats: int = Field(default=5, ge=1, le=1000)
    """How often each random method is applied, each time with another key."""
    seed: int | None = Field(default=None, ge=0, strict=True)
    """Makes the keys of the methods repeatable. Absent: from the operating system, kept in the
    study's folder."""


class StudyData(Files):
    """``[data]``."""

    reader: Literal["linked", "table"]
    """``"linked"``: a folder of persons, households and units; ``"table"``: a table of persons."""
    columns: dict[str, Any] | None = None
    """For ``table``: the columns, as in a configuration (*Your own data*)."""
    household: str | None = None
    """For ``table``: the column with the code of each person's household. Absent: none."""
    points: str | None = None
    """Coordinates of the lowest places, for methods that look for near partners: a CSV or Parquet
    table with columns ``code``, ``x``, ``y``; redistricting files (``.pl.zip``); or boundaries."""

    @model_validator(mode="after")
    def _columns_for_tables(self) -> Self:
        if (self.reader == TABLE) != (self.columns is not None):
            raise ValueError("data.columns goes with the reader 'table', and that reader needs it")
        if self.reader != TABLE and self.household is not None:
            raise ValueError("data.household goes with the reader 'table'")
        if not self.path:
            raise ValueError("name the records: path = ...")
        return self


class StudyGeography(Part):
    """``[geography]``."""

    levels: tuple[str, ...] = Field(min_length=2)
    """The levels of the tree, from the root down."""
    prefixes: dict[str, int] = Field(default={})
    """For ``linked``: how many characters of a block's code are the code of each level."""
    places: str | None = None
    """For ``table``: a table of all places, also of those where nobody lives."""


class PublishedSet(Part):
    """``[published]``: the tables that every method protects."""

    set: Literal["sf1-2010", "pl94", "dhc-persons", "own"] = "own"
    """A set with a name (docs/explanation/frontier.md lists their tables), or ``"own"``: those of
    ``[tables]``."""
    levels: tuple[str, ...] | None = None
    """The levels with tables. Absent: the lowest, and of a named set also that of the sample."""


class StudyTable(TablePart):
    """``[tables.<name>]``: as in a configuration, at some levels."""

    levels: tuple[str, ...] | None = None
    """The levels that publish it. Absent: those of ``[published]``."""


class StudySample(Part):
    """``[sample]``: the places where the attack is made."""

    level: str | None = None
    """The level that is sampled. Absent: the level above the lowest with tables."""
    units: Annotated[int, Field(ge=1)] | Literal["all"] = 30
    """How many of its units, drawn without replacement among those with persons; or ``"all"``."""
    seed: int = Field(default=1, ge=0, strict=True)
    """Draws the sample."""


class UsePart(Part):
    """``[uses.<name>]``: counts whose errors are measured."""

    title: str = ""
    """In words. Absent: that of the query."""
    query: str | None = None
    """Such as ``"sex * age"``."""
    tables: tuple[str, ...] = ()
    """Instead of a query: every line of these tables."""

    @model_validator(mode="after")
    def _query_or_tables(self) -> Self:
        if (self.query is None) != bool(self.tables):
            raise ValueError("give either a query or tables")
        return self


class MapPart(Part):
    """``[map]``: the errors across the risk-utility map."""

    use: str | None = None
    """A name of ``[uses]``. Absent: the last."""
    level: str | None = None
    """A level, or ``"areas"``. Absent: the lowest."""


@dataclass(frozen=True)
class MethodSetting:
    """One point of a curve: the parameters of the method, and how it is labeled on the map."""

    given: Mapping[str, Any]
    value: Any
    label: str


class MethodPart(BaseModel):
    """``[methods.<curve>]``: a method and its settings. Other keys are parameters that all settings
    share."""

    model_config = ConfigDict(extra="allow", frozen=True)

    method: str
    """The name of the method, or ``file.py:Class``."""
    title: str = ""
    """Of the curve. Absent: its name."""
    settings: tuple[dict[str, Any], ...] = Field(default=({},), min_length=1)
    """A table for each point of the curve: parameters, and ``label`` to name a published one."""

    @model_validator(mode="after")
    def _builds(self, info: ValidationInfo) -> Self:
        self.resolved((info.context or {})["methods"])
        return self

    def resolved(self, methods: Mapping[str, type[Any]]) -> tuple[MethodSetting, ...]:
        """Each setting as a value of its method. Raises :class:`ValueError` with every fault."""
        if self.method not in methods:
            raise ValueError(
                f"there is no method {self.method!r}: there are {', '.join(sorted(methods))}, and"
                " file.py:Class"
            )
        try:
            kind = methods[self.method]
        except SpecError as error:
            raise ValueError(f"{error.what}; {error.remedy}") from None
        out, faults = [], []
        for i, one in enumerate(self.settings, 1):
            given = (self.model_extra or {}) | one
            parameters = {k: v for k, v in given.items() if k not in _OF_A_SETTING}
            try:
                value = built(kind, parameters, "")
            except SpecError as error:
                faults.append(
                    f"setting {i}: {error.what}" if len(self.settings) > 1 else error.what
                )
            else:
                out.append(MethodSetting(parameters, value, str(given.get("label", ""))))
        if faults:
            raise ValueError("; ".join(faults))
        if len({json.dumps(s.given, sort_keys=True) for s in out}) < len(out):
            raise ValueError("two settings are the same")
        return tuple(out)


class StudySpec(Part):
    """A whole study."""

    study: StudyRun
    data: StudyData
    geography: StudyGeography
    schema_: SchemaPart | None = Field(default=None, alias="schema")
    published: PublishedSet = PublishedSet()
    tables: dict[str, StudyTable] = Field(default={})
    also: dict[str, StudyTable] = Field(default={})
    """Tables of another product, which the attack has besides (``--also``)."""
    sample: StudySample = StudySample()
    attack: dict[str, Any] = Field(default={})
    """Options of the attack, and what the intruder knows."""
    uses: dict[str, UsePart] = Field(default={})
    map: MapPart = MapPart()
    methods: dict[str, MethodPart] = Field(min_length=1)

    @field_validator("attack")
    @classmethod
    def _is_an_attack(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        try:
            built((info.context or {})["attack"], value, "")
        except SpecError as error:
            raise ValueError(error.what) from None
        return value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        levels, faults = self.geography.levels, []
        for key, named in (
            ("published.levels", self.published.levels or ()),
            ("sample.level", (self.sample.level,) if self.sample.level else ()),
            *((f"tables.{n}.levels", t.levels or ()) for n, t in self.tables.items()),
            *((f"also.{n}.levels", t.levels or ()) for n, t in self.also.items()),
        ):
            faults += [f"{key}: there is no level {n!r}" for n in named if n not in levels]
        if self.published.set == OWN and not self.tables:
            faults.append("tables: write tables of your own, or name a set under [published]")
        if self.published.set == OWN and self.schema_ is None and self.data.reader == TABLE:
            faults.append("schema: missing; a table of your own needs its attributes")
        if self.published.set != OWN and self.schema_ is not None:
            faults.append(f"schema: {self.published.set!r} has its own; delete [schema]")
        if both := set(self.tables) & set(self.also):
            faults.append(f"also: {min(both)!r} names a table of the study; rename one")
        if self.map.use is not None and self.map.use not in self.uses:
            faults.append(f"map.use: there is no use {self.map.use!r} under [uses]")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def sample_level(self) -> str:
        """The level whose units are sampled."""
        if self.sample.level is not None:
            return self.sample.level
        lowest = self.geography.levels[-1]
        above = [n for n in self.published.levels or () if n != lowest]
        return above[-1] if above else self.geography.levels[-2]

    @property
    def table_levels(self) -> tuple[str, ...]:
        """The levels with tables, from the top down."""
        if self.published.levels is not None:
            named = set(self.published.levels)
            return tuple(n for n in self.geography.levels if n in named)
        lowest = self.geography.levels[-1]
        return (lowest,) if self.published.set == OWN else (self.sample_level, lowest)

    def tree(self) -> dict[str, Any]:
        """The resolved study."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def dump(self) -> str:
        """The same as TOML."""
        return tomli_w.dumps(self.tree())

    def digest(self, *without: str) -> str:
        """SHA-256 of the study, ``without`` some of its tables."""
        return _digest({k: v for k, v in self.tree().items() if k not in without})

    def digest_of(self, table: str) -> str:
        """SHA-256 of one of its tables."""
        return _digest(self.tree().get(table))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def study_of(
    text: str,
    *,
    where: str,
    methods: Mapping[str, type[Any]],
    attack: type[Any],
    overrides: Sequence[str] = (),
    also: str | None = None,
    folder: Path = Path(),
) -> StudySpec:
    """The checked study from TOML ``text``. ``methods`` are dataclasses by name, ``attack`` is that
    of the attack's options. ``also`` is the TOML of another product's ``[tables]``. Methods of
    one's own, ``file.py:Class``, are in ``folder``.

    Raises :class:`SpecError`, once, with every fault that was found and the key of each."""
    tree = tree_of(text, where)
    if also is not None:
        tree["also"] = _tables_alone(also)
    for item in overrides:
        override(tree, item)
    check_numbers(tree, where)
    parts = tree.get("methods")
    for part in parts.values() if isinstance(parts, dict) else ():
        if isinstance(part, dict) and OWN_METHOD in (method := str(part.get("method"))):
            file, _, name = method.rpartition(":")
            part["method"] = f"{(folder / file).resolve()}:{name}"
    return validated(StudySpec, tree, where, {"methods": methods, "attack": attack})


def _tables_alone(text: str) -> Any:
    """The tables of another study or configuration."""
    found = tree_of(text, "--also").get("tables")
    if not found:
        raise SpecError(
            "there is no table", where="--also", remedy="write [tables.<name>] with a query"
        )
    return found


# A first study of protection methods: complete, commented TOML with about nine methods. Its text is
# in ``study_draft.toml.j2``.

LINKED_NAME = "sf1-2010"
#: Words in the names of attributes that neighbors know of each other.
_KNOWN = {
    *("sex", "gender", "age", "ages", "agegroup"),
    *("sexo", "edad", "idade", "geschlecht", "alter"),
}
#: The most lines of a table that crosses attributes, at the lowest level and above it.
_MOST_LINES, _MOST_ABOVE = 400, 2000
#: Counts whose errors are measured: title and query.
_USES = {
    "total": ("Total population", "total"),
    "race": ("Race in seven groups", "race7"),
    "age": ("Sex by age", "sex * age_23_groups"),
    "crossed": ("Sex by age by race", "sex * age_23_groups * race7"),
}


def draft_of_linked(
    name: str, folder: Path, points: Path | None, blocks: Codes, quick: bool = False
) -> str:
    """The study of linked records in these blocks: the 34 tables of the published attack. Blocks
    with other codes than those of the Census Bureau have no level above them but all.

    The shares of levels are about those of persons in 2020, redistricting data and DHC together.
    The nation and the levels between state and tract are in the nearest one."""
    sizes = np.strings.str_len(blocks)
    census = bool((np.strings.isdigit(blocks) & ((sizes == 15) | (sizes == 16))).all())
    nation = len(np.unique(blocks.astype("S2"))) > 1
    levels = ["State", "County", "Tract", "Block_Group", "Block"] if census else ["All", "Block"]
    return rendered(
        "study_draft.toml.j2",
        linked=True,
        name=name,
        folder=folder,
        near=points,
        census=census,
        levels=["US"] * (census and nation) + levels,
        sample="Tract" if census else "All",
        known=("sex", "age"),
        sensitive=("hispanic", "cenrace"),
        uses=_USES,
        coarse=("hispanic * race7", "sex * age_23_groups"),
        root_share='US = "1/50", State = "29/100",' if nation else 'State = "31/100",',
        quick=quick,
    )


def draft_of_table(
    table: InputProfile,
    guess: Guess,
    name: str,
    household: str | None,
    points: Path | None,
    quick: bool = False,
) -> str:
    """The study of a table of persons, with tables of its own attributes. Its lists of levels are
    those of the records: unlike a configuration, a study is confidential."""
    if len(guess.attributes) < 2:
        raise InputError(
            "a study needs two attributes: one that an intruder knows, one to find out",
            where="--data",
            remedy="group the values of another column",
        )
    columns = columns_of(guess)
    sizes = {n: len(listed_levels(c, True)) for n, c in columns["attributes"].items()}
    levels = [level_name(c.name) for c in guess.geography]
    root = [] if len(levels) > 1 and len(guess.geography[0].values) == 1 else ["All"]
    known, sensitive = _known_and_sensitive(sizes)
    return rendered(
        "study_draft.toml.j2",
        linked=False,
        study=True,
        census=False,
        name=name,
        table=table,
        household=household,
        near=points,
        levels=[*root, *levels],
        tables=_tables(sizes, [*root, *levels]),
        known=known,
        sensitive=sensitive,
        uses=_own_uses(sizes),
        coarse=list(sizes),
        quick=quick,
        **columns,
    )


def _known_and_sensitive(sizes: dict[str, int]) -> tuple[list[str], list[str]]:
    """Sex and age are known, the others sensitive; without either of them, the last is."""
    known = [n for n in sizes if set(n.lower().replace("-", "_").split("_")) & _KNOWN]
    if not known or len(known) == len(sizes):
        known = list(sizes)[:-1]
    return known, [n for n in sizes if n not in known]


def _tables(sizes: dict[str, int], levels: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Queries and their levels: all attributes and their pairs, and what crosses all."""
    lowest = levels[-2:]
    pairs = combinations(sizes, 2)
    some = [" * ".join(p) for p in pairs if prod(sizes[a] for a in p) <= _MOST_LINES]
    whole = len(sizes) > 2 and prod(sizes.values()) <= _MOST_ABOVE
    return [
        *((query, lowest) for query in ("total", *sizes, *some)),
        *([(" * ".join(sizes), lowest[:1])] if whole else []),
    ]


def _own_uses(sizes: dict[str, int]) -> dict[str, tuple[str, str]]:
    whole = " * ".join(sizes)
    each = {n: (words(n), n) for n in list(sizes)[:4] if n != "total"}
    return {"total": ("Total population", "total"), **each, "crossed": (words(whole), whole)}
