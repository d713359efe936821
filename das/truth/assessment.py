"""What of a run is held against the truth: everything under ``confidential/evaluation/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from das.engine import Progress, Silent
from das.errors import InputError
from das.evaluate import Published, evaluate, evaluate_tables, impossible
from das.files import rows_csv
from das.files.microdata import reading as microdata_reading
from das.files.readers import area_list
from das.files.release import areas as areas_file
from das.files.release.estimates import EstimateReader, folder_of
from das.files.run import errors_csv, truth
from das.files.run.run_directory import RunDirectory
from das.model.areas import Areas
from das.model.closed import Closed, ClosedRows
from das.model.confidential import Confidential
from das.model.error_rows import ErrorRow, ImpossibleRow, TableRow
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.post import Opened, open_release
from das.spec import RunSpec
from das.tables import of as tables_of
from das.truth.histogram import over, upward
from das.truth.prepared import TrueHistograms

REASON = "impossible results are counted in the truth as well, for confidential/ only"


@dataclass(frozen=True, repr=False)
class Assessed(Closed):
    """What a run is held against: ``truth`` and ``published`` by universe and level of the published spine; what it was
    measured over, by universe; areas off the spine."""

    spine: Spine
    trees: Mapping[str, MeasuredSpine]
    truth: Mapping[str, Mapping[str, Confidential[Histogram]]]
    published: Mapping[str, Mapping[str, Histogram]]
    areas: Sequence[Areas] = ()


def assess(spec: RunSpec, directory: RunDirectory, run: Assessed, progress: Progress) -> dict[str, list[ErrorRow]]:
    """Write ``errors.csv`` (of other universes ``errors-<name>.csv``), ``tables.csv``, ``impossible.csv``; return the
    errors by universe.

    Errors of queries, as measured and as published, are those of the units that were measured; those of tables are of
    the published spine and of areas.
    """
    rows: dict[str, list[ErrorRow]] = {}
    tables: list[TableRow] = []
    said = Opened(directory.release, spec, run.spine, run.trees)
    for u in spec.universes:
        progress.stage(f"evaluate {u.name}", None)
        tree = run.trees[u.name]
        known, counts = _over(tree, run.truth[u.name], run.published[u.name])
        held = Published(said.source(u), u.plan.mechanism, counts, _estimates(directory, u, tree.spine))
        rows[u.name] = ClosedRows(evaluate(known, held, tree.spine, u.schema))
        tabulated = tables_of(u, said.assigned(u.name))
        tables += evaluate_tables(run.truth[u.name], run.published[u.name], run.spine, tabulated, run.areas)
        errors_csv.write(directory.errors_of(u.name), rows[u.name], private=spec.run.private)
    folder, lowest, private = directory.errors.parent, run.spine.levels[-1], spec.run.private
    rows_csv.write_rows(folder / "tables.csv", TableRow, tables, private=private)
    odd = impossible(
        {name: levels[lowest].open(REASON) for name, levels in run.truth.items()},
        {name: levels[lowest] for name, levels in run.published.items()},
        spec.universes, lowest,
    )  # fmt: skip
    rows_csv.write_rows(folder / "impossible.csv", ImpossibleRow, odd, private=private)
    return rows


def _over(
    tree: MeasuredSpine, truth: Mapping[str, Confidential[Histogram]], published: Mapping[str, Histogram]
) -> tuple[Mapping[str, Confidential[Histogram]], Mapping[str, Histogram]]:
    """Both on the tree that was measured."""
    if tree.alike:
        return truth, published
    lowest = tree.spine.levels[-1]
    return over(tree, truth[lowest]), tree.of_published(published[lowest]).upward(tree.spine)


def _estimates(directory: RunDirectory, universe: Universe, spine: Spine) -> EstimateReader | None:
    folder = folder_of(directory.release, universe.name)
    return EstimateReader(folder, spine) if folder.is_dir() else None


def evaluate_run(
    run: Path, progress: Progress | None = None, *, areas: Path | None = None
) -> dict[str, list[ErrorRow]]:
    """The errors of a finished run, computed again from its release and its confidential part. ``areas``: a list of
    blocks with areas off the spine, which joins those that the run knows, and is kept in ``evaluation/``."""
    directory = RunDirectory(run)
    opened, known = truth_of(run)
    counts = published_of(opened, [u.name for u in opened.after.universes])
    kept = areas_file.read(directory.errors.parent / areas_file.NAME, opened.spine)
    kinds = [*(k for k in opened.areas() if k.kind not in {x.kind for x in kept}), *kept]
    if areas is not None:
        new = area_list.read(areas, opened.spine)
        if new.kind in opened.spine.levels:
            raise InputError(f"{new.kind!r} is a level of the spine already", where=areas,
                             remedy="give the file another name: it is that of the kind of area")  # fmt: skip
        kinds = [*(k for k in kinds if k.kind != new.kind), new]
        kept = (*(k for k in kept if k.kind != new.kind), new)
        areas_file.write(directory.errors.parent / areas_file.NAME, kept, opened.spine)
    held = Assessed(opened.spine, opened.trees, known, counts, kinds)
    return assess(opened.run, directory, held, progress or Silent())


def published_of(release: Opened, universes: Sequence[str]) -> dict[str, dict[str, Histogram]]:
    """The published counts of every level, by universe, from the microdata of a release."""
    out = {}
    for u in release.after.universes:
        if u.name in universes:
            h = microdata_reading.read(release.folder / "microdata" / u.kind.folder, u, release.spine.codes[-1])
            out[u.name] = h.upward(release.spine)
    return out


def truth_of(run: Path) -> tuple[Opened, dict[str, TrueHistograms]]:
    """The release of a finished run, and its true histograms by universe and level: for results that stay
    confidential."""
    directory = RunDirectory(run)
    directory.read_manifest()
    directory.require_truth()
    opened = open_release(directory.release)
    lowest = {u.name: truth.read(truth_path(directory, u.name)) for u in opened.after.universes}
    return opened, {name: upward(h, opened.spine) for name, h in lowest.items()}


def truth_path(directory: RunDirectory, universe: str) -> Path:
    return directory.confidential / "truth" / f"{universe}.parquet"
