"""What the privacy statement of a run says besides the results of its ledger: sentences, and what
is published exactly.

All of it depends only on the specification and the trees. So it is written when the run begins, and
again when the release is verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import tomli_w

from das.model.ledger import RedundantMeasurements, redundant, redundant_on
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.model.spine import Spine
from das.model.universe import Exact, RecordKind, Universe
from das.plugins import READERS
from das.spec.run import RunSpec

#: What a measured tree depends on besides geography, where it is published exactly.
STRUCTURES = "which blocks have a housing unit or a facility of group quarters"
FACILITIES = "which types of facilities are in each"


def notes(spec: RunSpec) -> tuple[str, ...]:
    """All sentences, those of the reader first."""
    return (
        *READERS[spec.data.reader].notes,
        *of_the_tree(spec, known_structures(spec)),
        *of_the_budget(spec),
    )


def states_structures(spec: RunSpec) -> bool:
    """Whether the input says how many housing units and facilities each place has."""
    columns = spec.data.columns or {}
    return READERS[spec.data.reader].structures or bool(columns.get("housing_units"))


def known_structures(spec: RunSpec) -> Exact:
    """What is published exactly of structures: nothing where the input does not say, or the persons
    have no dwelling."""
    said = states_structures(spec) and spec.persons.schema.dwelling is not None
    return spec.persons.exact if said else Exact()


def of_the_tree(spec: RunSpec, known: Exact) -> tuple[str, ...]:
    """The note about measured trees that differ from the published one: they are public, too."""
    if spec.geography.spine == "tabulation":
        return ()
    rests = [FACILITIES] if known.group_quarters else []
    if known.housing_units and known.group_quarters:
        rests.insert(0, STRUCTURES)
    on = (
        f", and of what the bounds on dwellings publish exactly: {', and '.join(rests)}"
        if rests
        else ""
    )
    return (trees_note(on),)


def trees_note(on: str) -> str:
    """That measured trees are others than the published one, and what they are made of ``on``
    besides geography."""
    return (
        "The measured trees are not that of the tables (spine.parquet, next to the"
        f" measurements). They are made of public geography{on}. Nothing else in the records"
        " enters them, and data sets that are called neighbors agree on them."
    )


def of_the_budget(spec: RunSpec) -> tuple[str, ...]:
    """The notes about shares that were computed from other data."""
    return tuple(made_from_note(name, made) for name, made in spec.made_from.items() if made)


def made_from_note(name: str, made: Sequence[str]) -> str:
    """What the shares of a universe, or of several, were made from."""
    return (
        f"The shares of the budget ({name}) were made from {'; '.join(made)}, as the configuration"
        " says. That no record of this run entered them otherwise than by what is published is its"
        " word: it is not checked."
    )


def bounds_in_words(lowest: str) -> Mapping[str, str]:
    """By the end of its name, what each bound on dwellings says."""
    return {
        "lb": (
            f"the number of group-quarters facilities of each type in every {lowest}, each holding"
            " somebody"
        ),
        "ub": (
            f"the number of housing units and of facilities in every {lowest} (times 99,999 persons"
            " at most)"
        ),
    }


def counts_in_words(universe: Universe, level: str, query: str) -> str:
    by = "" if query == "total" else f" by {query}"
    return f"the number of {universe.records} of every {level}{by}, exactly"


# The measurements of a specification that add nothing (:mod:`das.model.ledger`).


def redundant_by_spec(spec: RunSpec) -> RedundantMeasurements:
    """By the configuration alone: of an optimized spine, of all trees that there can be."""
    levels, split = spec.geography.levels, spec.terms.split
    return [(u, i) for u in spec.universes for i in redundant(u, levels, split.get(u.name, ()))]


def redundant_by_trees(
    spec: RunSpec, trees: Mapping[str, MeasuredSpine], published: Spine
) -> RedundantMeasurements:
    """By the trees that the universes are measured over."""
    there = spec.on(trees)
    return [(u, i) for u in there.universes for i in redundant_on(u, trees[u.name], published)]


# A plan as the tables of a configuration that make it.


def budget_toml(spec: RunSpec, universe: str, plan: Plan, made_from: Sequence[str] = ()) -> str:
    """The tables of ``spec`` that make ``plan`` the plan of ``universe``. Budgets of the others are
    relative to the persons': with another total of these they are written too, so that these
    universes stay as they are. ``made_from``: what the shares were made from."""
    sums: dict[str, Fraction] = {}
    for d in plan.plain:
        sums[d.level] = sums.get(d.level, Fraction(0)) + d.cost
    shares: dict[str, Any] = {
        "levels": {level: str(cost / plan.cost) for level, cost in sums.items()},
        "queries": {
            level: {d.query: str(d.cost / sums[level]) for d in plan.plain if d.level == level}
            for level in sums
        },
    }
    if made_from:
        shares["made_from"] = list(made_from)
    changed = spec.universe(universe)
    if changed is not spec.persons:
        return tomli_w.dumps(
            _nested(changed.kind, {"relative": str(plan.cost / spec.persons.plan.cost)} | shares)
        )
    b = spec.budget
    tree: dict[str, Any] = {
        "budget": (
            {
                plan.mechanism.currency: str(plan.cost),
                "neighbors": b.neighbors,
                "delta": str(b.delta),
                "mechanism": b.mechanism,
            }
            | shares
        )
    }
    for u in spec.universes[1:]:
        _merge(tree, _nested(u.kind, {"relative": str(u.plan.cost / plan.cost)}))
    return tomli_w.dumps(tree)


def _nested(kind: RecordKind, budget: dict[str, Any]) -> dict[str, Any]:
    """The budget at its place in the configuration."""
    tree: dict[str, Any] = budget
    for name in reversed(kind.key("budget").split(".")):
        tree = {name: tree}
    return tree


def _merge(into: dict[str, Any], tree: dict[str, Any]) -> None:
    for key, value in tree.items():
        if key in into:
            _merge(into[key], value)
        else:
            into[key] = value
