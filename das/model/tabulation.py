"""Tables as data: which records each column of a table counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from das.model.frozen import Frozen
from das.model.schema import Schema

#: The largest full cross of all attributes that becomes a table.
LARGEST_CROSS = 1000

#: For some attributes or groupings, the levels (or groups): a record must have one of them.
Where = Mapping[str, tuple[str, ...]]
#: A column: its label, and which records it counts. Of several conditions it counts a record once
#: for each that it meets.
LabelledWhere = tuple[str, Where | tuple[Where, ...]]


@dataclass(frozen=True)
class Tabulation(Frozen):
    """The answers to ``query``, after their ``total`` where it is wanted; or ``columns`` with a
    label and a condition each; of the records that meet ``where``. Without a ``title`` it has that
    of its query."""

    name: str
    title: str
    query: str | None = None
    columns: tuple[LabelledWhere, ...] = ()
    where: Where = field(default_factory=dict)
    total: bool = True


def general(schema: Schema, letter: str) -> tuple[Tabulation, ...]:
    """The tables of any schema: the total, ``<letter>0``, one for each attribute, ``<letter>1``,
    ``<letter>2``, ..., and the full cross of all attributes if that has at most 1,000 cells.

    >>> [
    ...     (t.name, t.query)
    ...     for t in general(Schema.of("people", {"age": 2, "sex": ["f", "m"]}), "T")
    ... ]
    [('T0', 'total'), ('T1', 'age'), ('T2', 'sex'), ('T3', 'age * sex')]
    """
    names = [a.name for a in schema.attributes]
    queries = ["total", *names]
    if len(names) > 1 and schema.cells <= LARGEST_CROSS:
        queries.append(" * ".join(names))
    return tuple(
        Tabulation(f"{letter}{i}", "", query, total=False) for i, query in enumerate(queries)
    )
