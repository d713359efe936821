"""The trees that the DHC is measured over.

The rule of an optimized spine (:mod:`das.geography.optimized`) needs fields of the blocks. Here
they come from the earlier release: the levels of its tree, and its areas off the spine. Structures
are those that the DHC publishes exactly: housing units, and facilities by class. So a tree is a
function of what is public. That of persons also divides blocks by their types of facilities, as in
the redistricting runs of 2020; that of units and households does not.

*No bypass.* Each unit is measured with its own level's share, also an only child, whose
measurements count for its parent (:mod:`das.estimate.upward`). So every path costs what it costs on
the published tree, and the statement is the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.files.readers import area_list
from das.files.readers.source import source_of
from das.geography import optimized, targets
from das.geography.geocodes import NATIONAL, Geocodes
from das.model.areas import Areas
from das.model.measured_spine import MeasuredSpine
from das.model.records import Blocks
from das.model.source import Source
from das.model.spine import Spine
from das.spec.dhc import DhcSpec

#: The code of a block outside of any area of a kind, where the rule knows the kind.
_NONE = {"Place": b"99999", "County_Subdivision": b"99999", "AIAN": b"9999"}


def trees_of(
    spec: DhcSpec, spine: Spine, areas: Sequence[Areas], structures: NDArray[np.int64]
) -> tuple[dict[str, MeasuredSpine], tuple[Source, ...]]:
    """The measured tree of each universe over the published ``spine``, and the lists of blocks that
    were read for them. ``structures``: housing units, and facilities by class, ``(units, 8)``.

    Raises :class:`das.errors.InputError` as :func:`das.geography.optimized.measured_spine` does,
    and for a target that is no level, no kind of area and no list of blocks."""
    g = spec.geography
    if g.spine == "tabulation":
        return {u.name: MeasuredSpine.of(spine) for u in spec.universes}, ()
    unit = np.arange(len(spine.codes[-1]))
    fields = {
        lv: spine.codes[i][spine.up(spine.levels[-1], lv)] for i, lv in enumerate(spine.levels)
    }
    for kind in areas:
        codes = targets.listed(kind, len(unit))
        fields[kind.kind] = np.where(codes == b"", _NONE.get(kind.kind, b""), codes)
    blocks = Blocks(fields, structures)
    paths = [Path(path) for path in g.lists]
    lists = {path.name: area_list.read(path, spine) for path in paths}
    rule = optimized.Rule(
        g.runs,
        targets.of(g.named, blocks, spine, unit, lists),
        Geocodes(g.geocodes or "2020", {**NATIONAL, **(g.digits or {})}),
    )
    trees = {
        housed: optimized.measured_spine(blocks, spine, unit, rule, facilities=housed)
        for housed in {u.housed for u in spec.universes}
    }
    found = {u.name: trees[u.housed].without_bypass() for u in spec.universes}
    return found, tuple(source_of(path) for path in paths)
