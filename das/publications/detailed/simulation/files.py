"""Simulated folders for the Detailed DHC: parameters and records, in the formats of SafeTab-P and
SafeTab-H.

``parameters/`` has a configuration and code tables, of the size of 2020 or of another folder's.
``data/`` has ``GRF-C.txt`` and records; for several states ``person-records/`` has one file each. A
state is a function of seed, share and parameters, and is made by itself. So a nation needs memory
only for one state's blocks and a few hundred thousand people."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from das.engine.local import executor
from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files import atomic
from das.files.delimited import DELIMITER
from das.files.simulators.census_2010 import writing
from das.files.simulators.header import share_out
from das.files.simulators.people import generator
from das.model.names import State
from das.publications.detailed.files import geography, parameters
from das.publications.detailed.files.records import NULL, RACES
from das.publications.detailed.model.tables import PRODUCTS, Parameters, Product
from das.publications.detailed.simulation import codes as group_codes
from das.publications.detailed.simulation import people
from das.publications.detailed.simulation.codes import (
    GroupBlocks,
    chosen,
    draw_blocks,
    state_totals,
)
from das.publications.detailed.simulation.people import (
    Mixture,
    draw_codes,
    draw_homes,
    draw_persons,
)

PARAMETERS, DATA = "parameters", "data"
DEFAULT_STATES, DEFAULT_PERSONS = "AZ,RI,PR", 12_000
LEAST_PERSONS = 600  #: in a state
PERSONS_A_HOME = people.PERSONS_A_HOME
#: People that are drawn and written together.
TOGETHER = 1 << 18
GEOGRAPHY = {**geography.BLOCK, "PLACEFP": 5, "AIANNHCE": 4}
#: The columns of records and their widths; that of True and False has none.
_RACES = dict.fromkeys((*RACES, "QSPAN"), 4)
COLUMNS: Mapping[str, Mapping[str, int]] = {
    "person": {"QAGE": 3, "QSEX": 1, "HOUSEHOLDER": 0, **geography.BLOCK, "CENRACE": 2, **_RACES},
    "household": {**geography.BLOCK, "HHRACE": 2, **_RACES, "HOUSEHOLD_TYPE": 1, "TEN": 1},
}


@dataclass(frozen=True)
class _Job:
    """A state to make: its ``share`` of places, and how many persons. All of it travels to a
    process."""

    folder: Path
    product: str
    state: State
    seed: int
    share: float
    persons: int
    file: str


def write(
    directory: Path,
    *,
    seed: int,
    states: str = DEFAULT_STATES,
    persons: int | None = None,
    share: float | None = None,
    product: str = "persons",
    given: Path | None = None,
    codes: int = group_codes.CODES,
    workers: int = 1,
    progress: Progress = SILENT,
) -> list[Path]:
    """Write the folders ``parameters`` and ``data``, and return them.

    ``states`` are postal abbreviations, or ``all`` with Puerto Rico. The states get ``persons``
    people in all, or the ``share`` of their people of 2020. Code tables are those of the folder
    ``given``, or made up.

    For households, the number is smaller, by the persons in a household. ``pop-group-totals.txt``
    is added: totals of groups as they could have been published. Raises :class:`InputError` for
    arguments out of range, and for a folder that already has such files."""
    where, product_ = chosen(states), PRODUCTS[product]
    if seed < 0:
        raise InputError(f"seed {seed}", where="simulate", remedy="give a seed of 0 or more")
    part, each = _shares(where, persons, share)
    folder = directory / DATA
    with writing(directory):
        if folder.exists() or (directory / PARAMETERS).exists():
            raise InputError(
                "is there already",
                where=folder if folder.exists() else directory / PARAMETERS,
                remedy="give another folder to write to",
            )
        group_codes.write(directory / PARAMETERS, product_, where, codes, given)
        found = parameters.read(directory / PARAMETERS, product_)
        with atomic.folder(folder) as draft:
            jobs = [
                _Job(draft, product, s, seed, part, n, _name(product_, s, len(where)))
                for s, n in zip(where, each, strict=True)
            ]
            _all(jobs, found, Mixture.from_parameters(found, seed), workers, progress)
    return [directory / PARAMETERS, folder]


def _shares(
    states: Sequence[State], persons: int | None, share: float | None
) -> tuple[float, list[int]]:
    """The share of places that are kept, and the persons of each state."""
    whole = np.array([int(state_totals(s).persons.sum()) for s in states])
    if persons is not None and share is not None:
        raise InputError(
            "persons and a share of them are given", where="--share", remedy="give one of the two"
        )
    if share is not None and not 0 < share <= 1:
        raise InputError(
            f"a share of {share}", where="--share", remedy="give more than 0, and at most 1"
        )
    wanted = (
        persons
        if persons is not None
        else DEFAULT_PERSONS
        if share is None
        else round(share * int(whole.sum()))
    )
    least = LEAST_PERSONS * len(states)
    if not least <= wanted <= whole.sum():
        raise InputError(
            f"{wanted:,} persons in {len(states)} states",
            where="--persons",
            remedy=f"ask for {least:,} to {whole.sum():,}, or for other states",
        )
    return (
        min(1.0, wanted / int(whole.sum())),
        share_out(wanted, whole, least=LEAST_PERSONS).tolist(),
    )


def _name(product: Product, state: State, states: int) -> str:
    stem = f"{product.record}-records"
    return f"{stem}.txt" if states == 1 else f"{stem}/{state.fips}-{state.usps}.txt"


def _all(
    jobs: Sequence[_Job], parameters: Parameters, mixture: Mixture, workers: int, progress: Progress
) -> None:
    """Every state, the largest first; then what is of all of them."""
    data = jobs[0].folder
    for job in jobs:
        (data / job.file).parent.mkdir(exist_ok=True)
    progress.stage("simulate persons", sum(job.persons for job in jobs))
    with executor(min(workers, len(jobs))) as pool:
        running = {
            pool.submit(_state, job, mixture): job
            for job in sorted(jobs, key=lambda job: -job.persons)
        }
        for done in as_completed(running):
            done.result()
            progress.advance(running[done].persons)
    with (data / geography.FILE).open("wb") as out:
        out.write(_header(GEOGRAPHY))
        for job in jobs:
            _move(_blocks_file(job), out)
    if not parameters.product.staged:
        people.write(data, parameters)


def _blocks_file(job: _Job) -> Path:
    return job.folder / f".blocks-{job.state.fips}"


def _move(part: Path, out: BinaryIO) -> None:
    with part.open("rb") as rows:
        shutil.copyfileobj(rows, out)
    part.unlink()


# --- a state


def _state(job: _Job, mixture: Mixture) -> None:
    columns = COLUMNS[PRODUCTS[job.product].record]
    rng = generator(job.seed, 2020, int(job.state.fips))
    blocks = draw_blocks(rng, state_totals(job.state, job.share), job.persons)
    with _blocks_file(job).open("wb") as out:
        out.write(_lines(blocks.columns, GEOGRAPHY))
    with (job.folder / job.file).open("wb") as out:
        out.write(_header(columns))
        for values in _people(job, mixture, blocks):
            out.write(_lines(values, columns))


def _people(
    job: _Job, mixture: Mixture, blocks: GroupBlocks
) -> Iterator[dict[str, NDArray[np.integer]]]:
    """The records of a state, some runs of tracts after others."""
    persons = PRODUCTS[job.product].record == "person"
    number = blocks.persons if persons else _homes(blocks.persons)
    for piece, (first, last) in enumerate(_pieces(blocks.tract, number)):
        rng = generator(job.seed, 2020, int(job.state.fips), 1 + piece)
        block = np.repeat(np.arange(first, last), number[first:last])
        codes, ethnicity = draw_codes(rng, mixture, blocks.tract[block] - blocks.tract[first])
        said = (draw_persons if persons else draw_homes)(rng, codes)
        yield {
            **said,
            **{name: blocks.columns[name][block] for name in geography.BLOCK},
            **{name: codes[:, i] for i, name in enumerate(RACES)},
            "QSPAN": ethnicity,
        }


def _homes(persons: NDArray[np.int64]) -> NDArray[np.int64]:
    """Households of each block."""
    until: NDArray[np.int64] = np.ceil(np.cumsum(persons) / PERSONS_A_HOME).astype(np.int64)
    return until - np.append(0, until[:-1])


def _pieces(tract: NDArray[np.int64], persons: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of blocks that are whole tracts, each with about as many people as are drawn
    together."""
    first = np.flatnonzero(np.diff(tract, prepend=-1))
    before = (np.cumsum(persons) - persons)[first] // TOGETHER
    cut = first[np.flatnonzero(np.diff(before, prepend=-1))]
    yield from pairwise([*cut.tolist(), len(tract)])


