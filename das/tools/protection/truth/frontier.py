"""A study of protection methods: the same records, the same tables and the same attack for every
setting, and one page of what each costs and protects."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress, Silent, refuse_within_import
from das.engine.local import LocalEngine
from das.engine.tasks import Answer, Task
from das.errors import UserError
from das.files import atomic, messages, rows_csv
from das.files.atomic import files_below
from das.files.run import tallies
from das.files.run.run_directory import (
    RunDirectory,
    create_private,
    read_json,
    read_text,
    refuse_full,
)
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.names import level_inside
from das.model.spine import Spine
from das.report.chart import Picture
from das.tools.protection.study.page import (
    UNIQUES,
    FrontierMean,
    FrontierRow,
    StudyFacts,
    frontier_page,
    inside,
)
from das.tools.protection.truth import study_input
from das.tools.protection.truth.method import StudyRecords
from das.tools.protection.truth.results import (
    GroupScores,
    SampledRatio,
    means,
    measured,
    part,
    part_of,
    ratios,
    rows,
)
from das.tools.protection.truth.study import FrontierPoint, ResolvedStudy, TopDown, resolved_study
from das.tools.protection.uses import UsesAtLevels

# The tasks of a study: protect the records by a setting, and attack what is published of a group of
# sampled places. Each goes from files to files of the study's folder, which is confidential, so that
# a study continues wherever it was interrupted.

Ints = NDArray[np.int64]
#: Stages.
PROTECT, ATTACK = "protect", "attack"
#: Groups of sampled places: at most this many, so that a task is not much shorter than its reading.
GROUPS = 64


@dataclass(frozen=True)
class StudyFolder:
    """The files of a study."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "study.toml"

    @property
    def state(self) -> Path:
        """What all tasks share: digest, key and sample."""
        return self.root / "study.json"

    @property
    def records(self) -> Path:
        return self.root / "records.npz"

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing but what a study writes before its state."""
        own = [self.records, self.spec, self.state] if self.records.exists() else [self.records]
        names = {p.name for p in (*own, *map(atomic.draft_of, own))}
        return names.issuperset(files_below(self.root))

    @property
    def results(self) -> Path:
        return self.root / "results.csv"

    @property
    def page(self) -> Path:
        return self.root / "frontier.html"

    def published(self, point: str, group: int) -> Path:
        """Protected tables of a group, until it is attacked."""
        return self.root / "work" / point / f"{group}.npz"

    def scores(self, point: str, group: int) -> Path:
        return self.root / "scores" / point / f"{group}.npz"


@dataclass(frozen=True, eq=False)
class OpenStudy:
    """A study with its records, in one process."""

    folder: StudyFolder
    study: ResolvedStudy
    key: bytes
    groups: tuple[Ints, ...]
    spine: Spine
    truth: Histogram

    @cached_property
    def points(self) -> dict[str, FrontierPoint]:
        return {p.name: p for p in self.study.points()}

    def key_of(self, point: FrontierPoint) -> bytes:
        """The same for all settings of one repeat: they differ by what they do, and not by
        chance."""
        return hashlib.sha256(self.key + f"repeat {point.repeat}".encode()).digest()


def opened(root: Path) -> OpenStudy:
    """The study in a folder; in each process it is opened once."""
    state = read_json(StudyFolder(root).state)
    return _opened(root, str(state["digest"]))


@lru_cache(maxsize=1)
def _opened(root: Path, digest: str) -> OpenStudy:
    folder = StudyFolder(root)
    state = read_json(folder.state)
    if state["digest"] != digest:  # another process has continued it with another study
        raise UserError("was changed while it was opened", where=root, remedy="start it again")
    study = resolved_study(read_text(folder.spec, "study"), str(folder.spec))
    known = study_input.load(folder.records, study.schema).open(
        "to score attacks on what is published about them; the scores stay in the study's folder"
    )
    groups = tuple(np.asarray(g, dtype=np.int64) for g in state["groups"])
    return OpenStudy(
        folder, study, bytes.fromhex(state["key"]), groups, known.spine, known.histogram()
    )


def grouped(sampled: Ints) -> list[list[int]]:
    """The groups of sampled places, in order."""
    return [g.tolist() for g in np.array_split(sampled, min(GROUPS, len(sampled)))]


# --- protect


def protect_tasks(opened: OpenStudy, points: Sequence[FrontierPoint]) -> list[Task]:
    """Those of points with groups that are neither protected nor scored."""
    due = [
        p
        for p in points
        if any(
            not opened.folder.scores(p.name, g).exists()
            and not opened.folder.published(p.name, g).exists()
            for g in range(len(opened.groups))
        )
    ]
    return [
        Task(opened.folder.root, PROTECT, p.name, (0, len(opened.groups) - 1), effort)
        for p in due
        for effort in [100.0 if isinstance(p.method, TopDown) else 1.0]  # the longest begins first
    ]


def protect_task(task: Task) -> Answer:
    """Protect all records, and keep what is published of each group."""
    of = opened(task.run)
    point = of.points[task.partition]
    records = study_input.load(of.folder.records, of.study.schema)
    tables = of.study.tables(point.also)
    level, sampled = of.study.spec.sample_level, np.concatenate(of.groups)
    on_sample = isinstance(point.method, TopDown)
    if on_sample:
        records = study_input.restricted(records, level, sampled)
    published = point.method.protect(records, tables, of.key_of(point))
    for g, units in enumerate(of.groups):
        if not of.folder.scores(point.name, g).exists():
            here = np.searchsorted(sampled, units) if on_sample else units
            arrays = part(published, level, here)
            arrays["others"] = np.array(published.tables is not tables)
            messages.write(of.folder.published(point.name, g), arrays, 0o600, small=True)
    return {"groups": len(of.groups)}


# --- attack


def attack_tasks(opened: OpenStudy, points: Sequence[FrontierPoint]) -> list[Task]:
    """Those of groups without scores."""
    return [
        Task(opened.folder.root, ATTACK, f"{p.name}.{g}", (g, g), float(len(units)))
        for p in points
        for g, units in enumerate(opened.groups)
        if not opened.folder.scores(p.name, g).exists()
    ]


def attack_task(task: Task) -> Answer:
    """Attack the tables of a group, and keep the scores instead of the tables."""
    of = opened(task.run)
    name, _, number = task.partition.rpartition(".")
    group = int(number)
    level, units = of.study.spec.sample_level, of.groups[group]
    path = of.folder.published(name, group)
    arrays = messages.read(path)
    uses = _uses(of, name, bool(arrays["others"]))
    published = part_of(arrays, of.spine, level, units, uses.tables)
    truth = of.truth.some(of.spine.kept(level, units)[-1])
    found = measured(published, truth, level, units, uses, of.study.intruder)
    tallies.write(of.folder.scores(name, group), found)
    atomic.remove_file(path)
    return {"group": group}


@lru_cache(maxsize=64)
def _uses(opened: OpenStudy, name: str, others: bool) -> UsesAtLevels:
    """The tables that a point publishes, and what they answer. Those of a method that publishes
    others than it is asked for do not depend on the records: they are what it makes of nobody's."""
    point = opened.points[name]
    if not others:
        return _uses_as_asked(opened, point.also)
    tables, nobody = opened.study.tables(point.also), np.zeros(0, dtype=np.int64)
    empty = StudyRecords(tables.schema, opened.spine, nobody, nobody)
    tables = point.method.published(empty, tables, opened.key_of(point)).tables
    return opened.study.uses_of(tables, point.also)


