"""Noisy measurements of a release of the DHC as further observations of the S-DHC.

Published counts of the DHC are estimates: biased where counts are small, with errors that nobody
knows exactly. Its noisy measurements are unbiased, with known variance, and independent of those of
the S-DHC. Whole sums are used of queries whose answers are all there: households by tenure, race and
origin of the householder, and persons in households by age. They are sums of answers of the S-DHC,
as every address with a householder is a household of the DHC. Persons are used only where ``PH1_num``
for all counts everybody.

What is taken over is public, and kept in the release (``dhc.csv``) with the SHA-256 of the statement
that it is from. Nothing here can see the truth."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.accounting.document import NAME as STATEMENT
from das.errors import ReleaseError, UserError
from das.files.csv_text import write_rows
from das.files.release import statement
from das.files.run import run_directory
from das.model.names import text
from das.model.not_private import CELL, COLUMN, weakest
from das.model.schema import Schema
from das.publications.dhc.model.households import DHCH, HISP, RACE, TENURE
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release import OpenedDhc, open_dhc
from das.publications.sdhc.model.tables import (
    GROUPS,
    STATE,
    USA,
    FurtherSums,
    RegionAnswer,
    answers,
    untruncated,
)
from das.publications.sdhc.spec import LEVELS, SdhcSpec
from das.release.verify.sealed import check_digests

NAME = "dhc.csv"
#: By column, what is in it.
COLUMNS: Mapping[str, str] = {
    "LEVEL": "level of the region",
    "REGION_ID": "US, or the FIPS code of a state",
    "UNIVERSE": "universe of the DHC",
    "QUERY": "query of the DHC",
    "CELL": "which of its answers, in C order",
    "VALUE": "the noisy answer",
    "VARIANCE": "of its noise",
}
Bools = NDArray[np.bool_]
Key = tuple[str, str, str]  #: level, universe and query


@dataclass(frozen=True, eq=False)
class DhcSums:
    """Of a ``query`` of a ``universe`` of the DHC, by answer of the S-DHC which answers are summed."""

    universe: str
    query: str
    sums: Mapping[RegionAnswer, Bools]

    @property
    def used(self) -> NDArray[np.int64]:
        """The answers of the query that are in a sum."""
        return np.flatnonzero(np.any(list(self.sums.values()), axis=0))


def used(spec: SdhcSpec) -> tuple[DhcSums, ...]:
    """What a specification can use."""
    found = [_homes("hisp * hhtenshort_2lev"), _homes("hisp * hhtenshort_2lev * race")]
    if untruncated(spec.sdhc.mode, spec.sdhc.relation):
        found.append(_persons("age_18_64_116 * relgq_4_groups"))
    return tuple(found)


def _axes(schema: Schema, query: str) -> dict[str, NDArray[np.int64]]:
    """By attribute of a query, the group of each of its answers."""
    of = [(g.attribute, len(g.groups)) for g in schema.query(query).groupings if len(g.groups) > 1]
    every = np.indices([n for _, n in of]).reshape(len(of), -1)
    return dict(zip([name for name, _ in of], every, strict=True))


def _homes(query: str) -> DhcSums:
    """By tenure (cells 2 and 3) and iteration; all races together where the query has none."""
    at, sums = _axes(DHCH, query), dict[RegionAnswer, Bools]()
    for tenure, cell in ((0, 2), (1, 3)):
        here, hispanic = at[TENURE.name] == tenure, at[HISP.name] == 1
        which = {"H": here & hispanic}
        if (race := at.get(RACE.name)) is None:
            which["*"] = here
        else:
            which |= {i: here & (race == n) for n, i in enumerate(GROUPS["A-G"])}
            which["I"] = here & ~hispanic & (race == 0)
        sums |= {RegionAnswer("PH8_denom", i, cell): w for i, w in which.items()}
    return DhcSums("households", query, sums)


def _persons(query: str) -> DhcSums:
    """Under 18, and others; householders and other members of households are the first groups."""
    at = _axes(DHCP, query)
    home, minor = at["relgq"] < 2, at["age"] == 0
    sums = {2: home & minor, 3: home & ~minor}
    return DhcSums("persons", query, {RegionAnswer("PH1_num", "*", c): w for c, w in sums.items()})


# --- from a release of the DHC


def named(spec: SdhcSpec) -> dict[str, str]:
    """What a release says of the one that ``sdhc.dhc`` names."""
    folder = _folder(spec)
    digest = run_directory.file_digest(folder / STATEMENT)
    if spec.sdhc.dhc_digest not in ("", digest):
        raise UserError(
            "its privacy.json has not the SHA-256 that sdhc.dhc_digest names",
            where=folder,
            remedy="name the release of that digest; or leave sdhc.dhc_digest out",
        )
    return {"dhc": open_dhc(folder).spec.run.name, "dhc_digest": digest}


def taken(spec: SdhcSpec) -> tuple[SdhcSpec, str]:
    """The specification that names the release, and the text of ``dhc.csv``. The states must be
    known. Raises :class:`UserError` for one that is seeded, or that lacks a state or every query."""
    folder = _folder(spec)
    opened = open_dhc(folder)
    check_digests(folder, statement.read(folder))
    if spec.run.private and not opened.spec.run.private:
        raise UserError(
            "this release was seeded: its measurements are not private",
            where=folder,
            remedy="name one that is private; or, for a trial, set run.seed",
        )
    rows = [row for of in used(spec) for row in _rows(opened, of, spec)]
    if not rows:
        raise UserError(
            "has no query with all answers of these states measured",
            where=folder,
            remedy="leave sdhc.dhc out",
        )
    private = weakest([spec.run.private, opened.spec.run.private])
    mark = ([], []) if private else ([COLUMN], [CELL])
    out = StringIO()
    write_rows(out, [[*COLUMNS, *mark[0]], *([*row, *mark[1]] for row in rows)])
    return spec.amended_by(named(spec)), out.getvalue()


def states(spec: SdhcSpec) -> tuple[str, ...]:
    """Those of the release that ``sdhc.dhc`` names."""
    return _states(open_dhc(_folder(spec)))


def _folder(spec: SdhcSpec) -> Path:
    return run_directory.release_of(Path(spec.sdhc.dhc))


def _states(opened: OpenedDhc) -> tuple[str, ...]:
    name = LEVELS[STATE]
    if name not in opened.spine.levels:
        raise UserError("has no level State", where=opened.folder, remedy="leave sdhc.dhc out")
    return tuple(text(opened.spine.codes[opened.spine.index(name)]).tolist())


def _rows(opened: OpenedDhc, sums: DhcSums, spec: SdhcSpec) -> Iterator[list[object]]:
    """The answers that are summed, at the levels that have all of them."""
    there = _states(opened)
    if lost := [s for s in spec.sdhc.states if s not in there]:
        raise UserError(
            f"has no state {lost[0]}", where=opened.folder, remedy="name the DHC of the same states"
        )
    source = opened.source(opened.spec.universe(sums.universe))
    wanted = {LEVELS[STATE]: [there.index(s) for s in spec.sdhc.states]}
    if LEVELS[USA] in opened.spine.levels and len(there) == len(spec.sdhc.states):
        wanted[LEVELS[USA]] = [0]
    for level, units in wanted.items():
        if sums.query not in source.queries(level):
            continue
        m = source.read(level, sums.query)
        at = np.add.outer(np.array(units) * m.cells, sums.used)
        variance = m.variance[units]
        if not (np.isin(at, m.at).all() and np.isfinite(variance).all() and np.ptp(variance) == 0):
            continue  # a sum without one of its answers is biased
        values = m.values[np.searchsorted(m.at, at)]
        for region, line in zip(_regions(spec, level), values.tolist(), strict=True):
            for cell, value in zip(sums.used.tolist(), line, strict=True):
                yield [level, region, sums.universe, sums.query, cell, value, float(variance[0])]


def _regions(spec: SdhcSpec, level: str) -> Sequence[str]:
    return ("US",) if level == LEVELS[USA] else spec.sdhc.states


# --- from the release itself


def further(spec: SdhcSpec, written: str, where: Path) -> list[FurtherSums]:
    """What ``dhc.csv`` says. Raises :class:`ReleaseError` where it is not as it was written."""
    lines: dict[Key, list[dict[str, str]]] = {}
    known = {(of.universe, of.query): of for of in used(spec)}
    try:
        for row in csv.DictReader(written.splitlines()):
            lines.setdefault((row["LEVEL"], row["UNIVERSE"], row["QUERY"]), []).append(row)
        return [_sums(spec, key, known[key[1:]], rows) for key, rows in lines.items()]
    except (KeyError, TypeError, ValueError) as error:
        raise ReleaseError(
            f"these are no measurements of the DHC ({error})", where=where, remedy=ALTERED
        ) from None


def _sums(spec: SdhcSpec, key: Key, sums: DhcSums, rows: list[dict[str, str]]) -> FurtherSums:
    level = next(r for r, name in LEVELS.items() if name == key[0])
    wanted = [(r, str(c)) for r in _regions(spec, key[0]) for c in sums.used]
    if [(row["REGION_ID"], row["CELL"]) for row in rows] != wanted:
        raise ValueError(f"answers of {sums.query!r} are missing, or there twice")
    variance = {float(row["VARIANCE"]) for row in rows}
    if len(variance) != 1 or not 0 < min(variance) < np.inf:
        raise ValueError(f"regions of {sums.query!r} differ in their noise")
    values = np.array([int(row["VALUE"]) for row in rows], dtype=float).reshape(-1, len(sums.used))
    return summed(level, sums, values, min(variance))


def summed(level: str, sums: DhcSums, values: NDArray[np.float64], variance: float) -> FurtherSums:
    """Of the noisy answers that are used, ``(regions, used)``, each with this variance."""
    inside = np.array(list(sums.sums.values()), dtype=float)[:, sums.used]
    weights = np.zeros((len(sums.sums), len(answers())))
    weights[np.arange(len(sums.sums)), [answers().index(a) for a in sums.sums]] = 1
    return FurtherSums(level, weights, values @ inside.T, variance * inside @ inside.T)
