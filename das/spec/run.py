"""The run specification: what the configuration may say, checked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from pydantic import PrivateAttr

from das.accounting.statement import Terms
from das.model.budget import Neighbours
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.model.mechanisms import MECHANISMS
from das.model.post_processing import PostProcessing
from das.model.schema import Schema
from das.model.universe import HOUSING, PERSONS, Planned
from das.spec.checks import check
from das.spec.keys import CountsKeys
from das.spec.parts import BudgetPart, RelativeBudget
from das.spec.specification import OF_A_MACHINE
from das.spec.tree import counts_tree, one_total
from das.spec.universes import plan_of, universes


class RunSpec(CountsKeys):
    """A whole run of counts over a tree. Frozen; every part checked against the others."""

    title: ClassVar[str] = "counts over a tree"
    public: ClassVar[str] = "das.publications.counts.public:PublicCounts"
    maker: ClassVar[str | None] = "das.publications.counts.truth.maker:CountsMaker"
    remedy: ClassVar[str] = (
        "name a configuration, run or release of the publication that this command is for"
    )
    of_a_machine: ClassVar[Any] = OF_A_MACHINE | {"own": {"__all__": {"data": {"path"}}}}

    _unit_classes: Mapping[str, UnitClasses] | None = PrivateAttr(default=None)

    @cached_property
    def universes(self) -> tuple[Planned, ...]:
        """Persons, and what else is counted over the same tree."""
        found = universes(self)
        return (
            found
            if self._unit_classes is None
            else tuple(u.on(self._unit_classes[u.name]) for u in found)
        )

    @property
    def made_from(self) -> dict[str, tuple[str, ...]]:
        """By universe, what the shares of its budget were made from, in addition to this
        specification."""
        parts: dict[str, BudgetPart | RelativeBudget] = {PERSONS.name: self.budget}
        if self.housing is not None:
            parts[HOUSING.name] = self.housing.budget
        parts |= {name: u.budget for name, u in self.own.items()}
        return {name: part.made_from for name, part in parts.items()}

    @property
    def settled(self) -> dict[str, str]:
        """The level at which facilities have their own units in the production tree, and the level
        above. The latter decides who is in these facilities before their totals are used
        (docs/explanation/limits.md). Empty for another tree, or if all measurements are estimated together."""
        levels = self.geography.levels
        there = self.geography.spine == "optimized" and self.constraints.group_quarters
        if not there or self.estimation.method != "topdown" or len(levels) < 3:
            return {}
        return {levels[-2]: levels[-3]}

    @cached_property
    def after(self) -> PostProcessing:
        """What comes after measurement."""
        e, o = self.estimation, self.output
        return PostProcessing(
            self.run.name,
            self.run.private,
            self.universes,
            e.method,
            float(e.tolerance),
            o.tables,
            o.csv,
            o.report,
            e.bias,
            self.constraints.occupied,
        )

    @cached_property
    def terms(self) -> Terms:
        """What an account of this specification is about."""
        b = self.budget
        schemas = {u.name: u.schema for u in self.universes}
        exact = {u.name: u.exact.counts for u in self.universes}
        return Terms(
            MECHANISMS[b.mechanism],
            Neighbours(b.neighbors),
            b.delta,
            self.geography.levels,
            schemas,
            exact,
            b.target,
            {u.name: u.plan.paths for u in self.universes},
            {
                name: unit_classes.places_on
                for name, unit_classes in (self._unit_classes or {}).items()
            },
            self._split(),
        )

    def _split(self) -> dict[str, tuple[str, ...]]:
        """The levels at which a place may be in two units: as long as there is no tree, all below
        the root."""
        if self.geography.spine == "tabulation":
            return {}
        if self._unit_classes is None:
            return {u.name: self.geography.levels[1:] for u in self.universes}
        return {name: unit_classes.split for name, unit_classes in self._unit_classes.items()}

    def on(self, trees: Mapping[str, MeasuredSpine | UnitClasses]) -> RunSpec:
        """The same specification, given the measured trees of the universes. Their plans then have
        exactly the classes of units and the paths of these trees. None of this is a key of the
        configuration."""
        if self.geography.spine == "tabulation":
            return self
        found = self.model_copy()
        for name in ("universes", "after", "terms"):
            found.__dict__.pop(name, None)  # a copy has what was computed of the other
        found._unit_classes = {
            name: t if isinstance(t, UnitClasses) else UnitClasses.from_tree(t)
            for name, t in trees.items()
        }
        return found

    def calibrate(self) -> RunSpec:
        """The same specification with the budget found where it gives a target alone."""
        target = self.budget.target
        if target is None or self.budget.rho is not None:
            return self
        shape = plan_of(self, self.schema_built, Fraction(1), self.budget, "budget")
        return self.model_copy(
            update={"budget": self.budget.model_copy(update={"rho": target.rho(shape)})}
        )

    @classmethod
    def amended(cls, tree: dict[str, Any], changed: set[str]) -> dict[str, Any]:
        """A total that is set by an override replaces the other way to give it."""
        one_total(tree, changed)
        return tree

    def checked(self) -> RunSpec:
        """The same with its budget found, after everything that parts must agree on was built;
        raises :class:`SpecError`."""
        spec = self.calibrate()
        check(spec)
        return spec

    @property
    def listed_schemas(self) -> Mapping[str, Schema]:
        return {u.name: u.schema for u in self.universes}

    @property
    def condition(self) -> str:
        own = self.schema_.attributes is not None
        return "if the levels and places in spec.toml were public before" if own else ""

    @property
    def reader(self) -> str | None:
        """What reads the records."""
        return self.data.reader

    def measured_by_us(self, where: object) -> RunSpec:
        """The specification of the run that measured: this one."""
        return self

    def tree(self) -> dict[str, Any]:
        """Of lists of blocks their file names alone; with the passes that were chosen by rule."""
        tree = counts_tree(super().tree(), self.universes)
        if self.geography.lists:
            tree["geography"]["targets"] = list(self.geography.named)
        return tree
