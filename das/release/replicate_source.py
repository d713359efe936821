"""A source of replicates: what intervals need from a publication, whichever it is.

An interval is made from replicates of the counts under a published table. Each publication gives a
:class:`ReplicateSource`: its tables, their tree, what is exact, what all replicates share, and
which notes must accompany the intervals. There are three. They are a release of counts over a tree
(:mod:`das.release.own_replicates`), a release of the DHC (:mod:`das.publications.dhc.replicates`), and
replicates that another publisher made (:mod:`das.publications.published.replicates`). Replicates of a
release are made from what it published (:class:`ReleaseSource`), with public noise from outside
(:class:`PublicNoise`). So reading replicates needs no noise.

Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.accounting.codec import identity
from das.errors import InputError, ReleaseError, UserError
from das.files.release import replicates, statement
from das.files.release import replicates as interval_rows
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS
from das.model.areas import Areas
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import MeasurementSource, SparseSource
from das.model.mechanisms import COVERAGE
from das.model.not_private import Private
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.opened import OpenedRelease
from das.replicates import check_coverage
from das.tables import Table

#: Replicates that do for shares, extremes and intervals of many areas at once.
ENOUGH = 50
#: And for counts, one by one.
ENOUGH_FOR_COUNTS = 25
#: The rule of intervals that hold by true value (:mod:`das.replicates.by_truth`), of the counts of
#: a whole level. It is the default.
BY_TRUTH = "pratt"
#: That of intervals with the errors of their table (:mod:`das.replicates.by_truth`), of the counts
#: of a table.
BY_TABLE = "table"
#: The Bureau's (:mod:`das.replicates.by_truth`), and that of a statistic by itself.
PLAIN = "ct"
COUNT_RULES = (BY_TRUTH, PLAIN, BY_TABLE)
#: In a manifest of intervals, by their digest: the earlier release whose replicates these are on.
EARLIER = "earlier"
#: Where places are looked up.
PAGE = "index.html"
#: Notes that must accompany intervals.
SAYS = (
    "They cover the noise of disclosure avoidance alone, not coverage or response errors of the"
    " census.",
    (
        "They are approximate, and hold by published value: small true counts that were published"
        " as 0 are missed more often."
    ),
    "Each holds by itself: among many intervals, some miss.",
)
_BY_TRUE_VALUE = (
    "They are approximate, and hold by true value, small or large, over the cells of a table and"
    " level together: not of each column, nor of each place."
)
_OF_TABLE = (
    "Each is widened by the bias that the counts of its table in that place show: of the bias of"
    " one count replicates can show a small part.",
)

#: A table of a universe, at a level.
Chosen = tuple[Universe, Table, str]
#: Published values of a table, the ends of their intervals, and what these rest on, ``(units,
#: columns)`` each: as :func:`das.files.release.replicates.read_intervals` has them.
Ends = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class IntervalOptions:
    """What the user asks for: ``count`` replicates of ``seed``, the ``rule`` and ``coverage`` of
    intervals, and the tables and levels (empty: all)."""

    count: int
    seed: int
    coverage: float
    rule: str = BY_TRUTH
    tables: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 2 or self.seed < 0:
            raise UserError(
                f"{self.count} replicates of seed {self.seed}",
                where="intervals",
                remedy="two replicates at the least, and a seed of 0 or more",
            )
        if self.rule not in COUNT_RULES:
            raise InputError(
                f"there is no rule {self.rule!r}",
                where="rule",
                remedy=f"the rules are {', '.join(COUNT_RULES)}",
            )
        check_coverage(self.coverage)


@dataclass(frozen=True, eq=False)
class ReplicateSource:
    """The ``tables`` of the counts of some universes over the tree ``spine``.

    ``folder`` is that of a release or, if there is none, of intervals. By default every table has
    all levels, and only the counts and their replicates are known."""

    spine: Spine
    tables: tuple[tuple[Universe, Table], ...]
    private: Private
    folder: Path

    @property
    def beside(self) -> tuple[str, ...]:
        """More notes that must accompany the intervals."""
        return ()

    @property
    def keeps_earlier_counts(self) -> bool:
        """Whether counts of an earlier release are the same in all replicates."""
        return False

    @property
    def rule(self) -> str:
        """That of its intervals, unless another is asked for."""
        return BY_TRUTH

    def levels(self, table: Table) -> tuple[str, ...]:
        """Those that a table is published for."""
        del table
        return self.spine.levels

    def assigned(self, universe: Universe) -> dict[str, str]:
        """Attributes that were made up by a rule, each with a sentence."""
        del universe
        return {}

    def bounds(self, universe: Universe) -> Mapping[str, LevelBounds]:
        """Where counts can be, by level, where any bounds are known."""
        del universe
        return {}

    def exact(self, universe: Universe, table: Table, level: str) -> NDArray[np.bool_] | None:
        """For a level without bounds: the columns that are known exactly, ``(columns,)``."""
        del universe, table, level
        return None

    def described(
        self, out: Path, asked: IntervalOptions, tables: Collection[str]
    ) -> Mapping[str, str]:
        """Texts to write next to the intervals of ``tables``, by the names of their files.

        The folder ``out`` has the replicates. A source can add a page for a tree that is small
        enough."""
        del out, asked, tables
        return {}

    @property
    def universes(self) -> tuple[Universe, ...]:
        """Whose counts there are tables of."""
        return tuple({u.name: u for u, _ in self.tables}.values())

    def universe(self, table: Table) -> Universe:
        """The universe that a table counts."""
        return next(u for u, t in self.tables if t.name == table.name)

    def chosen(self, names: Sequence[str] = (), levels: Sequence[str] = ()) -> list[Chosen]:
        """:func:`chosen_of` these, of levels that a table is published for. Raises
        :class:`UserError` where that leaves none."""
        asked = chosen_of(self.tables, self.spine.levels, names, levels)
        found = [(u, t, level) for u, t, level in asked if level in self.levels(t)]
        if asked and not found:
            _, t, level = asked[0]
            raise UserError(
                f"{t.name} is not published for the level {level}",
                where="--level",
                remedy=f"its levels are {', '.join(self.levels(t))}",
            )
        return found

    def says(self, rule: str) -> tuple[str, ...]:
        """Notes that must accompany intervals by a ``rule``."""
        by = _BY_TRUE_VALUE if rule == BY_TRUTH else SAYS[1]
        table = _OF_TABLE if rule == BY_TABLE else ()
        return (SAYS[0], by, *SAYS[2:], *table, *self.beside)

    def intervals(
        self, names: Sequence[str] = (), levels: Sequence[str] = ()
    ) -> Iterator[tuple[Universe, Table, str, Ends]]:
        """The existing intervals of the tables and levels that are named, or of all."""
        chosen, out = self.chosen(names, levels), self._intervals()
        for u, table, level in chosen:
            if out is not None and (path := out / file_of(table, level)).is_file():
                codes = replicates.codes_of(self.spine, level)
                yield u, table, level, interval_rows.read_intervals(path, table, codes)

    def _intervals(self) -> Path | None:
        """The folder of the intervals, if there are any."""
        return self.folder


class PlannedUniverse(Protocol):
    """Records of a schema, and the plan by which they are measured."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def plan(self) -> Plan: ...


