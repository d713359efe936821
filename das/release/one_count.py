"""One number of each place of a release, of whatever publication: an answer to a query, or a line
of a published table.

Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.model.histogram import Histogram
from das.model.labels import NOT_COUNTED
from das.model.query import Query
from das.model.spelling import named
from das.model.spelling import query as spelt
from das.model.universe import Universe
from das.release.replicate_source import ReleaseSource
from das.report.answers import titled
from das.tables import Table

#: Answers or lines that a message lists.
LISTED = 20


@dataclass(frozen=True, eq=False)
class OneCount:
    """A count of records of one universe: the sum of the answers to ``query``, each taken ``times``
    over, ``(answers,)``.

    ``of`` is the request as it was written; ``says`` what is counted, in words. ``line`` is the
    table and its column, where it is one."""

    universe: Universe
    query: Query
    times: NDArray[np.int64]
    of: str
    says: str
    line: tuple[Table, int] | None = None

    @property
    def cells(self) -> NDArray[np.bool_]:
        """The cells that are counted, ``(cells,)``."""
        return (self.times > 0)[self.query.index]

    def values(self, h: Histogram) -> NDArray[np.int64]:
        """The count in each unit, ``(units,)``."""
        counted = self.times[self.query.at(h.cell)] * h.count
        return np.diff(np.concatenate([[0], np.cumsum(counted)])[h.indptr])


def chosen(
    source: ReleaseSource, universe: str | None, query: str, table: str | None, answer: str | None
) -> OneCount:
    """The count that a person asks for.

    It is a ``query`` of a ``universe`` (persons, where none is named), or a ``table``, and one
    ``answer`` or line of it. That is given by its words, its number from 1, or the field of a line.
    Raises :class:`UserError` for anything that does not exist."""
    every = {u.name: u for u in source.universes}
    name = None if universe is None else named(universe, [*every], "universe", "--universe")
    if table is not None:
        return _line(source, name, table, answer)
    u = every[name or next(iter(every))]
    q = u.schema.query(spelt(query, u.schema, (), "--query"))
    labels, title = q.captions(), titled(q, source.assigned(u))
    i = _which(q.name, labels, (), answer)
    what = labels[i] if len(labels) > 1 else u.schema.words.total
    said = f"{what} of {title}" if NOT_COUNTED in title else what
    times = np.zeros(q.answers, dtype=np.int64)
    times[i] = 1
    return OneCount(u, q, times, q.name, said)


def _line(source: ReleaseSource, universe: str | None, table: str, answer: str | None) -> OneCount:
    every = [t for u, t in source.tables if universe is None or u.name == universe]
    name = named(table, [t.name for t in every], "table", "--table")
    t = next(t for t in every if t.name == name)
    j = _which(t.name, t.labels, t.columns, answer)
    says = f"{t.full_label(j)} ({t.columns[j]}, {t.title})"
    return OneCount(source.universe(t), t.query, t.times(j), t.name, says, (t, j))


def _which(of: str, labels: Sequence[str], fields: Sequence[str], answer: str | None) -> int:
    """Which of the answers to a query, or of the lines of a table, is meant."""
    if answer is None and len(labels) == 1:
        return 0
    listed = "; ".join(f"{k}: {x}" for k, x in enumerate(labels[:LISTED], 1))
    listed += f"; and {len(labels) - LISTED:,} more" if len(labels) > LISTED else ""
    if answer is None:
        raise UserError(
            f"{of!r} has {len(labels):,} answers, and a map shows one",
            where="--answer",
            remedy=f"choose by number or name, of {listed}",
        )
    if answer.isdigit() and 1 <= int(answer) <= len(labels):
        return int(answer) - 1
    meant = answer.strip().casefold()
    same = [k for k, x in enumerate(labels) if x.casefold() == meant]
    same = [k for k, x in enumerate(fields) if x.casefold() == meant] or same
    if len(same) != 1:
        lines = " and ".join(str(k + 1) for k in same)
        raise UserError(
            f"no answer {answer!r} to {of!r}" if not same else f"{answer!r} is {lines} of {of!r}",
            where="--answer",
            remedy=f"choose of {listed}" if not same else "choose one by its number",
        )
    return same[0]
