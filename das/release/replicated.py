"""``intervals/`` of a release, read: replicates, and intervals of every published count from them.

    replicates (das.release.replicates, each by itself) -> errors of each table and level ->
    intervals (das.release.interval_files)

Reading them needs no noise. Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.accounting.codec import identity
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.release import interval_rows, replicates, statement
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.not_private import Private, marked
from das.model.spine import Spine
from das.model.universe import Universe
from das.release import dhc_files
from das.release.dhc import OpenedDhc, open_dhc
from das.release.interval_basis import exact_columns
from das.release.page import exact_queries
from das.release.post import Opened, open_release
from das.release.publications import publication_of
from das.replicates import RULES, check_rule
from das.tables import Table

#: Replicates that do for shares, extremes and intervals of many areas at once.
ENOUGH = 50
#: And for counts, one by one.
ENOUGH_FOR_COUNTS = 25
#: The rule of intervals that hold by true value as well (:mod:`das.replicates.by_truth`). It is of
#: the counts of a whole level, and those of :data:`das.replicates.RULES` of any statistic.
BY_TRUTH = "pratt"
COUNT_RULES = (*RULES, BY_TRUTH)
#: Where places are looked up.
PAGE = "index.html"
#: What must stand beside intervals.
SAYS = (
    "Of disclosure avoidance alone: not of coverage or response errors of the census.",
    (
        "Approximate, and by published value: true counts that are small and were published as 0"
        " are missed more often."
    ),
    "Each by itself: of many intervals together some miss.",
)
#: Beside those of the demographic file, too.
_GIVEN = (
    (
        "Given the redistricting counts that were published before, of persons and of occupied and"
        " vacant units, which all replicates have: the errors of these are in no interval here."
        " What they determine has no interval ('not covered'), and what they determine in part is"
        " held less often than the coverage says, most of all counts of households above the block."
    ),
)
_BY_TRUE_VALUE = (
    "Approximate: by published value, and of small counts nearly as often by true value, over the"
    " cells of a table and level together."
)


@dataclass(frozen=True)
class AskedIntervals:
    """What is asked for: ``count`` replicates of ``seed``, the ``rule`` and ``coverage`` of
    intervals, and of which tables and levels (all, where none is named)."""

    count: int
    seed: int
    coverage: float
    rule: str = "ct"
    tables: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 2 or self.seed < 0:
            raise UserError(
                f"{self.count} replicates of seed {self.seed}",
                where="intervals",
                remedy="two replicates at the least, and a seed of 0 or more",
            )
        check_rule(self.coverage, self.rule, COUNT_RULES)


#: A release of either kind.
AnyOpened = Opened | OpenedDhc
#: A table of a universe, at a level.
Chosen = tuple[Universe, Table, str]
#: Published values of a table, the ends of their intervals, and what these rest on, ``(units,
#: columns)`` each: as :func:`das.files.release.interval_rows.read` has them.
Ends = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, eq=False)
class Tabulated:
    """What intervals are of: tables of the counts of some universes, of the places of a tree;
    ``at``, the levels of a table, where these are not all. ``beside`` is said of them besides; what
    is known exactly, ``opened`` has, if they are of a release."""

    spine: Spine
    tables: tuple[tuple[Universe, Table], ...]
    private: Private
    beside: tuple[str, ...] = ()
    opened: AnyOpened | None = None
    at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @staticmethod
    def of(opened: AnyOpened) -> Tabulated:
        if isinstance(opened, OpenedDhc):
            us = [Universe(u.kind, u.schema) for u in opened.spec.universes]
            every = tuple((u, t) for u in us for t in dhc_files.tables_of(u.name))
            at = {t.name: dhc_files.levels_of(t, opened.spine) for _, t in every}
            return Tabulated(opened.spine, every, opened.spec.run.private, _GIVEN, opened, at)
        every = tuple(
            (u, t) for u in opened.after.universes for t in tables.of(u, opened.assigned(u.name))
        )
        return Tabulated(opened.spine, every, opened.after.private, opened=opened)

    @property
    def universes(self) -> tuple[Universe, ...]:
        """Whose counts there are tables of."""
        return tuple({u.name: u for u, _ in self.tables}.values())

    def chosen(self, names: Sequence[str] = (), levels: Sequence[str] = ()) -> list[Chosen]:
        """:func:`chosen_of` these, of levels that a table is published for. Raises
        :class:`UserError` where that leaves none.
        """
        asked = chosen_of(self.tables, self.spine.levels, names, levels)
        found = [
            (u, t, level)
            for u, t, level in asked
            if level in self.at.get(t.name, self.spine.levels)
        ]
        if asked and not found:
            _, t, level = asked[0]
            raise UserError(
                f"{t.name} is not published for the level {level}",
                where="--level",
                remedy=f"its levels are {', '.join(self.at[t.name])}",
            )
        return found

    def assigned(self, u: Universe) -> dict[str, str]:
        """Attributes that were made up by a rule, each with a sentence."""
        return self.opened.assigned(u.name) if isinstance(self.opened, Opened) else {}

    def says(self, rule: str) -> tuple[str, ...]:
        """What must stand beside intervals by a ``rule``."""
        return (SAYS[0], _BY_TRUE_VALUE if rule == BY_TRUTH else SAYS[1], *SAYS[2:], *self.beside)

    def bounds(self, u: Universe) -> dict[str, LevelBounds]:
        """By level, where any are known."""
        return self.opened.published_bounds(u) if isinstance(self.opened, Opened) else {}

    @property
    def rests(self) -> bool:
        """Whether counts of an earlier release are held in all replicates."""
        return isinstance(self.opened, OpenedDhc)

    def exact(self, u: Universe, table: Table, level: str) -> NDArray[np.bool_] | None:
        """The columns that are exact by the statement of a release that rests on an earlier one,
        ``(columns,)``; of any other release the bounds say more."""
        if self.opened is None or not self.rests:
            return None
        names = exact_queries(statement.read(self.opened.folder), u.name, self.spine.levels).get(
            level, ()
        )
        return exact_columns(table, u.schema, [u.schema.query(name) for name in names])


def open_either(release: Path) -> AnyOpened:
    """A release of either kind. Raises :class:`ReleaseError` or :class:`SpecError` where the folder
    is no complete one.
    """
    return (
        open_dhc(release)
        if isinstance(publication_of(release).opened(release), OpenedDhc)
        else open_release(release)
    )


def digest_of(release: Path) -> str:
    """What tells the release from any other."""
    return identity(statement.read(release))


def replicates_of(opened: Opened, u: Universe) -> Iterator[Histogram]:
    """The replicates that a release has, in order: those of which its intervals are; none where it
    has none, or not yet.
    """
    out, said = opened.folder / INTERVALS, _said(opened)
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    for n in range(1, 1 + int(said.get("replicates", 0))):
        yield replicates.read(replicates.path_of(out, u.kind.folder, n), codes, u.schema)


def intervals_of(opened: AnyOpened) -> Iterator[tuple[Universe, Table, str, Ends]]:
    """Of each table and level of which the release has intervals: these."""
    of = Tabulated.of(opened)
    yield from intervals_in(intervals_folder(opened), of, of.chosen())


def intervals_folder(opened: AnyOpened) -> Path | None:
    """The folder of the intervals of a release, which are its own, and as they were made; none
    where it has none.
    """
    return opened.folder / INTERVALS if _said(opened) else None


def intervals_in(
    out: Path | None, of: Tabulated, chosen: Sequence[Chosen]
) -> Iterator[tuple[Universe, Table, str, Ends]]:
    """Those of the chosen tables and levels that a folder has."""
    for u, table, level in chosen:
        if out is not None and (path := out / file_of(table, level)).is_file():
            yield (
                u,
                table,
                level,
                interval_rows.read(path, table, replicates.codes_of(of.spine, level)),
            )


def _said(opened: AnyOpened) -> dict[str, Any]:
    """What the manifest of the intervals of a release says; nothing where it has none. Raises
    :class:`ReleaseError` where they are another release's, or altered."""
    out = opened.folder / INTERVALS
    if not (out / replicates.MANIFEST).is_file():
        return {}
    said = run_directory.read_json(out / replicates.MANIFEST)
    if said.get("release") != digest_of(opened.folder):
        raise ReleaseError(
            "these replicates are of another release",
            where=out,
            remedy="take the folder away, and make them again",
        )
    replicates.check(out)
    return said