class PublicNoise(Protocol):
    """Measures ``counts``, which are published, by level of a tree: by the plan of a universe, with
    noise that anybody can draw again."""

    def whole(
        self, universe: PlannedUniverse, tree: MeasuredSpine, counts: Mapping[str, Histogram]
    ) -> MeasurementSource:
        """All answers are drawn."""

    def on_request(
        self, universe: PlannedUniverse, spine: Spine, counts: Mapping[str, Histogram]
    ) -> SparseSource:
        """A source that draws only the requested answers."""


@dataclass(frozen=True, eq=False)
class ReleaseSource(ReplicateSource):
    """A release whose replicates are made here; they are in its own folder of intervals or
    elsewhere."""

    @property
    def name(self) -> str:
        """The name of the run."""
        raise NotImplementedError

    @property
    def measured(self) -> OpenedRelease | None:
        """The release, where its measurements were drawn whole: then noise and intervals from
        measurements are known of every table."""
        return None

    def areas(self) -> tuple[Areas, ...]:
        """Areas across the levels that the input knew."""
        return ()

    def on(self, earlier: Path | None) -> ReleaseSource:
        """The same, with replicates that are made on replicates of the ``earlier`` release; of
        none, on its published counts. Raises :class:`UserError` for a release that rests on no
        earlier one, and :class:`ReleaseError` for one that is not the one it rests on."""
        if earlier is not None:
            raise UserError(
                "its counts rest on no earlier release",
                where="--earlier",
                remedy="leave it out: the intervals cover all of its noise",
            )
        return self

    def planned(self) -> Sequence[PlannedUniverse]:
        """What was measured. Raises :class:`UserError` where another publisher measured, whose
        budget nobody states."""
        raise NotImplementedError

    def queries(self, universe: Universe) -> Mapping[str, tuple[str, ...]]:
        """By level, what was measured of a universe."""
        raise NotImplementedError

    def published(self) -> Mapping[str, Histogram]:
        """The published counts of the lowest level, by universe."""
        raise NotImplementedError

    def counts(self, universe: Universe) -> Histogram:
        """Those of one universe."""
        return self.published()[universe.name]

    def again(
        self, counts: Mapping[str, Histogram], noise: PublicNoise, pool: Executor | None = None
    ) -> dict[str, Histogram]:
        """What the algorithm publishes of the lowest level, by universe, if ``counts`` are the
        truth and this is the ``noise``: estimated in ``pool`` or in this process, the same numbers.
        Raises as :meth:`planned`."""
        raise NotImplementedError

    def replicates(self, universe: Universe) -> Iterator[Histogram]:
        """The replicates that the release's intervals are made from, in order; nothing if it has
        none yet."""
        codes = replicates.codes_of(self.spine, self.spine.levels[-1])
        for n in range(1, 1 + int(self._manifest().get("replicates", 0))):
            path = replicates.path_of(self.folder / INTERVALS, universe.kind.folder, n)
            yield replicates.read(path, codes, universe.schema)

    @property
    def asked(self) -> IntervalOptions | None:
        """How the intervals of the release were made; ``None`` while it has none."""
        said = self._manifest()
        if "replicates" not in said:
            return None
        return IntervalOptions(said["replicates"], said["seed"], said["coverage"], said["rule"])

    def _intervals(self) -> Path | None:
        return self.folder / INTERVALS if self._whole() else None

    @property
    def unfinished(self) -> str:
        """What to say of intervals of the release that nobody can read yet; empty where they are
        finished, or were never begun."""
        try:
            self._whole()
        except replicates.UnfinishedIntervals as error:
            return f"{error.what}: {error.remedy}"
        return ""

    def _manifest(self) -> dict[str, Any]:
        """As :meth:`_whole`; nothing while they are not finished."""
        try:
            return self._whole()
        except replicates.UnfinishedIntervals:
            return {}

    def _whole(self) -> dict[str, Any]:
        """What the manifest of the intervals of the release says; nothing where it has none. Raises
        :class:`ReleaseError` where they are another release's, not finished, or altered."""
        out = self.folder / INTERVALS
        if not (out / replicates.MANIFEST).is_file():
            return {}
        said = run_directory.read_json(out / replicates.MANIFEST)
        if said.get("release") != digest_of(self.folder):
            raise ReleaseError(
                "these replicates are of another release",
                where=out,
                remedy="take the folder away, and make them again",
            )
        replicates.check(out)
        return said


