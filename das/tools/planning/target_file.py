"""A file of targets: what somebody wants of a plan (:mod:`das.design.target_set`), as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from das.accounting.invariant_neighbours import ANY, INVARIANT_NEIGHBOURS
from das.design.model import Estimand
from das.design.target_set import EVERYTHING, AccuracyTarget, Objective, TargetSet
from das.errors import InputError, SpecError
from das.model.exact import exact
from das.model.mechanisms import COVERAGE
from das.model.schema import Schema
from das.model.spelling import named
from das.model.spelling import query as spelt
from das.spec.parts import Part


class TargetPart(Part):
    """How much a target counts, and what it should reach."""

    query: str
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    margin: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Of error, kept with probability ``coverage`` by an error that is normal."""
    coverage: float = Field(default=COVERAGE, gt=0, lt=1)
    sd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    ratio: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The standard deviation as a multiple of what it is now."""

    @model_validator(mode="after")
    def _one_limit(self) -> TargetPart:
        if sum(v is not None for v in (self.margin, self.sd, self.ratio)) > 1:
            raise ValueError("a target has one of margin, sd and ratio")
        if self.margin is None and "coverage" in self.model_fields_set:
            raise ValueError("coverage is that of a margin")
        return self

    def target(self, estimand: Estimand) -> AccuracyTarget:
        sd = self.sd
        if self.margin is not None:
            sd = self.margin / NormalDist().inv_cdf((1 + self.coverage) / 2)
        return AccuracyTarget(estimand, self.weight, sd, self.ratio)


class LevelTarget(TargetPart):
    """``[[target]]``: a query of the units of a level, or the lines of a published table."""

    level: str
    query: str = ""
    table: str = ""

    @model_validator(mode="after")
    def _one_thing(self) -> LevelTarget:
        if bool(self.query) == bool(self.table):
            raise ValueError("a target has a query or a table")
        return self


class AreaTarget(TargetPart):
    """``[[area]]``: a query of areas of a kind, with ``population`` of those in a class of it. A
    kind with a dot is a file: a list of blocks, as in ``geography.targets``."""

    kind: str
    population: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _a_class(self) -> AreaTarget:
        if self.population is not None and not 0 <= self.population[0] <= self.population[1]:
            raise ValueError("population is the least and the most of a class, such as [200, 500]")
        return self


#: The table of guards on changes of one record, as the field of a statement is called.
CHANGES = "changes"
#: No more than the plan has as it is.
NOW = "now"


@dataclass(frozen=True)
class EpsilonGuard:
    """The most that epsilon may be, of a line of the privacy statement: ``relation`` is the field
    that it is in, ``name`` the universe or the change; none: ``most`` is what it is now."""

    relation: str
    name: str
    most: Fraction | None


def _epsilon(value: Any) -> Fraction | None:
    if value == NOW:
        return None
    if (found := exact(value)) <= 0:
        raise ValueError(f'{value!r} is not positive: give an epsilon such as "7.25", or "{NOW}"')
    return found


Epsilon = Annotated[Fraction | None, BeforeValidator(_epsilon)]


class EpsilonGuards(Part):
    """``[guard.epsilon]``: by relation, then by universe or change."""

    guarantee: dict[str, Epsilon] = Field(default={})
    """Between any data sets: of a universe by its name, or of all together (``total``)."""
    invariant_neighbours: dict[str, Epsilon] = Field(
        default={}, alias="guarantee_of_neighbours_that_agree"
    )
    """The same between data sets that agree on what is published exactly."""
    changes: dict[str, Epsilon] = Field(default={})
    """Of single changes of a record, by the names that `das account` shows."""
    pairs: Literal["now"] | None = None
    """No two records, at one place or two, cost more rho; of the DHC, than in production."""

    @property
    def each(self) -> tuple[EpsilonGuard, ...]:
        by_relation = {
            ANY: self.guarantee,
            INVARIANT_NEIGHBOURS: self.invariant_neighbours,
            CHANGES: self.changes,
        }
        return tuple(
            EpsilonGuard(relation, name, most)
            for relation, found in by_relation.items()
            for name, most in found.items()
        )


class TargetsFile(Part):
    """A whole file."""

    objective: Literal["best", "least", "spare"] = "best"
    target: tuple[LevelTarget, ...] = ()
    area: tuple[AreaTarget, ...] = ()
    guard: dict[str, float] = Field(default={})
    epsilon: EpsilonGuards = EpsilonGuards()
    """``guard.epsilon`` of the file."""
    keep: tuple[str, ...] = ()
    """Draws ``Level:query``, or levels, that are not to become smaller."""
    hold: tuple[str, ...] = ()
    """The measurements that stay as they are."""
    measure: tuple[str, ...] = ()
    """``Level:query``: what the plan does not measure, and could."""

    @property
    def lists(self) -> tuple[Path, ...]:
        """The kinds of areas that are files."""
        return tuple(dict.fromkeys(Path(a.kind) for a in self.area if is_list(a.kind)))


def is_list(kind: str) -> bool:
    """Whether a kind of areas is a file of their blocks."""
    return "." in Path(kind).name


def targets_of_blocks(path: Path, lowest: str) -> TargetsFile:
    """The total of each area of a list of blocks, on the terms of ``policy``: nothing that is
    measured becomes worse, and the ``lowest`` level, which decides who can be found, stays as it
    is."""
    area = AreaTarget(kind=str(path), query="total")
    return TargetsFile(area=(area,), guard={EVERYTHING: 1.0}, hold=(lowest,))


def read_targets(text: str, *, where: str) -> TargetsFile:
    """Raises :class:`SpecError`, once, with every fault that was found."""
    try:
        found = TargetsFile.model_validate(_apart(tomllib.loads(text)))
    except ValidationError as error:
        faults = "\n".join(f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise SpecError(
            f"{error.error_count()} fault(s) in the targets:\n{faults}",
            where=where,
            remedy=f"[[target]] has {', '.join(LevelTarget.model_fields)}; [[area]] has"
            f" {', '.join(AreaTarget.model_fields)}. docs/how-to/strategy.md explains them",
        ) from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not valid TOML: {error}", where=where, remedy="fix that line") from None
    if not found.target and not found.area:
        raise SpecError(
            "there is no target",
            where=where,
            remedy="add a table [[target]] with a level and a query",
        )
    if len({p.name for p in found.lists}) < len(found.lists):
        raise SpecError(
            "two lists of blocks have one name",
            where=f"{where}, area.kind",
            remedy="give the files different names",
        )
    if odd := [g for g, most in found.guard.items() if not 0 < most < float("inf")]:
        raise SpecError(
            f"a guard of {found.guard[odd[0]]}",
            where=f"{where}, guard.{odd[0]}",
            remedy="give a multiple of the present standard deviation, such as 1.0",
        )
    return found


def _apart(tree: dict[str, Any]) -> dict[str, Any]:
    """With guards on epsilon apart from those on standard deviations, which go by level."""
    if "epsilon" in tree:
        raise ValueError("epsilon belongs to [guard.epsilon]")
    guard = tree.get("guard")
    if not isinstance(guard, dict) or "epsilon" not in guard:
        return tree
    rest = {name: most for name, most in guard.items() if name != "epsilon"}
    return tree | {"guard": rest, "epsilon": guard["epsilon"]}


def target_set_of(
    file: TargetsFile,
    objective: Objective | None,
    keep: Sequence[str],
    schema: Schema,
    levels: Sequence[str],
    measured: Sequence[tuple[str, str]],
    where: str,
    tables: Sequence[str] = (),
) -> TargetSet:
    """The targets, with the names of existing levels, queries and ``tables``. Raises
    :class:`UserError` for a name that does not exist."""
    targets = []
    for t in file.target:
        level = named(t.level, levels, "level", f"{where}, target")
        if t.table:
            name = named(t.table, tables, "table", f"{where}, target")
        else:
            name = spelt(t.query, schema, [q for lv, q in measured if lv == level], where)
        targets.append(t.target(Estimand(level, name)))
    for a in file.area:
        query = spelt(a.query, schema, [q for _, q in measured], where)
        says = "" if a.population is None else f"{a.population[0]:,} to {a.population[1]:,} persons"
        kind = Path(a.kind).name if is_list(a.kind) else a.kind
        targets.append(a.target(Estimand(kind, query, areas=True, says=says)))
    every = [t.estimand for t in targets]
    if twice := sorted(str(e) for e in every if every.count(e) > 1):
        raise SpecError(f"{twice[0]} is a target twice", where=where, remedy="name it once")
    guard = {
        g if g == EVERYTHING else named(g, levels, "level", f"{where}, guard"): v
        for g, v in file.guard.items()
    }
    asked = [*((t, f"--keep {t}") for t in keep), *((t, f"{where}, keep") for t in file.keep)]
    kept, held = (
        tuple(p for text, said in texts for p in _draws(text, schema, levels, measured, said))
        for texts in (asked, [(text, f"{where}, hold") for text in file.hold])
    )
    return TargetSet(objective or file.objective, tuple(targets), guard, kept, held)


def new_measurements(
    file: TargetsFile, schema: Schema, levels: Sequence[str], where: str
) -> list[tuple[str, str]]:
    """Level and query of each under ``measure``."""
    out = []
    for text in file.measure:
        name, _, asked = text.partition(":")
        level = named(name.strip(), levels, "level", f"{where}, measure")
        out.append((level, spelt(asked.strip(), schema, (), f"{where}, measure")))
    return out


def _draws(
    text: str,
    schema: Schema,
    levels: Sequence[str],
    measured: Sequence[tuple[str, str]],
    where: str,
) -> list[tuple[str, str]]:
    """The measurements that ``Level:query``, or ``Level`` alone, names."""
    name, colon, asked = text.partition(":")
    level = named(name.strip(), levels, "level", where)
    there = [q for lv, q in measured if lv == level]
    if not colon:
        return [(level, q) for q in there]
    query = spelt(asked.strip(), schema, there, where)
    if query not in there:
        raise InputError(
            f"{query!r} is not measured at {level!r}",
            where=where,
            remedy=f"it measures {', '.join(there)}",
        )
    return [(level, query)]
