"""What published measurement files of the DHC's persons say besides their answers: the tree, what
is exact, and what was measured with which variance.

*Exact*: ``pl94_con`` has the published redistricting counts of every unit: 2,016 sums, in the order
of the redistricting schema. ``hhgq_total_lb_con`` and ``hhgq_total_ub_con`` bound 25 types of
dwelling: f and 99,999 f where there are f facilities. So nobody can be where the upper one is 0.
Those of the lowest level are taken; the redistricting counts of each level above must be
their sums. *Rules* of ages, such as ``relgq0_lt15_con``, are the schema's
(:mod:`das.publications.published.files.rules`).

*Partial downloads.* A level above units that do not add up to it is left out, as for redistricting
files; here exact counts tell it, also of the two parts of a state. Below the states a difference is
damage, and is refused. So is a difference of more than 6 standard deviations between what was
measured of a unit and what is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError, UserError
from das.files.measurements import nmf_reader
from das.files.measurements.nmf_reader import MarginRow, NmfReader
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.names import Codes, text
from das.model.not_private import UNKNOWN, UNSTATED, Private
from das.model.redistricting import PL94, SCHEMAS
from das.model.schema import Schema
from das.model.spine import Spine
from das.publications.dhc.model import quarters
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.model.strategy import PERSONS_FIXED, MarginOfQuery, finest
from das.publications.published.files.answers import PublishedAnswers
from das.publications.published.files.codes import ROOT, coded, whole_levels
from das.publications.published.files.listing import AGAIN, PublishedLevel, first, query_of, scan
from das.publications.published.files.rules import bound_of, check_rules, stated_rows, stated_twice
from das.publications.published.files.sums import MOST, listed
from das.publications.published.files.tree import LevelMeasured, spine_of

Ints = NDArray[np.int64]

EXACT, LEAST, MOST_OF = "pl94", "hhgq_total_lb", "hhgq_total_ub"
#: The query that the bounds are of: a household, and 24 types of group quarters.
BOUNDED = "gqlevels"
#: The class of the redistricting schema that each type is in, ``(types, classes)``.
_CLASSES = np.eye(len(quarters.HHGQ.levels), dtype=np.int64)[
    [0, *(quarters.HHGQ.levels.index(t.hhgq) for t in quarters.TYPES)]
]
#: Answers of queries whose sums are compared with the exact totals.
_FEW = 100


@dataclass(frozen=True, eq=False)
class PublishedDhc(Frozen):
    """``spine`` is the tree that is measured. ``counts`` of its lowest units are the answers to
    :data:`das.publications.dhc.model.strategy.PERSONS_FIXED`; ``lower`` and ``upper`` ``(units, 25)`` bounds,
    the upper ones -1 where there is none. ``published`` is the tree of tabulation, and ``place``
    ``(lowest units,)`` which of its lowest units each is (or is a part of)."""

    spine: Spine
    published: Spine
    place: Ints
    counts: Histogram
    lower: Ints
    upper: Ints
    measured: tuple[LevelMeasured, ...]
    levels: tuple[PublishedLevel, ...]
    private: Literal[False, "unknown"]
    notes: tuple[str, ...]

    def answers(self) -> PublishedAnswers:
        """The noisy answers, read on demand."""
        return PublishedAnswers(self.levels, self.spine)


def read(folder: Path, progress: Progress = SILENT) -> PublishedDhc:
    """Read what there is under ``folder``.

    Raises:
        InputError, ReleaseError: no levels, unreadable files, queries that are not built in,
            geocodes that make no tree, exact counts that are missing or do not add up, other rules
            than the schema's, parts that are missing."""
    progress.stage("scan", None)
    schema, found, seeded = scan(folder)
    private: Literal[False, "unknown"] = False if seeded else UNKNOWN
    notes = [UNSTATED] if private else []
    levels = tuple(whole_levels(found, notes))
    spine = spine_of(levels, folder)
    notes += check_rules(schema, levels, {EXACT, LEAST, MOST_OF})
    counts = _exact(schema, spine, levels[-1], folder)
    progress.stage("check exact counts", len(levels))
    for level in levels[:-1]:
        _check_sums(schema, spine, level, counts, folder)
        progress.advance()
    lower, upper = _bounds(schema, spine, levels[-1], counts, notes)
    measured = tuple(LevelMeasured.from_published(schema, level) for level in levels)
    notes += [
        f"nothing is measured at {m.level}" for m in measured if not m.variances and m.level != ROOT
    ]
    published, place = coded(spine) or (spine, np.arange(len(spine.codes[-1])))
    if len(published.codes[-1]) < len(place):
        parts = len(place) - len(published.codes[-1])
        notes.append(
            f"{parts} of {len(published.codes[-1])} units of {spine.levels[-1]} are in two branches"
            " of the measured tree: each is the sum of its parts"
        )
    told = PublishedDhc(
        spine, published, place, counts, lower, upper, measured, levels, private, tuple(notes)
    )
    _check_totals(told, folder, progress)
    return told


