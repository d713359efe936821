"""What of a run is held against the truth: everything under ``confidential/evaluation/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from das.engine import Progress
from das.evaluate import Published, evaluate, evaluate_tables, impossible
from das.files import areas as areas_file
from das.files import errors_csv, nmf, rows_csv
from das.files.estimates import EstimateReader, folder_of
from das.files.run_directory import RunDirectory
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.result import ErrorRow, ImpossibleRow, TableRow
from das.model.spine import Spine
from das.spec import RunSpec, Universe

REASON = "impossible results are counted in the truth as well, for confidential/ only"


@dataclass(frozen=True)
class Assessed:
    """What a run is held against: ``truth`` and ``published`` by universe and level; areas off the spine."""

    spine: Spine
    truth: Mapping[str, Mapping[str, Confidential[Histogram]]]
    published: Mapping[str, Mapping[str, Histogram]]
    areas: Sequence[Areas] = ()


def assess(spec: RunSpec, directory: RunDirectory, run: Assessed, progress: Progress) -> dict[str, list[ErrorRow]]:
    """Write ``errors.csv`` (``errors-units.csv``), ``tables.csv``, ``impossible.csv`` and the areas; return the
    errors by universe."""
    rows: dict[str, list[ErrorRow]] = {}
    tables: list[TableRow] = []
    for u in spec.universes:
        progress.stage(f"evaluate {u.name}", None)
        source = nmf.NmfReader(directory.nmf(u.name), run.spine)
        held = Published(source, u.plan.mechanism, run.published[u.name], _estimates(directory, u, run.spine))
        rows[u.name] = evaluate(run.truth[u.name], held, run.spine, u.schema)
        tables += evaluate_tables(run.truth[u.name], run.published[u.name], run.spine, u.schema, u.name, run.areas)
        errors_csv.write(directory.errors if u.name == "persons" else directory.unit_errors, rows[u.name])
    folder, lowest = directory.errors.parent, run.spine.levels[-1]
    rows_csv.write_rows(folder / "tables.csv", TableRow, tables)
    odd = impossible(
        {name: levels[lowest].open(REASON) for name, levels in run.truth.items()},
        {name: levels[lowest] for name, levels in run.published.items()},
        {u.name: u.schema for u in spec.universes}, lowest,
    )  # fmt: skip
    rows_csv.write_rows(folder / "impossible.csv", ImpossibleRow, odd)
    areas_file.write(folder / "areas.parquet", run.areas)
    return rows


def _estimates(directory: RunDirectory, universe: Universe, spine: Spine) -> EstimateReader | None:
    folder = folder_of(directory.release, universe.name)
    return EstimateReader(folder, spine) if folder.is_dir() else None