def digest_of(release: Path) -> str:
    """What tells a release from any other."""
    return identity(statement.read(release))


def file_of(table: Table, level: str) -> str:
    return f"{table.name}_{level}.parquet"


def chosen_of(
    every: Sequence[tuple[Universe, Table]],
    there: Sequence[str],
    names: Sequence[str],
    levels: Sequence[str],
) -> list[Chosen]:
    """Every combination of the requested tables and levels that exists; without a request, all of
    them. Raises :class:`UserError` for a table or level that does not exist."""
    for name, known, what in (
        (names, [t.name for _, t in every], "tables"),
        (levels, there, "levels"),
    ):
        if lost := [n for n in name if n not in known]:
            raise UserError(
                f"there is no {lost[0]!r}",
                where=f"--{what.removesuffix('s')}",
                remedy=f"the {what} are {', '.join(known)}",
            )
    return [
        (u, t, level)
        for u, t in every
        if not names or t.name in names
        for level in there
        if not levels or level in levels
    ]


# How often an interval holds the true count: the one default, and what it means in standard
# errors.

#: The margin of error of a normal estimate at 95 %, in standard errors. ``Universe.wide`` can be
#: slightly larger.
_NORMAL = NormalDist().inv_cdf((1 + COVERAGE) / 2)


def wide(coverage: float, at_95: float) -> float:
    """Standard errors that an interval of ``coverage`` has to either side: of a normal estimate, or
    as many more as noise of a longer tail has at 95 %, where it has ``at_95``
    (:attr:`das.model.universe.Universe.wide`).

    >>> round(wide(0.9, 1.96), 3), wide(0.95, 2.5)
    (1.645, 2.5)"""
    return max(_NORMAL, at_95) * (NormalDist().inv_cdf((1 + coverage) / 2) / _NORMAL)
