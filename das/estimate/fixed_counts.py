r"""Counts that are exact in every unit, and the cells in which the counted persons can be.

In every block the DHC has the redistricting counts that were published before, and its households
are the occupied units of each tenure. These *fixed* counts are the answers to one query of the
schema. Those of each level are the sums of those of the lowest level.

**Kinds.** A fixed count of persons in one class of group quarters can be only in types that the
block has a facility of. Different blocks have different types. So children could no longer exchange
every variable, and the counts published above might not fit into the blocks. By the theorem of Hall
and Rado, one would need a constraint for every set S of types of a class. It would hold the persons
in S to the fixed counts of blocks with a facility in S. These sets overlap, and overlapping rows
are not a flow. Instead each fixed count carries its *kind*, the set of types of the class that its
block has. A cell is counted by kind, at all levels, and the counts of a kind have a fixed sum.
Within one fixed count and kind, every variable is possible in every child that has somebody in it.
So the problem is a transportation problem again, for real numbers and for integers. The sum over
kinds is a histogram that fits into the blocks, and every histogram that fits is such a sum.
Measurements are of cells, so they measure sums over kinds. Most classes have one type in a block,
so kinds add few variables.

**Any tree.** Let :math:`g_b` be the fixed counts of the lowest units b, by kind: integers,
nonnegative. Take any tree over these units, and let :math:`g_u = \sum_{b \le u} g_b`. Then every
problem on the way down has an integer solution, whatever tree the counts were released on.

*Proof.* The root has a histogram p with :math:`F p = g`, because each fixed answer has a possible
cell. Now let a parent u have :math:`F p = g_u`. Its children partition its lowest units, so
:math:`\sum_c g_c = g_u`. For each answer a of F, by kind, the children must share out the cells
:math:`p_k`, k in a, with sums :math:`g_{ca}`. Every child with :math:`g_{ca} > 0` can have every
such cell. So :math:`x_{ck} = p_k g_{ca} / g_{ua}` is a solution, of a transportation problem with
integer sums. Its vertices are integers. A child then has :math:`F x_c = g_c`, so the same holds
for it and its children. Later passes repeat the argument with the sums that an earlier pass froze
instead of :math:`g` (:mod:`das.estimate.outer`). Of the tree, only :math:`\sum_c g_c = g_u` was
used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError, InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FixedCounts(Frozen):
    """For each level, ``counts`` has its units' answers to ``query``, by kind: answer a of kind j
    is ``j * answers + a``. ``able`` ``(kinds, levels)`` says which levels of the attribute ``axis``
    a kind can have."""

    query: str
    axis: int
    able: Mask
    counts: Mapping[str, Histogram]

    @staticmethod
    def from_histogram(
        schema: Schema,
        query: str,
        lowest: Histogram,
        spine: Spine,
        able: Mask | None = None,
        kinds: Mask | None = None,
    ) -> FixedCounts:
        """``lowest``: the answers of the lowest units; ``able`` ``(units, levels of the schema's
        dwelling)``: where somebody can live, in each of them. A unit that has people of a class,
        and nowhere for them, may have them anywhere of that class. Of a part of a tree ``kinds``
        are those of the whole (:attr:`able`), for a kind has one number everywhere.

        Raises:
            InputError: counts of another query, or places of another schema."""
        asked = schema.query(query)
        axis = 0 if schema.dwelling is None else schema.axis(schema.dwelling)
        levels = schema.shape[axis]
        if lowest.cells != asked.answers or lowest.units != spine.units(spine.levels[-1]):
            raise InputError(
                f"{lowest.units} units x {lowest.cells} counts are not those of {query!r}",
                where="fixed counts",
                remedy=f"give {asked.answers} counts of each lowest unit",
            )
        if able is None:
            return FixedCounts(query, axis, np.ones((1, levels), dtype=bool), lowest.upward(spine))
        if able.shape != (lowest.units, levels):
            raise InputError(
                f"an array {able.shape}",
                where="fixed counts: where somebody can live",
                remedy=f"give a row of {levels} for each of {lowest.units} units",
            )
        found, of_unit = _kinds(asked, axis, able)
        if kinds is None:
            kinds = found
        else:
            of_unit = _numbered(found, kinds)[of_unit]
        step = int(np.prod(asked.shape[axis + 1 :]))
        kind = of_unit[lowest.unit, lowest.cell // step % asked.shape[axis]]
        by_kind = Histogram.from_triplets(
            lowest.units,
            len(kinds) * asked.answers,
            lowest.unit,
            kind * asked.answers + lowest.cell,
            lowest.count,
        )
        return FixedCounts(query, axis, kinds, by_kind.upward(spine))

    @property
    def kinds(self) -> int:
        return len(self.able)

    def possible(self, schema: Schema, known: Histogram, last: Query) -> Ints:
        """All cells that a root can have, by kind, given its answers ``known`` to ``last``, by
        kind.

        Raises:
            InfeasibleError: no cell is possible for some count."""
        cells = np.flatnonzero(schema.possible)
        level = cells // int(np.prod(schema.shape[self.axis + 1 :])) % schema.shape[self.axis]
        answer, found = last.at(cells), []
        for kind, able in enumerate(self.able):
            there = np.zeros(last.answers, dtype=bool)
            there[known.cell[known.cell // last.answers == kind] % last.answers] = True
            here = there[answer] & able[level]
            if missing := set(np.flatnonzero(there)) - set(answer[here]):
                raise InfeasibleError(
                    f"answer {min(missing)} of {last.name!r} is published, and none of its cells is"
                    " possible",
                    where=f"schema {schema.name!r}",
                    remedy="compare the fixed counts with the structural zeros",
                )
            found.append(kind * schema.cells + cells[here])
        return np.concatenate(found)

    def without_kinds(self, h: Histogram, cells: int) -> Histogram:
        """The counts with all kinds added up."""
        return Histogram.from_triplets(h.units, cells, h.unit, h.cell % cells, h.count)


def _kinds(asked: Query, axis: int, able: Mask) -> tuple[Mask, Ints]:
    """The kinds ``(kinds, levels)``, and of each unit the kind of each group of the attribute,
    ``(units, groups)``."""
    group = np.asarray(asked.groupings[axis].index)
    found, of_unit, number = [], np.zeros((len(able), asked.shape[axis]), dtype=np.int64), 0
    for g in range(asked.shape[axis]):
        rows = able & (group == g)
        rows[~rows.any(axis=1)] = group == g
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        found.append(distinct)
        of_unit[:, g] = number + inverse.ravel()
        number += len(distinct)
    return np.concatenate(found), of_unit


def _numbered(partial: Mask, kinds: Mask) -> Ints:
    """The numbers that kinds of a part have in the whole, ``(kinds of the part,)``: no two of the
    whole are the same, for each is within one class."""
    numbers = {kind.tobytes(): number for number, kind in enumerate(kinds)}
    return np.array([numbers[kind.tobytes()] for kind in partial], dtype=np.int64)
