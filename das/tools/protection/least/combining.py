"""A noisy release and exact coarse tables of the same census: what both tell, and what is left of the
guarantee.

*What is left.* Exact tables have no epsilon. Between two data sets with the same exact tables, the
noisy release still has its guarantee. The least such difference is an exchange: two persons of one
atom, in two lowest units, have each other's places. Each query at the levels below the area
that holds both then changes at four answers by 1, not at two as for one person who moves within it.
So its squared L2 distance is at most twice that of the move, and its cost at most twice the move's
(:mod:`das.accounting.changes`). Above that area nothing changes. A difference that alters an exact
table has no bound at all. The noise that was drawn for a sum becomes public with the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.accounting import zcdp
from das.errors import UserError
from das.files.release.statement import read_ours
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import Codes, level_inside
from das.model.universe import Universe
from das.release.opened import OpenedRelease
from das.tools.protection.least.chain import Grain
from das.tools.protection.least.posterior import NoisyCounts, Posterior, posterior
from das.tools.protection.least.staircase import Staircase

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A count that is told more surely than this is listed.
SURE = 0.9


@dataclass(frozen=True)
class RemainingBound:
    """What the noisy release costs between data sets in which two people of one ``area`` have each
    other's places: ``rho``, and ``epsilon`` at ``delta`` by conversion."""

    area: str
    rho: Fraction
    epsilon: float
    delta: Fraction


@dataclass(frozen=True, eq=False)
class CombinedCounts(Frozen):
    """Counts of the lowest units in the groups of a grain, ``(units, groups)``: ``coarse``, from
    the exact tables alone; ``published`` by the noisy release; and from ``both``."""

    codes: Codes
    grain: Grain
    coarse: Floats
    published: Ints
    both: Posterior

    @property
    def sure(self) -> Ints:
        """Rows of unit, group and count: counts of 1 or 2 that both tell more surely than
        :data:`SURE`, and the exact tables do not."""
        likely = self.both.small[1:] > SURE
        count, unit, group = np.nonzero(likely & (self.coarse % 1 > 0))
        return np.stack([unit, group, count + 1], axis=1)


def combined(
    release: OpenedRelease, codes: Codes, tables: Staircase, *, seed: int, rounds: int
) -> CombinedCounts:
    """Both, for the lowest units of these ``codes``, whose ``tables`` are exact at the grains of
    their chain. Raises :class:`UserError` where the release is of other units."""
    universe = release.after.universes[0]
    lowest = release.spine.levels[-1]
    units = release.spine.find(lowest, codes)
    if (units < 0).any():
        code = str(codes[int((units < 0).argmax())], "utf-8")
        raise UserError(
            f"the coarse tables have {level_inside(lowest)} {code}, the noisy release has none",
            where=release.folder,
            remedy="give two releases of the same census over the same places",
        )
    grain = tables.chain.grains[-1]
    noisy = _noisy(release, universe, units, grain.index)
    return CombinedCounts(
        codes,
        grain,
        tables.estimates(len(tables.chain) - 1, np.arange(len(units))),
        grouped(release.published(universe).some(units), grain),
        posterior(tables, noisy, seed, rounds),
    )


def grouped(h: Histogram, grain: Grain) -> Ints:
    """Counts of a histogram in the groups of a grain, ``(units, groups)``."""
    out = np.zeros((h.units, len(grain)), dtype=np.int64)
    np.add.at(out, (np.repeat(np.arange(h.units), np.diff(h.indptr)), grain.index[h.cell]), h.count)
    return out


def _noisy(release: OpenedRelease, universe: Universe, units: Ints, group: Ints) -> NoisyCounts:
    """From the lowest level's own measurements. Those above it tell of sums that are exact, or next
    to it."""
    source, lowest = release.noisy(universe), release.spine.levels[-1]
    bounds = release.published_bounds(universe)[lowest]
    able = (bounds.limits.upper[:, bounds.group] > 0) & bounds.possible
    parts = []
    for a, b in release.spine.batches(lowest, universe.schema.cells):
        here = np.flatnonzero((units >= a) & (units < b))
        if len(here):
            read = [source.read(lowest, q, a, b) for q in source.queries(lowest)]
            some = [
                type(m)(m.level, m.query, 0, m.values[units[here] - a], m.variance[units[here] - a])
                for m in read
            ]
            allowed = able[bounds.limits.row[units[here]]]
            found = NoisyCounts.from_measurements(universe.schema, some, group, allowed)
            parts.append((here, found))
    return NoisyCounts.joined(parts, len(units))


def remaining(release: OpenedRelease) -> Sequence[RemainingBound]:
    """What is left of the guarantee of a noisy release, smallest area first."""
    stated = read_ours(release.folder)
    name = release.after.universes[0].name
    out = []
    for change in stated.changes[name]:
        if change.kind == "place":
            rho, delta = 2 * change.cost, change.delta
            area = level_inside(change.what.rsplit(" ", 1)[1])
            out.append(RemainingBound(area, rho, zcdp.tight(rho, delta), delta))
    return sorted(out, key=lambda r: r.rho)
