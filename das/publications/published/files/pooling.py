"""The DHC's measurements as further ones of the redistricting counts, at the levels and units that
both publications have.

The noise of both is independent, and both measured the same census. The DHC's files also state the
*published* redistricting counts (``pl94_con``). These are no truth, so nothing here uses them.
Only noisy answers are taken, as margins (:mod:`das.publications.dhc.model.strategy`).

*Units.* The nation is the nation. A state's part has the same code in both. A county's is 8
characters in the DHC, those that the redistricting files' 9 begin with. Other levels of the DHC
number units of a tree of their own, and are left out, with a note. So are units that one of the
publications does not have, or that the redistricting files did not measure.

*Memory.* One query of one unit is read at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import Progress
from das.errors import InputError, UserError
from das.files.measurements import nmf_reader
from das.files.measurements.nmf_reader import MarginRow, NmfReader
from das.model.measured_spine import MeasuredSpine
from das.model.names import Codes
from das.model.not_private import UNSTATED, Private
from das.model.redistricting import SCHEMAS
from das.model.spine import Spine
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.model.strategy import MarginOfQuery, finest
from das.publications.published.files import dhc as published_dhc
from das.publications.published.files.answers import PublishedAnswers
from das.publications.published.files.codes import ROOT
from das.publications.published.files.dhc import PublishedDhc
from das.publications.published.files.listing import first
from das.publications.published.files.sums import MOST

Ints = NDArray[np.int64]
#: Characters of the codes that both publications have, by level; of the nation none.
SAME = {"US": 0, "State": 3, "County": 8}


def read_persons(folder: Path, progress: Progress) -> PublishedDhc:
    """The DHC's files under ``folder``.

    Raises:
        UserError: no persons of the DHC.
        InputError, ReleaseError: as :func:`das.publications.published.files.dhc.read`.
    """
    found = first(folder)
    if found is None or found[0].name != DHCP.name:
        raise UserError(
            "these are no measurements of the DHC's persons",
            where=folder,
            remedy="give --with the folder US_DHCP_PROD of the same states",
        )
    return published_dhc.read(folder, progress)


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
        InputError, ReleaseError: no unit of both; measurements of other persons.
    """
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
