r"""What each file's measurements say about the skeleton.

A measured query :math:`q` counts persons, or households, by groupings of its own. Sums of its
answers are sums of skeleton cells, and the finest of these sums are again a product of groupings,
:math:`q'`: along each attribute, levels that share a group are merged until none do. Persons who
are no householders must be in answers of their own; otherwise the query says nothing here.

An answer of :math:`q'` adds up :math:`n` measured ones, so its variance is :math:`n\sigma_q^2`. Of
these only the ones count in which the parent has anybody, because only these are estimated. One
:math:`n` is used for a query and a level, the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from das.errors import InputError
from das.link.counted import age_class, race7
from das.link.fields import Ints, type_fields
from das.link.skeleton_cells import SKELETON, TENURES
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.members import HEADS
from das.model.dhc.persons import DHCP
from das.model.frozen import Frozen
from das.model.grouping import Grouping
from das.model.histogram import Histogram
from das.model.query import Query
from das.model.schema import Schema

#: No level of the skeleton: who is not a householder, or cannot be one.
_NOBODY = -1


@dataclass(frozen=True, eq=False)
class SkeletonEvidence(Frozen):
    """``query`` counts the skeleton, and a file knows its answers with the ``variance``."""

    query: Query
    variance: float

    def __post_init__(self) -> None:
        if not 0 < self.variance < np.inf:
            raise InputError("a variance must be positive", where=f"skeleton: {self.query.name}")


def _person_levels() -> Mapping[str, tuple[str, Ints]]:
    """Of each attribute of persons that of the skeleton, and the level of each level."""
    relgq, ages = np.full(len(DHCP.attribute("relgq").levels), _NOBODY), np.arange(DHCP.shape[2])
    relgq[list(HEADS)] = np.arange(len(HEADS))
    return {
        "relgq": ("alone", relgq),
        "sex": ("sex", np.arange(2)),
        "age": ("hhage", np.where(ages < 15, _NOBODY, age_class(ages))),
        "hispanic": ("hisp", np.arange(2)),
        "cenrace": ("race", race7()),
    }


def _household_levels() -> Mapping[str, tuple[str, Ints]]:
    same = {a: (a, np.arange(len(SKELETON.attribute(a).levels))) for a in _SHARED}
    return {**same, ATTRIBUTE: ("alone", (type_fields().size > 1).astype(np.int64))}


_SHARED = tuple(a.name for a in SKELETON.attributes[1:])


def evidence(
    schema: Schema, variances: Mapping[str, float], above: Histogram
) -> list[SkeletonEvidence]:
    """What a file's queries at a level say. ``variances``: of an answer, by query. ``above``: the
    file's counts of the level of the parents."""
    levels = _person_levels() if schema is DHCP else _household_levels()
    cell, unit = above.cell, above.unit
    if schema is DHCP:
        here = np.isin(cell // (DHCP.cells // DHCP.shape[0]), HEADS)
        cell, unit = cell[here], unit[here]
    skeleton = _skeleton_cells(schema, levels, cell)
    found = []
    for name, variance in variances.items():
        asked = schema.query(name)
        if (query := sum_of(schema, asked, levels)) is None:
            continue
        measured = len(np.unique(unit * asked.answers + asked.at(cell)))
        sums = len(np.unique(unit * query.answers + query.at(skeleton)))
        found.append(SkeletonEvidence(query, variance * max(1.0, measured / max(1, sums))))
    return found


def _skeleton_cells(schema: Schema, levels: Mapping[str, tuple[str, Ints]], cell: Ints) -> Ints:
    """A skeleton cell of each cell of householders; without tenure, one of the first tenure."""
    found = dict(
        zip((a.name for a in schema.attributes), np.unravel_index(cell, schema.shape), strict=True)
    )
    of = {to: level[found[name]] for name, (to, level) in levels.items()}
    zero = np.zeros_like(cell)
    named = (np.maximum(of.get(a.name, zero), 0) for a in SKELETON.attributes)
    return np.asarray(np.ravel_multi_index(tuple(named), SKELETON.shape))


def sum_of(schema: Schema, asked: Query, levels: Mapping[str, tuple[str, Ints]]) -> Query | None:
    """The finest query of the skeleton whose answers are sums of those of ``asked``; ``None`` if
    these also count persons who are no householders."""
    groupings = {a.name: Grouping.total(a.name, a.levels) for a in SKELETON.attributes}
    for attribute, grouping in zip(schema.attributes, asked.groupings, strict=True):
        if attribute.name not in levels:
            continue
        to, level = levels[attribute.name]
        index = np.asarray(grouping.index)
        who = level != _NOBODY
        if to == "alone" and np.isin(index[who], index[~who]).any():
            return None
        groupings[to] = _merged(to, level[who], index[who])
    return Query(f"skeleton of {asked.name}", tuple(groupings.values()))


def _merged(name: str, level: Ints, group: Ints) -> Grouping:
    """The finest grouping of the levels of a skeleton attribute that no group straddles."""
    levels = SKELETON.attribute(name).levels
    label = np.arange(len(levels))
    for g in np.unique(group):
        together = np.unique(label[level[group == g]])
        label[np.isin(label, together)] = together[0]
    _, index = np.unique(label, return_inverse=True)
    names = [str(i) for i in range(int(index.max()) + 1)]
    return Grouping(f"groups of {name}", name, tuple(names), tuple(index.tolist()))


def dense(counts: Histogram) -> Ints:
    """Counts of skeleton cells, ``(units, 1512)``; those without tenure with the first."""
    out = counts.dense()
    if counts.cells == SKELETON.cells:
        return out
    whole = np.zeros((len(out), SKELETON.cells), dtype=np.int64)
    whole[:, ::TENURES] = out
    return whole
