"""Tables as data: which records each column of a table counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from das.model.budget import ALL, UnitPath
from das.model.frozen import Frozen
from das.model.schema import Schema

#: The largest full cross of all attributes that becomes a table.
LARGEST_CROSS = 1000

#: For some attributes or groupings, the levels (or groups): a record must have one of them.
Where = Mapping[str, tuple[str, ...]]
#: A column: its label, and which records it counts. Of several conditions it counts a record once
#: for each that it meets.
LabeledWhere = tuple[str, Where | tuple[Where, ...]]


@dataclass(frozen=True)
class Tabulation(Frozen):
    """The answers to ``query``, after their ``total`` where it is wanted; or ``columns`` with a
    label and a condition each; of the records that meet ``where``. Without a ``title`` it has that
    of its query."""

    name: str
    title: str
    query: str | None = None
    columns: tuple[LabeledWhere, ...] = ()
    where: Where = field(default_factory=dict)
    total: bool = True


def general(schema: Schema, letter: str) -> tuple[Tabulation, ...]:
    """The tables of any schema: the total, ``<letter>0``, one for each attribute, ``<letter>1``,
    ``<letter>2``, ..., and the full cross of all attributes if that has at most 1,000 cells.

    >>> [
    ...     (t.name, t.query)
    ...     for t in general(Schema.from_attributes("people", {"age": 2, "sex": ["f", "m"]}), "T")
    ... ]
    [('T0', 'total'), ('T1', 'age'), ('T2', 'sex'), ('T3', 'age * sex')]"""
    names = [a.name for a in schema.attributes]
    queries = ["total", *names]
    if len(names) > 1 and schema.cells <= LARGEST_CROSS:
        queries.append(" * ".join(names))
    return tuple(
        Tabulation(f"{letter}{i}", "", query, total=False) for i, query in enumerate(queries)
    )


# The levels whose budget a unit is measured with, where only children give their budget to their
# parents.
#
# A unit with one child has the same records as this child. So one measurement with the budget of both
# is worth more to the levels below than two measurements. On an optimized spine an only child is
# therefore *bypassed*: its share of the budget goes to its parent, and it keeps none. In a chain of
# only children all shares go to the top.
#
# So a path from the root to a leaf falls into *chains* of consecutive levels. A unit has one of three
# budgets: its own level's share (its class is called ``Tract``), the shares of its own level and of
# levels below (``Tract to Block_Group``), or none (:data:`UNMEASURED`).
#
# *Every path costs the same.* Each level's share belongs to the chain of that level, and the unit at
# the top of the chain is measured with it. So the shares of the classes on a path sum to those of all
# levels, which is 1.

#: The path without only children.
PLAIN = "plain"
#: The class of units whose share has gone to their parents.
UNMEASURED = "unmeasured"
#: That of the others where nobody says with which shares: of measurements that another publisher
#: made.
MEASURED = "measured"


def name(levels: Sequence[str], first: int, last: int) -> str:
    """The class of units of level number ``first`` that are measured with the shares of the levels
    ``first`` to ``last``; where ``last`` is less, with none.

    >>> name(["State", "County", "Tract"], 1, 1), name(["State", "County", "Tract"], 1, 2)
    ('County', 'County to Tract')"""
    if last < first:
        return UNMEASURED
    return levels[first] if first == last else f"{levels[first]} to {levels[last]}"


def path(levels: Sequence[str], last: Sequence[int]) -> UnitPath:
    """The path whose unit at level number i has the shares of levels i to ``last[i]``; none where
    that is less than i."""
    return tuple(
        (level, name(levels, i, end))
        for i, (level, end) in enumerate(zip(levels, last, strict=True))
    )


def title(path: UnitPath) -> str:
    """A path by its only children: the classes that have the shares of several levels; or
    ``plain``.

    >>> title(
    ...     (
    ...         ("US", "US"),
    ...         ("State", "State to County"),
    ...         ("County", "unmeasured"),
    ...         ("Tract", "Tract"),
    ...     )
    ... )
    'State to County'"""
    many = [unit_class for level, unit_class in path if unit_class not in (level, UNMEASURED, ALL)]
    return ", ".join(dict.fromkeys(many)) or PLAIN


def conceivable(levels: Sequence[str]) -> tuple[UnitPath, ...]:
    """The paths that there can be: each level but the root begins a chain or belongs to that of the
    level above. The one without only children comes first.

    >>> conceivable(["US", "State"])
    ((('US', 'US'), ('State', 'State')), (('US', 'US to State'), ('State', 'unmeasured')))"""
    out = []
    for begins in product((True, False), repeat=len(levels) - 1):
        starts = [i for i, new in enumerate((True, *begins)) if new]
        last = [-1] * len(levels)
        for start, end in zip(starts, [*starts[1:], len(levels)], strict=True):
            last[start] = end - 1
        out.append(path(levels, last))
    return tuple(out)


def classes(
    levels: Sequence[str], paths: Sequence[UnitPath]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Level and class of all units on some paths, level by level, those with the most levels'
    shares last; each with the levels whose shares it holds."""
    found = {place: measured_levels(levels, *place) for path in paths for place in path}
    return dict(
        sorted(found.items(), key=lambda item: (list(levels).index(item[0][0]), len(item[1])))
    )


def measured_levels(levels: Sequence[str], level: str, unit_class: str) -> tuple[str, ...]:
    """The levels whose shares units of a class of ``level`` are measured with. Raises ``KeyError``
    for a class that is none of a chain."""
    first = list(levels).index(level)
    for last in range(first - 1, len(levels)):
        if name(levels, first, last) == unit_class:
            return tuple(levels[first : last + 1])
    raise KeyError(f"{level!r} has no class {unit_class!r}")
