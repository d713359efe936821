"""The noisy measurement files, checked against the lines of a statement: levels, queries, units,
answers, variances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from das.accounting.document import ALTERED, NAME, ForeignLine, Line
from das.errors import ReleaseError
from das.files.atomic import files_below
from das.files.measurements.nmf import odd_columns
from das.files.measurements.nmf_reader import NmfReader
from das.files.run import run_directory
from das.model.budget import ALL
from das.model.measured_spine import MeasuredSpine
from das.model.mechanisms import Mechanism
from das.model.universe import Universe
from das.release.verify.sealed import trees_of


def check_files(release: Path, mechanism: Mechanism, lines: Sequence[Line | ForeignLine]) -> None:
    """Raises :class:`ReleaseError` at the first difference."""
    trees = trees_of(release, dict.fromkeys(d.universe for d in lines))
    readers = {
        u: NmfReader(run_directory.nmf_folder(release, u), t.spine, t.measured)
        for u, t in trees.items()
    }
    for universe, reader in readers.items():
        for level in reader.spine.levels:
            check_queries(lines, universe, level, reader.queries(level), reader.root)
    for line in lines:
        _check_line(
            _Expected.from_line(line, mechanism), readers[line.universe], trees[line.universe]
        )


def check_queries(
    lines: Sequence[Line | ForeignLine],
    universe: str,
    level: str,
    measured: Iterable[str],
    root: Path,
) -> None:
    """Raises :class:`ReleaseError` where the queries that were ``measured`` in the files of a level
    are not those of its lines."""
    said = {d.query for d in lines if (d.universe, d.level) == (universe, level)}
    if odd := said ^ set(measured):
        raise ReleaseError(
            f"{sorted(odd)[0]!r} is in the files or in {NAME}, not in both",
            where=f"{root}, {level}",
            remedy=ALTERED,
        )


def check_described(release: Path, universe: Universe) -> None:
    """Check that every row says what was asked as das writes it. Only other programs read that.
    Raises :class:`ReleaseError` at the first difference."""
    root = run_directory.nmf_folder(release, universe.name)
    for path in (root / name for name in files_below(root) if "/DPQuery/" in name):
        for query, column in odd_columns(path, universe.schema):
            what = f"{column} is not that of {query!r} in every row"
            raise ReleaseError(what, where=path, remedy=ALTERED)


@dataclass(frozen=True)
class _Expected:
    """What the files must hold for one query at one level.

    ``measured`` of ``units`` units must have it, each with ``answers`` answers and a variance from
    ``least`` to ``most``. The units are those of one class; in another publisher's measurements,
    all of the level."""

    level: str
    query: str
    measured: int
    units: int
    answers: int
    least: float
    most: float
    unit_class: str | None = None

    @staticmethod
    def from_line(line: Line | ForeignLine, mechanism: Mechanism) -> _Expected:
        if isinstance(line, ForeignLine):
            v = line.variance
            return _Expected(
                line.level, line.query, line.units, line.of_units, line.answers, v.least, v.most
            )
        variance = max(mechanism.variance(line.parameter), float(np.finfo(np.float32).tiny))
        return _Expected(
            line.level,
            line.query,
            line.units,
            line.units,
            line.answers,
            variance,
            variance,
            line.place[1],
        )


def _check_line(said: _Expected, reader: NmfReader, tree: MeasuredSpine) -> None:
    """Check that every unit of its class in the tree has the variance of the line, and that the
    number of units is right."""
    where = f"{reader.root}, {said.level}, {said.query}"
    of_class = np.full(tree.spine.units(said.level), True)
    if said.unit_class is not None:
        of_class = tree.classes(said.level).get(said.unit_class, ~of_class)
    if (units := int(of_class.sum())) != said.units:
        kind = "" if said.unit_class in (None, ALL) else f" of class {said.unit_class!r}"
        raise ReleaseError(
            f"{units} units{kind}, the statement says {said.units}", where=where, remedy=ALTERED
        )
    measured = 0
    for start, stop in reader.spine.batches(said.level, said.answers):
        m = reader.read(said.level, said.query, start, stop)
        if m.values.shape[1] != said.answers:
            raise ReleaseError(
                f"{m.values.shape[1]} answers, the statement says {said.answers}",
                where=where,
                remedy=ALTERED,
            )
        there = np.isfinite(m.variance) & of_class[start:stop]
        measured += int(there.sum())
        odd = there & (
            (m.variance < said.least * (1 - 1e-5)) | (m.variance > said.most * (1 + 1e-5))
        )
        if odd.any():
            unit = int(np.flatnonzero(odd)[0])
            code = reader.spine.code(said.level, start + unit)
            raise ReleaseError(
                f"variance {m.variance[unit]:.6g} of {code}, the statement gives {said.least:.6g}",
                where=where,
                remedy=ALTERED,
            )
    if measured != said.measured:
        raise ReleaseError(
            f"{measured} units are measured, the statement says {said.measured}",
            where=where,
            remedy=ALTERED,
        )
