"""The rows of a published table that a reader wants: units of a level, or areas off the spine,
which are sums of the lowest units; by code, by GEOID or by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.files import codes as texts
from das.files.release.tables import GEOCODE, GEOID, NAME, identifiers
from das.model.areas import Areas
from das.model.codes import Codes, encoded, text
from das.model.names import plain
from das.model.spine import Spine

#: Columns of areas that follow their codes: the number of their lowest units, and the standard
#: error of the first column as it was measured. The noise of every column follows the counts, as
#: ``<field> NOISE_SE``.
UNITS, NOISE_SE = "UNITS", "NOISE_SE"


@dataclass(frozen=True, eq=False)
class PlaceColumns:
    """Units or areas in the order of their rows: ``codes``, what stands ``beside`` them and what
    comes ``after`` their counts, by column."""

    codes: Codes
    beside: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    after: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @staticmethod
    def of_level(spine: Spine, level: str) -> PlaceColumns:
        return PlaceColumns(spine.codes[spine.index(level)], identifiers(spine, level))

    @staticmethod
    def of_areas(areas: Areas, noise: NDArray[np.float64] | None = None) -> PlaceColumns:
        """``noise`` is the variance of each area's first column as it was measured, where that is
        known.
        """
        known = {GEOID: areas.geoids, NAME: encoded(areas.called)}
        beside: dict[str, NDArray[Any]] = {c: there for c, there in known.items() if there.any()}
        measured = {} if noise is None else {NOISE_SE: _error(noise)}
        return PlaceColumns(areas.codes, beside | {UNITS: np.bincount(areas.area)} | measured)

    def with_noise(self, columns: Sequence[str], noise: NDArray[np.float64]) -> PlaceColumns:
        """With the standard errors of ``columns`` after the counts; ``noise`` are their variances,
        ``(rows, columns)``.
        """
        return replace(
            self,
            after={f"{c} {NOISE_SE}": _error(v) for c, v in zip(columns, noise.T, strict=True)},
        )

    def wanted(self, prefixes: Sequence[str], names: Sequence[str]) -> NDArray[np.bool_]:
        """The rows that match both lists; an empty list matches all.

        A row matches if its code or GEOID begins with one of ``prefixes``. It matches ``names`` if
        its name contains one of them, ignoring case and accents, or its code or GEOID is one of
        them."""
        codes = [t for t in (self.codes, self.beside.get(GEOID)) if t is not None]
        out = np.full(len(self.codes), not prefixes)
        for prefix in prefixes:
            for known in codes:
                out |= np.strings.startswith(known, prefix.encode())
        if names:
            called = (
                plain(text(self.beside[NAME])) if NAME in self.beside else np.full(len(out), "")
            )
            said = [np.strings.find(called, plain(np.array([n]))[0]) >= 0 for n in names]
            said += [known == n.encode() for n in names for known in codes]
            out &= np.any(said, axis=0)
        return out

    def identified(
        self, parts: Iterator[pa.Table], wanted: NDArray[np.bool_]
    ) -> Iterator[pa.Table]:
        """The wanted rows of ``parts``, consecutive in the order of the codes, with the columns
        that identify them.
        """
        start = 0
        for part in parts:
            here = slice(start, start + part.num_rows)
            start += part.num_rows
            for i, (column, values) in enumerate(self.beside.items(), start=1):
                told = (
                    texts.column if column in (GEOID, NAME) else partial(pa.array, from_pandas=True)
                )
                part = part.add_column(i, column, told(values[here]))
            for column, errors in self.after.items():
                part = part.append_column(column, pa.array(errors[here], from_pandas=True))
            yield part.filter(pa.array(wanted[here]))


def _error(variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard errors, empty (not a number) where nothing was measured."""
    return np.where(np.isfinite(variance), np.sqrt(variance).round(1), np.nan)


def added_up(parts: Iterator[pa.Table], areas: Areas, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of the lowest units, added up to one table of the areas."""
    order = np.argsort(areas.unit, kind="stable")
    unit, area = areas.unit[order], areas.area[order]
    sums = np.zeros((len(areas), len(columns)), dtype=np.int64)
    first = 0
    for part in parts:
        values = np.stack([part[c].to_numpy() for c in columns], axis=1)
        here = slice(*np.searchsorted(unit, [first, first + len(values)]))
        np.add.at(sums, area[here], values[unit[here] - first])
        first += len(values)
    yield pa.table(
        {GEOCODE: texts.column(areas.codes)}
        | dict(zip(columns, map(pa.array, sums.T), strict=True))
    )