def _exact(schema: Schema, spine: Spine, level: PublishedLevel, folder: Path) -> Histogram:
    """The redistricting counts of the lowest units."""
    if lost := sum(not here for here in _stated(schema, spine, level)):
        raise InputError(
            f"{EXACT}_con, the redistricting counts, is not given for {lost} of"
            f" {spine.units(level.name)} units of {level.name}",
            where=folder,
            remedy=AGAIN,
        )
    return _histogram(schema, spine, level)


def _stated(schema: Schema, spine: Spine, level: PublishedLevel) -> NDArray[np.bool_]:
    """The units whose redistricting counts are given, ``(units,)``."""
    if any(name == EXACT for name, _ in level.spelt):
        _check_spelling(schema, level)
    there = np.zeros(spine.units(level.name), dtype=bool)
    for path, unit, _ in stated_rows(schema, spine, level, EXACT, "=", PERSONS_FIXED):
        if there[unit].any() or len(np.unique(unit)) < len(unit):
            raise stated_twice(EXACT, level, path)
        there[unit] = True
    return there


def _check_spelling(schema: Schema, level: PublishedLevel) -> None:
    """The columns of the attributes say which sums are exact."""
    own = schema.query(PERSONS_FIXED)
    for name, labels in level.spelt:
        if name != EXACT:
            continue
        said = query_of(schema, name, labels, level.constraints[0].path)
        if said.groupings != own.groupings:
            raise InputError(
                f"{level.name}: {EXACT}_con counts by {said.name!r}, and not by {own.name!r}",
                where="constraints",
                remedy="these files are of another publication than those that das knows",
            )


def _histogram(schema: Schema, spine: Spine, level: PublishedLevel) -> Histogram:
    parts = []
    for _, unit, got in stated_rows(schema, spine, level, EXACT, "=", PERSONS_FIXED):
        row, cell = np.nonzero(got)
        parts.append((unit[row], cell, got[row, cell]))
    empty = (np.zeros(0, dtype=np.int64),) * 3
    unit, cell, count = (np.concatenate(c) for c in zip(empty, *parts, strict=True))
    answers = schema.query(PERSONS_FIXED).answers
    return Histogram.from_triplets(spine.units(level.name), answers, unit, cell, count)


def _check_sums(
    schema: Schema, spine: Spine, level: PublishedLevel, lowest: Histogram, folder: Path
) -> None:
    """The exact counts of a level are the sums of those of the lowest, where they are given."""
    here = _stated(schema, spine, level)
    if not here.any():
        return
    given = _histogram(schema, spine, level)
    home = spine.up(spine.levels[-1], level.name)
    sums = lowest.up(home, spine.units(level.name))
    for unit in np.flatnonzero(here).tolist():
        if given.rows(unit, unit + 1).same_as(sums.rows(unit, unit + 1)):
            continue
        below = spine.levels[spine.index(level.name) + 1]
        children = spine.codes[spine.index(below)][spine.parent[spine.index(below)] == unit]
        raise InputError(
            f"the redistricting counts of {level.name} {spine.code(level.name, unit)!r}"
            f" ({given.totals()[unit]:,} persons) are not the sums of those below it"
            f" ({sums.totals()[unit]:,}). Parts are missing, or altered: here are"
            f" {listed(text(children).tolist())}",
            where=folder,
            remedy="get the folders of all parts, at every level",
        )


def _bounds(
    schema: Schema, spine: Spine, level: PublishedLevel, counts: Histogram, notes: list[str]
) -> tuple[Ints, Ints]:
    """The bounds of the lowest units. Raises :class:`InputError` where they contradict each other
    or the exact counts."""
    if not level.names >= {LEAST, MOST_OF}:
        notes.append(
            f"{level.name}: the bounds by type of group quarters are not given: persons in group"
            " quarters can be in any type of their class"
        )
        shape = (spine.units(level.name), schema.query(BOUNDED).answers)
        return np.zeros(shape, dtype=np.int64), np.full(shape, -1)
    lower = bound_of(schema, spine, level, LEAST, "lb", BOUNDED)
    upper = bound_of(schema, spine, level, MOST_OF, "ub", BOUNDED)
    if missing := int(((lower < 0) | (upper < 0)).any(axis=1).sum()):
        notes.append(
            f"{level.name}: the bounds by type of group quarters are not given for {missing} of"
            f" {len(lower)} units, which are unbounded"
        )
    lower = np.maximum(lower, 0)
    bounded = np.where(upper < 0, np.iinfo(np.int64).max, upper)
    of_class = counts.answer(PL94.query("hhgq"))  # the exact counts are cells of that schema
    least, most = lower @ _CLASSES, np.minimum(bounded, 1 << 40) @ _CLASSES
    wrong = (lower > bounded).any(axis=1) | (of_class > most).any(axis=1)
    wrong |= (of_class < least).any(axis=1)
    if wrong.any():
        unit = int(np.argmax(wrong))
        raise InputError(
            f"{level.name} {spine.code(level.name, unit)}: its redistricting counts by type of group"
            " quarters are outside of the bounds that its facilities set",
            where=f"{LEAST}_con and {MOST_OF}_con",
            remedy=AGAIN,
        )
    return lower, upper


