"""The ledger: what was drawn, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Protocol

import numpy as np

from das.errors import PrivacyError
from das.model.budget import (
    PlannedMeasurement,
    UnitPath,
    check_covered,
    check_currency,
    seen,
    through,
    total,
)
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Planned, RecordKind


@dataclass(frozen=True)
class Event(PlannedMeasurement):
    """One line of the ledger: a draw that was made, of ``units`` units of a universe with
    ``answers`` answers each."""

    universe: str
    units: int
    answers: int

    @staticmethod
    def from_measurement(
        draw: PlannedMeasurement, universe: str, units: int, answers: int
    ) -> Event:
        """That ``draw`` was made."""
        return Event(
            draw.level,
            draw.query,
            draw.mechanism,
            draw.parameter,
            draw.cost,
            universe,
            units,
            answers,
            unit_class=draw.unit_class,
            stability=draw.stability,
        )


class Ledger:
    """Append-only record of the draws. The cost of its costliest path never exceeds its budget.

    ``write`` is called with each event before :meth:`append` returns, and so before its first draw:
    a ledger on disk is never behind. ``spent`` are the events of an earlier, interrupted process.
    ``paths`` are those of the plan; they may be left out where each level has one class of units.
    """

    def __init__(
        self,
        budget: Fraction,
        write: Callable[[Event], None] | None = None,
        spent: Iterable[Event] = (),
        paths: Sequence[UnitPath] = (),
    ) -> None:
        self.budget = budget
        self._write = write
        self._paths = tuple(paths)
        self._events: list[Event] = []
        self._costs = (Fraction(0),) * max(1, len(self._paths))  # of each path
        for event in spent:
            self._take(event, self._with(event))
        if self.cost > budget:
            raise PrivacyError(f"{self.cost} was spent of a budget of {budget}", where="ledger")

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    @property
    def cost(self) -> Fraction:
        return max(self._costs)

    def append(self, event: Event) -> None:
        """Add an event. Refuses, before anything is drawn, an event that the
        budget does not cover."""
        where = f"{event.query!r} at {event.level!r}"
        if event.cost <= 0:
            raise PrivacyError(f"{where} costs {event.cost}, not positive", where="ledger")
        after = self._with(event)
        if (most := max(after)) > self.budget:
            raise PrivacyError(
                f"measuring {where} would spend {most} of a budget of {self.budget}", where="ledger"
            )
        if self._write is not None:
            self._write(event)
        self._take(event, after)

    def _with(self, event: Event) -> tuple[Fraction, ...]:
        """What each path costs with one event more: exactly its cost more where it is on it. All
        events so far are on a path, and of one currency, and so must this be."""
        paths = self._paths or (through([*self._events, event]),)
        check_covered([event], paths)
        check_currency([*self._events[:1], event])
        return tuple(
            cost + total(seen([event], path)) for cost, path in zip(self._costs, paths, strict=True)
        )

    def _take(self, event: Event, costs: tuple[Fraction, ...]) -> None:
        self._events.append(event)
        self._costs = costs


# Redundant measurements: the counts that they measure are published exactly.
#
# **Which.** Let every place v of level L publish :math:`Q x_v` without noise. The measurement of
# query q at level :math:`\ell` is *redundant* in a unit u if
#
# 1. u is a disjoint union of places of L: :math:`\ell` is L or above, and u has no part of a place of
# L without the rest;
# 2. all cells that can occur and are in one answer of Q are also in one answer of q: :math:`q = A Q`,
# except for structural zeros.
#
# **Why.** Then :math:`q x_u = A \sum_{v \subseteq u} Q x_v` is known. So the measurement :math:`m = q
# x_u + z` reveals only the noise z, which depends on nothing else. Given the exact counts, m has one
# distribution for all histograms. In least squares it adds the same constant for every x that keeps
# the exact counts.
#
# **Why no others.** Exact counts of a universe nest. So, among those at L and below, the finest says
# everything known about u. Suppose that one of its answers has two cells that can be in different
# answers of q. Or suppose that it covers u only together with other units. Add one person to one of
# these cells or units and remove one from another. This changes no exact count, but it changes the
# mean of m. Bounds by buildings leave room for such a pair, except in single units.
#
# The same measurements drop out of the guarantee between neighbors that agree on the exact counts
# (:mod:`das.accounting.invariant_neighbours`, which ignores structural zeros). The unbiased estimates
# of full information do not use an exact count that is not a total, but they use a redundant
# measurement. No published count uses one.


@dataclass(frozen=True)
class RedundantMeasurement:
    """A ``measurement`` whose answers follow from what is ``known``, level and query of exact
    counts; its ``share`` of the budget.

    ``kept``: these were published before, and are kept as they are. ``everywhere``: in every unit
    that it measures. Otherwise places of the known level may be in two units, and it is redundant
    in ``units`` of the ``of`` units that it measures; both ``None`` as long as there is no tree."""

    measurement: PlannedMeasurement
    known: tuple[str, str]
    share: Fraction
    everywhere: bool = True
    units: int | None = None
    of: int | None = None
    kept: bool = False

    def on(self, tree: MeasuredSpine, published: Spine) -> RedundantMeasurement:
        """The same, given the tree and the places whose counts are published."""
        here = tree.classes(self.measurement.level)[self.measurement.unit_class]
        whole = tree.whole(self.measurement.level, self.known[0], published)[here]
        return replace(self, everywhere=bool(whole.all()), units=int(whole.sum()), of=len(whole))


class MeasuredRecords(Protocol):
    """Records of one kind, and what is measured of them."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> RecordKind: ...

    @property
    def records(self) -> str: ...

    @property
    def plan(self) -> Plan: ...


