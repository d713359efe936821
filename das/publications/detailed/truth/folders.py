"""The input of a run of the Detailed DHC: folders of parameters and of data, and what tells them
from others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError, UserError
from das.files import atomic, csv_text
from das.files.parquet import DAMAGE
from das.files.readers.source import source_of
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.source import Source
from das.publications.detailed.files import geography, records
from das.publications.detailed.files import parameters as parameter_files
from das.publications.detailed.files import totals as totals_file
from das.publications.detailed.model.iterations import Regions
from das.publications.detailed.model.records import GroupRecords
from das.publications.detailed.model.tables import PRODUCTS, Parameters, Product
from das.publications.detailed.spec import DetailedSpec

_REMEDY = "resume with the inputs that the run began with, or start another run in a new folder"


@dataclass(frozen=True)
class GivenFolders:
    """The paths of the folders. ``totals`` is a file, or the folder of a table in parts. It has
    published totals of persons in each group, which decide the sizes of tables of households. By
    default it is in the ``data`` folder."""

    parameters: Path
    data: Path
    product: Product
    totals: Path | None = None

    @staticmethod
    def from_paths(
        parameters: Path, data: Path, product: str, totals: Path | None = None
    ) -> GivenFolders:
        """Raises :class:`UserError` if totals are given for a product that needs none."""
        of = PRODUCTS[product]
        if of.staged and totals is not None:
            raise UserError(
                f"totals are given, and tables of {product} need none",
                where=totals,
                remedy="leave them out, or name the product that they are for",
            )
        return GivenFolders(
            parameters, data, of, None if of.staged else totals or data / totals_file.FILE
        )

    def refuse(self, out: Path) -> None:
        """Raises :class:`UserError` if the run folder ``out`` would lie in one of them: published
        files do not belong with records."""
        within = {out.resolve(), *out.resolve().parents}
        if inside := [f for f in (self.data, self.parameters) if f.resolve() in within]:
            raise UserError(
                f"is in {inside[0]}, which is read", where=out, remedy="choose an --out next to it"
            )

    def sources(self) -> tuple[Source, ...]:
        """Every file that is read, with its digest."""
        totals = [] if self.totals is None else totals_file.files(self.totals)
        named = [
            *(self.parameters / name for name in parameter_files.FILES),
            geography.file_of(self.data),
        ]
        return tuple(
            source_of(path) for path in [*named, *records.files(self.data, self.product), *totals]
        )


@dataclass(frozen=True, eq=False)
class ReadFolders:
    """The content of the folders. ``records`` are read only as they are used, once."""

    given: GivenFolders
    parameters: Parameters
    regions: Regions
    records: Iterator[PeopleBatch]
    left_out: list[int]  #: number of records skipped so far, because the run has not their state
    unmeasured: list[str]  #: states without any group in the published totals

    def counted(self) -> int:
        """The number of records; only their curator may see it."""
        return sum(
            len(batch.open("to count the records for their curator")) for batch in self.records
        )


def read_folders(given: GivenFolders) -> ReadFolders:
    """Raises :class:`InputError` or :class:`SpecError` with all faults of a file at once. Records
    are checked later, as they are read."""
    parameters = parameter_files.read(given.parameters, given.product)
    regions = geography.regions(given.data, parameters)
    files = records.files(given.data, given.product)
    unmeasured: list[str] = []
    if given.totals is not None:
        totals = totals_file.totals(given.totals, parameters)
        totals.refuse_others(regions, given.totals)
        unmeasured = totals.states_without(regions)
    left_out = [0]
    people_read = records.every(files, parameters, regions, left_out)
    return ReadFolders(given, parameters, regions, people_read, left_out, unmeasured)


def check_same(spec: DetailedSpec, given: GivenFolders, directory: RunDirectory) -> None:
    """Raises :class:`UserError` if a resumed run began with other input."""
    if run_directory.read_text(directory.release / "spec.toml", "specification") != spec.dump():
        raise UserError(
            "the product, name, seed or delta is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )
    known = run_directory.read_json(directory.inputs)["inputs"]
    here = [asdict(s) for s in given.sources()]
    if odd := [s["name"] for s in [*here, *known] if (s in here) != (s in known)]:
        raise UserError(
            f"{odd[0]} is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )


# Records of one state, kept in ``confidential/`` for the tasks that count them: compactly, and in
# the order in which they came.

PeopleBatch = Confidential[GroupRecords]

#: What names of columns begin with: codes of race in their order, and cells by table. Records that
#: are read at a time.
RACE, CELL = "race", "cell "
TOGETHER = 1 << 20


def people_path(folder: Path, state: str) -> Path:
    return folder / f"part-{state}.parquet"


def write_people(folder: Path, batches: Iterable[PeopleBatch], regions: Regions) -> int:
    """A file for each state of the ``regions``, also where nobody lives. Returns how many records
    there are."""
    written, states = 0, [str(s, "ascii") for s in regions.states]
    state_of = np.searchsorted(regions.states, regions.state).astype(np.int8)
    with ExitStack() as drafts:
        writers: dict[str, pq.ParquetWriter] = {}
        for batch in batches:
            records = batch.open("to keep them in the confidential part of the run")
            of = state_of[records.block]
            for number in np.unique(of) if len(writers) else range(len(states)):
                table = _table(records, np.flatnonzero(of == number))
                state = states[number]
                if state not in writers:
                    draft = drafts.enter_context(atomic.file(people_path(folder, state), 0o600))
                    writers[state] = drafts.enter_context(
                        pq.ParquetWriter(draft, table.schema, compression="lz4")
                    )
                writers[state].write_table(table)
            written += len(records)
        for writer in writers.values():
            writer.close()
    return written


def read_people(file: Path) -> PeopleBatch:
    """Read a file of people. Raises :class:`ReleaseError` if it is missing or damaged."""
    try:
        with pq.ParquetFile(file) as source:
            names, rows, first = source.schema_arrow.names, source.metadata.num_rows, 0
            races, tables = (
                sorted(n for n in names if n.startswith(stem)) for stem in (RACE, CELL)
            )
            codes = np.empty((rows, len(races)), dtype=np.int16)
            ethnicity = np.empty(rows, dtype=np.int16)
            block = np.empty(rows, dtype=np.int32)
            cells = {n: np.empty(rows, dtype=np.int8) for n in tables}
            for batch in source.iter_batches(TOGETHER):
                here = slice(first, first := first + len(batch))
                block[here], ethnicity[here] = (
                    csv_text.array(batch["block"]),
                    csv_text.array(batch["ethnicity"]),
                )
                for place, name in enumerate(races):
                    codes[here, place] = csv_text.array(batch[name])
                for name, leaf in cells.items():
                    leaf[here] = csv_text.array(batch[name])
        return Confidential(
            GroupRecords(
                block, codes, ethnicity, {n.removeprefix(CELL): c for n, c in cells.items()}
            )
        )
    except (*DAMAGE, KeyError, ValueError) as error:
        raise ReleaseError(
            f"the records cannot be read ({error})",
            where=file,
            remedy="a run needs the confidential part of it, as it was written",
        ) from None


def _table(records: GroupRecords, some: NDArray[np.intp]) -> pa.Table:
    races = {
        f"{RACE}{i}": np.ascontiguousarray(records.codes[some, i])
        for i in range(records.codes.shape[1])
    }
    cells = {f"{CELL}{name}": leaf[some] for name, leaf in records.cells.items()}
    columns = {"block": records.block[some], **races, "ethnicity": records.ethnicity[some], **cells}
    return pa.table({name: csv_text.column(values) for name, values in columns.items()})