def _check_totals(told: PublishedDhc, folder: Path, progress: Progress) -> None:
    """Of each unit all that queries with few answers measured, against its exact total."""
    answers, lowest = told.answers(), told.counts.totals()
    for m in told.measured:
        units = told.spine.units(m.level)
        exact = np.bincount(
            told.spine.up(told.spine.levels[-1], m.level), weights=lowest, minlength=units
        )
        weighted, precision = np.zeros(units), np.zeros(units)
        few = [q for q in m.queries if q.answers <= _FEW and q.name in m.variances]
        progress.stage(f"check {m.level}", units * len(few))
        for query in few:
            variance = answers.variance(m.level, query.name)
            there = np.flatnonzero(np.isfinite(variance))
            each = np.tile(np.arange(query.answers), len(there))
            found = answers.answers(m.level, query.name, np.repeat(there, query.answers), each)
            weight = 1 / (query.answers * variance[there])
            weighted[there] += weight * found.reshape(len(there), -1).sum(axis=1)
            precision[there] += weight
            progress.advance(units)
        known = precision > 0
        off = np.zeros(units)
        off[known] = weighted[known] / precision[known] - exact[known]
        off[known] *= np.sqrt(precision[known])
        if (np.abs(off) > MOST).any():
            unit = int(np.argmax(np.abs(off)))
            raise InputError(
                f"{m.level} {told.spine.code(m.level, unit)} has {exact[unit]:,.0f} persons by its"
                f" redistricting counts, and {weighted[unit] / precision[unit]:,.0f} were measured,"
                f" {abs(off[unit]):,.0f} standard deviations away",
                where=folder,
                remedy=AGAIN,
            )


# The DHC's measurements as further ones of the redistricting counts, at the levels and units that
# both publications have.
#
# The noise of both is independent, and both measured the same census. The DHC's files also state the
# *published* redistricting counts (``pl94_con``). These are no truth, so nothing here uses them.
# Only noisy answers are taken, as margins (:mod:`das.publications.dhc.model.strategy`).
#
# *Units.* The nation is the nation. A state's part has the same code in both. A county's is 8
# characters in the DHC, those that the redistricting files' 9 begin with. Other levels of the DHC
# number units of a tree of their own, and are left out, with a note. So are units that one of the
# publications does not have, or that the redistricting files did not measure.
#
# *Memory.* One query of one unit is read at a time.


#: Characters of the codes that both publications have, by level; of the nation none.
SAME = {"US": 0, "State": 3, "County": 8}


def read_persons(folder: Path, progress: Progress) -> PublishedDhc:
    """The DHC's files under ``folder``.

    Raises:
        UserError: no persons of the DHC.
        InputError, ReleaseError: as :func:`das.publications.published.files.dhc.read`."""
    found = first(folder)
    if found is None or found[0].name != DHCP.name:
        raise UserError(
            "these are no measurements of the DHC's persons",
            where=folder,
            remedy="give --with the folder US_DHCP_PROD of the same states",
        )
    return read(folder, progress)


def write_margins(
    told: PublishedDhc,
    folder: Path,
    root: Path,
    tree: MeasuredSpine,
    notes: list[str],
    progress: Progress,
    *,
    private: Private,
) -> None:
    """Write next to the redistricting measurements of a ``tree``, in ``root``, what the DHC's files
    under ``folder`` measured of the same units; ``notes`` then says so.

    Raises:
        InputError, ReleaseError: no unit of both; measurements of other persons."""
    answers, rows = told.answers(), list[MarginRow]()
    reader = NmfReader(root, tree.spine, tree.measured)
    notes += [f"DHC: {note}" for note in told.notes if note != UNSTATED]
    for level in (lv for lv in told.spine.levels if lv != ROOT):
        rows += _level(level, told.spine, answers, reader, notes, progress)
    if not rows:
        raise InputError(
            "no unit that the redistricting files measured is in these files",
            where=folder,
            remedy="give --with the DHC's files of the same states",
        )
    nmf_reader.write(root / nmf_reader.NAME, rows, private)