# --- lines


def _header(columns: Mapping[str, int]) -> bytes:
    return (DELIMITER.join(columns) + "\n").encode()


def _lines(values: Mapping[str, NDArray[np.integer]], widths: Mapping[str, int]) -> bytes:
    """Lines of fields: digits, or True and False where there is no width. A code of 0 is
    ``Null``."""
    rows, last = len(next(iter(values.values()))), list(widths)[-1]
    ends = {name: "\n" if name == last else DELIMITER for name in widths}
    out = np.zeros(rows, dtype=[(name, f"S{(width or 5) + 1}") for name, width in widths.items()])
    for name, width in widths.items():
        known = _words(width, ends[name], name in _RACES)
        out[name] = known[values[name]] if len(known) else _digits(values[name], width, ends[name])
    raw = out.view(np.uint8)
    return (raw if all(widths.values()) else raw[raw > 0]).tobytes()


@cache
def _words(width: int, end: str, null: bool) -> NDArray[np.bytes_]:
    """How each number of a column is written; none where there are too many."""
    if not width:
        return np.array([f"{word}{end}" for word in ("False", "True")], dtype="S6")
    if width > 4:
        return np.zeros(0, dtype="S1")
    known = np.array([f"{i:0{width}}{end}" for i in range(10**width)], dtype=f"S{width + 1}")
    known[:1] = f"{NULL.decode()}{end}" if null else known[0]
    return known


def _digits(values: NDArray[np.integer], width: int, end: str) -> NDArray[np.bytes_]:
    """Numbers of any width, in their order mostly equal to the one before."""
    known, at = np.unique(values, return_inverse=True)
    return np.array([f"{i:0{width}}{end}" for i in known.tolist()], dtype=f"S{width + 1}")[at]
