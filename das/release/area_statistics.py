"""What is counted of areas: statistics by what a person types.

Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.model.spelling import key, near, query
from das.model.universe import Universe
from das.release.replicate_source import ReleaseSource
from das.replicates.area_functions import FUNCTIONS

#: Of the redistricting tables, what a page shows unasked: the voting-age population, by Hispanic
#: origin and race.
VOTING_AGE = tuple(f"P004{number:04d}" for number in (1, 2, 5, 6, 7, 8, 9, 10, 11))


@dataclass(frozen=True, eq=False)
class Statistic:
    """A sum of cells ``(cells,)`` of one universe. ``field`` is the field of a table's column, or a
    query's name and answer.
    """

    universe: Universe
    field: str
    label: str
    cells: NDArray[np.bool_]

    @property
    def key(self) -> str:
        return f"{self.universe.name}:{self.field}"


@dataclass(frozen=True, eq=False)
class ComputedStatistic:
    """What is computed from ``counts`` of areas by one of
    :data:`das.replicates.area_functions.FUNCTIONS`.
    """

    function: str
    counts: tuple[Statistic, ...]

    @property
    def field(self) -> str:
        return f"{self.function}:{'/'.join(s.field for s in self.counts)}"

    @property
    def label(self) -> str:
        """In words, and with the fields: that of adults is called a total in the table of adults,
        too.
        """
        return f"{self.function}: {' / '.join(f'{s.label} ({s.field})' for s in self.counts)}"

    def of(self, counts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """A number for each area, or one number."""
        return FUNCTIONS[self.function].function(*(np.asarray(c, dtype=np.float64) for c in counts))


def statistics(source: ReleaseSource, asked: Sequence[str]) -> list[Statistic | ComputedStatistic]:
    """Statistics from what a person types.

    Each text is a table (``P2``), a column of a table (``P0020002``) or a query
    (``votingage * hispanic``). A query of a universe other than persons has the universe's name and
    a colon before it. A text can also be a function of one or two columns, such as
    ``share:P0040002/P0040001`` (:mod:`das.replicates.area_functions`). Without any text: the total
    of each universe.

    Raises:
        UserError: a text names nothing that the release has.
    """
    every = source.universes
    if not asked:
        return [s for u in every for s in _of_query(u, "total")]
    out: dict[str, Statistic | ComputedStatistic] = {}
    for text in asked:
        head, _, counted = text.partition(":")
        if head.strip() in FUNCTIONS:
            computed = _computed(source, head.strip(), counted, text)
            out[computed.field] = computed
        else:
            out |= {s.key: s for s in _statistics(source, text)}
    return list(out.values())


def _computed(source: ReleaseSource, function: str, counted: str, text: str) -> ComputedStatistic:
    names = [name.strip() for name in counted.split("/")]
    where, wanted = f"--statistics {text}", FUNCTIONS[function].counts
    if len(names) != wanted or not all(names):
        example = "/".join(["P0040002", "P0040001"][:wanted])
        raise UserError(
            f"{function} is of {wanted} count{'s' * (wanted > 1)}",
            where=where,
            remedy=f"write such as {function}:{example}",
        )
    found = [_statistics(source, name) for name in names]
    for name, several in zip(names, found, strict=True):
        if len(several) > 1:
            raise UserError(
                f"{name} is {len(several)} counts",
                where=where,
                remedy=f"name one of them, such as {several[0].field}",
            )
    return ComputedStatistic(function, tuple(one for (one,) in found))


def unasked(source: ReleaseSource) -> list[str]:
    """What a page shows where nothing is asked for: totals and, where there is a table P4, the
    voting-age population.
    """
    there = {f for u, t in source.tables if u.name == source.universes[0].name for f in t.columns}
    others = (f"{u.name}:total" for u in source.universes[1:])
    return ["total", *(f for f in VOTING_AGE if f in there), *others]


def _statistics(source: ReleaseSource, text: str) -> list[Statistic]:
    where, every = f"--statistics {text}", source.universes
    head, colon, wanted = text.rpartition(":")
    if colon and head.strip() not in [u.name for u in every]:
        raise UserError(
            f"no universe {head.strip()!r}",
            where=where,
            remedy=near(head.strip(), [u.name for u in every], "universes"),
        )
    among = [u for u in every if not colon or u.name == head.strip()]
    known: list[str] = []
    for u in among:
        for t in (t for of, t in source.tables if of.name == u.name):
            chosen = [
                j
                for j, f in enumerate(t.columns)
                if key(wanted) in (key(t.name), key(f)) and not t.repeats(j)
            ]
            if chosen:
                return [Statistic(u, t.columns[j], t.full_label(j), t.mask(j)) for j in chosen]
            known.append(t.name)
    try:
        return _of_query(among[0], query(wanted.strip(), among[0].schema, (), where))
    except UserError as error:
        raise UserError(
            f"no table, column or query {wanted.strip()!r}",
            where=where,
            remedy=f"the tables are {', '.join(known) or 'none'}; as a query: {error.remedy}",
        ) from None


def _of_query(u: Universe, name: str) -> list[Statistic]:
    """Each answer that can be other than 0."""
    q = u.schema.query(name)
    there = np.unique(q.index[u.schema.possible]).tolist()
    words = q.captions()
    return [
        Statistic(u, name if q.answers == 1 else f"{name}[{i}]", words[i], q.index == i)
        for i in there
    ]