@lru_cache(maxsize=2)
def _uses_as_asked(opened: OpenStudy, also: str) -> UsesAtLevels:
    return opened.study.uses_of(opened.study.tables(also), also)


def scores_of(opened: OpenStudy, point: FrontierPoint) -> list[GroupScores]:
    """The scores of all groups of a point."""
    return [
        tallies.read(opened.folder.scores(point.name, g), GroupScores)
        for g in range(len(opened.groups))
    ]


#: What may differ when a study continues: methods and repeats are added, the map is drawn again.
_FREE = ("methods", "map", "study", "also")


@dataclass(frozen=True, repr=False)
class FrontierResult(NoRepr):
    """The files of a study, and the lines of its summary."""

    table: Path
    summary: Path
    page: Path
    means: Sequence[FrontierMean]
    picture: Picture


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
                due = tasks(of, points)
                progress.stage(name, len(due))
                for _ in engine.answers(work, due):
                    progress.advance()
        atomic.remove_folder(folder.root / "work")
        progress.stage("write the results", None)
        return _written(of, points)


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


def _written(opened: OpenStudy, points: Sequence[FrontierPoint]) -> FrontierResult:
    population = int(read_json(opened.folder.state)["population"])
    uses = opened.study.uses
    lines: list[FrontierRow] = []
    settings: dict[tuple[str, int, str], list[tuple[FrontierPoint, list[SampledRatio]]]] = {}
    for point in points:
        found = ratios(scores_of(opened, point), uses)
        lines += rows(point, found, population)
        settings.setdefault((point.curve, point.number, point.also), []).append((point, found))
    summary = [
        row
        for each in settings.values()
        for row in means([p for p, _ in each], [m for _, m in each], population)
    ]
    out = opened.folder.root / "summary.csv"
    rows_csv.write_rows(opened.folder.results, FrontierRow, lines)
    rows_csv.write_rows(out, FrontierMean, summary)
    exposed = next(r.of for r in lines if (r.measure, r.persons) == ("confirmed", UNIQUES))
    page, picture = frontier_page(summary, _facts(opened, points[0], population, int(exposed)))
    atomic.write_text(opened.folder.page, page, 0o600)
    return FrontierResult(opened.folder.results, out, opened.folder.page, summary, picture)


