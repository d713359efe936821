"""The page of some areas: a plan's ideal population and deviations, and counts with the estimates
from the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from das.model.not_private import Private
from das.report.template import environment

#: An interval is called wide where half its width is more than this of the estimate.
WIDE = 0.1


@dataclass(frozen=True)
class AreaCell:
    """One count of one area: the interval of the ``published`` count from replicates, ``lower`` to
    ``upper``; the unbiased ``estimate`` and its own, ``low`` to ``high``. ``None`` where there is
    none."""

    published: int
    estimate: int | None = None
    low: int | None = None
    high: int | None = None
    lower: int | None = None
    upper: int | None = None

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high

    @property
    def outside(self) -> bool:
        return (
            self.low is not None
            and self.high is not None
            and not self.low <= self.published <= self.high
        )

    @property
    def wide(self) -> bool:
        if self.low is None or self.high is None or self.estimate is None:
            return False
        return self.high - self.low > 2 * WIDE * abs(self.estimate)


@dataclass(frozen=True)
class AreaSection:
    """One table of the page: ``rows`` are areas by their titles, with a cell for each of
    ``columns``. ``shares``: each cell is part of the first of its row, whose share is shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[AreaCell, ...]], ...]
    shares: bool = False

    @property
    def wide(self) -> int:
        return sum(c.wide for _, cells in self.rows for c in cells)

    @property
    def intervals(self) -> int:
        return sum(c.low is not None for _, cells in self.rows for c in cells)


@dataclass(frozen=True)
class ComputedLine:
    """What is computed of one area, or of all together: the published value, and the ends of its
    interval where there is one.
    """

    area: str
    what: str
    published: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class PlanSummary:
    """Districts by their titles with their populations. ``exact``: the population of all of them
    together is not an estimate.
    """

    districts: tuple[tuple[str, AreaCell], ...]
    exact: bool

    @property
    def ideal(self) -> float:
        return sum(c.published for _, c in self.districts) / len(self.districts)

    @property
    def least(self) -> tuple[str, AreaCell]:
        return min(self.districts, key=lambda d: d[1].published)

    @property
    def most(self) -> tuple[str, AreaCell]:
        return max(self.districts, key=lambda d: d[1].published)

    @property
    def range(self) -> int:
        return self.most[1].published - self.least[1].published


def area_html(
    name: str,
    kind: str,
    areas: int,
    coverage: float,
    sections: Sequence[AreaSection],
    plan: PlanSummary | None,
    computed: Sequence[ComputedLine] = (),
    *,
    private: Private,
    replicates: int = 0,
) -> str:
    """The page of the areas. ``name`` is the release's; ``replicates`` is how many it has. The same
    arguments give the same page."""
    page = environment().get_template("areas.html")
    return page.render(
        name=name,
        kind=kind,
        areas=areas,
        coverage=100 * coverage,
        sections=sections,
        plan=plan,
        computed=computed,
        private=private,
        replicates=replicates,
        wide=100 * WIDE,
    )
