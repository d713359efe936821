"""Agreement of published tables alone, as the Census Bureau's: identities between lines of tables
of persons (P) and of households (H).

Tables separate fewer classes than the files, so fewer things can be checked: a unit that passes
here can still disagree. A name such as ``P17:3`` is line 3 of table P17."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, UserError
from das.files.release import tables as table_lines
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.dhc import release_files
from das.publications.dhc.agreement.counted import AgreementCounts, Ints
from das.publications.dhc.agreement.identities import AgreementRow, agreement
from das.publications.dhc.release import SPEC, open_dhc
from das.publications.dhc.release_files import DhcCounts

EQUAL, AT_MOST = "=", "<="
#: Values of lines, each ``(units,)``, by name.
LineValues = Mapping[str, Ints]


@dataclass(frozen=True)
class LineCheck:
    """The sum of the lines ``left`` is, or is at most, the sum of the lines ``right``. A line can
    be there several times."""

    identity: str
    says: str
    left: tuple[str, ...]
    relation: str
    right: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.relation not in (EQUAL, AT_MOST) or not (self.left and self.right):
            raise InputError(f"no such relation as {self.relation!r}", where=self.identity)

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(line.partition(":")[0] for line in (*self.left, *self.right))

    def gap(self, lines: LineValues) -> NDArray[np.float64]:
        """How far each unit is from it, ``(units,)``."""
        left, right = (sum(lines[x].astype(float) for x in s) for s in (self.left, self.right))
        apart = np.asarray(left - right)
        return np.abs(apart) if self.relation == EQUAL else np.maximum(apart, 0)


def _lines(table: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{table}:{n}" for n in numbers)


def _check(
    identity: str, says: str, left: tuple[str, ...], relation: str, right: tuple[str, ...]
) -> LineCheck:
    return LineCheck(identity, says, left, relation, right)


#: P12: first and last line of the men of each class of the householder's age; women are 24 on.
_AGES = ((6, 10), (11, 12), (13, 14), (15, 16), (17, 17), (18, 19), (20, 22), (23, 24), (25, 25))
_MEN_TO_WOMEN = 24
_OLD = tuple(range(20, 26))


def _of_age(first: int, last: int) -> tuple[str, ...]:
    men = range(first, last + 1)
    return _lines("P12", *men, *(n + _MEN_TO_WOMEN for n in men))


_CHECKS = (
    _check("E5", "householders are occupied units", _lines("P17", 3), EQUAL, _lines("H3", 2)),
    _check("E5", "householders are households", _lines("P17", 3), EQUAL, _lines("H9", 1)),
    _check("E1", "living alone are households of one", _lines("P17", 5, 8), EQUAL, _lines("H9", 2)),
    _check("E1", "men living alone", _lines("P17", 5), EQUAL, _lines("P20", 9)),
    _check("E1", "women living alone", _lines("P17", 8), EQUAL, _lines("P20", 15)),
    _check("E2", "spouses are married couples", _lines("P17", 10, 11), EQUAL, _lines("P20", 2)),
    _check("E2", "partners are cohabiting couples", _lines("P17", 12, 13), EQUAL, _lines("P20", 5)),
    _check(
        "I1",
        "persons at home are at least the sizes added up",
        tuple(x for n in range(1, 8) for x in _lines("H9", n + 1) * n),
        AT_MOST,
        _lines("H8", 1),
    ),
    _check(
        "I2",
        "households with own children have some",
        _lines("P20", 3, 6, 11, 17),
        AT_MOST,
        _lines("P17", 15, 17, 19),
    ),
    _check(
        "I3",
        "households with persons under 18 have some",
        _lines("P21", 2),
        AT_MOST,
        _lines("P15", 2),
    ),
    _check(
        "I5",
        "households with persons of 65 and over have some",
        _lines("P19", 2),
        AT_MOST,
        _lines("P12", *_OLD, *(n + _MEN_TO_WOMEN for n in _OLD)),
    ),
    *(
        _check(
            "E1",
            f"householders of age class {i + 1} of 9 are at most the persons",
            _lines("H13", 3 + i, 13 + i),
            AT_MOST,
            _of_age(*span),
        )
        for i, span in enumerate(_AGES)
    ),
    *(
        _check(
            "E1",
            f"householders of race group {n - 1} of 7 are at most the persons",
            _lines("H6", n),
            AT_MOST,
            _lines("P3", n),
        )
        for n in range(2, 9)
    ),
)
#: Every check of lines, in order.
LINE_CHECKS: Sequence[LineCheck] = _CHECKS
#: The tables that they read.
CHECKED_TABLES = tuple(sorted(frozenset[str]().union(*(c.tables for c in LINE_CHECKS))))


def table_agreement(lines: LineValues, level: str) -> list[AgreementRow]:
    """A row for each check whose tables are there, and one for any of them. Units whose
    compared lines are all 0 are left out.

    Raises :class:`InputError` where no check has its tables."""
    there = {x.partition(":")[0] for x in lines}
    checks = [c for c in LINE_CHECKS if c.tables <= there]
    if not checks:
        raise InputError(
            f"holds no two tables that can be compared at level {level!r}",
            where="tables",
            remedy=f"give some of {', '.join(CHECKED_TABLES)}",
        )
    lived = np.any([lines[x] > 0 for c in checks for x in (*c.left, *c.right)], axis=0)
    gaps = [c.gap(lines)[lived] for c in checks]
    odd = np.any([g > 0 for g in gaps], axis=0)
    units = len(odd)
    rows = [
        AgreementRow(
            c.identity, c.says, level, units, int((g > 0).sum()), float(g.sum() / max(1, units))
        )
        for c, g in zip(checks, gaps, strict=True)
    ]
    return [*rows, AgreementRow("any", "any of these", level, units, int(odd.sum()), None)]


# How well the published persons and households of a DHC release agree, from its files alone: its
# microdata if they are there, otherwise its tables of persons and of households, which can be another
# publisher's (:mod:`das.files.release.tables`).
#
# Like :mod:`das.release.post_processing`, nothing here can see the truth.


def agreement_of(folder: Path) -> list[AgreementRow]:
    """The identities of a release, or of a folder of tables, level by level, the lowest first.

    Raises :class:`UserError` where there is neither, and :class:`InputError` for damaged files."""
    if (folder / SPEC).is_file():
        opened = open_dhc(folder)
        lowest = release_files.read_counts(folder, opened.spine)
        return agreement_of_counts(
            opened.spine, {name: h.upward(opened.spine) for name, h in lowest.items()}
        )
    tables = folder / "tables" if (folder / "tables").is_dir() else folder
    if not (levels := table_lines.levels(tables, CHECKED_TABLES)):
        raise UserError(
            "holds neither a release of the DHC nor tables of one",
            where=folder,
            remedy="give a run, a release, or a folder with tables such as P17_Block.csv and"
            " H9_Block.csv",
        )
    return [
        row
        for level in levels
        for row in table_agreement(table_lines.lines(tables, level, CHECKED_TABLES), level)
    ]


def agreement_of_counts(spine: Spine, counts: DhcCounts) -> list[AgreementRow]:
    """As :func:`agreement_of`, from counts by universe and level."""
    return [
        row
        for level in reversed(spine.levels)
        for row in agreement(agreement_counts({u: h[level] for u, h in counts.items()}), level)
    ]


def agreement_counts(counts: Mapping[str, Histogram]) -> AgreementCounts:
    """The counts of one level, by universe."""
    return AgreementCounts(counts["persons"], counts["households"], counts["units"])
