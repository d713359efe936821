"""Which rows of noisy measurements a user wants, and how many rows are summarized.

Those that were drawn whole are read as files of any publisher are
(:mod:`das.files.measurements.frame`); of others it is :mod:`das.publications.dhc.measured_rows` and
:mod:`das.publications.detailed.rows`. Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.model.spelling import named

#: A column by its name, as long as the others.
RowColumns = dict[str, Any]
DRAWN, STATED = "DPQuery", "Constraint"


@dataclass(frozen=True)
class RowOptions:
    """Which rows are asked for: all, or those of a ``level``, a ``query`` and some ``geocodes``; of
    a ``universe`` (persons, where none is named); ``tidy``: a row for each answer. ``kind``:
    measurements, or constraints."""

    level: str | None = None
    query: str | None = None
    geocodes: tuple[str, ...] = ()
    universe: str | None = None
    kind: str = DRAWN
    tidy: bool = True

    def on(self, path: Path, folders: Mapping[str, str]) -> RowOptions:
        """These options with the universe of the folder of files ``path``, if no universe is
        named."""
        if self.universe is not None or path.resolve().name not in folders:
            return self
        return replace(self, universe=folders[path.resolve().name])

    def among(self, universes: Sequence[str]) -> str:
        """The name of the universe."""
        if self.universe is None:
            return universes[0]
        return named(self.universe, universes, "universe", "--universe")

    def refuse_lists(self, where: Path) -> None:
        """Raises :class:`UserError` where rows are not tidy, which only files of whole measurements
        have.
        """
        if not self.tidy:
            raise UserError(
                "there are no rows of lists here", where=where, remedy="leave out tidy=False"
            )


def spread(variance: NDArray[np.float64], values: NDArray[np.int64]) -> dict[str, Any]:
    there = bool(len(values))
    return {
        "variance": round(float(variance.max()), 6) if len(variance) else None,
        "least value": int(values.min()) if there else None,
        "most": int(values.max()) if there else None,
    }
