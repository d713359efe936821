"""The lines of ``results.csv`` and ``summary.csv`` of a study of protection methods."""

from __future__ import annotations

from dataclasses import dataclass

from das.model.closed import Closed

#: The values of ``tables``: the published ones alone, or with those of another product.
PUBLISHED, WITH_ALSO = "published", "published and also"


@dataclass(frozen=True, repr=False)
class FrontierRow(Closed):
    """One measure of one point of the frontier: a line of ``results.csv``.

    A point is a ``curve``, its ``setting`` (from 0; ``label`` in words, ``named`` where the study
    names a published one), the ``tables`` that were attacked, and a ``repeat``. ``measure`` says what ``value`` is. ``persons`` names the group of
    persons of a score (``nonmodal unique``; with the size of their unit, and ``unique`` for units
    whose records the tables determine). ``level``, ``use`` and ``column`` are those of an error or
    of withheld lines. ``of`` is the denominator; ``se`` the standard error of the sample of places,
    empty where all were taken or one alone."""

    curve: str
    setting: int
    label: str
    named: str
    method: str
    guarantee: str
    random: str
    tables: str
    repeat: int
    measure: str
    persons: str
    level: str
    use: str
    column: str
    value: float | None
    of: float
    se: float | None


@dataclass(frozen=True, repr=False)
class FrontierMean(Closed):
    """A measure over the ``repeats`` of a setting: a line of ``summary.csv``. ``low`` and ``high``
    are the interval at 95 % of the mean over keys, empty with fewer than two; ``se`` is the
    standard error of the sample of places, over all repeats together."""

    curve: str
    setting: int
    label: str
    named: str
    method: str
    guarantee: str
    random: str
    tables: str
    repeats: int
    measure: str
    persons: str
    level: str
    use: str
    column: str
    value: float | None
    low: float | None
    high: float | None
    se: float | None

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """What is measured."""
        return self.measure, self.persons, self.level, self.use, self.column
