"""All counts of the errors of a run, or of a part of it: small values that add up.

A run is counted in parts, each with some levels of some units: the upper levels of the whole
tree, and the lower ones of a subtree (:mod:`das.model.subtrees`). Families of siblings are in
one part. Whole numbers are added up exactly, in any order. Sums of percent errors and of shares
are added in the order of the parts, which is that of the subtrees. So the result does not depend
on which process counted which part. It differs from the sums of a whole run only by
floating-point rounding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from das.evaluate.errors import grouped
from das.evaluate.impossible import merged
from das.model.error_rows import ImpossibleRow
from das.model.frozen import Closed
from das.truth.evaluation.accuracy import QueryTally
from das.truth.evaluation.tables import TableTallies

#: The number of parts that are added at once.
TOGETHER = 16


@dataclass(frozen=True, repr=False)
class UniverseTallies(Closed):
    """Tallies of one universe: queries, over the measured units; tables, over the published
    ones."""

    universe: str
    queries: tuple[QueryTally, ...]
    tables: TableTallies

    @staticmethod
    def merged(parts: list[UniverseTallies]) -> UniverseTallies:
        """The tallies of all parts."""
        queries = grouped((q for p in parts for q in p.queries), lambda q: (q.level, q.query))
        return UniverseTallies(
            parts[0].universe,
            tuple(map(QueryTally.merged, queries)),
            TableTallies.merged([p.tables for p in parts]),
        )


@dataclass(frozen=True, repr=False)
class Tallies(Closed):
    """By universe; and how many of the lowest units are as they cannot be."""

    universes: tuple[UniverseTallies, ...]
    impossible: tuple[ImpossibleRow, ...]

    @staticmethod
    def merged(parts: Iterable[Tallies]) -> Tallies:
        """The sum over all parts; memory holds a few parts at a time. The part of the upper levels
        must come first, then those of the subtrees in their order."""
        rest, total = iter(parts), list[Tallies]()
        while some := list(islice(rest, TOGETHER)):
            total = [Tallies._added([*total, *some])]
        return total[0]

    @staticmethod
    def _added(parts: list[Tallies]) -> Tallies:
        universes = grouped((u for p in parts for u in p.universes), lambda u: u.universe)
        odd = merged(row for p in parts for row in p.impossible)
        return Tallies(tuple(map(UniverseTallies.merged, universes)), tuple(odd))
