"""A file of targets: what somebody wants of a plan (:mod:`das.design.goal`), as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from das.design.goal import EVERYTHING, Goal, Objective, Wish
from das.design.model import Estimand
from das.errors import InputError, SpecError
from das.model.schema import Schema
from das.model.spelling import named
from das.model.spelling import query as spelt
from das.spec.parts import Part


class WishPart(Part):
    """How much a target counts, and what it should reach."""

    query: str
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    margin: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Of error, kept with probability ``coverage`` by an error that is normal."""
    coverage: float = Field(default=0.95, gt=0, lt=1)
    sd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    ratio: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The standard deviation as a multiple of what it is now."""

    @model_validator(mode="after")
    def _one_limit(self) -> WishPart:
        if sum(v is not None for v in (self.margin, self.sd, self.ratio)) > 1:
            raise ValueError("a target has one of margin, sd and ratio")
        if self.margin is None and "coverage" in self.model_fields_set:
            raise ValueError("coverage is that of a margin")
        return self

    def wish(self, aim: Estimand) -> Wish:
        sd = self.sd
        if self.margin is not None:
            sd = self.margin / NormalDist().inv_cdf((1 + self.coverage) / 2)
        return Wish(aim, self.weight, sd, self.ratio)


class LevelTarget(WishPart):
    """``[[target]]``: a query of the units of a level."""

    level: str


class AreaTarget(WishPart):
    """``[[area]]``: a query of areas of a kind, with ``population`` of those in a class of it."""

    kind: str
    population: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _a_class(self) -> AreaTarget:
        if self.population is not None and not 0 <= self.population[0] <= self.population[1]:
            raise ValueError("population is the least and the most of a class, such as [200, 500]")
        return self


class TargetsFile(Part):
    """A whole file."""

    objective: Literal["best", "least", "spare"] = "best"
    target: tuple[LevelTarget, ...] = ()
    area: tuple[AreaTarget, ...] = ()
    guard: dict[str, float] = Field(default={})
    keep: tuple[str, ...] = ()
    """Draws ``Level:query``, or levels, that are not to become smaller."""
    hold: tuple[str, ...] = ()
    """Those that stay what they are."""


def read_targets(text: str, *, where: str) -> TargetsFile:
    """Raises :class:`SpecError`, once, with every fault that was found."""
    try:
        found = TargetsFile.model_validate(tomllib.loads(text))
    except ValidationError as error:
        faults = "\n".join(f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise SpecError(
            f"{error.error_count()} fault(s) in the targets:\n{faults}",
            where=where,
            remedy="docs/strategy.md lists what a file of targets may say",
        ) from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not valid TOML: {error}", where=where, remedy="mend that line") from None
    if not found.target and not found.area:
        raise SpecError(
            "there is no target",
            where=where,
            remedy="add a table [[target]] with a level and a query",
        )
    if odd := [g for g, most in found.guard.items() if not 0 < most < float("inf")]:
        raise SpecError(
            f"a guard of {found.guard[odd[0]]}",
            where=f"{where}, guard.{odd[0]}",
            remedy="give a multiple of the present standard deviation, such as 1.0",
        )
    return found


def goal_of(
    found: TargetsFile,
    objective: Objective | None,
    keep: Sequence[str],
    schema: Schema,
    levels: Sequence[str],
    measured: Sequence[tuple[str, str]],
    where: str,
) -> Goal:
    """With the names of the levels and queries that there are. Raises :class:`UserError` for one
    that there is not.
    """
    wishes = []
    for t in found.target:
        level = named(t.level, levels, "level", f"{where}, target")
        wishes.append(
            t.wish(
                Estimand(
                    level, spelt(t.query, schema, [q for lv, q in measured if lv == level], where)
                )
            )
        )
    for a in found.area:
        query = spelt(a.query, schema, [q for _, q in measured], where)
        says = "" if a.population is None else f"{a.population[0]:,} to {a.population[1]:,} persons"
        wishes.append(a.wish(Estimand(a.kind, query, areas=True, says=says)))
    if twice := sorted({str(w.aim) for w in wishes if sum(v.aim == w.aim for v in wishes) > 1}):
        raise SpecError(f"{twice[0]} is a target twice", where=where, remedy="name it once")
    guard = {
        g if g == EVERYTHING else named(g, levels, "level", f"{where}, guard"): v
        for g, v in found.guard.items()
    }
    kept = [
        pair for text in keep for pair in _draws(text, schema, levels, measured, f"--keep {text}")
    ]
    kept += [
        pair
        for text in found.keep
        for pair in _draws(text, schema, levels, measured, f"{where}, keep")
    ]
    held = [
        pair
        for text in found.hold
        for pair in _draws(text, schema, levels, measured, f"{where}, hold")
    ]
    return Goal(objective or found.objective, tuple(wishes), guard, tuple(kept), tuple(held))


def _draws(
    text: str,
    schema: Schema,
    levels: Sequence[str],
    measured: Sequence[tuple[str, str]],
    where: str,
) -> list[tuple[str, str]]:
    """Those that ``Level:query`` means, or ``Level`` alone."""
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
