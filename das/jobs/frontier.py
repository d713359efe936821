"""A study of protection methods: the same records, the same tables and the same attack for every
setting, and one page of what each costs and protects."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from das.engine import Progress, Silent, refuse_within_import
from das.engine.local import LocalEngine
from das.engine.tasks import Task, Work
from das.errors import UserError
from das.files import atomic, rows_csv
from das.files.run.run_directory import RunDirectory, create_private, read_json, refuse_full
from das.jobs.frontier_results import SampledRatio, means, ratios, rows
from das.jobs.frontier_study import FrontierPoint, ResolvedStudy
from das.jobs.frontier_tasks import (
    OpenStudy,
    StudyFolder,
    attack_task,
    attack_tasks,
    grouped,
    opened,
    protect_task,
    protect_tasks,
    scores_of,
)
from das.model.closed import Closed
from das.model.frontier_rows import FrontierMean, FrontierRow
from das.report.frontier import StudyFacts, frontier_page
from das.truth import study_input

#: What may differ when a study continues: methods and repeats are added, the map is drawn again.
_FREE = ("methods", "map", "study", "also")


@dataclass(frozen=True, repr=False)
class FrontierResult(Closed):
    """The files of a study, and the lines of its summary."""

    table: Path
    summary: Path
    page: Path
    means: Sequence[FrontierMean]


def run_study(
    study: ResolvedStudy, out: Path, *, workers: int = 1, progress: Progress | None = None
) -> FrontierResult:
    """Protect, attack and score every point in the folder ``out``, which is confidential as a
    whole, and write ``results.csv``, ``summary.csv`` and ``frontier.html``.

    An interrupted study continues in its folder: what is scored stays. Methods and repeats can be
    added to a finished one. Raises :class:`UserError` for a folder of another study."""
    refuse_within_import()
    progress, folder = progress or Silent(), StudyFolder(Path(out))
    _begin(study, folder, progress)
    with RunDirectory(folder.root).lock():
        of = opened(folder.root)
        points = list(study.points())
        with LocalEngine(workers) as engine:
            for name, work, tasks in (
                ("protect the records", protect_task, protect_tasks),
                ("attack what is published", attack_task, attack_tasks),
            ):
                _done(engine, work, tasks(of, points), name, progress)
        atomic.remove_folder(folder.root / "work")
        progress.stage("write the results", None)
        return _written(of, points)


def _done(
    engine: LocalEngine, work: Work, tasks: Iterable[Task], name: str, progress: Progress
) -> None:
    due = list(tasks)
    progress.stage(name, len(due))
    for _ in engine.answers(work, due):
        progress.advance()


def _begin(study: ResolvedStudy, folder: StudyFolder, progress: Progress) -> None:
    """The folder with the study, its records and its sample; or the same as before."""
    base = study.spec.digest(*_FREE)
    known: dict[str, Any] | None = None
    if folder.state.exists():
        known = read_json(folder.state)
        if known["base"] != base:
            raise UserError(
                "is the folder of a study with other records, tables, sample or attack",
                where=folder.root,
                remedy="choose another --out; methods and repeats alone can be added here",
            )
    else:
        if not folder.is_bare:
            refuse_full(folder.root)
        create_private(folder.root)
    if known is None:
        records = study_input.read(study.spec, study.schema, progress)
        sampled, population = study_input.sample(records, study.spec)
        study_input.write(folder.records, records)
        seed = study.spec.study.seed
        key = secrets.token_hex(32) if seed is None else f"{seed:064x}"
        known = {"base": base, "key": key, "groups": grouped(sampled), "population": population}
    text = study.spec.dump()
    atomic.write_text(folder.spec, text, 0o600)
    atomic.write_json(folder.state, {**known, "digest": study.spec.digest()}, 0o600)


def _written(of: OpenStudy, points: Sequence[FrontierPoint]) -> FrontierResult:
    population = int(read_json(of.folder.state)["population"])
    uses = of.study.uses
    lines: list[FrontierRow] = []
    settings: dict[tuple[str, int, str], list[tuple[FrontierPoint, list[SampledRatio]]]] = {}
    for point in points:
        found = ratios(scores_of(of, point), uses)
        lines += rows(point, found, population)
        settings.setdefault((point.curve, point.number, point.also), []).append((point, found))
    summary = [
        row
        for each in settings.values()
        for row in means([p for p, _ in each], [m for _, m in each], population)
    ]
    out = of.folder.root / "summary.csv"
    rows_csv.write_rows(of.folder.results, FrontierRow, lines)
    rows_csv.write_rows(out, FrontierMean, summary)
    atomic.write_text(of.folder.page, frontier_page(summary, _facts(of, population)), 0o600)
    return FrontierResult(of.folder.results, out, of.folder.page, summary)


def _facts(of: OpenStudy, population: int) -> StudyFacts:
    """What the page says about the study."""
    spec = of.study.spec
    use, level = of.study.map_use
    units = np.concatenate(of.groups)
    lowest = of.spine.levels[-1]
    inside = of.truth.totals()
    blocks = of.spine.kept(spec.sample_level, units)[-1]
    titles = {u.name: u.title for u in of.study.uses}
    return StudyFacts(
        name=spec.study.name,
        level=spec.sample_level,
        lowest=lowest,
        sampled=len(units),
        population=population,
        persons=int(inside[blocks].sum()),
        units=int((inside[blocks] > 0).sum()),
        everybody=int(inside.sum()),
        households=spec.data.reader == "linked" or spec.data.household is not None,
        tables=of.study.published.name,
        lines={lv: len(of.study.published.lines(lv)) for lv in of.study.published.tables},
        also=tuple(spec.also),
        known=_titles(of, of.study.intruder.known),
        sensitive=_titles(of, of.study.intruder.sensitive),
        uses=titles,
        use=use,
        use_level=level,
        seeded=spec.study.seed is not None,
    )


def _titles(of: OpenStudy, names: Sequence[str]) -> tuple[str, ...]:
    """Attributes in words."""
    return tuple((of.study.schema.attribute(n).title or n).lower() for n in names)
