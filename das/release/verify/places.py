"""The trees that the universes of a release were measured over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from das.accounting.document import ALTERED
from das.errors import ReleaseError
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.run import run_directory
from das.model.codes import text
from das.model.measured_spine import MeasuredSpine


def trees_of(release: Path, universes: Iterable[str]) -> dict[str, MeasuredSpine]:
    """The tree that each universe was measured over: the release's spine, or the universe's own,
    stored with the measurements.
    """
    spine = spine_file.read(release / "spine.parquet")
    return {
        u: tree_file.read(run_directory.nmf_folder(release, u) / tree_file.NAME, spine)
        for u in universes
    }


def check_places(trees: Mapping[str, MeasuredSpine], release: Path) -> None:
    """The code of a lowest unit of a tree of its own ends with that of the place that it is
    (:mod:`das.geography.geocodes`).
    """
    published = spine_file.read(release / "spine.parquet")
    for universe, tree in trees.items():
        place = published.codes[-1][tree.place]
        if not tree.is_published and len(
            odd := np.flatnonzero(~np.strings.endswith(tree.spine.codes[-1], place))
        ):
            raise ReleaseError(
                f"{tree.spine.code(tree.spine.levels[-1], int(odd[0]))} is said to be"
                f" {text(place[odd])[0]}",
                where=run_directory.nmf_folder(release, universe) / tree_file.NAME,
                remedy=ALTERED,
            )
