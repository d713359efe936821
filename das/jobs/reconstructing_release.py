"""The published records of a release taken at face value, and compared with the truth.

A release by noise publishes records, or tables that are those of records. The attack of the
Census Bureau on it takes them as everybody's record. An intruder who uses the noise knows more
(:mod:`das.risk.table_attack`)."""

from __future__ import annotations

from pathlib import Path

from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.universe import Universe
from das.protect import sf1
from das.protect.recoding import recoded
from das.release.replicate_source import ReleaseSource
from das.release.sources import source_of
from das.risk.reidentification import KNOWN, ReidentificationScores, reidentify
from das.truth.assessment import true_counts
from das.truth.linked_people import linked_people

#: Attributes that an intruder wants to know, where a release has them.
_SENSITIVE = ("hispanic", "cenrace", "race")


def is_release(path: Path) -> bool:
    """Whether a folder is a run or a release, and not one of tables."""
    return any((p / "privacy.json").is_file() for p in (path, path / "release"))


def scored_release(path: Path, truth: Path | None) -> ReidentificationScores:
    """The scores of the published persons of a run or a release: against a folder of linked
    records, or against the truth that the run keeps.

    Raises:
        UserError: a release without records of persons, or without a truth to compare them with.
    """
    source = source_of(run_directory.release_of(path))
    people = _people(source, path)
    schema, spine = people.schema, source.spine
    wanted = sf1.schema() if _has_ages(schema) else schema
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


def _has_ages(schema: Schema) -> bool:
    """Whether records have all that persons are known by."""
    return set(KNOWN) <= {a.name for a in schema.attributes}


def _in(wanted: Schema, schema: Schema, h: Histogram) -> Histogram:
    cell = recoded(h.cell, schema, wanted)
    return Histogram.of(h.units, wanted.cells, h.unit, cell, h.count)