def _level(
    level: str,
    dhc: Spine,
    answers: PublishedAnswers,
    reader: NmfReader,
    notes: list[str],
    progress: Progress,
) -> Iterator[MarginRow]:
    """All rows of a level."""
    units = _units(level, dhc, reader, notes)
    if not len(units[0]):
        return
    chosen = list(_chosen(level, answers, reader))
    progress.stage(f"margins of {level}", len(chosen))
    for margin in chosen:
        yield from _rows(level, margin, answers, reader, units)
        progress.advance()
    count = Counter(m.query.name for m in chosen)
    pooled = ", ".join(f"{query!r} with {n}" for query, n in count.items())
    notes.append(
        f"{level}: the DHC's measurements count in {len(units[0])} of"
        f" {reader.spine.units(level)} units, {pooled} of its queries"
    )


def check_redistricting(schema: str, folder: Path) -> None:
    """Raises :class:`UserError` for measurements that the DHC's persons tell nothing of."""
    if schema != SCHEMAS["pl94"].name:
        raise UserError(
            f"--with adds the DHC's persons to redistricting persons, and these are of {schema!r}",
            where=folder,
            remedy="give --from US_Person_PL_PROD, or leave out --with",
        )


def _units(level: str, dhc: Spine, reader: NmfReader, notes: list[str]) -> tuple[Ints, Ints]:
    """The units of both, numbered as the redistricting files' and as the DHC's."""
    none = np.zeros(0, dtype=np.int64)
    if level not in SAME or level not in reader.spine.levels:
        why = "has codes of its own" if level not in SAME else "is not in the redistricting files"
        notes.append(f"DHC: {level} {why}, and is not pooled")
        return none, none
    own, theirs = (_keys(level, s.codes[s.index(level)]) for s in (reader.spine, dhc))
    _, a, b = np.intersect1d(own, theirs, return_indices=True)
    if lost := len(theirs) - len(a):
        notes.append(
            f"DHC: {lost} of {len(theirs)} units of {level} are not in the redistricting files"
        )
    if lost := len(own) - len(a):
        notes.append(f"{lost} of {len(own)} units of {level} are not in the DHC's files")
    here = reader.measured(level)[a]
    if lost := len(a) - int(here.sum()):
        notes.append(
            f"{lost} units of {level} have only the DHC's measurements, and are not pooled"
        )
    order = np.argsort(a[here])
    return a[here][order].astype(np.int64), b[here][order].astype(np.int64)


def _keys(level: str, codes: Codes) -> Codes:
    """What both publications call a unit. Codes that are not told apart by it are their own."""
    if not SAME[level]:
        return np.zeros(len(codes), dtype="S1")
    short = codes.astype(f"S{SAME[level]}")
    return short if len(np.unique(short)) == len(codes) else codes


def _chosen(level: str, answers: PublishedAnswers, reader: NmfReader) -> Iterator[MarginOfQuery]:
    """Of each query of the DHC the redistricting query that it counts for, by usual variances."""
    units = reader.spine.units(level)
    measured = {q: reader.read(level, q, 0, units).variance for q in reader.queries(level)}
    usual = {q: _usual(v) for q, v in measured.items() if np.isfinite(v).any()}
    for name in answers.queries(level):
        margin = finest(usual, DHCP.query(name), _usual(answers.variance(level, name)))
        if margin is not None:
            yield margin


def _usual(variance: NDArray[np.float64]) -> float:
    return float(np.median(variance[np.isfinite(variance)]))


def _rows(
    level: str,
    margin: MarginOfQuery,
    answers: PublishedAnswers,
    reader: NmfReader,
    units: tuple[Ints, Ints],
) -> Iterator[MarginRow]:
    """Those of one query. Raises :class:`InputError` where they are of other persons."""
    spine, query = reader.spine, margin.query
    own = reader.read(level, query.name, 0, spine.units(level))
    variance = answers.variance(level, margin.of.name)
    every = np.arange(margin.of.answers)
    for unit, there in zip(*(u.tolist() for u in units), strict=True):
        if not np.isfinite(variance[there]):
            continue
        got = answers.answers(level, margin.of.name, np.full(len(every), there), every)
        values, noise = margin.sums(got), margin.terms * float(variance[there])
        off = float(values.sum() - own.values[unit].sum())
        sd = (query.answers * own.variance[unit] + len(every) * variance[there]) ** 0.5
        if abs(off) > MOST * sd:
            raise InputError(
                f"{level} {spine.code(level, unit)}: {margin.of.name!r} of the DHC adds up to"
                f" {values.sum():,} persons, and {query.name!r} of the redistricting files to"
                f" {own.values[unit].sum():,}, {abs(off) / sd:,.0f} standard deviations apart",
                where="--with",
                remedy="give files of the same census",
            )
        code = spine.code(level, unit)
        yield MarginRow(level, code, query.name, margin.of.name, values, noise)
