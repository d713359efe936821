"""What is known of places outside of published measurement files: totals, names, areas of blocks,
such as cities, and other measurements.

Measurement files say codes alone. The redistricting files (P.L. 94-171) of the same states say what
places are called and which blocks make them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.files.measurements.outside_totals import OutsideTotals
from das.model.areas import Areas, off_spine
from das.model.codes import Codes
from das.model.counts_by_block import CountsByBlock
from das.model.frozen import Frozen
from das.model.names import Names, blank
from das.model.spine import Spine
from das.model.states import state_names


@dataclass(frozen=True, eq=False)
class Outside(Frozen):
    """``totals`` of states; ``fields``: geographic codes of some blocks, ``(blocks,)``, as
    :class:`das.model.records.Blocks` has them; ``names`` of places by field; ``dhc``: files of the
    DHC's persons (:mod:`das.files.measurements.published_together`)."""

    totals: OutsideTotals = field(default_factory=OutsideTotals)
    fields: Mapping[str, Codes] = field(default_factory=dict)
    names: Mapping[str, Names] = field(default_factory=dict)
    dhc: Path | None = None

    @staticmethod
    def of_published(found: CountsByBlock, totals: OutsideTotals | None = None) -> Outside:
        """What published redistricting counts say: totals of states (without ``totals``), names and
        areas."""
        known = OutsideTotals(found.totals("State", "P0010001"), found.source)
        return Outside(totals or known, found.fields, found.names)

    def called(self, spine: Spine) -> tuple[NDArray[np.str_], ...]:
        """The names of the units of a spine, by level."""
        known = state_names() | dict(self.names)
        return tuple(
            known[level].at(codes) if level in known else blank(len(codes))
            for level, codes in zip(spine.levels, spine.codes, strict=True)
        )

    def areas(self, spine: Spine) -> tuple[Areas, ...]:
        """The areas off the spine that the fields tell, of the blocks that the spine has. Without
        blocks there are none: a city need not be made up of whole counties."""
        level = spine.levels[-1]
        if level != "Block" or level not in self.fields:
            return ()
        unit = spine.find(level, self.fields[level])
        here = unit >= 0
        if not here.any():
            return ()
        fields = {name: codes[here] for name, codes in self.fields.items()}
        return off_spine(fields, spine.levels, unit[here], spine.units(level), self.names)


NOTHING = Outside()