def file_of(table: Table, level: str) -> str:
    return f"{table.name}_{level}.parquet"


# --- intervals
# -----------------------------------------------------------------------------------------------


def chosen_of(
    every: Sequence[tuple[Universe, Table]],
    there: Sequence[str],
    names: Sequence[str],
    levels: Sequence[str],
) -> list[Chosen]:
    """Of each table and level that is asked for, of those that there are; of all, where none is
    named.
    """
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


def _other(key: str, before: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """What a folder is of in place of what is ``said``."""
    then, now = before.get("sources"), said.get("sources")
    if isinstance(then, dict) and isinstance(now, dict):
        changed = [n for n in {**then, **now} if then.get(n) != now.get(n)]
        names = [one["name"] for n in changed for one in now.get(n) or then.get(n) or []]
        return f"other files: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    return f"another {key}: {before.get(key)}"


def begin(
    out: Path, said: Mapping[str, Any], resume: bool, private: Private, own: Path | None = None
) -> None:
    """The manifest says from the first what the folder is of; of a release it is its ``own``, or
    none of its.

    Raises:
        UserError: it is of something else, or in a release; or there is nothing to ``resume``.
        ReleaseError: replicates that are there were altered.
    """
    if own is None or out.resolve() != own.resolve():
        run_directory.refuse_inside_release(out)
    manifest = out / replicates.MANIFEST
    if manifest.is_file():
        before = run_directory.read_json(manifest)
        replicates.check_kept(out, before)
        if other := [key for key, value in said.items() if before.get(key) != value]:
            raise UserError(
                f"has intervals of {_other(other[0], before, said)}",
                where=out,
                remedy="take the folder away, or name another --out",
            )
        if not resume and "rows" not in before:
            raise UserError(
                "was begun, and not finished",
                where=out,
                remedy="go on with --resume, or take it away",
            )
        return
    if resume:
        run_directory.refuse_to_resume(out)
    run_directory.refuse_full(out)
    atomic.write_json(manifest, marked(said, private))
