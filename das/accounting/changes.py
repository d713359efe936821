r"""What a release tells of one change of one record: of an attribute, or of its place.

A record that keeps its place and changes some attributes leaves every query alone that sums over
these: the answer that it falls in stays the same. A query that tells two levels of one of them
apart changes in two answers at most, by 1 each, at every level of the tree. A record that moves
within a unit of level :math:`L` and keeps its attributes leaves all levels down to :math:`L` alone;
below, each query changes in one answer of the unit that it left and one of the unit that it came
to. So either change is the replacement of one record in fewer draws, two answers in each:

.. math:: \rho = \sum_d 2/(2\sigma_d^2) \qquad \text{or, for the geometric mechanism,} \qquad
          \varepsilon = \sum_d 2/b_d,

the sums over the draws that it touches, and exact composition over the same. Under bounded
neighbours a draw costs just that; under unbounded ones half of it, as a replacement is one removal
and one addition.

Between the two lies any replacement within a unit of L, of place and attributes: it leaves
``total`` alone at L and above, and nothing else. Where totals of L are published exactly it is the
largest change that agrees with them.

The bound is reached if some pair of values is told apart by all groupings of the changed
attributes, which holds wherever an attribute is measured by two different groupings at most. The
Bureau's certificates state the same two kinds: by attribute, and "block within" each level."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from das.accounting.draws import Differing, differing
from das.accounting.invariant_neighbours import ExactQueries, free
from das.model.budget import PlannedMeasurement, UnitPath, through
from das.model.schema import Schema

#: Paths, of the place that a record leaves and the one that it comes to.
Move = tuple[UnitPath, UnitPath]


@dataclass(frozen=True)
class Change:
    """``kind`` is ``record`` (replaced by any other, or by any within a unit), ``attributes`` or
    ``place``; ``what`` says which."""

    kind: str
    what: str
    differing: Differing

    @property
    def says(self) -> str:
        """What differs, in words."""
        same = {"record": "", "attributes": " (same place)", "place": " (same attributes)"}[
            self.kind
        ]
        return f"{self.what}{same}"


def changes(
    draws: Sequence[PlannedMeasurement],
    schema: Schema,
    levels: Sequence[str],
    exact: ExactQueries = (),
    paths: Sequence[UnitPath] = (),
    split: Collection[str] = (),
) -> list[Change]:
    """The whole record, and that within one unit of each level whose totals are ``exact``; each
    attribute, each product of attributes that a query names, all of them; then moves, within each
    level but the lowest, root first. Of moves between several paths, each line is about the worst.
    Units are those of the tree that is measured: where a place is in two of them, at the levels
    ``split``, what is exact of it is not of either."""
    paths = paths or [through(draws)]
    anywhere, nowhere = list(combinations_with_replacement(paths, 2)), [(p, p) for p in paths]
    moving = tuple(a.name for a in schema.attributes if len(a.levels) > 1)
    groups = dict.fromkeys(
        [*((a,) for a in moving), *_measured_together(draws, schema, moving), moving]
    )
    return [
        Change("record", "anything", differing(draws, anywhere)),
        *(
            Change(
                "record",
                f"anything within one {top}",
                differing(
                    free(draws, [(top, query)], schema, levels, split),
                    _moves_within(anywhere, levels, top),
                ),
            )
            for top, query in exact
            if schema.query(query).answers == 1
        ),
        *(
            Change(
                "attributes",
                "every attribute" if g == moving and len(g) > 1 else " * ".join(g),
                differing(touched(draws, schema, g), nowhere),
            )
            for g in groups
            if g
        ),
        *(
            Change(
                "place",
                f"place within one {top}",
                differing(below(draws, levels, top), _moves_within(anywhere, levels, top)),
            )
            for top in levels[:-1]
        ),
    ]


def _moves_within(moves: Iterable[Move], levels: Sequence[str], top: str) -> list[Move]:
    """The moves between places under one unit of level ``top``: they share all classes down to
    it.
    """
    upper = set(levels[: levels.index(top) + 1])
    return [
        (a, b)
        for a, b in moves
        if [x for x in a if x[0] in upper] == [x for x in b if x[0] in upper]
    ]


def touched(
    draws: Iterable[PlannedMeasurement], schema: Schema, attributes: Sequence[str]
) -> list[PlannedMeasurement]:
    """The draws that a change of these attributes can reach: those whose query does not sum over
    all of them.
    """
    axes = [schema.axis(a) for a in attributes]
    return [d for d in draws if any(not schema.query(d.query).groupings[i].is_total for i in axes)]


def below(
    draws: Iterable[PlannedMeasurement], levels: Sequence[str], top: str
) -> list[PlannedMeasurement]:
    """The draws that a move within a unit of level ``top`` can reach: those of the levels below."""
    lower = set(levels[levels.index(top) + 1 :])
    return [d for d in draws if d.level in lower]


def _measured_together(
    draws: Iterable[PlannedMeasurement], schema: Schema, moving: Sequence[str]
) -> list[tuple[str, ...]]:
    """The attributes of each query that has several, fewest first."""
    queries = {d.query: schema.query(d.query).groupings for d in draws}
    found = {tuple(g.attribute for g in gs if not g.is_total) for gs in queries.values()}
    return sorted(
        (g for g in found if len(g) > 1), key=lambda g: (len(g), [moving.index(a) for a in g])
    )
