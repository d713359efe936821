"""A release of population groups, from folders of parameters and records to tables: the stages, on
one screen.

parameters, regions, records -> measurements | -> tables
                        (truth ends here)    |
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from das.engine import Progress, Silent, refuse_within_import
from das.engine.choice import EngineChoice
from das.files.detailed import parameters as parameter_files
from das.files.run import run_directory
from das.files.run.board import Board
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, refuse_to_resume
from das.files.run.staged import opened as opened_engine
from das.model.not_private import marked
from das.release import group_page
from das.release.group_tables import publish
from das.release.groups import open_groups
from das.release.seal import seal
from das.spec.detailed import DELTA, DetailedSpec
from das.spec.parts import Run
from das.stages import Stages
from das.truth.group_folders import GivenFolders, check_same, read_folders
from das.truth.group_run import begin, measure_groups
from das.version import __version__


@dataclass(frozen=True)
class GroupsOutcome:
    """What a run has written: how many ``rows`` each table has. ``was_finished``: nothing was left
    to do; ``notes``: of a page that could not be made."""

    directory: RunDirectory
    spec: DetailedSpec
    rows: dict[str, int]
    seconds: float
    was_finished: bool = False
    notes: tuple[str, ...] = ()


def run_groups(
    parameters: Path,
    data: Path,
    product: str,
    out: Path,
    *,
    run: Run | None = None,
    delta: Fraction = DELTA,
    totals: Path | None = None,
    engine: EngineChoice | None = None,
    progress: Progress | None = None,
    resume: bool = False,
    accept_spent: bool = False,
) -> GroupsOutcome:
    """Everything, from folders of ``parameters`` and ``data`` to tables in ``out``. ``totals`` are
    those of persons, published before, which the sizes of tables of households follow from; they
    are in the folder of the data unless they are named.

    With ``resume`` a run in ``out`` that was interrupted goes on (:func:`das.pipeline.run`).
    """
    refuse_within_import()
    progress, stages, directory, engine = (
        progress or Silent(),
        Stages(),
        RunDirectory(out),
        engine or EngineChoice(),
    )
    given, run = GivenFolders.of(parameters, data, product, totals), run or Run(name=product)
    if resume:
        if not directory.inputs.exists():
            refuse_to_resume(directory.root)
        check_same(
            DetailedSpec(run, parameter_files.read(parameters, given.product), delta),
            given,
            directory,
        )
    else:
        directory.refuse_if_taken()
        given.refuse(out)
        with stages("read"):
            progress.stage("read", None)
            read = read_folders(given)
            begin(DetailedSpec(run, read.parameters, delta), read, directory)
    opened = open_groups(directory.release)
    if directory.manifest.exists():
        return GroupsOutcome(
            directory, opened.spec, directory.read_manifest()["rows"], 0.0, was_finished=True
        )
    with directory.held():
        with opened_engine(engine) as performing:
            record = measure_groups(directory, performing, stages, progress, accept_spent)
        with stages("tables"):
            progress.stage("tables", None)
            published = publish(opened)
        with stages.page("report", directory.page):
            group_page.write(opened, record.privacy, published)
        with stages("seal"):
            seal(
                directory.release,
                record.privacy,
                opened.spec.run.name,
                LedgerFile(directory.ledger).entries.files(),
            )
        directory.write_manifest(
            marked(
                {
                    "name": opened.spec.run.name,
                    "product": product,
                    "entropy": record.entropy,
                    "version": __version__,
                    "began": record.began.isoformat(timespec="seconds"),
                    "stages": stages.done,
                    "rows": published.rows,
                    "inputs": run_directory.read_json(directory.inputs)["inputs"],
                    "outputs": directory.digests(),
                },
                record.private,
            )
        )
        Board(directory.root).remove()
    return GroupsOutcome(
        directory, opened.spec, published.rows, stages.seconds, notes=tuple(stages.notes)
    )
