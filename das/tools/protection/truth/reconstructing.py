"""Everybody's record from a folder of published tables, area by area, with a folder that an
interrupted attack goes on in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress, Silent
from das.engine.local import LocalEngine
from das.engine.tasks import Answer, Task
from das.errors import InputError, SpecError, UserError
from das.files import atomic, messages, rows_csv
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory, create_private, read_json, refuse_full
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.publications import source_of
from das.release.replicate_source import ReleaseSource
from das.tools.protection import census_tables
from das.tools.protection.attack import (
    AttackOptions,
    AttackStatus,
    Reconstruction,
    areas,
    published_tables,
    reconstruct,
)
from das.tools.protection.attack.reidentification import KNOWN, ReidentificationScores, reidentify
from das.tools.protection.census_tables import (
    PublishedColumns,
    field_of,
    published_columns,
    recoded,
)
from das.tools.protection.least.chain import Grain
from das.tools.protection.published import WITHHELD, LevelLines, ProtectedTables, withheld
from das.tools.protection.study import files
from das.tools.protection.truth.methods.rounding import Rounding
from das.tools.protection.truth.study_input import linked_people
from das.tools.protection.uses import narrowed
from das.truth.assessment import true_counts, truth_of

#: Places that a task attacks, at least.
_PLACES = 200
_STATE = "attack.json"
#: What is written of each rounded count that follows exactly.
EXACT = ("level", "geocode", "line", "printed", "true")


@dataclass(frozen=True)
class AttackSource:
    """A ``folder`` of published tables; ``only`` some of them; ``rounding`` such as ``random:3`` or
    ``nearest:5`` where they are rounded, empty where they are exact."""

    folder: Path
    only: tuple[str, ...] = ()
    rounding: str = ""

    def read(self) -> tuple[ProtectedTables, PublishedColumns]:
        """The tables as an attack sees them. Raises :class:`InputError` as the reader does, and
        where no column is known."""
        rule = rounding_of(self.rounding)
        price = (0.0,) if rule is None else rule.price
        if self.folder.is_dir() and (rows := files.read_protected(self.folder, price)):
            published, columns = _protected(rows, self.folder)
        else:
            published, columns = self._columns(rule)
        return (published if rule is None else _narrowed(published, self.folder)), columns

    def _columns(self, rule: Rounding | None) -> tuple[ProtectedTables, PublishedColumns]:
        places = published_tables.read(self.folder, lambda name: field_of(name) is not None)
        columns = published_columns({k: v.values for k, v in places.items()}, self.only)
        if columns is None:
            raise InputError(
                "no column is one of the tables that the attack knows",
                where=self.folder,
                remedy="it knows P1, P3 to P12, P12A to I, P14, PCT12 and A to O of the 2010 SF1",
            )
        lowest = [level for level in published_tables.LEVELS if level in columns.fields][-1]
        spine = _spine(places[lowest].codes, lowest)
        levels = {
            level: _lines(places[level], spine, level, names, rule, self.folder)
            for level, names in columns.fields.items()
        }
        return ProtectedTables(spine, columns.tables, levels), columns


def _narrowed(published: ProtectedTables, folder: Path) -> ProtectedTables:
    """Rounded tables with the bounds that follow from the sums of their lines."""
    levels = {}
    for level, lines in published.levels.items():
        lower, upper = narrowed(published.tables.lines(level), lines.lower, lines.upper)
        if (lower > upper).any():
            unit = int((lower > upper).any(axis=1).argmax())
            raise InputError(
                f"no counts of {published.spine.geocodes(level)[unit]} are rounded like this",
                where=f"{folder}, {level}",
                remedy="say with --rounding how the tables are rounded",
            )
        levels[level] = replace(lines, lower=lower, upper=upper)
    return replace(published, levels=levels)


def rounding_of(text: str) -> Rounding | None:
    """``random:3`` or ``nearest:5``. Raises :class:`UserError`."""
    if not text:
        return None
    how, _, base = text.partition(":")
    if how not in ("random", "nearest") or not base.isdigit():
        raise UserError(
            f"{text!r} is no rounding", where="--rounding", remedy="such as random:3 or nearest:5"
        )
    return Rounding(base=int(base), how=how)


def _spine(codes: Sequence[str], lowest: str) -> Spine:
    size = published_tables.LEVELS
    names = [level for level in size if size[level][0] <= size[lowest][0]]
    places = {level: [code[: size[level][0]] for code in codes] for level in names}
    return Spine.from_frame(places, ["US", *names])


def _lines(
    places: published_tables.PublishedFields,
    spine: Spine,
    level: str,
    names: Sequence[str],
    rule: Rounding | None,
    folder: Path,
) -> LevelLines:
    """The lines of a level; places of it that no file has withhold theirs."""
    unit = spine.find(level, np.array(places.codes))
    if (unit < 0).any():
        raise InputError(
            f"{places.codes[int((unit < 0).argmax())]} has none of the lowest places",
            where=f"{folder}, {level}",
        )
    value = np.full((spine.units(level), len(names)), WITHHELD, dtype=np.int64)
    value[unit] = np.stack([places.values[name] for name in names], axis=1)
    hidden, value = value == WITHHELD, np.maximum(value, 0)
    lines = LevelLines.exact(value)
    if rule is not None:
        known, exact = rule.known(value), (value % rule.base > 0).any(axis=0)  # columns not rounded
        lower, upper = np.where(exact, value, known.lower), np.where(exact, value, known.upper)
        lines = LevelLines(lower, upper, value, rule.price)
    return withheld(lines, hidden)


def _protected(
    rows: Mapping[str, files.ProtectedRows], folder: Path
) -> tuple[ProtectedTables, PublishedColumns]:
    """The tables that `das frontier protect` wrote, of a table set with a name."""
    by_width = sorted(rows, key=lambda level: len(rows[level].codes[0]))
    codes = rows[by_width[-1]].codes
    width = {level: len(rows[level].codes[0]) for level in by_width}
    known = {k: w for k, (w, _) in published_tables.LEVELS.items() if w < width[by_width[-1]]}
    sizes = sorted({**known, **width}.items(), key=lambda x: x[1])
    places = {level: [code[:w] for code in codes] for level, w in sizes}
    spine = Spine.from_frame(places, ["US", *(level for level, _ in sizes)])
    for name in (census_tables.SF1, census_tables.REDISTRICTING, census_tables.DHC):
        try:
            tables = census_tables.named_set(name, by_width)
        except SpecError:
            continue
        if all(tables.lines(level).names == rows[level].names for level in by_width):
            levels = {level: _in_order(rows[level], spine, level) for level in by_width}
            fields = {level: rows[level].names for level in by_width}
            every = tuple(range(tables.schema.cells))
            columns = PublishedColumns(tables, fields, tables.schema, every)
            return ProtectedTables(spine, tables, levels), columns
    raise InputError(
        "its lines are those of no table set with a name",
        where=folder,
        remedy="attack tables of your own in a study: `das frontier STUDY.toml`",
    )


def _in_order(rows: files.ProtectedRows, spine: Spine, level: str) -> LevelLines:
    unit = spine.find(level, np.array(rows.codes))
    if (np.sort(unit) != np.arange(spine.units(level))).any():
        raise InputError("its places are not those of the lowest level", where=level)
    return rows.lines.some(np.argsort(unit))


@lru_cache(maxsize=1)
def _read(source: AttackSource) -> ProtectedTables:
    """Once in each process."""
    return source.read()[0]


# --- the work


def _parts(published: ProtectedTables, options: AttackOptions) -> list[NDArray[np.int64]]:
    """Units of the lowest level, whole areas together, some hundred in each part."""
    out: list[list[NDArray[np.int64]]] = [[]]
    for units in areas(published, options):
        if sum(map(len, out[-1])) >= _PLACES:
            out.append([])
        out[-1].append(units)
    return [np.concatenate(part) for part in out]


def _part_file(root: Path, number: int) -> Path:
    return root / "parts" / f"{number:05d}.arrow"


def _attack(task: Task) -> Answer:
    """Attack one part and keep the guess."""
    state = read_json(task.run / _STATE)
    source = AttackSource(Path(state["folder"]), tuple(state["only"]), state["rounding"])
    options = AttackOptions(**state["options"])
    published = _read(source)
    found = reconstruct(published, options, units=_parts(published, options)[task.subtrees[0]])
    h = found.histogram
    arrays: dict[str, NDArray[Any]] = {
        "unit": h.unit,
        "cell": h.cell,
        "count": h.count,
        "status": found.status,
        "variability": found.variability,
        "seconds": found.seconds,
    }
    messages.write(_part_file(task.run, task.subtrees[0]), arrays, 0o600)
    return {}


def _kept(path: Path, units: int, cells: int) -> Reconstruction:
    a = messages.read(path)
    return Reconstruction(
        Histogram.from_triplets(units, cells, a["unit"], a["cell"], a["count"]),
        a["status"],
        a["variability"],
        a["seconds"],
    )


@dataclass(frozen=True, eq=False, repr=False)
class AttackResult(NoRepr):
    """The guess, the places, the scores where the truth was given, and of rounded tables the counts
    that follow exactly."""

    found: Reconstruction
    published: ProtectedTables
    scores: ReidentificationScores | None
    exact: Sequence[tuple[object, ...]] | None = None

    def summary(self) -> dict[str, Any]:
        """Numbers for a person: places and persons by status, certainty, time."""
        persons = self.found.histogram.totals()
        inhabited = (persons > 0) | (self.found.status != AttackStatus.UNIQUE)
        unique = self.found.unique & inhabited
        data: dict[str, Any] = {
            "places": int(inhabited.sum()),
            "persons": int(persons.sum()),
            "unique places": int(unique.sum()),
            "persons in unique places": int(persons[unique].sum()),
            "mean variability": self.found.mean_variability,
            "seconds a place": float(self.found.seconds[inhabited].mean()) if len(persons) else 0.0,
        } | {
            s.name.lower().replace("_", " "): int((self.found.status[inhabited] == s).sum())
            for s in AttackStatus
            if ((self.found.status == s) & inhabited).any() and s != AttackStatus.UNIQUE
        }
        if self.exact is not None:
            data["rounded counts that follow exactly"] = len(self.exact)
            data["of these above 0"] = sum(bool(row[-1]) for row in self.exact)
        return data


def _exact(
    published: ProtectedTables, columns: PublishedColumns, base: int
) -> Iterator[tuple[object, ...]]:
    """Of rounded counts of places with persons those that follow exactly, in the order of
    :data:`EXACT`."""
    for level, lines in published.levels.items():
        known = lines.shown & (lines.lower == lines.upper) & (lines.upper.max(axis=1) > 0)[:, None]
        known &= (~lines.shown | (lines.value % base == 0)).all(axis=0)
        codes, names = published.spine.geocodes(level), columns.fields[level]
        for u, i in zip(*np.nonzero(known), strict=True):
            yield level, codes[u], names[i], lines.value[u, i], lines.lower[u, i]


def attack_folder(
    source: AttackSource,
    out: Path,
    options: AttackOptions,
    *,
    truth: Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> AttackResult:
    """Attack a folder of tables. ``out`` gets ``units.csv``, ``records.csv`` and, with ``truth``, a
    folder of linked records, ``scores.csv``; an interrupted attack goes on where it stopped.

    Raises:
        UserError: ``out`` has the attack of something else."""
    progress = progress or Silent()
    progress.stage("read the tables", None)
    published, columns = source.read()
    _begin(source, out, options)
    number = len(_parts(published, options))
    due = [
        Task(out, "reconstruct", f"{i:05d}", (i, i))
        for i in range(number)
        if not _part_file(out, i).exists()
    ]
    progress.stage("attack the tables", len(due))
    with LocalEngine(workers) as engine:
        for _ in engine.answers(_attack, due):
            progress.advance()
    units, cells = published.spine.units(published.spine.levels[-1]), columns.tables.schema.cells
    found = Reconstruction.merged([_kept(_part_file(out, i), units, cells) for i in range(number)])
    scores = None if truth is None else _scored(found, published, columns, truth)
    rule = rounding_of(source.rounding)
    exact = None if rule is None else list(_exact(published, columns, rule.base))
    result = AttackResult(found, published, scores, exact)
    _write(out, result)
    return result


def _begin(source: AttackSource, out: Path, options: AttackOptions) -> None:
    state = {
        "folder": str(source.folder.absolute()),
        "only": list(source.only),
        "rounding": source.rounding,
        "options": asdict(options),
    }
    if (out / _STATE).exists():
        if read_json(out / _STATE) != json.loads(json.dumps(state)):
            raise UserError(
                "has the attack of other tables, or with other options",
                where=out,
                remedy="choose another --out",
            )
        return
    if out.exists():
        refuse_full(out)
    create_private(out / "parts")
    atomic.write_json(out / _STATE, state, 0o600)


def _scored(
    reconstruction: Reconstruction,
    published: ProtectedTables,
    columns: PublishedColumns,
    truth: Path,
) -> ReidentificationScores:
    spine, schema = published.spine, published.tables.schema
    people = linked_people(truth, spine, columns.schema).open(
        "to score an attack on published tables; the result stays confidential"
    )
    cell = np.array(columns.cell)[people.cell]
    h = Histogram.from_triplets(people.units, schema.cells, people.unit, cell, people.count)
    return reidentify(reconstruction.histogram, h, spine, schema, among=reconstruction.unique)


def _write(out: Path, result: AttackResult) -> None:
    found, spine = result.found, result.published.spine
    codes = spine.geocodes(spine.levels[-1])
    persons = found.histogram.totals()
    lines = (
        (codes[u], persons[u], AttackStatus(found.status[u]).name.lower().replace("_", " "),
         "" if np.isnan(found.variability[u]) else found.variability[u], found.seconds[u])
        for u in range(len(codes))
    )  # fmt: skip
    header = ("geocode", "persons", "status", "variability", "seconds")
    rows_csv.write(out / "units.csv", header, lines)
    schema = result.published.tables.schema
    named = ("geocode", *(a.name for a in schema.attributes), "count", "unique")
    rows_csv.write(out / "records.csv", named, _records(result, codes))
    if result.exact is not None:
        rows_csv.write(out / "exact.csv", EXACT, result.exact)
    if result.scores is not None:
        rows = list(score_rows(result.scores))
        rows_csv.write(out / "scores.csv", tuple(rows[0]), [tuple(r.values()) for r in rows])


def _records(result: AttackResult, codes: NDArray[np.str_]) -> Iterator[tuple[object, ...]]:
    h, schema = result.found.histogram, result.published.tables.schema
    levels = np.unravel_index(h.cell, schema.shape)
    names = [np.array(a.levels)[at] for a, at in zip(schema.attributes, levels, strict=True)]
    unique = result.found.unique
    for i, unit in enumerate(h.unit):
        yield codes[unit], *(n[i] for n in names), h.count[i], int(unique[unit])


def score_rows(scores: ReidentificationScores) -> Iterator[Mapping[str, object]]:
    """Scores as rows, in parts of one."""
    for s in scores.scores:
        yield {
            "group": s.group,
            "size": s.size,
            "places": "unique" if s.among else "all",
            "persons": s.persons,
            "agreement": s.agreement,
            "putative": s.putative_rate,
            "confirmed": s.confirmed_rate,
            "precision": s.precision,
            "modal": s.baseline("modal"),
            "proportional": s.baseline("proportional"),
            "leave_one_out": s.baseline("leave_one_out"),
        }


# The published records of a release taken at face value, and compared with the truth.
#
# A release by noise publishes records, or tables that are those of records. The attack of the
# Census Bureau on it takes them as everybody's record.

#: Attributes that an intruder wants to know, where a release has them.
_SENSITIVE = ("hispanic", "cenrace", "race")


def is_release(path: Path) -> bool:
    """Whether a folder is a run or a release, and not one of tables."""
    return any((p / "privacy.json").is_file() for p in (path, path / "release"))


def scored_release(path: Path, truth: Path | None) -> ReidentificationScores:
    """The scores of the published persons of a run or a release: against a folder of linked
    records, or against the truth that the run keeps.

    Raises:
        UserError: a release without records of persons, or without a truth to compare them with."""
    source = source_of(run_directory.release_of(path))
    people = _people(source, path)
    schema, spine = people.schema, source.spine
    known_by = set(KNOWN) <= {a.name for a in schema.attributes}
    wanted = census_tables.sf1_schema() if known_by else schema
    if truth is not None:
        known = linked_people(truth, spine, wanted)
    elif RunDirectory(path).has_truth():
        lowest = spine.levels[-1]
        known = true_counts(path, [people.name], spine)[people.name][lowest]
    else:
        raise UserError(
            "has no truth to compare its records with",
            where=path,
            remedy="give a run with its folder confidential/, or --truth with linked records",
        )
    opened = known.open("to score published records; the result stays confidential")
    guess, counted = (
        h if h.cells == wanted.cells else _in(wanted, schema, h)
        for h in (source.counts(people), opened)
    )
    names = [a.name for a in wanted.attributes]
    sensitive = tuple(n for n in _SENSITIVE if n in names)
    if not sensitive or len(sensitive) == len(names):
        raise UserError(
            "publishes no race or origin besides other attributes",
            where=path,
            remedy="the attack reads them for persons who are known by the others",
        )
    given = tuple(n for n in names if n not in sensitive)
    return reidentify(guess, counted, spine, wanted, known=given, sensitive=sensitive)


def _people(source: ReleaseSource, path: Path) -> Universe:
    for universe in source.universes:
        if any(a.name in _SENSITIVE for a in universe.schema.attributes):
            return universe
    raise UserError("publishes no race or origin", where=path, remedy="attack a release of persons")


def _in(wanted: Schema, schema: Schema, h: Histogram) -> Histogram:
    cell = recoded(h.cell, schema, wanted)
    return Histogram.from_triplets(h.units, wanted.cells, h.unit, cell, h.count)


def true_groups(run: Path, units: NDArray[np.int64], grain: Grain) -> NDArray[np.int64]:
    """True counts of some lowest units of a run in the groups of a grain, ``(units, groups)``."""
    opened, known = truth_of(run)
    mine = known[opened.after.universes[0].name][opened.spine.levels[-1]]
    counts = mine.open("to score two releases; the result stays confidential")
    return grain.counts(counts.some(units))
