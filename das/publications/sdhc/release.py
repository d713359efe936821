"""A release of the S-DHC, opened from its folder alone, and a configuration with the file that it
names read. Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from das.accounting.document import ALTERED
from das.errors import ReleaseError, SpecError, UserError
from das.files import atomic
from das.files.parquet import refuse_marked
from das.files.run import run_directory
from das.model.ledger import Event
from das.publications.sdhc import from_dhc
from das.publications.sdhc.files import columns, measurements
from das.publications.sdhc.model.tables import (
    LEFT_OUT,
    PHSAFE,
    FurtherSums,
    MeasuredRegions,
    variances,
)
from das.publications.sdhc.spec import SdhcSpec
from das.spec import load, of_kind


@dataclass(frozen=True, eq=False)
class OpenedSdhc:
    folder: Path
    spec: SdhcSpec

    @property
    def events(self) -> Sequence[Event]:
        """All draws, in the order of the ledger."""
        return [e for level in self.spec.levels for e in self.spec.events(level)]

    @cached_property
    def measured(self) -> tuple[MeasuredRegions, ...]:
        """The measurements of each level. Raises :class:`ReleaseError` where they are not those of
        the plan."""
        return tuple(self._measured(level) for level in self.spec.levels)

    @cached_property
    def further(self) -> list[FurtherSums]:
        """What was taken over from a release of the DHC, if one is named."""
        if not self.spec.sdhc.dhc:
            return []
        path = self.folder / from_dhc.NAME
        text = run_directory.read_text(path, "measurements of the DHC")
        return from_dhc.further(self.spec, text, path)

    def _measured(self, level: str) -> MeasuredRegions:
        spec = self.spec
        file = measurements.path(run_directory.nmf_folder(self.folder, spec.name), level)
        refuse_marked(file, spec.run.private)
        found = measurements.read(file, level, spec.regions(level))
        if not np.array_equal(found.variance, variances(spec.events(level))):
            raise ReleaseError("its noise is not that of the plan", where=file, remedy=ALTERED)
        return found


def open_sdhc(release: Path) -> OpenedSdhc:
    """Open a release. Raises :class:`ReleaseError`, or :class:`SpecError` if it is not a release of
    the S-DHC."""
    path = release / "spec.toml"
    given = load(run_directory.read_text(path, "specification"), where=str(path))
    spec = of_kind(SdhcSpec, given, str(path))
    if not spec.sdhc.states:
        raise ReleaseError("has no states", where=path, remedy=ALTERED)
    return OpenedSdhc(release, spec)


def resolved(spec: SdhcSpec) -> SdhcSpec:
    """The specification with the parameters that it names read. Raises :class:`UserError`."""
    if not spec.data.parameters:
        return spec
    path = Path(spec.data.parameters)
    given = columns.read_config(path)
    if spec.sdhc.mode != PHSAFE:
        given.pop("tau")
        budget = given["budget"]
        mine = spec.sdhc.budget
        given["budget"] = budget | {t: dict(mine[t]) for t in LEFT_OUT if t in mine}
    try:
        return spec.amended_by(given)
    except (SpecError, ValueError) as error:
        raise UserError(f"does not go with the configuration: {error}", where=path) from None


def write_official(opened: OpenedSdhc) -> dict[str, int]:
    """The measurements in the official layout: how many rows each table has."""
    rows = {}
    for name, text in official(opened).items():
        atomic.write_text(opened.folder / name, text)
        rows[Path(name).parent.name] = text.count("\n") - 1
    return rows


def official(opened: OpenedSdhc) -> dict[str, str]:
    spec = opened.spec
    return measurements.official(opened.measured, spec.mechanism, spec.run.private)