#: Each with its universe.
RedundantMeasurements = Sequence[tuple[MeasuredRecords, RedundantMeasurement]]


def redundant(
    universe: Planned, levels: Sequence[str], split: Collection[str] = ()
) -> tuple[RedundantMeasurement, ...]:
    """The measurements of a universe's plan that add nothing, or may in some units: where at the
    levels ``split`` a place may be in two units. ``levels`` are all of the tree, root first."""
    parts = set(split) - {levels[-1]}  # the lowest units are whole
    is_known = cache(partial(follows, universe.schema))  # classes are asked the same
    found = []
    for measurement in universe.plan.measurements:
        known = [
            (lv, q)
            for lv, q in universe.exact.counts
            if levels.index(lv) >= levels.index(measurement.level)
            and is_known(measurement.query, q)
        ]
        if known:
            whole = [at for at in known if at[0] not in parts or measurement.level not in parts]
            share = measurement.cost / universe.plan.cost
            found.append(
                RedundantMeasurement(
                    measurement, (whole or known)[0], share, everywhere=bool(whole)
                )
            )
    return tuple(found)


def redundant_on(
    universe: Planned, tree: MeasuredSpine, published: Spine
) -> tuple[RedundantMeasurement, ...]:
    """As :func:`redundant`, where the tree is known that the universe is measured over: of each
    level and query that is redundant in some unit the measurements of all classes."""
    found = [
        i.on(tree, published)
        for i in redundant(universe.on(UnitClasses.from_tree(tree)), tree.spine.levels, tree.split)
    ]
    some = {(i.measurement.level, i.measurement.query) for i in found if i.units}
    return tuple(i for i in found if (i.measurement.level, i.measurement.query) in some)


def open_answers(schema: Schema, query: str, known: str) -> int:
    """How many answers of ``query`` the exact answers of ``known`` leave open: the rank of the one
    next to the other. 0: the query adds nothing.

    Both are partitions of the cells that can occur. An answer of the one and an answer of the
    other are joined if they have a cell in common. The only sums of the query that are known are
    those of all answers that are joined, directly or through others. So each such group leaves
    one answer less open than it has.

    >>> from das.model.redistricting import PL94
    >>> open_answers(PL94, "cenrace", "hispanic"), open_answers(PL94, "hispanic", "cenrace")
    (62, 1)"""
    cells = np.flatnonzero(schema.possible)
    mine, theirs = schema.query(query).at(cells), schema.query(known).at(cells)
    pairs = np.unique(mine * (theirs.max() + 1) + theirs)
    group: dict[int, int] = {}

    def top(x: int) -> int:
        while group.setdefault(x, x) != x:
            group[x] = x = group[group[x]]
        return x

    answers = set()
    for a, b in zip(*(x.tolist() for x in np.divmod(pairs, theirs.max() + 1)), strict=True):
        answers.add(a)
        group[top(a)] = top(-1 - b)
    return len(answers) - len({top(a) for a in answers})


def follows(schema: Schema, query: str, known: str) -> bool:
    """Whether each answer of ``query`` is a sum of answers of ``known``, for records that can
    occur.

    >>> from das.model.redistricting import PL94
    >>> follows(PL94, "total", "hispanic"), follows(PL94, "hispanic", "total")
    (True, False)"""
    coarse, fine = (schema.query(q).index[schema.possible] for q in (query, known))
    pairs = np.unique(fine * schema.query(query).answers + coarse)
    return len(pairs) == len(np.unique(fine))