def _facts(opened: OpenStudy, point: FrontierPoint, population: int, exposed: int) -> StudyFacts:
    """What the page says about the study."""
    spec = opened.study.spec
    use, level = opened.study.map_use
    units = np.concatenate(opened.groups)
    lowest = opened.spine.levels[-1]
    persons = opened.truth.totals()
    measured = zip(*(g.uses for g in scores_of(opened, point)), strict=True)
    blocks = opened.spine.kept(spec.sample_level, units)[-1]
    titles = {u.name: u.title for u in opened.study.uses}
    return StudyFacts(
        name=spec.study.name,
        level=spec.sample_level,
        lowest=lowest,
        sampled=len(units),
        population=population,
        persons=int(persons[blocks].sum()),
        units=int((persons[blocks] > 0).sum()),
        everybody=int(persons.sum()),
        exposed=exposed,
        inhabited={of[0].level: sum(int(t.units.sum()) for t in of) for of in measured},
        households=spec.data.reader == "linked" or spec.data.household is not None,
        tables=opened.study.published.name,
        lines={lv: len(opened.study.published.lines(lv)) for lv in opened.study.published.tables},
        also=tuple(spec.also),
        known=_titles(opened, opened.study.intruder.known),
        sensitive=_titles(opened, opened.study.intruder.sensitive),
        uses=titles,
        use=use,
        use_level=level,
        seeded=spec.study.seed is not None,
        spelt=_spelt(opened),
    )


def _spelt(opened: OpenStudy) -> dict[str, str]:
    """Queries that methods name in their labels, and levels, in words."""
    schema = opened.study.schema
    each = (getattr(p.method, "categories", ()) for p in opened.points.values())
    queries = {q: inside(schema.query(q).title) for some in each for q in some}
    return queries | {lv: level_inside(lv) for lv in opened.spine.levels if "_" in lv}


def _titles(opened: OpenStudy, names: Sequence[str]) -> tuple[str, ...]:
    """Attributes in words."""
    return tuple(inside(opened.study.schema.attribute(n).title or n) for n in names)
