"""A simulated nation of 2020: 51 redistricting files with the true numbers of counties, tracts,
block groups and blocks.

State totals are the public ones, and county totals follow them
(:mod:`das.files.simulators.totals`); everything below is made up. There is one zip a state, each
made by itself. It is a function of seed, share and state, in whatever order and by whatever process
it is made. An existing file that was made with the same arguments is kept."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

import numpy as np

from das.engine.local import executor
from das.engine.progress import SILENT, Progress
from das.errors import InputError
from das.files.simulators.census_2010 import writing
from das.files.simulators.census_2020 import SimulatedState, write_state
from das.files.simulators.nation_people import draw_people, draw_state
from das.files.simulators.people import generator
from das.files.simulators.totals import chosen, totals
from das.model.names import State

VERSION = 1  #: of what the files hold


def write(
    directory: Path,
    *,
    seed: int,
    share: float = 1.0,
    states: Sequence[str] | None = None,
    workers: int = 1,
    progress: Progress = SILENT,
) -> list[Path]:
    """Write ``{ss}2020.pl.zip`` of all ``states`` (postal abbreviations; all 51 where none are
    named), and return the paths.

    ``share`` is of each state's persons and units. Raises :class:`InputError` for arguments out of
    range, and for files in ``directory`` that others made."""
    if seed < 0:
        raise InputError(f"seed {seed}", where="simulate", remedy="give a seed of 0 or more")
    blocks = {state: totals(state, share).blocks for state in chosen(states)}
    about = (
        f"SIMULATED data: no person or home in it is real. Version {VERSION}, seed {seed}, share"
        f" {share!r}."
    )
    paths = {state: directory / f"{state.usps.lower()}2020.pl.zip" for state in blocks}
    with writing(directory):
        left = [state for state in blocks if not _is_there(paths[state], about)]
        left.sort(key=lambda state: -blocks[state])
        progress.stage("simulate blocks", sum(blocks[state] for state in left))
        with executor(min(workers, max(1, len(left)))) as pool:
            jobs = {
                pool.submit(_write_one, state, paths[state], seed, share, about): state
                for state in left
            }
            for job in as_completed(jobs):
                job.result()
                progress.advance(blocks[jobs[job]])
    return list(paths.values())


def _is_there(path: Path, about: str) -> bool:
    """Whether the file was made before, with the same arguments. Raises :class:`InputError` where
    it is another.
    """
    if not path.exists():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            said = archive.comment.decode("utf-8", "replace")
    except zipfile.BadZipFile:
        said = "no zip archive"
    if said != about:
        raise InputError(
            f"is there, and is another file ({said or 'without a comment'})",
            where=path,
            remedy="give an empty folder, or the seed and share that its files were made with",
        )
    return True


def _write_one(state: State, path: Path, seed: int, share: float, about: str) -> None:
    of = totals(state, share)
    key = (seed, 2020, int(state.fips))
    rng = generator(*key)
    at = draw_state(rng, of)
    n = len(at)
    area = np.stack([5_000 + 400_000 * rng.random(n) ** 3, 100_000 * rng.random(n) ** 9]).astype(
        np.int64
    )
    area[:, at.water] = area[0, at.water] * np.array([[0], [1]])
    write_state(path, SimulatedState(state, at, draw_people(key, at, of), area), about)
