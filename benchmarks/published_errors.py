"""Our errors next to those that the Census Bureau published for its own run on the nation's 2010
data.

The Bureau's errors (Detailed Summary Metrics, 2023-04-03) are for the nation, on its optimized
spine. That run also served the demographic tables (sex by age), so its shares of the budget need
not be those of the redistricting run. Ours are for one state. They are shown together; they need
not be equal."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.whole_run import WholeRun
from das.files.microdata import reading as microdata_reading
from das.files.release import spine as spine_file
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.model.universe import PERSONS, Universe
from das.truth import files
from das.truth.prepared import upward

Counts = NDArray[np.int64]

_RACES = (
    "White alone",
    "Black alone",
    "AIAN alone",
    "Asian alone",
    "NHPI alone",
    "SOR alone",
    "Two or more races",
)
_URBAN = 'Blocks classified as "{}" in the 2010 Census'


@dataclass(frozen=True)
class Comparand:
    """A level, what is counted, and where the Bureau's table has it."""

    level: str
    counted: str
    table: str
    row: str
    section: str = ""
    of: str = ""  #: which units of the Bureau's, where not all


COMPARED: tuple[Comparand, ...] = (
    Comparand("County", "total", "Table 1.a", "All counties"),
    Comparand("Tract", "total", "Table 1.c", "All tracts"),
    Comparand("Block", "total", "Table 1.d", _URBAN.format("urban"), of="urban blocks"),
    Comparand("Block", "total", "Table 1.d", _URBAN.format("rural"), of="rural blocks"),
    Comparand("County", "18 and over", "Table 2.a", "All counties"),
    Comparand("Tract", "18 and over", "Table 2.c", "All tracts"),
    Comparand("County", "Hispanic", "Table 5.b", "Hispanic or Latino"),
    Comparand("Tract", "Hispanic", "Table 5.d", "Hispanic or Latino"),
    *(Comparand("County", race, "Table 6.b", race) for race in _RACES),
    *(Comparand("Tract", race, "Table 6.d", race) for race in _RACES),
    *(
        Comparand(
            "Block_Group",
            f"{race}, not Hispanic, 18 and over",
            "Table 12.b",
            race,
            "Not Hispanic or Latino",
        )
        for race in _RACES
    ),
    *(
        Comparand(
            "Block_Group",
            f"{race}, Hispanic, 18 and over",
            "Table 12.b",
            race,
            "Hispanic or Latino",
        )
        for race in _RACES
    ),
)


@dataclass(frozen=True)
class Theirs:
    mae: float
    units: int


def bureau(path: Path) -> dict[Comparand, Theirs]:
    """The published mean absolute errors. Raises ``LookupError`` where the file lacks one."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        lines = [
            r
            for r in csv.DictReader(stream)
            if not r["size_class"] or r["size_class"].startswith("All ")
        ]
    found = {
        (r["table"], r["section"], r["row"]): Theirs(float(r["MAE"]), int(r["N"])) for r in lines
    }
    return {c: found[c.table, c.section, c.row] for c in COMPARED}


def ours(run: WholeRun) -> dict[tuple[str, str], Counts]:
    """Published minus true, by level and what is counted, ``(units,)``; of a run that has its
    confidential part.
    """
    spine = spine_file.read(run.directory.release / "spine.parquet")
    true = files.read(run.directory.confidential / "truth" / "persons.parquet")
    made = microdata_reading.read(
        run.directory.release / "microdata" / "persons", Universe(PERSONS, PL94), spine.codes[-1]
    )
    known, published = upward(true, spine), upward(Confidential(made), spine)
    out: dict[tuple[str, str], Counts] = {}
    for level in dict.fromkeys(c.level for c in COMPARED):
        a = dict(counted(known[level].open("to compare errors with the Bureau's")))
        b = dict(counted(published[level].open("published")))
        out |= {(level, what): b[what] - a[what] for what in a}
    return out


def counted(h: Histogram) -> Iterator[tuple[str, Counts]]:
    """Everything that is compared, of each unit."""
    x = h.answer(PL94.query("votingage * hispanic * cenrace")).reshape(h.units, 2, 2, 63)
    yield "total", x.sum(axis=(1, 2, 3))
    yield "18 and over", x[:, 1].sum(axis=(1, 2))
    yield "Hispanic", x[:, :, 1].sum(axis=(1, 2))
    for i, race in enumerate(_RACES):
        of = slice(i, i + 1) if i < 6 else slice(6, None)
        yield race, x[..., of].sum(axis=(1, 2, 3))
        yield f"{race}, not Hispanic, 18 and over", x[:, 1, 0, of].sum(axis=1)
        yield f"{race}, Hispanic, 18 and over", x[:, 1, 1, of].sum(axis=1)


def mean_absolute(
    runs: Sequence[Mapping[tuple[str, str], Counts]], level: str, what: str
) -> tuple[float, float]:
    """The mean over the runs of the mean absolute error, and its standard deviation between
    runs.
    """
    each = [float(np.abs(r[level, what]).mean()) for r in runs]
    return float(np.mean(each)), float(np.std(each, ddof=1)) if len(each) > 1 else 0.0
