"""One reader of a release's noisy measurements for each worker process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from das.files.measurements import nmf
from das.files.release import spine as spine_file
from das.files.run import run_directory


@lru_cache(maxsize=4)
def open_source(release: Path, universe: str) -> nmf.NmfReader:
    """The spine and the index of the files are read once."""
    return nmf.NmfReader(run_directory.nmf_folder(release, universe), spine_file.read(release / "spine.parquet"))
