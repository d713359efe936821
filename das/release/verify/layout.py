"""Which files accompany the measurements of a release whose units are those of trees."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from das.accounting.document import ALTERED
from das.errors import ReleaseError
from das.files.measurements import margins
from das.files.parquet import opened
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.run import run_directory


def check_layout(release: Path, universes: Iterable[str], levels: Iterable[str]) -> None:
    """Check that the folders hold only measurements of the levels, and the trees only their own
    columns. Content that nothing reads would not be verified."""
    trees: dict[Path, tuple[str, ...]] = {release / "spine.parquet": spine_file.COLUMNS}
    known = {*(f"{level}.parquet" for level in levels), tree_file.NAME, margins.NAME}
    for universe in universes:
        root = run_directory.nmf_folder(release, universe)
        if odd := [name for name in run_directory.entries(root) if name not in known]:
            raise ReleaseError(f"{odd[0]} is not of a level", where=root, remedy=ALTERED)
        if (root / tree_file.NAME).is_file():
            trees[root / tree_file.NAME] = (*spine_file.COLUMNS, *tree_file.COLUMNS)
        if (root / margins.NAME).is_file():
            trees[root / margins.NAME] = margins.COLUMNS
    for path, columns in trees.items():
        if odd := [name for name in opened(path).schema_arrow.names if name not in columns]:
            raise ReleaseError(
                f"it has a column {odd[0]!r}, which none has", where=path, remedy=ALTERED
            )
