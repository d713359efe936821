"""The ledger: what was drawn, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

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


@dataclass(frozen=True)
class Event(PlannedMeasurement):
    """One line of the ledger: a draw that was made, of ``units`` units of a universe with
    ``answers`` answers each.
    """

    universe: str
    units: int
    answers: int

    @staticmethod
    def of(draw: PlannedMeasurement, universe: str, units: int, answers: int) -> Event:
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
    """Append-only record of the draws. The cost of its dearest path never exceeds its budget.

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
        """Add an event. Add an event. Refuses, before anything is drawn, an event that the
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
