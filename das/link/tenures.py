r"""The tenure of each householder of a block group: by class as the skeleton has it, by kind of couple
as the published households have it.

Householders of a class c who are in couples of kind k are :math:`n_{ck}`. Which of them rent is a
transportation: :math:`r_{ck} \le n_{ck}`, with :math:`\sum_k r_{ck}` given by the skeleton and
:math:`\sum_c r_{ck}` by the households. Two families of sums are a network. Who of the others has
no mortgage is another one. (All three tenures at once would be three families that cross.) Where
both cannot hold, the skeleton does: what is over by kind of couple costs less."""

from __future__ import annotations

import numpy as np

from das.errors import SolverError
from das.link.fields import Ints, N
from das.link.householders import class_of_persons, first_of_each, shared_out
from das.link.people import HomePersons
from das.link.skeleton_cells import RACES, TENURES, WIDTH
from das.model.dhc.members import HEADS
from das.solve.flow import Flow

#: Kinds of householders: in four kinds of couples, with others, alone.
_KINDS, _ALONE = N + 2, N + 1
_OVER_KIND, _MANY = 10, 1 << 30
#: Classes that are alike: as many as there are, and what one costs instead of another. Of one sex,
#: age, origin and race, whether alone or not; of one origin and race; all.
_SIMILAR = ((WIDTH, 20), (RACES, 40), (1, 90))


def tenures(
    people: HomePersons, heads: Ints, couple: Ints, skeleton: Ints, wanted: Ints, order: Ints
) -> Ints:
    """The tenure of each householder, ``(heads,)``. ``couple``: the kind of couple that each is in;
    ``skeleton``: householders of the block group, ``(1512,)``; ``wanted``: households by kind of
    couple and tenure, ``(5, 3)``. Of those who are alike the first of an ``order`` of householders
    are taken."""
    alone = people.relgq[heads] == HEADS[0]
    kind = np.where(alone, _ALONE, couple)
    cls = np.where(alone, 0, WIDTH) + class_of_persons(people)[heads]
    by_class = skeleton.reshape(-1, TENURES)
    by_kind = np.concatenate([wanted, np.full((1, TENURES), _MANY)])
    out, left = np.zeros(len(heads), dtype=np.int64), order
    for tenure in range(TENURES - 1, 0, -1):
        rest = by_class[:, : tenure + 1].sum()
        due = by_class[:, tenure]
        if rest != len(left):
            due = shared_out(int(np.rint(len(left) * due.sum() / max(1, rest))), due)
        chosen = left[_taken(cls[left], kind[left], due, by_kind[:, tenure])]
        out[chosen] = tenure
        left = left[~np.isin(left, chosen)]
    return out


def _taken(cls: Ints, kind: Ints, due: Ints, free: Ints) -> np.ndarray:
    """Whom a flow takes of some householders, ``(householders,)``: ``due`` of each class, up to
    ``free`` of each kind without a price."""
    alike, group, many = np.unique(
        np.stack([cls, kind], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    groups, classes, group = len(many), len(due), group.reshape(-1)
    node, flow = classes + np.arange(groups), Flow()
    flow.add(alike[:, 0], node, many, np.zeros(groups))
    first, tail, used = classes + groups, np.flatnonzero(due), np.flatnonzero(due)
    for width, price in _SIMILAR:
        hub = first + np.arange(width)
        flow.add(tail, hub[used % width], due[used], np.full(len(used), price))
        flow.add(hub[alike[:, 0] % width], node, many, np.zeros(groups))
        first += width
    ends, sink = first + np.arange(_KINDS), first + _KINDS
    flow.add(node, ends[alike[:, 1]], many, np.zeros(groups))
    entered = len(np.concatenate(flow.tail)) - groups
    for room, price in ((free, 0), (np.full(_KINDS, _MANY), _OVER_KIND)):
        flow.add(ends, np.full(_KINDS, sink), room, np.full(_KINDS, price))
    supply = np.zeros(sink + 1, dtype=np.int64)
    supply[:classes] = due
    found = flow.solve(supply, sink)
    if found is None:
        raise SolverError("more tenures than householders", where="tenures of a block group")
    # what enters a group leaves it by one arc
    return first_of_each(group, found[entered : entered + groups], np.arange(len(cls)))
