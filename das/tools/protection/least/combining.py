"""A noisy release and exact coarse tables of the same census: what both tell, and what is left of the
guarantee.

*What is left.* Exact tables have no epsilon. Between two data sets with the same exact tables, the
noisy release still has its guarantee. If the search would have chosen other atoms for one of them,
the choice tells the two apart. The least such difference is an exchange: two persons of one
atom, in two lowest units, have each other's places. Each query at the levels below the area
that holds both then changes by 1 at four answers. One person who moves within it changes two. So
the squared L2 distance is at most twice that of the move, and so is the cost
(:mod:`das.accounting.changes`). Above that area nothing changes. A difference that alters an exact
table has no bound at all: whatever changes the total of a lowest unit, or a group of the finest
grain. Attributes that no grain shows keep the bound that the noisy release states for them, and so
do other universes. The noise that was drawn for a sum becomes public with the sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.accounting import zcdp
from das.accounting.document import PureChange
from das.engine.tasks import SILENT, Progress
from das.errors import SpecError, UserError
from das.files.release.statement import read_ours
from das.model.frozen import Frozen
from das.model.names import Codes, encoded, level_inside, text
from das.model.schema import Schema
from das.model.spine import places
from das.model.universe import Universe
from das.release.opened import OpenedRelease
from das.report.privacy import bound
from das.tools.protection.least.chain import Chain, Grain
from das.tools.protection.least.files import LeastRelease
from das.tools.protection.least.posterior import SMALL, NoisyCounts, Posterior, posterior
from das.tools.protection.least.staircase import Staircase

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What a line of :meth:`CombinedCounts.rows` has: the estimates from exact tables and from both, the
#: published count, and the probabilities of 0, 1 and 2.
COLUMNS = ("code", "group", "from_tables", "published", "from_both", "is_0", "is_1", "is_2")
#: Groups of the finest grain that is read without being named.
GROUPS = 16
#: A count that is told more surely than this is listed.
SURE = 0.9


@dataclass(frozen=True)
class RemainingBound:
    """What the noisy release costs between data sets that differ by ``change``: its ``cost``, rho or
    a pure epsilon, and ``epsilon``. Both are ``None`` where exact tables tell the two apart."""

    change: str
    cost: Fraction | None = None
    epsilon: float | None = None

    @property
    def row(self) -> dict[str, str]:
        """In words."""
        if self.cost is None or self.epsilon is None:
            return {"a difference in": self.change, "cost": "-", "epsilon": "no bound"}
        cost = f"{float(self.cost):.4g}"
        return {"a difference in": self.change, "cost": cost, "epsilon": bound(self.epsilon)}


#: What a reader must know of the two together.
EXACT = (
    "Exact tables have no epsilon. Between data that would have the same coarse release, with the"
    " same atoms, the noisy release keeps its guarantee. Then two persons of one area who exchange"
    " places cost at most twice a move of one. The noise of each exact sum is public."
)


@dataclass(frozen=True, eq=False)
class CombinedCounts(Frozen):
    """Counts of the lowest units in the groups of a grain, ``(units, groups)``: ``coarse``, from
    the exact tables alone; ``published`` by the noisy release; and from ``both``. ``units``: their
    numbers in the noisy release. ``hidden``: counts that do not follow from the exact tables."""

    codes: Codes
    units: Ints
    grain: Grain
    coarse: Floats
    hidden: NDArray[np.bool_]
    published: Ints
    both: Posterior

    def rows(self) -> Iterator[tuple[object, ...]]:
        """A line for each count that can be more than 0, in the order of :data:`COLUMNS`."""
        unit, group = np.nonzero(self.coarse)
        codes, labels = text(self.codes)[unit].tolist(), np.array(self.grain.labels)[group].tolist()
        numbers = (self.coarse, self.published, self.both.mean, *self.both.small)
        columns = (np.round(n[unit, group], 3).tolist() for n in numbers)
        return zip(codes, labels, *columns, strict=True)

    def errors(self, true: Ints) -> list[dict[str, object]]:
        """Mean absolute errors of the three against true counts, ``(units, groups)``."""
        found = ("exact tables", self.coarse), ("noisy release", self.published)
        return [
            {"from": name, "mean absolute error": float(np.abs(values - true).mean())}
            for name, values in (*found, ("both", self.both.mean))
        ]

    def small_counts(self, true: Ints) -> dict[str, float]:
        """Of true counts of 1 and 2: the mean probability of the truth, and how many are told more
        surely than :data:`SURE`."""
        small = (true > 0) & (true < SMALL)
        told = np.take_along_axis(self.both.small, np.where(small, true, 0)[None], axis=0)[0][small]
        return {
            "counts of 1 and 2": int(small.sum()),
            "mean probability of the truth": float(told.sum() / max(len(told), 1)),
            f"told with more than {100 * SURE:g} %": int((told > SURE).sum()),
        }

    @property
    def sure(self) -> Ints:
        """Rows of unit, group and count: counts of 1 or 2 that both tell more surely than
        :data:`SURE`, and the exact tables do not."""
        likely = self.both.small[1:] > SURE
        count, unit, group = np.nonzero(likely & self.hidden)
        return np.stack([unit, group, count + 1], axis=1)


def combined(
    release: OpenedRelease,
    coarse: LeastRelease,
    grain: str | None,
    *,
    seed: int,
    rounds: int,
    progress: Progress = SILENT,
) -> CombinedCounts:
    """Both, at a ``grain`` of the chain; without one, at the finest of at most :data:`GROUPS`
    groups. Raises :class:`UserError` where they are not of the same places and cells."""
    universe = release.after.universes[0]
    tables = _tables(coarse, universe, release, grain)
    codes, units = _units(coarse, release)
    finest = tables.chain.grains[-1]
    progress.stage("read measurements", None)
    noisy = _noisy(release, universe, units, finest.index)
    progress.stage("sample counts that agree with both", None)
    every = np.arange(len(units))
    lower, upper = tables.bounds(len(tables.chain) - 1, every)
    return CombinedCounts(
        codes,
        units,
        finest,
        tables.estimates(len(tables.chain) - 1, every),
        lower < upper,
        finest.counts(release.published(universe).some(units)),
        posterior(tables, noisy, seed, rounds),
    )


def _units(coarse: LeastRelease, release: OpenedRelease) -> tuple[Codes, Ints]:
    """The codes of the lowest units, and their numbers in the noisy release."""
    codes = encoded(coarse.areas[coarse.lowest].codes)
    lowest = release.spine.levels[-1]
    geoids = release.spine.geoids(lowest)
    known = geoids if (geoids != b"").all() else release.spine.codes[-1]
    units = places(known, codes)
    if (units < 0).any():
        code = str(codes[int((units < 0).argmax())], "utf-8")
        raise UserError(
            f"the coarse tables have {level_inside(lowest)} {code}, the noisy release has none",
            where=release.folder,
            remedy="give two releases of the same census over the same places",
        )
    return codes, units


def _tables(
    coarse: LeastRelease, universe: Universe, release: OpenedRelease, grain: str | None
) -> Staircase:
    """The tables down to a grain, with the groups of each cell of the noisy release."""
    said = coarse.tables.chain.grains
    names = [g.name for g in said]
    if grain is not None and grain not in names[1:]:
        raise UserError(
            f"the coarse tables have no grain {grain!r}",
            where="--grain",
            remedy=f"name one of {', '.join(names[1:])}",
        )
    few = max(1, *(h for h, g in enumerate(said) if len(g) <= GROUPS))
    last = few if grain is None else names.index(grain)
    try:
        chain = Chain.spelled(names[: last + 1], universe.schema)
    except SpecError as error:
        raise UserError(
            f"the coarse tables are of other cells ({error})", where=release.folder
        ) from None
    if [g.labels for g in chain.grains] != [g.labels for g in said[: last + 1]]:
        raise UserError("the coarse tables are of other cells", where=release.folder)
    return Staircase(chain, coarse.tables.atom[: last + 1], coarse.tables.count[: last + 1])


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


def remaining(release: OpenedRelease, coarse: LeastRelease) -> list[RemainingBound]:
    """Which differences keep a guarantee and which have none. Raises :class:`UserError` for tables
    of other places or cells."""
    _units(coarse, release)
    stated = read_ours(release.folder)
    universe, *others = release.after.universes
    last = coarse.tables.chain.grains[-1].name
    finest = _tables(coarse, universe, release, last).chain.grains[-1]
    changes, lost, kept = stated.changes[universe.name], [], []
    # the last covers those of fewer attributes
    most = [c for c in changes if c.kind == "attributes"][-1:]
    for change in changes:
        if change.kind == "attributes":
            every, some = _unseen(universe.schema, finest, change.what.split(" * "))
            if every or (some and change in most):
                within = "" if every else f", within one group of {finest.name}"
                kept.append(RemainingBound(change.says + within, change.cost, change.upper))
            if every or change in most or " * " in change.what:
                continue
        elif change.kind == "place":
            area = level_inside(change.what.rsplit(" ", 1)[1])
            cost, zero = 2 * change.cost, isinstance(change, PureChange)
            epsilon = float(cost) * (1 + 1e-9) if zero else zcdp.no_more(cost, change.delta)
            kept.append(RemainingBound(f"two persons' places, within one {area}", cost, epsilon))
        lost.append(RemainingBound(change.says))
    for other in others:
        whole = stated.changes[other.name][0]
        kept.append(RemainingBound(f"{other.name}: {whole.says}", whole.cost, whole.upper))
    return [*sorted(kept, key=lambda r: r.epsilon or 0.0), *lost]


def _unseen(schema: Schema, grain: Grain, names: Sequence[str]) -> tuple[bool, bool]:
    """Whether a grain tells no two, or does not tell some two, cells apart that differ in these
    attributes alone."""
    own = [i for i, a in enumerate(schema.attributes) if a.name in names] or range(
        len(schema.shape)
    )
    group = np.moveaxis(grain.index.reshape(schema.shape), own, range(len(own)))
    group = np.sort(group.reshape(int(np.prod(group.shape[: len(own)])), -1), axis=0)
    return bool((group[0] == group[-1]).all()), bool((group[1:] == group[:-1]).any())
